//! Calls from the last to the first, with what encloses them: for totals, which need no order of starts.
//!
//! The file has calls in the order of ends. Read backwards, callers come before what they call, so a stack is all
//! that's needed, and every record is decoded once. A stretch of a thread can be read without what lies behind
//! it: the calls that reach into it from there are known ([`crate::index`]: the extras).

use crate::calls::{Call, ThreadCalls};
use crate::file::File;
use crate::index::{Piece, ThreadIndex};
use crate::layout::call;
use crate::order::is_modified;
use crate::record::{Hidden, Raw, Record, record, unwrap_slot};
use std::cmp::Reverse;
use std::ops::Range;

/// How many enclosing calls are compared, in the long run, to find the nearest where calls overlap.
const COMPARED: usize = 64;

/// How many calls may overlap where a stretch ends, for each to be given the nearest of those that enclose it: only a
/// trace that lies has more, and has them at every stretch.
const OVERLAPPING: usize = 1 << 16;

/// Some calls of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    pub(crate) thread: usize,
    pieces: Range<usize>,
    /// How many calls it has, about.
    pub calls: u64,
    /// Visitors are told how long the thread was in each call itself ([`Visitor::spend`]), unless the thread's records aren't in
    /// the order of ends.
    pub tells_times: bool,
    /// The last moment of the trace.
    latest: u64,
}

/// What looks at calls.
pub trait Visitor {
    /// The data that it wants of a call when it sees those that it encloses.
    type Mark: Copy;

    /// A call, and the mark of the one that encloses it most closely. `call.process` isn't known here.
    fn enter(&mut self, call: &Call, caller: Option<Self::Mark>) -> Self::Mark;

    /// A call of another stretch that encloses calls of this one.
    fn enclose(&mut self, call: &Call, caller: Option<Self::Mark>) -> Self::Mark;

    /// No more calls are enclosed by this one, which was entered or encloses. It began at `start`, in ticks.
    fn leave(&mut self, mark: Self::Mark, start: u64);

    /// Another stretch begins. If [`Visitor::spend`] tells how long the thread was in each call itself, it's between these times, in ticks.
    fn begin(&mut self, told: Option<Range<u64>>) {
        let _ = told;
    }

    /// From one time to another, in ticks, the thread was in this call, and in nothing that it called.
    ///
    /// Where stacks take turns on a thread, as those of coroutines do, durations tell nothing of that: a call goes on while calls of other
    /// stacks do. Each moment counts for the call that was entered last, or that was returned to.
    fn spend(&mut self, mark: Self::Mark, from: u64, to: u64) {
        let _ = (mark, from, to);
    }
}

impl Stretch {
    /// Whose calls they are: a place in [`crate::Trace::threads`].
    #[must_use]
    pub fn thread(&self) -> usize {
        self.thread
    }

    /// All calls of a thread, in stretches of about `size`.
    pub(crate) fn all(at: usize, thread: &ThreadIndex, size: u64, latest: u64) -> Vec<Self> {
        let mut found = Vec::new();
        let (mut begin, mut calls) = (0, 0);
        for (end, piece) in (1..).zip(&thread.pieces) {
            calls += (piece.size / call::SIZE) as u64;
            // Without a floor, nothing says which of the extras end before it.
            let is_bound = thread.pieces.get(end).is_some_and(|next| next.floor.is_some());
            if calls >= size && is_bound {
                found.push(Self {
                    thread: at,
                    pieces: begin..end,
                    calls,
                    tells_times: false,
                    latest,
                });
                (begin, calls) = (end, 0);
            }
        }
        // Those without a piece of their own are in the last.
        let pieces = begin..thread.pieces.len();
        found.push(Self { thread: at, pieces, calls, tells_times: false, latest });
        found
    }
}

/// A call that encloses others.
struct Open<M> {
    start: u64,
    ordinal: u64,
    /// How many calls were seen before it: those with a greater number ended earlier.
    seen: u64,
    slot: u32,
    function: u32,
    mark: M,
}

impl<M> Open<M> {
    #[inline]
    fn new(raw: &Raw, seen: u64, mark: M) -> Self {
        let (start, ordinal, slot) = (raw.start, raw.ordinal, raw.slot);
        Self { start, ordinal, seen, slot, function: raw.function(), mark }
    }

    /// Whether it, which ended after `raw` did, began after that as well.
    #[inline]
    fn is_over(&self, raw: &Raw) -> bool {
        self.start > raw.end || self.start == raw.end && raw.start < self.start
    }

