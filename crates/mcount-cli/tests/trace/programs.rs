//! Programs that do one thing each that a tracer could get wrong, by name.

use crate::Test;
use crate::attach_where::{nobody, open_room};
use crate::truth::{Also, Ended, Room, kill_group, same, same_with, tracer, tracer_with};
use nix::sys::signal::Signal;
use std::process::Command;
use testkit::sample::one_in;

/// One program, run with and without tracing.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) source: &'static str,
    pub(crate) flags: &'static [&'static str],
    pub(crate) arguments: &'static [&'static str],
    pub(crate) also: Also,
    pub(crate) open: Option<&'static str>,
}

const fn program(name: &'static str, source: &'static str) -> Program {
    Program { name, source, flags: &[], arguments: &[], also: Also::Nesting, open: None }
}

const fn with(
    name: &'static str,
    source: &'static str,
    arguments: &'static [&'static str],
) -> Program {
    Program { arguments, ..program(name, source) }
}

/// A million elsewhere, which takes an emulator too long.
const SWITCHES: &[&str] = if cfg!(target_arch = "x86_64") { &[] } else { &["-DSWITCHES=10000"] };
const AVX: &[&str] = &["-mavx2", "-DNESTED"];

pub(crate) const PROGRAMS: &[Program] = &[
    program("exceptions", "unwind.cpp"),
    program("terminate", "terminate.cpp"),
    program("longjmp", "jumps.c"),
    program("thread-ends", "thread-ends.cpp"),
    Program { also: Also::Nothing, ..program("fibres", "fibres.c") },
    Program { also: Also::Nothing, ..program("copied-stacks", "copies.c") },
    Program { also: Also::Nothing, ..with("copied-stacks-many", "copies.c", &["300", "40"]) },
    Program { also: Also::Nothing, ..with("copied-stacks-parked", "copies.c", &["4000", "12"]) },
    Program {
        also: Also::Nothing,
        ..with("copied-stacks-left", "copies.c", &["400", "12", "40000"])
    },
    Program { also: Also::Nothing, ..program("copied-stacks-throw", "copies-throw.cpp") },
    Program {
        also: Also::Nothing,
        flags: SWITCHES,
        ..program("copied-stacks-random", "copies-random.cpp")
    },
    program("profiler", "profiler.c"),
    Program { flags: &["-rdynamic"], ..program("backtrace", "backtrace.cpp") },
    // These functions have two hooks each.
    Program {
        flags: &["-rdynamic", "-pg", "-mfentry"],
        ..program("two-hooks-fentry", "backtrace.cpp")
    },
    Program { flags: &["-rdynamic", "-pg"], ..program("two-hooks-pg", "backtrace.cpp") },
    program("red-zone", "red-zone.c"),
    program("patches-itself", "patches.c"),
    program("a-million-deep", "depth.c"),
    program("tail-calls", "tail.c"),
    program("fork", "fork.c"),
    program("spawn", "spawn.c"),
    program("vfork", "vfork.c"),
    program("clone", "clone.c"),
    program("threads", "threads.c"),
    program("exec", "exec.c"),
    program("daemon", "daemon.c"),
    program("signal-stacks", "signals.c"),
    program("overflows", "overflow.c"),
    program("job-control", "job-control.c"),
    program("traps", "traps.c"),
    Program { flags: &["-DNESTED"], ..program("abi", "abi.c") },
    Program { flags: AVX, ..program("abi-avx", "abi.c") },
    program("environment", "environment.c"),
    with("limits-none", "limits.c", &["none"]),
    with("limits-descriptors", "limits.c", &["descriptors"]),
    with("limits-file-size", "limits.c", &["files"]),
    with("limits-open", "limits.c", &["open"]),
    with("limits-memory", "limits.c", &["memory"]),
    with("limits-processes", "limits.c", &["processes"]),
    with("limits-root", "limits.c", &["root"]),
    with("confined", "confined.c", &["syscall"]),
    with("confined-by-prctl", "confined.c", &["prctl"]),
    with("confined-by-number", "confined.c", &["syscall-prctl"]),
    with("confined-twice", "confined.c", &["twice"]),
    with("confined-strictly", "confined.c", &["strict"]),
    with("confined-harmlessly", "confined.c", &["harmless"]),
    with("confined-harmlessly-exec", "confined.c", &["harmless-exec"]),
    Program { flags: &["-static"], ..with("confined-static", "confined.c", &["syscall"]) },
    Program { flags: &["-static"], ..with("confined-static-by-prctl", "confined.c", &["prctl"]) },
    with("ends-return", "ends.c", &["return"]),
    with("ends-exit", "ends.c", &["_exit"]),
    with("ends-abort", "ends.c", &["abort"]),
    with("ends-fault", "ends.c", &["11"]),
    with("ends-kill", "ends.c", &["9"]),
    with("ends-real-time-signal", "ends.c", &["34"]),
    with("ends-pipe", "ends.c", &["13"]),
];

