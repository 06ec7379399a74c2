//! Threads and what they write to: a block of private memory for each, and chunks of the trace.
//!
//! A block is in memory that `fork` wipes, so a child finds an owner of 0 and comes here to get a block of its own; its
//! thread number, chunk and shadows are then its own as well.

use crate::abi::flags::{ENTRIES, UNTIMED};
use crate::block::{Block, put};
use crate::chunks::{self, drop_call};
use crate::host::Host;
use crate::numbers::has;
use crate::places::{PIECE, SHIFT};
use crate::shadow::{self, Pieces};
use crate::shares::{self, Shares, Wanted};
use crate::{layout as trace, sys};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use mcount_cpu::here::abi::IS_CLOCK_COARSE;
use mcount_cpu::here::syscalls::{add, number, thread_pointer, ticks, touch_stack};

/// Bytes from one block to the next.
const BLOCK: u64 = 192;
const _: () = assert!(size_of::<Block>() as u64 <= BLOCK && SLAB / BLOCK > 1);
/// Without a clock, a thread begins at its number and that many zeroes. So threads, and programs that a process
/// executes, are in order.
const COUNT_BITS: u32 = 36;
/// Bytes that are mapped for blocks at a time.
const SLAB: u64 = 128 << 10;
/// Bytes of stack that is used while the lock is held, at most.
const STACK: usize = 2048;
/// How many short calls that may wait a thread counts by itself.
pub(crate) const SHORTS: i64 = 1024;
/// How many blocks of ended threads are looked for when a thread comes: more would cost more than it saves.
const LOOK_AT: u32 = 8;

/// A forked child must not inherit these. It is in wiped memory.
struct Wiped {
    lock: AtomicU32,
    blocks: AtomicU32,
    next_look: u32,
    /// Memory for blocks: the first word of each slab leads to the one before.
    slabs: u64,
    slab: u64,
    left: u64,
    all: [u64; 4096],
    pieces: Pieces,
    shares: Shares,
}

static mut WIPED: *mut Wiped = core::ptr::null_mut();

/// Makes what forked children don't inherit. Called once, before the program runs.
pub fn start() -> bool {
    // SAFETY: only read.
    if unsafe { !WIPED.is_null() } {
        return true;
    }
    let size = (size_of::<Wiped>() as u64).next_multiple_of(4096);
    let found = sys::map_wiped_on_fork(size);
    if let Some(found) = found {
        // SAFETY: no other thread runs yet.
        unsafe { WIPED = found as *mut Wiped };
    }
    found.is_some()
}

/// The time. A thread's is never the same twice, nor earlier than before: otherwise no reader could know which
/// of two short calls encloses the other.
///
/// # Safety
///
/// The block is this thread's.
pub unsafe fn now<H: Host>(block: *mut Block) -> u64 {
    if has::<H>(UNTIMED) {
        // SAFETY: the block is this thread's.
        return unsafe { add(&raw mut (*block).count, 1) };
    }
    if !IS_CLOCK_COARSE {
        return ticks();
    }
    // SAFETY: the block is this thread's, and the word is changed here only. A signal's handler may be recorded between the two
    // accesses; then they are repeated.
    let last = unsafe { AtomicU64::from_ptr(&raw mut (*block).last) };
    loop {
        let before = last.load(Relaxed);
        let time = ticks().max(before.wrapping_add(1));
        if last.compare_exchange_weak(before, time, Relaxed, Relaxed).is_ok() {
            return time;
        }
    }
}

/// The block of this thread, ready for the call at `slot`. `None`: it can't be recorded.
///
/// # Safety
///
/// `slot` is an address on the stack of this thread.
pub unsafe fn prepare<H: Host>(slot: u64) -> Option<*mut Block> {
    let block = H::current();
    // SAFETY: blocks stay mapped for ever; those of others are only read.
    unsafe {
        if !block.is_null()
            && (*block).owner == thread_pointer()
            && slot.wrapping_sub((*block).low) < (*block).size
        {
            return Some(block);
        }
        if WIPED.is_null() || !H::is_recording() {
            return None;
        }
        let found = if H::is_confined() { find(block, slot) } else { set_up_with_room::<H>(slot) };
        found.or_else(|| (drop_call::<H>(), None).1)
    }
}

