//! Calls of library functions (`--library-calls`): those that a preloaded library counts, however a program was compiled and linked; and
//! programs that do what's hard to watch are as without.

use crate::Test;
use crate::programs::{PROGRAMS, Program, as_untraced, compiler};
use crate::truth::{Also, Room, same_with, tracer_with};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::sample::one_in;
use testkit::trace::Trace;

const HOOKS: &[&str] = &["-O2", "-fno-builtin", "-fpatchable-function-entry=5"];
const LIBRARY: &[&str] = &["-O2", "-fpatchable-function-entry=5", "-shared", "-fPIC"];
const ALL: &[&str] = &["--library-calls", "*"];

/// What a test does.
type Check = fn() -> Result<(), String>;

/// How a program is compiled and linked: name, compiler, flags.
type Build = (&'static str, &'static str, &'static [&'static str]);

/// Pages in which indirect calls have to lead to landing pads.
#[cfg(target_arch = "aarch64")]
const LANDING_PADS: &[&str] = &[
    "-mbranch-protection=standard",
    "-Wl,-z,force-bti,-z,lazy",
    "-DOWN_START",
    "-nostartfiles",
    "-mno-outline-atomics",
];
#[cfg(target_arch = "aarch64")]
const LANDING_PADS_NOW: &[&str] = &[
    "-mbranch-protection=standard",
    "-Wl,-z,force-bti,-z,now",
    "-DOWN_START",
    "-nostartfiles",
    "-mno-outline-atomics",
];

/// On AArch64, calls without a PLT go by registers.
const BUILDS: &[Build] = &[
    ("lazy", "gcc", &["-Wl,-z,lazy"]),
    ("now", "gcc", &["-Wl,-z,relro,-z,now"]),
    #[cfg(not(target_arch = "aarch64"))]
    ("no-plt", "gcc", &["-fno-plt", "-DNOT_TAKEN", "-Wl,-z,norelro"]),
    #[cfg(not(target_arch = "aarch64"))]
    ("no-plt-now", "gcc", &["-fno-plt", "-DNOT_TAKEN", "-Wl,-z,now"]),
    ("fixed-lazy", "gcc", &["-no-pie", "-fno-pie", "-Wl,-z,lazy"]),
    ("fixed-now", "gcc", &["-no-pie", "-fno-pie", "-Wl,-z,now"]),
    #[cfg(not(target_arch = "aarch64"))]
    ("fixed-no-plt", "gcc", &["-no-pie", "-fno-pie", "-fno-plt"]),
    #[cfg(not(target_arch = "aarch64"))]
    ("cet", "gcc", &["-fcf-protection", "-Wl,-z,ibtplt", "-Wl,-z,lazy"]),
    #[cfg(target_arch = "aarch64")]
    ("landing-pads", "gcc", LANDING_PADS),
    #[cfg(target_arch = "aarch64")]
    ("landing-pads-now", "gcc", LANDING_PADS_NOW),
    ("O0", "gcc", &["-O0"]),
    ("pg", "gcc", &["-fpatchable-function-entry=0", "-pg"]),
    ("fentry", "gcc", &["-fpatchable-function-entry=0", "-pg", "-mfentry"]),
    ("gold", "gcc", &["-fuse-ld=gold"]),
    ("lld", "clang", &["-fuse-ld=lld"]),
    ("mold", "gcc", &["-fuse-ld=mold"]),
    ("mold-now", "gcc", &["-fuse-ld=mold", "-Wl,-z,now"]),
    ("clang", "clang", &["-Wl,-z,lazy"]),
    ("musl", "musl-gcc", &[]),
    ("musl-no-plt", "musl-gcc", &["-fno-plt", "-DNOT_TAKEN"]),
];

/// Those of `programs.rs` that return, leave or begin in odd ways.
const ODD: &[&str] = &[
    "exceptions",
    "terminate",
    "longjmp",
    "thread-ends",
    "fibres",
    "backtrace",
    "red-zone",
    "tail-calls",
    "fork",
    "spawn",
    "vfork",
    "clone",
    "threads",
    "exec",
    "daemon",
    "signal-stacks",
    "overflows",
    "traps",
    "abi",
    "environment",
    "limits-descriptors",
    "limits-memory",
    "confined",
    "confined-strictly",
    "ends-_exit",
    "ends-abort",
    "ends-kill",
];

