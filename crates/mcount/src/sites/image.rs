//! The sites of an image and the entries of its tables, as they are after loading.

use crate::elf::loaded;
use crate::error::Result;
use crate::options::Options;
use crate::policy::Treatment;
use crate::scan::bare::Bare;
use crate::scan::functions::FunctionIndex;
use crate::scan::image::{Finder, Found};
use crate::scan::sections::{SiteSections, text};
use crate::scan::source_files::SourceFiles;
use crate::scan::{Target, patchable};
use crate::site::{CallSite, Source, TABLE_SECTION};
use foldhash::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many sites were found in which way.
type Sources = BTreeMap<Source, usize>;

/// The sites of the image `target` in order of address, and how they were found. If there is a `bare`,
/// entries may tell what symbols don't. `has_names` asks for the names of functions and hooks.
///
/// # Errors
///
/// As [`crate::late_table`].
pub(crate) fn sites<'d>(
    target: &Target<'_, 'd>,
    functions: &FunctionIndex<'d>,
    options: &Options,
    bare: Option<Bare>,
    has_names: bool,
) -> Result<(Vec<CallSite>, Sources)> {
    let mut finder = Finder::new(target, functions, &options.hooks, options.helpers.clone())?;
    let range = table_range(target, options.table_section.as_bytes(), bare);
    let table = finder.table(range);
    match bare.map(|bare| bare.hook) {
        Some(Some(address)) => finder.hooks.add_nameless(address),
        Some(None) => finder.find_hook_by_table(&table),
        None => {}
    }
    let mut found = finder.find()?;
    let names = std::mem::take(&mut finder.hooks.names);
    finder.by_table(&table, &mut found)?;
    let names = has_names.then_some(names.as_slice());
    let mut sites = named(target, functions, options, &found, names, &table);
    sites.sort_by_key(|site| site.address);
    let mut sources = Sources::new();
    for site in found.values() {
        *sources.entry(site.source).or_default() += 1;
    }
    Ok((sites, sources))
}

/// The address and size in bytes of the table called `name`, or of the `bare` one.
pub(crate) fn table_range(
    target: &Target<'_, '_>,
    name: &[u8],
    bare: Option<Bare>,
) -> Option<(u64, u64)> {
    let bare = bare.filter(|_| name == TABLE_SECTION.as_bytes());
    target.table_range(name).or_else(|| bare?.range)
}

/// The entries of the tables of the image `target` in their own order. `found` are its sites.
pub(super) fn entries(
    target: &Target<'_, '_>,
    functions: &FunctionIndex<'_>,
    options: &Options,
    bare: Bare,
    found: &[CallSite],
) -> Vec<CallSite> {
    let bare = Some(bare);
    let known: HashMap<u64, &CallSite> =
        found.iter().filter_map(|site| Some((site.address?, site))).collect();
    // The compiler lists padding, too.
    let is_padding = |address: u64| {
        let section = target.view.section_at(address).filter(|_| !known.contains_key(&address));
        section.is_some_and(|(index, section)| {
            let is_site = |at: u64| known.contains_key(&section.address.wrapping_add(at));
            let place = (index, address - section.address);
            patchable::leads_to_padding(target, functions, place, &&is_site)
        })
    };
    let mut sections = SiteSections::default();
    let mut entries = Vec::new();
    for (word, is_list) in words_of_tables(target, options, bare) {
        let entry = if is_list { target.arch.listed(word) } else { target.arch.entry(word) };
        let hook = target.address_of_hook(entry);
        match known.get(&hook) {
            Some(site) => entries.push(CallSite { recorded: true, ..(*site).clone() }),
            None if is_list && is_padding(hook) => {}
            None => entries.push(unknown(target, functions, options, &mut sections, word)),
        }
    }
    entries
}

