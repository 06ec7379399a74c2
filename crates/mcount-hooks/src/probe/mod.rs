//! Probes: hooks for functions that no compiler gave one. The first instructions of a function move into a stub, and a jump takes
//! their place.
//!
//! This module only plans. It reads a file and decides which bytes of which function can move. Moving is allowed if nothing but the function's
//! first byte leads to them: no branch of the module, no pointer, no jump table, no exception handler, no frame that returns. Without a
//! proof, the planner refuses the function and gives the reason ([`Refusal`]).
//!
//! Code that makes stubs must keep these rules:
//!
//! - Compilers know which registers a function of the same file leaves alone (gcc's `-fipa-ra`), and assembly calls as it likes. So a stub
//!   preserves all registers, flags and the bytes below the stack pointer, at the entry and at the exit.
//! - No thread may be inside the moved bytes when they're replaced. [`Relocated::places`] says where it goes on.
//! - While a stub runs, unwinders need rows for it: [`Plan::rows`], at the places that [`Relocated::places`] says.
//! - If [`Plan::is_signed`], the stub authenticates the return address first, and signs it again before the moved instructions.
//!
//! What processors differ in is in `mcount-cpu`: [`Probes`].
//!
//! [`Relocated::places`]: mcount_cpu::probe::Relocated::places

mod image;
mod marker;
mod reading;
mod refusal;
mod tables;
mod units;
mod unwind;

pub use self::marker::MARKER_MOST;
pub use self::refusal::Refusal;
pub use self::unwind::Row;

use self::image::{Image, Role, Symbol};
use self::tables::{Tables, Words};
use self::units::{Unit, units};
use self::unwind::{Context, Frame, Unwind};
use crate::parallel::{part_size, side_by_side};
use mcount_cpu::probe::{Kind, Probes, References, Returns};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

/// The plan of a probe. Addresses are those of the file (`p_vaddr`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The first byte that the jump replaces: behind a landing pad of indirect branches (`endbr64`, `bti c`, `paciasp`).
    pub entry: u64,
    /// Bytes that move: whole instructions. If that's less than [`Plan::replaced`], execution never reaches their end.
    pub moved: usize,
    /// Bytes that are replaced: the jump's, or those that move, if these are more. What moves and isn't replaced by the jump is never
    /// executed any more. Behind what moves there can be padding, which is replaced and needn't move.
    pub replaced: usize,
    /// The whole function.
    pub function: Range<u64>,
    /// The instruction before the entry has signed the return address (`paciasp`, `pacibsp`).
    pub is_signed: bool,
    /// The rows of unwind information of the bytes that move and of the jump behind them: the one that holds at the first byte, and
    /// those that begin later. None if the function has no unwind information.
    pub rows: Vec<Row>,
}

/// A function of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function<'d> {
    /// Where it is. Empty if nothing tells where it ends.
    pub range: Range<u64>,
    /// The names of symbols there. None if it's only known from unwind information.
    pub names: Vec<&'d str>,
}

impl<'d> Function<'d> {
    /// Its first name, or where it is in the file that is called `module`: `libfoo.so+0x1234`.
    #[must_use]
    pub fn name(&self, module: &str) -> Cow<'d, str> {
        match self.names.first() {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(format!("{module}+{:#x}", self.range.start)),
        }
    }
}

/// Why a file can't be planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotPlannable;

impl std::fmt::Display for NotPlannable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("probes need an executable or a shared library for x86-64 or AArch64")
    }
}

impl std::error::Error for NotPlannable {}

/// Decides which functions of a file can have probes.
#[derive(Debug)]
pub struct Planner<'d> {
    processor: &'static Probes,
    image: Image<'d>,
    unwind: Unwind<'d>,
    units: Vec<Unit>,
    references: References,
    /// Where jumps to parts of functions are, and where these parts start; by the first.
    parts: Vec<(u64, u64)>,
    words: Words,
    /// Where jump tables may be that count in instructions.
    tables: Tables,
    /// Indices of symbols, by address.
    symbols: Vec<Symbol<'d>>,
    /// Where compilers left hooks, ascending.
    hooks: BTreeSet<u64>,
    resolvers: BTreeSet<u64>,
}

/// The functions of a file. It isn't known yet which of them can have probes: for that, all code is decoded.
#[derive(Debug)]
pub struct Outline<'d>(Planner<'d>);

