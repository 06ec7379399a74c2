//! How a thread finds its block: by a register, where the processor has one that programs don't use, or by a table.
//!
//! The agent has no thread-local storage: it comes into programs that run already. So the table has the blocks by their threads' thread
//! pointers. It's in memory that `fork` wipes, as blocks are.
//!
//! A thread pointer alone doesn't say which thread it is: C libraries give a thread's memory to a later one. But they keep the
//! thread's number beside it, where the kernel writes it when the thread begins (`struct pthread` of glibc and musl). Where that
//! isn't found, the kernel is asked at each call.

use crate::config;
use core::mem::offset_of;
use core::sync::atomic::{
    AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst,
};
use mcount_cpu::here::agent::{BLOCK_REGISTER, GET_ROBUST_LIST};
use mcount_cpu::here::syscalls::thread_pointer;
use mcount_recorder::abi::flags::FSGSBASE;
use mcount_recorder::block::Block;
use mcount_recorder::sys;

/// Threads that are known at a time.
const PLACES: usize = 1 << 14;

/// What a register leads to before a thread has a block: one without an owner.
#[unsafe(no_mangle)]
static mut mcount_nobody: Block = Block { is_none: 1, ..Block::EMPTY };

/// The same for a thread that begins with system calls forbidden that the agent needs.
#[unsafe(no_mangle)]
static mut mcount_confined: Block = Block { confined: 1, is_none: 1, ..Block::EMPTY };

/// A thread of this process has forbidden itself system calls, or its parent had.
static IS_ANYBODY_CONFINED: AtomicU32 = AtomicU32::new(0);

/// The block of a thread.
struct Place {
    /// Its thread pointer; 0: it's free.
    thread: AtomicU64,
    block: AtomicU64,
    /// Where its number is; 0: that isn't known.
    number: AtomicU64,
}

/// The table, once there is one.
static TABLE: AtomicU64 = AtomicU64::new(0);

/// Makes what threads need to find their blocks. `false` if there's no memory.
pub(crate) fn start() -> bool {
    if BLOCK_REGISTER.is_some() {
        return true;
    }
    let size = (PLACES * size_of::<Place>()) as u64;
    if TABLE.load(Relaxed) == 0
        && let Some(found) = sys::map_wiped_on_fork(size)
    {
        TABLE.store(found, SeqCst);
    }
    TABLE.load(Relaxed) != 0
}

/// The block that this thread has, or that the one had which made it; null: none.
pub(crate) fn current() -> *mut Block {
    match BLOCK_REGISTER {
        // SAFETY: it leads to a block, or to `mcount_nobody`, which has 0 there.
        Some(register) => (unsafe { register.word::<{ offset_of!(Block, this) }>() }) as *mut Block,
        None => of_table(),
    }
}

/// Makes `block` this thread's.
///
/// # Safety
///
/// It must live as long as the thread, and have its number.
pub(crate) unsafe fn set_current(block: *mut Block) {
    match BLOCK_REGISTER {
        // SAFETY: the recorder has seen whether the kernel allows it; the caller promises that the block lives as long as the thread.
        Some(register) => unsafe { register.set(block as u64, config().flags & FSGSBASE != 0) },
        // SAFETY: the caller promises that the block is this thread's.
        None => unsafe { put_in_table(block) },
    }
}

/// Has this thread forbidden itself system calls that the agent needs? A thread without a block may have inherited that, and so may a
/// forked child, whose block is wiped, as if no thread had it before.
pub(crate) fn is_confined() -> bool {
    let Some(register) = BLOCK_REGISTER else {
        if IS_ANYBODY_CONFINED.load(Relaxed) == 0 {
            return false;
        }
        let block = of_table();
        // SAFETY: blocks stay mapped.
        return block.is_null() || unsafe { (*block).confined != 0 };
    };
    // SAFETY: it leads to a block, or to what has the same layout.
    let (confined, is_none, this) = unsafe {
        (
            register.word::<{ offset_of!(Block, confined) }>(),
            register.word::<{ offset_of!(Block, is_none) }>(),
            register.word::<{ offset_of!(Block, this) }>(),
        )
    };
    confined != 0 || (is_none == 0 && this == 0 && IS_ANYBODY_CONFINED.load(Relaxed) != 0)
}

