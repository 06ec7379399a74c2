//! A linked ELF file as it's loaded: what is code, what is data, what words lead to, and what is where by its symbols.
//!
//! Source: gABI, "Program Header", "Dynamic Section"; for RELR, the gABI's "Relative Relocations"; ELF for the Arm 64-bit
//! Architecture, 5.5.3 ("Mapping symbols").

use crate::usdt;
use mcount_cpu::probe::{Probes, Relocations};
use mcount_cpu::{aarch64, x86_64};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{Endianness, Object, SymbolIndex, elf};
use std::ops::Range;

/// A file, parsed.
type File<'d> = ElfFile64<'d, Endianness>;

/// The processors whose files can be planned.
const PROCESSORS: [&Probes; 2] = [&x86_64::probe::PROBES, &aarch64::probe::PROBES];

/// Where the kernel's half of the addresses begins.
const KERNEL: u64 = 1 << 47;

/// Sections of Go programs. Go's runtime looks up return addresses in its table of functions.
const GO: [&[u8]; 3] = [b".gopclntab", b".data.rel.ro.gopclntab", b".note.go.buildid"];

/// Symbols of runtimes that look up return addresses, too: OCaml's, Haskell's, the Java machine `HotSpot` (its debugger needs
/// this one), `CoreCLR` (so does its debugger), Mono, and what Mono compiled ahead of time.
const WALKERS: [&[u8]; 7] = [
    b"caml_frametable",
    b"caml_system__frametable",
    b"stg_upd_frame_info",
    b"gHotSpotVMStructs",
    b"DotNetRuntimeInfo",
    b"mono_jit_init",
    b"mono_aot_file_info",
];

/// How names of V8's functions begin (`v8::…`). Code that V8 makes calls those of its interface for C++ directly, and V8
/// looks up the return address of that call. So what uses the interface is meant as well: Node.js's addons.
const V8: [&[u8]; 2] = [b"_ZN2v8", b"_ZNK2v8"];

/// gABI, "Dynamic Array Tags".
const DT_PLTRELSZ: u64 = 2;
const DT_STRTAB: u64 = 5;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_SONAME: u64 = 14;
const DT_JMPREL: u64 = 23;
const DT_RELRSZ: u64 = 35;
const DT_RELR: u64 = 36;

/// A function or another symbol that's defined in code.
#[derive(Debug, Clone, Copy)]
pub(super) struct Symbol<'d> {
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) name: &'d str,
    pub(super) is_function: bool,
    pub(super) is_resolver: bool,
}

/// A word that has an address in it when the module runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word {
    /// Where it is.
    pub(super) at: u64,
    /// The address in it.
    pub(super) target: u64,
}

/// What kind of module it is, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Ordinary,
    DynamicLinker,
    Vdso,
    /// Its language's runtime walks the stack by return addresses.
    WalksStack,
}

