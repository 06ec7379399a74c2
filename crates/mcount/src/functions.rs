//! The verb `functions` lists every function of an object or an image with its sites. `scan` and
//! `read_table` list hooks, so they don't show functions without one.
//!
//! A function is code that has an `STT_FUNC` symbol. Several names for one place are one function.

use crate::elf::{Symbol, Symbols, Verb, View};
use crate::error::Result;
use crate::options::Options;
use crate::policy::Treatment;
use crate::scan::Target;
use crate::scan::functions as names;
use crate::scan::source_files::SourceFiles;
use crate::site::CallSite;
use crate::sites::Known;
use std::collections::{BTreeMap, HashMap};

/// The functions of one file, and its table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Functions {
    /// The name of the processor.
    pub machine: &'static str,
    /// 32 or 64.
    pub bits: u8,
    /// Whether data is big-endian.
    pub big_endian: bool,
    /// Whether it is linked, so that places have addresses.
    pub is_image: bool,
    /// The functions, in section order, then offset order.
    pub functions: Vec<Function>,
    /// The sites that are in no function.
    pub strays: Vec<CallSite>,
    /// The entries of the tables in their own order, as [`crate::read_table`] returns them.
    pub entries: Vec<CallSite>,
    /// The names of symbols that are defined elsewhere, in order.
    pub undefined: Vec<String>,
}

/// One function.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Function {
    /// Its name. If there are several, a global one is preferred, then a weak one, then the first.
    pub name: String,
    /// Its other names, in order of preference.
    pub aliases: Vec<String>,
    /// The index of its section.
    pub section_index: u32,
    /// The name of that section.
    pub section: String,
    /// Its place, in bytes from the start of the section.
    pub offset: u64,
    /// Its address, in an image.
    pub address: Option<u64>,
    /// Its size in bytes; 0 if no symbol tells.
    pub size: u64,
    /// The binding of the symbol `name`.
    pub binding: Binding,
    /// The source file (`STT_FILE`), if the order of the symbols tells it.
    pub file: Option<String>,
    /// Why the policy excludes it, if it does.
    pub excluded: Option<Exclusion>,
    /// Its hooks, in order of offset. Usually there is one. `recorded` says which of them are in the
    /// table.
    pub sites: Vec<CallSite>,
}

/// The binding of a symbol (`STB_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Binding {
    /// Visible in every file.
    Global,
    /// Visible in every file, but another definition wins.
    Weak,
    /// Visible only in its own file.
    Local,
}

/// Why the policy excludes a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Exclusion {
    /// Its section isn't recorded.
    Section,
    /// By its name.
    Symbol,
    /// By its source file.
    SourceFile,
}

impl Function {
    /// Whether it has a hook that is in the table.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.sites.iter().any(|site| site.recorded)
    }

    /// All its names, the preferred one first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.aliases.iter().map(String::as_str))
    }
}

/// [`crate::functions()`], for each class and byte order.
pub(crate) struct Survey<'o, 'd>(pub(crate) &'o Options, pub(crate) &'o mut Known<'d>);

impl<'d> Verb<'d> for Survey<'_, 'd> {
    type Output = Functions;

    fn run(self, view: &View<'d>) -> Result<Functions> {
        let Self(options, known) = self;
        let target = Target::of(view)?;
        let index = known.functions(&target)?;
        let found = known.sites(&target, options)?;
        let entries = known.entries(&target, options, &found)?;
        Ok(of(&target, &index, options, found, entries))
    }
}

/// The functions of `target`, whose sites are `found`.
pub(crate) fn of<'d>(
    target: &Target<'_, 'd>,
    index: &names::FunctionIndex<'d>,
    options: &Options,
    found: Vec<CallSite>,
    entries: Vec<CallSite>,
) -> Functions {
    let mut functions = functions(target, index, options);
    let mut strays = Vec::new();
    for site in found {
        match position(&functions, &site).and_then(|at| functions.get_mut(at)) {
            Some(function) => function.sites.push(site),
            None => strays.push(site),
        }
    }
    Functions {
        machine: target.arch.name,
        bits: if target.view.is_64() { 64 } else { 32 },
        big_endian: target.view.is_big_endian(),
        is_image: target.is_image,
        functions,
        strays,
        entries,
        undefined: undefined(target),
    }
}

/// The names of one place: the symbol's binding, position, name and size. They sort by preference.
type Candidates<'d> = Vec<(Binding, u32, &'d [u8], u64)>;