/// The block of this thread, which may make no system calls. `None` if something would have to be mapped for the call at `slot`.
unsafe fn find(block: *mut Block, slot: u64) -> Option<*mut Block> {
    // SAFETY: blocks stay mapped for ever; only the one who has the lock changes pieces.
    unsafe {
        if block.is_null() || (*block).owner != thread_pointer() {
            return None;
        }
        let wiped = &mut *WIPED;
        if !take_lock_confined(wiped) {
            return None;
        }
        let covered = shadow::covered(slot / PIECE, &wiped.pieces);
        if let Some((low, size)) = covered {
            (&raw mut (*block).low).write_volatile(low);
            (&raw mut (*block).size).write_volatile(size);
        }
        wiped.lock.store(0, SeqCst);
        covered.map(|_| block)
    }
}

/// Maps the shadows of the stack from `low` to `high`, as far as there is room.
pub fn cover_stack<H: Host>(low: u64, high: u64) {
    // SAFETY: only looked at, or after the lock.
    unsafe {
        if WIPED.is_null() || has::<H>(ENTRIES) {
            return;
        }
        locked(|wiped| {
            let all = (low / PIECE..=high / PIECE).rev();
            all.take_while(|piece| shadow::cover::<H>(piece * PIECE, &mut wiped.pieces).is_some())
                .count()
        });
        // The thread's own block is to know of it.
        set_up_with_room::<H>(high);
    }
}

/// Calls `act` with the blocks of all threads, some of which may have ended.
pub fn for_all(act: impl Fn(*mut Block)) {
    // SAFETY: only looked at, or after the lock.
    unsafe {
        if !WIPED.is_null() {
            locked(|wiped| {
                let count = wiped.blocks.load(Relaxed) as usize;
                wiped.all.iter().take(count).for_each(|block| act(*block as *mut Block));
            });
        }
    }
}

/// Faults if there are fewer than `STACK` bytes of stack left. A program may handle that on another stack. Where
/// signals are blocked it couldn't: the kernel would end it.
pub fn need_stack() {
    touch_stack::<STACK>();
}

/// Calls `act` with what belongs to the process, in one thread at a time.
unsafe fn locked<T>(act: impl FnOnce(&mut Wiped) -> T) -> T {
    need_stack();
    let before = sys::set_signals(u64::MAX);
    // SAFETY: the caller has seen that it's there, and it stays mapped; the lock is taken below.
    let wiped = unsafe { &mut *WIPED };
    while wiped.lock.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
        sys::yield_now();
    }
    let result = act(wiped);
    wiped.lock.store(0, SeqCst);
    sys::set_signals(before);
    result
}

/// In a forked child: does what `MADV_WIPEONFORK` should have done. Emulators say that they have, and haven't.
pub fn wipe() {
    // SAFETY: the child has one thread, which isn't in here; its memory is its own.
    unsafe {
        if WIPED.is_null() {
            return;
        }
        let mut slab = (*WIPED).slabs;
        while slab != 0 {
            let next = *(slab as *const u64);
            core::ptr::write_bytes(slab as *mut u8, 0, SLAB as usize);
            slab = next;
        }
        core::ptr::write_bytes(WIPED, 0, 1);
    }
}

/// Calls `act` in one thread at a time, with signals blocked. `None`: it's unknown when it could.
pub fn alone<H: Host, T>(act: impl FnOnce() -> T) -> Option<T> {
    // SAFETY: blocks of memory stay mapped.
    unsafe {
        if WIPED.is_null() {
            return None;
        }
        if !H::is_confined() {
            return Some(locked(|_| act()));
        }
        let wiped = &mut *WIPED;
        if !take_lock_confined(wiped) {
            return None;
        }
        let result = act();
        wiped.lock.store(0, SeqCst);
        Some(result)
    }
}

/// Takes the lock without blocking signals: that's a system call. A signal handler may have interrupted the very thread that holds it,
/// so it's given up after a while.
fn take_lock_confined(wiped: &Wiped) -> bool {
    /// Looks at the lock.
    const PATIENCE: u32 = 10_000;
    let mut looks = 0;
    while wiped.lock.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
        looks += 1;
        if looks == PATIENCE {
            return false;
        }
        core::hint::spin_loop();
    }
    true
}

/// Takes their blocks and shadows away from all threads. A call that's just being recorded still is.
pub fn dismiss() {
    dismiss_and(shadow::give_up);
}

/// The same where also shadows are the trace's that a parent has mapped, before it forked.
pub fn leave() {
    dismiss_and(shadow::give_all_up);
}

fn dismiss_and(give_up: fn(&mut Pieces)) {
    // SAFETY: slabs and blocks stay mapped; a thread that finds an owner of 0 asks for a block.
    unsafe {
        if WIPED.is_null() {
            return;
        }
        locked(|wiped| {
            let mut slab = wiped.slabs;
            while slab != 0 {
                for at in (BLOCK..=SLAB - BLOCK).step_by(BLOCK as usize) {
                    let block = (slab + at) as *mut Block;
                    (&raw mut (*block).owner).write_volatile(0);
                    (&raw mut (*block).end).write_volatile(0);
                    (&raw mut (*block).chunk).write_volatile(0);
                }
                slab = *(slab as *const u64);
            }
            give_up(&mut wiped.pieces);
            chunks::forget();
            wiped.shares.forget();
        });
    }
}

