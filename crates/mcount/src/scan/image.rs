//! Finding the sites of a linked image: by the relocations that the linker kept, by decoding, and
//! by the compiler's list of patchable entries.

use super::Target;
use super::functions::Functions;
use super::{nops, patchable};
use crate::arch::decode::{Branch, Decode, Place, Target as Goal};
use crate::arch::{Call, Code};
use crate::elf::{Relocations, Section, Symbol, Symbols, loaded};
use crate::error::{Error, ErrorKind, Result};
use crate::site::{Kind, Source};
use object::elf;
use object::read::elf::FileHeader;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Stubs that lead to stubs: a veneer to a PLT entry, at most.
const LONGEST_CHAIN: u32 = 3;

/// A site in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundSite {
    pub(crate) kind: Kind,
    /// Bytes, from the site to the end of the call or of the NOPs.
    pub(crate) size: u64,
    /// The position of the hook's name in [`Hooks::names`].
    pub(crate) hook: Option<u32>,
    pub(crate) source: Source,
}

/// A call in an image, and where its relocation was.
pub(crate) struct CallAt {
    pub(crate) call: Call,
    /// Bytes from the start of the section.
    pub(crate) reference: u64,
}

/// The sites of an image by section and offset.
pub(crate) type Found = BTreeMap<(u32, u64), FoundSite>;

/// What leads to a hook.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) names: Vec<String>,
    /// The addresses of hooks, with the position of the name.
    addresses: HashMap<u64, u32>,
    /// The addresses of the words that the loader fills with a hook's address.
    slots: HashMap<u64, u32>,
}

/// A section of code of an image.
struct CodeSection<'d> {
    index: u32,
    header: Section,
    code: Code<'d>,
}

/// The work on one image.
pub(crate) struct Finder<'t, 'v, 'd, Elf: FileHeader> {
    target: &'t Target<'v, 'd, Elf>,
    functions: &'t Functions<'d>,
    decode: Decode,
    sections: Vec<CodeSection<'d>>,
    pub(crate) hooks: Hooks,
    data_base: u64,
    /// The relocation of each call that was found: bytes from the start of its section.
    references: HashMap<(u32, u64), Branch>,
    /// What has been found out about where calls lead.
    known: HashMap<Goal, Option<u32>>,
    /// What relative relocations put where; read when first asked for.
    addends: Option<HashMap<u64, u64>>,
}

impl<'t, 'v, 'd, Elf: FileHeader> Finder<'t, 'v, 'd, Elf> {
    /// # Errors
    ///
    /// The processor's code cannot be decoded, or the image is malformed.
    pub(crate) fn new(
        target: &'t Target<'v, 'd, Elf>,
        functions: &'t Functions<'d>,
        extra: &[String],
    ) -> Result<Self> {
        let decode = target.arch.decode.ok_or_else(|| {
            Error::new(ErrorKind::Unsupported("no decoder for images of this processor"))
        })?;
        let mut sections = Vec::new();
        for (index, header) in (0u32..).zip(target.view.sections()) {
            if header.is_code() {
                sections.push(CodeSection { index, header, code: target.code(index)? });
            }
        }
        let names = target.arch.hooks.iter().copied().map(str::to_owned);
        let names = names.chain(extra.iter().cloned()).collect();
        let hooks = Hooks { names, ..Hooks::default() };
        let known = HashMap::new();
        let mut finder = Self {
            target,
            functions,
            decode,
            sections,
            hooks,
            data_base: 0,
            known,
            references: HashMap::new(),
            addends: None,
        };
        finder.data_base = finder.find_data_base();
        finder.find_hooks()?;
        Ok(finder)
    }

    /// Every site of the image.
    ///
    /// # Errors
    ///
    /// Relocations or lists are malformed.
    pub(crate) fn find(&mut self) -> Result<Found> {
        let mut found = Found::new();
        if !self.by_relocations(&mut found)? {
            self.by_decoding(&mut found);
        }
        self.by_patchable_entries(&mut found)?;
        Ok(found)
    }

