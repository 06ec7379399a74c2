//! Where an agent asks the recorder what it wants: a thread is there, makes the system call that's wanted, and asks again.

use mcount_agent::request::RESULT;
use mcount_ptrace::{Memory, Tracee, to_result};
use std::io;

/// The desk of one address space.
#[derive(Debug, Clone, Copy)]
pub(super) struct Desk {
    /// Where a thread stands that asks.
    pub(super) asked: u64,
    /// The request.
    pub(super) request: u64,
}

impl Desk {
    /// Has the agent make a system call, in a thread that is there because it asked.
    pub(super) fn call(
        self,
        thread: Tracee,
        memory: &Memory,
        number: i64,
        arguments: [u64; 6],
    ) -> io::Result<u64> {
        let words = std::iter::once(number.cast_unsigned()).chain(arguments);
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        memory.write(self.request, &bytes)?;
        thread.resume(None);
        thread.wait_until_asked(self.asked)?;
        self.result(memory)
    }

    /// What came of the last thing that was wanted.
    pub(super) fn result(self, memory: &Memory) -> io::Result<u64> {
        to_result(memory.word(self.request + RESULT)?)
    }
}
