//! What is asked of a process before it's attached to: whether the agent's place is free, and where there's room near modules that are too
//! far from the agent.

use super::block::{Block, FILE, about_memory, in_memory, is_ours, map_file};
use super::maps::{self, Mapping};
use super::program::{Loaded, Program};
use crate::trace::image::Image;
use crate::trace::space::{gaps, reaches};
use mcount_ptrace::resume::ResumePoint;
use mcount_ptrace::{Memory, Remote, Target, Thread};
use nix::libc;
use std::collections::HashMap;
use std::io;

/// Why a module can't be armed.
pub(super) const NO_ROOM: &str = "no free memory as near as jumps reach";

/// Does a thread go on in the agent, whose code is at `code`, or in one of the rooms?
pub(super) fn is_inside(
    places: &[Vec<ResumePoint>],
    rooms: &[(u64, u64)],
    code: (u64, u64),
) -> bool {
    let is_there = |place: &ResumePoint| {
        let mut all = rooms.iter().chain([&code]);
        all.any(|(from, to)| (*from..*to).contains(&place.address))
    };
    places.iter().flatten().any(is_there)
}

/// Fails if another recorder that lives has this process.
pub(super) fn is_free(block: &Block, memory: &Memory, process: i32) -> io::Result<()> {
    if block.is_copied(memory, process)? {
        return Ok(());
    }
    let (owner, start) = block.owner(memory)?;
    let owner = i32::try_from(owner).unwrap_or(0);
    if owner != 0 && super::start_of(owner).is_some_and(|found| found == start) {
        let text = format!("mcount attach (process {owner}) is attached to it already");
        return Err(io::Error::other(text));
    }
    Ok(())
}

/// A process whose recorder is the one that holds this. Others would write their stubs where it writes its own, so they
/// have to know of it before anything is armed.
pub(super) struct Claim {
    block: Block,
    memory: Memory,
    is_kept: bool,
}

impl Claim {
    /// All threads of `process` stand.
    pub(super) fn new(block: Block, process: i32, owner: (u64, u64)) -> io::Result<Self> {
        let claim = Self { block, memory: Memory::open(process)?, is_kept: false };
        claim.block.set_claimed(&claim.memory, process)?;
        claim.block.set_owner(&claim.memory, owner)?;
        Ok(claim)
    }

    /// The process stays the owner's, and so do those that it makes from now on.
    pub(super) fn keep(mut self) -> io::Result<()> {
        self.is_kept = true;
        self.block.set_claimed(&self.memory, 0)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.is_kept {
            // If it has ended, it's nobody's.
            let _ = self.block.set_owner(&self.memory, (0, 0));
        }
    }
}

/// Makes room for thunks near all modules that are out of the agent's reach: others of their functions may be wanted later.
pub(super) fn make_room(
    program: &Program,
    (image, block): (&Image, &Block),
    remote: &mut Remote<'_>,
    (memory, maps): (&Memory, &[Mapping]),
) -> io::Result<HashMap<usize, u64>> {
    let mut near = HashMap::new();
    let mut taken: Vec<(u64, u64)> = maps::ranges(maps);
    for (place, one) in program.loaded.iter().enumerate() {
        let Some(module) = program.module(one) else { continue };
        let (extent, size) = (one.extent(module), Loaded::thunks(module));
        let reach = module.reach();
        if size == 0 || reaches(extent, block.stubs(image), reach) {
            continue;
        }
        let is_usable = |map: &&Mapping| {
            is_ours(map)
                && map.is_code()
                && map.start != block.code(image).0
                && map.end - map.start >= size
                && reaches(extent, (map.start, map.end), reach)
                && !near.values().any(|start| *start == map.start)
        };
        let start = if let Some(map) = maps.iter().find(is_usable) {
            map.start
        } else {
            let Some(start) = gaps(&taken, extent, size, reach).next() else {
                if module.hooks.iter().any(|hook| hook.is_wanted) {
                    return Err(io::Error::other(NO_ROOM));
                }
                continue;
            };
            let file = in_memory(FILE, &[])?;
            file.set_len(size).map_err(|error| about_memory(FILE, error))?;
            let descriptor =
                block.hand_over(remote, Target { process: program.process, memory }, &file)?;
            let protection = libc::PROT_READ | libc::PROT_EXEC;
            let mapped = map_file(remote, (start, size), protection, (descriptor, 0));
            remote.call(libc::SYS_close, &[descriptor])?;
            mapped?;
            taken.push((start, start + size));
            start
        };
        near.insert(place, start);
    }
    Ok(near)
}

/// Has the program itself, or an agent that isn't this one, a use for what leads threads to their blocks? Where no register does, that's not
/// seen in the thread.
pub(super) fn uses_block(thread: &Thread, maps: &[Mapping]) -> bool {
    match thread.registers.block() {
        Some(block) => block != 0,
        None => maps.iter().any(is_ours),
    }
}
