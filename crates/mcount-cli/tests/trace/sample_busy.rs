//! A function that's called millions of times a second: recording takes much of its time while it's armed, and `mcount sample` says what there is
//! without. And a machine on which more is ready to run than it has processors.

use crate::Test;
use crate::attach_where::{code_is_as_in_file, compile_through};
use crate::sample::{Check, row, sample, test};
use crate::truth::Room;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use testkit::served::Served;

const FUNCTIONS: [&str; 2] = ["often", "seldom"];

pub(crate) fn tests() -> Vec<Test> {
    if !cfg!(target_arch = "x86_64") {
        return Vec::new();
    }
    let rows: [(&str, Check); 4] = [
        ("sample::comes-and-goes", comes_and_goes),
        ("sample::busy-machine", busy_machine),
        ("sample::busy", || near_the_truth(&["-O2", "-fpatchable-function-entry=5"], &[])),
        ("sample::busy-probes", || {
            near_the_truth(&["-O2"], &["--probe", "often", "--probe", "seldom"])
        }),
    ];
    rows.into_iter().map(test).collect()
}

/// Seconds, and calls of each function.
fn ask(served: &mut Served) -> Result<Vec<f64>, String> {
    served.tell("count")?;
    let line = served.line()?;
    let words: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    if words.len() == 1 + FUNCTIONS.len() { Ok(words) } else { Err(format!("wrong: {line:?}")) }
}

/// On a busy machine, 4 seconds may be too few.
fn near_the_truth(flags: &[&str], options: &[&str]) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", flags, "busiest.c")?;
    let first = is_near(&room, &program, &[&["--duration", "4s"], options].concat());
    first.or_else(|_| is_near(&room, &program, &[&["--duration", "16s"], options].concat()))
}

fn is_near(room: &Room, program: &Path, options: &[&str]) -> Result<(), String> {
    let mut served = Served::command(&mut Command::new(program))?;
    let before = ask(&mut served)?;
    let fixed = ["--cost", "20%", "--seed", "7", "--format", "jsonl"];
    let mut child = sample(room, &[&fixed, options].concat(), served.id())?;
    let ended = room.wait("sample", &mut child)?;
    if ended.code != 0 {
        return Err(format!("{ended:?}"));
    }
    let after = ask(&mut served)?;
    let passed: Vec<f64> =
        before.iter().zip(&after).map(|(before, after)| after - before).collect();
    let [nanoseconds, counts @ ..] = passed.as_slice() else { return Err("no time".to_owned()) };
    for (function, calls) in FUNCTIONS.iter().zip(counts) {
        let truth = calls / nanoseconds * 1e9;
        let row = row(&ended.stdout, function)?;
        let number = |name: &str| row.get(name).and_then(Value::as_f64);
        let found = number("calls_per_second").ok_or("no estimate")?;
        let error = number("calls_per_second_error").ok_or("few windows")?;
        // Neither the estimate nor its interval may be anything.
        if (found / truth - 1.0).abs() > 0.6 || error > truth {
            return Err(format!("{function}: {found} ± {error} instead of {truth}"));
        }
    }
    Ok(())
}

/// Two programs share one processor. It's said how long the sampled one waits for it, and that numbers are worse.
fn busy_machine() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", "-fpatchable-function-entry=5"], "busiest.c")?;
    let pinned = || {
        let mut command = Command::new("taskset");
        Served::command(command.args(["-c", "0"]).arg(&program))
    };
    let (served, other) = (pinned()?, pinned()?);
    let options = ["--cost", "20%", "--duration", "4s"];
    let mut child = sample(&room, &options, served.id())?;
    let ended = room.wait("sample", &mut child)?;
    drop(other);
    let note = ended.stdout.lines().last().unwrap_or_default();
    let part = note.strip_prefix("the program waited for a processor in ");
    let part = part.and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
    match part {
        Some(part) if part >= 35 && ended.code == 0 => Ok(()),
        _ => Err(format!("{ended:?}")),
    }
}

/// A thousand functions of a program in which threads, children, signals and a library come and go: it finds each result right.
fn comes_and_goes() -> Result<(), String> {
    let room = Room::new()?;
    let (program, library) = compile_through(&room)?;
    let mut through = room.start("running", Command::new(&program).arg("12").arg(&library))?;
    let options = ["--probe", "f0*", "--cost", "20%", "--duration", "3s", "--format", "jsonl"];
    let mut child = sample(&room, &options, through.id())?;
    let ended = room.wait("sample", &mut child)?;
    if ended.code != 0 || ended.stdout.lines().count() < 100 {
        return Err(format!("{ended:?}"));
    }
    code_is_as_in_file(&program, through.id())?;
    let ended = room.wait("running", &mut through)?;
    if ended.code == 0 && ended.stdout.ends_with("\nok\n") {
        Ok(())
    } else {
        Err(format!("{ended:?}"))
    }
}
