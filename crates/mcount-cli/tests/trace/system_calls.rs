//! `--system-calls`, held against `strace`: the same calls of each thread, in the same order, with the same results and arguments, as far
//! as these are the same in two runs.

use crate::Test;
use crate::attach::Attached;
use crate::truth::Room;
use nix::libc;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use testkit::served::Served;

/// What a test does.
type Check = fn() -> Result<(), String>;

pub(crate) const SOURCE: &str = "system-calls.c";

/// Programs of the system, which have no hooks.
const PROGRAMS: [(&str, &[&str]); 3] = [
    ("ls", &["-l", "/usr/share"]),
    ("sqlite3", &[":memory:", "create table a(b); insert into a values(1); select * from a"]),
    ("sh", &["-c", "/bin/true; cd /; (exit 3); ls > /dev/null"]),
];

pub(crate) fn tests() -> Vec<Test> {
    let of_system = PROGRAMS.iter().map(|(program, arguments)| Test {
        name: format!("system-calls::as-strace::{program}"),
        wants: vec!["strace", program],
        open: is_forbidden(),
        run: Box::new(move || as_strace(Path::new(program), arguments, *program == "sh")),
    });
    // Where there are hooks, the agent is loaded, and makes calls of its own.
    let own =
        [("own", "-O1"), ("hooked", "-fpatchable-function-entry=5")].map(|(name, flag)| Test {
            name: format!("system-calls::as-strace::{name}"),
            wants: vec!["gcc", "strace"],
            open: is_forbidden(),
            run: Box::new(move || {
                as_strace(&Room::new()?.compile("gcc", &["-O1", flag], SOURCE)?, &[], false)
            }),
        });
    let others: [(&str, Check, bool); 7] = [
        ("nested", nested, false),
        ("failed", failed, false),
        ("busy", busy, false),
        ("moved", moved, false),
        ("attach", attached, false),
        ("forbidden", forbidden, true),
        ("formats", formats, false),
    ];
    let others = others.map(|(name, run, is_always)| Test {
        name: format!("system-calls::{name}"),
        wants: vec!["gcc"],
        open: is_forbidden().filter(|_| !is_always),
        run: Box::new(run),
    });
    of_system.chain(own).chain(others).collect()
}

/// Why the kernel tells nothing of system calls here, if so.
pub(crate) fn is_forbidden() -> Option<&'static str> {
    if testkit::elsewhere::folder().is_some() {
        // Where it's asked which programs are wanted, the kernel is another one's.
        return None;
    }
    let id = tracefs().and_then(|folder| {
        let path = folder.join("events/raw_syscalls/sys_enter/id");
        std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
    });
    let Some(id) = id else { return Some("tracefs can't be mounted, or can't be read") };
    // `struct perf_event_attr`: type (a tracepoint) and size, config, period, what is in a sample (its bytes).
    let mut attributes = [0_u64; 17];
    attributes[0] = 2 | 136 << 32;
    attributes[1] = id;
    attributes[2] = 1;
    attributes[3] = 1 << 10;
    // SAFETY: the attributes are as long as they say.
    let result =
        unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, 0, -1, -1, 0) };
    if result < 0 {
        return Some("perf_event_open allows no tracepoints here");
    }
    // SAFETY: the descriptor is ours.
    unsafe { libc::close(i32::try_from(result).unwrap_or(-1)) };
    None
}

/// The folder of tracefs, also where it isn't mounted.
pub(crate) fn tracefs() -> Option<PathBuf> {
    static MOUNTED: OnceLock<Option<OwnedFd>> = OnceLock::new();
    let folders = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(PathBuf::from);
    let known = folders.into_iter().find(|folder| folder.join("events").exists());
    known.or_else(|| {
        let mount = MOUNTED.get_or_init(|| {
            let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
            fsconfig_create(&context).ok()?;
            fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty()).ok()
        });
        mount.as_ref().map(|mount| PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd())))
    })
}

/// A system call: its name, arguments and result. Addresses are `address`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    name: String,
    arguments: Vec<String>,
    result: String,
}

impl Call {
    /// Is this its first argument?
    fn has(&self, first: &str) -> bool {
        self.arguments.first().is_some_and(|one| one == first)
    }
}

/// What is at this place of a call, or nothing.
pub(crate) fn at<'v>(call: &'v Value, path: &str) -> &'v Value {
    call.pointer(path).unwrap_or(&Value::Null)
}

