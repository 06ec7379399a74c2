//! Where arguments and results are at the entry and the exit of a function: System V Application Binary Interface, AMD64
//! supplement, 3.2.3 "Parameter Passing".
//!
//! Each piece of eight bytes of a value has a class. Integers go to six registers, floating-point numbers to eight vector
//! registers. What has no register left, and all that's larger than two pieces, is on the stack.
//!
//! Rust has rules of its own. As far as they're used here, they're those of C, but for a pair such as `&str`: its halves are passed
//! as two arguments, so one may be in a register and the other on the stack.

use super::describe::{Description, Role};
use super::types::{Evidence, Parameter, Signature, Structure, Type};
use mcount_agent::recipe;
use std::rc::Rc;

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
    /// Nobody knows.
    Unknown,
}

/// The most bytes of a structure in memory that are recorded.
const MOST: u64 = 64;

/// A word of a recipe that copies `size` bytes of a source.
fn copy(source: u64, size: u64, at: u64) -> u64 {
    recipe::COPY | source << 8 | size << 24 | at << 32
}

/// Where the values of a function are.
pub(super) struct Plan<'s> {
    signature: &'s Signature,
}

/// What is taken already.
#[derive(Default)]
struct Taken {
    general: u64,
    vectors: u64,
    stack: u64,
}

/// A source and, on the stack, where there.
type Place = (u64, u64);

impl Taken {
    fn general(&mut self) -> Option<u64> {
        let free = (self.general < GENERAL).then_some(recipe::GENERAL + self.general)?;
        self.general += 1;
        Some(free)
    }

    fn vector(&mut self) -> Option<u64> {
        let free = (self.vectors < VECTORS).then_some(recipe::VECTOR + self.vectors)?;
        self.vectors += 1;
        Some(free)
    }

    fn stack(&mut self, size: u64, is_aligned_to_16: bool) -> u64 {
        if is_aligned_to_16 {
            self.stack = self.stack.next_multiple_of(16);
        }
        let at = self.stack;
        self.stack += size.next_multiple_of(8);
        at
    }

    /// A register of this class, or the stack.
    fn one(&mut self, class: Class) -> Place {
        let register = match class {
            Class::Vector => self.vector(),
            _ => self.general(),
        };
        register.map_or_else(|| (recipe::STACK, self.stack(8, false)), |register| (register, 0))
    }

