//! What depends on the processor: one Rust file and one assembly file each.

mod x86_64;

pub(crate) use x86_64::{
    AREA, Thread, VECTORS, enter, enter_late, is_return, landing, pass, prepare, return_address, show_vectors,
    thread, through_linkage,
};