/// Is it one that isn't in the same place in each run: other threads, time, and what the C library finds free?
fn varies(name: &str) -> bool {
    matches!(name, "futex" | "restart_syscall")
}

/// The calls of `program` by `mcount` and by `strace`, thread by thread. If it handles the signal that a child has ended, the handler
/// runs before or after the call that waits for that.
fn as_strace(program: &Path, arguments: &[&str], handles_ends: bool) -> Result<(), String> {
    let room = Room::new()?;
    let log = room.path("log");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-s", "0", "-o"]).arg(&log).arg(program).args(arguments);
    let expected_end = room.run("strace", &mut strace)?;
    let trace = room.path("trace.mcount");
    let ended = room.run("mcount", tracer(&trace, &[]).arg(program).args(arguments))?;
    if ended.code != expected_end.code || !ended.stderr.is_empty() {
        return Err(format!("{ended:?} and {expected_end:?}"));
    }
    let text = testkit::files::read(&log)?;
    let expected = by_strace(&String::from_utf8_lossy(&text))?;
    let found = by_mcount(&calls(&room, &trace, &[])?)?;
    if !handles_ends {
        return same(&found, &expected);
    }
    let [(found, handled), (expected, by_strace)] = [found, expected].map(without_handlers);
    if handled != by_strace {
        return Err(format!("signals of each thread: {handled:?}, by strace {by_strace:?}"));
    }
    same(&found, &expected)
}

/// The calls of each thread without the ends of signal handlers, and how many of these there are.
fn without_handlers(threads: Vec<Vec<Call>>) -> (Vec<Vec<Call>>, Vec<usize>) {
    let of_thread = |calls: Vec<Call>| {
        let (ends, others): (Vec<_>, Vec<_>) =
            calls.into_iter().partition(|call| call.name == "rt_sigreturn");
        (others, ends.len())
    };
    threads.into_iter().map(of_thread).unzip()
}

/// Compares the calls of all threads.
fn same(found: &[Vec<Call>], expected: &[Vec<Call>]) -> Result<(), String> {
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let [found, expected] = [found, expected]
            .map(|calls| calls.iter().filter(|call| !varies(&call.name)).collect::<Vec<_>>());
        for (number, (one, other)) in found.iter().zip(&expected).enumerate() {
            if !is_same(one, other) {
                return Err(format!("thread {at}, call {number}: {one:?}, by strace {other:?}"));
            }
        }
        if found.len() != expected.len() {
            let last = found.last();
            return Err(format!("thread {at}: {} of {}, {last:?}", found.len(), expected.len()));
        }
    }
    match (found.len(), expected.len()) {
        (found, expected) if found == expected && found > 0 => Ok(()),
        (found, expected) => Err(format!("{found} threads, by strace {expected}")),
    }
}

fn is_same(one: &Call, other: &Call) -> bool {
    let are_alike =
        one.arguments.iter().zip(&other.arguments).all(|(one, other)| alike(one, other));
    one.name == other.name && are_alike && alike(&one.result, &other.result)
}

/// Are both the same, as far as that can be?
fn alike(one: &str, other: &str) -> bool {
    // What is in memory, and what strace finds out by itself.
    let is_unknown = |text: &str| {
        text == "address"
            || text.contains(['"', '{', '[', '='])
            || text.ends_with("_OK")
            || text.starts_with("0x7f")
            || text.starts_with("0x5")
    };
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => i128::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    // Process IDs differ.
    let is_id = |number: i128| (300..=4_194_304).contains(&number);
    match (number(one), number(other)) {
        (Some(one), Some(other)) => one == other || is_id(one) && is_id(other),
        // strace has names for more numbers.
        (Some(_), None) if is_name(other) => true,
        _ => {
            let [one, other] = [one, other].map(|text| text.replace("AT_STATX_SYNC_AS_STAT|", ""));
            is_unknown(&one) || is_unknown(&other) || one == other || is_octal(&other)
        }
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|one: char| one.is_ascii_uppercase())
        && text
            .chars()
            .all(|one| one.is_ascii_uppercase() || one.is_ascii_digit() || "_|".contains(one))
}

/// A mode of a file, or what strace has in words that aren't told: `F_OK`, `SIGCHLD` and the like of structures.
fn is_octal(text: &str) -> bool {
    text.starts_with('0') && text.len() > 1
}