/// Compiles one of them, and it is traced, with these options of `mcount trace`, as it is untraced.
pub(crate) fn as_untraced(room: &Room, program: &Program, options: &[&str]) -> Result<(), String> {
    let mut flags = vec!["-O2", "-fpatchable-function-entry=5"];
    flags.extend(program.flags);
    let path = room.compile(compiler(program.source), &flags, program.source)?;
    let change = |command: &mut Command| {
        command.args(program.arguments);
    };
    same_with(room, &path, options, change, program.also)
}

pub(crate) fn tests() -> Vec<Test> {
    let named = PROGRAMS.iter().map(|program| Test {
        name: format!("program::{}", program.name),
        wants: vec![compiler(program.source)],
        open: program.open,
        run: Box::new(move || {
            let room = Room::new()?;
            as_untraced(&room, program, &[])
        }),
    });
    let simple = [
        simple("program::dlopen", dlopen),
        simple("program::preload", preload),
        simple("program::hostile-preload", hostile_preload),
        simple("program::address-sanitizer", sanitized),
        simple("program::many-functions", many_functions),
        simple("program::aligned", aligned),
        simple("program::confined-new-thread", || confined("new-thread", 2151)),
        simple("program::confined-all-threads", || confined("all-threads", 177)),
        simple("program::confined-child", || confined("child", 22069)),
        simple("program::confined-musl", confined_musl),
        simple("program::confined-exec", confined_exec),
        simple("program::confined-exec-by-nobody", confined_exec_by_nobody),
        simple("program::inherited-child", inherited_child),
        simple("program::returns-twice", returns_twice),
        simple("program::returned-twice", returned_twice),
    ];
    one_in(4, named.chain(simple).collect())
}

fn simple(name: &str, run: fn() -> Result<(), String>) -> Test {
    Test { name: name.to_owned(), wants: vec!["gcc"], open: None, run: Box::new(run) }
}

pub(crate) fn compiler(source: &str) -> &'static str {
    if source.strip_suffix(".cpp").is_some() { "g++" } else { "gcc" }
}

const HOOKS: &[&str] = &["-O2", "-fpatchable-function-entry=5"];
const LIBRARY: &[&str] = &["-O2", "-fpatchable-function-entry=5", "-shared", "-fPIC"];

fn dlopen() -> Result<(), String> {
    let room = Room::new()?;
    let plugin = room.compile("gcc", LIBRARY, "plugin.c")?;
    let program = room.compile("gcc", HOOKS, "library.c")?;
    let change = |command: &mut Command| {
        command.arg(&plugin);
    };
    same(&room, &program, change, Also::Nesting)?;
    let trace = room.trace("traced")?;
    let process = trace.processes.first().copied().unwrap_or(0);
    // Two calls by its constructor, and one for each time that it was opened.
    for (function, expected) in [("plugin", 100), ("half", 200), ("begin", 100), ("end", 100)] {
        let found = trace.count(process, function);
        if found != expected {
            return Err(format!("{function}: {found} instead of {expected}"));
        }
    }
    Ok(())
}

fn preload() -> Result<(), String> {
    let room = Room::new()?;
    let library = room.compile("gcc", LIBRARY, "preloaded.c")?;
    let program = room.compile("gcc", HOOKS, "uses-preload.c")?;
    let change = |command: &mut Command| {
        command.env("LD_PRELOAD", &library);
    };
    same(&room, &program, change, Also::Nesting)
}

