//! Options that say which calls are recorded: each by the calls that are left of `options.c`'s, and those that say
//! how much of a trace is kept.

use crate::Test;
use crate::truth::{Ended, Room, tracer_with};
use std::process::Command;
use testkit::trace::Trace;

/// The calls of `options.c`.
const ALL: &[(&str, u64)] = &[
    ("main", 1),
    ("other", 2),
    ("mid", 4),
    ("leaf", 10),
    ("leap", 8),
    ("fib", 15),
    ("first", 1),
    ("second", 1),
];

/// Options, the calls that are recorded, and what is said about patterns.
type Row = (&'static [&'static str], &'static [(&'static str, u64)], &'static str);

const ROWS: &[Row] = &[
    (&[], ALL, ""),
    (&["--depth", "1"], &[("main", 1)], ""),
    (&["--depth", "2"], &[("main", 1), ("other", 2), ("mid", 2), ("leap", 2), ("fib", 1)], ""),
    (
        &["--depth", "3"],
        &[("main", 1), ("other", 2), ("mid", 4), ("leaf", 6), ("leap", 4), ("fib", 3)],
        "",
    ),
    (&["--only-under", "mid"], &[("mid", 4), ("leaf", 8)], ""),
    (&["--only-under", "mid", "--depth", "1"], &[("mid", 4)], ""),
    (&["--only-under", "leap"], &[("leap", 8)], ""),
    (&["--only-under", "leap", "--depth", "2"], &[("leap", 8)], ""),
    (
        &["--not-under", "other", "--not-under", "fib"],
        &[("main", 1), ("mid", 2), ("leaf", 4), ("leap", 8)],
        "",
    ),
    (
        &["--not-under", "leap"],
        &[("main", 1), ("other", 2), ("mid", 4), ("leaf", 10), ("fib", 15)],
        "",
    ),
    (&["--only-under", "other", "--not-under", "mid"], &[("other", 2), ("leaf", 2)], ""),
    (
        &["--only-under", "m*", "--not-under", "mid"],
        &[("main", 1), ("other", 2), ("leaf", 2), ("leap", 8), ("fib", 15)],
        "",
    ),
    (
        &["--not-under", "mid", "--only-under", "m*"],
        &[("main", 1), ("other", 2), ("mid", 4), ("leaf", 10), ("leap", 8), ("fib", 15)],
        "",
    ),
    (&["--only-under", "mid", "--filter", "leaf"], &[("leaf", 8)], ""),
    (&["--filter", "m*", "--exclude", "mid"], &[("main", 1)], ""),
    (&["-f", "leaf", "-f", "fib@options"], &[("leaf", 10), ("fib", 15)], ""),
    (&["--filter", "@opt*"], ALL, ""),
    (&["--not-under", "nobody"], ALL, "mcount: warning: no function matches nobody\n"),
    (&["--regex", "--filter", "^(mid|le)"], &[("mid", 4), ("leaf", 10), ("leap", 8)], ""),
    (&["--start-at", "fib"], &[("fib", 15)], ""),
    (
        &["--stop-at", "fib"],
        &[("main", 1), ("other", 2), ("mid", 4), ("leaf", 10), ("leap", 8), ("fib", 1)],
        "",
    ),
    (
        &["--start-at", "other", "--snapshot-at", "leap"],
        &[("other", 2), ("mid", 2), ("leaf", 6), ("leap", 2)],
        "",
    ),
    (
        &["--start-at", "mid", "--depth", "1"],
        &[("other", 1), ("mid", 3), ("leaf", 1), ("leap", 2), ("fib", 1)],
        "",
    ),
    (&["--entries"], ALL, ""),
    (&["--entries", "--filter", "l*"], &[("leaf", 10), ("leap", 8)], ""),
    (&["--clock", "none"], ALL, ""),
    (&["--clock", "none", "--depth", "1"], &[("main", 1)], ""),
    (&["--clock", "none", "--entries"], ALL, ""),
    // Nobody knows how long calls took that were left.
    (&["--min-duration", "1h"], &[("leap", 8)], ""),
    (&["--min-duration", "0"], ALL, ""),
];

