//! Finding the sites of a linked image: by the relocations that the linker kept, by decoding, and
//! by the compiler's list of patchable entries.

use super::Target;
use super::functions::Functions;
use super::{nops, patchable};
use crate::arch::decode::{Branch, Decode, Place, Target as Goal};
use crate::arch::{Call, Code};
use crate::elf::{Relocations, Section, Symbol, Symbols, dynamic, loaded};
use crate::error::{Error, ErrorKind, Result};
use crate::site::{Kind, Source};
use object::elf;
use object::read::elf::FileHeader;
use std::collections::{BTreeMap, HashMap};

/// Stubs that lead to stubs: a veneer to a PLT entry, at most.
const LONGEST_CHAIN: u32 = 3;

/// How far behind the start of a call its relocation can be; an x86 call with a prefix looks like
/// one without, so the longest comes first.
const TO_REFERENCE: [u64; 4] = [22, 2, 1, 0];

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

impl Hooks {
    /// A hook that no symbol names, at `address`.
    pub(crate) fn add_nameless(&mut self, address: u64) {
        self.addresses.insert(address, NAMELESS);
    }
}

/// The position of no name.
const NAMELESS: u32 = u32::MAX;

/// A section of code of an image.
struct CodeSection<'d> {
    index: u32,
    header: Section,
    code: Code<'d>,
}

