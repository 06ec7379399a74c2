//! The hooks of one module: what is there, what is to be there while they're armed, and changing one into the other
//! while all threads stand.
//!
//! What is there before is known from the module's file. So nobody has to keep it, and a recorder that was killed leaves
//! nothing behind that the next one can't undo. What is neither as in the file nor a jump into our stubs is somebody else's,
//! such as a debugger's breakpoint, and stays.

use super::block::is_ours;
use super::maps::Mapping;
use crate::trace::agent::Routines;
use crate::trace::image::Image;
use crate::trace::modules::Hook;
use crate::trace::processor as code;
use mcount_hooks::PAGE;
use mcount_ptrace::Memory;
use std::collections::BTreeMap;
use std::io;

/// The longest area, and a jump before it.
const LONGEST: usize = 24;

/// Bytes of code in two states.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) at: u64,
    /// The number of the function that this arms; 0 for the part that isn't the switch.
    pub(super) function: u32,
    length: usize,
    idle: [u8; LONGEST],
    armed: [u8; LONGEST],
}

impl Change {
    fn new((at, function): (u64, u32), idle: &[u8], armed: &[u8]) -> Option<Self> {
        let length = idle.len();
        let mut change = Self { at, function, length, idle: [0; LONGEST], armed: [0; LONGEST] };
        change.idle.get_mut(..length)?.copy_from_slice(idle);
        change.armed.get_mut(..length)?.copy_from_slice(armed.get(..length)?);
        Some(change)
    }

    pub(super) fn end(&self) -> u64 {
        self.at + self.length as u64
    }

    fn idle(&self) -> &[u8] {
        self.idle.get(..self.length).unwrap_or_default()
    }

