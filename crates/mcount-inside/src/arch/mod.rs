//! What depends on the processor: one Rust file and one assembly file each.

mod x86_64;

pub(crate) use x86_64::{
    AREA, SIGNAL_FRAME, Stopped, Thread, VECTORS, enter, enter_late, go_on, interrupted, is_return,
    is_signal_return, landing, pass, place_of_trap, prepare, return_address, show_vectors,
    system_call, thread, through_linkage,
};
