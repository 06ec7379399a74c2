//! AArch64: the assembly, and how a thread finds its block.
//!
//! No register is left for the block, and the agent has no thread-local storage: it comes into programs that run already. So a table
//! has the blocks by their threads' thread pointers. It's in memory that `fork` wipes, as blocks are.
//!
//! A thread pointer alone doesn't say which thread it is: C libraries give a thread's memory to a later one. But they keep the
//! thread's number beside it, where the kernel writes it when the thread begins (`struct pthread` of glibc and musl). Where that
//! isn't found, the kernel is asked at each call.

use crate::host::Agent;
use crate::{confine, host};
use core::arch::{asm, global_asm};
use core::mem::offset_of;
use core::sync::atomic::{
    AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst,
};
use mcount_cpu::here::syscalls::thread_pointer;
use mcount_recorder::abi::recipe::{PLACE, RAX as RESULT, RDX as SECOND_RESULT, VECTOR};
use mcount_recorder::assembly::number as in_assembly;
use mcount_recorder::block::Block;
use mcount_recorder::calls::Return;
use mcount_recorder::{calls, pad_table, shadow, sys};

#[path = "../values.rs"]
pub(crate) mod values;

global_asm!(
    include_str!(concat!(env!("MCOUNT_CPU"), "/aarch64/call.s")),
    include_str!("aarch64.s"),
    slow_entry = sym values::mcount_entry_with,
    slow_entry_late = sym late_entry,
    slow_exit = sym values::mcount_exit_with,
    confine = sym confine::mcount_confine,
);

/// System calls with which a program forbids itself others.
pub(crate) const SYS_PRCTL: u64 = 167;
pub(crate) const SYS_SECCOMP: u64 = 277;

/// `process_vm_readv`.
const READ_MEMORY: u64 = 270;

/// Where the value of a source of recipes was saved, in the call that the routine has made at `state`, and how many bytes that are.
#[expect(clippy::cast_ptr_alignment, reason = "the routine has aligned the call")]
unsafe fn saved(slot: u64, state: *const u8, source: u64) -> (*const u8, usize) {
    if source == PLACE {
        return (place_of(slot).cast(), 8);
    }
    let call = state.cast::<Call>();
    // SAFETY: the routine has made the call, and saved 32 vector registers at its area.
    unsafe {
        let (registers, area) = ((*call).registers.as_ptr(), (*call).area[0] as *const u8);
        match source {
            RESULT | SECOND_RESULT => (registers.add((source - RESULT) as usize).cast(), 8),
            0..VECTOR => (registers.add(source as usize).cast(), 8),
            _ => (area.add(16 * (source - VECTOR) as usize % 512), 16),
        }
    }
}

/// Where it's kept until the exit where a result in memory goes. Slots are 16 bytes apart, as stack pointers are, so one word of two of a
/// shadow is free.
fn place_of(slot: u64) -> *mut u64 {
    shadow::of::<Agent>(slot - 8).start
}

/// Keeps where a result in memory goes.
#[expect(clippy::cast_ptr_alignment, reason = "the routine has aligned the call")]
unsafe fn keep_place(slot: u64, state: *const u8) {
    const PLACE: usize = 8;
    // SAFETY: the routine has made the call, and the shadow of the slot is mapped.
    unsafe { place_of(slot).write_volatile((*state.cast::<Call>()).registers[PLACE]) };
}

unsafe extern "C" {
    static mcount_exit: u8;
    static mcount_landing: u8;
}

/// Threads that are known at a time.
const PLACES: usize = 1 << 14;

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

/// A thread of this process has forbidden itself system calls.
static IS_ANYBODY_CONFINED: AtomicU32 = AtomicU32::new(0);

