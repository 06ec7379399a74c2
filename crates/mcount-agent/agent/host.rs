//! What is the agent's own, and different where the recorder is part of a library (`crates/mcount-inside`): how a
//! thread finds its block, who makes room in the trace, where traced functions return to.

use super::{blocks, config, counters, mcount_config, returns};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use mcount_cpu::here::syscalls::number;
use mcount_layout as trace;
use mcount_recorder::abi::flags::{ATTACHED, LIMITED};
use mcount_recorder::abi::{SHORT_WAITS, WORDS};
use mcount_recorder::block::Block;
use mcount_recorder::numbers::has;
use mcount_recorder::pad_table::Pads;
use mcount_recorder::payload::Values;
use mcount_recorder::places::{self, PIECE, nest_of, open_of, start_of};
use mcount_recorder::{Host, sys};

const PROT_NONE: u64 = 0;

/// How many calls of functions that may wait were too short to be recorded, by the function's number. The tracer reads it.
#[unsafe(no_mangle)]
static mut mcount_short_waits: [u64; SHORT_WAITS] = [0; SHORT_WAITS];

/// Words by which calls of library functions go on, while a tracer is attached. The dynamic linker fills them in.
#[unsafe(no_mangle)]
static mut mcount_words: [u64; WORDS] = [0; WORDS];

/// What is kept of a call besides where and when it began: the word of `limit.rs`.
#[derive(Clone, Copy)]
pub(crate) struct Words(u64);

impl mcount_recorder::Words for Words {
    /// It's nothing that has to be kept if nothing is recorded.
    fn is_none(self) -> bool {
        true
    }

    /// OPN says whose it is.
    fn is_of_pad(self) -> bool {
        false
    }
}

/// Waits a millisecond or so without the kernel.
fn pause_for_long() {
    for _ in 0..30_000 {
        core::hint::spin_loop();
    }
}

/// The agent.
pub(crate) enum Agent {}

// SAFETY: the tracer maps the trace before anything is recorded, and has no thread in the agent when that goes; blocks stay mapped.
unsafe impl Host for Agent {
    type Words = Words;

    fn file() -> *mut u8 {
        config().file
    }

    fn flags() -> u64 {
        config().flags
    }

    fn shortest() -> u64 {
        config().shortest
    }

    fn shortest_wait() -> u64 {
        config().shortest_wait
    }

    fn add_short_waits(id: u32, count: u64) {
        let counts = (&raw mut mcount_short_waits).cast::<u64>();
        // SAFETY: within the counts, which are words that others change in this way only.
        let of = unsafe { AtomicU64::from_ptr(counts.wrapping_add(id as usize % SHORT_WAITS)) };
        of.fetch_add(count, Relaxed);
    }

    fn budget() -> u64 {
        config().budget
    }

    fn depth() -> u64 {
        config().depth
    }

    fn current() -> *mut Block {
        blocks::current()
    }

    unsafe fn set_current(block: *mut Block) {
        // SAFETY: the caller promises that it lives as long as the thread, and has its number.
        unsafe { blocks::set_current(block) };
    }

    fn is_confined() -> bool {
        blocks::is_confined()
    }

    fn at_end(block: *mut Block) -> Values {
        // SAFETY: whoever records a call has its thread's block.
        unsafe { counters::at_end::<Self>(block) }
    }

    fn is_return(address: u64) -> bool {
        returns::is_return(address)
    }

    fn late_return() -> u64 {
        returns::late_return()
    }

    fn pads() -> Pads {
        returns::pads()
    }

    fn ret_of(slot: u64) -> u64 {
        places::ret_of(slot)
    }

    /// Is there a trace to record into? The agent has one as long as it lives.
    fn is_recording() -> bool {
        true
    }

    /// Is nothing recorded for now?
    fn is_paused() -> bool {
        // SAFETY: an aligned word that others may change at any time.
        unsafe { (&raw const mcount_config.is_paused).read_volatile() != 0 }
    }

