//! Call records as columns: what a compressor makes little of.
//!
//! A record says when its call ended, how long it took, which function it was of and where on the stack. Nearly all of
//! that follows from the records before. Functions follow each other as they did last time, slots as well. A
//! call began just before the first one that it made, or just after the last event if it made none. What's left is
//! noise of a few bits. [`split`] leaves just that, a column for each kind of number, and [`join`] undoes it. Both walk
//! over the records with the same [`Model`]; times and slots wrap around, so any record survives.
//! `docs/trace-format.md` describes the columns.

use crate::bytes::{Bytes, word};
use crate::layout::call;
use crate::layout::packed::{ESCAPE, FIRST_RANK, FOLLOWS, LAST_RANK};

/// Records in a block of the file.
const MOST: usize = 65_536 / call::SIZE;

/// The columns of a block, in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    /// Of each record: which function, or that it is no call.
    pub(crate) functions: Vec<u8>,
    /// Of each call: where on the stack, and how it ended.
    pub(crate) slots: Vec<u8>,
    /// Of each call: how long after the last event.
    pub(crate) gaps: Vec<u8>,
    /// Of each call: how long before the first call that it made; its duration if it made none.
    pub(crate) leads: Vec<u8>,
    /// The numbers of functions, in the order in which they are first called.
    pub(crate) numbers: Vec<u8>,
    /// Records that aren't calls.
    pub(crate) others: Vec<u8>,
    /// The low bits of large numbers.
    pub(crate) bits: Vec<u8>,
}

/// How many there are.
pub(crate) const COLUMNS: usize = 7;

impl Columns {
    /// They all.
    pub(crate) fn all(&self) -> [&Vec<u8>; COLUMNS] {
        let Self { functions, slots, gaps, leads, numbers, others, bits } = self;
        [functions, slots, gaps, leads, numbers, others, bits]
    }
}

/// Bits of times and of slots.
const TIME_MASK: u64 = (1 << call::TIME_BITS) - 1;
const SLOT_MASK: u32 = (1 << call::SLOT_BITS) - 1;

/// What two functions in a row are remembered by.
const PAIRS: usize = 4096;

/// Facts about a call that followed another one.
#[derive(Clone, Copy, Default)]
struct Pair {
    /// The function that came next.
    next: u32,
    /// How far apart the slots were.
    step: u32,
}

/// The calls of a block so far.
struct Model {
    /// By the last two functions.
    pairs: Vec<Pair>,
    /// The functions of the last calls.
    last: [u32; 2],
    slot: u32,
    end: u64,
    /// Slot and start of the calls whose caller hasn't come yet.
    stack: Vec<(u32, u64)>,
}

impl Model {
    fn new() -> Self {
        let (pairs, stack) = (vec![Pair::default(); PAIRS], Vec::with_capacity(64));
        Self { pairs, last: [0; 2], slot: 0, end: 0, stack }
    }

    fn pair(&mut self, [one, two]: [u32; 2]) -> Option<&mut Pair> {
        let mixed = one.wrapping_mul(0x9e37_79b1) ^ two.wrapping_mul(0x85eb_ca6b);
        self.pairs.get_mut((mixed >> 20) as usize)
    }

    /// The function that is expected next.
    fn expected(&mut self) -> u32 {
        let last = self.last;
        self.pair(last).map_or(0, |pair| pair.next)
    }

    /// A call of `function` comes next: the slot that is expected.
    fn enter(&mut self, function: u32) -> u32 {
        let [before, last] = self.last;
        if let Some(pair) = self.pair([before, last]) {
            pair.next = function;
        }
        self.last = [last, function];
        let step = self.pair([last, function]).map_or(0, |pair| pair.step);
        self.slot.wrapping_add(step) & SLOT_MASK
    }

    /// The call has this slot: the start of the first call that it made, if it made any.
    fn place(&mut self, slot: u32) -> Option<u64> {
        let step = slot.wrapping_sub(self.slot) & SLOT_MASK;
        let last = self.last;
        if let Some(pair) = self.pair(last) {
            pair.step = step;
        }
        self.slot = slot;
        let mut first = None;
        while let Some((_, start)) = self.stack.pop_if(|(other, _)| is_above(slot, *other)) {
            first = Some(start);
        }
        first
    }

