//! LoongArch, 64 bits: system calls, the clock, the thread pointer.

pub use crate::machine::add;
use crate::machine::{abort, reads, system_call, touch_stack};
pub use crate::newer_calls as number;

system_call!(
    "syscall 0",
    "$r11",
    ["$r4", "$r5", "$r6", "$r7", "$r8", "$r9"],
    "$r12",
    "$r13",
    "$r14",
    "$r15",
    "$r16",
    "$r17",
    "$r18",
    "$r19",
    "$r20"
);

reads!(
    /// The clock that all processors have in common.
    ticks,
    "rdtime.d {}, $zero"
);

reads!(
    /// What tells this thread from others.
    thread_pointer,
    "move {}, $tp"
);

touch_stack!("li.d {0}, {1}", "sub.d {0}, $sp, {0}", "ld.b {0}, {0}, 0"; reg);
abort!(".4byte 0");
