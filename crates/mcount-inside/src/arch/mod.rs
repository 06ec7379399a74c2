//! What depends on the processor: one Rust file and one assembly file each.

mod x86_64;

pub(crate) use x86_64::{
    AREA, SIGNAL_FRAME, Stopped, Thread, VECTORS, block, enter, enter_late, enter_traced,
    enter_traced_late, go_on, interrupted, is_return, is_signal_return, landing, late_return, pass,
    place_of_trap, prepare, return_address, set_block, show_vectors, system_call, thread,
    through_linkage,
};
