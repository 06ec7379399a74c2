//! The agent: what is loaded into a traced program.
//!
//! It is a shared object without any dependency: no C library, no thread-local storage, no allocator. The
//! recorder (`mcount trace`) fills in [`Config`] and points armed sites at stubs; from then on this code
//! runs at the entry and the exit of each traced call. The fast paths are in `x86_64.s`; what is rarer is
//! here: the first call of a thread, a stack that isn't known yet, a full chunk, tail calls, and frames
//! that were left without a return.
//!
//! What runs here may run anywhere: in a signal handler, between `fork` and `exec`, while the program holds any
//! lock. So nothing here takes a lock of the program's, and its own lock is taken with signals blocked.
#![no_std]
#![no_main]

use core::arch::global_asm;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

#[path = "../../mcount-trace/src/layout.rs"]
#[allow(dead_code, reason = "the reader uses the rest of it")]
mod layout;
mod chunks;
mod limit;
mod memory;
mod rendezvous;
mod shadow;
mod sys;
mod thread;
mod unwind;

use layout as trace;

global_asm!(include_str!("x86_64.s"), options(att_syntax));

/// What the recorder tells the agent before the program runs. The recorder finds it by the symbol
/// `mcount_config`; `crates/mcount-agent/src/lib.rs` has the same layout.
#[repr(C)]
pub struct Config {
    /// Where the trace file is mapped, shared and writable.
    file: *mut u8,
    /// Bytes of that mapping.
    length: u64,
    /// Bits: [`FSGSBASE`] and the following.
    flags: u64,
    /// Calls of fewer ticks aren't recorded, if the exit that looks at it is used.
    shortest: u64,
    /// The exit of calls whose hook is behind the prologue.
    pg_exit: u64,
    /// How many calls may be nested and recorded at the start of a thread.
    budget: u64,
    /// The same beneath a function that has [`UNDER`].
    depth: u64,
    /// The unwinders of the process, as far as they are known.
    unwinders: [unwind::Unwinder; 8],
}

/// `wrgsbase` may be used.
const FSGSBASE: u64 = 1;
/// Times are counts of events.
const UNTIMED: u64 = 2;
/// Only entries are recorded.
const ENTRIES: u64 = 4;
/// What is recorded depends on what a call is nested in.
const LIMITED: u64 = 8;

/// Calls beneath this function are recorded, and it is, too.
const UNDER: u32 = 1;
/// Neither this function nor what is beneath it is recorded.
const NOT_UNDER: u32 = 2;
/// Calls beneath this function are recorded, and it isn't.
const UNDER_HIDDEN: u32 = 3;

/// Is this flag of the configuration set?
fn has(flag: u64) -> bool {
    config().flags & flag != 0
}

// SAFETY: written by the recorder only, while the program stands.
unsafe impl Sync for Config {}

#[unsafe(no_mangle)]
static mut mcount_config: Config = Config {
    file: core::ptr::null_mut(),
    length: 0,
    flags: 0,
    shortest: 0,
    pg_exit: 0,
    budget: 0,
    depth: 0,
    unwinders: [unwind::Unwinder::NONE; 8],
};

/// The configuration.
fn config() -> &'static Config {
    // SAFETY: the recorder writes it only while all threads stand.
    unsafe { &*(&raw const mcount_config) }
}

unsafe extern "C" {
    static mcount_stubs: u8;
    static mcount_stubs_end: u8;
    static mcount_pg_return: u8;
    static mcount_landing: u8;
}

/// Is `address` one that a traced function returns to?
fn is_return(address: u64) -> bool {
    let stubs = (&raw const mcount_stubs) as u64..(&raw const mcount_stubs_end) as u64;
    (stubs.contains(&address) && address & 31 == 16) || address == (&raw const mcount_pg_return) as u64
}

/// How a call ended, as the trace has it.
const RETURN: u64 = 0;
const TAIL_CALL: u64 = 1;
const UNWOUND: u64 = 2;

/// The entry of function `id` in a rarer case. 0: go on and watch the return; 1: don't.
#[unsafe(no_mangle)]
unsafe extern "C" fn mcount_slow_entry(slot: *mut u64, id: u32) -> u64 {
    // SAFETY: the caller is the entry trampoline, so `slot` is the word that holds the caller's address.
    unsafe { enter(slot, id) }
}

/// The same for a call behind the prologue: it changes the slot itself.
#[unsafe(no_mangle)]
unsafe extern "C" fn mcount_slow_pg(slot: *mut u64, id: u32) {
    // SAFETY: as above.
    unsafe {
        if enter(slot, id) == 0 {
            slot.write_volatile((&raw const mcount_pg_return) as u64);
        }
    }
}

/// `word` is the function's number, and above it what it is for what is recorded.
unsafe fn enter(slot: *mut u64, word: u32) -> u64 {
    let (id, class) = (word & 0xff_ffff, word >> 24);
    // SAFETY: `slot` is on the stack of this thread; its shadows are mapped by `prepare`.
    unsafe {
        let Some(block) = thread::prepare(slot as u64) else { return 1 };
        if has(ENTRIES) {
            thread::record_entry(block, slot as u64, id);
            return 1;
        }
        let shadow = shadow::of(slot as u64);
        let caller = slot.read_volatile();
        let is_tail_call = is_return(caller);
        let is_known = shadow.ret.read_volatile() != 0;
        if is_tail_call && !is_known {
            return 1;
        }
        let is_open = is_known && shadow.open.read_volatile() != 0;
        let nesting = has(LIMITED).then(|| limit::enter(block, slot as u64, class));
        if is_open {
            // It was a tail call: the slot stays as it is, and the function that it was of has ended. Or
            // `longjmp` left it, or its thread ended.
            let end = if is_tail_call { TAIL_CALL } else { UNWOUND };
            thread::record(block, slot as u64, end, thread::now(block));
            shadow.open.write_volatile(0);
        }
        if nesting == Some(limit::Nesting::Unwatched) {
            return 1;
        }
        if !is_tail_call {
            shadow.ret.write_volatile(caller);
        }
        if nesting != Some(limit::Nesting::Hidden) {
            shadow.start.write_volatile(thread::now(block));
            shadow.open.write_volatile((*block).tag | u64::from(id));
        }
        u64::from(is_tail_call)
    }
}

/// The exit of the call of `slot`; the caller's address.
#[unsafe(no_mangle)]
unsafe extern "C" fn mcount_slow_exit(slot: *mut u64, end: u64) -> u64 {
    // SAFETY: the caller is the exit trampoline: RET of `slot` is mapped, since the entry wrote it.
    unsafe {
        let shadow = shadow::of(slot as u64);
        if let Some(block) = thread::prepare(slot as u64) {
            if shadow.open.read_volatile() != 0 {
                thread::record(block, slot as u64, end, thread::now(block));
                shadow.open.write_volatile(0);
            }
            if has(LIMITED) {
                limit::leave(block, slot as u64);
            }
        }
        let caller = shadow.ret.read_volatile();
        if caller == 0 {
            sys::abort();
        }
        slot.write_volatile(caller);
        shadow.ret.write_volatile(0);
        caller
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::abort()
}
