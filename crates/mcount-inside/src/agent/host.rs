//! The differences in a library: how a thread finds its block, who makes room in the trace, where traced
//! functions return to.

use super::{FILE, IS_RECORDING, disk};
use crate::arch;
use crate::frames;
use mcount_cpu::here::syscalls::number;
use mcount_recorder::block::Block;
use mcount_recorder::pad_table::Pads;
#[cfg(target_pointer_width = "64")]
use mcount_recorder::places::{PIECE, open_of, start_of};
#[cfg(target_pointer_width = "32")]
use mcount_recorder::places::{PIECE, reserve};
use mcount_recorder::{Host, sys};
use mcount_trace::layout as trace;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

const _: () = assert!(PIECE == frames::PIECE);

/// The data of a call besides its record: the words of its handlers.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    who: u64,
    data: u64,
}

impl mcount_recorder::Words for Words {
    /// No handler sees the call.
    fn is_none(self) -> bool {
        self.who & !(frames::OF_PAD | frames::LEFT) == 0
    }

    /// The call is that of a pad.
    fn is_of_pad(self) -> bool {
        self.who & frames::OF_PAD != 0
    }
}

/// The program that this library is linked into.
pub(crate) enum Program {}

// SAFETY: a trace stays mapped as long as a thread may be busy with it (`busy.rs`); blocks stay mapped.
unsafe impl Host for Program {
    type Words = Words;

    fn file() -> *mut u8 {
        FILE.load(SeqCst)
    }

    /// A library isn't told of anything that differs.
    fn flags() -> u64 {
        0
    }

    fn shortest() -> u64 {
        0
    }

    fn shortest_wait() -> u64 {
        0
    }

    /// A library doesn't record what others' functions wait for.
    fn add_short_waits(_id: u32, _count: u64) {}

    fn budget() -> u64 {
        0
    }

    fn depth() -> u64 {
        0
    }

    fn pads() -> Pads {
        arch::pads()
    }

    fn ret_of(slot: u64) -> u64 {
        frames::of(slot).ret as u64
    }

    /// Is `address` one that a traced or a watched function returns to?
    fn is_return(address: u64) -> bool {
        arch::is_return(address)
    }

    /// Has an exception passed through the call of this slot, where it isn't stopped there?
    fn is_left(slot: u64) -> bool {
        // SAFETY: who asks has the shadows of the slot.
        arch::LOOK.is_some() && unsafe { frames::of(slot).who.read_volatile() } & frames::LEFT != 0
    }

    /// Are the words of this slot there, whether anything is recorded or not?
    fn has_words(slot: u64) -> bool {
        frames::cover(slot)
    }

    /// The words of the call that has this slot.
    ///
    /// # Safety
    ///
    /// They're there.
    unsafe fn words(slot: u64) -> Words {
        let frame = frames::of(slot);
        // SAFETY: the caller promises that the slot is on this thread's stack and has shadows.
        unsafe { Words { who: frame.who.read_volatile(), data: frame.data.read_volatile() } }
    }

    /// The slot is again that of the call with these words, if it has any.
    ///
    /// # Safety
    ///
    /// As above.
    unsafe fn put_words(slot: u64, words: Option<Words>, is_pad: bool) {
        let frame = frames::of(slot);
        let of_pad = if is_pad { frames::OF_PAD } else { 0 };
        let Words { who, data } = words.unwrap_or(Words { who: 0, data: 0 });
        // SAFETY: the caller promises that the slot is on this thread's stack and has shadows.
        unsafe {
            frame.data.write_volatile(data);
            frame.who.write_volatile(who & !frames::OF_PAD | of_pad);
        }
    }

    /// Is there a trace to record into?
    fn is_recording() -> bool {
        IS_RECORDING.load(SeqCst)
    }

    /// Has this thread forbidden itself system calls? A library isn't told.
    fn is_confined() -> bool {
        false
    }

    /// Is nothing recorded for now? A library isn't told of limits.
    fn is_paused() -> bool {
        false
    }

    /// Not for a library.
    fn set_paused(_: bool) {}

    /// Where functions return to whose hook is behind the prologue.
    fn late_return() -> u64 {
        arch::late_return()
    }

    /// The block that this thread has; null: none.
    fn current() -> *mut Block {
        arch::block().cast()
    }

    /// Makes `block` this thread's.
    ///
    /// # Safety
    ///
    /// It must live as long as the thread.
    unsafe fn set_current(block: *mut Block) {
        // SAFETY: the caller promises that the slot is on this thread's stack and has shadows.
        unsafe { arch::set_block(block.cast()) };
    }

    /// Takes the addresses of the shadows of a piece of stack, which begins at `stack`.
    fn reserve(stack: u64) -> Option<()> {
        // The caller's address is kept whether calls are traced or not.
        if !frames::cover_piece(stack / PIECE) {
            return None;
        }
        reserve(stack)
    }

    /// Maps a part of the trace a second time. Emulators don't know how that's done with memory; then it's done with the file.
    ///
    /// # Safety
    ///
    /// What is mapped at `to` is replaced, so it must be the library's.
    unsafe fn duplicate(from: u64, size: u64, to: u64) -> bool {
        let offset = from.wrapping_sub(FILE.load(SeqCst) as u64);
        // SAFETY: the caller promises that the slot is on this thread's stack and has shadows.
        unsafe { sys::duplicate(from, size, to) || rooms().map(offset, size, to) }
    }

    /// Bytes of the trace that are mapped, or fewer: those that it may have.
    fn mapped() -> u64 {
        let most = rooms().most.load(SeqCst);
        trace::HEADER_BLOCK.saturating_add(most.saturating_mul(trace::CHUNK_SIZE))
    }

