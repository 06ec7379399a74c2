//! x86-64.
#![expect(bad_asm_style, reason = "the agent's half of the assembly says in which syntax it is")]

use crate::agent::{slow_entry, slow_entry_late, slow_exit};
use crate::arch::{AREA, VECTORS};
use crate::c::mcount_live_mark;
use crate::watch::{MISSED, entered, entered_late, left, personality, unwound};
use mcount_cpu::here::abi::PAD_SIZE;
use mcount_recorder::pad_table::PAD_PAGES;
use std::arch::global_asm;

global_asm!(
    include_str!(concat!(env!("MCOUNT_CPU"), "/macros/routine.s")),
    include_str!(concat!(env!("MCOUNT_CPU"), "/macros/pads.s")),
    include_str!("../arch/state.s"),
    include_str!(concat!(env!("MCOUNT_CPU"), "/x86_64/call.s")),
    include_str!("../arch/x86_64.s"),
    include_str!("../arch/thread.s"),
    slow_entry = sym slow_entry,
    slow_entry_late = sym slow_entry_late,
    slow_exit = sym slow_exit,
    entered = sym entered,
    entered_late = sym entered_late,
    left = sym left,
    missed = sym MISSED,
    unwound = sym unwound,
    personality = sym personality,
    area = sym AREA,
    vectors = sym VECTORS,
    mark = sym mcount_live_mark,
    pad_pages = const PAD_PAGES,
    pad_size = const PAD_SIZE,
    options(att_syntax)
);