/// What `strace -f` wrote: the calls of each thread, in the order of their first ones.
fn by_strace(text: &str) -> Result<Vec<Vec<Call>>, String> {
    let mut threads: Vec<(String, Vec<Call>)> = Vec::new();
    let mut open: BTreeMap<String, String> = BTreeMap::new();
    for line in text.lines() {
        let (id, rest) = line.split_once(' ').ok_or(line)?;
        let rest = rest.trim_start();
        if rest.starts_with("+++") || rest.starts_with("---") {
            continue;
        }
        let whole = if let Some((begin, _)) = rest.split_once(" <unfinished ...>") {
            open.insert(id.to_owned(), begin.to_owned());
            if !threads.iter().any(|(known, _)| known == id) {
                threads.push((id.to_owned(), Vec::new()));
            }
            continue;
        } else if let Some((_, end)) = rest.split_once(" resumed>") {
            format!("{}{end}", open.remove(id).ok_or(line)?)
        } else {
            rest.to_owned()
        };
        let call = strace_call(&whole).ok_or_else(|| line.to_owned())?;
        match threads.iter_mut().find(|(known, _)| known == id) {
            Some((_, calls)) => calls.push(call),
            None => threads.push((id.to_owned(), vec![call])),
        }
    }
    Ok(threads.into_iter().map(|(_, calls)| calls).collect())
}

/// A call as `strace` prints it: `name(a, b) = result (text)`.
fn strace_call(text: &str) -> Option<Call> {
    let (call, result) = text.rsplit_once(" = ")?;
    let (name, arguments) = call.trim_end().split_once('(')?;
    let arguments = arguments.strip_suffix(')')?;
    let mut found = vec![String::new()];
    let mut depth = 0_i32;
    let mut is_text = false;
    for one in arguments.chars() {
        match one {
            '"' => is_text = !is_text,
            '{' | '[' | '(' if !is_text => depth += 1,
            '}' | ']' | ')' if !is_text => depth -= 1,
            ',' if !is_text && depth == 0 => {
                found.push(String::new());
                continue;
            }
            _ => {}
        }
        found.last_mut()?.push(one);
    }
    let arguments = found.iter().map(|one| one.trim().to_owned()).collect();
    let result = result.split(" (").next().unwrap_or(result).trim().to_owned();
    Some(Call { name: name.to_owned(), arguments, result })
}

/// The same of what `mcount replay` prints.
fn by_mcount(calls: &[Value]) -> Result<Vec<Vec<Call>>, String> {
    let mut threads: Vec<((u64, u64), Vec<Call>)> = Vec::new();
    for call in calls {
        let Some(found) = mcount_call(call) else { continue };
        let field = |name: &str| call[name].as_u64().ok_or_else(|| format!("{name}: {call}"));
        let id = (field("process")?, field("thread")?);
        match threads.iter_mut().find(|(known, _)| *known == id) {
            Some((_, calls)) => calls.push(found),
            None => threads.push((id, vec![found])),
        }
    }
    Ok(threads.into_iter().map(|(_, calls)| calls).collect())
}

fn mcount_call(call: &Value) -> Option<Call> {
    let name = call["function"].as_str()?.strip_prefix("linux:")?;
    if name.starts_with("schedule") && !name.starts_with("schedule_") {
        return None;
    }
    let text = |value: &Value| match &value["value"] {
        Value::String(text) if text == "0x0" => "NULL".to_owned(),
        Value::String(text) if text.starts_with("0x") && !text.contains('|') => {
            "address".to_owned()
        }
        Value::String(text) => text.clone(),
        Value::Null => "?".to_owned(),
        other => other.to_string(),
    };
    let arguments = call["arguments"].as_array().map(Vec::as_slice).unwrap_or_default();
    Some(Call {
        name: name.to_owned(),
        arguments: arguments.iter().map(text).collect(),
        result: if call["result"].is_null() { "?".to_owned() } else { text(&call["result"]) },
    })
}

/// The calls of a trace, in the order of starts.
pub(crate) fn calls(room: &Room, trace: &Path, options: &[&str]) -> Result<Vec<Value>, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["replay", "--format", "jsonl"]).args(options).arg(trace);
    let printed = room.run("replayed", &mut command)?;
    let text = printed.stdout;
    text.lines().map(|line| serde_json::from_str(line).map_err(|error| error.to_string())).collect()
}

