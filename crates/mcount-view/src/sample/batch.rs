//! Calls that are alike: of one function by one caller, in one window. A busy program has thousands of them in each, so they're added up first.

use super::durations::step_of;
use super::slots::Slots;
use super::{Cell, to_float};

/// Who called a function: its number, or another one for what isn't sampled.
pub type Caller = u32;

/// Which calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Alike {
    /// The place of the window.
    pub(super) window: usize,
    pub(super) caller: Option<Caller>,
    pub(super) function: u32,
}

/// Calls that have ended.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) calls: u64,
    /// Seconds.
    pub(super) time: f64,
    /// Seconds of recording within them.
    pub(super) recording: f64,
    /// How many have each duration. There are few, and neighbours are often alike.
    pub(super) durations: Vec<(u16, u32)>,
}

impl Batch {
    /// One more, which took so many seconds.
    #[inline]
    pub(super) fn add(&mut self, time: f64, recording: f64) {
        self.calls += 1;
        self.time += time;
        self.recording += recording;
        let step = step_of(nanoseconds(time));
        match self.durations.iter_mut().rev().find(|(known, _)| *known == step) {
            Some((_, calls)) => *calls = calls.saturating_add(1),
            None => self.durations.push((step, 1)),
        }
    }

    pub(super) fn cell(&self) -> Cell {
        Cell { calls: to_float(self.calls), time: self.time }
    }
}

/// What hasn't been taken in yet.
pub(super) type Batches = Slots<Alike, Batch>;

impl Alike {
    /// Hardly ever that of others.
    #[inline]
    pub(super) fn number(self) -> u64 {
        let caller = self.caller.map_or(u64::MAX, u64::from);
        u64::from(self.function) << 32 ^ caller << 8 ^ self.window as u64
    }
}

/// Of seconds, rounded.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9 + 0.5) as u64
}
