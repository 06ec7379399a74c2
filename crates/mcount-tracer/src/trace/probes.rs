//! Probes: hooks that are made in functions without one. The first instructions of such a function move elsewhere, and a jump takes the
//! place of five bytes.
//!
//! Which functions can have one, and what moves, is planned from the file (`mcount_hooks::probe`). Here is what these instructions
//! become: a *unit*, which begins with a gate, a jump to the function's stub. The stub calls what is behind the gate, as it calls the rest of
//! another function behind its hook. To switch the probe off while threads run, the gate becomes an instruction that does nothing,
//! by one byte; so nothing in the function itself has to change.
//!
//! Most units are in the agent, where unwind information serves them all by what they say of themselves (`routines/x86_64.s` in
//! `mcount-agent`). Instructions that refer to what's near them stay near their module; if that's too far from the agent, their units are
//! in room there, and unwinders know nothing of it.

use super::function_names::{Aliases, FunctionNames, aliases};
use super::marker::{self, HEAD, LOWERED, Marker, RED_ZONE};
use super::processor::{self, SITE, THUNK};
use super::scope::Scope;
use crate::words::counted;
use mcount_cpu::marker::NOTED;
use mcount_cpu::probe::{Relocated, Stub};
use mcount_hooks::code::Code;
use mcount_hooks::probe::{Function, Outline, Plan, Planner, Refusal, Row};
use std::io;
use std::ops::Range;
use std::path::Path;

/// Bytes of a unit in the agent.
const UNIT: usize = 256;
/// Bytes of it that are code, and bytes that say which row holds where.
const CODE: usize = 64;
/// Where its rows are, and bytes of each.
const ROWS: usize = 128;
const ROW: usize = 16;
/// Where in a row it's said that the frame pointer leads to the CFA, and where registers are saved.
const ROW_BASE: usize = 4;
const ROW_SAVED: usize = 6;
/// The numbers of registers in unwind information (x86-64 psABI, figure 3.36): those that a row has, the frame pointer and the stack pointer.
const SAVED: [u16; 6] = [3, 6, 12, 13, 14, 15];
const FRAME_POINTER: u16 = 6;
const STACK_POINTER: u16 = 7;

/// Bytes that a probe needs near its module, if the agent is too far away.
pub(super) fn near() -> u64 {
    let stub = processor::PROBES.and_then(|probes| probes.stub);
    stub.map_or(THUNK + CODE, |stub| stub.size) as u64
}

/// The moved instructions are in the stubs.
pub(super) fn are_in_stubs() -> bool {
    processor::PROBES.is_some_and(|probes| probes.stub.is_some())
}

/// What is known of a probe from its file.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    /// Where the jump goes, before the load bias.
    entry: u64,
    /// The instructions that move.
    moved: Vec<u8>,
    /// The instruction before them, if that signs the return address.
    before: Option<[u8; 4]>,
    rows: Vec<Row>,
    /// What it's for, if that isn't a function.
    marker: Option<Marker>,
}

impl Probe {
    /// The probe that is planned in a file with this code.
    ///
    /// # Errors
    ///
    /// The code isn't there.
    pub(super) fn of(plan: Plan, code: &Code<'_>) -> Result<Self, String> {
        let Plan { entry, moved, is_signed, rows, .. } = plan;
        let moved = code.at(entry).get(..moved).ok_or("its code isn't in the file")?;
        let before = entry.checked_sub(4).filter(|_| is_signed);
        let before = before.and_then(|at| code.at(at).first_chunk().copied());
        if is_signed && before.is_none() {
            return Err("its code isn't in the file".to_owned());
        }
        Ok(Self { entry, moved: moved.to_vec(), before, rows, marker: None })
    }

    /// The same of a marker.
    pub(super) fn with_marker(mut self, marker: Marker) -> Self {
        self.marker = Some(marker);
        self
    }

    pub(super) fn marker(&self) -> Option<&Marker> {
        self.marker.as_ref()
    }

    /// The bytes that it takes away from its function, before the load bias.
    pub(super) fn range(&self) -> Range<u64> {
        self.entry..self.entry + self.moved.len().max(SITE) as u64
    }