pub(crate) fn tracer(trace: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["trace", "--system-calls"]).args(options).arg("-o").arg(trace).arg("--");
    command
}

/// The program with hooks, traced.
fn hooked(room: &Room) -> Result<PathBuf, String> {
    let program = room.compile("gcc", &["-O1", "-fpatchable-function-entry=5"], SOURCE)?;
    let trace = room.path("trace.mcount");
    let ended = room.run("traced", tracer(&trace, &[]).arg(&program))?;
    match ended.code {
        7 if ended.stderr.is_empty() => Ok(trace),
        _ => Err(format!("{ended:?}")),
    }
}

/// Each call is within the function that made it, and time off the processor within both.
fn nested() -> Result<(), String> {
    let room = Room::new()?;
    let trace = hooked(&room)?;
    let mut stacks: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let all = calls(&room, &trace, &[])?;
    for call in &all {
        let field = |name: &str| call[name].as_u64().ok_or_else(|| format!("{name}: {call}"));
        let name = call["function"].as_str().ok_or("no function")?.to_owned();
        let stack = stacks.entry(field("thread")?).or_default();
        stack.truncate(usize::try_from(field("depth")?).unwrap_or(0));
        let within = |outer: &str| stack.iter().any(|one| one == outer);
        let is_text = at(call, "/arguments/2/value").as_u64().is_some_and(|count| count <= 6);
        let known = [
            ("linux:write", "save", is_text && !within("handler")),
            ("linux:getppid", "thread", true),
            ("linux:read", "load", *at(call, "/arguments/2/value") == 64),
            ("linux:schedule", "linux:read", within("linux:read")),
            ("linux:setitimer", "interrupted", true),
        ];
        for (inner, outer, _) in known.iter().filter(|(inner, _, is_it)| name == *inner && *is_it) {
            if !within(outer) {
                return Err(format!("{call} is in {stack:?}"));
            }
            *counts.entry(inner).or_default() += 1;
        }
        if name.starts_with("linux:") && !name.starts_with("linux:schedule") {
            let inner = stack.iter().any(|outer| outer.starts_with("linux:"));
            if inner {
                return Err(format!("{call} is in {stack:?}"));
            }
        }
        stack.push(name);
    }
    let of = |name: &str| counts.get(name).copied().unwrap_or(0);
    // `interrupted` may be a part of `main`, which wasn't seen here.
    let found = ["linux:write", "linux:getppid"].map(of);
    // Six and two by the first process, two by the second.
    if found == [10, 50] && of("linux:read") >= 5 && of("linux:schedule") >= 2 {
        return Ok(());
    }
    Err(format!("{counts:?}"))
}

/// `--failed` shows those that returned an error.
fn failed() -> Result<(), String> {
    let room = Room::new()?;
    let trace = hooked(&room)?;
    let is_error = |call: &Value| {
        let text = at(call, "/result/value").as_str();
        text.is_some_and(|text| text.starts_with("-1 E") || text.starts_with("? E"))
    };
    let expected: Vec<Value> = calls(&room, &trace, &[])?.into_iter().filter(is_error).collect();
    let found = calls(&room, &trace, &["--failed"])?;
    let names = |calls: &[Value]| -> Vec<String> {
        calls
            .iter()
            .map(|call| format!("{} {}", call["function"], at(call, "/result/value")))
            .collect()
    };
    let all = names(&found);
    let known = ["\"linux:write\" \"-1 EBADF\"", "\"linux:lseek\" \"-1 ESPIPE\""];
    if all != names(&expected) || !known.iter().all(|one| all.iter().any(|found| found == one)) {
        return Err(format!("{all:?}, of {:?}", names(&expected)));
    }
    // The number is negative, which JSON's readers have to be able to hold.
    let numbers = found.iter().filter(|call| call["function"] == "linux:write");
    let numbers: Vec<_> = numbers.map(|call| at(call, "/result/number").as_i64()).collect();
    let bad_file = -i64::from(libc::EBADF);
    if numbers.contains(&Some(bad_file)) { Ok(()) } else { Err(format!("{numbers:?}")) }
}

