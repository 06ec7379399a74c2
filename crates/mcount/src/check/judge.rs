//! Goes through the tables of a file entry by entry, and then through the hooks that no entry leads to.
//! If an entry breaks several rules about where it leads, only the most specific one is reported.

use super::{Finding, Flaw, InSection, JudgedEntry, JudgedTable, Rule};
use crate::options::CheckOptions;
use crate::scan::functions::FunctionIndex;
use crate::scan::{Target, patchable};
use crate::site::{CallSite, Kind};
use crate::words::counted;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How far from a hook an entry may be that is meant for it, even if it is in another function. It is the
/// longest distance from a relocation to a recorded address.
const NEAR: u64 = 16;

/// How many bytes of code a message shows.
const SHOWN: usize = 6;

pub(super) struct Judge<'a, 'v, 'd> {
    target: &'a Target<'v, 'd>,
    functions: &'a FunctionIndex<'d>,
    how: &'a CheckOptions,
    sites: BTreeMap<InSection, &'a CallSite>,
    /// The hooks that no entry leads to and that no entry is meant for.
    lost: BTreeSet<InSection>,
    findings: Vec<Finding>,
}

impl<'a, 'v, 'd> Judge<'a, 'v, 'd> {
    pub(super) fn new(
        target: &'a Target<'v, 'd>,
        functions: &'a FunctionIndex<'d>,
        how: &'a CheckOptions,
        sites: &'a [CallSite],
    ) -> Self {
        let placed = sites.iter().filter_map(|s| Some(((s.section_index?, s.offset?), s)));
        let sites: BTreeMap<_, _> = placed.collect();
        Self { target, functions, how, sites, lost: BTreeSet::new(), findings: Vec::new() }
    }

    /// The findings about `tables`, which are all tables of the file: first in the order of their
    /// entries, then by place. `others` are flaws of what is no table.
    pub(super) fn of(mut self, tables: &[JudgedTable], others: Vec<Flaw>) -> Vec<Finding> {
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
                self.entry(entry, table.is_list);
                let Some(place) = entry.place else { continue };
                if let Some(first) = seen.insert(place, number) {
                    let detail = format!("entries {first} and {number} both lead there");
                    self.find(Rule::Duplicate, place, detail);
                    seen.insert(place, first);
                }
            }
        }
        let is_zero =
            |table: &JudgedTable| table.flaws.iter().any(|(rule, ..)| *rule == Rule::ZeroTable);
        if !tables.iter().any(is_zero) {
            self.missing(tables.is_empty());
        }
        self.short();
        for (rule, place, detail) in others {
            self.find(rule, place, detail);
        }
        self.findings
    }

    /// Whether the compiler's list leads to padding there, which is no site.
    fn is_padding(&self, place: InSection) -> bool {
        let is_site = |offset| self.sites.contains_key(&(place.0, offset));
        !self.sites.contains_key(&place)
            && patchable::leads_to_padding(self.target, self.functions, place, &is_site)
    }

    fn entry(&mut self, entry: &JudgedEntry, is_list: bool) {
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
        if is_list && self.is_padding(place) {
            return;
        }
        match self.sites.get(&place).copied() {
            Some(site) if self.is_stale(place, site) => {
                let (rule, detail) = self.overridden(place);
                self.find(rule, place, detail);
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

    /// The kind of an entry that leads to the hook of an overridden function.
    fn overridden(&self, (section, offset): InSection) -> (Rule, String) {
        const WHAT: &str = "this hook belongs to an overridden weak function";
        let before = self.functions.find(section, offset, 0);
        let own = before.and_then(|(name, start)| {
            // An area may begin before its function.
            let mut near =
                self.sites.range((section, start.saturating_sub(NEAR))..(section, offset));
            let is_own = |place: InSection, site: &CallSite| {
                place.1.saturating_add(site.size.unwrap_or(0)) >= start
                    && !self.is_stale(place, site)
            };
            (!near.any(|(place, site)| is_own(*place, site))).then_some(name)
        });
        match own {
            Some(_) => {
                let detail = format!("{WHAT}, and the function before has no hook of its own");
                (Rule::MisleadingEntry, detail)
            }
            None => (Rule::OverriddenEntry, WHAT.to_owned()),
        }
    }

    /// Reports an entry that leads to no hook.
    fn no_site(&mut self, entry: &JudgedEntry, place: InSection) {
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

    /// Whether there is a hook at `place` without an entry. It then counts as having one.
    fn is_meant_for(&mut self, place: Option<InSection>) -> bool {
        place.is_some_and(|place| self.lost.remove(&place))
    }

    /// The hook without an entry that the entry for `place` is meant for: one very near, or the nearest
    /// one in the same function.
    fn meant(&self, place: InSection) -> Option<InSection> {
        let (section, offset) = place;
        let around =
            (section, offset.saturating_sub(NEAR))..=(section, offset.saturating_add(NEAR));
        let near = self.lost.range(around).min_by_key(|lost| lost.1.abs_diff(offset));
        if let Some(near) = near {
            return Some(*near);
        }
        let (_, start) = self.functions.find(section, offset, 0)?;
        let end = self.functions.next_start(section, offset).unwrap_or(u64::MAX);
        let own = self.lost.range((section, start)..(section, end.max(start)));
        own.min_by_key(|lost| lost.1.abs_diff(offset)).copied()
    }

    /// Says how far the hook at `meant` is from `place`.
    fn beside(&self, meant: InSection, place: InSection) -> String {
        let (distance, side) = if meant.1 > place.1 {
            (meant.1 - place.1, "further on")
        } else {
            (place.1 - meant.1, "before")
        };
        let base = self.address(meant).unwrap_or(meant.1);
        format!("the hook is at {base:#x}, {} {side}", counted(distance, "byte", "bytes"))
    }

    /// Whether the hook at `place` belongs to a function that was overridden.
    fn is_stale(&self, place: InSection, site: &CallSite) -> bool {
        let is_area = site.kind.is_some_and(|kind| self.target.arch.is_area(kind));
        let area = site.size.filter(|_| is_area).unwrap_or(0);
        self.target.is_image && !self.covers(place, area)
    }

    /// Whether a function covers `place`, or an area of `size` bytes there reaches one. `true` if no
    /// symbols tell.
    fn covers(&self, (section, offset): InSection, size: u64) -> bool {
        !self.functions.is_uncovered(section, offset, size)
    }

    /// Reports the hooks that have no entry.
    fn missing(&mut self, has_no_table: bool) {
        let lost = self.lost.iter().filter_map(|at| Some((*at, *self.sites.get(at)?)));
        let missed = lost.filter(|(place, site)| !site.excluded && !self.is_stale(*place, site));
        let missed: Vec<_> = missed.collect();
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

    /// Reports the areas that have no room for what a tracer puts there.
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

    fn find(&mut self, rule: Rule, place: InSection, detail: String) {
        let (section, offset) = place;
        let name = self.target.view.section_name(section);
        let is_code = self.target.view.section(section).is_ok_and(|section| section.is_code());
        // An area may begin before its function.
        let stale = [Rule::StaleEntry, Rule::OverriddenEntry, Rule::MisleadingEntry];
        let area = self.sites.get(&place).filter(|_| !stale.contains(&rule));
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

    fn address(&self, (section, offset): InSection) -> Option<u64> {
        let header = self.target.view.section(section).ok().filter(|_| self.target.is_image)?;
        Some(header.address.wrapping_add(offset))
    }

    /// The first bytes at `place`, in hexadecimal.
    fn bytes(&self, (section, offset): InSection) -> String {
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
    crate::names::lossy(name).into_owned()
}
