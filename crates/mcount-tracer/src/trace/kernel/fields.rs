//! The fields of a tracepoint's records, as its file `format` describes them, on their way into a trace (`Documentation/trace/events.rst`).
//!
//! What such a file says of a type is C. A number is one of 1, 2, 4 or 8 bytes; what can't be understood is recorded as bytes.

#[cfg(test)]
mod tests;

use super::format::{self, Format};
use mcount_trace::layout::{kind, told, value};

/// The roles of values that follow a record: what an event says, and its fields.
const EVENT: u8 = 6;
pub(super) const FIELD: u8 = 4;

/// Bytes of a long number and of an address: those of the kernel that runs.
const LONG: usize = size_of::<usize>();

/// The names of all fields that every record has begin with this.
const COMMON: &str = "common_";

/// A number, as it is in records and in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    Signed(usize),
    Unsigned(usize),
    Truth,
    /// An address.
    Pointer(usize),
}

/// What a field holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Form {
    Number(Number),
    /// Text up to a zero, of so many bytes.
    Characters(usize),
    /// Numbers, in so many rows and columns.
    Array(Number, Vec<usize>),
    /// Text that's elsewhere in the record.
    Text(Place),
    /// Numbers that are elsewhere in the record.
    List(Number, Place),
}

/// From where on it's counted where a part of a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// From the beginning of the record.
    Record,
    /// From the end of the field.
    Field,
}

/// A field of a tracepoint's records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    at: format::Field,
    pub(super) form: Form,
}

impl Number {
    fn size(self) -> usize {
        match self {
            Self::Signed(size) | Self::Unsigned(size) | Self::Pointer(size) => size,
            Self::Truth => 1,
        }
    }

    /// Bytes of it in the trace.
    fn recorded(self) -> usize {
        if matches!(self, Self::Pointer(_)) { 8 } else { self.size() }
    }

    fn describe(self, out: &mut Vec<u8>) {
        match self {
            Self::Signed(size) => out.extend([kind::SIGNED, byte(size)]),
            Self::Unsigned(size) => out.extend([kind::UNSIGNED, byte(size)]),
            Self::Truth => out.extend([kind::BOOLEAN, 1]),
            Self::Pointer(_) => out.push(kind::POINTER),
        }
    }

    /// Appends those in these bytes.
    fn append(self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.recorded() == self.size() {
            return out.extend(bytes);
        }
        for one in bytes.chunks(self.size()) {
            let field = format::Field { offset: 0, size: one.len() };
            out.extend(field.number(one).unwrap_or(0).to_ne_bytes());
        }
    }
}

impl Field {
    /// Bytes of it in the trace, without what's elsewhere in the record.
    fn fixed(&self) -> usize {
        match &self.form {
            Form::Number(number) => number.recorded(),
            Form::Characters(size) => *size,
            Form::Array(number, counts) => number.recorded() * counts.iter().product::<usize>(),
            Form::Text(_) => 2,
            Form::List(..) => 10,
        }
    }

    fn describe(&self, out: &mut Vec<u8>) {
        let name = self.name.as_bytes();
        let name = name.get(..name.len().min(255)).unwrap_or_default();
        out.extend([FIELD, byte(name.len())]);
        out.extend(name);
        match &self.form {
            Form::Number(number) => number.describe(out),
            Form::Characters(size) => {
                out.push(kind::CHARACTERS);
                out.extend(half(*size).to_ne_bytes());
                out.push(0);
            }
            Form::Array(number, counts) => {
                let mut size = number.recorded() * counts.iter().product::<usize>();
                for count in counts {
                    size /= (*count).max(1);
                    out.push(kind::ARRAY);
                    out.extend((*count as u64).to_ne_bytes());
                    out.extend(half(*count).to_ne_bytes());
                    out.extend(u32::try_from(size).unwrap_or(u32::MAX).to_ne_bytes());
                }
                number.describe(out);
            }
            Form::Text(_) => out.push(kind::WORDS),
            Form::List(number, _) => {
                out.push(kind::LIST);
                out.extend(0_u16.to_ne_bytes());
                out.extend(u32::try_from(number.recorded()).unwrap_or(8).to_ne_bytes());
                out.push(0);
                number.describe(out);
            }
        }
    }

    /// Appends what a record has in this field. What's elsewhere in it may have so many bytes; how many it has.
    fn append(&self, record: &[u8], room: usize, out: &mut Vec<u8>) -> Option<usize> {
        let own = record.get(self.at.offset..)?.get(..self.at.size)?;
        match &self.form {
            Form::Number(number) | Form::Array(number, _) => number.append(own, out),
            Form::Characters(_) => out.extend(own),
            Form::Text(place) => {
                let bytes = self.elsewhere(record, *place).unwrap_or_default();
                let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                let kept = end.min(room);
                let cut = if kept < end { value::CUT } else { 0 };
                out.extend((half(kept) | cut).to_ne_bytes());
                out.extend(bytes.get(..kept)?);
                return Some(kept);
            }
            Form::List(number, place) => {
                let bytes = self.elsewhere(record, *place).unwrap_or_default();
                let count = bytes.len() / number.size();
                let kept = count.min(room / number.recorded());
                out.extend((count as u64).to_ne_bytes());
                out.extend(half(kept).to_ne_bytes());
                number.append(bytes.get(..kept * number.size())?, out);
                return Some(kept * number.recorded());
            }
        }
        Some(0)
    }

