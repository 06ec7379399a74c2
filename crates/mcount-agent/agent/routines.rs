//! The assembly, and what it calls. It's in `mcount-cpu`: what all processors have is in `macros`, and the processor's folder has `call.s`, of
//! which the library that programs link is made, too, and `agent.s`.
#![cfg_attr(
    target_arch = "x86_64",
    expect(bad_asm_style, reason = "the assembly says itself in which syntax it is")
)]

use crate::counters::Work;
use crate::host::Agent;
use crate::returns::late_return;
use crate::{confine, instrumented, values};
use core::arch::global_asm;
use mcount_cpu::here::abi::PAD_SIZE;
use mcount_cpu::here::agent::LateCall;
use mcount_recorder::calls::{self, Return};
use mcount_recorder::pad_table::PAD_PAGES;

#[cfg(target_arch = "x86_64")]
macro_rules! call {
    () => {
        include_str!(concat!(env!("MCOUNT_PROCESSOR"), "/call.s"))
    };
}
/// Others keep the caller's address in a register.
#[cfg(not(target_arch = "x86_64"))]
macro_rules! call {
    () => {
        concat!(
            include_str!(concat!(env!("MCOUNT_PROCESSOR"), "/../macros/linked.s")),
            include_str!(concat!(env!("MCOUNT_PROCESSOR"), "/call.s"))
        )
    };
}

global_asm!(
    ".set INSIDE, 0",
    include_str!(concat!(env!("MCOUNT_PROCESSOR"), "/../macros/routine.s")),
    include_str!(concat!(env!("MCOUNT_PROCESSOR"), "/../macros/pads.s")),
    include_str!(concat!(env!("MCOUNT_PROCESSOR"), "/../macros/agent.s")),
    call!(),
    include_str!(concat!(env!("MCOUNT_PROCESSOR"), "/agent.s")),
    slow_entry = sym values::mcount_entry_with,
    slow_entry_late = sym late_entry,
    slow_exit = sym values::mcount_exit_with,
    confine = sym confine::mcount_confine,
    instrumented_enter = sym instrumented::entered,
    instrumented_exit = sym instrumented::left,
    pad_pages = const PAD_PAGES,
    pad_size = const PAD_SIZE,
);

/// The entry of a function whose hook is behind its prologue. What the arguments mean is known by the processor.
unsafe extern "C" fn late_entry(first: *mut u64, second: u32) {
    // SAFETY: the caller is the entry routine, and the call is under way.
    unsafe {
        let call = LateCall::of(first, second);
        let work = Work::begin::<Agent>(call.slot as u64);
        match calls::enter::<Agent>(call.slot, call.caller, call.word) {
            Return::Stub => call.return_to(late_return()),
            Return::AsBefore => {}
            Return::Pad(pad) => call.return_to(pad),
        }
        values::late_entry(call.slot, call.word);
        work.end();
    }
}
