//! Why a function has a hook in the table, or has none: from the symbols, the sites and the table of
//! a file, and from its debug information where there is some.
//!
//! Plain data in and out; `cli/why.rs` reads the files and prints the answers.

use crate::debug::Sections;
use crate::debug::functions::{Definition, Facts, Hooks, Inlined};
use mcount::{CallSite, Exclusion, Function, Functions};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Why a function is traceable or is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It is in the table.
    Recorded,
    /// It has a site, and the table has not.
    Missing,
    /// The section policy leaves it out.
    Excluded,
    /// Another definition took its place.
    Overridden,
    /// It was compiled without hooks.
    WithoutHooks,
    /// It was written in assembly.
    Assembly,
    /// It was compiled with hooks, and has none: its source asks for that.
    NoHook,
    /// It has no hook, and nothing says why.
    Unknown,
    /// It has no code of its own: all calls were inlined.
    Inlined,
    /// It is defined in the debug information, and has no code: nothing calls it.
    NoCode,
    /// It is the unlikely part of a function.
    ColdPart,
    /// Only clones and parts of it have code.
    Clone,
    /// It is declared here, and defined elsewhere.
    Declaration,
    /// The name is of something else.
    NotAFunction,
    /// Nothing has this name.
    NoSuchName,
}

impl Reason {
    /// The name that machine output has for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::Missing => "missing",
            Self::Excluded => "excluded",
            Self::Overridden => "overridden",
            Self::WithoutHooks => "compiled-without-hooks",
            Self::Assembly => "assembly",
            Self::NoHook => "no-hook",
            Self::Unknown => "unknown",
            Self::Inlined => "inlined",
            Self::NoCode => "no-code",
            Self::ColdPart => "cold-part",
            Self::Clone => "clone",
            Self::Declaration => "declaration",
            Self::NotAFunction => "not-a-function",
            Self::NoSuchName => "no-such-name",
        }
    }
}

/// One answer: of a function, or of a name that is of none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The name that was asked for.
    pub name: String,
    /// Why.
    pub reason: Reason,
    /// The same in words.
    pub words: String,
    /// Name of the symbol, where there is one.
    pub symbol: Option<String>,
    /// Its section.
    pub section: Option<String>,
    /// Where its site or entry is, or its code, in the section.
    pub offset: Option<u64>,
    /// The same in an image.
    pub address: Option<u64>,
    /// Where the source has it; line 0 if that is not known.
    pub place: Option<(String, u32)>,
    /// Where it was inlined.
    pub inlined: Vec<Inlined>,
    /// Its clones and parts that have code, or names like the one that was asked for.
    pub others: Vec<String>,
}

/// What is known of one file.
pub struct Knowledge<'k> {
    functions: &'k Functions,
    facts: Option<&'k BTreeMap<String, Facts>>,
    sections: Option<&'k Sections<'k>>,
    others: Others,
    /// The functions by each of their names, as indices, and the names by what the source calls
    /// them.
    by_name: HashMap<&'k str, Vec<usize>>,
    by_base: HashMap<&'k str, BTreeSet<&'k str>>,
    /// Start and end of the code that symbols cover, ascending, where the debug information has it.
    covered: Vec<(u64, u64)>,
}

/// What other symbols of a file say.
#[derive(Debug, Clone, Default)]
pub struct Others {
    /// Names of what is no function.
    pub data: Vec<String>,
    /// Start and end of the code of an image that its source keeps tracers out of.
    pub noinstr: Option<(u64, u64)>,
}

const NEEDS_DEBUG: &str = "debug information would tell";

