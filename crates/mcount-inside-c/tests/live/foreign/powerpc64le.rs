//! 64-bit PowerPC, little endian.

use super::{BOTH, Foreign, O0, O2, STATIC, hooks};
use crate::build::Hooks;
use crate::machine::POWERPC64LE;
use crate::truth::{COPIES, COPIES_RANDOM, COPIES_THROW, Program, leaves, program};

const KERNEL: Hooks = hooks("profile-kernel", &["-pg", "-mprofile-kernel"]);
const PG: Hooks = Hooks { after_prologue: true, ..hooks("pg", &["-pg"]) };
const GCC: &[&str] = &["gcc"];

pub(super) static FOREIGN: Foreign = Foreign {
    machine: &POWERPC64LE,
    usual: &[("gcc", KERNEL), ("clang", PG)],
    gxx: None,
    hooks: &[(KERNEL, GCC), (PG, BOTH)],
    programs: &[
        (leaves("throw.cpp"), "g++", KERNEL, O2),
        (leaves("throw.cpp"), "clang++", PG, O0),
        (leaves("throw.cpp"), "g++", PG, STATIC),
        (program("abi.c"), "gcc", KERNEL, O0),
        (program("unwind.cpp"), "g++", KERNEL, O2),
        (leaves("jumps.c"), "gcc", KERNEL, O2),
        (leaves("thread-ends.cpp"), "g++", KERNEL, O2),
        (program("threads.c"), "clang", PG, O2),
        (Program { changes_stacks: true, ..leaves("fibres.c") }, "gcc", KERNEL, O0),
        (COPIES, "gcc", KERNEL, O2),
        (COPIES, "clang", PG, O0),
        (COPIES_THROW, "g++", KERNEL, STATIC),
        (COPIES_RANDOM, "g++", KERNEL, O2),
    ],
};