/// The block of this thread, ready for the call at `slot`.
unsafe fn set_up<H: Host>(wiped: &mut Wiped, slot: u64) -> Option<*mut Block> {
    // Entries alone need no shadows.
    let everywhere = Some((0, u64::MAX));
    let covered =
        if has::<H>(ENTRIES) { everywhere } else { shadow::cover::<H>(slot, &mut wiped.pieces) };
    let (low, size) = covered?;
    let mut block = H::current();
    // SAFETY: the lock is held; blocks stay mapped.
    unsafe {
        if block.is_null() || (*block).owner != thread_pointer() {
            block = take_block::<H>(wiped)?;
        }
        (*block).low = low;
        (*block).size = size;
        (*block).owner = thread_pointer();
        H::set_current(block);
    }
    Some(block)
}

/// The same, with room if there is any. It's taken outside of the lock: others would wait while the recorder makes some.
unsafe fn set_up_with_room<H: Host>(slot: u64) -> Option<*mut Block> {
    // SAFETY: the caller's; the lock is taken.
    unsafe {
        let block = locked(|wiped| set_up::<H>(wiped, slot))?;
        if (*block).end == 0 {
            let _ = new_room::<H>(block, 1);
        }
        Some(block)
    }
}

/// A block for this thread: that of one that has ended, with what is left of its chunk, or a new one.
unsafe fn take_block<H: Host>(wiped: &mut Wiped) -> Option<*mut Block> {
    let (process, thread) = (sys::process_id(), sys::thread_id());
    let count = wiped.blocks.load(Relaxed);
    let own = H::current();
    // SAFETY: blocks stay mapped. It was this thread's for another trace.
    let is_own = !own.is_null()
        && unsafe { ((*own).process, (*own).thread, (*own).this) == (process, thread, own as u64) };
    let (mut found, mut spare) = (is_own.then_some(own), None);
    for _ in 0..LOOK_AT.min(count) {
        if found.is_some() {
            break;
        }
        wiped.next_look = (wiped.next_look + 1) % count;
        let block = *wiped.all.get(wiped.next_look as usize)? as *mut Block;
        // SAFETY: blocks stay mapped; the lock is held.
        let (owner, of) = unsafe { ((*block).process, (*block).thread) };
        // After `vfork` parent and child have these blocks in common.
        if of == thread && owner == process || sys::is_gone(owner, of) {
            // Rather one with room.
            // SAFETY: as above.
            if unsafe { (*block).end != 0 } {
                found = Some(block);
            } else {
                spare = Some(block);
            }
        }
    }
    let block = match found.or(spare) {
        Some(block) => block,
        None => new_block(wiped)?,
    };
    let number = H::header(trace::header::NEXT_THREAD)?.fetch_add(1, SeqCst) + 1;
    // SAFETY: nobody else has this block any more, or yet.
    unsafe {
        if !is_own {
            give_back(block);
        }
        (*block).owner = 0;
        (*block).this = block as u64;
        (*block).tag = number << 32;
        (*block).thread = thread;
        (*block).process = process;
        (*block).count = number << COUNT_BITS;
        (*block).shorts = SHORTS - 1;
        (*block).budget = H::budget();
        (*block).innermost = 0;
        (*block).confined = 0;
        if !begin_thread(block) {
            (*block).end = 0; // no room yet
        }
    }
    Some(block)
}

/// Unmaps what was kept for the thread that had this block.
///
/// # Safety
///
/// That thread is gone.
unsafe fn give_back(block: *mut Block) {
    // SAFETY: the caller promises that nobody uses it.
    unsafe {
        if (*block).kept_size != 0 {
            sys::call(number::MUNMAP, [(*block).kept, (*block).kept_size, 0, 0, 0, 0]);
        }
        (*block).kept = 0;
        (*block).kept_size = 0;
    }
}

fn new_block(wiped: &mut Wiped) -> Option<*mut Block> {
    if wiped.left < BLOCK {
        let slab = sys::map_wiped_on_fork(SLAB)?;
        // SAFETY: new memory.
        unsafe { (slab as *mut u64).write(wiped.slabs) };
        wiped.slabs = slab;
        wiped.slab = slab + BLOCK;
        wiped.left = SLAB - BLOCK;
    }
    let block = wiped.slab;
    wiped.slab += BLOCK;
    wiped.left -= BLOCK;
    let count = wiped.blocks.load(Relaxed);
    // More threads at once than this are traced as well; their blocks just aren't used again.
    if let Some(room) = wiped.all.get_mut(count as usize) {
        *room = block;
        wiped.blocks.store(count + 1, Relaxed);
    }
    Some(block as *mut Block)
}

