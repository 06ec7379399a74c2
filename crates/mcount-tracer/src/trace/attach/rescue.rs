//! What a thread that's made to do something finds on its stack if nobody is there any more who'd put it back: the frame of a
//! signal, as if a handler had interrupted it. It returns from that by itself (`rt_sigreturn`), with all its registers.
//!
//! The layout is the kernel's (`struct rt_sigframe`), and a processor's own: there's a file for each, with the same names in it.

#[cfg_attr(target_arch = "x86_64", path = "rescue/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "rescue/aarch64.rs")]
mod here;

use super::maps::{self, Mapping};
use super::remote::Remote;
use super::stop::Thread;
use crate::trace::processor::SYSTEM_CALL;
use crate::trace::tracee::Memory;
use std::io;

/// How many bytes below a multiple of 64 a frame is.
pub(super) const BELOW: u64 = here::BELOW;

/// Where a frame has room below `end`.
pub(super) fn place(end: u64) -> u64 {
    ((end - here::ROOM) & !63) - here::BELOW
}

impl<'m> Remote<'m> {
    /// A thread of a process in which nothing is mapped yet, with code of the program if it has some.
    pub(super) fn first(
        thread: &mut Thread,
        memory: &'m Memory,
        maps: &[Mapping],
    ) -> io::Result<Self> {
        match Shelter::find(memory, maps, thread.registers.stack()) {
            Some(shelter) => Self::sheltered(thread, memory, &shelter),
            None => Self::of(thread, memory, gate(memory, maps)?),
        }
    }

    /// A thread that does what it's told, with a `gate` behind which is `rt_sigreturn`: it goes on by itself if nobody puts it back, by what is written
    /// at `frame`, as much below a multiple of 64 as frames are.
    pub(super) fn rescued(
        thread: &mut Thread,
        memory: &'m Memory,
        (gate, frame): (u64, u64),
    ) -> io::Result<Self> {
        let mut remote = Self::begin(thread, memory, gate)?;
        remote.rescue(gate, frame)?;
        remote.block()?;
        Ok(remote)
    }

    /// The same with code of the program: a frame of a signal on the thread's own stack, as the kernel would write one.
    fn sheltered(thread: &mut Thread, memory: &'m Memory, shelter: &Shelter) -> io::Result<Self> {
        let mut remote = Self::begin(thread, memory, shelter.gate)?;
        remote.prepare(shelter.gate, shelter.frame, shelter.frame)?;
        match here::way_back(shelter.restorer) {
            Some(word) => memory.write(shelter.frame, &word.to_le_bytes())?,
            None => remote.back = Some(shelter.restorer),
        }
        remote.enter()?;
        remote.block()?;
        Ok(remote)
    }

    /// From now on it goes on by itself if nobody puts it back, as for [`Remote::rescued`].
    pub(super) fn rescue(&mut self, gate: u64, frame: u64) -> io::Result<()> {
        self.prepare(gate, frame, frame + here::BELOW)?;
        self.back = None;
        self.enter()
    }

    /// Writes the frame.
    fn prepare(&mut self, gate: u64, frame: u64, stack: u64) -> io::Result<()> {
        let bytes = here::frame(frame, &self.before, self.blocked, &self.state);
        self.memory.write(frame, &bytes)?;
        (self.gate, self.stack) = (gate, Some(stack));
        Ok(())
    }

    /// Has it stand where it'd take the frame.
    fn enter(&self) -> io::Result<()> {
        let mut registers = self.before;
        registers.set_instruction(self.gate + SYSTEM_CALL.len() as u64);
        registers.set_stack(self.stack.unwrap_or(self.before.stack()));
        if let Some(back) = self.back {
            registers.set_return(back);
        }
        registers.forget_call();
        self.thread.set_registers(&registers)
    }
}

/// What a program has of its own for that, as long as nothing is mapped for it.
#[derive(Debug, Clone, Copy)]
struct Shelter {
    /// A system call and a return.
    gate: u64,
    /// Where signal handlers of its C library return to: `rt_sigreturn`.
    restorer: u64,
    /// Where the frame is to be.
    frame: u64,
}

impl Shelter {
    /// `None` if the program has no such code, or if the thread whose stack pointer this is doesn't stand on the large stack that the
    /// kernel has made: on another one a frame might have no room.
    fn find(memory: &Memory, maps: &[Mapping], stack: u64) -> Option<Self> {
        /// What belongs to a function below its stack pointer.
        const RED_ZONE: u64 = 128;
        const ROOM: u64 = 16 << 10;
        let map = maps::find(maps, stack).filter(|map| map.path.as_os_str() == "[stack]")?;
        stack.checked_sub(ROOM).filter(|lowest| map.has(*lowest))?;
        let frame = place(stack - RED_ZONE);
        let (gate, restorer) = borrowed(memory, maps)?;
        Some(Self { gate, restorer, frame })
    }
}

/// The code of a [`Shelter`]. C libraries have it, and programs that are linked with one.
fn borrowed(memory: &Memory, maps: &[Mapping]) -> Option<(u64, u64)> {
    const MOST: u64 = 4 << 20;
    let is_library = |map: &Mapping| {
        let name = map.path.file_name().map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| name.starts_with("libc.") || name.starts_with("ld-musl"))
    };
    let mut all: Vec<&Mapping> = maps.iter().filter(|map| map.is_code() && map.is_file()).collect();
    all.sort_by_key(|map| !is_library(map));
    let find = |map: &Mapping, code: &[u8]| {
        let mut bytes = vec![0; usize::try_from((map.end - map.start).min(MOST)).ok()?];
        memory.read(map.start, &mut bytes).ok()?;
        memchr::memmem::find(&bytes, code).map(|at| map.start + at as u64)
    };
    let kernels = maps.iter().find(|map| map.path.as_os_str() == "[vdso]");
    let restorer = |map| find(kernels.filter(|_| here::IS_KERNELS).unwrap_or(map), here::RESTORER);
    // The program itself is the first one otherwise.
    all.into_iter().take(2).find_map(|map| Some((find(map, here::GATE)?, restorer(map)?)))
}

/// A system call in what is mapped: the kernel's own code has one.
fn gate(memory: &Memory, maps: &[Mapping]) -> io::Result<u64> {
    const MOST: u64 = 4 << 20;
    let is_kernels = |map: &&Mapping| map.path.as_os_str() == "[vdso]";
    let others = maps.iter().filter(|map| map.is_code() && map.is_file());
    for map in maps.iter().filter(is_kernels).chain(others) {
        let size = usize::try_from((map.end - map.start).min(MOST)).unwrap_or(0);
        let mut bytes = vec![0; size];
        if memory.read(map.start, &mut bytes).is_ok()
            && let Some(found) = memchr::memmem::find(&bytes, SYSTEM_CALL)
        {
            return Ok(map.start + found as u64);
        }
    }
    Err(io::Error::other("it has no system call to borrow"))
}