    /// The bytes that this field of a record leads to: it has an offset and a length, of 16 bits each.
    fn elsewhere<'r>(&self, record: &'r [u8], place: Place) -> Option<&'r [u8]> {
        let word = usize::try_from(self.at.number(record)?).ok()?;
        let base = match place {
            Place::Record => 0,
            Place::Field => self.at.offset + self.at.size,
        };
        record.get(base + (word & 0xffff)..)?.get(..word >> 16)
    }
}

/// The fields of a tracepoint's records that others don't have.
pub(super) fn all(format: &Format) -> Vec<Field> {
    let own = format.lines().filter(|line| !line.name.starts_with(COMMON));
    own.map(|line| Field { name: line.name.clone(), at: line.at, form: form(line) }).collect()
}

/// The values of an event, as the metadata of a trace describes them.
pub(super) fn description(fields: &[Field]) -> Vec<u8> {
    let mut bytes = vec![EVENT, 0, kind::NONE];
    for field in fields {
        field.describe(&mut bytes);
    }
    bytes
}

/// The values in a record. If there's no room for all, or the record is too short, the last ones aren't there.
pub(super) fn values(fields: &[Field], record: &[u8]) -> Vec<u8> {
    let fixed: usize = fields.iter().map(Field::fixed).sum();
    let mut room = told::MOST.saturating_sub(fixed);
    let mut bytes = Vec::with_capacity(fixed);
    for field in fields {
        let Some(used) = field.append(record, room, &mut bytes) else { break };
        room = room.saturating_sub(used);
    }
    bytes.truncate(told::MOST);
    bytes
}

/// What a field holds, by its type.
fn form(line: &format::Line) -> Form {
    let size = line.at.size;
    let bytes = Form::Array(Number::Unsigned(1), vec![size]);
    let places = [("__data_loc ", Place::Record), ("__rel_loc ", Place::Field)];
    let place =
        places.iter().find_map(|(word, place)| Some((line.kind.strip_prefix(word)?, *place)));
    if let Some((kind, place)) = place {
        let kind = kind.strip_suffix("[]").unwrap_or(kind).trim();
        return match kind {
            _ if size != 4 => bytes,
            "char" | "const char" => Form::Text(place),
            kind => Form::List(known(kind).unwrap_or(Number::Unsigned(1)), place),
        };
    }
    if line.counts.is_empty() {
        return number(&line.kind, size, line.is_signed).map_or(bytes, Form::Number);
    }
    if matches!(&*line.kind, "char" | "const char") && line.counts.len() == 1 {
        return Form::Characters(size);
    }
    let counts: Option<Vec<usize>> = line.counts.iter().map(|one| one.parse().ok()).collect();
    let Some(counts) = counts else { return bytes };
    let product = counts.iter().try_fold(1_usize, |all, one| all.checked_mul(*one));
    let element = product.filter(|product| *product != 0 && size.is_multiple_of(*product));
    let element = element.and_then(|product| number(&line.kind, size / product, line.is_signed));
    element.map_or(bytes, |element| Form::Array(element, counts))
}

/// A number of a type with so many bytes; `None` if it's none.
fn number(kind: &str, size: usize, is_signed: bool) -> Option<Number> {
    let is_compound =
        |word: &str| matches!(word, "struct" | "union" | "float" | "double" | "_Complex");
    match size {
        LONG if kind.ends_with(['*', ')']) => Some(Number::Pointer(size)),
        _ if kind.contains(['*', '(']) || kind.split(' ').any(is_compound) => None,
        1 if matches!(kind, "bool" | "_Bool") => Some(Number::Truth),
        1 | 2 | 4 | 8 if is_signed => Some(Number::Signed(size)),
        1 | 2 | 4 | 8 => Some(Number::Unsigned(size)),
        _ => None,
    }
}

/// A number of a type whose size isn't said.
fn known(kind: &str) -> Option<Number> {
    let kind = kind.strip_prefix("const ").unwrap_or(kind);
    Some(match kind {
        "bool" | "_Bool" => Number::Truth,
        "s8" | "__s8" | "int8_t" | "signed char" => Number::Signed(1),
        "u8" | "__u8" | "uint8_t" | "unsigned char" => Number::Unsigned(1),
        "s16" | "__s16" | "int16_t" | "short" => Number::Signed(2),
        "u16" | "__u16" | "uint16_t" | "unsigned short" => Number::Unsigned(2),
        "s32" | "__s32" | "int32_t" | "int" | "pid_t" => Number::Signed(4),
        "u32" | "__u32" | "uint32_t" | "unsigned int" | "unsigned" | "uint" => Number::Unsigned(4),
        "s64" | "__s64" | "int64_t" | "long long" => Number::Signed(8),
        "u64" | "__u64" | "uint64_t" | "unsigned long long" => Number::Unsigned(8),
        "long" | "ssize_t" => Number::Signed(LONG),
        "unsigned long" | "size_t" => Number::Unsigned(LONG),
        kind if kind.ends_with('*') => Number::Pointer(LONG),
        _ => return None,
    })
}

fn byte(size: usize) -> u8 {
    u8::try_from(size).unwrap_or(u8::MAX)
}

fn half(size: usize) -> u16 {
    u16::try_from(size).unwrap_or(u16::MAX).min(value::LENGTH)
}