/// This thread, which has this block or none, is going to forbid itself system calls. Without a block, it gets none any more.
pub(crate) fn confine(block: *mut Block) {
    IS_ANYBODY_CONFINED.store(1, SeqCst);
    if !block.is_null() {
        confine_other(block);
    } else if BLOCK_REGISTER.is_some() {
        // SAFETY: it stays mapped.
        unsafe { set_current(&raw mut mcount_confined) };
    }
}

/// So is the thread that has this block.
pub(crate) fn confine_other(block: *mut Block) {
    // SAFETY: blocks stay mapped.
    unsafe { (&raw mut (*block).confined).write_volatile(1) };
}

/// So are all those that have no block yet.
pub(crate) fn confine_new_ones() {
    if BLOCK_REGISTER.is_some() {
        confine_other(&raw mut mcount_nobody);
    }
}

/// The places where a thread may be, the first one first.
fn places(thread: u64) -> impl Iterator<Item = &'static Place> {
    /// How many are looked at.
    const LOOKS: usize = 64;
    let table = TABLE.load(Relaxed) as *const Place;
    let first = (thread.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize;
    let count = if table.is_null() { 0 } else { LOOKS };
    // SAFETY: the table has that many places, and stays mapped.
    (0..count).map(move |step| unsafe { &*table.add((first + step) % PLACES) })
}

/// The block that this thread has by the table.
fn of_table() -> *mut Block {
    let thread = thread_pointer();
    for place in places(thread) {
        match place.thread.load(Acquire) {
            0 => break,
            found if found == thread => {
                let block = place.block.load(Acquire) as *mut Block;
                // SAFETY: blocks stay mapped, and so does a thread's own memory.
                let is_own = unsafe {
                    let number = place.number.load(Acquire) as *const u32;
                    let own =
                        if number.is_null() { sys::thread_id() } else { number.read_volatile() };
                    !block.is_null() && (*block).thread == own
                };
                return if is_own { block } else { core::ptr::null_mut() };
            }
            _ => {}
        }
    }
    core::ptr::null_mut()
}

/// Puts it there.
///
/// # Safety
///
/// It must live as long as the thread, and have its number.
unsafe fn put_in_table(block: *mut Block) {
    let thread = thread_pointer();
    // SAFETY: the caller promises that it lives as long as the thread, and has its number.
    let number = unsafe { number_of(thread, (*block).thread) };
    let is_ours = |place: &&Place| {
        let found =
            place.thread.compare_exchange(0, thread, SeqCst, SeqCst).unwrap_or_else(|found| found);
        found == 0 || found == thread
    };
    let own = places(thread).find(is_ours).or_else(|| {
        // Too many threads: that of the first place gets another block at its next call.
        let place = places(thread).next()?;
        place.number.store(0, SeqCst);
        place.thread.store(thread, SeqCst);
        Some(place)
    });
    if let Some(place) = own {
        place.number.store(number, Release);
        place.block.store(block as u64, Release);
    }
}

/// Where the C library keeps the number of the thread with this thread pointer, which is `wanted`; 0: that isn't known.
unsafe fn number_of(thread: u64, wanted: u32) -> u64 {
    /// Bytes of glibc's `struct pthread` from the thread's number to its list of robust mutexes.
    const GLIBC: u64 = 16;
    /// Bytes of musl's from its start, where its own address is, to the thread's number.
    const MUSL: u64 = 32;
    /// Bytes that either has, at most.
    const MOST: u64 = 4096;
    let (mut head, mut size) = (0_u64, 0_u64);
    let words = [0, (&raw mut head) as u64, (&raw mut size) as u64, 0, 0, 0];
    // SAFETY: the call writes these two words.
    let result = unsafe { sys::call(GET_ROBUST_LIST, words) };
    let is_near = |address: u64| (thread.saturating_sub(MOST)..thread).contains(&address);
    // SAFETY: glibc has these bytes before each list that it tells the kernel of.
    if result == 0 && is_near(head) && unsafe { *((head - GLIBC) as *const u32) } == wanted {
        return head - GLIBC;
    }
    // Not beyond the page: `struct pthread` ends where the thread pointer leads.
    let lowest = thread.saturating_sub(1) & !(MOST - 1);
    let mut at = (thread & !7).saturating_sub(8);
    while at >= lowest && at != 0 {
        // SAFETY: in the page that the thread's own memory ends in.
        if unsafe { *(at as *const u64) } == at && at + MUSL < thread {
            // SAFETY: as above.
            let is_it = unsafe { *((at + MUSL) as *const u32) } == wanted;
            return if is_it { at + MUSL } else { 0 };
        }
        at -= 8;
    }
    0
}
