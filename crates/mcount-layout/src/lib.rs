//! Where everything is in a trace file: offsets, sizes and numbers of version 1, as plain constants.
//!
//! `docs/trace-format.md` describes them. `mcount-trace` reads and writes by them, and hands them out as its `layout`. They are
//! a crate of their own because `mcount-recorder`, which runs inside the traced process without a standard library, writes by them
//! too.
#![no_std]
#![forbid(unsafe_code)]

/// The first eight bytes of a trace.
pub const MAGIC: [u8; 8] = *b"\x89MCOUNT\n";
/// The number at [`header::BYTE_ORDER`], in the byte order of the traced machine.
pub const BYTE_ORDER: u32 = 0x0102_0304;
/// The version of the format.
pub const VERSION: u32 = 1;
/// Bytes before the first chunk.
pub const HEADER_BLOCK: u64 = 65_536;
/// Bytes of the header block that are in use.
pub const HEADER_SIZE: u64 = 4096;
/// Bytes of a chunk, unless a writer has a reason for another size.
pub const CHUNK_SIZE: u64 = 65_536;
/// The smallest chunk that a reader accepts: a directory has to fit.
pub const CHUNK_SIZE_MIN: u64 = 65_536;
/// The largest chunk that a reader accepts.
pub const CHUNK_SIZE_MAX: u64 = 1 << 30;

/// Offsets in the header.
pub mod header {
    /// 8 bytes: [`super::MAGIC`].
    pub const MAGIC: usize = 0;
    /// u32: [`super::BYTE_ORDER`].
    pub const BYTE_ORDER: usize = 8;
    /// u32: [`super::VERSION`].
    pub const VERSION: usize = 12;
    /// u64: bytes of a chunk, a power of two.
    pub const CHUNK_SIZE: usize = 16;
    /// u64: ticks in a second; 0 if not known.
    pub const TICKS_PER_SECOND: usize = 24;
    /// u64: one of [`super::clock`].
    pub const CLOCK: usize = 32;
    /// u64: ticks when the trace began.
    pub const START_TICKS: usize = 40;
    /// u64: `CLOCK_REALTIME` at that time, in nanoseconds.
    pub const START_REALTIME: usize = 48;
    /// u64: ticks when the trace ended; 0 if no recorder ended it.
    pub const END_TICKS: usize = 56;
    /// u64: bits of [`super::flags`].
    pub const FLAGS: usize = 64;
    /// u64: `CLOCK_MONOTONIC` when the trace began, in nanoseconds; 0 if not known.
    pub const START_MONOTONIC: usize = 72;
    /// u64: how many chunks have been given out. An atomic counter.
    pub const NEXT_CHUNK: usize = 128;
    /// u64: how many thread numbers have been given out. An atomic counter.
    pub const NEXT_THREAD: usize = 136;
    /// u64: how many chunks the file has room for on disk.
    pub const READY: usize = 192;
    /// u64: changes while the recorder lives.
    pub const HEARTBEAT: usize = 200;
    /// u64: not 0 when no more room can be had.
    pub const FULL: usize = 208;
    /// u64: if not 0, how many chunks of calls there may be: then the oldest is used again.
    pub const RING: usize = 216;
    /// u64: how many times one of them was asked for. An atomic counter.
    pub const RING_NEXT: usize = 224;
    /// u64: bytes of the index; 0 if there is none.
    pub const INDEX: usize = 232;
    /// u64: how many calls could not be recorded, or were recorded over. An atomic counter.
    pub const DROPPED: usize = 256;
    /// u64: how many calls were recorded as left, and went on later: the program copies stacks. An atomic counter.
    pub const EARLY: usize = 264;
}

/// Which clock ticks are of.
pub mod clock {
    /// The time-stamp counter of x86, the virtual counter of AArch64, or what another processor has.
    pub const COUNTER: u64 = 1;
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub const MONOTONIC: u64 = 2;
    /// None: ticks only give an order.
    pub const NONE: u64 = 3;
}

