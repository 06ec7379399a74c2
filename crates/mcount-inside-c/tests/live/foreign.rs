//! The library on other processors than this one: the same programs, compiled for them and run by emulators. `cargo xtask
//! foreign` builds the library for that; without it these tests are ignored. What differs is a file for each processor in
//! `foreign/`. `cargo xtask foreign --test` also runs every program with every compiler, which takes too long for each day.

mod aarch64;
mod aarch64_be;
mod arm;
mod i386;
mod loongarch64;
mod powerpc64le;
mod riscv64;
mod s390x;

use crate::Test;
use crate::build::{Hooks, Link, Room, sources};
use crate::machine::{HERE, I386, Machine};
use crate::own::check_in;
use crate::truth::{PROGRAMS, Program, compiler, same_in};
use mcount_trace::{End, Trace};
use std::path::Path;
use testkit::sample::one_in;

const ALL: &[&Foreign] = &[
    &aarch64::FOREIGN,
    &aarch64_be::FOREIGN,
    &arm::FOREIGN,
    &i386::FOREIGN,
    &loongarch64::FOREIGN,
    &powerpc64le::FOREIGN,
    &riscv64::FOREIGN,
    &s390x::FOREIGN,
];

const BOTH: &[&str] = &["gcc", "clang"];

/// What is tested on a processor.
struct Foreign {
    machine: &'static Machine,
    /// What to compile with there: each family of compilers, and its hooks. The first one is gcc.
    usual: &'static [(&'static str, Hooks)],
    /// The hooks of C++ by gcc, if they're others than those of C.
    gxx: Option<Hooks>,
    /// All hooks that it has, and the compilers that make them.
    hooks: &'static [(Hooks, &'static [&'static str])],
    /// Programs whose calls are counted each day. An emulator takes ten times as long, so each is built in one way, and
    /// `threads.c`, with its 10,000 threads, isn't among them.
    programs: &'static [(Program, &'static str, Hooks, Link)],
}

const fn hooks(name: &'static str, flags: &'static [&'static str]) -> Hooks {
    Hooks { name, flags, after_prologue: false, gcc_fixed_only: false }
}

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

type Run = Box<dyn FnOnce() -> Result<(), String> + Send>;

pub(crate) fn tests() -> Vec<Test> {
    let is_every = std::env::var_os("MCOUNT_EVERY_PROGRAM").is_some();
    let of = |foreign: &&'static Foreign| {
        let every = if is_every { foreign.every_program() } else { Vec::new() };
        foreign.usual_tests().into_iter().chain(every)
    };
    ALL.iter()
        .flat_map(of)
        .chain(one_in(3, ALL.iter().filter_map(|of| of.stress()).collect()))
        .chain(one_in(6, arm::own()))
        .chain([s390x::several()])
        .chain(one_in(6, i386::conventions()))
        .chain(one_in(4, i386::protocols()))
        .chain(loongarch64::registers())
        .chain(loongarch64::aligned())
        .collect()
}

impl Foreign {
    fn usual_tests(&'static self) -> Vec<Test> {
        let machine = self.machine;
        let mut tests = one_in(6, self.alike());
        tests.extend(
            self.usual
                .iter()
                .take(1)
                .flat_map(|(compiler, usual)| others(machine, compiler, *usual, self.gxx)),
        );
        tests
    }

    /// Hooks of many functions are switched while threads call them.
    fn stress(&'static self) -> Option<Test> {
        let machine = self.machine;
        let (compiler, usual) = *self.usual.first()?;
        Some(on(machine, "stress", compiler, move |room| {
            let mut arguments = vec!["2", "0", "random"];
            let plugin = if machine.is_static {
                String::new()
            } else {
                room.shared(compiler, usual.flags, "plugin.c")?.display().to_string()
            };
            arguments.extend((!machine.is_static).then_some(plugin.as_str()));
            check_in(room, compiler, usual, O2, &["stress.c", "many.c"], &arguments)
        }))
    }

    /// Handlers with every way to ask for hooks, and programs whose calls are counted.
    fn alike(&'static self) -> Vec<Test> {
        let machine = self.machine;
        let mut tests = Vec::new();
        for (hooks, compilers) in self.hooks {
            for link in [O0, O2] {
                for compiler in *compilers {
                    let name = format!("handlers/{compiler}/{}/{}", hooks.name, link.name);
                    let argument = if hooks.after_prologue { "after-prologue" } else { "" };
                    let run = move |room: &Room| {
                        check_in(room, compiler, *hooks, link, &["handlers.c"], &[argument])
                    };
                    tests.push(on(machine, &name, compiler, run));
                }
            }
        }
        for (of, compiler, hooks, link) in self.programs {
            tests.push(truth(machine, *of, compiler, *hooks, *link));
        }
        tests
    }

    /// Every program with both compilers, optimized and not.
    fn every_program(&'static self) -> Vec<Test> {
        let mut tests = Vec::new();
        // What's in there for x86-64 alone has other flags, or sets the trap flag. QEMU doesn't wipe memory when `clone` forks.
        let is_usual = |of: &&Program| {
            let others = ["steps.c", "fork.c", "copies-random.cpp"];
            !of.flags.contains(&"-mavx2") && !others.contains(&of.source)
        };
        let all = PROGRAMS.iter().filter(is_usual);
        // Start files of i386 have a function without unwind information that position-independent code calls: samples end there,
        // traced or not.
        let all = all.filter(|of| self.machine.name != I386.name || of.source != "profiler.c");
        let all = all.filter(|of| self.machine.has_cpp || of.source.strip_suffix(".cpp").is_none());
        for of in all {
            for (family, usual) in self.usual {
                // Functions in functions are gcc's.
                let of = if *family == "gcc" { *of } else { Program { flags: &[], ..*of } };
                // Ten million calls that aren't tail calls don't fit on a stack. clang makes none on i386, where arguments are there.
                let links = match (of.source, *family) {
                    ("tail.c", "clang") if self.machine.name == I386.name => &[][..],
                    ("tail.c", _) => &[O2],
                    _ => &[O0, O2],
                };
                for link in links.iter().copied() {
                    let compiler = compiler(family, of.source);
                    let hooks = self.gxx.filter(|_| compiler == "g++").unwrap_or(*usual);
                    tests.push(truth(self.machine, of, compiler, hooks, link));
                }
            }
        }
        tests
    }
}

