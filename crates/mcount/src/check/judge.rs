//! Going through the tables of a file, entry by entry, and then through the hooks that no entry leads
//! to. Of several rules that an entry offends against by where it leads, one is named: the one that
//! says most.

use super::{Entry, Finding, Place, Rule, Table};
use crate::options::CheckOptions;
use crate::scan::Target;
use crate::scan::functions::Functions;
use crate::site::{CallSite, Kind};
use crate::words::counted;
use object::read::elf::FileHeader;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How far from a hook an entry may be that is meant for it, whatever function it is in: the longest
/// distance from a relocation to a recorded address.
const NEAR: u64 = 16;

/// Bytes of code to show.
const SHOWN: usize = 6;

pub(super) struct Judge<'a, 'v, 'd, Elf: FileHeader> {
    target: &'a Target<'v, 'd, Elf>,
    functions: &'a Functions<'d>,
    how: &'a CheckOptions,
    sites: BTreeMap<Place, &'a CallSite>,
    /// Hooks that no entry leads to, nor is meant for.
    lost: BTreeSet<Place>,
    findings: Vec<Finding>,
}

impl<'a, 'v, 'd, Elf: FileHeader> Judge<'a, 'v, 'd, Elf> {
    pub(super) fn new(
        target: &'a Target<'v, 'd, Elf>,
        functions: &'a Functions<'d>,
        how: &'a CheckOptions,
        sites: &'a [CallSite],
    ) -> Self {
        let place = |site: &CallSite| Some((site.section_index?, site.offset?));
        let sites: BTreeMap<_, _> = sites.iter().filter_map(|s| Some((place(s)?, s))).collect();
        Self { target, functions, how, sites, lost: BTreeSet::new(), findings: Vec::new() }
    }

    /// What is wrong with `tables`, which are all that the file has; in the order of their entries,
    /// then by place.
    pub(super) fn of(mut self, tables: &[Table]) -> Vec<Finding> {
        self.lost = self.sites.keys().copied().collect();
        for entry in tables.iter().flat_map(|table| &table.entries) {
            if let Some(place) = entry.place {
                self.lost.remove(&place);
            }
        }
        for table in tables {
            for (rule, place, detail) in &table.flaws {
                self.find(*rule, *place, detail.clone());
            }
            let mut seen = HashMap::new();
            for (number, entry) in table.entries.iter().enumerate() {
                self.entry(entry);
                let Some(place) = entry.place else { continue };
                if let Some(first) = seen.insert(place, number) {
                    let detail = format!("entries {first} and {number} both lead there");
                    self.find(Rule::Duplicate, place, detail);
                    seen.insert(place, first);
                }
            }
        }
        self.missing(tables.is_empty());
        self.short();
        self.findings
    }

    fn entry(&mut self, entry: &Entry) {
        for (rule, detail) in &entry.flaws {
            self.find(*rule, entry.place.unwrap_or(entry.slot), detail.clone());
        }
        let Some(place) = entry.place else {
            if self.is_meant_for(entry.reversed) {
                self.find(Rule::ForeignEndian, entry.slot, foreign());
            } else if entry.flaws.is_empty() {
                let detail = "the entry leads to nothing in this file".to_owned();
                self.find(Rule::StaleEntry, entry.slot, detail);
            }
            return;
        };
        match self.sites.get(&place).copied() {
            Some(site) if self.is_stale(place, site) => {
                let detail = "no function covers the hook there: an overridden one did".to_owned();
                self.find(Rule::StaleEntry, place, detail);
            }
            Some(site) if site.excluded => {
                let section = site.section.as_deref().unwrap_or_default();
                let detail = format!("the policy leaves this function of {section} out");
                self.find(Rule::ExcludedSection, place, detail);
            }
            Some(_) => {}
            None => self.no_site(entry, place),
        }
    }

    /// An entry that leads to no hook.
    fn no_site(&mut self, entry: &Entry, place: Place) {
        if self.is_meant_for(entry.reversed) {
            self.find(Rule::ForeignEndian, place, foreign());
            return;
        }
        let meant = self.meant(place);
        let (section, offset) = place;
        let is_code = self.target.view.section(section).is_ok_and(|section| section.is_code());
        let is_isa_bit = self.target.arch.isa_bit && meant == Some((section, offset & !1));
        if is_code && offset % self.target.arch.code_step != 0 && !is_isa_bit {
            meant.map(|meant| self.lost.remove(&meant));
            let step = self.target.arch.code_step;
            let detail = format!("no instruction begins there: no multiple of {step}");
            self.find(Rule::Misaligned, place, detail);
        } else if let Some(meant) = meant {
            self.lost.remove(&meant);
            let detail = self.beside(meant, place);
            self.find(Rule::WrongOffset, place, detail);
        } else if !is_code || self.covers(place, 0) {
            let bytes = self.bytes(place);
            let detail = format!("no hook call, NOP or patchable area there, but {bytes}");
            self.find(Rule::NotACallSite, place, detail);
        } else {
            let detail = "no function covers the place".to_owned();
            self.find(Rule::StaleEntry, place, detail);
        }
    }

    /// Whether a hook at `place` has no other entry; it is no longer missed.
    fn is_meant_for(&mut self, place: Option<Place>) -> bool {
        place.is_some_and(|place| self.lost.remove(&place))
    }

