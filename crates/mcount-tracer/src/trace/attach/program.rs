//! The program of a process that runs: its modules, by what is mapped, and the hooks that are wanted in them.

use super::block::is_ours;
use super::maps::{self, Mapping};
use super::sites::{self, Change, IdleHook, Stubs};
use super::words::Owner;
use crate::commit::Failure;
use crate::files::{ELF_MAGIC, Input, open_regular};
use crate::trace::imports::{self, Import, Way};
use crate::trace::instrumented;
use crate::trace::instrumented_calls;
use crate::trace::library::{self, Library, Planned};
use crate::trace::modules::{Hook, Module, Modules, code_of};
use crate::trace::processor;
use crate::trace::scope::Scope;
use crate::trace::sources;
use crate::trace::stubs::Batch;
use crate::trace::values::{self, Found};
use mcount_hooks::PAGE;
use mcount_ptrace::Memory;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

/// One module, as it's mapped.
pub(super) struct Loaded {
    pub(super) index: usize,
    pub(super) bias: u64,
    input: Input,
    /// A mapping with its code.
    code: Mapping,
}

/// A process's program.
pub(super) struct Program {
    pub(super) process: i32,
    pub(super) path: PathBuf,
    pub(super) modules: Modules,
    pub(super) loaded: Vec<Loaded>,
    /// Modules that can't be read, and values that can't be had, a line each.
    pub(super) notes: Vec<String>,
    /// The recorded arguments and results.
    pub(super) values: Vec<Found>,
    /// Library functions.
    pub(super) library: Library,
    /// Which calls of these are recorded, by the place of the module that makes them in the list.
    pub(super) imports: Vec<(usize, Planned)>,
    /// Modules whose functions tell of their calls themselves.
    pub(super) instrumented: Vec<Instrumented>,
}

/// A module whose functions tell of their calls themselves (`instrumented.rs`).
pub(super) struct Instrumented {
    /// Its place in the list.
    pub(super) place: usize,
    /// How they tell of them.
    pub(super) imports: Vec<Import>,
    /// What the agent is to know of those that are wanted, by the addresses that they tell.
    pub(super) functions: BTreeMap<u64, u32>,
}

impl Program {
    /// Reads all modules of `process`, and decides which of their functions are wanted.
    pub(super) fn read(process: i32, memory: &Memory, scope: &Scope) -> io::Result<Self> {
        let path = std::fs::read_link(format!("/proc/{process}/exe"))?;
        let path = maps::without_deleted(&path).0;
        let modules = Modules::default();
        let (loaded, notes, values) = (Vec::new(), Vec::new(), Vec::new());
        let (library, imports, instrumented) = (Library::default(), Vec::new(), Vec::new());
        let mut all =
            Self { process, path, modules, loaded, notes, values, library, imports, instrumented };
        let maps = maps::read(process)?;
        for map in code_of_files(&maps) {
            let (path, is_deleted) = maps::without_deleted(&map.path);
            if let Err(error) = all.load(map, &path, memory, scope) {
                let why = if is_deleted {
                    "its file is gone".to_owned()
                } else {
                    Failure::from(error).to_string()
                };
                let text = format!("{}: stays idle: {why}", path.display());
                if !all.notes.contains(&text) {
                    all.notes.push(text);
                }
            }
        }
        all.leave_instrumented();
        let mut enumerations = 0;
        for at in 0..all.loaded.len() {
            let Some((index, code)) = all.loaded.get(at).map(|one| (one.index, one.code.clone()))
            else {
                break;
            };
            let file = all.file(&code, &maps::without_deleted(&code.path).0);
            if let Some(module) = all.modules.at_mut(index) {
                all.notes.extend(sources::look(module, &file, scope));
                choose(module, scope);
                let mut found = values::prepare(module, &file, scope, &mut enumerations);
                all.notes.append(&mut found.notes);
                all.values.push(found);
            }
        }
        Ok(all)
    }

    /// Reads the module whose code is in `map`, unless that's none, or known.
    fn load(
        &mut self,
        map: &Mapping,
        path: &Path,
        memory: &Memory,
        scope: &Scope,
    ) -> io::Result<()> {
        let file = self.file(map, path);
        let input = Input::open(&file)?;
        if !input.bytes().starts_with(ELF_MAGIC) {
            return Ok(());
        }
        let Some((bias, start)) = bias(input.bytes(), map)? else { return Ok(()) };
        if self.loaded.iter().any(|one| one.bias == bias && one.code.file() == map.file()) {
            return Ok(());
        }
        if !is_same(input.bytes(), memory, bias.wrapping_add(start)) {
            return Err(io::Error::other("its file isn't what is in memory"));
        }
        let (index, _) = self.modules.get(path, &file, scope)?;
        self.loaded.push(Loaded { index, bias, input, code: map.clone() });
        Ok(())
    }