/// Flags, and whether tail calls are made with them.
const BUILDS: &[(&str, &[&str], bool)] = &[
    ("patchable", &["-O2", "-fpatchable-function-entry=5"], true),
    ("fentry", &["-O2", "-pg", "-mfentry"], true),
    ("pg", &["-O2", "-pg"], false),
    ("two-hooks", &["-O2", "-fpatchable-function-entry=5", "-pg", "-mfentry"], true),
    ("static", &["-O2", "-static", "-fpatchable-function-entry=16"], true),
];

pub(crate) fn tests() -> Vec<Test> {
    let mut tests: Vec<Test> = Vec::new();
    for (name, flags, jumps) in BUILDS {
        tests.push(test(&format!("option::{name}"), || all_rows(flags, *jumps)));
    }
    tests.push(test("option::ring", || ring(&["1M", "2M"], "plain.c")));
    tests.push(test("option::small-ring", || ring(&["1", "128K"], "threads.c")));
    tests.push(test("option::max-size", max_size));
    tests.push(test("option::max-size-throw", max_size_throw));
    tests.push(test("option::print", print));
    tests.push(test("option::list", list));
    tests.push(test("option::nothing-is-meant", nothing_is_meant));
    tests.push(test("option::clones", clones));
    tests.push(test("option::aliases", aliases));
    tests.push(test("option::unreturned", unreturned));
    tests.push(test("option::older-traces-stay", older_traces_stay));
    tests.push(test("option::refused", refused));
    tests.push(test("option::numbers", numbers_and_nouns));
    tests
}

fn test(name: &str, run: impl FnOnce() -> Result<(), String> + Send + 'static) -> Test {
    Test { name: name.to_owned(), wants: vec!["gcc"], open: None, run: Box::new(run) }
}

/// The calls are printed behind what the program prints, and no trace is left.
fn print() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", "-fpatchable-function-entry=5"], "options.c")?;
    let untraced = room.run("untraced", &mut Command::new(&program))?;
    let mcount = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command.args(["trace", "--plain"]).args(options).arg("--").arg(&program);
        command
    };
    for options in [&["--print", "--filter", "mid"][..], &["--print", "-f", "mid", "-o", "kept"]] {
        let ended = room.run("print", &mut mcount(options))?;
        let calls = ended.stdout.strip_prefix(&untraced.stdout);
        let calls = calls.ok_or_else(|| format!("{ended:?}"))?;
        let is_right = calls.starts_with("# DURATION") && calls.matches("mid();").count() == 4;
        if !is_right || ended.code != untraced.code {
            return Err(format!("{options:?}: {ended:?}"));
        }
        let kept = room.path("print").join("kept").exists();
        let left = room.path("print").join("options.mcount").exists();
        if left || kept != options.contains(&"kept") {
            return Err(format!("{options:?}: left {left}, kept {kept}"));
        }
    }
    Ok(())
}

/// Numbers go with their nouns: one hook that is too short, and two.
fn numbers_and_nouns() -> Result<(), String> {
    let room = Room::new()?;
    let short = "__attribute__((patchable_function_entry(2, 0)))";
    for (names, expected) in [("a", ": 1 hook has too few"), ("a b", ": 2 hooks have too few")] {
        let functions =
            names.split(' ').map(|name| format!("{short} int {name}(void) {{ return 1; }}\n"));
        let text = functions.collect::<String>() + "int main(void) { return 0; }\n";
        let source = room.path("short.c");
        testkit::files::write(&source, text.as_bytes())?;
        let flags = ["-O1", "-fpatchable-function-entry=5"];
        let program = room.compile("gcc", &flags, &source.display().to_string())?;
        let ended = room.run("traced", &mut tracer_with(&["-v"], &program))?;
        if ended.code != 0 || !ended.stderr.contains(expected) {
            return Err(format!("{expected}: {ended:?}"));
        }
        if !ended.stderr.contains("short: 1 of ") || !ended.stderr.contains(" functions has hooks")
        {
            return Err(format!("-v: {ended:?}"));
        }
    }
    Ok(())
}

