//! Why a function can or can't be traced, from the symbols, sites and table of a file, and from its debug
//! information if there is any.
//!
//! Plain data in and out; `cli/why.rs` reads the files and prints the answers.

use crate::debug::Sections;
use crate::debug::functions::{Definition, Facts, Hooks, Inlined};
use crate::inlined::{InlinedCode, InlinedPlaces};
use crate::output::name_of;
use mcount::{CallSite, Exclusion, Function, Functions, Kind};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Why a function can or can't be traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It is in the table.
    Recorded,
    /// It has a site, and no entry in the table.
    Missing,
    /// It has a site, and the file has no table.
    NoTable,
    /// The section policy leaves it out.
    Excluded,
    /// Another definition overrode it.
    Overridden,
    /// It was compiled without hooks.
    WithoutHooks,
    /// It was written in assembly.
    Assembly,
    /// Its file was compiled with hooks, and it has none, because its source says so.
    NoHook,
    /// It has no hook, and nothing says why.
    Unknown,
    /// It has no code of its own, because all calls were inlined.
    Inlined,
    /// It has a definition in the debug information, and no code, because nothing calls it.
    NoCode,
    /// It is the unlikely part of a function.
    ColdPart,
    /// Only clones and parts of it have code.
    Clone,
    /// It is declared here, and defined elsewhere.
    Declaration,
    /// Something else has this name.
    NotAFunction,
    /// Nothing has this name.
    NoSuchName,
}

impl Reason {
    /// Its name in machine output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::Missing => "missing",
            Self::NoTable => "no-table",
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

/// One answer: about a function, or about a name that no function has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The name that the user gave.
    pub name: String,
    /// Why.
    pub reason: Reason,
    /// The same in words.
    pub words: String,
    /// The name of the symbol, if there is one.
    pub symbol: Option<String>,
    /// Its section.
    pub section: Option<String>,
    /// Where its site, its entry or its code is: of an object, the offset in the section.
    pub offset: Option<u64>,
    /// Of an image, the address.
    pub address: Option<u64>,
    /// Source file and line; line 0 if it isn't known.
    pub place: Option<(String, u32)>,
    /// Where it was inlined.
    pub inlined: Vec<Inlined>,
    /// The same by BTF, if there's no debug information.
    pub inlined_code: Vec<InlinedCode>,
    /// Its clones and parts that have code, or names that look like the one that was given.
    pub others: Vec<String>,
}

/// What we know about one file.
pub struct Knowledge<'k> {
    functions: &'k Functions,
    facts: Option<&'k BTreeMap<String, Facts>>,
    sections: Option<&'k Sections<'k>>,
    inlined: Option<&'k InlinedPlaces<'k>>,
    others: Others,
    /// Indices of functions by each of their names.
    by_name: HashMap<&'k str, Vec<usize>>,
    /// Names of functions by what the source calls them.
    by_base: HashMap<&'k str, BTreeSet<&'k str>>,
    /// Start and end of each function that has a symbol, as addresses in the debug information, ascending.
    covered: Vec<(u64, u64)>,
}

/// What other symbols of a file tell.
#[derive(Debug, Clone, Default)]
pub struct Others {
    /// Names of things that aren't functions.
    pub data: Vec<String>,
    /// Start and end of the code that an image keeps tracers out of.
    pub noinstr: Option<(u64, u64)>,
}

const NEEDS_DEBUG: &str = "debug information would tell";