/// The same with what's beneath functions of libraries.
const CALLBACKS: Program = Program {
    name: "callbacks",
    source: "callbacks.cpp",
    flags: &["-rdynamic"],
    arguments: &[],
    also: Also::Nesting,
    open: None,
};

pub(crate) fn tests() -> Vec<Test> {
    let builds = BUILDS.iter().map(|(name, compiler, flags)| Test {
        name: format!("library-calls::{name}"),
        wants: vec![*compiler],
        open: None,
        run: Box::new(move || counted(compiler, flags)),
    });
    let programs = PROGRAMS.iter().filter(|program| ODD.contains(&program.name));
    let programs = programs.chain([&CALLBACKS]);
    let programs = programs.map(|program| Test {
        name: format!("library-calls::program/{}", program.name),
        wants: vec![compiler(program.source)],
        open: program.open,
        run: Box::new(move || unchanged(program)),
    });
    let simple: &[(&str, Check)] = &[
        ("options", options),
        ("modules", modules),
        ("opened", opened),
        ("own-hooks", own_hooks),
        ("late", late),
        ("loaded", loaded),
        ("no-hooks", no_hooks),
        ("nothing", nothing),
        ("preloaded", preloaded),
        ("address-sanitizer", sanitized),
        ("budget", budget),
        ("budget-of-the-next", budget_of_the_next),
    ];
    let simple = simple.iter().map(|(name, run)| Test {
        name: format!("library-calls::{name}"),
        wants: vec!["gcc"],
        open: None,
        run: Box::new(*run),
    });
    one_in(3, builds.chain(programs).collect()).into_iter().chain(simple).collect()
}

/// The trace has as many calls as were counted, in each process; all else is as untraced.
fn counted(compiler: &str, flags: &[&str]) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile(compiler, &[HOOKS, flags].concat(), "calls.c")?;
    let counter = room.compile(compiler, &["-O1", "-shared", "-fPIC"], "calls-counted.c")?;
    let counts = room.path("counts");
    std::fs::create_dir(&counts).map_err(|error| error.to_string())?;
    let mut command = Command::new(&program);
    command.env("LD_PRELOAD", counter).env("COUNTED", counts.join("truth"));
    room.run("counting", &mut command)?;
    same_with(&room, &program, ALL, |_| {}, Also::Nesting)?;
    let mut expected: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for ((_, function), count) in room.counted("counts")? {
        expected.entry(function).or_default().push(count);
    }
    let trace = room.trace("traced")?;
    let processes: BTreeSet<u32> = trace.processes.iter().copied().collect();
    if processes.len() != 2 || expected.len() < 15 {
        return Err(format!("{processes:?}, {expected:?}"));
    }
    for (function, counts) in &mut expected {
        let found = processes.iter().map(|process| trace.count(*process, function));
        let mut found: Vec<u64> = found.filter(|count| *count != 0).collect();
        counts.retain(|count| *count != 0);
        counts.sort_unstable();
        found.sort_unstable();
        if *counts != found {
            return Err(format!("{function}: {found:?} instead of {counts:?}"));
        }
    }
    // Of the program's own functions and the library's, each knows its caller.
    for call in replay(&room, "traced")? {
        let field = |name: &str| call.get(name).and_then(Value::as_str).unwrap_or_default();
        let (function, caller, module) = (field("function"), field("caller"), field("module"));
        let expected = match function {
            "compare" => "qsort",
            "qsort" | "texts" => "main",
            "div" | "lldiv" | "printf" => "texts",
            "puts" => "say",
            _ => continue,
        };
        let is_own = matches!(function, "compare" | "texts");
        // A child has only calls that it makes itself.
        let is_outermost = call.get("depth") == Some(&Value::from(0));
        if caller != expected && !is_outermost
            || module.is_empty()
            || is_own != module.ends_with("/calls")
        {
            return Err(format!("{call}"));
        }
    }
    Ok(())
}

/// A program that a tracer could get wrong is as it is untraced.
fn unchanged(program: &Program) -> Result<(), String> {
    let room = Room::new()?;
    as_untraced(&room, program, ALL)?;
    if has_library_calls(&room.trace("traced")?) {
        Ok(())
    } else {
        Err("no library call is in the trace".to_owned())
    }
}

