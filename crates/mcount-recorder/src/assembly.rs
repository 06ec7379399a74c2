//! Numbers of the assembly (`.set OWNER, 0`), as the compiler sees them: so it compares them with the structures that they are about.
//!
//! The assembler knows no structures. It has had these numbers twice: with a mistake in one, programs crash.

use mcount_cpu::assembly;

/// The number that this name has in the assembly that the agent and the library have in common.
#[must_use]
pub const fn number(name: &str) -> usize {
    assembly::number(mcount_cpu::here::CALL, name)
}

#[cfg(target_arch = "x86_64")]
const _: () = {
    use crate::abi::Config;
    use crate::block::Block;
    use core::mem::offset_of;
    assert!(number("OWNER") == offset_of!(Block, owner));
    assert!(number("LOW") == offset_of!(Block, low));
    assert!(number("SIZE") == offset_of!(Block, size));
    assert!(number("HEAD") == offset_of!(Block, head));
    assert!(number("END") == offset_of!(Block, end));
    assert!(number("BASE") == offset_of!(Block, base));
    assert!(number("TAG") == offset_of!(Block, tag));
    assert!(number("COUNT") == offset_of!(Block, count));
    assert!(number("BUDGET") == offset_of!(Block, budget));
    assert!(number("INNERMOST") == offset_of!(Block, innermost));
    assert!(number("SHORTEST") == offset_of!(Config, shortest));
    assert!(number("SHORTS") == offset_of!(Block, shorts));
    assert!(number("SHORTEST_WAIT") == offset_of!(Config, shortest_wait));
    assert!(number("CALLER") as u64 == crate::layout::special::CALLER);
    assert!(number("PG_EXIT") == offset_of!(Config, pg_exit));
};
