//! Functions that tell of their calls themselves (`-finstrument-functions`), also where they were inlined.

use crate::Test;
use crate::attach::{Attached, compare};
use crate::programs::{PROGRAMS, compiler};
use crate::truth::{Also, Room, same, same_with, tracer, tracer_with};
use std::process::Command;
use testkit::sample::one_in;
use testkit::served::Served;
use testkit::tools;

/// What a test does.
type Check = fn() -> Result<(), String>;

const TELL: &str = "-finstrument-functions";
const AFTER: &str = "-finstrument-functions-after-inlining";

/// Layouts besides those of the matrix.
const LAYOUTS: &[(&str, &str, &[&str])] = &[
    ("gcc-fixed", "gcc", &["-O3", "-no-pie", "-fno-pie", TELL]),
    ("gcc-no-plt", "gcc", &["-O2", "-fno-plt", TELL]),
    ("gcc-now", "gcc", &["-O2", "-Wl,-z,now", TELL]),
    ("gcc-lazy", "gcc", &["-O2", "-Wl,-z,lazy", TELL]),
    ("gcc-lto", "gcc", &["-O2", "-flto", TELL]),
    ("clang-fixed", "clang", &["-O2", "-no-pie", "-fno-pie", TELL]),
    ("clang-after", "clang", &["-O2", AFTER, "-DAFTER"]),
    (
        "gcc-and-hooks",
        "gcc",
        &["-O0", "-fno-inline", "-fpatchable-function-entry=5", TELL, "-DAFTER"],
    ),
];

pub(crate) fn tests() -> Vec<Test> {
    if !cfg!(target_arch = "x86_64") {
        return Vec::new();
    }
    let layouts = LAYOUTS.iter().map(|(name, compiler, flags)| {
        let name = format!("instrumented::{name}");
        test(name, compiler, move || exact(compiler, flags, "instrumented.c"))
    });
    let others: [(&str, Check); 9] = [
        ("instrumented::some", some),
        ("instrumented::killed", killed),
        ("instrumented::own", own),
        ("instrumented::own-and-static", own_and_static),
        ("instrumented::library", library),
        ("instrumented::dlopen", dlopen),
        ("instrumented::attach", attach),
        ("instrumented::attach-some", attach_some),
        ("instrumented::commands", commands),
    ];
    let others = others.map(|(name, run)| test(name.to_owned(), "gcc", run));
    one_in(4, matrix())
        .into_iter()
        .chain(one_in(8, programs()))
        .chain(layouts)
        .chain(others)
        .collect()
}

fn test(
    name: String,
    compiler: &'static str,
    run: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Test {
    Test { name, wants: vec![compiler], open: None, run: Box::new(run) }
}

/// All compilers that are here, at all levels.
fn matrix() -> Vec<Test> {
    let is_one = |name: &str| {
        let (stem, version) = name.split_once('-').unwrap_or((name, "0"));
        let is_version = version.bytes().all(|byte| byte.is_ascii_digit());
        ["gcc", "g++", "clang", "clang++"].contains(&stem) && is_version
    };
    let mut found: Vec<String> = tools::programs(is_one);
    found.extend(["gcc", "g++", "clang", "clang++"].map(str::to_owned));
    found.sort();
    found.dedup();
    let mut tests = Vec::new();
    for compiler in found {
        let compiler: &'static str = compiler.leak();
        // With a later standard, clang 19 leaves out what it takes to be in gcc's library, and tells of its address.
        let is_c = !compiler.contains("++");
        let source = if is_c { "instrumented.c" } else { "throw.cpp" };
        let std = if is_c { "-std=gnu11" } else { "-std=c++11" };
        for level in ["-O0", "-O1", "-O2", "-O3"] {
            let name = format!("instrumented::{compiler}{level}");
            tests.push(test(name, compiler, move || exact(compiler, &[level, TELL, std], source)));
        }
    }
    tests
}

/// All programs that tracers could get wrong, as far as these functions can be seen.
fn programs() -> Vec<Test> {
    // Without a tracer, one needs tail calls where there are none now, and the other may not call anything while it's cancelled.
    const FAILING: [&str; 2] = ["tail-calls", "thread-ends"];
    let can_be = |flags: &[&str]| !flags.iter().any(|flag| ["-static", "-pg"].contains(flag));
    let all = PROGRAMS.iter().filter(|program| can_be(program.flags));
    let all = all.filter(|program| !FAILING.contains(&program.name));
    let tests = all.map(|program| {
        let name = format!("instrumented::program-{}", program.name);
        let run = move || {
            let room = Room::new()?;
            let flags = [&["-O2", TELL], program.flags].concat();
            let path = room.compile(compiler(program.source), &flags, program.source)?;
            same(&room, &path, |command| _ = command.args(program.arguments), program.also)
        };
        test(name, compiler(program.source), run)
    });
    tests.collect()
}

fn exact(compiler: &str, flags: &[&str], source: &str) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile(compiler, flags, source)?;
    same(&room, &program, |_| {}, Also::Nesting)
}