fn has_library_calls(trace: &Trace) -> bool {
    ["fopen", "printf", "puts", "getenv", "atexit", "__cxa_atexit", "_exit", "fprintf", "abort"]
        .into_iter()
        .any(|name| trace.count(0, name) != 0)
}

/// Options, and what is recorded of `calls.c`'s calls: functions and how often each is called.
type Row = (&'static [&'static str], &'static [(&'static str, u64)], &'static str);

const ROWS: &[Row] = &[
    (
        &["--library-calls", "malloc"],
        &[("malloc", 600), ("free", 0), ("main", 1), ("texts", 3)],
        "",
    ),
    (
        &["--library-calls", "malloc", "--library-calls", "put*"],
        &[("malloc", 600), ("puts", 3), ("free", 0)],
        "",
    ),
    (
        &["--library-calls", "*alloc", "--filter", "say"],
        &[("malloc", 600), ("say", 3), ("main", 0)],
        "",
    ),
    (
        &["--library-calls", "*", "--exclude", "malloc"],
        &[("malloc", 0), ("free", 604), ("main", 1)],
        "",
    ),
    (
        &["--library-calls", "*", "--exclude", "@libc*"],
        &[("malloc", 0), ("qsort", 0), ("main", 1)],
        "",
    ),
    (&["--library-calls", "@libc.so*"], &[("malloc", 600), ("main", 1)], ""),
    (
        &["--library-calls", "malloc@libm*"],
        &[("malloc", 0), ("main", 1)],
        "mcount: warning: no library function matches malloc@libm*\n",
    ),
    (
        &["--library-calls", "malloc", "--library-calls", "nobody", "--filter", "nobody"],
        &[("malloc", 600), ("main", 0)],
        "mcount: warning: no function matches nobody\n\
         mcount: warning: no library function matches nobody\n",
    ),
    (
        &["--library-calls", "^(m|c)alloc$", "--regex"],
        &[("malloc", 600), ("free", 0), ("calloc", 4)],
        "",
    ),
    (&["--library-calls", "*", "--depth", "2"], &[("main", 1), ("qsort", 1), ("compare", 0)], ""),
    (
        &["--library-calls", "*", "--only-under", "say"],
        &[("say", 3), ("puts", 3), ("printf", 0)],
        "",
    ),
    (
        &["--library-calls", "*", "--only-under", "qsort"],
        &[("qsort", 1), ("compare", 10), ("puts", 0)],
        "",
    ),
    (
        &["--library-calls", "*", "--not-under", "qsort"],
        &[("qsort", 0), ("compare", 0), ("puts", 3)],
        "",
    ),
    (
        &["--library-calls", "puts", "--start-at", "puts"],
        &[("qsort", 0), ("compare", 0), ("puts", 3)],
        "",
    ),
    (
        &["--library-calls", "*", "--stop-at", "qsort"],
        &[("qsort", 1), ("compare", 0), ("puts", 0)],
        "",
    ),
    (&["--library-calls", "*", "--entries"], &[("qsort", 1), ("compare", 10), ("malloc", 600)], ""),
    (
        &["--library-calls", "*", "--clock", "none"],
        &[("qsort", 1), ("compare", 10), ("malloc", 600)],
        "",
    ),
    (
        &["--library-calls", "*", "--ring", "1M"],
        &[("qsort", 1), ("compare", 10), ("malloc", 600)],
        "",
    ),
    (
        &["--library-calls", "*", "--min-duration", "1h"],
        &[("qsort", 0), ("puts", 0), ("main", 0)],
        "",
    ),
    (&["--library-calls", "*", "--no-children"], &[("qsort", 1), ("puts", 2), ("fork", 1)], ""),
];

fn options() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "calls.c")?;
    let untraced = room.run("untraced", &mut Command::new(&program))?;
    for (options, expected, said) in ROWS {
        let ended = room.run("traced", &mut tracer_with(options, &program))?;
        if (ended.code, &ended.stdout) != (untraced.code, &untraced.stdout) || ended.stderr != *said
        {
            return Err(format!("{options:?}: {ended:?}"));
        }
        let trace = room.trace("traced")?;
        for (function, count) in *expected {
            let found = trace.count(0, function);
            if found != *count {
                return Err(format!("{options:?}: {function}: {found} instead of {count}"));
            }
        }
    }
    Ok(())
}

