//! Arguments and results of calls, where they were recorded.
//!
//! Arguments are recorded when a call begins, and the call is when it ends. They belong together by function and start. Both
//! calls and arguments of a thread are read in the order of starts, so a place for each thread, which moves on, is all that
//! it takes to find them. A result is right before its call.

use crate::calls::Call;
use crate::file::File;
use crate::index::{Piece, ThreadIndex};
use crate::layout::{call, kind, special, value};
use crate::record::{Record, record};
use std::collections::{HashMap, VecDeque};

/// An argument or a result.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// It was not recorded: its type isn't understood, or there was no room.
    Missing,
    /// A signed integer.
    Signed(i128),
    /// An unsigned integer.
    Unsigned(u128),
    /// A truth value.
    Boolean(bool),
    /// A character, by its number.
    Character(u32),
    /// A floating-point number. Those of 80 bits are rounded.
    Float(f64),
    /// A floating-point number of 4 bytes.
    Single(f32),
    /// An address.
    Pointer(u64),
    /// A text.
    Text {
        /// Where it was; 0: nowhere.
        address: u64,
        /// As much of it as was recorded.
        bytes: Vec<u8>,
        /// It has more.
        is_cut: bool,
        /// The memory there, or behind these bytes, could not be read.
        is_bad: bool,
    },
    /// One of an enumeration: its name, if it has one, and its number.
    Enumerator(Option<String>, u64),
    /// The fields of a structure.
    Structure(Vec<Field>),
}

/// A field of a structure.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Its name; may be empty.
    pub name: String,
    /// Its value.
    pub value: Value,
}

/// The name that conditions have for what a call returns.
pub const NAME_OF_RESULT: &str = "result";

/// Which argument `arg1` is, from 0 on.
#[must_use]
pub fn place_of(name: &str) -> Option<usize> {
    name.strip_prefix("arg")?.parse::<usize>().ok()?.checked_sub(1)
}

/// An argument with its name.
pub type Named = Field;

/// How deep structures may be nested.
const DEEPEST: usize = 16;
/// How many arguments are looked at that seem to be of later calls: a signal handler's may come first.
const AHEAD: usize = 64;
/// How far a result may be from its call, in records.
const NEAR: usize = 64;

/// The role of a value in a description.
const ARGUMENT: u8 = 1;
const RESULT: u8 = 2;
const MARK: u8 = 3;

/// A trace's data about the values of its functions.
#[derive(Debug, Default)]
pub(crate) struct Signatures<'a> {
    /// By function.
    functions: HashMap<u32, &'a [u8]>,
    enumerations: HashMap<u32, &'a [u8]>,
}

