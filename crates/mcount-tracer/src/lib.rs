//! Traces programs from outside: runs one or takes a process that runs already, arms its hooks, and replaces its functions.
//!
//! There is nothing here on processors and systems on which programs can't be traced from outside.

#[cfg(can_trace)]
use {
    mcount_store::{commit, files, words},
    mcount_symbols::{debug, names, pattern},
};

#[cfg(can_trace)]
pub mod trace;