impl<'k> Knowledge<'k> {
    /// What is known of a file with these functions; of its debug information, if there is any, the
    /// facts and the sections.
    #[must_use]
    pub fn new(
        functions: &'k Functions,
        debug: Option<(&'k BTreeMap<String, Facts>, &'k Sections<'k>)>,
        others: Others,
    ) -> Self {
        let (facts, sections) = debug.unzip();
        let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut by_base: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        for (at, function) in functions.functions.iter().enumerate() {
            for name in function.names() {
                by_name.entry(name).or_default().push(at);
                by_base.entry(mcount::source_name(name)).or_default().insert(name);
            }
        }
        let mut known =
            Self { functions, facts, sections, others, by_name, by_base, covered: Vec::new() };
        let span = |function: &Function| {
            let start = known.place_of(function)?;
            Some((start, start.checked_add(function.size.max(1))?))
        };
        known.covered = functions.functions.iter().filter_map(span).collect();
        known.covered.sort_unstable();
        known
    }

    /// Why the functions called `name` are traceable or are not; nothing where nothing is called so.
    #[must_use]
    pub fn why(&self, name: &str) -> Vec<Answer> {
        let base = mcount::source_name(name);
        let facts = self.facts.and_then(|facts| facts.get(base));
        let places = self.by_name.get(name).into_iter().flatten();
        let found = places.filter_map(|at| self.functions.functions.get(*at));
        let mut answers: Vec<Answer> =
            found.map(|function| self.of_function(name, function, facts)).collect();
        if let Some(facts) = facts.filter(|_| name == base) {
            answers.extend(self.overridden(name, facts));
            if let Some(first) = answers.first_mut() {
                first.inlined = facts.inlined.iter().cloned().collect();
            }
        }
        if answers.is_empty() {
            let answer = self.without_symbol(name, facts);
            let clones = answer.iter().flat_map(|answer| &answer.others);
            let of_clones: Vec<_> = clones.flat_map(|clone| self.why(clone)).collect();
            answers.extend(answer);
            answers.extend(of_clones);
        }
        answers
    }

    /// Why `function`, which has a symbol, has a site or has none.
    fn of_function(&self, name: &str, function: &Function, facts: Option<&Facts>) -> Answer {
        let definition = facts.and_then(|facts| self.definition(function, facts));
        let mut answer = Answer {
            symbol: Some(function.name.clone()),
            section: Some(function.section.clone()),
            offset: Some(function.offset),
            address: function.address,
            place: definition.and_then(known_place),
            ..Answer::new(name, Reason::Unknown, String::new())
        };
        let best = function.sites.iter().find(|site| site.recorded).or(function.sites.first());
        let Some(site) = best else {
            (answer.reason, answer.words) = self.without_site(name, function, definition);
            return answer;
        };
        (answer.offset, answer.address) = (site.offset, site.address);
        (answer.reason, answer.words) = with_site(function, site);
        answer
    }

    /// What the debug information says of `function`, by its place.
    fn definition<'f>(&self, function: &Function, facts: &'f Facts) -> Option<&'f Definition> {
        let at = self.place_of(function);
        let mut all = facts.definitions.iter();
        all.find(|definition| definition.address.is_some() && definition.address == at)
            .or_else(|| facts.definitions.iter().find(|definition| definition.address.is_none()))
    }

    /// The address of `function` in the debug information.
    fn place_of(&self, function: &Function) -> Option<u64> {
        let section = Some((function.section_index, function.section.as_str()));
        self.sections?.address(section, Some(function.offset), function.address)
    }

    fn without_site(
        &self,
        name: &str,
        function: &Function,
        definition: Option<&Definition>,
    ) -> (Reason, String) {
        if mcount::is_cold_part(name) {
            let whole = mcount::source_name(name);
            let words = format!("the unlikely part of {whole}, which is entered by jumps only");
            return (Reason::ColdPart, words);
        }
        let within =
            |(start, end)| function.address.is_some_and(|address| (start..end).contains(&address));
        if self.others.noinstr.is_some_and(within) {
            let words = "its source says noinstr: it is among the code that no tracer may enter";
            return (Reason::NoHook, words.to_owned());
        }
        let excluded = function.excluded.map(|excluded| exclusion(function, excluded));
        let unit = definition.map_or("", |definition| definition.unit.as_str());
        match (definition.map(|definition| definition.hooks), excluded) {
            (Some(Hooks::Assembly), _) => {
                (Reason::Assembly, format!("written in assembly, without a hook: {unit}"))
            }
            (Some(Hooks::NotWanted), _) => {
                (Reason::WithoutHooks, format!("{unit} was compiled without -pg"))
            }
            (_, Some(excluded)) => (Reason::Excluded, format!("no hook; {excluded}")),
            (Some(Hooks::Wanted), _) => {
                let words = "compiled with hooks, and has none: its source says notrace \
                             (no_instrument_function; Linux says it of every inline function), or naked";
                (Reason::NoHook, words.to_owned())
            }
            (Some(Hooks::Unknown), _) => (
                Reason::Unknown,
                format!(
                    "no hook; the compiler did not write down with which flags {unit} was compiled"
                ),
            ),
            (None, _) if self.facts.is_some() => {
                (Reason::Unknown, "no hook, and no debug information of it".to_owned())
            }
            (None, _) => (Reason::Unknown, format!("no hook; {NEEDS_DEBUG} why")),
        }
    }

    /// Definitions that have code, and no symbol there: another one has the name.
    fn overridden(&self, name: &str, facts: &Facts) -> Vec<Answer> {
        let ends = self.covered.first().zip(self.covered.iter().map(|(_, end)| end).max());
        let dead = |definition: &&Definition| {
            let Some(address) = definition.address else { return false };
            let after = self.covered.partition_point(|(start, _)| *start <= address);
            let mut before = self.covered.get(..after).unwrap_or_default().iter().rev().take(8);
            let is_code = ends.is_some_and(|((start, _), end)| (start..end).contains(&&address));
            is_code && !before.any(|(_, end)| address < *end)
        };
        let answer = |definition: &Definition| {
            let entry = self.functions.entries.iter().find(|entry| {
                let near = definition.address.and_then(|start| entry.address?.checked_sub(start));
                near.is_some_and(|distance| distance <= 16)
            });
            let words = "a weak definition that another one took the place of; ".to_owned()
                + if entry.is_some() {
                    "the table still has it"
                } else {
                    "the table has it no more"
                };
            Answer {
                address: entry.map_or(definition.address, |entry| entry.address),
                section: entry.and_then(|entry| entry.section.as_deref().map(str::to_owned)),
                offset: entry.and_then(|entry| entry.offset),
                place: known_place(definition),
                ..Answer::new(name, Reason::Overridden, words)
            }
        };
        // In an object every definition has its symbol.
        let all = facts.definitions.iter().filter(|_| self.functions.is_image);
        all.filter(dead).map(answer).collect()
    }

    /// Why there is no symbol called `name`.
    fn without_symbol(&self, name: &str, facts: Option<&Facts>) -> Option<Answer> {
        let clones = self.clones(name);
        let inlined: Vec<_> = facts.iter().flat_map(|facts| &facts.inlined).cloned().collect();
        let place = facts.and_then(|facts| facts.definitions.first()).and_then(known_place);
        let (reason, words) = if !clones.is_empty() {
            (Reason::Clone, "only clones or parts of it have code".to_owned())
        } else if !inlined.is_empty() {
            (Reason::Inlined, "inlined everywhere".to_owned())
        } else if facts.is_some_and(|facts| !facts.definitions.is_empty()) {
            (
                Reason::NoCode,
                "defined, and has no code: nothing calls it, or not from here".to_owned(),
            )
        } else if self.functions.undefined.iter().any(|other| other == name) {
            (Reason::Declaration, "used here, and defined in another file".to_owned())
        } else if self.others.data.iter().any(|other| other == name) {
            (Reason::NotAFunction, "the symbol is of no function".to_owned())
        } else if facts.is_some_and(|facts| facts.is_declared) {
            (Reason::Declaration, "declared here, and defined in another file".to_owned())
        } else {
            return None;
        };
        Some(Answer { place, inlined, others: clones, ..Answer::new(name, reason, words) })
    }

    /// The functions that a compiler made of `name`.
    fn clones(&self, name: &str) -> Vec<String> {
        let all = self.by_base.get(name).into_iter().flatten();
        all.filter(|other| **other != name).map(|other| (*other).to_owned()).collect()
    }
}

