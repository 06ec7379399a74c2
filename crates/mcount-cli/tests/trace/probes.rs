//! Probes (`--probe`): programs that were compiled without hooks and count their own calls. What they do is as without tracing, and the trace
//! has exactly those calls.

use crate::Test;
use crate::attach::{Attached, compare, text, worker};
use crate::programs::{PROGRAMS, Program, compiler};
use crate::truth::{Room, kill_one, same_with, traced_process, tracer_with, until};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use testkit::sample::{one_in, trials};
use testkit::served::Served;

/// No hooks. Copies that gcc makes of functions have other names, so it's to make none; how callers use what they know of a
/// function's registers (`-fipa-ra`) stays.
const NO_HOOKS: &[&str] =
    &["-O2", "-fno-ipa-cp", "-fno-ipa-sra", "-fno-ipa-icf", "-fno-partial-inlining"];

/// Programs that aren't for probes: they have compilers' hooks, or are static.
const OTHERS: &[&str] = &[
    "two-hooks-fentry",
    "two-hooks-pg",
    "patches-itself",
    "confined-static",
    "confined-static-by-prctl",
];

/// Programs that call libraries too often to have these probed as well.
const LONG: &[&str] = &["copied-stacks-random", "copied-stacks-many"];

/// Functions by which coroutines that share a stack copy it: as they have no hook otherwise, they'd cost minutes.
const SWITCHES: &[&str] = &["keep*", "put_back*"];

/// Name, compiler, flags, source.
type Build = (&'static str, &'static str, &'static [&'static str], &'static str);

/// Landing pads of indirect branches; on AArch64, also signatures of return addresses.
const GUARDED: &str =
    if cfg!(target_arch = "aarch64") { "-mbranch-protection=standard" } else { "-fcf-protection" };

const SERVED: &[Build] = &[
    ("pie", "gcc", NO_HOOKS, "served.c"),
    ("no-pie", "gcc", &["-O2", "-fno-ipa-cp", "-fno-ipa-sra", "-no-pie"], "served.c"),
    ("static", "gcc", &["-O2", "-fno-ipa-cp", "-fno-ipa-sra", "-static"], "served.c"),
    ("not-optimized", "gcc", &["-O0"], "served.c"),
    ("guarded", "gcc", &["-O2", "-fno-ipa-cp", "-fno-ipa-sra", GUARDED], "served.c"),
    ("clang", "clang", &["-O2"], "served.c"),
    ("musl", "musl-gcc", NO_HOOKS, "served.c"),
    ("fork", "gcc", NO_HOOKS, "served-fork.c"),
    ("throw", "g++", NO_HOOKS, "served-throw.cpp"),
    ("throw-clang", "clang++", &["-O2"], "served-throw.cpp"),
];

/// What a test does.
type Check = fn() -> Result<(), String>;