/// Makes what threads need to find their blocks. `false` if there's no memory.
pub(crate) fn start() -> bool {
    let size = (PLACES * size_of::<Place>()) as u64;
    if TABLE.load(Relaxed) == 0
        && let Some(found) = sys::map_wiped_on_fork(size)
    {
        TABLE.store(found, SeqCst);
    }
    TABLE.load(Relaxed) != 0
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

/// The block that this thread has; null: none.
pub(crate) fn current() -> *mut Block {
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

/// Makes `block` this thread's.
///
/// # Safety
///
/// It must live as long as the thread, and have its number.
pub(crate) unsafe fn set_current(block: *mut Block) {
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
    const GET_ROBUST_LIST: u64 = 100;
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

/// Has this thread forbidden itself system calls that the agent needs? A thread without a block, or a forked child, may have
/// inherited that.
pub(crate) fn is_confined() -> bool {
    if IS_ANYBODY_CONFINED.load(Relaxed) == 0 {
        return false;
    }
    let block = current();
    // SAFETY: blocks stay mapped.
    block.is_null() || unsafe { (*block).confined != 0 }
}

/// This thread, with this block, is going to forbid itself system calls. Without a block, it gets none any more.
pub(crate) fn confine(block: *mut Block) {
    IS_ANYBODY_CONFINED.store(1, SeqCst);
    if !block.is_null() {
        host::confine_other(block);
    }
}

/// So are all those that have no block yet.
pub(crate) fn confine_new_ones() {}

/// Is `address` one that a traced function returns to?
pub(crate) fn is_return(address: u64) -> bool {
    address == late_return() || host::pads().number_of(address).is_some()
}

/// Where functions return to whose hook is after the prologue.
pub(crate) fn late_return() -> u64 {
    (&raw const mcount_exit) as u64
}

/// A call, as `aarch64.s` makes it.
#[repr(C)]
struct Call {
    registers: [u64; 10],
    /// The stack pointer of the caller.
    stack: u64,
    place: u64,
    slot: u64,
    caller: u64,
    rest: [u64; 6],
    record: *const Record,
    spare: u64,
    /// Where vector registers were saved, first.
    area: [u64; 2],
    /// Where the caller's address is to be changed.
    link: *mut u64,
}

/// A stub's data about its function (`mcount_cpu::aarch64::code::stub`).
#[repr(C)]
struct Record {
    body: u64,
    entry: u64,
    frame: u64,
    zero: u32,
    number: u32,
}

const _: () = {
    assert!(offset_of!(Call, stack) == in_assembly("CALL_SP"));
    assert!(offset_of!(Call, place) == in_assembly("CALL_PC"));
    assert!(offset_of!(Call, slot) == in_assembly("CALL_STACK"));
    assert!(offset_of!(Call, caller) == in_assembly("CALL_RETURN"));
    assert!(offset_of!(Call, record) == in_assembly("CALL_RECORD"));
    assert!(offset_of!(Call, area) == in_assembly("CALL_AREA"));
    assert!(offset_of!(Call, link) == in_assembly("CALL_LINK"));
    assert!(size_of::<Call>() <= in_assembly("CALL_SIZE"));
    assert!(offset_of!(Record, body) == in_assembly("RECORD_BODY"));
    assert!(offset_of!(Record, number) == in_assembly("RECORD_ID"));
};

/// The entry of a function whose hook is behind its prologue.
unsafe extern "C" fn late_entry(call: *const Call) {
    /// Of [`Record::frame`]: the caller's address was signed.
    const IS_SIGNED: u64 = 1 << 63;
    // SAFETY: the routine has made the call; the record is in a stub, and the link in a frame of this thread's.
    unsafe {
        let call = &*call;
        let mut address = match calls::enter::<Agent>(
            call.slot as *mut u64,
            call.caller,
            (*call.record).number,
        ) {
            Return::Stub => late_return(),
            Return::AsBefore => return,
            Return::Pad(pad) => pad,
        };
        if (*call.record).frame & IS_SIGNED != 0 {
            // pacia1716, which does nothing on older processors: as the function's own prologue has signed it.
            asm!("hint #8", inout("x17") address, in("x16") call.stack, options(nomem, nostack));
        }
        call.link.write_volatile(address);
        values::late_entry(call.slot as *mut u64, (*call.record).number);
    }
}

/// Copies as `memcpy` does.
///
/// # Safety
///
/// As of that.
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: the caller promises that both have that many bytes, and that they don't overlap. Not in Rust, of which the compiler would make a call of `memcpy`.
    unsafe {
        asm!("cbz {count}, 3f", "2: ldrb {byte:w}, [{from}], #1", "strb {byte:w}, [{to}], #1",
            "sub {count}, {count}, #1", "cbnz {count}, 2b", "3:", count = inout(reg) count => _,
            from = inout(reg) from => _, to = inout(reg) to => _, byte = out(reg) _,
            options(nostack, preserves_flags));
    }
}

/// The same, the last byte first.
///
/// # Safety
///
/// As above.
pub(crate) unsafe fn copy_backwards(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: the caller promises that both have that many bytes.
    unsafe {
        asm!("cbz {count}, 3f", "2: ldrb {byte:w}, [{from}, #-1]!", "strb {byte:w}, [{to}, #-1]!",
            "sub {count}, {count}, #1", "cbnz {count}, 2b", "3:", count = inout(reg) count => _,
            from = inout(reg) from.wrapping_add(count) => _, to = inout(reg) to.wrapping_add(count) => _,
            byte = out(reg) _, options(nostack, preserves_flags));
    }
}

/// Fills memory as `memset` does.
///
/// # Safety
///
/// As of that.
pub(crate) unsafe fn fill(to: *mut u8, value: u8, count: usize) {
    // SAFETY: the caller promises that `to` has that many bytes, which may be written.
    unsafe {
        asm!("cbz {count}, 3f", "2: strb {value:w}, [{to}], #1", "sub {count}, {count}, #1",
            "cbnz {count}, 2b", "3:", count = inout(reg) count => _, to = inout(reg) to => _,
            value = in(reg) u32::from(value), options(nostack, preserves_flags));
    }
}

/// Where exceptions go that pass through the frame that returns to `address`.
pub(crate) fn landing(address: u64) -> u64 {
    match host::pads().number_of(address) {
        Some(_) => pad_table::landing(address),
        None => (&raw const mcount_landing) as u64,
    }
}
