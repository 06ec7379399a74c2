//! Where the hooks of an image are, and what leads to them.
//!
//! The image may define the hook itself, and then its symbol has the address. Or the hook is in
//! another file. Then calls go through a word that the loader fills, the *slot*, which a dynamic
//! relocation names; usually they go through a PLT entry first, which jumps there.
//!
//! Sources: gABI, Dynamic Section (`DT_PLTGOT`); MIPS ABI, 5 (`DT_MIPS_LOCAL_GOTNO`, `DT_MIPS_GOTSYM`);
//! ELFv2 ABI, 3.4.1 (local entries).

use super::Finder;
use crate::arch::decode::{Goal, Place};
use crate::elf::loaded::Changes;
use crate::elf::{Relocations, Symbol, Symbols, dynamic, loaded};
use crate::error::Result;
use crate::scan::Target;
use foldhash::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How far the start of a call can be from its site: s390 stores a register first, and the site on SH
/// is the literal after the jump.
const TO_CALL: u64 = 24;

/// What leads to a hook.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) names: Vec<Arc<str>>,
    /// The symbols of hooks, in order, each with the position of its name.
    pub(super) symbols: Vec<(u32, u32)>,
    /// The addresses of hooks, with the position of the name.
    pub(super) addresses: HashMap<u64, u32>,
    /// The addresses of the words that the loader fills with a hook's address.
    pub(super) slots: HashMap<u64, u32>,
}

impl Hooks {
    /// A hook that no symbol names, at `address`.
    pub(crate) fn add_nameless(&mut self, address: u64) {
        self.addresses.insert(address, NAMELESS);
    }

    /// The hook at `address`. A word that the loader fills with a hook's address counts: a PLT entry may
    /// be that word itself.
    fn at(&self, address: u64) -> Option<u32> {
        self.addresses.get(&address).or_else(|| self.slots.get(&address)).copied()
    }

    /// Whether a hook is there.
    pub(super) fn is_at(&self, address: u64) -> bool {
        self.at(address).is_some()
    }

    /// The symbols of hooks, in order, each with the position of its name.
    pub(super) fn of(&self, symbols: &Symbols<'_>) -> Vec<(u32, u32)> {
        let names: Vec<_> = self.names.iter().map(|name| name.as_bytes()).collect();
        symbols.called(&names)
    }
}

/// The position of no name.
const NAMELESS: u32 = u32::MAX;

impl<'d> Finder<'_, '_, 'd> {
    /// Where the hooks are, and which words hold their addresses.
    pub(super) fn find_hooks(&mut self) -> Result<()> {
        let view = self.target.view;
        let dynamic = Symbols::read_dynamic(view)?;
        // Another file may override a hook that the image defines, so that has slots too.
        let mut named = HashMap::default();
        for symbols in self.target.symbols.iter().chain(&dynamic) {
            let found = self.hooks.of(symbols);
            for (index, hook) in found.iter().copied() {
                if let Some(symbol) = symbols.get(index).filter(|symbol| symbol.section.is_some()) {
                    self.add_hook(&symbol, hook);
                }
                if dynamic.as_ref().is_some_and(|d| d.section == symbols.section) {
                    named.insert(index, hook);
                }
            }
            if self.target.symbols.as_ref().is_some_and(|own| own.section == symbols.section) {
                self.hooks.symbols = found;
            }
        }
        if let Some(dynamic) = dynamic.filter(|_| !named.is_empty()) {
            self.find_slots(&dynamic, &named);
        }
        Ok(())
    }

    /// Adds a hook that the image defines: the address of its code, and of its local entry.
    fn add_hook(&mut self, symbol: &Symbol, hook: u32) {
        let arch = self.target.arch;
        let isa_bit = u64::from(arch.isa_bit && symbol.is_function());
        let mut address = symbol.value & !isa_bit;
        if let Some((section, offset)) = self.functions.described(symbol.value) {
            let section = self.code.position(section).and_then(|at| self.code.sections.get(at));
            address = section.map_or(address, |section| section.header.address + offset);
        }
        self.hooks.addresses.insert(address, hook);
        let local = symbol.other >> 5;
        if arch.local_entry && (2..=6).contains(&local) {
            self.hooks.addresses.insert(address.wrapping_add(1 << local), hook);
        }
    }

    /// The words that the loader fills with the addresses of the symbols `named` of `dynamic`.
    fn find_slots(&mut self, dynamic: &Symbols<'d>, named: &HashMap<u32, u32>) {
        let view = self.target.view;
        let mut wanted: Vec<_> = named.keys().copied().collect();
        wanted.sort_unstable();
        for (index, header) in (0u32..).zip(view.sections()) {
            if !header.has_relocations() || header.link != dynamic.section {
                continue;
            }
            if let Ok(list) = Relocations::read(view, index, header) {
                list.of_symbols(&wanted, &mut |relocation| {
                    if let Some(hook) = named.get(&relocation.symbol) {
                        self.hooks.slots.insert(relocation.offset, *hook);
                    }
                });
            }
        }
        let Some((local_tag, first_tag)) = self.target.arch.got_tags else { return };
        let [local, first] =
            [local_tag, first_tag].map(|tag| Some(dynamic::tag(view, tag.cast_signed())?.0));
        let (Some(local), Some(first)) = (local, first) else { return };
        let Some(got) = (0u32..).zip(view.sections()).find(|(i, _)| view.is_called(*i, b".got"))
        else {
            return;
        };
        for (symbol, hook) in named {
            let entry = u64::from(*symbol).wrapping_sub(first).wrapping_add(local);
            let slot = got.1.address.wrapping_add(entry.wrapping_mul(view.word()));
            self.hooks.slots.insert(slot, *hook);
        }
    }

