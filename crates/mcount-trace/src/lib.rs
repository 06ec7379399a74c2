//! Reads and writes traces of function calls (`*.mcount`).
//!
//! The library takes bytes and returns plain data; it opens no file and prints nothing. A trace is
//! untrusted input: whatever its bytes are, reading it neither panics nor hangs, and takes memory in
//! proportion to them. `docs/trace-format.md` describes the format.
//!
//! ```
//! use mcount_trace::{End, Trace, Writer};
//!
//! let mut writer = Writer::new();
//! let main = writer.function("program", "main");
//! let work = writer.function("program", "work");
//! let thread = writer.thread(100, 100);
//! writer.call(thread, work).from(20).to(30).slot(0x7ffe_0000).end(End::Return);
//! writer.call(thread, main).from(10).to(40).slot(0x7ffe_1000).end(End::Return);
//! let bytes = writer.finish();
//!
//! let trace = Trace::parse(&bytes)?;
//! let calls: Vec<_> = trace.calls().map(|call| (call.function, call.depth, call.start)).collect();
//! assert_eq!(calls, [(main, 0, 10), (work, 1, 20)]);
//! # Ok::<(), mcount_trace::Error>(())
//! ```
#![forbid(unsafe_code)]

mod append;
mod bytes;
mod calls;
mod clock;
mod columns;
pub mod condition;
mod entry;
mod error;
mod file;
mod follow;
pub mod holders;
mod index;
mod limits;
mod metadata;
mod nest;
mod order;
mod pack;
mod read;
mod record;
mod scale;
mod slices;
mod stack;
mod stored;
mod told;
mod trace;
mod unpack;
mod values;
mod walk;
mod writer;

pub use append::{Patch, index};
pub use calls::{Call, Calls, ThreadCalls};
pub use clock::Moment;
pub use entry::{
    Entry, Enumeration, Function, Mapping, Module, Note, ProcessEnd, ProcessStart, Signature,
    ThreadEnd, ThreadName, ThreadStart,
};
pub use error::{Damage, Error};
pub use follow::{Ended, Follower, Look, Source};
pub use mcount_layout as layout;
pub use metadata::{Process, Thread};
pub use pack::Packer;
pub use read::{is_trace, read};
pub use record::End;
pub use slices::Slice;
pub use trace::{Header, Trace};
pub use unpack::{Packed, is_packed};
pub use values::{Field, MORE, Named, Value, Values};
pub use walk::{Stretch, Visitor};
pub use writer::{NewCall, ThreadId, Writer};
