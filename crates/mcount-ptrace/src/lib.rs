//! A way into a process without its help: stops its threads, reads and writes its memory, makes system calls
//! and calls functions in the name of one thread, and lets all go on as if nothing had been.
//!
//! Two kinds of threads are made to do something, and in the same way ([`Remote`]): those of a process that runs already
//! ([`Standing`]), and the one of a program that was just executed ([`Remote::at_exec`]). No breakpoint and no single step is used.
//! While a thread does something, the frame of a signal waits on a stack, with which it comes back if the recorder is killed
//! ([`rescue`]).
//!
//! Code that differs by processor is in a folder each, with the same names in it ([`processor`]). On other
//! processors, and on systems other than Linux, this crate is empty.

#[cfg(can_trace)]
mod memory;
#[cfg(can_trace)]
mod remote;
#[cfg(can_trace)]
mod request;
#[cfg(can_trace)]
pub mod rescue;
#[cfg(can_trace)]
pub mod resume;
#[cfg(can_trace)]
mod state;
#[cfg(can_trace)]
pub mod stop;
#[cfg(can_trace)]
mod tracee;

#[cfg(can_trace)]
#[cfg_attr(target_arch = "x86_64", path = "x86_64/mod.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64/mod.rs")]
pub mod processor;

#[cfg(can_trace)]
pub use {
    memory::{Memory, Target, status},
    processor::GeneralRegisters,
    remote::{CallEnd, Remote},
    request::Request,
    state::VectorState,
    stop::{Standing, Thread},
    tracee::{Tracee, seize, to_result},
};