impl Answer {
    /// An answer that says nothing but this.
    #[must_use]
    pub fn new(name: &str, reason: Reason, words: String) -> Self {
        Self {
            name: name.to_owned(),
            reason,
            words,
            symbol: None,
            section: None,
            offset: None,
            address: None,
            place: None,
            inlined: Vec::new(),
            others: Vec::new(),
        }
    }

    /// Nothing is called `name`; `alike` is.
    #[must_use]
    pub fn no_such_name(name: &str, alike: Vec<String>, has_debug: bool) -> Self {
        let mut words = "no such name".to_owned();
        if !has_debug {
            words += "; it may be inlined everywhere: ";
            words += NEEDS_DEBUG;
        }
        Self { others: alike, ..Self::new(name, Reason::NoSuchName, words) }
    }
}

/// Where the source has `definition`, if that is known: of assembly it is not.
fn known_place(definition: &Definition) -> Option<(String, u32)> {
    Some(definition.place.clone()).filter(|(file, _)| !file.is_empty())
}

/// Why `function` has `site`, its first or its recorded one, in the table or not.
fn with_site(function: &Function, site: &CallSite) -> (Reason, String) {
    let what = match (&site.kind, &site.hook) {
        (_, Some(hook)) => format!("a call of {hook}"),
        (Some(kind), None) => match kind.name() {
            "patchable" => "a patchable entry".to_owned(),
            name => format!("a {name}"),
        },
        (None, None) => "a site".to_owned(),
    };
    if site.recorded {
        return (Reason::Recorded, format!("{what}, recorded"));
    }
    match function.excluded {
        Some(excluded) => (Reason::Excluded, format!("{what}; {}", exclusion(function, excluded))),
        None => (Reason::Missing, format!("{what}, which the table misses")),
    }
}

fn exclusion(function: &Function, excluded: Exclusion) -> String {
    match excluded {
        Exclusion::Section => format!("section {} is not recorded", function.section),
        Exclusion::Symbol => "it is to be left alone by its name".to_owned(),
        Exclusion::SourceFile => "it is to be left alone by its source file".to_owned(),
        _ => "it is to be left alone".to_owned(),
    }
}
