//! Numbers of the assembly (`.set OWNER, 0`), as the compiler sees them: so it compares them with the structures that they are about.
//!
//! The assembler knows no structures. It has had these numbers twice: with a mistake in one, programs crash.

/// The number that this name has in the assembly `text`.
///
/// # Panics
///
/// There's none: the compiler says so, as it's asked by constants.
#[expect(clippy::panic, reason = "while it is compiled")]
#[must_use]
pub const fn number(text: &str, name: &str) -> usize {
    let mut at = 0;
    while at < text.len() {
        if let Some(found) = number_at(text.as_bytes(), at, name.as_bytes()) {
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
const fn number_at(text: &[u8], start: usize, name: &[u8]) -> Option<usize> {
    const SET: &[u8] = b".set ";
    const BETWEEN: &[u8] = b", ";
    let mut at = start;
    let mut part = 0;
    while part < 3 {
        let wanted = [SET, name, BETWEEN][part];
        let mut byte = 0;
        while byte < wanted.len() {
            if at >= text.len() || text[at] != wanted[byte] {
                return None;
            }
            (at, byte) = (at + 1, byte + 1);
        }
        part += 1;
    }
    let mut found = 0;
    while at < text.len() && text[at].is_ascii_digit() {
        found = 10 * found + (text[at] - b'0') as usize;
        at += 1;
    }
    Some(found)
}
