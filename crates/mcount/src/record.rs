//! Recording: find the calls of an object, decide what becomes of each, and put the table in.
//!
//! An example: `two.c` has the functions `run` and `go` in `.text` and `stop` in `.exit.text`. For
//! x86-64, `gcc -pg -mfentry -c` makes this of it:
//!
//! ```text
//! .text        0: e8 00 00 00 00   call __fentry__       1: R_X86_64_PLT32 __fentry__-4
//!             10: e8 00 00 00 00   call __fentry__      11: R_X86_64_PLT32 __fentry__-4
//! .exit.text   0: e8 00 00 00 00   call __fentry__       1: R_X86_64_PLT32 __fentry__-4
//! ```
//!
//! `mcount record two.o` adds a table with two entries, and changes the third call:
//!
//! ```text
//! .symtab      a section symbol for .text
//! __mcount_loc 0: 00 00 00 00 00 00 00 00                0: R_X86_64_64 .text+0
//!              8: 00 00 00 00 00 00 00 00                8: R_X86_64_64 .text+0x10
//! .exit.text   0: 0f 1f 44 00 00   nop                   1: R_X86_64_NONE
//! ```
//!
//! 1. [`calls`] finds the three calls by their relocations. A site is where the call begins, one byte
//!    before `r_offset`.
//! 2. The policy looks at each section ([`Recorder::plan`]). Linux traces `.text`, so its calls are
//!    recorded. `.exit.text` may be gone when the kernel runs, so its call becomes a NOP and gets no
//!    entry.
//! 3. If the object has exactly this table already, nothing is written ([`Recorder::is_right`]).
//! 4. An entry is a word of zeros and a relocation. The linker fills in the address. Most objects have no
//!    symbol for `.text` itself, so one is added. On processors whose linker deletes code, `.text+0x10`
//!    would go wrong; there each entry gets a local label of its own ([`Recorder::add_symbols`]).
//! 5. [`Edit`] puts the new table, and new copies of every section that changes, at the end of the file.
//!    It doesn't overwrite any old bytes except the ELF header.

use crate::elf::edit::{Change, Edit, NewSymbol};
use crate::elf::{Verb, View};
use crate::error::{Error, ErrorKind, Result};
use crate::nop;
use crate::options::{Options, RecordOptions};
use crate::policy::Treatment;
use crate::scan::calls::{self, Calls, FoundCall};
use crate::scan::functions::FunctionIndex;
use crate::scan::source_files::SourceFiles;
use crate::scan::{Target, nops, patchable};
use crate::table::encode::{Anchors, References};
use crate::table::right::{Linker, PartFlaw, carries_addends};
use crate::table::split::{Split, tables};
use crate::table::write::{Shape, Writer};
use crate::table::{self, Entry, Part};
use object::elf;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What [`crate::record()`] found, and what to write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recording {
    /// What to write; `None` if the object is right already.
    pub change: Option<Change>,
    /// Whether there is something to write. It stays when `change` is taken.
    pub changed: bool,
    /// The number of entries in the table.
    pub recorded: usize,
    /// The number of recorded calls that should have become NOPs, but there is none of their size.
    pub without_nop: usize,
    /// Whether the object had a table before, right or wrong.
    pub had_table: bool,
    /// The number of patchable entries whose list was split (`RecordOptions::split_lists`).
    pub split: usize,
    /// The sections with calls that the policy excludes, in section order.
    pub excluded: Vec<ExcludedSection>,
}

/// A section with calls that the policy excludes from the table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExcludedSection {
    /// Its name, with invalid UTF-8 replaced.
    pub name: String,
    /// The number of calls that became NOPs.
    pub made_nops: usize,
    /// The number of calls that stay as they were: their function is left alone, or there is no NOP of
    /// their size.
    pub left: usize,
    /// Entries that the table no longer has, though their calls are NOPs already. Nothing but the table
    /// tells such a NOP from any other, unless `Options::nops` does.
    pub dropped: usize,
}

/// [`crate::record()`], for each class and byte order.
pub(crate) struct Record<'o> {
    pub(crate) options: &'o Options,
    pub(crate) how: &'o RecordOptions,
}

