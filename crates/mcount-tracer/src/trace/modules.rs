//! The hooks of an executable or a shared library, found in its file: the library `mcount` knows where they
//! are, the bytes there say how each is armed.

use super::agent::Routines;
use super::entries::{HookEntry, Listed, room_before};
use super::function_names::{Aliases, FunctionNames};
use super::functions::Functions;
use super::instrumented::{self, Instrumented};
use super::marker::Marker;
use super::markers;
use super::probes::{self, Chosen, Probe, Refusals, Refused, Subject};
use super::processor::{self, Area, Position, SITE, STUB, Unusable};
use super::recipe::Recipe;
use super::sanitizers;
use super::scope::Scope;
use super::sleds;
use crate::debug::separate::{Search, with_names};
use crate::files::Input;
use crate::words::counted;
use mcount::{Base, CallSite, Kind, Options, Policy};
use mcount_agent::class;
use mcount_hooks::PAGE;
use mcount_hooks::code::{self, Code};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSegment, ObjectSymbol};
use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The functions with which a program forbids itself something.
const CONFINING: [&str; 2] = ["prctl", "syscall"];

/// The hooks of one file.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// Its number in the trace.
    pub(super) number: u32,
    pub(super) path: PathBuf,
    pub(super) build_id: Vec<u8>,
    pub(super) hooks: Vec<Hook>,
    /// Functions whose area of NOPs is too small for a jump.
    pub(super) too_small: usize,
    /// Hooks whose function begins at an unknown place.
    pub(super) unplaced: usize,
    /// Calls of the hook that have no known form.
    pub(super) odd_calls: usize,
    /// Why returns can't be traced in a process that has it.
    pub(super) sanitizer: Option<&'static str>,
    /// It may load libraries, or have processes execute programs.
    pub(super) may_load: bool,
    /// All functions, with a hook or without.
    pub(super) functions: usize,
    /// Addresses of its first and behind its last byte in memory, before the load bias.
    pub(super) extent: (u64, u64),
    /// `_Unwind_GetIP`, `_Unwind_SetIP`, `_Unwind_SetGR` and `_Unwind_Resume`, if it has all of them.
    pub(super) unwinder: Option<[u64; 4]>,
    /// Functions that `--probe` means, and markers that `--mark` means, that can't have a probe, and why.
    pub(super) refused: Vec<Refused>,
    /// LLVM's runtime for its sleds is linked to it.
    pub(super) has_sled_runtime: bool,
    /// How many sleds aren't hooks because that patches them itself.
    pub(super) patched_sleds: usize,
    /// Why nothing is recorded of what its functions tell of their calls, if they do.
    pub(super) untold: Option<&'static str>,
    /// Semaphores of markers, wanted or not, by where the markers are; before the load bias.
    pub(super) semaphores: HashMap<u64, u64>,
    /// Functions with which a program forbids itself system calls: where they are, before the load bias, and their first bytes.
    pub(super) confining: Vec<(u64, Vec<u8>)>,
}

/// One function that can be armed.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Hook {
    /// Its number in the trace.
    pub(super) id: u32,
    /// Where the function is, before the load bias.
    pub(super) function: u64,
    pub(super) size: u64,
    /// As the symbol table has it; empty if no symbol tells.
    pub(super) name: Arc<str>,
    /// All its names, if there are several.
    pub(super) aliases: Aliases,
    /// Where the hook is, before the load bias.
    pub(super) site: u64,
    pub(super) area: Area,
    /// Where the jump to the stub has room, if not at the hook: five bytes before the function.
    pub(super) before: Option<u64>,
    /// Where in the function it is. `None`: the place of the caller's address is unknown there, so it stays
    /// idle.
    pub(super) position: Option<Position>,
    /// The function has another hook before this one, so this one stays idle.
    pub(super) is_second: bool,
    /// It's a sled of LLVM's XRay, which is idle as the compiler made it: a jump over the rest.
    pub(super) is_sled: bool,
    /// Its function tells itself when it's entered and left, so there's no site (`instrumented.rs`).
    pub(super) is_instrumented: bool,
    /// It is that of the function with which programs set markers.
    pub(super) is_mark: bool,
    /// Its function returns more than once, so only its entries can be recorded.
    pub(super) returns_twice: bool,
    /// Its function is in one of the source files that are wanted.
    pub(super) is_in_files: bool,
    /// It is to be armed, and not just made idle.
    pub(super) is_wanted: bool,
    /// Its role in recording: one of [`mcount_agent::class`], or 0.
    pub(super) class: u32,
    /// What of its arguments and result is recorded.
    pub(super) recipe: Option<Arc<Recipe>>,
    /// It's a probe: nothing is there as long as it isn't armed.
    pub(super) probe: Option<Arc<Probe>>,
}