impl<'d> Outline<'d> {
    /// Reads the file `bytes`.
    ///
    /// # Errors
    ///
    /// It isn't an executable or a shared library for a processor that can have probes.
    pub fn new(bytes: &'d [u8]) -> Result<Self, NotPlannable> {
        let image = Image::read(bytes).ok_or(NotPlannable)?;
        let processor = image.processor;
        let unwind = Unwind::read(&image);
        let mut symbols = image.symbols.clone();
        symbols.sort_by_key(|symbol| symbol.address);
        let units = units(&image, &unwind, &symbols);
        let starts = units.iter().map(|unit| unit.start).chain(image.markers.iter().copied());
        let references = References::new(&image.code, starts);
        let mut resolvers: BTreeSet<u64> = image.resolvers.iter().copied().collect();
        resolvers.extend(symbols.iter().filter(|one| one.is_resolver).map(|one| one.address));
        Ok(Self(Planner {
            processor,
            image,
            unwind,
            units,
            references,
            parts: Vec::new(),
            words: Words::default(),
            tables: Tables::default(),
            symbols,
            hooks: BTreeSet::new(),
            resolvers,
        }))
    }

    /// All functions, by address.
    pub fn functions(&self) -> impl Iterator<Item = Function<'d>> {
        self.0.functions()
    }

    /// What decides which of them can have probes. Takes about as long as decoding all of the file's code.
    #[must_use]
    pub fn planner(self) -> Planner<'d> {
        let Self(mut planner) = self;
        planner.words = Words::of(&planner.image);
        planner.read_code();
        planner.read_data();
        planner.references.finish();
        if planner.processor.has_scaled_tables {
            planner.tables = Tables::of(&planner.references);
        }
        planner.parts = planner.find_parts();
        planner
    }
}

impl<'d> Planner<'d> {
    /// Reads the file `bytes`. Takes about as long as decoding all of its code.
    ///
    /// # Errors
    ///
    /// It isn't an executable or a shared library for a processor that can have probes.
    pub fn new(bytes: &'d [u8]) -> Result<Self, NotPlannable> {
        Outline::new(bytes).map(Outline::planner)
    }

    /// The processor that the file is for.
    #[must_use]
    pub fn processor(&self) -> &'static Probes {
        self.processor
    }

    /// Says where compilers left hooks: functions that have one are refused.
    pub fn leave_hooks(&mut self, addresses: impl IntoIterator<Item = u64>) {
        self.hooks.extend(addresses);
    }

    /// All functions, by address.
    pub fn functions(&self) -> impl Iterator<Item = Function<'d>> {
        self.units
            .iter()
            .map(|unit| Function { range: unit.start..unit.bound, names: self.names(unit.start) })
    }

    /// The function that starts at `address`.
    #[must_use]
    pub fn function(&self, address: u64) -> Option<Function<'d>> {
        let unit = self.unit(address)?;
        let range = unit.start..unit.bound;
        Some(Function { range, names: self.names(address) })
    }

    /// All functions, and what a probe of each needs or why there can be none.
    pub fn plans(&self) -> impl Iterator<Item = (Function<'d>, Result<Plan, Refusal>)> {
        self.functions().map(|function| {
            let plan = self.plan(&function);
            (function, plan)
        })
    }

    /// Whether each of these can have a probe, as [`Planner::plan`] says.
    #[must_use]
    pub fn plan_all(&self, functions: &[&Function<'_>]) -> Vec<Result<Plan, Refusal>> {
        let parts = functions.chunks(part_size(functions.len())).collect();
        let plan = |part: &[&Function<'_>]| -> Vec<_> {
            let mut context = Context::new_in();
            part.iter().map(|function| self.plan_in(function, &mut context)).collect()
        };
        side_by_side(parts, plan).into_iter().flatten().collect()
    }

    /// Whether `function` can have a probe.
    ///
    /// # Errors
    ///
    /// It can't, for this reason.
    pub fn plan(&self, function: &Function<'_>) -> Result<Plan, Refusal> {
        self.plan_in(function, &mut Context::new_in())
    }

    fn plan_in(&self, function: &Function<'_>, context: &mut Context) -> Result<Plan, Refusal> {
        let range = &function.range;
        self.is_meant(function)?;
        if range.is_empty() {
            return Err(Refusal::NoBounds);
        }
        self.decodes(range)?;
        if let Some(at) = self.uses_return(range) {
            return Err(Refusal::UsesReturnAddress(at));
        }
        let frame = self.unwind.frame_at(range.start);
        if let Some(frame) = frame {
            self.begins_frame(frame, range, context)?;
        }
        let size = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let code = self.image.code_at(range.start);
        let code = code.get(..size).ok_or(Refusal::NotDecoded(range.end))?;
        let found = (self.processor.entry)(code, range.start);
        let (entry, is_signed) = (found.at, found.is_signed);
        let head = usize::try_from(entry - range.start).unwrap_or(0);
        let (moved, replaced) =
            self.beginning(code.get(head..).unwrap_or_default(), entry, range)?;
        let end = entry.saturating_add(replaced as u64);
        let owners = self.owners(range);
        // Of what jumps to the entry itself, the return address isn't signed.
        self.is_alone(&owners, if is_signed { range.start } else { entry }..end)?;
        self.is_no_loop(range, &(entry..end))?;
        if self.processor.has_scaled_tables
            && let Some(at) = self.has_table_to(&owners, &(range.start..end))
        {
            return Err(Refusal::Table(at));
        }
        let rows = match frame {
            Some(frame) => self.rows(frame, (entry, moved), context)?,
            None => Vec::new(),
        };
        Ok(Plan { entry, moved, replaced, function: range.clone(), is_signed, rows })
    }
}