/// Bits of the header's flags.
pub mod flags {
    /// The trace is finished: no program writes to it.
    pub const FINISHED: u64 = 1;
    /// Calls have only entries: neither durations nor nesting.
    pub const ENTRIES: u64 = 2;
}

/// What recorders write into notes, for readers that do more than print them.
pub mod note {
    /// Waits of some functions aren't recorded from some time on; their names follow the colon, with commas between them.
    pub const WAITS_GIVEN_UP: &str =
        "called so often without waiting that waits aren't recorded from ";
}

/// The chunks of a ring: a table of their numbers in the header block, in which 0 is none.
pub mod ring {
    /// Where it begins in the file.
    pub const TABLE: usize = 4096;
    /// How many there can be.
    pub const MOST: u64 = 7_680;
    /// Bytes of a number.
    pub const ENTRY: usize = 8;
}

/// Directories: every chunk whose number is a multiple of [`directory::SPAN`].
pub mod directory {
    /// How many chunks a directory describes, itself included.
    pub const SPAN: u64 = 1024;
    /// Bytes of a descriptor. Descriptor `k` of directory `n` is at `k * DESCRIPTOR_SIZE` and describes
    /// chunk `n + k`; that of `k` = 0 is not used.
    pub const DESCRIPTOR_SIZE: usize = 64;
    /// u32: one of [`super::chunk`].
    pub const KIND: usize = 0;
    /// u32: the number of the thread that first wrote a calls chunk.
    pub const THREAD: usize = 4;
    /// u64: base ticks of a calls chunk; the lowest stack address that a starts or open chunk shadows.
    pub const BASE: usize = 8;
    /// u64: the process that wrote the chunk.
    pub const PID: usize = 16;
    /// u64: how many bytes of a metadata chunk are used.
    pub const USED: usize = 24;
    /// u64: not 0 while a thread writes to a calls chunk of a ring.
    pub const BUSY: usize = 32;
    /// u64: how many bytes of a calls chunk were given out as shares; 0 if it's one thread's at a time. An atomic counter.
    pub const SHARED: usize = 40;
}

/// Shares of calls chunks, each of which one thread fills at a time. A share begins with the records
/// [`special::THREAD`] and [`special::BASE`].
pub mod share {
    /// Where a share begins, and its size, are multiples of this.
    pub const GRAIN: u64 = 512;
    /// Bytes of the two records that it begins with.
    pub const HEAD: u64 = 32;
}

/// Kinds of chunks.
pub mod chunk {
    /// Nothing in it.
    pub const UNUSED: u32 = 0;
    /// Calls that have ended: records of [`super::call::SIZE`] bytes.
    pub const CALLS: u32 = 1;
    /// Start ticks of open calls, a word for each 8 bytes of stack.
    pub const STARTS: u32 = 2;
    /// Functions and threads of open calls, a word for each 8 bytes of stack.
    pub const OPEN: u32 = 3;
    /// Processes, threads, modules, functions, notes.
    pub const METADATA: u32 = 4;
    /// Where which calls are, for readers.
    pub const INDEX: u32 = 5;
    /// When threads were off the processor: records of [`super::off_cpu::SIZE`] bytes.
    pub const OFF_CPU: u32 = 6;
    /// Calls into the system: records of [`super::told`].
    pub const TOLD: u32 = 7;
    /// When threads were off the processor, and what woke them: records as those of [`TOLD`].
    pub const WOKEN: u32 = 8;
}

/// Records of calls into the system, as the system told of them. Values follow each.
pub mod told {
    /// Bytes of a record without values.
    pub const HEAD: usize = 32;
    /// u64, ticks when it began.
    pub const START: usize = 0;
    /// u64, ticks when it ended.
    pub const END: usize = 8;
    /// u32
    pub const PID: usize = 16;
    /// u32
    pub const TID: usize = 20;
    /// u32: the number of its function, and in the highest eight bits one of [`super::end`], or [`OPEN`]. 0 ends the chunk.
    pub const FUNCTION: usize = 24;
    /// u32: how many bytes of values follow.
    pub const VALUES: usize = 28;
    /// It had not ended.
    pub const OPEN: u32 = 4;
    /// What the size of a record with its values is a multiple of.
    pub const ALIGNMENT: usize = 16;
    /// A record has at most so many bytes of values.
    pub const MOST: usize = 1024;
}