/// Its runtime has to be the program's first library. Leaks can't be looked for in a program that has a tracer.
fn sanitized() -> Result<(), String> {
    let room = Room::new()?;
    let flags = [HOOKS, &["-O1", "-fsanitize=address"]].concat();
    let program = room.compile("gcc", &flags, "plain.c")?;
    let change = |command: &mut Command| {
        command.env("ASAN_OPTIONS", "detect_leaks=0");
    };
    same(&room, &program, change, Also::Nesting)
}

/// It's loaded before the agent, and ends a program in which others than the program call what it has.
fn hostile_preload() -> Result<(), String> {
    let room = Room::new()?;
    let library = room.compile("gcc", LIBRARY, "hostile.c")?;
    let program = room.compile("gcc", HOOKS, "uses-preload.c")?;
    let change = |command: &mut Command| {
        command.env("LD_PRELOAD", &library);
    };
    same(&room, &program, change, Also::Nesting)?;
    let trace = room.trace("traced")?;
    let process = trace.processes.first().copied().unwrap_or(0);
    let found = trace.count(process, "hostile_leaf");
    if found == 2 {
        Ok(())
    } else {
        Err(format!("{found} calls of its constructor and its function"))
    }
}

fn many_functions() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "many.c")?;
    same(&room, &program, |_| {}, Also::Nesting)?;
    let trace = room.trace("traced")?;
    let process = trace.processes.first().copied().unwrap_or(0);
    let names = (0..4096).step_by(17).map(|number| format!("function_{number:03x}"));
    let wrong: Vec<String> = names.filter(|name| trace.count(process, name) != 1).collect();
    if wrong.is_empty() { Ok(()) } else { Err(format!("not called once: {wrong:?}")) }
}

/// Threads and processes that begin in a sandbox, and stacks that one finds in use, can't be recorded: the program runs on,
/// and it's said how many calls are missing.
fn confined(how: &str, missing: u64) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "confined.c")?;
    let untraced = room.run("untraced", Command::new(&program).arg(how))?;
    let traced = room.run("traced", tracer(&program).arg(how))?;
    let trace = room.trace("traced")?;
    let counted: u64 = room.counted("traced")?.values().sum();
    let found = trace.count(0, "work") + trace.count(0, "far");
    let line = format!(
        "mcount: {missing} calls were not recorded: a program's sandbox (seccomp) forbids the system calls for that\n"
    );
    if (traced.code, &traced.stdout) != (untraced.code, &untraced.stdout) || traced.stderr != line {
        return Err(format!("{untraced:?}, traced {traced:?}"));
    }
    if (trace.dropped, counted - found) == (missing, missing) {
        Ok(())
    } else {
        Err(format!("{found} of {counted}, dropped {}", trace.dropped))
    }
}

/// A program that is executed in a sandbox which forbids what the agent needs isn't traced.
fn confined_exec() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "confined.c")?;
    let untraced = room.run("untraced", Command::new(&program).arg("harmful-exec"))?;
    let traced = room.run("traced", tracer(&program).arg("harmful-exec"))?;
    let is_said = traced.stderr.lines().count() == 1
        && traced.stderr.contains("confined: not traced: its sandbox (seccomp) may kill it");
    let work = room.trace("traced")?.count(0, "work");
    if (traced.code, &traced.stdout) == (untraced.code, &untraced.stdout) && is_said && work == 177
    {
        return Ok(());
    }
    Err(format!("{untraced:?}, traced {traced:?}, {work} calls of work"))
}

/// A function that returns twice stays idle, and `mcount` says so. `--entries` records it.
fn returns_twice() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "twice.c")?;
    let untraced = room.run("untraced", &mut Command::new(&program))?;
    let traced = room.run("traced", &mut tracer(&program))?;
    let entries = room.run("entries", &mut tracer_with(&["--entries"], &program))?;
    let is_said = traced.stderr.contains("1 function returns twice, so its hook stays idle");
    room.compare_counts("traced", &room.trace("traced")?)?;
    let switches = room.trace("entries")?.count(0, "slp_switch");
    let is_same = |one: &Ended| (one.code, &one.stdout) == (untraced.code, &untraced.stdout);
    if is_said && is_same(&traced) && is_same(&entries) && switches == 1 {
        return Ok(());
    }
    Err(format!("{untraced:?}, traced {traced:?}, entries {entries:?}, {switches} entries"))
}

