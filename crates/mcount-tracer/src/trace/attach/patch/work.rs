//! Patching and reverting: the order in which everything is done.
//!
//! The process stops for a moment, in which the object is mapped. That changes nothing for the program. Then it's stopped
//! again and again until no thread is in what's to be replaced; at that moment, hooks lead to gates that lead back,
//! and the write of one page makes the gates lead to the new functions.

use super::super::block::{self, Block};
use super::super::maps::{self, Mapping};
use super::super::program::Program;
use super::super::survey::is_free;
use super::super::unwinders::{Unwinder as Told, outside};
use super::super::{sandbox, start_of};
use super::arch;
use super::fix::Fix;
use super::hook::{Hook, armed, ask_again, look, put_back, step_back};
use super::hub::{self, Entry, Hub, SLOTS, Table};
use super::plan::{Bound, Plan, Storage, relocated};
use super::region::{New, Region};
use super::sources::Sources;
use super::stacks::{self, Range};
use crate::trace::image::Image;
use crate::trace::scope::Scope;
use mcount_ptrace::resume::{self, ResumePoint};
use mcount_ptrace::{Memory, Remote, Standing, Target};
use std::io;
use std::time::{Duration, Instant};

/// How long it waits between two looks, at first and at most.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(100);

/// A process that's being patched.
pub(super) struct PatchAttempt {
    pub(super) process: i32,
    pub(super) memory: Memory,
    pub(super) program: Program,
    pub(super) stood: Duration,
    hub: Option<Hub>,
}

/// What came of trying.
pub(super) enum Tried {
    Done,
    /// This is in the way.
    Waiting(String),
}

/// Has who waits had enough?
pub(super) type Patience<'p> = &'p dyn Fn() -> bool;

impl PatchAttempt {
    /// Reads the program of `process`.
    pub(super) fn begin(process: i32) -> io::Result<Self> {
        let memory =
            Memory::open(process).map_err(|error| super::super::refused(process, error))?;
        let program = Program::read(process, &memory, &Scope::default())?;
        sandbox::check(process)?;
        Ok(Self { process, memory, program, stood: Duration::ZERO, hub: None })
    }

    fn hub(&self) -> io::Result<&Hub> {
        self.hub.as_ref().ok_or_else(|| io::Error::other("nothing was patched in it"))
    }

    fn let_go(&mut self, standing: Standing) {
        let since = standing.since;
        drop(standing);
        self.stood = self.stood.max(since.elapsed());
    }

    /// Maps `fix` into the process. Nothing leads there yet.
    pub(super) fn bring(&mut self, fix: &Fix, plan: &Plan) -> io::Result<Region> {
        let mut standing = Standing::of(self.process)?;
        let maps = maps::read(self.process)?;
        let found = Hub::find(&self.memory, &maps);
        self.check_free(found.as_ref(), &maps)?;
        let thread = standing.threads.first_mut().ok_or(io::ErrorKind::NotFound)?;
        let of = Target { process: self.process, memory: &self.memory };
        let mut remote = match &found {
            Some(hub) => Remote::rescued(thread, &self.memory, hub.rescue())?,
            None => Remote::first(thread, &self.memory, &maps)?,
        };
        let extent = plan.targets.first().map_or((0, 0), |one| one.extent);
        let mut hub = match found {
            Some(hub) => hub,
            None => Hub::inject(&mut remote, of, &maps, extent)?,
        };
        let mut table = hub.table(&self.memory)?;
        Hub::set_owner(&mut table, owner());
        hub.set_table(&self.memory, &table)?;
        remove_orphans(&mut remote, &self.memory, &maps, &table)?;
        for target in &plan.targets {
            let maps = maps::read(self.process)?;
            hub.room_for(&mut remote, of, &maps, target.extent)?;
        }
        let ways = plan.bounds.iter().filter_map(|bound| match bound {
            Bound::Way(function, extent) => Some((*function, *extent)),
            _ => None,
        });
        for (function, extent) in ways {
            let maps = maps::read(self.process)?;
            hub.room_for(&mut remote, of, &maps, extent)?;
            make_way(&hub, &self.memory, &mut table, function)?;
        }
        let region = Self::map(&mut remote, of, &hub, (&table, fix, plan))?;
        drop(remote);
        self.hub = Some(hub);
        self.let_go(standing);
        Ok(region)
    }

