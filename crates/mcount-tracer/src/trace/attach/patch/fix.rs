//! The shared object with the new functions, as a file: what is to be mapped, what is to be filled in, and what can't be had.
//!
//! It's an ordinary `gcc -shared -fPIC`. It isn't loaded by a dynamic linker, as static programs have none, and those that
//! have one may hold its lock. So what a dynamic linker does is done here (gABI, "Dynamic Linking"), and what isn't done is
//! refused: thread-local variables of its own, constructors, functions chosen at load time. The file may be anything:
//! all that it says is checked.

use super::arch;
use crate::commit::about;
use crate::files::Input;
use gimli::{BaseAddresses, EhFrame, LittleEndian, UnwindSection};
use mcount_hooks::PAGE;
use nix::libc;
use object::elf;
use object::read::elf::{ElfFile64, ProgramHeader, Sym, VersionTable};
use object::{Endianness, Object, ObjectSection, SymbolIndex};
use std::io;
use std::path::Path;

/// As much as it may have in memory.
const MOST: u64 = 256 << 20;

const DT_PLTRELSZ: u64 = 2;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_INIT: u64 = 12;
const DT_FINI: u64 = 13;
const DT_TEXTREL: u64 = 22;
const DT_JMPREL: u64 = 23;
const DT_INIT_ARRAY: u64 = 25;
const DT_INIT_ARRAYSZ: u64 = 27;
const DT_FLAGS: u64 = 30;
const DF_TEXTREL: u64 = 4;
const DT_RELRSZ: u64 = 35;
const DT_RELR: u64 = 36;

/// Whole pages with one protection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) protection: i32,
}

/// One symbol that other files can see.
#[derive(Debug, Clone)]
pub(super) struct Symbol {
    pub(super) name: String,
    /// The version that it wants, if it's undefined.
    pub(super) version: Option<String>,
    /// Its address, if it's defined.
    pub(super) value: Option<u64>,
    pub(super) size: u64,
    pub(super) is_weak: bool,
    pub(super) is_function: bool,
}

/// A place that is to be filled in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Relocation {
    pub(super) offset: u64,
    pub(super) kind: u32,
    /// Its symbol, by its place in the list; 0 for none.
    pub(super) symbol: usize,
    pub(super) addend: i64,
}

/// The file, read.
pub(super) struct Fix {
    /// Without folders.
    pub(super) name: String,
    /// As it's to be in memory, from address 0 on, but for relocations.
    pub(super) image: Vec<u8>,
    pub(super) segments: Vec<Segment>,
    pub(super) symbols: Vec<Symbol>,
    pub(super) relocations: Vec<Relocation>,
    /// Where its unwind information is, if that has an end.
    pub(super) frames: Option<u64>,
    /// Cold parts of its functions: the function's name, where they begin and end.
    pub(super) cold: Vec<(String, u64, u64)>,
}

fn wrong(text: &str) -> io::Error {
    io::Error::other(text.to_owned())
}

