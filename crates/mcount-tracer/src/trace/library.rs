//! Calls of library functions (`--library-calls`): those that a module makes by words which the dynamic linker fills in.
//!
//! Such a word is made to lead to a *gate*, which is a processor's (a file each, with the same names in it): an armed site, and after it a jump by a word of our
//! own. The module's relocation of its word is changed into one of ours. So it's the dynamic linker that finds the function,
//! with all that it knows of versions and scopes, whenever it does: before it tells that a module is there; afterwards, as glibc
//! does until 2.40 for what is opened by `dlopen`; or when the function is called first. Only the module's
//! calls refer to its word, so no other code sees the gate's address. Where code also takes the address from
//! the word, the calls by it are replaced, each by one of as many bytes, and the word stays.

use super::Recorder;
use super::function_names::FunctionNames;
use super::gate_writer::{NEAR, Writer, may_wait};
use super::imports::{self, Export, Import, Way};
use super::live_waits::Watched;
use super::modules::{Module, Modules, is_recorded};
use super::pages::Pages;
use super::processor::REACH;
use super::recipe::Recipe;
use super::scope::Scope;
use super::space::{CODE, Gate, NearRoom, Space, reaches};
use super::values::{self, Description};
use crate::commit::Failure;
use crate::files::Input;
use crate::words::counted;
use mcount_agent::{class, config, flags};
use mcount_hooks::PAGE;
use mcount_ptrace::{Memory, Tracee};
use mcount_trace::{Entry, Note};
use nix::libc;
use object::Endianness;
use object::read::elf::ElfFile64;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A module in a process: its load bias, and its index.
pub(super) type Loaded = (u64, usize);

/// All that is known of library functions.
#[derive(Default)]
pub(super) struct Library {
    /// What modules have for others, by index.
    exports: HashMap<usize, HashMap<Arc<str>, Export>>,
    /// Those whose calls are traced.
    functions: Vec<Function>,
    /// Their places in that, by module and name.
    known: HashMap<(Option<usize>, Arc<str>), usize>,
    /// Gates stay where they are as long as the program runs. So words of functions that may wait can lead there also if code keeps the
    /// addresses that it finds in them: compiled without a PLT, as Rust is, it calls them by registers. Nobody compares such an address.
    may_lend_gates: bool,
}

/// One whose calls are traced.
struct Function {
    number: u32,
    name: Arc<str>,
    /// The module that it's in, if that's known.
    module: Option<usize>,
    /// Its role in recording, at first.
    class: u32,
    is_wanted: bool,
    /// What of its arguments and result is recorded.
    recipe: Option<Arc<Recipe>>,
}

/// Where a function is.
#[derive(Debug, Clone, Copy)]
struct Target {
    module: usize,
    export: Export,
}

/// The changes for one import.
pub(super) struct Plan {
    pub(super) import: Import,
    /// The number of its function, and above it what it is for what is recorded.
    pub(super) number: u32,
    /// Where its calls lead to, instead of a gate of its own.
    pub(super) leads_to: Option<u64>,
    /// What of its function's arguments and result is recorded.
    pub(super) recipe: Option<Arc<Recipe>>,
}

/// What is to be done for the imports of one module.
#[derive(Default)]
pub(super) struct Planned {
    pub(super) plans: Vec<Plan>,
    /// Functions that nobody knew before: their number and name, and where they are.
    new: Vec<(u32, Option<Target>, Arc<str>)>,
    /// What the trace is to have of their values.
    values: Vec<Description>,
    /// Functions of which some calls may be missing.
    missed: Vec<Arc<str>>,
}

impl Plan {
    /// May its function wait?
    pub(super) fn may_wait(&self) -> bool {
        may_wait(self.number >> 24)
    }
}

impl Planned {
    /// What the trace is to have of the functions that nobody knew before.
    pub(super) fn entries<'m>(&'m self, modules: &'m Modules) -> impl Iterator<Item = Entry<'m>> {
        let functions = self.new.iter().map(|(number, target, name)| {
            let module = target.and_then(|target| modules.at(target.module));
            let (address, size) =
                target.map_or((0, 0), |one| (one.export.address, one.export.size));
            let module = module.map_or(0, |module| module.number);
            let (number, name) = (*number, name.as_bytes());
            mcount_trace::Function { number, module, address, size, name }.into()
        });
        functions.chain(self.values.iter().map(|one| one.signature().into()))
    }
}

