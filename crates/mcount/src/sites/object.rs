//! The sites of an object and the entries of its tables, with section, function and kind.

use crate::error::Result;
use crate::options::Options;
use crate::policy::Treatment;
use crate::scan::calls::{self, FoundCall};
use crate::scan::functions::FunctionIndex;
use crate::scan::patchable::Area;
use crate::scan::sections::{SiteSections, text};
use crate::scan::source_files::SourceFiles;
use crate::scan::{Target, nops, patchable};
use crate::site::{CallSite, Kind};
use crate::table::{self, Entry};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A site before its names are looked up.
#[derive(Clone, Copy)]
struct UnnamedSite {
    kind: Kind,
    hook: Option<u32>,
    size: u64,
    recorded: bool,
}

/// Sites by section and offset.
type Places = BTreeMap<(u32, u64), UnnamedSite>;

/// The sites of the object `target`.
///
/// # Errors
///
/// As [`crate::scan()`].
pub(super) fn found<'d>(
    target: &Target<'_, 'd>,
    functions: &FunctionIndex<'d>,
    options: &Options,
) -> Result<Vec<CallSite>> {
    let surveyor = Surveyor::new(target, functions, options)?;
    Ok(surveyor.found(&surveyor.places()?))
}

/// The entries of the tables of the object `target`, in their own order.
///
/// # Errors
///
/// As [`crate::read_table`].
pub(super) fn entries<'d>(
    target: &Target<'_, 'd>,
    functions: &FunctionIndex<'d>,
    options: &Options,
) -> Result<Vec<CallSite>> {
    let surveyor = Surveyor::new(target, functions, options)?;
    Ok(surveyor.entries(&surveyor.places()?))
}

/// An entry that leads to no section of the file.
fn nowhere(raw: u64) -> CallSite {
    CallSite { address: Some(raw), recorded: true, ..CallSite::default() }
}

struct Surveyor<'a, 'v, 'd> {
    target: &'a Target<'v, 'd>,
    functions: &'a FunctionIndex<'d>,
    files: SourceFiles<'d>,
    sections: RefCell<SiteSections>,
    /// The last hook and its name, because the next site nearly always has the same.
    last_hook: RefCell<Option<(u32, Arc<str>)>>,
    options: &'a Options,
    /// The entries of the table.
    table: Vec<Entry>,
    /// The compiler's list of patchable entries.
    listed: Vec<Entry>,
    /// Those of its areas that no call comes by.
    padding: RefCell<BTreeSet<(u32, u64)>>,
}

impl<'a, 'v, 'd> Surveyor<'a, 'v, 'd> {
    fn new(
        target: &'a Target<'v, 'd>,
        functions: &'a FunctionIndex<'d>,
        options: &'a Options,
    ) -> Result<Self> {
        Ok(Self {
            target,
            functions,
            files: SourceFiles::new(target, functions, &options.policy),
            sections: RefCell::default(),
            last_hook: RefCell::default(),
            options,
            table: table::read(target, options.table_section.as_bytes())?,
            listed: table::read(target, patchable::SECTION.as_bytes())?,
            padding: RefCell::default(),
        })
    }

    /// `places`, with their names.
    fn found(&self, places: &Places) -> Vec<CallSite> {
        places.iter().map(|(at, place)| self.site(*at, Some(place))).collect()
    }

    /// The entries of the tables. `places` are the sites.
    fn entries(&self, places: &Places) -> Vec<CallSite> {
        let is_one = self.options.table_section == patchable::SECTION;
        let listed = self.listed.iter().filter(|_| !is_one);
        let sites = self.table.iter().chain(listed).map(|entry| match entry.place {
            Some(at) => CallSite { recorded: true, ..self.site(at, places.get(&at)) },
            None => nowhere(entry.raw),
        });
        // The compiler lists padding, too.
        let padding = self.padding.borrow();
        let place = |site: &CallSite| Some((site.section_index?, site.offset?));
        sites.filter(|site| place(site).is_none_or(|at| !padding.contains(&at))).collect()
    }

