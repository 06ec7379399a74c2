//! Until when a call can have been open: its thread ends, or its process, or another program is executed.

use crate::metadata::{Event, Process};
use crate::record::End;
use std::collections::HashMap;

/// Until when calls can have been open.
pub(crate) struct Limits<'m, 'a> {
    /// By process and thread ID.
    pub(crate) thread_ends: HashMap<(u32, u32), Vec<&'m Event<'a>>>,
    pub(crate) processes: &'m [Process<'a>],
    pub(crate) programs: &'m HashMap<u32, Vec<u32>>,
}

impl Limits<'_, '_> {
    /// Until when a call of this thread that started at `start` can have been open, and how it ended
    /// then.
    pub(crate) fn of(&self, pid: u32, tid: u32, start: u64) -> Option<(u64, End)> {
        let programs = self.programs.get(&pid).map_or(&[][..], Vec::as_slice);
        let process = |at: &u32| self.processes.get(*at as usize);
        let later =
            programs.partition_point(|at| process(at).is_some_and(|found| found.start <= start));
        // The recorder may have seen the first program a little later than it began.
        let program = programs.get(later.saturating_sub(1)).and_then(process);
        let exit = program.and_then(|program| program.end).filter(|end| *end >= start);
        let thread = first_since(self.thread_ends.get(&(pid, tid)), start).map(|end| end.ticks);
        match (exit, thread) {
            (Some(exit), Some(thread)) if thread < exit => Some((thread, End::Unwound)),
            (Some(exit), _) => Some((exit, End::Exit)),
            (None, thread) => thread.map(|thread| (thread, End::Unwound)),
        }
    }
}

/// The first of `events` at `start` or later.
pub(crate) fn first_since<'e, 'a>(
    events: Option<&Vec<&'e Event<'a>>>,
    start: u64,
) -> Option<&'e Event<'a>> {
    let events = events?;
    events.get(events.partition_point(|event| event.ticks < start)).copied()
}
