//! The agent's orders for copying from the calls of a function.

use mcount_agent::recipe;

/// The agent's orders for copying from a call: the words of the recipes of
/// [`mcount_agent::recipe`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Recipe {
    pub(super) arguments: Vec<u64>,
    pub(super) result: Vec<u64>,
    /// What has to hold when a call begins, or it isn't recorded: words of [`recipe::condition`].
    pub(super) entry: Vec<u64>,
    /// The same when it has returned.
    pub(super) exit: Vec<u64>,
    /// Calls are recorded however short they are.
    pub(super) is_kept: bool,
}

impl Recipe {
    /// As the agent has it in memory.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let count = |words: &[u64]| u32::try_from(words.len()).unwrap_or(0);
        let words = self.arguments.iter().chain(&self.result).chain(&self.entry).chain(&self.exit);
        let words = words.flat_map(|word| word.to_le_bytes());
        let kept = if self.is_kept { recipe::KEPT } else { 0 };
        let result = count(&self.result) | kept;
        let head = [count(&self.arguments), result, count(&self.entry), count(&self.exit)];
        head.into_iter().flat_map(u32::to_le_bytes).chain(words).collect()
    }
}
