//! Reads recorded bytes by the description of a function's values (docs/trace-format.md, "Values").
//!
//! Both may be damaged. A description can lead to more values than there are bytes, so it's left after some, and where they are nested too
//! deeply.

#[cfg(test)]
mod tests;

use super::{COUNTER, Field, MORE, RESULT, Signatures, TOLD_RESULT, UNKNOWN, Value};
use crate::layout::{kind, target, type_flags, value};

/// How deep values may be nested.
const DEEPEST: usize = 40;
/// How many values a call may have, one in the other. More don't find room in a record.
const MOST: u32 = 1 << 14;

/// The rest of a description.
pub(super) struct Shape<'a> {
    bytes: &'a [u8],
    big_endian: bool,
    /// How many values may still be read by it.
    left: u32,
}

/// The rest of recorded bytes; none if there was no room for them.
pub(super) struct Payload<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) big_endian: bool,
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
        let bytes = self.take(size)?;
        Some(self.number_of(bytes))
    }

    fn number_of(&self, bytes: &[u8]) -> u128 {
        let bytes = bytes.iter().copied();
        let append = |value: u128, byte: u8| value << 8 | u128::from(byte);
        if self.big_endian { bytes.fold(0, append) } else { bytes.rev().fold(0, append) }
    }

    /// The text at `address`.
    fn text(&mut self, address: u64) -> Option<Value> {
        let head = self.head()?;
        let bytes = self.take(usize::from(head & value::LENGTH))?.to_vec();
        let (is_cut, is_bad) = (head & value::CUT != 0, head & value::BAD != 0);
        Some(Value::Text { address, bytes, is_cut, is_bad })
    }

    /// The text that comes next.
    fn words(&mut self) -> Option<Value> {
        let head = self.head()?;
        let bytes = self.take(usize::from(head & value::LENGTH))?.to_vec();
        Some(Value::Characters { bytes, is_cut: head & value::CUT != 0 })
    }

    /// The next counter.
    pub(super) fn counter(&mut self) -> u64 {
        self.number(8).and_then(|number| u64::try_from(number).ok()).unwrap_or(UNKNOWN)
    }

    fn head(&mut self) -> Option<u16> {
        u16::try_from(self.number(2)?).ok()
    }
}

/// The source of a value.
pub(super) struct Source<'r, 'p> {
    /// The part of it that has a fixed size is in these bytes, from the first one on: what was read before. `None`: it comes next.
    inside: Option<&'p [u8]>,
    from: &'r mut Payload<'p>,
    signatures: &'r Signatures<'r>,
    /// How many values it's in.
    depth: usize,
}

impl<'r, 'p> Source<'r, 'p> {
    /// That of a value that isn't in another one.
    pub(super) fn new(from: &'r mut Payload<'p>, signatures: &'r Signatures<'r>) -> Self {
        Self { inside: None, from, signatures, depth: 0 }
    }

    /// That of a value in this one.
    fn within(&mut self, inside: Option<&'p [u8]>) -> Source<'_, 'p> {
        let Self { from, signatures, depth, .. } = self;
        Source { inside, from, signatures, depth: *depth + 1 }
    }

    /// The part that has a fixed size.
    fn fixed(&mut self, size: usize) -> Option<&'p [u8]> {
        match self.inside {
            Some(bytes) => bytes.get(..size),
            None => self.from.take(size),
        }
    }

    /// The same as a number.
    fn number(&mut self, size: usize) -> Option<u128> {
        let bytes = self.fixed(size)?;
        Some(self.from.number_of(bytes))
    }

    /// Names of the values of an enumeration.
    fn names(&self, enumeration: u32) -> Option<&'r [u8]> {
        self.signatures.enumerations.get(&enumeration).copied()
    }
}

impl<'s> Shape<'s> {
    pub(super) fn new(bytes: &'s [u8], big_endian: bool) -> Self {
        Self { bytes, big_endian, left: MOST }
    }

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
    pub(super) fn next_value(&mut self) -> Option<(u8, String)> {
        Some((self.byte()?, self.name()?))
    }