impl Library {
    /// For programs that are started, and have the agent until they end.
    pub(super) fn of_new_programs() -> Self {
        Self { may_lend_gates: true, ..Self::default() }
    }

    /// Are calls of any function traced that was asked for?
    pub(super) fn is_asked_for(&self) -> bool {
        self.functions.iter().any(|one| !may_wait(one.class))
    }

    /// Is the function with this number to be recorded?
    pub(super) fn is_wanted(&self, number: u32) -> bool {
        // Numbers are given out in this order.
        let at = self.functions.binary_search_by_key(&number, |one| one.number);
        at.is_ok_and(|at| self.functions.get(at).is_some_and(|one| one.is_wanted))
    }

    /// Gives functions up that are called too often; their names.
    pub(super) fn give_up(&mut self, numbers: &BTreeSet<u32>) -> Vec<(u32, String)> {
        let given_up = self.functions.iter_mut().filter(|one| numbers.contains(&one.number));
        given_up
            .map(|one| {
                one.is_wanted = false;
                (one.number, crate::names::name_of(&one.name, true).into_owned())
            })
            .collect()
    }

    /// Takes up functions again that were given up; their names.
    pub(super) fn take_up(&mut self, numbers: &BTreeSet<u32>) -> Vec<String> {
        let taken_up = self.functions.iter_mut();
        let taken_up = taken_up.filter(|one| !one.is_wanted && numbers.contains(&one.number));
        taken_up
            .map(|one| {
                one.is_wanted = true;
                crate::names::name_of(&one.name, true).into_owned()
            })
            .collect()
    }

    /// The functions whose calls are traced, as patterns.
    pub(super) fn recorded(&self, modules: &Modules) -> Vec<String> {
        let line = |one: &Function| {
            let name = crate::names::name_of(&one.name, true);
            match one.module.and_then(|index| modules.at(index)) {
                Some(module) => format!("{name}@{}", module.path.display()),
                None => name.into_owned(),
            }
        };
        // Those that may wait are nobody's wish.
        let is_recorded = |one: &&Function| is_recorded(one.class) && !may_wait(one.class);
        self.functions.iter().filter(is_recorded).map(line).collect()
    }

    /// Reads what these modules have for others.
    pub(super) fn read(&mut self, all: &[Loaded], modules: &Modules, process: i32) {
        for (_, index) in all {
            let Some(module) = modules.at(*index) else { continue };
            // The process may be gone, and another one can be asked later.
            if !self.exports.contains_key(index)
                && let Ok(exports) = with_file(module, process, imports::exports)
            {
                self.exports.insert(*index, exports);
            }
        }
    }

    /// Learns what the module with this index has for others.
    pub(super) fn learn(&mut self, index: usize, file: &ElfFile64<'_, Endianness>) {
        self.exports.entry(index).or_insert_with(|| imports::exports(file));
    }

    /// The functions whose calls are traced: number, name and path of the module.
    pub(super) fn names(
        &self,
        modules: &Modules,
    ) -> impl Iterator<Item = (u32, Arc<str>, Arc<str>)> {
        let wanted = self.functions.iter().filter(|one| one.is_wanted);
        wanted.map(|one| {
            let name = crate::names::name_of(&one.name, true);
            let module = one.module.and_then(|index| modules.at(index));
            let path = module.map(|module| module.path.to_string_lossy()).unwrap_or_default();
            (one.number, Arc::from(&*name), Arc::from(&*path))
        })
    }

    /// The functions that may wait, by number.
    pub(super) fn waits(&self) -> impl Iterator<Item = u32> {
        self.functions.iter().filter(|one| may_wait(one.class)).map(|one| one.number)
    }

    /// The functions whose callers say what a program waits for.
    pub(super) fn watched(&self) -> Watched {
        let mut watched = Watched::default();
        for one in self.functions.iter().filter(|one| one.is_wanted) {
            let name = crate::names::name_of(&one.name, true);
            if super::waits::may_wait(&name, &one.name) {
                watched.waits.insert(one.number);
                if super::waits::is_lock(&name, &one.name) {
                    watched.locks.insert(one.number);
                }
            }
        }
        watched
    }

