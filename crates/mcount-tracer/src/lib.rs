//! Traces programs from outside: runs one or takes a process that runs already, arms its hooks, and replaces its functions.
//!
//! A [`Session`] is what debuggers, editors and test harnesses need: it starts a program or takes a process, hands out its calls as they
//! come, and leaves a trace.
//!
#![cfg_attr(can_trace, doc = "```no_run")]
#![cfg_attr(not(can_trace), doc = "```ignore")]
//! use mcount_tracer::{Options, Session};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let options = Options::new("server.mcount").function("handle_*")?;
//! let mut session = Session::take(1234, options)?;
//! std::thread::sleep(std::time::Duration::from_secs(1));
//! for call in session.calls() {
//!     println!("{} took {} ns", call.function, call.duration);
//! }
//! let finished = session.stop()?;
//! println!("all of it is in {}", finished.trace.display());
//! # Ok(())
//! # }
//! ```
//!
//! There is nothing here on processors and systems on which programs can't be traced from outside.

#[cfg(can_trace)]
use {
    mcount_store::{commit, files, words},
    mcount_symbols::{debug, names, pattern},
};

#[cfg(can_trace)]
pub mod trace;

#[cfg(can_trace)]
pub use {
    mcount_symbols::pattern::{Language, Pattern},
    trace::attach::{Call, Finished, Options, Session},
    trace::{Scope, Size},
};
