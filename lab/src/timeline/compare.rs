//! What `mcount` recorded, and what `strace` and `trace-cmd` did.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::{Result, files};

/// A call, as `mcount replay --format jsonl` prints it.
#[derive(Debug, Deserialize)]
struct Call {
    thread: u32,
    depth: usize,
    function: String,
    caller: Option<String>,
    start_ns: i64,
    duration_ns: Option<i64>,
    result: Option<CallResult>,
}

#[derive(Debug, Deserialize)]
struct CallResult {
    value: serde_json::Value,
}

/// What comes of it: a row for each program, and whether nothing differs.
pub(super) struct Found {
    pub(super) rows: Vec<String>,
    pub(super) is_well: bool,
}

impl Found {
    fn differs(&mut self, what: &str) {
        self.is_well = false;
        println!("DIFFERENT: {what}");
    }
}

/// Compares all that is in a folder that the job has left.
pub(super) fn compare(mcount: &Path, out: &Path) -> Result<Found> {
    let mut found = Found { rows: Vec::new(), is_well: true };
    for name in ["lua", "sqlite", "redis"] {
        let before = found.is_well;
        found.is_well = true;
        if name != "redis" {
            of_strace(mcount, out, name, &mut found)?;
        }
        let [calls, functions, steps, missing] = of_trace_cmd(mcount, out, name, &mut found)?;
        let word = match (found.is_well, missing) {
            (true, 0) => "none".to_owned(),
            (true, _) => format!("{missing} are missing, and `mcount` says so"),
            (false, _) => "**yes**".to_owned(),
        };
        found.rows.push(format!("| {name} | {calls} | {functions} | {steps} | {word} |"));
        found.is_well &= before;
    }
    let kills = String::from_utf8(files::read(&out.join("kills"))?)?;
    let same = kills.lines().filter(|line| *line == "same").count();
    println!("{}: killed 50 times: {same} times, all was as before", out.display());
    if same != 50 {
        found.differs("what's left behind by a mcount that was killed");
    }
    if files::read(&out.join("before"))? != files::read(&out.join("after"))? {
        found.differs("what's left behind by a mcount that was killed with its guard");
    }
    Ok(found)
}

/// The calls of a trace.
fn calls(mcount: &Path, trace: &Path, each: &mut dyn FnMut(Call)) -> Result<()> {
    let mut replay = Command::new(mcount);
    replay.args(["replay", "--format", "jsonl"]).arg(trace).stdout(Stdio::piped());
    let mut replay = replay.spawn()?;
    let lines = BufReader::new(replay.stdout.take().ok_or("no output")?).lines();
    for line in lines {
        each(serde_json::from_str(&line?)?);
    }
    if replay.wait()?.success() {
        Ok(())
    } else {
        Err(format!("{} can't be read", trace.display()).into())
    }
}

/// By name: how many system calls, and how many of these failed.
type Counts = BTreeMap<String, (u64, u64)>;

