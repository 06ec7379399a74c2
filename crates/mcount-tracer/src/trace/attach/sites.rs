//! The hooks of one module: what is there, what is to be there while they're armed, and changing one into the other
//! while all threads stand.
//!
//! What is there before is known from the module's file. So it needs no keeper, and a killed recorder leaves
//! nothing that the next one can't undo. Bytes that are neither as in the file nor a jump into our stubs are
//! another tool's, such as a debugger's breakpoint, and stay.

use super::block::{is_jumps, is_ours};
use super::maps::Mapping;
use crate::trace::image::Image;
use crate::trace::library::Plan;
use crate::trace::markers;
use crate::trace::modules::Hook;
use crate::trace::pages::Pages;
use crate::trace::probes::Unit;
use crate::trace::processor as code;
use crate::trace::processor::Routines;
use crate::trace::stubs::{Batch, LONGEST, StubRoutines, StubWriter};
use mcount_hooks::PAGE;
use mcount_ptrace::Memory;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

/// Bytes of code in two states.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) at: u64,
    /// The number of the function that this arms; 0 for the part that isn't the switch.
    pub(super) function: u32,
    length: usize,
    idle: [u8; LONGEST],
    armed: [u8; LONGEST],
    /// It's a sled of LLVM's XRay. Its runtime may have written behind the sled's jump, which leads over that.
    is_sled: bool,
    /// What the code that it replaces has become, if it's a probe.
    unit: Option<Unit>,
    /// What is counted up while it's armed, if it's a marker.
    pub(super) semaphore: Option<u64>,
}

impl Change {
    pub(super) fn new((at, function): (u64, u32), idle: &[u8], armed: &[u8]) -> Option<Self> {
        let length = idle.len();
        let (none, unit, semaphore) = ([0; LONGEST], None, None);
        let mut change =
            Self { at, function, length, idle: none, armed: none, is_sled: false, unit, semaphore };
        change.idle.get_mut(..length)?.copy_from_slice(idle);
        change.armed.get_mut(..length)?.copy_from_slice(armed.get(..length)?);
        Some(change)
    }

    /// Where a thread goes on, in the middle of it, when it's armed or made idle. `None` if it needn't be moved.
    pub(super) fn way_out(&self, place: u64, is_to_be_armed: bool) -> Option<u64> {
        match &self.unit {
            None => Some(self.end()),
            Some(_) if !is_to_be_armed => None,
            Some(unit) => unit.place_of(usize::try_from(place.checked_sub(self.at)?).ok()?),
        }
    }

    /// Is it a probe whose first instructions are elsewhere, also while it's idle?
    pub(super) fn is_probe(&self) -> bool {
        self.unit.is_some()
    }

    pub(super) fn end(&self) -> u64 {
        self.at + self.length as u64
    }

    /// What has become of the code that it replaces, if it's a probe.
    pub(super) fn unit(&self) -> Option<&Unit> {
        self.unit.as_ref()
    }

    /// A jump: what is there while it's armed, and while it's idle.
    pub(super) fn states(&self) -> Option<[[u8; code::SITE]; 2]> {
        Some([*self.armed().first_chunk()?, *self.idle().first_chunk()?])
    }

    pub(super) fn idle(&self) -> &[u8] {
        self.idle.get(..self.length).unwrap_or_default()
    }

    fn armed(&self) -> &[u8] {
        self.armed.get(..self.length).unwrap_or_default()
    }

    /// Is this the site as it's idle?
    fn is_idle(&self, now: &[u8]) -> bool {
        let jump = |bytes: &[u8]| bytes.get(..code::SLED_JUMP).map(<[u8]>::to_vec);
        now == self.idle() || self.is_sled && jump(now).is_some() && jump(now) == jump(self.idle())
    }

    /// Is this the site, armed by us, perhaps for another stub? It may have been switched off while threads ran.
    fn is_armed(&self, now: &[u8], rooms: &[(u64, u64)]) -> bool {
        let mut whole = [0; LONGEST];
        let Some(now) = whole.get_mut(..now.len()).map(|room| {
            room.copy_from_slice(now);
            code::switched_on(room, self.armed());
            &*room
        }) else {
            return false;
        };
        let (Some((jump, rest)), Some((expected, behind))) =
            (now.split_at_checked(code::SITE), self.armed().split_at_checked(code::SITE))
        else {
            return now == self.armed();
        };
        let targets = code::target(self.at, jump).zip(code::target(self.at, expected));
        let Some((target, _)) = targets else { return now == self.armed() };
        rest == behind && rooms.iter().any(|(from, to)| (*from..*to).contains(&target))
    }
}

/// Addresses: the first one, and that behind the last.
type Extent = (u64, u64);

