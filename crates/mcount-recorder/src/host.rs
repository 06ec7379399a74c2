//! What is different in the agent and in a library: how a thread finds its block, who makes room in the trace, where traced
//! functions return to.
//!
//! Both sides of it are types without values, so that the compiler makes code for each, and calls nothing by a pointer.

use crate::block::Block;
use crate::pad_table::Pads;
use crate::payload::Values;
use core::sync::atomic::AtomicU64;

/// The program that the recorder is a part of.
///
/// # Safety
///
/// Memory whose address a function hands out is there, aligned, and stays as long as that function says.
pub unsafe trait Host: 'static {
    /// What is kept of a call besides where and when it began.
    type Words: Words;

    /// Where the trace is mapped, as long as a thread may be busy with it; null: there's none.
    fn file() -> *mut u8;

    /// Bits of [`flags`](crate::abi::flags).
    fn flags() -> u64;

    /// Calls of fewer ticks aren't recorded.
    fn shortest() -> u64;

    /// Calls of functions that may wait ([`WAITS`](crate::abi::class::WAITS)) of fewer ticks are only counted.
    fn shortest_wait() -> u64;

    /// Counts calls of function `id`, which may wait, that were too short to be recorded.
    fn add_short_waits(id: u32, count: u64);

    /// How many calls may be nested and recorded at the start of a thread.
    fn budget() -> u64;

    /// The same beneath a function of class [`UNDER`](crate::abi::class::UNDER).
    fn depth() -> u64;

    /// Is there a trace to record into?
    fn is_recording() -> bool;

    /// Has this thread forbidden itself system calls that the recorder needs?
    fn is_confined() -> bool;

    /// Is nothing recorded for now?
    fn is_paused() -> bool;

    /// Nothing is recorded from now on, in no thread of this process; or everything is.
    fn set_paused(is_paused: bool);

    /// Bytes of the trace that are mapped, or fewer: those that it may have.
    fn mapped() -> u64;

    /// Is there room for the chunk with this number, and for its directory? `ready` is how many there is room for, a field of the
    /// trace's header.
    fn has_room(ready: &AtomicU64, number: u64) -> bool;

    /// The block that this thread has, or that the one had which made it; null: none. Blocks stay for ever.
    fn current() -> *mut Block;

    /// Makes `block` this thread's.
    ///
    /// # Safety
    ///
    /// It must live as long as the thread, and have its number.
    unsafe fn set_current(block: *mut Block);

    /// Is `address` one that a traced or a watched function returns to?
    fn is_return(address: u64) -> bool;

    /// Where functions return to whose hook is behind the prologue.
    fn late_return() -> u64;

    /// Where the pads are (`pads.rs`).
    fn pads() -> Pads;

    /// Where the caller's address is kept of the slot at this address.
    fn ret_of(slot: u64) -> u64;

    /// Is what RET of this slot has of a frame that's gone for certain?
    fn is_left(_slot: u64) -> bool {
        false
    }

    /// Takes the addresses of the shadows of a piece of stack, which begins at `stack`.
    fn reserve(stack: u64) -> Option<()>;

    /// Maps a part of the trace a second time; `false` if that can't be done.
    ///
    /// # Safety
    ///
    /// What is mapped at `to` is replaced, so it must be a shadow's, which [`Host::reserve`] has taken.
    unsafe fn duplicate(from: u64, size: u64, to: u64) -> bool;

    /// Are the words of this slot there, whether anything is recorded or not?
    fn has_words(slot: u64) -> bool;

    /// The words of the call that has this slot.
    ///
    /// # Safety
    ///
    /// They're there.
    unsafe fn words(slot: u64) -> Self::Words;

    /// The slot is again that of the call with these words, if it has any.
    ///
    /// # Safety
    ///
    /// They're there.
    unsafe fn put_words(slot: u64, words: Option<Self::Words>, is_pad: bool);

    /// What is recorded of every call when it ends, if [`COUNTERS`](crate::abi::flags::COUNTERS) is set.
    fn at_end(_block: *mut Block) -> Values {
        Values::NONE
    }

    /// The counter at this offset of the trace's header.
    fn header(offset: usize) -> Option<&'static AtomicU64> {
        let file = Self::file();
        // SAFETY: the header is mapped as long as anybody uses the trace, which is promised of `file`; its fields are aligned.
        (!file.is_null()).then(|| unsafe { &*file.wrapping_add(offset).cast::<AtomicU64>() })
    }
}

/// What is kept of a call besides where and when it began.
pub trait Words: Copy {
    /// It's nothing that has to be kept if nothing is recorded.
    fn is_none(self) -> bool;

    /// The call is that of a pad.
    fn is_of_pad(self) -> bool;
}
