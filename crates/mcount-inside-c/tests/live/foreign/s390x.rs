//! s390x, which is big endian.

use super::{BOTH, Foreign, O0, O2, STATIC, hooks, on};
use crate::Test;
use crate::build::Hooks;
use crate::machine::S390X;
use crate::own::check_in;
use crate::truth::{COPIES, COPIES_THROW, Program, leaves, program};

const NOP: Hooks = hooks("nop-mcount", &["-pg", "-mfentry", "-mnop-mcount", "-mrecord-mcount"]);
const FENTRY: Hooks = hooks("fentry", &["-pg", "-mfentry"]);
/// gcc's, which is at the entry on this processor.
const PG: Hooks = hooks("pg", &["-pg"]);
const HOTPATCH: Hooks = hooks("hotpatch", &["-mhotpatch=0,3"]);
const GCC: &[&str] = &["gcc"];

pub(super) static FOREIGN: Foreign = Foreign {
    machine: &S390X,
    usual: &[("gcc", NOP), ("clang", NOP)],
    gxx: None,
    hooks: &[(NOP, BOTH), (FENTRY, BOTH), (PG, GCC), (HOTPATCH, GCC)],
    programs: &[
        (leaves("throw.cpp"), "g++", NOP, O2),
        (leaves("throw.cpp"), "clang++", FENTRY, O0),
        (leaves("throw.cpp"), "g++", PG, STATIC),
        (program("abi.c"), "clang", NOP, O0),
        (Program { flags: &["-DNESTED"], ..program("abi.c") }, "gcc", HOTPATCH, O2),
        (program("unwind.cpp"), "clang++", NOP, O2),
        (leaves("jumps.c"), "gcc", FENTRY, O2),
        (leaves("thread-ends.cpp"), "g++", NOP, O2),
        (Program { changes_stacks: true, ..leaves("fibres.c") }, "gcc", NOP, O0),
        (COPIES, "gcc", NOP, O2),
        (COPIES, "clang", FENTRY, O0),
        (COPIES_THROW, "g++", PG, STATIC),
    ],
};

/// Three NOPs of two bytes can't become a branch while threads run.
pub(super) fn several() -> Test {
    const THREE: Hooks = hooks("patchable-3", &["-fpatchable-function-entry=3"]);
    on(&S390X, "several", "gcc", |room| check_in(room, "gcc", THREE, O2, &["several.c"], &[]))
}
