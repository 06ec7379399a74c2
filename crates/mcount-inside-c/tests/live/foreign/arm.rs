//! Arm with 32 bits, in both instruction sets. clang has no `-fpatchable-function-entry` there; and a program that gcc 12 has
//! compiled with it can't catch exceptions, whether it's traced or not, because its tables count from behind the NOPs.

use super::{BOTH, Foreign, O0, O2, STATIC, hooks, on};
use crate::Test;
use crate::build::{Hooks, Link};
use crate::machine::ARM;
use crate::own::check_in;
use crate::traces;
use crate::truth::{COPIES, COPIES_RANDOM, COPIES_THROW, Program, leaves, program};

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
        (COPIES, "gcc", ARM_ONE, O2),
        (COPIES, "gcc", PG, O0),
        (COPIES, "gcc", PG, O2),
        (COPIES, "gcc", ARM_PG, O2),
        (COPIES, "gcc", ARM_PG, STATIC),
        (COPIES, "clang", PG, O0),
        (COPIES_THROW, "g++", PG, O0),
        (COPIES_THROW, "g++", ARM_PG, STATIC),
        (COPIES_RANDOM, "g++", ARM_PG, O2),
        (COPIES_RANDOM, "g++", PG, O2),
    ],
};

/// Thumb functions begin at any halfword then.
const OS: Link = Link { name: "Os", flags: &["-Os"], is_static: false, is_fixed: false };

/// What differs from other processors.
pub(super) fn own() -> Vec<Test> {
    // While threads run, one NOP of ARM code and what's before an entry can be armed for the first time; two instructions
    // can't. Prepared before, they can, unless one becomes half of another.
    let refused = [TWO, PG, ARM_PG].map(|hooks| check(hooks, O2, &["several.c"], &[]));
    let halves = check(TWO, OS, &["several.c"], &["prepared"]);
    let new = [(BEFORE, O2), (BEFORE, OS), (ARM_ONE, O2)];
    let new = new.map(|(hooks, link)| check(hooks, link, STRESS, &["2", "0", "new"]));
    let prepared = [PG, ARM_PG].map(|hooks| check(hooks, OS, STRESS, &["2", "0", "prepared"]));
    let thrown = [BEFORE, TWO, ARM_ONE, PG, ARM_PG];
    let thrown = thrown.map(|hooks| check(hooks, O2, &["passes.cpp"], &[]));
    // What's changed of a hook, from its first byte on.
    let edges: [(Hooks, &[&str]); 3] =
        [(BEFORE, &["-4", "2"]), (TWO, &["0", "4"]), (PG, &["0", "6"])];
    let edges = edges.map(|(hooks, bytes)| check(hooks, OS, &["edges.c", "many.c"], bytes));
    let both = hooks("patchable-2-arm", &["-fpatchable-function-entry=2", "-marm"]);
    let mixed = [BEFORE, TWO, both, PG, ARM_PG];
    let mixed = mixed.map(|hooks| [O0, O2].map(|link| check(hooks, link, &["mixed.c"], &[])));
    // More traces, one after the other, than there's room for at once.
    let traced = [BEFORE, ARM_ONE, PG].map(|hooks| {
        on(&ARM, &format!("traces/{}", hooks.name), "gcc", move |room| {
            traces::check_in(room, "gcc", hooks, O2)
        })
    });
    let by_clang = on(&ARM, "mixed/clang/pg", "clang", |room| {
        check_in(room, "clang", PG, O2, &["mixed.c"], &[])
    });
    let all =
        refused.into_iter().chain([halves]).chain(new).chain(prepared).chain(thrown).chain(edges);
    all.chain(mixed.into_iter().flatten()).chain(traced).chain([by_clang]).collect()
}

const STRESS: &[&str] = &["stress.c", "many.c"];

/// A program that checks itself, by gcc.
fn check(
    hooks: Hooks,
    link: Link,
    sources: &'static [&'static str],
    arguments: &'static [&'static str],
) -> Test {
    let first = sources.first().copied().unwrap_or_default();
    let (name, language) = first.split_once('.').unwrap_or_default();
    let compiler = if language == "cpp" { "g++" } else { "gcc" };
    let how = arguments
        .last()
        .filter(|_| sources == STRESS)
        .map_or(String::new(), |how| format!("/{how}"));
    on(&ARM, &format!("{name}{how}/{}/{}", hooks.name, link.name), compiler, move |room| {
        check_in(room, compiler, hooks, link, sources, arguments)
    })
}
