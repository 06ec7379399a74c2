//! Has functions with probes be as they were while these are idle: finds room for what their jumps lead to, maps it, and puts back what the probes
//! took. All threads stand while that's done. For which there's no room, and which cost too much, are as they were for good.

use super::block::in_memory;
use super::maps;
use super::puns::{Layout, Planned, Possible, pages, taken};
use super::session::Session;
use super::sites;
use crate::trace::processor;
use mcount_cpu::probe::Pun;
use mcount_hooks::PAGE;
use mcount_ptrace::{Standing, Target};
use nix::libc;
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::io;

/// The file in memory that the pages are of.
const FILE: &CStr = c"mcount-jumps";
/// Pages that are mapped at once: it takes as many system calls, while the program stands.
const AT_ONCE: usize = 128;

impl Session {
    /// Has functions with probes, the most important one first, be as they were while these are idle. Threads stop for that. How many were
    /// changed.
    pub(super) fn free_idle(&mut self, functions: &[u32]) -> io::Result<usize> {
        let taken = taken(&maps::read(self.process)?);
        let mut puns = std::mem::take(&mut self.puns);
        let mut layout = Layout { puns: &mut puns, taken, new: Vec::new() };
        let planned = self.plan_puns(functions, &mut layout);
        let content = layout.content(&planned);
        let new = layout.new;
        self.puns = puns;
        let content = content?;
        if planned.is_empty() {
            return Ok(0);
        }
        let mut standing = Standing::of(self.process)?;
        let failed = self.map_pages(&mut standing, &new, &content)?;
        let mut count = 0;
        for one in planned {
            let is_there = !pages(&one.range()).any(|page| failed.contains(&page));
            if is_there && self.free(&one, &new)? {
                self.puns.all.insert(one.change.function, one.change);
                count += 1;
            } else {
                self.puns.refused.insert(one.change.function);
            }
        }
        self.let_go(standing);
        Ok(count)
    }

    /// Puts back for good what probes took from these functions. Threads stop for that. Which ones are as they were now.
    ///
    /// They stay on the list: a process that was made by `fork` before has their probes still. A thread in one's moved instructions goes on
    /// there.
    pub(super) fn leave_out(&mut self, functions: &[u32]) -> io::Result<BTreeSet<u32>> {
        let places = self.puns.places(&self.changes);
        let standing = Standing::of(self.process)?;
        let mut left_out = BTreeSet::new();
        for function in functions {
            let probe = places.get(function).and_then(|place| self.changes.get(*place));
            let Some(probe) = probe.filter(|change| change.is_probe()) else { continue };
            let restored = sites::restore(&self.memory, std::slice::from_ref(probe), &self.rooms);
            // Where that fails, the probe costs what it did.
            if restored.is_ok_and(|count| count != 0) {
                left_out.insert(*function);
            }
        }
        self.puns.left_out.extend(&left_out);
        self.let_go(standing);
        Ok(left_out)
    }

    /// Maps pages with this in them. Those that couldn't be.
    fn map_pages(
        &mut self,
        standing: &mut Standing,
        new: &[u64],
        content: &[u8],
    ) -> io::Result<BTreeSet<u64>> {
        let file = in_memory(FILE, content)?;
        let thread = standing.threads.first_mut().ok_or(io::ErrorKind::NotFound)?;
        let mut remote = self.block.remote(&self.image, thread, &self.memory)?;
        let target = Target { process: self.process, memory: &self.memory };
        let descriptor = self.block.hand_over(&mut remote, target, &file)?;
        let number = |value: i32| u64::from(value.cast_unsigned());
        let protection = number(libc::PROT_READ | libc::PROT_EXEC);
        let flags = number(libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE);
        let mut failed = BTreeSet::new();
        for (page, place) in new.iter().zip(0..) {
            let arguments = [*page, PAGE, protection, flags, descriptor, place * PAGE];
            match remote.call(libc::SYS_mmap, &arguments) {
                Ok(at) if at == *page => self.rooms.push((at, at + PAGE)),
                _ => {
                    self.puns.pages.remove(page);
                    failed.insert(*page);
                }
            }
        }
        remote.call(libc::SYS_close, &[descriptor])?;
        Ok(failed)
    }

    /// Puts back what the probe took from its function. All threads stand. `false` if something else is there.
    fn free(&self, one: &Planned, new: &[u64]) -> io::Result<bool> {
        let Some(probe) = self.changes.get(one.place) else { return Ok(false) };
        let Some(unit) = probe.unit() else { return Ok(false) };
        let mut gate = [0; processor::SWITCH];
        self.memory.read(unit.at, &mut gate)?;
        let Some((gate, on, _)) = processor::switch(unit.at, gate) else { return Ok(false) };
        if !pages(&one.range()).all(|page| new.contains(&page)) {
            self.memory.write(one.target, &one.code)?;
        }
        if sites::restore(&self.memory, std::slice::from_ref(probe), &self.rooms)? == 0 {
            return Ok(false);
        }
        self.memory.write(gate, &on)?;
        Ok(true)
    }

    /// Finds out for which functions there's room.
    fn plan_puns(&self, functions: &[u32], layout: &mut Layout<'_>) -> Vec<Planned> {
        let places = layout.puns.places(&self.changes);
        let mut planned = Vec::new();
        for function in functions {
            if layout.new.len() + 1 >= AT_ONCE {
                break;
            }
            if layout.puns.is_decided(*function) {
                continue;
            }
            let place = places.get(function).copied();
            let chosen = place.and_then(|place| {
                layout.choose((*function, place), &self.possible(place).unwrap_or_default())
            });
            match chosen {
                Some(one) => {
                    layout.take(&one);
                    planned.push(one);
                }
                None => _ = layout.puns.refused.insert(*function),
            }
        }
        planned
    }

    /// What a function can have, whose probe is at this place in the list.
    fn possible(&self, place: usize) -> Option<Vec<Possible>> {
        const MOST: usize = 32;
        let find = processor::PROBES?.puns?;
        let change = self.changes.get(place)?;
        let unit = change.unit().filter(|unit| unit.marker_switch().is_none())?;
        let (idle, moved) = (change.idle(), unit.moved());
        let length = (moved + processor::SITE - 1).clamp(idle.len(), MOST);
        let mut code = [0; MOST];
        self.memory.read(change.at, code.get_mut(..length)?).ok()?;
        code.get_mut(..idle.len())?.copy_from_slice(idle);
        let mut others = self.changes.get(place + 1..)?.iter().map(|other| other.at);
        let next = others.find(|at| *at > change.at).unwrap_or(u64::MAX);
        let possible = |Pun { offset, place, targets, undo }: Pun| {
            let at = change.at + offset as u64;
            // What other functions have there changes.
            if at + processor::SITE as u64 > next {
                return None;
            }
            let idle = *code.get(offset..)?.first_chunk()?;
            let code = [undo.as_slice(), &processor::thunk(unit.at)].concat();
            Some(Possible { idle, at, place, targets, code })
        };
        let found = find(code.get(..length)?, moved, change.at);
        Some(found.into_iter().filter_map(possible).collect())
    }
}
