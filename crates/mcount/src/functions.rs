//! Every function of an object or an image, with its sites: what `scan` and `read_table` say of the
//! hooks, said of the functions, so that one without a hook is seen too.
//!
//! A function is code that an `STT_FUNC` symbol names; several names of one place are one function.

use crate::elf::{Symbol, Symbols, Verb, View};
use crate::error::Result;
use crate::options::Options;
use crate::policy::Treatment;
use crate::scan::Target;
use crate::scan::functions as names;
use crate::scan::source_files::SourceFiles;
use crate::site::CallSite;
use crate::sites::Known;
use object::read::elf::FileHeader;
use std::collections::{BTreeMap, HashMap};

/// The functions of one file, and its table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Functions {
    /// Name of the processor.
    pub machine: &'static str,
    /// 32 or 64.
    pub bits: u8,
    /// Big-endian data.
    pub big_endian: bool,
    /// It is linked: places have addresses.
    pub is_image: bool,
    /// In section order, then offset order.
    pub functions: Vec<Function>,
    /// Sites that are in no function.
    pub strays: Vec<CallSite>,
    /// The entries of the table in their own order, as [`crate::read_table`] has them.
    pub entries: Vec<CallSite>,
    /// The names of symbols that are defined elsewhere, in order.
    pub undefined: Vec<String>,
}

/// One function.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Function {
    /// Its name; of several, a global one, then a weak one, then the first.
    pub name: String,
    /// The other names of the same code, in order.
    pub aliases: Vec<String>,
    /// Index of the section that holds it.
    pub section_index: u32,
    /// Name of that section.
    pub section: String,
    /// Bytes from the start of the section.
    pub offset: u64,
    /// Where it is in an image.
    pub address: Option<u64>,
    /// Bytes; 0 where no symbol says it.
    pub size: u64,
    /// Of the symbol with `name`.
    pub binding: Binding,
    /// The source file (`STT_FILE`), where the order of the symbols tells it.
    pub file: Option<String>,
    /// Why its sites are not to be recorded, if they are not.
    pub excluded: Option<Exclusion>,
    /// Its hooks, in order of offset; one is the rule. `recorded` says which of them are in the table.
    pub sites: Vec<CallSite>,
}

/// `STB_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Binding {
    /// Seen by every file.
    Global,
    /// The same, and another definition wins.
    Weak,
    /// Seen by its file only.
    Local,
}

/// Why the policy leaves a function out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Exclusion {
    /// Its section is not recorded.
    Section,
    /// Its name is one to leave alone.
    Symbol,
    /// Its source file is one to leave alone.
    SourceFile,
}

impl Function {
    /// It has a hook that the table leads to.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.sites.iter().any(|site| site.recorded)
    }

    /// All its names, the best first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.aliases.iter().map(String::as_str))
    }
}

/// [`crate::functions()`], for each class and byte order.
pub(crate) struct Survey<'o, 'd>(pub(crate) &'o Options, pub(crate) &'o mut Known<'d>);

impl<'d> Verb<'d> for Survey<'_, 'd> {
    type Output = Functions;

    fn run<Elf: FileHeader>(self, view: &View<'d, Elf>) -> Result<Functions> {
        let Self(options, known) = self;
        let target = Target::of(view)?;
        let index = known.functions(&target)?;
        let found = known.sites(&target, options)?;
        let entries = known.entries(&target, options, &found)?;
        Ok(of(&target, &index, options, found, entries))
    }
}

/// What is known of the functions of `target`, whose sites are `found`.
pub(crate) fn of<'d, Elf: FileHeader>(
    target: &Target<'_, 'd, Elf>,
    index: &names::Functions<'d>,
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

/// The names of one place, by rank: the symbol's binding and its position, and its size.
type Names<'d> = Vec<(Binding, u32, &'d [u8], u64)>;

/// The functions of `target`, no site in them yet.
fn functions<'d, Elf: FileHeader>(
    target: &Target<'_, 'd, Elf>,
    index: &names::Functions<'d>,
    options: &Options,
) -> Vec<Function> {
    let mut places: BTreeMap<(u32, u64), Names<'d>> = BTreeMap::new();
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

fn excluded_by_name(
    options: &Options,
    index: &names::Functions<'_>,
    files: &SourceFiles<'_>,
    (section, offset): (u32, u64),
    names: &Names<'_>,
) -> Option<Exclusion> {
    let policy = &options.policy;
    if names.iter().any(|(_, _, name, _)| policy.excludes_symbol(name)) {
        return Some(Exclusion::Symbol);
    }
    let is_left = policy.leaves_alone(index, files, (section, offset, 0));
    is_left.then_some(Exclusion::SourceFile)
}

/// The function at `offset` of `section` that has these names, with nothing else known of it.
fn function<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    (section, offset): (u32, u64),
    mut names: Names<'_>,
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

/// Which of `functions`, in order of place, `site` is in: one that covers it, or the next one that
/// its NOPs reach, or the nearest before it, whose size may be short of its code.
fn position(functions: &[Function], site: &CallSite) -> Option<usize> {
    let (section, offset) = (site.section_index?, site.offset?);
    let length = site.size.unwrap_or(0);
    let after = functions.partition_point(|f| (f.section_index, f.offset) <= (section, offset));
    let in_section = |f: &&Function| f.section_index == section;
    let before = after.checked_sub(1).filter(|at| functions.get(*at).iter().any(in_section));
    let covers = |f: &Function| f.size == 0 || offset - f.offset < f.size;
    if before.and_then(|at| functions.get(at)).is_some_and(covers) {
        return before;
    }
    let next = functions.get(after).filter(in_section);
    let is_reached = next.is_some_and(|next| next.offset <= offset.saturating_add(length));
    if is_reached { Some(after) } else { before }
}

/// The names of symbols that `target` does not define.
fn undefined<Elf: FileHeader>(target: &Target<'_, '_, Elf>) -> Vec<String> {
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
    String::from_utf8_lossy(name).into_owned()
}
