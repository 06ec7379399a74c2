//! The meaning of the new object's names in the program: functions and variables, static ones too.
//!
//! A dynamic linker would only look at dynamic symbols. What's patched in takes the place of code of the program, so it sees
//! what that code sees: all symbols of its module first, then what other modules export, as a dynamic linker would find
//! it, then what is static elsewhere. A static name that several source files have is ambiguous; `FILE.c:name` says
//! which one is meant (`extern int name __asm__("\"FILE.c:name\"");`).

use super::super::maps;
use super::super::program::Program;
use super::arch;
use super::fix::version;
use crate::debug::separate::Search;
use mcount_ptrace::Memory;
use object::Endianness;
use object::elf;
use object::read::elf::{ElfFile64, ProgramHeader, Sym};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

/// The kind of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Function,
    /// The address is that of a function that chooses one.
    Chooser,
    Data,
    /// The address is an offset in its module's thread-local storage.
    ThreadLocal,
}

/// One definition in the program.
#[derive(Debug, Clone)]
pub(super) struct Definition {
    /// The place of its module in the program's list.
    pub(super) module: usize,
    /// Its address in memory.
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) kind: Kind,
    /// It's static.
    pub(super) is_local: bool,
    /// Other modules can see it.
    is_exported: bool,
    version: Option<String>,
    is_hidden_version: bool,
    /// The source file of a static one.
    pub(super) file: Option<String>,
}

/// Why a name means nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Missing {
    Unknown,
    /// Several static ones have it, in these source files.
    Ambiguous(Vec<String>),
}

/// The names that matter, in all modules.
pub(super) struct Names {
    all: HashMap<String, Vec<Definition>>,
    /// Parts and copies of functions that the compiler has made: by the function's name, what's appended to it.
    parts: HashMap<String, Vec<(String, Definition)>>,
    /// Modules in the order in which a dynamic linker looks.
    order: Vec<usize>,
    /// The program itself.
    main: Option<usize>,
    /// Modules that have no symbols but those for the dynamic linker.
    pub(super) stripped: Vec<PathBuf>,
    /// The program's thread-local storage, from the thread pointer on.
    storage: Option<u64>,
}

/// A name without the source file before it.
pub(super) fn bare(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once(':') {
        Some((file, name)) if !file.is_empty() && !name.is_empty() => (name, Some(file)),
        _ => (name, None),
    }
}

impl Names {
    /// Looks for `wanted`, which are bare.
    pub(super) fn of(program: &Program, memory: &Memory, wanted: &HashSet<&str>) -> Self {
        let mut names = Self {
            all: HashMap::new(),
            parts: HashMap::new(),
            order: Vec::new(),
            main: None,
            stripped: Vec::new(),
            storage: None,
        };
        for (place, one) in program.loaded.iter().enumerate() {
            let Some(module) = program.module(one) else { continue };
            let Ok(file) = ElfFile64::<Endianness>::parse(one.bytes()) else { continue };
            if module.path == program.path {
                names.main = Some(place);
                names.storage = storage(&file);
            }
            let mut reader = Reader { names: &mut names, wanted, module: place, bias: one.bias };
            reader.read(&file, one.bytes(), true);
            if !file.elf_symbol_table().is_empty() {
                reader.read(&file, one.bytes(), false);
                continue;
            }
            let search = Search::default();
            let debug = search.find(one.bytes(), &maps::without_deleted(&module.path).0);
            let symbols = debug.as_ref().map(|debug| debug.contents.bytes());
            match symbols.map(|bytes| (bytes, ElfFile64::<Endianness>::parse(bytes))) {
                Some((bytes, Ok(file))) => reader.read(&file, bytes, false),
                _ => names.stripped.push(module.path.clone()),
            }
        }
        names.order = order(program, memory, names.main);
        names
    }

    /// Where the program's own thread-local variable is, from the thread pointer on.
    pub(super) fn variable(&self, one: &Definition) -> Option<u64> {
        let is_own = Some(one.module) == self.main && one.kind == Kind::ThreadLocal;
        Some(self.storage.filter(|_| is_own)?.wrapping_add(one.address))
    }

