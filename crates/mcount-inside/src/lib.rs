//! Arms the hooks of the program that it's part of, while the program runs: [`Handlers`] see calls, a [`Trace`] records
//! them, [`replace`] sends them elsewhere. docs/inside.md says what to expect, `examples/watch.rs` is one.
#![cfg(all(
    any(
        all(target_arch = "x86_64", target_pointer_width = "64"),
        target_arch = "aarch64",
        all(target_arch = "arm", target_abi = "eabihf", target_endian = "little"),
        target_arch = "loongarch64",
        all(target_arch = "powerpc64", target_endian = "little"),
        target_arch = "riscv64",
        target_arch = "s390x",
        target_arch = "x86"
    ),
    target_os = "linux"
))]

mod agent;
mod arch;
pub mod c;
mod call;
mod commands;
mod edit;
mod error;
mod files;
mod frames;
mod handlers;
mod hooks;
mod lists;
mod module;
mod program;
mod record;
mod recording;
mod records;
mod registers;
mod routines;
mod system;
mod trace;
mod unwinders;
mod watch;

pub use commands::{mark, missed, notes, prepare, put_back, replace, rescan, set_protocol};
pub use edit::Protocol;
pub use error::{Error, ErrorKind, Result};
pub use handlers::{Action, Handlers};
pub use program::Which;
pub use record::{Call, Function, Registers, Vector, end};
pub use trace::Trace;