    /// Where the function at `address` of the module `own` is for all who mean it by its name: the first module that has one of this name has
    /// it. `None` if that's itself, or if the name isn't for others.
    pub(super) fn overriding(
        &self,
        (all, own): (&[Loaded], Loaded),
        (name, address): (&str, u64),
    ) -> Option<u64> {
        let exported = |one: &Loaded| Some((*one, *self.exports.get(&one.1)?.get(name)?));
        exported(&own).filter(|(_, export)| export.address == address)?;
        let ((bias, _), first) = all.iter().find_map(exported)?;
        (bias != own.0).then(|| bias.wrapping_add(first.address))
    }

    /// Which calls of the module `own` are to be recorded. Its imports come with what their words have now.
    pub(super) fn plan(
        &mut self,
        (modules, scope): (&mut Modules, &Scope),
        (all, own): (&[Loaded], Loaded),
        imports: impl Iterator<Item = (Import, u64)>,
    ) -> Planned {
        let mut planned = Planned::default();
        for (import, value) in imports {
            let target = self.find((all, modules), own, (value, &import.name));
            if target.is_some_and(|target| !leaves(target, own, modules)) {
                continue;
            }
            let index = target.map(|target| target.module);
            let module = index.and_then(|index| modules.at(index));
            let Some(class) = class(scope, module, &import.name) else { continue };
            let mut import = import;
            if import.may_be_loaded && target.is_some() {
                if may_wait(class) && self.may_lend_gates {
                    import.way = Way::Calls;
                } else if !may_wait(class) || import.way == Way::Address {
                    // Of those that nobody has asked for, it's enough to have some.
                    planned.missed.push(Arc::clone(&import.name));
                }
            }
            if import.way == Way::Address {
                continue;
            }
            let (place, is_new) = self.place(modules, index, (&import.name, class));
            let Some(function) = self.functions.get_mut(place) else { continue };
            let number = function.number;
            if is_new {
                planned.new.push((number, target, Arc::clone(&import.name)));
                let module = index.and_then(|index| modules.at(index));
                let name = &import.name;
                if let Some((recipe, values)) = recipe(scope, module, (name, class), number) {
                    function.recipe = Some(Arc::new(recipe));
                    planned.values.push(values);
                }
            }
            // It may have been given up.
            if function.is_wanted {
                let number = number | class << 24;
                let recipe = function.recipe.clone();
                planned.plans.push(Plan { import, number, leads_to: None, recipe });
            }
        }
        planned
    }

    /// Where the function is that the module `own` calls by a word which has `value` now. A word may lead into
    /// its own module, if no lookup of the function was made yet.
    fn find(
        &self,
        (all, modules): (&[Loaded], &Modules),
        own: Loaded,
        (value, name): (u64, &str),
    ) -> Option<Target> {
        let exported = |index: usize| {
            let export = *self.exports.get(&index)?.get(name)?;
            Some(Target { module: index, export })
        };
        let is_in = |(bias, index): &&Loaded| {
            let extent = modules.at(*index).map_or((0, 0), |module| module.extent);
            (extent.0..extent.1).contains(&value.wrapping_sub(*bias))
        };
        let bound = all.iter().filter(|one| **one != own).find(is_in);
        let bound = bound.and_then(|(_, index)| exported(*index));
        bound.or_else(|| all.iter().find_map(|(_, index)| exported(*index)))
    }

    /// The place of a function among those whose calls are traced, and whether it's new.
    fn place(
        &mut self,
        modules: &mut Modules,
        module: Option<usize>,
        (name, class): (&Arc<str>, u32),
    ) -> (usize, bool) {
        let new = self.functions.len();
        let place = *self.known.entry((module, Arc::clone(name))).or_insert(new);
        if place == new {
            let (number, name) = (modules.new_number(), Arc::clone(name));
            let (is_wanted, recipe) = (true, None);
            self.functions.push(Function { number, name, module, class, is_wanted, recipe });
        }
        (place, place == new)
    }
}

