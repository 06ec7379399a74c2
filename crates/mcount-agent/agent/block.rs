//! The block of a thread: what `%gs` points to, or in a library what a word of thread-local storage does.

/// The data of a thread; `x86_64.s` has the offsets that it uses.
#[repr(C)]
pub(crate) struct Block {
    /// The thread pointer of the thread that has it; 0: it's free.
    pub(crate) owner: u64,
    /// The lowest address of the stack whose shadows are known to be mapped, and its bytes.
    pub(crate) low: u64,
    pub(crate) size: u64,
    /// Where the next record goes, and the end of the chunk.
    pub(crate) head: u64,
    pub(crate) end: u64,
    /// The time that records of this chunk count from.
    pub(crate) base: u64,
    /// Thread number << 32.
    pub(crate) tag: u64,
    /// This block's own address.
    pub(crate) this: u64,
    /// The descriptor of the chunk that it writes to.
    pub(crate) chunk: u64,
    pub(crate) thread: u32,
    pub(crate) process: u32,
    /// Without a clock: the time.
    pub(crate) count: u64,
    /// How many calls, one in the other, are still to be recorded; see `limit.rs`.
    pub(crate) budget: u64,
    /// The slot of the innermost call that is watched. 0: not looked for yet.
    pub(crate) innermost: u64,
    /// Not 0: the thread has forbidden itself system calls that the agent needs (`confine.rs`).
    pub(crate) confined: u64,
    /// 0 in a block. Not 0 in what `%gs` points to before a thread has one.
    pub(crate) is_none: u64,
    /// The latest time that was read, where the clock is coarse.
    pub(crate) last: u64,
    /// Bytes of the trace that were taken with this block so far: the more, the more at a time.
    pub(crate) taken: u64,
    /// How many calls that wait may be too short to be recorded before the process is told of all of them.
    pub(crate) shorts: i64,
}
