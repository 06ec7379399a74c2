//! Files, for all programs of mcount: opening and mapping them, what is compressed or archived in them, and changing them
//! whole or not at all.
//!
//! The library `mcount` takes bytes. This crate gets the bytes, and puts back what the library made of them.

pub mod archive;
pub mod commit;
pub mod files;
pub mod inputs;
pub mod signals;
pub mod temporary;
pub mod unpack;
pub mod words;
