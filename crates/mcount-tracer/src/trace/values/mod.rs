//! Arguments and results: which of them debug information tells of, where they are when a function begins and ends, and
//! what the agent is to copy.
//!
//! Three steps, a file each: `dwarf.rs` reads a function's parameters and their types, `places.rs` knows in which
//! registers they are passed (System V psABI for x86-64), `describe.rs` says in the trace how what was copied is read. What they lead to
//! is read by `targets.rs`, and by `library.rs` for vectors and the like; `shape.rs` says how it's copied.

mod conditions;
mod counted;
mod describe;
mod dwarf;
mod entries;
mod library;
mod marks;
mod places;
mod shape;
mod targets;
mod types;
mod units;

use self::conditions::{Decisions, FunctionValues, Undecided};
pub(super) use self::describe::Description;
use self::dwarf::Reader;
use self::places::{Located, Plan};
use self::types::{Evidence, Parameter, Signature, Type};
use self::units::{Lack, PoorUnits};
use super::function_names::FunctionNames;
use super::given::{GivenSignature, GivenType};
use super::modules::{Hook, Module};
use super::processor;
use super::recipe::Recipe;
use super::scope::{Reach, Scope};
use crate::debug::Sections;
use crate::debug::separate::{Search, Subject};
use crate::words::counted;
use mcount_cpu::outside::values::Conventions;
use mcount_trace::{Entry, Enumeration};
use std::cell::LazyCell;
use std::collections::{BTreeSet, HashMap};
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
struct Wanted<'s> {
    hook: usize,
    arguments: bool,
    result: bool,
    /// The signature that the user gives.
    given: Option<&'s GivenSignature>,
}

impl Wanted<'_> {
    /// Is debug information needed for what the user hasn't said?
    fn needs_more(&self, given: &GivenSignature) -> bool {
        self.result && !given.has_result()
    }
}

/// Gives the hooks of `module`, which `file` is, their recipes.
pub(super) fn prepare(
    module: &mut Module,
    file: &Path,
    scope: &Scope,
    enumerations: &mut u32,
) -> Found {
    let mut found = Found::default();
    marks::prepare(module, &mut found, scope);
    add_values(module, file, scope, (&mut found, enumerations));
    counted::prepare(module, &mut found, scope);
    found
}

/// Gives functions whose arguments and results are wanted what copies these.
fn add_values(
    module: &mut Module,
    file: &Path,
    scope: &Scope,
    (found, enumerations): (&mut Found, &mut u32),
) {
    let wanted = wanted(module, scope);
    let Some(rules) = processor::VALUES.filter(|_| !wanted.is_empty()) else { return };
    let is_given = wanted.iter().all(|one| one.given.is_some_and(|given| !one.needs_more(given)));
    let subject = (!is_given).then(|| Subject::open(file, &Search::default(), true).ok()).flatten();
    let sections = subject.as_ref().and_then(|subject| Sections::load(subject.debug()));
    if sections.is_none() && wanted.iter().any(|one| one.given.is_none()) {
        let name = module.path.display();
        let text = format!(
            "{name}: no debug information, so no arguments and results: compile with -g, or say what they are: --args 'NAME(p, s, i32)'"
        );
        found.notes.push(text);
    }
    let hooks = wanted.iter().filter_map(|one| module.hooks.get(one.hook));
    let addresses = hooks.flat_map(beginnings).collect();
    let mut reader =
        sections.as_ref().map(|sections| Reader::new(sections, *enumerations, rules, scope.reach));
    let signatures = reader.as_mut().map(|reader| reader.functions(&addresses));
    let signatures = signatures.unwrap_or_default();
    let conditions = ForConditions::new(sections.as_ref(), (rules, scope), &addresses);
    let mut missing = Missing::default();
    let units = LazyCell::new(|| sections.as_ref().map(PoorUnits::of));
    let lack = |hook: &Hook| units.as_ref().and_then(|units| units.lack(hook.function));
    for one in &wanted {
        let Some(hook) = module.hooks.get_mut(one.hook) else { continue };
        let known = beginnings(hook).find_map(|address| signatures.get(&address));
        let given = one.given.map(|given| signature_of(given, known));
        match given.as_ref().or(known) {
            Some(signature) => {
                let reason = reason(one, hook, signature, rules);
                let reason = reason.filter(|one| given.is_none() || *one == Reason::Clone);
                let is_poor = given.is_none() && signature.is_empty() && lack(hook).is_some();
                missing.extend(if is_poor { Some(Reason::LinesOnly) } else { reason }, hook);
                let known = reader.as_ref().map_or(&[][..], Reader::known_enumerations);
                let wide = conditions.of(hook).filter(|_| given.is_none());
                let (of, enumerations) = wide.unwrap_or((signature, known));
                let (is_late, is_clone) = (hook.is_after_prologue(), is_clone(hook));
                let function = FunctionOf { is_late, is_clone, signature: of, rules, enumerations };
                let (decisions, is_undecided) = function.decisions(scope);
                missing.extend(is_undecided.then_some(Reason::Condition), hook);
                found.functions.extend(add_recipe(
                    one,
                    hook,
                    (signature, decisions),
                    (rules, scope.reach),
                ));
            }
            // That there's no debug information at all has been said.
            None => missing.extend(reader.is_some().then(|| why_unknown(lack(hook))), hook),
        }
    }
    found.enumerations = reader.map(Reader::enumerations).unwrap_or_default();
    *enumerations += u32::try_from(found.enumerations.len()).unwrap_or(0);
    found.notes.extend(missing.notes(module));
}

