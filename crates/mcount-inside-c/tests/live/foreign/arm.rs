//! Arm with 32 bits, in both instruction sets. clang has no `-fpatchable-function-entry` there.

use super::{BOTH, Foreign, O0, O2, STATIC, hooks};
use crate::build::Hooks;
use crate::machine::ARM;
use crate::truth::{Program, leaves, program};

const GCC: &[&str] = &["gcc"];

/// Thumb code: room before the entry, and one NOP at it. That's changed while threads run.
const BEFORE: Hooks = hooks("patchable-3,2", &["-fpatchable-function-entry=3,2"]);
/// Four bytes at the entry.
const TWO: Hooks = hooks("patchable-2", &["-fpatchable-function-entry=2"]);
const ARM_ONE: Hooks = hooks("patchable-1-arm", &["-fpatchable-function-entry=1", "-marm"]);
const PG: Hooks = Hooks { after_prologue: true, ..hooks("pg", &["-pg"]) };
const ARM_PG: Hooks = Hooks { after_prologue: true, ..hooks("pg-arm", &["-pg", "-marm"]) };

pub(super) static FOREIGN: Foreign = Foreign {
    machine: &ARM,
    usual: &[("gcc", BEFORE), ("clang", PG)],
    hooks: &[
        (BEFORE, GCC),
        (TWO, GCC),
        (ARM_ONE, GCC),
        (hooks("patchable-4,2-arm", &["-fpatchable-function-entry=4,2", "-marm"]), GCC),
        (PG, BOTH),
        (ARM_PG, BOTH),
    ],
    programs: &[
        (leaves("throw.cpp"), "g++", BEFORE, O2),
        (leaves("throw.cpp"), "clang++", PG, O0),
        (leaves("throw.cpp"), "g++", ARM_PG, STATIC),
        (program("abi.c"), "clang", ARM_PG, O0),
        (Program { flags: &["-DNESTED"], ..program("abi.c") }, "gcc", BEFORE, O2),
        (Program { flags: &["-DNESTED"], ..program("abi.c") }, "gcc", ARM_ONE, O0),
        (program("abi.c"), "gcc", PG, O2),
        (program("unwind.cpp"), "g++", ARM_ONE, O2),
        (leaves("jumps.c"), "gcc", BEFORE, O2),
        (leaves("jumps.c"), "gcc", PG, O0),
        (Program { may_miss: true, ..leaves("signals.c") }, "gcc", BEFORE, O2),
        (leaves("thread-ends.cpp"), "g++", BEFORE, O2),
        (program("tail.c"), "gcc", ARM_ONE, O2),
        (Program { changes_stacks: true, ..leaves("fibres.c") }, "gcc", BEFORE, O0),
    ],
};