/// Planning one function.
impl<'d> Planner<'d> {
    /// How many bytes at `entry` have to move, and how many a jump there replaces. The function has this `code` from there on.
    fn beginning(
        &self,
        code: &[u8],
        entry: u64,
        function: &Range<u64>,
    ) -> Result<(usize, usize), Refusal> {
        let found = (self.processor.beginning)(code, entry)?;
        let (moved, jump) = (found.moved, self.processor.jump);
        let replaced = moved.max(jump);
        if moved < jump && (found.goes_on || !self.has_padding(function.end, replaced - moved)) {
            return Err(Refusal::TooShort);
        }
        Ok((moved, replaced))
    }

    /// Refuses functions for what they are.
    fn is_meant(&self, function: &Function<'_>) -> Result<(), Refusal> {
        let range = &function.range;
        match self.image.role {
            Role::Ordinary => {}
            Role::DynamicLinker => return Err(Refusal::DynamicLinker),
            Role::Vdso => return Err(Refusal::Vdso),
            Role::WalksStack => return Err(Refusal::WalksStack),
        }
        if self.unwind.is_damaged {
            return Err(Refusal::Unwind);
        }
        if range.start == self.image.entry {
            return Err(Refusal::NoReturnAddress);
        }
        if self.is_linkage(range.start) {
            return Err(Refusal::Linkage);
        }
        if self.resolvers.contains(&range.start) {
            return Err(Refusal::Resolver);
        }
        if self.hooks.range(range.clone()).next().is_some() {
            return Err(Refusal::HasHook);
        }
        let is_left_out =
            |name: &&str| crate::code::returns_twice(name) || crate::code::is_left_out(name);
        if function.names.iter().any(is_left_out) {
            return Err(Refusal::LeftOut);
        }
        if self.is_part(function) { Err(Refusal::Part) } else { Ok(()) }
    }

    /// Whether an entry of a procedure linkage table is at `address`: by its section, or because it jumps by a word for calls.
    fn is_linkage(&self, address: u64) -> bool {
        let entry = (self.processor.entry)(self.image.code_at(address), address).at;
        let slot = (self.processor.jumps_by)(self.image.code_at(entry), entry);
        self.image.linkage.iter().any(|linkage| linkage.contains(&address))
            || slot.is_some_and(|slot| self.image.slots.binary_search(&slot).is_ok())
    }

    /// Whether it's the unlikely part of a function: by its name, or because the only way there is to jump.
    fn is_part(&self, function: &Function<'_>) -> bool {
        let start = function.range.start;
        if !function.names.is_empty() {
            return function.names.iter().any(|name| mcount::is_cold_part(name));
        }
        let leads = self.references.between(start..start.saturating_add(1));
        let is_called = |kind: Kind| matches!(kind, Kind::Call | Kind::Pointer | Kind::Address);
        leads.iter().any(|one| matches!(one.kind, Kind::Jump | Kind::Table))
            && !leads.iter().any(|one| is_called(one.kind))
    }