    /// Where its jump goes, before the load bias.
    pub(super) fn entry(&self) -> u64 {
        self.entry
    }

    /// Its stub at `at`, which calls the routine, of the function with the number, in a module at load bias `bias`.
    pub(super) fn stub(
        &self,
        at: u64,
        (routine, number): (u64, u32),
        bias: u64,
    ) -> Option<Vec<u8>> {
        let make = processor::PROBES?.stub?.make;
        let from = bias.wrapping_add(self.entry);
        let Self { moved, before, .. } = self;
        make(Stub { at, routine, number, moved, from, before: *before })
    }

    /// The instructions for execution at `to`, and a jump back.
    fn copy(&self, bias: u64, to: u64) -> Option<Relocated> {
        let from = bias.wrapping_add(self.entry);
        self.relocated(from, to).or_else(|| self.copy_anywhere(from))
    }

    /// The instructions, which are at `from`, for execution at `to`, and a jump back.
    fn relocated(&self, from: u64, to: u64) -> Option<Relocated> {
        processor::PROBES.and_then(|probes| (probes.relocate)(&self.moved, from, to).ok())
    }

    /// The same for anywhere, if no instruction depends on where it is.
    fn copy_anywhere(&self, from: u64) -> Option<Relocated> {
        /// Any distance that all that is referred to is in reach of.
        const SHIFT: u64 = 1 << 16;
        let mut copy = self.relocated(from, from.wrapping_add(SHIFT))?;
        if !copy.code.starts_with(&self.moved) {
            return None;
        }
        let end = self.moved.len();
        if copy.code.len() > end {
            copy.code.truncate(end);
            copy.code.extend(processor::thunk(from.wrapping_add(end as u64)));
        }
        Some(copy)
    }
}

/// The first instructions of a function, at their new place.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    /// Where it is, and so its gate, or the switch of a marker.
    pub(super) at: u64,
    /// Bytes before its code in the agent.
    head: usize,
    /// Where its function begins.
    pub(super) body: u64,
    code: Vec<u8>,
    /// Bytes of the instructions that have moved, as they were.
    moved: usize,
    /// Where each instruction was, from the entry on, and where it is, from `body` on.
    places: Vec<(usize, usize)>,
    index: [u8; CODE],
    rows: Vec<[u8; ROW]>,
}

impl Unit {
    /// The unit at `at` of a probe in a module at load bias `bias`. `None` if something is out of reach, or there's no room.
    pub(super) fn new(probe: &Probe, bias: u64, at: u64) -> Option<Self> {
        let head = if probe.marker.is_some() { HEAD } else { SITE };
        let body = at.wrapping_add(head as u64);
        let copy = probe.copy(bias, body)?;
        if head + copy.code.len() > CODE {
            return None;
        }
        let mut unit = Self {
            at,
            head,
            body,
            moved: probe.moved.len(),
            index: [0; CODE],
            rows: Vec::new(),
            places: copy.places.clone(),
            code: copy.code.clone(),
        };
        unit.describe(probe, &copy)?;
        if probe.marker.is_some() {
            unit.describe_head(probe)?;
        }
        Some(unit)
    }

    /// The unit of a marker at `at`, whose instructions are at `body`, out of its reach; and these.
    pub(super) fn apart(probe: &Probe, bias: u64, at: u64, body: u64) -> Option<(Self, Vec<u8>)> {
        let copy = probe.copy(bias, body).filter(|copy| copy.code.len() <= CODE)?;
        let code = marker::far(body).to_vec();
        let (index, rows) = ([0; CODE], Vec::new());
        let mut unit = Self {
            at,
            head: HEAD,
            body,
            moved: probe.moved.len(),
            index,
            rows,
            places: copy.places,
            code,
        };
        unit.add_row((0, THUNK), row_at(&probe.rows, 0, 0)?)?;
        unit.describe_head(probe)?;
        Some((unit, copy.code))
    }

    /// Notes that the stack pointer is lower before the code of a marker.
    fn describe_head(&mut self, probe: &Probe) -> Option<()> {
        let number = self.row_number(row_at(&probe.rows, 0, RED_ZONE)?)?;
        self.index.get_mut(LOWERED)?.fill(number);
        (ROWS + ROW * self.rows.len() <= usize::try_from(NOTED).ok()?).then_some(())
    }

