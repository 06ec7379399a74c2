//! Records calls into a trace, from inside the program that makes them.
//!
//! Two programs are made of this: the agent that `mcount trace` loads into others (`mcount-agent`), and the library that a
//! program links to trace itself (`mcount-inside`). It runs anywhere in a program: in a signal handler, between `fork` and `exec`,
//! while the program holds any lock. So it has no standard library and allocates nothing, and takes no lock of the program's.
//! What the two differ in is [`Host`], which everything here is generic over: each program gets code of its own, in which nothing
//! is left of that.
//!
//! The entry and the exit of a call are assembly (`call.s` in `mcount-cpu`). What is rarer is here.
#![no_std]
#![cfg_attr(
    can_record,
    expect(clippy::must_use_candidate, reason = "names say which of them are questions"),
    expect(clippy::cast_ptr_alignment, reason = "fields of a trace are aligned"),
    expect(
        clippy::cast_possible_truncation,
        reason = "addresses fit into pointers, offsets in a chunk into anything, and halves of words are meant"
    )
)]

pub mod abi;
#[cfg(has_call)]
pub mod assembly;
#[cfg(can_record)]
pub mod block;
#[cfg(can_record)]
pub mod calls;
#[cfg(can_record)]
pub mod chunks;
#[cfg(can_record)]
mod host;
#[cfg(all(can_record, target_pointer_width = "64"))]
pub mod instrumented;
#[cfg(can_record)]
mod limit;
#[cfg(can_record)]
pub mod numbers;
#[cfg(can_record)]
pub mod pad_table;
#[cfg(can_record)]
pub mod pads;
#[cfg(can_record)]
pub mod payload;
#[cfg_attr(target_pointer_width = "32", path = "tables.rs")]
#[cfg(can_record)]
pub mod places;
#[cfg(can_record)]
pub mod records;
#[cfg(can_record)]
pub mod shadow;
#[cfg(can_record)]
mod shares;
#[cfg(can_record)]
pub mod sys;
#[cfg(can_record)]
pub mod thread;

#[cfg(can_record)]
pub use host::{Host, Words};
#[cfg(can_record)]
use mcount_layout as layout;
