//! Arguments and results: programs print those of each of their calls, and the trace has to say the same.

use crate::Test;
use crate::attach::{Attached, Waiting};
use crate::truth::Room;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// Compiler, its flags, and the source.
type Build = (&'static str, &'static str, &'static [&'static str], &'static str);

/// What a test does.
type Check = fn() -> Result<(), String>;

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
    // On AArch64, LLVM doesn't tell then of all arguments, so none are recorded.
    #[cfg(not(target_arch = "aarch64"))]
    ("clang-c++-O0", "clang++", &["-O0", "-std=c++17", "-fstandalone-debug"], "values.cpp"),
];

pub(crate) fn tests() -> Vec<Test> {
    let builds = BUILDS.iter().map(|(name, compiler, flags, source)| Test {
        name: format!("values::{name}"),
        wants: vec![*compiler],
        open: None,
        run: Box::new(move || same_values(compiler, flags, source, &[])),
    });
    let others: [(&str, Check); 7] = [
        ("values::entries", entries),
        ("values::attach", attached),
        ("values::behind-the-prologue", behind_the_prologue),
        ("values::no-debug-information", no_debug_information),
        ("values::formats", formats),
        ("values::short-calls", short_calls),
        ("values::as-untraced", as_untraced),
    ];
    let others = others.map(|(name, run)| Test {
        name: name.to_owned(),
        wants: vec!["gcc"],
        open: None,
        run: Box::new(run),
    });
    let rust = RUST.iter().map(|(name, flags, least)| Test {
        name: format!("values::{name}"),
        wants: vec!["rustc"],
        open: None,
        run: Box::new(move || rust(flags, *least)),
    });
    builds.chain(others).chain(rust).collect()
}

/// A program in Rust: each value that is recorded is right.
fn rust(flags: &[&str], least: usize) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("rustc", &[&["-g"], flags].concat(), "values.rs")?;
    let untraced = room.run("untraced", &mut Command::new(&program))?;
    let (calls, said) =
        traced(&room, &program, &["--args", "values::*", "--results", "values::*"])?;
    let told = lines(&untraced.stdout)?;
    let mut count = 0;
    let mut calls = calls.iter().filter_map(|call| {
        let name = call.get("function")?.as_str()?.strip_prefix("values::")?;
        (name != "main").then_some((name, call))
    });
    for told in &told {
        let (name, call) = calls.next().ok_or("too few calls")?;
        let arguments = call.get("arguments").and_then(Value::as_array);
        let mut found: Vec<Value> = arguments.into_iter().flatten().map(value).collect();
        let expected = told.get(1).and_then(Value::as_array).ok_or("no arguments")?;
        let mut expected = expected.clone();
        // With -pg there's none.
        expected.truncate(found.len());
        found.push(call.get("result").map_or(Value::Null, value));
        expected.push(told.get(2).cloned().unwrap_or_default());
        let pairs = found.iter().zip(&expected);
        let is_right = |(found, told): (&Value, &Value)| found.is_null() || found == told;
        let is_whole = arguments.is_none() || found.len() == expected.len();
        if told.get(0) != Some(&json!(name)) || !pairs.clone().all(is_right) || !is_whole {
            return Err(format!("the program: {told}\nthe trace:   {call}\n{said}"));
        }
        count += pairs.filter(|(found, _)| !found.is_null()).count();
    }
    if count >= least && calls.next().is_none() {
        Ok(())
    } else {
        Err(format!("{count} values are recorded: {said}"))
    }
}

/// What rustc takes, which needs a nightly compiler or `RUSTC_BOOTSTRAP`; and how many values there are at least. LLVM leaves
/// results out that nobody uses, and then none can be had.
const RUST: &[(&str, &[&str], usize)] = &[
    ("rust-O", &["-O", "-Zpatchable-function-entry=5"], 40),
    ("rust-O0", &["-Zpatchable-function-entry=5"], 69),
    ("rust-pg", &["-O", "-Zinstrument-mcount"], 0),
];

const HOOKS: &[&str] = &["-O2", "-g", "-fpatchable-function-entry=5"];

/// Of entries alone, arguments.
fn entries() -> Result<(), String> {
    for clock in ["tsc", "none"] {
        let room = Room::new()?;
        let program = room.compile("gcc", HOOKS, "values.c")?;
        let trace = room.path("trace.mcount");
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command
            .args(["trace", "--plain", "--args", "*", "--entries", "--clock", clock, "-o"])
            .arg(&trace);
        let ended = room.run("traced", command.arg("--").arg(&program))?;
        let without_result = |line: &str| {
            let mut one: Value = serde_json::from_str(line).map_err(text)?;
            *one.get_mut(2).ok_or("no result")? = Value::Null;
            Ok::<_, String>(format!("{one}\n"))
        };
        let told: String = ended.stdout.lines().map(without_result).collect::<Result<_, _>>()?;
        compare(&room, &told, &trace, &ended.stderr)?;
    }
    Ok(())
}

/// A program that runs already.
fn attached() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "values.c")?;
    let served = Waiting::start(&room, &program)?;
    let options = ["--args", "*", "--results", "*"];
    let attached = Attached::start(&room, "attached", &options, served.child.id())?;
    let said = served.go_on()?;
    attached.finish()?;
    compare(&room, &said, &room.path("attached/trace.mcount"), "")
}

