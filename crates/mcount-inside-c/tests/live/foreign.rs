//! The library on other processors than this one: the same programs, compiled for them and run by emulators. `cargo xtask
//! foreign` builds the library for that; without it these tests are ignored.

use crate::Test;
use crate::build::{Hooks, Link, Room, sources};
use crate::machine::{AARCH64, HERE, Machine};
use crate::own::check_in;
use crate::truth::{Program, leaves, program, same_in};
use mcount_trace::{End, Trace};

const fn hooks(name: &'static str, flags: &'static [&'static str]) -> Hooks {
    Hooks { name, flags, after_prologue: false, gcc_fixed_only: false }
}

const TWO: Hooks = hooks("patchable-2", &["-fpatchable-function-entry=2"]);
const PROTECTED: Hooks = hooks(
    "patchable-4,2-protected",
    &["-fpatchable-function-entry=4,2", "-mbranch-protection=standard"],
);

const PG_PROTECTED: Hooks = Hooks {
    after_prologue: true,
    ..hooks("pg-protected", &["-pg", "-mbranch-protection=standard"])
};

const HOOKS: &[Hooks] = &[
    TWO,
    hooks("patchable-1", &["-fpatchable-function-entry=1"]),
    PROTECTED,
    Hooks { after_prologue: true, ..hooks("pg", &["-pg"]) },
    PG_PROTECTED,
];

const O0: Link = Link { name: "O0", flags: &["-O0"], is_static: false, is_fixed: false };
const O2: Link = Link { name: "O2", flags: &["-O2"], is_static: false, is_fixed: false };
const FIXED: Link = Link {
    name: "fixed",
    flags: &["-O2", "-no-pie", "-fno-pie"],
    is_static: false,
    is_fixed: true,
};
const STATIC: Link =
    Link { name: "static", flags: &["-O2", "-static"], is_static: true, is_fixed: false };

/// Those whose calls are counted. An emulator takes ten times as long, so each is built in one way.
const PROGRAMS: &[(Program, &str, Hooks, Link)] = &[
    (leaves("throw.cpp"), "g++", TWO, O2),
    (leaves("throw.cpp"), "clang++", PROTECTED, O0),
    (leaves("throw.cpp"), "g++", PG_PROTECTED, STATIC),
    (program("abi.c"), "clang", PROTECTED, O0),
    (program("unwind.cpp"), "clang++", TWO, O2),
    (leaves("jumps.c"), "gcc", PROTECTED, O2),
    (Program { may_miss: true, ..leaves("plain.c") }, "gcc", TWO, O2),
    (leaves("thread-ends.cpp"), "g++", TWO, O2),
    (program("threads.c"), "gcc", TWO, O2),
    (Program { changes_stacks: true, ..leaves("fibres.c") }, "gcc", TWO, O0),
];

type Run = Box<dyn FnOnce() -> Result<(), String> + Send>;

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for hooks in HOOKS {
        for link in [O0, O2] {
            for compiler in ["gcc", "clang"] {
                let name = format!("handlers/{compiler}/{}/{}", hooks.name, link.name);
                let argument = if hooks.after_prologue { "after-prologue" } else { "" };
                let run = move |room: &Room| {
                    check_in(room, compiler, *hooks, link, &["handlers.c"], &[argument])
                };
                tests.push(on(&AARCH64, &name, compiler, run));
            }
        }
    }
    for (of, compiler, hooks, link) in PROGRAMS {
        let name = format!("truth/{}/{compiler}/{}/{}", of.source, hooks.name, link.name);
        let run = move |room: &Room| same_in(room, compiler, *hooks, *link, of, &[]);
        tests.push(on(&AARCH64, &name, compiler, run));
    }
    tests
        .push(on(&AARCH64, "left", "gcc", |room| check_in(room, "gcc", TWO, O2, &["left.c"], &[])));
    tests.push(on(&AARCH64, "stress", "gcc", |room| {
        let plugin = room.shared("gcc", TWO.flags, "plugin.c")?.display().to_string();
        check_in(room, "gcc", TWO, O2, &["stress.c", "many.c"], &["2", "0", "random", &plugin])
    }));
    // glibc maps a library where it's linked to be, if it can and the program is at a fixed address.
    tests.push(on(&AARCH64, "far", "gcc", |room| {
        let flags = [TWO.flags, &["-Wl,-Ttext-segment=0x50000000"]].concat();
        let plugin = room.shared("gcc", &flags, "plugin.c")?.display().to_string();
        check_in(room, "gcc", TWO, FIXED, &["far.c"], &[&plugin])
    }));
    // C doesn't say in which order arguments are evaluated, and frames that `longjmp` left are noticed by where they were: so
    // not every program does the same everywhere.
    tests.push(on(&AARCH64, "as-here", "g++", |room| as_here(room, "g++", "unwind.cpp")));
    tests
}

/// A test of programs for this machine.
fn on(
    machine: &'static Machine,
    name: &str,
    compiler: &str,
    run: impl FnOnce(&Room) -> Result<(), String> + Send + 'static,
) -> Test {
    let run: Run = Box::new(move || {
        if !machine.library("a").is_file() {
            testkit::trial::ignore("`cargo xtask foreign` hasn't built the library");
        }
        run(&Room::on(machine)?)
    });
    let emulator = machine.emulator.first().copied();
    let mut wants = vec![machine.compiler(compiler), machine.compiler("gcc")];
    wants.extend(emulator);
    Test { name: format!("{}/{name}", machine.name), wants, run }
}

/// The calls of a program in the order of their starts: names, how many enclose them, how they ended.
type Calls = Vec<(String, usize, Option<End>)>;

/// A trace that a program makes there says the same as one that it makes here.
fn as_here(there: &Room, compiler: &'static str, source: &str) -> Result<(), String> {
    const HERE_HOOKS: Hooks = hooks("patchable-5", &["-fpatchable-function-entry=5"]);
    let here = Room::on(&HERE)?;
    let (here, there) =
        (calls(&here, compiler, HERE_HOOKS, source)?, calls(there, compiler, TWO, source)?);
    if here.len() < 1000 {
        return Err(format!("only {} calls", here.len()));
    }
    match here.iter().zip(&there).position(|(here, there)| here != there) {
        None if here.len() == there.len() => Ok(()),
        None => Err(format!("{} calls instead of {}", there.len(), here.len())),
        Some(at) => Err(format!("call {at}: {:?} instead of {:?}", there.get(at), here.get(at))),
    }
}

/// The calls of the one thread of a program, in the trace that it makes.
fn calls(room: &Room, compiler: &str, hooks: Hooks, source: &str) -> Result<Calls, String> {
    let watcher = room.object("gcc", &["-O2", "-fPIE"], "watch.c")?;
    let parts = [sources("trace").join(source), watcher];
    let program = room.program(compiler, hooks.flags, O0, &parts)?;
    let path = room.path("trace");
    // What it ends with doesn't matter.
    let ended = room.machine.execute(&program).env("TRACED", &path).output();
    ended.map_err(|error| error.to_string())?;
    let bytes = testkit::files::read(&path)?;
    let trace = Trace::parse(&bytes).map_err(|error| error.to_string())?;
    let name = |number| {
        let name = trace.function(number).map(|one| one.name).unwrap_or_default();
        // Of a constructor's two names, each symbol table has another one first.
        let symbol = cpp_demangle::Symbol::new(name).ok().and_then(|symbol| symbol.demangle().ok());
        symbol.unwrap_or_else(|| String::from_utf8_lossy(name).into_owned())
    };
    Ok(trace.calls().map(|call| (name(call.function), call.depth, call.how)).collect())
}