/// Tests of which one build is enough.
fn others(
    machine: &'static Machine,
    compiler: &'static str,
    usual: Hooks,
    gxx: Option<Hooks>,
) -> Vec<Test> {
    let left = on(machine, "left", compiler, move |room| {
        check_in(room, compiler, usual, O2, &["left.c"], &[])
    });
    // Templates of another library of C++ make other calls.
    let has_same_cpp = machine.has_cpp && !machine.compiler("g++").starts_with("clang");
    let as_here = SAME.iter().filter(|same| has_same_cpp || same.compiler == "gcc").map(|same| {
        let name = format!("as-here/{}", same.source);
        let hooks = gxx.filter(|_| same.compiler == "g++").unwrap_or(usual);
        on(machine, &name, same.compiler, move |room| as_here(room, hooks, same))
    });
    let mut tests: Vec<Test> = [left].into_iter().chain(as_here).collect();
    if machine.is_static {
        return tests;
    }
    // glibc maps a library where it's linked to be, if it can and the program is at a fixed address.
    let far = on(machine, "far", compiler, move |room| {
        let is_lld = machine.compiler("gcc").starts_with("clang");
        let place = if is_lld { "--image-base" } else { "-Ttext-segment" };
        let place = format!("-Wl,{place}=0x60000000");
        let flags = [usual.flags, &[place.as_str()]].concat();
        let plugin = room.shared(compiler, &flags, "plugin.c")?.display().to_string();
        check_in(room, compiler, usual, FIXED, &["far.c"], &[&plugin])
    });
    tests.push(far);
    tests
}

/// A program whose calls are counted.
fn truth(
    machine: &'static Machine,
    of: Program,
    compiler: &'static str,
    hooks: Hooks,
    link: Link,
) -> Test {
    let name = format!("truth/{}/{compiler}/{}/{}", of.source, hooks.name, link.name);
    on(machine, &name, compiler, move |room| same_in(room, compiler, hooks, link, &of, &[]))
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
            testkit::trial::ignore(format!(
                "`cargo xtask foreign {}` hasn't built the library",
                machine.name
            ));
        }
        run(&Room::on(machine)?)
    });
    let emulator = machine.emulator.first().copied();
    let mut wants = vec![machine.compiler(compiler), machine.compiler("gcc")];
    // The one that comes with the library isn't installed.
    wants.extend(emulator.filter(|program| !Path::new(program).is_absolute()));
    Test { name: format!("{}/{name}", machine.name), wants, run }
}

/// A program that makes the same calls everywhere. C doesn't say in which order arguments are evaluated, and frames that
/// `longjmp` left are noticed by where they were: so not every one does.
struct Same {
    compiler: &'static str,
    source: &'static str,
    flags: &'static [&'static str],
    /// But how often these are called, and when, is the C library's and the clock's business; and where this one has its arguments on
    /// the stack, it's below frames that `longjmp` left.
    except: &'static [&'static str],
}

const SAME: &[Same] = &[
    Same { compiler: "g++", source: "unwind.cpp", flags: &[], except: &[] },
    Same {
        compiler: "gcc",
        source: "plain.c",
        flags: &["-DLEAVES=2000"],
        except: &["compare", "on_tick", "by_value"],
    },
];

/// The calls of a program in the order of their starts: names, how many enclose them, how they ended.
type Calls = Vec<(String, usize, Option<End>)>;

/// A trace that a program makes there says the same as one that it makes here.
fn as_here(there: &Room, there_hooks: Hooks, same: &Same) -> Result<(), String> {
    const HERE_HOOKS: Hooks = hooks("patchable-5", &["-fpatchable-function-entry=5"]);
    let here = calls(&Room::on(&HERE)?, HERE_HOOKS, same)?;
    let there = calls(there, there_hooks, same)?;
    if here.len() < 1000 {
        return Err(format!("only {} calls", here.len()));
    }
    match here.iter().zip(&there).position(|(here, there)| here != there) {
        None if here.len() == there.len() => Ok(()),
        None => Err(format!("{} calls instead of {}", there.len(), here.len())),
        Some(at) => Err(format!("call {at}: {:?} instead of {:?}", there.get(at), here.get(at))),
    }
}

/// The calls of a program of one thread, in the trace that it makes.
fn calls(room: &Room, hooks: Hooks, same: &Same) -> Result<Calls, String> {
    let watcher = room.object("gcc", &["-O2", "-fPIE"], "watch.c")?;
    let parts = [sources("trace").join(same.source), watcher];
    let flags = [hooks.flags, same.flags].concat();
    let program = room.program(same.compiler, &flags, O0, &parts)?;
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
    let all = trace.calls().map(|call| (name(call.function), call.depth, call.how));
    Ok(all.filter(|(name, ..)| !same.except.contains(&name.as_str())).collect())
}