    fn map(
        remote: &mut Remote<'_>,
        target: Target<'_>,
        hub: &Hub,
        (table, fix, plan): (&Table, &Fix, &Plan),
    ) -> io::Result<Region> {
        let mut chosen = vec![0; fix.symbols.len()];
        let Target { process, memory } = target;
        let (asked, told) = arch::arguments_of_chooser(process, hub.asked());
        memory.write(hub.asked(), &told)?;
        for (room, bound) in chosen.iter_mut().zip(&plan.bounds) {
            *room = match bound {
                Bound::Chosen(function) => remote.function(*function, asked, hub.end())?,
                Bound::Way(function, _) => {
                    way(&entries(hub, memory, table), *function).map_or(0, |slot| table.slot(slot))
                }
                _ => 0,
            };
        }
        let functions = new_functions(hub, memory, table, fix, plan)?;
        let bias = Region::reserve(remote, fix)?;
        let moved = functions.into_iter().map(|one| New {
            slot: one.slot,
            start: bias + one.start,
            end: bias + one.end,
            cold: if one.cold == (0, 0) { (0, 0) } else { (bias + one.cold.0, bias + one.cold.1) },
        });
        let storage = Storage { function: hub.storage(), descriptor: hub.descriptor() };
        let image = relocated(fix, plan, (bias, storage), &chosen)?;
        Region::map(remote, target, hub, (fix, &image), (bias, moved.collect()))
    }

    /// Fails if another recorder is at work in this process.
    fn check_free(&self, hub: Option<&Hub>, maps: &[Mapping]) -> io::Result<()> {
        if maps.iter().any(block::is_ours) {
            match Block::find(&Image::new()?, &self.memory, maps) {
                Some(block) => is_free(&block, &self.memory, self.process)?,
                None => {
                    return Err(io::Error::other(
                        "it has the agent of another version of mcount, or a changed one; restart the process",
                    ));
                }
            }
        }
        let Some(hub) = hub else { return Ok(()) };
        let (other, start) = Hub::owner(&hub.table(&self.memory)?);
        let other = i32::try_from(other).unwrap_or(0);
        let is_other = other != 0 && owner().0 != u64::from(other.cast_unsigned());
        if is_other && start_of(other).is_some_and(|found| found == start) {
            return Err(io::Error::other(format!(
                "mcount patch (process {other}) is patching it already"
            )));
        }
        Ok(())
    }

    /// Tells unwinders where the unwind information of `region` is. `false` if one can't be told.
    pub(super) fn tell(&self, region: &Region) -> io::Result<bool> {
        let hub = self.hub()?;
        let mut all = true;
        for one in self.program.loaded.iter().filter(|_| region.frames != 0) {
            let Some(module) = self.program.module(one) else { continue };
            let (register, range) = match Told::of(one, module) {
                Told::None => continue,
                Told::Deaf => {
                    all = false;
                    continue;
                }
                Told::Told(register, range) => (one.bias.wrapping_add(register), range),
            };
            let Some((object, note)) = region.room_for(&self.memory, register)? else { continue };
            let range = (one.bias.wrapping_add(range.0), one.bias.wrapping_add(range.1));
            all &= outside(self.process, &self.memory, range, |standing| {
                let Some(thread) = standing.threads.first_mut() else { return Ok(()) };
                let mut remote = Remote::rescued(thread, &self.memory, hub.rescue())?;
                self.memory.write(note, &register.to_le_bytes())?;
                remote.function(register, [region.frames, object], hub.end()).map(|_| ())
            })?;
        }
        Ok(all && region.frames != 0)
    }