/// Only some functions, other kinds of recording.
fn some() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", TELL], "instrumented.c")?;
    room.run("plain", &mut tracer(&program))?;
    let plain = room.trace("plain")?;
    let all = |name: &str| plain.count(0, name);
    let rows: [(&[&str], [u64; 3]); 6] = [
        (&["--filter", "inlined"], [all("inlined"), 0, 0]),
        (&["--exclude", "outer"], [all("inlined"), all("nested"), 0]),
        (&["--entries"], ["inlined", "nested", "outer"].map(all)),
        (&["--clock", "none"], ["inlined", "nested", "outer"].map(all)),
        (&["--only-under", "outer", "--depth", "2"], [0, all("nested"), all("outer")]),
        (&["--not-under", "nested"], [all("inlined") - 2 * all("nested"), 0, all("outer")]),
    ];
    for (options, expected) in rows {
        let ended = room.run("some", &mut tracer_with(options, &program))?;
        let trace = room.trace("some")?;
        let found = ["inlined", "nested", "outer"].map(|name| trace.count(0, name));
        if found != expected || ended.code != 3 {
            return Err(format!("{options:?}: {found:?} instead of {expected:?}: {ended:?}"));
        }
    }
    same_with(&room, &program, &["(defaults)"], |_| {}, Also::Nesting)
}

/// What's open when the program is killed is in the trace.
fn killed() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", TELL], "instrumented.c")?;
    let ended = room.run("killed", tracer(&program).arg("kill"))?;
    let trace = room.trace("killed")?;
    let found = ["main", "outer", "nested", "inlined"].map(|name| trace.count(0, name));
    let is_right = ended.code == 128 + 9 && found == [1, 1, 1, 0];
    if is_right { Ok(()) } else { Err(format!("{found:?}: {ended:?}")) }
}

/// A library that is told of calls already goes on being told, and nobody else is.
fn own() -> Result<(), String> {
    let room = Room::new()?;
    let library = room.compile("gcc", &["-O1", "-shared", "-fPIC"], "own-profile.c")?;
    let program = room.compile("gcc", &["-O2", TELL], "instrumented.c")?;
    let untraced = room.run("untraced", Command::new(&program).env("LD_PRELOAD", &library))?;
    let traced = room.run("traced", tracer(&program).env("LD_PRELOAD", &library))?;
    let says = |text: &str| untraced.stdout.contains(text);
    // The recorder has the library, too.
    if !traced.stdout.starts_with(&untraced.stdout) || !says("told of ") || says("told of 0") {
        return Err(format!("{traced:?} instead of {untraced:?}"));
    }
    if traced.stderr.contains("has its own __cyg_profile_func_enter") {
        Ok(())
    } else {
        Err(format!("{traced:?}"))
    }
}

/// Programs that tell themselves, or have the C library's functions in them: it's said why they can't be traced so.
fn own_and_static() -> Result<(), String> {
    let room = Room::new()?;
    let rows: [(&[&str], &str); 2] = [
        (&["-O2", "-DOWN", TELL], "has its own __cyg_profile_func_enter"),
        (&["-O2", "-static", TELL], "link it without -static"),
    ];
    for (flags, why) in rows {
        let program = room.compile("gcc", flags, "instrumented.c")?;
        let ended = room.run("traced", &mut tracer(&program))?;
        if ended.code != 2 || !ended.stderr.contains(why) {
            return Err(format!("{flags:?}: {ended:?}"));
        }
    }
    Ok(())
}