    /// Whether it comes after `raw` in the order of starts.
    #[inline]
    fn is_after(&self, raw: &Raw) -> bool {
        let key = |slot: u32, ordinal: u64| (Reverse(slot), ordinal);
        self.start > raw.start
            || self.start == raw.start && key(self.slot, self.ordinal) > key(raw.slot, raw.ordinal)
    }
}

struct Walk<'v, V: Visitor, const TELLS_TIMES: bool> {
    thread: usize,
    /// Functions whose calls are passed over.
    hidden: Option<&'v Hidden>,
    reference: u32,
    visitor: &'v mut V,
    /// The earliest start first.
    stack: Vec<Open<V::Mark>>,
    seen: u64,
    /// Calls that overlap were seen: those of fibres.
    is_tangled: bool,
    /// How many calls may still be compared, as of when that many were seen.
    budget: usize,
    budgeted: u64,
    /// What the visitor is told of times, if it's told.
    times: Times,
}

/// How far the visitor has been told what the thread was in.
struct Times {
    /// Before that is another stretch.
    after: u64,
    /// From then on it has been told.
    told: u64,
}

impl Times {
    /// The time from `at` on that hasn't been told.
    fn back_to(&mut self, at: u64) -> Option<(u64, u64)> {
        let (from, to) = (at.max(self.after), self.told);
        self.told = to.min(from);
        (from < to).then_some((from, to))
    }
}

/// Shows the calls of a stretch to `visitor`, the last one first, but for those of functions that are hidden. Whether some overlap.
pub(crate) fn backwards<V: Visitor>(
    file: File<'_>,
    index: (&ThreadIndex, Option<&Hidden>),
    stretch: &Stretch,
    visitor: &mut V,
) -> bool {
    // Few want times, and without them it's quicker.
    if stretch.tells_times {
        walk::<V, true>(file, index, stretch, visitor)
    } else {
        walk::<V, false>(file, index, stretch, visitor)
    }
}

fn walk<V: Visitor, const TELLS_TIMES: bool>(
    file: File<'_>,
    (index, hidden): (&ThreadIndex, Option<&Hidden>),
    stretch: &Stretch,
    visitor: &mut V,
) -> bool {
    let (thread, reference) = (stretch.thread, index.reference.unwrap_or(0));
    let floor = |at: usize| index.pieces.get(at).and_then(|piece| piece.floor);
    let lower = floor(stretch.pieces.start).filter(|_| stretch.pieces.start > 0);
    let behind = index.pieces.get(stretch.pieces.end);
    let upper = behind.and_then(|piece| piece.floor);
    let told = lower.unwrap_or(0)..upper.unwrap_or(stretch.latest);
    let mut walk = Walk::<V, TELLS_TIMES> {
        thread,
        hidden,
        reference,
        visitor,
        stack: Vec::new(),
        seen: 0,
        is_tangled: false,
        budget: 1 << 16,
        budgeted: 0,
        times: Times { after: told.start, told: told.end },
    };
    walk.visitor.begin(TELLS_TIMES.then_some(told));
    if let (Some(behind), Some(upper)) = (behind, upper) {
        walk.enclose(index, behind, upper);
    }
    let is_here = |raw: &&Raw| {
        raw.is_only_extra()
            && !raw.is_one_of(hidden)
            && lower.is_none_or(|lower| raw.end > lower)
            && upper.is_none_or(|upper| raw.end <= upper)
    };
    let mut extras: Vec<Raw> = index.extras.iter().filter(is_here).copied().collect();
    // Of equal ends, which are those of open calls, the caller's is the later one.
    extras.sort_unstable_by(|a, b| a.end_key().cmp(&b.end_key()).then(b.order(a)));
    for piece in index.pieces.get(stretch.pieces.clone()).unwrap_or_default().iter().rev() {
        walk.piece(file, piece, &mut extras);
    }
    while let Some(raw) = extras.pop() {
        walk.extra(raw);
    }
    walk.finish();
    walk.is_tangled
}

