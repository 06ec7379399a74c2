//! A section header, symbol or relocation as bytes, in the file's class and byte order.
//!
//! Sources: gABI, Sections, Symbol Table and Relocation; MIPS 64-bit ELF Object File Specification,
//! 2.9 (`r_info` of little-endian n64).

use super::NewSymbol;
use crate::elf::{Encoder, Section};

/// A section header that only has a name.
pub(crate) fn new_section(name: u32) -> Section {
    Section { name, ..Section::default() }
}

/// Appends a section header to `out`.
pub(crate) fn encode_section(out: &mut Encoder, section: &Section) {
    out.u32(section.name);
    out.u32(section.kind);
    out.word(section.flags);
    out.word(section.address);
    out.word(section.offset);
    out.word(section.size);
    out.u32(section.link);
    out.u32(section.info);
    out.word(section.alignment);
    out.word(section.entry_size);
}

/// Appends a local symbol without a size, of default visibility.
pub(super) fn encode_symbol(out: &mut Encoder, name: u32, symbol: &NewSymbol, section: u16) {
    out.u32(name);
    if out.is_64 {
        out.u8(symbol.kind);
        out.u8(0);
        out.u16(section);
        out.word(symbol.value);
        out.word(0);
    } else {
        out.word(symbol.value);
        out.word(0);
        out.u8(symbol.kind);
        out.u8(0);
        out.u16(section);
    }
}

/// Appends a relocation; with an addend if it is RELA.
pub(crate) fn encode_relocation(
    out: &mut Encoder,
    mips64el: bool,
    rela: bool,
    (offset, symbol, kind, addend): (u64, u32, u32, u64),
) {
    out.word(offset);
    if mips64el {
        // r_sym, r_ssym, r_type3, r_type2, r_type.
        out.u32(symbol);
        out.out.extend([0, 0, 0]);
        out.u8(u8::try_from(kind).unwrap_or_default());
    } else if out.is_64 {
        out.u64(u64::from(symbol) << 32 | u64::from(kind));
    } else {
        out.u32(symbol << 8 | kind);
    }
    if rela {
        out.word(addend);
    }
}
