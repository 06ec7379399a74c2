//! Reads and writes traces of function calls (`*.mcount`).
//!
//! The library takes bytes and returns plain data; it opens no file and prints nothing. A trace is
//! untrusted input: whatever its bytes are, reading it neither panics nor hangs, and takes memory in
//! proportion to them. `docs/trace-format.md` describes the format.
#![forbid(unsafe_code)]

pub mod layout;
