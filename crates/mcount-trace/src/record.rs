//! Call records: the two words of each, and a call as it is before it has a place among others.

use crate::bytes::word;
use crate::layout::{call, end, special, told};
use std::cmp::Ordering;
use std::collections::HashSet;

/// Functions whose calls aren't shown, by number.
pub(crate) type Hidden = HashSet<u32>;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// It returned.
    Return,
    /// It jumped to another function, which returned in its place.
    TailCall,
    /// An exception or `longjmp` left it, or its thread ended.
    Unwound,
    /// Its process ended, or ran another program.
    Exit,
}

/// The contents of a record's two words.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Record {
    Empty,
    Call(u64, u64),
    /// Kind, value and second word.
    Special(u64, u32, u64),
}

/// One record.
#[inline]
pub(crate) fn record(bytes: &[u8; call::SIZE], big_endian: bool) -> Record {
    let ([first, second], _) = bytes.as_chunks() else { return Record::Empty };
    let (first, second) = (word(*first, big_endian), word(*second, big_endian));
    if first & call::FUNCTION_MASK != 0 {
        return Record::Call(first, second);
    }
    if first == 0 {
        return Record::Empty;
    }
    let value = u32::try_from(first >> special::VALUE_SHIFT).unwrap_or(u32::MAX);
    Record::Special((first >> special::KIND_SHIFT) & special::KIND_MASK, value, second)
}

/// A call, without its thread and its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Raw {
    pub(crate) start: u64,
    /// [`u64::MAX`] if it is open.
    pub(crate) end: u64,
    /// Where in the file it was recorded. Records of a thread are in the order of ends.
    pub(crate) ordinal: u64,
    /// The function's number, and above it how the call ended.
    function_and_end: u32,
    /// Greater in callers, as [`unwrap_slot`] makes it.
    pub(crate) slot: u32,
}

/// The call had not ended.
const OPEN: u8 = 4;
/// The call ended at `Raw::end` at the latest: the agent didn't see when.
const PENDING: u8 = 8;
/// The call is known from the shadow of the stack: it had not ended when the recording stopped.
const SHADOW: u8 = 16;
/// Special records say something of the call, or another thread recorded it: it can't be read from its record alone.
const APART: u8 = 32;

impl Raw {
    /// Is it a call of one of these functions?
    #[inline]
    pub(crate) fn is_one_of(&self, hidden: Option<&Hidden>) -> bool {
        hidden.is_some_and(|hidden| hidden.contains(&self.function()))
    }

    /// The call that a record's words say, the slot still as it is there.
    #[inline]
    pub(crate) fn new(first: u64, second: u64, base: u64, ordinal: u64) -> Self {
        let end = base.saturating_add(first >> call::TIME_SHIFT);
        let start = end.saturating_sub(second >> call::TIME_SHIFT);
        let how = second & call::END_MASK;
        let how = if how == end::UNWOUND { how | u64::from(PENDING) } else { how };
        Self {
            start,
            end,
            ordinal,
            function_and_end: low_half(first & call::FUNCTION_MASK | how << 24),
            slot: low_half((second >> call::SLOT_SHIFT) & SLOT_MASK),
        }
    }

    /// A call that had not ended, with the address of its slot.
    pub(crate) fn open(function: u64, start: u64, address: u64, ordinal: u64) -> Self {
        let how = u64::from(OPEN | PENDING | SHADOW);
        Self {
            start,
            end: u64::MAX,
            // It would have been recorded after all that was.
            ordinal: ordinal | 1 << 63,
            function_and_end: low_half(function & call::FUNCTION_MASK | how << 24),
            slot: address_slot(address),
        }
    }

    /// Something that the system has seen, and that is in no place on the stack: below every call.
    pub(crate) fn beneath(function: u32, start: u64, end: u64, ordinal: u64) -> Self {
        let function_and_end = low_half(u64::from(function) & call::FUNCTION_MASK);
        let mut raw = Self { start, end: end.max(start), ordinal, function_and_end, slot: 0 };
        raw.set_apart();
        raw
    }