/// Which functions would be traced is said, with the modules that they are in.
fn modules() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "calls.c")?;
    let options = ["trace", "--list", "--filter", "say", "--library-calls", "pu*", "--"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    let ended = room.run("list", command.args(options).arg(&program))?;
    let mut lines = ended.stdout.lines();
    let first = lines.next().unwrap_or_default();
    let second = lines.next().unwrap_or_default();
    let is_right = first == format!("say@{}", program.display())
        && second.starts_with("puts@/")
        && second.ends_with("/libc.so.6")
        && lines.next().is_none();
    if is_right { Ok(()) } else { Err(format!("{ended:?}")) }
}

/// What an opened library calls: it's told of before its words are filled in.
fn opened() -> Result<(), String> {
    // On AArch64, calls without a PLT go by registers, and Debian's gcc for it has no mold.
    #[cfg(target_arch = "aarch64")]
    let all: [&[&str]; 4] =
        [&["-Wl,-z,lazy"], &["-Wl,-z,lazy", "-DMODE=RTLD_LAZY"], &["-Wl,-z,now"], &["-DTAKEN"]];
    #[cfg(not(target_arch = "aarch64"))]
    let all: [&[&str]; 6] = [
        &["-Wl,-z,lazy"],
        &["-Wl,-z,lazy", "-DMODE=RTLD_LAZY"],
        &["-Wl,-z,now"],
        &["-fno-plt"],
        &["-DTAKEN"],
        &["-fuse-ld=mold", "-DMODE=RTLD_LAZY"],
    ];
    let compiled = all.map(|flags| {
        let room = Room::new()?;
        let flags_of_plugin = [LIBRARY, &["-fno-builtin"], flags].concat();
        let plugin = room.compile("gcc", &flags_of_plugin, "plugin-calls.c")?;
        let program = room.compile("gcc", &[HOOKS, flags].concat(), "library.c")?;
        Ok::<_, String>((flags, room, plugin, program))
    });
    for one in compiled {
        let (flags, room, plugin, program) = one?;
        let change = |command: &mut Command| {
            command.arg(&plugin);
        };
        let wrong = |why: String| format!("{flags:?}: {why}");
        same_with(&room, &program, ALL, change, Also::Nesting).map_err(wrong)?;
        let trace = room.trace("traced")?;
        for (function, expected) in [("plugin", 100), ("abs", 200), ("labs", 100), ("dlclose", 100)]
        {
            let found = trace.count(0, function);
            if found != expected {
                return Err(wrong(format!("{function}: {found} instead of {expected}")));
            }
        }
    }
    Ok(())
}

/// A library with hooks, a program that is linked with it, and that.
fn linked(room: &Room, flags: &[&str]) -> Result<PathBuf, String> {
    let library = room.compile("gcc", LIBRARY, "plugin.c")?;
    let source = room.path("calls-plugin.c");
    let text =
        "int plugin(int); int half(int);\nint main(void) { return plugin(1) + half(2) != 7; }\n";
    testkit::files::write(&source, text.as_bytes())?;
    let library = library.display().to_string();
    let flags = [HOOKS, flags, &["-Wl,--no-as-needed", &library]].concat();
    room.compile("gcc", &flags, &source.display().to_string())
}

/// A function whose own hook records its calls has none besides, from its own module or from others. If the hook doesn't, calls that leave a
/// module are recorded.
fn own_hooks() -> Result<(), String> {
    let rows: [(&[&str], [u64; 2]); 3] = [
        (&["--library-calls", "*"], [1, 3]),
        (&["--library-calls", "*", "--filter", "main"], [1, 1]),
        (&["--library-calls", "*", "--exclude", "half"], [1, 0]),
    ];
    for binding in ["-Wl,-z,lazy", "-Wl,-z,now"] {
        let room = Room::new()?;
        let program = linked(&room, &[binding])?;
        for (options, [plugin, half]) in rows {
            let ended = room.run("traced", &mut tracer_with(options, &program))?;
            let trace = room.trace("traced")?;
            let found = [trace.count(0, "plugin"), trace.count(0, "half")];
            if ended.code != 0 || found != [plugin, half] {
                return Err(format!("{binding} {options:?}: {found:?}, {ended:?}"));
            }
        }
    }
    Ok(())
}