    /// The addresses in the table of the image, ascending.
    pub(crate) fn table(&self, name: &[u8]) -> Vec<u64> {
        let view = self.target.view;
        let Some((address, size)) = self.target.table_range(name) else { return Vec::new() };
        let mut words = loaded::words(view, address, size / view.word(), self.decode.relative);
        words.sort_unstable();
        words
    }

    /// Adds the places that `table`, the addresses in the image's own, leads to and where NOPs stand
    /// that a call became: nothing else tells them from padding.
    pub(crate) fn by_table(&self, table: &[u64], found: &mut Found) -> Result<()> {
        for address in table.iter().filter(|address| **address != 0) {
            let Some(section) = self.section_of(*address) else { continue };
            let place = (section.index, address - section.header.address);
            if found.contains_key(&place) {
                continue;
            }
            let size = nops::size(self.target, place)?;
            if size != 0 {
                let source = Source::Table;
                found.insert(place, FoundSite { kind: Kind::Nop, size, hook: None, source });
            }
        }
        Ok(())
    }

    /// `_gp`, the TOC or the like.
    fn find_data_base(&self) -> u64 {
        let view = self.target.view;
        for (name, distance) in self.target.arch.data_bases {
            let symbols = self.target.symbols.as_ref();
            let symbol = symbols.and_then(|symbols| {
                let mut all = symbols.iter();
                all.find(|(_, symbol)| symbols.name(symbol) == name.as_bytes())
            });
            let mut sections = (0u32..).zip(view.sections());
            let mut section =
                || sections.find(|(index, _)| view.is_called(*index, name.as_bytes()));
            let base = symbol.map(|(_, symbol)| symbol.value);
            if let Some(base) = base.or_else(|| section().map(|(_, header)| header.address)) {
                return base.wrapping_add(*distance);
            }
        }
        0
    }

    /// Where the hooks are, and which words hold their addresses.
    fn find_hooks(&mut self) -> Result<()> {
        let view = self.target.view;
        let dynamic = Symbols::read_dynamic(view)?;
        let mut undefined = HashMap::new();
        for symbols in self.target.symbols.iter().chain(&dynamic) {
            for (index, symbol) in symbols.iter() {
                let Some(hook) = self.hook_name(symbols.name(&symbol)) else { continue };
                if symbol.section.is_some() {
                    self.add_hook(&symbol, hook);
                } else if dynamic.as_ref().is_some_and(|d| d.section == symbols.section) {
                    undefined.insert(index, hook);
                }
            }
        }
        if let Some(dynamic) = dynamic.filter(|_| !undefined.is_empty()) {
            self.find_slots(&dynamic, &undefined);
        }
        Ok(())
    }

    /// The position of hook `name`, without a version behind an `@`.
    fn hook_name(&self, name: &[u8]) -> Option<u32> {
        let name = name.split(|byte| *byte == b'@').next()?;
        (0u32..).zip(&self.hooks.names).find(|(_, hook)| hook.as_bytes() == name).map(|(at, _)| at)
    }

    /// A defined hook: its address, that of its local entry, or the code of its descriptor.
    fn add_hook(&mut self, symbol: &Symbol, hook: u32) {
        let arch = self.target.arch;
        let isa_bit = u64::from(arch.isa_bit && symbol.is_function());
        let mut address = symbol.value & !isa_bit;
        if let Some((section, offset)) = self.functions.described(symbol) {
            let section = self.sections.iter().find(|candidate| candidate.index == section);
            address = section.map_or(address, |section| section.header.address + offset);
        }
        self.hooks.addresses.insert(address, hook);
        let local = symbol.other >> 5;
        if arch.local_entry && (2..=6).contains(&local) {
            self.hooks.addresses.insert(address.wrapping_add(1 << local), hook);
        }
    }

