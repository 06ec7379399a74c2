//! A patch's effect, found out before anything is stopped or changed: the functions that it replaces, their
//! hooks, and the meaning of its references.

use super::super::program::Program;
use super::arch::{self, Wants};
use super::fix::{Fix, Symbol};
use super::hub::{Entry, SLOTS};
use super::names::{Definition, Kind, Missing, Names, bare};
use super::stacks::Range;
use crate::pattern::Pattern;
use crate::trace::modules::{Hook, Module, code_of};
use crate::trace::processor::{self, PATCHABLE, SITE, is_after_prologue};
use mcount_ptrace::Memory;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection};
use std::collections::HashSet;
use std::io;

/// Complaints that are printed at once.
const MOST: usize = 10;

/// One function that's to be replaced.
#[derive(Debug)]
pub(super) struct Target {
    /// Its place among the object's symbols.
    pub(super) symbol: usize,
    /// The place of its module in the program's list, and where that is.
    pub(super) module: usize,
    pub(super) extent: (u64, u64),
    pub(super) entry: Entry,
    /// Its area with a jump to its gate in it, but for the jump.
    pub(super) filled: Vec<u8>,
    /// Code that no thread may be in.
    pub(super) ranges: Vec<Range>,
}

/// The meaning of a symbol of the object.
#[derive(Debug, Clone)]
pub(super) enum Bound {
    /// Nothing: it's weak.
    Nothing,
    /// The object's own.
    Own(u64),
    Address(u64),
    /// A function at this address of the module with this extent, which can't be called by it: there's to be a way.
    Way(u64, (u64, u64)),
    /// The function that the one at this address chooses.
    Chosen(u64),
    /// A thread-local variable of the program itself: where it is from the thread pointer on.
    ThreadLocal(u64),
    /// The function that finds such variables.
    Storage,
}

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) targets: Vec<Target>,
    /// By the object's symbols.
    pub(super) bounds: Vec<Bound>,
    /// The lines to print.
    pub(super) notes: Vec<String>,
    /// Functions that take back what unwinders were told, with their modules.
    pub(super) untell: Vec<(usize, u64)>,
}

impl Plan {
    pub(super) fn of(
        program: &Program,
        memory: &Memory,
        fix: &Fix,
        meant: &[Pattern],
    ) -> io::Result<Self> {
        const UNTELL: &str = "__deregister_frame_info";
        let mut wanted: HashSet<&str> = fix.symbols.iter().map(|one| bare(&one.name).0).collect();
        wanted.insert(UNTELL);
        let names = Names::of(program, memory, &wanted);
        let mut planner =
            Planner { program, fix, names: &names, wrong: Vec::new(), notes: Vec::new() };
        let targets = planner.targets(meant);
        planner.complain()?;
        if targets.is_empty() {
            return Err(planner.nothing());
        }
        if targets.len() > SLOTS {
            return Err(io::Error::other(format!("a process can have {SLOTS} functions patched")));
        }
        let bounds = planner.bounds(&targets);
        planner.complain()?;
        let notes = planner.notes;
        let untell = names.functions(UNTELL).unwrap_or_default();
        let untell = untell.iter().map(|one| (one.module, one.address)).collect();
        let plan = Self { targets, bounds, notes, untell };
        // What can't be filled in is found out now.
        relocated(fix, &plan, (0, Storage::default()), &[])?;
        Ok(plan)
    }

    /// The names of the functions, in one line.
    pub(super) fn functions(&self) -> String {
        let names: Vec<&str> = self.targets.iter().map(|one| one.entry.name.as_str()).collect();
        names.join(", ")
    }
}

struct Planner<'p> {
    program: &'p Program,
    fix: &'p Fix,
    names: &'p Names,
    wrong: Vec<String>,
    notes: Vec<String>,
}