    /// Where the file of a mapping can be opened: by the mapping itself, if that's allowed.
    fn file(&self, map: &Mapping, path: &Path) -> PathBuf {
        let process = PathBuf::from(format!("/proc/{}", self.process));
        let mapped = process.join(format!("map_files/{:x}-{:x}", map.start, map.end));
        if open_regular(&mapped, OpenOptions::new().read(true)).is_ok() {
            mapped
        } else if path == self.path {
            process.join("exe")
        } else {
            process.join("root").join(path.strip_prefix("/").unwrap_or(path))
        }
    }

    /// Modules of it whose code isn't where it was, by their addresses.
    fn gone(&self, maps: &[Mapping]) -> impl Iterator<Item = (u64, u64)> {
        let gone = self.loaded.iter().filter(|one| !one.is_in(maps));
        gone.filter_map(|one| Some(one.extent(self.module(one)?)))
    }

    /// Has a module gone meanwhile?
    pub(super) fn is_gone(&self, maps: &[Mapping]) -> bool {
        self.gone(maps).next().is_some()
    }

    /// Is all code of files known that the process has mapped by now?
    pub(super) fn has_all_mapped(&self) -> bool {
        let is_known = |map: &Mapping| self.loaded.iter().any(|one| one.code == *map);
        maps::read(self.process).is_ok_and(|maps| code_of_files(&maps).all(is_known))
    }

    /// Takes changes of modules off the list that have gone meanwhile.
    pub(super) fn forget_gone(&self, maps: &[Mapping], changes: &mut Vec<Change>) {
        for (from, to) in self.gone(maps) {
            changes.retain(|change| !(from..to).contains(&change.at));
        }
    }

    /// Decides once more which functions are wanted.
    pub(super) fn choose(&mut self, scope: &Scope) {
        for index in self.loaded.iter().map(|one| one.index) {
            if let Some(module) = self.modules.at_mut(index) {
                choose(module, scope);
            }
        }
    }

    /// Decides which calls of library functions are recorded: those of modules with hooks, and the program's. Numbers of functions that
    /// are known already stay.
    pub(super) fn choose_library(&mut self, memory: &Memory, scope: &Scope) {
        self.imports.clear();
        self.instrumented.clear();
        let has_instrumented = self.has_instrumented();
        if !scope.has_library() && !has_instrumented {
            return;
        }
        let all: Vec<library::Loaded> =
            self.loaded.iter().map(|one| (one.bias, one.index)).collect();
        for one in &self.loaded {
            if let Ok(file) = one.file() {
                self.library.learn(one.index, &file);
            }
        }
        if has_instrumented {
            self.choose_instrumented(&all);
        }
        if !scope.has_library() {
            return;
        }
        for (place, one) in self.loaded.iter().enumerate() {
            let Some(module) = self.modules.at(one.index) else { continue };
            if module.hooks.is_empty() && module.path != self.path {
                continue;
            }
            let Ok(file) = one.file() else { continue };
            let with_value = |import: Import| {
                let value = memory.word(one.bias.wrapping_add(import.word)).ok()?;
                (import.way != Way::Address).then_some((import, value))
            };
            let imports = imports::imports(&file).into_iter().filter_map(with_value);
            let known = (&mut self.modules, scope);
            let planned = self.library.plan(known, (&all, (one.bias, one.index)), imports);
            self.imports.push((place, planned));
        }
    }

    /// Do functions tell of their calls themselves, and are some of them wanted?
    fn has_instrumented(&self) -> bool {
        let mut all = self.loaded.iter().filter_map(|one| self.module(one));
        all.any(is_instrumented)
    }

    /// Decides which functions are recorded that tell of their calls themselves.
    fn choose_instrumented(&mut self, all: &[library::Loaded]) {
        for (place, one) in self.loaded.iter().enumerate() {
            let Some(module) = self.module(one).filter(|module| is_instrumented(module)) else {
                continue;
            };
            let Ok(file) = one.file() else { continue };
            let imports = imports::imports_of(&file, &instrumented::NAMES);
            let own = (one.bias, one.index);
            let functions = instrumented_calls::addresses(module, (all, own), &self.library);
            self.instrumented.push(Instrumented { place, imports, functions });
        }
    }

