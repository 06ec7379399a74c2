//! Programs that count their own calls: handlers must count as many, and the program must not notice.

use crate::Test;
use crate::build::{HOOKS, Hooks, LINKS, Link, PATCHABLE, Room, USUAL, sources};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::sample::one_in;
use testkit::trace::Trace;

/// One of the programs in `tests/trace`.
#[expect(clippy::struct_excessive_bools, reason = "a table")]
#[derive(Clone, Copy)]
pub(crate) struct Program {
    pub(crate) source: &'static str,
    pub(crate) flags: &'static [&'static str],
    /// Each call that begins also ends, as far as handlers see.
    pub(crate) returns: bool,
    /// Calls are made by signal handlers, perhaps while a handler runs.
    pub(crate) may_miss: bool,
    /// It executes programs.
    pub(crate) executes: bool,
    /// Calls of a thread aren't nested.
    pub(crate) changes_stacks: bool,
}

pub(crate) const fn program(source: &'static str) -> Program {
    Program {
        source,
        flags: &[],
        returns: true,
        may_miss: false,
        executes: false,
        changes_stacks: false,
    }
}

/// Frames are left by `longjmp`, by `exit`, or by the end of a thread.
pub(crate) const fn leaves(source: &'static str) -> Program {
    Program { returns: false, ..program(source) }
}

/// Coroutines that share a stack, each of which ends by `longjmp`.
pub(crate) const COPIES: Program = Program { changes_stacks: true, ..program("copies.c") };
pub(crate) const COPIES_THROW: Program =
    Program { changes_stacks: true, ..program("copies-throw.cpp") };
/// Some of which are left, or begin in a process and end in its child.
pub(crate) const COPIES_RANDOM: Program = Program {
    changes_stacks: true,
    flags: &["-DSWITCHES=100000", "-DBARE_STUBS"],
    ..leaves("copies-random.cpp")
};

pub(crate) const PROGRAMS: &[Program] = &[
    Program { flags: &["-DNESTED"], ..program("abi.c") },
    Program { flags: &["-DNESTED", "-mavx2"], ..program("abi.c") },
    program("tail.c"),
    program("threads.c"),
    program("depth.c"),
    program("fork.c"),
    Program { executes: true, ..program("spawn.c") },
    program("unwind.cpp"),
    leaves("jumps.c"),
    // Its stack may be full just when a handler runs.
    Program { may_miss: true, ..leaves("signals.c") },
    Program { may_miss: true, ..leaves("overflow.c") },
    Program { changes_stacks: true, ..leaves("fibres.c") },
    COPIES,
    COPIES_THROW,
    COPIES_RANDOM,
    leaves("throw.cpp"),
    leaves("terminate.cpp"),
    leaves("thread-ends.cpp"),
    Program { may_miss: true, ..leaves("plain.c") },
    Program { may_miss: true, flags: &["-DBARE_STUBS"], ..program("profiler.c") },
    Program { may_miss: true, ..program("steps.c") },
];

/// Those that are tried with every way to ask for hooks, and to link.
const EVERYWHERE: &[Program] = &[
    program("abi.c"),
    leaves("throw.cpp"),
    Program { may_miss: true, ..leaves("plain.c") },
    COPIES,
    COPIES_THROW,
];

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for program in PROGRAMS {
        for (name, variables) in [("", &[][..]), ("-vectors", &[("VECTORS", "1")][..])] {
            let flags = if program.flags.contains(&"-mavx2") { "-avx" } else { "" };
            let compiler = compiler("gcc", program.source);
            tests.push(Test {
                name: format!("truth/{}{flags}{name}", program.source),
                wants: vec![compiler],
                run: Box::new(move || same(compiler, PATCHABLE, USUAL, program, variables)),
            });
        }
    }
    tests = one_in(3, tests);
    tests.extend(one_in(6, everywhere()));
    tests
}

fn everywhere() -> Vec<Test> {
    let mut tests = Vec::new();
    for program in EVERYWHERE {
        for hooks in HOOKS.iter().skip(1) {
            for (family, name) in [("gcc", "O0"), ("clang", "O0"), ("gcc", "static")] {
                for link in LINKS.iter().filter(|link| link.name == name) {
                    if !hooks.can_be(family, link) {
                        continue;
                    }
                    let compiler = compiler(family, program.source);
                    let (hook, link_name) = (hooks.name, link.name);
                    tests.push(Test {
                        name: format!("truth/{}/{compiler}/{hook}/{link_name}", program.source),
                        wants: vec![compiler],
                        run: Box::new(move || same(compiler, *hooks, *link, program, &[])),
                    });
                }
            }
        }
    }
    tests
}

pub(crate) fn compiler(family: &str, source: &str) -> &'static str {
    match (family, source.strip_suffix(".cpp").is_some()) {
        ("gcc", false) => "gcc",
        ("gcc", true) => "g++",
        (_, false) => "clang",
        (_, true) => "clang++",
    }
}

fn c_compiler(compiler: &str) -> &'static str {
    if compiler.starts_with('g') { "gcc" } else { "clang" }
}

