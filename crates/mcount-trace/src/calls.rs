//! Calls as they are handed out: of one thread, and of all threads in the order of time.

use crate::file::File;
use crate::index::ThreadIndex;
use crate::metadata::Process;
use crate::nest::Nest;
use crate::order::Ordered;
use crate::record::{End, Hidden, Raw};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Which of [`crate::Trace::threads`] made it.
    pub thread: usize,
    /// Which of [`crate::Trace::processes`] it was made in, if that is known.
    pub process: Option<usize>,
    /// The number of the function.
    pub function: u32,
    /// The number of the function whose call encloses it most closely.
    pub caller: Option<u32>,
    /// How many calls of its thread enclose it.
    pub depth: usize,
    /// Ticks when it began.
    pub start: u64,
    /// Ticks when it ended, if it did.
    pub end: Option<u64>,
    /// How it ended, if it did.
    pub how: Option<End>,
    /// Where in the file it was recorded.
    pub(crate) place: u64,
}

/// Records are at multiples of 16 bytes, and those of open calls, which are words, have the highest bit.
const OPEN: u64 = 1 << 63;

impl Call {
    /// A number that no other call of the trace has.
    #[must_use]
    pub fn number(&self) -> u64 {
        if self.place & OPEN == 0 { self.place / 16 } else { OPEN | ((self.place & !OPEN) / 8) }
    }

    /// Had it not ended when the trace did? When its thread or its process ended later, that isn't its record.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.place & OPEN != 0
    }
}

/// The calls of one thread in the order of starts, callers first.
#[derive(Debug)]
pub struct ThreadCalls<'t, 'a> {
    ordered: Ordered<'t>,
    nest: Nest,
    thread: usize,
    first: u64,
    processes: &'t [Process<'a>],
    /// Which of the processes the thread's process ran, by start.
    programs: &'t [u32],
    has_only_entries: bool,
    /// Functions whose calls are passed over.
    hidden: Option<&'t Hidden>,
}

impl<'t, 'a> ThreadCalls<'t, 'a> {
    pub(crate) fn new(
        file: File<'t>,
        index: &'t ThreadIndex,
        processes: &'t [Process<'a>],
        thread: usize,
        programs: &'t [u32],
    ) -> Self {
        let ordered = Ordered::new(file, index, &index.extras);
        let (nest, first, has_only_entries) = (Nest::new(), index.first, false);
        let hidden = None;
        Self { ordered, nest, thread, first, processes, programs, has_only_entries, hidden }
    }

    /// Calls of these functions aren't there: their callers made the calls that they made.
    pub(crate) fn without(self, hidden: Option<&'t Hidden>) -> Self {
        Self { hidden, ..self }
    }

    /// Only the entries of these calls are known.
    pub(crate) fn only_entries(self) -> Self {
        Self { has_only_entries: true, ..self }
    }

    /// Leaves out what started before the stretch that begins last of those that begin before `ticks`.
    pub(crate) fn starting_at(mut self, ticks: u64) -> Self {
        let Self { ordered, nest, has_only_entries, first, hidden, .. } = &mut self;
        if let Some(floor) = ordered.seek(ticks, |raw| {
            if !*has_only_entries && !raw.is_one_of(*hidden) {
                nest.enter(raw);
            }
        }) {
            *first = floor.max(*first);
        }
        self
    }

    /// The program that ran when a call started.
    #[inline]
    pub(crate) fn process(&self, start: u64) -> Option<usize> {
        let at = match self.programs {
            [] => return None,
            [only] => *only,
            [first, ..] => {
                let began = |at: &u32| {
                    self.processes.get(*at as usize).is_some_and(|process| process.start <= start)
                };
                let later = self.programs.partition_point(began);
                *self.programs.get(later.saturating_sub(1)).unwrap_or(first)
            }
        };
        usize::try_from(at).ok()
    }

    #[inline]
    fn place(&mut self, raw: &Raw) -> Call {
        let (depth, caller) = if self.has_only_entries { (0, None) } else { self.nest.enter(raw) };
        let how = raw.how_ended().filter(|_| !self.has_only_entries);
        Call {
            thread: self.thread,
            process: self.process(raw.start),
            function: raw.function(),
            caller,
            depth,
            start: raw.start,
            end: how.map(|_| raw.end),
            how,
            place: raw.ordinal,
        }
    }
}

impl Iterator for ThreadCalls<'_, '_> {
    type Item = Call;

    #[inline]
    fn next(&mut self) -> Option<Call> {
        loop {
            let (raw, _) = self.ordered.next()?;
            if !raw.is_one_of(self.hidden) {
                return Some(self.place(&raw));
            }
        }
    }
}

/// All calls in the order of starts; of equal starts, those of the thread with the lower number first,
/// and callers first.
#[derive(Debug)]
pub struct Calls<'t, 'a> {
    threads: Vec<(ThreadCalls<'t, 'a>, Option<Call>)>,
    /// When each thread has its next call. Of a thread that wasn't looked at yet, it may be later: there
    /// can be very many, and each takes memory once it is read.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    /// The thread whose calls come now, which isn't in `next`; and until when.
    current: Option<(usize, Option<(u64, usize)>)>,
}

impl<'t, 'a> Calls<'t, 'a> {
    pub(crate) fn new(threads: Vec<ThreadCalls<'t, 'a>>) -> Self {
        let starts = threads.iter().enumerate();
        let next = starts.map(|(at, thread)| Reverse((thread.first, at))).collect();
        let threads = threads.into_iter().map(|thread| (thread, None)).collect();
        Self { next, threads, current: None }
    }
}

impl Iterator for Calls<'_, '_> {
    type Item = Call;

    #[inline]
    fn next(&mut self) -> Option<Call> {
        loop {
            let (at, limit) = if let Some(current) = self.current {
                current
            } else {
                let Reverse((_, at)) = self.next.pop()?;
                let limit = self.next.peek().map(|Reverse(other)| *other);
                *self.current.insert((at, limit))
            };
            let (thread, held) = self.threads.get_mut(at)?;
            let call = held.take();
            *held = thread.next();
            match held {
                Some(next) if limit.is_none_or(|limit| (next.start, at) < limit) => {}
                Some(next) => {
                    self.next.push(Reverse((next.start, at)));
                    self.current = None;
                }
                None => self.current = None,
            }
            if call.is_some() {
                return call;
            }
        }
    }
}