/// With `-pg` alone only results can be had, and it's said.
fn behind_the_prologue() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", "-g", "-pg"], "values.c")?;
    let (calls, said) = traced(&room, &program, &["--args", "*", "--results", "*"])?;
    let has = |key: &str| calls.iter().filter(|call| call.get(key).is_some()).count();
    let sizes = calls.iter().find(|call| call.get("function") == Some(&json!("sizes")));
    let result = sizes.and_then(|call| call.pointer("/result/value"));
    if has("arguments") == 0
        && result == Some(&json!(1_999_999_999))
        && said.contains("compile with -mfentry")
    {
        Ok(())
    } else {
        Err(format!("{} arguments, {result:?}: {said}", has("arguments")))
    }
}

/// It's said what to compile with, once.
fn no_debug_information() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", "-fpatchable-function-entry=5"], "values.c")?;
    let (calls, said) = traced(&room, &program, &["--args", "*", "--results", "nobody"])?;
    let has = calls.iter().any(|call| call.get("arguments").is_some());
    let is_said =
        said.matches("no debug information, so no arguments and results: compile with -g");
    let is_unknown = said.contains("no function matches nobody");
    if is_said.count() == 1 && !has && is_unknown && !calls.is_empty() {
        Ok(())
    } else {
        Err(format!("{has} {said}"))
    }
}

/// Calls that are too short leave nothing behind, their arguments neither; longer ones do.
fn short_calls() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "values.c")?;
    let records = |options: &[&str]| -> Result<usize, String> {
        traced(&room, &program, &[&["--args", "*", "--results", "*"], options].concat())?;
        let bytes = testkit::files::read(&room.path("trace.mcount"))?;
        // Special records of kind 6: arguments.
        let is_one = |record: &&[u8]| record.get(..4) == Some(&[0, 0, 0, 6]);
        Ok(bytes.chunks_exact(16).filter(is_one).count())
    };
    let (all, long) = (records(&[])?, records(&["--min-duration", "1h"])?);
    // What had not ended when the trace did isn't known to be short.
    if all > 30 && long <= 1 {
        Ok(())
    } else {
        Err(format!("{all} of all calls, {long} of long ones"))
    }
}

/// Programs that leave calls in all possible ways, and in threads and processes, don't notice.
fn as_untraced() -> Result<(), String> {
    let sources = ["unwind.cpp", "threads.c", "jumps.c", "signals.c"];
    let compiled = sources.map(|source| {
        let room = Room::new()?;
        let compiler = if source.ends_with("cpp") { "g++" } else { "gcc" };
        let program = room.compile(compiler, HOOKS, source)?;
        Ok::<_, String>((source, room, program))
    });
    for one in compiled {
        let (source, room, program) = one?;
        let untraced = room.run("untraced", &mut Command::new(&program))?;
        let trace = room.path("trace.mcount");
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command.args(["trace", "--plain", "--args", "*", "--results", "*", "-o"]).arg(&trace);
        let ended = room.run("traced", command.arg("--").arg(&program))?;
        if (ended.code, &ended.stdout) != (untraced.code, &untraced.stdout) {
            return Err(format!("{source}: {ended:?} instead of {untraced:?}"));
        }
        let calls = replay(&room, &trace)?;
        if !calls.iter().any(|call| call.get("arguments").is_some()) {
            return Err(format!("{source}: no arguments in {} calls", calls.len()));
        }
    }
    Ok(())
}

/// Other formats have them, too.
fn formats() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "values.c")?;
    let options = ["--args", "text", "--results", "text", "--filter", "text", "--filter", "main"];
    traced(&room, &program, &options)?;
    let trace = room.path("trace.mcount");
    let rows = [
        ("text", "text(\"hello\", \"world\") = \"world\";"),
        ("chrome", "\"arguments\":[{\"name\":\"a\",\"value\":\"hello\",\"address\":\"0x"),
        ("perfetto", "\"hello\""),
    ];
    for (format, expected) in rows {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command.args(["replay", "--format", format]).arg(&trace).current_dir(room.path(""));
        let printed = command.output().map_err(text)?;
        let printed = String::from_utf8_lossy(&printed.stdout);
        if printed.matches(expected).count() != 1 {
            return Err(format!("{format}: {printed}"));
        }
    }
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn text<E: ToString>(error: E) -> String {
    error.to_string()
}

/// The calls of a program that is traced with these options, and what `mcount` says.
fn traced(room: &Room, program: &Path, options: &[&str]) -> Result<(Vec<Value>, String), String> {
    let trace = room.path("trace.mcount");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["trace", "--plain"]).args(options).arg("-o").arg(&trace).arg("--").arg(program);
    let ended = room.run("traced", &mut command)?;
    Ok((replay(room, &trace)?, ended.stderr))
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
    command.args(["trace", "--plain", "--args", "*", "--results", "*"]).args(options);
    let ended = room.run("traced", command.arg("-o").arg(&trace).arg("--").arg(&program))?;
    if ended.code != 0 {
        return Err(format!("{ended:?}"));
    }
    compare(&room, &ended.stdout, &trace, &ended.stderr)
}

/// The calls that a program tells of are in a trace as it tells of them.
fn compare(room: &Room, told: &str, trace: &Path, said: &str) -> Result<(), String> {
    let mut told: Vec<Value> = lines(told)?;
    let calls = replay(room, trace)?;
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
            return Err(format!("the program: {told}\nthe trace:   {found}\n{said}"));
        }
    }
    if told.len() == found.len() && !told.is_empty() {
        Ok(())
    } else {
        Err(format!("{} calls, {} in the trace: {said}", told.len(), found.len()))
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
fn replay(room: &Room, trace: &Path) -> Result<Vec<Value>, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    let ended = room.run("replay", command.args(["replay", "--format", "jsonl"]).arg(trace))?;
    let line = |line| serde_json::from_str(line).map_err(|error| format!("{line}: {error}"));
    ended.stdout.lines().map(line).collect()
}