    /// Slot and times of the call are known.
    fn leave(&mut self, start: u64, end: u64) {
        self.stack.push((self.slot, start));
        self.end = end;
    }
}

/// Whether a call at `slot` is a caller of one at `other`, on one stack.
fn is_above(slot: u32, other: u32) -> bool {
    let distance = slot.wrapping_sub(other) & SLOT_MASK;
    distance != 0 && distance < 1 << (call::SLOT_BITS - 1)
}

/// A number that is small where `value` is near 0, on either side. `value` has `bits` bits.
fn folded(value: u64, bits: u32) -> u64 {
    let shift = 64 - bits;
    let signed = (value << shift).cast_signed() >> shift;
    ((signed << 1) ^ (signed >> 63)).cast_unsigned()
}

fn unfolded(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

/// Writes numbers: one byte for each, and what that doesn't hold into a row of bits.
#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    held: u64,
    count: u32,
}

impl BitWriter {
    /// Codes `value`: below 128 as it is; above, its length, the bit after the highest, and then the others, apart.
    fn code(&mut self, value: u64, column: &mut Vec<u8>) {
        if value < 128 {
            column.push((value & 0x7f) as u8);
            return;
        }
        let length = value.ilog2();
        let second = (value >> (length - 1)) & 1;
        column.push(((128 + 2 * (u64::from(length) - 7) + second) & 0xff) as u8);
        self.bits(value, length - 1);
    }

    /// The lowest `count` bits of a number.
    fn bits(&mut self, value: u64, count: u32) {
        let (mut rest, mut left) = (value, count);
        while left > 0 {
            let part = left.min(32);
            self.held |= (rest & ((1 << part) - 1)) << self.count;
            self.count += part;
            rest >>= part;
            left -= part;
            while self.count >= 8 {
                self.bytes.push((self.held & 0xff) as u8);
                self.held >>= 8;
                self.count -= 8;
            }
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.bytes.push((self.held & 0xff) as u8);
        }
        self.bytes
    }
}

/// Reads what [`BitWriter`] wrote.
struct BitReader<'c> {
    bytes: &'c [u8],
    held: u64,
    count: u32,
}

impl BitReader<'_> {
    fn number(&mut self, code: u8) -> Option<u64> {
        if code < 128 {
            return Some(u64::from(code));
        }
        let above = u32::from(code - 128);
        let length = 7 + above / 2;
        if length > 43 {
            return None;
        }
        let high = 1 << length | u64::from(above & 1) << (length - 1);
        Some(high | self.bits(length - 1)?)
    }

    fn bits(&mut self, count: u32) -> Option<u64> {
        while self.count < count {
            let (next, rest) = self.bytes.split_first()?;
            self.held |= u64::from(*next) << self.count;
            self.count += 8;
            self.bytes = rest;
        }
        let value = self.held & ((1 << count) - 1);
        self.held >>= count;
        self.count -= count;
        Some(value)
    }
}

