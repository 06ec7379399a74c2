//! Gates: what calls of a library function go by while they're recorded, and the code that leads there and goes on from there
//! (`library.rs`). A file for each processor has the instructions.

#[cfg_attr(target_arch = "x86_64", path = "library/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "library/aarch64.rs")]
mod here;

use super::processor::STUB;

/// A gate, and the stub before it.
pub(super) struct Pair {
    pub(super) code: [u8; 2 * STUB],
    /// Where calls come to, where its site is, and where they go on.
    pub(super) gate: u64,
    pub(super) site: u64,
    pub(super) body: u64,
}

/// The stub at `stub` of the function with this number, which calls these routines at entry and exit, and its gate, which goes on by
/// the word at `by`. `None` if something is out of reach.
pub(super) fn pair(stub: u64, routines: (u64, u64), by: u64, number: u32) -> Option<Pair> {
    let code = here::pair(stub, routines, by, number)?;
    let gate = stub + STUB as u64;
    Some(Pair { code, gate, site: gate + here::GATE_SITE, body: gate + here::GATE_BODY })
}

/// Where in a gate its site is.
pub(super) const SITE_OFFSET: u64 = here::GATE_SITE;

/// A jump at `from` by the word at `word`. `None` if the word is out of reach.
pub(super) fn jump_by(from: u64, word: u64) -> Option<[u8; BY_WORD]> {
    here::jump_by(from, word)
}

/// Bytes of a call or a jump by a word.
pub(super) const BY_WORD: usize = here::BY_WORD;

/// The call or jump to `target` that takes the place of `code`, one by a word, at `from`. `None` if that's something else, or out
/// of reach.
pub(super) fn direct(code: [u8; BY_WORD], from: u64, target: u64) -> Option<[u8; BY_WORD]> {
    here::direct(code, from, target)
}

/// Where a call or a jump leads to that [`direct`] has made, at `from`. `None` if it's none.
pub(super) fn direct_target(code: [u8; BY_WORD], from: u64) -> Option<u64> {
    here::direct_target(code, from)
}

/// What calls go on by as long as nobody has looked for their function.
pub(super) enum Unbound {
    /// The module's own code.
    Same,
    /// Code in a slot, which leads there.
    Slot([u8; STUB]),
}

/// What goes on with the code at `place`, which begins with `code`, and which a module's word leads to as long as nobody has looked
/// for the function: that itself, or what is to be put into a slot. `None` if nobody knows what it does.
pub(super) fn unbound(code: [u8; 8], (index, word): (u32, u64), place: u64) -> Option<Unbound> {
    match here::first(code) {
        First::Same => Some(Unbound::Same),
        First::Unknown => None,
        First::Loads => Some(Unbound::Slot(here::load_and_jump(index, word, place))),
    }
}

/// The changes to the code of a module that finds a function when it's called first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    /// It's gone to as it is.
    #[cfg_attr(target_arch = "aarch64", expect(dead_code, reason = "a register says which one"))]
    Same,
    /// A register has to have what the PLT loads into it, which a gate doesn't keep.
    Loads,
    /// It isn't understood.
    Unknown,
}