/// Nobody has a function when the program begins, so nobody knows in which module it will be.
fn late() -> Result<(), String> {
    let room = Room::new()?;
    let bare = ["-O2", "-shared", "-fPIC", "-fno-builtin"];
    let plugin = room.compile("gcc", &bare, "plugin.c")?;
    let opened = room.path("opened");
    std::fs::copy(&plugin, &opened).map_err(|error| error.to_string())?;
    let source = room.path("calls-late.c");
    let text = "#include <dlfcn.h>\nint plugin(int);\n\
                int main(int count, char **all) {\n\
                return !dlopen(all[1], RTLD_NOW | RTLD_GLOBAL) || plugin(20) + plugin(1) != 44; }\n";
    testkit::files::write(&source, text.as_bytes())?;
    let library = plugin.display().to_string();
    let flags = [HOOKS, &["-Wl,-z,lazy", "-Wl,--no-as-needed", &library]].concat();
    let program = room.compile("gcc", &flags, &source.display().to_string())?;
    // The library that it's linked with has lost the function.
    let empty = room.path("plugin.c");
    testkit::files::write(&empty, b"")?;
    room.compile("gcc", &bare, &empty.display().to_string())?;
    let ended = room.run("traced", tracer_with(ALL, &program).arg(opened))?;
    let calls = replay(&room, "traced")?;
    let is_it = |call: &&Value| call.get("function").and_then(Value::as_str) == Some("plugin");
    let found: Vec<&Value> = calls.iter().filter(is_it).collect();
    let is_right =
        found.len() == 2 && found.iter().all(|call| call.get("module").is_some_and(Value::is_null));
    if is_right && ended.code == 0 && ended.stderr.is_empty() {
        Ok(())
    } else {
        Err(format!("{found:?}, {ended:?}"))
    }
}

/// Without a PLT, compilers load addresses into registers, to compare them or to call by them. So calls may be missing, and that's said.
fn loaded() -> Result<(), String> {
    #[cfg(target_arch = "aarch64")]
    let rows: [(&str, &[&str], &str, u64); 1] = [("gcc", &["-fno-plt"], "puts", 0)];
    #[cfg(not(target_arch = "aarch64"))]
    let rows: [(&str, &[&str], &str, u64); 3] = [
        ("gcc", &["-fno-plt"], "free", 604),
        ("clang", &["-fno-plt"], "printf", 3),
        ("clang", &["-fno-plt", "-fuse-ld=lld", "-Wl,-z,now"], "printf", 3),
    ];
    for (compiler, flags, function, expected) in rows {
        if compiler != "gcc"
            && testkit::process::run(Command::new(compiler).arg("--version")).is_err()
        {
            testkit::trial::ignore(format!("no {compiler}"));
        }
        let room = Room::new()?;
        let program = room.compile(compiler, &[HOOKS, flags].concat(), "calls.c")?;
        let untraced = room.run("untraced", &mut Command::new(&program))?;
        let ended = room.run("traced", &mut tracer_with(ALL, &program))?;
        let found = room.trace("traced")?.count(0, function);
        let is_said = ended.stderr.lines().count() == 1
            && ended.stderr.contains("/calls: calls of ")
            && ended.stderr.contains("may be missing: compiled with -fno-plt");
        let is_same = (ended.code, &ended.stdout) == (untraced.code, &untraced.stdout);
        if !is_same || !is_said || found != expected {
            return Err(format!("{compiler} {flags:?}: {found} calls of {function}, {ended:?}"));
        }
    }
    Ok(())
}

/// Without hooks, a program's own calls are traced, as by ltrace.
fn no_hooks() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", "-fno-builtin"], "calls.c")?;
    let untraced = room.run("untraced", &mut Command::new(&program))?;
    let ended = room.run("traced", &mut tracer_with(ALL, &program))?;
    let trace = room.trace("traced")?;
    let found = [trace.count(0, "malloc"), trace.count(0, "free"), trace.count(0, "main")];
    if ended == untraced && found == [600, 604, 0] {
        Ok(())
    } else {
        Err(format!("{found:?}, {ended:?} instead of {untraced:?}"))
    }
}

