//! What tracing from outside asks of a processor: registers of a stopped thread, frames of signals, code to be written into a process.
//!
//! All of it is about plain data: words, bytes and addresses. Who stops threads and reads their memory is `mcount-ptrace`, and what's done
//! with it is known by `mcount-tracer`. A processor's folder has `outside.rs`, `signals.rs` and, as far as it can be done there,
//! `imports.rs` and `gates.rs` (calls of library functions), `values.rs` (arguments and results) and `patch.rs` (other functions in place
//! of those of a running program). What it lacks is `None`, and whoever wants it says so.

mod library;
pub mod patch;
mod registers;
mod signals;
pub(crate) mod system_calls;
pub mod values;

pub use self::library::{ByWord, First, ImportedWords, LibraryCalls, Taken, Unbound, Uses};
pub use self::registers::{
    ClockTrap, FunctionCall, GeneralRegisters, Roles, StackWord, SystemCallWord,
};
pub(crate) use self::signals::put;
pub use self::signals::{SignalFrame, SignalFrames, VectorState};
pub use self::system_calls::SystemCalls;

use crate::hook;
use alloc::vec::Vec;

/// Where in its function a hook is, on processors whose prologues make frames of this kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FramedPosition<F> {
    /// The first instruction but for a landing pad.
    Entry,
    /// After a prologue that has made this.
    AfterPrologue(F),
}

impl<F: Copy> FramedPosition<F> {
    /// The position in a function with this code, at `distance` bytes behind its start; `frame` finds what the prologue makes. `None` if it
    /// doesn't make one.
    pub fn new(
        position: hook::Position,
        (bytes, distance): (&[u8], u64),
        frame: impl FnOnce(&[u8]) -> Option<F>,
    ) -> Option<Self> {
        match position {
            hook::Position::Entry => Some(Self::Entry),
            hook::Position::AfterPrologue => {
                let prologue = bytes.get(..usize::try_from(distance).ok()?)?;
                frame(prologue).map(Self::AfterPrologue)
            }
        }
    }

    /// The frame that is there already.
    pub fn frame(position: Option<Self>) -> Option<F> {
        match position? {
            Self::Entry => None,
            Self::AfterPrologue(frame) => Some(frame),
        }
    }
}

/// The routines that stubs lead to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Routines {
    /// Of the entry of a function.
    pub entry: u64,
    /// Of the entry of one whose hook is behind its prologue.
    pub late_entry: u64,
    /// Of the exit.
    pub exit: u64,
}

impl Routines {
    /// The one of the entry, which is another one behind a prologue.
    #[must_use]
    pub fn of_entry(self, is_late: bool) -> u64 {
        if is_late { self.late_entry } else { self.entry }
    }

    /// The same, that many bytes further on.
    #[must_use]
    pub fn at(self, bias: u64) -> Self {
        let Self { entry, late_entry, exit } = self;
        Self { entry: bias + entry, late_entry: bias + late_entry, exit: bias + exit }
    }
}

/// A function that calls another one first: what is to be written, and where.
#[derive(Debug, Clone)]
pub struct Watched<const SITE: usize> {
    /// The code that makes that call, and goes on with the function.
    pub stub: Vec<u8>,
    /// The place in the function.
    pub place: u64,
    /// The jump there.
    pub jump: [u8; SITE],
}

/// How calls of a function of the dynamic linker are found and replaced, where that one is too small for a jump.
#[derive(Debug, Clone, Copy)]
pub struct LinkerCalls {
    /// Where the code at an address, in which the linker begins at `entry`, calls `function`.
    pub find: fn(LinkerCode<'_>) -> Option<CallSites>,
    /// A call at an address of another one. `None` if it's out of reach.
    pub call: fn(u64, u64) -> Option<Vec<u8>>,
}

/// The code of a dynamic linker. Addresses are those of its file.
#[derive(Debug, Clone, Copy)]
pub struct LinkerCode<'c> {
    /// Its code.
    pub bytes: &'c [u8],
    /// Where that is.
    pub start: u64,
    /// Where it begins.
    pub entry: u64,
    /// The function.
    pub function: u64,
}

/// Calls of a function, and code that is never executed again once they begin.
#[derive(Debug, Clone)]
pub struct CallSites {
    /// Where they are.
    pub sites: Vec<u64>,
    /// Where [`SPARE`] bytes of such code are.
    pub spare: u64,
}

/// Bytes of spare code in a dynamic linker.
pub const SPARE: usize = 32;

/// The ways of a processor to say where a `long double` of 16 bytes is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LongDouble {
    /// 80 bits of them.
    Extended,
    /// 128 bits.
    Quad,
}

/// The words of `code`, little endian.
pub(crate) fn words(code: &[u8]) -> impl Iterator<Item = u32> + Clone {
    code.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word))
}

/// Words as code, little endian.
pub(crate) fn code(words: impl IntoIterator<Item = u32>) -> impl Iterator<Item = u8> {
    words.into_iter().flat_map(u32::to_le_bytes)
}