/// Records of times that a thread was off the processor.
pub mod off_cpu {
    /// Bytes of a record.
    pub const SIZE: usize = 32;
    /// u64, ticks when it was taken off; in a record that isn't one, this and [`END`] are 0.
    pub const START: usize = 0;
    /// u64, ticks when it was put on again.
    pub const END: usize = 8;
    /// u32
    pub const PID: usize = 16;
    /// u32
    pub const TID: usize = 20;
    /// u32, the number of a function whose name says why.
    pub const FUNCTION: usize = 24;

    /// How a note begins that says that these records were given up. Their functions are described, but no record of them is left.
    pub const GIVEN_UP: &str =
        "threads leave the CPU so often that the trace lacks time off the CPU";
}

/// Call records: two words, `w0` and `w1`.
///
/// `w0` is `end ticks - base` << 24 | function; `w1` is `duration` << 24 | slot << 2 | end.
/// Where the function is 0, the record is one of [`special`].
pub mod call {
    /// Bytes of a record.
    pub const SIZE: usize = 16;
    /// The bits of `w0` that are the function's number.
    pub const FUNCTION_MASK: u64 = 0xff_ffff;
    /// Where the times are, in both words.
    pub const TIME_SHIFT: u32 = 24;
    /// Bits of a time.
    pub const TIME_BITS: u32 = 40;
    /// The bits of `w1` that say how the call ended.
    pub const END_MASK: u64 = 3;
    /// Where the slot is in `w1`.
    pub const SLOT_SHIFT: u32 = 2;
    /// Bits of a slot: the address of the return address divided by 8, modulo 2 to the power of this.
    pub const SLOT_BITS: u32 = 22;
}

/// How a call ended.
pub mod end {
    /// It returned.
    pub const RETURN: u64 = 0;
    /// It jumped to another function, which returns in its place.
    pub const TAIL_CALL: u64 = 1;
    /// An exception or `longjmp` left it, or its thread ended.
    pub const UNWOUND: u64 = 2;
    /// Its process ended, or ran another program.
    pub const EXIT: u64 = 3;
}

/// Special records among calls: `w0` is `value` << 32 | kind << 24.
pub mod special {
    /// Where the kind is in `w0`.
    pub const KIND_SHIFT: u32 = 24;
    /// Bits of the kind.
    pub const KIND_MASK: u64 = 0xff;
    /// Where the value is in `w0`.
    pub const VALUE_SHIFT: u32 = 32;
    /// What follows in this chunk is of thread number `value`; `w1` is pid << 32 | tid.
    pub const THREAD: u64 = 1;
    /// The next call's start is `w1`, in ticks.
    pub const START: u64 = 2;
    /// The next call's slot is at address `w1`.
    pub const SLOT: u64 = 3;
    /// The next call is of thread number `value`.
    pub const OWNER: u64 = 4;
    /// The base ticks of what follows in this chunk are `w1`.
    pub const BASE: u64 = 5;
    /// The arguments of a call: the function's number is the low 24 bits of `value`, the rest says how many records with
    /// bytes follow; `w1` is the call's start in ticks.
    pub const ARGUMENTS: u64 = 6;
    /// The same of its result; the call follows.
    pub const RESULT: u64 = 7;
    /// Bytes of them: `value`, then `w1`, the lowest byte first.
    pub const BYTES: u64 = 8;
    /// The next call returns to address `w1`.
    pub const CALLER: u64 = 9;
}

/// Values: arguments and results.
pub mod value {
    /// Bytes of values in a record.
    pub const IN_RECORD: usize = 12;
    /// A text is more than what was recorded.
    pub const CUT: u16 = 1 << 14;
    /// The memory after the recorded bytes of a text could not be read.
    pub const BAD: u16 = 1 << 15;
    /// The bits of a text's head that are its length.
    pub const LENGTH: u16 = (1 << 14) - 1;
}

