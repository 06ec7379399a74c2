//! `mcount sample` says who calls a function, and how much of its time is its own.

use crate::Test;
use crate::attach::text;
use crate::sample::{HOOKS, sample, test};
use crate::truth::Room;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;
use testkit::served::Served;

pub(crate) fn tests() -> Vec<Test> {
    [("sample::callers", callers as crate::sample::Check), ("sample::callers-inlined", inlined)]
        .into_iter()
        .map(test)
        .collect()
}

/// Who calls whom in `callers.c`, and how often in a turn.
const CALLED: [(&str, &str, f64); 7] = [
    ("", "turn", 1.0),
    ("turn", "one", 3.0),
    ("turn", "two", 1.0),
    ("one", "leaf", 6.0),
    ("two", "leaf", 4.0),
    ("two", "rare", 1.0),
    ("rare", "rare", 1.0),
];

/// The steps of their own that functions take in a turn.
const STEPS: [(&str, f64); 5] =
    [("turn", 2000.0), ("one", 1500.0), ("two", 1000.0), ("leaf", 1000.0), ("rare", 600.0)];

/// Samples that are longer and longer: where the program seldom has a processor, short ones see few of the times that it waits for one.
const DURATIONS: [&str; 3] = ["3s", "12s", "48s"];

/// The lines of a sample, by function.
fn lines(room: &Room, flags: &[&str], options: &[&str]) -> Result<BTreeMap<String, Value>, String> {
    let program = room.compile("gcc", flags, "callers.c")?;
    let served = Served::command(&mut Command::new(&program))?;
    let options = [&["--cost", "20%", "--format", "jsonl"], options].concat();
    let mut child = sample(room, &options, served.id())?;
    let ended = room.wait("sample", &mut child)?;
    if ended.code != 0 {
        return Err(format!("{ended:?}"));
    }
    let line = |line: &str| {
        let value: Value = serde_json::from_str(line).map_err(text)?;
        let name = value.get("function").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok((name, value))
    };
    ended.stdout.lines().map(line).collect()
}

fn number(value: &Value, name: &str) -> Result<f64, String> {
    value.get(name).and_then(Value::as_f64).ok_or_else(|| format!("no {name}: {value}"))
}

fn callers() -> Result<(), String> {
    let room = Room::new()?;
    let mut told = Vec::new();
    for duration in DURATIONS {
        match are_right(&lines(&room, HOOKS, &["--duration", duration])?) {
            Ok(()) => return Ok(()),
            Err(why) => told.push(why),
        }
    }
    Err(told.join("\n"))
}

/// All are called by whom they are, about as often as they should be, and have about the time of their own that they should have.
fn are_right(found: &BTreeMap<String, Value>) -> Result<(), String> {
    let mut seen = BTreeMap::new();
    let mut times: BTreeMap<&str, f64> = BTreeMap::new();
    for (function, line) in found {
        let all = line.get("callers").and_then(Value::as_array).ok_or("no callers")?;
        for one in all {
            let caller = one.get("function").and_then(Value::as_str).unwrap_or_default();
            seen.insert((caller, function.as_str()), number(one, "calls_per_second")?);
            *times.entry(function).or_default() += number(one, "share")?;
            *times.entry(caller).or_default() -= number(one, "share")?;
        }
    }
    let expected: Vec<_> = CALLED.map(|(caller, function, _)| (caller, function)).to_vec();
    let mut names: Vec<_> = seen.keys().copied().collect();
    names.sort_by_key(|pair| expected.iter().position(|one| one == pair));
    if names != expected {
        return Err(format!("{seen:?}"));
    }
    let all: f64 = seen.values().sum();
    let of_turn: f64 = CALLED.iter().map(|(_, _, calls)| calls).sum();
    for (caller, function, calls) in CALLED {
        let part = seen.get(&(caller, function)).copied().unwrap_or(0.0) / all;
        // Windows that begin in a turn, or have no `leaf`, have others in another proportion.
        if !(0.3..3.0).contains(&(part / (calls / of_turn))) {
            return Err(format!("{caller} calls {function}: {part} of {seen:?}"));
        }
    }
    let own = |function: &str| found.get(function).map(|line| number(line, "self_share"));
    let all: f64 = STEPS.iter().map(|(_, steps)| steps).sum();
    let sum = STEPS.iter().filter_map(|(function, _)| own(function)?.ok()).sum::<f64>();
    for (function, steps) in STEPS {
        let own = own(function).ok_or("no line")??;
        let expected = sum * steps / all;
        // With few windows, a difference says little, as its interval knows.
        let error = found.get(function).and_then(|line| number(line, "self_share_error").ok());
        let is_within = error.is_some_and(|error| (own - expected).abs() < 2.0 * error);
        if !is_within && !(0.3..3.0).contains(&(own / expected)) {
            return Err(format!("{function}: {own} ± {error:?} of {sum}"));
        }
        // What has callees has what these leave.
        let left = times.get(function).copied().unwrap_or(0.0);
        if function != "leaf" && (left - own).abs() > 1e-9 {
            return Err(format!("{function}: {own}, and not {left}: {found:?}"));
        }
    }
    Ok(())
}

/// Functions that tell of their calls themselves may be in the code of others: nobody knows who calls them.
fn inlined() -> Result<(), String> {
    let room = Room::new()?;
    let found =
        lines(&room, &["-O2", "-finstrument-functions"], &["--callers", "--duration", "3s"])?;
    let line = found.get("one").ok_or_else(|| format!("{found:?}"))?;
    if line.get("callers").is_some() || line.get("self_share") != Some(&Value::Null) {
        return Err(line.to_string());
    }
    Ok(())
}