impl<V: Visitor, const TELLS_TIMES: bool> Walk<'_, V, TELLS_TIMES> {
    /// Begins with the calls that end after the stretch, and start in it or before.
    fn enclose(&mut self, index: &ThreadIndex, behind: &Piece, upper: u64) {
        let ordinal = behind.offset as u64;
        let early = index.extras.partition_point(|raw| raw.start <= upper);
        let is_behind = |raw: &&Raw| {
            raw.end > upper || raw.end == upper && !raw.is_only_extra() && raw.ordinal >= ordinal
        };
        let early = index.extras.get(..early).unwrap_or_default();
        let is_shown = |raw: &&Raw| !raw.is_one_of(self.hidden) && is_behind(raw);
        let open: Vec<&Raw> = early.iter().filter(is_shown).collect();
        self.is_tangled = !open.is_sorted_by_key(|raw| Reverse(raw.end_key()));
        let is_sorted_out = self.is_tangled && open.len() <= OVERLAPPING;
        let enclosing = if is_sorted_out { enclosing(&open) } else { Vec::new() };
        for (at, raw) in open.into_iter().enumerate() {
            // Where none overlap, each is in the one before.
            let by_start = Enclosing { ends_after: at, depth: at, nearest: at.checked_sub(1) };
            let found = enclosing.get(at).unwrap_or(&by_start);
            let nearest = found.nearest.and_then(|nearest| self.stack.get(nearest));
            let (call, caller) = self.within(raw, found.depth, nearest);
            let mark = self.visitor.enclose(&call, caller);
            self.stack.push(Open::new(raw, found.ends_after as u64, mark));
        }
        self.seen = self.stack.len() as u64;
        self.budgeted = self.seen;
    }

    /// Goes through a piece, and through those of `extras`, the last ones, that ended later than its calls.
    fn piece(&mut self, file: File<'_>, piece: &Piece, extras: &mut Vec<Raw>) {
        let big_endian = file.is_big_endian();
        let part = file.load(piece.offset, piece.size);
        let records = part.as_chunks::<{ call::SIZE }>().0;
        let mut at = records.len();
        for bytes in records.iter().rev() {
            at -= 1;
            let Record::Call(w0, w1) = record(bytes, big_endian) else { continue };
            let ordinal = (piece.offset + at * call::SIZE) as u64;
            let mut raw = Raw::new(w0, w1, piece.base, ordinal);
            if raw.is_pending()
                || raw.is_one_of(self.hidden)
                || piece.has_modifiers && is_modified(big_endian, piece, records, at)
            {
                continue;
            }
            raw.slot = unwrap_slot(raw.slot, self.reference);
            while let Some(extra) = extras.last()
                && extra.end_key() > raw.end_key()
            {
                let extra = *extra;
                extras.pop();
                self.extra(extra);
            }
            self.call(raw);
        }
    }

    /// A call that isn't found in its piece.
    #[inline(never)]
    fn extra(&mut self, raw: Raw) {
        self.call(raw);
    }

    #[expect(clippy::inline_always, reason = "a call of a piece then stays in registers")]
    #[inline(always)]
    fn call(&mut self, raw: Raw) {
        while let Some(top) = self.stack.last()
            && top.is_over(&raw)
        {
            let (start, mark) = (top.start, top.mark);
            self.spend(mark, start);
            self.visitor.leave(mark, start);
            self.stack.pop();
        }
        let is_nested = self.stack.last().is_none_or(|below| !below.is_after(&raw));
        if !is_nested || self.is_tangled {
            self.tangled_call(&raw);
            return;
        }
        let (call, caller) = self.nested(&raw, self.stack.len());
        self.returned(caller, raw.end);
        let mark = self.visitor.enter(&call, caller);
        self.stack.push(Open::new(&raw, self.seen, mark));
        self.seen += 1;
    }

    /// The same where calls overlap.
    #[cold]
    fn tangled_call(&mut self, raw: &Raw) {
        self.refill();
        let mut at = self.stack.len();
        while let Some(below) = at.checked_sub(1).and_then(|at| self.stack.get(at))
            && below.is_after(raw)
            && self.budget > 0
        {
            at -= 1;
            self.budget -= 1;
        }
        let (call, caller) = self.place(raw, at);
        self.returned(caller, raw.end);
        let mark = self.visitor.enter(&call, caller);
        self.is_tangled |= at < self.stack.len();
        self.stack.insert(at, Open::new(raw, self.seen, mark));
        self.seen += 1;
    }

    /// A call that the first `depth` ones of the stack enclose, and the mark of the nearest.
    fn place(&mut self, raw: &Raw, depth: usize) -> (Call, Option<V::Mark>) {
        if !self.is_tangled || self.budget <= depth {
            return self.nested(raw, depth);
        }
        self.budget -= depth;
        let enclosing = self.stack.get(..depth).unwrap_or_default();
        self.within(raw, depth, enclosing.iter().max_by_key(|open| open.seen))
    }

    /// The same where no calls overlap.
    #[inline]
    fn nested(&self, raw: &Raw, depth: usize) -> (Call, Option<V::Mark>) {
        self.within(raw, depth, depth.checked_sub(1).and_then(|at| self.stack.get(at)))
    }

    #[inline]
    fn within(
        &self,
        raw: &Raw,
        depth: usize,
        caller: Option<&Open<V::Mark>>,
    ) -> (Call, Option<V::Mark>) {
        let how = raw.how_ended();
        let call = Call {
            thread: self.thread,
            process: None,
            function: raw.function(),
            caller: caller.map(|caller| caller.function),
            depth,
            start: raw.start,
            end: how.map(|_| raw.end),
            how,
            place: raw.ordinal,
        };
        (call, caller.map(|caller| caller.mark))
    }

    /// More calls may be compared, for those seen since the last time.
    fn refill(&mut self) {
        let more = usize::try_from(self.seen - self.budgeted).unwrap_or(usize::MAX);
        self.budget = self.budget.saturating_add(more.saturating_mul(COMPARED)).min(1 << 24);
        self.budgeted = self.seen;
    }

    fn finish(&mut self) {
        while let Some(top) = self.stack.pop() {
            self.spend(top.mark, top.start);
            self.visitor.leave(top.mark, top.start);
        }
    }

    /// From `at` on, until what's told already, the thread was in the call `mark`.
    #[inline]
    fn spend(&mut self, mark: V::Mark, at: u64) {
        if TELLS_TIMES && let Some((from, to)) = self.times.back_to(at) {
            self.visitor.spend(mark, from, to);
        }
    }

    /// A call ended at that time: the thread went on in its caller, or in nothing that's known.
    #[inline]
    fn returned(&mut self, caller: Option<V::Mark>, at: u64) {
        match caller {
            Some(caller) => self.spend(caller, at),
            None if TELLS_TIMES => {
                self.times.back_to(at);
            }
            None => {}
        }
    }
}

