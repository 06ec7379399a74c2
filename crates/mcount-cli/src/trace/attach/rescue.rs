//! What a thread that's made to do something finds on its stack if nobody is there any more who'd put it back: the frame of a
//! signal, as if a handler had interrupted it. It returns from that by itself (`rt_sigreturn`), with all its registers.
//!
//! The layout is the kernel's (`struct rt_sigframe`, `<asm/sigcontext.h>`).

use super::maps::{self, Mapping};
use super::remote::Remote;
use super::stop::Thread;
use crate::trace::processor::{Registers, SYSTEM_CALL};
use crate::trace::tracee::Memory;
use std::io;

/// The frame's own flags: vector registers are there, and the segment of the stack is to be restored.
const FLAGS: u64 = 7;
/// No such stack for signals: the thread keeps the one that it has.
const NO_STACK: u64 = 0xff;
const CONTEXT: usize = 48;
const STATE_POINTER: usize = CONTEXT + 184;
const MASK: usize = CONTEXT + 256;
/// Bytes of the frame before the vector registers.
const SIZE: usize = 512;
/// Where in the vector registers it's said what they are.
const SAYS: usize = 464;
const BEGIN: u32 = 0x4650_5853;
const END: u32 = 0x4650_5845;
/// The last register that every thread has room for is that of protection keys; then come tiles.
const MOST_STATE: usize = 2696;
const TILES: u64 = 3 << 17;
/// Segments of code and stack, in 64-bit programs.
const SEGMENTS: u64 = 0x33 | 0x2b << 48;

impl<'m> Remote<'m> {
    /// A thread that does what it's told, with a `gate` behind which is `rt_sigreturn`: it goes on by itself if nobody puts it back, by what is written
    /// at `frame`, 8 below a multiple of 64.
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
    pub(super) fn sheltered(
        thread: &mut Thread,
        memory: &'m Memory,
        shelter: &Shelter,
    ) -> io::Result<Self> {
        let mut remote = Self::begin(thread, memory, shelter.gate)?;
        remote.prepare(shelter.gate, shelter.frame, shelter.frame)?;
        memory.write(shelter.frame, &shelter.restorer.to_le_bytes())?;
        remote.enter()?;
        remote.block()?;
        Ok(remote)
    }

    /// From now on it goes on by itself if nobody puts it back, as for [`Remote::rescued`].
    pub(super) fn rescue(&mut self, gate: u64, frame: u64) -> io::Result<()> {
        self.prepare(gate, frame, frame + 8)?;
        self.enter()
    }

    /// Writes the frame.
    fn prepare(&mut self, gate: u64, frame: u64, stack: u64) -> io::Result<()> {
        let bytes = self::frame(frame, &self.before, self.blocked, &self.state.1);
        self.memory.write(frame, &bytes)?;
        (self.gate, self.stack) = (gate, Some(stack));
        Ok(())
    }

    /// Has it stand where it'd take the frame.
    fn enter(&self) -> io::Result<()> {
        let mut registers = self.before;
        registers.set_instruction(self.gate + SYSTEM_CALL.len() as u64);
        registers.set_stack(self.stack.unwrap_or(self.before.stack()));
        registers.forget_call();
        self.thread.set_registers(&registers)
    }
}

/// The bytes of a frame at `at`, which is 8 below a multiple of 64.
pub(super) fn frame(at: u64, registers: &Registers, blocked: u64, state: &[u8]) -> Vec<u8> {
    let r = registers.raw();
    let stack_of_signals = [0, NO_STACK, 0];
    let context = [
        r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx,
        r.rax, r.rcx, r.rsp, r.rip, r.eflags, SEGMENTS, 0, 0, 0, 0,
    ];
    let head = [0, FLAGS, 0].into_iter().chain(stack_of_signals);
    let mut bytes: Vec<u8> = head.chain(context).flat_map(u64::to_le_bytes).collect();
    // The address of the return address is 8 below a multiple of 64, that of the state has to be one.
    let room = SIZE + 8;
    bytes.resize(room, 0);
    let state = state.get(..MOST_STATE).unwrap_or(state);
    let known = state.get(SAYS..).and_then(|bytes| bytes.first_chunk());
    let known = known.map_or(3, |bytes| u64::from_le_bytes(*bytes)) & !TILES;
    bytes.extend_from_slice(state);
    let size = u32::try_from(state.len()).unwrap_or(0);
    let says = [BEGIN.to_le_bytes(), (size + 4).to_le_bytes()].concat();
    let says = [says.as_slice(), &known.to_le_bytes(), &size.to_le_bytes(), &[0; 28]].concat();
    for (place, piece) in [
        (STATE_POINTER, (at + room as u64).to_le_bytes().as_slice()),
        (MASK, &blocked.to_le_bytes()),
        (room + SAYS, &says),
    ] {
        if let Some(room) = bytes.get_mut(place..place + piece.len()) {
            room.copy_from_slice(piece);
        }
    }
    bytes.extend_from_slice(&END.to_le_bytes());
    bytes
}

/// What a program has of its own for that, as long as nothing is mapped for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shelter {
    /// `syscall` and `ret`.
    pub(super) gate: u64,
    /// Where signal handlers of its C library return to: `rt_sigreturn`.
    pub(super) restorer: u64,
    /// Where the frame is to be.
    pub(super) frame: u64,
}

impl Shelter {
    /// `None` if the program has no such code, or if the thread whose stack pointer this is doesn't stand on the large stack that the
    /// kernel has made: on another one a frame might have no room.
    pub(super) fn find(memory: &Memory, maps: &[Mapping], stack: u64) -> Option<Self> {
        /// What belongs to a function below its stack pointer.
        const RED_ZONE: u64 = 128;
        const FRAME: u64 = 4096;
        const ROOM: u64 = 16 << 10;
        let map = maps::find(maps, stack).filter(|map| map.path.as_os_str() == "[stack]")?;
        stack.checked_sub(ROOM).filter(|lowest| map.has(*lowest))?;
        let frame = ((stack - RED_ZONE - FRAME) & !63) - 8;
        let (gate, restorer) = borrowed(memory, maps)?;
        Some(Self { gate, restorer, frame })
    }
}

/// The code of a [`Shelter`]. C libraries have it, and programs that are linked with one.
fn borrowed(memory: &Memory, maps: &[Mapping]) -> Option<(u64, u64)> {
    const GATE: &[u8] = &[0x0f, 0x05, 0xc3];
    // mov $15, %rax; syscall
    const RESTORER: &[u8] = &[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
    const MOST: u64 = 4 << 20;
    let is_library = |map: &Mapping| {
        let name = map.path.file_name().map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| name.starts_with("libc.") || name.starts_with("ld-musl"))
    };
    let mut all: Vec<&Mapping> = maps.iter().filter(|map| map.is_code() && map.is_file()).collect();
    all.sort_by_key(|map| !is_library(map));
    // The program itself is the first one otherwise.
    all.into_iter().take(2).find_map(|map| {
        let mut bytes = vec![0; usize::try_from((map.end - map.start).min(MOST)).ok()?];
        memory.read(map.start, &mut bytes).ok()?;
        let find = |code| memchr::memmem::find(&bytes, code).map(|at| map.start + at as u64);
        Some((find(GATE)?, find(RESTORER)?))
    })
}
