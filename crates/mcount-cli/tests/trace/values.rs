//! Arguments and results: programs print those of each of their calls, and the trace has to say the same.

use crate::Test;
use crate::attach::{Attached, Waiting};
use crate::truth::Room;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use testkit::damage::{Random, damaged};
use testkit::sample::one_in;

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

/// Those of programs that pass pointers to something.
const FOLLOWED: &[Build] = &[
    ("gcc-O2", "gcc", &["-O2"], "follow.c"),
    ("gcc-O0-dwarf4", "gcc", &["-O0", "-gdwarf-4"], "follow.c"),
    ("clang-O2", "clang", &["-O2"], "follow.c"),
    ("clang-O0-dwarf4", "clang", &["-O0", "-gdwarf-4"], "follow.c"),
    ("gcc-c++", "g++", &["-O2", "-std=c++17"], "follow.cpp"),
    ("gcc-c++-O0-dwarf4", "g++", &["-O0", "-gdwarf-4", "-std=c++17"], "follow.cpp"),
    ("clang-c++", "clang++", &["-O2", "-std=c++17", "-fstandalone-debug"], "follow.cpp"),
    // On AArch64, LLVM doesn't tell then of all arguments, so none are recorded.
    #[cfg(not(target_arch = "aarch64"))]
    ("clang-c++-O0", "clang++", &["-O0", "-std=c++17", "-fstandalone-debug"], "follow.cpp"),
];

pub(crate) fn tests() -> Vec<Test> {
    let test = |group, (name, compiler, flags, source): &'static Build, options| Test {
        name: format!("values::{group}{name}"),
        wants: vec![*compiler],
        open: None,
        run: Box::new(move || same_values(compiler, flags, source, options)),
    };
    let builds = BUILDS.iter().map(|build| test("", build, &["--args-depth", "0"]));
    let followed = FOLLOWED.iter().map(|build| test("follow-", build, &["--args-depth", "2"]));
    let builds = builds.chain(one_in(4, followed.collect()));
    let others: [(&str, Check); 11] = [
        ("values::entries", entries),
        ("values::attach", attached),
        ("values::behind-the-prologue", behind_the_prologue),
        ("values::no-debug-information", no_debug_information),
        ("values::poor-debug-information", poor_debug_information),
        ("values::formats", formats),
        ("values::short-calls", short_calls),
        ("values::as-untraced", as_untraced),
        ("values::follow-formats", followed_formats),
        ("values::follow-hostile", hostile),
        ("values::follow-damaged", damaged_types),
    ];
    let others = others.map(|(name, run)| Test {
        name: name.to_owned(),
        wants: vec!["gcc"],
        open: None,
        run: Box::new(run),
    });
    let rust = RUST.iter().map(|(name, flags, source, least)| Test {
        name: format!("values::{name}"),
        wants: vec!["rustc"],
        open: None,
        run: Box::new(move || rust(flags, source, *least)),
    });
    let cyclic = Test {
        name: "values::follow-cyclic".to_owned(),
        wants: vec!["gcc"],
        open: None,
        run: Box::new(cyclic),
    };
    // It's in the assembly of this processor.
    let cyclic = cfg!(target_arch = "x86_64").then_some(cyclic);
    builds.chain(others).chain(rust).chain(cyclic).collect()
}

