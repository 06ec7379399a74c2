//! The stack that a program begins with: the count of its arguments, pointers to them and to its
//! environment, and the auxiliary vector, in which the kernel tells it what it needs to know of itself.
//!
//! Source: System V ABI, AMD64 supplement, 3.4.1 ("Initial Stack and Register State"); on other processors Linux makes the same.

use mcount_ptrace::{Memory, Tracee};
use std::io;

/// The kind of the entry that ends the auxiliary vector (`getauxval(3)`).
const AT_NULL: u64 = 0;

/// The words that a program begins with on its stack.
pub(super) struct Stack {
    /// Where they begin: the argument count.
    pub(super) start: u64,
    /// All of them, to the end of the auxiliary vector.
    pub(super) words: Vec<u64>,
    /// Index of the first pointer to a variable of the environment.
    pub(super) environment: usize,
    /// Index of the first entry of the auxiliary vector.
    pub(super) auxiliary: usize,
}

impl Stack {
    /// Reads the stack of `thread`, which stands at its first instruction.
    pub(super) fn read(thread: Tracee, memory: &Memory) -> io::Result<Self> {
        const LIMIT: usize = 1 << 20;
        let start = thread.registers()?.stack();
        let mut words = Vec::new();
        let mut ends = Vec::new();
        // The count, then three lists that end with zeroes, the last one of pairs.
        while ends.len() < 2 || !Self::is_complete(&words, &ends) {
            if words.len() > LIMIT {
                return Err(io::Error::other("the stack has no auxiliary vector"));
            }
            let word = memory.word(start + 8 * words.len() as u64)?;
            if word == 0 && !words.is_empty() && ends.len() < 2 {
                ends.push(words.len() + 1);
            }
            words.push(word);
        }
        let (environment, auxiliary) =
            (ends.first().copied().unwrap_or(0), ends.get(1).copied().unwrap_or(0));
        Ok(Self { start, words, environment, auxiliary })
    }

    fn is_complete(words: &[u64], ends: &[usize]) -> bool {
        let Some(vector) = ends.get(1).and_then(|start| words.get(*start..)) else { return false };
        vector.len() >= 2
            && vector.len().is_multiple_of(2)
            && vector.get(vector.len() - 2) == Some(&AT_NULL)
    }

    /// The value of an entry of the auxiliary vector.
    pub(super) fn auxiliary(&self, kind: u64) -> Option<u64> {
        let vector = self.words.get(self.auxiliary..)?;
        vector.chunks_exact(2).find(|pair| pair.first() == Some(&kind))?.get(1).copied()
    }

    /// Changes an entry of the auxiliary vector in the program's memory.
    pub(super) fn set_auxiliary(&self, memory: &Memory, kind: u64, value: u64) -> io::Result<()> {
        let vector = self.words.get(self.auxiliary..).unwrap_or_default();
        match vector.chunks_exact(2).position(|pair| pair.first() == Some(&kind)) {
            Some(index) => {
                let at = self.start + 8 * (self.auxiliary + 2 * index + 1) as u64;
                memory.write(at, &value.to_le_bytes())
            }
            None => Ok(()),
        }
    }
}
