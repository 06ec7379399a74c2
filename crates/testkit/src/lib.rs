//! Helpers for the tests of mcount.

pub mod budget;
pub mod files;
pub mod prebuilt;
pub mod process;
pub mod reader;
pub mod room;
pub mod tiny_elf;
pub mod tools;
pub mod trial;
