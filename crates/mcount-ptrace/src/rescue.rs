//! The way back of a thread that works for a recorder which has died meanwhile: the frame of a signal on its
//! stack, as if a handler had interrupted it. It returns from that by itself (`rt_sigreturn`), with all its
//! registers.
//!
//! The layout is the kernel's (`struct rt_sigframe`), and a processor's own (`signals.rs` in its folder of `mcount-cpu`).

use crate::memory::Memory;
use crate::remote::Remote;
use crate::stop::Thread;
use crate::tracee::Tracee;
use mcount_cpu::here::outside::{ROLES, SIGNALS, SYSTEM_CALL};
use mcount_hooks::maps::{self, Mapping};
use std::io;

/// How many bytes below a multiple of 64 a frame is.
pub const BELOW: u64 = SIGNALS.below;
/// What belongs to a function below its stack pointer.
const RED_ZONE: u64 = 128;

/// Where a frame has room below `end`.
#[must_use]
pub fn place(end: u64) -> u64 {
    ((end - SIGNALS.room) & !63) - SIGNALS.below
}

/// A thread to be made to do something whose process has code for that, and a stack.
#[derive(Debug, Clone, Copy)]
pub struct Rescue {
    /// A system call, behind which is `rt_sigreturn`.
    pub gate: u64,
    /// Where the frame is to be written, as many bytes below a multiple of 64 as [`BELOW`] says.
    pub frame: u64,
}

impl<'m> Remote<'m> {
    /// A thread that is inside `exec`: it comes out of there, to where its program begins. Until then the kernel would take what's
    /// in its registers for the result.
    ///
    /// # Errors
    ///
    /// As for [`Remote::first`].
    pub fn at_exec(thread: Tracee, memory: &'m Memory, maps: &[Mapping]) -> io::Result<Self> {
        let mut signals = Vec::new();
        thread.run_to_system_call(&mut signals)?;
        // Not before: on RISC-V, the result is in a register that the program begins with.
        let mut stopped = Thread::of(thread)?;
        let mut remote = Self::first(&mut stopped, memory, maps)?;
        remote.signals.append(&mut signals);
        Ok(remote)
    }

    /// A thread of a process in which nothing is mapped yet, with code of the program if it has some.
    ///
    /// # Errors
    ///
    /// The process has no code that makes a system call, or it ends.
    pub fn first(thread: &mut Thread, memory: &'m Memory, maps: &[Mapping]) -> io::Result<Self> {
        match Shelter::find(memory, maps, thread.registers.stack()) {
            Some(shelter) => Self::sheltered(thread, memory, &shelter),
            None => Self::of(thread, memory, gate(memory, maps)?),
        }
    }

    /// A thread that does what it's told, and goes on by itself if its recorder dies.
    ///
    /// # Errors
    ///
    /// The process ends, or has nothing mapped where the frame is to be.
    pub fn rescued(thread: &mut Thread, memory: &'m Memory, by: Rescue) -> io::Result<Self> {
        let mut remote = Self::begin(thread, memory, by.gate)?;
        remote.rescue(by)?;
        remote.block()?;
        Ok(remote)
    }

    /// The same with code of the program: a frame of a signal on the thread's own stack, as the kernel would write one.
    fn sheltered(thread: &mut Thread, memory: &'m Memory, shelter: &Shelter) -> io::Result<Self> {
        let mut remote = Self::begin(thread, memory, shelter.gate)?;
        remote.prepare(shelter.gate, shelter.frame, shelter.frame)?;
        match ROLES.link {
            None => memory.write(shelter.frame, &shelter.restorer.to_le_bytes())?,
            Some(_) => remote.back = Some(shelter.restorer),
        }
        remote.enter()?;
        remote.block()?;
        Ok(remote)
    }

    /// From now on it goes on by itself if its recorder dies.
    ///
    /// # Errors
    ///
    /// As for [`Remote::rescued`].
    pub fn rescue(&mut self, by: Rescue) -> io::Result<()> {
        self.prepare(by.gate, by.frame, by.frame + SIGNALS.below)?;
        self.back = None;
        self.enter()
    }

    /// The same by a frame on the thread's own stack; the end of the stack that functions have then.
    ///
    /// # Errors
    ///
    /// As for [`Remote::rescued`].
    pub fn rescue_on_stack(&mut self, gate: u64) -> io::Result<u64> {
        let frame = place(self.before.stack() - RED_ZONE);
        self.rescue(Rescue { gate, frame })?;
        Ok(frame + SIGNALS.below)
    }

    /// Writes the frame.
    fn prepare(&mut self, gate: u64, frame: u64, stack: u64) -> io::Result<()> {
        let bytes = (SIGNALS.write)(frame, self.before.words(), self.blocked, &self.state);
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

/// The program's own means for that, as long as nothing is mapped for it.
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
        const ROOM: u64 = 16 << 10;
        let map = maps::find(maps, stack).filter(|map| map.path.as_os_str() == "[stack]")?;
        stack.checked_sub(ROOM).filter(|lowest| map.has(*lowest))?;
        let frame = place(stack - RED_ZONE);
        let Borrowed { gate, restorer } = borrowed(memory, maps)?;
        Some(Self { gate, restorer, frame })
    }
}

/// The code of a [`Shelter`].
struct Borrowed {
    gate: u64,
    restorer: u64,
}

/// Bytes of a mapping that are searched.
const MOST: u64 = 4 << 20;

/// C libraries have such code, and programs that are linked with one.
fn borrowed(memory: &Memory, maps: &[Mapping]) -> Option<Borrowed> {
    let is_library = |map: &Mapping| {
        let name = map.path.file_name().map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| name.starts_with("libc.") || name.starts_with("ld-musl"))
    };
    let mut all: Vec<&Mapping> = maps.iter().filter(|map| map.is_code() && map.is_file()).collect();
    all.sort_by_key(|map| !is_library(map));
    let find = |map: &Mapping, code: &[u8]| find(memory, map, code);
    let kernels = maps.iter().find(|map| map.path.as_os_str() == "[vdso]");
    let kernels = kernels.filter(|_| SIGNALS.is_restorer_kernels);
    let restorer = |map| find(kernels.unwrap_or(map), SIGNALS.restorer);
    // The program itself is the first one otherwise.
    all.into_iter()
        .take(2)
        .find_map(|map| Some(Borrowed { gate: find(map, SIGNALS.gate)?, restorer: restorer(map)? }))
}

/// Where `code` is in a mapping.
fn find(memory: &Memory, map: &Mapping, code: &[u8]) -> Option<u64> {
    let mut bytes = vec![0; usize::try_from((map.end - map.start).min(MOST)).ok()?];
    memory.read(map.start, &mut bytes).ok()?;
    memchr::memmem::find(&bytes, code).map(|at| map.start + at as u64)
}

/// A system call in what is mapped: the kernel's own code has one.
fn gate(memory: &Memory, maps: &[Mapping]) -> io::Result<u64> {
    let is_kernels = |map: &&Mapping| map.path.as_os_str() == "[vdso]";
    let others = maps.iter().filter(|map| map.is_code() && map.is_file());
    let mut all = maps.iter().filter(is_kernels).chain(others);
    let found = all.find_map(|map| find(memory, map, SYSTEM_CALL));
    found
        .ok_or_else(|| io::Error::other("cannot inject a system call: no thread is stopped at one"))
}
