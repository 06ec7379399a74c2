//! `--events`, held against the kernel's own text of the same events in the same run, and against what the program knows: which pages it
//! touches, and which of its threads wakes which.

use crate::Test;
use crate::attach::Attached;
use crate::kernel_functions::Instance;
use crate::system_calls::{calls, is_forbidden};
use crate::truth::Room;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use testkit::served::Served;

/// What a test does.
type Check = fn() -> Result<(), String>;

const SOURCE: &str = "events.c";

/// How often the program's threads wake each other.
const ROUNDS: usize = 100;

/// Events of which the kernel's text has all fields, or nearly all.
const EVENTS: [&str; 8] = [
    "sched:sched_waking",
    "sched:sched_switch",
    "sched:sched_process_fork",
    "sched:sched_process_exec",
    "sched:sched_process_exit",
    "signal:signal_generate",
    "task:task_rename",
    "sched:sched_wakeup_new",
];

pub(crate) fn tests() -> Vec<Test> {
    // With names, and whether they need a kernel that allows it.
    let all: [(&str, Check, bool); 9] = [
        ("as-the-kernel-prints", as_the_kernel_prints, true),
        ("page-faults", page_faults, true),
        ("wakers", wakers, true),
        ("arrows", arrows, true),
        ("formats", formats, true),
        ("attach", attached, true),
        ("max-size", max_size, true),
        ("unknown", unknown, true),
        ("forbidden", forbidden, false),
    ];
    all.into_iter()
        .map(|(name, run, needs_kernel)| Test {
            name: format!("events::{name}"),
            wants: if name == "arrows" { vec!["gcc", "protoc"] } else { vec!["gcc"] },
            open: is_forbidden().filter(|_| needs_kernel),
            run: Box::new(run),
        })
        .collect()
}

fn tracer(trace: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["trace", "--plain"]).args(options).arg("-o").arg(trace).arg("--");
    command
}

/// Runs the program, which has no hooks; what it said, and the trace's calls.
fn traced(room: &Room, options: &[&str]) -> Result<(String, Vec<Value>), String> {
    let program = room.compile("gcc", &["-O1", "-pthread"], SOURCE)?;
    let trace = room.path("trace.mcount");
    let ended =
        room.run("traced", tracer(&trace, options).arg(&program).arg(ROUNDS.to_string()))?;
    if ended.code != 3 || !ended.stderr.is_empty() {
        return Err(format!("{ended:?}"));
    }
    Ok((ended.stdout, calls(room, &trace, &[])?))
}

/// The words behind this one of a line that the program said.
fn said<'s>(text: &'s str, first: &str) -> Result<Vec<&'s str>, String> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let line = lines.find(|(word, _)| *word == first).ok_or_else(|| text.to_owned())?;
    Ok(line.1.split(' ').collect())
}

fn number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x");
    let number = digits.map_or_else(|| text.parse(), |digits| u64::from_str_radix(digits, 16));
    number.map_err(|_| format!("{text}: no number"))
}