/// A program that does nothing but system calls: they're all there, or the trace says what is missing.
fn busy() -> Result<(), String> {
    const COUNT: usize = 200_000;
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O1"], "busy-calls.c")?;
    let trace = room.path("trace.mcount");
    let mut command = tracer(&trace, &["--max-size", "64M"]);
    let ended = room.run("traced", command.arg(&program).arg(COUNT.to_string()))?;
    let calls = calls(&room, &trace, &[])?;
    let found = calls.iter().filter(|call| call["function"] == "linux:getppid").count();
    let is_said = ended.stderr.contains("too fast") || ended.stderr.contains("no room");
    match (found.cmp(&COUNT), is_said) {
        (std::cmp::Ordering::Equal, _) | (std::cmp::Ordering::Less, true) => Ok(()),
        _ => Err(format!("{found} of {COUNT}, {ended:?}")),
    }
}

/// Threads do the same again and again, on one processor and another. The kernel moves its counters between threads meanwhile.
fn moved() -> Result<(), String> {
    const COUNT: usize = 10_000;
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O1", "-pthread"], "moved.c")?;
    let trace = room.path("trace.mcount");
    let event = ["--events", "syscalls:sys_exit_nanosleep"];
    for (options, name) in
        [(&[][..], "linux:nanosleep"), (&event, "linux:nanosleep"), (&event, "sys_exit_nanosleep")]
    {
        let mut command = tracer(&trace, &[&["--plain"], options].concat());
        let ended = room.run("traced", command.arg(&program).arg(COUNT.to_string()))?;
        let expected: usize = ended.stdout.trim().parse().map_err(|_| format!("{ended:?}"))?;
        let of_name = |call: &&Value| {
            call["function"].as_str().is_some_and(|function| function.ends_with(name))
        };
        let found = calls(&room, &trace, &[])?.iter().filter(of_name).count();
        if found != expected {
            return Err(format!("{name}: {found} of {expected}, {ended:?}"));
        }
    }
    Ok(())
}

/// A process that runs already.
fn attached() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", "-fpatchable-function-entry=5"], "served.c")?;
    let mut served = Served::start(&program)?;
    let attached = Attached::start(&room, "attached", &["--system-calls"], served.id())?;
    served.work()?;
    attached.stop()?;
    served.end()?;
    let calls = calls(&room, &room.path("attached/trace.mcount"), &[])?;
    let calls = calls.iter().filter_map(mcount_call).collect::<Vec<_>>();
    // It writes what it counted to its standard output, and waits for more input.
    let wrote = calls.iter().filter(|call| call.name == "write" && call.has("1"));
    let is_waiting = calls.iter().any(|call| call.name == "read" && call.has("0"));
    // No call of the agent's or of the recorder's.
    let strange = ["openat", "gettid", "tkill", "tgkill"];
    let strange = calls.iter().find(|call| strange.contains(&call.name.as_str()));
    match (wrote.count(), is_waiting, strange) {
        (1.., true, None) => Ok(()),
        (wrote, ..) => Err(format!("{wrote}, {is_waiting}, {strange:?}: {calls:?}")),
    }
}

/// Where the kernel doesn't tell, nothing is run.
fn forbidden() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O1"], SOURCE)?;
    let forbidding = room.compile("gcc", &["-O2"], "no-perf.c")?;
    let trace = room.path("trace.mcount");
    let tracer = tracer(&trace, &[]);
    let mut command = Command::new(forbidding);
    command.arg(tracer.get_program()).args(tracer.get_args()).arg(&program);
    let ended = room.run("traced", &mut command)?;
    let is_one_line = ended.stderr.lines().count() == 1;
    let says = ended.stderr.starts_with("mcount: system calls can't be recorded: ");
    if ended.code == 2 && is_one_line && says && !trace.exists() {
        return Ok(());
    }
    Err(format!("{ended:?}"))
}

/// Each format has them.
fn formats() -> Result<(), String> {
    let room = Room::new()?;
    let trace = hooked(&room)?;
    let rows: [(&str, &[&str], &str); 6] = [
        ("text", &["replay"], "linux:write(4, 0x"),
        ("errors", &["replay", "--failed"], " = -1 EBADF;"),
        ("folded", &["replay", "--format", "folded"], ";save;linux:write "),
        ("chrome", &["replay", "--format", "chrome"], "\"linux:write\""),
        ("stats", &["stats", "--format", "csv"], "linux:write"),
        ("graph", &["graph"], "linux:execve"),
    ];
    for (name, arguments, expected) in rows {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        let printed = room.run(name, command.args(arguments).arg(&trace))?;
        if !printed.stdout.contains(expected) {
            return Err(format!("{name}: {:.2000}", printed.stdout));
        }
    }
    Ok(())
}