/// A part of a section that is code: bytes from the start of the section.
struct Region {
    start: u64,
    end: u64,
    alternate: bool,
    /// Bytes from one place where an instruction may begin to the next; `None` where the
    /// instructions say that.
    step: Option<u64>,
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
        self.by_relocations(&mut found)?;
        // A linker that redirects a call to a stub may have redirected its relocation too.
        self.by_decoding(&mut found);
        self.by_patchable_entries(&mut found)?;
        Ok(found)
    }

    /// The addresses in the table of the image, which has an address and a size in bytes; ascending.
    pub(crate) fn table(&self, range: Option<(u64, u64)>) -> Vec<u64> {
        let view = self.target.view;
        let Some((address, size)) = range else { return Vec::new() };
        let mut words = loaded::words(view, address, size / view.word(), &self.target.loader);
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
        let tag = self.target.arch.data_base_tag;
        if let Some((base, _)) = tag.and_then(|tag| dynamic::tag(view, tag.cast_signed())) {
            return base;
        }
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
        // A definition of one's own may be overridden: it has slots too.
        let mut named = HashMap::new();
        for symbols in self.target.symbols.iter().chain(&dynamic) {
            for (index, symbol) in symbols.iter() {
                let Some(hook) = self.hook_name(symbols.name(&symbol)) else { continue };
                if symbol.section.is_some() {
                    self.add_hook(&symbol, hook);
                }
                if dynamic.as_ref().is_some_and(|d| d.section == symbols.section) {
                    named.insert(index, hook);
                }
            }
        }
        if let Some(dynamic) = dynamic.filter(|_| !named.is_empty()) {
            self.find_slots(&dynamic, &named);
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

    /// The words that the loader fills with the addresses of the symbols `named` of `dynamic`.
    fn find_slots(&mut self, dynamic: &Symbols<'d, Elf>, named: &HashMap<u32, u32>) {
        let view = self.target.view;
        let mut wanted: Vec<_> = named.keys().copied().collect();
        wanted.sort_unstable();
        for (index, header) in (0u32..).zip(view.sections()) {
            if !header.is_relocations() || header.link != dynamic.section {
                continue;
            }
            if let Ok(list) = Relocations::read(view, index, &header) {
                list.of_symbols(&wanted, |relocation| {
                    if let Some(hook) = named.get(&relocation.symbol) {
                        self.hooks.slots.insert(relocation.offset, *hook);
                    }
                });
            }
        }
        let Some((local_tag, first_tag)) = self.target.arch.got_tags else { return };
        let tag = |tag: u64| dynamic::tag(view, tag.cast_signed()).map(|(value, _)| value);
        let (Some(local), Some(first)) = (tag(local_tag), tag(first_tag)) else { return };
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
        let loader = &self.target.loader;
        let addends = self.addends.get_or_insert_with(|| loaded::relative_addends(view, loader));
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
            big_endian_data: view.is_big_endian(),
        }
    }

    /// Adds the call that `branch` is, if it reaches a hook; `false` if it does not.
    fn add(&mut self, found: &mut Found, section: usize, branch: &Branch, source: Source) -> bool {
        let Some(hook) = self.reaches(branch.target, 0) else { return false };
        let Some(section) = self.sections.get(section) else { return false };
        let call = self.target.arch.decoded(section.code, branch);
        let Call { recorded, end, .. } = call;
        let size = end.saturating_sub(recorded);
        // Relocations know better than what is decoded after them.
        if overlaps(found, section.index, recorded, size) {
            return true;
        }
        self.references.insert((section.index, recorded), *branch);
        let what = FoundSite { kind: call.kind(), size, hook: Some(hook), source };
        found.insert((section.index, recorded), what);
        true
    }

    /// The sites by relocations that `ld --emit-relocs` kept.
    fn by_relocations(&mut self, found: &mut Found) -> Result<()> {
        let view = self.target.view;
        let Some(symbols) = &self.target.symbols else { return Ok(()) };
        let mut hooks: Vec<_> = symbols
            .iter()
            .filter(|(_, symbol)| self.hook_name(symbols.name(symbol)).is_some())
            .map(|(index, _)| index)
            .collect();
        hooks.sort_unstable();
        let mut places = BTreeMap::new();
        for (index, header) in (0u32..).zip(view.sections()) {
            let is_kept = header.is_relocations()
                && header.flags & elf::SHF_ALLOC.0 == 0
                && header.link == symbols.section;
            let section = self.sections.iter().position(|section| section.index == header.info);
            let (Some(section), true) = (section, is_kept) else { continue };
            Relocations::read(view, index, &header)?.of_symbols(&hooks, |relocation| {
                let symbol = symbols.get(relocation.symbol);
                let hook = symbol.and_then(|symbol| self.hook_name(symbols.name(&symbol)));
                if let Some(hook) = hook {
                    let place = (section, relocation.offset);
                    places.insert(place, (relocation.kind, hook));
                }
            });
        }
        for ((section, address), (kind, hook)) in places {
            if !self.relocated_call(found, section, address) {
                self.call_of_object(found, section, address, kind, hook);
            }
        }
        Ok(())
    }

    /// Adds the call that a relocation at `address` is part of; `false` if it is part of none.
    fn relocated_call(&mut self, found: &mut Found, section: usize, address: u64) -> bool {
        let Some(code) = self.sections.get(section) else { return false };
        let Some(reference) = address.checked_sub(code.header.address) else { return false };
        let mut branches = Vec::new();
        for back in TO_REFERENCE {
            let Some(at) = reference.checked_sub(back) else { continue };
            let place = self.place(code, at);
            // Either instruction set may be it: the one in which it calls a hook is.
            for place in [place, Place { alternate: !place.alternate, ..place }] {
                let branch = (self.decode.call)(&place);
                let branch = branch.filter(|branch| branch.reference == reference);
                branches.extend(branch.filter(|_| self.is_instruction(code, at)));
            }
        }
        branches.iter().any(|branch| self.add(found, section, branch, Source::Relocations))
    }

    /// The same where the call is still as it was in the object.
    fn call_of_object(
        &self,
        found: &mut Found,
        section: usize,
        address: u64,
        kind: u32,
        hook: u32,
    ) {
        let Some(section) = self.sections.get(section) else { return };
        let Some(reference) = address.checked_sub(section.header.address) else { return };
        if let Some(call) = self.target.arch.call(section.code, kind, reference) {
            let size = call.end.saturating_sub(call.recorded);
            // Of several relocations in one call, the first has said all.
            if !overlaps(found, section.index, call.recorded, size) {
                let (kind, source) = (call.kind(), Source::Relocations);
                let what = FoundSite { kind, size, hook: Some(hook), source };
                found.insert((section.index, call.recorded), what);
            }
        }
    }

    /// Whether an instruction begins at `at`, where that can be told from function starts only.
    fn is_instruction(&self, section: &CodeSection<'d>, at: u64) -> bool {
        if self.decode.anchors.is_empty() {
            return true;
        }
        let mut next = self.functions.last_start(section.index, at).unwrap_or(0);
        while next < at {
            next = next.saturating_add((self.decode.length)(&self.place(section, next)));
        }
        next == at
    }

    /// The sites by decoding all code.
    fn by_decoding(&mut self, found: &mut Found) {
        if self.hooks.addresses.is_empty() && self.hooks.slots.is_empty() {
            return;
        }
        for section in 0..self.sections.len() {
            let branches = if self.decode.anchors.is_empty() {
                self.sweep(section)
            } else {
                self.sweep_functions(section)
            };
            for branch in branches {
                self.add(found, section, &branch, Source::Decoding);
            }
        }
    }

    /// Every call of a hook in a section whose instructions can be read from any one on.
    fn sweep(&mut self, section: usize) -> Vec<Branch> {
        let mut branches = Vec::new();
        for region in self.regions(section) {
            let mut at = region.start;
            while at < region.end {
                let Some(code) = self.sections.get(section) else { break };
                let place = Place { alternate: region.alternate, ..self.place(code, at) };
                if let Some(branch) = (self.decode.call)(&place)
                    && self.reaches(branch.target, 0).is_some()
                {
                    branches.push(branch);
                }
                let step = region.step.unwrap_or_else(|| (self.decode.length)(&place));
                at = at.saturating_add(step);
            }
        }
        branches
    }

    /// The parts of a section that are code.
    fn regions(&self, section: usize) -> Vec<Region> {
        let Some(section) = self.sections.get(section) else { return Vec::new() };
        let end = section.code.len();
        let whole = self.place(section, 0).alternate;
        let mut marks = vec![(0, Some(whole))];
        let symbols = self.target.symbols.as_ref().filter(|_| self.target.arch.mapping_symbols);
        for (_, symbol) in symbols.iter().flat_map(|symbols| symbols.iter()) {
            let name = symbols.map(|symbols| symbols.name(&symbol)).unwrap_or_default();
            let mark = match name {
                // $x may have the name of its instruction set: $xrv64i2p1.
                [b'$', b'x', ..] | [b'$', b'a'] | [b'$', b'a', b'.', ..] => Some(false),
                [b'$', b't'] | [b'$', b't', b'.', ..] => Some(true),
                [b'$', b'd'] | [b'$', b'd', b'.', ..] => None,
                _ => continue,
            };
            if symbol.section == Some(section.index) {
                marks.push((symbol.value.wrapping_sub(section.header.address), mark));
            }
        }
        if marks.len() == 1 && self.target.arch.mapping_symbols && self.target.arch.isa_bit {
            // Stripped: each place may be code of either instruction set.
            let region = |alternate, step| Region { start: 0, end, alternate, step: Some(step) };
            return vec![region(false, 4), region(true, 2)];
        }
        // Of several at one place the last is in force.
        marks.sort_by_key(|mark| mark.0);
        let ends = marks.iter().skip(1).map(|mark| mark.0).chain([end]);
        let parts = marks.iter().zip(ends);
        let region = |((start, mark), next): (&(u64, Option<bool>), u64)| {
            Some(Region { start: *start, end: next.min(end), alternate: (*mark)?, step: None })
        };
        parts.filter_map(region).collect()
    }

    /// Every call of a hook in a section whose instructions must be read from function starts on:
    /// bytes that would be such a call, of which those at the start of an instruction are.
    fn sweep_functions(&mut self, section: usize) -> Vec<Branch> {
        let mut candidates = Vec::new();
        let Some(code) = self.sections.get(section) else { return Vec::new() };
        let (index, bytes) = (code.index, code.code.from(0));
        for (byte, distance) in self.decode.anchors {
            for at in memchr::memchr_iter(*byte, bytes) {
                let Some(at) = (at as u64).checked_sub(*distance) else { continue };
                let Some(code) = self.sections.get(section) else { break };
                if let Some(branch) = (self.decode.call)(&self.place(code, at))
                    && self.reaches(branch.target, 0).is_some()
                {
                    candidates.push((at, branch));
                }
            }
        }
        candidates.sort_unstable_by_key(|candidate| candidate.0);
        candidates.dedup_by_key(|candidate| candidate.0);
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
                listed.extend(loaded::words(view, header.address, count, &self.target.loader));
            }
        }
        listed.sort_unstable();
        listed.dedup();
        let mut forms = HashMap::new();
        for address in listed.into_iter().filter(|address| *address != 0) {
            let Some(section) = self.section_of(address) else { continue };
            let offset = address - section.header.address;
            let size = patchable::size(self.target, self.functions, section.index, offset, None)?;
            if size != 0 {
                Self::add_area(found, section.index, offset, size, Source::PatchableEntries);
                if let Some((_, start)) = self.functions.find(section.index, offset, size) {
                    *forms.entry((offset.wrapping_sub(start), size)).or_insert(0) |= address;
                }
            }
        }
        self.lost_areas(found, &forms)
    }

    /// Areas of functions that have one of the same form as a listed one. `forms` has the distance
    /// from the function's start, the size, and the bits that the listed addresses have.
    fn lost_areas(&self, found: &mut Found, forms: &HashMap<(u64, u64), u64>) -> Result<()> {
        for section in &self.sections {
            for start in self.functions.starts(section.index) {
                for ((distance, size), bits) in forms {
                    let offset = start.wrapping_add(*distance);
                    // Before a function there may be padding, of the same instructions: an area that
                    // ends where the function begins cannot be told from that, and another only by
                    // the alignment that the compiler gave those that are listed.
                    let is_before = distance.cast_signed() < 0;
                    let aligned = !is_before
                        || section.header.address.wrapping_add(offset).trailing_zeros()
                            >= bits.trailing_zeros();
                    if is_before && offset.wrapping_add(*size) <= start || !aligned {
                        continue;
                    }
                    let run =
                        patchable::size(self.target, self.functions, section.index, offset, None)?;
                    if run == *size && !overlaps(found, section.index, offset, run) {
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

/// Whether a site that was found has bytes in common with these.
fn overlaps(found: &Found, section: u32, offset: u64, size: u64) -> bool {
    let before = found.range((section, 0)..(section, offset.saturating_add(size)));
    before.last().is_some_and(|((_, start), site)| start.saturating_add(site.size) > offset)
}