impl<'k> Knowledge<'k> {
    /// Gathers what we know about a file with these functions. `debug` is its debug information, if there
    /// is any, and `inlined` what BTF says of inlined functions.
    #[must_use]
    pub fn new(
        functions: &'k Functions,
        debug: Option<(&'k BTreeMap<String, Facts>, &'k Sections<'k>)>,
        inlined: Option<&'k InlinedPlaces<'k>>,
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
        let covered = Vec::new();
        let mut known =
            Self { functions, facts, sections, inlined, others, by_name, by_base, covered };
        known.covered = functions.functions.iter().filter_map(|f| known.span(f)).collect();
        known.covered.sort_unstable();
        known
    }

    /// Why the functions called `name` can or can't be traced. Empty if nothing has that name.
    #[must_use]
    pub fn why(&self, name: &str) -> Vec<Answer> {
        let base = base_of(name);
        // Debug information has the names of C++ in both forms, and several functions have one in the source.
        let of = |name: &str| self.facts.and_then(|facts| facts.get(name));
        let facts = of(mcount::source_name(name)).or_else(|| of(&base));
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
        if let Some(first) = answers.first_mut().filter(|_| name == base) {
            first.inlined_code = self.inlined_code(name, facts);
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

    /// Why `function`, which has a symbol, can or can't be traced.
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
        (answer.reason, answer.words) = self.with_site(function, site);
        answer
    }

    /// Whether the table has `site` of `function`, and why not.
    fn with_site(&self, function: &Function, site: &CallSite) -> (Reason, String) {
        let what = site_in_words(site);
        if site.kind == Some(Kind::Sled) {
            return (Reason::Recorded, format!("{what}, in the compiler's list"));
        }
        if site.recorded {
            return (Reason::Recorded, format!("{what}, recorded"));
        }
        if let Some(excluded) = function.excluded {
            return (Reason::Excluded, format!("{what}; {}", exclusion(function, excluded)));
        }
        // Where there's no table, the compiler's list is read.
        let mut entries = self.functions.entries.iter();
        let is_listed = site.address.is_some() && entries.any(|one| one.address == site.address);
        if self.functions.is_image && (is_listed || self.functions.entries.is_empty()) {
            let words = format!(
                "{what}; the file has no table, which mcount trace doesn't need and a kernel does"
            );
            return (Reason::NoTable, words);
        }
        (Reason::Missing, format!("{what}, missing from the table"))
    }

    /// The definition of `function` in the debug information, by its place.
    fn definition<'f>(&self, function: &Function, facts: &'f Facts) -> Option<&'f Definition> {
        let at = self.place_of(function);
        let mut all = facts.definitions.iter();
        all.find(|definition| definition.address.is_some() && definition.address == at).or_else(
            || {
                let symbol = mcount::source_name(&function.name);
                let is_known = self.facts.is_some_and(|facts| facts.contains_key(symbol));
                let is_plain = is_known || !is_mangled(symbol);
                let mut all = facts.definitions.iter().filter(|_| is_plain);
                all.find(|definition| definition.address.is_none())
            },
        )
    }

    /// The address of `function` in the debug information.
    fn place_of(&self, function: &Function) -> Option<u64> {
        let section = Some((function.section_index, function.section.as_str()));
        self.sections?.address(section, Some(function.offset), function.address)
    }

    /// Where `function` starts and ends, as addresses in the debug information.
    fn span(&self, function: &Function) -> Option<(u64, u64)> {
        let start = self.place_of(function)?;
        Some((start, start.checked_add(function.size.max(1))?))
    }

