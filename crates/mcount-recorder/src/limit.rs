//! `--depth`, `--only-under` and `--not-under`: recording depends on the callers of a call. And on what was
//! called before: `--start-at` and `--stop-at`.
//!
//! A thread has a *budget*: how many calls, nested in each other, are still to be recorded. It's 0 where nothing is.
//! A call that is recorded leaves one less to those beneath it, and gives it back at its exit. So each watched call
//! needs to know its caller: it's linked to it by a word in one more shadow of the stack, NEST.
//!
//! A call that was left by `longjmp` gives nothing back. It's noticed when the thread calls from higher up on its
//! stack: then the caller is looked for there.

use crate::abi::class::{NESTING, NOT_UNDER, STARTS, STOPS, UNDER, UNDER_HIDDEN};
use crate::block::Block;
use crate::host::Host;
use crate::shadow;

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nesting {
    /// It's recorded.
    Recorded,
    /// It isn't, and its return is watched, because what is beneath it isn't either.
    Hidden,
    /// It's let alone.
    Unwatched,
}

/// No call of this thread is watched.
pub(crate) const NOBODY: u64 = u64::MAX;

/// The greatest budget: 31 bits, without the one that tells a word from none.
const MOST: u64 = (1 << 31) - 2;

/// The word in NEST: the budget beneath the call and one, then how many words its caller's slot is above its own.
fn word(budget: u64, distance: u64) -> u64 {
    (budget.min(MOST) + 1) << 32 | distance
}

fn budget_in(word: u64) -> u64 {
    (word >> 32) - 1
}

unsafe fn nest(slot: u64) -> *mut u64 {
    shadow::nest_of(slot)
}

/// A call of a function of this class begins at `slot`.
///
/// # Safety
///
/// The block is the thread's, and the shadows of `slot` are mapped.
pub(crate) unsafe fn enter<H: Host>(block: *mut Block, slot: u64, class: u32) -> Nesting {
    if class & STARTS != 0 {
        H::set_paused(false);
    }
    if H::is_paused() {
        return Nesting::Unwatched;
    }
    if class & STOPS != 0 {
        // Its own call is the last.
        H::set_paused(true);
    }
    // SAFETY: the caller promises that the block is the thread's, and the shadows of `slot` are
    // mapped.
    unsafe {
        if slot >= (*block).innermost {
            find_caller::<H>(block, slot);
        }
        let (caller, budget) = ((*block).innermost, (*block).budget);
        let (nesting, beneath) = match class & NESTING {
            UNDER => (Nesting::Recorded, H::depth().saturating_sub(1)),
            UNDER_HIDDEN => (Nesting::Hidden, H::depth()),
            NOT_UNDER if budget == 0 => return Nesting::Unwatched,
            NOT_UNDER => (Nesting::Hidden, 0),
            _ if budget == 0 => return Nesting::Unwatched,
            _ => (Nesting::Recorded, budget - 1),
        };
        let distance = if caller == NOBODY { 0 } else { (caller - slot) / 8 };
        // Callers on another stack are too far away to be linked to. What is beneath gets no budget back
        // from them, but that which a thread begins with.
        let distance = if distance >> 32 == 0 { distance } else { 0 };
        nest(slot).write_volatile(word(beneath, distance));
        (*block).budget = beneath;
        (*block).innermost = slot;
        nesting
    }
}

/// The call at `slot` has ended.
///
/// # Safety
///
/// As of [`enter`].
pub(crate) unsafe fn leave<H: Host>(block: *mut Block, slot: u64) {
    // SAFETY: the caller promises that the block is the thread's, and that the shadows of `slot` are mapped; so are those of its callers.
    unsafe {
        let own = nest(slot).read_volatile();
        if own == 0 {
            return;
        }
        nest(slot).write_volatile(0);
        let distance = own & 0xffff_ffff;
        let caller = slot + 8 * distance;
        let word = if distance == 0 { 0 } else { nest(caller).read_volatile() };
        if word == 0 {
            (*block).innermost = NOBODY;
            (*block).budget = H::budget();
        } else {
            (*block).innermost = caller;
            (*block).budget = budget_in(word);
        }
    }
}

/// Calls up to `slot` are gone, or nothing is known of this stack: finds the nearest call above.
unsafe fn find_caller<H: Host>(block: *mut Block, slot: u64) {
    // SAFETY: within the range that is mapped.
    unsafe {
        let (low, high) = ((*block).low, (*block).low + (*block).size);
        let gone = (*block).innermost;
        if (low..high).contains(&gone) {
            for at in (gone..=slot).step_by(8) {
                nest(at).write_volatile(0);
            }
        } else if gone != NOBODY && gone != 0 {
            // Another stack: a signal handler's, or a fibre's. Its budget is that of whom it interrupted.
            (*block).innermost = NOBODY;
            return;
        }
        for at in (slot + 8..high).step_by(8) {
            let word = nest(at).read_volatile();
            if word != 0 {
                (*block).innermost = at;
                (*block).budget = budget_in(word);
                return;
            }
        }
        (*block).innermost = NOBODY;
        (*block).budget = H::budget();
    }
}
