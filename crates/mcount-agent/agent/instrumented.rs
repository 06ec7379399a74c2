//! Functions that tell themselves when they're entered and left (`-finstrument-functions`). The tracer has the words by which the program's
//! modules call `__cyg_profile_func_enter` and `__cyg_profile_func_exit` lead to the assembly before this, and writes tables of the functions
//! that are recorded.

use crate::host::Agent;
use mcount_recorder::abi::instrumented::{HEAD, IDLE, PLACE, place};
use mcount_recorder::instrumented::{self, Told, enter, leave};

/// The address of the last table; 0: there's none.
#[unsafe(no_mangle)]
static mut mcount_instrumented: u64 = 0;

/// A function tells that it's entered.
///
/// # Safety
///
/// The caller is the assembly, which code has called that a compiler has made.
pub(crate) unsafe extern "C" fn entered(function: u64, site: u64, stack: u64, place: u64) {
    if let Some(word) = word_of(function).filter(|word| word & IDLE == 0) {
        // SAFETY: the caller promises that it's told by code on this thread's stack.
        unsafe { enter::<Agent>(&Told { word: word as u32, site, stack, place }) };
    }
}

/// A function tells that it's left.
///
/// # Safety
///
/// As above.
pub(crate) unsafe extern "C" fn left(function: u64, site: u64, stack: u64, place: u64) {
    if let Some(word) = word_of(function) {
        // SAFETY: as above.
        unsafe { leave::<Agent>(&Told { word: word as u32, site, stack, place }) };
    }
}

/// Makes ready for what functions tell on the stack from `low` to `high`, if any do: later, nothing can be mapped.
pub(crate) fn cover_stack(low: u64, high: u64) {
    // SAFETY: an aligned word that the tracer may change at any time.
    if unsafe { (&raw const mcount_instrumented).read_volatile() } != 0 {
        instrumented::cover_stack::<Agent>(low, high);
    }
}

/// What the tables have of the function at this address.
fn word_of(function: u64) -> Option<u64> {
    // SAFETY: the tracer writes a table before it has this word lead there, and no thread is here when it takes one away.
    unsafe {
        let mut table = (&raw const mcount_instrumented).read_volatile();
        while table != 0 {
            let [next, bits] = *(table as *const [u64; 2]);
            let mut at = place(function, bits);
            loop {
                let [address, word] = *((table + HEAD + PLACE * at) as *const [u64; 2]);
                if address == function {
                    return Some(word);
                }
                if address == 0 {
                    break;
                }
                at = (at + 1) & ((1 << bits) - 1);
            }
            table = next;
        }
    }
    None
}