/// Nothing would be recorded: the program isn't run, unless what it loads may have what's meant.
fn nothing_is_meant() -> Result<(), String> {
    let room = Room::new()?;
    let flags = ["-O2", "-fpatchable-function-entry=5"];
    let program = room.compile("gcc", &flags, "options.c")?;
    let none = "mcount: no hooked function matches";
    let rows: &[(&[&str], &str)] = &[
        (&["--filter", "leef"], "leef; did you mean leaf?\n"),
        (&["--filter", "leaf@libc*"], "leaf@libc*; did you mean leaf, leap?\n"),
        (&["--start-at", "nobody"], "nobody; --list prints the functions that have a hook\n"),
        (
            &["--only-under", "nobody", "--only-under", "other2"],
            "nobody or other2; --list prints the functions that have a hook\n",
        ),
        (&["--regex", "--filter", "^x"], "^x; --list prints the functions that have a hook\n"),
        (&["--filter", "leaf", "--exclude", "leaf"], "the filter\n"),
    ];
    for (options, said) in rows {
        let ended = room.run("traced", &mut tracer_with(options, &program))?;
        let is_there = room.path("traced/trace.mcount").exists();
        if (ended.code, &*ended.stdout, &*ended.stderr) != (2, "", &*format!("{none} {said}"))
            || is_there
        {
            return Err(format!("{options:?}: {ended:?}, trace: {is_there}"));
        }
    }
    let plugin = room.compile("gcc", &[&flags[..], &["-shared", "-fPIC"]].concat(), "plugin.c")?;
    let program = room.compile("gcc", &flags, "library.c")?;
    let mut command = tracer_with(&["--filter", "plugin"], &program);
    let ended = room.run("loaded", command.arg(&plugin))?;
    let said = "mcount: warning: no hooked function matches plugin";
    let found = room.trace("loaded")?.count(0, "plugin");
    if ended.code != 0 || !ended.stderr.starts_with(said) || found != 100 {
        return Err(format!("{ended:?}, {found}"));
    }
    Ok(())
}

/// A clone is meant by the name of its function, which is what statistics show.
fn clones() -> Result<(), String> {
    let rows: &[&[&str]] = &[
        &["--filter", "work"],
        &["--filter", "work.constprop.0"],
        &["--only-under", "work"],
        &["--regex", "--filter", "^work$"],
        &["--exclude", "main", "--exclude", "alias_one"],
    ];
    let hooks = ["-O1", "-fpatchable-function-entry=5"];
    names(&hooks, rows, &[("work.constprop.0", 3)])?;
    let room = Room::new()?;
    let program = room.compile("gcc", &hooks, "names.c")?;
    room.run("traced", &mut tracer_with(&[], &program))?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["stats", "--function", "work"]).arg(room.path("traced/trace.mcount"));
    let ended = room.run("stats", &mut command)?;
    let is_shown = ended.stdout.lines().last().is_some_and(|line| line.ends_with(" work"));
    if is_shown && ended.stderr.is_empty() { Ok(()) } else { Err(format!("{ended:?}")) }
}

/// A function is meant by each of its names, and the trace has the one that `--filter` and `--probe` use.
fn aliases() -> Result<(), String> {
    let hooks = ["-O1", "-fpatchable-function-entry=5"];
    for name in ["real_one", "alias_one"] {
        names(&hooks, &[&["--filter", name], &["-f", name, "--only-under", "main"]], &[(name, 3)])?;
        let others = [("main", 1), ("work.constprop.0", 3)];
        names(&hooks, &[&["--exclude", name], &["--not-under", name]], &others)?;
        if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            let rows: &[&[&str]] = &[&["--probe", name], &["--probe", "*_one", "--filter", name]];
            names(&["-O0"], rows, &[(name, 3)])?;
        }
    }
    Ok(())
}

/// Calls count that don't return.
fn unreturned() -> Result<(), String> {
    let room = Room::new()?;
    let flags = ["-O1", "-fpatchable-function-entry=5"];
    let program = room.compile("gcc", &flags, "unreturned.c")?;
    for options in [&[][..], &["--ring", "4M"], &["--compress"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command.args(["trace", "--output", "trace.mcount"]).args(options).arg("--").arg(&program);
        let output = command.current_dir(room.path(".")).output();
        let output = output.map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code() != Some(3) || !said.contains("mcount: 9 calls in trace.mcount;") {
            return Err(format!("{options:?}: {output:?}"));
        }
    }
    Ok(())
}

/// The calls of `names.c` with these options.
fn names(flags: &[&str], rows: &[&[&str]], expected: &[(&str, u64)]) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", flags, "names.c")?;
    for options in rows {
        let ended = room.run("traced", &mut tracer_with(options, &program))?;
        let trace = room.trace("traced")?;
        let mut found: Vec<_> = trace.called(0).collect();
        found.sort_unstable();
        if found != expected || ended.code != 0 || !ended.stderr.is_empty() {
            return Err(format!("{options:?}: {found:?}, {ended:?}"));
        }
    }
    Ok(())
}