    /// Notes which row holds at each instruction. `None` if there's one that can't be noted.
    fn describe(&mut self, probe: &Probe, copy: &Relocated) -> Option<()> {
        let mut ends = copy.places.iter().skip(1).map(|(_, new)| *new);
        for (was, new) in &copy.places {
            let end = ends.next().unwrap_or(copy.code.len());
            self.add_row((*new, end), row_at(&probe.rows, *was, 0)?)?;
        }
        let moved = probe.moved.len();
        if copy.lowered.is_none() && moved >= SITE {
            // What's behind the last one is the jump back, unless that one never goes on.
            let last = copy.places.last().map_or((0, 0), |last| *last);
            let start = last.1 + (moved - last.0);
            self.add_row(
                (start.min(copy.code.len()), copy.code.len()),
                row_at(&probe.rows, moved, 0)?,
            )?;
        }
        if let Some(lowered) = &copy.lowered {
            let last = copy.places.last().map_or(0, |(was, _)| *was);
            let row = row_at(&probe.rows, last, lowered.bytes)?;
            self.add_row((lowered.code.start, lowered.code.end), row)?;
        }
        Some(())
    }

    /// Has a row hold for a range of the code.
    fn add_row(&mut self, (start, end): (usize, usize), row: [u8; ROW]) -> Option<()> {
        // The gate is as the first instruction.
        let start = if start == 0 { 0 } else { self.head + start };
        let number = self.row_number(row)?;
        self.index.get_mut(start..self.head + end)?.fill(number);
        Some(())
    }

    /// The number by which its code says that this row holds.
    fn row_number(&mut self, row: [u8; ROW]) -> Option<u8> {
        let number = self.rows.iter().position(|one| *one == row).unwrap_or(self.rows.len());
        if number == self.rows.len() {
            self.rows.push(row);
        }
        if ROWS + ROW * self.rows.len() > UNIT {
            return None;
        }
        u8::try_from(number * ROW).ok()
    }

    /// Its bytes in the agent, where its stub is at `stub`.
    pub(super) fn described(&self, stub: u64) -> Option<Vec<u8>> {
        let mut bytes = self.plain(stub)?;
        bytes.resize(CODE, TRAP);
        bytes.extend(self.index);
        bytes.extend(self.rows.iter().flatten());
        bytes.resize(UNIT, 0);
        Some(bytes)
    }

    /// Its bytes in the agent if it's of the marker with number `id` at `site`, for which `routine` is called.
    pub(super) fn marking(&self, (id, site): (u32, u64), routine: u64) -> Option<Vec<u8>> {
        let mut bytes = marker::head(self.at, routine)?;
        bytes.extend(&self.code);
        bytes.resize(CODE, TRAP);
        bytes.extend(self.index);
        bytes.extend(self.rows.iter().flatten());
        bytes.resize(usize::try_from(NOTED).ok()?, 0);
        bytes.extend(site.to_le_bytes());
        bytes.extend(u64::from(id).to_le_bytes());
        Some(bytes)
    }

    /// Where it's switched while threads run, if it's that of a marker; what is there when it's on, and when it's off.
    pub(super) fn marker_switch(&self) -> Option<(u64, [u8; 1], [u8; 1])> {
        (self.head == HEAD).then(|| marker::switch(self.at))
    }

    /// Its bytes elsewhere: the gate, which leads to `way`, and the code.
    pub(super) fn plain(&self, way: u64) -> Option<Vec<u8>> {
        let mut bytes = processor::armed(self.at, way)?.to_vec();
        bytes.extend(&self.code);
        bytes.resize(bytes.len().next_multiple_of(THUNK), TRAP);
        Some(bytes)
    }

    /// Bytes of the instructions that have moved, as they were.
    pub(super) fn moved(&self) -> usize {
        self.moved
    }

    /// Where a thread goes on that was about to execute the instruction `offset` bytes behind the entry.
    pub(super) fn place_of(&self, offset: usize) -> Option<u64> {
        let place = self.places.iter().find(|(was, _)| *was == offset);
        place.map(|(_, new)| self.body + *new as u64)
    }
}

