//! Exceptions: what the unwinder asks when it comes through a traced call.
//!
//! The return address of a traced call is in a stub, and the stub's unwind information finds the caller. So two
//! frames have one canonical frame address, and an unwinder takes the stub's for the one with the
//! handler. This personality routine has it stop there, in the cleanup phase: the call is
//! recorded, the stack is as it would be without tracing, and unwinding is resumed from the caller.

use super::config;
use super::returns::{is_return, landing};
use mcount_cpu::here::agent::DATA_REGISTERS;

/// `_UA_CLEANUP_PHASE`, `_URC_INSTALL_CONTEXT`, `_URC_CONTINUE_UNWIND`: Itanium C++ ABI, "Exception Handling",
/// 1.3 and 1.6.
const CLEANUP_PHASE: i32 = 2;
const INSTALL_CONTEXT: i32 = 7;
const CONTINUE_UNWIND: i32 = 8;

/// The assembly's personality routine calls this, with its own caller's address.
#[unsafe(no_mangle)]
unsafe extern "C" fn mcount_personality_of(
    _version: i32,
    actions: i32,
    _class: u64,
    exception: u64,
    context: u64,
    caller: u64,
) -> i32 {
    let unwinders = &config().unwinders;
    let Some(unwinder) = unwinders.iter().find(|one| (one.from..one.to).contains(&caller)) else {
        return CONTINUE_UNWIND;
    };
    if actions & CLEANUP_PHASE == 0 {
        return CONTINUE_UNWIND;
    }
    // SAFETY: the recorder has found these functions by their names, which say their types.
    unsafe {
        let get_ip: extern "C" fn(u64) -> u64 = core::mem::transmute(unwinder.get_ip);
        let set_ip: extern "C" fn(u64, u64) = core::mem::transmute(unwinder.set_ip);
        let set_gr: extern "C" fn(u64, i32, u64) = core::mem::transmute(unwinder.set_gr);
        let address = get_ip(context);
        if !is_return(address) {
            return CONTINUE_UNWIND;
        }
        // The landing finds them in these registers.
        let [first, second] = DATA_REGISTERS;
        set_gr(context, first, exception);
        set_gr(context, second, unwinder.resume);
        set_ip(context, landing(address));
    }
    INSTALL_CONTEXT
}
