//! x86-64.
#![expect(bad_asm_style, reason = "the agent's half of the assembly says in which syntax it is")]

use crate::agent::{slow_entry, slow_entry_late};
use crate::arch::{AREA, VECTORS};
use crate::c::mcount_live_mark;
use crate::watch::{entered, entered_late, personality, unwound};

assembly!(
    "../arch/state.s",
    concat!(env!("MCOUNT_CPU"), "/x86_64/call.s"),
    "../arch/x86_64.s";
    slow_entry = sym slow_entry,
    slow_entry_late = sym slow_entry_late,
    entered = sym entered,
    entered_late = sym entered_late,
    unwound = sym unwound,
    personality = sym personality,
    area = sym AREA,
    vectors = sym VECTORS,
    mark = sym mcount_live_mark,
    options(att_syntax)
);
