//! Arguments and results: programs print those of each of their calls, and the trace has to say the same.

use crate::Test;
use crate::truth::Room;
use serde_json::{Value, json};
use std::process::Command;

/// Compiler, its flags, and the source.
type Build = (&'static str, &'static str, &'static [&'static str], &'static str);

const BUILDS: &[Build] = &[
    ("gcc-O2", "gcc", &["-O2"], "values.c"),
    ("gcc-O0", "gcc", &["-O0"], "values.c"),
    ("gcc-fentry", "gcc", &["-O2", "-pg", "-mfentry", "-fno-pie", "-no-pie"], "values.c"),
    ("gcc-dwarf4", "gcc", &["-O1", "-gdwarf-4"], "values.c"),
    ("gcc-static", "gcc", &["-O2", "-static"], "values.c"),
    ("clang-O2", "clang", &["-O2"], "values.c"),
    ("clang-O0", "clang", &["-O0"], "values.c"),
    ("clang-unpassed", "clang", &["-O2"], "unpassed.c"),
    ("gcc-c++", "g++", &["-O2"], "values.cpp"),
    ("gcc-c++-O0", "g++", &["-O0", "-gdwarf-4"], "values.cpp"),
    ("clang-c++", "clang++", &["-O1", "-std=c++17"], "values.cpp"),
    ("clang-c++-O0", "clang++", &["-O0", "-std=c++17", "-fstandalone-debug"], "values.cpp"),
];

pub(crate) fn tests() -> Vec<Test> {
    let builds = BUILDS.iter().map(|(name, compiler, flags, source)| Test {
        name: format!("values::{name}"),
        wants: vec![*compiler],
        open: None,
        run: Box::new(move || same_values(compiler, flags, source, &[])),
    });
    builds.collect()
}

/// The calls of the program that it tells of, as it tells of them, are those of the trace.
fn same_values(
    compiler: &str,
    flags: &[&str],
    source: &str,
    options: &[&str],
) -> Result<(), String> {
    let room = Room::new()?;
    let hooks = ["-g", "-fpatchable-function-entry=5"];
    let hooks = if flags.contains(&"-pg") { &hooks[..1] } else { &hooks };
    let program = room.compile(compiler, &[hooks, flags].concat(), source)?;
    let trace = room.path("trace.mcount");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["trace", "--args", "*", "--results", "*"]).args(options);
    let ended = room.run("traced", command.arg("-o").arg(&trace).arg("--").arg(&program))?;
    if ended.code != 0 {
        return Err(format!("{ended:?}"));
    }
    let mut told: Vec<Value> = lines(&ended.stdout)?;
    let calls = replay(&room, &trace)?;
    let mut found = Vec::new();
    for call in &calls {
        let name = call.get("function").and_then(Value::as_str).unwrap_or_default();
        let name = name.split(['(', '<']).next().unwrap_or_default();
        let name = name.rsplit([':', ' ']).next().unwrap_or_default();
        if told.iter().any(|one| one.get(0).and_then(Value::as_str) == Some(name)) {
            let arguments = call.get("arguments").and_then(Value::as_array);
            let arguments: Vec<_> = arguments.into_iter().flatten().map(value).collect();
            found.push(json!([name, arguments, call.get("result").map_or(Value::Null, value)]));
        }
    }
    // The program tells of a call when it returns; the trace has them in the order of starts.
    let key = |one: &Value| one.to_string();
    told.sort_by_key(key);
    found.sort_by_key(key);
    for (told, found) in told.iter().zip(&found) {
        if told != found {
            return Err(format!("the program: {told}\nthe trace:   {found}\n{}", ended.stderr));
        }
    }
    if told.len() == found.len() && !told.is_empty() {
        Ok(())
    } else {
        Err(format!("{} calls, {} in the trace: {}", told.len(), found.len(), ended.stderr))
    }
}

/// A value, its numbers as `f64` if they have a point.
fn value(one: &Value) -> Value {
    plain(one.get("value").unwrap_or(&Value::Null))
}

/// Whole numbers are the same with a point and without.
fn plain(one: &Value) -> Value {
    match one {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|value| value.fract() == 0.0 && value.abs() < 1e15);
            #[expect(clippy::cast_possible_truncation, reason = "it's whole and not large")]
            whole.map_or_else(|| one.clone(), |value| json!(value as i64))
        }
        Value::Array(all) => all.iter().map(plain).collect(),
        Value::Object(all) => {
            Value::Object(all.iter().map(|(key, one)| (key.clone(), plain(one))).collect())
        }
        _ => one.clone(),
    }
}

fn lines(text: &str) -> Result<Vec<Value>, String> {
    let line = |line| serde_json::from_str(line).map_err(|error| format!("{line}: {error}"));
    text.lines().map(line).map(|one| one.map(|one| plain(&one))).collect()
}

/// The calls of a trace, as `mcount replay --format jsonl` has them.
fn replay(room: &Room, trace: &std::path::Path) -> Result<Vec<Value>, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    let ended = room.run("replay", command.args(["replay", "--format", "jsonl"]).arg(trace))?;
    let line = |line| serde_json::from_str(line).map_err(|error| format!("{line}: {error}"));
    ended.stdout.lines().map(line).collect()
}