/// The names of enumerations, by their numbers.
type Enumerators = [(u32, Vec<u8>)];

/// The functions as conditions need them that name fields: these may be further in than what is shown of a structure.
struct ForConditions<'s> {
    reader: Option<Reader<'s>>,
    signatures: HashMap<u64, Signature>,
}

impl<'s> ForConditions<'s> {
    fn new(
        sections: Option<&'s Sections<'_>>,
        (rules, scope): (&'static Conventions, &Scope),
        addresses: &BTreeSet<u64>,
    ) -> Self {
        let depths = scope.conditions.iter().map(|condition| condition.root.depth());
        let depth = depths.max().unwrap_or(0);
        let depth = u32::try_from(depth).unwrap_or(u32::MAX).min(Reach::DEEPEST);
        let reach = Reach { depth, size: u8::MAX };
        let sections = sections.filter(|_| depth != 0);
        let mut reader = sections.map(|sections| Reader::new(sections, 0, rules, reach));
        let signatures = reader.as_mut().map(|reader| reader.functions(addresses));
        Self { reader, signatures: signatures.unwrap_or_default() }
    }

    /// The function of a hook, and the enumerations that were met.
    fn of(&self, hook: &Hook) -> Option<(&Signature, &Enumerators)> {
        let signature = beginnings(hook).find_map(|address| self.signatures.get(&address))?;
        Some((signature, self.reader.as_ref()?.known_enumerations()))
    }
}

/// What is copied of the calls of a library function, and the description of that, if the user says what its values are.
pub(super) fn of_library(
    scope: &Scope,
    names: &FunctionNames<'_>,
    (number, is_counted): (u32, bool),
) -> Option<(Recipe, Description)> {
    let known = given_of_library(scope, names, number);
    if scope.counters.is_empty() || !is_counted {
        return known;
    }
    let (mut recipe, mut description) =
        known.unwrap_or_else(|| (Recipe::default(), Description::new(number)));
    counted::add(&mut recipe, &mut description, &scope.counters);
    Some((recipe, description))
}

fn given_of_library(
    scope: &Scope,
    names: &FunctionNames<'_>,
    number: u32,
) -> Option<(Recipe, Description)> {
    let (arguments, result) = scope.values(names);
    let rules = processor::VALUES.filter(|_| arguments || result)?;
    let signature = signature_of(scope.signature(names)?, None);
    let function = FunctionOf {
        is_late: false,
        is_clone: false,
        signature: &signature,
        rules,
        enumerations: &[],
    };
    let (Decisions { entry, exit }, _) = function.decisions(scope);
    let plan = Plan::new(&signature, rules);
    let mut recipe = Recipe { entry, exit, ..Recipe::default() };
    let mut description = Description::new(number);
    if arguments {
        recipe.arguments = plan.arguments(&mut description, scope.reach);
    }
    if result && signature.is_result_sure {
        recipe.result = plan.result(false, &mut description, scope.reach);
    }
    (recipe != Recipe::default()).then_some((recipe, description))
}

/// A signature that's given, as debug information would tell it; `known` is what that says, if there's any.
fn signature_of(given: &GivenSignature, known: Option<&Signature>) -> Signature {
    let parameter = |kind: &GivenType| Parameter {
        name: String::new(),
        kind: type_of(*kind),
        shape: None,
        evidence: match kind {
            GivenType::Skipped => Evidence::Nowhere,
            _ => Evidence::Expected,
        },
    };
    let result = given.result.map(type_of);
    let result_shape =
        known.filter(|_| result.is_none()).and_then(|known| known.result_shape.clone());
    let is_result_sure = result.is_some() || known.is_some_and(|known| known.is_result_sure);
    Signature {
        parameters: given.parameters.iter().map(parameter).collect(),
        result: result.or_else(|| known.and_then(|known| known.result.clone())),
        result_shape,
        is_result_small: known.is_some_and(|known| known.is_result_small),
        is_result_sure,
        is_rust: false,
    }
}

fn type_of(given: GivenType) -> Type {
    match given {
        GivenType::Signed(size) => Type::Signed(size),
        GivenType::Unsigned(size) => Type::Unsigned(size),
        GivenType::Float(size) => Type::Float(size),
        GivenType::Boolean => Type::Boolean(1),
        GivenType::Character => Type::Character(1),
        GivenType::Pointer | GivenType::Skipped => Type::Pointer,
        GivenType::Text => Type::Text,
    }
}

/// Gives `hook` what copies its values, if there are any; their description.
fn add_recipe(
    wanted: &Wanted<'_>,
    hook: &mut Hook,
    (signature, decisions): (&Signature, Decisions),
    (rules, reach): (&'static Conventions, Reach),
) -> Option<Description> {
    let plan = Plan::new(signature, rules);
    let Decisions { entry, exit } = decisions;
    let mut recipe = Recipe { entry, exit, ..Recipe::default() };
    let mut description = Description::new(hook.id);
    if wanted.arguments && !hook.is_after_prologue() && !is_clone(hook) {
        recipe.arguments = plan.arguments(&mut description, reach);
    }
    if wanted.result && !is_clone(hook) && signature.is_result_sure {
        recipe.result = plan.result(hook.is_after_prologue(), &mut description, reach);
    }
    if recipe == Recipe::default() {
        return None;
    }
    hook.recipe = Some(Arc::new(recipe));
    Some(description)
}

/// A function that conditions may be about.
struct FunctionOf<'f> {
    /// Its hook is after the prologue.
    is_late: bool,
    /// The compiler has changed it.
    is_clone: bool,
    signature: &'f Signature,
    rules: &'static Conventions,
    enumerations: &'f [(u32, Vec<u8>)],
}

impl FunctionOf<'_> {
    /// What the conditions say of it that it has the values for; and whether one couldn't be taken in that is about it.
    fn decisions(&self, scope: &Scope) -> (Decisions, bool) {
        let (mut decisions, mut is_undecided) = (Decisions::default(), false);
        let plan = Plan::new(self.signature, self.rules);
        let mut arguments = plan.located();
        if self.is_late || self.is_clone {
            for one in &mut arguments {
                one.words = None;
            }
        }
        let mut result = plan.located_result(self.is_late);
        if self.is_clone {
            result = result.map(|one| Located { words: None, ..one });
        }
        let values = FunctionValues {
            arguments,
            result,
            enumerator: &|number, name| {
                let mut all = self.enumerators(number);
                all.find(|(_, one)| *one == name).map(|(value, _)| value)
            },
            is_signed: &|number| self.enumerators(number).any(|(value, _)| value < 0),
        };
        for condition in &scope.conditions {
            match decisions.add(condition, &values) {
                Ok(()) => scope.meets(condition),
                Err(Undecided::NotMeant) => {}
                Err(Undecided::Unknown) => {
                    scope.meets(condition);
                    is_undecided = true;
                }
            }
        }
        (decisions, is_undecided)
    }

