//! LoongArch.

#[path = "late.rs"]
mod late;

use crate::agent::slow_entry;
use crate::arch::VECTORS;
use crate::c::mcount_live_mark;
use crate::watch::{entered, entered_late, personality, unwound};
use late::traced_late;

assembly!(
    concat!(env!("MCOUNT_CPU"), "/macros/linked.s"),
    "../arch/loongarch64.s";
    slow_entry = sym slow_entry,
    slow_entry_late = sym traced_late,
    entered = sym entered,
    entered_late = sym entered_late,
    vectors = sym VECTORS,
    unwound = sym unwound,
    personality = sym personality,
    mark = sym mcount_live_mark,
);
