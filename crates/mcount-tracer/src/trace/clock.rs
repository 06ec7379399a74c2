//! Reading clocks.

pub(super) use super::processor::clock;
use mcount_trace::Moment;
use nix::libc;

/// The processor's clock, and another one at that time.
pub(super) fn both(other: libc::clockid_t) -> Moment {
    Moment::read(clock, || {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the time goes to a value of ours.
        unsafe { libc::clock_gettime(other, &raw mut now) };
        let part = |value: i64| u64::try_from(value).unwrap_or(0);
        part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec)
    })
}
