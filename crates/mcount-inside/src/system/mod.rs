//! What Linux is asked for: the modules of the process, its code, memory near it, its threads.

pub(crate) mod code;
pub(crate) mod loaded;
pub(crate) mod near;
pub(crate) mod threads;
pub(crate) mod trap;