    /// Functions with this name that can be meant by one that is to replace it; those of the program itself before others.
    pub(super) fn functions(&self, name: &str) -> Result<Vec<Definition>, Missing> {
        let (name, file) = bare(name);
        let is_meant = |one: &&Definition| {
            one.kind == Kind::Function && file.is_none_or(|file| is_file(one, file))
        };
        let all = self.all.get(name).into_iter().flatten().filter(is_meant);
        let mut all: Vec<Definition> = all.cloned().collect();
        if all.iter().any(|one| Some(one.module) == self.main) {
            all.retain(|one| Some(one.module) == self.main);
        }
        all.sort_by_key(|one| (one.module, one.address, one.file.is_none()));
        all.dedup_by_key(|one| (one.module, one.address));
        if all.len() > 1 {
            return Err(Missing::Ambiguous(files(&all)));
        }
        Ok(all)
    }

    /// The parts that the compiler has put elsewhere, and copies that it has made, of a function.
    pub(super) fn parts(
        &self,
        name: &str,
        module: usize,
    ) -> impl Iterator<Item = &(String, Definition)> {
        let all = self.parts.get(bare(name).0).into_iter().flatten();
        all.filter(move |(_, one)| one.module == module)
    }

    /// The meaning of an undefined reference, in an object that patches the modules `homes`.
    pub(super) fn find(
        &self,
        name: &str,
        version: Option<&str>,
        homes: &[usize],
    ) -> Result<Definition, Missing> {
        let (bare, file) = bare(name);
        let Some(all) = self.all.get(bare) else { return Err(Missing::Unknown) };
        if let Some(file) = file {
            return only(all.iter().filter(|one| is_file(one, file)));
        }
        let is_home =
            |one: &Definition| homes.contains(&one.module) || Some(one.module) == self.main;
        let is_fitting = |one: &&Definition| match (version, &one.version) {
            (Some(wanted), Some(found)) => wanted == found,
            (None, Some(_)) => !one.is_hidden_version,
            (_, None) => true,
        };
        let inner =
            all.iter().find(|one| homes.contains(&one.module) && !one.is_local && !one.is_exported);
        if let Some(one) = inner {
            return Ok(one.clone());
        }
        for module in &self.order {
            let has = |one: &&Definition| {
                let is_main = Some(*module) == self.main;
                one.module == *module && !one.is_local && (one.is_exported || is_main)
            };
            if let Some(one) = all.iter().filter(is_fitting).find(has) {
                return Ok(one.clone());
            }
        }
        let mut inner = all.iter().filter(|one| one.is_local && is_home(one)).peekable();
        if inner.peek().is_some() {
            return only(inner);
        }
        only(all.iter().filter(|one| !one.is_exported))
    }
}

/// Is it a static one of this source file?
fn is_file(one: &Definition, file: &str) -> bool {
    one.is_local
        && one.file.as_deref().is_some_and(|found| {
            found == file || found.strip_suffix(file).is_some_and(|rest| rest.ends_with('/'))
        })
}

fn files(all: &[Definition]) -> Vec<String> {
    let file = |one: &Definition| one.file.clone().unwrap_or_else(|| "?".to_owned());
    let mut files: Vec<String> = all.iter().map(file).collect();
    files.sort();
    files
}

/// The only one of these, but for other names of it.
fn only<'d>(all: impl Iterator<Item = &'d Definition>) -> Result<Definition, Missing> {
    let mut found: Vec<Definition> = Vec::new();
    for one in all {
        if !found.iter().any(|other| (other.module, other.address) == (one.module, one.address)) {
            found.push(one.clone());
        }
    }
    match found.as_slice() {
        [] => Err(Missing::Unknown),
        [one] => Ok(one.clone()),
        _ => Err(Missing::Ambiguous(files(&found))),
    }
}

/// Reads one module's symbols.
struct Reader<'n, 'w> {
    names: &'n mut Names,
    wanted: &'w HashSet<&'w str>,
    module: usize,
    bias: u64,
}