impl Fix {
    /// Reads the file at `path`.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let input = Input::open(path).map_err(|error| about(path, error))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self::parse(name, input.bytes())
            .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
    }

    fn parse(name: String, bytes: &[u8]) -> io::Result<Self> {
        let not_elf = |_| wrong("it isn't a 64-bit ELF file");
        let file = ElfFile64::<Endianness>::parse(bytes).map_err(not_elf)?;
        let header = file.elf_header();
        if file.endian() != Endianness::Little
            || header.e_machine.get(file.endian()).0 != arch::MACHINE
        {
            return Err(wrong("it's for another processor"));
        }
        if header.e_type.get(file.endian()) != elf::ET_DYN {
            return Err(wrong("it isn't a shared object: link it with -shared -fPIC"));
        }
        let (image, segments) = load(&file, bytes)?;
        let mut fix = Self {
            name,
            image,
            segments,
            symbols: symbols(&file, bytes)?,
            relocations: Vec::new(),
            frames: frames(&file),
            cold: cold(&file),
        };
        let dynamic = Dynamic::of(&file, &fix)?;
        dynamic.check_constructors(&file, &fix)?;
        // Those of the start files have names, too.
        let own = [dynamic.get(DT_INIT), dynamic.get(DT_FINI)];
        for symbol in fix.symbols.iter_mut().filter(|one| own.contains(&one.value)) {
            symbol.is_function &= symbol.value.is_none();
        }
        fix.relocations = dynamic.relocations(&fix)?;
        fix.check()?;
        Ok(fix)
    }

    /// Its functions that others can see.
    pub(super) fn functions(&self) -> impl Iterator<Item = &Symbol> {
        self.symbols.iter().filter(|one| one.is_function && one.value.is_some())
    }

    /// Bytes in memory.
    pub(super) fn size(&self) -> u64 {
        self.image.len() as u64
    }

    fn word(&self, address: u64) -> Option<u64> {
        let start = usize::try_from(address).ok()?;
        let bytes = self.image.get(start..start.checked_add(8)?)?;
        bytes.try_into().ok().map(u64::from_le_bytes)
    }

    /// Can all of its relocations be done?
    fn check(&self) -> io::Result<()> {
        let is_writable = |at: u64| {
            let has = |one: &&Segment| (one.start..one.end).contains(&at);
            // What's read-only after relocation is data all the same.
            self.segments.iter().find(has).is_some_and(|one| one.protection & libc::PROT_EXEC == 0)
        };
        for one in &self.relocations {
            let is_inside = one.offset.checked_add(8).is_some_and(|end| end <= self.size());
            if !is_inside {
                return Err(wrong("a relocation is outside of it"));
            }
            if one.kind != arch::NONE && !is_writable(one.offset) {
                return Err(wrong("its code has relocations: compile with -fPIC"));
            }
            if let Some(why) = arch::refusal(one.kind) {
                return Err(wrong(why));
            }
            if one.symbol >= self.symbols.len() {
                return Err(wrong("a relocation has no symbol"));
            }
        }
        Ok(())
    }
}

/// Its segments as they're to be in memory.
fn load(file: &ElfFile64<'_, Endianness>, bytes: &[u8]) -> io::Result<(Vec<u8>, Vec<Segment>)> {
    let endian = file.endian();
    let (mut image, mut segments) = (Vec::new(), Vec::<Segment>::new());
    for header in file.elf_program_headers() {
        let (kind, flags) = (header.p_type(endian), header.p_flags(endian).0);
        if kind == elf::PT_TLS {
            return Err(wrong(
                "it has thread-local variables of its own, which threads that run can't be given",
            ));
        }
        if kind != elf::PT_LOAD {
            continue;
        }
        let (address, size) = (header.p_vaddr(endian), header.p_memsz(endian));
        let end = address.checked_add(size).filter(|end| *end <= MOST);
        let end = end.ok_or_else(|| wrong("it's too large"))?.next_multiple_of(PAGE);
        let start = address & !(PAGE - 1);
        if segments.last().is_some_and(|last| start < last.end) {
            return Err(wrong("its segments overlap, or aren't in order"));
        }
        let data = header.data(endian, bytes).map_err(|()| wrong("it's cut off"))?;
        let protection = [(4, libc::PROT_READ), (2, libc::PROT_WRITE), (1, libc::PROT_EXEC)];
        let protection = protection.iter().filter(|(flag, _)| flags & flag != 0);
        let protection = protection.fold(0, |all, (_, one)| all | one);
        if protection & (libc::PROT_WRITE | libc::PROT_EXEC) == libc::PROT_WRITE | libc::PROT_EXEC {
            return Err(wrong("it has memory that is writable and executable"));
        }
        image.resize(usize::try_from(end).unwrap_or(0), 0);
        let from = usize::try_from(address).unwrap_or(0);
        let room = from.checked_add(data.len()).and_then(|to| image.get_mut(from..to));
        room.ok_or_else(|| wrong("a segment has more bytes than memory"))?.copy_from_slice(data);
        segments.push(Segment { start, end, protection });
    }
    if segments.is_empty() {
        return Err(wrong("it has nothing to load"));
    }
    Ok((image, protect(file, segments)))
}

