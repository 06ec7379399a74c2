//! Programs that check themselves: they print "ok" and end with 0.

use crate::Test;
use crate::build::{
    FENTRY, HOOKS, Hooks, LINKS, Link, PATCHABLE, PG, Room, USUAL, sources as folder,
};
use crate::machine::{HERE, Machine};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use testkit::sample::one_in;

const SANITIZED: &[&str] = &["-fpatchable-function-entry=5", "-g", "-fsanitize=address,undefined"];

/// Builds a program of `tests/live`, and runs it with these arguments.
fn check(
    compiler: &'static str,
    hooks: Hooks,
    link: Link,
    sources: &[&str],
    arguments: &[&str],
) -> Result<(), String> {
    let room = Room::new()?;
    check_in(&room, compiler, hooks, link, sources, arguments)
}

pub(crate) fn check_in(
    room: &Room,
    compiler: &'static str,
    hooks: Hooks,
    link: Link,
    sources: &[&str],
    arguments: &[&str],
) -> Result<(), String> {
    let parts: Vec<_> = sources.iter().map(|source| folder("live").join(source)).collect();
    let program = room.program(compiler, hooks.flags, link, &parts)?;
    run(room, &program, arguments)
}

/// Runs a program that checks itself.
fn run(room: &Room, program: &Path, arguments: &[&str]) -> Result<(), String> {
    let output = testkit::process::run(room.machine.execute(program).args(arguments))?;
    if output.ends_with("ok\n") { Ok(()) } else { Err(format!("it printed {output:?}")) }
}

fn test(
    name: impl Into<String>,
    compiler: &'static str,
    run: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Test {
    Test { name: name.into(), wants: vec![compiler], run: Box::new(run) }
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = one_in(6, handlers());
    for hooks in HOOKS.iter().filter(|hooks| !hooks.after_prologue && !hooks.gcc_fixed_only) {
        tests.push(test(format!("registers/gcc/{}", hooks.name), "gcc", || {
            check("gcc", *hooks, USUAL, &["registers.c"], &[])
        }));
    }
    tests.extend(one_in(10, stress()));
    // clang's hook is one instruction, and so is a call.
    let refused = [
        ("gcc", PATCHABLE, ""),
        ("clang", PATCHABLE, "one-instruction"),
        ("gcc", FENTRY, "one-instruction"),
    ];
    for (compiler, hooks, argument) in refused {
        tests.push(test(format!("refused/{compiler}/{}", hooks.name), compiler, move || {
            check(compiler, hooks, USUAL, &["refused.c"], &[argument])
        }));
    }
    for hooks in [PATCHABLE, PG] {
        tests.push(test(format!("left/{}", hooks.name), "gcc", move || {
            check("gcc", hooks, USUAL, &["left.c"], &[])
        }));
        tests.push(test(format!("interrupted/{}", hooks.name), "gcc", move || interrupted(hooks)));
        tests.push(test(format!("escapes/{}", hooks.name), "gcc", move || {
            check("gcc", hooks, USUAL, &["escapes.c"], &[])
        }));
    }
    // With the checkers for memory and leaks, which find nothing.
    for compiler in ["gcc", "clang"] {
        tests.push(test(format!("sanitized/{compiler}"), compiler, move || {
            let hooks = Hooks { flags: SANITIZED, ..PATCHABLE };
            check(compiler, hooks, USUAL, &["left.c"], &[])?;
            let room = Room::new()?;
            let trace = room.path("trace").display().to_string();
            let arguments = [trace.as_str(), "file-size", "200000", &trace];
            check_in(&room, compiler, hooks, USUAL, &["full.c"], &arguments)
        }));
    }
    tests.push(test("library", "gcc", library));
    tests
}

/// A program with 10,000 functions takes longer to compile than to run, so the tests of a build share it.
pub(crate) struct Stress {
    machine: &'static Machine,
    compiler: &'static str,
    hooks: Hooks,
    link: Link,
    built: OnceLock<Result<Built, String>>,
}

/// The program, the library that it opens, and their folder.
struct Built {
    room: Room,
    program: PathBuf,
    plugin: String,
}

impl Stress {
    pub(crate) fn new(
        machine: &'static Machine,
        compiler: &'static str,
        hooks: Hooks,
        link: Link,
    ) -> Arc<Self> {
        Arc::new(Self { machine, compiler, hooks, link, built: OnceLock::new() })
    }

    /// Runs the program for so many seconds. The first test builds it.
    pub(crate) fn run(&self, seconds: &str, protocol: &str, how: &str) -> Result<(), String> {
        let built = self.built.get_or_init(|| self.build()).as_ref();
        let Built { room, program, plugin } = built.map_err(String::clone)?;
        run(room, program, &[seconds, protocol, how, plugin])
    }

    fn build(&self) -> Result<Built, String> {
        let Self { compiler, hooks, link, .. } = self;
        let room = Room::on(self.machine)?;
        let plugin = room.shared(compiler, hooks.flags, "plugin.c")?.display().to_string();
        let parts = ["stress.c", "many.c"].map(|source| folder("live").join(source));
        let program = room.program(compiler, hooks.flags, *link, &parts)?;
        Ok(Built { room, program, plugin })
    }
}

fn stress() -> Vec<Test> {
    let [gcc, clang] =
        ["gcc", "clang"].map(|compiler| Stress::new(&HERE, compiler, PATCHABLE, USUAL));
    let mut tests = Vec::new();
    for (protocol, number) in [("one-byte", "0"), ("breakpoint", "1"), ("stopped", "2")] {
        for (how, compiler, seconds, built) in [
            ("toggle", "gcc", "10", &gcc),
            ("replace", "gcc", "2", &gcc),
            ("random", "gcc", "5", &gcc),
            ("new", "gcc", "3", &gcc),
            ("new", "clang", "3", &clang),
        ] {
            let built = Arc::clone(built);
            tests.push(test(format!("stress/{how}/{protocol}/{compiler}"), compiler, move || {
                built.run(seconds, number, how)
            }));
        }
    }
    tests
}

/// On a disk and in memory.
fn interrupted(hooks: Hooks) -> Result<(), String> {
    let room = Room::new()?;
    let memory = tempfile::tempdir_in("/dev/shm").map_err(|error| error.to_string())?;
    for trace in [room.path("trace"), memory.path().join("trace")] {
        let trace = trace.display().to_string();
        check_in(&room, "gcc", hooks, USUAL, &["interrupted.c"], &[&trace])?;
    }
    Ok(())
}

fn library() -> Result<(), String> {
    let room = Room::new()?;
    let plugin = room.shared("gcc", PATCHABLE.flags, "plugin.c")?.display().to_string();
    check_in(&room, "gcc", PATCHABLE, USUAL, &["library.c"], &[&plugin])
}

/// The same program by both compilers, with every way to ask for hooks, and to link.
fn handlers() -> Vec<Test> {
    let mut tests = Vec::new();
    for hooks in HOOKS {
        for link in LINKS {
            if hooks.name != PATCHABLE.name
                && ["fixed", "static-pie"].contains(&link.name)
                && !hooks.gcc_fixed_only
            {
                continue;
            }
            for compiler in ["gcc", "clang"].into_iter().filter(|one| hooks.can_be(one, link)) {
                let name = format!("handlers/{compiler}/{}/{}", hooks.name, link.name);
                tests.push(test(name, compiler, move || {
                    let arguments: &[&str] =
                        if hooks.after_prologue { &["after-prologue"] } else { &[] };
                    check(compiler, *hooks, *link, &["handlers.c"], arguments)
                }));
            }
        }
    }
    tests
}