    /// The pieces that begin in a range.
    fn units_in(&self, range: &Range<u64>) -> impl Iterator<Item = &Unit> {
        let first = self.units.partition_point(|unit| unit.start < range.start);
        let units = self.units.get(first..).unwrap_or_default();
        let end = range.end;
        units.iter().take_while(move |unit| unit.start < end)
    }

    /// An instruction of the function that uses the return address in another way than to return.
    fn uses_return(&self, range: &Range<u64>) -> Option<u64> {
        self.units_in(range).find_map(|unit| unit.found.uses_return)
    }

    /// All of the function is code that's decoded.
    fn decodes(&self, range: &Range<u64>) -> Result<(), Refusal> {
        let mut end = range.start;
        for unit in self.units_in(range) {
            if unit.start != end {
                return Err(Refusal::NotDecoded(end));
            }
            if let Some(at) = unit.found.undecoded {
                return Err(Refusal::NotDecoded(at));
            }
            end = unit.end;
        }
        let literals = &self.image.literals;
        let first = literals.partition_point(|literal| literal.end <= range.start);
        if let Some(literal) = literals.get(first).filter(|literal| literal.start < range.end) {
            return Err(Refusal::NotDecoded(literal.start.max(range.start)));
        }
        if end < range.end { Err(Refusal::NotDecoded(end)) } else { Ok(()) }
    }

    /// By its unwind information, it has just been called when it's entered.
    fn begins_frame(
        &self,
        frame: &Frame,
        range: &Range<u64>,
        context: &mut Context,
    ) -> Result<(), Refusal> {
        if frame.is_signal {
            return Err(Refusal::SignalReturn);
        }
        let rules = self.unwind.rules(frame, context).ok_or(Refusal::Unwind)?;
        let holds = rules.iter().find(|rules| (rules.start..rules.end).contains(&range.start));
        let holds = holds.ok_or(Refusal::Unwind)?;
        let calls = self.processor.calls;
        let is_called =
            holds.cfa == Some((calls.stack_pointer, calls.cfa)) && holds.returns == calls.returns;
        match holds.returns {
            Returns::Nowhere => Err(Refusal::NoReturnAddress),
            _ if is_called => Ok(()),
            _ => Err(Refusal::NotAtEntry),
        }
    }

    /// Whether the `length` bytes after a function are padding, and no other function's.
    fn has_padding(&self, end: u64, length: usize) -> bool {
        let last = end.saturating_add(length as u64);
        let next = self.units.partition_point(|unit| unit.start < end);
        let before = next.checked_sub(1).and_then(|before| self.units.get(before));
        let is_free = self.units.get(next).is_none_or(|unit| unit.start >= last)
            && before.is_none_or(|unit| unit.end <= end);
        is_free && (self.processor.is_padding)(self.image.code_at(end), length)
    }

    /// Nothing leads to the `replaced` bytes but to the first of them; `owners` are the pieces of the function whose they are.
    fn is_alone(&self, owners: &[Range<u64>], replaced: Range<u64>) -> Result<(), Refusal> {
        let inside = replaced.start.saturating_add(1)..replaced.end;
        if let Some(first) = self.references.between(inside.clone()).first() {
            let (at, source) = (first.target, first.source);
            return Err(match first.kind {
                Kind::Call | Kind::Jump => Refusal::Branch(source),
                Kind::Pointer => Refusal::Pointer(source),
                Kind::Table => Refusal::Table(source),
                Kind::Address => Refusal::Address(source),
                Kind::LandingPad => Refusal::LandingPad(at),
                Kind::CallSite => Refusal::CallSite(at),
                Kind::Label => Refusal::Label(at),
            });
        }
        let relocated =
            self.image.relocated.partition_point(|at| *at < replaced.start.saturating_sub(7));
        if let Some(at) = self.image.relocated.get(relocated).filter(|at| **at < replaced.end) {
            return Err(Refusal::Relocated(*at));
        }
        self.is_in_no_table(owners, &inside).map_or(Ok(()), |at| Err(Refusal::Table(at)))
    }