    /// Leaves functions alone that tell of their calls to somebody else, or in a way that can't be followed.
    fn leave_instrumented(&mut self) {
        if !self.has_instrumented() {
            return;
        }
        let is_owner = |one: &&Loaded| one.file().is_ok_and(|file| instrumented::owner(&file));
        let owner = self.loaded.iter().find(is_owner).and_then(|one| self.module(one));
        let owner =
            owner.map(|owner| instrumented_calls::has_own(&owner.path.display().to_string()));
        for one in &self.loaded {
            let (Ok(file), Some(module)) = (one.file(), self.modules.at_mut(one.index)) else {
                continue;
            };
            if !is_instrumented(module) {
                continue;
            }
            let imports = imports::imports_of(&file, &instrumented::NAMES);
            let is_known = !imports.is_empty() && imports.iter().all(|one| one.way != Way::Address);
            let unknown = (!is_known).then(|| instrumented_calls::UNKNOWN_FORM.to_owned());
            if let Some(why) = owner.clone().or(unknown) {
                module.hooks.retain(|hook| !hook.is_instrumented);
                let path = module.path.display();
                self.notes.push(format!("{path}: {}: {why}", instrumented_calls::NOT_RECORDED));
            }
        }
    }

    pub(super) fn module(&self, one: &Loaded) -> Option<&Module> {
        self.modules.at(one.index)
    }

    /// How many functions are wanted.
    pub(super) fn wanted(&self) -> usize {
        let all = self.loaded.iter().filter_map(|one| self.module(one));
        all.map(|module| module.hooks.iter().filter(|hook| hook.is_wanted).count()).sum()
    }

    /// Has a module LLVM's runtime for its sleds?
    pub(super) fn has_sled_runtime(&self) -> bool {
        self.modules.iter().any(|module| module.has_sled_runtime)
    }

    /// How many functions have hooks.
    pub(super) fn hooks(&self) -> usize {
        self.loaded.iter().filter_map(|one| self.module(one)).map(|one| one.hooks.len()).sum()
    }

    /// The addresses of the first module that has wanted functions.
    pub(super) fn extent(&self) -> (u64, u64) {
        let has_wanted = |module: &Module| module.hooks.iter().any(|hook| hook.is_wanted);
        let all = self.loaded.iter().filter_map(|one| Some((one, self.module(one)?)));
        let mut all = all.filter(|(_, module)| has_wanted(module));
        all.next().map_or((0, 0), |(one, module)| one.extent(module))
    }
}

impl Loaded {
    pub(super) fn extent(&self, module: &Module) -> (u64, u64) {
        (self.bias.wrapping_add(module.extent.0), self.bias.wrapping_add(module.extent.1))
    }