/// Writes the record that says which thread the following ones are of. `false` if the chunk is full.
unsafe fn begin_thread(block: *mut Block) -> bool {
    // SAFETY: the block is this thread's.
    unsafe {
        if (*block).end < (*block).head + 32 || (*block).end == 0 {
            return false;
        }
        let who = u64::from((*block).process) << 32 | u64::from((*block).thread);
        let special = (*block).tag | trace::special::THREAD << 24;
        put((*block).head, special, who);
        (*block).head += 16;
        true
    }
}

/// Takes a place for more records, with room for `least` of them: a share of a chunk, or a whole one if the thread has recorded much.
pub(crate) unsafe fn new_room<H: Host>(block: *mut Block, least: u64) -> Option<()> {
    // SAFETY: the block is this thread's.
    unsafe {
        // The call that asks for the room has read the clock already, and others that it interrupted did,
        // too: their ends must not be before the base.
        let base = now::<H>(block).saturating_sub(1 << 32);
        let taken = (&raw const (*block).taken).read_volatile();
        let wanted = Wanted {
            thread: ((*block).tag >> 32) as u32,
            process: (*block).process,
            base,
            ..Wanted::new(taken, least)
        };
        let mut looks = if H::is_confined() { 0 } else { LOOK_AT };
        let room = shares::take::<H>(&(*WIPED).shares, &wanted, |chunk| {
            let may_look = looks > 0;
            looks -= u32::from(may_look);
            may_look && release_of_gone(chunk)
        })?;
        (&raw mut (*block).taken).write_volatile(taken.saturating_add(room.size));
        let left = (&raw const (*block).chunk).read_volatile();
        (&raw mut (*block).chunk).write_volatile(room.descriptor as u64);
        let start = room.bytes as u64;
        let who = u64::from((*block).process) << 32 | u64::from((*block).thread);
        put(start, (*block).tag | trace::special::THREAD << 24, who);
        let mut first = start + 16;
        if room.is_share {
            put(first, trace::special::BASE << 24, base);
            first += 16;
        }
        // A signal handler between these finds either a full room, or all of the new one. The fast path looks
        // at `base` twice. One that found a full room has taken another: then all is written again, or the head would be of
        // this room and the base of that one.
        loop {
            (&raw mut (*block).end).write_volatile(0);
            (&raw mut (*block).base).write_volatile(base);
            (&raw mut (*block).head).write_volatile(first);
            (&raw mut (*block).end).write_volatile(start + room.size);
            if (&raw const (*block).base).read_volatile() == base {
                break;
            }
        }
        chunks::release(left as *mut u8);
    }
    Some(())
}

/// Releases the chunk with this descriptor if the thread that has it is gone: in a ring, only a new thread would.
///
/// A child by `vfork` has these blocks in common with its parent, and may be in a namespace from where no thread of the parent is seen.
unsafe fn release_of_gone(chunk: *mut u8) -> bool {
    // SAFETY: the caller has seen that it's there; blocks stay mapped, and nobody is given one while the lock is held.
    unsafe {
        locked(|wiped| {
            let count = wiped.blocks.load(Relaxed) as usize;
            let blocks = wiped.all.iter().take(count).map(|block| *block as *mut Block);
            let Some(block) = { blocks }.find(|block| (**block).chunk == chunk as u64) else {
                return false;
            };
            let process = sys::process_id();
            let is_left = (*block).process == process && sys::is_gone(process, (*block).thread);
            if is_left {
                (*block).end = 0;
                (*block).chunk = 0;
                chunks::release(chunk);
            }
            is_left
        })
    }
}

/// The part of a slot's address in a record.
pub(crate) fn low_bits(slot: u64) -> u64 {
    (slot << SHIFT >> 1) & 0xff_fffc
}

/// Takes room for `count` records of this thread.
///
/// # Safety
///
/// The block is this thread's.
pub unsafe fn take_records<H: Host>(block: *mut Block, count: u64) -> Option<u64> {
    for _ in 0..3 {
        // SAFETY: the block is this thread's.
        unsafe {
            let at = add(&raw mut (*block).head, count * 16);
            if at + count * 16 <= (*block).end {
                return Some(at);
            }
            new_room::<H>(block, count)?;
        }
    }
    None
}
