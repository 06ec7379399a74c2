//! `--counters`: the program knows how many instructions its functions execute. Where nothing can be counted, `mcount` says so.

use crate::Test;
use crate::attach::text;
use crate::truth::Room;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a test does.
type Check = fn() -> Result<(), String>;

pub(crate) fn tests() -> Vec<Test> {
    let rows: [(&str, &'static str, Check); 6] = [
        ("counters::instructions", "gcc", || {
            instructions("gcc", &["-fpatchable-function-entry=5"])
        }),
        ("counters::prologue", "gcc", || instructions("gcc", &["-pg"])),
        ("counters::clang", "clang", || instructions("clang", &["-fpatchable-function-entry=5"])),
        ("counters::cycles", "gcc", cycles),
        ("counters::threads", "gcc", threads),
        ("counters::refused", "gcc", refused),
    ];
    rows.into_iter().map(test).collect()
}

fn test((name, compiler, run): (&str, &'static str, Check)) -> Test {
    Test { name: name.to_owned(), wants: vec![compiler], open: None, run: Box::new(run) }
}

/// Traces the program; `None` if this machine doesn't count that, which `mcount` has said then.
fn traced(
    room: &Room,
    program: &Path,
    counters: &str,
    more: &[&str],
) -> Result<Option<PathBuf>, String> {
    let trace = room.path("counted.mcount");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["trace", "--counters", counters, "--plain", "--output"]).arg(&trace).args(more);
    let ended = room.run("trace", command.arg("--").arg(program))?;
    let is_refused =
        ended.stderr.starts_with("mcount: --counters ") && ended.stderr.lines().count() == 1;
    match ended.code {
        2 if is_refused && !trace.exists() => Ok(None),
        0 => Ok(Some(trace)),
        _ => Err(format!("{ended:?}")),
    }
}

/// A call.
struct CountedCall {
    function: String,
    end: String,
    thread: u64,
    depth: u64,
    counted: Option<u64>,
}

/// The calls of a trace, process by process, in their order.
fn calls(room: &Room, trace: &Path, of: &str) -> Result<Vec<CountedCall>, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    let ended = room.run("replay", command.args(["replay", "--format", "jsonl"]).arg(trace))?;
    let mut found = Vec::new();
    for line in ended.stdout.lines() {
        let call: Value = serde_json::from_str(line).map_err(text)?;
        let word =
            |name: &str| call.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let counted = call.get("counters").and_then(|all| all.get(of)).and_then(Value::as_u64);
        let number = |name: &str| call.get(name).and_then(Value::as_u64).unwrap_or(0);
        let (thread, depth) = (number("thread"), number("depth"));
        let (function, end) = (word("function"), word("end"));
        found.push(CountedCall { function, end, thread, depth, counted });
    }
    if ended.code == 0 { Ok(found) } else { Err(format!("{ended:?}")) }
}

/// How many turns the calls of `spin` made, in their order.
const SPINS: [u64; 16] =
    [1000, 1_000_000, 1000, 2000, 2000, 500, 500, 500, 500, 1000, 1000, 3000, 6000, 4000, 8000, 7];

/// What lies between the program and the agent's reading of counters, at most: the stub, and the routines that save registers.
const BETWEEN: u64 = 200;

fn instructions(compiler: &str, flags: &[&str]) -> Result<(), String> {
    let room = Room::new()?;
    let flags = [&["-O2", "-pthread"], flags].concat();
    let program = room.compile(compiler, &flags, "counted.c")?;
    let Some(trace) = traced(&room, &program, "instructions", &[])? else { return Ok(()) };
    let calls = calls(&room, &trace, "instructions")?;
    let spins: Vec<&CountedCall> = calls.iter().filter(|call| call.function == "spin").collect();
    let count =
        |call: &CountedCall| call.counted.ok_or_else(|| format!("{} has no count", call.function));
    let first = spins.first().ok_or("no call")?;
    let between = count(first)?.checked_sub(2000).filter(|between| *between < BETWEEN);
    let between = between.ok_or_else(|| format!("spin(1000): {:?}", first.counted))?;
    let turns = SPINS.into_iter().chain(std::iter::repeat_n(7, 19_999));
    if spins.len() != turns.clone().count() {
        return Err(format!("{} calls of spin", spins.len()));
    }
    for (place, (call, turns)) in spins.iter().zip(turns).enumerate() {
        // Another way may lead from the hook to the agent, and a signal may come.
        let counted = count(call)?;
        if counted.abs_diff(2 * turns + between) > BETWEEN || call.end != "return" {
            return Err(format!("call {place}, spin({turns}): {counted} {}", call.end));
        }
    }
    // Most calls went the same way.
    let usual = spins.iter().filter(|call| call.counted == Some(14 + between)).count();
    if usual < 19_000 {
        return Err(format!("only {usual} calls counted {}", 14 + between));
    }
    for (place, call) in calls.iter().enumerate() {
        let inner = calls.get(place + 1..).unwrap_or_default().iter();
        let inner = inner.filter(|inner| inner.thread == call.thread);
        let inner = inner.take_while(|inner| inner.depth > call.depth);
        let inner = inner.filter(|inner| inner.depth == call.depth + 1);
        let within: u64 = inner.filter_map(|inner| inner.counted).sum();
        match call.function.as_str() {
            // What it does itself is a few instructions, and what lies between the program and the agent.
            "twice" | "down" if !(within..within + 3 * BETWEEN).contains(&count(call)?) => {
                return Err(format!("{}: {:?}, within {within}", call.function, call.counted));
            }
            "last" if call.end == "tail-call" && count(call)? > BETWEEN => {
                return Err(format!("last: {:?}", call.counted));
            }
            "leave" if call.end != "unwound" || !(2000..10_000).contains(&count(call)?) => {
                return Err(format!("leave: {:?} {}", call.counted, call.end));
            }
            _ => {}
        }
    }
    sums(&room, &trace, &calls)
}

