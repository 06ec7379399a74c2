//! `--kernel`: functions of the kernel lie in the system calls that call them, as often as the program makes these, and in the order in
//! which the kernel itself prints them. Whatever becomes of `mcount`, nothing stays behind in the kernel.

use crate::Test;
use crate::attach::Attached;
use crate::system_calls::{calls, tracefs};
use crate::truth::{Room, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::damage::Random;

/// What a test does.
type Check = fn() -> Result<(), String>;

const SOURCE: &str = "kernel-calls.c";
const HOOKS: &[&str] = &["-O1", "-fpatchable-function-entry=5"];

/// How often the program writes and reads.
const TIMES: usize = 2_000;

pub(crate) fn tests() -> Vec<Test> {
    // With names, what they want, and whether they need a kernel that allows it.
    let all: [(&str, &[&'static str], Check, bool); 9] = [
        ("nested", &["gcc"], nested, true),
        ("as-the-kernel-prints", &["gcc"], as_the_kernel_prints, true),
        ("depth", &["gcc"], depth, true),
        ("formats", &["gcc"], formats, true),
        ("attach", &["gcc"], attached, true),
        ("killed", &["gcc"], killed, true),
        ("refused", &["gcc"], refused, false),
        ("other-user", &["gcc", "setpriv"], other_user, false),
        ("stale", &["gcc"], stale, false),
    ];
    all.into_iter()
        .map(|(name, wants, run, needs_kernel)| Test {
            name: format!("kernel-functions::{name}"),
            wants: wants.to_vec(),
            open: is_forbidden().filter(|_| needs_kernel),
            run: Box::new(run),
        })
        .collect()
}

/// An instance of the kernel's tracing that's the test's.
pub(crate) struct Instance(PathBuf);

impl Instance {
    pub(crate) fn new(name: &str) -> Result<Self, String> {
        let tracefs = tracefs().ok_or("there's no tracefs")?;
        let folder = tracefs.join("instances").join(format!("test-{}-{name}", std::process::id()));
        std::fs::create_dir(&folder).map_err(|error| error.to_string())?;
        Ok(Self(folder))
    }

    pub(crate) fn set(&self, file: &str, value: &str) -> Result<(), String> {
        let mut options = std::fs::OpenOptions::new();
        let written = options
            .append(true)
            .open(self.0.join(file))
            .and_then(|mut file| file.write_all(format!("{value}\n").as_bytes()));
        written.map_err(|error| format!("{file}: {error}"))
    }

    pub(crate) fn get(&self, file: &str) -> Result<String, String> {
        std::fs::read_to_string(self.0.join(file)).map_err(|error| format!("{file}: {error}"))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.set("current_tracer", "nop");
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Why the kernel doesn't trace its functions for us, if so.
fn is_forbidden() -> Option<&'static str> {
    if testkit::elsewhere::folder().is_some_and(|folder| !folder.join("complete").exists()) {
        // Where it's asked which programs are wanted, the kernel is another one's.
        return None;
    }
    let Ok(instance) = Instance::new("probe") else {
        return Some("the kernel allows no instances of its tracing here");
    };
    let is_allowed = instance.set("set_ftrace_filter", "vfs_write").is_ok()
        && instance.set("current_tracer", "function").is_ok();
    (!is_allowed).then_some("the kernel doesn't allow tracing its functions here")
}

/// Does the kernel tell when its functions end?
fn has_ends() -> Result<bool, String> {
    let tracers = Instance::new("ends")?.get("available_tracers")?;
    Ok(tracers.split_whitespace().any(|tracer| tracer == "function_graph"))
}

fn tracer(trace: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    // Without calls of library functions between those of the program and of the kernel.
    command.args(["trace", "--plain"]).args(options).arg("-o").arg(trace).arg("--");
    command
}

/// The trace of the program with hooks.
fn traced(room: &Room, options: &[&str]) -> Result<PathBuf, String> {
    let program = room.compile("gcc", HOOKS, SOURCE)?;
    let trace = room.path("trace.mcount");
    let ended = room.run("traced", tracer(&trace, options).arg(&program).arg(TIMES.to_string()))?;
    // A kernel that tells of beginnings alone is one that's said so.
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let is_said = lines.iter().all(|line| line.contains("doesn't tell when its functions end"));
    if ended.code != 0 || !is_said || lines.is_empty() != has_ends()? {
        return Err(format!("{ended:?}"));
    }
    Ok(trace)
}

fn number(call: &Value, name: &str) -> Result<u64, String> {
    call[name].as_u64().ok_or_else(|| format!("{name}: {call}"))
}

/// How many functions of the kernel are called by which function and system call; each lies inside that one.
fn callers(calls: &[Value]) -> Result<BTreeMap<[String; 3], usize>, String> {
    let mut stacks: BTreeMap<u64, Vec<(String, u64, u64)>> = BTreeMap::new();
    let mut counts: BTreeMap<[String; 3], usize> = BTreeMap::new();
    for call in calls {
        let name = call["function"].as_str().ok_or("no function")?.to_owned();
        let stack = stacks.entry(number(call, "thread")?).or_default();
        stack.truncate(usize::try_from(number(call, "depth")?).unwrap_or(0));
        let start = number(call, "start_ns")?;
        let end = call["duration_ns"].as_u64().map_or(u64::MAX, |duration| start + duration);
        if name.starts_with("kernel:") {
            let (_, first, last) = stack.last().ok_or_else(|| format!("outside: {call}"))?;
            // Both are rounded.
            if start < *first || end.saturating_sub(1) > *last {
                return Err(format!("{call} isn't within {:?}", stack.last()));
            }
            let names = stack.iter().rev().map(|(name, ..)| name);
            let mut outer = names.skip_while(|name| name.starts_with("kernel:"));
            let of = [outer.next(), outer.next()].map(|name| name.cloned().unwrap_or_default());
            let [system, user] = of;
            if !system.starts_with("linux:") {
                return Err(format!("{call} is in {stack:?}"));
            }
            *counts.entry([user, system, name.clone()]).or_default() += 1;
        }
        stack.push((name, start, end));
    }
    Ok(counts)
}

/// Each system call calls what the kernel serves it with, once.
fn nested() -> Result<(), String> {
    let room = Room::new()?;
    let trace = traced(&room, &["--kernel", "vfs_*"])?;
    let counts = callers(&calls(&room, &trace, &[])?)?;
    let of = |names: [&str; 3]| counts.get(&names.map(str::to_owned)).copied().unwrap_or(0);
    let found = [
        of(["save", "linux:write", "kernel:vfs_write"]),
        of(["load", "linux:read", "kernel:vfs_read"]),
    ];
    let is_mixed = counts.keys().any(|[_, system, name]| {
        system == "linux:write" && name == "kernel:vfs_read"
            || system == "linux:read" && name == "kernel:vfs_write"
    });
    if found == [TIMES + 10, TIMES + 10] && !is_mixed {
        return Ok(());
    }
    Err(format!("{counts:?}"))
}

/// The same functions in the same order as the kernel has them in its own words.
fn as_the_kernel_prints() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O1"], SOURCE)?;
    let tracer_name = if has_ends()? { "function_graph" } else { "function" };
    let instance = Instance::new("oracle")?;
    let mut child = Command::new(&program)
        .args(["20", "go"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    instance.set("set_ftrace_pid", &child.id().to_string())?;
    instance.set("set_ftrace_filter", "vfs_*")?;
    instance.set("current_tracer", tracer_name)?;
    let go = child.stdin.take().ok_or("no input")?.write_all(b"x");
    go.map_err(|error| error.to_string())?;
    child.wait().map_err(|error| error.to_string())?;
    let text = instance.get("trace")?;
    let expected = printed(&text);
    let trace = room.path("trace.mcount");
    let mut child = tracer(&trace, &["--kernel", "vfs_*"])
        .arg(&program)
        .args(["20", "go"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let go = child.stdin.take().ok_or("no input")?.write_all(b"x");
    go.map_err(|error| error.to_string())?;
    child.wait().map_err(|error| error.to_string())?;
    let all = calls(&room, &trace, &[])?;
    let names = all.iter().filter_map(|call| call["function"].as_str()?.strip_prefix("kernel:"));
    let found: Vec<&str> = names.collect();
    // Before that, the program is executed.
    let first = found.len().saturating_sub(expected.len());
    if expected.len() >= 40 && found.get(first..) == Some(&expected[..]) {
        return Ok(());
    }
    Err(format!("{found:?}, by the kernel {expected:?}"))
}

/// The functions in the kernel's own text, in the order of their beginnings.
fn printed(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let name = |line: &'_ str| -> Option<usize> {
        line.find("vfs_").filter(|_| !line.trim_end().ends_with('}') && !line.contains("/* vfs_"))
    };
    let names = lines.filter_map(|line| line.get(name(line)?..));
    let is_name = |one: char| one.is_ascii_alphanumeric() || one == '_';
    names.map(|rest| rest.split(|one| !is_name(one)).next().unwrap_or_default()).collect()
}

/// `--kernel-depth` counts functions that are recorded, and `!` leaves some out.
fn depth() -> Result<(), String> {
    if !has_ends()? {
        testkit::trial::ignore("this kernel doesn't tell how deep functions are");
    }
    let room = Room::new()?;
    let patterns = ["--kernel", "ksys_*", "--kernel", "vfs_*", "--kernel", "!vfs_read"];
    let count = |options: &[&str]| -> Result<[usize; 4], String> {
        let trace = traced(&room, options)?;
        let counts = callers(&calls(&room, &trace, &[])?)?;
        let names = ["ksys_write", "vfs_write", "ksys_read", "vfs_read"];
        Ok(names.map(|name| {
            let name = format!("kernel:{name}");
            let of = counts.iter().filter(|([user, _, inner], _)| {
                ["save", "load"].contains(&&user[..]) && *inner == name
            });
            of.map(|(_, count)| count).sum()
        }))
    };
    let all = TIMES + 10;
    let found = [count(&patterns)?, count(&[&patterns[..], &["--kernel-depth", "1"]].concat())?];
    if found == [[all, all, all, 0], [all, 0, all, 0]] {
        return Ok(());
    }
    Err(format!("{found:?}"))
}

/// Each format has them.
fn formats() -> Result<(), String> {
    let room = Room::new()?;
    let trace = traced(&room, &["--kernel", "vfs_write"])?;
    let rows: [(&str, &[&str], &str); 6] = [
        ("text", &["replay"], "kernel:vfs_write()"),
        ("folded", &["replay", "--format", "folded"], ";save;linux:write;kernel:vfs_write "),
        ("chrome", &["replay", "--format", "chrome"], "\"kernel:vfs_write\""),
        ("csv", &["replay", "--format", "csv"], "kernel:vfs_write"),
        ("stats", &["stats", "--format", "csv"], "kernel:vfs_write"),
        ("graph", &["graph"], "kernel:vfs_write"),
    ];
    // Where they take no time, no flame graph has them.
    let rows = rows.into_iter().filter(|(name, ..)| *name != "folded" || has_ends() == Ok(true));
    for (name, arguments, expected) in rows {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        let printed = room.run(name, command.args(arguments).arg(&trace))?;
        if printed.code != 0 || !printed.stdout.contains(expected) {
            return Err(format!("{name}: {:.2000}", printed.stdout));
        }
    }
    Ok(())
}

/// A process that runs already.
fn attached() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, SOURCE)?;
    let mut child = Command::new(&program)
        .args(["20", "go"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut input = child.stdin.take().ok_or("no input")?;
    let mut output = child.stdout.take().ok_or("no output")?;
    let attached = Attached::start(&room, "attached", &["--kernel", "vfs_write"], child.id());
    let worked = input.write_all(b"xy").and_then(|()| output.read_exact(&mut [0; 2]));
    let stopped = attached.and_then(Attached::stop);
    drop(input);
    child.wait().map_err(|error| error.to_string())?;
    worked.map_err(|error| error.to_string())?;
    stopped?;
    let counts = callers(&calls(&room, &room.path("attached/trace.mcount"), &[])?)?;
    let names = ["save", "linux:write", "kernel:vfs_write"].map(str::to_owned);
    match counts.get(&names) {
        Some(40) => Ok(()),
        _ => Err(format!("{counts:?}")),
    }
}

/// The recorders' instances that there are, and that aren't those of processes that live.
fn left() -> Result<Vec<String>, String> {
    let folder = tracefs().ok_or("there's no tracefs")?.join("instances");
    let entries = std::fs::read_dir(folder).map_err(|error| error.to_string())?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_left = |name: &String| {
        let process = name.strip_prefix("mcount-").and_then(|rest| rest.split('-').next());
        process.is_some_and(|process| !Path::new("/proc").join(process).exists())
    };
    Ok(names.filter(is_left).collect())
}

/// The processes whose command lines have `word`, by number and name.
fn processes(word: &str) -> Result<Vec<(i32, String)>, String> {
    let entries = std::fs::read_dir("/proc").map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let Ok(process) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let get = |file: &str| {
            let mut bytes = Vec::new();
            let opened = std::fs::OpenOptions::new().read(true).open(entry.path().join(file));
            let _ = opened.and_then(|mut file| file.read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).into_owned()
        };
        if get("cmdline").contains(word) {
            found.push((process, get("comm").trim().to_owned()));
        }
    }
    Ok(found)
}

fn kill(process: i32) {
    if let Some(process) = Pid::from_raw(process) {
        let _ = kill_process(process, Signal::KILL);
    }
}

/// Whenever `mcount` is killed, its instance ends. If its guard is killed, too, the next `mcount` ends it.
fn killed() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, SOURCE)?;
    let mut random = Random::new();
    let seed = std::env::var("MCOUNT_SEED").ok().and_then(|seed| seed.parse::<usize>().ok());
    for _ in 0..seed.unwrap_or(0) {
        random.below(2);
    }
    let times = if std::env::var_os("MCOUNT_EVERY_CALL").is_some() { 50 } else { 6 };
    for time in 0..times {
        let trace = room.path(&format!("trace{time}.mcount"));
        let word = trace.display().to_string();
        let mut command = tracer(&trace, &["--max-size", "1M", "--kernel", "vfs_*"]);
        let mut child = command
            .arg(&program)
            .args(["100", "go"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        let input = child.stdin.take();
        std::thread::sleep(Duration::from_millis(random.below(400) as u64));
        let guards = || {
            let all = processes(&word)?;
            Ok::<_, String>(all.into_iter().filter(|(_, name)| name == "mcount-guard"))
        };
        let is_alone = time % 2 == 0;
        if !is_alone {
            for (process, _) in guards()? {
                kill(process);
            }
        }
        child.kill().map_err(|error| error.to_string())?;
        child.wait().map_err(|error| error.to_string())?;
        // The program goes on, and ends by itself.
        drop(input);
        let name = format!("mcount-{}-", child.id());
        let is_gone = || left().is_ok_and(|all| !all.iter().any(|one| one.starts_with(&name)));
        if is_alone {
            until("the guard ends the instance", is_gone)?;
        } else {
            let next = room.path("next.mcount");
            room.run("next", tracer(&next, &["--kernel", "vfs_*"]).arg(&program))?;
            if !is_gone() {
                return Err(format!("{:?} is left, {time}", left()?));
            }
        }
        until("the guard ends", || guards().is_ok_and(|mut all| all.next().is_none()))?;
    }
    Ok(())
}

/// What can't be done is said in one line, and nothing is run.
fn refused() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, SOURCE)?;
    let trace = room.path("trace.mcount");
    let wrong = ["vfs_write:traceoff", "5", "a b", "!", "", "no_such_function_*", "vfs_*;x"];
    for pattern in wrong {
        let ended = room.run("refused", tracer(&trace, &["--kernel", pattern]).arg(&program))?;
        let is_one_line = ended.stderr.lines().count() == 1;
        let says = ended.stderr.starts_with("mcount: kernel functions can't be recorded: ");
        if ended.code != 2 || !is_one_line || !says || trace.exists() {
            return Err(format!("{pattern:?}: {ended:?}"));
        }
    }
    Ok(())
}

/// Without privileges, one line says what to do.
fn other_user() -> Result<(), String> {
    const NOBODY: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, SOURCE)?;
    let folder = room.path("");
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&folder, all).map_err(|error| error.to_string())?;
    let mut allowed = Command::new("setpriv");
    allowed.args(NOBODY).arg(env!("CARGO_BIN_EXE_mcount")).arg("--version");
    if let Err(why) = testkit::process::run(&mut allowed) {
        testkit::trial::ignore(why);
    }
    let tracer = tracer(&folder.join("trace.mcount"), &["--kernel", "vfs_*"]);
    let mut command = Command::new("setpriv");
    command.args(NOBODY).arg(tracer.get_program()).args(tracer.get_args()).arg(&program);
    let ended = room.run("nobody", &mut command)?;
    let is_one_line = ended.stderr.lines().count() == 1;
    if ended.code == 2 && is_one_line && ended.stderr.contains("run mcount as root") {
        return Ok(());
    }
    Err(format!("{ended:?}"))
}

/// What a recorder that was killed has left is removed; what others have isn't.
fn stale() -> Result<(), String> {
    let Some(folder) = tracefs().map(|tracefs| tracefs.join("instances")) else {
        testkit::trial::ignore("there's no tracefs here");
    };
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, SOURCE)?;
    let own = std::process::id();
    let stat = String::from_utf8(testkit::files::read(Path::new("/proc/self/stat"))?);
    let stat = stat.map_err(|error| error.to_string())?;
    let began = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(19));
    let began = began.ok_or("no start")?;
    // Its number is another process's now, and it's ours, and another program's.
    let names = [
        (format!("mcount-{own}-1"), false),
        (format!("mcount-{own}-{began}"), true),
        (format!("mcount-mine-{own}"), true),
    ];
    for (name, _) in &names {
        if let Err(error) = std::fs::create_dir(folder.join(name)) {
            testkit::trial::ignore(format!("instances: {error}"));
        }
    }
    let trace = room.path("trace.mcount");
    let run = room.run("next", tracer(&trace, &["--kernel", "vfs_*"]).arg(&program));
    let found = names.each_ref().map(|(name, _)| folder.join(name).exists());
    for (name, _) in &names {
        let _ = std::fs::remove_dir(folder.join(name));
    }
    let ended = run?;
    if found == names.each_ref().map(|(_, stays)| *stays) {
        return Ok(());
    }
    Err(format!("{found:?}, {ended:?}"))
}
