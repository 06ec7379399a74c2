//! One window: hooks are armed one after the other, then it begins; it ends before the first of them becomes idle.

use super::super::session::Session;
use super::super::sites::Switch;
use super::super::worker::Worker;
use super::{Lot, Opened};
use crate::trace::budget;
use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

/// A window that is open.
pub(super) struct Window {
    start: u64,
    used: Duration,
    began: Instant,
    left_out: BTreeSet<u32>,
}

impl Session {
    /// Where armed hooks are switched.
    pub(super) fn switches(&self) -> io::Result<Vec<Switch>> {
        let armed = self.changes.iter().filter(|change| change.function != 0);
        armed.filter_map(|change| Switch::of(&self.memory, change).transpose()).collect()
    }
}

impl Window {
    /// Arms all hooks but those that have drawn a blank.
    pub(super) fn open(worker: &Worker, switches: &[Switch], lots: &[Lot]) -> io::Result<Self> {
        let blanks = lots.iter().filter(|lot| !lot.is_armed);
        let left_out: BTreeSet<u32> = blanks.map(|lot| lot.function).collect();
        switch(worker, switches, &left_out, true)?;
        // From here on every call is recorded.
        let (began, start) = (Instant::now(), worker.trace.ticks());
        Ok(Self { start, used: budget::used(worker.request.process), began, left_out })
    }

    /// When it's long enough.
    pub(super) fn end(&self, length: Duration) -> Instant {
        self.began + length
    }

    /// Makes all hooks idle.
    pub(super) fn close(
        self,
        worker: &Worker,
        switches: &[Switch],
        (lots, length): (Vec<Lot>, u64),
    ) -> io::Result<Opened> {
        let used = budget::used(worker.request.process).saturating_sub(self.used);
        let (elapsed, end) = (self.began.elapsed(), worker.trace.ticks());
        switch(worker, switches, &self.left_out, false)?;
        Ok(Opened {
            start: self.start,
            length: length.min(end.saturating_sub(self.start)),
            rate: worker.trace.rate(),
            gap: 0.0,
            lots,
            used: used.as_secs_f64(),
            elapsed: elapsed.as_secs_f64(),
        })
    }
}

/// Switches hooks on or off. A process that has ended has none.
fn switch(
    worker: &Worker,
    switches: &[Switch],
    left_out: &BTreeSet<u32>,
    is_on: bool,
) -> io::Result<()> {
    let session = &worker.session;
    let is_one = |function: u32| !left_out.contains(&function);
    let chosen = switches.iter().filter(|switch| is_one(switch.function));
    let done = session.switch_instrumented(is_on, is_one).and_then(|()| {
        chosen.into_iter().try_for_each(|switch| switch.flip(&session.memory, is_on))
    });
    if session.is_there() { done } else { Ok(()) }
}