    /// The numbers and names of an enumeration.
    fn enumerators(&self, number: u32) -> impl Iterator<Item = (i64, &[u8])> {
        let found = self.enumerations.iter().find(|(one, _)| *one == number);
        let mut rest = found.and_then(|(_, bytes)| bytes.get(4..)).unwrap_or_default();
        std::iter::from_fn(move || {
            let (value, behind) = rest.split_first_chunk()?;
            let (length, behind) = behind.split_first()?;
            let (name, behind) = behind.split_at_checked(usize::from(*length))?;
            rest = behind;
            Some((i64::from_ne_bytes(*value), name))
        })
    }
}

/// Where the function of a hook may begin by debug information.
fn beginnings(hook: &Hook) -> impl Iterator<Item = u64> {
    processor::beginnings(hook.function, hook.site, hook.size)
}

/// Does it have calls of the function that it's at the beginning of?
fn has_calls(hook: &Hook) -> bool {
    let has_site = !hook.is_mark && !hook.is_instrumented && hook.marker().is_none();
    hook.is_wanted && has_site
}

fn wanted<'s>(module: &Module, scope: &'s Scope) -> Vec<Wanted<'s>> {
    let path = module.path.to_string_lossy();
    let hooks = module.hooks.iter().enumerate().filter(|(_, hook)| has_calls(hook));
    let wanted = hooks.map(|(at, hook)| {
        let names = FunctionNames::new(hook.names(), &path);
        let (arguments, result) = scope.values(&names);
        let given = scope.signature(&names);
        Wanted { hook: at, arguments, result, given }
    });
    wanted.filter(|one| one.arguments || one.result).collect()
}