impl Hook {
    /// What is known of the marker that it is for, if it's for one.
    pub(super) fn marker(&self) -> Option<&Marker> {
        self.probe.as_ref().and_then(|probe| probe.marker())
    }

    /// The semaphore of that, before the load bias.
    pub(super) fn semaphore(&self) -> Option<u64> {
        self.marker().and_then(|marker| marker.semaphore)
    }
}

impl Module {
    /// Adds hooks to functions that have none, and to markers, if these are wanted.
    fn add_probes(
        &mut self,
        file: &ElfFile64<'_, Endianness>,
        (bytes, code): (&[u8], &Code<'_>),
        scope: &Scope,
    ) {
        self.semaphores = markers::semaphores(file);
        let path = self.path.to_string_lossy();
        let markers = markers::wanted(file, scope, &path);
        let planner = probes::planner(bytes, &path, scope, !markers.is_empty());
        let Some(mut planner) = planner else { return };
        planner.leave_hooks(self.hooks.iter().map(|hook| hook.site));
        let subject = Subject {
            bytes,
            code,
            path: &self.path,
            confining: &self.confining,
            unwinds: self.unwinder.is_some(),
        };
        let (chosen, refused) = probes::choose(&subject, &planner, scope);
        let taken = self.taken().chain(chosen.iter().map(|one| one.probe.range())).collect();
        let marked = markers::choose(&subject, &planner, &markers, taken);
        self.refused = refused.into_iter().chain(marked.refused).collect();
        self.hooks.extend(chosen.into_iter().chain(marked.chosen).map(Hook::of_probe));
        self.hooks.sort_by_key(|hook| hook.site);
    }

    /// Adds the functions without a hook that tell of their calls themselves.
    fn add_instrumented(
        &mut self,
        file: &ElfFile64<'_, Endianness>,
        functions: &Functions<'_, '_>,
    ) {
        let has_hook: HashSet<u64> = self.hooks.iter().map(|hook| hook.function).collect();
        for one in instrumented::functions(file, functions) {
            if !has_hook.contains(&one.function.address) {
                self.hooks.push(Hook::of_instrumented(one));
            }
        }
        self.hooks.sort_by_key(|hook| hook.site);
    }

    /// The bytes of hooks, and of what `mcount` watches.
    fn taken(&self) -> impl Iterator<Item = Range<u64>> {
        let sites = self.hooks.iter().map(|hook| hook.site..hook.site + hook.area.length as u64);
        let watched = self.confining.iter();
        sites.chain(watched.map(|(start, bytes)| *start..start + bytes.len() as u64))
    }
}

impl Hook {
    /// The hook that a probe makes.
    fn of_probe(Chosen { start, size, name, aliases, probe }: Chosen) -> Self {
        Self {
            site: probe.entry(),
            area: Area { length: SITE, ..Area::default() },
            probe: Some(Arc::new(probe)),
            ..Self::without_bytes((start, size), name.into(), aliases)
        }
    }

    fn of_instrumented(Instrumented { function, name, aliases }: Instrumented) -> Self {
        let function = (function.address, function.size);
        Self { is_instrumented: true, ..Self::without_bytes(function, name, aliases) }
    }

