//! The agent: what is loaded into a traced program.
//!
//! It is a shared object without any dependency: no C library, no thread-local storage, no allocator. The
//! tracer (`mcount trace`) fills in [`Config`] and points armed sites at stubs; from then on this code
//! runs at the entry and the exit of each traced call. Most of it is `mcount-recorder`; the assembly, and what else differs by
//! processor, is in `mcount-cpu`.
//!
//! Cargo can't build one package for two purposes, so `build.rs` has the compiler make the agent of this. For cargo, which checks it
//! and formats it, it's an example.
#![no_std]
#![cfg(has_agent)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "addresses have 64 bits, and words have halves"
)]

mod attach;
mod blocks;
mod conditions;
mod confine;
mod counters;
mod follow;
mod host;
mod instrumented;
mod markers;
mod memory;
mod registers;
mod rendezvous;
mod returns;
mod routines;
mod texts;
mod unwind;
mod values;

use mcount_recorder::abi::Config;
use mcount_recorder::sys;

#[unsafe(no_mangle)]
static mut mcount_config: Config = Config::NONE;

/// The configuration.
#[expect(
    clippy::deref_addrof,
    reason = "no reference to what may be changed is made of it directly"
)]
fn config() -> &'static Config {
    // SAFETY: the tracer writes it only while all threads stand.
    unsafe { &*(&raw const mcount_config) }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::abort()
}
