//! The recorder makes a thread do this when it attaches to a running program, and when it leaves.
//!
//! No thread is inside the agent then, so the agent's lock is free.

use super::{blocks, config, mcount_config, values};
use mcount_cpu::here::syscalls::number;
use mcount_recorder::{pads, sys, thread};

/// Makes what threads need to find their blocks. 0, or `-errno`.
#[unsafe(no_mangle)]
extern "C" fn mcount_begin() -> i64 {
    const ENOMEM: i64 = 12;
    pads::begin_trace();
    if thread::start() && blocks::start() { 0 } else { -ENOMEM }
}

/// Lets go of the trace: nothing more is recorded, and calls under way return as they would have.
#[unsafe(no_mangle)]
extern "C" fn mcount_leave() -> i64 {
    let (file, length) = (config().file, config().length);
    if file.is_null() {
        return 0;
    }
    thread::leave();
    values::forget();
    // SAFETY: nobody has an address in it any more; the recorder sees to it that no thread is in the agent.
    unsafe {
        (&raw mut mcount_config.file).write_volatile(core::ptr::null_mut());
        sys::call(number::MUNMAP, [file as u64, length, 0, 0, 0, 0])
    }
}