/// A field of an event, as text.
fn field(call: &Value, name: &str) -> Option<String> {
    let all = call["arguments"].as_array()?;
    let one = all.iter().find(|one| one["name"] == name)?;
    Some(match &one["value"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

fn name_of(call: &Value) -> &str {
    call["function"].as_str().unwrap_or_default()
}

/// The calls of this name.
fn named<'c>(all: &'c [Value], name: &str) -> Vec<&'c Value> {
    all.iter().filter(|call| call["function"] == name).collect()
}

/// An event as the kernel prints it: its thread, its name, and its fields.
struct Printed {
    thread: u64,
    name: String,
    fields: Vec<(String, String)>,
}

/// A line of the file `trace`: `comm-thread [processor] flags time: name: field=value field=value`.
fn printed(line: &str) -> Option<Printed> {
    let (head, rest) = line.split_once(" [")?;
    let thread = head.rsplit('-').next()?.trim().parse().ok()?;
    let (_, rest) = rest.split_once(": ")?;
    let (name, rest) = rest.split_once(": ").or_else(|| rest.split_once(' '))?;
    // A text can have spaces: the word before the next `=` is a name.
    let mut fields: Vec<(String, String)> = Vec::new();
    for word in rest.split_whitespace() {
        match word.split_once('=') {
            Some((name, value)) => fields.push((name.to_owned(), value.to_owned())),
            None => {
                if let Some((_, value)) = fields.last_mut() {
                    *value = format!("{value} {word}");
                }
            }
        }
    }
    Some(Printed { thread, name: name.to_owned(), fields })
}

/// Is it what the kernel prints? Some numbers it prints as text, or with what it knows of them.
fn is_same(ours: &str, kernels: &str) -> bool {
    let is_text =
        number(ours).is_ok() && number(kernels).is_err() && kernels.parse::<i64>().is_err();
    ours == kernels
        || is_text
        || number(ours).is_ok_and(|one| number(kernels) == Ok(one))
        || ours == "true" && kernels == "1"
        || ours == "false" && kernels == "0"
}

/// Each event of the program's threads is in both, in the same order, with the same fields.
fn as_the_kernel_prints() -> Result<(), String> {
    let instance = Instance::new("events")?;
    instance.set("buffer_size_kb", "4096")?;
    instance.set("trace_clock", "mono_raw")?;
    for pattern in EVENTS {
        instance.set("set_event", pattern)?;
    }
    let room = Room::new()?;
    let options: Vec<&str> = EVENTS.iter().flat_map(|pattern| ["--events", pattern]).collect();
    let (_, calls) = traced(&room, &options)?;
    let text = instance.get("trace")?;
    instance.set("set_event", "")?;
    let mut expected: BTreeMap<u64, Vec<Printed>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(one) = printed(line) {
            expected.entry(one.thread).or_default().push(one);
        }
    }
    let mut found: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
    for call in calls.iter().filter(|call| !call["mark"].is_null()) {
        found.entry(call["thread"].as_u64().unwrap_or(0)).or_default().push(call);
    }
    let (mut events, mut fields) = (0, 0);
    for (thread, found) in &found {
        let expected = expected.get(thread).map(Vec::as_slice).unwrap_or_default();
        // What the thread did before it executed the program isn't the program's.
        let is_start = |name: &str| name.ends_with("sched_process_exec");
        let begin = expected.iter().position(|one| is_start(&one.name)).unwrap_or(0);
        let own = found.iter().position(|one| is_start(name_of(one))).unwrap_or(0);
        let expected = expected.get(begin..).unwrap_or_default();
        let found = found.get(own..).unwrap_or_default();
        for (one, other) in found.iter().zip(expected) {
            if name_of(one).split(':').nth(1) != Some(&other.name) {
                return Err(format!("thread {thread}: {one}, printed {}", other.name));
            }
            events += 1;
            for (name, value) in &other.fields {
                let Some(ours) = field(one, name) else { continue };
                if !is_same(&ours, value) {
                    return Err(format!("{one}: {name}={value} by the kernel"));
                }
                fields += 1;
            }
        }
        // The kernel ends the counters of a thread while that is ending.
        let rest = expected.get(found.len()..);
        let has_ended = expected.iter().position(|one| one.name == "sched_process_exit");
        let is_whole = has_ended.is_some_and(|ended| found.len() > ended);
        if own > 4 || rest.is_none() || !is_whole {
            return Err(format!("thread {thread}: {own}, {} of {}", found.len(), expected.len()));
        }
    }
    let names: BTreeSet<&str> = calls.iter().filter_map(|call| call["function"].as_str()).collect();
    if found.len() == 3 && events > 3 * ROUNDS && fields > events && names.len() == EVENTS.len() {
        return Ok(());
    }
    Err(format!("{} threads, {events} events, {fields} fields: {names:?}", found.len()))
}

/// Each page that the program touches is there once, in its order, and no more faults than the kernel counts.
fn page_faults() -> Result<(), String> {
    let room = Room::new()?;
    let (text, calls) = traced(&room, &["--events", "page-faults"])?;
    let words = said(&text, "pages")?;
    let [first, count, size] = words.as_slice() else { return Err(text) };
    let (first, count, size) = (number(first)?, number(count)?, number(size)?);
    let faults = named(&calls, "page-faults");
    let addresses = faults.iter().filter_map(|call| number(&field(call, "address")?).ok());
    let found: Vec<u64> =
        addresses.filter(|at| (first..first + count * size).contains(at)).collect();
    let expected: Vec<u64> = (0..count).map(|page| first + page * size).collect();
    // All threads of the process count, and not the child.
    let most = number(said(&text, "faults")?.first().ok_or("no faults")?)?;
    let process = said(&text, "ping")?.first().map_or(Ok(0), |text| number(text))?;
    let own = faults.iter().filter(|call| call["process"] == process).count() as u64;
    if found == expected && own <= most + 64 && own >= count && most <= own + 64 {
        return Ok(());
    }
    Err(format!("{own} faults, the kernel counts {most}; {found:x?}, expected {expected:x?}"))
}