    /// A hook at the beginning of a function with this address and size, where the compiler has left no room.
    fn without_bytes((function, size): (u64, u64), name: Arc<str>, aliases: Aliases) -> Self {
        Self {
            id: 0,
            function,
            size,
            is_mark: false,
            returns_twice: false,
            name,
            aliases,
            site: function,
            area: Area::default(),
            before: None,
            position: Some(Position::Entry),
            is_second: false,
            is_sled: false,
            is_instrumented: false,
            is_in_files: true,
            is_wanted: true,
            class: 0,
            recipe: None,
            probe: None,
        }
    }

    /// The names of its function: first the one that is shown.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let others = self.aliases.iter().filter(|name| **name != self.name);
        std::iter::once(&self.name).chain(others).map(|name| &**name)
    }

    /// Is it a call after the prologue?
    pub(super) fn is_after_prologue(&self) -> bool {
        processor::is_after_prologue(self.position)
    }

    /// Its stub at `at`, for these routines; its function goes on at `body`. `None` if
    /// that's out of reach.
    pub(super) fn stub(&self, at: u64, routines: Routines, body: u64) -> Option<[u8; STUB]> {
        processor::stub(self.position, at, routines, body, self.id | self.class << 24)
    }

    /// Where its site leads to in that stub.
    pub(super) fn way_in(&self) -> u64 {
        processor::way_in(self.position)
    }

    /// Decides whether it's armed, in the module with this path.
    pub(super) fn choose(&mut self, scope: &Scope, path: &str) {
        if self.marker().is_some() {
            // Nothing else than --mark means it.
            return (self.is_wanted, self.class) = (true, 0);
        }
        let is_fit = self.is_in_files && scope.has_size(self.size);
        let names = FunctionNames::new(self.names(), path);
        let (mut is_wanted, mut class) = scope.choose(&names, is_fit);
        if self.is_mark {
            is_wanted = !scope.leaves_out(&names);
            class = scope.class_of_marks(class);
        }
        // It's shown by the name that people know it by.
        if let Some(name) = scope.filters(&names).filter(|name| **name != *self.name) {
            self.name = name.into();
        }
        is_wanted &= self.can_be_armed() && (scope.entries || !self.returns_twice);
        (self.is_wanted, self.class) = (is_wanted, class);
    }

    /// Whether it isn't simply armed if nothing was asked for.
    pub(super) fn is_special(&self) -> bool {
        self.is_mark || self.returns_twice
    }

    /// Does it record its function's calls, if that is wanted?
    pub(super) fn can_be_armed(&self) -> bool {
        !self.is_second && self.position.is_some()
    }
}

/// All modules that were seen, so that each file is read once.
#[derive(Default)]
pub(super) struct Modules {
    known: HashMap<PathBuf, usize>,
    all: Vec<Module>,
    next_id: u32,
}

impl Modules {
    /// The module at `path`, which is read from `file`; `true` if it's new.
    ///
    /// # Errors
    ///
    /// It can't be read, or is no ELF file for this processor.
    pub(super) fn get(
        &mut self,
        path: &Path,
        file: &Path,
        scope: &Scope,
    ) -> io::Result<(usize, bool)> {
        if let Some(index) = self.known.get(path) {
            return Ok((*index, false));
        }
        let input = Input::open(file)?;
        let named = with_names(input.bytes(), path, &Search::default());
        let mut module = read(named.as_deref().unwrap_or(input.bytes()), path, scope)?;
        module.number = u32::try_from(self.all.len()).unwrap_or(u32::MAX) + 1;
        for hook in &mut module.hooks {
            self.next_id += 1;
            hook.id = self.next_id;
        }
        let index = self.all.len();
        self.all.push(module);
        self.known.insert(path.to_owned(), index);
        Ok((index, true))
    }

