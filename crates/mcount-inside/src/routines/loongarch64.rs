//! LoongArch.

#[path = "late.rs"]
mod late;

use crate::agent::{slow_entry, slow_exit};
use crate::arch::VECTORS;
use crate::c::mcount_live_mark;
use crate::watch::{MISSED, entered, entered_late, left, personality, unwound};
use late::traced_late;
use mcount_cpu::here::abi::PAD_SIZE;
use mcount_recorder::pad_table::PAD_PAGES;
use std::arch::global_asm;

global_asm!(
    include_str!(concat!(env!("MCOUNT_CPU"), "/macros/routine.s")),
    include_str!(concat!(env!("MCOUNT_CPU"), "/macros/pads.s")),
    include_str!(concat!(env!("MCOUNT_CPU"), "/macros/linked.s")),
    include_str!("../arch/loongarch64.s"),
    include_str!("../arch/thread.s"),
    slow_entry = sym slow_entry,
    slow_entry_late = sym traced_late,
    slow_exit = sym slow_exit,
    entered = sym entered,
    entered_late = sym entered_late,
    left = sym left,
    missed = sym MISSED,
    vectors = sym VECTORS,
    unwound = sym unwound,
    personality = sym personality,
    mark = sym mcount_live_mark,
    pad_pages = const PAD_PAGES,
    pad_size = const PAD_SIZE,
);