fn test(
    name: &str,
    wants: &[&'static str],
    run: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Test {
    Test { name: format!("probes::{name}"), wants: wants.to_vec(), open: None, run: Box::new(run) }
}

pub(crate) fn tests() -> Vec<Test> {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return Vec::new();
    }
    let mut tests = Vec::new();
    for program in PROGRAMS.iter().filter(|program| !OTHERS.contains(&program.name)) {
        for (kind, is_all) in [("own", false), ("all", true)] {
            if is_all && LONG.contains(&program.name) {
                continue;
            }
            tests.push(Test {
                name: format!("probes::{kind}::{}", program.name),
                wants: vec![compiler(program.source)],
                open: program.open,
                run: Box::new(move || as_untraced(program, is_all)),
            });
        }
    }
    tests = one_in(4, tests);
    for (name, compiler, flags, source) in SERVED {
        tests.push(Test {
            name: format!("probes::attach::{name}"),
            wants: vec![*compiler],
            open: None,
            run: Box::new(move || attached(compiler, flags, source)),
        });
    }
    let rows: [(&str, Check); 7] = [
        ("registers", registers),
        ("unnamed", unnamed),
        ("under-load", under_load),
        ("switched", switched),
        ("both-killed", both_killed),
        ("worker-killed", worker_killed),
        ("refused", refused),
    ];
    tests.extend(rows.map(|(name, run)| test(name, &["gcc"], run)));
    tests.push(test("counted-by-callgrind", &["gcc", "valgrind"], counted_by_callgrind));
    let installed = |(name, words): &(&str, Words)| {
        test(name, words.get(..1).unwrap_or_default(), || installed(words))
    };
    tests.extend(INSTALLED.iter().map(installed));
    if cfg!(target_arch = "aarch64") {
        tests.push(test("firsts", &["gcc"], firsts));
    } else {
        // Stubs on AArch64 have no unwind information.
        tests.extend(steps());
    }
    tests
}

/// A program is traced as it is untraced: its own functions, or those of all libraries, too.
fn as_untraced(program: &Program, is_all: bool) -> Result<(), String> {
    let room = Room::new()?;
    let mut flags = NO_HOOKS.to_vec();
    flags.extend(program.flags);
    let path = room.compile(compiler(program.source), &flags, program.source)?;
    let own = format!("*@{}", path.display());
    let mut options = vec!["--probe", if is_all { "*" } else { &own }];
    if program.name.starts_with("copied-stacks") {
        options.extend(SWITCHES.iter().flat_map(|name| ["--exclude", name]));
    }
    let change = |command: &mut Command| {
        command.args(program.arguments);
    };
    same_with(&room, &path, &options, change, program.also)
}

/// Attaches some times while the program works and while it waits. Afterwards its code is as in its file.
fn attached(compiler: &str, flags: &[&str], source: &str) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile(compiler, flags, source)?;
    let mut served = Served::start(&program)?;
    let expected = served.work()?;
    for round in 0..3 {
        let attached = Attached::start(&room, "attached", &["--probe", "*"], served.id())?;
        let counts = served.work()?;
        let mut trace = attached.stop()?;
        if counts != expected || served.work()? != expected {
            return Err(format!("round {round}: {counts:?} instead of {expected:?}"));
        }
        compare(&counts, &trace).map_err(|error| format!("round {round}: {error}"))?;
        trace.check_nesting()?;
        is_as_in_file(served.id())?;
    }
    served.end()
}

/// All code of a process is as in its files.
fn is_as_in_file(process: u32) -> Result<(), String> {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).map_err(text)?;
    let memory = OpenOptions::new().read(true).open(format!("/proc/{process}/mem"));
    let memory = memory.map_err(text)?;
    let mut count = 0;
    for line in maps.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [range, "r-xp", offset, _, _, path] = fields.as_slice() else { continue };
        if !path.starts_with('/') || path.contains("memfd:") {
            continue;
        }
        let (start, end) = range.split_once('-').ok_or("maps")?;
        let number = |text: &str| u64::from_str_radix(text, 16).map_err(|error| error.to_string());
        let (start, end, offset) = (number(start)?, number(end)?, number(offset)?);
        let file = testkit::files::read(Path::new(path))?;
        let offset = usize::try_from(offset).map_err(text)?;
        let mut now = vec![0; usize::try_from(end - start).map_err(text)?];
        memory.read_exact_at(&mut now, start).map_err(text)?;
        let code = file.get(offset..).ok_or("a short file")?;
        if let Some(at) = now.iter().zip(code).position(|(now, file)| now != file) {
            return Err(format!("{path} differs at {:#x} of its file", offset + at));
        }
        count += 1;
    }
    if count == 0 { Err("nothing was compared".to_owned()) } else { Ok(()) }
}

/// Every instruction of traced calls has a backtrace, also where a function's first instructions have moved to.
const STEPS: &[&[&str]] = &[
    &["-O2"],
    &["-O0"],
    &["-O2", "-no-pie"],
    &["-O2", "-fno-omit-frame-pointer"],
    &["-O2", "-fcf-protection"],
];

fn steps() -> impl Iterator<Item = Test> {
    STEPS.iter().map(|flags| Test {
        name: format!("probes::steps::{}", flags.join("_")),
        wants: vec!["gcc"],
        open: None,
        run: Box::new(move || {
            let room = Room::new()?;
            let program = room.compile("gcc", flags, "steps.c")?;
            let own = format!("*@{}", program.display());
            let untraced = room.run("untraced", &mut Command::new(&program))?;
            // It takes the backtraces. Not all functions can be probed, so they aren't counted.
            let options = ["--probe", &own, "--exclude", "on_step"];
            let mut command = tracer_with(&options, &program);
            let traced = room.run("traced", command.env("SHOW_STEPS", "1"))?;
            let calls = room.trace("traced")?;
            let is_traced = ["leaf", "parent", "tail"].iter().all(|name| calls.count(0, name) != 0);
            if is_traced && traced.code == 0 && traced.stdout == untraced.stdout {
                Ok(())
            } else {
                Err(format!("{untraced:?}, traced {traced:?}"))
            }
        }),
    })
}

