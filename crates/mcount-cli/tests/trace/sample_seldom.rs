//! `mcount sample` has functions armed all the time that nobody calls. Is it right about them when somebody does?

use crate::Test;
use crate::attach::text;
use crate::sample::{Check, has_begun, row, sample, test};
use crate::truth::Room;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;
use testkit::sample::one_in;
use testkit::served::Served;

pub(crate) fn tests() -> Vec<Test> {
    const SLOW: &[&str] = &["--slow", "1s"];
    let rows: [(&str, Check); 5] = [
        ("sample::seldom", || near_the_truth(&[], &[])),
        ("sample::seldom-slow", || near_the_truth(&[], SLOW)),
        ("sample::wakes", || near_the_truth(&["idle"], &[])),
        ("sample::wakes-slow", || near_the_truth(&["idle"], SLOW)),
        ("sample::wakes-cheaply", wakes_cheaply),
    ];
    let mut tests = one_in(5, rows.into_iter().map(test).collect());
    tests.push(test(("sample::nothing", nothing)));
    tests
}

/// The program waits, and calls nothing. A table without rows would tell nobody why.
fn nothing() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", "-fpatchable-function-entry=5"], "seldom.c")?;
    let served = Served::command(Command::new(&program).arg("idle"))?;
    let options = ["--filter", "function_*", "--cost", "20%", "--duration", "1s"];
    let mut child = sample(&room, &options, served.id())?;
    let ended = room.wait("sample", &mut child)?;
    let note = ended.stdout.lines().last().unwrap_or_default();
    let is_said = note.starts_with("no call of these functions began in ")
        && note.ends_with(" of a CPU: sample for longer, or with a higher --cost");
    if ended.code == 0 && is_said { Ok(()) } else { Err(format!("{ended:?}")) }
}

/// Seconds, and calls of `steady`, `late` and all others.
fn ask(served: &mut Served, what: &str) -> Result<[f64; 4], String> {
    served.tell(what)?;
    let line = served.line()?;
    let words: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    words.try_into().map_err(|_| format!("wrong: {line:?}"))
}

/// The first functions are called when a third of the time is over. In 6 s, estimates with --slow had a spread of 0.3 of the truth beside
/// another load, half of what a check allows.
fn near_the_truth(arguments: &[&str], options: &[&str]) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", "-fpatchable-function-entry=5"], "seldom.c")?;
    let mut served = Served::command(Command::new(&program).args(arguments))?;
    let fixed = ["--cost", "10%", "--duration", "12s", "--seed", "7", "--format", "jsonl"];
    let mut child = sample(&room, &[&fixed, options].concat(), served.id())?;
    has_begun(&room)?;
    let before = ask(&mut served, "count")?;
    std::thread::sleep(Duration::from_secs(4));
    ask(&mut served, "begin")?;
    let ended = room.wait("sample", &mut child)?;
    let after = ask(&mut served, "count")?;
    if ended.code != 0 {
        return Err(format!("{ended:?}"));
    }
    let passed: Vec<f64> =
        before.iter().zip(&after).map(|(before, after)| after - before).collect();
    let [time, counts @ ..] = passed.as_slice() else { return Err("no time".to_owned()) };
    let truth = |at: usize| counts.get(at).map_or(0.0, |calls| calls / time * 1e9);
    let of_others = estimates(&ended.stdout, |name| name.starts_with("function_"))?;
    for (name, at) in [("steady", 0), ("late", 1)] {
        let row = row(&ended.stdout, name)?;
        let number = |name: &str| row.get(name).and_then(Value::as_f64);
        let found = number("calls_per_second").ok_or("no estimate")?;
        let Some(error) = number("calls_per_second_error") else { continue };
        is_near((name, found), truth(at), 0.3 * truth(at) + 2.0 * error)?;
    }
    // Each of them is called seldom, and if they have been for eight seconds only, they've had few windows.
    let part = if arguments.is_empty() { 0.6 } else { 1.0 };
    is_near(("others", of_others), truth(2), part * truth(2))
}

/// It hasn't cost much more than it may when a program begins to call all of its functions, and no call was lost.
fn wakes_cheaply() -> Result<(), String> {
    /// Percent that it costs at most, where 2 are wanted.
    const MOST: f64 = 5.0;
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", "-fpatchable-function-entry=5"], "seldom.c")?;
    let mut served = Served::command(Command::new(&program).arg("idle"))?;
    let mut child = sample(&room, &["--cost", "2%", "--duration", "6s"], served.id())?;
    has_begun(&room)?;
    std::thread::sleep(Duration::from_secs(2));
    ask(&mut served, "begin")?;
    let ended = room.wait("sample", &mut child)?;
    // "… cost: 0.31 % in the program, 1.63 % of a CPU in mcount"
    let cost = ended.stdout.split_once("cost: ").map_or("", |parts| parts.1);
    let numbers = cost.lines().next().unwrap_or_default().split(' ').map(str::parse::<f64>);
    let parts: Vec<f64> = numbers.filter_map(Result::ok).collect();
    let is_cheap = parts.len() == 2 && parts.iter().sum::<f64>() <= MOST;
    let is_right = ended.code == 0 && is_cheap && !ended.stdout.contains("not counted");
    is_right.then_some(()).ok_or_else(|| {
        let said = [ended.stdout.lines().next(), ended.stdout.lines().last()];
        format!("{parts:?}: {} {said:?}, {}", ended.code, ended.stderr)
    })
}

fn is_near((name, found): (&str, f64), truth: f64, most: f64) -> Result<(), String> {
    let is_right = (found - truth).abs() <= most;
    is_right.then_some(()).ok_or_else(|| format!("{name}: {found} instead of {truth} ± {most}"))
}

/// Calls in a second of all functions whose names `is_one` knows.
fn estimates(lines: &str, is_one: impl Fn(&str) -> bool) -> Result<f64, String> {
    let rows = lines.lines().map(|line| serde_json::from_str(line).map_err(text));
    let rows: Vec<Value> = rows.collect::<Result<_, String>>()?;
    let name = |row: &Value| row.get("function").and_then(Value::as_str).map(str::to_owned);
    let ones = rows.iter().filter(|row| name(row).is_some_and(|name| is_one(&name)));
    Ok(ones.filter_map(|row| row.get("calls_per_second")?.as_f64()).sum())
}
