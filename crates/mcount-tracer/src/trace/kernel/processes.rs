//! Which process a thread belongs to. Most records of the kernel only have the thread's number.

use foldhash::HashMap;
use mcount_ptrace::status;
use std::collections::BTreeSet;

/// The process of each thread that is known.
pub(super) struct Processes(HashMap<u32, u32>);

impl Processes {
    /// A process has these threads.
    pub(super) fn new(process: u32, threads: &BTreeSet<u32>) -> Self {
        Self(threads.iter().map(|thread| (*thread, process)).collect())
    }

    /// A thread is new, with these numbers of process and thread. It may have the number of one that has ended.
    pub(super) fn add(&mut self, (process, thread): (u32, u32)) {
        self.0.insert(thread, process);
    }

    /// A thread has ended.
    pub(super) fn forget(&mut self, thread: u32) {
        self.0.remove(&thread);
    }

    /// The process of a thread, if that has been told of.
    pub(super) fn known(&self, thread: u32) -> Option<u32> {
        self.0.get(&thread).copied()
    }

    /// The process of a thread. If it hasn't been told of, it's asked for. That's so when a thread has executed a program: since then it has
    /// the number of its process's first thread, which had ended.
    pub(super) fn of(&mut self, thread: u32) -> u32 {
        *self.0.entry(thread).or_insert_with(|| {
            let process = status(thread.cast_signed(), "Tgid:");
            process.and_then(|process| process.try_into().ok()).unwrap_or(thread)
        })
    }
}
