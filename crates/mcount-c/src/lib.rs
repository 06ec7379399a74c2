//! `libmcount` for C, as `include/mcount/file.h` has it: a handle for a file, lists of what was found, and new
//! bytes.
//!
//! There is no global state. A handle may be used by several threads at once. What fails says so in a
//! `struct mcount_failure` of the caller.

pub mod failure;
pub mod file;
pub mod lists;
pub mod options;
