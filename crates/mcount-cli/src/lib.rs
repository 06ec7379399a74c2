//! What the binaries `mcount` and `recordmcount` share: reading files and committing changes.

mod arch;
pub mod archive;
pub mod arguments;
mod beside;
pub mod btf;
mod children;
pub mod commit;
pub mod compare;
pub mod compiler;
pub mod debug;
pub mod fentry;
pub mod files;
pub mod inputs;
pub mod jobs;
mod kernel;
pub mod recordmcount;
pub mod report;
pub mod response;
pub mod signals;

pub mod cli;
pub mod demo;
pub mod linker;
mod messages;
pub mod names;
pub mod output;
mod packing;
mod pager;
pub mod pattern;
pub mod replay;
mod stand_in;
#[cfg(can_trace)]
pub mod top;
#[cfg(can_trace)]
pub mod trace;
pub mod unpack;
pub mod why;
pub mod words;