    /// Is there room for the chunk with this number, and for its directory? Who needs it makes some, and some ahead. Two
    /// threads may do that at once; it's done once then.
    fn has_room(ready: &AtomicU64, number: u64) -> bool {
        let Some(full) = Self::header(trace::header::FULL) else { return false };
        let room = rooms();
        loop {
            let now = ready.load(SeqCst);
            if number + 2 <= now {
                return true;
            }
            if full.load(Relaxed) != 0 {
                return false;
            }
            let count = (number + 2 + AHEAD).min(room.most.load(SeqCst));
            let error = if count <= now { libc::EFBIG } else { room.make(now, count) };
            if error != 0 {
                room.error.store(error, SeqCst);
                full.store(1, SeqCst);
                return false;
            }
            ready.fetch_max(count, SeqCst);
        }
    }
}

#[cfg(target_pointer_width = "64")]
/// Takes the addresses of those shadows of a piece of stack, which begins at `stack`, that only a trace needs.
fn reserve(stack: u64) -> Option<()> {
    sys::map(start_of(stack), PIECE, sys::PROT_READ_WRITE)?;
    if sys::map(open_of(stack), PIECE, sys::PROT_READ_WRITE).is_none() {
        // SAFETY: mapped just now, by us.
        unsafe { sys::call(number::MUNMAP, [start_of(stack), PIECE, 0, 0, 0, 0]) };
        return None;
    }
    Some(())
}

/// How many chunks there is room for ahead of need: 2 MiB.
const AHEAD: u64 = 32;
/// Bytes that a trace leaves free on its disk.
const RESERVE: u64 = 16 << 20;

/// The file of the trace, as far as making room in it is concerned.
#[derive(Debug)]
pub(crate) struct Room {
    /// A descriptor, as long as the program hasn't closed it.
    descriptor: AtomicI32,
    /// What tells the file from others that may get the descriptor's number.
    device: AtomicU64,
    file: AtomicU64,
    /// The most chunks that it may have.
    pub(crate) most: AtomicU64,
    /// Why there's no more room: `errno`.
    pub(crate) error: AtomicI32,
}

/// The only one: one trace is recorded at a time.
pub(crate) fn rooms() -> &'static Room {
    static ROOM: Room = Room {
        descriptor: AtomicI32::new(-1),
        device: AtomicU64::new(0),
        file: AtomicU64::new(0),
        most: AtomicU64::new(0),
        error: AtomicI32::new(0),
    };
    &ROOM
}

impl Room {
    /// Makes room in this file from now on, for up to `most` chunks. -1: no more.
    pub(crate) fn set(&self, descriptor: i32, (device, file): (u64, u64), most: u64) {
        self.device.store(device, SeqCst);
        self.file.store(file, SeqCst);
        self.most.store(most, SeqCst);
        self.error.store(0, SeqCst);
        self.descriptor.store(descriptor, SeqCst);
    }

    /// Makes room for `count` chunks, `ready` of which there are already; 0 or `errno`.
    fn make(&self, ready: u64, count: u64) -> i32 {
        let descriptor = self.descriptor.load(SeqCst);
        if !self.is_it(descriptor) {
            // The program has closed all its descriptors.
            return libc::EBADF;
        }
        let start = if ready == 0 { 0 } else { trace::HEADER_BLOCK + ready * trace::CHUNK_SIZE };
        let end = trace::HEADER_BLOCK + count * trace::CHUNK_SIZE;
        if end > most_bytes() {
            return libc::EFBIG;
        }
        if disk::free(descriptor) < RESERVE + (end - start) {
            return libc::ENOSPC;
        }
        // In memory, the kernel begins anew after each signal.
        let before = sys::set_signals(u64::MAX);
        let result = disk::allocate(descriptor, start, end - start);
        sys::set_signals(before);
        i32::try_from(-result).unwrap_or(libc::EIO)
    }

    /// Maps `size` bytes of the file, from `offset` on, at `to`; whether that was possible.
    ///
    /// # Safety
    ///
    /// The new mapping replaces the memory at `to`, so that must be the library's.
    unsafe fn map(&self, offset: u64, size: u64, to: u64) -> bool {
        const MAP_SHARED: u64 = 1;
        let descriptor = self.descriptor.load(SeqCst);
        if !self.is_it(descriptor) {
            return false;
        }
        let file = u64::from(descriptor.cast_unsigned());
        let flags = MAP_SHARED | sys::MAP_FIXED;
        let arguments = [to, size, sys::PROT_READ_WRITE, flags, file, offset];
        // SAFETY: the caller promises that the slot is on this thread's stack and has shadows.
        unsafe { sys::call(number::MMAP, arguments) }.cast_unsigned() == to
    }

    /// Does the descriptor lead to the file?
    pub(crate) fn is_it(&self, descriptor: i32) -> bool {
        if descriptor < 0 {
            return false;
        }
        let here = (self.device.load(SeqCst), self.file.load(SeqCst));
        disk::identity(descriptor) == Some(here)
    }
}

/// The bytes that a file of this process may have. Going beyond would end it by a signal.
pub(crate) fn most_bytes() -> u64 {
    /// `RLIMIT_FSIZE`, a number whose type differs by C library.
    const FILE_SIZE: u64 = 1;
    let mut limit = [u64::MAX; 2];
    // SAFETY: a limit has two words.
    unsafe {
        let number = arch::system_call_number(libc::SYS_prlimit64);
        sys::call(number, [0, FILE_SIZE, 0, limit.as_mut_ptr() as u64, 0, 0]);
    }
    let [soft, _] = limit;
    soft
}