impl Recorder {
    /// Has calls be recorded that the modules `new`, of `all` in the order of the dynamic linker, make of others, as far as that's
    /// asked for: those of modules with hooks, and the program's.
    pub(super) fn arm_library_calls(
        &mut self,
        (thread, id): (Tracee, i32),
        memory: &Memory,
        space: &mut Space,
        (all, new): (&[Loaded], &[Loaded]),
    ) {
        if !self.request.scope.has_library() {
            return;
        }
        if let Err(error) = space.make_words(thread, memory) {
            let why = Failure::from(error);
            return self.note_of_library(format!("library calls aren't traced: {why}"));
        }
        self.library.read(all, &self.modules, id);
        for one in new {
            let Some(module) = self.modules.at(one.1) else { continue };
            let path = module.path.display().to_string();
            if module.hooks.is_empty() && all.first() != Some(one) {
                continue;
            }
            let planned = self.plan(id, memory, all, *one);
            let armed = planned.and_then(|(plans, missed)| {
                let left = self.arm_imports(thread, memory, space, (*one, &plans))?;
                Ok((left, missed))
            });
            match armed {
                Ok((left, missed)) => {
                    let notes = [note(&path, &left, NOT_TRACED), note(&path, &missed, MISSED)];
                    notes.into_iter().flatten().for_each(|text| self.note_of_library(text));
                }
                Err(error) => {
                    let why = Failure::from(error);
                    self.note_of_library(format!("{path}: its library calls aren't traced: {why}"));
                }
            }
        }
    }

    /// Notes what is missing of library calls. If nobody has asked for them, only the trace has it.
    fn note_of_library(&mut self, text: String) {
        if self.request.scope.library.is_empty() {
            self.add(Note { text: text.as_bytes() });
        } else {
            self.note(text);
        }
    }

    /// Which calls of the module `own` are to be recorded, and of which functions some may be missing.
    fn plan(
        &mut self,
        process: i32,
        memory: &Memory,
        all: &[Loaded],
        own: Loaded,
    ) -> io::Result<(Vec<Plan>, Vec<Arc<str>>)> {
        let Some(module) = self.modules.at(own.1) else { return Ok((Vec::new(), Vec::new())) };
        let imports = with_file(module, process, imports::imports)?;
        // Before any function is known, as the process may be gone.
        let word = |import: &Import| memory.word(own.0.wrapping_add(import.word));
        let values = imports.iter().map(word).collect::<io::Result<Vec<u64>>>()?;
        let imports = imports.into_iter().zip(values);
        let known = (&mut self.modules, &self.request.scope);
        let planned = self.library.plan(known, (all, own), imports);
        self.trace.add_all(planned.entries(&self.modules))?;
        Ok((planned.plans, planned.missed))
    }

    /// Does what is planned for the module `own`; the names of those for which it can't be done.
    pub(super) fn arm_imports(
        &mut self,
        thread: Tracee,
        memory: &Memory,
        space: &mut Space,
        (own, plans): (Loaded, &[Plan]),
    ) -> io::Result<Vec<Arc<str>>> {
        let Space { agent, desk, gates, words, has_recipes, .. } = space;
        let (Some(placed), Some(desk), false) = (agent, *desk, plans.is_empty()) else {
            return Ok(Vec::new());
        };
        let extent = self.modules.at(own.1).map_or((0, 0), |module| module.extent);
        let extent = (own.0.wrapping_add(extent.0), own.0.wrapping_add(extent.1));
        let replaced = plans.iter().filter(|plan| matches!(plan.import.way, Way::Sites(_)));
        let room = (replaced.count() as u64 * NEAR).next_multiple_of(PAGE);
        let thunks = match room {
            0 => None,
            _ if reaches(extent, placed.stubs.extent(), REACH) => None,
            size => {
                let wanted = NearRoom { extent, size, reach: REACH, protection: CODE };
                Some(wanted.map(thread, memory, desk)?)
            }
        };
        let kind = self.request.scope.kind();
        let symbols = &self.agent.symbols;
        let routines = [symbols.routines(kind), symbols.routines_of_waits(kind)]
            .map(|routines| routines.at(placed.bias));
        let pages = Pages::default();
        let words = words.get_or_insert_default();
        let bias = own.0;
        let recipes = placed.bias + symbols.stubs_end;
        let values_entry = placed.bias + symbols.routines_with_values(kind).entry;
        if plans.iter().any(|plan| plan.recipe.is_some()) && !*has_recipes {
            let at = placed.bias + symbols.config + config::FLAGS;
            memory.write(at, &(memory.word(at)? | flags::VALUES).to_le_bytes())?;
            *has_recipes = true;
        }
        let mut writer =
            Writer { memory, placed, bias, extent, routines, values_entry, words, thunks, pages };
        let mut left = Vec::new();
        for Plan { import, number, leads_to, recipe } in plans {
            if let Some(target) = leads_to {
                if !writer.lead(import, *target)? {
                    left.push(Arc::clone(&import.name));
                }
                continue;
            }
            if let Some(recipe) = recipe {
                writer.recipe(number & 0xff_ffff, recipe, recipes)?;
            }
            match writer.import(import, *number, recipe.is_some())? {
                Some(site) => gates.push(Gate { site, number: number & 0xff_ffff }),
                None => left.push(Arc::clone(&import.name)),
            }
        }
        writer.pages.write(memory)?;
        Ok(left)
    }
}

