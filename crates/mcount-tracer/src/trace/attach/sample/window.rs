//! One window: hooks are armed one after the other, then it begins; it ends before the first of them becomes idle.

use super::super::session::Session;
use super::super::sites::Switch;
use super::super::worker::Worker;
use super::steer::Groups;
use super::watch::Watch;
use super::{Lot, Opened};
use crate::trace::budget;
use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

/// The functions that are armed in a window: those of a group but for some.
pub(super) struct Armed {
    groups: Groups,
    group: u32,
    left_out: BTreeSet<u32>,
    /// These stay armed.
    watched: BTreeSet<u32>,
}

impl Armed {
    /// Those of this group that haven't drawn a blank.
    pub(super) fn of(groups: &Groups, group: u32, lots: &[Lot], watch: &Watch) -> Self {
        let blanks = lots.iter().filter(|lot| !lot.is_armed);
        let left_out = blanks.map(|lot| lot.function).collect();
        Self { groups: *groups, group, left_out, watched: watch.all().clone() }
    }

    fn has(&self, function: u32) -> bool {
        self.groups.of(function) == self.group
            && !self.left_out.contains(&function)
            && !self.watched.contains(&function)
    }

    /// Switches the hooks on or off. A process that has ended has none.
    fn switch(&self, worker: &Worker, switches: &[Switch], is_on: bool) -> io::Result<()> {
        let session = &worker.session;
        let done = session.switch_instrumented(is_on, |function| self.has(function));
        let mut chosen = switches.iter().filter(|switch| self.has(switch.function));
        let done = done.and_then(|()| chosen.try_for_each(|one| one.flip(&session.memory, is_on)));
        if session.is_there() { done } else { Ok(()) }
    }
}

/// A window that is open.
pub(super) struct Window {
    start: u64,
    used: Duration,
    began: Instant,
    armed: Armed,
}

impl Session {
    /// Where armed hooks are switched.
    pub(super) fn switches(&self) -> io::Result<Vec<Switch>> {
        let armed = self.changes.iter().filter(|change| change.function != 0);
        armed.filter_map(|change| Switch::of(&self.memory, change).transpose()).collect()
    }
}

impl Window {
    /// Arms the hooks; `switches` are those of the group.
    pub(super) fn open(worker: &Worker, switches: &[Switch], armed: Armed) -> io::Result<Self> {
        armed.switch(worker, switches, true)?;
        // From here on every call is recorded.
        let (began, start) = (Instant::now(), worker.trace.ticks());
        Ok(Self { start, used: budget::used(worker.request.process), began, armed })
    }

    /// When it's long enough.
    pub(super) fn end(&self, length: Duration) -> Instant {
        self.began + length
    }

    /// Makes its hooks idle. It should have taken so many ticks.
    pub(super) fn close(
        self,
        worker: &Worker,
        switches: &[Switch],
        length: u64,
    ) -> io::Result<Opened> {
        let used = budget::used(worker.request.process).saturating_sub(self.used);
        let (elapsed, end) = (self.began.elapsed(), worker.trace.ticks());
        self.armed.switch(worker, switches, false)?;
        Ok(Opened {
            start: self.start,
            length: length.min(end.saturating_sub(self.start)),
            rate: worker.trace.rate(),
            gap: 0.0,
            group: self.armed.group,
            lots: Vec::new(),
            used: used.as_secs_f64(),
            elapsed: elapsed.as_secs_f64(),
        })
    }
}