/// The words of all tables, and whether each is of a compiler's list.
fn words_of_tables(
    target: &Target<'_, '_>,
    options: &Options,
    bare: Option<Bare>,
) -> Vec<(u64, bool)> {
    let view = target.view;
    let mut found = Vec::new();
    let own = options.table_section.as_str();
    let main = table_range(target, own.as_bytes(), bare);
    // A linker script may give the table a section of another name, which then has the shape of a compiler's list.
    let is_part_of_main = |address: u64, size: u64| {
        main.is_some_and(|(start, whole)| {
            let rest = address.checked_sub(start).and_then(|at| whole.checked_sub(at));
            rest.is_some_and(|rest| size <= rest)
        })
    };
    let mut add = |address, size, is_list| {
        let words = loaded::words(view, address, size / view.word(), &target.loader);
        found.extend(words.into_iter().map(|word| (word, is_list)));
    };
    if let Some((address, size)) = main {
        add(address, size, own == patchable::SECTION);
    }
    let range = table_range(target, patchable::SECTION.as_bytes(), bare);
    if let Some((address, size)) = range.filter(|_| own != patchable::SECTION) {
        add(address, size, true);
    }
    for (index, list) in patchable::other_lists_of_image(target) {
        if !view.is_called(index, own.as_bytes()) && !is_part_of_main(list.address, list.size) {
            add(list.address, list.size, true);
        }
    }
    found
}

/// The sites of an image. They have names if the names of the `hooks` are given.
fn named<'d>(
    target: &Target<'_, 'd>,
    functions: &FunctionIndex<'d>,
    options: &Options,
    found: &Found,
    hooks: Option<&[Arc<str>]>,
    table: &[u64],
) -> Vec<CallSite> {
    let files = SourceFiles::new(target, functions, &options.policy);
    let mut sections = SiteSections::default();
    let mut table = Ascending::new(table);
    let mut walk = functions.walk();
    let mut sites = Vec::with_capacity(found.len());
    for ((index, offset), site) in found {
        let section = sections.get(target, &options.policy, *index);
        let address = section.base.wrapping_add(*offset);
        let function = hooks.and_then(|_| walk.find(*index, *offset, site.size));
        let is_left = options.policy.leaves_alone(functions, &files, (*index, *offset, site.size));
        let area = if target.arch.is_area(site.kind) { site.size } else { 0 };
        sites.push(CallSite {
            section_index: Some(*index),
            section: Some(section.name),
            offset: Some(*offset),
            address: Some(address),
            symbol: function.map(|(name, _)| text(name)),
            symbol_offset: function.map(|(_, start)| offset.wrapping_sub(start).cast_signed()),
            kind: Some(site.kind),
            hook: hooks.and_then(|hooks| hooks.get(site.hook? as usize).cloned()),
            size: Some(site.size),
            recorded: table.has(address),
            excluded: is_left || section.treatment != Treatment::Record,
            stale: walk.is_uncovered(*index, *offset, area),
        });
    }
    sites
}

/// Numbers in ascending order, which are mostly looked up one after the other.
struct Ascending<'t> {
    all: &'t [u64],
    next: usize,
}

impl<'t> Ascending<'t> {
    fn new(all: &'t [u64]) -> Self {
        Self { all, next: 0 }
    }

    fn has(&mut self, number: u64) -> bool {
        let at = |at: usize| self.all.get(at).copied();
        self.next = if at(self.next).is_some_and(|next| next < number)
            && at(self.next + 1).is_none_or(|next| next >= number)
        {
            self.next + 1
        } else {
            self.all.partition_point(|other| *other < number)
        };
        at(self.next) == Some(number)
    }
}

/// An entry that doesn't lead to a site.
fn unknown(
    target: &Target<'_, '_>,
    functions: &FunctionIndex<'_>,
    options: &Options,
    sections: &mut SiteSections,
    address: u64,
) -> CallSite {
    let entry = CallSite { address: Some(address), recorded: true, ..CallSite::default() };
    let Some((index, section)) = target.view.section_at(address).filter(|_| address != 0) else {
        return entry;
    };
    let offset = address - section.address;
    let section = sections.get(target, &options.policy, index);
    let function = functions.find(index, offset, 0);
    CallSite {
        section_index: Some(index),
        section: Some(section.name),
        offset: Some(offset),
        symbol: function.map(|(name, _)| text(name)),
        symbol_offset: function.map(|(_, start)| offset.wrapping_sub(start).cast_signed()),
        excluded: section.treatment != Treatment::Record,
        stale: functions.is_uncovered(index, offset, 0),
        ..entry
    }
}
