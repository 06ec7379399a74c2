//! x86-64: System V Application Binary Interface, AMD64 supplement, 3.2.3 "Parameter Passing".
//!
//! Each piece of eight bytes of a value has a class. Integers go to six registers, floating-point numbers to eight vector
//! registers. Values without a register, and those larger than two pieces, are on the stack.

use crate::outside::values::{
    Conventions, Language, MOST, Returning, Structure, Taken, Type, ValueLocation, copy,
    from_stack, is_shown, single, view,
};
use crate::recipe;
use alloc::vec::Vec;

/// The rules.
pub const CONVENTIONS: Conventions = Conventions {
    of_stack: [6, 7],
    omits_references: false,
    is_unknown,
    is_nowhere,
    taken_by_result,
    register,
    argument,
    result,
};

/// How many registers there are for arguments.
const GENERAL: u64 = 6;
const VECTORS: u64 = 8;

/// The class of a piece of eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    None,
    Integer,
    Vector,
}

/// How a value is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passed {
    /// In registers of these classes.
    Registers([Class; 2]),
    /// On the stack.
    Memory,
    /// By a pointer to it.
    Reference,
    /// Not at all: it's empty.
    Nowhere,
    /// It's unknown.
    Unknown,
}

/// The next free registers.
trait Registers {
    fn vector(&mut self) -> Option<u64>;
    /// A register of this class, or the stack.
    fn one(&mut self, class: Class) -> ValueLocation;
    /// Registers for all pieces, or none.
    fn both(&mut self, classes: [Class; 2]) -> Option<[ValueLocation; 2]>;
}

impl Registers for Taken {
    fn vector(&mut self) -> Option<u64> {
        let free = (self.vectors < VECTORS).then_some(recipe::VECTOR + self.vectors)?;
        self.vectors += 1;
        Some(free)
    }

    fn one(&mut self, class: Class) -> ValueLocation {
        let register = match class {
            Class::Vector => self.vector(),
            _ => self.general(GENERAL),
        };
        register.map_or_else(|| (recipe::STACK, self.stack(8, false)), |register| (register, 0))
    }

    fn both(&mut self, classes: [Class; 2]) -> Option<[ValueLocation; 2]> {
        let count = |class| classes.iter().filter(|one| **one == class).count() as u64;
        if self.general + count(Class::Integer) > GENERAL
            || self.vectors + count(Class::Vector) > VECTORS
        {
            return None;
        }
        Some(
            classes.map(
                |class| if class == Class::None { (recipe::STACK, 0) } else { self.one(class) },
            ),
        )
    }
}

/// It's unknown how it's passed.
fn is_unknown(kind: &Type) -> bool {
    passed(kind) == Passed::Unknown
}

/// It isn't passed at all.
fn is_nowhere(kind: &Type) -> bool {
    passed(kind) == Passed::Nowhere
}

/// A large result takes a register for where it goes.
fn taken_by_result(result: &Type) -> Taken {
    let is_hidden = matches!(passed(result), Passed::Memory | Passed::Reference);
    Taken { general: u64::from(is_hidden && !is_x87(result)), ..Taken::default() }
}

/// The number that DWARF has for a register.
fn register(source: u64) -> Option<u16> {
    const OF_GENERAL: [u16; 6] = [5, 4, 1, 2, 8, 9];
    const FIRST_VECTOR: u16 = 17;
    let place = usize::try_from(source).ok()?;
    let vector = source.checked_sub(recipe::VECTOR).filter(|vector| *vector < VECTORS);
    let vector = vector.and_then(|vector| u16::try_from(vector).ok());
    OF_GENERAL.get(place).copied().or_else(|| vector.map(|vector| FIRST_VECTOR + vector))
}

/// Adds the words that copy an argument.
fn argument(kind: &Type, taken: &mut Taken, language: Language, words: &mut Vec<u64>) {
    match (passed(kind), kind) {
        (Passed::Registers(classes), Type::View { is_pointer_first }) => {
            let both = if language == Language::Rust {
                Some(classes.map(|class| taken.one(class)))
            } else {
                taken.both(classes)
            };
            let [first, second] = both.unwrap_or_else(|| {
                let at = taken.stack(16, false);
                [(recipe::STACK, at), (recipe::STACK, at + 8)]
            });
            words.extend(view(first, second, *is_pointer_first));
        }
        (Passed::Registers([class, Class::None]), kind) => {
            let place = taken.one(class);
            words.extend(is_shown(kind).then(|| single(kind, place)));
        }
        (Passed::Registers(classes), _) => match taken.both(classes) {
            Some(places) => pieces(kind.size(), places, words),
            None => from_stack(kind, taken, words),
        },
        (Passed::Memory, _) => from_stack(kind, taken, words),
        (Passed::Reference, Type::Structure(of)) => {
            let (source, at) = taken.one(Class::Integer);
            if of.is_string {
                words.push(recipe::STRING | source << 8 | at << 32);
            } else if of.size <= MOST && at < 1 << 16 {
                words.push(recipe::MEMORY | source << 8 | of.size << 24 | at << 32);
            }
        }
        (Passed::Reference | Passed::Nowhere | Passed::Unknown, _) => {}
    }
}

