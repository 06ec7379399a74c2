//! `mcount sample --slow`: the program knows which of its calls were slow, and what they called.

use crate::Test;
use crate::attach::text;
use crate::sample::{Check, HOOKS, files, sample, test};
use crate::truth::Room;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use testkit::served::Served;

pub(crate) fn tests() -> Vec<Test> {
    let rows: [(&str, Check); 4] = [
        ("sample::slow", || in_time(|| check(1))),
        ("sample::slow-threads-20", || in_time(|| check(20))),
        ("sample::slow-rotated", || in_time(rotated)),
        ("sample::slow-none", none),
    ];
    rows.into_iter().map(test).collect()
}

/// A call that the program, or the trace, says was slow.
#[derive(Debug, Clone, Copy)]
struct Slow {
    /// Nanoseconds since 1970.
    start: f64,
    /// At least, and at most.
    took: [f64; 2],
    /// Calls inside of it.
    calls: u64,
}

/// Slow calls by their threads, in their order.
type Threads = BTreeMap<u64, Vec<Slow>>;

/// What a slow call takes.
const LEAST: f64 = 1e7;

fn ask(served: &mut Served) -> Result<Threads, String> {
    served.tell("slow")?;
    let line = served.line()?;
    let mut threads = Threads::new();
    for call in line.trim().split(';').filter(|call| !call.is_empty()) {
        let numbers: Vec<u64> = call.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [thread, start, within, without, calls] = numbers[..] else { return Err(line) };
        let float = |number: u64| number.to_string().parse::<f64>().map_err(text);
        let took = [float(within)?, float(without)?];
        threads.entry(thread).or_default().push(Slow { start: float(start)?, took, calls });
    }
    Ok(threads)
}

/// The calls of `handle` in a trace, with how many calls they made. Others are only inside of these.
fn read(room: &Room, trace: &Path) -> Result<Threads, String> {
    let start = start_of(trace)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    let ended = room.run("replay", command.args(["replay", "--format", "jsonl"]).arg(trace))?;
    // It says what the trace lacks.
    if ended.code != 0 || !ended.stderr.contains(": busy") {
        return Err(format!("{ended:?}"));
    }
    let (mut threads, mut outermost) = (Threads::new(), BTreeMap::new());
    for line in ended.stdout.lines() {
        let call: Value = serde_json::from_str(line).map_err(text)?;
        let number = |name: &str| call.get(name).and_then(Value::as_f64).ok_or(line);
        let thread = call.get("thread").and_then(Value::as_u64).ok_or(line)?;
        let calls = threads.entry(thread).or_default();
        let name = call.get("function").and_then(Value::as_str).ok_or(line)?;
        let is_inner = number("depth")? > 0.0;
        let is_handle = outermost.entry(thread).or_insert(false);
        if !is_inner {
            *is_handle = name == "handle";
        }
        match (name, is_inner) {
            ("handle", false) => {
                let took = number("duration_ns")?;
                calls.push(Slow { start: start + number("start_ns")?, took: [took; 2], calls: 0 });
            }
            ("parse" | "dig", true) if *is_handle => calls.last_mut().ok_or(line)?.calls += 1,
            ("parse", true) => {}
            // A thread that didn't get to run was in one of these, or its caller hadn't ended.
            ("parse" | "dig", false) if number("duration_ns")? >= LEAST => {}
            _ => return Err(line.to_owned()),
        }
    }
    Ok(threads)
}

/// Each slow call of the program is there, but for calls that `cut` of them made, that's known to have begun and ended while all were watched, and no other.
fn compare(truth: &Threads, found: &Threads, mut cut: usize) -> Result<usize, String> {
    let found_calls = || found.values().flatten();
    let least = |times: &mut dyn Iterator<Item = f64>| times.fold(f64::INFINITY, f64::min);
    let begin = least(&mut found_calls().map(|call| call.start));
    let first_end = least(&mut found_calls().map(|call| call.start + call.took[0]));
    let mut count = 0;
    for (thread, calls) in truth {
        // Threads are read one after the other.
        let of_thread = || found.get(thread).into_iter().flatten();
        let last_end = of_thread().map(|call| call.start + call.took[0]).fold(0.0, f64::max);
        let mut found = of_thread().peekable();
        for call in calls {
            // The clocks of both were read one after the other, and may have been set meanwhile. Before the call the thread may have waited.
            let waited = call.took[1] - call.took[0];
            let is_it = |other: &&Slow| (-4e6..4e6 + waited).contains(&(other.start - call.start));
            let Some(other) = found.next_if(|other| is_it(other)) else {
                let ends = call.took.map(|took| call.start + took);
                let is_within = call.start > begin && ends[0] > first_end && ends[1] < last_end;
                let is_sure = call.took[0] >= LEAST && is_within;
                if is_sure {
                    let next = found.peek().map(|next| next.start - call.start);
                    let times = [begin, first_end, last_end].map(|at| (at - call.start) / 1e6);
                    return Err(format!(
                        "thread {thread}: {call:?} is missing after {count} calls; next {next:?}, {times:?} ms"
                    ));
                }
                continue;
            };
            // The system's clock is made faster or slower to be right.
            let is_as_long =
                other.took[0] >= call.took[0] * 0.999 && other.took[0] <= call.took[1] * 1.001;
            let is_cut = other.calls < call.calls && cut > 0;
            cut -= usize::from(is_cut);
            if other.calls != call.calls && !is_cut || !is_as_long || other.took[0] < LEAST {
                return Err(format!("thread {thread}: {other:?} instead of {call:?}"));
            }
            count += 1;
        }
        if let Some(other) = found.next() {
            return Err(format!("thread {thread}: {other:?} is too many"));
        }
    }
    Ok(count)
}

