//! The agent: what is loaded into a traced program.
//!
//! It is a shared object without any dependency: no C library, no thread-local storage, no allocator. The
//! recorder (`mcount trace`) fills in [`Config`] and points armed sites at stubs; from then on this code
//! runs at the entry and the exit of each traced call. The assembly, and what else differs by processor, is in `routines`; what is
//! rarer is here: the first call of a thread, a stack that isn't known yet, a full chunk, tail calls, and frames
//! that were left without a return.
//!
//! What runs here may run anywhere: in a signal handler, between `fork` and `exec`, while the program holds any
//! lock. So nothing here takes a lock of the program's, and its own lock is taken with signals blocked.
#![no_std]
#![no_main]

#[allow(dead_code, reason = "the reader uses the rest of it")]
mod layout;
mod attach;
mod block;
#[allow(dead_code, reason = "where callers' addresses are in registers, late entries differ")]
mod calls;
mod chunks;
mod confine;
mod host;
mod limit;
mod memory;
#[allow(dead_code, reason = "not every processor records results")]
mod numbers;
#[allow(dead_code, reason = "not every processor records arguments")]
mod payload;
mod pad_table;
mod pads;
mod places;
mod processor;
mod rendezvous;
#[cfg_attr(target_arch = "x86_64", path = "routines/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "routines/aarch64.rs")]
mod routines;
#[allow(dead_code, reason = "a library gives a trace up, and the agent doesn't")]
mod shadow;
mod shares;
mod sys;
#[allow(dead_code, reason = "a library gives a trace up, and the agent doesn't")]
mod thread;
mod unwind;

/// The recorder tells the agent this before the program runs. The recorder finds it by the symbol
/// `mcount_config`; `crates/mcount-agent/src/lib.rs` has the same layout.
#[repr(C)]
pub struct Config {
    /// Where the trace file is mapped, shared and writable.
    file: *mut u8,
    /// Bytes of that mapping.
    length: u64,
    /// Bits: that of `host.rs`, and those of `numbers.rs`.
    flags: u64,
    /// Calls of fewer ticks aren't recorded, if the exit that looks at it is used.
    shortest: u64,
    /// The exit of calls whose hook is after the prologue.
    pg_exit: u64,
    /// How many calls may be nested and recorded at the start of a thread.
    budget: u64,
    /// The same beneath a function that has [`numbers::UNDER`].
    depth: u64,
    /// Nothing is recorded until a function with [`numbers::STARTS`] is called, or the recorder says so.
    is_paused: u64,
    /// Calls of functions with [`numbers::WAITS`] of fewer ticks are only counted.
    shortest_wait: u64,
    /// The unwinders of the process, as far as they are known.
    unwinders: [unwind::Unwinder; 8],
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
    is_paused: 0,
    shortest_wait: 0,
    unwinders: [unwind::Unwinder::NONE; 8],
};

/// The configuration.
fn config() -> &'static Config {
    // SAFETY: the recorder writes it only while all threads stand.
    unsafe { &*(&raw const mcount_config) }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::abort()
}
