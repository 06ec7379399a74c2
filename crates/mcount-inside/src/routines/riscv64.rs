//! RISC-V.

#[path = "late.rs"]
mod late;

use crate::agent::{slow_entry, slow_exit};
use crate::c::mcount_live_mark;
use crate::watch::{MISSED, entered, entered_late, left, personality, unwound};
use late::traced_late;
use std::arch::global_asm;

global_asm!(
    include_str!(concat!(env!("MCOUNT_CPU"), "/riscv64/call.s")),
    include_str!("../arch/riscv64.s"),
    include_str!("../arch/thread.s"),
    slow_entry = sym slow_entry,
    slow_entry_late = sym traced_late,
    slow_exit = sym slow_exit,
    entered = sym entered,
    entered_late = sym entered_late,
    left = sym left,
    missed = sym MISSED,
    unwound = sym unwound,
    personality = sym personality,
    mark = sym mcount_live_mark,
);