/// A thread that waits for a byte is woken by the one that writes it.
fn wakers() -> Result<(), String> {
    let room = Room::new()?;
    let (text, calls) = traced(&room, &["--context-switches", "--system-calls"])?;
    let id = |name: &str| said(&text, name)?.first().map_or(Ok(0), |text| number(text));
    let others: BTreeMap<u64, u64> =
        [(id("ping")?, id("pong")?), (id("pong")?, id("ping")?)].into();
    let mut stacks: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    let mut woken = 0;
    for call in &calls {
        let thread = call["thread"].as_u64().unwrap_or(0);
        let depth = call["depth"].as_u64().and_then(|depth| usize::try_from(depth).ok());
        let stack = stacks.entry(thread).or_default();
        stack.truncate(depth.unwrap_or(0));
        let name = call["function"].as_str().unwrap_or_default();
        let by = call.pointer("/arguments/0/value/thread").and_then(Value::as_u64);
        if name == "linux:schedule" && stack.contains(&"linux:read") {
            // At its end, nobody writes.
            let is_other = by.is_some() && by == others.get(&thread).copied();
            let late = call.pointer("/arguments/0/value/late_ns").and_then(Value::as_u64);
            let is_within =
                late.is_some() && late <= call["duration_ns"].as_u64().map(|ns| ns + 100_000);
            if !is_other || !is_within {
                return Err(format!("{call}: woken by another one than {others:?}"));
            }
            woken += 1;
        }
        stack.push(name);
    }
    if woken >= ROUNDS { Ok(()) } else { Err(format!("{woken} of {ROUNDS}")) }
}

/// Perfetto and the page have an arrow for each time that a thread of the program woke another one: from that thread, then.
fn arrows() -> Result<(), String> {
    let room = Room::new()?;
    let (text, calls) = traced(&room, &["--context-switches", "--system-calls"])?;
    let threads =
        ["ping", "pong"].map(|name| said(&text, name)?.first().map_or(Ok(0), |one| number(one)));
    let threads = [threads[0].clone()?, threads[1].clone()?];
    let woken = |call: &&Value| {
        let by = call.pointer("/arguments/0/value/thread").and_then(Value::as_u64);
        call["function"] == "linux:schedule" && by.is_some_and(|by| threads.contains(&by))
    };
    let expected: Vec<&Value> = calls.iter().filter(woken).collect();
    let mut command = Command::new("sh");
    let script = "cd \"$1\" && \"$0\" replay --format perfetto trace.mcount > trace.perfetto && \
        protoc --decode_raw < trace.perfetto && \"$0\" report -o page.html trace.mcount";
    command.args(["-c", script, env!("CARGO_BIN_EXE_mcount")]).arg(room.path("."));
    let decoded = room.run("decoded", &mut command)?;
    // `flow_ids` and `terminating_flow_ids` of a `TrackEvent`, each number once.
    let of = |field: &str| -> BTreeSet<String> {
        let lines = decoded.stdout.lines().map(str::trim);
        lines.filter_map(|line| line.strip_prefix(field)).map(str::to_owned).collect()
    };
    let (begun, ended) = (of("47: "), of("48: "));
    let page = testkit::files::read(&room.path("page.html"))?;
    let page = String::from_utf8_lossy(&page);
    let (_, data) = page.split_once("\"arrows\":").ok_or("no arrows on the page")?;
    let mut values = serde_json::Deserializer::from_str(data).into_iter::<Value>();
    let drawn = values.next().and_then(Result::ok).unwrap_or_default();
    let drawn = drawn.as_array().cloned().unwrap_or_default();
    let in_order = |arrow: &Value| {
        let [from, to] = ["/0/1", "/1/1"].map(|at| arrow.pointer(at).and_then(Value::as_u64));
        from.is_some() && from <= to && arrow.pointer("/0/0") != arrow.pointer("/1/0")
    };
    let counts = [begun.len(), ended.len(), drawn.len(), expected.len()];
    let is_whole = begun == ended && drawn.iter().all(in_order);
    if is_whole && counts.iter().all(|count| *count == expected.len()) && expected.len() >= ROUNDS {
        return Ok(());
    }
    Err(format!("{counts:?}, {begun:?}, {ended:?}, {drawn:.2000?}"))
}