/// Threads never rest while probes of the program and its libraries come and go. All that they compute is right, and the code is
/// as in the files in the end.
fn under_load() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", "-fno-ipa-cp", "-fno-ipa-sra"], "busy-threads.c")?;
    let mut child = room.start("busy", &mut Command::new(&program))?;
    until("it runs", || room.printed("busy").starts_with("ready"))?;
    for round in 0..trials(20) {
        let attached = Attached::start(&room, "attached", &["--probe", "*"], child.id())?;
        std::thread::sleep(Duration::from_millis(20));
        let trace = attached.stop().map_err(|error| format!("round {round}: {error}"))?;
        if trace.count(0, "mix") == 0 {
            return Err(format!("round {round}: no call was recorded"));
        }
        is_as_in_file(child.id())?;
    }
    kill_one(child.id().into(), Signal::SIGTERM);
    let ended = room.wait("busy", &mut child)?;
    if ended.code == 0 && ended.stdout.ends_with("right\n") {
        Ok(())
    } else {
        Err(format!("{ended:?}"))
    }
}

/// Probes are switched off and on while threads run through them.
fn switched() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", "-fno-ipa-cp", "-fno-ipa-sra"], "busy-threads.c")?;
    let options = ["--probe", "*", "--ring", "16M"];
    let mut child = room.start("switched", &mut tracer_with(&options, &program))?;
    until("it runs", || room.printed("switched").starts_with("ready"))?;
    let process = traced_process(&child)?;
    let said = || testkit::files::read(&room.path("switched/stderr")).unwrap_or_default();
    for round in 1..=20 {
        kill_one(child.id().into(), Signal::SIGUSR1);
        // Two signals that come before one is heard are one.
        let is_heard = || said().split(|byte| *byte == b'\n').count() > round;
        until("the signal is heard", is_heard)?;
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_one(process, Signal::SIGTERM);
    let ended = room.wait("switched", &mut child)?;
    let has_paused = ended.stderr.matches("recording again").count() > 1;
    if ended.code == 0 && ended.stdout.ends_with("right\n") && has_paused {
        Ok(())
    } else {
        Err(format!("{ended:?}"))
    }
}

/// There are as many calls as Valgrind's callgrind counts.
fn counted_by_callgrind() -> Result<(), String> {
    const FUNCTIONS: [&str; 9] = [
        "next",
        "begins_with_call",
        "ackermann",
        "collatz",
        "even",
        "odd",
        "compare",
        "visit",
        "main",
    ];
    let room = Room::new()?;
    let program = room.compile("gcc", NO_HOOKS, "deterministic.c")?;
    let mut valgrind = Command::new("setarch");
    valgrind.args(["-R", "valgrind", "--quiet", "--tool=callgrind"]);
    valgrind.arg("--callgrind-out-file=callgrind.out").arg(&program);
    let counted = room.run("callgrind", &mut valgrind)?;
    let expected = callgrind(&room.path("callgrind").join("callgrind.out"))?;
    let own = format!("*@{}", program.display());
    let traced = room.run("traced", &mut tracer_with(&["--probe", &own], &program))?;
    if traced.stdout != counted.stdout {
        return Err(format!("{counted:?}, traced {traced:?}"));
    }
    let trace = room.trace("traced")?;
    let pairs = FUNCTIONS.map(|name| (name, expected.get(name).copied(), trace.count(0, name)));
    let wrong: Vec<_> = pairs.iter().filter(|(_, all, found)| *all != Some(*found)).collect();
    if wrong.is_empty() { Ok(()) } else { Err(format!("{wrong:?}")) }
}

/// Calls of each function, in callgrind's format: `cfn=(number) name`, where the name is there once, and `calls=count …`. Recursive calls
/// have names of their own.
fn callgrind(path: &Path) -> Result<BTreeMap<String, u64>, String> {
    let found = String::from_utf8(testkit::files::read(path)?).map_err(text)?;
    let (mut names, mut counts) = (BTreeMap::new(), BTreeMap::new());
    let mut called = String::new();
    for line in found.lines() {
        if let Some((kind @ ("fn" | "cfn"), rest)) = line.split_once("=(") {
            let (number, name) = rest.split_once(')').ok_or(line)?;
            if !name.is_empty() {
                names.insert(number.to_owned(), name.trim().to_owned());
            }
            if kind == "cfn" {
                called.clone_from(names.get(number).ok_or(line)?);
            }
        } else if let Some(rest) = line.strip_prefix("calls=") {
            let count: u64 = rest.split(' ').next().unwrap_or_default().parse().map_err(text)?;
            let name = called.split('\'').next().unwrap_or_default();
            *counts.entry(name.to_owned()).or_insert(0) += count;
        }
    }
    Ok(counts)
}