    /// A number in the trace for a function that has no hook.
    pub(super) fn new_number(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    pub(super) fn at(&self, index: usize) -> Option<&Module> {
        self.all.get(index)
    }

    pub(super) fn at_mut(&mut self, index: usize) -> Option<&mut Module> {
        self.all.get_mut(index)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Module> {
        self.all.iter_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Module> {
        self.all.iter()
    }

    /// What is said of functions that can't have a probe; `is_list`: of each one.
    pub(super) fn refused(&self, is_list: bool) -> Refusals {
        let all: Vec<&Refused> = self.iter().flat_map(|module| &module.refused).collect();
        let hooks = || self.iter().flat_map(|module| &module.hooks);
        let markers = hooks().filter(|hook| hook.marker().is_some()).count();
        let probes = hooks().filter(|hook| hook.probe.is_some()).count();
        Refusals::of(&all, [probes - markers, markers], is_list)
    }
}

fn read(bytes: &[u8], path: &Path, scope: &Scope) -> io::Result<Module> {
    let file = ElfFile64::<Endianness>::parse(bytes).map_err(io::Error::other)?;
    let segments: Vec<_> = file.segments().map(|one| (one.address(), one.size())).collect();
    let low = segments.iter().map(|(address, _)| *address).min().unwrap_or(0);
    let end = |(address, size): &(u64, u64)| address.saturating_add(*size);
    let high = segments.iter().map(end).max().unwrap_or(0);
    let mut module = Module {
        path: path.to_owned(),
        build_id: file.build_id().ok().flatten().unwrap_or_default().to_vec(),
        extent: (low, high),
        unwinder: unwinder(&file, bytes),
        sanitizer: sanitizers::of(&file),
        may_load: may_load(&file),
        ..Module::default()
    };
    let policy = Policy::of(Base::All);
    let options = Options::default().policy(policy).nops(true);
    let found = mcount::scan(bytes, &options).map_err(io::Error::other)?;
    let code = code_of(&file);
    module.confining = confining(&file, bytes, &code);
    let functions = Functions::of(&file);
    module.functions = functions.len();
    module.hooks.reserve_exact(found.sites.len());
    let listed = Listed::of(bytes, &options)?;
    for site in found.sites.iter().filter(|site| listed.is_hook(site)) {
        module.add(&code, site, &functions);
    }
    module.hooks.sort_by_key(|hook| hook.site);
    module.hooks.dedup_by_key(|hook| hook.site);
    module.mark_second_hooks();
    let has_sleds = module.hooks.iter().any(|hook| hook.is_sled);
    module.has_sled_runtime = has_sleds && sleds::has_runtime(&file);
    module.add_probes(&file, (bytes, &code), scope);
    module.add_instrumented(&file, &functions);
    module.untold = module.hooks.is_empty().then(|| instrumented::untold(&file)).flatten();
    Ok(module)
}

/// Does a program use what loads libraries, or executes programs? In a static one without symbols, it's
/// unknown. The C library's own uses of it aren't traced.
fn may_load(file: &ElfFile64<'_, Endianness>) -> bool {
    const LOADING: [&str; 4] = ["dlopen", "dlmopen", "system", "popen"];
    let is_one = |name: &str| {
        LOADING.contains(&name) || name.starts_with("exec") || name.starts_with("posix_spawn")
    };
    let is_c_library = file.dynamic_symbols().any(|symbol| {
        symbol.is_definition() && symbol.name().is_ok_and(|name| name == "posix_spawn")
    });
    let mut used = file.dynamic_symbols().filter(ObjectSymbol::is_undefined);
    let is_static = file.dynamic_symbols().next().is_none();
    let is_used = used.any(|symbol| symbol.name().is_ok_and(is_one));
    let has_names = file.symbols().next().is_some();
    let is_linked = || file.symbols().any(|symbol| symbol.name().is_ok_and(is_one));
    !is_c_library && (is_used || is_static && (!has_names || is_linked()))
}

/// Are calls of functions recorded that are this for what is recorded?
pub(super) fn is_recorded(class: u32) -> bool {
    ![class::NOT_UNDER, class::UNDER_HIDDEN].contains(&(class & class::NESTING))
}

impl Module {
    /// The functions whose calls are recorded, as patterns.
    pub(super) fn recorded(&self) -> impl Iterator<Item = String> {
        let hooks = self.hooks.iter().filter(|hook| hook.is_wanted && is_recorded(hook.class));
        hooks.map(|hook| {
            let name = crate::names::name_of(&hook.name, true);
            let path = self.path.display();
            if name.is_empty() {
                format!("{:#x}@{path}", hook.function)
            } else {
                format!("{name}@{path}")
            }
        })
    }

    /// Bytes that its hooks need near it, if the agent is too far away.
    pub(super) fn near(&self) -> u64 {
        let of = |hook: &Hook| {
            if hook.probe.is_some() { probes::near() } else { processor::NEAR as u64 }
        };
        self.hooks
            .iter()
            .filter(|hook| !hook.is_instrumented)
            .map(of)
            .sum::<u64>()
            .next_multiple_of(PAGE)
    }

    /// How far all of its sites reach.
    pub(super) fn reach(&self) -> u64 {
        let all = self.hooks.iter();
        let all = all.filter(|hook| hook.before.is_none() && !hook.is_instrumented);
        all.map(|hook| processor::reach(&hook.area)).min().unwrap_or(processor::REACH)
    }

    /// Leaves its sleds to LLVM's runtime.
    pub(super) fn leave_sleds(&mut self) {
        let all = self.hooks.len();
        self.hooks.retain(|hook| !hook.is_sled);
        self.patched_sleds = all - self.hooks.len();
    }

    /// The messages about hooks that can't be armed.
    pub(super) fn notes(&self) -> Vec<String> {
        const SMALL: [&str; 2] =
            ["hook has too few bytes and stays idle", "hooks have too few bytes and stay idle"];
        const ODD: [&str; 2] = [
            "hook is neither at the entry of a function nor after a frame pointer, and stays idle",
            "hooks are neither at the entry of a function nor after a frame pointer, and stay idle",
        ];
        const LOST: [&str; 2] = [
            "hook stays idle, because neither symbols nor unwind information say where its function begins",
            "hooks stay idle, because neither symbols nor unwind information say where their functions begin",
        ];
        const TWICE: [&str; 2] = [
            "function returns twice, so its hook stays idle",
            "functions return twice, so their hooks stay idle",
        ];
        const UNKNOWN: [&str; 2] = [
            "call of the hook has a form that isn't known, and stays as it is",
            "calls of the hook have a form that isn't known, and stay as they are",
        ];
        const PATCHED: [&str; 2] = [
            "sled is patched by LLVM's XRay when the program starts, and is no hook",
            "sleds are patched by LLVM's XRay when the program starts, and are no hooks",
        ];
        const PATCHABLE: &str = processor::PATCHABLE;
        let path = self.path.display();
        let is_odd = |hook: &&Hook| hook.position.is_none() && !hook.is_second;
        let odd = self.hooks.iter().filter(is_odd).count();
        let twice = self.hooks.iter().filter(|hook| hook.returns_twice && !hook.is_wanted).count();
        let causes = [
            (twice, TWICE, "--entries records them"),
            (self.too_small, SMALL, PATCHABLE),
            (odd, ODD, PATCHABLE),
            (self.odd_calls, UNKNOWN, PATCHABLE),
            (self.patched_sleds, PATCHED, "take patch_premain out of XRAY_OPTIONS"),
            (self.unplaced, LOST, "compile with -fasynchronous-unwind-tables, or strip less"),
        ];
        let causes = causes.into_iter().filter(|(count, ..)| *count != 0);
        let causes = causes.map(|(count, [one, more], advice)| {
            format!("{path}: {}: {advice}", counted(count, one, more))
        });
        causes.chain(self.untold.map(|why| format!("{path}: {why}"))).collect()
    }

    fn add(&mut self, code: &Code<'_>, site: &CallSite, functions: &Functions<'_, '_>) {
        let Some(recorded) = site.address else { return };
        let Some(HookEntry { entry, function, is_named }) =
            HookEntry::of(site, recorded, code, functions)
        else {
            return self.unplaced += 1;
        };
        let (bytes, is_call) = (code.at(entry), site.kind == Some(Kind::Call));
        let (area, before) = match Area::find(bytes) {
            Ok(area) => (area, None),
            Err(Unusable::TooSmall(length)) => {
                let room = room_before(code, recorded, entry);
                match processor::small_area(bytes, length, room) {
                    Some((area, before)) => (area, Some(before)),
                    None => return self.too_small += 1,
                }
            }
            Err(Unusable::NotAHook) if is_call => return self.odd_calls += 1,
            Err(Unusable::NotAHook) => return,
        };
        // Only what the library says is a call is one.
        if area.is_call && !is_call {
            return;
        }
        let place = match site.kind {
            // The compiler lists entries only.
            Some(Kind::Patchable) => Some(Position::Entry),
            // Before it there may be a landing pad, but no prologue.
            Some(Kind::Sled) => {
                let distance = entry.wrapping_sub(function.address);
                let found = processor::position(code.at(function.address), distance);
                found.filter(|found| *found == Position::Entry)
            }
            _ => {
                processor::position(code.at(function.address), entry.wrapping_sub(function.address))
            }
        };
        let name = site.symbol.clone().filter(|_| is_named).unwrap_or_default();
        self.hooks.push(Hook {
            id: 0,
            function: function.address,
            size: function.size,
            is_mark: code::is_mark(&name),
            returns_twice: code::returns_twice(&name),
            name,
            aliases: functions.aliases(function.address),
            site: entry + area.start as u64,
            area,
            before,
            position: place,
            is_second: false,
            is_sled: site.kind == Some(Kind::Sled),
            is_instrumented: false,
            is_in_files: true,
            is_wanted: true,
            class: 0,
            recipe: None,
            probe: None,
        });
    }

    /// Compiled with `-pg` and `-fpatchable-function-entry`, a function has two hooks. One call is to be seen once.
    fn mark_second_hooks(&mut self) {
        let mut last = None;
        for hook in &mut self.hooks {
            // Where no symbol tells, hooks that touch are of one function.
            let is_named = !hook.name.is_empty();
            hook.is_second = last.is_some_and(|(function, end)| {
                function == hook.function || !is_named && end == hook.site
            });
            hook.is_wanted = hook.can_be_armed();
            last = Some((hook.function, hook.site + hook.area.length as u64));
        }
    }
}

/// The code of `file`.
pub(super) fn code_of<'d>(file: &ElfFile64<'d, Endianness>) -> Code<'d> {
    Code::of(file, processor::PROLOGUE)
}

fn confining(
    file: &ElfFile64<'_, Endianness>,
    bytes: &[u8],
    code: &Code<'_>,
) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    // Most files don't name them, and have many symbols.
    if memchr::memmem::find(bytes, b"prctl\0").is_none() {
        return found;
    }
    for symbol in file.dynamic_symbols().chain(file.symbols()) {
        let is_it = |name: &str| CONFINING.contains(&name);
        if symbol.is_definition() && symbol.name().is_ok_and(is_it) {
            found.push((symbol.address(), code.at(symbol.address()).to_vec()));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn unwinder(file: &ElfFile64<'_, Endianness>, bytes: &[u8]) -> Option<[u64; 4]> {
    const NAMES: [&str; 4] = ["_Unwind_GetIP", "_Unwind_SetIP", "_Unwind_SetGR", "_Unwind_Resume"];
    // Most files have none, and many symbols.
    memchr::memmem::find(bytes, b"_Unwind_SetGR")?;
    let found = code::definitions(file, NAMES);
    (!found.contains(&0)).then_some(found)
}
