//! Arm with 32 bits, in both instruction sets. clang has no `-fpatchable-function-entry` there; and a program that gcc 12 has
//! compiled with it can't catch exceptions, whether it's traced or not, because its tables count from behind the NOPs.

use super::{BOTH, Foreign, O0, O2, STATIC, hooks, on};
use crate::Test;
use crate::build::Hooks;
use crate::machine::ARM;
use crate::own::check_in;
use crate::traces;
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
    gxx: Some(PG),
    hooks: &[
        (BEFORE, GCC),
        (TWO, GCC),
        (ARM_ONE, GCC),
        (hooks("patchable-4,2-arm", &["-fpatchable-function-entry=4,2", "-marm"]), GCC),
        (PG, BOTH),
        (ARM_PG, BOTH),
    ],
    programs: &[
        (leaves("throw.cpp"), "g++", PG, O0),
        (leaves("throw.cpp"), "g++", PG, O2),
        (leaves("throw.cpp"), "g++", ARM_PG, O0),
        (leaves("throw.cpp"), "g++", ARM_PG, O2),
        (leaves("throw.cpp"), "g++", ARM_PG, STATIC),
        (leaves("throw.cpp"), "clang++", PG, O0),
        (leaves("throw.cpp"), "clang++", ARM_PG, O2),
        (Program { may_miss: true, ..leaves("plain.c") }, "gcc", BEFORE, O0),
        (Program { may_miss: true, ..leaves("plain.c") }, "gcc", ARM_ONE, O2),
        (Program { may_miss: true, ..leaves("plain.c") }, "clang", PG, O2),
        (program("abi.c"), "clang", ARM_PG, O0),
        (Program { flags: &["-DNESTED"], ..program("abi.c") }, "gcc", BEFORE, O2),
        (Program { flags: &["-DNESTED"], ..program("abi.c") }, "gcc", ARM_ONE, O0),
        (program("abi.c"), "gcc", PG, O2),
        (program("unwind.cpp"), "g++", ARM_PG, O2),
        (leaves("jumps.c"), "gcc", BEFORE, O2),
        (leaves("jumps.c"), "gcc", PG, O0),
        (Program { may_miss: true, ..leaves("signals.c") }, "gcc", BEFORE, O2),
        (leaves("thread-ends.cpp"), "g++", PG, O2),
        (program("tail.c"), "gcc", ARM_ONE, O2),
        (Program { changes_stacks: true, ..leaves("fibres.c") }, "gcc", BEFORE, O0),
    ],
};

/// What differs from other processors.
pub(super) fn own() -> Vec<Test> {
    let check = |hooks: Hooks, source: &'static str, arguments: &'static [&'static str]| {
        let name = source.split('.').next().unwrap_or_default();
        let compiler = if source.strip_suffix(".cpp").is_some() { "g++" } else { "gcc" };
        on(&ARM, &format!("{name}/{}", hooks.name), compiler, move |room| {
            let sources = [source, "many.c"];
            let count = if name == "stress" { 2 } else { 1 };
            check_in(room, compiler, hooks, O2, sources.get(..count).unwrap_or_default(), arguments)
        })
    };
    // While threads run, one NOP of ARM code and what's before an entry can be armed for the first time; two instructions
    // can't.
    let refused = [TWO, PG, ARM_PG].map(|hooks| check(hooks, "several.c", &[]));
    let armed = [BEFORE, ARM_ONE].map(|hooks| check(hooks, "stress.c", &["2", "0", "new"]));
    let thrown = [BEFORE, TWO, ARM_ONE, PG, ARM_PG].map(|hooks| check(hooks, "passes.cpp", &[]));
    // More traces, one after the other, than there's room for at once.
    let traced = [BEFORE, ARM_ONE, PG].map(|hooks| {
        on(&ARM, &format!("traces/{}", hooks.name), "gcc", move |room| {
            traces::check_in(room, "gcc", hooks, O2)
        })
    });
    refused.into_iter().chain(armed).chain(thrown).chain(traced).collect()
}