    /// Why `function` has no site.
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
        if let (Some((start, end)), Some(address)) = (self.others.noinstr, function.address)
            && (start..end).contains(&address)
        {
            let words = "its source says noinstr: tracers must not enter that code";
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
                let words = "compiled with hooks, but has none: its source says notrace \
                             (no_instrument_function; Linux says it of every inline function), or naked";
                (Reason::NoHook, words.to_owned())
            }
            (Some(Hooks::Unknown), _) => (
                Reason::Unknown,
                format!("no hook; the compiler didn't write down the flags of {unit}"),
            ),
            (None, _) if self.facts.is_some() => {
                (Reason::Unknown, "no hook, and no debug information about it".to_owned())
            }
            (None, _) => (Reason::Unknown, format!("no hook; {NEEDS_DEBUG} why")),
        }
    }

    /// Definitions called `name` that have code and no symbol, because another one overrode them.
    fn overridden(&self, name: &str, facts: &Facts) -> Vec<Answer> {
        // In an object, every definition has its symbol.
        if !self.functions.is_image {
            return Vec::new();
        }
        let dead = facts.definitions.iter().filter(|definition| self.is_dead(definition));
        dead.map(|definition| self.of_overridden(name, definition)).collect()
    }

    /// Whether `definition` has code that no symbol covers.
    fn is_dead(&self, definition: &Definition) -> bool {
        let Some(address) = definition.address else { return false };
        let start = self.covered.first().map(|(start, _)| *start);
        let end = self.covered.iter().map(|(_, end)| *end).max();
        if start.is_none_or(|start| address < start) || end.is_none_or(|end| address >= end) {
            return false;
        }
        let after = self.covered.partition_point(|(start, _)| *start <= address);
        let mut before = self.covered.get(..after).unwrap_or_default().iter().rev().take(8);
        !before.any(|(_, end)| address < *end)
    }

    /// The answer about a definition that another one overrode.
    fn of_overridden(&self, name: &str, definition: &Definition) -> Answer {
        let entry = self.functions.entries.iter().find(|entry| {
            let near = definition.address.and_then(|start| entry.address?.checked_sub(start));
            near.is_some_and(|distance| distance <= 16)
        });
        let of_table = match entry {
            Some(_) => "its entry is still in the table",
            None => "the table has no entry for it",
        };
        let words = format!("a weak definition, overridden by another one; {of_table}");
        Answer {
            address: entry.map_or(definition.address, |entry| entry.address),
            section: entry.and_then(|entry| entry.section.as_deref().map(str::to_owned)),
            offset: entry.and_then(|entry| entry.offset),
            place: known_place(definition),
            ..Answer::new(name, Reason::Overridden, words)
        }
    }

    /// Why no symbol is called `name`. `None` if nothing else is, either.
    fn without_symbol(&self, name: &str, facts: Option<&Facts>) -> Option<Answer> {
        let clones = self.clones(name);
        let inlined: Vec<_> = facts.iter().flat_map(|facts| &facts.inlined).cloned().collect();
        let inlined_code = self.inlined_code(name, facts);
        let place = facts.and_then(|facts| facts.definitions.first()).and_then(known_place);
        let (reason, words) = if !clones.is_empty() {
            (Reason::Clone, "only clones or parts of it have code".to_owned())
        } else if !inlined.is_empty() || !inlined_code.is_empty() {
            (Reason::Inlined, "inlined everywhere".to_owned())
        } else if facts.is_some_and(|facts| !facts.definitions.is_empty()) {
            (Reason::NoCode, "defined, but without code: nothing here calls it".to_owned())
        } else if self.functions.undefined.iter().any(|other| other == name) {
            (Reason::Declaration, "used here, but defined in another file".to_owned())
        } else if self.others.data.iter().any(|other| other == name) {
            (Reason::NotAFunction, "not a function".to_owned())
        } else if facts.is_some_and(|facts| facts.is_declared) {
            (Reason::Declaration, "declared here, but defined in another file".to_owned())
        } else {
            return None;
        };
        let answer = Answer::new(name, reason, words);
        Some(Answer { place, inlined, inlined_code, others: clones, ..answer })
    }

    /// Where `name` was inlined by BTF, if `facts` don't tell better.
    fn inlined_code(&self, name: &str, facts: Option<&Facts>) -> Vec<InlinedCode> {
        let by_facts = facts.is_some_and(|facts| !facts.inlined.is_empty());
        self.inlined.filter(|_| !by_facts).map(|inlined| inlined.of(name)).unwrap_or_default()
    }

    /// The functions that a compiler made of `name`.
    fn clones(&self, name: &str) -> Vec<String> {
        let all = self.by_base.get(name).into_iter().flatten();
        all.filter(|other| **other != name).map(|other| (*other).to_owned()).collect()
    }
}

impl Answer {
    /// An answer with nothing but a reason.
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
            inlined_code: Vec::new(),
            others: Vec::new(),
        }
    }

    /// The answer if nothing is called `name`. `alike` are names that look like it.
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

/// Source file and line of `definition`. They aren't known for assembly.
fn known_place(definition: &Definition) -> Option<(String, u32)> {
    Some(definition.place.clone()).filter(|(file, _)| !file.is_empty())
}

/// The name in the source of the function whose symbol is `name`: of C++, without namespaces and
/// arguments.
#[must_use]
pub fn base_of(name: &str) -> Cow<'_, str> {
    let name = mcount::source_name(name);
    if !is_mangled(name) {
        return name.into();
    }
    let plain = name_of(name, true);
    let last = mcount::spellings(&plain).pop();
    last.map_or(name.into(), |last| last.into_owned().into())
}

fn is_mangled(name: &str) -> bool {
    matches!(name_of(name, true), Cow::Owned(_))
}

/// What `site` is, in words.
fn site_in_words(site: &CallSite) -> String {
    match (&site.kind, &site.hook) {
        (_, Some(hook)) => format!("a call of {hook}"),
        (Some(kind), None) => match kind.name() {
            "patchable" => "a patchable entry".to_owned(),
            "nop" => "a NOP".to_owned(),
            "sled" => "an XRay sled".to_owned(),
            name => format!("a {name}"),
        },
        (None, None) => "a site".to_owned(),
    }
}

/// Why `function` is excluded, in words.
fn exclusion(function: &Function, excluded: Exclusion) -> String {
    match excluded {
        Exclusion::Section => format!("section {} is not recorded", function.section),
        Exclusion::Symbol => "excluded by its name".to_owned(),
        Exclusion::SourceFile => "excluded by its source file".to_owned(),
        _ => "excluded".to_owned(),
    }
}
