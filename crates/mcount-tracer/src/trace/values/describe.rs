//! The trace's description of a function's values: names and types, in the order in which they're recorded.
//! docs/trace-format.md, "Values".

use crate::trace::processor::LONG_DOUBLE;
use mcount_cpu::outside::LongDouble;
use mcount_cpu::outside::values::{Structure, Type};
use mcount_trace::Signature;
use mcount_trace::layout::kind;

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Argument = 1,
    Result = 2,
    /// The only argument, and the function's calls are markers.
    Mark = 3,
    /// A counter, when a call begins and when it ends.
    Counter = 7,
}

/// The description of the values of one function.
pub(in crate::trace) struct Description {
    function: u32,
    values: Vec<u8>,
}

impl Description {
    pub(super) fn new(function: u32) -> Self {
        Self { function, values: Vec::new() }
    }

    /// Adds a value; `is_recorded`: and not just known to be there.
    pub(super) fn add(&mut self, role: Role, name: &str, kind: &Type, is_recorded: bool) {
        self.values.push(role as u8);
        name_of(&mut self.values, name);
        if is_recorded { kind_of(&mut self.values, kind) } else { self.values.push(kind::NONE) }
    }

    /// The function that it's of.
    pub(super) fn function(&self) -> u32 {
        self.function
    }

    /// Puts what another one describes before what this one does.
    pub(super) fn prepend(&mut self, other: &Self) {
        self.values.splice(0..0, other.values.iter().copied());
    }

    /// The entry in the trace.
    pub(in crate::trace) fn signature(&self) -> Signature<'_> {
        Signature { function: self.function, values: &self.values }
    }

    /// Adds a value with this type, as the trace has it.
    pub(super) fn add_described(&mut self, role: Role, name: &str, kind: &[u8]) {
        self.values.push(role as u8);
        name_of(&mut self.values, name);
        self.values.extend(kind);
    }

    /// How many bytes it has.
    pub(super) fn size(&self) -> usize {
        self.values.len()
    }
}

/// Appends a type as the trace has it.
pub(super) fn kind_of(to: &mut Vec<u8>, kind: &Type) {
    let bytes: &[u8] = match kind {
        Type::Signed(size) => &[kind::SIGNED, *size],
        Type::Unsigned(size) => &[kind::UNSIGNED, *size],
        Type::Boolean(size) => &[kind::BOOLEAN, *size],
        Type::Character(size) => &[kind::CHARACTER, *size],
        Type::Float(size @ (4 | 8)) => &[kind::FLOAT, *size],
        Type::Extended => match LONG_DOUBLE {
            LongDouble::Extended => &[kind::FLOAT, 16],
            LongDouble::Quad => &[kind::QUAD, 16],
        },
        Type::Wide => &[kind::SIGNED, 16],
        Type::Pointer => &[kind::POINTER],
        Type::Text | Type::StringReference | Type::View { .. } => &[kind::TEXT],
        Type::Enumeration { size, number } => {
            to.extend([kind::ENUMERATION, *size]);
            &number.to_ne_bytes()
        }
        Type::Structure(of) if of.is_string => &[kind::TEXT],
        Type::Structure(of) => return structure(to, of),
        Type::Float(_) | Type::Unknown => &[kind::NONE],
    };
    to.extend(bytes);
}

fn structure(to: &mut Vec<u8>, of: &Structure) {
    let shown: Vec<_> = of.fields.iter().filter(|field| !field.is_hidden).take(255).collect();
    to.push(kind::STRUCTURE);
    to.extend(u16::try_from(of.size).unwrap_or(0).to_ne_bytes());
    to.push(u8::try_from(shown.len()).unwrap_or(0));
    for field in shown {
        to.extend(u16::try_from(field.offset).unwrap_or(0).to_ne_bytes());
        name_of(to, &field.name);
        match &field.kind {
            // Only what is in the structure itself was recorded.
            Type::Text | Type::StringReference => to.push(kind::POINTER),
            Type::View { .. } => to.push(kind::NONE),
            Type::Structure(of) if of.is_string => to.push(kind::NONE),
            kind => kind_of(to, kind),
        }
    }
}

/// Appends a name with its length, as far as that's one byte.
pub(super) fn name_of(bytes: &mut Vec<u8>, name: &str) {
    let mut end = name.len().min(255);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let name = name.get(..end).unwrap_or_default();
    bytes.push(u8::try_from(name.len()).unwrap_or(0));
    bytes.extend(name.as_bytes());
}