/// Why arguments or results aren't recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Reason {
    /// Debug information doesn't tell of the function.
    Unknown,
    /// It's in a file that isn't read.
    Split,
    /// It tells of lines only.
    LinesOnly,
    /// The hook is after the prologue.
    Prologue,
    /// The compiler has changed the function.
    Clone,
    /// The compiler may not pass some of its arguments, or its result.
    LeftOut,
    /// A parameter's type isn't understood, so the places of the ones after it are unknown.
    Type,
    /// A condition is about it that can't be decided.
    Condition,
}

fn reason(
    wanted: &Wanted<'_>,
    hook: &Hook,
    signature: &Signature,
    rules: &'static Conventions,
) -> Option<Reason> {
    let plan = Plan::new(signature, rules);
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

/// Why nothing is known of a function whose unit lacks this.
fn why_unknown(lack: Option<Lack>) -> Reason {
    if lack == Some(Lack::Split) { Reason::Split } else { Reason::Unknown }
}

/// Is it a copy that gcc has made of a function, with other parameters?
fn is_clone(hook: &Hook) -> bool {
    [".constprop.", ".isra.", ".part."].iter().any(|mark| hook.name.contains(mark))
}

/// How many functions lack values, and one of them, by reason.
#[derive(Default)]
struct Missing(HashMap<Reason, (usize, String)>);

impl Missing {
    fn extend(&mut self, reason: Option<Reason>, hook: &Hook) {
        let Some(reason) = reason else { return };
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
                Reason::Split => {
                    "its debug information is in .dwo files, which mcount doesn't read: compile without \
                     -gsplit-dwarf, or say what the values are: --args 'NAME(p, s, i32)'"
                }
                Reason::LinesOnly => {
                    "its debug information has no parameters and results (-g1): compile with -g"
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
                Reason::Condition => {
                    "--if isn't checked there: where the value is isn't known, or it's of another kind"
                }
                Reason::Type => "some arguments aren't recorded: their type isn't understood",
            };
            format!("{}: {more}: {text}", module.path.display())
        };
        all.into_iter().map(note).collect()
    }
}
