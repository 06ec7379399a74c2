//! Markers of `<sys/sdt.h>` (`--mark`): `declared.c` prints of each that it passes what a trace has to say, with the values of its arguments.
//! A marker that breaks a register, a flag or the stack changes what it prints.

use crate::Test;
use crate::attach::{Attached, Waiting, text};
use crate::truth::Room;
use object::{Object, ObjectSection, ObjectSymbol};
use std::path::Path;
use std::process::Command;

/// What a test does.
type Check = fn() -> Result<(), String>;

/// Compiler and flags.
type Build = (&'static str, &'static str, &'static [&'static str]);

const BUILDS: &[Build] = &[
    ("gcc", "gcc", &["-O2"]),
    ("gcc-O0", "gcc", &["-O0"]),
    ("gcc-no-pie", "gcc", &["-O2", "-no-pie"]),
    ("gcc-static", "gcc", &["-O2", "-static"]),
    ("gcc-hooks", "gcc", &["-O2", "-fpatchable-function-entry=5"]),
    ("clang", "clang", &["-O2"]),
];

const OPTIONS: &[(&str, &[&str])] = &[
    ("entries", &["--entries"]),
    ("no-clock", &["--clock", "none"]),
    ("ring", &["--ring", "1M"]),
    ("min-duration", &["--min-duration", "1h"]),
    ("depth", &["--depth", "1"]),
    ("not-under", &["--not-under", "main"]),
    // A function whose marker is at its very beginning has one or the other.
    ("probe", &["--probe", "*@declared", "--exclude", "twice,exact,calls"]),
];

/// What is asked for.
const MARKS: &[&str] = &["--mark", "app:*", "--args", "app:said(s, s)"];

pub(crate) fn tests() -> Vec<Test> {
    if !cfg!(target_arch = "x86_64") {
        return Vec::new();
    }
    let builds = BUILDS.iter().map(|(name, compiler, flags)| Test {
        name: format!("declared::{name}"),
        wants: vec![*compiler],
        open: None,
        run: Box::new(move || traced(compiler, flags, &[])),
    });
    let options = OPTIONS.iter().map(|(name, options)| Test {
        name: format!("declared::{name}"),
        wants: vec!["gcc"],
        open: None,
        run: Box::new(move || traced("gcc", &["-O2"], options)),
    });
    let others: [(&str, Check); 7] = [
        ("attach", attached),
        ("refused", refused),
        ("formats", formats),
        ("nothing", nothing),
        ("no-semaphore", no_semaphore),
        ("throw", throw),
        ("rethrow", rethrow),
    ];
    let others = others.map(|(name, run)| Test {
        name: format!("declared::{name}"),
        wants: vec!["gcc", "g++"],
        open: None,
        run: Box::new(run),
    });
    builds.chain(options).chain(others).collect()
}

fn mcount(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    for word in words {
        // Several patterns of one option.
        let all: Vec<&str> =
            if word.contains("(s, s)") { vec![word] } else { word.split(',').collect() };
        for (at, one) in all.iter().enumerate() {
            if at > 0 {
                command.arg("--exclude");
            }
            command.arg(one);
        }
    }
    command
}

fn traced(compiler: &str, flags: &[&str], options: &[&str]) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile(compiler, flags, "declared.c")?;
    let untraced = room.run("untraced", &mut Command::new(&program))?;
    let trace = room.path("trace.mcount");
    let mut command = mcount(&[&["trace", "--plain"], MARKS, options].concat());
    let ended = room.run("traced", command.arg("-o").arg(&trace).arg("--").arg(&program))?;
    let without = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with("app:guarded")).map(str::to_owned).collect()
    };
    if without(&ended.stdout) != without(&untraced.stdout) || ended.code != untraced.code {
        return Err(format!("{ended:?} instead of {untraced:?}"));
    }
    // The tracer counts its semaphore up, so the guarded one is passed, too.
    if untraced.stdout.contains("guarded") || !ended.stdout.contains("app:guarded(6)") {
        return Err(format!("the semaphore: {ended:?}"));
    }
    check(&room, &trace, &ended.stdout)
}

