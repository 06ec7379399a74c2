//! Where traced functions return to: routines, stubs or pads.

use mcount_cpu::here::agent::RETURN_IN_STUB;
use mcount_recorder::pad_table::{self, Pads};

unsafe extern "C" {
    static mcount_stubs: u8;
    static mcount_stubs_end: u8;
    static mcount_pg_return: u8;
    static mcount_landing: u8;
}

/// Where the pads are.
pub(crate) fn pads() -> Pads {
    unsafe extern "C" {
        static mcount_pads: u8;
        static mut mcount_pad_words: u8;
    }
    Pads { code: (&raw const mcount_pads) as u64, words: (&raw mut mcount_pad_words) as u64 }
}

/// Where functions return to whose hook is after the prologue.
pub(crate) fn late_return() -> u64 {
    (&raw const mcount_pg_return) as u64
}

/// Is `address` one that a traced function returns to?
pub(crate) fn is_return(address: u64) -> bool {
    address == late_return() || is_in_stub(address) || pads().number_of(address).is_some()
}

/// Is it the one in a stub, where these have one?
fn is_in_stub(address: u64) -> bool {
    const STUB: u64 = 32;
    let stubs = (&raw const mcount_stubs) as u64..(&raw const mcount_stubs_end) as u64;
    RETURN_IN_STUB.is_some_and(|place| stubs.contains(&address) && address % STUB == place)
}

/// Where exceptions go that pass through the frame that returns to `address`.
pub(crate) fn landing(address: u64) -> u64 {
    match pads().number_of(address) {
        Some(_) => pad_table::landing(address),
        None => (&raw const mcount_landing) as u64,
    }
}