/// What is behind code.
pub(super) const TRAP: u8 = 0xcc;

/// The row that holds so many bytes behind the entry, with the CFA `more` bytes farther from the stack pointer.
fn row_at(rows: &[Row], offset: usize, more: i64) -> Option<[u8; ROW]> {
    let after = rows.partition_point(|row| row.offset <= offset);
    // Without unwind information, it's as at any entry.
    let at_entry = Row { offset: 0, cfa: (STACK_POINTER, 8), saved: Vec::new(), is_signed: false };
    let row = after.checked_sub(1).and_then(|at| rows.get(at)).unwrap_or(&at_entry);
    let (register, distance) = row.cfa;
    let (is_frame_pointer, distance) = match register {
        STACK_POINTER => (false, distance + more),
        FRAME_POINTER => (true, distance),
        _ => return None,
    };
    let mut bytes = [0; ROW];
    let distance = i32::try_from(distance).ok()?.to_le_bytes();
    bytes.get_mut(..distance.len())?.copy_from_slice(&distance);
    *bytes.get_mut(ROW_BASE)? = u8::from(is_frame_pointer);
    for (register, offset) in &row.saved {
        if let Some(place) = SAVED.iter().position(|one| one == register) {
            *bytes.get_mut(ROW_SAVED + place)? = u8::try_from(offset / -8).ok()?;
        }
    }
    Some(bytes)
}

/// The gate of a probe whose site is at `site`, if it's armed; `read` reads memory.
pub(super) fn gate(site: u64, read: impl Fn(u64, &mut [u8]) -> io::Result<()>) -> Option<u64> {
    if are_in_stubs() {
        return Some(site);
    }
    let mut jump = [0; SITE];
    read(site, &mut jump).ok()?;
    let target = processor::target(site, &jump)?;
    let mut code = [0; THUNK];
    read(target, &mut code).ok()?;
    let far = code.get(6..14).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes)?;
    Some(if code == processor::thunk(far) { far } else { target })
}

/// A file whose functions may have probes.
pub(super) struct Subject<'m> {
    pub(super) bytes: &'m [u8],
    pub(super) code: &'m Code<'m>,
    pub(super) path: &'m Path,
    /// Functions that `mcount` watches, by their addresses.
    pub(super) confining: &'m [(u64, Vec<u8>)],
    /// It has an unwinder.
    pub(super) unwinds: bool,
}

/// A function that has a probe.
pub(super) struct Chosen {
    pub(super) start: u64,
    pub(super) size: u64,
    pub(super) name: String,
    /// All its names, if there are several.
    pub(super) aliases: Aliases,
    pub(super) probe: Probe,
}

/// A function that can't have a probe.
#[derive(Debug, Clone)]
pub(super) struct Refused {
    /// What people call it.
    pub(super) name: String,
    /// Why.
    pub(super) why: String,
    /// It's no function.
    pub(super) is_marker: bool,
}

/// The names of a function in the file that's called so: one by where it is, if there's no other.
fn names_of<'n>(function: &'n Function<'_>, own: &'n str) -> Vec<&'n str> {
    if function.names.is_empty() { vec![own] } else { function.names.clone() }
}

/// What decides which functions of a file can have probes, if there are any that are wanted, or `has_markers`.
pub(super) fn planner<'d>(
    bytes: &'d [u8],
    path: &str,
    scope: &Scope,
    has_markers: bool,
) -> Option<Planner<'d>> {
    if !has_markers && !scope.probe.iter().any(|pattern| pattern.has_module(path)) {
        return None;
    }
    let outline = Outline::new(bytes).ok()?;
    let file_name = path.rsplit('/').next().unwrap_or(path);
    let is_meant = |function: Function<'_>| {
        let own = function.name(file_name);
        scope.probes(&FunctionNames::new(names_of(&function, &own), path)).is_some()
    };
    (has_markers || outline.functions().any(is_meant)).then(|| outline.planner())
}

