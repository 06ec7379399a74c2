//! Processors that keep the caller's address in a register and have an agent: the library's assembly and the agent's have `call.s` in common.

#[path = "late.rs"]
mod late;

use crate::agent::slow_entry;
use crate::c::mcount_live_mark;
use crate::watch::{entered, entered_late, personality, unwound};
use late::traced_late;

assembly!(
    concat!(env!("MCOUNT_CPU"), "/macros/linked.s"),
    concat!(env!("MCOUNT_CPU"), "/", env!("MCOUNT_ARCH"), "/call.s"),
    concat!("../arch/", env!("MCOUNT_ARCH"), ".s");
    slow_entry = sym slow_entry,
    slow_entry_late = sym traced_late,
    entered = sym entered,
    entered_late = sym entered_late,
    unwound = sym unwound,
    personality = sym personality,
    mark = sym mcount_live_mark,
);