impl Space {
    /// Maps room for words that the dynamic linker fills in, unless that's been done. It's done when a program begins, as later there may be
    /// none that gates reach.
    pub(super) fn make_words(&mut self, thread: Tracee, memory: &Memory) -> io::Result<()> {
        const SIZE: u64 = 1 << 20;
        if let (Some(placed), Some(desk), None) = (&self.agent, self.desk, self.words) {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let extent = placed.stubs.extent();
            let wanted = NearRoom { extent, size: SIZE, reach: REACH, protection };
            self.words = Some(wanted.map(thread, memory, desk)?);
        }
        Ok(())
    }
}

/// Reads something of the file of a module of `process`.
pub(super) fn with_file<T>(
    module: &Module,
    process: i32,
    read: impl FnOnce(&ElfFile64<'_, Endianness>) -> T,
) -> io::Result<T> {
    let seen = Path::new("/proc").join(process.to_string()).join("root");
    let path = seen.join(module.path.strip_prefix("/").unwrap_or(&module.path));
    let input = Input::open(&path)?;
    let file = ElfFile64::<Endianness>::parse(input.bytes()).map_err(io::Error::other)?;
    Ok(read(&file))
}

/// Does a call of `target` leave the module `own`, and isn't recorded by the function's own hook?
fn leaves(target: Target, own: Loaded, modules: &Modules) -> bool {
    let address = target.export.address;
    let has_armed_hook = modules.at(target.module).is_some_and(|module| {
        let hooks = module.hooks.as_slice();
        let from = hooks.partition_point(|hook| hook.site < address);
        let hook = hooks.get(from).filter(|hook| hook.function == address);
        hook.is_some_and(|hook| hook.is_wanted)
    });
    target.export.is_function && target.module != own.1 && !has_armed_hook
}

/// What is copied of a function's calls, if the user says what its values are.
fn recipe(
    scope: &Scope,
    module: Option<&Module>,
    (symbol, class): (&str, u32),
    number: u32,
) -> Option<(Recipe, Description)> {
    let path = module.map(|module| module.path.to_string_lossy());
    let names = FunctionNames::new([symbol], path.as_deref().unwrap_or_default());
    values::of_library(scope, &names, (number, class & class::WAITS == 0))
}

/// The role of a function in recording, if its calls are recorded.
fn class(scope: &Scope, module: Option<&Module>, symbol: &str) -> Option<u32> {
    let path = module.map(|module| module.path.to_string_lossy());
    scope.choose_library(symbol, path.as_deref().unwrap_or_default())
}

const NOT_TRACED: &str = "aren't traced: its code isn't as in the file, or not understood";
const MISSED: &str =
    "may be missing: compiled with -fno-plt, it takes addresses from where calls do";

/// Says of which functions calls aren't in the trace.
fn note(path: &str, names: &[Arc<str>], why: &str) -> Option<String> {
    let first = crate::names::name_of(names.first()?, true);
    let more = match names.len() {
        1 => String::new(),
        count => format!(" and {}", counted(count - 1, "other", "others")),
    };
    Some(format!("{path}: calls of {first}{more} {why}"))
}