/// Makes read-only what is to be so after relocation (`PT_GNU_RELRO`).
fn protect(file: &ElfFile64<'_, Endianness>, segments: Vec<Segment>) -> Vec<Segment> {
    let endian = file.endian();
    let header =
        file.elf_program_headers().iter().find(|one| one.p_type(endian) == elf::PT_GNU_RELRO);
    let Some(header) = header else { return segments };
    let start = header.p_vaddr(endian) & !(PAGE - 1);
    let end = header.p_vaddr(endian).saturating_add(header.p_memsz(endian)) & !(PAGE - 1);
    let mut result = Vec::new();
    for one in segments {
        let (from, to) = (start.max(one.start), end.min(one.end));
        if from >= to || one.protection & libc::PROT_WRITE == 0 {
            result.push(one);
            continue;
        }
        let pieces = [
            (one.start, from, one.protection),
            (from, to, libc::PROT_READ),
            (to, one.end, one.protection),
        ];
        let pieces = pieces.into_iter().filter(|(start, end, _)| start < end);
        result.extend(pieces.map(|(start, end, protection)| Segment { start, end, protection }));
    }
    result
}

fn symbols(file: &ElfFile64<'_, Endianness>, bytes: &[u8]) -> io::Result<Vec<Symbol>> {
    let endian = file.endian();
    let table = file.elf_dynamic_symbol_table();
    let versions = file.elf_section_table().versions(endian, bytes).ok().flatten();
    let mut all = Vec::with_capacity(table.len());
    for (index, symbol) in table.enumerate() {
        let name = symbol.name(endian, table.strings()).unwrap_or_default();
        let is_defined = index.0 != 0 && !symbol.is_undefined(endian);
        if is_defined && symbol.st_type() == elf::STT_GNU_IFUNC {
            return Err(wrong("it has functions that are chosen when it's loaded (ifunc)"));
        }
        // clang keeps the quotes of names that it wouldn't need them for.
        let name = String::from_utf8_lossy(name);
        let bare = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
        all.push(Symbol {
            name: bare.unwrap_or(&name).to_owned(),
            version: if is_defined { None } else { version(versions.as_ref(), endian, index) },
            value: is_defined.then(|| symbol.st_value(endian)),
            size: symbol.st_size(endian),
            is_weak: symbol.st_bind() == elf::STB_WEAK,
            is_function: symbol.st_type() == elf::STT_FUNC,
        });
    }
    Ok(all)
}

/// The version of one symbol.
pub(super) fn version(
    versions: Option<&VersionTable<'_, elf::FileHeader64<Endianness>>>,
    endian: Endianness,
    index: SymbolIndex,
) -> Option<String> {
    let versions = versions?;
    let version = versions.version(versions.version_index(endian, index).index()).ok()??;
    Some(String::from_utf8_lossy(version.name()).into_owned())
}

/// Its unwind information, if there is some, and it ends as the unwinder expects.
fn frames(file: &ElfFile64<'_, Endianness>) -> Option<u64> {
    let section = file.section_by_name(".eh_frame")?;
    let bytes = section.data().ok()?;
    if section.address() == 0 || !bytes.ends_with(&[0; 4]) {
        return None;
    }
    let mut frames = EhFrame::new(bytes, LittleEndian);
    frames.set_address_size(8);
    let bases = BaseAddresses::default().set_eh_frame(section.address());
    let mut entries = frames.entries(&bases);
    let mut count = 0;
    while entries.next().ok()?.is_some() {
        count += 1;
    }
    (count != 0).then(|| section.address())
}

/// Parts of functions that the compiler has put elsewhere, as they're hardly needed.
fn cold(file: &ElfFile64<'_, Endianness>) -> Vec<(String, u64, u64)> {
    let endian = file.endian();
    let table = file.elf_symbol_table();
    let mut all = Vec::new();
    for symbol in table.iter().filter(|one| one.st_type() == elf::STT_FUNC) {
        let name =
            String::from_utf8_lossy(symbol.name(endian, table.strings()).unwrap_or_default());
        if let Some((function, _)) = name.split_once(".cold") {
            let start = symbol.st_value(endian);
            all.push((function.to_owned(), start, start.saturating_add(symbol.st_size(endian))));
        }
    }
    all
}

/// The dynamic section: what there is to be done.
struct Dynamic(Vec<(u64, u64)>);