/// Codes of types.
pub mod kind {
    /// No value was recorded.
    pub const NONE: u8 = 0;
    /// u8 size.
    pub const SIGNED: u8 = 1;
    /// u8 size.
    pub const UNSIGNED: u8 = 2;
    /// u8 size.
    pub const BOOLEAN: u8 = 3;
    /// u8 size.
    pub const CHARACTER: u8 = 4;
    /// u8 size: 4, 8, or 16 for those of 80 bits.
    pub const FLOAT: u8 = 5;
    /// Eight bytes.
    pub const POINTER: u8 = 6;
    /// u64 address, u16 length and flags of [`super::value`], bytes.
    pub const TEXT: u8 = 7;
    /// u8 size, u32 number of the enumeration.
    pub const ENUMERATION: u8 = 8;
    /// u16 size, u8 count of fields; each is u16 offset, u8 length of name, name, type.
    pub const STRUCTURE: u8 = 9;
    /// u8 size: 16, for floating-point numbers of 128 bits.
    pub const QUAD: u8 = 10;
    /// A type: what a pointer leads to. Eight bytes, and behind: u8 of [`super::target`], a value.
    pub const LEADS: u8 = 11;
    /// u16 size, u8 flags, u8 count of fields as those of [`STRUCTURE`]. Parts of these that are elsewhere follow the structure.
    pub const OBJECT: u8 = 12;
    /// u16 size, u32 size of an element, u8 flags, a type. Behind: u64 count; u16 as the head of a text, of elements; these.
    pub const LIST: u8 = 13;
    /// u16 size, u16 where in it the address is. Behind: u16 as that of a text, bytes.
    pub const STRING: u8 = 14;
    /// u16 size, u8 flags: text up to a zero.
    pub const CHARACTERS: u8 = 15;
    /// u64 count, u16 count of those that were recorded, u32 size of an element, a type.
    pub const ARRAY: u8 = 16;
    /// u16 size, u16 where the number of the case is, u8 size of that, u8 count of cases; each is u8 flags, u64 number, u8
    /// length of name, name, type.
    pub const VARIANT: u8 = 17;
    /// u8 size, u32 number of an enumeration: bits, several of which may be set. The value of an enumerator is a mask << 32 | the bits that
    /// the mask leaves of a value with this name.
    pub const FLAGS: u8 = 18;
    /// u8 1 for a number or 6 for a pointer, u32 number of an enumeration, which names errors: what a call into the system returned.
    pub const RETURNED: u8 = 19;
    /// Text. Nothing, and behind: u16 as that of a text, bytes.
    pub const WORDS: u8 = 20;
}

/// The states of a pointer's target.
pub mod target {
    /// Nothing: it's null, or there was no room.
    pub const NONE: u8 = 0;
    /// The target follows.
    pub const READ: u8 = 1;
    /// The memory there could not be read.
    pub const BAD: u8 = 2;
}

/// Flags of types.
pub mod type_flags {
    /// A structure has more fields, or a text more characters.
    pub const MORE: u8 = 1;
    /// The elements of a list are pairs of keys and values.
    pub const MAP: u8 = 1;
    /// A case stands for all numbers that no other case has.
    pub const DEFAULT: u8 = 1;
}

/// Words of open calls: thread << 32 | function; 0 where no call is open.
pub mod open {
    /// The bits that are the function's number.
    pub const FUNCTION_MASK: u64 = 0xff_ffff;
    /// Where the thread's number is.
    pub const THREAD_SHIFT: u32 = 32;
}

