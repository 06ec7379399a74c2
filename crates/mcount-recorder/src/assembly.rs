//! Numbers of the assembly (`.set OWNER, 0`), as the compiler sees them: so it compares them with the structures that they are about.
//!
//! The assembler knows no structures. It has had these numbers twice: with a mistake in one, programs crash.

const TEXT: &[u8] = mcount_cpu::here::CALL.as_bytes();

/// The number that this name has in the assembly that the agent and the library have in common.
///
/// # Panics
///
/// There's none: the compiler says so, as it's asked by constants.
#[expect(clippy::panic, reason = "while it is compiled")]
pub const fn number(name: &str) -> usize {
    let mut at = 0;
    while at < TEXT.len() {
        if let Some(found) = number_at(at, name.as_bytes()) {
            return found;
        }
        at += 1;
    }
    panic!("the assembly has no such number")
}

/// The number that is said at this place, if it's that of `name`.
#[expect(
    clippy::indexing_slicing,
    reason = "constants know no iterators, and the compiler says where it's out of bounds"
)]
const fn number_at(start: usize, name: &[u8]) -> Option<usize> {
    const SET: &[u8] = b".set ";
    const BETWEEN: &[u8] = b", ";
    let mut at = start;
    let mut part = 0;
    while part < 3 {
        let wanted = [SET, name, BETWEEN][part];
        let mut byte = 0;
        while byte < wanted.len() {
            if at >= TEXT.len() || TEXT[at] != wanted[byte] {
                return None;
            }
            (at, byte) = (at + 1, byte + 1);
        }
        part += 1;
    }
    let mut found = 0;
    while at < TEXT.len() && TEXT[at].is_ascii_digit() {
        found = 10 * found + (TEXT[at] - b'0') as usize;
        at += 1;
    }
    Some(found)
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
    assert!(number("PG_EXIT") == offset_of!(Config, pg_exit));
};

const _: () = assert!(number("PAD_PAGES") == crate::pad_table::PAD_PAGES as usize);
