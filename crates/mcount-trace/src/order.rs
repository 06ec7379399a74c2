//! Calls of one thread in the order of their starts, a piece at a time.
//!
//! The file has them in the order of ends: callees before callers. Read backwards, a caller comes
//! before its callees, and the last callee before the others. So a stack is enough to turn a piece
//! around: a call that starts earlier than the top of the stack shows that everything in the top
//! has been seen.

use crate::file::File;
use crate::index::{Piece, ThreadIndex};
use crate::layout::{call, special};
use crate::record::{Raw, Record, record, unwrap_slot};
use std::cmp::Ordering;

/// The calls of a thread in the order of starts.
#[derive(Debug)]
pub(crate) struct Ordered<'a> {
    file: File<'a>,
    thread: &'a ThreadIndex,
    /// The extras of the thread, in order.
    extras: &'a [Raw],
    next_extra: usize,
    next_piece: usize,
    /// The rest of the piece, the next call last.
    window: Vec<Raw>,
    stack: Vec<Raw>,
}

impl<'a> Ordered<'a> {
    pub(crate) fn new(file: File<'a>, thread: &'a ThreadIndex, extras: &'a [Raw]) -> Self {
        Self {
            file,
            thread,
            extras,
            next_extra: 0,
            next_piece: 0,
            window: Vec::new(),
            stack: Vec::new(),
        }
    }

    /// Leaves out pieces that end before `ticks`. Calls that are open there are told to `enclose`. Returns when that
    /// is: what comes now starts later.
    pub(crate) fn seek(&mut self, ticks: u64, mut enclose: impl FnMut(&Raw)) -> Option<u64> {
        let pieces = &self.thread.pieces;
        let behind = pieces.partition_point(|piece| piece.floor.is_none_or(|floor| floor < ticks));
        let at = behind.checked_sub(1)?;
        let floor = pieces.get(at)?.floor?;
        self.next_piece = at;
        self.next_extra = self.extras.partition_point(|raw| raw.start <= floor);
        let before = self.extras.get(..self.next_extra).unwrap_or_default();
        before.iter().filter(|raw| raw.end > floor).for_each(&mut enclose);
        Some(floor)
    }

    /// The next call, and which of the extras it is, if it is one.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(Raw, Option<usize>)> {
        while self.window.is_empty() {
            let Some(piece) = self.thread.pieces.get(self.next_piece) else { break };
            self.next_piece += 1;
            self.load(piece);
        }
        let (in_piece, extra) = (self.window.last(), self.extras.get(self.next_extra));
        let is_extra = match (in_piece, extra) {
            (None, None) => return None,
            (Some(_), None) => false,
            (None, Some(_)) => true,
            (Some(in_piece), Some(extra)) => extra.order(in_piece) == Ordering::Less,
        };
        if is_extra {
            let at = self.next_extra;
            self.next_extra += 1;
            return extra.map(|raw| (*raw, Some(at)));
        }
        self.window.pop().map(|raw| (raw, None))
    }

    /// Fills the window with the calls of a piece.
    fn load(&mut self, piece: &Piece) {
        let big_endian = self.file.is_big_endian();
        let part = self.file.load(piece.offset, piece.size);
        let records = part.as_chunks().0;
        let mut at = records.len();
        let mut is_sorted = true;
        for bytes in records.iter().rev() {
            at -= 1;
            let Record::Call(w0, w1) = record(bytes, big_endian) else { continue };
            let ordinal = (piece.offset + at * call::SIZE) as u64;
            let mut raw = Raw::new(w0, w1, piece.base, ordinal);
            if raw.is_pending() || piece.floor.is_some_and(|floor| raw.start <= floor) {
                continue;
            }
            if piece.has_modifiers && is_modified(big_endian, piece, records, at) {
                continue;
            }
            raw.slot = unwrap_slot(raw.slot, self.thread.reference.unwrap_or(0));
            while let Some(top) = self.stack.last()
                && raw.order(top) == Ordering::Less
            {
                is_sorted &= push(&mut self.window, *top);
                self.stack.pop();
            }
            self.stack.push(raw);
        }
        while let Some(top) = self.stack.pop() {
            is_sorted &= push(&mut self.window, top);
        }
        if !is_sorted {
            self.window.sort_unstable_by(|a, b| b.order(a));
        }
    }
}

/// Whether the record before `at` says something of it.
pub(crate) fn is_modified(
    big_endian: bool,
    piece: &Piece,
    records: &[[u8; call::SIZE]],
    at: usize,
) -> bool {
    let before = records.get(..at).unwrap_or_default();
    for bytes in before.iter().rev() {
        match record(bytes, big_endian) {
            Record::Call(..) => return false,
            Record::Special(special::START | special::SLOT | special::OWNER, ..) => return true,
            Record::Special(..) | Record::Empty => {}
        }
    }
    piece.is_first_modified
}

/// Appends `raw`; whether that left `window` in order.
#[inline]
fn push(window: &mut Vec<Raw>, raw: Raw) -> bool {
    let is_in_order = window.last().is_none_or(|last| raw.order(last) == Ordering::Less);
    window.push(raw);
    is_in_order
}
