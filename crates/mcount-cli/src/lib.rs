//! The binaries `mcount` and `recordmcount`: arguments and printing. Nothing else imports this crate.

use mcount_store::{archive, commit, files, inputs, signals, temporary, unpack, words};
use mcount_symbols::{btf, contents, debug, names, pattern};
#[cfg(can_trace)]
use mcount_tracer::trace;
#[cfg(feature = "tui")]
use mcount_view::tui;
use mcount_view::{compare, packing, query, replay, report};

pub mod arguments;
mod beside;
mod children;
pub mod cli;
pub mod compiler;
pub mod demo;
pub mod fentry;
pub mod inlined;
pub mod jobs;
pub mod linker;
mod messages;
pub mod output;
mod pager;
pub mod probes;
pub mod recordmcount;
pub mod response;
#[cfg(can_trace)]
pub mod sample;
mod stand_in;
mod terminal;
#[cfg(can_trace)]
pub mod top;
pub mod why;
