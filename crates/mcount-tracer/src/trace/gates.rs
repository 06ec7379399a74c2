//! Gates: what calls of a library function go by while they're recorded, and the code that leads there and goes on from there
//! (`library.rs`). The instructions are the processor's ([`LibraryCalls`]).

use super::processor::{LIBRARY_CALLS, Routines, STUB};
use mcount_cpu::outside::{ByWord, First, LibraryCalls, Unbound as UnboundWord};

/// How this processor has them; whoever asks for calls of library functions where there's no way has been told so.
pub(super) fn here() -> Option<&'static LibraryCalls> {
    LIBRARY_CALLS
}

fn by_word() -> Option<&'static ByWord> {
    here()?.by_word.as_ref()
}

/// A gate, and the stub before it.
pub(super) struct Pair {
    pub(super) code: Vec<u8>,
    /// Where calls come to, where its site is, and where they go on.
    pub(super) gate: u64,
    pub(super) site: u64,
    pub(super) body: u64,
}

/// The stub at `stub` of the function with this number, which calls these routines at entry and exit, and its gate, which goes on by
/// the word at `by`. `None` if something is out of reach.
pub(super) fn pair(stub: u64, routines: Routines, by: u64, number: u32) -> Option<Pair> {
    let here = here()?;
    let code = (here.pair)(stub, routines, by, number)?;
    let gate = stub + STUB as u64;
    Some(Pair { code, gate, site: gate + here.site, body: gate + here.body })
}

/// A jump at `from` by the word at `word`. `None` if the word is out of reach.
pub(super) fn jump_by(from: u64, word: u64) -> Option<Vec<u8>> {
    (by_word()?.jump)(from, word)
}

/// Room for a call or a jump by a word.
pub(super) fn room_by_word() -> Vec<u8> {
    vec![0; by_word().map_or(0, |one| one.length)]
}

/// The call or jump to `target` that takes the place of `code`, one by a word, at `from`. `None` if that's something else, or out
/// of reach.
pub(super) fn direct(code: &[u8], from: u64, target: u64) -> Option<Vec<u8>> {
    (by_word()?.direct)(code, from, target)
}

/// Where a call or a jump leads to that [`direct`] has made, at `from`. `None` if it's none.
pub(super) fn direct_target(code: &[u8], from: u64) -> Option<u64> {
    (by_word()?.target)(code, from)
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
    let here = here()?;
    match (here.first)(code) {
        First::Same => Some(Unbound::Same),
        First::Unknown => None,
        First::Loads => {
            let code = (here.load_and_jump)(UnboundWord { index, word, place });
            Some(Unbound::Slot(code.try_into().ok()?))
        }
    }
}