/// System calls of two runs of the same program, which does the same each time.
fn of_strace(mcount: &Path, out: &Path, name: &str, found: &mut Found) -> Result<()> {
    let text = String::from_utf8(files::read(&out.join(format!("{name}.strace")))?)?;
    let count = |line: &str| {
        let mut words = line.split_whitespace();
        let (call, count) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
        let failed = words.next().map_or(Some(0), |word| word.parse().ok())?;
        (call != "total").then_some((call, (count, failed)))
    };
    let expected: Counts = text.lines().filter_map(count).collect();
    let mut recorded = Counts::new();
    calls(mcount, &out.join(format!("{name}.mcount")), &mut |call| {
        // strace doesn't count what doesn't return, and the scheduler is no system call.
        let system_call =
            call.function.strip_prefix("linux:").filter(|one| !one.starts_with("schedule"));
        let Some((system_call, result)) = system_call.zip(call.result) else { return };
        if result.value.is_null() {
            return;
        }
        let counts = recorded.entry(system_call.to_owned()).or_default();
        counts.0 += 1;
        let is_failed = result.value.as_str().is_some_and(|text| text.starts_with("-1 E"));
        counts.1 += u64::from(is_failed);
    })?;
    if expected.is_empty() {
        found.differs(&format!("{name}: strace printed nothing"));
    }
    let mut names: Vec<_> = expected.keys().chain(recorded.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for one in names {
        let (theirs, ours) = (expected.get(one), recorded.get(one));
        if theirs != ours {
            found.differs(&format!("{name}: {one}: strace has {theirs:?}, mcount {ours:?}"));
        }
    }
    Ok(())
}

/// A call of a kernel function: the function, and the one that called it.
type Step = (String, Option<String>);

/// What a thread did, in order.
#[derive(Debug, Default)]
struct Thread {
    functions: Vec<Step>,
    /// By number.
    system_calls: BTreeMap<u64, u64>,
}

/// What `trace-cmd` recorded, by thread.
fn theirs(data: &Path) -> Result<HashMap<u32, Thread>> {
    let mut report = Command::new("trace-cmd");
    report.arg("report").arg(data).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut report = report.spawn()?;
    let mut threads: HashMap<u32, Thread> = HashMap::new();
    let mut open: HashMap<u32, Vec<String>> = HashMap::new();
    for line in BufReader::new(report.stdout.take().ok_or("no output")?).lines() {
        let line = line?;
        if line.contains("EVENTS DROPPED") || line.contains("LOST") {
            return Err(format!("{}: trace-cmd lost events: {line}", data.display()).into());
        }
        // `          lua5.4-173   [000]   120.748287: funcgraph_entry:                   |  vfs_open() {`
        let Some((head, event)) = line.split_once(": ") else { continue };
        let Some(thread) = head
            .split_once(" [")
            .and_then(|(task, _)| task.trim().rsplit_once('-')?.1.parse::<u32>().ok())
        else {
            continue;
        };
        let entry = threads.entry(thread).or_default();
        if let Some(rest) = event.strip_prefix("sys_enter:") {
            // `NR 0 (3, 7ffe…)`; or it's printed by name.
            let number = rest
                .trim()
                .strip_prefix("NR ")
                .and_then(|rest| rest.split_whitespace().next()?.parse().ok());
            *entry.system_calls.entry(number.unwrap_or(u64::MAX)).or_default() += 1;
        } else if event.starts_with("funcgraph_exit:") {
            open.entry(thread).or_default().pop();
        } else if let Some(text) =
            event.strip_prefix("funcgraph_entry:").and_then(|rest| Some(rest.split_once('|')?.1))
        {
            let name = text.trim().split("()").next().unwrap_or_default().to_owned();
            let stack = open.entry(thread).or_default();
            entry.functions.push((name.clone(), stack.last().cloned()));
            if text.trim_end().ends_with('{') {
                stack.push(name);
            }
        }
    }
    report.wait()?;
    Ok(threads)
}

/// What `mcount` recorded of a thread.
#[derive(Debug, Default)]
struct Ours {
    functions: Vec<Step>,
    /// Since the first one that executes a program, if there's one: before, it was trace-cmd.
    system_calls: u64,
    has_executed: bool,
    /// What the thread is in: until when.
    open: Vec<i64>,
    /// Calls that don't lie in what called them.
    outside: u64,
}

impl Ours {
    fn take(&mut self, call: &Call) {
        let end = call.duration_ns.map_or(i64::MAX, |time| call.start_ns.saturating_add(time));
        self.open.truncate(call.depth);
        // Times of both ends are rounded down.
        self.outside +=
            u64::from(self.open.last().is_some_and(|last| end.saturating_sub(1) > *last));
        self.open.push(end);
        if let Some(function) = call.function.strip_prefix("kernel:") {
            let caller = call.caller.as_deref().and_then(|caller| caller.strip_prefix("kernel:"));
            self.functions.push((function.to_owned(), caller.map(str::to_owned)));
        } else if call.function.starts_with("linux:")
            && !call.function.starts_with("linux:schedule")
        {
            let is_first = call.function == "linux:execve" && !self.has_executed;
            self.system_calls = if is_first { 1 } else { self.system_calls + 1 };
            self.has_executed |= is_first;
        }
    }
}

/// Compares one run that both recorded: how many system calls, functions of the kernel, and calls of these were compared, and
/// how many of the last are missing, as `mcount` says.
fn of_trace_cmd(mcount: &Path, out: &Path, name: &str, found: &mut Found) -> Result<[usize; 4]> {
    let theirs = theirs(&out.join(format!("{name}.dat")))?;
    let mut ours: HashMap<u32, Ours> = HashMap::new();
    calls(mcount, &out.join(format!("{name}-k.mcount")), &mut |call| {
        ours.entry(call.thread).or_default().take(&call);
    })?;
    let mut functions = ours.values().flat_map(|one| &one.functions);
    let has_ends = functions.any(|(_, caller)| caller.is_some());
    let outside: u64 = ours.values().map(|one| one.outside).sum();
    if outside > 0 {
        found.differs(&format!("{name}: {outside} calls don't lie in the call that made them"));
    }
    let (mut all_calls, mut all_steps, mut missing) = (0, 0, 0);
    // A call has two records, or one where ends aren't known.
    let said = said_missing(out, name)?;
    let mut names = std::collections::BTreeSet::new();
    for (thread, theirs) in &theirs {
        let Some(ours) = ours.get(thread) else {
            found.differs(&format!("{name}: thread {thread} isn't in mcount's trace"));
            continue;
        };
        let expected: u64 = theirs.system_calls.values().sum();
        all_calls += usize::try_from(expected).unwrap_or(0);
        if ours.system_calls != expected {
            found.differs(&format!(
                "{name}: {thread}: {expected} system calls by trace-cmd, {} by mcount",
                ours.system_calls
            ));
        }
        all_steps += theirs.functions.len();
        names.extend(theirs.functions.iter().map(|(function, _)| function.clone()));
        let place = (name, *thread);
        missing += steps(
            place,
            &theirs.functions,
            &ours.functions,
            (has_ends, said.saturating_sub(missing)),
            found,
        );
    }
    if all_steps == 0 {
        found.differs(&format!("{name}: trace-cmd recorded no function"));
    }
    Ok([all_calls, names.len(), all_steps, missing])
}

/// How many records of functions `mcount` says are missing.
fn said_missing(out: &Path, name: &str) -> Result<usize> {
    let text = String::from_utf8(files::read(&out.join(format!("{name}.both")))?)?;
    let count = |line: &str| line.split_once("the kernel lost ")?.1.split(' ').next()?.parse().ok();
    Ok(text.lines().find_map(count).unwrap_or(0))
}

/// How often each function was called.
fn counts<'s>(steps: impl Iterator<Item = &'s Step>) -> BTreeMap<&'s str, usize> {
    let mut counts = BTreeMap::new();
    steps.for_each(|(function, _)| *counts.entry(&function[..]).or_default() += 1);
    counts
}

