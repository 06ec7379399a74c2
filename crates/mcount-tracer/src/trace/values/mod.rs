//! Arguments and results: which of them debug information tells of, where they are when a function begins and ends, and
//! what the agent is to copy.
//!
//! Three steps, a file each: `dwarf.rs` reads a function's parameters and their types, `places.rs` knows in which
//! registers they are passed (System V psABI for x86-64), `describe.rs` says in the trace how what was copied is read.

mod describe;
mod dwarf;
mod entries;
mod marks;
mod places;
mod types;

use self::describe::Description;
use self::dwarf::Reader;
use self::places::Plan;
use super::modules::{Hook, Module};
use super::processor;
use super::recipe::Recipe;
use super::scope::Scope;
use crate::debug::Sections;
use crate::debug::separate::{Search, Subject};
use crate::words::counted;
use mcount_trace::{Entry, Enumeration};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Facts about the values of a module.
#[derive(Default)]
pub(super) struct Found {
    /// For the trace: what the recipes of each function copy.
    functions: Vec<Description>,
    /// For the trace: the enumerations that these are of, by number, as [`Enumeration`] has them.
    enumerations: Vec<(u32, Vec<u8>)>,
    /// The values that are missing, and why.
    pub(super) notes: Vec<String>,
}

impl Found {
    /// The entries for the trace: enumerations before the functions that have values of them.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let enumerations = self
            .enumerations
            .iter()
            .map(|(number, enumerators)| Enumeration { number: *number, enumerators }.into());
        enumerations.chain(self.functions.iter().map(|one| one.signature().into()))
    }
}

/// The functions whose arguments and results are wanted.
struct Wanted {
    hook: usize,
    arguments: bool,
    result: bool,
}

/// Gives the hooks of `module`, which `file` is, their recipes.
pub(super) fn prepare(
    module: &mut Module,
    file: &Path,
    scope: &Scope,
    enumerations: &mut u32,
) -> Found {
    let wanted = wanted(module, scope);
    let mut found = Found::default();
    marks::prepare(module, &mut found);
    if wanted.is_empty() {
        return found;
    }
    let subject = Subject::open(file, &Search::default(), true).ok();
    let Some(sections) = subject.as_ref().and_then(|subject| Sections::load(subject.debug()))
    else {
        let name = module.path.display();
        let text =
            format!("{name}: no debug information, so no arguments and results: compile with -g");
        found.notes.push(text);
        return found;
    };
    let hooks = wanted.iter().filter_map(|one| module.hooks.get(one.hook));
    let addresses = hooks.flat_map(beginnings).collect();
    let mut reader = Reader::new(&sections, *enumerations);
    let signatures = reader.functions(&addresses);
    let mut missing = Missing::default();
    for one in &wanted {
        let Some(hook) = module.hooks.get_mut(one.hook) else { continue };
        let signature = beginnings(hook).find_map(|address| signatures.get(&address));
        let Some(signature) = signature else {
            missing.add(Reason::Unknown, hook);
            continue;
        };
        let plan = Plan::new(signature);
        if let Some(reason) = reason(one, hook, signature, &plan) {
            missing.add(reason, hook);
        }
        let mut recipe = Recipe::default();
        let mut description = Description::new(hook.id);
        if one.arguments && !hook.is_after_prologue() && !is_clone(hook) {
            recipe.arguments = plan.arguments(&mut description);
        }
        if one.result && !is_clone(hook) && signature.is_result_sure {
            recipe.result = plan.result(hook.is_after_prologue(), &mut description);
        }
        if recipe != Recipe::default() {
            hook.recipe = Some(Arc::new(recipe));
            found.functions.push(description);
        }
    }
    found.enumerations = reader.enumerations();
    *enumerations += u32::try_from(found.enumerations.len()).unwrap_or(0);
    found.notes.extend(missing.notes(module));
    found
}

/// Where the function of a hook may begin by debug information.
fn beginnings(hook: &Hook) -> impl Iterator<Item = u64> {
    processor::beginnings(hook.function, hook.site, hook.size)
}

fn wanted(module: &Module, scope: &Scope) -> Vec<Wanted> {
    let path = module.path.to_string_lossy();
    let is_meant = |hook: &Hook| hook.is_wanted && !hook.is_mark;
    let hooks = module.hooks.iter().enumerate().filter(|(_, hook)| is_meant(hook));
    let wanted = hooks.map(|(at, hook)| {
        let name = crate::names::name_of(&hook.name, true);
        let (arguments, result) = scope.values(&name, &hook.name, &path);
        Wanted { hook: at, arguments, result }
    });
    wanted.filter(|one| one.arguments || one.result).collect()
}

/// Why arguments or results aren't recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Reason {
    /// Debug information doesn't tell of the function.
    Unknown,
    /// The hook is after the prologue.
    Prologue,
    /// The compiler has changed the function.
    Clone,
    /// The compiler may not pass some of its arguments, or its result.
    LeftOut,
    /// A parameter's type isn't understood, so the places of the ones after it are unknown.
    Type,
}

fn reason(
    wanted: &Wanted,
    hook: &Hook,
    signature: &types::Signature,
    plan: &Plan<'_>,
) -> Option<Reason> {
    if is_clone(hook) {
        Some(Reason::Clone)
    } else if wanted.arguments && hook.is_after_prologue() {
        Some(Reason::Prologue)
    } else if wanted.arguments && !signature.is_whole() {
        Some(Reason::Type)
    } else if wanted.arguments && !plan.is_abi_kept()
        || wanted.result && signature.result.is_some() && !signature.is_result_sure
    {
        Some(Reason::LeftOut)
    } else {
        None
    }
}

/// Is it a copy that gcc has made of a function, with other parameters?
fn is_clone(hook: &Hook) -> bool {
    [".constprop.", ".isra.", ".part."].iter().any(|mark| hook.name.contains(mark))
}

/// How many functions lack values, and one of them, by reason.
#[derive(Default)]
struct Missing(HashMap<Reason, (usize, String)>);

impl Missing {
    fn add(&mut self, reason: Reason, hook: &Hook) {
        let name = || crate::names::name_of(&hook.name, true).into_owned();
        self.0.entry(reason).or_insert_with(|| (0, name())).0 += 1;
    }

    fn notes(self, module: &Module) -> Vec<String> {
        let mut all: Vec<_> = self.0.into_iter().collect();
        all.sort_unstable();
        let note = |(reason, (count, name)): (Reason, (usize, String))| {
            let more = match count {
                1 => name,
                _ => format!("{name} and {}", counted(count - 1, "other", "others")),
            };
            let text = match reason {
                Reason::Unknown => {
                    "no debug information, so no arguments and results: compile with -g"
                }
                Reason::Prologue => {
                    "-pg calls its hook after the prologue, where arguments may have left their registers: \
                     compile with -mfentry or -fpatchable-function-entry=5"
                }
                Reason::Clone => {
                    "the compiler has changed its parameters, so no arguments and results"
                }
                Reason::LeftOut => {
                    "some arguments and results aren't recorded: the compiler may have left them out"
                }
                Reason::Type => "some arguments aren't recorded: their type isn't understood",
            };
            format!("{}: {more}: {text}", module.path.display())
        };
        all.into_iter().map(note).collect()
    }
}