/// All registers stay as they are that a function leaves alone, however its calls are recorded.
fn registers() -> Result<(), String> {
    const OPTIONS: [&[&str]; 6] = [
        &[],
        &["--entries"],
        &["--entries", "--clock", "none"],
        &["--clock", "none"],
        &["--depth", "1"],
        &["--min-duration", "1ms"],
    ];
    let room = Room::new()?;
    let program = room.compile("gcc", NO_HOOKS, "keeps.c")?;
    for more in OPTIONS {
        let options = [&["--probe", "keeps_all"], more].concat();
        let ended = room.run("registers", &mut tracer_with(&options, &program))?;
        let count = room.trace("registers")?.count(0, "keeps_all");
        let expected = if more.contains(&"--min-duration") { count } else { 10_000 };
        if ended.code != 0 || ended.stdout != "0 wrong\n" || count != expected {
            return Err(format!("{options:?}: {count} calls, {ended:?}"));
        }
    }
    Ok(())
}

/// Functions do what they did whose first instruction depends on where it is, or signs the return address; each call is recorded.
fn firsts() -> Result<(), String> {
    const FUNCTIONS: [&str; 13] = [
        "by_adr",
        "by_adrp",
        "by_literal",
        "by_word",
        "by_vector",
        "by_jump",
        "by_zero",
        "by_bit",
        "only_returns",
        "behind_pad",
        "signs",
        "signs_otherwise",
        "signs_behind_pad",
    ];
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2"], "firsts.c")?;
    let own = format!("*@{}", program.display());
    for more in [&[][..], &["--entries"]] {
        let options = [&["--probe", &own], more].concat();
        let ended = room.run("traced", &mut tracer_with(&options, &program))?;
        let trace = room.trace("traced")?;
        let counts = FUNCTIONS.map(|name| (name, trace.count(0, name)));
        let has_all = counts.iter().all(|(_, count)| *count == 100);
        if ended.code != 0 || ended.stdout != "0 wrong\n" || !has_all {
            return Err(format!("{options:?}: {counts:?}, {ended:?}"));
        }
    }
    Ok(())
}

/// Functions of a program without symbols are called by where they are.
fn unnamed() -> Result<(), String> {
    let room = Room::new()?;
    let flags = [NO_HOOKS, &["-s"]].concat();
    let program = room.compile("gcc", &flags, "deterministic.c")?;
    let name = program.file_name().and_then(|name| name.to_str()).ok_or("no name")?;
    let own = format!("*@{}", program.display());
    room.run("unnamed", &mut tracer_with(&["--probe", &own], &program))?;
    let start = format!("{name}+0x");
    let trace = room.trace("unnamed")?;
    let calls = trace.called(0).filter(|(name, _)| name.starts_with(&start));
    let mut counts: Vec<u64> = calls.map(|(_, count)| count).collect();
    counts.sort_unstable();
    // What programs begin with has unwind information on some processors, so these functions are known, too: they're called once.
    counts.dedup();
    // As callgrind has it: see above.
    let expected = [1, 3, 50, 99, 110, 350, 639, 644, 2086];
    if counts == expected { Ok(()) } else { Err(format!("{counts:?}")) }
}

