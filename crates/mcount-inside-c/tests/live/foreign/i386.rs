//! i386, which runs on this machine.

use super::{BOTH, Foreign, O0, O2, STATIC, hooks, on};
use crate::Test;
use crate::build::{Hooks, Link, Room, sources};
use crate::machine::I386;
use crate::own::Stress;
use crate::truth::{COPIES, COPIES_THROW, Program, leaves, program};
use std::sync::Arc;
use testkit::trace::Trace;

const FIVE: Hooks = hooks("patchable-5", &["-fpatchable-function-entry=5"]);
const PROTECTED: Hooks =
    hooks("patchable-7,2-cet", &["-fpatchable-function-entry=7,2", "-fcf-protection"]);
/// gcc can't make position-independent programs of it.
const FENTRY: Hooks = hooks("fentry", &["-pg", "-mfentry", "-fno-pie", "-no-pie"]);
const PG: Hooks = Hooks { after_prologue: true, ..hooks("pg", &["-pg"]) };
const PG_FIXED: Hooks =
    Hooks { after_prologue: true, ..hooks("pg-fixed", &["-pg", "-fno-pie", "-no-pie"]) };

pub(super) static FOREIGN: Foreign = Foreign {
    machine: &I386,
    usual: &[("gcc", FIVE), ("clang", FIVE)],
    gxx: None,
    hooks: &[(FIVE, BOTH), (PROTECTED, BOTH), (FENTRY, BOTH), (PG, BOTH), (PG_FIXED, BOTH)],
    programs: &[
        (leaves("throw.cpp"), "g++", FIVE, O2),
        (leaves("throw.cpp"), "clang++", FENTRY, O0),
        (leaves("throw.cpp"), "g++", PG, STATIC),
        (program("abi.c"), "clang", FIVE, O0),
        (Program { flags: &["-DNESTED"], ..program("abi.c") }, "gcc", FIVE, O2),
        (Program { flags: &["-DNESTED", "-mavx2"], ..program("abi.c") }, "gcc", FIVE, O0),
        (program("abi.c"), "gcc", PG, O2),
        (program("unwind.cpp"), "clang++", FIVE, O2),
        (leaves("jumps.c"), "gcc", FIVE, O2),
        (program("fork.c"), "gcc", FENTRY, O2),
        (leaves("thread-ends.cpp"), "g++", FIVE, O2),
        (program("threads.c"), "gcc", FIVE, O2),
        (Program { changes_stacks: true, ..leaves("fibres.c") }, "gcc", FIVE, O0),
        (COPIES, "gcc", FIVE, O2),
        (COPIES, "clang", FENTRY, O0),
        (COPIES, "gcc", PG, O2),
        (COPIES_THROW, "g++", FIVE, STATIC),
    ],
};

/// What is x86's alone: breakpoints, and threads that stand.
pub(super) fn protocols() -> Vec<Test> {
    let mut tests = Vec::new();
    let built = Stress::new(&I386, "gcc", FIVE, O2);
    for (how, number) in [("new", "0"), ("random", "1"), ("random", "2"), ("toggle", "2")] {
        let built = Arc::clone(&built);
        tests.push(on(&I386, &format!("stress/{how}/{number}"), "gcc", move |_| {
            built.run("2", number, how)
        }));
    }
    tests
}

/// Functions with all conventions of calling: their handlers, and a trace of them.
pub(super) fn conventions() -> Vec<Test> {
    let mut tests = Vec::new();
    for compiler in BOTH {
        for (hooks, link) in [(FIVE, O0), (FIVE, O2), (FENTRY, O2), (PG, O2), (PG_FIXED, O0)] {
            let name = format!("conventions/{compiler}/{}/{}", hooks.name, link.name);
            tests.push(on(&I386, &name, compiler, move |room| check(room, compiler, hooks, link)));
        }
    }
    tests
}

fn check(room: &Room, compiler: &str, hooks: Hooks, link: Link) -> Result<(), String> {
    let source = sources("live").join("conventions.c");
    let program = room.program(compiler, hooks.flags, link, &[source])?;
    let run = |argument: &str| {
        let output = testkit::process::run(room.machine.execute(&program).arg(argument))?;
        let lines = output.strip_suffix("ok\n").map(str::to_owned);
        lines.ok_or_else(|| format!("it printed {output:?}"))
    };
    run(if hooks.after_prologue { "after-prologue" } else { "at-entry" })?;
    let path = room.path("trace");
    let said = run(&path.display().to_string())?;
    let calls = said.strip_suffix(" calls\n").and_then(|number| number.parse::<u64>().ok());
    let mut trace = Trace::read(&path)?;
    let found = (Some(trace.total()), trace.dropped, trace.finished);
    if found != (calls, 0, true) {
        return Err(format!("calls, dropped, finished: {found:?}, and it made {said}"));
    }
    trace.check_nesting()
}