/// The functions of `target`, without their sites.
fn functions<'d>(
    target: &Target<'_, 'd>,
    index: &names::FunctionIndex<'d>,
    options: &Options,
) -> Vec<Function> {
    let mut places: BTreeMap<(u32, u64), Candidates<'d>> = BTreeMap::new();
    for (at, symbol) in target.symbols.iter().flat_map(Symbols::iter) {
        let name = target.symbols.as_ref().map(|symbols| symbols.name(&symbol));
        let Some(name) = name.filter(|name| symbol.is_function() && !name.is_empty()) else {
            continue;
        };
        if let Some(place) = names::code_of(target, &symbol, &index.descriptors) {
            let names = places.entry(place).or_default();
            names.push((binding(&symbol), at, name, symbol.size));
        }
    }
    let files = SourceFiles::all(target, index, &options.policy);
    let mut treatments = HashMap::new();
    let described = places.into_iter().map(|((section, offset), names)| {
        let section_name = target.view.section_name(section);
        let treatment =
            *treatments.entry(section).or_insert_with(|| options.policy.section(section_name));
        let excluded = if treatment == Treatment::Record {
            excluded_by_name(options, index, &files, (section, offset), &names)
        } else {
            Some(Exclusion::Section)
        };
        let function = function(target, (section, offset), names);
        let file = files.name(section, offset);
        let file = file.map(|name| text(target.view.budget.name(|| name)));
        Function { section: text(section_name), file, excluded, ..function }
    });
    described.collect()
}

/// Why the function with these `names` is excluded, if its section isn't.
fn excluded_by_name(
    options: &Options,
    index: &names::FunctionIndex<'_>,
    files: &SourceFiles<'_>,
    (section, offset): (u32, u64),
    names: &Candidates<'_>,
) -> Option<Exclusion> {
    let policy = &options.policy;
    if names.iter().any(|(_, _, name, _)| policy.excludes_symbol(name)) {
        return Some(Exclusion::Symbol);
    }
    let is_left = policy.leaves_alone(index, files, (section, offset, 0));
    is_left.then_some(Exclusion::SourceFile)
}

/// The function at `offset` of `section` that has these names. Everything else about it is still missing.
fn function(
    target: &Target<'_, '_>,
    (section, offset): (u32, u64),
    mut names: Candidates<'_>,
) -> Function {
    names.sort_unstable();
    let size = names.iter().map(|name| name.3).max().unwrap_or(0);
    let binding = names.first().map_or(Binding::Local, |name| name.0);
    let mut aliases: Vec<String> = names.iter().map(|name| text(name.2)).collect();
    let name = if aliases.is_empty() { String::new() } else { aliases.remove(0) };
    let header = target.view.section(section).ok().filter(|_| target.is_image);
    let address = header.map(|header| header.address.wrapping_add(offset));
    Function {
        name,
        aliases,
        section_index: section,
        section: String::new(),
        offset,
        address,
        size,
        binding,
        file: None,
        excluded: None,
        sites: Vec::new(),
    }
}

fn binding(symbol: &Symbol) -> Binding {
    if symbol.is_local() {
        Binding::Local
    } else if symbol.is_weak() {
        Binding::Weak
    } else {
        Binding::Global
    }
}

/// Which of `functions`, which are in order of place, `site` is in: the one that covers it, or the next
/// one if its NOPs reach that, or the nearest one before, whose symbol may have too small a size. A function
/// without a size ends where the NOPs of the next one begin.
fn position(functions: &[Function], site: &CallSite) -> Option<usize> {
    let (section, offset) = (site.section_index?, site.offset?);
    let length = site.size.unwrap_or(0);
    let after = functions.partition_point(|f| (f.section_index, f.offset) <= (section, offset));
    let before = after.checked_sub(1);
    let nearest = before.and_then(|at| functions.get(at)).filter(|f| f.section_index == section);
    let next = functions.get(after).filter(|f| f.section_index == section);
    let is_reached = next.is_some_and(|next| next.offset <= offset.saturating_add(length));
    let covers = |f: &Function| {
        if f.size == 0 { !is_reached } else { offset - f.offset < f.size }
    };
    match nearest {
        Some(nearest) if !is_reached || covers(nearest) => before,
        _ => is_reached.then_some(after),
    }
}

/// The names of symbols that `target` doesn't define.
fn undefined(target: &Target<'_, '_>) -> Vec<String> {
    let Some(symbols) = &target.symbols else { return Vec::new() };
    let all = symbols.iter().map(|(_, symbol)| symbol);
    let undefined = all.filter(|symbol| symbol.is_undefined && !symbol.is_local());
    let mut names: Vec<_> = undefined.map(|symbol| text(symbols.name(&symbol))).collect();
    names.retain(|name| !name.is_empty());
    names.sort_unstable();
    names.dedup();
    names
}

fn text(name: &[u8]) -> String {
    crate::names::lossy(name).into_owned()
}