    /// The words that the loader fills with the addresses of `undefined` symbols of `dynamic`.
    fn find_slots(&mut self, dynamic: &Symbols<'d, Elf>, undefined: &HashMap<u32, u32>) {
        let view = self.target.view;
        let mut wanted: Vec<_> = undefined.keys().copied().collect();
        wanted.sort_unstable();
        for (index, header) in (0u32..).zip(view.sections()) {
            if !header.is_relocations() || header.link != dynamic.section {
                continue;
            }
            if let Ok(list) = Relocations::read(view, index, &header) {
                list.of_symbols(&wanted, |relocation| {
                    if let Some(hook) = undefined.get(&relocation.symbol) {
                        self.hooks.slots.insert(relocation.offset, *hook);
                    }
                });
            }
        }
        let Some((local_tag, first_tag)) = self.target.arch.got_tags else { return };
        let (Some(local), Some(first)) = (self.dynamic_tag(local_tag), self.dynamic_tag(first_tag))
        else {
            return;
        };
        let Some(got) = (0u32..).zip(view.sections()).find(|(i, _)| view.is_called(*i, b".got"))
        else {
            return;
        };
        for (symbol, hook) in undefined {
            let entry = u64::from(*symbol).wrapping_sub(first).wrapping_add(local);
            let slot = got.1.address.wrapping_add(entry.wrapping_mul(view.word()));
            self.hooks.slots.insert(slot, *hook);
        }
    }

    /// The value of `tag` in the dynamic section.
    fn dynamic_tag(&self, tag: u64) -> Option<u64> {
        let view = self.target.view;
        let section = view.sections().find(|section| section.kind == elf::SHT_DYNAMIC.0)?;
        let words = loaded::in_file(view, section.address, section.size / view.word());
        let mut entries = words.chunks_exact(2);
        entries.find_map(|entry| match entry {
            [found, value] if *found == tag => Some(*value),
            _ => None,
        })
    }

    /// The hook that a call or stub with this goal reaches.
    fn reaches(&mut self, goal: Goal, depth: u32) -> Option<u32> {
        if let Some(answer) = self.known.get(&goal) {
            return *answer;
        }
        let answer = match goal {
            Goal::Slot(slot) => self.slot_holds(slot),
            Goal::Address(address) => {
                let direct = self.hooks.addresses.get(&address);
                // The address of a PLT entry may be the slot itself.
                let direct = direct.or_else(|| self.hooks.slots.get(&address)).copied();
                direct.or_else(|| {
                    let goal = self.stub_at(address).filter(|_| depth < LONGEST_CHAIN)?;
                    self.reaches(goal, depth + 1)
                })
            }
        };
        self.known.insert(goal, answer);
        answer
    }

    fn slot_holds(&mut self, slot: u64) -> Option<u32> {
        if let Some(hook) = self.hooks.slots.get(&slot) {
            return Some(*hook);
        }
        let view = self.target.view;
        let relative = self.decode.relative;
        let addends = self.addends.get_or_insert_with(|| loaded::relative_addends(view, relative));
        let in_file = || loaded::in_file(view, slot, 1).first().copied();
        let value = addends.get(&slot).copied().or_else(in_file)?;
        self.hooks.addresses.get(&value).copied()
    }