/// The stubs of all modules, and the recipes of their functions.
#[derive(Debug, Clone)]
pub(super) struct Stubs {
    pub(super) writer: StubWriter,
    /// By function.
    recipes: BTreeMap<u32, Vec<u8>>,
    /// The greatest number of a function.
    last: u32,
}

impl Stubs {
    /// In these rooms for stubs, and for the first instructions of functions with probes.
    pub(super) fn new((stubs, moved): (Extent, Extent), routines: StubRoutines) -> Self {
        let writer = StubWriter { routines, stubs: Batch::new(stubs), moved: Batch::new(moved) };
        Self { writer, recipes: BTreeMap::new(), last: 0 }
    }

    pub(super) fn has_recipes(&self) -> bool {
        !self.recipes.is_empty()
    }

    /// Where recipes and the table of them go, at the end of the room, and their bytes. The table has all functions: one
    /// of an earlier trace may be there.
    pub(super) fn recipes(&self) -> Option<(u64, Vec<u8>)> {
        let mut all = Vec::new();
        let mut places = BTreeMap::new();
        for (id, recipe) in &self.recipes {
            places.insert(*id, all.len() as u64);
            all.extend_from_slice(recipe);
            all.resize(all.len().next_multiple_of(8), 0);
        }
        let size = all.len() as u64 + 8 * u64::from(self.last);
        let start = self.writer.stubs.end().checked_sub(size)?;
        for id in (1..=self.last).rev() {
            let place = places.get(&id).map_or(0, |place| start + place);
            all.extend(place.to_le_bytes());
        }
        (start >= self.writer.stubs.next()).then_some((start, all))
    }

    /// Where a table of so many bytes goes: before what is at the end of the room.
    pub(super) fn place_of_table(&self, size: u64) -> Option<u64> {
        let end = if self.has_recipes() { self.recipes()?.0 } else { self.writer.stubs.end() };
        let start = end.checked_sub(size)? & !15;
        (start >= self.writer.stubs.next()).then_some(start)
    }

    /// The routines for calls of a library function, which calls these if nothing of its values is recorded, and else that one at the entry. Notes
    /// what its stub needs.
    pub(super) fn routines_of(&mut self, plan: &Plan, routines: Routines, entry: u64) -> Routines {
        let Some(recipe) = &plan.recipe else { return routines };
        let number = plan.number & 0xff_ffff;
        self.last = self.last.max(number);
        self.recipes.insert(number, recipe.bytes());
        Routines { entry, ..routines }
    }

    /// Notes what the stub of `hook` needs.
    fn note(&mut self, hook: &Hook) {
        self.last = self.last.max(hook.id);
        if let Some(recipe) = &hook.recipe {
            self.recipes.insert(hook.id, recipe.bytes());
        }
    }
}

/// A hook, and what is there in its module's file.
pub(super) struct IdleHook<'h> {
    pub(super) hook: &'h Hook,
    /// The bytes of the room before the function.
    pub(super) before: &'h [u8],
    /// The code from the site on.
    pub(super) area: &'h [u8],
}