    /// The hook that a call with this goal reaches.
    pub(super) fn reaches(&mut self, goal: Goal) -> Option<u32> {
        if let Some(answer) = self.known.get(&goal) {
            return *answer;
        }
        let mut answer = None;
        let chain: Vec<_> = self.code.chain(goal).collect();
        for goal in chain {
            answer = match goal {
                Goal::Slot(slot) => self.slot_holds(slot),
                Goal::Address(address) => self.hooks.at(address),
            };
            if answer.is_some() {
                break;
            }
        }
        self.known.insert(goal, answer);
        answer
    }

    fn slot_holds(&mut self, slot: u64) -> Option<u32> {
        if let Some(hook) = self.hooks.slots.get(&slot) {
            return Some(*hook);
        }
        let value = self.slot_value(slot)?;
        self.hooks.addresses.get(&value).copied()
    }

    /// The address that the word at `slot` holds, if it doesn't depend on other files.
    fn slot_value(&mut self, slot: u64) -> Option<u64> {
        let view = self.target.view;
        let loader = &self.target.loader;
        let changes = self.changes.get_or_insert_with(|| Changes::read(view, loader));
        changes.word(slot, || loaded::in_file(view, slot, 1).first().copied())
    }

    /// If no symbol names a hook, assumes that the hook is what more than half of the entries of `table`
    /// call. Wrong entries then still show.
    pub(crate) fn find_hook_by_table(&mut self, table: &[u64]) {
        let is_known = !self.hooks.addresses.is_empty() || !self.hooks.slots.is_empty();
        if is_known || self.target.has_all_symbols() {
            return;
        }
        let mut called: BTreeMap<u64, usize> = BTreeMap::new();
        let entries = table.iter().filter(|address| **address != 0);
        for address in entries.clone() {
            for end in self.called_at(*address) {
                *called.entry(end).or_default() += 1;
            }
        }
        let most = called.into_iter().max_by_key(|(_, count)| *count);
        if let Some((hook, _)) = most.filter(|(_, count)| *count > entries.count() / 2) {
            self.hooks.add_nameless(hook);
        }
    }

    /// The function that a call recorded at `address` calls, in either instruction set.
    fn called_at(&mut self, address: u64) -> BTreeSet<u64> {
        let arch = self.target.arch;
        let Some(section) = self.code.section_of(address) else { return BTreeSet::new() };
        let recorded = address - section.header.address;
        let step = usize::try_from(arch.code_step).unwrap_or(1);
        let mut goals = Vec::new();
        // An instruction begins at the site, so others begin at multiples of a step from it.
        let before = recorded.min(TO_CALL) / arch.code_step * arch.code_step;
        for at in (recorded - before..=recorded.saturating_add(TO_CALL)).step_by(step) {
            let place = self.code.place(section, at);
            let other = Place { alternate: !place.alternate, ..place };
            let others = if arch.isa_bit { Some(other) } else { None };
            for place in std::iter::once(place).chain(others) {
                let branch = (self.code.decode.call)(&place);
                let own = branch.filter(|b| arch.decoded(section.code, b).recorded == recorded);
                goals.extend(own.map(|branch| branch.target));
            }
        }
        goals.into_iter().filter_map(|goal| self.end_of(goal)).collect()
    }

    /// The address that a call with this goal finally reaches.
    fn end_of(&mut self, goal: Goal) -> Option<u64> {
        match self.code.chain(goal).last()? {
            Goal::Slot(slot) => self.slot_value(slot),
            // If there still is a stub, the chain is longer than any that a linker makes.
            Goal::Address(address) if self.code.stub_at(address).is_some() => None,
            Goal::Address(address) => Some(address),
        }
    }
}

/// The address that code finds its data by: `_gp`, the TOC or the like.
pub(super) fn find_data_base(target: &Target<'_, '_>) -> u64 {
    let view = target.view;
    let tag = target.arch.data_base_tag;
    if let Some((base, _)) = tag.and_then(|tag| dynamic::tag(view, tag.cast_signed())) {
        return base;
    }
    for (name, distance) in target.arch.data_bases {
        let symbols = target.symbols.as_ref();
        let symbol = symbols.and_then(|symbols| {
            let (index, _) = *symbols.called(&[name.as_bytes()]).first()?;
            symbols.get(index)
        });
        let base = symbol.map(|symbol| symbol.value).or_else(|| {
            let mut sections = (0u32..).zip(view.sections());
            let section = sections.find(|(index, _)| view.is_called(*index, name.as_bytes()));
            section.map(|(_, header)| header.address)
        });
        if let Some(base) = base {
            return base.wrapping_add(*distance);
        }
    }
    0
}
