//! Helpers for the tests of mcount.

pub mod book;
pub mod browser;
pub mod btf;
pub mod budget;
pub mod damage;
pub mod elsewhere;
pub mod files;
#[cfg(feature = "harness")]
mod ignored;
pub mod interrupt;
pub mod prebuilt;
pub mod process;
pub mod reader;
pub mod room;
pub mod sample;
pub mod served;
pub mod standing;
pub mod tiny_elf;
#[cfg(feature = "harness")]
pub mod tools;
#[cfg(feature = "harness")]
pub mod trace;
#[cfg(feature = "harness")]
pub mod trial;

#[cfg(feature = "harness")]
pub use testkit_macros::test;