/// Without `--output`, an older trace stays.
fn older_traces_stay() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", "-fpatchable-function-entry=5"], "options.c")?;
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut older = Vec::new();
    for said in [
        String::new(),
        format!("mcount: {name}.mcount exists already; the trace is {name}-2.mcount\n"),
        format!("mcount: {name}.mcount exists already; the trace is {name}-3.mcount\n"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        let ended = room.run("traced", command.args(["trace", "--plain", "--"]).arg(&program))?;
        if (ended.code, &ended.stderr) != (0, &said) {
            return Err(format!("{ended:?}"));
        }
        let first = room.path("traced").join(format!("{name}.mcount"));
        let bytes = testkit::files::read(&first)?;
        if !older.is_empty() && older != bytes {
            return Err("it isn't as it was".to_owned());
        }
        older = bytes;
    }
    let is_there = room.path("traced").join(format!("{name}-3.mcount")).exists();
    if is_there { Ok(()) } else { Err("there's no third one".to_owned()) }
}

/// What would be traced is said, and the program isn't run.
fn list() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", "-fpatchable-function-entry=5"], "options.c")?;
    let path = program.display();
    let rows: &[(&[&str], &[&str], &str)] = &[
        (&["--list", "-f", "l*"], &["leaf", "leap"], ""),
        (&["--dry-run", "-f", "m*", "--not-under", "mid"], &["main"], ""),
        (&["--list", "-f", "x"], &[], "mcount: warning: no function matches x\n"),
    ];
    for (options, expected, said) in rows {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command.args(["trace", "--plain"]).args(*options).arg("--").arg(&program);
        let ended = room.run("list", &mut command)?;
        let mut lines: Vec<_> = ended.stdout.lines().map(str::to_owned).collect();
        lines.sort();
        let expected: Vec<_> = expected.iter().map(|name| format!("{name}@{path}")).collect();
        if lines != expected || ended.stderr != *said {
            return Err(format!("{options:?}: {ended:?}"));
        }
        let files = std::fs::read_dir(room.path("list")).map_err(|error| error.to_string())?;
        let files: Vec<_> = files.flatten().map(|file| file.path()).collect();
        if files.iter().any(|file| file.extension().is_some_and(|name| name == "mcount")) {
            return Err(format!("{options:?}: {files:?}"));
        }
    }
    Ok(())
}

fn all_rows(flags: &[&str], jumps: bool) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", flags, "options.c")?;
    let untraced = room.run("untraced", &mut Command::new(&program))?;
    for (options, expected, said) in ROWS {
        let ended = room.run("traced", &mut tracer_with(options, &program))?;
        let expected_end = Ended { stderr: (*said).to_owned(), ..untraced.clone() };
        if ended != expected_end {
            return Err(format!("{options:?}: {ended:?}"));
        }
        let trace = room.trace("traced")?;
        for (function, _) in ALL {
            // How deep a function is that was called in the place of another depends on the flags.
            if !jumps && ["first", "second"].contains(function) || is_free(options, function) {
                continue;
            }
            let wanted = expected.iter().find(|(name, _)| name == function);
            let (wanted, found) = (wanted.map_or(0, |(_, count)| *count), trace.count(0, function));
            if found != wanted {
                return Err(format!("{options:?}: {function}: {found} instead of {wanted}"));
            }
        }
    }
    Ok(())
}

const FREE: [&str; 5] = ["--depth", "--only-under", "--not-under", "--start-at", "--stop-at"];

/// The rows don't say it of tail calls, but where there are all calls.
fn is_free(options: &[&str], function: &str) -> bool {
    let is_tail = ["first", "second"].contains(&function);
    is_tail && options.iter().any(|one| FREE.contains(one))
}