    fn file(&self) -> io::Result<ElfFile64<'_, Endianness>> {
        ElfFile64::parse(self.bytes()).map_err(io::Error::other)
    }

    /// The bytes of its file.
    pub(super) fn bytes(&self) -> &[u8] {
        self.input.bytes()
    }

    /// Is it a program without a dynamic linker?
    pub(super) fn is_static(&self) -> bool {
        const PT_INTERP: u32 = 3;
        let Ok(file) = ElfFile64::<Endianness>::parse(self.bytes()) else { return false };
        let endian = file.endian();
        let mut headers = file.elf_program_headers().iter();
        file.entry() != 0 && headers.all(|one| one.p_type(endian).0 != PT_INTERP)
    }

    /// What is known of it where words of it are changed.
    pub(super) fn owner(&self, module: &Module) -> Owner<'_> {
        Owner { bias: self.bias, extent: self.extent(module), bytes: self.bytes() }
    }

    /// Are both the same file, at the same place?
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.bias == other.bias && self.code.file() == other.code.file()
    }

    /// Is it still where it was?
    pub(super) fn is_in(&self, maps: &[Mapping]) -> bool {
        maps::find(maps, self.code.start).is_some_and(|map| *map == self.code)
    }

    /// What a former recorder has left armed in it, besides what hooks of its file say.
    pub(super) fn left_armed(
        &self,
        module: Option<&Module>,
        memory: &Memory,
        rooms: &[(u64, u64)],
    ) -> io::Result<Vec<Change>> {
        let bytes = self.input.bytes();
        let file = ElfFile64::<Endianness>::parse(bytes).map_err(io::Error::other)?;
        let endian = file.endian();
        let mut found = Vec::new();
        for header in file.elf_program_headers() {
            let is_code = header.p_type(endian).0 == 1 && header.p_flags(endian).0 & 1 != 0;
            let Ok(code) = header.data(endian, bytes) else { continue };
            if is_code {
                let start = self.bias.wrapping_add(header.p_vaddr(endian));
                found.extend(sites::left_armed(memory, (start, code), rooms)?);
            }
        }
        for change in &mut found {
            let semaphores = module.map(|module| &module.semaphores);
            let semaphore = semaphores.and_then(|all| all.get(&change.at.wrapping_sub(self.bias)));
            change.semaphore = semaphore.map(|one| self.bias.wrapping_add(*one));
        }
        Ok(found)
    }

    /// The hooks to change in it: the wanted ones, or all.
    pub(super) fn plan(
        &self,
        module: &Module,
        all: bool,
        stubs: &mut Stubs,
        thunks: Option<&mut Batch>,
    ) -> io::Result<Vec<Change>> {
        let file = ElfFile64::<Endianness>::parse(self.input.bytes()).map_err(io::Error::other)?;
        let code = code_of(&file);
        let with_site = module.hooks.iter().filter(|hook| !hook.is_instrumented);
        let wanted = with_site.filter(|hook| all || hook.is_wanted);
        let bytes = |hook: &Hook| {
            let before = hook.before.map(|before| code.at(before)).unwrap_or_default();
            let before = before.get(..processor::SITE).unwrap_or_default();
            (before.to_vec(), code.at(hook.site).to_vec())
        };
        let hooks: Vec<_> = wanted.map(|hook| (hook, bytes(hook))).collect();
        let hooks: Vec<_> =
            hooks.iter().map(|(hook, (before, area))| IdleHook { hook, before, area }).collect();
        sites::plan(&hooks, self.bias, stubs, thunks)
            .ok_or_else(|| io::Error::other("no room for more stubs, or they're too far away"))
    }

    /// Bytes that a module needs for thunks.
    pub(super) fn thunks(module: &Module) -> u64 {
        // Which ones are wanted may change.
        module.near()
    }
}

/// Do functions of it tell of their calls themselves, and are some of them wanted?
fn is_instrumented(module: &Module) -> bool {
    module.hooks.iter().any(|hook| hook.is_instrumented && hook.is_wanted)
}

fn choose(module: &mut Module, scope: &Scope) {
    let path = module.path.to_string_lossy().into_owned();
    for hook in &mut module.hooks {
        if scope.has_patterns() || hook.is_special() {
            hook.choose(scope, &path);
        } else {
            (hook.is_wanted, hook.class) = (hook.can_be_armed(), 0);
        }
    }
}

/// The load bias of a module with this file, whose code is in `map`, and the address of its first segment before that.
/// `None` if it's mapped in another way than loaders do.
fn bias(bytes: &[u8], map: &Mapping) -> io::Result<Option<(u64, u64)>> {
    let file = ElfFile64::<Endianness>::parse(bytes).map_err(io::Error::other)?;
    let endian = file.endian();
    let loads = file.elf_program_headers().iter().filter(|one| one.p_type(endian).0 == 1);
    let first = loads.clone().find(|one| one.p_offset(endian) / PAGE == 0);
    let first = first.map(|one| one.p_vaddr(endian).wrapping_sub(one.p_offset(endian)));
    for header in loads {
        let (from, size) = (header.p_offset(endian) & !(PAGE - 1), header.p_filesz(endian));
        let end = header.p_offset(endian).saturating_add(size);
        if header.p_flags(endian).0 & 1 != 0 && (from..end).contains(&map.offset) {
            let address = (header.p_vaddr(endian) & !(PAGE - 1)).wrapping_add(map.offset - from);
            let bias = map.start.wrapping_sub(address);
            return Ok(first.map(|first| (bias, first)));
        }
    }
    Ok(None)
}

/// Code of files, but for what `mcount` itself has mapped.
fn code_of_files(maps: &[Mapping]) -> impl Iterator<Item = &Mapping> {
    let is_ours = |map: &Mapping| is_ours(map) || maps::is_patch(map);
    maps.iter().filter(move |map| map.is_code() && map.is_file() && !is_ours(map))
}

/// Is what the file begins with in memory there? That's its headers, and in general its build ID.
fn is_same(bytes: &[u8], memory: &Memory, start: u64) -> bool {
    const SIZE: usize = 1024;
    let head = bytes.get(..SIZE).unwrap_or(bytes);
    let mut found = vec![0; head.len()];
    memory.read(start, &mut found).is_ok() && found == head
}
