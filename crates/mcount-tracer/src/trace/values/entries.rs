//! Entries of debug information: small questions to one, and to its neighbours.

use super::types::Type;
use crate::debug::Slice;
use gimli::{AttributeValue, DebuggingInformationEntry, Unit, UnitOffset};
use std::rc::Rc;

pub(super) type Entry<'s> = DebuggingInformationEntry<Slice<'s>>;

/// An entry of a unit.
#[derive(Clone)]
pub(super) struct At<'s> {
    pub(super) unit: Rc<Unit<Slice<'s>>>,
    pub(super) offset: UnitOffset,
}

pub(super) fn language(unit: &Unit<Slice<'_>>) -> Option<gimli::DwLang> {
    let entry = unit.entry(unit.header.root_offset()).ok()?;
    match entry.attr_value(gimli::DW_AT_language) {
        Some(AttributeValue::Language(language)) => Some(language),
        _ => None,
    }
}

/// Are arguments passed as in C? Those that aren't are known to be different.
pub(super) fn is_understood(language: Option<gimli::DwLang>) -> bool {
    let others =
        [gimli::DW_LANG_Go, gimli::DW_LANG_Haskell, gimli::DW_LANG_OCaml, gimli::DW_LANG_D];
    language.is_none_or(|language| !others.contains(&language))
}

pub(super) fn is_void(kind: &Type) -> bool {
    matches!(kind, Type::Structure(of) if of.size == 0)
}

pub(super) fn entry_of<'s>(at: &At<'s>) -> Option<Entry<'s>> {
    at.unit.entry(at.offset).ok()
}

/// Where the entries are that an entry owns.
pub(super) fn children(at: &At<'_>) -> Vec<UnitOffset> {
    let mut found = Vec::new();
    let Ok(mut entries) = at.unit.entries_raw(Some(at.offset)) else { return found };
    let mut entry = Entry::null();
    let top = entries.next_depth();
    let mut is_first = true;
    while !entries.is_empty() {
        let depth = entries.next_depth();
        if !is_first && depth <= top {
            break;
        }
        let is_there = entries.read_entry(&mut entry).unwrap_or(false);
        if !is_first && is_there && depth == top + 1 {
            found.push(entry.offset());
        }
        if is_first && !entry.has_children() {
            break;
        }
        is_first = false;
    }
    found
}

pub(super) fn origin_of<'s>(entry: &Entry<'s>) -> Option<AttributeValue<Slice<'s>>> {
    let names = [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification];
    names.into_iter().find_map(|name| entry.attr_value(name))
}

pub(super) fn number(entry: &Entry<'_>, name: gimli::DwAt) -> Option<u64> {
    entry.attr_value(name)?.udata_value()
}

pub(super) fn base(entry: &Entry<'_>, name: &str) -> Type {
    let Some(size) = number(entry, gimli::DW_AT_byte_size).and_then(|size| u8::try_from(size).ok())
    else {
        return Type::Unknown;
    };
    let Some(AttributeValue::Encoding(encoding)) = entry.attr_value(gimli::DW_AT_encoding) else {
        return Type::Unknown;
    };
    // `signed char` and `unsigned char` are numbers: `int8_t` and `uint8_t`.
    let is_character = name == "char";
    match (encoding, size) {
        (gimli::DW_ATE_boolean, 1..=8) => Type::Boolean(size),
        (gimli::DW_ATE_UTF, 1 | 2 | 4) => Type::Character(size),
        (gimli::DW_ATE_signed_char | gimli::DW_ATE_unsigned_char, 1) if is_character => {
            Type::Character(1)
        }
        (gimli::DW_ATE_signed | gimli::DW_ATE_signed_char, 1..=8) => Type::Signed(size),
        (gimli::DW_ATE_unsigned | gimli::DW_ATE_unsigned_char, 1..=8) => Type::Unsigned(size),
        (gimli::DW_ATE_signed | gimli::DW_ATE_unsigned, 16) => Type::Wide,
        (gimli::DW_ATE_float, 16) if name == "long double" => Type::Extended,
        (gimli::DW_ATE_float, 2 | 4 | 8 | 16) => Type::Float(size),
        _ => Type::Unknown,
    }
}

/// Is it the name of a slice of Rust, other than a text?
pub(super) fn is_slice(name: &str) -> bool {
    let rest = ["&mut ", "&"].iter().find_map(|start| name.strip_prefix(start));
    rest.is_some_and(|rest| rest.starts_with('['))
}

pub(super) fn is_c_plus_plus(language: Option<gimli::DwLang>) -> bool {
    use gimli::{
        DW_LANG_C_plus_plus, DW_LANG_C_plus_plus_03, DW_LANG_C_plus_plus_11, DW_LANG_C_plus_plus_14,
    };
    let all = [
        DW_LANG_C_plus_plus,
        DW_LANG_C_plus_plus_03,
        DW_LANG_C_plus_plus_11,
        DW_LANG_C_plus_plus_14,
    ];
    language.is_none_or(|language| all.contains(&language))
}

/// Does debug information tell of all calls that it makes? LLVM says so of functions that it has optimized.
pub(super) fn is_optimized(function: &Entry<'_>) -> bool {
    [gimli::DW_AT_call_all_calls, gimli::DW_AT_GNU_all_call_sites]
        .into_iter()
        .any(|name| function.attr_value(name).is_some())
}

/// Is it a function that the class has by `= default`? A destructor then does what those of the fields do.
pub(super) fn is_default(function: &Entry<'_>) -> bool {
    number(function, gimli::DW_AT_defaulted) == Some(u64::from(gimli::DW_DEFAULTED_in_class.0))
}

/// Does debug information say that the function can't be called as the ABI has it?
pub(super) fn is_changed(function: &Entry<'_>) -> bool {
    let convention = function.attr_value(gimli::DW_AT_calling_convention);
    matches!(convention, Some(AttributeValue::CallingConvention(gimli::DW_CC_nocall)))
}