    fn armed(&self) -> &[u8] {
        self.armed.get(..self.length).unwrap_or_default()
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

/// Where stubs are made: what of their room is taken.
#[derive(Debug, Clone)]
pub(super) struct Stubs {
    pub(super) start: u64,
    end: u64,
    pub(super) bytes: Vec<u8>,
    bias: u64,
    /// What stubs call, and what those of functions with recipes call.
    routines: (Routines, Routines),
    /// By function.
    recipes: BTreeMap<u32, Vec<u8>>,
    /// The greatest number of a function.
    last: u32,
}

impl Stubs {
    pub(super) fn new((start, end): (u64, u64), bias: u64, routines: (Routines, Routines)) -> Self {
        Self { start, end, bytes: Vec::new(), bias, routines, recipes: BTreeMap::new(), last: 0 }
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
        let start = self.end.checked_sub(size)?;
        for id in (1..=self.last).rev() {
            let place = places.get(&id).map_or(0, |place| start + place);
            all.extend(place.to_le_bytes());
        }
        (start >= self.start + self.bytes.len() as u64).then_some((start, all))
    }

    fn next(&self) -> Option<u64> {
        let at = self.start + self.bytes.len() as u64;
        (at + code::STUB as u64 <= self.end).then_some(at)
    }

    /// Adds a stub. Calls of former traces may still return to it: whatever it's now, there's a way out.
    fn add(&mut self, stub: [u8; code::STUB]) -> Option<()> {
        let exit = self.bias + self.routines.0.exit;
        self.bytes.extend_from_slice(&code::with_way_out(stub, self.next()?, exit)?);
        Some(())
    }

    /// Makes the stub of `hook`, whose function goes on at `body`.
    fn of(&mut self, hook: &Hook, body: u64) -> Option<u64> {
        let at = self.next()?;
        let stub = self.made(hook, at, body)?;
        self.add(stub)?;
        Some(at + hook.way_in())
    }

    /// The stub of `hook` for `at`.
    fn made(&mut self, hook: &Hook, at: u64, body: u64) -> Option<[u8; code::STUB]> {
        let (plain, with_values) = self.routines;
        let routines = if hook.recipe.is_some() { with_values } else { plain };
        self.last = self.last.max(hook.id);
        if let Some(recipe) = &hook.recipe {
            self.recipes.insert(hook.id, recipe.bytes());
        }
        hook.stub(at, (self.bias, routines), body)
    }

    /// Makes the stub of `hook` in room near its module, or a jump to it there, whose function goes on at `body`.
    fn near(&mut self, hook: &Hook, thunks: &mut Thunks, body: u64) -> Option<u64> {
        let at = thunks.start + thunks.bytes.len() as u64;
        if code::STUBS_ARE_NEAR {
            thunks.bytes.extend_from_slice(&self.made(hook, at, body)?);
            return Some(at + hook.way_in());
        }
        // The way back, in a stub of its own.
        let behind = self.next()?;
        self.add(code::stub_back(body, hook.is_after_prologue()))?;
        let target = self.of(hook, behind)?;
        thunks.bytes.extend_from_slice(&code::thunk(target));
        Some(at)
    }
}

/// Room near a module for jumps to stubs that are out of its reach.
#[derive(Debug, Clone, Default)]
pub(super) struct Thunks {
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
}

/// What is to be changed in one module.
pub(super) fn plan(
    hooks: &[(&Hook, &[u8], &[u8])],
    bias: u64,
    stubs: &mut Stubs,
    mut thunks: Option<&mut Thunks>,
) -> Option<Vec<Change>> {
    let mut changes = Vec::new();
    for (hook, before, area) in hooks {
        let site = bias + hook.site;
        let body = site + code::jump_length(hook.before.is_some()) as u64;
        let target = match &mut thunks {
            Some(thunks) => stubs.near(hook, thunks, body)?,
            None => stubs.of(hook, body)?,
        };
        let mut armed = code::filled(&hook.area, hook.before.is_some());
        match hook.before.map(|before| bias + before) {
            Some(place) => {
                let short = code::jump_before(site, place)?;
                armed.get_mut(..short.len())?.copy_from_slice(&short);
                changes.push(Change::new((place, 0), before, &code::armed(place, target)?)?);
            }
            None => armed.get_mut(..code::SITE)?.copy_from_slice(&code::armed(site, target)?),
        }
        changes.push(Change::new((site, hook.id), area.get(..hook.area.length)?, &armed)?);
    }
    changes.sort_unstable_by_key(|change| change.at);
    Some(changes)
}

/// Arms all that is idle, or that a former recorder has left armed; the ones that it couldn't, because they are
/// neither, are taken off the list. How many these were.
pub(super) fn arm(
    memory: &Memory,
    changes: &mut Vec<Change>,
    rooms: &[(u64, u64)],
) -> io::Result<usize> {
    let mut pages = Pages::read(memory, changes)?;
    let count = changes.len();
    changes.retain(|change| {
        let Some(now) = pages.at(change.at, change.length) else { return false };
        let is_right = now == change.idle() || change.is_armed(now, rooms);
        if is_right {
            now.copy_from_slice(change.armed());
        }
        is_right
    });
    pages.write(memory)?;
    Ok(count - changes.len())
}

/// Makes armed sites idle while all threads run, or arms them again: by one store, as docs/live.md says. They stay on the list.
pub(super) fn switch<'c>(
    memory: &Memory,
    changes: impl Iterator<Item = &'c Change>,
    is_on: bool,
) -> io::Result<()> {
    for change in changes {
        let mut bytes = [0; code::SWITCH];
        memory.read(change.at, &mut bytes)?;
        let Some((at, on, off)) = code::switch(change.at, bytes) else { continue };
        let (from, to) = if is_on { (off, on) } else { (on, off) };
        let mut now = from;
        memory.read(at, &mut now)?;
        if now == from {
            memory.write(at, &to)?;
        }
    }
    Ok(())
}

/// Puts back what was there before, where it still is as it was armed.
pub(super) fn restore(
    memory: &Memory,
    changes: &[Change],
    rooms: &[(u64, u64)],
) -> io::Result<usize> {
    let mut pages = Pages::read(memory, changes)?;
    let mut count = 0;
    for change in changes {
        let Some(now) = pages.at(change.at, change.length) else { continue };
        if now != change.idle() && change.is_armed(now, rooms) {
            now.copy_from_slice(change.idle());
            count += 1;
        }
    }
    if count != 0 {
        pages.write(memory)?;
    }
    Ok(count)
}

/// Code that is changed in many places: runs of whole pages, by their first address.
struct Pages(BTreeMap<u64, Vec<u8>>);

impl Pages {
    /// The pages of `changes`, which are in ascending order. What can't be read isn't there.
    fn read(memory: &Memory, changes: &[Change]) -> io::Result<Self> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for change in changes {
            let (start, end) = (change.at / PAGE * PAGE, change.end().next_multiple_of(PAGE));
            match runs.last_mut() {
                Some((_, last)) if start <= *last => *last = end.max(*last),
                _ => runs.push((start, end)),
            }
        }
        let mut pages = BTreeMap::new();
        for (start, end) in runs {
            let mut bytes = vec![0; usize::try_from(end - start).map_err(io::Error::other)?];
            if memory.read(start, &mut bytes).is_ok() {
                pages.insert(start, bytes);
            }
        }
        Ok(Self(pages))
    }

    fn at(&mut self, address: u64, length: usize) -> Option<&mut [u8]> {
        let (start, bytes) = self.0.range_mut(..=address).next_back()?;
        let offset = usize::try_from(address - start).ok()?;
        bytes.get_mut(offset..)?.get_mut(..length)
    }

    fn write(&self, memory: &Memory) -> io::Result<()> {
        self.0.iter().try_for_each(|(start, bytes)| memory.write(*start, bytes))
    }
}

/// Where code of ours may be that a site jumps to.
pub(super) fn rooms(maps: &[Mapping], image: &Image, bias: u64) -> Vec<(u64, u64)> {
    let code = maps.iter().filter(|map| is_ours(map) && map.is_code());
    let stubs = (bias + image.symbols.stubs, bias + image.symbols.stubs_end);
    code.map(|map| (map.start, map.end)).chain([stubs]).collect()
}