impl Dynamic {
    fn of(file: &ElfFile64<'_, Endianness>, fix: &Fix) -> io::Result<Self> {
        let endian = file.endian();
        let mut headers = file.elf_program_headers().iter();
        let header = headers.find(|one| one.p_type(endian) == elf::PT_DYNAMIC);
        let header = header.ok_or_else(|| wrong("it has no dynamic section"))?;
        let (start, count) = (header.p_vaddr(endian), header.p_memsz(endian).min(MOST) / 16);
        let mut all = Vec::new();
        for place in 0..count {
            let at = start.saturating_add(16 * place);
            let pair = fix.word(at).zip(at.checked_add(8).and_then(|at| fix.word(at)));
            let (tag, value) = pair.ok_or_else(|| wrong("its dynamic section is outside of it"))?;
            if tag == 0 {
                break;
            }
            all.push((tag, value));
        }
        Ok(Self(all))
    }

    fn get(&self, tag: u64) -> Option<u64> {
        self.0.iter().find(|(found, _)| *found == tag).map(|(_, value)| *value)
    }

    /// A compiler's start file has one function in the list that does nothing in such an object. More aren't run, so
    /// the object would miss them.
    fn check_constructors(&self, file: &ElfFile64<'_, Endianness>, fix: &Fix) -> io::Result<()> {
        let count = self.get(DT_INIT_ARRAYSZ).unwrap_or(0) / 8;
        if count == 0 {
            return Ok(());
        }
        let first = self.get(DT_INIT_ARRAY).unwrap_or(0);
        let relative = Dynamic::relocations(self, fix)?;
        let relative = relative.iter().find(|one| one.offset == first);
        let target =
            relative.map_or_else(|| fix.word(first).unwrap_or(0), |one| one.addend.cast_unsigned());
        let endian = file.endian();
        let table = file.elf_symbol_table();
        let is_known = |name: &[u8]| [b"frame_dummy".as_slice(), b"__frame_dummy"].contains(&name);
        let mut named = table.iter().filter(|one| one.st_value(endian) == target);
        let is_empty = table.is_empty()
            || named.any(|one| one.name(endian, table.strings()).is_ok_and(is_known));
        if count > 1 || !is_empty {
            return Err(wrong("it has constructors, which aren't run"));
        }
        Ok(())
    }

    fn relocations(&self, fix: &Fix) -> io::Result<Vec<Relocation>> {
        if self.get(DT_TEXTREL).is_some() || self.get(DT_FLAGS).unwrap_or(0) & DF_TEXTREL != 0 {
            return Err(wrong("its code has relocations: compile with -fPIC"));
        }
        let outside = || wrong("its relocations are outside of it");
        let mut all = Vec::new();
        for (start, size) in [(DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)] {
            let Some(start) = self.get(start) else { continue };
            for place in 0..self.get(size).unwrap_or(0).min(MOST) / 24 {
                let at = start.checked_add(24 * place).ok_or_else(outside)?;
                let word = |offset: u64| at.checked_add(offset).and_then(|at| fix.word(at));
                let (offset, info) = word(0).zip(word(8)).ok_or_else(outside)?;
                all.push(Relocation {
                    offset,
                    kind: u32::try_from(info & 0xffff_ffff).unwrap_or(0),
                    symbol: usize::try_from(info >> 32).map_err(|_| outside())?,
                    addend: word(16).ok_or_else(outside)?.cast_signed(),
                });
            }
        }
        if let Some(start) = self.get(DT_RELR) {
            packed(fix, (start, self.get(DT_RELRSZ).unwrap_or(0)), &mut all).ok_or_else(outside)?;
        }
        Ok(all)
    }
}

/// Relative relocations as bits of words (gABI, `DT_RELR`): an address, then words whose other bits mean the next 63.
fn packed(fix: &Fix, (start, size): (u64, u64), all: &mut Vec<Relocation>) -> Option<()> {
    let mut next = 0_u64;
    let mut add = |at: u64| {
        let addend = fix.word(at)?.cast_signed();
        all.push(Relocation { offset: at, kind: arch::RELATIVE, symbol: 0, addend });
        Some(())
    };
    for place in 0..size.min(MOST) / 8 {
        let word = fix.word(start.checked_add(8 * place)?)?;
        if word & 1 == 0 {
            add(word)?;
            next = word.checked_add(8)?;
            continue;
        }
        for bit in 0..63 {
            if word >> (bit + 1) & 1 != 0 {
                add(next.checked_add(8 * bit)?)?;
            }
        }
        next = next.checked_add(8 * 63)?;
    }
    Some(())
}
