//! What the binaries `mcount` and `recordmcount` share: reading files and committing changes.

pub mod commit;
pub mod files;
pub mod recordmcount;

pub mod cli;
pub mod demo;
pub mod output;
