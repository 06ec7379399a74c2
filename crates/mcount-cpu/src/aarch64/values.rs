//! AArch64: Procedure Call Standard for the Arm 64-bit Architecture (AAPCS64), 6.8 "Parameter passing".
//!
//! Integers go to `x0` to `x7`, floating-point numbers to `v0` to `v7`, and so do structures of up to four equal floating-point numbers,
//! one each. Other structures of up to 16 bytes go to one or two general registers, larger ones are passed by a pointer to
//! a copy. What finds no register left is on the stack, and then nothing later of its kind is in a register. Where a large result goes is
//! said by `x8`, which functions don't keep.

use crate::outside::values::{
    Conventions, Language, MOST, Returning, Structure, Taken, Type, ValueLocation, copy,
    from_stack, is_shown, single, view,
};
use crate::recipe;
use alloc::vec::Vec;

/// The rules.
pub const CONVENTIONS: Conventions = Conventions {
    of_stack: [29, 31],
    omits_references: true,
    is_unknown,
    is_nowhere,
    taken_by_result,
    register,
    argument,
    result,
};

/// How many registers there are for arguments.
const GENERAL: u64 = 8;
const VECTORS: u64 = 8;

/// How a value is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passed {
    /// In that many general registers, the first one of which may have to have an even number.
    General { count: u64, is_even: bool },
    /// In that many vector registers, each with that many bytes of it.
    Vectors { count: u64, size: u64 },
    /// By a pointer to it.
    Reference,
    /// Not at all: it's empty.
    Nowhere,
    /// It's unknown.
    Unknown,
}

/// It's unknown how it's passed.
fn is_unknown(kind: &Type) -> bool {
    passed(kind) == Passed::Unknown
}

/// It isn't passed at all.
fn is_nowhere(kind: &Type) -> bool {
    passed(kind) == Passed::Nowhere
}

/// Where a large result goes isn't said by one of these registers.
fn taken_by_result(_result: &Type) -> Taken {
    Taken::default()
}

/// The number that DWARF has for a register.
fn register(source: u64) -> Option<u16> {
    const FIRST_VECTOR: u64 = 64;
    let number = match source {
        recipe::VECTOR.. if source < recipe::VECTOR + VECTORS => {
            FIRST_VECTOR + source - recipe::VECTOR
        }
        _ if source < GENERAL => source,
        _ => return None,
    };
    u16::try_from(number).ok()
}

/// The next free registers.
trait Registers {
    /// So many general registers; `None`: it's on the stack.
    fn generals(&mut self, count: u64, is_even: bool) -> Option<u64>;
    /// So many vector registers; the same.
    fn several_vectors(&mut self, count: u64) -> Option<u64>;
    /// A general register, or the stack.
    fn one(&mut self) -> ValueLocation;
}

impl Registers for Taken {
    fn generals(&mut self, count: u64, is_even: bool) -> Option<u64> {
        if is_even {
            self.general = self.general.next_multiple_of(2);
        }
        if self.general + count > GENERAL {
            self.general = GENERAL;
            return None;
        }
        let first = recipe::GENERAL + self.general;
        self.general += count;
        Some(first)
    }

    fn several_vectors(&mut self, count: u64) -> Option<u64> {
        if self.vectors + count > VECTORS {
            self.vectors = VECTORS;
            return None;
        }
        let first = recipe::VECTOR + self.vectors;
        self.vectors += count;
        Some(first)
    }

    fn one(&mut self) -> ValueLocation {
        match self.general(GENERAL) {
            Some(register) => (register, 0),
            None => (recipe::STACK, self.stack(8, false)),
        }
    }
}

/// Adds the words that copy an argument.
fn argument(kind: &Type, taken: &mut Taken, language: Language, words: &mut Vec<u64>) {
    match (passed(kind), kind) {
        (Passed::General { count, .. }, Type::View { is_pointer_first }) => {
            let [first, second] = if language == Language::Rust {
                [taken.one(), taken.one()]
            } else if let Some(first) = taken.generals(count, false) {
                [(first, 0), (first + 1, 0)]
            } else {
                let at = taken.stack(16, false);
                [(recipe::STACK, at), (recipe::STACK, at + 8)]
            };
            words.extend(view(first, second, *is_pointer_first));
        }
        (Passed::General { count, is_even }, _) => match taken.generals(count, is_even) {
            Some(first) => pieces(kind, (first, count, 8), words),
            None => from_stack(kind, taken, words),
        },
        (Passed::Vectors { count, size }, _) => match taken.several_vectors(count) {
            Some(first) => pieces(kind, (first, count, size), words),
            None => from_stack(kind, taken, words),
        },
        (Passed::Reference, Type::Structure(of)) => {
            let (source, at) = taken.one();
            if of.is_string {
                words.push(recipe::STRING | source << 8 | at << 32);
            } else if of.size <= MOST && at < 1 << 16 {
                words.push(recipe::MEMORY | source << 8 | of.size << 24 | at << 32);
            }
        }
        (Passed::Reference | Passed::Nowhere | Passed::Unknown, _) => {}
    }
}