/// A program in Rust: each value that is recorded is right.
fn rust(flags: &[&str], source: &str, least: usize) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("rustc", &[&["-g"], flags].concat(), source)?;
    let untraced = room.run("untraced", &mut Command::new(&program))?;
    let pattern = format!("{}::*", source.trim_end_matches(".rs"));
    let options =
        ["--args", &pattern, "--results", &pattern, "--args-size", "128", "--args-depth", "2"];
    let (calls, said) = traced(&room, &program, &options)?;
    let told = lines(&untraced.stdout)?;
    let mut count = 0;
    let mut calls = calls.iter().filter_map(|call| {
        let name = call.get("function")?.as_str()?.strip_prefix(&pattern[..pattern.len() - 1])?;
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
const RUST: &[(&str, &[&str], &str, usize)] = &[
    ("rust-O", &["-O", "-Zpatchable-function-entry=5"], "values.rs", 40),
    ("rust-O0", &["-Zpatchable-function-entry=5"], "values.rs", 69),
    ("rust-pg", &["-O", "-Zinstrument-mcount"], "values.rs", 0),
    ("follow-rust-O", &["-O", "-Zpatchable-function-entry=5"], "follow.rs", 7),
    ("follow-rust-O0", &["-Zpatchable-function-entry=5"], "follow.rs", 24),
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
            .args(["trace", "--plain", "--args", "*", "--args-depth", "0"])
            .args(["--entries", "--clock", clock, "-o"])
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
    let options = ["--args", "*", "--results", "*", "--args-depth", "0"];
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

/// Debug information without what is needed: it's said why, once.
fn poor_debug_information() -> Result<(), String> {
    let rows = [
        ("-gsplit-dwarf", "its debug information is in .dwo files, which mcount doesn't read"),
        ("-g1", "its debug information has no parameters and results (-g1): compile with -g"),
    ];
    for (flag, expected) in rows {
        for version in ["-gdwarf-4", "-gdwarf-5"] {
            let room = Room::new()?;
            let flags = ["-O2", version, flag, "-fpatchable-function-entry=5"];
            let program = room.compile("gcc", &flags, "values.c")?;
            let (calls, said) = traced(&room, &program, &["--args", "*", "--results", "*"])?;
            let has = calls.iter().any(|call| call.get("arguments").is_some());
            let is_wrong = said.contains("no debug information");
            if said.matches(expected).count() != 1 || has || is_wrong || calls.is_empty() {
                return Err(format!("{flag} {version}: {has} {said}"));
            }
        }
    }
    Ok(())
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

/// What pointers lead to is in all formats, and conditions of readers see it.
fn followed_formats() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "follow.c")?;
    let rows = [
        ("1", "points(&{x=3, y=-4}, NULL) = &{x=3, y=-4};"),
        ("1", "edge(0x"),
        ("1", "large(&{head=1, numbers=[2, 3, 4, 5, 6, 7, 8, ... 93 more], ...}) = 10;"),
        ("2", "list(&{value=10, next=&{value=20, next=0x"),
        ("0", "large(0x"),
    ];
    for (depth, expected) in rows {
        let options = ["--args", "*", "--results", "*", "--args-depth", depth];
        traced(&room, &program, &options)?;
        let printed = shown(&room, &["replay"])?;
        if printed.matches(expected).count() != 1 || !printed.contains("bad(0x1") {
            return Err(format!("{depth}: no {expected}: {printed}"));
        }
    }
    traced(&room, &program, &["--args", "*", "--results", "*"])?;
    let rows: [(&[&str], &str); 6] = [
        (&["replay", "--format", "chrome"], "\"value\":{\"x\":3,\"y\":-4},\"address\":\"0x"),
        (&["replay", "--format", "perfetto"], "&{x=3, y=-4}"),
        (&["replay", "--format", "jsonl"], "[2,3,4,5,6,7,8],\"...\":null},\"address\""),
        (&["replay", "--if", "p->x == 14", "--fields", "none"], "points(&{x=14, y=15}, NULL)"),
        (
            &["replay", "--if", "u.tag == \"tagged!\""],
            "user(&{id=7, name=\"seven\", tag=\"tagged!\"",
        ),
        (&["stats", "--if", "u->id == 7 && after == 9"], "user"),
    ];
    for (command, expected) in rows {
        let printed = shown(&room, command)?;
        if !printed.contains(expected) {
            return Err(format!("{command:?}: no {expected}: {printed}"));
        }
    }
    let others = shown(&room, &["replay", "--if", "p->x == 14", "--function", "points"])?;
    if others.contains("x=3") { Err(others) } else { Ok(()) }
}

/// What a command prints of the trace.
fn shown(room: &Room, command: &[&str]) -> Result<String, String> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_mcount"));
    program.args(command).arg(room.path("trace.mcount")).current_dir(room.path(""));
    let printed = program.output().map_err(text)?;
    Ok(String::from_utf8_lossy(&printed.stdout).into_owned())
}

/// A program whose pointers lead nowhere, or to what other threads take away, ends as it does untraced.
fn hostile() -> Result<(), String> {
    const FLAGS: &[&str] = &["-O1", "-g", "-std=c++17", "-pthread", "-fpatchable-function-entry=5"];
    let room = Room::new()?;
    let program = room.compile("g++", FLAGS, "follow-hostile.cpp")?;
    let untraced = room.run("untraced", &mut Command::new(&program))?;
    for options in [&["--args-depth", "4", "--args-size", "255"][..], &["--entries"]] {
        let options =
            [&["--args", "*", "--filter", "deep", "--filter", "lists"][..], options].concat();
        let options = [&options[..], &["--filter", "trees", "--filter", "others"]].concat();
        let trace = room.path("trace.mcount");
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command.args(["trace", "--plain"]).args(&options).arg("-o").arg(&trace).arg("--");
        let ended = room.run("traced", command.arg(&program))?;
        if (ended.code, &ended.stdout) != (untraced.code, &untraced.stdout) {
            return Err(format!("{ended:?} instead of {untraced:?}"));
        }
        let calls = replay(&room, &trace)?;
        let has = |what: &str| calls.iter().any(|call| call.to_string().contains(what));
        let missing = ["\"unreadable\":true", "\"cut\":true", "\"left\":"].map(has);
        if calls.len().to_string() != untraced.stdout.trim() || missing.contains(&false) {
            return Err(format!("{} calls, {missing:?}: {}", calls.len(), ended.stderr));
        }
    }
    Ok(())
}

/// Types that lead to themselves, and fields and arrays that are larger than memory.
fn cyclic() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &[], "cyclic.s")?;
    for (depth, expected) in [("0", "f(0x"), ("1", "f(&0x"), ("4", "f(&&&&0x")] {
        traced(&room, &program, &["--args", "f", "--args-depth", depth, "--args-size", "255"])?;
        let printed = shown(&room, &["replay"])?;
        if !printed.contains(expected) {
            return Err(format!("{depth}: no {expected}: {printed}"));
        }
    }
    Ok(())
}

