//! Threads and processes that end within calls: these end then, and not when another thread has the same stack, or with the trace.

use crate::Test;
use crate::attach::text;
use crate::sample::{Check, HOOKS, test};
use crate::truth::Room;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use testkit::served::Served;

pub(crate) fn tests() -> Vec<Test> {
    let rows: [(&str, Check); 3] =
        [("ended::trace", trace), ("ended::attach", attach), ("ended::sample", sample)];
    rows.into_iter().map(test).collect()
}

/// How many calls there are, and how long they took, in nanoseconds.
fn of(room: &Room, trace: &Path, function: &str) -> Result<(u64, u64), String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    let ended = room.run("stats", command.args(["stats", "--format", "jsonl"]).arg(trace))?;
    for line in ended.stdout.lines() {
        let row: Value = serde_json::from_str(line).map_err(text)?;
        let number = |name: &str| row.get(name).and_then(Value::as_u64).ok_or(line);
        if row.get("function").and_then(Value::as_str) == Some(function) {
            return Ok((number("calls")?, number("total_ns")?));
        }
    }
    Err(format!("no {function}: {ended:?}"))
}

/// Calls of threads and children have a part of the 50 ms that are between them, also on a machine with other work to do.
fn check(room: &Room, trace: &Path) -> Result<(), String> {
    for function in ["thread_body", "child_body"] {
        let (calls, time) = of(room, trace, function)?;
        if calls < 5 || time / calls > 25_000_000 {
            return Err(format!("{function}: {calls} calls, {time} ns"));
        }
    }
    Ok(())
}

fn trace() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &[HOOKS, &["-pthread"]].concat(), "ended.c")?;
    let trace = room.path("ended.mcount");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["trace", "--output"]).arg(&trace).arg("--").arg(&program).arg("some");
    let ended = room.run("trace", &mut command)?;
    if ended.code != 0 {
        return Err(format!("{ended:?}"));
    }
    check(&room, &trace)
}

fn attach() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &[HOOKS, &["-pthread"]].concat(), "ended.c")?;
    let served = Served::command(&mut Command::new(&program))?;
    let trace = room.path("ended.mcount");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["attach", "--duration", "2s", "--output"]).arg(&trace);
    let ended = room.run("attach", command.arg(served.id().to_string()))?;
    if ended.code != 0 {
        return Err(format!("{ended:?}"));
    }
    check(&room, &trace)
}

/// Nobody tells a sample when threads ended.
fn sample() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &[HOOKS, &["-pthread"]].concat(), "ended.c")?;
    let served = Served::command(&mut Command::new(&program))?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["sample", "--duration", "3s", "--cost", "50%", "--format", "jsonl"]);
    let ended = room.run("sample", command.arg(served.id().to_string()))?;
    for line in ended.stdout.lines() {
        let row: Value = serde_json::from_str(line).map_err(text)?;
        let is_it = row.get("function").and_then(Value::as_str) == Some("thread_body");
        let mean = row.get("mean_ns").and_then(Value::as_f64).ok_or(line)?;
        if is_it && mean > 25e6 {
            return Err(line.to_owned());
        }
    }
    if ended.code == 0 { Ok(()) } else { Err(format!("{ended:?}")) }
}
