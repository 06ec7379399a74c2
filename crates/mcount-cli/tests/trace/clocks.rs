//! Times by the system's clock: a program says between which moments it calls a function, and each format has these calls there.

use crate::Test;
use crate::truth::Room;
use serde_json::Value;
use std::process::Command;

/// What a test does.
type Check = fn() -> Result<(), String>;

pub(crate) fn tests() -> Vec<Test> {
    let rows: [(&str, Check); 2] = [("clocks::monotonic", monotonic), ("clocks::unknown", unknown)];
    let test = |(name, run): (&str, Check)| Test {
        name: name.to_owned(),
        wants: vec!["gcc"],
        open: None,
        run: Box::new(run),
    };
    rows.map(test).into()
}

/// When `timed` was called, in nanoseconds, as a line of a format has it.
type Time = fn(&str) -> Option<f64>;

fn member(line: &str, name: &str, key: &str, time: &str) -> Option<Value> {
    let line = line.trim_end_matches(',');
    let call: Value = serde_json::from_str(line).ok()?;
    call.get(key).filter(|function| *function == name)?;
    call.get(time).cloned()
}

const FORMATS: [(&[&str], Time); 4] = [
    (&["--format", "jsonl"], |line| member(line, "timed", "function", "start_ns")?.as_f64()),
    (&["--format", "chrome"], |line| Some(member(line, "timed", "name", "ts")?.as_f64()? * 1000.0)),
    (&["--format", "csv"], |line| {
        let columns: Vec<&str> = line.split(',').collect();
        columns.get(7).filter(|_| columns.get(3) == Some(&"timed"))?.parse().ok()
    }),
    (&["--fields", "elapsed"], |line| {
        let (time, _) = line.split_once("|   timed(")?;
        time.trim().parse::<f64>().ok().map(|seconds| seconds * 1e9)
    }),
];

fn traced(room: &Room, options: &[&str]) -> Result<String, String> {
    let program = room.compile("gcc", &["-O2", "-fpatchable-function-entry=5"], "clock.c")?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["trace", "--plain", "-o"]).arg(room.path("trace.mcount")).args(options);
    Ok(room.run("traced", command.arg("--").arg(&program))?.stdout)
}

fn monotonic() -> Result<(), String> {
    let room = Room::new()?;
    let told = traced(&room, &[])?;
    for (options, time) in FORMATS {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command.args(["replay", "--clock", "monotonic"]).args(options);
        let printed = room.run("replay", command.arg(room.path("trace.mcount")))?.stdout;
        let times: Vec<f64> = printed.lines().filter_map(time).collect();
        if times.len() != 20 {
            return Err(format!("{options:?}: {} calls: {printed}", times.len()));
        }
        for (line, time) in told.lines().zip(times) {
            let ends: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
            let [before, after] = ends.as_slice() else { return Err(line.to_owned()) };
            if !(*before..*after).contains(&time) {
                return Err(format!("{options:?}: {time} isn't between {before} and {after}"));
            }
        }
    }
    Ok(())
}

/// Without a clock there's none.
fn unknown() -> Result<(), String> {
    let room = Room::new()?;
    traced(&room, &["--clock", "none"])?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["replay", "--clock", "monotonic"]).arg(room.path("trace.mcount"));
    let ended = room.run("replay", &mut command)?;
    if ended.code == 2 && ended.stderr.contains("the trace has no time of CLOCK_MONOTONIC") {
        Ok(())
    } else {
        Err(format!("{ended:?}"))
    }
}