    /// What the stub at `address` leads to.
    fn stub_at(&self, address: u64) -> Option<Goal> {
        let inside = |s: &&CodeSection<'_>| {
            address >= s.header.address && address - s.header.address < s.header.size
        };
        let section = self.sections.iter().find(inside)?;
        let at = address - section.header.address;
        let place = self.place(section, at);
        let alternate = Place { alternate: true, ..place };
        (self.decode.stub)(&place).or_else(|| (self.decode.stub)(&alternate))
    }

    fn place(&self, section: &CodeSection<'d>, at: u64) -> Place<'d> {
        let view = self.target.view;
        Place {
            code: section.code,
            base: section.header.address,
            at,
            alternate: view.flags() & self.target.arch.alternate_code_flag != 0,
            data_base: self.data_base,
            is_64: view.is_64(),
        }
    }

    /// Adds the call that `branch` is, if it reaches a hook.
    fn add(&mut self, found: &mut Found, section: usize, branch: &Branch, source: Source) {
        let Some(hook) = self.reaches(branch.target, 0) else { return };
        let Some(section) = self.sections.get(section) else { return };
        let call = self.target.arch.decoded(section.code, branch);
        let Call { recorded, end, .. } = call;
        self.references.insert((section.index, recorded), *branch);
        let size = end.saturating_sub(recorded);
        let what = FoundSite { kind: call.kind(), size, hook: Some(hook), source };
        found.insert((section.index, recorded), what);
    }

    /// The sites by relocations that `ld --emit-relocs` kept; `false` if it kept none.
    fn by_relocations(&mut self, found: &mut Found) -> Result<bool> {
        let view = self.target.view;
        let Some(symbols) = &self.target.symbols else { return Ok(false) };
        let mut hooks: Vec<_> = symbols
            .iter()
            .filter(|(_, symbol)| self.hook_name(symbols.name(symbol)).is_some())
            .map(|(index, _)| index)
            .collect();
        hooks.sort_unstable();
        let mut kept = false;
        let mut places = HashSet::new();
        for (index, header) in (0u32..).zip(view.sections()) {
            let is_kept = header.is_relocations()
                && header.flags & elf::SHF_ALLOC.0 == 0
                && header.link == symbols.section;
            let section = self.sections.iter().position(|section| section.index == header.info);
            let (Some(section), true) = (section, is_kept) else { continue };
            kept = true;
            Relocations::read(view, index, &header)?.of_symbols(&hooks, |relocation| {
                places.insert((section, relocation.offset));
            });
        }
        for (section, address) in places {
            self.relocated_call(found, section, address);
        }
        Ok(kept)
    }

    /// The call that a relocation at `address` is part of.
    fn relocated_call(&mut self, found: &mut Found, section: usize, address: u64) {
        let Some(code) = self.sections.get(section) else { return };
        let Some(reference) = address.checked_sub(code.header.address) else { return };
        // The opcode begins at most two bytes before its relocation.
        for back in 0..=2 {
            let Some(at) = reference.checked_sub(back) else { return };
            let place = self.place(code, at);
            let alternate = Place { alternate: !place.alternate, ..place };
            for place in [place, alternate] {
                let branch = (self.decode.call)(&place);
                if let Some(branch) = branch.filter(|branch| branch.reference == reference) {
                    return self.add(found, section, &branch, Source::Relocations);
                }
            }
        }
    }

    /// The sites by decoding all code.
    fn by_decoding(&mut self, found: &mut Found) {
        if self.hooks.addresses.is_empty() && self.hooks.slots.is_empty() {
            return;
        }
        for section in 0..self.sections.len() {
            let branches = if self.decode.from_functions {
                self.sweep_functions(section)
            } else {
                self.sweep(section)
            };
            for branch in branches {
                self.add(found, section, &branch, Source::Decoding);
            }
        }
    }

    /// Every call of a hook in a section whose instructions can be read from any one on.
    fn sweep(&mut self, section: usize) -> Vec<Branch> {
        let mut branches = Vec::new();
        for (start, end, alternate) in self.regions(section) {
            let mut at = start;
            while at < end {
                let Some(code) = self.sections.get(section) else { break };
                let place = Place { alternate, ..self.place(code, at) };
                if let Some(branch) = (self.decode.call)(&place)
                    && self.reaches(branch.target, 0).is_some()
                {
                    branches.push(branch);
                }
                at = at.saturating_add((self.decode.length)(&place));
            }
        }
        branches
    }

    /// Start, end and instruction set of the parts of a section that are code.
    fn regions(&self, section: usize) -> Vec<(u64, u64, bool)> {
        let Some(section) = self.sections.get(section) else { return Vec::new() };
        let end = section.code.len();
        let whole = self.place(section, 0).alternate;
        let mut marks = vec![(0, Some(whole))];
        let symbols = self.target.symbols.as_ref().filter(|_| self.target.arch.mapping_symbols);
        for (_, symbol) in symbols.iter().flat_map(|symbols| symbols.iter()) {
            let name = symbols.map(|symbols| symbols.name(&symbol)).unwrap_or_default();
            let mark = match name {
                [b'$', b'a' | b'x', ..] => Some(false),
                [b'$', b't', ..] => Some(true),
                [b'$', b'd', ..] => None,
                _ => continue,
            };
            if symbol.section == Some(section.index) && matches!(name.get(2), None | Some(b'.')) {
                marks.push((symbol.value.wrapping_sub(section.header.address), mark));
            }
        }
        // Of several at one place the last is in force.
        marks.sort_by_key(|mark| mark.0);
        let ends = marks.iter().skip(1).map(|mark| mark.0).chain([end]);
        let parts = marks.iter().zip(ends);
        parts.filter_map(|((start, mark), next)| Some((*start, next.min(end), (*mark)?))).collect()
    }

    /// Every call of a hook in a section whose instructions must be read from function starts on:
    /// bytes that would be such a call, of which those at the start of an instruction are.
    fn sweep_functions(&mut self, section: usize) -> Vec<Branch> {
        let mut candidates = Vec::new();
        let Some(code) = self.sections.get(section) else { return Vec::new() };
        let (index, bytes) = (code.index, code.code.from(0));
        for at in memchr::memchr3_iter(0xe8, 0xff, 0x67, bytes) {
            let Some(code) = self.sections.get(section) else { break };
            let place = self.place(code, at as u64);
            if let Some(branch) = (self.decode.call)(&place)
                && self.reaches(branch.target, 0).is_some()
            {
                candidates.push((at as u64, branch));
            }
        }
        let mut starts: Vec<_> = std::iter::once(0).chain(self.functions.starts(index)).collect();
        starts.dedup();
        let Some(code) = self.sections.get(section) else { return Vec::new() };
        let mut branches = Vec::new();
        let mut at = 0;
        for (candidate, branch) in candidates {
            let before = starts.partition_point(|start| *start <= candidate).saturating_sub(1);
            let start = starts.get(before).copied().unwrap_or(0);
            // Go on from the candidate before, if that was in the same function.
            at = if (start..=candidate).contains(&at) { at } else { start };
            while at < candidate {
                at = at.saturating_add((self.decode.length)(&self.place(code, at)));
            }
            if at == candidate {
                branches.push(branch);
            }
        }
        branches
    }

    /// Areas of NOPs: those that the list leads to, and those of functions that have one of the
    /// same form and are not listed, as happens to functions of discarded groups.
    fn by_patchable_entries(&self, found: &mut Found) -> Result<()> {
        let view = self.target.view;
        let name = patchable::SECTION.as_bytes();
        let mut listed = Vec::new();
        for (index, header) in (0u32..).zip(view.sections()) {
            if header.has_bytes() && view.is_called(index, name) {
                let count = header.size / view.word();
                listed.extend(loaded::words(view, header.address, count, self.decode.relative));
            }
        }
        listed.sort_unstable();
        listed.dedup();
        let mut forms = HashSet::new();
        for address in listed.into_iter().filter(|address| *address != 0) {
            let Some(section) = self.section_of(address) else { continue };
            let offset = address - section.header.address;
            let size = patchable::size(self.target, self.functions, section.index, offset, None)?;
            if size != 0 {
                Self::add_area(found, section.index, offset, size, Source::PatchableEntries);
                if let Some((_, start)) = self.functions.find(section.index, offset, size) {
                    forms.insert((offset.wrapping_sub(start), size));
                }
            }
        }
        for section in &self.sections {
            for start in self.functions.starts(section.index) {
                for (distance, size) in &forms {
                    let offset = start.wrapping_add(*distance);
                    let run =
                        patchable::size(self.target, self.functions, section.index, offset, None)?;
                    if run == *size && !found.contains_key(&(section.index, offset)) {
                        Self::add_area(found, section.index, offset, run, Source::Decoding);
                    }
                }
            }
        }
        Ok(())
    }

    fn add_area(found: &mut Found, section: u32, offset: u64, size: u64, source: Source) {
        found.insert(
            (section, offset),
            FoundSite { kind: Kind::Patchable, size, hook: None, source },
        );
    }

    /// The call that was found at `offset` of `section`.
    pub(crate) fn call_at(&self, section: u32, offset: u64) -> Option<CallAt> {
        let branch = self.references.get(&(section, offset))?;
        let code = self.sections.iter().find(|candidate| candidate.index == section)?.code;
        let call = self.target.arch.decoded(code, branch);
        Some(CallAt { call, reference: branch.reference })
    }

    fn section_of(&self, address: u64) -> Option<&CodeSection<'d>> {
        self.sections.iter().find(|section| {
            address >= section.header.address
                && address - section.header.address < section.header.size
        })
    }
}
