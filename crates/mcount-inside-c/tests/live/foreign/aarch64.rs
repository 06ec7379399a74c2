//! AArch64.

use super::{BOTH, Foreign, O0, O2, STATIC, hooks};
use crate::build::Hooks;
use crate::machine::AARCH64;
use crate::truth::{COPIES, COPIES_THROW, Program, leaves, program};

const TWO: Hooks = hooks("patchable-2", &["-fpatchable-function-entry=2"]);
const PROTECTED: Hooks = hooks(
    "patchable-4,2-protected",
    &["-fpatchable-function-entry=4,2", "-mbranch-protection=standard"],
);

const PG_PROTECTED: Hooks = Hooks {
    after_prologue: true,
    ..hooks("pg-protected", &["-pg", "-mbranch-protection=standard"])
};

pub(super) static FOREIGN: Foreign = Foreign {
    machine: &AARCH64,
    usual: &[("gcc", TWO), ("clang", TWO)],
    gxx: None,
    hooks: &[
        (TWO, BOTH),
        (hooks("patchable-1", &["-fpatchable-function-entry=1"]), BOTH),
        (PROTECTED, BOTH),
        (Hooks { after_prologue: true, ..hooks("pg", &["-pg"]) }, BOTH),
        (PG_PROTECTED, BOTH),
    ],
    programs: &[
        (leaves("throw.cpp"), "g++", TWO, O2),
        (leaves("throw.cpp"), "clang++", PROTECTED, O0),
        (leaves("throw.cpp"), "g++", PG_PROTECTED, STATIC),
        (program("abi.c"), "clang", PROTECTED, O0),
        (program("unwind.cpp"), "clang++", TWO, O2),
        (leaves("jumps.c"), "gcc", PROTECTED, O2),
        (Program { may_miss: true, ..leaves("plain.c") }, "gcc", TWO, O2),
        (leaves("thread-ends.cpp"), "g++", TWO, O2),
        (Program { changes_stacks: true, ..leaves("fibres.c") }, "gcc", TWO, O0),
        (COPIES, "gcc", TWO, O2),
        (COPIES, "clang", PROTECTED, O0),
        (COPIES, "gcc", PG_PROTECTED, O2),
        (COPIES_THROW, "g++", PG_PROTECTED, STATIC),
    ],
};