/// Runs the program with and without handlers, and compares.
fn same(
    compiler: &'static str,
    hooks: Hooks,
    link: Link,
    program: &Program,
    variables: &[(&str, &str)],
) -> Result<(), String> {
    same_in(&Room::new()?, compiler, hooks, link, program, variables)
}

pub(crate) fn same_in(
    room: &Room,
    compiler: &'static str,
    hooks: Hooks,
    link: Link,
    program: &Program,
    variables: &[(&str, &str)],
) -> Result<(), String> {
    let watcher = room.object(c_compiler(compiler), &["-O2", "-fPIE"], "watch.c")?;
    let flags = [program.flags, hooks.flags].concat();
    let parts = [sources("trace").join(program.source), watcher];
    let path = room.program(compiler, &flags, link, &parts)?;
    let alone = run(room, &path, &[], "alone")?;
    let counted = room.path("watched").display().to_string();
    let trace = room.path("trace").display().to_string();
    let variables = [variables, &[("WATCHED", counted.as_str())]].concat();
    let seen = run(room, &path, &variables, "seen")?;
    if alone != seen {
        return Err(format!("without handlers:\n{alone}\nwith handlers:\n{seen}"));
    }
    compare(&room.text("truth-seen")?, &room.text("watched")?, program)?;
    if program.executes {
        // What it executes writes traces as well.
        return Ok(());
    }
    let traced = run(room, &path, &[("TRACED", &trace)], "traced")?;
    if alone != traced {
        return Err(format!("without a trace:\n{alone}\nwith a trace:\n{traced}"));
    }
    let both = [variables.as_slice(), &[("TRACED", trace.as_str())]].concat();
    compare_trace(&room.text("truth-traced")?, &mut Trace::read(&room.path("trace"))?, program)?;
    // All at once.
    let seen = run(room, &path, &both, "both")?;
    if alone != seen {
        return Err(format!("without anything:\n{alone}\nwith handlers and a trace:\n{seen}"));
    }
    compare_trace(&room.text("truth-both")?, &mut Trace::read(&room.path("trace"))?, program)
}

/// What it prints, and how it ends.
fn run(
    room: &Room,
    program: &Path,
    variables: &[(&str, &str)],
    name: &str,
) -> Result<String, String> {
    let mut command = Command::new("timeout");
    command
        .arg(room.machine.patience)
        .args(room.machine.emulator)
        .arg(program)
        .current_dir(room.path(""))
        .stdin(Stdio::null());
    command.envs(variables.iter().copied()).env("TRUTH", room.path(&format!("truth-{name}")));
    let output = command.output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(format!("{}\n{}{}", output.status, text(&output.stdout), text(&output.stderr)))
}

/// Numbers by process and function.
type Counts<'t> = BTreeMap<(&'t str, &'t str), Vec<u64>>;

fn counts(text: &str) -> Result<Counts<'_>, String> {
    let mut found = Counts::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (Some(process), Some(function)) = (words.next(), words.next()) else {
            return Err(format!("not a count: {line}"));
        };
        let numbers: Result<Vec<u64>, _> = words.map(str::parse).collect();
        let numbers = numbers.map_err(|error| format!("{line}: {error}"))?;
        let of_function = found.entry((process, function)).or_default();
        of_function.resize(numbers.len(), 0);
        for (sum, number) in of_function.iter_mut().zip(numbers) {
            *sum += number;
        }
    }
    Ok(found)
}

fn compare_trace(truth: &str, trace: &mut Trace, program: &Program) -> Result<(), String> {
    let mut wrong = Vec::new();
    for ((process, function), count) in counts(truth)? {
        let process = process.parse().unwrap_or(0);
        let found = trace.count(process, function);
        if count != [found] {
            wrong.push(format!("{function}: {found} traced instead of {count:?}"));
        }
    }
    if trace.dropped != 0 {
        wrong.push(format!("{} calls were dropped", trace.dropped));
    }
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    if program.changes_stacks { Ok(()) } else { trace.check_nesting() }
}

fn compare(truth: &str, seen: &str, program: &Program) -> Result<(), String> {
    let (truth, seen) = (counts(truth)?, counts(seen)?);
    if truth.is_empty() {
        return Err("the program counted nothing".to_owned());
    }
    let mut wrong = Vec::new();
    for ((process, function), count) in &truth {
        let found = seen.get(&(*process, *function)).and_then(|counts| counts.first());
        let (found, count) = (found.copied().unwrap_or(0), count.first().copied().unwrap_or(0));
        if found != count && !(program.may_miss && found < count) {
            wrong.push(format!("{function}: {found} instead of {count}"));
        }
    }
    for ((_, function), counts) in &seen {
        match (*function, counts.as_slice()) {
            ("-", [missed, _]) if *missed == 0 || program.may_miss => {}
            // Coroutines end in `begin`, by `longjmp`.
            ("main" | "all" | "begin", _) => {}
            (_, [entries, exits]) if entries == exits || !program.returns => {}
            _ => wrong.push(format!("{function}: {counts:?}")),
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}