/// Each format has them.
fn formats() -> Result<(), String> {
    let room = Room::new()?;
    traced(&room, &["--events", "signal_generate", "--context-switches"])?;
    let trace = room.path("trace.mcount");
    let rows: [(&str, &[&str], &str); 6] = [
        (
            "text",
            &["replay"],
            "/* signal:signal_generate(sig=10, errno=0, code=-6, comm=\"events\", pid=",
        ),
        ("switch", &["replay"], "linux:schedule({process="),
        ("csv", &["replay", "--format", "csv"], "signal:signal_generate"),
        (
            "chrome",
            &["replay", "--format", "chrome"],
            "\"cat\":\"mark\",\"name\":\"signal:signal_generate\"",
        ),
        ("firefox", &["replay", "--format", "firefox"], "signal:signal_generate(sig=10"),
        ("stats", &["stats", "--format", "csv"], "signal:signal_generate"),
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

/// A process that runs already.
fn attached() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", "-fpatchable-function-entry=5"], "served.c")?;
    let mut served = Served::start(&program)?;
    // The kernel takes half a minute to end all of sys_enter_*.
    let strange = ["openat", "gettid", "tkill", "tgkill"];
    let names = ["write", "read"].iter().chain(&strange);
    let names: Vec<String> = names.map(|name| format!("syscalls:sys_enter_{name}")).collect();
    let options: Vec<&str> = names.iter().flat_map(|name| ["--events", name]).collect();
    let attached = Attached::start(&room, "attached", &options, served.id())?;
    served.work()?;
    attached.stop()?;
    served.end()?;
    let calls = calls(&room, &room.path("attached/trace.mcount"), &[])?;
    let of = |name: &str, descriptor: &str| {
        let all = named(&calls, name);
        all.iter().filter(|call| field(call, "fd").as_deref() == Some(descriptor)).count()
    };
    let found = (of("syscalls:sys_enter_write", "1"), of("syscalls:sys_enter_read", "0"));
    // None of the agent's, or of what the recorder had its threads do.
    let strange: Vec<&&str> = strange
        .iter()
        .filter(|name| !named(&calls, &format!("syscalls:sys_enter_{name}")).is_empty())
        .collect();
    if found.0 >= 1 && found.1 >= 1 && strange.is_empty() {
        return Ok(());
    }
    Err(format!("{found:?}, {strange:?}"))
}

/// A trace stays as small as it may be, and says what isn't in it.
fn max_size() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O1"], "busy-calls.c")?;
    let trace = room.path("trace.mcount");
    let options = ["--events", "raw_syscalls:*", "--max-size", "4M"];
    let ended = room.run("traced", tracer(&trace, &options).arg(&program).arg("100000"))?;
    let size = std::fs::metadata(&trace).map_err(|error| error.to_string())?.len();
    let is_said = ended.stderr.contains("later events aren't in the trace: it has no room");
    if size <= 4 << 20 && is_said { Ok(()) } else { Err(format!("{size} bytes, {ended:?}")) }
}

/// What the kernel doesn't have isn't run.
fn unknown() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O1", "-pthread"], SOURCE)?;
    let trace = room.path("trace.mcount");
    let rows = [
        ("sched:sched_wakin", "'sched:sched_wakin'; did you mean sched:sched_waking"),
        ("sched_wakin", "'sched_wakin'; did you mean sched_waking"),
        ("no_such:*", "'no_such:*'; perf list tracepoint prints those that it has"),
    ];
    for (pattern, expected) in rows {
        let options = ["--events", "sched:*", "--events", pattern];
        let ended = room.run("traced", tracer(&trace, &options).arg(&program))?;
        let line =
            format!("mcount: events can't be recorded: the kernel has no tracepoint {expected}");
        let is_it = ended.stderr.starts_with(&line) && ended.stderr.lines().count() == 1;
        if ended.code != 2 || !is_it || !ended.stdout.is_empty() || trace.exists() {
            return Err(format!("{pattern}: {ended:?}"));
        }
    }
    Ok(())
}

/// Where the kernel doesn't tell, nothing is run.
fn forbidden() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O1", "-pthread"], SOURCE)?;
    let forbidding = room.compile("gcc", &["-O2"], "no-perf.c")?;
    let trace = room.path("trace.mcount");
    let tracer = tracer(&trace, &["--events", "page-faults"]);
    let mut command = Command::new(forbidding);
    command.arg(tracer.get_program()).args(tracer.get_args()).arg(&program);
    let ended = room.run("traced", &mut command)?;
    let is_one_line = ended.stderr.lines().count() == 1;
    let says = ended.stderr.starts_with("mcount: events can't be recorded: ");
    if ended.code == 2 && is_one_line && says && !trace.exists() {
        return Ok(());
    }
    Err(format!("{ended:?}"))
}