impl Planner<'_> {
    /// Fails if something is wrong.
    fn complain(&mut self) -> io::Result<()> {
        if self.wrong.is_empty() {
            return Ok(());
        }
        let more = self.wrong.len().saturating_sub(MOST);
        self.wrong.truncate(MOST);
        if more > 0 {
            self.wrong.push(format!("and {more} more"));
        }
        Err(io::Error::other(format!("{}: {}", self.fix.name, self.wrong.join("; "))))
    }

    /// Why there's nothing to replace.
    fn nothing(&self) -> io::Error {
        let functions: Vec<&str> =
            self.fix.functions().map(|one| one.name.as_str()).take(MOST).collect();
        let of_program = self.program.path.display();
        let mut text = match functions.as_slice() {
            [] => format!("{} defines no function that others can see", self.fix.name),
            all => format!(
                "{} defines no function that {of_program} has and --function selects: {}",
                self.fix.name,
                all.join(", ")
            ),
        };
        for path in &self.names.stripped {
            if *path == self.program.path {
                text.push_str("; the program is stripped, and there's no debug file: only what it exports has names");
            }
        }
        io::Error::other(text)
    }

    /// The functions that are to be replaced.
    fn targets(&mut self, meant: &[Pattern]) -> Vec<Target> {
        let mut targets: Vec<Target> = Vec::new();
        for (place, symbol) in self.fix.symbols.iter().enumerate() {
            if !symbol.is_function || symbol.value.is_none() {
                continue;
            }
            let name = bare(&symbol.name).0;
            let shown = crate::names::name_of(name, true);
            if !meant.is_empty()
                && !meant.iter().any(|one| one.is_match(&shown, name, &self.fix.name))
            {
                continue;
            }
            match self.target(place, symbol, !meant.is_empty()) {
                Ok(None) => {}
                // Another name of one that's there, such as a constructor's.
                Ok(Some(one))
                    if targets.iter().any(|other| {
                        other.entry.function == one.entry.function
                            && self.fix.symbols.get(other.symbol).map(|other| other.value)
                                == Some(symbol.value)
                    }) => {}
                Ok(Some(one))
                    if targets.iter().any(|other| other.entry.function == one.entry.function) =>
                {
                    self.wrong
                        .push(format!("{shown} and another name are one function in the program"));
                }
                Ok(Some(one)) => targets.push(one),
                Err(why) => self.wrong.push(format!("{shown}: {why}")),
            }
        }
        targets.sort_by(|a, b| a.entry.name.cmp(&b.entry.name));
        targets
    }

    /// The program's function that `symbol` is to replace. `None` if it's only a helper.
    fn target(
        &mut self,
        place: usize,
        symbol: &Symbol,
        is_meant: bool,
    ) -> Result<Option<Target>, String> {
        let mut found = self.names.functions(&symbol.name).map_err(|why| ambiguous(&why))?;
        let Some(definition) = found.pop() else { return self.only_parts(symbol).map(|()| None) };
        let Some(one) = self.program.loaded.get(definition.module) else { return Ok(None) };
        let Some(module) = self.program.module(one) else { return Ok(None) };
        let is_program = module.path == self.program.path;
        if module.hooks.is_empty() && !is_program && !is_meant {
            return Ok(None);
        }
        let hook = hook(module, definition.address.wrapping_sub(one.bias))?;
        let file =
            ElfFile64::<Endianness>::parse(one.bytes()).map_err(|error| error.to_string())?;
        let code = code_of(&file);
        let cut = || "its file is cut off".to_owned();
        let idle = code.at(hook.site).get(..hook.area.length).ok_or_else(cut)?.to_vec();
        let before = hook
            .before
            .map(|at| Some((one.bias.wrapping_add(at), code.at(at).get(..SITE)?.to_vec())));
        let before = match before {
            Some(None) => return Err(cut()),
            Some(found) => found,
            None => None,
        };
        let filled = processor::filled(&hook.area, before.is_some());
        let filled = filled.get(..hook.area.length).ok_or_else(cut)?.to_vec();
        let entry = Entry {
            name: crate::names::name_of(bare(&symbol.name).0, true).into_owned(),
            function: definition.address,
            size: definition.size,
            site: one.bias.wrapping_add(hook.site),
            idle,
            before,
        };
        if definition.is_local && is_by_clang(&file) {
            self.notes.push(format!(
                "warning: {} is static, and clang doesn't say whether its callers pass all that they seem to",
                entry.name
            ));
        }
        let ranges = self.ranges(&entry, &symbol.name, definition.module);
        let (module, extent) = (definition.module, one.extent(module));
        Ok(Some(Target { symbol: place, module, extent, entry, filled, ranges }))
    }

    /// Is there only what the compiler has made of a function?
    fn only_parts(&self, symbol: &Symbol) -> Result<(), String> {
        let all = (0..self.program.loaded.len())
            .flat_map(|module| self.names.parts(&symbol.name, module));
        let copies: Vec<String> = all
            .filter(|(part, _)| is_copy(part))
            .map(|(part, _)| format!("{}{part}", bare(&symbol.name).0))
            .collect();
        if copies.is_empty() {
            return Ok(());
        }
        Err(format!(
            "the compiler has changed it and its callers, so it can't be replaced: {}",
            copies.join(", ")
        ))
    }

    /// Code that no thread in this function may be in: parts of it may be elsewhere.
    fn ranges(&mut self, entry: &Entry, name: &str, module: usize) -> Vec<Range> {
        let range = |start: u64, size: u64, body: u64| Range {
            function: entry.name.clone(),
            start,
            end: start.saturating_add(size),
            body,
        };
        let mut ranges = vec![range(entry.function, entry.size, entry.body())];
        let mut copies = Vec::new();
        for (part, one) in self.names.parts(name, module) {
            if part.starts_with(".cold") {
                ranges.push(range(one.address, one.size, one.address));
            } else if is_copy(part) {
                copies.push(format!("{}{part}", bare(name).0));
            }
        }
        if !copies.is_empty() {
            copies.sort();
            copies.dedup();
            let copies = copies.join(", ");
            self.notes.push(format!(
                "warning: the compiler has made copies of {}, which stay as they are: {copies}",
                entry.name
            ));
        }
        ranges
    }

    /// What all symbols of the object mean.
    fn bounds(&mut self, targets: &[Target]) -> Vec<Bound> {
        let mut homes: Vec<usize> = targets.iter().map(|one| one.module).collect();
        homes.sort_unstable();
        homes.dedup();
        let mut used = vec![false; self.fix.symbols.len()];
        for one in self.fix.relocations.iter().filter(|one| arch::wants(one.kind) != Wants::Nothing)
        {
            if let Some(used) = used.get_mut(one.symbol) {
                *used = one.symbol != 0;
            }
        }
        let mut bounds = Vec::with_capacity(used.len());
        for (place, (symbol, is_used)) in self.fix.symbols.iter().zip(used).enumerate() {
            let target = targets.iter().find(|one| one.symbol == place);
            let bound = match (target, symbol.value) {
                // The program's name means what's in force, whichever patch that is.
                (Some(target), _) => Ok(self.function(target.module, target.entry.function)),
                (None, Some(value)) => Ok(self.own(symbol, value, &homes)),
                (None, None) if is_used => self.undefined(symbol, &homes),
                (None, None) => Ok(Bound::Nothing),
            };
            bounds.push(bound.unwrap_or_else(|why| {
                self.wrong.push(why);
                Bound::Nothing
            }));
        }
        bounds
    }

    /// The meaning of a symbol that the object defines: a variable that the program has as well is the
    /// program's, as it is for a dynamic linker.
    fn own(&self, symbol: &Symbol, value: u64, homes: &[usize]) -> Bound {
        if !symbol.is_function
            && symbol.size != 0
            && let Ok(Definition { kind: Kind::Data, address, size, .. }) =
                self.names.find(&symbol.name, None, homes)
            && size == symbol.size
        {
            return Bound::Address(address);
        }
        Bound::Own(value)
    }

    /// How a function of the program is called.
    fn function(&self, module: usize, address: u64) -> Bound {
        let Some(one) = self.program.loaded.get(module) else { return Bound::Address(address) };
        let file = ElfFile64::<Endianness>::parse(one.bytes()).ok();
        let is_callable = file.as_ref().is_none_or(|file| {
            arch::is_function_callable(file, code_of(file).at(address.wrapping_sub(one.bias)))
        });
        match self.program.module(one) {
            Some(module) if !is_callable => Bound::Way(address, one.extent(module)),
            _ => Bound::Address(address),
        }
    }

    fn undefined(&self, symbol: &Symbol, homes: &[usize]) -> Result<Bound, String> {
        let name = &symbol.name;
        if name == arch::STORAGE_NAME {
            return Ok(Bound::Storage);
        }
        let found = match self.names.find(name, symbol.version.as_deref(), homes) {
            Ok(found) => found,
            Err(_) if symbol.is_weak => return Ok(Bound::Nothing),
            Err(Missing::Unknown) => return Err(format!("the program has no {name}")),
            Err(why) => return Err(format!("{name}: {}", ambiguous(&why))),
        };
        match found.kind {
            Kind::Function => Ok(self.function(found.module, found.address)),
            Kind::Data => Ok(Bound::Address(found.address)),
            Kind::Chooser => Ok(Bound::Chosen(found.address)),
            Kind::ThreadLocal => match self.names.variable(&found) {
                Some(place) => Ok(Bound::ThreadLocal(place)),
                None => Err(format!(
                    "{name} is a thread-local variable of a library: only those of the program itself can be used"
                )),
            },
        }
    }
}

