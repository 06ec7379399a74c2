//! The block of a thread: what `%gs` points to, or in a library what a word of thread-local storage does.

use crate::places::store;

/// The data of a thread; `x86_64.s` has the offsets that it uses, and `assembly.rs` compares them.
#[derive(Debug)]
#[repr(C)]
pub struct Block {
    /// The thread pointer of the thread that has it; 0: it's free.
    pub owner: u64,
    /// The lowest address of the stack whose shadows are known to be mapped.
    pub low: u64,
    /// How many bytes of that stack have shadows that are known to be mapped.
    pub size: u64,
    /// Where the next record goes.
    pub head: u64,
    /// The end of the room for records.
    pub end: u64,
    /// The time that records of this chunk count from.
    pub base: u64,
    /// Thread number << 32.
    pub tag: u64,
    /// This block's own address.
    pub this: u64,
    /// The descriptor of the chunk that it writes to.
    pub chunk: u64,
    /// The number of the thread that has it, as the system knows it.
    pub thread: u32,
    /// The number of that thread's process.
    pub process: u32,
    /// Without a clock: the time.
    pub count: u64,
    /// How many calls, one in the other, are still to be recorded; see `limit.rs`.
    pub budget: u64,
    /// The slot of the innermost call that is watched. 0: not looked for yet.
    pub innermost: u64,
    /// Not 0: the thread has forbidden itself system calls that the agent needs (`confine.rs`).
    pub confined: u64,
    /// 0 in a block. Not 0 in what `%gs` points to before a thread has one.
    pub is_none: u64,
    /// The latest time that was read, where the clock is coarse.
    pub last: u64,
    /// Bytes of the trace that were taken with this block so far: the more, the more at a time.
    pub taken: u64,
    /// How many calls that wait may be too short to be recorded before the process is told of all of them.
    pub shorts: i64,
    /// The lowest address of the stack that TOLD is known to be mapped for (`instrumented.rs`).
    pub told_low: u64,
    /// How many bytes of stack it's mapped for from there on.
    pub told_size: u64,
    /// Memory that the host keeps for this thread, which goes when another one has the block; 0: none.
    pub kept: u64,
    /// Bytes of it.
    pub kept_size: u64,
}

impl Block {
    /// Nobody's block.
    pub const EMPTY: Self = Self {
        owner: 0,
        low: 0,
        size: 0,
        head: 0,
        end: 0,
        base: 0,
        tag: 0,
        this: 0,
        chunk: 0,
        thread: 0,
        process: 0,
        count: 0,
        budget: 0,
        innermost: 0,
        confined: 0,
        is_none: 0,
        last: 0,
        taken: 0,
        shorts: 0,
        told_low: 0,
        told_size: 0,
        kept: 0,
        kept_size: 0,
    };
}

/// Writes a record: its second word first, so that nobody finds half of it.
///
/// # Safety
///
/// `at` is the address of a record in a chunk of this thread.
pub unsafe fn put(at: u64, first: u64, second: u64) {
    // SAFETY: the caller promises that `at` is a record in a chunk of this thread.
    unsafe {
        (at as *mut u64).add(1).write_volatile(second);
        store(at as *mut u64, first);
    }
}
