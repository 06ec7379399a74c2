//! A way into a process without its help: stops its threads, reads and writes its memory, makes system calls
//! and calls functions in the name of one thread, and lets all go on as if nothing had been.
//!
//! Two kinds of threads are made to do something, and in the same way ([`Remote`]): those of a process that runs already
//! ([`Standing`]), and the one of a program that was just executed ([`Remote::at_exec`]). No breakpoint and no single step is used.
//! While a thread does something, the frame of a signal waits on a stack, with which it comes back if the recorder is killed
//! ([`rescue`]).
//!
//! What differs by processor is in the folders of `mcount-cpu`. On processors of which these say nothing about it, and on systems other
//! than Linux, this crate is empty.

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
pub mod stop;
#[cfg(can_trace)]
mod tracee;

#[cfg(can_trace)]
pub use {
    mcount_cpu::outside::GeneralRegisters,
    memory::{Memory, Target, proc_text, status},
    remote::{CallEnd, Remote},
    request::Request,
    stop::{Standing, Thread},
    tracee::{Tracee, seize, to_result},
};
