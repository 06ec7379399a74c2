//! AArch64, big endian: C programs, linked statically with musl, because Debian has nothing for it.

use super::{BOTH, Foreign, O0, O2, hooks};
use crate::build::Hooks;
use crate::machine::AARCH64_BE;
use crate::truth::{Program, leaves, program};

const TWO: Hooks = hooks("patchable-2", &["-fpatchable-function-entry=2"]);
const PROTECTED: Hooks = hooks(
    "patchable-4,2-protected",
    &["-fpatchable-function-entry=4,2", "-mbranch-protection=standard"],
);
const PG: Hooks = Hooks { after_prologue: true, ..hooks("pg", &["-pg"]) };

pub(super) static FOREIGN: Foreign = Foreign {
    machine: &AARCH64_BE,
    usual: &[("gcc", TWO), ("clang", TWO)],
    gxx: None,
    hooks: &[
        (TWO, BOTH),
        (hooks("patchable-1", &["-fpatchable-function-entry=1"]), BOTH),
        (PROTECTED, BOTH),
        (PG, BOTH),
    ],
    programs: &[
        (Program { may_miss: true, ..leaves("plain.c") }, "gcc", TWO, O2),
        (Program { may_miss: true, ..leaves("plain.c") }, "clang", PROTECTED, O0),
        (Program { may_miss: true, ..leaves("plain.c") }, "gcc", PG, O0),
        (program("abi.c"), "clang", TWO, O0),
        (program("abi.c"), "gcc", PG, O2),
        (program("depth.c"), "clang", TWO, O2),
        (leaves("jumps.c"), "gcc", PROTECTED, O2),
    ],
};