/// What is to be changed in one module.
pub(super) fn plan(
    hooks: &[IdleHook<'_>],
    bias: u64,
    stubs: &mut Stubs,
    mut thunks: Option<&mut Batch>,
) -> Option<Vec<Change>> {
    let mut changes = Vec::new();
    for IdleHook { hook, before, area } in hooks {
        stubs.note(hook);
        let armed = match stubs.writer.arm(hook, bias, thunks.as_deref_mut()) {
            // It would be too far from what its instructions refer to.
            None if hook.probe.is_some() => continue,
            armed => armed?,
        };
        if let Some((place, jump)) = &armed.before {
            changes.push(Change::new((*place, 0), before, jump)?);
        }
        let (site, bytes) = &armed.site;
        let mut change = Change::new((*site, hook.id), area.get(..hook.area.length)?, bytes)?;
        change.is_sled = hook.is_sled;
        change.unit = armed.unit;
        change.semaphore = hook.semaphore().map(|semaphore| bias + semaphore);
        changes.push(change);
    }
    changes.sort_unstable_by_key(|change| change.at);
    Some(changes)
}

/// The code around some changes, as it is and as it's to be: what can be made ready while threads run.
pub(super) struct Prepared {
    now: Pages,
    armed: Pages,
    /// How many changes were taken off the list, as neither state is there.
    pub(super) foreign: usize,
    /// Semaphores of markers that aren't armed yet.
    semaphores: Vec<u64>,
}

impl Prepared {
    /// Reads what `changes` are made in, and takes those off the list that can't be.
    pub(super) fn new(
        memory: &Memory,
        changes: &mut Vec<Change>,
        rooms: &[(u64, u64)],
    ) -> io::Result<Self> {
        let now = Pages::read(memory, changes.iter().map(|change| change.at..change.end()))?;
        let mut armed = now.clone();
        let count = changes.len();
        let mut semaphores = Vec::new();
        changes.retain(|change| {
            let Some(now) = armed.at(change.at, change.length) else { return false };
            let is_idle = change.is_idle(now);
            let is_right = is_idle || change.is_armed(now, rooms);
            if is_right {
                semaphores.extend(change.semaphore.filter(|_| is_idle));
                now.copy_from_slice(change.armed());
            }
            is_right
        });
        Ok(Self { now, armed, foreign: count - changes.len(), semaphores })
    }

    /// Is all as it was when it was read?
    pub(super) fn holds(&self, memory: &Memory) -> io::Result<bool> {
        self.now.are_still(memory)
    }

    /// Arms it.
    pub(super) fn write(&self, memory: &Memory) -> io::Result<()> {
        self.armed.write(memory)?;
        self.semaphores.iter().try_for_each(|one| markers::count(memory, *one, true))
    }
}

/// Arms all that is idle, or that a former recorder has left armed; the ones that it couldn't, because they are
/// neither, are taken off the list. How many these were.
pub(super) fn arm(
    memory: &Memory,
    changes: &mut Vec<Change>,
    rooms: &[(u64, u64)],
) -> io::Result<usize> {
    let prepared = Prepared::new(memory, changes, rooms)?;
    prepared.write(memory)?;
    Ok(prepared.foreign)
}

/// What a former recorder has left armed in code that was mapped from `file` to `start`, whatever it was that it armed: jumps into
/// `rooms` that aren't in the file.
pub(super) fn left_armed(
    memory: &Memory,
    (start, file): (u64, &[u8]),
    rooms: &[(u64, u64)],
) -> io::Result<Vec<Change>> {
    let mut now = vec![0; file.len()];
    memory.read(start, &mut now)?;
    let mut changes = Vec::new();
    let mut next = 0;
    for at in 0..now.len() {
        if at < next || now.get(at) == file.get(at) {
            continue;
        }
        // The jump may begin as what it replaces.
        let begins = at.saturating_sub(code::SITE - 1).max(next)..=at;
        let found = begins.into_iter().find_map(|from| {
            let (idle, jump) = (file.get(from..)?, now.get(from..)?);
            let (idle, jump) = (idle.get(..code::SITE)?, jump.get(..code::SITE)?);
            let target = code::target(start + from as u64, jump)?;
            let is_ours = rooms.iter().any(|(low, high)| (*low..*high).contains(&target));
            is_ours.then(|| Change::new((start + from as u64, 0), idle, jump))?
        });
        if let Some(change) = &found {
            next = usize::try_from(change.end() - start).unwrap_or(usize::MAX);
        }
        changes.extend(found);
    }
    Ok(changes)
}

/// Makes armed sites idle while all threads run, or arms them again: by one store, as docs/how.md says. They stay on the list.
pub(super) fn switch<'c>(
    memory: &Memory,
    changes: impl Iterator<Item = &'c Change>,
    is_on: bool,
) -> io::Result<()> {
    let mut switches = Vec::new();
    for change in changes {
        switches.extend(Switch::of(memory, change)?);
    }
    flip(memory, switches.iter(), is_on)
}

/// Switches that are on, or those that are off. Where something else is, it stays, as does what can't be read.
///
/// Those in code of ours are written together, with what is between them: nobody else changes that. So a thread that runs there sees the same bytes
/// before and after, but for the switches, each of which is one store of the kernel's as it is elsewhere.
pub(super) fn flip<'s>(
    memory: &Memory,
    switches: impl Iterator<Item = &'s Switch>,
    is_on: bool,
) -> io::Result<()> {
    let mut switches: Vec<&Switch> = switches.collect();
    switches.sort_unstable_by_key(|switch| switch.range().start);
    let mut pages = Pages::read(memory, switches.iter().map(|switch| switch.range()))?;
    let mut spans: Vec<Range<u64>> = Vec::new();
    for switch in switches {
        let (at, length) = (switch.at, switch.length);
        let (from, to) = if is_on { (&switch.off, &switch.on) } else { (&switch.on, &switch.off) };
        let Some((from, to)) = from.get(..length).zip(to.get(..length)) else { continue };
        let mut is_there = |at: u64, expected: &[u8]| {
            expected.is_empty() || pages.at(at, expected.len()).is_some_and(|now| now == expected)
        };
        if !is_there(switch.range().start, &switch.before)
            || !is_there(switch.end(), &switch.behind)
        {
            continue;
        }
        let Some(now) = pages.at(at, length).filter(|now| *now == from) else { continue };
        now.copy_from_slice(to);
        match spans.last_mut() {
            _ if !switch.is_ours => memory.write(at, to)?,
            Some(span) if at - span.end <= PAGE => span.end = switch.end(),
            _ => spans.push(at..switch.end()),
        }
    }
    for span in spans {
        let length = usize::try_from(span.end - span.start).map_err(io::Error::other)?;
        if let Some(bytes) = pages.at(span.start, length) {
            memory.write(span.start, bytes)?;
        }
    }
    Ok(())
}