/// The trace says what the program does.
fn check(room: &Room, trace: &Path, stdout: &str) -> Result<(), String> {
    let said: Vec<&str> = stdout.lines().filter(|line| line.starts_with("app:")).collect();
    let replayed = room.run("replay", mcount(&["replay"]).arg(trace))?.stdout;
    let marks = replayed.lines().filter_map(|line| {
        let (_, mark) = line.split_once("/* app:")?;
        Some(format!("app:{}", mark.strip_suffix(" */")?))
    });
    let marks: Vec<String> = marks.collect();
    if marks == said { Ok(()) } else { Err(format!("{marks:#?} instead of {said:#?}")) }
}

/// A program that runs already. Afterwards, its semaphore and its code are as before.
fn attached() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2"], "declared.c")?;
    let untraced = room.run("untraced", &mut Command::new(&program))?;
    for is_left in [false, true] {
        let name = if is_left { "left" } else { "attached" };
        let served = Waiting::start(&room, &program)?;
        let attached = Attached::start(&room, name, MARKS, served.child.id())?;
        if is_left {
            attached.stop()?;
            let said = served.go_on()?;
            if said != untraced.stdout {
                return Err(format!("{said} instead of {}", untraced.stdout));
            }
        } else {
            let said = served.go_on()?;
            attached.finish()?;
            let trace = room.path(name).join("trace.mcount");
            check(&room, &trace, &said)?;
            if !said.contains("guarded") {
                return Err(format!("the semaphore: {said}"));
            }
        }
    }
    Ok(())
}

/// A rule each: a marker, and why it has no jump.
const REFUSED: [(&str, &str); 4] = [
    ("app:entered", "a branch leads into its first bytes"),
    ("app:second", "a hook, or another marker, has some of its first bytes"),
    ("app:bare", "no unwind information tells of the function that it's in"),
    ("app:other", "its note leads to where no NOP is"),
];

fn refused() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2"], "declared.c")?;
    let mut command = mcount(&["trace", "--list", "--mark", "*@declared", "--"]);
    let listed = room.run("list", command.arg(&program))?;
    for (name, why) in REFUSED {
        let starts = format!("mcount: {name}@declared+0x");
        let is_it = |line: &str| line.starts_with(&starts) && line.contains(why);
        if !listed.stderr.lines().any(is_it) || listed.stdout.contains(&format!("{name}@")) {
            return Err(format!("{name}: {listed:?}"));
        }
        // That's a matter of which ones are wanted.
        if name == "app:second" {
            continue;
        }
        let told = room.run("why", mcount(&["why"]).arg(&program).arg(name))?;
        if !told.stdout.contains("can't be recorded: ") || !told.stdout.contains(why) {
            return Err(format!("{name}: {told:?}"));
        }
    }
    let mut command = mcount(&["why", "--format", "jsonl"]);
    let told = room.run("why", command.arg(&program).args(["app:gu*", "main"]))?;
    let is_right = told.stdout.contains("\"arguments\":\"-4@%") && told.stdout.contains("\"main\"");
    if is_right && told.stdout.contains("\"probe\":true") {
        Ok(())
    } else {
        Err(format!("{told:?}"))
    }
}

/// As each format has them.
fn formats() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2"], "declared.c")?;
    let trace = room.path("trace.mcount");
    let mut command = mcount(&[&["trace", "--plain"], MARKS].concat());
    room.run("traced", command.arg("-o").arg(&trace).arg("--").arg(&program))?;
    let rows = [
        ("jsonl", "\"mark\":\"app:first\"", 1),
        ("jsonl", "\"mark\":\"app:calls\",\"arguments\":[{\"name\":\"\",\"value\":3}]", 1),
        ("chrome", "\"cat\":\"mark\",\"name\":\"app:calls\",", 1),
        ("chrome", "\"args\":{\"arguments\":[{\"name\":\"\",\"value\":3}]}", 1),
        ("perfetto", "app:leaf", 3),
    ];
    for (format, expected, count) in rows {
        let mut command = mcount(&["replay", "--format", format]);
        let printed = command.arg(&trace).output().map_err(text)?;
        let printed = String::from_utf8_lossy(&printed.stdout);
        if printed.matches(expected).count() != count {
            return Err(format!("{format}: {expected}: {printed}"));
        }
    }
    let stats = room.run("stats", mcount(&["stats"]).arg(&trace))?.stdout;
    if stats.contains(" app:leaf") { Ok(()) } else { Err(stats) }
}