/// The functions that are wanted and have no hook: those that have probes, and those that can't.
pub(super) fn choose(
    of: &Subject<'_>,
    planner: &Planner<'_>,
    scope: &Scope,
) -> (Vec<Chosen>, Vec<Refused>) {
    let path = of.path.to_string_lossy().into_owned();
    let file_name = path.rsplit('/').next().unwrap_or(&path);
    let mut wanted = Vec::new();
    for function in planner.functions() {
        let own = function.name(file_name);
        let names = FunctionNames::new(names_of(&function, &own), &path);
        let Some(name) = scope.probes(&names) else { continue };
        let size = function.range.end - function.range.start;
        if scope.has_size(size) && !scope.leaves_out(&names) {
            let readable = crate::names::name_of(name, true).into_owned();
            let name = name.to_owned();
            wanted.push((function, name, readable));
        }
    }
    let functions: Vec<&Function<'_>> = wanted.iter().map(|(function, ..)| function).collect();
    let plans = planner.plan_all(&functions);
    let (mut chosen, mut refused) = (Vec::new(), Vec::new());
    for ((function, name, readable), plan) in wanted.iter().zip(plans) {
        let plan = match (why_not(of, function), plan) {
            (Some(why), _) => Err(why.to_owned()),
            (None, Err(why)) if is_no_function(why) => continue,
            (None, found) => found.map_err(|why| why.to_string()),
        };
        let (start, size) = (function.range.start, function.range.end - function.range.start);
        match plan.and_then(|plan| Probe::of(plan, of.code)) {
            Ok(probe) => {
                let (name, aliases) = (name.clone(), aliases(&function.names));
                chosen.push(Chosen { start, size, name, aliases, probe });
            }
            Err(why) => {
                let name = format!("{readable}@{file_name}");
                refused.push(Refused { name, why, is_marker: false });
            }
        }
    }
    (chosen, refused)
}

/// Why this function has no probe, whatever its code is.
fn why_not(of: &Subject<'_>, function: &Function<'_>) -> Option<&'static str> {
    let is_watched = |(address, _): &(u64, Vec<u8>)| *address == function.range.start;
    let is_its = |name: &&str| name.starts_with("uw_") || name.starts_with("_Unwind");
    if of.confining.iter().any(is_watched) {
        Some(WATCHED)
    } else if of.unwinds && (function.names.is_empty() || function.names.iter().any(is_its)) {
        Some("it may belong to the unwinder")
    } else {
        None
    }
}

/// Why a function has no probe that has a jump of the recorder already.
const WATCHED: &str = "mcount watches it, as programs forbid themselves system calls by it";

/// Is this something that people wouldn't call a function?
fn is_no_function(why: Refusal) -> bool {
    matches!(
        why,
        Refusal::DynamicLinker
            | Refusal::Vdso
            | Refusal::HasHook
            | Refusal::Linkage
            | Refusal::Part
    )
}

/// What is said of functions and markers that can't have a probe.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// How many they are.
    pub(super) counts: Vec<String>,
    /// The first of them, if no function has a probe.
    pub(super) nearest: Option<String>,
    /// All of them, if that's asked for.
    pub(super) lines: Vec<String>,
}

impl Refusals {
    /// What is said of these, next to which so many functions, and markers, have probes; `is_list`: of each one.
    pub(super) fn of(all: &[&Refused], [functions, markers]: [usize; 2], is_list: bool) -> Self {
        let line = |one: &Refused| format!("{} cannot be probed: {}", one.name, one.why);
        let kinds = [
            (false, functions, ["function", "functions"], "--probe"),
            (true, markers, ["marker", "markers"], "--mark"),
        ];
        let count = |(is_marker, probes, [one, more], option): (bool, usize, [&str; 2], &str)| {
            let some = all.iter().filter(|one| one.is_marker == is_marker).count();
            let of = counted(probes + some, one, more);
            (some != 0).then(|| {
                format!("{some} of {of} cannot be probed; mcount trace --list {option} … says why")
            })
        };
        let first = all.first().filter(|_| functions + markers == 0);
        Self {
            counts: kinds.into_iter().filter_map(count).collect(),
            nearest: first.map(|first| line(first)),
            lines: all.iter().filter(|_| is_list).map(|one| line(one)).collect(),
        }
    }
}
