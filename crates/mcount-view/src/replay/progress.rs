//! What happens while a trace is read: a bar on standard error if it takes long, and memory is given back.

use crate::files::Input;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mcount_trace::{Call, Trace};
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Nothing is shown for so long.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many calls are read between two looks at the clock.
const STEP: u64 = 1 << 16;

/// After that many calls, what was read is given back: it would stay in memory, all of it in the end.
const KEPT: u64 = 1 << 20;

/// How far the work has come.
pub struct Progress<'i> {
    input: Option<&'i Input>,
    calls: AtomicU64,
    bar: ProgressBar,
    begin: Instant,
    is_shown: AtomicBool,
    is_stopped: AtomicBool,
}

impl<'i> Progress<'i> {
    /// With all calls of a trace, which `input` has. There's no bar where what is printed goes to the terminal, too.
    #[must_use]
    pub fn new(trace: &Trace<'_>, input: Option<&'i Input>) -> Self {
        let calls = (0..trace.threads.len()).map(|at| trace.count(at));
        let calls = calls.fold(0, u64::saturating_add);
        let bar = ProgressBar::with_draw_target(Some(calls), ProgressDrawTarget::hidden());
        let style =
            ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} calls, {eta} left");
        let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let is_hidden = !io::stderr().is_terminal() || io::stdout().is_terminal();
        let (begin, is_shown) = (Instant::now(), AtomicBool::new(is_hidden));
        let is_stopped = AtomicBool::new(false);
        Self { input, calls: AtomicU64::new(0), bar, begin, is_shown, is_stopped }
    }

    /// Nobody wants the result any more.
    #[cfg_attr(not(feature = "tui"), expect(dead_code, reason = "for `mcount tui`"))]
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Whether that's so. What adds up calls then skips those that are left.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// How many calls were read.
    #[cfg_attr(not(feature = "tui"), expect(dead_code, reason = "for `mcount tui`"))]
    pub(crate) fn done(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// So many more calls were read.
    pub(super) fn add(&self, calls: u64) {
        self.bar.inc(calls);
        let before = self.calls.fetch_add(calls, Ordering::Relaxed);
        if before / KEPT != (before + calls) / KEPT
            && let Some(input) = self.input
        {
            input.give_back();
        }
        if !self.is_shown.load(Ordering::Relaxed) && self.begin.elapsed() >= PATIENCE {
            self.is_shown.store(true, Ordering::Relaxed);
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// `calls`, counted as they are read.
    pub(super) fn over<'p>(
        &'p self,
        calls: impl Iterator<Item = Call> + 'p,
    ) -> impl Iterator<Item = Call> + 'p {
        let mut count = 0;
        calls.inspect(move |_| {
            count += 1;
            if count == STEP {
                self.add(count);
                count = 0;
            }
        })
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
