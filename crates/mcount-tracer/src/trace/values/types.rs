//! Types of values, as far as they're understood, and as far as it matters where they are passed.

use std::rc::Rc;

/// What debug information says about a function.
#[derive(Debug, Clone)]
pub(super) struct Signature {
    pub(super) parameters: Vec<Parameter>,
    /// `None`: it returns nothing.
    pub(super) result: Option<Type>,
    /// It leaves its result where the ABI has it, as far as is known. LLVM leaves unused results out.
    pub(super) is_result_sure: bool,
    /// It follows the rules of Rust, which differ from those of C in what is passed in two registers.
    pub(super) is_rust: bool,
}

impl Signature {
    /// Are all parameters understood?
    pub(super) fn is_whole(&self) -> bool {
        let is_known = |kind: &Type| !matches!(kind, Type::Unknown);
        self.parameters.iter().all(|parameter| is_known(&parameter.kind))
            && self.result.as_ref().is_none_or(is_known)
    }
}

#[derive(Debug, Clone)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) kind: Type,
    pub(super) evidence: Evidence,
}

/// Where debug information says a parameter is when the function begins. LLVM leaves unused parameters out, and
/// then the others are elsewhere than the ABI has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    /// Where the ABI has it, as far as is known.
    Expected,
    /// In the frame, where the function itself puts it.
    Home,
    /// In this register, by its number in DWARF.
    Register(u16),
    /// Nowhere: it may not be passed at all.
    Nowhere,
}

/// A type. Sizes are bytes.
#[derive(Debug, Clone)]
pub(super) enum Type {
    Signed(u8),
    Unsigned(u8),
    Boolean(u8),
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
    Enumeration {
        size: u8,
        /// Its number in the trace.
        number: u32,
    },
    Structure(Rc<Structure>),
    /// Not understood.
    Unknown,
}

/// A structure, class, union or array.
#[derive(Debug, Clone, Default)]
pub(super) struct Structure {
    pub(super) size: u64,
    /// Its alignment by the ABI, as far as it's more than 8.
    pub(super) is_aligned_to_16: bool,
    /// It's passed by a pointer to it: copying it takes a function.
    pub(super) is_by_reference: bool,
    /// It is a `std::string`.
    pub(super) is_string: bool,
    pub(super) fields: Vec<Field>,
}

#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) offset: u64,
    pub(super) kind: Type,
    /// It's a part of a byte, or an element of an array or union: it counts for where the structure is passed, and isn't shown.
    pub(super) is_hidden: bool,
}

impl Type {
    /// Bytes; 0 if not known.
    pub(super) fn size(&self) -> u64 {
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