impl<'a> Signatures<'a> {
    pub(crate) fn new(functions: Vec<(u32, &'a [u8])>, enumerations: Vec<(u32, &'a [u8])>) -> Self {
        Self {
            functions: functions.into_iter().collect(),
            enumerations: enumerations.into_iter().collect(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Does it describe a result of a function?
    pub(crate) fn has_results(&self, big_endian: bool) -> bool {
        self.functions
            .values()
            .any(|bytes| Shape { bytes, big_endian }.skip_to_result(self).is_some())
    }

    /// Does it describe a value of this name of a function, or one that this is a field of?
    pub(crate) fn has_value(&self, name: &str, big_endian: bool) -> bool {
        let name = name.split('.').next().unwrap_or(name);
        let place = place_of(name);
        self.functions.values().any(|bytes| {
            let mut shape = Shape { bytes, big_endian };
            let mut nothing = Payload { bytes: &[], big_endian };
            let mut at = 0;
            while let Some((role, own)) = shape.next_value() {
                let is_it = match role {
                    RESULT => name == NAME_OF_RESULT,
                    _ => own == name || place == Some(at),
                };
                if is_it {
                    return true;
                }
                at += 1;
                if shape.read(&mut nothing, self, 0).is_none() {
                    return false;
                }
            }
            false
        })
    }

    /// Are the calls of this function markers, and the text that they are called with what they say?
    fn is_mark(&self, function: u32) -> bool {
        self.functions.get(&function).is_some_and(|description| description.first() == Some(&MARK))
    }

    /// Are they, and is their name what they say?
    fn is_named_mark(&self, function: u32) -> bool {
        // A role, an empty name, and a type of which nothing is recorded.
        self.functions
            .get(&function)
            .is_some_and(|description| description.starts_with(&[MARK, 0, kind::NONE]))
    }
}

/// Arguments that were found, and whose call wasn't asked for yet.
#[derive(Debug, Clone, Copy)]
struct Recorded {
    start: u64,
    function: u32,
    /// Where the first record is.
    place: usize,
}

/// Where the arguments of a thread are being read.
#[derive(Debug, Default)]
struct Cursor {
    piece: usize,
    /// How many records of it were read.
    at: usize,
    /// In the order of the file.
    found: VecDeque<Recorded>,
}

/// Finds arguments and results of calls.
#[derive(Debug)]
pub struct Values<'t> {
    file: File<'t>,
    signatures: &'t Signatures<'t>,
    threads: &'t [ThreadIndex],
    cursors: HashMap<usize, Cursor>,
}

impl<'t> Values<'t> {
    pub(crate) fn new(
        file: File<'t>,
        signatures: &'t Signatures<'t>,
        threads: &'t [ThreadIndex],
    ) -> Self {
        Self { file, signatures, threads, cursors: HashMap::new() }
    }

    /// The arguments of a call, if they were recorded. Calls of a thread must be asked for in the order of their
    /// starts.
    pub fn arguments(&mut self, call: &Call) -> Option<Vec<Named>> {
        let description = self.signatures.functions.get(&call.function)?;
        let mut shape = Shape { bytes: description, big_endian: self.file.is_big_endian() };
        let thread = self.threads.get(call.thread)?;
        let cursor = self.cursors.entry(call.thread).or_default();
        let recorded = cursor.find(self.file, thread, call)?;
        let payload = payload(self.file, recorded)?;
        let mut payload = Payload { bytes: &payload, big_endian: self.file.is_big_endian() };
        let mut found = Vec::new();
        while let Some((role, name)) = shape.next_value() {
            let value = shape.read(&mut payload, self.signatures, 0)?;
            if role == MARK && self.signatures.is_named_mark(call.function) {
                continue;
            }
            if role == ARGUMENT || role == MARK {
                found.push(Named { name, value });
            } else {
                break;
            }
        }
        Some(found)
    }

    /// Whether the calls of this function are markers: the program says by them where it is. What it says is the first argument, or the name
    /// ([`Self::is_named_mark`]).
    #[must_use]
    pub fn is_mark(&self, function: u32) -> bool {
        self.signatures.is_mark(function)
    }

    /// Whether the calls of this function are markers that say their name, and may have arguments.
    #[must_use]
    pub fn is_named_mark(&self, function: u32) -> bool {
        self.signatures.is_named_mark(function)
    }

    /// The result of a call, if it was recorded.
    #[must_use]
    pub fn result(&self, call: &Call) -> Option<Value> {
        let description = self.signatures.functions.get(&call.function)?;
        let mut shape = Shape { bytes: description, big_endian: self.file.is_big_endian() };
        shape.skip_to_result(self.signatures)?;
        call.how?;
        let mut place = usize::try_from(call.place & !(1 << 63)).ok()?;
        for _ in 0..NEAR {
            place = place.checked_sub(call::SIZE)?;
            match read_record(self.file, place)? {
                Record::Special(special::RESULT, value, start)
                    if value & 0xff_ffff == call.function && start == call.start =>
                {
                    let payload = payload(self.file, place)?;
                    let mut payload =
                        Payload { bytes: &payload, big_endian: self.file.is_big_endian() };
                    return shape.read(&mut payload, self.signatures, 0);
                }
                Record::Special(..) => {}
                _ => return None,
            }
        }
        None
    }
}

fn read_record(file: File<'_>, place: usize) -> Option<Record> {
    let bytes = file.load(place, call::SIZE);
    Some(record(bytes.first_chunk()?, file.is_big_endian()))
}

/// The bytes of the values whose first record is at `place`.
fn payload(file: File<'_>, place: usize) -> Option<Vec<u8>> {
    let Record::Special(_, head, _) = read_record(file, place)? else { return None };
    let count = usize::try_from(head >> 24).ok()?;
    let mut bytes = Vec::with_capacity(count * value::IN_RECORD);
    for number in 1..=count {
        match read_record(file, place + number * call::SIZE)? {
            Record::Special(special::BYTES, low, high) => {
                // They were stored as words.
                bytes.extend(low.to_le_bytes());
                bytes.extend(high.to_le_bytes());
            }
            _ => return None,
        }
    }
    Some(bytes)
}

impl Cursor {
    /// Where the arguments of `call` are.
    fn find(&mut self, file: File<'_>, thread: &ThreadIndex, call: &Call) -> Option<usize> {
        while self.found.front().is_some_and(|first| first.start < call.start) {
            self.found.pop_front();
        }
        self.skip(thread, call.start);
        let mut ahead = 0;
        let mut looked = 0;
        loop {
            while let Some(one) = self.found.get(looked) {
                if one.start == call.start && one.function == call.function {
                    let place = one.place;
                    self.found.remove(looked);
                    return Some(place);
                }
                ahead += usize::from(one.start > call.start);
                looked += 1;
            }
            if ahead > AHEAD || !self.read(file, thread, call.start) {
                return None;
            }
        }
    }

    /// Passes over pieces that end before `start`. Arguments are recorded behind what ended before them, perhaps at the end
    /// of a piece, or in pieces without any call.
    fn skip(&mut self, thread: &ThreadIndex, start: u64) {
        let pieces = thread.pieces.get(self.piece..).unwrap_or_default();
        let is_before = |piece: &Piece| piece.floor.is_none_or(|floor| floor < start);
        // Mostly, it's the next one.
        if !pieces.get(2).is_some_and(is_before) {
            return;
        }
        let behind = pieces.partition_point(is_before);
        let floor = behind.checked_sub(1).and_then(|last| pieces.get(last)).map(|last| last.floor);
        let Some(floor) = floor else { return };
        let first = pieces.partition_point(|piece| piece.floor < floor);
        if let Some(target) = first.checked_sub(1).filter(|target| *target > 0) {
            self.piece += target;
            self.at = 0;
        }
    }

    /// Takes in the next arguments that start at `start` or later; `false` if there are none.
    fn read(&mut self, file: File<'_>, thread: &ThreadIndex, start: u64) -> bool {
        while let Some(piece) = thread.pieces.get(self.piece) {
            let part = file.load(piece.offset, piece.size);
            let records = part.as_chunks().0;
            while let Some(bytes) = records.get(self.at) {
                let place = piece.offset + self.at * call::SIZE;
                self.at += 1;
                if let Record::Special(special::ARGUMENTS, head, ticks) =
                    record(bytes, file.is_big_endian())
                    && ticks >= start
                {
                    let function = head & 0xff_ffff;
                    self.found.push_back(Recorded { start: ticks, function, place });
                    return true;
                }
            }
            self.piece += 1;
            self.at = 0;
        }
        false
    }
}

/// The rest of a description.
struct Shape<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

/// The rest of recorded bytes; none if there was no room for them.
struct Payload<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl<'a> Payload<'a> {
    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let Some((bytes, rest)) = self.bytes.split_at_checked(size) else {
            self.bytes = &[];
            return None;
        };
        self.bytes = rest;
        Some(bytes)
    }

    /// The next `size` bytes as a number.
    fn number(&mut self, size: usize) -> Option<u128> {
        let bytes = self.take(size)?.iter().copied();
        let append = |value: u128, byte: u8| value << 8 | u128::from(byte);
        Some(if self.big_endian { bytes.fold(0, append) } else { bytes.rev().fold(0, append) })
    }

    fn text(&mut self) -> Option<Value> {
        let address = u64::try_from(self.number(8)?).ok()?;
        let head = u16::try_from(self.number(2)?).ok()?;
        let bytes = self.take(usize::from(head & value::LENGTH))?.to_vec();
        let (is_cut, is_bad) = (head & value::CUT != 0, head & value::BAD != 0);
        Some(Value::Text { address, bytes, is_cut, is_bad })
    }
}

impl Shape<'_> {
    fn take(&mut self, size: usize) -> Option<&[u8]> {
        let (bytes, rest) = self.bytes.split_at_checked(size)?;
        self.bytes = rest;
        Some(bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn half(&mut self) -> Option<u16> {
        let big_endian = self.big_endian;
        let bytes = *self.take(2)?.first_chunk()?;
        Some(if big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    fn number(&mut self) -> Option<u32> {
        let big_endian = self.big_endian;
        let bytes = *self.take(4)?.first_chunk()?;
        Some(if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    fn name(&mut self) -> Option<String> {
        let length = usize::from(self.byte()?);
        Some(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    /// Role and name of the next value; its type follows.
    fn next_value(&mut self) -> Option<(u8, String)> {
        Some((self.byte()?, self.name()?))
    }

    /// Passes over what comes before the result; its type follows. `None` if there's none.
    fn skip_to_result(&mut self, signatures: &Signatures<'_>) -> Option<()> {
        let mut nothing = Payload { bytes: &[], big_endian: self.big_endian };
        loop {
            let (role, _) = self.next_value()?;
            if role == RESULT {
                return Some(());
            }
            self.read(&mut nothing, signatures, 0)?;
        }
    }

    /// Reads a value of the type that comes next. `None` if the description is malformed.
    fn read(
        &mut self,
        from: &mut Payload<'_>,
        signatures: &Signatures<'_>,
        depth: usize,
    ) -> Option<Value> {
        let code = self.byte()?;
        let value = match code {
            kind::NONE => Some(Value::Missing),
            kind::POINTER => from.number(8).and_then(low).map(Value::Pointer),
            kind::TEXT => from.text(),
            kind::STRUCTURE => return self.structure(from, signatures, depth),
            kind::ENUMERATION => {
                let size = self.size()?;
                let number = self.number()?;
                let value = from.number(size);
                let of = signatures.enumerations.get(&number);
                let big_endian = self.big_endian;
                value.map(|value| enumerator(value, size, of.copied(), big_endian))
            }
            kind::SIGNED
            | kind::UNSIGNED
            | kind::BOOLEAN
            | kind::CHARACTER
            | kind::FLOAT
            | kind::QUAD => {
                let size = self.size()?;
                from.number(size).map(|value| scalar(code, size, value))
            }
            _ => return None,
        };
        Some(value.unwrap_or(Value::Missing))
    }

    fn size(&mut self) -> Option<usize> {
        self.byte().map(usize::from).filter(|size| *size <= 16)
    }

    fn structure(
        &mut self,
        from: &mut Payload<'_>,
        signatures: &Signatures<'_>,
        depth: usize,
    ) -> Option<Value> {
        if depth > DEEPEST {
            return None;
        }
        let size = usize::from(self.half()?);
        let bytes = from.take(size);
        let mut fields = Vec::new();
        for _ in 0..self.byte()? {
            let offset = usize::from(self.half()?);
            let name = self.name()?;
            let rest = bytes.and_then(|bytes| bytes.get(offset..)).unwrap_or_default();
            let mut rest = Payload { bytes: rest, big_endian: from.big_endian };
            fields.push(Field { name, value: self.read(&mut rest, signatures, depth + 1)? });
        }
        Some(if bytes.is_some() { Value::Structure(fields) } else { Value::Missing })
    }
}

fn low(value: u128) -> Option<u64> {
    u64::try_from(value & u128::from(u64::MAX)).ok()
}

/// A number of `size` bytes with its sign.
fn signed(value: u128, size: usize) -> i128 {
    let unused = 128 - 8 * u32::try_from(size.clamp(1, 16)).unwrap_or(16);
    (value << unused).cast_signed() >> unused
}

fn scalar(code: u8, size: usize, value: u128) -> Value {
    match (code, size) {
        (kind::SIGNED, _) => Value::Signed(signed(value, size)),
        (kind::BOOLEAN, _) => Value::Boolean(value != 0),
        (kind::CHARACTER, _) => {
            Value::Character(low(value).map_or(0, |value| (value & 0xffff_ffff) as u32))
        }
        (kind::FLOAT, 4) => Value::Single(f32::from_bits((value & 0xffff_ffff) as u32)),
        (kind::FLOAT, 8) => {
            low(value).map_or(Value::Missing, |bits| Value::Float(f64::from_bits(bits)))
        }
        (kind::FLOAT, 16) => Value::Float(extended(value)),
        (kind::QUAD, 16) => Value::Float(quad(value)),
        (kind::FLOAT | kind::QUAD, _) => Value::Missing,
        _ => Value::Unsigned(value),
    }
}

/// A number of the x87: 64 bits with a leading one, 15 bits of exponent, a sign.
fn extended(bits: u128) -> f64 {
    let mantissa = low(bits).unwrap_or(0);
    let exponent = i32::from((bits >> 64 & 0x7fff) as u16);
    let value = match (exponent, mantissa << 1) {
        (0x7fff, 0) => f64::INFINITY,
        (0x7fff, _) => f64::NAN,
        _ => scaled(mantissa.into(), exponent - 16383 - 63),
    };
    if bits >> 79 & 1 == 1 { -value } else { value }
}

/// A number of 128 bits, as IEEE 754 has them: a sign, 15 bits of exponent, and 112 after a leading one.
fn quad(bits: u128) -> f64 {
    let fraction = bits & ((1 << 112) - 1);
    let exponent = i32::from((bits >> 112 & 0x7fff) as u16);
    let value = match (exponent, fraction) {
        (0x7fff, 0) => f64::INFINITY,
        (0x7fff, _) => f64::NAN,
        // The least f64 is far above.
        (0, _) => 0.0,
        _ => scaled(1 << 112 | fraction, exponent - 16383 - 112),
    };
    if bits >> 127 == 1 { -value } else { value }
}

/// A mantissa times a power of two, rounded to what `f64` has. In two steps: one alone could leave the range of what it's multiplied with.
fn scaled(mantissa: u128, power: i32) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "it's rounded")]
    let value = mantissa as f64;
    value * 2_f64.powi(power / 2) * 2_f64.powi(power - power / 2)
}

fn enumerator(value: u128, size: usize, of: Option<&[u8]>, big_endian: bool) -> Value {
    let wide = low(signed(value, size).cast_unsigned()).unwrap_or(0);
    let narrow = low(value).unwrap_or(0);
    let mut names = Shape { bytes: of.unwrap_or_default(), big_endian };
    let count = names.number().unwrap_or(0);
    for _ in 0..count {
        let number = names.take(8).and_then(|bytes| bytes.first_chunk().copied());
        let (Some(number), Some(name)) = (number, names.name()) else { break };
        let number =
            if big_endian { u64::from_be_bytes(number) } else { u64::from_le_bytes(number) };
        if number == wide || number == narrow {
            return Value::Enumerator(Some(name), number);
        }
    }
    Value::Enumerator(None, narrow)
}

#[cfg(test)]
mod tests {
    use super::{extended, quad};

    #[test]
    fn long_doubles() {
        // gcc's bytes of each, for x86-64 and for AArch64.
        let table: [(f64, u128, u128); 6] = [
            (1.0, 0x3fff_8000_0000_0000_0000, 0x3fff << 112),
            (-2.5, 0xc000_a000_0000_0000_0000, 0xc000_4000 << 96),
            (0.0, 0, 0),
            (1e300, 0x43e3_bf21_e440_03ac_e000, 0x43e3_7e43_c880_0759_c000_0000_0000_0000),
            (f64::NEG_INFINITY, 0xffff_8000_0000_0000_0000, 0xffff << 112),
            (2_f64.powi(-1000), 0x3c17_8000_0000_0000_0000, 0x3c17 << 112),
        ];
        for (value, x87, ieee) in table {
            assert_eq!(
                [extended(x87), quad(ieee)].map(f64::to_bits),
                [value.to_bits(); 2],
                "{value}"
            );
        }
        assert!(quad(0x7fff << 112 | 1).is_nan());
        assert!(quad(0x7ffe << 112).is_infinite());
        assert_eq!(quad(1).to_bits(), 0);
    }
}
