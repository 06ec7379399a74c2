//! Has functions that tell of their calls themselves tell the agent: the words by which their module calls the C library for that lead to the agent,
//! and a table there says which functions are recorded.

use super::Recorder;
use super::imports;
use super::instrumented::{self, NAMES};
use super::instrumented_table::{self, Table};
use super::library::{Library, Loaded, Plan, with_file};
use super::modules::{Hook, Module};
use super::processor::STUB;
use super::space::Space;
use crate::commit::Failure;
use mcount_ptrace::{Memory, Tracee};
use std::collections::BTreeMap;
use std::io;

/// What is said of a module whose functions tell of calls that aren't recorded, before why.
pub(super) const NOT_RECORDED: &str = "what its functions tell of their calls isn't recorded";

impl Recorder {
    /// Does it for the modules `new` of process `id`, of `all`.
    pub(super) fn arm_instrumented(
        &mut self,
        (thread, id): (Tracee, i32),
        memory: &Memory,
        space: &mut Space,
        (all, new): (&[Loaded], &[Loaded]),
    ) {
        for one in new {
            let Some(module) = self.modules.at(one.1) else { continue };
            if !module.hooks.iter().any(|hook| hook.is_instrumented && hook.is_wanted) {
                continue;
            }
            let path = module.path.display().to_string();
            self.library.read(all, &self.modules, id);
            let Some(module) = self.modules.at(one.1) else { continue };
            let functions = addresses(module, (all, *one), &self.library);
            let done = self.lead_to_agent((thread, id), memory, space, (all, *one));
            let done = done.and_then(|why| match why {
                Some(why) => Err(io::Error::other(why)),
                None => self.tell_agent(memory, space, (one.0, &functions)),
            });
            if let Err(error) = done {
                self.note(format!("{path}: {NOT_RECORDED}: {}", Failure::from(error)));
            }
        }
    }

    /// Makes calls of the module `own` lead to the agent; why they don't, if they don't.
    fn lead_to_agent(
        &mut self,
        (thread, id): (Tracee, i32),
        memory: &Memory,
        space: &mut Space,
        (all, own): (&[Loaded], Loaded),
    ) -> io::Result<Option<String>> {
        let Some(bias) = space.agent.as_ref().map(|placed| placed.bias) else { return Ok(None) };
        for (_, index) in all {
            let Some(module) = self.modules.at(*index) else { continue };
            if with_file(module, id, instrumented::owner)? {
                return Ok(Some(has_own(&module.path.display().to_string())));
            }
        }
        space.make_words(thread, memory)?;
        let Some(module) = self.modules.at(own.1) else { return Ok(None) };
        let found = with_file(module, id, |file| imports::imports_of(file, &NAMES))?;
        let routines = self.agent.symbols.instrumented_routines(bias);
        let plans = plans(found, routines);
        let left = self.arm_imports(thread, memory, space, (own, &plans))?;
        let is_done = left.is_empty() && !plans.is_empty();
        Ok((!is_done).then(|| UNKNOWN_FORM.to_owned()))
    }

    /// Has the agent forget the functions of a module that's gone: something else can be where they were.
    pub(super) fn forget_instrumented(memory: &Memory, space: &mut Space, bias: u64) {
        let words = space.instrumented.remove(&bias).unwrap_or_default();
        // The process may be gone, too.
        let _ = instrumented_table::switch(memory, words.into_iter().map(|(_, at)| at), false);
    }

    /// Gives the agent one more table.
    fn tell_agent(
        &self,
        memory: &Memory,
        space: &mut Space,
        (bias, functions): (u64, &BTreeMap<u64, u32>),
    ) -> io::Result<()> {
        let Some(placed) = &mut space.agent else { return Ok(()) };
        let last = placed.bias + self.agent.symbols.instrumented;
        let table = Table::new(memory.word(last)?, functions);
        let size = table.bytes.len().next_multiple_of(STUB) as u64;
        let no_room = || io::Error::other("no room for more stubs");
        let at = placed.stubs.take(size).ok_or_else(no_room)?;
        memory.write(at, &table.bytes)?;
        space.instrumented.insert(bias, table.words(at).collect());
        memory.write(last, &at.to_le_bytes())
    }
}

/// The addresses that the wanted functions of the module `own` tell, and what the agent is to know of each.
pub(super) fn addresses(
    module: &Module,
    (all, own): (&[Loaded], Loaded),
    library: &Library,
) -> BTreeMap<u64, u32> {
    let wanted = || module.hooks.iter().filter(|hook| hook.is_instrumented && hook.is_wanted);
    let word = |hook: &Hook| hook.id | hook.class << 24;
    let elsewhere = wanted().filter_map(|hook| {
        let address = library.overriding((all, own), (&hook.name, hook.function))?;
        Some((address, word(hook)))
    });
    let here = wanted().map(|hook| (own.0.wrapping_add(hook.function), word(hook)));
    elsewhere.chain(here).collect()
}

/// The changes for these imports, by which functions tell of their calls: they lead to these routines.
pub(super) fn plans(imports: Vec<imports::Import>, [enter, exit]: [u64; 2]) -> Vec<Plan> {
    let plan = |import: imports::Import| {
        let leads_to = Some(if *import.name == *NAMES[0] { enter } else { exit });
        Plan { import, number: 0, leads_to, recipe: None }
    };
    imports.into_iter().map(plan).collect()
}

/// Why nothing is recorded of what functions tell, if the module at `path` has functions of its own for that.
pub(super) fn has_own(path: &str) -> String {
    format!("{path} has its own {}", NAMES[0])
}

/// Why nothing is recorded of what a module's functions tell.
pub(super) const UNKNOWN_FORM: &str = "its calls of __cyg_profile_func_enter have an unknown form";
