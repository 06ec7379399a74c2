//! Which calls enclose which: a walk over the calls of a thread in the order of starts.
//!
//! Calls that returned say when. Of those that were left by `longjmp`, or that were open when the
//! recording stopped, only an upper bound is known. A first walk, [`resolve`], finds what proves
//! that they were gone: a later call from the same place on the stack or above it, or the end of
//! their caller. After that, all calls have ends, and a second walk only compares those.

use crate::file::File;
use crate::index::ThreadIndex;
use crate::order::Ordered;
use crate::record::{End, Raw};

/// How far apart two slots may be and still be taken for slots of one stack: 1 MiB. Records hold too
/// few bits of a slot for more, and a caller is never that far from its callee.
const SAME_STACK: u32 = 1 << 17;

/// How many calls of another stack a search for calls that are gone passes over.
const STRANGERS: usize = 64;

/// How many entries a call may have to be put below, in the long run.
const MOVES: usize = 32;

/// A call that has started and not ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// What orders its end.
    end: (u64, u64),
    pub(crate) function: u32,
    slot: u32,
    /// Which of the extras it is, if its end is not certain.
    pending: Option<usize>,
}

/// The calls that have started and not ended, the latest end first.
#[derive(Debug)]
pub(crate) struct Nest {
    stack: Vec<Entry>,
    /// How many more entries may be moved. Calls of fibres can overlap, so that one ends later than
    /// others that started before it; damaged traces can be full of those.
    moves: usize,
}

impl Nest {
    pub(crate) fn new() -> Self {
        Self { stack: Vec::new(), moves: 1 << 16 }
    }

    /// Takes out what ended before `raw` started.
    #[inline]
    fn expire(&mut self, raw: &Raw) {
        while let Some(top) = self.stack.last() {
            // Of two ends at one time, the one that was recorded first came first. Nested in `top` is
            // only what ended before it did.
            let is_over =
                top.end.0 < raw.start || top.end.0 == raw.start && top.end.1 < raw.ordinal;
            if !is_over {
                return;
            }
            self.stack.pop();
        }
    }

    /// Puts `entry` in its place; how many calls enclose it.
    #[inline]
    fn insert(&mut self, entry: Entry) -> usize {
        let mut at = self.stack.len();
        self.moves = self.moves.saturating_add(MOVES).min(1 << 24);
        while at > 0
            && self.moves > 0
            && self.stack.get(at - 1).is_some_and(|below| below.end < entry.end)
        {
            at -= 1;
            self.moves -= 1;
        }
        if at == self.stack.len() {
            self.stack.push(entry);
        } else {
            self.stack.insert(at, entry);
        }
        at
    }

    /// The call starts: how many calls enclose it, and the function of the nearest.
    #[inline]
    pub(crate) fn enter(&mut self, raw: &Raw) -> (usize, Option<u32>) {
        self.expire(raw);
        let entry =
            Entry { end: raw.end_key(), function: raw.function(), slot: raw.slot, pending: None };
        let depth = self.insert(entry);
        let caller = depth.checked_sub(1).and_then(|below| self.stack.get(below));
        (depth, caller.map(|caller| caller.function))
    }

    /// Takes out the calls at the top that are gone because `raw` starts where they, or their callers,
    /// were; tells `gone` which those are.
    fn leave(&mut self, raw: &Raw, mut gone: impl FnMut(usize)) {
        let mut keep = self.stack.len();
        let mut strangers = 0;
        for (at, entry) in self.stack.iter().enumerate().rev() {
            if entry.pending.is_none() || strangers > STRANGERS || is_above(entry.slot, raw.slot) {
                break;
            }
            if entry.slot == raw.slot || is_above(raw.slot, entry.slot) {
                keep = at;
            } else {
                strangers += 1;
            }
        }
        for entry in self.stack.drain(keep..) {
            entry.pending.into_iter().for_each(&mut gone);
        }
    }

    /// The end of the call at the top, if that is a caller of `raw` by its slot.
    fn caller_end(&self, raw: &Raw) -> Option<u64> {
        self.stack.last().filter(|top| is_above(top.slot, raw.slot)).map(|top| top.end.0)
    }
}

/// Whether `slot` is a caller's of `other`, on one stack.
fn is_above(slot: u32, other: u32) -> bool {
    slot > other && slot - other < SAME_STACK
}

/// Finds out when the calls of a thread ended whose ends were not seen. `limit` says until when a
/// call with this start can have been open at most.
pub(crate) fn resolve(
    file: File<'_>,
    thread: &mut ThreadIndex,
    limit: impl Fn(u64) -> Option<(u64, End)>,
) {
    thread.extras.sort_unstable_by(Raw::order);
    if !thread.extras.iter().any(Raw::is_pending) {
        return;
    }
    for raw in thread.extras.iter_mut().filter(|raw| raw.is_pending()) {
        // Of one that was left, another thread may have told, much later.
        if let Some((end, how)) =
            limit(raw.start).filter(|(end, _)| raw.is_open() || *end < raw.end)
        {
            raw.end_by(end, how);
        }
    }
    let mut ends: Vec<u64> = thread.extras.iter().map(|raw| raw.end).collect();
    let mut is_double = vec![false; ends.len()];
    let mut completed: Vec<Raw> = Vec::new();
    let mut nest = Nest::new();
    let mut ordered = Ordered::new(file, thread, &thread.extras);
    while let Some((raw, extra)) = ordered.next() {
        nest.expire(&raw);
        nest.leave(&raw, |at| lower(&mut ends, at, raw.start));
        let pending = extra.filter(|_| raw.is_pending());
        let mut end = raw.end_key();
        if let Some(at) = pending {
            if raw.is_from_shadow() && completed.iter().any(|other| is_same(other, &raw)) {
                if let Some(double) = is_double.get_mut(at) {
                    *double = true;
                }
                continue;
            }
            if let Some(caller) = nest.caller_end(&raw) {
                lower(&mut ends, at, caller);
                end.0 = end.0.min(caller);
            }
        }
        if !raw.is_from_shadow() {
            if completed.first().is_some_and(|first| first.start != raw.start) {
                completed.clear();
            }
            if completed.len() < STRANGERS {
                completed.push(raw);
            }
        }
        nest.insert(Entry { end, function: raw.function(), slot: raw.slot, pending });
    }
    for (raw, end) in thread.extras.iter_mut().zip(ends) {
        if end < raw.end {
            raw.end_by(end, End::Unwound);
        }
    }
    let before = thread.extras.len();
    let mut doubles = is_double.into_iter();
    thread.extras.retain(|_| !doubles.next().unwrap_or(false));
    thread.calls -= (before - thread.extras.len()) as u64;
}

fn lower(ends: &mut [u64], at: usize, end: u64) {
    if let Some(known) = ends.get_mut(at) {
        *known = end.min(*known);
    }
}

/// Whether both are the same call.
fn is_same(raw: &Raw, other: &Raw) -> bool {
    raw.start == other.start && raw.slot == other.slot && raw.function() == other.function()
}