    /// A word that leads to the bytes `inside`, relative to an address that one of `owners` takes, if any of these jumps by a register.
    fn is_in_no_table(&self, owners: &[Range<u64>], inside: &Range<u64>) -> Option<u64> {
        if !owners.iter().any(|owner| self.jumps_by_table(owner)) {
            return None;
        }
        let bases = owners.iter().map(|owner| self.references.bases_of(owner));
        let mut found = bases.filter_map(|bases| self.words.lead_to(bases, inside));
        found.next()
    }

    /// A jump table of one of `owners` that leads into `range`: to a function's beginning, so that each round would count as a call.
    fn has_table_to(&self, owners: &[Range<u64>], range: &Range<u64>) -> Option<u64> {
        let mut jumping = owners.iter().filter(|owner| self.jumps_by_table(owner));
        jumping.find_map(|owner| {
            let bases = self.references.bases_of(owner);
            self.tables.lead_to(&self.image, bases, owners, range)
        })
    }

    /// Nothing in the function jumps back to its beginning: each round would count as a call.
    fn is_no_loop(&self, range: &Range<u64>, replaced: &Range<u64>) -> Result<(), Refusal> {
        let leads = self.references.between(range.start..replaced.start.saturating_add(1));
        for one in leads {
            match one.kind {
                Kind::Jump if range.contains(&one.source) => return Err(Refusal::Loop(one.source)),
                Kind::LandingPad => return Err(Refusal::LandingPad(one.target)),
                Kind::Label if one.target > range.start => return Err(Refusal::Label(one.target)),
                _ => {}
            }
        }
        Ok(())
    }

    /// The function, and its parts elsewhere that it jumps to.
    fn owners(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let first = self.parts.partition_point(|(source, _)| *source < range.start);
        let parts = self.parts.get(first..).unwrap_or_default();
        let parts = parts.iter().take_while(|(source, _)| *source < range.end);
        let parts = parts.filter_map(|(_, part)| self.unit(*part));
        [range.clone()].into_iter().chain(parts.map(|unit| unit.start..unit.bound)).collect()
    }

    /// The parts of functions, by where these jump to them.
    fn find_parts(&self) -> Vec<(u64, u64)> {
        let mut parts = Vec::new();
        for unit in &self.units {
            let function =
                Function { range: unit.start..unit.bound, names: self.names(unit.start) };
            if self.is_part(&function) {
                let leads = self.references.between(unit.start..unit.start.saturating_add(1));
                let jumps = leads.iter().filter(|one| one.kind == Kind::Jump);
                parts.extend(jumps.map(|one| (one.source, unit.start)));
            }
        }
        parts.sort_unstable();
        parts
    }

    fn jumps_by_table(&self, range: &Range<u64>) -> bool {
        self.units_in(range).any(|unit| unit.found.jumps_by_register)
    }

    /// The rows of the bytes that move, if exceptions of these aren't caught and a stub can have such rows.
    fn rows(
        &self,
        frame: &Frame,
        (entry, moved): (u64, usize),
        context: &mut Context,
    ) -> Result<Vec<Row>, Refusal> {
        let end = entry.saturating_add(moved as u64);
        let sites = unwind::call_sites(&self.image, frame).ok_or(Refusal::Exceptions)?;
        let catches =
            |site: &unwind::CallSite| site.pad.is_some() && site.start < end && entry < site.end;
        if let Some(site) = sites.into_iter().find(catches) {
            return Err(Refusal::CallSite(site.start));
        }
        // The jump back follows them, and another row may begin there.
        self.unwind.rows(frame, (entry, end.saturating_add(1)), context).map_err(Refusal::Row)
    }

    fn unit(&self, start: u64) -> Option<&Unit> {
        let at = self.units.binary_search_by_key(&start, |unit| unit.start).ok()?;
        self.units.get(at)
    }

    /// The names of the functions at `address`.
    fn names(&self, address: u64) -> Vec<&'d str> {
        let first = self.symbols.partition_point(|symbol| symbol.address < address);
        let symbols = self.symbols.get(first..).unwrap_or_default();
        let here = symbols.iter().take_while(|symbol| symbol.address == address);
        let mut names: Vec<&str> = here
            .filter(|symbol| symbol.is_function && !symbol.name.is_empty())
            .map(|symbol| symbol.name)
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}
