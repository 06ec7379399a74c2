//! RISC-V.

use super::{BOTH, Foreign, O0, O2, STATIC, hooks};
use crate::build::Hooks;
use crate::machine::RISCV64;
use crate::truth::{COPIES, COPIES_THROW, Program, leaves, program};

/// Room before the entry, and one NOP at it: that's changed while threads run.
const BEFORE: Hooks = hooks("patchable-5,4", &["-fpatchable-function-entry=5,4"]);
/// Eight bytes at the entry.
const FOUR: Hooks = hooks("patchable-4", &["-fpatchable-function-entry=4"]);
const PG: Hooks = Hooks { after_prologue: true, ..hooks("pg", &["-pg"]) };

pub(super) static FOREIGN: Foreign = Foreign {
    machine: &RISCV64,
    usual: &[("gcc", BEFORE), ("clang", BEFORE)],
    gxx: None,
    hooks: &[
        (BEFORE, BOTH),
        (FOUR, BOTH),
        // Without compressed instructions, whose NOPs have half as many bytes.
        (hooks("patchable-3,2-wide", &["-fpatchable-function-entry=3,2", "-march=rv64g"]), BOTH),
        (hooks("patchable-2-wide", &["-fpatchable-function-entry=2", "-march=rv64g"]), BOTH),
        (PG, BOTH),
        // Calls that the linker leaves alone.
        (Hooks { after_prologue: true, ..hooks("pg-unrelaxed", &["-pg", "-mno-relax"]) }, BOTH),
    ],
    programs: &[
        (leaves("throw.cpp"), "g++", BEFORE, O2),
        (leaves("throw.cpp"), "clang++", FOUR, O0),
        (leaves("throw.cpp"), "g++", PG, STATIC),
        (program("abi.c"), "clang", BEFORE, O0),
        (program("unwind.cpp"), "clang++", BEFORE, O2),
        (leaves("jumps.c"), "gcc", BEFORE, O2),
        (leaves("thread-ends.cpp"), "g++", BEFORE, O2),
        // Not threads.c: QEMU gives each of 10,000 stacks new addresses, so they spread over more than 64 GiB.
        (Program { changes_stacks: true, ..leaves("fibres.c") }, "gcc", BEFORE, O0),
        (COPIES, "gcc", BEFORE, O2),
        (COPIES, "clang", FOUR, O0),
        (COPIES, "gcc", PG, O2),
        (COPIES_THROW, "g++", BEFORE, STATIC),
    ],
};
