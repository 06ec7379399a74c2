//! The assembly, and what it calls. It's in the processor's folder of `mcount-cpu`: `call.s`, of which the library that programs link is made,
//! too, and `agent.s`.
#![cfg_attr(
    target_arch = "x86_64",
    expect(bad_asm_style, reason = "the assembly says itself in which syntax it is")
)]

use crate::host::{self, Agent};
use crate::{confine, values};
use core::arch::global_asm;
use mcount_cpu::here::agent::{LateCall, RETURN_IN_STUB};
use mcount_recorder::calls::{self, Return};
use mcount_recorder::pad_table;

global_asm!(
    ".set INSIDE, 0",
    include_str!(concat!(env!("MCOUNT_PROCESSOR"), "/call.s")),
    include_str!(concat!(env!("MCOUNT_PROCESSOR"), "/agent.s")),
    slow_entry = sym values::mcount_entry_with,
    slow_entry_late = sym late_entry,
    slow_exit = sym values::mcount_exit_with,
    confine = sym confine::mcount_confine,
);

unsafe extern "C" {
    static mcount_stubs: u8;
    static mcount_stubs_end: u8;
    static mcount_pg_return: u8;
    static mcount_landing: u8;
}

/// The entry of a function whose hook is behind its prologue. What the arguments mean is known by the processor.
unsafe extern "C" fn late_entry(first: *mut u64, second: u32) {
    // SAFETY: the caller is the entry routine, and the call is under way.
    unsafe {
        let call = LateCall::of(first, second);
        match calls::enter::<Agent>(call.slot, call.caller, call.word) {
            Return::Stub => call.return_to(late_return()),
            Return::AsBefore => {}
            Return::Pad(pad) => call.return_to(pad),
        }
        values::late_entry(call.slot, call.word);
    }
}

/// Where functions return to whose hook is after the prologue.
pub(crate) fn late_return() -> u64 {
    (&raw const mcount_pg_return) as u64
}

/// Is `address` one that a traced function returns to?
pub(crate) fn is_return(address: u64) -> bool {
    address == late_return() || is_in_stub(address) || host::pads().number_of(address).is_some()
}

/// Is it the one in a stub, where these have one?
fn is_in_stub(address: u64) -> bool {
    const STUB: u64 = 32;
    let stubs = (&raw const mcount_stubs) as u64..(&raw const mcount_stubs_end) as u64;
    RETURN_IN_STUB.is_some_and(|place| stubs.contains(&address) && address % STUB == place)
}

/// Where exceptions go that pass through the frame that returns to `address`.
pub(crate) fn landing(address: u64) -> u64 {
    match host::pads().number_of(address) {
        Some(_) => pad_table::landing(address),
        None => (&raw const mcount_landing) as u64,
    }
}