/// Damaged debug information, with types that contain themselves and fields outside of them: the program ends as it does untraced, and what was
/// recorded can be printed.
fn damaged_types() -> Result<(), String> {
    const SECTIONS: [&str; 4] = [".debug_info", ".debug_info", ".debug_abbrev", ".debug_str"];
    const ROUNDS: usize = 24;
    let room = Room::new()?;
    let program = room.compile("gcc", &[HOOKS, &["-gdwarf-4", "-no-pie"]].concat(), "follow.c")?;
    let whole = testkit::files::read(&program)?;
    let copy = room.path("damaged");
    let mut random = Random::new();
    let mut followed = 0;
    for round in 0..ROUNDS {
        let section = SECTIONS.get(round % SECTIONS.len()).copied().unwrap_or_default();
        let bytes = damaged(&whole, section, &mut random).ok_or("no such section")?;
        testkit::files::write_program(&copy, &bytes)?;
        let untraced = room.run("untraced", &mut Command::new(&copy))?;
        let trace = room.path("trace.mcount");
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command.args(["trace", "--plain", "--args", "*", "--results", "*", "--args-depth", "4"]);
        let ended = room.run("traced", command.arg("-o").arg(&trace).arg("--").arg(&copy))?;
        let lines = |text: &str| text.lines().count();
        if ended.code != untraced.code || lines(&ended.stdout) != lines(&untraced.stdout) {
            return Err(format!("{section}, round {round}: {ended:?} instead of {untraced:?}"));
        }
        let calls = replay(&room, &trace)?;
        followed += usize::from(calls.iter().any(|call| call.to_string().contains("\"x\":")));
    }
    // Else nothing was tried.
    if followed > ROUNDS / 4 { Ok(()) } else { Err(format!("{followed} of {ROUNDS}")) }
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
