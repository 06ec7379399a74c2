//! LoongArch, by clang alone.

use super::{Foreign, O0, O2, hooks, on};
use crate::Test;
use crate::build::{Hooks, Link, sources};
use crate::machine::LOONGARCH64;
use crate::own::check_in;
use crate::truth::{COPIES, COPIES_THROW, Program, leaves, program};

const TWO: Hooks = hooks("patchable-2", &["-fpatchable-function-entry=2"]);
const PG: Hooks = Hooks { after_prologue: true, ..hooks("pg", &["-pg"]) };
const CLANG: &[&str] = &["clang"];

pub(super) static FOREIGN: Foreign = Foreign {
    machine: &LOONGARCH64,
    usual: &[("clang", TWO)],
    gxx: None,
    hooks: &[
        (TWO, CLANG),
        (hooks("patchable-1", &["-fpatchable-function-entry=1"]), CLANG),
        (hooks("patchable-4,2", &["-fpatchable-function-entry=4,2"]), CLANG),
        (PG, CLANG),
    ],
    programs: &[
        (leaves("throw.cpp"), "clang++", TWO, O2),
        (leaves("throw.cpp"), "clang++", TWO, O0),
        (leaves("throw.cpp"), "clang++", PG, O2),
        (program("abi.c"), "clang", TWO, O0),
        (program("abi.c"), "clang", PG, O2),
        (program("unwind.cpp"), "clang++", TWO, O2),
        (leaves("jumps.c"), "clang", TWO, O2),
        (Program { may_miss: true, ..leaves("plain.c") }, "clang", TWO, O2),
        (Program { may_miss: true, ..leaves("plain.c") }, "clang", PG, O0),
        (leaves("thread-ends.cpp"), "clang++", TWO, O2),
        (Program { changes_stacks: true, ..leaves("fibres.c") }, "clang", TWO, O0),
        (COPIES, "clang", TWO, O2),
        (COPIES, "clang", PG, O0),
        (COPIES_THROW, "clang++", TWO, O2),
    ],
};

/// All registers, with vectors of 32 bytes and of 16.
pub(super) fn registers() -> Vec<Test> {
    let test = |(what, processor): (&'static str, &'static str)| {
        on(&LOONGARCH64, &format!("registers/{what}"), "clang", move |room| {
            let parts = ["all-registers.c", "all-registers.S"];
            let parts = parts.map(|part| sources("live").join(part));
            let program = room.program("clang", TWO.flags, O2, &parts)?;
            let mut command = room.machine.execute(&program);
            command.arg(what).arg(room.path("trace")).env("QEMU_CPU", processor);
            let output = testkit::process::run(&mut command)?;
            if output == "ok\n" { Ok(()) } else { Err(format!("it printed {output:?}")) }
        })
    };
    [("wide", "la464"), ("narrow", "la464,lasx=off")].map(test).into()
}

/// A stack that a prologue aligns.
pub(super) fn aligned() -> Vec<Test> {
    let test = |(hooks, link): (Hooks, Link)| {
        let name = format!("aligned/{}/{}", hooks.name, link.name);
        on(&LOONGARCH64, &name, "clang", move |room| {
            check_in(room, "clang", hooks, link, &["aligned.c"], &[])
        })
    };
    [(PG, O0), (PG, O2), (TWO, O2)].map(test).into()
}