/// A linked file.
#[derive(Debug)]
pub(super) struct Image<'d> {
    pub(super) processor: &'static Probes,
    /// Address and bytes of each segment, as far as they're in the file, ascending.
    segments: Vec<(u64, &'d [u8])>,
    dynamic: &'d [u8],
    /// Address and bytes of executable sections, ascending, and apart.
    pub(super) code: Vec<(u64, &'d [u8])>,
    /// Address and bytes of data, without the sections that only the dynamic linker or an unwinder reads.
    pub(super) data: Vec<(u64, &'d [u8])>,
    /// Procedure linkage tables.
    pub(super) linkage: Vec<Range<u64>>,
    /// `.eh_frame`.
    pub(super) frames: (u64, &'d [u8]),
    /// Addresses are those of the process: the file isn't position-independent.
    pub(super) is_fixed: bool,
    /// Where the kernel or the dynamic linker begins to execute it.
    pub(super) entry: u64,
    pub(super) role: Role,
    pub(super) symbols: Vec<Symbol<'d>>,
    pub(super) words: Vec<Word>,
    /// Where relocations change code, ascending.
    pub(super) relocated: Vec<u64>,
    /// Words that entries of a procedure linkage table jump by, ascending.
    pub(super) slots: Vec<u64>,
    /// Functions that relocations without a symbol call.
    pub(super) resolvers: Vec<u64>,
    /// Data between instructions, as far as symbols tell; ascending.
    pub(super) literals: Vec<Range<u64>>,
    /// Where the notes say that markers are, ascending.
    pub(super) markers: Vec<u64>,
}

impl<'d> Image<'d> {
    /// Reads the file `bytes`. `None` if it isn't a linked ELF file for a processor that can have probes.
    pub(super) fn read(bytes: &'d [u8]) -> Option<Self> {
        let file = File::parse(bytes).ok()?;
        let (endian, header) = (file.endian(), file.elf_header());
        let kind = header.e_type(endian);
        let is_linked = kind == elf::ET_EXEC || kind == elf::ET_DYN;
        let machine = header.e_machine(endian).0;
        let processor = PROCESSORS.into_iter().find(|one| one.machine == machine)?;
        if !is_linked || !file.is_little_endian() {
            return None;
        }
        let mut headers = file.elf_program_headers().iter();
        if headers.any(|one| one.p_vaddr(endian) >= KERNEL) {
            return None;
        }
        let mut image = Self {
            processor,
            segments: segments(&file, |_| true),
            code: Vec::new(),
            data: Vec::new(),
            linkage: Vec::new(),
            frames: (0, &[]),
            is_fixed: kind == elf::ET_EXEC,
            entry: header.e_entry(endian),
            role: Role::Ordinary,
            dynamic: dynamic(&file),
            symbols: Vec::new(),
            words: Vec::new(),
            relocated: Vec::new(),
            slots: Vec::new(),
            resolvers: Vec::new(),
            literals: Vec::new(),
            markers: usdt::markers(&file).iter().map(|marker| marker.site).collect(),
        };
        image.read_role();
        image.read_sections(&file);
        image.read_symbols(&file);
        image.read_relocations(&file);
        Some(image)
    }

    /// The bytes from `address` to the end of its segment in the file; none if the file has nothing there.
    pub(super) fn at(&self, address: u64) -> &'d [u8] {
        at(&self.segments, address)
    }

    /// The code from `address` to the end of its section; none if there's no code.
    pub(super) fn code_at(&self, address: u64) -> &'d [u8] {
        at(&self.code, address)
    }

    /// The code from one address to another; none if that isn't all in one section.
    pub(super) fn code_between(&self, start: u64, end: u64) -> &'d [u8] {
        let length = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
        self.code_at(start).get(..length).unwrap_or_default()
    }

    /// Whether `address` is executed.
    pub(super) fn is_code(&self, address: u64) -> bool {
        !self.code_at(address).is_empty()
    }

    /// Sorts what is loaded into code and data, by sections; if there are none, by segments.
    fn read_sections(&mut self, file: &File<'d>) {
        let endian = file.endian();
        let is_executed =
            |header: &elf::ProgramHeader64<Endianness>| header.p_flags(endian).0 & elf::PF_X.0 != 0;
        let sections = file.elf_section_table();
        for section in sections.iter() {
            let flags = section.sh_flags(endian).0;
            let Ok(bytes) = section.data(endian, file.data()) else { continue };
            if flags & elf::SHF_ALLOC.0 == 0 || bytes.is_empty() {
                continue;
            }
            let start = section.sh_addr(endian);
            let name = sections.section_name(endian, section).unwrap_or_default();
            if GO.contains(&name) {
                self.role = Role::WalksStack;
            }
            if name == b".eh_frame" {
                self.frames = (start, bytes);
            } else if flags & elf::SHF_EXECINSTR.0 != 0 {
                self.code.push((start, bytes));
                if name.starts_with(b".plt") || name == b".iplt" {
                    self.linkage.push(start..start.saturating_add(bytes.len() as u64));
                }
            } else if section.sh_type(endian) == elf::SHT_PROGBITS && !is_of_runtime(name) {
                self.data.push((start, bytes));
            }
        }
        if self.code.is_empty() {
            self.code = segments(file, is_executed);
            self.data = segments(file, |header| !is_executed(header));
        }
        apart(&mut self.code);
        apart(&mut self.data);
        if self.frames.1.is_empty() {
            self.frames = self.frames_by_segment(file).unwrap_or((0, &[]));
        }
    }

    /// `.eh_frame` by its index, which has a segment; to the end of its segment.
    fn frames_by_segment(&self, file: &File<'d>) -> Option<(u64, &'d [u8])> {
        let endian = file.endian();
        let headers = file.elf_program_headers();
        let index = headers.iter().find(|header| header.p_type(endian) == elf::PT_GNU_EH_FRAME)?;
        let at = index.p_vaddr(endian);
        // Linkers only make this form: the distance from here, in four bytes.
        let (head, rest) = self.at(at).split_first_chunk()?;
        let [1, 0x1b, _, _] = head else { return None };
        let distance = i64::from(i32::from_le_bytes(*rest.first_chunk()?));
        let start = at.wrapping_add(4).wrapping_add_signed(distance);
        Some((start, self.at(start)))
    }

    fn read_symbols(&mut self, file: &File<'d>) {
        let mut maps = Vec::new();
        let mut left = file.data().len().saturating_mul(64).saturating_add(1 << 20);
        for table in [file.elf_symbol_table(), file.elf_dynamic_symbol_table()] {
            let endian = file.endian();
            for symbol in table.iter() {
                let kind = symbol.st_type();
                let is_resolver = kind == elf::STT_GNU_IFUNC;
                let address = symbol.st_value(endian);
                let is_place = matches!(kind, elf::STT_FUNC | elf::STT_NOTYPE | elf::STT_GNU_IFUNC);
                let name = symbol.name(endian, table.strings()).unwrap_or_default();
                if V8.iter().any(|prefix| name.starts_with(prefix)) {
                    self.role = Role::WalksStack;
                }
                if symbol.is_undefined(endian) {
                    continue;
                }
                if WALKERS.contains(&name) {
                    self.role = Role::WalksStack;
                }
                if !is_place || !self.is_code(address) {
                    continue;
                }
                if let Some(is_data) = self.mapping(name) {
                    maps.push((address, is_data));
                    continue;
                }
                // Names can overlap, so they could be many times the file's size.
                let Some(rest) = left.checked_sub(name.len()) else { break };
                left = rest;
                self.symbols.push(Symbol {
                    address,
                    size: symbol.st_size(endian),
                    name: std::str::from_utf8(name).unwrap_or_default(),
                    is_function: is_resolver || kind == elf::STT_FUNC,
                    is_resolver,
                });
            }
        }
        self.read_literals(maps);
    }

    /// Whether data follows a mapping symbol; `None` if it's none.
    fn mapping(&self, name: &[u8]) -> Option<bool> {
        let kind = name.split(|byte| *byte == b'.').next()?;
        match kind {
            b"$d" if self.processor.has_mapping_symbols => Some(true),
            b"$x" if self.processor.has_mapping_symbols => Some(false),
            _ => None,
        }
    }

    /// Data in code: from a symbol that says so to the next one that says something else, or to the end of the section.
    fn read_literals(&mut self, mut maps: Vec<(u64, bool)>) {
        // The order of the table decides where two are at the same address.
        maps.sort_by_key(|(start, _)| *start);
        let nexts = maps.iter().skip(1).map(|(next, _)| *next).chain([u64::MAX]);
        let mut found: Vec<Range<u64>> = Vec::new();
        for ((start, is_data), next) in maps.iter().zip(nexts) {
            let end = next.min(start.saturating_add(self.code_at(*start).len() as u64));
            if *is_data && *start < end {
                found.push(*start..end);
            }
        }
        self.literals = found;
    }

    /// The value of the first entry of the dynamic section with `tag`; 0 if there's none.
    fn dynamic(&self, tag: u64) -> u64 {
        let entries = self.dynamic.chunks_exact(16).map(|entry| (word(entry, 0), word(entry, 8)));
        let mut entries = entries.take_while(|(tag, _)| *tag != 0);
        entries.find(|(one, _)| *one == tag).map_or(0, |(_, value)| value)
    }

    /// The bytes of the table whose address and size in bytes the dynamic section has by these tags.
    fn table(&self, address: u64, size: u64) -> &'d [u8] {
        let bytes = self.at(self.dynamic(address));
        let size = usize::try_from(self.dynamic(size)).unwrap_or(usize::MAX);
        bytes.get(..size).unwrap_or(bytes)
    }

    /// What kind of module it is, by its name for the dynamic linker.
    fn read_role(&mut self) {
        let name = self.at(self.dynamic(DT_STRTAB).saturating_add(self.dynamic(DT_SONAME)));
        if self.dynamic(DT_SONAME) == 0 {
            return;
        }
        if name.starts_with(b"ld-linux") || name.starts_with(b"ld.so") {
            self.role = Role::DynamicLinker;
        } else if name.starts_with(b"linux-vdso.") || name.starts_with(b"linux-gate.") {
            self.role = Role::Vdso;
        }
    }

    fn read_relocations(&mut self, file: &File<'d>) {
        for (start, size) in [(DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)] {
            for entry in self.table(start, size).chunks_exact(24) {
                self.read_relocation(file, [word(entry, 0), word(entry, 8), word(entry, 16)]);
            }
        }
        self.read_relative();
        self.relocated.sort_unstable();
        self.relocated.dedup();
        self.slots.sort_unstable();
    }

    fn read_relocation(&mut self, file: &File<'d>, [at, info, addend]: [u64; 3]) {
        let kind = u32::try_from(info & u64::from(u32::MAX)).unwrap_or(0);
        if kind == 0 {
            return;
        }
        if self.is_code(at) {
            self.relocated.push(at);
        }
        let Relocations { absolute, glob_dat, jump_slot, relative, irelative } =
            self.processor.relocations;
        if kind == jump_slot {
            self.slots.push(at);
        }
        let target = match kind {
            _ if kind == relative || kind == irelative => addend,
            _ if [absolute, glob_dat, jump_slot].contains(&kind) => {
                let endian = file.endian();
                let index = usize::try_from(info >> 32).unwrap_or(0);
                let symbol = file.elf_dynamic_symbol_table().symbol(SymbolIndex(index));
                let Some(symbol) = symbol.ok().filter(|one| !one.is_undefined(endian)) else {
                    return;
                };
                symbol.st_value(endian).wrapping_add(addend)
            }
            _ => return,
        };
        if kind == irelative {
            self.resolvers.push(target);
        }
        if self.is_code(target) {
            self.words.push(Word { at, target });
        }
    }

    /// Reads the table of relative relocations: an address, followed by words whose bits stand for the next 63 words.
    fn read_relative(&mut self) {
        let mut next: u64 = 0;
        for entry in self.table(DT_RELR, DT_RELRSZ).chunks_exact(8) {
            let entry = word(entry, 0);
            if entry & 1 == 0 {
                self.add_relative(entry);
                next = entry.wrapping_add(8);
                continue;
            }
            for bit in (1..64).filter(|bit| entry >> bit & 1 == 1) {
                self.add_relative(next.wrapping_add((bit - 1) * 8));
            }
            next = next.wrapping_add(63 * 8);
        }
    }

    fn add_relative(&mut self, at: u64) {
        let Some(bytes) = self.at(at).first_chunk() else { return };
        let target = u64::from_le_bytes(*bytes);
        if self.is_code(target) {
            self.words.push(Word { at, target });
        }
        if self.is_code(at) {
            self.relocated.push(at);
        }
    }
}