impl Reader<'_, '_> {
    fn read(&mut self, file: &ElfFile64<'_, Endianness>, bytes: &[u8], is_dynamic: bool) {
        let endian = file.endian();
        let table =
            if is_dynamic { file.elf_dynamic_symbol_table() } else { file.elf_symbol_table() };
        let versions =
            is_dynamic.then(|| file.elf_section_table().versions(endian, bytes).ok()).flatten();
        let versions = versions.flatten();
        let mut source = None;
        for (index, symbol) in table.enumerate() {
            let Ok(Ok(name)) = symbol.name(endian, table.strings()).map(std::str::from_utf8) else {
                continue;
            };
            let is_local = symbol.st_bind() == elf::STB_LOCAL;
            if symbol.st_type() == elf::STT_FILE {
                source = is_local.then(|| name.to_owned()).filter(|name| !name.is_empty());
                continue;
            }
            if symbol.is_undefined(endian) || symbol.is_common(endian) {
                continue;
            }
            let name = name.split('@').next().unwrap_or_default();
            let function = name.split_once('.').map(|(function, _)| function);
            let is_part = function.is_some_and(|function| self.wanted.contains(function));
            if !is_part && !self.wanted.contains(name) {
                continue;
            }
            let kind = match symbol.st_type() {
                elf::STT_FUNC => Kind::Function,
                elf::STT_GNU_IFUNC => Kind::Chooser,
                elf::STT_TLS => Kind::ThreadLocal,
                _ => Kind::Data,
            };
            // Absolute symbols, and those of thread-local storage, don't move with the module.
            let is_fixed = symbol.is_absolute(endian) || kind == Kind::ThreadLocal;
            let bias = if is_fixed { 0 } else { self.bias };
            let definition = Definition {
                module: self.module,
                address: bias.wrapping_add(symbol.st_value(endian)),
                size: symbol.st_size(endian),
                kind,
                is_local,
                is_exported: is_dynamic,
                version: version(versions.as_ref(), endian, index),
                is_hidden_version: versions
                    .as_ref()
                    .is_some_and(|versions| versions.version_index(endian, index).is_hidden()),
                file: source.clone().filter(|_| is_local),
            };
            self.add(name, function.filter(|_| is_part), definition);
        }
    }

    fn add(&mut self, name: &str, function: Option<&str>, definition: Definition) {
        if let Some(function) = function.filter(|_| definition.kind == Kind::Function) {
            let part = name.get(function.len()..).unwrap_or_default().to_owned();
            self.names.parts.entry(function.to_owned()).or_default().push((part, definition));
            return;
        }
        let known = self.names.all.entry(name.to_owned()).or_default();
        // A dynamic symbol is in the other table, too.
        let is_same = |one: &Definition| {
            !definition.is_local
                && one.is_exported
                && (one.module, one.address) == (definition.module, definition.address)
        };
        if !known.iter().any(is_same) {
            known.push(definition);
        }
    }
}

/// Where the thread-local storage of a program is, from the thread pointer on.
fn storage(file: &ElfFile64<'_, Endianness>) -> Option<u64> {
    let endian = file.endian();
    let mut headers = file.elf_program_headers().iter();
    let header = headers.find(|one| one.p_type(endian) == elf::PT_TLS)?;
    Some(arch::program_storage(header.p_memsz(endian), header.p_align(endian)))
}

/// Modules in the order in which the dynamic linker has them (`struct link_map`, which debuggers use).
fn order(program: &Program, memory: &Memory, main: Option<usize>) -> Vec<usize> {
    let mut order: Vec<usize> = main.into_iter().collect();
    for bias in main.and_then(|main| link_maps(program, memory, main)).unwrap_or_default() {
        let place = program.loaded.iter().position(|one| one.bias == bias);
        order.extend(place.filter(|place| !order.contains(place)));
    }
    for place in 0..program.loaded.len() {
        if !order.contains(&place) {
            order.push(place);
        }
    }
    order
}

fn link_maps(program: &Program, memory: &Memory, main: usize) -> Option<Vec<u64>> {
    const DT_DEBUG: u64 = 21;
    const MOST: usize = 4096;
    let one = program.loaded.get(main)?;
    let file = ElfFile64::<Endianness>::parse(one.bytes()).ok()?;
    let endian = file.endian();
    let mut headers = file.elf_program_headers().iter();
    let header = headers.find(|one| one.p_type(endian) == elf::PT_DYNAMIC)?;
    let count = usize::try_from(header.p_memsz(endian) / 8).ok()?.min(MOST);
    let words = memory.words(one.bias.wrapping_add(header.p_vaddr(endian)), count).ok()?;
    let debug =
        words.chunks_exact(2).find(|pair| pair.first() == Some(&DT_DEBUG))?.get(1).copied()?;
    let mut next = memory.word(debug.checked_add(8)?).ok()?;
    let mut all = Vec::new();
    while next != 0 && all.len() < MOST {
        all.push(memory.word(next).ok()?);
        next = memory.word(next.checked_add(24)?).ok()?;
    }
    Some(all)
}
