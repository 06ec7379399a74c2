//! Programs whose symbols, unwind information or debug information is damaged: `mcount` records what it can or refuses, and
//! the program counts as it would otherwise. And programs that write over the trace itself.

use crate::Test;
use crate::truth::{Room, tracer_with};
use std::process::{Command, Stdio};
use testkit::damage::{Random, SECTIONS, damaged};
use testkit::sample::one_in;
use testkit::served::Served;

/// How often each section is damaged.
const ROUNDS: usize = 4;

/// Name, compiler, flags, source.
type Build = (&'static str, &'static str, &'static [&'static str], &'static str);

const BUILDS: &[Build] = &[
    ("patchable", "gcc", &["-O2", "-g", "-fpatchable-function-entry=5"], "served.c"),
    ("clang", "clang", &["-O2", "-g", "-fpatchable-function-entry=5"], "served.c"),
    ("fentry", "gcc", &["-O2", "-g", "-pg", "-mfentry"], "served.c"),
    ("static", "gcc", &["-O2", "-g", "-static", "-fpatchable-function-entry=5"], "served.c"),
];

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for (name, compiler, flags, source) in BUILDS {
        tests.push(Test {
            name: format!("damaged::{name}"),
            wants: vec![compiler],
            open: None,
            run: Box::new(|| check(compiler, flags, source)),
        });
    }
    tests = one_in(3, tests);
    for (name, options) in SCRIBBLED {
        tests.push(Test {
            name: format!("damaged::trace-{name}"),
            wants: vec!["gcc"],
            open: None,
            run: Box::new(|| scribbled(options)),
        });
    }
    tests.push(Test {
        name: "damaged::trace-attached".to_owned(),
        wants: vec!["gcc"],
        open: None,
        run: Box::new(scribbled_attached),
    });
    tests
}

/// Options with which a trace is written in another way.
const SCRIBBLED: &[(&str, &[&str])] = &[
    ("plain", &[]),
    ("values", &["--args", "*", "--results", "*"]),
    ("ring", &["--ring", "2M"]),
    ("depth", &["--depth", "3"]),
    ("min-duration", &["--min-duration", "1us"]),
    ("untimed", &["--clock", "none"]),
    ("entries", &["--entries"]),
];

/// What is written over a trace: ones, zeroes, and noise of two kinds.
const SCRIBBLES: [&str; 4] = ["0", "1", "2", "3"];

const SCRIBBLER: &[&str] = &["-O2", "-g", "-pthread", "-fpatchable-function-entry=5"];

/// A program writes over the trace of itself, and ends as it does without one.
fn scribbled(options: &[&str]) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", SCRIBBLER, "scribbles.c")?;
    for kind in SCRIBBLES {
        let mut command = tracer_with(options, &program);
        let ended = room.run("traced", command.arg(kind).env("NEEDS_TRACE", "1"))?;
        if (ended.code, ended.stdout.as_str()) != (0, "0 0 0 0\n")
            || ended.stderr.contains("panicked")
        {
            return Err(format!("{kind}: {ended:?}"));
        }
    }
    Ok(())
}

fn scribbled_attached() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", SCRIBBLER, "scribbles.c")?;
    for kind in SCRIBBLES {
        let mut running = Command::new(&program);
        running.args([kind, "150", "wait"]).stdout(Stdio::piped());
        let running = running.spawn().map_err(|error| error.to_string())?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command.args([
            "attach",
            "--plain",
            "--duration",
            "100ms",
            "--args",
            "*",
            "--output",
            "a.mcount",
        ]);
        let attached = room.run("attached", command.arg(running.id().to_string()))?;
        let ended = running.wait_with_output().map_err(|error| error.to_string())?;
        let is_right = ended.status.success() && ended.stdout == b"0 0 0 0\n";
        if !is_right || attached.code != 0 || attached.stderr.contains("panicked") {
            return Err(format!("{kind}: {ended:?}, {attached:?}"));
        }
    }
    Ok(())
}

fn check(compiler: &str, flags: &[&str], source: &str) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile(compiler, flags, source)?;
    let whole = testkit::files::read(&program)?;
    let expected = Served::start(&program)?.work()?;
    let copy = room.path("damaged");
    let mut random = Random::new();
    let mut attached = 0;
    for section in SECTIONS {
        for round in 0..ROUNDS {
            let Some(bytes) = damaged(&whole, section, &mut random) else { continue };
            testkit::files::write_program(&copy, &bytes)?;
            let mut served = Served::start(&copy)?;
            let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
            command.args([
                "attach",
                "--plain",
                "--duration",
                "10ms",
                "--args",
                "*",
                "--results",
                "*",
            ]);
            command.args(["--output", "trace.mcount"]).arg(served.id().to_string());
            let ended = room.run("attached", &mut command)?;
            let at = format!("{section:?}, round {round}");
            if !matches!(ended.code, 0 | 2) || ended.stderr.contains("panicked") {
                return Err(format!("{at}: {ended:?}"));
            }
            attached += u32::from(ended.code == 0);
            let counts = served.work().map_err(|error| format!("{at}: {error}, {ended:?}"))?;
            if counts != expected {
                return Err(format!("{at}: {counts:?} instead of {expected:?}"));
            }
            served.end().map_err(|error| format!("{at}: {error}"))?;
        }
    }
    // Else nothing was tried.
    if attached > 10 { Ok(()) } else { Err(format!("only {attached} were attached to")) }
}
