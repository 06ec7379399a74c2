//! `mcount patch`: the program answers lines, and what it answers shows which versions of its functions it ran. Threads
//! that are in a function are waited for, whatever is refused is refused before anything changes, and a process is all old
//! or all new, whenever who patches it is killed.

mod faults;
mod program;
mod refused;
mod stacks;

use libtest_mimic::{Arguments, Trial};
use program::{HOOKS, Room, patch, with};
use std::process::ExitCode;
use testkit::elsewhere;
use testkit::served::Served;
use testkit::trial::trial;

/// What a test does.
pub(crate) type Check = fn() -> Result<(), String>;

/// Name, compilers of the program and of what's patched in, flags of the program.
type Build = (&'static str, &'static str, &'static str, &'static [&'static str]);

const BUILDS: &[Build] = &[
    ("pie", "gcc", "gcc", HOOKS),
    ("no-pie", "gcc", "gcc", &["-O2", "-no-pie", "-fpatchable-function-entry=5"]),
    ("static", "gcc", "gcc", &["-O2", "-static", "-fpatchable-function-entry=5"]),
    ("static-pie", "gcc", "gcc", &["-O2", "-static-pie", "-fpatchable-function-entry=5"]),
    ("not-optimized", "gcc", "gcc", &["-O0", "-fpatchable-function-entry=16"]),
    ("before", "gcc", "gcc", &["-O2", "-fpatchable-function-entry=7,5"]),
    ("fentry", "gcc", "gcc", &["-O2", "-pg", "-mfentry"]),
    ("fentry-static", "gcc", "gcc", &["-O2", "-static", "-pg", "-mfentry"]),
    (
        "fentry-nops",
        "gcc",
        "gcc",
        &["-O2", "-no-pie", "-fno-pie", "-pg", "-mfentry", "-mnop-mcount", "-mrecord-mcount"],
    ),
    ("cet", "gcc", "gcc", &["-O2", "-fcf-protection", "-fpatchable-function-entry=5"]),
    ("clang", "clang", "clang", HOOKS),
    ("clang-and-gcc", "clang", "gcc", HOOKS),
    ("clang-static", "clang", "clang", &["-O2", "-static", "-fpatchable-function-entry=5"]),
    ("musl", "musl-gcc", "musl-gcc", HOOKS),
    ("musl-static", "musl-gcc", "musl-gcc", &["-O2", "-static", "-fpatchable-function-entry=5"]),
];

/// Where an instruction is enough.
#[cfg(target_arch = "aarch64")]
const ITS_BUILDS: &[Build] = &[
    ("one-nop", "gcc", "gcc", &["-O2", "-fpatchable-function-entry=1"]),
    ("two-nops", "gcc", "gcc", &["-O2", "-fpatchable-function-entry=2"]),
    (
        "landing-pads",
        "gcc",
        "gcc",
        &[
            "-O2",
            "-mbranch-protection=standard",
            "-Wl,-z,force-bti",
            "-DOWN_START",
            "-nostartfiles",
            "-fpatchable-function-entry=2",
        ],
    ),
];
#[cfg(not(target_arch = "aarch64"))]
const ITS_BUILDS: &[Build] = &[];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let is_built = cfg!(can_patch);
    if !is_built || !cfg!(target_os = "linux") {
        return ExitCode::SUCCESS;
    }
    let mut trials: Vec<Trial> = Vec::new();
    for (name, compiler, other, flags) in BUILDS.iter().chain(ITS_BUILDS) {
        let wants = elsewhere::wanted(vec![*compiler, *other]);
        trials.push(trial(format!("builds::{name}"), wants, move || {
            versions(compiler, other, flags)
        }));
    }
    let rows: [(&str, Check); 5] = [
        ("versions::some-functions", some_functions),
        ("versions::by-name", by_name),
        ("versions::a-library", a_library),
        ("versions::under-load", under_load),
        ("versions::nothing-grows", nothing_grows),
    ];
    for (name, run) in rows
        .into_iter()
        .chain(stacks::TESTS)
        .chain(refused::TESTS)
        .chain(faults::TESTS.iter().copied())
    {
        trials.push(trial(name.to_owned(), elsewhere::wanted(vec!["gcc", "g++"]), run));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Patches, patches on top of that, and reverts, one by one.
fn versions(compiler: &str, other: &str, flags: &[&str]) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("served", compiler, flags, &["served.c"])?;
    let shared = ["-shared", "-fPIC", "-O2"];
    let one = room.compile("one.so", other, &shared, &["fix.c"])?;
    let two =
        room.compile("two.so", other, &[&shared[..], &["-DADDS=1000"]].concat(), &["fix.c"])?;
    let mut served = Served::start(&program)?;
    let before = served.code()?;
    served.ask("go", "8 4 8 5 1")?;
    patch(&served, &one)?.is(0, "one.so replaces answer, hidden")?;
    served.ask("go", "4001 -8 108 6 1")?;
    served.ask("go", "4002 -8 208 7 1")?;
    with(&served, &["--list"], &[])?.is(0, "1 one.so in force: answer, hidden\n")?;
    patch(&served, &two)?.is(0, "two.so replaces answer, hidden")?;
    served.ask("go", "4001 -8 1208 8 1")?;
    with(&served, &["--list"], &[])?.is(
        0,
        "1 one.so in force: answer (replaced again), hidden (replaced again)\n2 two.so in force",
    )?;
    with(&served, &["--revert"], &["2"])?.is(0, "reverted 2 (two.so)")?;
    // Its own variables are as they were.
    served.ask("go", "4003 -8 1308 9 1")?;
    with(&served, &["--revert"], &[])?.is(0, "reverted 1 (one.so)")?;
    served.ask("go", "8 4 1309 9 1")?;
    with(&served, &["--list"], &[])?
        .is(0, "1 one.so reverted: answer, hidden\n2 two.so reverted")?;
    if served.code()? != before {
        return Err("its code isn't what it was".to_owned());
    }
    patch(&served, &two)?.is(0, "two.so")?;
    served.ask("go", "4001 -8 2309 10 1")?;
    if served.has_writable_code()? {
        return Err("it has memory that is writable and executable".to_owned());
    }
    served.end()
}

/// Only functions that are meant are replaced.
fn some_functions() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("served", "gcc", HOOKS, &["served.c"])?;
    let fix = room.fix("fix.so", &[], &["fix.c"])?;
    let fix = fix.to_string_lossy().into_owned();
    let mut served = Served::start(&program)?;
    with(&served, &["--function", "hid*"], &[&fix])?.is(0, "fix.so replaces hidden\n")?;
    served.ask("go", "8 -8 8 5 1")?;
    with(&served, &["--function", "nothing*"], &[&fix])?.is(2, "--function selects")?;
    served.end()
}

/// Patches that have other functions come and go in any order.
fn by_name() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("served", "gcc", HOOKS, &["served.c"])?;
    let (fix, both) =
        (room.fix("fix.so", &[], &["fix.c"])?, room.fix("both.so", &[], &["both.c"])?);
    let mut served = Served::start(&program)?;
    patch(&served, &fix)?.is(0, "")?;
    patch(&served, &both)?.is(0, "both.so replaces")?;
    served.ask("which", "22")?;
    with(&served, &["--revert"], &["1"])?.is(0, "reverted 1 (fix.so)")?;
    served.ask("go", "8 4 8 5 1")?;
    served.ask("which", "22")?;
    with(&served, &["--revert"], &["fix.so"])?.is(2, "no such patch is in force: fix.so")?;
    with(&served, &["--revert"], &["both.so"])?.is(0, "reverted 2 (both.so)")?;
    served.ask("which", "11")?;
    with(&served, &["--revert"], &[])?.is(2, "no patch is in force")?;
    served.end()
}