/// What a ring has and what it says it has dropped is what the program counted.
fn ring(sizes: &[&str], source: &str) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", "-fpatchable-function-entry=5"], source)?;
    let untraced = room.run("untraced", &mut Command::new(&program))?;
    for size in sizes {
        let ended = room.run("traced", &mut tracer_with(&["--ring", size], &program))?;
        let trace = room.trace("traced")?;
        let counted: u64 = room.counted("traced")?.values().sum();
        let found = all_counted(&trace, &room, "traced")?;
        let is_same = (ended.code, &ended.stdout) == (untraced.code, &untraced.stdout);
        if !is_same || trace.dropped == 0 || found == 0 || !trace.finished {
            return Err(format!("{size}: {ended:?}, {found} calls, {} dropped", trace.dropped));
        }
        // Not all functions count their calls: those make the rest of what was dropped.
        if found > counted || found + trace.dropped < counted {
            return Err(format!("{size}: {found} calls, {} dropped of {counted}", trace.dropped));
        }
        if !ended.stderr.contains("older calls were dropped") {
            return Err(ended.stderr);
        }
        std::fs::remove_file(room.path("traced").join("truth"))
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn max_size() -> Result<(), String> {
    const MOST: u64 = 8 << 20;
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", "-fpatchable-function-entry=5"], "big.c")?;
    let mut command = tracer_with(&["--max-size", "8M"], &program);
    let ended = room.run("traced", command.arg("2000000"))?;
    let trace = room.trace("traced")?;
    let path = room.path("traced").join("trace.mcount");
    let size = std::fs::metadata(&path).map_err(|error| error.to_string())?.len();
    let found = trace.count(0, "leaf");
    let is_right = (found + trace.dropped).abs_diff(2_000_000) <= 1 && trace.dropped != 0;
    if !is_right || found < MOST / 16 / 2 || size > MOST || !ended.stderr.contains("not recorded") {
        return Err(format!("{found} calls, {} dropped, {size} bytes: {ended:?}", trace.dropped));
    }
    Ok(())
}

/// If there's no room for the names of functions, the program isn't run. Where the room ends later, libraries stay idle, and
/// exceptions go through traced calls all the same.
fn max_size_throw() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", "-fexceptions"], "late-throw.c")?;
    let library = room.compile("g++", &["-O2", "-shared", "-fPIC"], "late-throws.cpp")?;
    let untraced = room.run("untraced", Command::new(&program).arg(&library))?;
    for (size, is_refused, is_idle) in
        [("128K", true, false), ("1M", false, true), ("64M", false, false)]
    {
        let mut command = tracer_with(&["--probe", "*", "--max-size", size], &program);
        let ended = room.run("traced", command.arg(&library))?;
        let said = ended.stderr.contains("as large as it may be, with the names of ");
        let idle = ended.stderr.contains("libgcc_s.so.1: stays idle: it's as large as it may be");
        let ran = (ended.code, &ended.stdout) == (untraced.code, &untraced.stdout);
        let is_unrun = ended.code == 2 && ended.stdout.is_empty();
        if (said, idle, ran, is_unrun) != (is_refused, is_idle, !is_refused, is_refused) {
            return Err(format!("{size}: {ended:?} instead of {untraced:?}"));
        }
    }
    Ok(())
}

/// Options that don't go together, and values that mean nothing: the program isn't run.
fn refused() -> Result<(), String> {
    let rows: &[(&[&str], &str)] = &[
        (&["--entries", "--depth", "2"], "cannot be used with"),
        (&["--ring", "1M", "--max-size", "1M"], "cannot be used with"),
        (&["--clock", "none", "--min-duration", "1us"], "--min-duration needs a clock"),
        (&["--ring", "0"], "not a size"),
        (&["--ring", "12Q"], "not a size"),
        (&["--depth", "0"], "1 is the outermost"),
        (&["--filter", "["], "["),
        (&["--regex", "--filter", "("], "unclosed group"),
    ];
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", "-fpatchable-function-entry=5"], "bare.c")?;
    for (options, text) in rows {
        let ended = room.run("traced", tracer_with(options, &program).arg("mark"))?;
        let has_run = room.path("traced").join("mark").exists();
        if ended.code != 2 || !ended.stderr.contains(text) || has_run {
            return Err(format!("{options:?}: {ended:?}, has run: {has_run}"));
        }
    }
    Ok(())
}

/// How many calls of functions that count themselves `trace` has.
fn all_counted(trace: &Trace, room: &Room, name: &str) -> Result<u64, String> {
    let counted = room.counted(name)?;
    Ok(counted.keys().map(|(process, function)| trace.count(*process, function)).sum())
}
