//! How long something may take on this host: tests state it for a processor, and an emulator is slower.

use rustix::time::{ClockId, clock_gettime};
use std::env;
use std::time::Duration;

/// `budget`, times the number that `MCOUNT_TIME_FACTOR` in the environment has, if it has one.
#[must_use]
pub fn on_this_host(budget: Duration) -> Duration {
    let factor = env::var("MCOUNT_TIME_FACTOR").ok().and_then(|factor| factor.parse().ok());
    budget * factor.unwrap_or(1)
}

/// How long this thread has been on a processor, which others that run don't change.
#[must_use]
pub fn thread_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}