    /// A call into the system: it encloses only what the system has seen. `word` is the function's number and how the call ended.
    pub(crate) fn told(word: u32, start: u64, end: u64, ordinal: u64) -> Self {
        let mut raw = Self::beneath(word, start, end, ordinal);
        raw.slot = 1;
        match word >> 24 {
            told::OPEN => {
                raw.end = u64::MAX;
                raw.function_and_end |= u32::from(OPEN | PENDING) << 24;
            }
            how if u64::from(how) == end::EXIT => raw.function_and_end |= how << 24,
            _ => {}
        }
        raw
    }

    #[inline]
    pub(crate) fn function(&self) -> u32 {
        self.function_and_end & 0xff_ffff
    }

    fn how(&self) -> u8 {
        self.function_and_end.to_le_bytes()[3]
    }

    pub(crate) fn is_open(&self) -> bool {
        self.how() & OPEN != 0
    }

    /// It ended at `end` at the latest.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.how() & PENDING != 0
    }

    /// It had not ended when the recording stopped.
    pub(crate) fn is_from_shadow(&self) -> bool {
        self.how() & SHADOW != 0
    }

    /// It can't be read from its record alone.
    pub(crate) fn set_apart(&mut self) {
        self.function_and_end |= u32::from(APART) << 24;
    }

    /// Whether it is only found among the extras: its end wasn't seen, or it was set apart.
    #[inline]
    pub(crate) fn is_only_extra(&self) -> bool {
        self.how() & (PENDING | APART) != 0
    }

    /// The words that an index has of it.
    pub(crate) fn words(&self) -> [u64; 4] {
        let last = u64::from(self.function_and_end) << 32 | u64::from(self.slot);
        [self.start, self.end, self.ordinal, last]
    }

    /// The call that these words are of.
    pub(crate) fn from_words([start, end, ordinal, last]: [u64; 4]) -> Self {
        let end = end.max(start);
        Self { start, end, ordinal, function_and_end: low_half(last >> 32), slot: low_half(last) }
    }

    /// How it ended, if it did.
    #[inline]
    pub(crate) fn how_ended(&self) -> Option<End> {
        match self.how() & !(PENDING | SHADOW | APART) {
            0 => Some(End::Return),
            1 => Some(End::TailCall),
            2 => Some(End::Unwound),
            3 => Some(End::Exit),
            _ => None,
        }
    }

    /// It ended at `end` at the latest, in this way.
    pub(crate) fn end_by(&mut self, end: u64, how: End) {
        let how = match how {
            End::Return => 0,
            End::TailCall => 1,
            End::Unwound => 2,
            End::Exit => 3,
        };
        self.end = end.max(self.start);
        let how = how | PENDING | self.how() & (SHADOW | APART);
        self.function_and_end = self.function() | u32::from(how) << 24;
    }

    /// What orders the ends of two calls. Of equal ticks, a call with an unseen end ended first.
    #[inline]
    pub(crate) fn end_key(&self) -> (u64, u64) {
        (self.end, if self.is_pending() { 0 } else { self.ordinal })
    }

    /// The order of starts: callers first, then what was recorded first.
    #[inline]
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let by_slot = other.slot.cmp(&self.slot);
        self.start.cmp(&other.start).then(by_slot).then(self.ordinal.cmp(&other.ordinal))
    }
}

pub(crate) fn low_half(value: u64) -> u32 {
    (value & 0xffff_ffff) as u32
}

const SLOT_MASK: u64 = (1 << call::SLOT_BITS) - 1;

/// The slot, as records have it, of an address.
pub(crate) fn address_slot(address: u64) -> u32 {
    low_half((address >> 3) & SLOT_MASK)
}

/// A number that is greater in callers, from a slot, which wraps around. `reference` is any slot of
/// the same thread: those within 16 MiB of it on either side compare right.
#[inline]
pub(crate) fn unwrap_slot(slot: u32, reference: u32) -> u32 {
    slot.wrapping_sub(reference).wrapping_add(1 << (call::SLOT_BITS - 1)) & low_half(SLOT_MASK)
}