/// `stats` adds them up.
fn sums(room: &Room, trace: &Path, calls: &[CountedCall]) -> Result<(), String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    let ended = room.run("stats", command.args(["stats", "--format", "jsonl"]).arg(trace))?;
    for line in ended.stdout.lines() {
        let row: Value = serde_json::from_str(line).map_err(text)?;
        let name = row.get("function").and_then(Value::as_str).unwrap_or_default();
        let number = |name: &str| row.get(name).and_then(Value::as_u64);
        let of_function = calls.iter().filter(|call| call.function == name);
        let sum: u64 = of_function.clone().filter_map(|call| call.counted).sum();
        let is_right = match name {
            "spin" => {
                number("instructions") == Some(sum) && number("self_instructions") == Some(sum)
            }
            // The outermost call counts, and the others are within it.
            "down" => {
                number("instructions") == of_function.map(|call| call.counted).next().flatten()
                    && number("self_instructions") < number("instructions")
            }
            "twice" => number("self_instructions") < Some(9 * BETWEEN),
            _ => true,
        };
        if !is_right {
            return Err(format!("{sum}: {line}"));
        }
    }
    Ok(())
}

/// A long call takes more of them than a short one, with arguments besides.
fn cycles() -> Result<(), String> {
    let room = Room::new()?;
    let flags = ["-O2", "-g", "-pthread", "-fpatchable-function-entry=5"];
    let program = room.compile("gcc", &flags, "counted.c")?;
    let options = ["--args", "spin", "--results", "spin"];
    let Some(trace) = traced(&room, &program, "cycles", &options)? else { return Ok(()) };
    let calls = calls(&room, &trace, "cycles")?;
    let spins: Vec<u64> = calls
        .iter()
        .filter(|call| call.function == "spin")
        .filter_map(|call| call.counted)
        .collect();
    let [short, long, ..] = spins[..] else { return Err("too few calls have counts".to_owned()) };
    // A thousand times as long, but the machine may be emulated.
    if long < 20 * short || spins.len() < 20_000 {
        return Err(format!("{short} and {long} of {}", spins.len()));
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    let ended = room.run("replay", command.arg("replay").arg(&trace))?;
    let text = ended.stdout;
    if text.contains("spin(1000)") && text.contains(" cycles */") {
        exported(&room, &trace)
    } else {
        Err(text.lines().take(9).collect())
    }
}

/// Other formats have them, too.
fn exported(room: &Room, trace: &Path) -> Result<(), String> {
    for (format, expected) in [
        ("chrome", "\"counters\":{\"cycles\":"),
        ("perfetto", "cycles"),
        ("jsonl", "\"counters\":{\"cycles\":"),
    ] {
        let file = room.path(format);
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command.args(["replay", "--format", format, "--output"]).arg(&file).arg(trace);
        let ended = room.run("replay", &mut command)?;
        let bytes = testkit::files::read(&file)?;
        if ended.code != 0 || !bytes.windows(expected.len()).any(|some| some == expected.as_bytes())
        {
            return Err(format!("{format}: {ended:?}"));
        }
    }
    Ok(())
}

/// Each thread opens its events, and nothing of them stays: no file, and no more memory than that of a few threads.
fn threads() -> Result<(), String> {
    let room = Room::new()?;
    let flags = ["-O2", "-pthread", "-fpatchable-function-entry=5"];
    let program = room.compile("gcc", &flags, "counted.c")?;
    let alone = room.run("alone", Command::new(&program).arg("threads"))?;
    let trace = room.path("threads.mcount");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["trace", "--counters", "cycles,instructions", "--plain", "--output"]).arg(&trace);
    let ended = room.run("trace", command.arg("--").arg(&program).arg("threads"))?;
    if ended.code == 2 && ended.stderr.starts_with("mcount: --counters ") {
        return Ok(());
    }
    let calls = calls(&room, &trace, "instructions")?;
    let spins: Vec<_> = calls.iter().filter(|call| call.function == "spin").collect();
    let wrong = spins.iter().filter(|call| {
        call.counted
            .is_none_or(|counted| counted.checked_sub(2000).is_none_or(|more| more > BETWEEN))
    });
    let numbers = |text: &str| -> Vec<u64> {
        text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    match (&numbers(&alone.stdout)[..], &numbers(&ended.stdout)[..]) {
        ([files, maps], [traced_files, traced_maps])
            if files == traced_files
                && *traced_maps < maps + 100
                && spins.len() == 400
                && wrong.count() == 0 =>
        {
            Ok(())
        }
        _ => Err(format!("{} calls, {alone:?} {ended:?}", spins.len())),
    }
}

fn refused() -> Result<(), String> {
    let room = Room::new()?;
    let program =
        room.compile("gcc", &["-O2", "-pthread", "-fpatchable-function-entry=5"], "counted.c")?;
    for (counters, more, message) in [
        ("cycles,cycles", &[][..], "cycles is there twice"),
        ("cycels", &[], "no counter \"cycels\""),
        ("r1,r2,r3,r4,r5", &[], "at most 4 counters"),
        ("cycles", &["--entries"], "--counters needs the ends of calls"),
    ] {
        let trace = room.path("refused.mcount");
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command.args(["trace", "--counters", counters, "--output"]).arg(&trace).args(more);
        let ended = room.run("trace", command.arg("--").arg(&program))?;
        if ended.code != 2 || !ended.stderr.contains(message) || trace.exists() {
            return Err(format!("{ended:?}"));
        }
    }
    Ok(())
}