    /// Every site of the file.
    fn places(&self) -> Result<Places> {
        let entries = self.table.iter().filter_map(|entry| entry.place);
        let recorded: BTreeSet<_> = entries.clone().collect();
        let mut places = Places::new();
        let calls = calls::find(self.target, &self.options.hooks)?;
        let at_calls: Vec<_> = match self.table.as_slice() {
            [] => Vec::new(),
            _ => calls.iter().map(FoundCall::place).collect(),
        };
        let mut nops = nops::recorded(self.target, entries, &at_calls)?;
        let lists: Vec<_> = self.listed.iter().filter_map(|entry| entry.place).collect();
        if self.options.nops {
            let hooks = &self.options.hooks;
            nops.extend(nops::decoded(self.target, self.functions, hooks, lists.clone())?);
        }
        for at in nops {
            let size = nops::size(self.target, at)?;
            places.insert(
                at,
                UnnamedSite { kind: Kind::Nop, hook: None, size, recorded: recorded.contains(&at) },
            );
        }
        let called: BTreeSet<_> = match lists.as_slice() {
            [] => BTreeSet::new(),
            _ => calls.iter().map(FoundCall::place).collect(),
        };
        for (area, is_padding) in
            self.areas(lists, &|at| recorded.contains(&at) || called.contains(&at))?
        {
            let at = (area.section, area.offset);
            if is_padding {
                self.padding.borrow_mut().insert(at);
            } else if area.size != 0 {
                let (kind, size) = (Kind::Patchable, area.size);
                places.insert(at, UnnamedSite { kind, hook: None, size, recorded: true });
            }
        }
        for call in calls {
            places.insert(call.place(), Self::call(&call, recorded.contains(&call.place())));
        }
        Ok(places)
    }

    /// The areas at these entries of the compiler's list, and whether each is padding.
    ///
    /// The symbol of a weak function that another object overrides is gone. If it has no hook either, its padding is known by its size:
    /// the flags are the same in the whole file.
    fn areas(
        &self,
        lists: Vec<(u32, u64)>,
        is_site: &dyn Fn((u32, u64)) -> bool,
    ) -> Result<Vec<(Area, bool)>> {
        let mut all = Vec::new();
        let mut sizes = BTreeSet::new();
        for area in patchable::areas(self.target, self.functions, lists)? {
            let is_site = |offset| is_site((area.section, offset));
            let at = (area.section, area.offset);
            let is_padding =
                patchable::is_padding(self.target, self.functions, at, area.size, &is_site)?;
            if is_padding {
                sizes.insert(area.size);
            }
            all.push((area, is_padding));
        }
        for (area, is_padding) in &mut all {
            *is_padding |= sizes.contains(&area.size)
                && self.functions.is_uncovered(area.section, area.offset, area.size);
        }
        Ok(all)
    }

    fn call(call: &FoundCall, recorded: bool) -> UnnamedSite {
        let size = call.call.end.saturating_sub(call.call.recorded);
        UnnamedSite { kind: call.call.kind(), hook: Some(call.hook), size, recorded }
    }

    /// The site or entry at `at`, with its names.
    fn site(&self, at: (u32, u64), place: Option<&UnnamedSite>) -> CallSite {
        let (section, offset) = at;
        let size = place.map(|place| place.size);
        let function = self.functions.find(section, offset, size.unwrap_or(0));
        let area = (section, offset, size.unwrap_or(0));
        let is_left = self.options.policy.leaves_alone(self.functions, &self.files, area);
        let is_patchable = place.is_some_and(|place| place.kind == Kind::Patchable);
        let stale =
            self.functions.is_uncovered(section, offset, if is_patchable { area.2 } else { 0 });
        let index = section;
        let section = self.sections.borrow_mut().get(self.target, &self.options.policy, index);
        CallSite {
            section_index: Some(index),
            section: Some(section.name),
            offset: Some(offset),
            address: None,
            symbol: function.map(|(name, _)| text(name)),
            symbol_offset: function.map(|(_, start)| offset.wrapping_sub(start).cast_signed()),
            kind: place.map(|place| place.kind),
            hook: place.and_then(|place| place.hook).and_then(|hook| self.symbol_name(hook)),
            size,
            recorded: place.is_some_and(|place| place.recorded),
            excluded: !is_patchable && (is_left || section.treatment != Treatment::Record),
            stale,
        }
    }

    fn symbol_name(&self, index: u32) -> Option<Arc<str>> {
        let mut last = self.last_hook.borrow_mut();
        if let Some((_, name)) = last.as_ref().filter(|(of, _)| *of == index) {
            return Some(Arc::clone(name));
        }
        let symbols = self.target.symbols.as_ref()?;
        let name = text(symbols.name(&symbols.get(index)?));
        Some(Arc::clone(&last.insert((index, name)).1))
    }
}