/// When a trace began, in nanoseconds since 1970.
fn start_of(trace: &Path) -> Result<f64, String> {
    let bytes = testkit::files::read(trace)?;
    let trace = mcount_trace::Trace::parse(&bytes).map_err(text)?;
    trace.header.start_realtime.to_string().parse().map_err(text)
}

/// Kernels with groups of sessions (autogroup) let a process wait for seconds now and then if another session keeps all processors
/// busy. Then calls are written over before they're read, and a sample takes longer than it should: that's no sample to compare with.
fn in_time(check: impl Fn() -> Result<(), String>) -> Result<(), String> {
    const LATE: [&str; 3] = ["written over", "too few", "no call of 10ms"];
    let is_late = |why: &String| LATE.iter().any(|late| why.contains(late));
    let mut results = (0..5).map(|_| check());
    results.find(|result| !result.as_ref().is_err_and(is_late)).unwrap_or_else(check)
}

/// Of how many calls it's said that they may lack some of what they called: not all functions are watched from the same time on.
fn cut(said: &str) -> usize {
    let mut counts = said.lines().filter_map(|line| {
        line.split_once("of what ")?.1.split_once(" call")?.0.parse::<usize>().ok()
    });
    counts.next().unwrap_or(0)
}

fn check(threads: usize) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "slow.c")?;
    let mut served = Served::command(Command::new(&program).arg(threads.to_string()))?;
    let path = room.path("kept.jsonl");
    let output = path.display().to_string();
    let options = ["--slow", "10ms", "--cost", "10%", "--duration", "4s", "-o", &output];
    let mut child = sample(&room, &options, served.id())?;
    let ended = room.wait("sample", &mut child)?;
    let truth = ask(&mut served)?;
    let trace = room.path("kept.slow.mcount");
    let is_told = ended.stderr.contains("of 10ms or more in ") && ended.stderr.contains(": busy");
    if ended.code != 0 || !is_told {
        return Err(format!("{ended:?}"));
    }
    let found = read(&room, &trace)?;
    match compare(&truth, &found, cut(&ended.stderr)).map_err(|why| format!("{why}: {ended:?}"))? {
        0..3 => Err(format!("too few calls: {found:?}, {ended:?}")),
        _ => Ok(()),
    }
}

/// Each period has a trace of its own, and the newest are kept.
fn rotated() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "slow.c")?;
    let mut served = Served::command(Command::new(&program).arg("4"))?;
    let path = room.path("kept.jsonl").display().to_string();
    let options = ["--cost", "10%", "-o", &path, "--rotate", "1s", "--keep", "3"];
    let options = [&options[..], &["--slow", "10ms", "--duration", "5500ms"]].concat();
    let mut child = sample(&room, &options, served.id())?;
    let ended = room.wait("sample", &mut child)?;
    let truth = ask(&mut served)?;
    let (samples, traces) = (files(&room, "kept-")?, files(&room, "kept.slow-")?);
    if ended.code != 0 || samples.len() != 3 || traces.len() != 3 {
        return Err(format!("too few files? {ended:?}, {samples:?}, {traces:?}"));
    }
    let mut all = Threads::new();
    for trace in &traces {
        for (thread, calls) in read(&room, trace)? {
            all.entry(thread).or_default().extend(calls);
        }
    }
    match compare(&truth, &all, 8).map_err(|why| format!("{why}: {ended:?}"))? {
        0..3 => Err(format!("too few calls: {all:?}, {ended:?}")),
        _ => Ok(()),
    }
}

/// No call is that slow.
fn none() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "slow.c")?;
    let served = Served::command(&mut Command::new(&program))?;
    let options = ["--slow", "1h", "--cost", "10%", "--duration", "1s"];
    let mut child = sample(&room, &options, served.id())?;
    let ended = room.wait("sample", &mut child)?;
    let traces = files(&room, "slow.slow")?;
    if ended.code != 0 || !ended.stderr.contains("no call of 1h or more") || !traces.is_empty() {
        return Err(format!("{ended:?}, {traces:?}"));
    }
    Ok(())
}
