//! Probes that cost nothing between windows: functions are as their compilers left them, and one byte arms them while threads run
//! (`mcount_cpu::probe::Pun`).
//!
//! Such a jump leads wherever the function's own bytes say. If there's free memory, a page is mapped there, with code that goes on to the
//! function's unit. That takes a page for nearly each function, so only those have one that are called most often.

use super::maps::Mapping;
use super::sites::{Change, Switch, flip};
use crate::trace::processor;
use mcount_hooks::PAGE;
use mcount_ptrace::Memory;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::Arc;

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
    /// Those of them that are as they were for good, as their probes cost too much.
    pub(super) left_out: BTreeSet<u32>,
    /// Pages for what jumps lead to, and what is used of each.
    pub(super) pages: BTreeMap<u64, Vec<Range<u64>>>,
    /// Where the only probe of a function is in the list.
    places: Option<Arc<BTreeMap<u32, usize>>>,
}

impl Puns {
    pub(super) fn has(&self, function: u32) -> bool {
        self.all.contains_key(&function)
    }

    /// Is it known whether this function can have one?
    pub(super) fn is_decided(&self, function: u32) -> bool {
        self.has(function) || self.refused.contains(&function)
    }

    /// Where the only probe of each function is in this list, which doesn't change while probes are idle.
    pub(super) fn places(&mut self, changes: &[Change]) -> Arc<BTreeMap<u32, usize>> {
        Arc::clone(self.places.get_or_insert_with(|| Arc::new(places(changes))))
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

/// Where the change of each function is that has one alone.
fn places(changes: &[Change]) -> BTreeMap<u32, usize> {
    let mut places: BTreeMap<u32, Option<usize>> = BTreeMap::new();
    for (place, change) in changes.iter().enumerate() {
        places.entry(change.function).and_modify(|known| *known = None).or_insert(Some(place));
    }
    places.into_iter().filter_map(|(function, place)| Some((function, place?))).collect()
}

/// One jump that a function can have, and where it can lead to.
pub(super) struct Possible {
    /// What is there while it's idle.
    pub(super) idle: [u8; processor::SITE],
    pub(super) at: u64,
    /// Which byte differs, what it can be, and what the jump leads to then.
    pub(super) place: usize,
    pub(super) targets: Vec<(u8, u64)>,
    /// What is there.
    pub(super) code: Vec<u8>,
}

impl Possible {
    fn range(&self, target: u64) -> Range<u64> {
        target..target.saturating_add(self.code.len() as u64)
    }

    /// That jump of this function, whose probe is at this place in the list.
    fn planned(&self, function: u32, place: usize, (value, target): (u8, u64)) -> Option<Planned> {
        let mut armed = self.idle;
        *armed.get_mut(self.place)? = value;
        let change = Change::new((self.at, function), &self.idle, &armed)?;
        Some(Planned { place, change, target, code: self.code.clone() })
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

/// Memory that isn't to be used, unless it's known to be ours; an earlier `mcount` that was killed may have left pages. What ranges begin and end with, ascending and apart.
pub(super) fn taken(maps: &[Mapping]) -> Vec<(u64, u64)> {
    let grown = |map: &Mapping| match map.path.to_str() {
        Some("[heap]") => (map.start, map.end.saturating_add(GROWTH)),
        Some("[stack]") => (map.start.saturating_sub(GROWTH), map.end),
        _ => (map.start, map.end),
    };
    let mut all: Vec<(u64, u64)> = maps.iter().map(grown).collect();
    all.sort_unstable();
    all.dedup_by(|next, before| {
        let is_one = next.0 <= before.1;
        before.1 = if is_one { before.1.max(next.1) } else { before.1 };
        is_one
    });
    all
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
    /// Which of these jumps there's room for, preferably in pages that are there for others.
    pub(super) fn choose(
        &self,
        (function, place): (u32, usize),
        possible: &[Possible],
    ) -> Option<Planned> {
        for is_shared in [true, false] {
            for one in possible {
                let has_room =
                    |(_, target): &&(u8, u64)| self.has_room(&one.range(*target), is_shared);
                if let Some(found) = one.targets.iter().find(has_room) {
                    return one.planned(function, place, *found);
                }
            }
        }
        None
    }

    /// Is there room for it? `is_shared`: it takes no page of its own.
    fn has_room(&self, range: &Range<u64>, is_shared: bool) -> bool {
        let is_apart = |used: &Range<u64>| used.end <= range.start || range.end <= used.start;
        let is_taken = |page: u64| {
            let before = self.taken.partition_point(|(low, _)| *low < page + PAGE);
            let last = before.checked_sub(1).and_then(|at| self.taken.get(at));
            last.is_some_and(|(_, high)| page < *high)
        };
        let is_free = |page: u64| match self.puns.pages.get(&page) {
            Some(used) => used.iter().all(is_apart),
            None => !is_shared && self.puns.pages.len() < PAGES && !is_taken(page),
        };
        range.start < range.end && pages(range).all(is_free)
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

    /// The same of jumps that lead elsewhere, whichever byte of theirs differs.
    #[test]
    fn any_byte_of_a_jump_can_be_the_one() {
        let process = i32::try_from(std::process::id()).unwrap();
        let memory = Memory::open(process).unwrap();
        let idle = [0xe9, 1, 2, 3, 4];
        for (place, differs) in (0..5).flat_map(|place| (0..5).map(move |other| (place, other))) {
            let mut code = idle;
            let at = code.as_ptr().expose_provenance() as u64;
            let mut armed = idle;
            armed[place] = 0x77;
            let switch = Switch::of_jump(&Change::new((at, 1), &idle, &armed).unwrap()).unwrap();
            flip(&memory, [&switch].into_iter(), true).unwrap();
            assert_eq!(std::hint::black_box(&mut code), &armed);
            // Somebody else has changed another byte, or this one.
            code[differs] = 0xcc;
            let changed = code;
            flip(&memory, [&switch].into_iter(), false).unwrap();
            assert_eq!(std::hint::black_box(&mut code), &changed);
            code[differs] = armed[differs];
            flip(&memory, [&switch].into_iter(), false).unwrap();
            assert_eq!(std::hint::black_box(&mut code), &idle);
        }
        // Two bytes aren't one store.
        let both = [0xe9, 1, 2, 7, 7];
        assert!(Switch::of_jump(&Change::new((1 << 20, 1), &idle, &both).unwrap()).is_none());
        assert!(Switch::of_jump(&Change::new((1 << 20, 1), &idle, &idle).unwrap()).is_none());
    }

    fn possible(targets: &[u64]) -> Possible {
        let targets =
            targets.iter().copied().zip(1..=u8::MAX).map(|(target, value)| (value, target));
        let targets = targets.collect();
        Possible { idle: [0xe9, 0, 0, 0, 0], at: 0x1000, place: 4, targets, code: vec![0; 32] }
    }

    #[test]
    fn pages_are_shared_if_there_is_room() {
        let mut puns = Puns::default();
        let taken = vec![(0x10_0000, 0x20_0000), (0x40_0000, 0x50_0000)];
        let mut layout = Layout { puns: &mut puns, taken, new: Vec::new() };
        let rows: [(&[u64], Option<u64>); 8] = [
            // Something else is there, also where it ends.
            (&[0x10_0000, 0x1f_fff0, 0x3f_fff0, 0x3f_f000], Some(0x3f_f000)),
            // The same page, behind the first one's code; a lower one is free, too.
            (&[0x30_0010, 0x3f_f010, 0x3f_f020], Some(0x3f_f020)),
            (&[0x3f_f030], None),
            (&[0x30_0010, 0x3f_f030], Some(0x30_0010)),
            (&[0x30_0000], None),
            // It's in two pages.
            (&[0x30_1ff0], Some(0x30_1ff0)),
            (&[0x60_0000, 0x30_2010], Some(0x30_2010)),
            (&[], None),
        ];
        for (number, (targets, expected)) in (1..).zip(rows) {
            let planned = layout.choose((number, 0), &[possible(&[]), possible(targets)]);
            assert_eq!(planned.as_ref().map(|one| one.target), expected, "{number}");
            if let Some(one) = planned {
                layout.take(&one);
            }
        }
        assert_eq!(layout.new, [0x3f_f000, 0x30_0000, 0x30_1000, 0x30_2000]);
    }

    /// Targets of each of a thousand functions, for which there's no room.
    #[test]
    fn functions_without_room_are_found_out_soon() {
        let mut puns = Puns::default();
        let layout = Layout { puns: &mut puns, taken: vec![(0, 1 << 47)], new: Vec::new() };
        let began = std::time::Instant::now();
        for function in 0..1000 {
            let targets: Vec<u64> = (0..255).map(|value| value << 16 | function).collect();
            let both = [possible(&targets), possible(&targets)];
            assert!(layout.choose((1, 0), &both).is_none());
        }
        assert!(began.elapsed().as_millis() < 500, "{:?}", began.elapsed());
    }
}