    /// Registers for all pieces, or none.
    fn both(&mut self, classes: [Class; 2]) -> Option<[Place; 2]> {
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

impl<'s> Plan<'s> {
    pub(super) fn new(signature: &'s Signature) -> Self {
        Self { signature }
    }

    /// A large result takes a register for where it goes.
    fn taken_by_result(&self) -> Taken {
        let Some(result) = &self.signature.result else { return Taken::default() };
        let is_hidden = matches!(passed(result), Passed::Memory | Passed::Reference);
        Taken { general: u64::from(is_hidden && !is_x87(result)), ..Taken::default() }
    }

    /// The words that copy the arguments.
    pub(super) fn arguments(&self, description: &mut Description) -> Vec<u64> {
        let mut words = Vec::new();
        let mut taken = self.taken_by_result();
        let result = self.signature.result.as_ref().map_or(Passed::Nowhere, passed);
        if result == Passed::Unknown {
            // It may take a register for where it goes.
            return words;
        }
        let mut is_known = true;
        for (parameter, is_there) in self.signature.parameters.iter().zip(self.are_there()) {
            is_known &= passed(&parameter.kind) != Passed::Unknown;
            let before = words.len();
            if is_known {
                argument(&parameter.kind, &mut taken, self.signature.is_rust, &mut words);
            }
            if !is_there {
                words.truncate(before);
            }
            let is_recorded = words.len() > before;
            if passed(&parameter.kind) == Passed::Nowhere {
                let empty = Type::Structure(Rc::default());
                description.add(Role::Argument, &parameter.name, &empty, true);
            } else {
                description.add(Role::Argument, &parameter.name, &parameter.kind, is_recorded);
            }
        }
        words
    }

    /// Whether the compiler has left the parameters where the ABI has them.
    pub(super) fn is_abi_kept(&self) -> bool {
        self.are_there().iter().all(|is_there| *is_there)
    }

    /// Which parameters are where the ABI has them. If one is elsewhere, only those are that debug information confirms.
    fn are_there(&self) -> Vec<bool> {
        let mut taken = self.taken_by_result();
        let mut found = Vec::new();
        for parameter in &self.signature.parameters {
            let mut words = Vec::new();
            argument(&parameter.kind, &mut taken, self.signature.is_rust, &mut words);
            let is_there = |number: u16| {
                words.first().is_none_or(|word| {
                    let is_counted = word & 0xff == recipe::COUNTED;
                    register(word >> 8 & 0xff) == Some(number)
                        || is_counted && register(word >> 16 & 0xff) == Some(number)
                })
            };
            found.push(match parameter.evidence {
                Evidence::Expected | Evidence::Home => Some(true),
                Evidence::Register(number) => Some(is_there(number)),
                Evidence::Nowhere => None,
            });
        }
        // One that's elsewhere shows that some are missing, but not which.
        let is_changed = found.contains(&Some(false));
        let confirmed = |(is_there, parameter): (&Option<bool>, &Parameter)| {
            *is_there == Some(true)
                && (!is_changed || matches!(parameter.evidence, Evidence::Register(_)))
        };
        found.iter().zip(&self.signature.parameters).map(confirmed).collect()
    }

    /// The words that copy the result.
    pub(super) fn result(&self, description: &mut Description) -> Vec<u64> {
        let Some(kind) = &self.signature.result else { return Vec::new() };
        let mut words = Vec::new();
        result(kind, self.signature.is_rust, &mut words);
        description.add(Role::Result, "", kind, !words.is_empty());
        words
    }
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
fn argument(kind: &Type, taken: &mut Taken, is_rust: bool, words: &mut Vec<u64>) {
    match (passed(kind), kind) {
        (Passed::Registers(classes), Type::View { is_pointer_first }) => {
            let both = if is_rust {
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
            }
        }
        (Passed::Reference | Passed::Nowhere | Passed::Unknown, _) => {}
    }
}

/// What is recorded of a value in one place.
fn single(kind: &Type, (source, at): Place) -> u64 {
    match kind {
        Type::Text => recipe::TEXT | source << 8 | at << 32,
        Type::StringReference => recipe::STRING | source << 8 | at << 32,
        _ => copy(source, kind.size(), at),
    }
}

fn view(first: Place, second: Place, is_pointer_first: bool) -> Option<u64> {
    let (pointer, length) = if is_pointer_first { (first, second) } else { (second, first) };
    let at = pointer.1 << 32 | length.1 << 48;
    (pointer.1 < 1 << 16 && length.1 < 1 << 16)
        .then_some(recipe::COUNTED | pointer.0 << 8 | length.0 << 16 | at)
}

/// Copies what's in one or two places.
fn pieces(size: u64, places: [Place; 2], words: &mut Vec<u64>) {
    for ((source, at), left) in places.into_iter().zip([size, size.saturating_sub(8)]) {
        if left != 0 {
            words.push(copy(source, left.min(8), at));
        }
    }
}

fn from_stack(kind: &Type, taken: &mut Taken, words: &mut Vec<u64>) {
    let is_aligned = match kind {
        Type::Structure(of) => of.is_aligned_to_16,
        Type::Extended | Type::Wide | Type::Float(16) => true,
        _ => false,
    };
    let at = taken.stack(kind.size(), is_aligned);
    if kind.size() <= MOST && at < 1 << 16 {
        words.push(single(kind, (recipe::STACK, at)));
    }
}

/// Adds the words that copy a result. Of one in memory the address is in a register, but Rust doesn't promise that.
fn result(kind: &Type, is_rust: bool, words: &mut Vec<u64>) {
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
            if !is_rust && !is_x87(kind) && (1..=MOST).contains(&of.size) =>
        {
            words.push(recipe::MEMORY | recipe::RAX << 8 | of.size << 24);
        }
        (Passed::Reference, Type::Structure(of)) if of.is_string => {
            words.push(recipe::STRING | recipe::RAX << 8);
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

/// Is it one that the trace has a type for?
fn is_shown(kind: &Type) -> bool {
    !matches!(kind, Type::Float(2 | 16) | Type::Unknown)
}

/// The registers that results of these classes are in.
fn returned(classes: [Class; 2]) -> [Place; 2] {
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