/// Functions of a library, whose addresses are in words that the dynamic linker fills in.
fn library() -> Result<(), String> {
    let room = Room::new()?;
    let library = room.compile("gcc", &["-O2", "-shared", "-fPIC", TELL], "preloaded.c")?;
    let program = room.compile("gcc", &["-O2", TELL], "uses-preload.c")?;
    let change = |command: &mut Command| _ = command.env("LD_PRELOAD", &library);
    same(&room, &program, change, Also::Nesting)?;
    let found = room.trace("traced")?.count(0, "getpagesize");
    if found == 1 { Ok(()) } else { Err(format!("getpagesize: {found}")) }
}

/// Functions of a library that comes and goes.
fn dlopen() -> Result<(), String> {
    let room = Room::new()?;
    let plugin = room.compile("gcc", &["-O2", "-shared", "-fPIC", TELL], "plugin.c")?;
    let program = room.compile("gcc", &["-O2", TELL], "library.c")?;
    same(&room, &program, |command| _ = command.arg(&plugin), Also::Nesting)?;
    let trace = room.trace("traced")?;
    let process = trace.processes.first().copied().unwrap_or(0);
    for (function, expected) in [("plugin", 100), ("half", 200), ("begin", 100), ("end", 100)] {
        let found = trace.count(process, function);
        if found != expected {
            return Err(format!("{function}: {found} instead of {expected}"));
        }
    }
    Ok(())
}

/// Attaching, again and again; afterwards the program is as before.
fn attach() -> Result<(), String> {
    let room = Room::new()?;
    for flags in [&["-O2", TELL][..], &["-O0", "-no-pie", "-Wl,-z,lazy", TELL]] {
        let program = room.compile("gcc", flags, "served.c")?;
        let mut served = Served::start(&program)?;
        let before = served.code()?;
        for _ in 0..2 {
            let attached = Attached::start(&room, "attached", &[], served.id())?;
            let counts = served.work()?;
            compare(&counts, &attached.stop()?)?;
            served.work()?;
        }
        if served.code()? != before {
            return Err("the code isn't as before".to_owned());
        }
        served.end()?;
    }
    Ok(())
}

/// Only some functions, other kinds of recording.
fn attach_some() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", TELL], "served.c")?;
    let mut served = Served::start(&program)?;
    let expected = served.work()?;
    let all = |name: &str| expected.get(name).copied().unwrap_or(0);
    let rows: [(&[&str], [u64; 3]); 4] = [
        (&["--filter", "deep"], [all("deep"), 0, 0]),
        (&["--entries"], ["deep", "leaf", "target"].map(all)),
        (&["--only-under", "target", "--depth", "1"], [0, 0, all("target")]),
        (&["--exclude", "leaf"], [all("deep"), 0, all("target")]),
    ];
    for (options, counts) in rows {
        let attached = Attached::start(&room, "attached", options, served.id())?;
        if served.work()? != expected {
            return Err(format!("{options:?}: it works differently"));
        }
        let trace = attached.stop()?;
        let found = ["deep", "leaf", "target"].map(|name| trace.count(0, name));
        if found != counts {
            return Err(format!("{options:?}: {found:?} instead of {counts:?}"));
        }
    }
    served.end()
}

/// What commands say of a program whose functions tell of their calls.
fn commands() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", TELL], "served.c")?;
    let rows: [(&[&str], &[&str], &str); 4] = [
        (&["scan"], &[], "functions tell of their calls themselves"),
        (&["why"], &["leaf"], "it tells of its calls itself (-finstrument-functions)"),
        (&["trace", "--list", "--plain", "--"], &[], "leaf@"),
        (&["list"], &[], ""),
    ];
    for (words, behind, expected) in rows {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        let ended = room.run("run", command.args(words).arg(&program).args(behind))?;
        let said = format!("{}{}", ended.stdout, ended.stderr);
        if ended.code != 0 || !said.contains(expected) {
            return Err(format!("{words:?}: {ended:?}"));
        }
    }
    Ok(())
}
