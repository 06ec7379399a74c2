//! When a sample began: by three clocks, and by how long threads had waited for a processor.

use crate::files;
use crate::trace::clock;
use mcount_ptrace::stop::threads;
use nix::libc;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// Of a process that has more threads, so many tell of it.
const THREADS: usize = 256;

/// The waiting of threads that were ready for less than this part of the time says nothing: a wake-up takes a moment on an idle machine, too.
const TELLS: f64 = 0.05;

/// When a sample began.
pub(super) struct Began {
    pub(super) time: SystemTime,
    pub(super) instant: Instant,
    pub(super) ticks: u64,
    scheduled: BTreeMap<i32, Scheduled>,
}

/// For how long a thread has run, and waited while it was ready to run: in nanoseconds (the kernel's `sched-stats.rst`).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Scheduled {
    ran: u64,
    waited: u64,
}

impl Began {
    /// It begins now. This process may have to wait for its processor at any time, so ticks and time are read together.
    pub(super) fn now(process: i32) -> Self {
        let scheduled = scheduled(process);
        let instant = Instant::now();
        let both = clock::both(libc::CLOCK_REALTIME);
        let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(both.nanoseconds);
        Self { time, instant, ticks: both.ticks, scheduled }
    }

    /// The part of the time since then in which threads of `process` waited for a processor that were ready to run.
    pub(super) fn waiting(&self, process: i32) -> f64 {
        part(&self.scheduled, &scheduled(process), self.instant.elapsed())
    }
}

fn part(
    before: &BTreeMap<i32, Scheduled>,
    now: &BTreeMap<i32, Scheduled>,
    elapsed: Duration,
) -> f64 {
    let (mut ran, mut waited) = (0, 0);
    // Where not all were looked at, one that wasn't there may be old.
    let is_whole = before.len() < THREADS;
    for (thread, now) in now.iter().filter(|(thread, _)| is_whole || before.contains_key(thread)) {
        // Another thread may have its number.
        let is_it = |one: &&Scheduled| one.ran <= now.ran && one.waited <= now.waited;
        let before = before.get(thread).filter(is_it).copied().unwrap_or_default();
        ran += now.ran - before.ran;
        waited += now.waited - before.waited;
    }
    #[expect(clippy::cast_precision_loss, reason = "a part of years of nanoseconds")]
    let [ready, waited] = [(ran + waited) as f64 * 1e-9, waited as f64 * 1e-9];
    if waited > 0.0 && ready >= elapsed.as_secs_f64() * TELLS { waited / ready } else { 0.0 }
}

/// Nothing of threads that end, and of kernels that don't tell.
fn scheduled(process: i32) -> BTreeMap<i32, Scheduled> {
    let all = threads(process).unwrap_or_default().into_iter().take(THREADS);
    let read = |thread| {
        let path = format!("/proc/{process}/task/{thread}/schedstat");
        let bytes = files::read_to_end(Path::new(&path)).ok()?;
        Some((thread, parse(&String::from_utf8(bytes).ok()?)?))
    };
    all.filter_map(read).collect()
}

/// `RAN WAITED SLICES`
fn parse(text: &str) -> Option<Scheduled> {
    let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
    Some(Scheduled { ran: numbers.next()??, waited: numbers.next()?? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_part_of_what_was_wanted() {
        let of = |rows: &[(i32, &str)]| {
            rows.iter().map(|(thread, text)| (*thread, parse(text).unwrap())).collect()
        };
        let before = of(&[(1, "1000 500 3\n"), (2, "70 10 1\n"), (9, "8000 9000 9\n")]);
        let is = |now: &BTreeMap<_, _>, expected: f64| {
            let found = part(&before, now, Duration::from_micros(20));
            assert!((found - expected).abs() < 1e-9, "{found}");
        };
        is(&before, 0.0);
        // The first one ran for 300 and waited for 100; the second is another one; the third is new.
        let now = of(&[(1, "1300 600 4\n"), (2, "50 150 1\n"), (3, "250 150 1\n")]);
        is(&now, 0.4);
        assert!(part(&before, &now, Duration::from_nanos(20_001)) == 0.0);
        is(&BTreeMap::new(), 0.0);
        for text in ["", "1", "1 x", "-1 2"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