/// Has clang made some of this file? It changes what is passed to static functions, and leaves them their names.
fn is_by_clang(file: &ElfFile64<'_, Endianness>) -> bool {
    let comment = file.section_by_name(".comment");
    let comment = comment.and_then(|comment| comment.data().ok()).unwrap_or_default();
    memchr::memmem::find(comment, b"clang version").is_some()
}

/// Does the compiler append this to the name of a function that others call in the place of the one that it was?
fn is_copy(part: &str) -> bool {
    [".constprop", ".isra", ".part", ".llvm", ".lto_priv"].iter().any(|kind| part.starts_with(kind))
}

fn ambiguous(why: &Missing) -> String {
    match why {
        Missing::Unknown => "the program doesn't have it".to_owned(),
        Missing::Ambiguous(files) => {
            let first = files.first().map_or("FILE.c", String::as_str);
            format!(
                "{} source files have a static one ({}): say which by __asm__(\"\\\"{first}:NAME\\\"\")",
                files.len(),
                files.join(", ")
            )
        }
    }
}

/// The hook of the function at `address`, with which it can be replaced.
fn hook(module: &Module, address: u64) -> Result<&Hook, String> {
    let is_it = |hook: &&Hook| hook.function == address && !hook.is_second && !hook.is_instrumented;
    let mut hooks = module.hooks.iter().filter(is_it);
    let Some(hook) = hooks.next() else {
        return Err(format!("it has no hook that is large enough: {PATCHABLE}"));
    };
    match hook.position {
        None => Err("its hook isn't at its entry".to_owned()),
        late if is_after_prologue(late) => {
            Err(format!("its hook is after the prologue: {}", arch::HOOKED))
        }
        Some(_) => Ok(hook),
    }
}

