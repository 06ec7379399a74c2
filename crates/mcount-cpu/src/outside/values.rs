//! Where arguments and results are: types of values, as far as it matters where they are passed, and what each processor's rules say of them.

use crate::recipe;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

/// The most bytes of a structure in memory that are recorded.
pub const MOST: u64 = 64;

/// The rules of a processor's ABI.
#[derive(Debug)]
pub struct Conventions {
    /// The frame and the stack pointer, by their numbers in DWARF.
    pub of_stack: [u16; 2],
    /// LLVM doesn't tell of parameters that are passed by reference, in C++ that isn't optimized: then the places
    /// of the others are unknown.
    pub omits_references: bool,
    /// It's unknown how a value of this type is passed.
    pub is_unknown: fn(&Type) -> bool,
    /// A value of this type isn't passed at all.
    pub is_nowhere: fn(&Type) -> bool,
    /// What a result takes: a register for where it goes.
    pub taken_by_result: fn(&Type) -> Taken,
    /// The number that DWARF has for a register, which is a source of recipes.
    pub register: fn(u64) -> Option<u16>,
    /// Adds the words that copy an argument, of a function of Rust or of C.
    pub argument: fn(&Type, &mut Taken, Language, &mut Vec<u64>),
    /// Adds the words that copy a result.
    pub result: fn(&Type, Returning, &mut Vec<u64>),
}

/// Whose rules a function follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Those of C.
    C,
    /// Those of Rust, which differ in what is passed in two registers.
    Rust,
}

/// A function that returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Returning {
    /// Whose rules it follows.
    pub language: Language,
    /// Its hook is after the prologue, where less is known.
    pub is_late: bool,
}

/// The registers that are taken already.
#[derive(Debug, Default)]
pub struct Taken {
    pub(crate) general: u64,
    pub(crate) vectors: u64,
    pub(crate) stack: u64,
}

/// A source and, on the stack, where there.
pub(crate) type ValueLocation = (u64, u64);

impl Taken {
    /// The next one of `count` general registers.
    pub(crate) fn general(&mut self, count: u64) -> Option<u64> {
        let free = (self.general < count).then_some(recipe::GENERAL + self.general)?;
        self.general += 1;
        Some(free)
    }

    pub(crate) fn stack(&mut self, size: u64, is_aligned_to_16: bool) -> u64 {
        if is_aligned_to_16 {
            self.stack = self.stack.next_multiple_of(16);
        }
        let at = self.stack;
        self.stack += size.next_multiple_of(8);
        at
    }
}

/// A word of a recipe that copies `size` bytes of a source.
pub(crate) fn copy(source: u64, size: u64, at: u64) -> u64 {
    recipe::COPY | source << 8 | size << 24 | at << 32
}

/// The record of a value in one place.
pub(crate) fn single(kind: &Type, (source, at): ValueLocation) -> u64 {
    match kind {
        Type::Text => recipe::TEXT | source << 8 | at << 32,
        Type::StringReference => recipe::STRING | source << 8 | at << 32,
        _ => copy(source, kind.size(), at),
    }
}

pub(crate) fn view(
    first: ValueLocation,
    second: ValueLocation,
    is_pointer_first: bool,
) -> Option<u64> {
    let (pointer, length) = if is_pointer_first { (first, second) } else { (second, first) };
    let at = pointer.1 << 32 | length.1 << 48;
    (pointer.1 < 1 << 16 && length.1 < 1 << 16)
        .then_some(recipe::COUNTED | pointer.0 << 8 | length.0 << 16 | at)
}

/// Is it one that the trace has a type for?
pub(crate) fn is_shown(kind: &Type) -> bool {
    !matches!(kind, Type::Float(2 | 16) | Type::Unknown)
}

/// Copies a value that's on the stack, aligned or not.
pub(crate) fn from_stack(kind: &Type, taken: &mut Taken, words: &mut Vec<u64>) {
    let at = taken.stack(kind.size(), is_aligned(kind));
    if is_shown(kind) && kind.size() <= MOST && at < 1 << 16 {
        words.push(single(kind, (recipe::STACK, at)));
    }
}

/// Is it aligned to 16 bytes?
fn is_aligned(kind: &Type) -> bool {
    match kind {
        Type::Structure(of) => of.is_aligned_to_16,
        Type::Extended | Type::Wide | Type::Float(16) => true,
        _ => false,
    }
}

/// A type. Sizes are bytes.
#[derive(Debug, Clone)]
pub enum Type {
    /// An integer with a sign.
    Signed(u8),
    /// One without.
    Unsigned(u8),
    /// A truth value.
    Boolean(u8),
    /// A character.
    Character(u8),
    /// In a vector register: 2, 4, 8 or 16 bytes.
    Float(u8),
    /// 80 bits, of the x87.
    Extended,
    /// 128 bits, an integer.
    Wide,
    /// A pointer or a reference.
    Pointer,
    /// A pointer to a text that a zero ends.
    Text,
    /// A pointer or a reference to a `std::string`.
    StringReference,
    /// Pointer and length of a text: `std::string_view`, `&str`.
    View {
        /// The pointer comes first.
        is_pointer_first: bool,
    },
    /// An enumeration.
    Enumeration {
        /// Bytes.
        size: u8,
        /// Its number in the trace.
        number: u32,
    },
    /// A structure, class, union or array.
    Structure(Rc<Structure>),
    /// Not understood.
    Unknown,
}

/// A structure, class, union or array.
#[derive(Debug, Clone, Default)]
pub struct Structure {
    /// Bytes.
    pub size: u64,
    /// Its alignment by the ABI, as far as it's more than 8.
    pub is_aligned_to_16: bool,
    /// It's passed by a pointer to it: copying it takes a function.
    pub is_by_reference: bool,
    /// It is a `std::string`.
    pub is_string: bool,
    /// Its fields.
    pub fields: Vec<Field>,
}

/// A field of one.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Where it is, in bytes.
    pub offset: u64,
    /// Its type.
    pub kind: Type,
    /// It's a part of a byte, or an element of an array or union: it counts for where the structure is passed, and isn't shown.
    pub is_hidden: bool,
}

impl Type {
    /// Bytes; 0 if not known.
    #[must_use]
    pub fn size(&self) -> u64 {
        match self {
            Self::Signed(size)
            | Self::Unsigned(size)
            | Self::Boolean(size)
            | Self::Character(size)
            | Self::Float(size)
            | Self::Enumeration { size, .. } => u64::from(*size),
            Self::Extended | Self::Wide | Self::View { .. } => 16,
            Self::Pointer | Self::Text | Self::StringReference => 8,
            Self::Structure(of) => of.size,
            Self::Unknown => 0,
        }
    }
}