/// Where an armed site is switched while all threads run, and the bytes of both states.
#[derive(Debug, Clone)]
pub(super) struct Switch {
    at: u64,
    /// The number of the function.
    pub(super) function: u32,
    /// It's in code of ours.
    is_ours: bool,
    length: usize,
    on: [u8; code::SITE],
    off: [u8; code::SITE],
    /// What has to be before it and behind it. Otherwise something else is there.
    before: Vec<u8>,
    behind: Vec<u8>,
}

impl Switch {
    /// The one of a site that's armed, or was before it was switched off.
    pub(super) fn of(memory: &Memory, change: &Change) -> io::Result<Option<Self>> {
        let (function, unit) = (change.function, change.unit.as_ref());
        if let Some(switch) = unit.and_then(Unit::marker_switch) {
            return Ok(Self::new((function, true), switch));
        }
        let mut bytes = [0; code::SWITCH];
        let at = unit.map_or(change.at, |unit| unit.at);
        memory.read(at, &mut bytes)?;
        let switch = code::switch(at, bytes);
        Ok(switch.and_then(|switch| Self::new((function, unit.is_some()), switch)))
    }

    fn new<const SIZE: usize>(
        (function, is_ours): (u32, bool),
        (at, one, other): (u64, [u8; SIZE], [u8; SIZE]),
    ) -> Option<Self> {
        let (mut on, mut off) = ([0; code::SITE], [0; code::SITE]);
        on.get_mut(..SIZE)?.copy_from_slice(&one);
        off.get_mut(..SIZE)?.copy_from_slice(&other);
        let (before, behind) = Default::default();
        Some(Self { at, function, is_ours, length: SIZE, on, off, before, behind })
    }

    /// The one of a jump that differs from what it replaces in one byte, whichever that is.
    pub(super) fn of_jump(change: &Change) -> Option<Self> {
        let [armed, idle] = change.states()?;
        let place = armed.iter().zip(&idle).position(|(on, off)| on != off)?;
        let (before, [on, behind @ ..]) = armed.split_at_checked(place)? else { return None };
        let off = idle.get(place..)?.strip_suffix(behind)?.first_chunk::<1>()?;
        let at = change.at.checked_add(place as u64)?;
        let switch = Self::new((change.function, false), (at, [*on], *off))?;
        Some(Self { before: before.to_vec(), behind: behind.to_vec(), ..switch })
    }

    fn end(&self) -> u64 {
        self.at.saturating_add(self.length as u64)
    }

    /// What is looked at.
    fn range(&self) -> Range<u64> {
        let start = self.at.saturating_sub(self.before.len() as u64);
        start..self.end().saturating_add(self.behind.len() as u64)
    }
}

/// Puts back what was there before, where it still is as it was armed.
pub(super) fn restore(
    memory: &Memory,
    changes: &[Change],
    rooms: &[(u64, u64)],
) -> io::Result<usize> {
    let mut pages = Pages::read(memory, changes.iter().map(|change| change.at..change.end()))?;
    let (mut count, mut semaphores) = (0, Vec::new());
    for change in changes {
        let Some(now) = pages.at(change.at, change.length) else { continue };
        if !change.is_idle(now) && change.is_armed(now, rooms) {
            now.copy_from_slice(change.idle());
            semaphores.extend(change.semaphore);
            count += 1;
        }
    }
    if count != 0 {
        pages.write(memory)?;
    }
    for semaphore in semaphores {
        // Whatever is wrong with it, the code is as it was.
        let _ = markers::count(memory, semaphore, false);
    }
    Ok(count)
}

/// Where code of ours may be that a site jumps to.
pub(super) fn rooms(maps: &[Mapping], image: &Image, bias: u64) -> Vec<(u64, u64)> {
    let is_room = |map: &&Mapping| is_jumps(map) || is_ours(map) && map.is_code();
    let code = maps.iter().filter(is_room);
    let stubs = (bias + image.symbols.stubs, bias + image.symbols.stubs_end);
    let moved = (bias + image.symbols.moved, bias + image.symbols.moved_end);
    code.map(|map| (map.start, map.end)).chain([stubs, moved]).collect()
}