    /// Takes away what `bring` and `tell` did, if that can be done.
    pub(super) fn take_away(&self, region: &Region, plan: &Plan) -> io::Result<()> {
        let hub = self.hub()?;
        for register in region.told(&self.memory) {
            let is_its = |one: &&super::super::program::Loaded| {
                self.program.module(one).is_some_and(|module| {
                    matches!(Told::of(one, module), Told::Told(found, _) if one.bias.wrapping_add(found) == register)
                })
            };
            let place = self.program.loaded.iter().position(|one| is_its(&one));
            let untell = plan.untell.iter().find(|(module, _)| Some(*module) == place);
            let one = place.and_then(|place| self.program.loaded.get(place));
            let Some(((_, untell), one)) = untell.zip(one) else { return Ok(()) };
            let Some(module) = self.program.module(one) else { return Ok(()) };
            let range = one.extent(module);
            let done = outside(self.process, &self.memory, range, |standing| {
                let Some(thread) = standing.threads.first_mut() else { return Ok(()) };
                let mut remote = Remote::rescued(thread, &self.memory, hub.rescue())?;
                remote.function(*untell, [region.frames, 0], hub.end()).map(|_| ())
            })?;
            if !done {
                return Ok(());
            }
        }
        let mut standing = Standing::of(self.process)?;
        let thread = standing.threads.first_mut().ok_or(io::ErrorKind::NotFound)?;
        let mut remote = Remote::rescued(thread, &self.memory, hub.rescue())?;
        region.unmap(&mut remote)
    }