/// The 8 bytes at `offset` as a number; 0 if there are fewer.
pub(super) fn word(bytes: &[u8], offset: usize) -> u64 {
    let bytes = bytes.get(offset..).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The bytes from `address` on, in ranges that ascend.
fn at<'d>(ranges: &[(u64, &'d [u8])], address: u64) -> &'d [u8] {
    let after = ranges.partition_point(|(start, _)| *start <= address);
    let range = after.checked_sub(1).and_then(|before| ranges.get(before));
    let bytes = range.and_then(|(start, bytes)| {
        bytes.get(usize::try_from(address.checked_sub(*start)?).ok()?..)
    });
    bytes.unwrap_or_default()
}

/// Sorts ranges, and leaves out what a range before has, too.
fn apart(ranges: &mut Vec<(u64, &[u8])>) {
    ranges.sort_by_key(|(start, _)| *start);
    let mut end = 0;
    ranges.retain_mut(|(start, bytes)| {
        let skipped = end.max(*start) - *start;
        let rest = usize::try_from(skipped).ok().and_then(|skipped| bytes.get(skipped..));
        let Some(rest) = rest.filter(|rest| !rest.is_empty()) else { return false };
        let Some(new) = (*start + skipped).checked_add(rest.len() as u64) else { return false };
        (*start, *bytes, end) = (*start + skipped, rest, new);
        true
    });
}