/// A function of a library, and one of the program that uses it, at once; they're far from each other.
fn a_library() -> Result<(), String> {
    let room = Room::new()?;
    let library = room.source(
        "lib.c",
        "static volatile int kept = 4;\nint of_library(void) { return kept; }\n",
    )?;
    let library = library.to_string_lossy().into_owned();
    let flags = [HOOKS, &["-shared", "-fPIC"]].concat();
    let made = room.compile("libserved.so", "gcc", &flags, &[&library])?;
    let main = room.source(
        "main.c",
        "#include <stdio.h>\n#include <unistd.h>\nint of_library(void);\n__attribute__((noinline, noclone)) int own(void) { return 1; }\n\
         int main(void) { char line[99]; alarm(200); puts(\"ready\"); fflush(stdout);\n\
         while (fgets(line, 99, stdin)) { printf(\"%d %d\\n\", own(), of_library()); fflush(stdout); }\n\
         return 7; }\n",
    )?;
    let main = main.to_string_lossy().into_owned();
    let made = made.to_string_lossy().into_owned();
    let flags = [HOOKS, &["-Wl,--no-as-needed", made.as_str()]].concat();
    let program = room.compile("served", "gcc", &flags, &[&main])?;
    let fix = room.source(
        "fix.c",
        "extern int kept;\nint own(void) { return 10 + kept; }\nint of_library(void) { return ++kept * 100; }\n",
    )?;
    let fix = room.fix("fix.so", &[], &[&fix.to_string_lossy()])?;
    let mut served = Served::start(&program)?;
    served.ask("", "1 4")?;
    patch(&served, &fix)?.is(0, "fix.so replaces")?;
    // The compiler asks the library first.
    served.ask("", "15 500").or_else(|_| served.ask("", "15 600"))?;
    with(&served, &["--revert"], &[])?.is(0, "reverted")?;
    served.tell("")?;
    let line = served.line()?;
    if !line.starts_with("1 ") || line.ends_with("00") {
        return Err(line);
    }
    served.end()
}

/// Four threads call what is patched all the time. They never see some of the old and some of the new.
fn under_load() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("served", "gcc", HOOKS, &["served.c"])?;
    let fix = room.fix("both.so", &[], &["both.c"])?;
    let mut served = Served::start(&program)?;
    served.ask("start", "started")?;
    for round in 0..15 {
        patch(&served, &fix)?.is(0, "both.so").map_err(|error| format!("{round}: {error}"))?;
        with(&served, &["--revert"], &[])?.is(0, "reverted")?;
    }
    served.ask("stop", "called 0")?;
    served.ask("which", "11")?;
    served.end()
}

/// What was given up, and what is refused, leaves nothing behind.
fn nothing_grows() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("served", "gcc", HOOKS, &["served.c"])?;
    let fix = room.fix("slow.so", &[], &["slow.c"])?;
    let fix = fix.to_string_lossy().into_owned();
    let mut served = Served::start(&program)?;
    served.hold("hold")?;
    let mut sizes = Vec::new();
    for _ in 0..6 {
        with(&served, &["--wait", "1ms"], &[&fix])?.is(1, "slow+")?;
        sizes.push(served.size()?);
    }
    if sizes.first() != sizes.last() {
        return Err(format!("mappings and files: {sizes:?}"));
    }
    served.ask("free", "2")?;
    served.end()
}