/// Copies what's in one or two places.
fn pieces(size: u64, places: [ValueLocation; 2], words: &mut Vec<u64>) {
    for ((source, at), left) in places.into_iter().zip([size, size.saturating_sub(8)]) {
        if left != 0 {
            words.push(copy(source, left.min(8), at));
        }
    }
}

/// Adds the words that copy a result. Of one in memory the address is in a register, but Rust doesn't promise that.
fn result(kind: &Type, returning: Returning, words: &mut Vec<u64>) {
    match (passed(kind), kind) {
        (Passed::Registers(classes), Type::View { is_pointer_first }) => {
            let [first, second] = returned(classes);
            words.extend(view(first, second, *is_pointer_first));
        }
        (Passed::Registers(classes @ [_, Class::None]), kind) => {
            let [place, _] = returned(classes);
            words.extend(is_shown(kind).then(|| single(kind, place)));
        }
        (Passed::Registers(classes), _) => pieces(kind.size(), returned(classes), words),
        (Passed::Memory, Type::Extended) => words.push(copy(recipe::X87, 16, 0)),
        (Passed::Memory, Type::Structure(of))
            if returning.language == Language::C
                && !is_x87(kind)
                && (1..=MOST).contains(&of.size) =>
        {
            words.push(recipe::MEMORY | recipe::RAX << 8 | of.size << 24);
        }
        (Passed::Reference, Type::Structure(of)) if of.is_string => {
            words.push(recipe::STRING | recipe::RAX << 8);
        }
        (Passed::Reference, Type::Structure(of))
            if returning.language == Language::C && (1..=MOST).contains(&of.size) =>
        {
            words.push(recipe::MEMORY | recipe::RAX << 8 | of.size << 24);
        }
        _ => {}
    }
}

/// Is it returned on the x87 stack?
fn is_x87(kind: &Type) -> bool {
    match kind {
        Type::Extended => true,
        Type::Structure(of) => of.size == 16 && of.fields.iter().all(|field| is_x87(&field.kind)),
        _ => false,
    }
}

/// The registers that results of these classes are in.
fn returned(classes: [Class; 2]) -> [ValueLocation; 2] {
    let (mut general, mut vectors) = (recipe::RAX, recipe::VECTOR);
    classes.map(|class| {
        let next = if class == Class::Vector { &mut vectors } else { &mut general };
        let source = *next;
        *next += u64::from(class != Class::None);
        (source, 0)
    })
}

fn passed(kind: &Type) -> Passed {
    const INTEGER: [Class; 2] = [Class::Integer, Class::None];
    match kind {
        Type::Signed(_)
        | Type::Unsigned(_)
        | Type::Boolean(_)
        | Type::Character(_)
        | Type::Enumeration { .. }
        | Type::Pointer
        | Type::Text
        | Type::StringReference => Passed::Registers(INTEGER),
        Type::Wide | Type::View { .. } => Passed::Registers([Class::Integer; 2]),
        Type::Float(_) => Passed::Registers([Class::Vector, Class::None]),
        Type::Extended => Passed::Memory,
        Type::Structure(of) if of.is_by_reference => Passed::Reference,
        Type::Structure(of) => classify(of),
        Type::Unknown => Passed::Unknown,
    }
}

fn classify(of: &Structure) -> Passed {
    if of.size > 16 {
        return Passed::Memory;
    }
    let mut classes = [Class::None; 2];
    match add_fields(of, 0, &mut classes) {
        Some(()) if classes == [Class::None; 2] => Passed::Nowhere,
        Some(()) => Passed::Registers(classes),
        None => Passed::Memory,
    }
}

/// Takes the fields of a structure at `offset` into the classes of its pieces; `None` if it's passed in memory.
fn add_fields(of: &Structure, offset: u64, classes: &mut [Class; 2]) -> Option<()> {
    for field in &of.fields {
        let at = offset + field.offset;
        match &field.kind {
            Type::Structure(of) => add_fields(of, at, classes)?,
            Type::Extended | Type::Unknown => return None,
            kind => {
                let size = kind.size().max(1);
                if !at.is_multiple_of(size.min(8)) && !field.is_hidden {
                    return None;
                }
                let is_vector = matches!(kind, Type::Float(_));
                for (piece, class) in (0..).step_by(8).zip(classes.iter_mut()) {
                    if at < piece + 8 && at + size > piece && *class != Class::Integer {
                        *class = if is_vector { Class::Vector } else { Class::Integer };
                    }
                }
            }
        }
    }
    Some(())
}