/// The loaded segments of `file` that are `meant`.
fn segments<'d>(
    file: &File<'d>,
    is_meant: impl Fn(&elf::ProgramHeader64<Endianness>) -> bool,
) -> Vec<(u64, &'d [u8])> {
    let endian = file.endian();
    let headers = file.elf_program_headers().iter();
    let loaded = headers.filter(|one| one.p_type(endian) == elf::PT_LOAD && is_meant(one));
    let parts =
        loaded.filter_map(|one| Some((one.p_vaddr(endian), one.data(endian, file.data()).ok()?)));
    let mut found = parts.collect();
    apart(&mut found);
    found
}

/// The bytes of the dynamic section.
fn dynamic<'d>(file: &File<'d>) -> &'d [u8] {
    let endian = file.endian();
    let mut headers = file.elf_program_headers().iter();
    let header = headers.find(|header| header.p_type(endian) == elf::PT_DYNAMIC);
    header.and_then(|header| header.data(endian, file.data()).ok()).unwrap_or_default()
}

/// Whether only the dynamic linker or the unwinder reads a section.
fn is_of_runtime(name: &[u8]) -> bool {
    [b".eh_frame_hdr".as_slice(), b".gcc_except_table", b".interp", b".got.plt", b".dynamic"]
        .contains(&name)
}
