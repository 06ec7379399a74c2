//! RISC-V, 64 bits: system calls, the clock, the thread pointer.

pub use crate::machine::add;
use crate::machine::{abort, reads, system_call, touch_stack};
pub use crate::newer_calls as number;

system_call!("ecall", "a7", ["a0", "a1", "a2", "a3", "a4", "a5"]);

reads!(
    /// The clock that all processors have in common.
    ticks,
    "rdtime {}"
);

reads!(
    /// What tells this thread from others.
    thread_pointer,
    "mv {}, tp"
);

touch_stack!("li {0}, {1}", "sub {0}, sp, {0}", "lb zero, 0({0})"; reg);
abort!("unimp");
