//! What is the agent's own, and different where the same sources are part of a library (`crates/mcount-inside`): how a
//! thread finds its block, who makes room in the trace, where traced functions return to.

use super::block::Block;
use super::numbers::{LIMITED, NEST, OPEN, PIECE, RET, START, has};
use super::processor::number;
use super::{config, layout as trace, mcount_config, sys};
use core::arch::asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

unsafe extern "C" {
    static mcount_stubs: u8;
    static mcount_stubs_end: u8;
    static mcount_pg_return: u8;
    static mcount_landing: u8;
}

/// A flag of the configuration: `wrgsbase` may be used. The others are in `numbers.rs`.
const FSGSBASE: u64 = 1;

/// The recorder has attached to the program, and will leave it.
const ATTACHED: u64 = 16;

const PROT_NONE: u64 = 0;

/// What `%gs` points to before a thread has a block: one without an owner.
#[unsafe(no_mangle)]
static mut mcount_nobody: [u64; 16] = nobody(0);

/// The same for a thread that begins with system calls forbidden that the agent needs.
#[unsafe(no_mangle)]
static mut mcount_confined: [u64; 16] = nobody(1);

const fn nobody(confined: u64) -> [u64; 16] {
    let mut words = [0; 16];
    words[offset_of!(Block, confined) / 8] = confined;
    words[offset_of!(Block, is_none) / 8] = 1;
    words
}

/// A thread of this process has, or its parent had.
static IS_ANYBODY_CONFINED: AtomicU32 = AtomicU32::new(0);

/// Has this thread forbidden itself system calls that the agent needs? A forked child's block is wiped, so it
/// has if anybody had before.
pub(crate) fn is_confined() -> bool {
    let (confined, is_none, this): (u64, u64, u64);
    // SAFETY: `%gs` points to a block, or to what has the same layout.
    unsafe {
        asm!("mov {}, gs:[{confined}]", "mov {}, gs:[{is_none}]", "mov {}, gs:[{this}]",
            out(reg) confined, out(reg) is_none, out(reg) this, confined = const offset_of!(Block, confined),
            is_none = const offset_of!(Block, is_none), this = const offset_of!(Block, this),
            options(nostack, readonly));
    }
    confined != 0 || (is_none == 0 && this == 0 && IS_ANYBODY_CONFINED.load(Relaxed) != 0)
}

/// This thread is going to forbid itself system calls.
pub(crate) fn confine() {
    IS_ANYBODY_CONFINED.store(1, SeqCst);
    let block = current();
    // SAFETY: blocks stay mapped; so does what a thread without one has.
    unsafe {
        if block.is_null() {
            set_current((&raw mut mcount_confined).cast());
        } else {
            confine_other(block);
        }
    }
}

/// The thread that has this block is, too.
pub(crate) fn confine_other(block: *mut Block) {
    // SAFETY: blocks stay mapped.
    unsafe { (&raw mut (*block).confined).write_volatile(1) };
}

/// So are all those that have no block yet.
pub(crate) fn confine_new_ones() {
    confine_other((&raw mut mcount_nobody).cast());
}

/// Is `address` one that a traced function returns to?
pub(crate) fn is_return(address: u64) -> bool {
    let stubs = (&raw const mcount_stubs) as u64..(&raw const mcount_stubs_end) as u64;
    (stubs.contains(&address) && address & 31 == 16) || address == (&raw const mcount_pg_return) as u64
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

/// Where functions return to whose hook is behind the prologue.
pub(crate) fn late_return() -> u64 {
    (&raw const mcount_pg_return) as u64
}

/// Where exceptions go that pass through a traced call.
pub(crate) fn landing() -> u64 {
    (&raw const mcount_landing) as u64
}

/// The block that this thread has, or that the one had which made it; null: none.
pub(crate) fn current() -> *mut Block {
    let found: u64;
    // SAFETY: `%gs` points to a block, or to `mcount_nobody`, whose eighth word is 0.
    unsafe { asm!("mov {}, gs:56", out(reg) found, options(nostack, readonly)) };
    found as *mut Block
}

/// Makes `block` this thread's.
///
/// # Safety
///
/// It must live as long as the thread.
pub(crate) unsafe fn set_current(block: *mut Block) {
    if has(FSGSBASE) {
        // SAFETY: the recorder has seen that the kernel allows it.
        unsafe { asm!("wrgsbase {}", in(reg) block, options(nostack, nomem)) };
    } else {
        const ARCH_SET_GS: u64 = 0x1001;
        // SAFETY: the caller's.
        unsafe { sys::call(158, [ARCH_SET_GS, block as u64, 0, 0, 0, 0]) };
    }
}

/// Takes the addresses of the shadows of a piece of stack, which begins at `stack`.
pub(crate) fn reserve(stack: u64) -> Option<()> {
    let wanted = [
        (stack ^ RET, sys::PROT_READ_WRITE),
        (stack ^ START, PROT_NONE),
        (stack ^ OPEN, PROT_NONE),
        (stack ^ NEST, sys::PROT_READ_WRITE),
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
/// What is mapped at `to` is replaced, so it must be the agent's.
pub(crate) unsafe fn duplicate(from: u64, size: u64, to: u64) -> bool {
    // SAFETY: the caller's.
    unsafe { sys::duplicate(from, size, to) }
}

/// The counter at this offset of the trace's header.
pub(crate) fn header(offset: usize) -> Option<&'static AtomicU64> {
    let file = config().file;
    // SAFETY: the header is mapped as long as the program runs, and aligned.
    (!file.is_null()).then(|| unsafe { &*file.add(offset).cast::<AtomicU64>() })
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