/// Metadata records: u32 kind, u32 length, then that many bytes, padded to a multiple of 8.
pub mod metadata {
    /// Bytes of kind and length.
    pub const HEAD: usize = 8;
    /// The size of a record, with its padding, is a multiple of this.
    pub const ALIGNMENT: usize = 8;
    /// The chunk has no more records.
    pub const NOTHING: u32 = 0;
    /// u32 pid, u32 parent, u64 ticks, name.
    pub const PROCESS: u32 = 1;
    /// u32 pid, u32 wait status or [`UNKNOWN_STATUS`], u64 ticks.
    pub const PROCESS_END: u32 = 2;
    /// It isn't known how the process ended, and the time is that of its last recorded call.
    pub const UNKNOWN_STATUS: u32 = u32::MAX;
    /// u32 pid, u32 tid, u64 ticks, name.
    pub const THREAD: u32 = 3;
    /// u32 pid, u32 tid, u64 ticks.
    pub const THREAD_END: u32 = 4;
    /// u32 module, u32 bytes of build ID, u32 bytes of path, u32 0, build ID, path.
    pub const MODULE: u32 = 5;
    /// u32 function, u32 module, u64 address, u64 size, name.
    pub const FUNCTION: u32 = 6;
    /// Text.
    pub const NOTE: u32 = 7;
    /// u32 module, u32 pid, u64 bias, u64 ticks.
    pub const LOADED: u32 = 8;
    /// u32 module, u32 pid, u64 bias, u64 ticks.
    pub const UNLOADED: u32 = 9;
    /// u32 function, then values: u8 1 for an argument, 2 for the result, 3 for what a marker says, 4 and 5 for an argument and the
    /// result that follow a record of [`super::told`], 6 if such a record is an event, whose name says what it is; u8 length of name, name, type.
    pub const VALUES: u32 = 10;
    /// u32 number, u32 count, then enumerators: u64 value, u8 length of name, name.
    pub const ENUMERATION: u32 = 11;
    /// u32 pid, u32 tid, u64 ticks, name: what the thread is called then.
    pub const THREAD_NAME: u32 = 12;
}

/// Compressed traces: frames of zstd, each with a block of the file or, the first and the last, about all of them.
pub mod packed {
    /// The first bytes of the skippable frames that zstd leaves to others; the first and the last
    /// one.
    pub const HEAD: u32 = 0x184d_2a5a;
    /// The one with the table, of which zstd's own seekable format has the number.
    pub const TABLE: u32 = 0x184d_2a5e;
    /// Bytes of that beginning: the number above, and how many bytes follow.
    pub const SKIPPABLE: usize = 8;
    /// The first frame: these bytes, u32 version, u32 0, u64 bytes of the trace.
    pub const MAGIC: [u8; 8] = *b"\x89MCOUNZ\n";
    /// The version of compressed traces.
    pub const VERSION: u32 = 1;
    /// Bytes of the first frame's contents.
    pub const HEAD_SIZE: usize = 24;
    /// Bytes of the trace that a frame holds; the last one may hold fewer.
    pub const BLOCK: usize = 65_536;
    /// Bytes of an entry of the table: u32 compressed size of a frame, u32 size of what's in it.
    pub const ENTRY: usize = 8;
    /// Bytes after the table: u32 number of frames, u8 0, u32 [`TABLE_MAGIC`].
    pub const FOOTER: usize = 9;
    /// The last bytes of the file.
    pub const TABLE_MAGIC: u32 = 0x8f92_eab1;
    /// The first byte of a frame's contents: the bytes of the block follow.
    pub const PLAIN: u8 = 0;
    /// Call records as columns follow, little-endian: behind 3 bytes of 0, a u32 with the size of each column.
    pub const COLUMNS: u8 = 1;
    /// The same, big-endian.
    pub const COLUMNS_BIG_ENDIAN: u8 = 2;
    /// Codes of the first column: the record isn't a call, or its function has no rank.
    pub const ESCAPE: u8 = 0;
    /// The function is the one that came last time after the two before.
    pub const FOLLOWS: u8 = 1;
    /// The function that came first in the block; the second is one more.
    pub const FIRST_RANK: u8 = 2;
    /// The last function that has a rank.
    pub const LAST_RANK: usize = 253;
}