/// A program that puts frames back which have returned ends, and `mcount` says what helps.
fn returned_twice() -> Result<(), String> {
    let room = Room::new()?;
    let program =
        room.compile("gcc", &[HOOKS, &["-Dslp_switch=other_name"]].concat(), "twice.c")?;
    let untraced = room.run("untraced", &mut Command::new(&program))?;
    let traced = room.run("traced", &mut tracer(&program))?;
    let entries = room.run("entries", &mut tracer_with(&["--entries"], &program))?;
    let is_said = traced.stderr.contains("a call returned a second time")
        && traced.stderr.contains("with --entries it goes on");
    let is_same = (entries.code, &entries.stdout) == (untraced.code, &untraced.stdout);
    let ends = 128 + nix::libc::SIGILL;
    if is_said && is_same && traced.code == ends {
        Ok(())
    } else {
        Err(format!("{traced:?}, {entries:?}"))
    }
}

/// Who isn't root can't look at filters of programs that are executed, but at those that were taken on before.
fn confined_exec_by_nobody() -> Result<(), String> {
    let room = open_room()?;
    let program = room.compile("gcc", HOOKS, "confined.c")?;
    for (how, is_traced) in [("harmless-exec", true), ("harmful-exec", false)] {
        let mut command = nobody();
        let before = tracer(&program);
        command.arg(before.get_program()).args(before.get_args());
        let _ = std::fs::remove_file(room.path("attached/truth"));
        let traced = room.run("attached", command.arg(how))?;
        let trace = room.trace("attached")?;
        let is_whole = room.compare_counts("attached", &trace).is_ok();
        if traced.code != 0 || traced.stderr.is_empty() != is_traced || is_whole != is_traced {
            return Err(format!("{how}: {traced:?}"));
        }
        std::fs::remove_file(room.path("attached/trace.mcount"))
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Another C library, whose functions begin otherwise.
fn confined_musl() -> Result<(), String> {
    if testkit::process::run(Command::new("musl-gcc").arg("--version")).is_err() {
        testkit::trial::ignore("no musl-gcc".to_owned());
    }
    for flags in [HOOKS, &["-O2", "-fpatchable-function-entry=5", "-static"]] {
        for how in ["syscall", "prctl", "strict"] {
            let room = Room::new()?;
            let program = room.compile("musl-gcc", flags, "confined.c")?;
            let change = |command: &mut Command| {
                command.arg(how);
            };
            same(&room, &program, change, Also::Nesting)?;
        }
    }
    Ok(())
}

/// With `-pg`, behind prologues that align the stack, returns are seen as well.
fn aligned() -> Result<(), String> {
    const FLAGS: &[&[&str]] = &[
        &["-O0"],
        &["-O1"],
        &["-O2"],
        &["-O2", "-mstackrealign", "-fcf-protection"],
        &["-O0", "-mavx"],
        &["-O2", "-mavx"],
        &["-O2", "-static"],
    ];
    for compiler in ["gcc", "clang"] {
        for flags in FLAGS {
            let room = Room::new()?;
            let program = room.compile(compiler, &[*flags, &["-pg"]].concat(), "aligned.c")?;
            let mut replay = Command::new(env!("CARGO_BIN_EXE_mcount"));
            same(&room, &program, |_| {}, Also::Nesting)
                .and_then(|()| {
                    replay.arg("replay").arg(room.path("traced").join("trace.mcount"));
                    room.run("replayed", &mut replay)
                })
                .and_then(|replayed| {
                    match replayed.stdout.lines().find(|line| line.contains("unwound")) {
                        Some(line) => Err(line.to_owned()),
                        None => Ok(()),
                    }
                })
                .map_err(|why| format!("{compiler} {flags:?}: {why}"))?;
        }
    }
    Ok(())
}

/// A shell that executes the recorder may have children, which then are the recorder's.
fn inherited_child() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "plain.c")?;
    let tracer = tracer(&program);
    let mut command = Command::new("sh");
    command.args(["-c", "sleep 1000 & exec \"$@\"", "sh"]);
    command.arg(tracer.get_program()).args(tracer.get_args());
    let mut child = room.start("traced", &mut command)?;
    let ended = room.wait("traced", &mut child);
    kill_group(&child, Signal::SIGKILL);
    let code = ended?.code;
    if code == 42 { Ok(()) } else { Err(format!("exit code {code}")) }
}
