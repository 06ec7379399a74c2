//! Probes that cost nothing between windows: functions are as their compilers left them, and one byte arms them while threads run
//! (`mcount_cpu::probe::Pun`).
//!
//! Such a jump leads wherever the function's own bytes say. If there's free memory, a page is mapped there, with code that goes on to the
//! function's unit. That takes a page for nearly each function, so only those have one that are called most often.

use super::block::is_jumps;
use super::maps::Mapping;
use super::sites::{Change, Switch, flip};
use crate::trace::processor;
use mcount_hooks::PAGE;
use mcount_ptrace::Memory;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;

/// Pages of a process, at most.
const PAGES: usize = 1024;
/// The heap may grow by so much, and so may the stack.
const GROWTH: u64 = 256 << 20;

/// Probes whose functions are as they were while they're idle.
#[derive(Debug, Default, Clone)]
pub(super) struct Puns {
    /// By function.
    pub(super) all: BTreeMap<u32, Change>,
    /// Functions that can't have one.
    pub(super) refused: BTreeSet<u32>,
    /// Pages for what jumps lead to, and what is used of each.
    pub(super) pages: BTreeMap<u64, Vec<Range<u64>>>,
}

impl Puns {
    pub(super) fn has(&self, function: u32) -> bool {
        self.all.contains_key(&function)
    }

    /// Is it known whether this function can have one?
    pub(super) fn is_decided(&self, function: u32) -> bool {
        self.has(function) || self.refused.contains(&function)
    }

    /// Code in two states.
    pub(super) fn changes(&self) -> Vec<Change> {
        self.all.values().cloned().collect()
    }

    /// Where they are switched. A process that was made before they were has others.
    pub(super) fn switches(&self, memory: &Memory) -> Vec<Switch> {
        let switch = |change: &Change| {
            let mut now = [0; processor::SITE];
            memory.read(change.at, &mut now).ok()?;
            let is_there = change.states()?.contains(&now);
            Switch::of_jump(change).filter(|_| is_there)
        };
        self.all.values().filter_map(switch).collect()
    }

    /// Switches those of functions of which `is_one` says so.
    pub(super) fn switch(
        &self,
        memory: &Memory,
        is_on: bool,
        is_one: impl Fn(u32) -> bool,
    ) -> io::Result<()> {
        let switches = self.switches(memory);
        flip(memory, switches.iter().filter(|switch| is_one(switch.function)), is_on)
    }
}

/// A function that is to have one.
pub(super) struct Planned {
    /// The place of its probe in the list.
    pub(super) place: usize,
    pub(super) change: Change,
    /// What its jump leads to.
    pub(super) target: u64,
    pub(super) code: Vec<u8>,
}

impl Planned {
    pub(super) fn range(&self) -> Range<u64> {
        self.target..self.target.saturating_add(self.code.len() as u64)
    }
}

/// Pages that this much code is in.
pub(super) fn pages(range: &Range<u64>) -> impl Iterator<Item = u64> + use<> {
    (range.start / PAGE..range.end.div_ceil(PAGE)).map(|page| page * PAGE)
}

/// Memory that isn't to be used.
pub(super) fn taken(maps: &[Mapping]) -> Vec<(u64, u64)> {
    let grown = |map: &Mapping| match map.path.to_str() {
        Some("[heap]") => (map.start, map.end.saturating_add(GROWTH)),
        Some("[stack]") => (map.start.saturating_sub(GROWTH), map.end),
        _ => (map.start, map.end),
    };
    let is_other = |map: &&Mapping| !is_jumps(map);
    maps.iter().filter(is_other).map(grown).collect()
}

/// Where code can be that jumps lead to.
pub(super) struct Layout<'p> {
    pub(super) puns: &'p mut Puns,
    /// Memory that isn't free.
    pub(super) taken: Vec<(u64, u64)>,
    /// Pages that aren't mapped yet.
    pub(super) new: Vec<u64>,
}

impl Layout<'_> {
    /// Is there room for it?
    pub(super) fn has_room(&self, one: &Planned) -> bool {
        let range = one.range();
        let is_apart = |used: &Range<u64>| used.end <= range.start || range.end <= used.start;
        let is_taken = |page: u64| {
            let mut taken = self.taken.iter();
            taken.any(|(low, high)| *low < page + PAGE && page < *high)
        };
        let is_free = |page: u64| match self.puns.pages.get(&page) {
            Some(used) => used.iter().all(is_apart),
            None => self.puns.pages.len() < PAGES && !is_taken(page),
        };
        range.start < range.end && pages(&range).all(is_free)
    }

    /// Takes the room.
    pub(super) fn take(&mut self, one: &Planned) {
        for page in pages(&one.range()) {
            if !self.puns.pages.contains_key(&page) {
                self.new.push(page);
            }
            self.puns.pages.entry(page).or_default().push(one.range());
        }
    }

    /// What the new pages have in them.
    pub(super) fn content(&self, planned: &[Planned]) -> io::Result<Vec<u8>> {
        let size = usize::try_from(PAGE).map_err(io::Error::other)?;
        let mut content = vec![0; self.new.len() * size];
        for one in planned {
            for (at, byte) in one.range().zip(&one.code) {
                let page = self.new.iter().position(|page| *page == at / PAGE * PAGE);
                let offset = usize::try_from(at % PAGE).map_err(io::Error::other)?;
                if let Some(room) = page.and_then(|page| content.get_mut(page * size + offset)) {
                    *room = *byte;
                }
            }
        }
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is there before and after, and whether it's armed.
    #[test]
    fn nothing_is_written_where_something_else_is() {
        let process = i32::try_from(std::process::id()).unwrap();
        let memory = Memory::open(process).unwrap();
        let (idle, armed) = ([0x55, 1, 2, 3, 4], [0xe9, 1, 2, 3, 4]);
        let other = [0x55, 1, 2, 3, 5];
        let mut code = idle;
        let at = code.as_ptr().expose_provenance() as u64;
        let change = Change::new((at, 1), &idle, &armed).unwrap();
        let puns = Puns { all: BTreeMap::from([(1, change.clone())]), ..Puns::default() };
        let switch = Switch::of_jump(&change).unwrap();
        let cases = [(idle, true, armed), (armed, false, idle), (other, true, other)];
        for (before, is_on, after) in cases {
            code = before;
            flip(&memory, [&switch].into_iter(), is_on).unwrap();
            assert_eq!(std::hint::black_box(&mut code), &after);
            assert_eq!(puns.switches(&memory).len(), usize::from(after != other));
        }
    }
}