/// Where [`arch::STORAGE`] and [`arch::DESCRIPTOR`] are.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Storage {
    pub(super) function: u64,
    pub(super) descriptor: u64,
}

/// The bytes of `fix` at load bias `bias`. `chosen` has what choosers chose, and ways, by symbol.
pub(super) fn relocated(
    fix: &Fix,
    plan: &Plan,
    (bias, storage): (u64, Storage),
    chosen: &[u64],
) -> io::Result<Vec<u8>> {
    let mut image = fix.image.clone();
    for one in &fix.relocations {
        let bound = plan.bounds.get(one.symbol).filter(|_| one.symbol != 0);
        let (address, place) = match bound {
            None | Some(Bound::Nothing) => (Some(0), None),
            Some(Bound::Own(value)) => (Some(bias.wrapping_add(*value)), None),
            Some(Bound::Address(address)) => (Some(*address), None),
            Some(Bound::Chosen(_) | Bound::Way(..)) => {
                (Some(chosen.get(one.symbol).copied().unwrap_or(0)), None)
            }
            Some(Bound::Storage) => (Some(storage.function), None),
            Some(Bound::ThreadLocal(place)) => (None, Some(*place)),
        };
        let value = match arch::wants(one.kind) {
            Wants::Nothing => continue,
            Wants::Bias => Some(bias.wrapping_add_signed(one.addend)),
            Wants::Address => address.map(|address| address.wrapping_add_signed(one.addend)),
            Wants::Symbol => address,
            // Nobody looks at it: see `STORAGE`.
            Wants::Module => place.map(|_| 1),
            Wants::FromThreadPointer | Wants::Descriptor => {
                place.map(|place| place.wrapping_add_signed(one.addend))
            }
        };
        let Some(value) = value else {
            let name = fix.symbols.get(one.symbol).map(|symbol| symbol.name.as_str());
            let name = name.unwrap_or_default();
            return Err(io::Error::other(format!(
                "{}: {name} is thread-local there and not in the program, or the other way round",
                fix.name
            )));
        };
        let words = match arch::wants(one.kind) {
            Wants::Descriptor => vec![storage.descriptor, value],
            _ => vec![value],
        };
        let at = usize::try_from(one.offset).unwrap_or(usize::MAX);
        let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        let room = at.checked_add(bytes.len()).and_then(|end| image.get_mut(at..end));
        if let Some(room) = room {
            room.copy_from_slice(&bytes);
        }
    }
    Ok(image)
}