/// A preloaded library finds the next one's function, although its calls are traced.
fn preloaded() -> Result<(), String> {
    let room = Room::new()?;
    let flags = [LIBRARY, &["-fno-builtin", "-w"]].concat();
    let counter = room.compile("gcc", &flags, "calls-counted.c")?;
    let program = room.compile("gcc", HOOKS, "calls.c")?;
    let change = |command: &mut Command| {
        command.env("LD_PRELOAD", &counter).env("COUNTED", "/dev/null");
    };
    same_with(&room, &program, ALL, change, Also::Nesting)
}

/// Functions of a sanitizer's runtime stand before those of the C library.
fn sanitized() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &[HOOKS, &["-fsanitize=address"]].concat(), "calls.c")?;
    let change = |command: &mut Command| {
        command.env("ASAN_OPTIONS", "detect_leaks=0");
    };
    same_with(&room, &program, ALL, change, Also::Nesting)?;
    let found = room.trace("traced")?.count(0, "malloc");
    if found == 600 { Ok(()) } else { Err(format!("malloc: {found}")) }
}

/// A function that's called too often is given up.
fn budget() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &[HOOKS, &["-DCALLS"]].concat(), "hot.c")?;
    let options = ["--budget", "2%", "--library-calls", "labs"];
    let ended = room.run("traced", tracer_with(&options, &program).arg("60"))?;
    let trace = room.trace("traced")?;
    let found = [trace.count(0, "rare"), trace.count(0, "labs")];
    let is_said = ended.stderr.contains("no longer traced: labs\n");
    if is_said && found[0] == 60 && (1..100_000_000).contains(&found[1]) {
        Ok(())
    } else {
        Err(format!("{found:?}, {ended:?}"))
    }
}

/// Once given up, it's not recorded in what is executed later, either.
fn budget_of_the_next() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &[HOOKS, &["-DCALLS"]].concat(), "hot.c")?;
    let options = ["--children", "--budget", "2%", "--library-calls", "labs"];
    let script = format!("{0} 60; {0} 2", program.display());
    let mut command = tracer_with(&options, Path::new("/bin/sh"));
    let ended = room.run("traced", command.args(["-c", &script]))?;
    let trace = room.trace("traced")?;
    let counts = |process: &u32| [trace.count(*process, "rare"), trace.count(*process, "labs")];
    let mut found: Vec<[u64; 2]> = trace.processes.iter().map(counts).collect();
    found.retain(|[rare, _]| *rare != 0);
    found.dedup();
    match found.as_slice() {
        [[60, first], [2, 0]] if *first > 0 => Ok(()),
        _ => Err(format!("{found:?}, {ended:?}")),
    }
}

/// Where nothing can be traced so, that's said.
fn nothing() -> Result<(), String> {
    let rows: [(&[&str], &[&str], &str); 3] = [
        (&["-static"], ALL, "statically linked, so no call leaves it\nmcount: warning: no library"),
        (
            &[],
            &["--library-calls", "setjmp"],
            "mcount: warning: no library function matches setjmp",
        ),
        (&[], &["--library-calls", "["], "mcount: "),
    ];
    let compile = |(flags, ..): &(&[&str], _, _)| {
        let room = Room::new()?;
        let program = room.compile("gcc", &[HOOKS, flags].concat(), "options.c")?;
        Ok((room, program))
    };
    let programs: Result<Vec<_>, String> = rows.iter().map(compile).collect();
    for ((_, options, said), (room, program)) in rows.into_iter().zip(programs?) {
        let ended = room.run("traced", &mut tracer_with(options, &program))?;
        let is_refused = ended.code == 2 && options.contains(&"[");
        if !ended.stderr.contains(said) || (ended.code != 0) != is_refused {
            return Err(format!("{options:?}: {ended:?}"));
        }
    }
    Ok(())
}

/// The calls of the trace in the folder `name`.
pub(crate) fn replay(room: &Room, name: &str) -> Result<Vec<Value>, String> {
    let trace = room.path(name).join("trace.mcount");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    let ended = room.run("replay", command.args(["replay", "--format", "jsonl"]).arg(trace))?;
    let line = |line| serde_json::from_str(line).map_err(|error| format!("{line}: {error}"));
    ended.stdout.lines().map(line).collect()
}