/// Nothing matches: that's said, and nothing is run.
fn nothing() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2"], "declared.c")?;
    let mut command = mcount(&["trace", "--mark", "app:nothing", "--"]);
    let ended = room.run("traced", command.arg(&program))?;
    if ended.code == 2 && ended.stderr.contains("no marker matches app:nothing") {
        Ok(())
    } else {
        Err(format!("{ended:?}"))
    }
}

/// A damaged note says that the semaphore is in the code, in constants or nowhere. The program is as it was.
fn no_semaphore() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2"], "declared.c")?;
    let untraced = room.run("untraced", &mut Command::new(&program))?;
    let bytes = testkit::files::read(&program)?;
    let file = object::File::parse(&*bytes).map_err(text)?;
    let address = |section: &str| file.section_by_name(section).map(|section| section.address());
    let main = file.symbol_by_name("main").map(|main| main.address());
    let notes = file.section_by_name(".note.stapsdt").and_then(|notes| notes.file_range());
    let (start, size) = notes.ok_or("no notes")?;
    let semaphore = address(".probes").ok_or("no semaphore")?.to_le_bytes();
    let places = [main, address(".rodata"), address(".text"), Some(8), Some(u64::MAX - 1)];
    for place in places.into_iter().flatten() {
        let mut damaged = bytes.clone();
        let (start, end) = (usize::try_from(start), usize::try_from(start + size));
        let notes = damaged.get_mut(start.map_err(text)?..end.map_err(text)?).ok_or("no notes")?;
        let at = notes.windows(8).position(|word| word == semaphore).ok_or("not in a note")?;
        notes.iter_mut().skip(at).zip(place.to_le_bytes()).for_each(|(old, new)| *old = new);
        testkit::files::write(&program, &damaged)?;
        let mut command = mcount(&[&["trace", "--plain"], MARKS].concat());
        let ended = room.run("traced", command.arg("--").arg(&program))?;
        if (&ended.stdout, ended.code) != (&untraced.stdout, untraced.code) {
            return Err(format!("{place:#x}: {ended:?}"));
        }
    }
    Ok(())
}

/// The system's C++ library says what it throws and catches, if its notes are there.
fn throw() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("g++", &["-O2"], "served-throw.cpp")?;
    let mut command = mcount(&["trace", "--list", "--mark", "libstdcxx:*", "--"]);
    let listed = room.run("list", command.arg(&program))?;
    let names = ["libstdcxx:catch@", "libstdcxx:throw@"];
    let is_there = names.iter().all(|name| listed.stdout.contains(name));
    let is_debian = Path::new("/etc/debian_version").exists();
    if is_there || !is_debian { Ok(()) } else { Err(format!("{listed:?}")) }
}

/// A branch leads behind the marker of what the C++ library rethrows.
fn rethrow() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("g++", &["-O2"], "rethrow.cpp")?;
    let untraced = room.run("untraced", &mut Command::new(&program))?;
    let mut command = mcount(&["trace", "--plain", "--probe", "main", "--mark", "libstdcxx:*"]);
    let ended = room.run("traced", command.arg("--").arg(&program))?;
    let same = (&ended.stdout, ended.code) == (&untraced.stdout, untraced.code);
    if same && ended.code == 7 { Ok(()) } else { Err(format!("{ended:?} instead of {untraced:?}")) }
}
