//! s390x.

use crate::agent::{slow_entry, slow_exit};
use crate::arch::LONG_VECTORS;
use crate::c::mcount_live_mark;
use crate::watch::{MISSED, entered, left, passed, personality};
use mcount_cpu::here::abi::PAD_SIZE;
use mcount_recorder::pad_table::PAD_PAGES;
use std::arch::global_asm;

global_asm!(
    include_str!(concat!(env!("MCOUNT_CPU"), "/macros/routine.s")),
    include_str!(concat!(env!("MCOUNT_CPU"), "/macros/pads.s")),
    include_str!("../arch/s390x.s"),
    include_str!("../arch/thread.s"),
    slow_entry = sym slow_entry,
    slow_exit = sym slow_exit,
    entered = sym entered,
    left = sym left,
    missed = sym MISSED,
    unwound = sym passed,
    personality = sym personality,
    mark = sym mcount_live_mark,
    pad_pages = const PAD_PAGES,
    pad_size = const PAD_SIZE,
    long_vectors = sym LONG_VECTORS,
);
