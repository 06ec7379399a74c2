//! What is the agent's own, and different where the same sources are part of a library (`crates/mcount-inside`): how a
//! thread finds its block, who makes room in the trace, where traced functions return to.

use super::block::Block;
use super::numbers::{LIMITED, has};
use super::places::{PIECE, nest_of, open_of, ret_of, start_of};
use super::processor::number;
pub(crate) use super::routines::{
    confine_new_ones, current, is_confined, is_return, late_return, set_current,
};
use super::{config, layout as trace, mcount_config, routines, sys};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// A flag of the configuration: the recorder has attached to the program, and will leave it. The others are in `numbers.rs`.
const ATTACHED: u64 = 16;

const PROT_NONE: u64 = 0;

/// This thread is going to forbid itself system calls.
pub(crate) fn confine() {
    routines::confine(current());
}

/// The thread that has this block is, too.
pub(crate) fn confine_other(block: *mut Block) {
    // SAFETY: blocks stay mapped.
    unsafe { (&raw mut (*block).confined).write_volatile(1) };
}

/// Is there a trace to record into? The agent has one as long as it lives.
pub(crate) fn is_recording() -> bool {
    true
}

/// Is nothing recorded for now?
pub(crate) fn is_paused() -> bool {
    // SAFETY: an aligned word that others may change at any time.
    unsafe { (&raw const mcount_config.is_paused).read_volatile() != 0 }
}

/// Nothing is recorded from now on, in no thread of this process; or everything is.
pub(crate) fn set_paused(is_paused: bool) {
    // SAFETY: as above.
    unsafe { (&raw mut mcount_config.is_paused).write_volatile(u64::from(is_paused)) };
}

/// How many calls of functions that may wait were too short to be recorded, by the function's number. The recorder reads it.
#[unsafe(no_mangle)]
static mut mcount_short_waits: [u64; SHORT_WAITS] = [0; SHORT_WAITS];

/// Words by which calls of library functions go on, while a recorder is attached. The dynamic linker fills them in.
#[unsafe(no_mangle)]
static mut mcount_words: [u64; WORDS] = [0; WORDS];

/// As in `crates/mcount-agent/src/lib.rs`.
const WORDS: usize = 4096;
const SHORT_WAITS: usize = 256;

/// Counts calls of function `id`, which may wait, that were too short to be recorded.
pub(crate) fn add_short_waits(id: u32, count: u64) {
    let counts = &raw mut mcount_short_waits;
    // SAFETY: within the counts, which are words that others change in this way only.
    let of = unsafe { AtomicU64::from_ptr(&raw mut (*counts)[id as usize % SHORT_WAITS]) };
    of.fetch_add(count, Relaxed);
}

/// The data of a call besides its place and start: the word of `limit.rs`.
#[derive(Clone, Copy)]
pub(crate) struct Words(u64);

impl Words {
    /// It's nothing that has to be kept if nothing is recorded.
    pub(crate) fn is_none(self) -> bool {
        true
    }

    /// OPN says whose it is.
    pub(crate) fn is_of_pad(self) -> bool {
        false
    }
}

/// Are the words of this slot there if nothing is recorded?
pub(crate) fn has_words(_slot: u64) -> bool {
    false
}

/// The words of the call that has this slot.
///
/// # Safety
///
/// They're there.
pub(crate) unsafe fn words(slot: u64) -> Words {
    // SAFETY: the caller's; the shadow is mapped where it's needed.
    Words(if has(LIMITED) { unsafe { (nest_of(slot) as *const u64).read_volatile() } } else { 0 })
}

/// The slot is again that of the call with these words.
///
/// # Safety
///
/// As above.
pub(crate) unsafe fn put_words(slot: u64, words: Option<Words>, _is_pad: bool) {
    if let Some(Words(nest)) = words.filter(|_| has(LIMITED)) {
        // SAFETY: the caller's.
        unsafe { (nest_of(slot) as *mut u64).write_volatile(nest) };
    }
}

/// Takes the addresses of the shadows of a piece of stack, which begins at `stack`.
pub(crate) fn reserve(stack: u64) -> Option<()> {
    let wanted = [
        (ret_of(stack), sys::PROT_READ_WRITE),
        (start_of(stack), PROT_NONE),
        (open_of(stack), PROT_NONE),
        (nest_of(stack), sys::PROT_READ_WRITE),
    ];
    // Where recorders come and go, the next one may be told of limits.
    let count = if has(LIMITED) || has(ATTACHED) { 4 } else { 3 };
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
/// The new mapping replaces the memory at `to`, so that must be the agent's.
pub(crate) unsafe fn duplicate(from: u64, size: u64, to: u64) -> bool {
    // SAFETY: the caller promises that what is mapped at `to`, which is replaced, is the agent's.
    unsafe { sys::duplicate(from, size, to) }
}

/// The counter at this offset of the trace's header.
pub(crate) fn header(offset: usize) -> Option<&'static AtomicU64> {
    let file = config().file;
    // SAFETY: the header is mapped as long as the program runs, and aligned.
    (!file.is_null()).then(|| unsafe { &*file.add(offset).cast::<AtomicU64>() })
}

/// Bytes of the trace that are mapped.
pub(crate) fn mapped() -> u64 {
    config().length
}

/// Waits a millisecond or so without the kernel.
fn pause_for_long() {
    for _ in 0..30_000 {
        core::hint::spin_loop();
    }
}

/// Is there room for the chunk with this number? The recorder makes some ahead; if it is behind, it is waited
/// for, unless it has ended or the disk is full.
pub(crate) fn has_room(ready: &AtomicU64, number: u64) -> bool {
    /// Looks at it, the last ones a millisecond apart.
    const PATIENCE: u32 = 1200;
    const QUICK: u32 = 200;
    /// The heartbeat at which it was last waited for in vain: who comes next doesn't wait again.
    static GAVE_UP_AT: AtomicU64 = AtomicU64::new(u64::MAX);
    let (Some(full), Some(heartbeat)) =
        (header(trace::header::FULL), header(trace::header::HEARTBEAT))
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
        if is_confined() {
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