    /// Nothing is recorded from now on, in no thread of this process; or everything is.
    fn set_paused(is_paused: bool) {
        // SAFETY: an aligned word that others may change at any time.
        unsafe { (&raw mut mcount_config.is_paused).write_volatile(u64::from(is_paused)) };
    }

    /// Are the words of this slot there if nothing is recorded?
    fn has_words(_slot: u64) -> bool {
        false
    }

    /// The words of the call that has this slot.
    ///
    /// # Safety
    ///
    /// They're there.
    unsafe fn words(slot: u64) -> Words {
        if !has::<Self>(LIMITED) {
            return Words(0);
        }
        // SAFETY: the caller promises that they're there: the shadow is mapped where it's needed.
        Words(unsafe { (nest_of(slot) as *const u64).read_volatile() })
    }

    /// The slot is again that of the call with these words.
    ///
    /// # Safety
    ///
    /// As above.
    unsafe fn put_words(slot: u64, words: Option<Words>, _is_pad: bool) {
        if let Some(Words(nest)) = words.filter(|_| has::<Self>(LIMITED)) {
            // SAFETY: the caller promises that they're there.
            unsafe { (nest_of(slot) as *mut u64).write_volatile(nest) };
        }
    }

    /// Takes the addresses of the shadows of a piece of stack, which begins at `stack`.
    fn reserve(stack: u64) -> Option<()> {
        let wanted = [
            (Self::ret_of(stack), sys::PROT_READ_WRITE),
            (start_of(stack), PROT_NONE),
            (open_of(stack), PROT_NONE),
            (nest_of(stack), sys::PROT_READ_WRITE),
        ];
        // Where recorders come and go, the next one may be told of limits.
        let count = if has::<Self>(LIMITED) || has::<Self>(ATTACHED) { 4 } else { 3 };
        for (at, (address, protection)) in wanted.into_iter().take(count).enumerate() {
            if sys::map(address, PIECE, protection).is_none() {
                for (mapped, _) in wanted.into_iter().take(at) {
                    // SAFETY: mapped just now, by us.
                    unsafe { sys::call(number::MUNMAP, [mapped, PIECE, 0, 0, 0, 0]) };
                }
                return None;
            }
        }
        Some(())
    }

    /// Maps a part of the trace a second time.
    ///
    /// # Safety
    ///
    /// What is mapped at `to` is replaced, so it must be the agent's.
    unsafe fn duplicate(from: u64, size: u64, to: u64) -> bool {
        // SAFETY: the caller promises that what is mapped at `to`, which is replaced, is the agent's.
        unsafe { sys::duplicate(from, size, to) }
    }

    /// Bytes of the trace that are mapped.
    fn mapped() -> u64 {
        config().length
    }

    /// Is there room for the chunk with this number? The recorder makes some ahead; if it is behind, it is waited
    /// for, unless it has ended or the disk is full.
    fn has_room(ready: &AtomicU64, number: u64) -> bool {
        /// Looks at it, the last ones a millisecond apart.
        const PATIENCE: u32 = 1200;
        const QUICK: u32 = 200;
        /// The heartbeat at which it was last waited for in vain: who comes next doesn't wait again.
        static GAVE_UP_AT: AtomicU64 = AtomicU64::new(u64::MAX);
        let (Some(full), Some(heartbeat)) =
            (Self::header(trace::header::FULL), Self::header(trace::header::HEARTBEAT))
        else {
            return false;
        };
        let mut heard = heartbeat.load(Relaxed);
        let mut waited = 0;
        while number + 2 > ready.load(SeqCst) {
            if full.load(Relaxed) != 0 || heard == GAVE_UP_AT.load(Relaxed) {
                return false;
            }
            if waited == PATIENCE {
                GAVE_UP_AT.store(heard, Relaxed);
                return false;
            }
            if Self::is_confined() {
                pause_for_long();
            } else if waited < QUICK {
                sys::yield_now();
            } else {
                sys::sleep_a_millisecond();
            }
            waited += 1;
            if heartbeat.load(Relaxed) != heard {
                heard = heartbeat.load(Relaxed);
                waited = 0;
            }
        }
        true
    }
}