    /// The role of the next value.
    pub(super) fn first(&self) -> Option<u8> {
        self.bytes.first().copied()
    }

    /// Passes over counters, which come first; their names. There can't be more than processors have.
    pub(super) fn counters(&mut self) -> Vec<String> {
        const MOST: usize = 16;
        let mut names = Vec::new();
        while self.first() == Some(COUNTER) && names.len() < MOST {
            let Some((_, name)) = self.next_value() else { break };
            let mut nothing = self.take(2);
            if nothing.take() != Some(&[kind::UNSIGNED, 8][..]) {
                break;
            }
            names.push(name);
        }
        names
    }

    /// Passes over what comes before the result; its type follows. `None` if there's none.
    pub(super) fn skip_to_result(&mut self, signatures: &Signatures<'_>) -> Option<()> {
        let mut nothing = Payload { bytes: &[], big_endian: self.big_endian };
        loop {
            let (role, _) = self.next_value()?;
            if matches!(role, RESULT | TOLD_RESULT) {
                return Some(());
            }
            self.read(Source::new(&mut nothing, signatures))?;
        }
    }

    fn wide(&mut self) -> Option<u64> {
        let big_endian = self.big_endian;
        let bytes = *self.take(8)?.first_chunk()?;
        Some(if big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    /// Reads a value of the type that comes next. `None` if the description is malformed.
    pub(super) fn read(&mut self, mut of: Source<'_, '_>) -> Option<Value> {
        self.left = self.left.checked_sub(1).filter(|_| of.depth <= DEEPEST)?;
        let code = self.byte()?;
        let value = match code {
            kind::NONE => Some(Value::Missing),
            kind::POINTER => of.number(8).and_then(low).map(Value::Pointer),
            kind::TEXT => of.number(8).and_then(low).and_then(|address| of.from.text(address)),
            kind::STRING => return self.string(of),
            kind::WORDS => of.from.words(),
            kind::CHARACTERS => return self.characters(of),
            kind::STRUCTURE | kind::OBJECT => return self.structure(code, of),
            kind::LEADS => return self.leads(of),
            kind::LIST => return self.list(of),
            kind::ARRAY => return self.array(of),
            kind::VARIANT => return self.variant(of),
            kind::ENUMERATION => {
                let size = self.size()?;
                let number = self.number()?;
                let (names, big_endian) = (of.names(number), self.big_endian);
                of.number(size).map(|value| enumerator(value, size, names, big_endian))
            }
            kind::FLAGS | kind::RETURNED => return self.of_system(code, of),
            kind::SIGNED
            | kind::UNSIGNED
            | kind::BOOLEAN
            | kind::CHARACTER
            | kind::FLOAT
            | kind::QUAD => {
                let size = self.size()?;
                of.number(size).map(|value| scalar(code, size, value))
            }
            _ => return None,
        };
        Some(value.unwrap_or(Value::Missing))
    }

    /// Flags, or a result, of a call into the system.
    fn of_system(&mut self, code: u8, mut of: Source<'_, '_>) -> Option<Value> {
        let form = self.byte()?;
        let number = self.number()?;
        let size = if code == kind::FLAGS { usize::from(form) } else { 8 };
        if size > 16 {
            return None;
        }
        let value = of.number(size).and_then(low);
        let (names, big_endian) = (of.names(number), self.big_endian);
        let shown = |value| match code {
            kind::FLAGS => flags(value, names, big_endian),
            _ => returned(form, value, names, big_endian),
        };
        Some(value.map_or(Value::Missing, shown))
    }

    fn size(&mut self) -> Option<usize> {
        self.byte().map(usize::from).filter(|size| *size <= 16)
    }

    /// Passes over the type of a value in this one.
    fn skip_within(&mut self, of: &Source<'_, '_>) -> Option<()> {
        let mut nothing = Payload { bytes: &[], big_endian: self.big_endian };
        let signatures = of.signatures;
        let within = Source { inside: None, from: &mut nothing, signatures, depth: of.depth + 1 };
        self.read(within).map(drop)
    }

    fn structure(&mut self, code: u8, mut of: Source<'_, '_>) -> Option<Value> {
        let size = usize::from(self.half()?);
        let bytes = of.fixed(size);
        let flags = if code == kind::OBJECT { self.byte()? } else { 0 };
        let mut fields = Vec::new();
        for _ in 0..self.byte()? {
            let offset = usize::from(self.half()?);
            let name = self.name()?;
            let rest = bytes.and_then(|bytes| bytes.get(offset..)).unwrap_or_default();
            let value = self.read(of.within(Some(rest)))?;
            fields.push(Field { name, value });
        }
        if flags & type_flags::MORE != 0 {
            fields.push(Field { name: MORE.to_owned(), value: Value::Missing });
        }
        Some(if bytes.is_some() { Value::Structure(fields) } else { Value::Missing })
    }

    fn leads(&mut self, mut of: Source<'_, '_>) -> Option<Value> {
        let address = of.number(8).and_then(low);
        let state = of.from.number(1);
        let (Some(address), Some(state)) = (address, state) else {
            self.skip_within(&of)?;
            return Some(address.map_or(Value::Missing, Value::Pointer));
        };
        let to = if state == u128::from(target::READ) {
            Some(Box::new(self.read(of.within(None))?))
        } else {
            self.skip_within(&of)?;
            None
        };
        let is_bad = state == u128::from(target::BAD);
        Some(Value::Leads { address, is_bad, to })
    }

    fn list(&mut self, mut of: Source<'_, '_>) -> Option<Value> {
        let object = usize::from(self.half()?);
        let size = usize::try_from(self.number()?).ok()?;
        let is_map = self.byte()? & type_flags::MAP != 0;
        let is_there = of.inside.is_some() || of.from.take(object).is_some();
        let count = of.from.number(8).and_then(low).filter(|_| is_there);
        let (Some(count), Some(head)) = (count, of.from.head()) else {
            self.skip_within(&of)?;
            return Some(Value::Missing);
        };
        let recorded = usize::from(head & value::LENGTH);
        let bytes = of.from.take(recorded.checked_mul(size)?).unwrap_or_default();
        let elements = self.elements((bytes, recorded, size), &mut of)?;
        let is_bad = head & value::BAD != 0;
        Some(Value::List { elements, count, is_bad, is_map })
    }

    fn array(&mut self, mut of: Source<'_, '_>) -> Option<Value> {
        let count = self.wide()?;
        let recorded = usize::from(self.half()?);
        let size = usize::try_from(self.number()?).ok()?;
        let bytes = of.fixed(recorded.checked_mul(size)?);
        let part = (bytes.unwrap_or_default(), recorded, size);
        let elements = self.elements(part, &mut of)?;
        Some(match bytes {
            Some(_) => Value::List { elements, count, is_bad: false, is_map: false },
            None => Value::Missing,
        })
    }

    /// The elements in `bytes`, so many of `size` bytes each, as far as they're there.
    fn elements<'p>(
        &mut self,
        (bytes, count, size): (&'p [u8], usize, usize),
        of: &mut Source<'_, 'p>,
    ) -> Option<Vec<Value>> {
        let element = self.bytes;
        let mut all = Vec::new();
        for number in 0..count {
            let place = number.checked_mul(size)?;
            let Some(inside) = bytes.get(place..place.checked_add(size)?) else { break };
            self.bytes = element;
            all.push(self.read(of.within(Some(inside)))?);
        }
        if all.is_empty() {
            self.skip_within(of)?;
        }
        Some(all)
    }

    fn string(&mut self, mut of: Source<'_, '_>) -> Option<Value> {
        let (size, at) = (usize::from(self.half()?), usize::from(self.half()?));
        let object = of.fixed(size);
        let address = object.and_then(|bytes| bytes.get(at..at.checked_add(8)?));
        let address = address.and_then(|bytes| low(of.from.number_of(bytes)));
        Some(address.and_then(|address| of.from.text(address)).unwrap_or(Value::Missing))
    }

    fn characters(&mut self, mut of: Source<'_, '_>) -> Option<Value> {
        let size = usize::from(self.half()?);
        let has_more = self.byte()? & type_flags::MORE != 0;
        let bytes = of.fixed(size);
        let Some(bytes) = bytes else { return Some(Value::Missing) };
        let end = bytes.iter().position(|byte| *byte == 0);
        let text = bytes.get(..end.unwrap_or(size)).unwrap_or_default();
        Some(Value::Characters { bytes: text.to_vec(), is_cut: has_more && end.is_none() })
    }

    fn variant(&mut self, mut of: Source<'_, '_>) -> Option<Value> {
        let size = usize::from(self.half()?);
        let at = usize::from(self.half()?);
        let of_number = self.size()?;
        let bytes = of.fixed(size);
        let number = bytes.and_then(|bytes| bytes.get(at..at.checked_add(of_number)?));
        let number = number.and_then(|bytes| low(of.from.number_of(bytes)));
        let (mut meant, mut other) = (None, None);
        for _ in 0..self.byte()? {
            let (flags, case) = (self.byte()?, self.wide()?);
            let name = self.name()?;
            let found = Some((name, self.bytes));
            self.skip_within(&of)?;
            if flags & type_flags::DEFAULT != 0 {
                other = found;
            } else if number == Some(case) {
                meant = found;
            }
        }
        let behind = self.bytes;
        let Some((name, shape)) = meant.or(other).filter(|_| number.is_some()) else {
            return Some(Value::Missing);
        };
        let is_empty = shape.first() == Some(&kind::NONE);
        self.bytes = shape;
        let value = self.read(of.within(bytes))?;
        self.bytes = behind;
        Some(match (name.is_empty(), is_empty) {
            (true, _) => value,
            (false, true) => Value::Case(name, None),
            (false, false) => Value::Case(name, Some(Box::new(value))),
        })
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
    let mut names = Enumerators::of(of, big_endian);
    let found = names.find(|(number, _)| *number == wide || *number == narrow);
    found.map_or(Value::Enumerator(None, narrow), |(number, name)| {
        Value::Enumerator(Some(name), number)
    })
}

/// The names of the bits that are set, as in C.
fn flags(value: u64, of: Option<&[u8]>, big_endian: bool) -> Value {
    let (mut names, mut known) = (Vec::new(), 0);
    for (number, name) in Enumerators::of(of, big_endian) {
        let (mask, bits) = (number >> 32, number & 0xffff_ffff);
        if mask & known == 0 && mask != 0 && value & mask == bits {
            known |= mask;
            names.push(name);
        }
    }
    let rest = value & !known;
    if rest != 0 || names.is_empty() {
        names.push(if rest == 0 { "0".to_owned() } else { format!("{rest:#x}") });
    }
    Value::Enumerator(Some(names.join("|")), value)
}

/// What a call into the system returned: an error, or a value of this form.
fn returned(form: u8, value: u64, of: Option<&[u8]>, big_endian: bool) -> Value {
    /// The greatest number of an error.
    const GREATEST: u64 = 4095;
    if value >= GREATEST.wrapping_neg()
        && let Some((_, name)) = Enumerators::of(of, big_endian).find(|(one, _)| *one == value)
    {
        return Value::Enumerator(Some(name), value);
    }
    match form {
        kind::POINTER => Value::Pointer(value),
        _ => Value::Signed(value.cast_signed().into()),
    }
}

/// Numbers and names of an enumeration.
struct Enumerators<'a> {
    rest: Shape<'a>,
    left: u32,
}

impl<'a> Enumerators<'a> {
    fn of(enumeration: Option<&'a [u8]>, big_endian: bool) -> Self {
        let mut rest = Shape::new(enumeration.unwrap_or_default(), big_endian);
        let left = rest.number().unwrap_or(0);
        Self { rest, left }
    }
}

impl Iterator for Enumerators<'_> {
    type Item = (u64, String);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let number = *self.rest.take(8)?.first_chunk()?;
        let big_endian = self.rest.big_endian;
        let number =
            if big_endian { u64::from_be_bytes(number) } else { u64::from_le_bytes(number) };
        Some((number, self.rest.name()?))
    }
}
