//! Where and beside what a program runs: privileges, places that can't be written, few descriptors, another root
//! folder, debuggers.

use crate::Test;
use crate::truth::{Room, kill_one, traced_process, tracer, until};
use nix::sys::signal::Signal;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

type Run = fn() -> Result<(), String>;

/// Name, the program that it needs beside gcc, what it does.
const TESTS: &[(&str, &str, Run)] = &[
    ("set-user-id", "gcc", set_user_id),
    ("no-temporary-folder", "gcc", no_temporary_folder),
    ("read-only-root", "unshare", read_only_root),
    ("few-descriptors", "bash", few_descriptors),
    ("address-space", "bash", || address_space(&[HOOKS, STATIC], "1000000")),
    ("no-address-space", "bash", no_address_space),
    ("small-stack", "bash", || limited_by("-s 128")),
    ("no-pending-signals", "bash", || limited_by("-i 0")),
    ("odd-names", "gcc", odd_names),
    ("another-root", "chroot", another_root),
    ("debugger", "gdb", debugger),
];

pub(crate) fn tests() -> Vec<Test> {
    let test = |(name, program, run): &(&str, &'static str, Run)| Test {
        name: format!("fault::{name}"),
        wants: vec!["gcc", program],
        open: None,
        run: Box::new(*run),
    };
    TESTS.iter().map(test).collect()
}

const HOOKS: &[&str] = &["-O2", "-fpatchable-function-entry=5"];
const STATIC: &[&str] = &["-O2", "-fpatchable-function-entry=5", "-static"];

/// A program that gets privileges keeps them, and isn't traced. Needs to be root.
fn set_user_id() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "privileged.c")?;
    let untraced = room.run("untraced", &mut Command::new(&program))?;
    if untraced.code == 2 {
        testkit::trial::ignore("needs to be root".to_owned());
    }
    if (untraced.code, untraced.stdout.as_str()) != (6, "65534 0\n") {
        testkit::trial::ignore(format!("set-user-ID programs don't work here: {untraced:?}"));
    }
    let traced = room.run("traced", &mut tracer(&program))?;
    let is_said = traced.stderr.lines().count() == 1
        && traced
            .stderr
            .contains("privileged-copy: not traced: it runs with another user's privileges");
    if (traced.code, &traced.stdout) != (untraced.code, &untraced.stdout) || !is_said {
        return Err(format!("{untraced:?}, traced {traced:?}"));
    }
    room.compare_counts("traced", &room.trace("traced")?)
}

/// The same as untraced, without a word.
fn is_unnoticed(room: &Room, program: &Path, command: &mut Command) -> Result<(), String> {
    let untraced = room.run("untraced", &mut Command::new(program))?;
    let traced = room.run("traced", command)?;
    if traced != untraced {
        return Err(format!("{untraced:?}, traced {traced:?}"));
    }
    room.compare_counts("traced", &room.trace("traced")?)
}

/// Runs `mcount trace` in an address space of so many KiB.
fn limited(program: &Path, kibibytes: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", "ulimit -v $0; exec \"$@\"", kibibytes, env!("CARGO_BIN_EXE_mcount")]);
    command.args(["trace", "--plain", "-o", "trace.mcount", "--"]).arg(program);
    command
}

/// A limit of the address space (`RLIMIT_AS`) that leaves room for a small trace.
fn address_space(builds: &[&[&str]], kibibytes: &str) -> Result<(), String> {
    for flags in builds {
        let room = Room::new()?;
        let program = room.compile("gcc", flags, "plain.c")?;
        is_unnoticed(&room, &program, &mut limited(&program, kibibytes))?;
    }
    Ok(())
}

/// One that leaves none: the program isn't run, and one line says why.
fn no_address_space() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "plain.c")?;
    for kibibytes in ["50000", "60000", "70000", "80000"] {
        let ended = room.run("traced", &mut limited(&program, kibibytes))?;
        let text = "plain: not traced: its address space has too little room: raise ulimit -v\n";
        let is_one_line = ended.stderr.lines().count() == 1 && ended.stderr.ends_with(text);
        if ended.code != 2 || !ended.stdout.is_empty() || !is_one_line {
            return Err(format!("{kibibytes} KiB: {ended:?}"));
        }
    }
    Ok(())
}

fn no_temporary_folder() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "plain.c")?;
    is_unnoticed(&room, &program, tracer(&program).env("TMPDIR", "/nonexistent"))
}

/// All is read-only but the folder of the trace; and then that as well. Needs to be allowed to mount.
fn read_only_root() -> Result<(), String> {
    const SCRIPT: &str = "set -e; mount --make-rprivate /; place=$1; shift; \
        if [ $place != / ]; then mount --bind \"$place\" \"$place\"; fi; \
        mount -o remount,ro,bind /; cd \"$PWD\"; exec \"$@\"";
    let room = Room::new()?;
    let mut allowed = Command::new("unshare");
    allowed.args(["-m", "sh", "-c", SCRIPT, "sh", "/", "true"]);
    if let Err(why) = testkit::process::run(&mut allowed) {
        testkit::trial::ignore(why);
    }
    let confine = |place: &Path, program: &Path| {
        let tracer = tracer(program);
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", SCRIPT, "sh"]).arg(place);
        command.arg(tracer.get_program()).args(tracer.get_args());
        command
    };
    let program = room.compile("gcc", HOOKS, "plain.c")?;
    is_unnoticed(&room, &program, &mut confine(&room.path(""), &program))?;
    let bare = room.compile("gcc", HOOKS, "bare.c")?;
    let refused = room.run("refused", confine(Path::new("/"), &bare).arg("mark"))?;
    let is_one_line = refused.stderr.lines().count() == 1;
    if refused.code == 2 && is_one_line && refused.stderr.contains("Read-only file system") {
        return Ok(());
    }
    Err(format!("{refused:?}"))
}