impl<'d> Verb<'d> for Record<'_> {
    type Output = Recording;

    fn run(self, view: &View<'d>) -> Result<Recording> {
        let target = Target::new(view)?;
        let Self { options, how } = self;
        let had_table = table::is_there(&target, options.table_section.as_bytes());
        if had_table && how.keep_existing_table {
            return Ok(Recording { had_table, ..Recording::default() });
        }
        // Calls that become NOPs are needed whole.
        let is_place_enough = |section| {
            let name = view.section_name(section);
            !how.nop_all && options.policy.section(name) == Treatment::Record
        };
        let calls = calls::find_by(&target, &options.hooks, &is_place_enough)?;
        let split = if how.split_lists { Split::needed(&target)? } else { None };
        if calls.is_empty() && !had_table && !options.nops && split.is_none() {
            return Ok(Recording::default());
        }
        let policy = &options.policy;
        let is_left_out = [&policy.exclude_symbols, &policy.exclude_file_symbols];
        let needs_names = options.nops || is_left_out.iter().any(|globs| !globs.is_empty());
        let functions = if needs_names { Some(FunctionIndex::new(&target)?) } else { None };
        let files =
            functions.as_ref().map(|functions| SourceFiles::new(&target, functions, policy));
        let functions = functions.zip(files);
        Recorder { target, options, how, calls, had_table, split, functions }.record()
    }
}

struct Recorder<'v, 'd, 'o> {
    target: Target<'v, 'd>,
    options: &'o Options,
    how: &'o RecordOptions,
    calls: Calls,
    had_table: bool,
    /// The compiler's list of patchable entries, if it must be split.
    split: Option<Split>,
    /// `None` if the options need neither names nor the starts of functions.
    functions: Option<(FunctionIndex<'d>, SourceFiles<'d>)>,
}

/// What becomes of each call. Places are in section order, then offset order.
#[derive(Default)]
struct Plan {
    record: Vec<(u32, u64)>,
    /// The calls that become NOPs because they are excluded.
    nop: Vec<FoundCall>,
    /// The recorded calls, if they become NOPs too.
    recorded_nop: Vec<FoundCall>,
    excluded: BTreeMap<u32, ExcludedSection>,
}

