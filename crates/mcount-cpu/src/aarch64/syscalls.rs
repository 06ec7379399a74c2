//! AArch64: system calls, the clock, the thread pointer.

pub use crate::machine::add;
use crate::machine::{abort, reads, system_call, touch_stack};
pub use crate::newer_calls as number;

system_call!("svc #0", "x8", ["x0", "x1", "x2", "x3", "x4", "x5"]);

reads!(
    /// The processor's clock, which all of them have in common.
    ticks,
    "mrs {}, cntvct_el0"
);

reads!(
    /// What tells this thread from others.
    thread_pointer,
    "mrs {}, tpidr_el0"
);

touch_stack!("sub {0}, sp, #{1}", "ldrb wzr, [{0}]"; reg);
abort!("udf #0");