    /// The hook without an entry that one at `place` is meant for: the nearest in the same function,
    /// or very near.
    fn meant(&self, place: Place) -> Option<Place> {
        let (section, offset) = place;
        let distance = |lost: &Place| lost.1.abs_diff(offset);
        let around =
            (section, offset.saturating_sub(NEAR))..=(section, offset.saturating_add(NEAR));
        let near = self.lost.range(around).min_by_key(|lost| distance(lost));
        if let Some(near) = near {
            return Some(*near);
        }
        let (_, start) = self.functions.find(section, offset, 0)?;
        let end = self.functions.next_start(section, offset).unwrap_or(u64::MAX);
        let own = self.lost.range((section, start)..(section, end.max(start)));
        own.min_by_key(|lost| distance(lost)).copied()
    }

    fn beside(&self, meant: Place, place: Place) -> String {
        let (distance, side) = if meant.1 > place.1 {
            (meant.1 - place.1, "further on")
        } else {
            (place.1 - meant.1, "before")
        };
        let base = self.address(meant).unwrap_or(meant.1);
        format!("the hook is at {base:#x}, {} {side}", counted(distance, "byte", "bytes"))
    }

    /// Whether the hook at `place` is of a function that was overridden.
    fn is_stale(&self, place: Place, site: &CallSite) -> bool {
        let is_area = site.kind == Some(Kind::Patchable);
        let area = site.size.filter(|_| is_area).unwrap_or(0);
        self.target.is_image && !self.covers(place, area)
    }

    /// Whether a function covers `place`, or an area of `size` bytes there leads to one; also where
    /// there is nothing that could tell.
    fn covers(&self, (section, offset): Place, size: u64) -> bool {
        !self.functions.is_uncovered(section, offset, size)
    }

    fn missing(&mut self, has_no_table: bool) {
        let sites = &self.sites;
        let lost: Vec<_> = self.lost.iter().filter_map(|at| Some((*at, *sites.get(at)?))).collect();
        let is_missed =
            |(place, site): &(Place, &CallSite)| !site.excluded && !self.is_stale(*place, site);
        let missed: Vec<_> = lost.into_iter().filter(is_missed).collect();
        if has_no_table && !missed.is_empty() {
            let detail = format!("{} and no table", counted(missed.len(), "hook", "hooks"));
            self.findings.push(Finding { detail, ..nowhere(Rule::MissingSite) });
            return;
        }
        for (place, site) in missed {
            let detail = match (&site.hook, site.kind) {
                (Some(hook), _) => format!("the call of {hook} is in no table"),
                (None, Some(Kind::Patchable)) => "the patchable area is in no table".to_owned(),
                (None, _) => "the NOP is in no table".to_owned(),
            };
            self.find(Rule::MissingSite, place, detail);
        }
    }

    fn short(&mut self) {
        let least = self.how.min_area.unwrap_or(self.target.arch.call_size);
        let areas = self.sites.iter().filter(|(_, site)| site.kind == Some(Kind::Patchable));
        let short = areas.filter_map(|(at, site)| Some((*at, site.size.filter(|s| *s < least)?)));
        for (place, size) in short.collect::<Vec<_>>() {
            let size = counted(size, "byte", "bytes");
            let detail = format!("{size} of NOPs, a call needs {least}");
            self.find(Rule::ShortArea, place, detail);
        }
    }

    fn find(&mut self, rule: Rule, place: Place, detail: String) {
        let (section, offset) = place;
        let name = self.target.view.section_name(section);
        let is_code = self.target.view.section(section).is_ok_and(|section| section.is_code());
        // An area may begin before its function.
        let area = self.sites.get(&place).filter(|_| rule != Rule::StaleEntry);
        let size = area.and_then(|site| site.size).unwrap_or(0);
        let function = if is_code { self.functions.find(section, offset, size) } else { None };
        self.findings.push(Finding {
            section: Some(text(name)),
            offset: Some(offset),
            address: self.address(place),
            symbol: function.map(|(name, _)| text(name)),
            symbol_offset: function.map(|(_, start)| offset.wrapping_sub(start).cast_signed()),
            detail,
            ..nowhere(rule)
        });
    }

    fn address(&self, (section, offset): Place) -> Option<u64> {
        let header = self.target.view.section(section).ok().filter(|_| self.target.is_image)?;
        Some(header.address.wrapping_add(offset))
    }

    /// The first bytes at `place`, in hexadecimal.
    fn bytes(&self, (section, offset): Place) -> String {
        let data = self.target.view.section_data(section).unwrap_or_default();
        let at = usize::try_from(offset).ok().and_then(|start| data.get(start..));
        let shown = at.unwrap_or_default().iter().take(SHOWN);
        let shown: Vec<_> = shown.map(|byte| format!("{byte:02x}")).collect();
        if shown.is_empty() { "the section ends".to_owned() } else { shown.join(" ") }
    }
}

fn foreign() -> String {
    "with its bytes reversed the entry leads to a hook".to_owned()
}

fn nowhere(rule: Rule) -> Finding {
    Finding {
        rule,
        section: None,
        offset: None,
        address: None,
        symbol: None,
        symbol_offset: None,
        detail: String::new(),
    }
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