/// The columns of `records`, of which there are as many as a block has at most.
pub(crate) fn split(records: &[[u8; call::SIZE]], big_endian: bool) -> Columns {
    let mut columns = Columns::default();
    let mut ranks: Vec<u32> = Vec::new();
    let mut places = std::collections::HashMap::new();
    let (mut model, mut bits) = (Model::new(), BitWriter::default());
    for bytes in records.iter().take(MOST) {
        let ([first, second], _) = bytes.as_chunks() else { continue };
        let (first, second) = (word(*first, big_endian), word(*second, big_endian));
        let function = u32::try_from(first & call::FUNCTION_MASK).unwrap_or(0);
        let rank = *places.entry(function).or_insert(ranks.len());
        if function == 0 || rank > LAST_RANK {
            columns.functions.push(ESCAPE);
            columns.others.extend(bytes);
            continue;
        }
        let expected = model.expected();
        if rank == ranks.len() {
            ranks.push(function);
            columns.numbers.extend(function.to_le_bytes().into_iter().take(3));
            columns.functions.push(code_of(rank));
        } else {
            columns.functions.push(if function == expected { FOLLOWS } else { code_of(rank) });
        }
        let slot = u32::try_from(second >> call::SLOT_SHIFT & u64::from(SLOT_MASK)).unwrap_or(0);
        let expected = model.enter(function);
        let off = folded(u64::from(slot.wrapping_sub(expected) & SLOT_MASK), call::SLOT_BITS);
        bits.code(off << 2 | second & call::END_MASK, &mut columns.slots);
        let end = first >> call::TIME_SHIFT;
        let duration = second >> call::TIME_SHIFT;
        let start = end.wrapping_sub(duration) & TIME_MASK;
        let before = model.end;
        let (gap, lead) = match model.place(slot) {
            Some(child) => (end.wrapping_sub(before), child.wrapping_sub(start)),
            None => (start.wrapping_sub(before), duration),
        };
        bits.code(turned(gap), &mut columns.gaps);
        bits.code(turned(lead), &mut columns.leads);
        model.leave(start, end);
    }
    columns.bits = bits.finish();
    columns
}

fn code_of(rank: usize) -> u8 {
    u8::try_from(rank).unwrap_or(0).saturating_add(FIRST_RANK)
}

/// A time that is nearly always 0 or more: large ones that aren't.
fn turned(time: u64) -> u64 {
    let time = time & TIME_MASK;
    if time >> (call::TIME_BITS - 1) == 0 { time } else { TIME_MASK - time + (1 << 42) }
}

fn turned_back(value: u64) -> u64 {
    if value >> 42 == 0 { value } else { TIME_MASK.wrapping_sub(value - (1 << 42)) & TIME_MASK }
}

/// The bytes of the records that `columns` were made of; `None` if they were made of none.
pub(crate) fn join(columns: [&[u8]; COLUMNS], big_endian: bool) -> Option<Vec<u8>> {
    let [functions, slots, gaps, leads, numbers, others, bits] = columns;
    if functions.len() > MOST {
        return None;
    }
    let order = Bytes { bytes: &[], big_endian };
    let numbers: Vec<u32> = numbers
        .as_chunks::<3>()
        .0
        .iter()
        .map(|[a, b, c]| u32::from_le_bytes([*a, *b, *c, 0]))
        .collect();
    let mut others = others.as_chunks::<{ call::SIZE }>().0.iter();
    let mut rest = slots.iter().zip(gaps).zip(leads);
    let (mut model, mut bits) = (Model::new(), BitReader { bytes: bits, held: 0, count: 0 });
    let mut bytes = Vec::with_capacity(functions.len() * call::SIZE);
    for code in functions {
        let function = match *code {
            ESCAPE => {
                bytes.extend(others.next()?);
                continue;
            }
            FOLLOWS => model.expected(),
            code => *numbers.get(usize::from(code - FIRST_RANK))?,
        };
        let ((slot, gap), lead) = rest.next()?;
        let expected = model.enter(function);
        let slot = bits.number(*slot)?;
        let how = slot & call::END_MASK;
        let off = unfolded(slot >> 2) & u64::from(SLOT_MASK);
        let slot = expected.wrapping_add(u32::try_from(off).ok()?) & SLOT_MASK;
        let (gap, lead) = (turned_back(bits.number(*gap)?), turned_back(bits.number(*lead)?));
        let before = model.end;
        let moved = before.wrapping_add(gap);
        let (start, end) = if let Some(child) = model.place(slot) {
            (child.wrapping_sub(lead), moved)
        } else {
            (moved, moved.wrapping_add(lead))
        };
        let (start, end) = (start & TIME_MASK, end & TIME_MASK);
        model.leave(start, end);
        let duration = end.wrapping_sub(start) & TIME_MASK;
        let first = end << call::TIME_SHIFT | u64::from(function);
        let second = duration << call::TIME_SHIFT | u64::from(slot) << call::SLOT_SHIFT | how;
        bytes.extend(order.encoded(first));
        bytes.extend(order.encoded(second));
    }
    Some(bytes)
}