/// With any number of them, the program runs untouched, or not at all.
fn few_descriptors() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "plain.c")?;
    let mut untraced = 0;
    for count in (4..16).chain([32]) {
        let name = format!("{count}");
        let tracer = tracer(&program);
        let mut command = Command::new("bash");
        command.args(["-c", &format!("ulimit -n {count}; exec \"$@\""), "bash"]);
        let ended = room.run(&name, command.arg(tracer.get_program()).args(tracer.get_args()))?;
        let has_begun = room.path(&name).join("truth").exists() || !ended.stdout.is_empty();
        let is_whole =
            ended.code == 42 && ended.stdout.lines().count() == 8 && ended.stderr.is_empty();
        let is_refused = ended.code == 2
            && ended.stderr.lines().count() == 1
            && ended.stderr.ends_with(": Too many open files: raise ulimit -n\n");
        // Whoever starts it may have none left for its libraries.
        let isnt_started = ended.stderr.contains("error while loading shared libraries");
        if is_whole {
            room.compare_counts(&name, &room.trace(&name)?)?;
        } else if has_begun || !(is_refused || isnt_started) {
            return Err(format!("{count}: {ended:?}"));
        } else {
            untraced += 1;
        }
    }
    if (1..12).contains(&untraced) { Ok(()) } else { Err(format!("{untraced} weren't traced")) }
}

/// Limits that a program can do with, and so can what traces it: a stack that's smaller than the one that `mcount` needs; no
/// signals that are queued, of which the kernel then doesn't say who sent them.
fn limited_by(limit: &str) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "plain.c")?;
    let tracer = tracer(&program);
    let mut command = Command::new("bash");
    command.args(["-c", &format!("ulimit {limit}; exec \"$@\""), "bash"]);
    is_unnoticed(&room, &program, command.arg(tracer.get_program()).args(tracer.get_args()))
}

/// The name of a program can have any bytes, and the kernel cuts it off after 15, also in a character.
fn odd_names() -> Result<(), String> {
    for name in [b"line\n\xff".as_slice(), "fourteen-bytes\u{e9}".as_bytes()] {
        let room = Room::new()?;
        let program = room.compile("gcc", HOOKS, "plain.c")?;
        let odd = room.path("").join(OsStr::from_bytes(name));
        std::fs::hard_link(&program, &odd).map_err(|error| error.to_string())?;
        is_unnoticed(&room, &odd, &mut tracer(&odd))?;
    }
    Ok(())
}

/// A program with another root folder isn't traced. Needs to be root.
fn another_root() -> Result<(), String> {
    let room = Room::new()?;
    room.compile("gcc", STATIC, "plain.c")?;
    let mut enter = Command::new("chroot");
    let untraced = room.run("untraced", enter.arg(room.path("")).arg("/plain"))?;
    if untraced.code == 125 {
        testkit::trial::ignore(untraced.stderr);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["trace", "--plain", "--children", "-o", "trace.mcount", "--", "chroot"]);
    let traced = room.run("traced", command.arg(room.path("")).arg("/plain"))?;
    let is_said =
        traced.stderr.lines().count() == 1 && traced.stderr.contains("plain: not traced: ");
    if (traced.code, &traced.stdout) == (untraced.code, &untraced.stdout) && is_said {
        return Ok(());
    }
    Err(format!("{untraced:?}, traced {traced:?}"))
}

/// gdb sees each function once, in its order, and one frame of the tracer between two of them: a stub, or, with `-pg`,
/// the agent's exit, which has no name. It can only attach once the tracer is gone.
fn debugger() -> Result<(), String> {
    let room = Room::new()?;
    for (name, flags) in [("patchable", HOOKS), ("pg", &["-O2", "-pg"])] {
        let program = room.compile("gcc", flags, "waits.c")?;
        let mut child = room.start(name, tracer(&program).env("TMPDIR", room.path("")))?;
        let process = traced_process(&child)?;
        let begun = until("it begins", || room.printed(name) == "ready\n");
        let ended = child.kill().and_then(|()| child.wait());
        let text = begun.and_then(|()| {
            let mut gdb = Command::new("gdb");
            gdb.args(["-q", "-nx", "-batch", "-p", &process.to_string(), "-ex", "bt"]);
            testkit::process::run(&mut gdb)
        });
        kill_one(process, Signal::SIGKILL);
        ended.map_err(|error| error.to_string())?;
        let text = text?;
        let frames: Vec<&str> = text.lines().filter_map(function_of_frame).collect();
        let first = frames.iter().position(|frame| *frame == "innermost").unwrap_or(0);
        let between = if name == "pg" { "??" } else { "mcount_stubs" };
        let mut expected = vec!["innermost"];
        for caller in ["inner", "inner", "inner", "outermost", "main"] {
            expected.extend([between, caller]);
        }
        // Whatever is called by main's stub has no hook.
        if frames.get(first..).is_none_or(|frames| !frames.starts_with(&expected)) {
            return Err(format!("{name}: {text}"));
        }
    }
    Ok(())
}

/// `main` of a line like `#13 0x000055717d920090 in main ()`.
fn function_of_frame(line: &str) -> Option<&str> {
    let rest = line.strip_prefix('#')?.split_once(' ')?.1.trim_start();
    let rest = rest.split_once(" in ").map_or(rest, |(_, rest)| rest);
    rest.split(' ').next()
}