/// The last of mcount's are theirs, but for those that `mcount` says are missing: how many are.
fn steps(
    (name, thread): (&str, u32),
    theirs: &[Step],
    ours: &[Step],
    (has_ends, said): (bool, usize),
    found: &mut Found,
) -> usize {
    let all = counts(ours.iter());
    let few = |(function, count): (&&str, &usize)| {
        count.saturating_sub(all.get(function).copied().unwrap_or(0))
    };
    let missing: usize = counts(theirs.iter()).iter().map(few).sum();
    if missing > 0 {
        if missing > said {
            found.differs(&format!("{name}: {thread}: {missing} calls are missing, not {said}"));
        }
        return missing;
    }
    let last = ours.get(ours.len().saturating_sub(theirs.len())..).unwrap_or_default();
    let (expected, recorded) = (counts(theirs.iter()), counts(last.iter()));
    if expected != recorded {
        found.differs(&format!("{name}: {thread}: not the same calls are the last ones"));
    }
    // Both record one after the other. An interrupt that comes in between is in this function for one, and beside it for the other.
    let is_other =
        |(theirs, ours): (&Step, &Step)| theirs.0 != ours.0 || (has_ends && theirs.1 != ours.1);
    let others = theirs.iter().zip(last).filter(|pair| is_other(*pair)).count();
    if others > 10 + theirs.len() / 1000 {
        found.differs(&format!("{name}: {thread}: {others} calls have another place"));
    }
    0
}