impl<'v, 'd> Recorder<'v, 'd, '_> {
    fn record(mut self) -> Result<Recording> {
        let mut plan = self.plan();
        let parts = table::parts(&self.target, self.options.table_section.as_bytes());
        let existing = table::entries(&self.target, &parts)?;
        self.add_recorded_nops(&mut plan, &existing)?;
        let mut edit = Edit::new(self.target.view);
        let mut nops = [plan.nop.as_slice(), &plan.recorded_nop].concat();
        nops.sort_by_key(FoundCall::place);
        let made_nops = nop::make(&self.target, &mut edit, &nops)?;
        for call in &plan.nop {
            if let Some(section) = plan.excluded.get_mut(&call.section) {
                let done = made_nops.contains(&call.place());
                section.made_nops += usize::from(done);
                section.left += usize::from(!done);
            }
        }
        let is_right = self.is_right(&plan.record, &parts, &existing)?;
        let mut recording = Recording {
            change: None,
            changed: !made_nops.is_empty() || !is_right || self.split.is_some(),
            recorded: plan.record.len(),
            without_nop: plan
                .recorded_nop
                .iter()
                .filter(|c| !made_nops.contains(&c.place()))
                .count(),
            had_table: self.had_table,
            split: self.split.as_ref().map_or(0, Split::count),
            excluded: plan.excluded.into_values().collect(),
        };
        if !is_right {
            self.write_table(&mut edit, parts, plan.record)?;
        }
        if let Some(split) = self.split.take() {
            split.write(&self.target, &mut edit)?;
        }
        if recording.changed {
            recording.change = Some(edit.finish()?);
        }
        Ok(recording)
    }

    /// What becomes of each call.
    fn plan(&mut self) -> Plan {
        let mut plan = Plan::default();
        let places = std::mem::take(&mut self.calls.places);
        self.plan_places(&mut plan, places);
        let policy = &self.options.policy;
        for calls in self.calls.whole.chunk_by(|a, b| a.section == b.section) {
            let Some(first) = calls.first() else { continue };
            let name = self.target.view.section_name(first.section);
            let treatment = policy.section(name);
            let others = || calls.iter().filter(|call| !self.is_left_alone(call.place()));
            let count = match treatment {
                Treatment::Record => {
                    let before = plan.record.len();
                    plan.record.reserve(calls.len());
                    plan.record.extend(others().map(FoundCall::place));
                    if self.how.nop_all {
                        plan.recorded_nop.extend(others());
                    }
                    calls.len() - (plan.record.len() - before)
                }
                Treatment::Nop => {
                    let before = plan.nop.len();
                    plan.nop.extend(others());
                    calls.len() - (plan.nop.len() - before)
                }
                Treatment::LeaveAlone => 0,
            };
            if treatment != Treatment::Record || count != 0 {
                let left = if treatment == Treatment::LeaveAlone { calls.len() } else { count };
                plan.excluded.insert(first.section, self.excluded(first.section, left));
            }
        }
        plan
    }

    /// Decides about `places`, which are in recorded sections.
    fn plan_places(&self, plan: &mut Plan, mut places: Vec<(u32, u64)>) {
        if self.functions.is_some() {
            for of_section in places.chunk_by(|a, b| a.0 == b.0) {
                let left = of_section.iter().filter(|place| self.is_left_alone(**place)).count();
                if let (Some((section, _)), 1..) = (of_section.first(), left) {
                    plan.excluded.insert(*section, self.excluded(*section, left));
                }
            }
            places.retain(|place| !self.is_left_alone(*place));
        }
        plan.record = places;
    }

    /// The report about a section, `left` of whose calls stay as they are.
    fn excluded(&self, section: u32, left: usize) -> ExcludedSection {
        let name = crate::names::lossy(self.target.view.section_name(section)).into_owned();
        ExcludedSection { name, made_nops: 0, left, dropped: 0 }
    }

    /// Whether the site is in a function to leave alone.
    fn is_left_alone(&self, (section, offset): (u32, u64)) -> bool {
        let policy = &self.options.policy;
        let functions = self.functions.as_ref();
        functions.is_some_and(|(functions, files)| {
            policy.leaves_alone(functions, files, (section, offset, 0))
        })
    }

    /// Adds the NOPs that the compiler left in place of calls (`-mnop-mcount`). Its table leads to them.
    /// If the options ask for it, they are recognized by their bits too.
    fn add_recorded_nops(&self, plan: &mut Plan, existing: &[Entry]) -> Result<()> {
        let entries = existing.iter().filter_map(|entry| entry.place);
        let mut places = nops::recorded(&self.target, entries, &plan.record)?;
        let of_table = places.len();
        if let (true, Some((functions, _))) = (self.options.nops, &self.functions) {
            let listed = table::read(&self.target, patchable::SECTION.as_bytes())?;
            let listed = listed.iter().filter_map(|entry| entry.place).collect();
            places.extend(nops::decoded(&self.target, functions, &self.options.hooks, listed)?);
        }
        for (at, (section, offset)) in places.into_iter().enumerate() {
            let name = self.target.view.section_name(section);
            let is_recorded = self.options.policy.section(name) == Treatment::Record;
            if is_recorded && !self.is_left_alone((section, offset)) {
                plan.record.push((section, offset));
            } else if at < of_table {
                let excluded = plan.excluded.entry(section);
                excluded.or_insert_with(|| self.excluded(section, 0)).dropped += 1;
            }
        }
        if !plan.record.is_sorted() {
            plan.record.sort_unstable();
        }
        plan.record.dedup();
        Ok(())
    }

    /// Whether the existing table has exactly the entries `wanted`, in a shape that no linker can spoil.
    fn is_right(&self, wanted: &[(u32, u64)], parts: &[Part], existing: &[Entry]) -> Result<bool> {
        if wanted.is_empty() && existing.is_empty() {
            return Ok(true);
        }
        let mut places: Vec<_> = existing.iter().filter_map(|entry| entry.place).collect();
        places.sort_unstable();
        if existing.len() != places.len() || places != wanted {
            return Ok(false);
        }
        let linker = Linker::new(&self.target)?;
        let mut entries = existing.iter().peekable();
        for part in parts.iter().filter(|part| part.header.size != 0) {
            if self.how.writable && !part.is_writable()
                || linker.part_flaws(part).iter().any(|flaw| self.can_mend(flaw))
            {
                return Ok(false);
            }
            while let Some(entry) = entries.next_if(|entry| entry.slot.0 == part.index) {
                let is_firm = entry.is_plain
                    && (entry.relaxation_proof || !self.target.arch.relaxes)
                    && linker.entry_flaws(part, entry)?.is_empty();
                if !is_firm {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Whether a new table wouldn't have this flaw.
    fn can_mend(&self, flaw: &PartFlaw) -> bool {
        match flaw {
            PartFlaw::Misaligned(_) | PartFlaw::OtherForm => true,
            PartFlaw::Unordered => self.how.link_order,
        }
    }

    /// Makes a table for `places`, in the existing `parts` of the table and new ones.
    fn write_table(
        &self,
        edit: &mut Edit<'v, 'd>,
        parts: Vec<Part>,
        places: Vec<(u32, u64)>,
    ) -> Result<()> {
        let symbols = self.add_symbols(edit, &places)?;
        let all = Rc::new(References { places, symbols });
        let groups = self.target.groups()?;
        let RecordOptions { writable, link_order, .. } = self.how;
        let shape = Shape {
            name: &self.options.table_section,
            rela: carries_addends(&self.target),
            writable: *writable,
            link_order: *link_order,
        };
        let tables = tables(&all, &groups, *link_order);
        Writer { target: &self.target, edit, shape, groups: &groups }.write(parts, tables)
    }

    /// The symbols that the entries for `places` refer to. Adds those that are missing.
    fn add_symbols(&self, edit: &mut Edit<'_, 'd>, places: &[(u32, u64)]) -> Result<Anchors> {
        let Some(symbols) = &self.target.symbols else {
            let none = Anchors::Sections(BTreeMap::new());
            return if places.is_empty() { Ok(none) } else { Err(Error::new(no_symbols())) };
        };
        let mut new = Vec::new();
        let anchors = if self.target.arch.relaxes {
            for (index, (section, value)) in places.iter().enumerate() {
                let name = format!(".Lmcount_loc{index}").into_bytes();
                let (kind, section, value) = (elf::STT_NOTYPE.0, *section, *value);
                new.push(NewSymbol { kind, name, section, value });
            }
            Anchors::Own(symbols.first_global)
        } else {
            let mut bases: BTreeMap<u32, u32> = BTreeMap::new();
            let locals = symbols.iter().take(symbols.first_global as usize);
            for (index, symbol) in locals.filter(|(_, symbol)| symbol.is_section()) {
                if let (Some(section), 0) = (symbol.section, symbol.value) {
                    bases.entry(section).or_insert(index);
                }
            }
            for (section, _) in places.chunk_by(|a, b| a.0 == b.0).filter_map(<[_]>::first) {
                bases.entry(*section).or_insert_with(|| {
                    let (kind, section, value) = (elf::STT_SECTION.0, *section, 0);
                    let added = u32::try_from(new.len()).unwrap_or(u32::MAX);
                    new.push(NewSymbol { kind, name: Vec::new(), section, value });
                    added.saturating_add(symbols.first_global)
                });
            }
            Anchors::Sections(bases)
        };
        edit.add_symbols(symbols, &new)?;
        let greatest = match &anchors {
            Anchors::Own(first) => {
                let behind = u32::try_from(places.len()).unwrap_or(u32::MAX);
                behind.checked_sub(1).map_or(0, |last| first.saturating_add(last))
            }
            Anchors::Each(references) => {
                references.iter().map(|reference| reference.symbol).max().unwrap_or(0)
            }
            Anchors::Sections(bases) => {
                let used = places.iter().filter_map(|(section, _)| bases.get(section));
                used.copied().max().unwrap_or(0)
            }
        };
        if greatest > self.target.view.greatest_symbol() {
            let kind = ErrorKind::Unsupported("too many symbols");
            return Err(self.target.view.section_error(symbols.section, kind));
        }
        Ok(anchors)
    }
}

fn no_symbols() -> ErrorKind {
    ErrorKind::Unsupported("call sites without a symbol table to refer to them by")
}