    /// Puts the functions of `region` in force as soon as no thread is in those that they replace.
    pub(super) fn put_in_force(
        &mut self,
        region: &Region,
        plan: &Plan,
        (wait, patience): (Duration, Patience<'_>),
    ) -> io::Result<Tried> {
        let deadline = Instant::now() + wait;
        let mut pause = SHORTEST;
        loop {
            match self.try_patch(region, plan)? {
                Tried::Waiting(_) if Instant::now() < deadline && patience() => sleep(&mut pause),
                tried => return Ok(tried),
            }
        }
    }

    fn try_patch(&mut self, region: &Region, plan: &Plan) -> io::Result<Tried> {
        let sources = Sources::of(self.process, &self.memory, self.hub()?)?;
        let unwinder = sources.unwinder(&self.program, &self.memory);
        let mut standing = Standing::of(self.process)?;
        let maps = maps::read(self.process)?;
        let hub = self.hub()?;
        let mut table = hub.table(&self.memory)?;
        self.check_free(Some(hub), &maps)?;
        let known = Known::of(hub, &self.memory, &table, &maps);
        let slots = self.slots(region, plan, &table)?;
        let mut ranges = Vec::new();
        for (target, slot) in plan.targets.iter().zip(&slots) {
            let current = table.slot(*slot);
            match known.current(*slot, current) {
                Some(region) => ranges.extend(region.ranges(*slot, &target.entry.name)),
                None => ranges.extend(target.ranges.iter().cloned()),
            }
        }
        let places = resume::places(&standing, unwinder.memory, &maps);
        if let Some(who) = stacks::in_the_way(&standing, &places, &unwinder, &maps, &ranges) {
            drop(unwinder);
            self.let_go(standing);
            return Ok(Tried::Waiting(who));
        }
        let number = table.next_patch().ok_or_else(|| {
            io::Error::other(format!(
                "it has {} patches already; restart the process",
                hub::PATCHES
            ))
        })?;
        self.lead_to_gates(&mut standing, &places, (plan, &slots), &mut table)?;
        for (slot, one) in slots.iter().zip(&region.functions) {
            table.set_slot(*slot, one.start);
        }
        table.set_patch(number, region.start, true);
        Hub::set_owner(&mut table, (0, 0));
        hub.set_table(&self.memory, &table)?;
        drop(unwinder);
        self.let_go(standing);
        Ok(Tried::Done)
    }

    /// The slots of all targets, which `region` was made for, if they still are what they were.
    fn slots(&self, region: &Region, plan: &Plan, table: &Table) -> io::Result<Vec<usize>> {
        let hub = self.hub()?;
        let maps = maps::read(self.process)?;
        let mut slots = Vec::new();
        for (target, one) in plan.targets.iter().zip(&region.functions) {
            let is_there =
                self.program.loaded.get(target.module).is_some_and(|one| one.is_in(&maps));
            let entry = hub.entry(&self.memory, one.slot).filter(|_| table.slot(one.slot) != 0);
            let is_its = entry.is_none_or(|entry| entry.function == target.entry.function);
            if !is_there || !is_its {
                return Err(io::Error::other(
                    "it loaded or unloaded a library meanwhile; try again",
                ));
            }
            slots.push(one.slot);
        }
        Ok(slots)
    }

    /// Has the hooks of all targets jump to their gates, which lead back to them as long as nothing else was patched. Should
    /// it be interrupted anywhere in here, the program does what it did.
    fn lead_to_gates(
        &self,
        standing: &mut Standing,
        places: &[Vec<ResumePoint>],
        (plan, slots): (&Plan, &[usize]),
        table: &mut Table,
    ) -> io::Result<()> {
        let hub = self.hub()?;
        let far = || io::Error::other("a gate is out of reach");
        let mut writes = Vec::new();
        ask_again(&self.memory, standing, places, hub)?;
        for (target, slot) in plan.targets.iter().zip(slots) {
            let known = hub.entry(&self.memory, *slot).filter(|_| table.slot(*slot) != 0);
            let entry = known.unwrap_or_else(|| target.entry.clone());
            let now = look(&self.memory, hub, &entry, *slot)?;
            if now == Hook::Foreign {
                let name = &entry.name;
                return Err(io::Error::other(format!(
                    "the hook of {name} isn't as in its file: a debugger or another tracer has it"
                )));
            }
            if table.slot(*slot) == 0 {
                hub.set_entry(&self.memory, *slot, &entry)?;
                let old = hub.make_way(&self.memory, *slot, &entry).ok_or_else(far)?;
                table.set_slot(*slot, old);
            }
            if now == Hook::Idle || now == Hook::Between {
                let gate = hub.gate(*slot, target.extent);
                let bytes = gate.and_then(|gate| armed(&self.memory, target, &entry, gate));
                writes.extend(bytes.ok_or_else(far)?);
                step_back(&self.memory, standing, places, &entry)?;
            }
        }
        standing.settle()?;
        hub.set_table(&self.memory, table)?;
        writes.iter().try_for_each(|(at, bytes)| self.memory.write(*at, bytes))
    }

    /// The block of an earlier patch; `None` if there's none.
    pub(super) fn find(&mut self) -> io::Result<Option<&Hub>> {
        let maps = maps::read(self.process)?;
        self.hub = Hub::find(&self.memory, &maps);
        Ok(self.hub.as_ref())
    }

    /// Takes patches out of force, those that `is_meant` says, as soon as no thread is in them. `None` if
    /// there's none.
    pub(super) fn revert(
        &mut self,
        is_meant: &dyn Fn(usize, &Region) -> bool,
        (wait, patience): (Duration, Patience<'_>),
    ) -> io::Result<Option<(Tried, Vec<String>)>> {
        let deadline = Instant::now() + wait;
        let mut pause = SHORTEST;
        loop {
            match self.try_revert(is_meant)? {
                Some((Tried::Waiting(_), _)) if Instant::now() < deadline && patience() => {
                    sleep(&mut pause);
                }
                tried => return Ok(tried),
            }
        }
    }

    fn try_revert(
        &mut self,
        is_meant: &dyn Fn(usize, &Region) -> bool,
    ) -> io::Result<Option<(Tried, Vec<String>)>> {
        let sources = Sources::of(self.process, &self.memory, self.hub()?)?;
        let unwinder = sources.unwinder(&self.program, &self.memory);
        let mut standing = Standing::of(self.process)?;
        let maps = maps::read(self.process)?;
        let hub = self.hub()?;
        self.check_free(Some(hub), &maps)?;
        let mut table = hub.table(&self.memory)?;
        let known = Known::of(hub, &self.memory, &table, &maps);
        let mut names = Vec::new();
        for (number, region, is_in_force) in &known.regions {
            if *is_in_force && is_meant(*number + 1, region) {
                table.set_patch(*number, region.start, false);
                names.push(format!("{} ({})", number + 1, region.name));
            }
        }
        let after = Known::of_table(&known, &table);
        let mut ranges: Vec<Range> = Vec::new();
        for (slot, entry) in &known.entries {
            let (now, then) = (table.slot(*slot), after.newest(*slot));
            let is_old = hub.is_old(*slot, entry, now);
            if then == Some(now) || then.is_none() && is_old {
                continue;
            }
            let old = || hub.make_way(&self.memory, *slot, entry);
            let there = then.or_else(old).ok_or_else(|| io::Error::other("no way back"))?;
            table.set_slot(*slot, there);
            if let Some(region) = known.current(*slot, now) {
                ranges.extend(region.ranges(*slot, &entry.name));
            }
        }
        let places = resume::places(&standing, unwinder.memory, &maps);
        let who = stacks::in_the_way(&standing, &places, &unwinder, &maps, &ranges);
        drop(unwinder);
        if let Some(who) = who {
            self.let_go(standing);
            return Ok(Some((Tried::Waiting(who), names)));
        }
        ask_again(&self.memory, &mut standing, &places, hub)?;
        standing.settle()?;
        Hub::set_owner(&mut table, (0, 0));
        hub.set_table(&self.memory, &table)?;
        for (slot, entry) in &known.entries {
            if hub.is_old(*slot, entry, table.slot(*slot)) {
                put_back(&self.memory, hub, entry, *slot)?;
            }
        }
        self.let_go(standing);
        Ok((!names.is_empty()).then_some((Tried::Done, names)))
    }

    /// The work in the process is done.
    pub(super) fn leave(&self) -> io::Result<()> {
        let hub = self.hub()?;
        let mut table = hub.table(&self.memory)?;
        if Hub::owner(&table) == owner() {
            Hub::set_owner(&mut table, (0, 0));
            hub.set_table(&self.memory, &table)?;
        }
        Ok(())
    }
}

fn sleep(pause: &mut Duration) {
    std::thread::sleep(*pause);
    *pause = (*pause * 2).min(LONGEST);
}

/// This process, and when it began.
fn owner() -> (u64, u64) {
    let own = std::process::id();
    let start = i32::try_from(own).ok().and_then(start_of).unwrap_or(0);
    (u64::from(own), start)
}

/// The object's functions that replace others, with their slots, before the load bias.
fn new_functions(
    hub: &Hub,
    memory: &Memory,
    table: &Table,
    fix: &Fix,
    plan: &Plan,
) -> io::Result<Vec<New>> {
    let entries: Vec<(usize, Entry)> = entries(hub, memory, table);
    let mut free = (0..SLOTS).filter(|slot| table.slot(*slot) == 0);
    let mut functions = Vec::new();
    for target in &plan.targets {
        let known = entries.iter().find(|(_, entry)| entry.function == target.entry.function);
        let slot = known.map(|(slot, _)| *slot).or_else(|| free.next());
        let slot = slot.ok_or_else(|| io::Error::other("no room for more functions"))?;
        let Some(symbol) = fix.symbols.get(target.symbol) else { continue };
        let start = symbol.value.unwrap_or(0);
        let cold = fix.cold.iter().find(|(name, ..)| *name == symbol.name);
        let cold = cold.map_or((0, 0), |(_, start, end)| (*start, *end));
        functions.push(New { slot, start, end: start.saturating_add(symbol.size), cold });
    }
    Ok(functions)
}

fn entries(hub: &Hub, memory: &Memory, table: &Table) -> Vec<(usize, Entry)> {
    let used = (0..SLOTS).filter(|slot| table.slot(*slot) != 0);
    used.filter_map(|slot| Some((slot, hub.entry(memory, slot)?))).collect()
}

/// The slot with which `function` is called, of `all`. It's not one for replacing it, so it's told from that by an address that no function has.
fn way(all: &[(usize, Entry)], function: u64) -> Option<usize> {
    all.iter().find(|(_, entry)| entry.function == function + 1).map(|(slot, _)| *slot)
}

/// Makes a slot with which `function` is called, unless there's one.
fn make_way(hub: &Hub, memory: &Memory, table: &mut Table, function: u64) -> io::Result<()> {
    if way(&entries(hub, memory, table), function).is_some() {
        return Ok(());
    }
    let full = || io::Error::other("no room for more functions");
    let slot = (0..SLOTS).rev().find(|slot| table.slot(*slot) == 0).ok_or_else(full)?;
    let (name, idle) = (String::new(), Vec::new());
    let entry = Entry { name, function: function + 1, size: 0, site: function, idle, before: None };
    hub.set_entry(memory, slot, &entry)?;
    table.set_slot(slot, hub.make_way(memory, slot, &entry).ok_or_else(full)?);
    hub.set_table(memory, table)
}

/// What earlier patches did.
pub(super) struct Known {
    /// Their numbers, from 0 on, and whether they're in force.
    pub(super) regions: Vec<(usize, Region, bool)>,
    pub(super) entries: Vec<(usize, Entry)>,
}

impl Known {
    pub(super) fn of(hub: &Hub, memory: &Memory, table: &Table, maps: &[Mapping]) -> Self {
        let region = |number: usize| {
            let (start, is_in_force) = table.patch(number)?;
            Some((number, Region::read(memory, maps, start)?, is_in_force))
        };
        let regions = (0..hub::PATCHES).filter_map(region).collect();
        Self { regions, entries: entries(hub, memory, table) }
    }

    /// The same, with what `table` says of what's in force.
    fn of_table(&self, table: &Table) -> Self {
        let regions = self.regions.iter().map(|(number, region, _)| {
            (
                *number,
                region.clone(),
                table.patch(*number).is_some_and(|(_, is_in_force)| is_in_force),
            )
        });
        Self { regions: regions.collect(), entries: Vec::new() }
    }

    /// The patch whose function for `slot` is at `target`.
    fn current(&self, slot: usize, target: u64) -> Option<&Region> {
        let mut regions = self.regions.iter().map(|(_, region, _)| region);
        regions.find(|region| region.function(slot).is_some_and(|one| one.start == target))
    }

    /// The newest function in force for `slot`; `None`: the old one is.
    fn newest(&self, slot: usize) -> Option<u64> {
        let mut regions = self.regions.iter().rev().filter(|(.., is_in_force)| *is_in_force);
        regions.find_map(|(_, region, _)| region.function(slot)).map(|one| one.start)
    }
}

/// Unmaps objects that a recorder brought which was killed before it patched anything.
fn remove_orphans(
    remote: &mut Remote<'_>,
    memory: &Memory,
    maps: &[Mapping],
    table: &Table,
) -> io::Result<()> {
    let is_known = |start: u64| {
        (0..hub::PATCHES).any(|one| table.patch(one).is_some_and(|(at, _)| at == start))
    };
    for map in maps.iter().filter(|map| maps::is_patch(map) && !is_known(map.start)) {
        let Some(region) = Region::read(memory, maps, map.start) else { continue };
        let all = maps.iter().filter(|one| one.start >= map.start && one.start < region.extent().1);
        let mut all = all.map(|one| {
            maps::is_patch(one) && one.inode == map.inode
                || one.inode == 0 && one.permissions == *b"---p"
        });
        // An unwinder may know it: then it stays.
        if all.all(|is_its| is_its) && region.told(memory).is_empty() {
            region.unmap(remote)?;
        }
    }
    Ok(())
}