/// What encloses one of some calls that are in the order of starts.
#[derive(Debug, Clone, Copy, Default)]
struct Enclosing {
    /// How many of them end later.
    ends_after: usize,
    /// How many of those also start before it.
    depth: usize,
    /// Which of these is the first to end.
    nearest: Option<usize>,
}

/// What encloses each of `calls`, which are in the order of starts and overlap.
fn enclosing(calls: &[&Raw]) -> Vec<Enclosing> {
    let mut by_end: Vec<(&Raw, usize)> = calls.iter().copied().zip(0..).collect();
    by_end.sort_by_key(|(raw, _)| Reverse(raw.end_key()));
    let mut found = vec![Enclosing::default(); calls.len()];
    for (ends_after, (_, at)) in by_end.iter().enumerate() {
        if let Some(of) = found.get_mut(*at) {
            of.ends_after = ends_after;
        }
    }
    // A Fenwick tree over the order of ends: node n is of the n & -n places before n, and has how many of those
    // are taken, and the last one that is.
    let mut tree = vec![(0_usize, 0_usize); calls.len() + 1];
    for of in &mut found {
        let (mut depth, mut last) = (0_usize, 0_usize);
        let mut node = of.ends_after;
        while let Some((taken, place)) = tree.get(node).filter(|_| node > 0) {
            (depth, last) = (depth + taken, last.max(*place));
            node &= node - 1;
        }
        of.depth = depth;
        let nearest = last.checked_sub(1).and_then(|place| by_end.get(place));
        of.nearest = nearest.map(|(_, at)| *at);
        let mut node = of.ends_after + 1;
        while let Some((taken, place)) = tree.get_mut(node) {
            *taken += 1;
            *place = (*place).max(of.ends_after + 1);
            node += node & node.wrapping_neg();
        }
    }
    found
}

/// Shows calls to `visitor` in the order of starts.
pub(crate) fn forwards<V: Visitor>(calls: ThreadCalls<'_, '_>, visitor: &mut V) {
    visitor.begin(None);
    let mut stack: Vec<(Call, V::Mark)> = Vec::new();
    for call in calls {
        while let Some((of, mark)) = stack.pop_if(|(of, _)| of.depth >= call.depth) {
            visitor.leave(mark, of.start);
        }
        let caller = stack.last().map(|(_, mark)| *mark);
        let mark = visitor.enter(&call, caller);
        stack.push((call, mark));
    }
    while let Some((of, mark)) = stack.pop() {
        visitor.leave(mark, of.start);
    }
}