/// `mcount attach` and its worker are killed. The next one restores what they have left, also probes that it wasn't asked for.
fn both_killed() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", NO_HOOKS, "served.c")?;
    let mut served = Served::start(&program)?;
    let expected = served.work()?;
    for _ in 0..3 {
        let mut attached = Attached::start(&room, "killed", &["--probe", "*"], served.id())?;
        let worker = worker(&attached)?;
        kill_one(attached.child.id().into(), Signal::SIGSTOP);
        kill_one(worker, Signal::SIGKILL);
        attached.child.kill().and_then(|()| attached.child.wait()).map_err(text)?;
        if is_as_in_file(served.id()).is_ok() {
            return Err("nothing was left to do".to_owned());
        }
        if served.work()? != expected {
            return Err("it counts otherwise".to_owned());
        }
        let attached = Attached::start(&room, "attached", &["--probe", "deep"], served.id())?;
        let counts = served.work()?;
        let trace = attached.stop()?;
        if trace.count(0, "leaf") != 0
            || trace.count(0, "deep") != counts.get("deep").copied().unwrap_or(0)
        {
            return Err(format!("{} and {}", trace.count(0, "leaf"), trace.count(0, "deep")));
        }
        is_as_in_file(served.id())?;
    }
    served.end()
}

/// The worker alone is killed: the process that was started restores the code.
fn worker_killed() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", NO_HOOKS, "served.c")?;
    let mut served = Served::start(&program)?;
    let expected = served.work()?;
    let attached = Attached::start(&room, "killed", &["--probe", "*"], served.id())?;
    kill_one(worker(&attached)?, Signal::SIGKILL);
    until("the code is as it was", || is_as_in_file(served.id()).is_ok())?;
    if served.work()? != expected {
        return Err("it counts otherwise".to_owned());
    }
    served.end()
}

/// A command and its arguments.
type Words = &'static [&'static str];

/// Debian's own programs, with every possible function of them and their libraries probed, do what they do otherwise.
const INSTALLED: &[(&str, Words)] = &[
    (
        "python",
        &["/usr/bin/python3", "-c", "import json,re;print(json.dumps(re.findall('a+','caaat')*3))"],
    ),
    ("python-threads", &["/usr/bin/python3", "-c", PYTHON_THREADS]),
    (
        "perl",
        &[
            "/usr/bin/perl",
            "-e",
            "print join(',',sort {$a<=>$b} map {$_*7%13} 1..200),\"\\n\";exit 3",
        ],
    ),
    (
        "bash",
        &["/bin/bash", "-c", "for i in {1..50}; do x=$((x+i)); done; echo $x | cat; (exit 4)"],
    ),
    ("git", &["/usr/bin/git", "hash-object", "--stdin-paths", "--no-filters"]),
    ("sort", &["/usr/bin/sort", "-r", "/etc/services"]),
];

const PYTHON_THREADS: &str = "
import threading, zlib, hashlib, signal, os
def work(n):
    try:
        raise ValueError(hashlib.sha256(zlib.compress(b'x' * n)).hexdigest())
    except ValueError as error:
        found[n] = str(error)
found = {}
threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 30)]
[t.start() for t in threads]
[t.join() for t in threads]
if os.fork() == 0:
    os._exit(7)
print(os.wait()[1], sorted(found.items()))
";

fn installed(words: &[&str]) -> Result<(), String> {
    let [program, arguments @ ..] = words else { return Err("no command".to_owned()) };
    let room = Room::new()?;
    let untraced = room.run("untraced", Command::new(program).args(arguments))?;
    let options = ["--probe", "*", "--ring", "64M"];
    let mut command = tracer_with(&options, Path::new(program));
    let traced = room.run("traced", command.args(arguments))?;
    let trace = room.trace("traced")?;
    let is_same = (traced.code, &traced.stdout) == (untraced.code, &untraced.stdout);
    let said: Vec<&str> =
        traced.stderr.lines().filter(|line| line.starts_with("mcount: ")).collect();
    if is_same
        && trace.total() > 100
        && said.iter().all(|line| line.contains(" cannot be probed; "))
    {
        return Ok(());
    }
    Err(format!("{untraced:?}, traced {traced:?}"))
}

/// Functions that can't have a probe are refused with a reason: all of them, and the program doesn't run; or some, and it does.
fn refused() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", NO_HOOKS, "jumps.c")?;
    let rows: [(&[&str], i32, &str); 4] = [
        (&["--probe", "_start"], 2, "_start@"),
        (&["--probe", "nobody_has_this"], 2, "nobody_has_this"),
        (&["--probe", "_start", "--list"], 2, "it has no return address"),
        (&["--probe", "*", "--list"], 0, "_start@"),
    ];
    for (options, code, said) in rows {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command.arg("trace").args(options).arg("--").arg(&program);
        let ended = room.run("refused", &mut command)?;
        if ended.code != code || !ended.stderr.contains(said) {
            return Err(format!("{options:?}: {ended:?}"));
        }
    }
    Ok(())
}