/// Copies what's in registers from `first` on, `size` bytes in each.
fn pieces(kind: &Type, (first, count, size): (u64, u64, u64), words: &mut Vec<u64>) {
    if !is_shown(kind) {
        return;
    }
    if count == 1 {
        words.push(single(kind, (first, 0)));
        return;
    }
    for number in 0..count {
        let left = kind.size().saturating_sub(number * size);
        if left != 0 {
            words.push(copy(first + number, left.min(size), 0));
        }
    }
}

/// Adds the words that copy a result.
fn result(kind: &Type, returning: Returning, words: &mut Vec<u64>) {
    match (passed(kind), kind) {
        (Passed::General { .. }, Type::View { is_pointer_first }) => {
            words.extend(view((recipe::RAX, 0), (recipe::RDX, 0), *is_pointer_first));
        }
        (Passed::General { count, .. }, _) => pieces(kind, (recipe::RAX, count, 8), words),
        (Passed::Vectors { count, size }, _) => pieces(kind, (recipe::VECTOR, count, size), words),
        // Nobody knows at a hook after the prologue where it goes.
        (Passed::Reference, Type::Structure(of)) if !returning.is_late => {
            if of.is_string {
                words.push(recipe::STRING | recipe::PLACE << 8);
            } else if returning.language == Language::C && of.size <= MOST {
                words.push(recipe::MEMORY | recipe::PLACE << 8 | of.size << 24);
            }
        }
        (Passed::Reference | Passed::Nowhere | Passed::Unknown, _) => {}
    }
}

fn passed(kind: &Type) -> Passed {
    match kind {
        Type::Signed(_)
        | Type::Unsigned(_)
        | Type::Boolean(_)
        | Type::Character(_)
        | Type::Enumeration { .. }
        | Type::Pointer
        | Type::Text
        | Type::StringReference => Passed::General { count: 1, is_even: false },
        Type::View { .. } => Passed::General { count: 2, is_even: false },
        Type::Wide => Passed::General { count: 2, is_even: true },
        Type::Float(size) => Passed::Vectors { count: 1, size: u64::from(*size) },
        Type::Extended => Passed::Vectors { count: 1, size: 16 },
        Type::Structure(of) if of.is_by_reference => Passed::Reference,
        Type::Structure(of) => classify(of),
        Type::Unknown => Passed::Unknown,
    }
}

fn classify(of: &Structure) -> Passed {
    let mut leaves = Vec::new();
    if add_leaves(of, 0, &mut leaves).is_none() {
        return Passed::Unknown;
    }
    leaves.sort_unstable();
    leaves.dedup();
    match leaves.as_slice() {
        [] if of.size == 0 => return Passed::Nowhere,
        [(0, Some(size)), ..] if leaves.len() <= 4 => {
            let is_equal = leaves.iter().all(|(_, other)| *other == Some(*size));
            let count = leaves.len() as u64;
            if is_equal && of.size == count * size {
                return Passed::Vectors { count, size: *size };
            }
        }
        _ => {}
    }
    match of.size {
        0..=16 => {
            Passed::General { count: of.size.div_ceil(8).max(1), is_even: of.is_aligned_to_16 }
        }
        _ => Passed::Reference,
    }
}

/// Adds where each field of a structure at `offset` is, and the size of those that are floating-point numbers; `None` if one isn't understood.
fn add_leaves(of: &Structure, offset: u64, leaves: &mut Vec<(u64, Option<u64>)>) -> Option<()> {
    for field in &of.fields {
        let at = offset + field.offset;
        match &field.kind {
            Type::Structure(of) => add_leaves(of, at, leaves)?,
            Type::Unknown => return None,
            Type::Float(size) => leaves.push((at, Some(u64::from(*size)))),
            Type::Extended => leaves.push((at, Some(16))),
            _ => leaves.push((at, None)),
        }
    }
    Some(())
}
