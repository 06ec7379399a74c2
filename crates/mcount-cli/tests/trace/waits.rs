//! What is recorded by default besides functions with hooks: library calls that wait. In programs whose time goes into waiting, a plain
//! `mcount trace`, `attach` or `top` says for what; functions with hooks are recorded as exactly as without it; calls that don't wait
//! cost next to nothing; and a process that was attached to is as it was before.

use crate::Test;
use crate::attach::{Attached, text, worker};
use crate::programs::{PROGRAMS, as_untraced};
use crate::truth::{DEFAULTS, Room, kill_one, tracer_with};
use mcount_trace::layout::off_cpu::GIVEN_UP;
use nix::sys::signal::Signal;
use object::{Object, ObjectSection};
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use testkit::sample::one_in;
use testkit::served::Served;

const HOOKS: &[&str] = &["-O2", "-pthread", "-fpatchable-function-entry=5"];

/// Without a PLT, and code takes addresses from the words by which it calls.
const NO_PLT: &[&str] = &["-fno-plt", "-DADDRESS"];

/// What a test does.
type Check = fn() -> Result<(), String>;

/// Programs that wait, each for one reason: its source, and functions of which one waits for most of the time, by `function` or a caller.
const WAITING: [(&str, &str, &str, &str); 5] = [
    ("condition", "gcc", "waits-condition.c", "pthread_cond_wait"),
    ("pipe", "gcc", "waits-pipe.c", "read"),
    ("lock", "gcc", "waits-lock.c", "pthread_mutex_lock"),
    ("rust-condition", "rustc", "waits-condition.rs", "syscall"),
    ("rust-sleep", "rustc", "waits-sleep.rs", "clock_nanosleep"),
];

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for (name, compiler, source, function) in WAITING {
        let run = move || waiting(compiler, source, function);
        tests.push(test(&format!("waits::{name}"), &[compiler], run));
    }
    let rows: [(&str, &[&'static str], Check); 18] = [
        ("waits::server", &["g++"], server),
        ("waits::server-attach", &["g++"], server_attached),
        ("waits::server-top", &["g++"], server_in_top),
        ("waits::plain", &["g++"], plain),
        ("waits::free-locks", &["gcc"], free_locks),
        ("waits::hand-over", &["gcc"], handed_over),
        ("waits::attach-lazy", &["gcc"], || left_as_it_was(&["-Wl,-z,lazy"])),
        ("waits::attach-now", &["gcc"], || left_as_it_was(&["-Wl,-z,relro,-z,now"])),
        ("waits::attach-no-plt", &["gcc"], || left_as_it_was(NO_PLT)),
        ("waits::killed-lazy", &["gcc"], || both_killed(&["-Wl,-z,lazy"])),
        ("waits::killed-now", &["gcc"], || both_killed(&["-Wl,-z,relro,-z,now"])),
        ("waits::killed-no-plt", &["gcc"], || both_killed(NO_PLT)),
        ("waits::next-command", &["gcc"], next_command),
        ("waits::holder", &["gcc"], holder),
        ("waits::holder-often", &["gcc"], holder_of_a_free_lock),
        ("waits::herd", &["gcc"], herd),
        ("waits::confined", &["gcc"], confined),
        ("waits::states", &["gcc"], states),
    ];
    tests.extend(rows.map(|(name, wants, run)| test(name, wants, run)));
    let programs = PROGRAMS.iter().map(|program| Test {
        name: format!("waits::program-{}", program.name),
        wants: vec![crate::programs::compiler(program.source)],
        open: program.open,
        run: Box::new(move || as_untraced(&Room::new()?, program, &[DEFAULTS])),
    });
    tests.extend(one_in(4, programs.collect()));
    tests
}

fn test(
    name: &str,
    wants: &[&'static str],
    run: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Test {
    Test { name: name.to_owned(), wants: wants.to_vec(), open: None, run: Box::new(run) }
}

/// What threads wait for is what `stats --by state` says, and as long as the program's own clock says.
fn states() -> Result<(), String> {
    /// What a function of the program does, the function that waits in it, and for what.
    const STATES: [(&str, &str, &str); 5] = [
        ("takes", "pthread_mutex_lock", "lock_ns"),
        ("receives", "recv", "network_ns"),
        ("sleeps", "usleep", "sleep_ns"),
        ("joins", "pthread_join", "join_ns"),
        ("computes", "computes", "running_ns"),
    ];
    let room = Room::new()?;
    let flags = [HOOKS, &["-D_GNU_SOURCE", "-fno-optimize-sibling-calls"]].concat();
    let program = room.compile("gcc", &flags, "states.c")?;
    // Only of these functions: other threads sleep as well.
    let options = [DEFAULTS, "--filter", "takes", "--filter", "receives", "--filter", "sleeps"];
    let options = [&options[..], &["--filter", "joins", "--filter", "computes"]].concat();
    let ended = room.run("traced", &mut tracer_with(&options, &program))?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["stats", "--by", "state", "--format", "jsonl"]);
    command.arg(room.path("traced").join("trace.mcount"));
    let printed = room.run("printed", &mut command)?.stdout;
    let rows: Result<Vec<Value>, _> = printed.lines().map(serde_json::from_str).collect();
    let rows = rows.map_err(text)?;
    let number = |row: &Value, name: &str| row.get(name).and_then(Value::as_u64).unwrap_or(0);
    for row in &rows {
        let all = row.as_object().into_iter().flatten();
        let states = all.filter(|(name, _)| name.ends_with("_ns") && *name != "self_ns");
        let sum: u64 = states.filter_map(|(_, time)| time.as_u64()).sum();
        if sum != number(row, "self_ns") {
            return Err(format!("{sum} in all: {row}"));
        }
    }
    for (function, waits, state) in STATES {
        let mut own = ended.stdout.lines().filter_map(|line| line.split_once(' '));
        let took = own.find(|(name, _)| *name == function).and_then(|(_, time)| time.parse().ok());
        let took: u64 = took.ok_or_else(|| format!("{function}: {ended:?}"))?;
        // On a busy machine, the wait may have been over before it began.
        if took < 20_000_000 {
            continue;
        }
        let row =
            rows.iter().find(|row| row.get("function").and_then(Value::as_str) == Some(waits));
        let row = row.ok_or_else(|| format!("no row of {waits}: {printed}"))?;
        let time = number(row, state);
        let others = number(row, "running_ns") + number(row, "preempted_ns");
        let others = if state == "running_ns" { number(row, "preempted_ns") } else { others };
        if time > took || time + others < took / 5 * 4 || time == 0 {
            return Err(format!("{function} took {took} ns: {row}"));
        }
    }
    Ok(())
}

/// The server of `examples/`.
fn build_server(room: &Room) -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/server/server.cpp");
    room.compile("g++", HOOKS, &source.to_string_lossy())
}

/// Name, nanoseconds, depth and thread of each call in the trace of the folder `name`, callers first.
fn calls(room: &Room, name: &str) -> Result<Vec<(String, u64, u64, u64)>, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["replay", "--format", "jsonl"]).arg(room.path(name).join("trace.mcount"));
    let printed = room.run(&format!("{name}-printed"), &mut command)?.stdout;
    let mut calls = Vec::new();
    for line in printed.lines() {
        let row: Value = serde_json::from_str(line).map_err(text)?;
        let number = |name: &str| row.get(name).and_then(Value::as_u64).unwrap_or(0);
        let function = row.get("function").and_then(Value::as_str).unwrap_or_default();
        calls.push((function.to_owned(), number("duration_ns"), number("depth"), number("thread")));
    }
    Ok(calls)
}

/// Nanoseconds in all calls of each function.
fn totals(calls: &[(String, u64, u64, u64)]) -> BTreeMap<&str, u64> {
    let mut totals = BTreeMap::new();
    for (function, time, ..) in calls {
        *totals.entry(function.split('(').next().unwrap_or_default()).or_default() += time;
    }
    totals
}

/// Does the trace of the server say that it's the lock for which threads wait, and who has it meanwhile?
fn names_the_lock(calls: &[(String, u64, u64, u64)]) -> Result<(), String> {
    let totals = totals(calls);
    let of = |name: &str| totals.get(name).copied().unwrap_or(0);
    let (lock, all) = (of("pthread_mutex_lock"), of("shop::handle_request"));
    if lock < all / 2 || of("shop::Ledger::note") < lock || of("shop::write_line") < all / 20 {
        return Err(format!("the lock isn't what takes the time: {totals:?}"));
    }
    // Locks that were free aren't there. A call that is open has no time.
    let is_short = |time: u64| (1..5000).contains(&time);
    if calls.iter().any(|(name, time, ..)| name == "pthread_mutex_lock" && is_short(*time)) {
        return Err("a lock that was free is in the trace".to_owned());
    }
    // The callers say which function waits, and which one is slow under the lock.
    let mut stack: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for (function, _, depth, thread) in calls {
        let depth = usize::try_from(*depth).map_err(text)?;
        let stack = stack.entry(*thread).or_default();
        stack.truncate(depth);
        let caller = stack.last().copied().unwrap_or_default();
        let expected = match function.as_str() {
            "pthread_mutex_lock" => "shop::Ledger::note",
            "nanosleep" | "clock_nanosleep" => "shop::write_line",
            _ => "",
        };
        if !caller.starts_with(expected) && !caller.is_empty() {
            return Err(format!("{function} is called by {caller}"));
        }
        if !function.starts_with("linux:") {
            stack.push(function);
        }
    }
    Ok(())
}

fn server() -> Result<(), String> {
    let room = Room::new()?;
    let program = build_server(&room)?;
    let ended = room.run("traced", &mut tracer_with(&[DEFAULTS], &program))?;
    if ended.code != 0 || !ended.stderr.is_empty() {
        return Err(format!("{ended:?}"));
    }
    names_the_lock(&calls(&room, "traced")?)
}

/// The server, for as long as it's needed.
struct Serving(Child);

impl Serving {
    fn start(program: &Path) -> Result<Self, String> {
        let mut command = Command::new(program);
        command.arg("60").stdout(Stdio::null()).spawn().map(Self).map_err(text)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn server_attached() -> Result<(), String> {
    let room = Room::new()?;
    let serving = Serving::start(&build_server(&room)?)?;
    for turn in ["first", "again"] {
        // On a busy machine, one thread may have the lock all the time, and the others' waits begin before and end after the trace.
        let mut result = Ok(());
        for times in [1, 2, 4, 8] {
            let name = format!("{turn}-{times}");
            let attached = Attached::start(&room, &name, &[DEFAULTS], serving.0.id())?;
            std::thread::sleep(Duration::from_millis(800) * times);
            attached.stop()?;
            result = names_the_lock(&calls(&room, &name)?);
            if result.is_ok() {
                break;
            }
        }
        result?;
    }
    Ok(())
}

fn server_in_top() -> Result<(), String> {
    let room = Room::new()?;
    let serving = Serving::start(&build_server(&room)?)?;
    let mut result = Ok(());
    // On a busy machine, few waits may end in a second.
    for interval in ["1s", "2s", "4s", "8s"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command.args(["top", "--once", "--interval", interval]).arg(serving.0.id().to_string());
        let ended = room.run(&format!("top-{interval}"), &mut command)?;
        let (said, table) = ended.stdout.split_once(" FUNCTION\n").unwrap_or_default();
        let first = table.lines().next().unwrap_or_default();
        let is_named =
            first.ends_with("pthread_mutex_lock @libc.so.6, called by shop::Ledger::note");
        let holder = "while threads wait in pthread_mutex_lock, another is in shop::write_line, called by shop::Ledger::note";
        if ended.code != 0 {
            return Err(format!("{ended:?}"));
        }
        if is_named && said.contains(holder) {
            return Ok(());
        }
        result = Err(format!("{ended:?}"));
    }
    result
}

/// With `--plain`, only functions with hooks are in the trace.
fn plain() -> Result<(), String> {
    let room = Room::new()?;
    let program = build_server(&room)?;
    room.run("traced", &mut tracer_with(&[], &program))?;
    let calls = calls(&room, "traced")?;
    let others = ["pthread_", "nanosleep", "clock_nanosleep", "linux:", "std::thread::join"];
    match calls.iter().find(|(name, ..)| others.iter().any(|one| name.starts_with(one))) {
        Some(call) => Err(format!("{call:?}")),
        None if calls.is_empty() => Err("nothing is recorded".to_owned()),
        None => Ok(()),
    }
}

/// A program that waits in `function` for most of its time, and says by its exit code that nothing else was different.
fn waiting(compiler: &str, source: &str, function: &str) -> Result<(), String> {
    let room = Room::new()?;
    let flags: &[&str] = match compiler {
        "rustc" => &["-O", "-Zpatchable-function-entry=5"],
        _ => HOOKS,
    };
    let program = room.compile(compiler, flags, source)?;
    let ended = room.run("traced", &mut tracer_with(&[DEFAULTS], &program))?;
    if ended.code != 0 || !ended.stderr.is_empty() {
        return Err(format!("{ended:?}"));
    }
    let calls = calls(&room, "traced")?;
    let totals = totals(&calls);
    let waited = totals.get(function).copied().unwrap_or(0);
    let all = totals
        .get("main")
        .or_else(|| totals.iter().find(|(name, _)| name.ends_with("::main")).map(|(_, time)| time));
    match all {
        Some(all) if waited > all / 2 => Ok(()),
        _ => Err(format!("{function} is nothing to {totals:?}")),
    }
}

/// Locks that are always free aren't recorded. Taken very often, they cost so much that they aren't watched any more, and the trace
/// says so.
fn free_locks() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "waits-free.c")?;
    let ended = room.run("traced", &mut tracer_with(&[DEFAULTS], &program))?;
    if ended.code != 0 || !ended.stderr.is_empty() {
        return Err(format!("{ended:?}"));
    }
    let short =
        |(name, time, ..): &&(String, u64, u64, u64)| name.starts_with("pthread_") && *time < 5000;
    let calls = calls(&room, "traced")?;
    if let Some(call) = calls.iter().find(short) {
        return Err(format!("{call:?}"));
    }
    let trace = room.trace("traced")?;
    let is_said = |note: &String| note.contains("pthread_mutex_lock") && note.contains("so often");
    if trace.notes.iter().any(is_said) { Ok(()) } else { Err(format!("{:?}", trace.notes)) }
}

/// Threads that leave the processor too often: if that's given up, nothing of it is left in the trace, and calls that wait aren't taken for
/// work.
fn handed_over() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "waits-pingpong.c")?;
    let ended = room.run("traced", &mut tracer_with(&[DEFAULTS], &program))?;
    if ended.code != 0 || !ended.stderr.is_empty() {
        return Err(format!("{ended:?}"));
    }
    let trace = room.path("traced").join("trace.mcount");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    let said = room.run("stats", command.arg("stats").arg(trace))?.stdout;
    let is_given_up = room.trace("traced")?.notes.iter().any(|note| note.starts_with(GIVEN_UP));
    let has_off_cpu = said.contains("linux:schedule");
    let mut lines = said.lines();
    let (spent, waited) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let is_answered = waited.contains("waiting in read") || waited.contains("waiting in write");
    if is_given_up == has_off_cpu || !is_answered || !spent.contains(" waiting. ") {
        return Err(said);
    }
    Ok(())
}

/// What a file has in some sections, what a process has there, and the words of its global offset table.
type Sections = (Vec<u8>, Vec<u8>, Vec<u64>);

/// These of `program` and `process`.
fn of_process(program: &Path, process: u32) -> Result<Sections, String> {
    let bytes = testkit::files::read(program)?;
    let file = object::File::parse(&*bytes).map_err(text)?;
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).map_err(text)?;
    let bias = maps.lines().find(|line| line.ends_with(&*program.to_string_lossy()));
    let bias = bias.and_then(|line| line.split('-').next()).ok_or("it isn't mapped")?;
    let bias = u64::from_str_radix(bias, 16).map_err(text)?;
    let memory = std::fs::OpenOptions::new().read(true).open(format!("/proc/{process}/mem"));
    let memory = memory.map_err(text)?;
    let there = |name: &str| {
        let Some(section) = file.section_by_name(name) else { return Ok((Vec::new(), Vec::new())) };
        let mut found = vec![0; usize::try_from(section.size()).map_err(text)?];
        memory.read_exact_at(&mut found, bias + section.address()).map_err(text)?;
        Ok::<_, String>((section.data().map_err(text)?.to_vec(), found))
    };
    let (mut expected, mut found, mut words) = (Vec::new(), Vec::new(), Vec::new());
    for name in [".rela.plt", ".rela.dyn", ".plt", ".plt.sec", ".text"] {
        let (in_file, in_memory) = there(name)?;
        expected.extend(in_file);
        found.extend(in_memory);
    }
    for name in [".got", ".got.plt"] {
        let (_, now) = there(name)?;
        words.extend(now.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)));
    }
    Ok((expected, found, words))
}

/// Library functions that are called for the first time before, while and after a recorder is attached, two times: each call is recorded that
/// ought to be, they do what they should, and afterwards the module's words lead nowhere else than without a recorder.
fn left_as_it_was(flags: &[&str]) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &[HOOKS, flags].concat(), "served-waits.c")?;
    let mut served = Served::start(&program)?;
    served.ask("usleep", "usleep 0")?;
    for (name, asked) in
        [("first", ["usleep", "nanosleep", "usleep"]), ("again", ["poll", "nanosleep", "usleep"])]
    {
        let attached = Attached::start(&room, name, &[DEFAULTS], served.id())?;
        for function in asked {
            served.ask(function, &format!("{function} 0"))?;
        }
        let trace = attached.stop()?;
        for function in asked {
            let expected = asked.iter().filter(|one| **one == function).count() as u64;
            let count = trace.count(0, function);
            if count != expected {
                return Err(format!("{name}: {count} calls of {function}, and not {expected}"));
            }
        }
        let (expected, found, words) = of_process(&program, served.id())?;
        if expected != found {
            return Err(format!("{name}: code or relocations aren't as in the file"));
        }
        if leads_to_agent(&words, served.id())? {
            return Err(format!("{name}: a word still leads to the agent"));
        }
    }
    served.ask("select", "select 0")?;
    served.ask("poll", "poll 0")
}

/// Does one of these words of a process lead to the agent in it? There has to be one.
fn leads_to_agent(words: &[u64], process: u32) -> Result<bool, String> {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).map_err(text)?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let ours: Vec<(u64, u64)> = maps
        .lines()
        .filter(|line| line.contains("/memfd:mcount"))
        .filter_map(|line| line.split(' ').next()?.split_once('-'))
        .filter_map(|(from, to)| Some((number(from)?, number(to)?)))
        .collect();
    let is_ours = |word: &u64| ours.iter().any(|(from, to)| (*from..*to).contains(word));
    if ours.is_empty() {
        Err("no agent is there".to_owned())
    } else {
        Ok(words.iter().any(is_ours))
    }
}

/// If all of `mcount attach` is killed, the process goes on, and the next one puts back what was changed.
fn both_killed(flags: &[&str]) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &[HOOKS, flags].concat(), "served-waits.c")?;
    let mut served = Served::start(&program)?;
    let mut attached = Attached::start(&room, "killed", &[DEFAULTS], served.id())?;
    kill_one(attached.child.id().into(), Signal::SIGSTOP);
    kill_one(worker(&attached)?, Signal::SIGKILL);
    attached.child.kill().and_then(|()| attached.child.wait()).map_err(text)?;
    for function in ["usleep", "poll"] {
        served.ask(function, &format!("{function} 0"))?;
    }
    let (in_file, found, words) = of_process(&program, served.id())?;
    if in_file == found && !leads_to_agent(&words, served.id())? {
        return Err("nothing was left to do".to_owned());
    }
    Attached::start(&room, "attached", &[], served.id())?.stop()?;
    let (in_file, found, words) = of_process(&program, served.id())?;
    if in_file != found || leads_to_agent(&words, served.id())? {
        return Err("something is still changed".to_owned());
    }
    for function in ["usleep", "poll", "select"] {
        served.ask(function, &format!("{function} 0"))?;
    }
    Ok(())
}

/// What `mcount stats` says in words of the program, traced with these options: what took the time, what it waited for, what the trace
/// lacks.
fn words(
    room: &Room,
    program: &Path,
    options: &[&str],
    argument: &str,
) -> Result<Vec<String>, String> {
    let mut tracer = tracer_with(&[&[DEFAULTS], options].concat(), program);
    let ended = room.run("traced", tracer.args((!argument.is_empty()).then_some(argument)))?;
    if ended.code != 0 {
        return Err(format!("{ended:?}"));
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.arg("stats").arg(room.path("traced").join("trace.mcount"));
    let printed = room.run("stats", &mut command)?.stdout;
    Ok(printed.lines().take(3).map(str::to_owned).collect())
}

/// The function that has the lock is named, not only those that wait for it.
fn holder() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "waits-holder.c")?;
    let words = words(&room, &program, &[], "")?;
    let said = words.get(1).map_or("", String::as_str);
    let expected = [
        "pthread_mutex_lock, called by count_hit",
        "another thread was in write_report, called by publish.",
    ];
    if expected.iter().all(|part| said.contains(part)) { Ok(()) } else { Err(format!("{words:?}")) }
}

/// So is a lock whose waits cost too much to be recorded, if it's known when threads were off the processor.
fn holder_of_a_free_lock() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "waits-holder.c")?;
    let words = words(&room, &program, &[], "often")?;
    let said = words.get(1).map_or("", String::as_str);
    let is_known = words.get(2).is_some_and(|line| line.contains("time off the CPU"));
    if said.contains("pthread_mutex_lock") || is_known { Ok(()) } else { Err(format!("{words:?}")) }
}

/// If it's given up to record when threads are off the processor, all of it is: the rest would make waits look like work.
fn herd() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "waits-herd.c")?;
    let words = words(&room, &program, &[], "")?;
    let trace = room.trace("traced")?;
    let is_given_up = trace.notes.iter().any(|note| note.contains("lacks time off the CPU"));
    let calls = calls(&room, "traced")?;
    if is_given_up && calls.iter().any(|(name, ..)| name.starts_with("linux:")) {
        return Err(format!("a part of the time off the CPU is in the trace: {words:?}"));
    }
    let said = words.get(1).map_or("", String::as_str);
    let expected = "spent waiting in pthread_cond_wait, called by";
    if said.contains(expected) { Ok(()) } else { Err(format!("{words:?}")) }
}

/// With `--filter`, waits are recorded beneath the functions that were chosen, and nowhere else.
fn confined() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &[HOOKS, &["-g"]].concat(), "waits-holder.c")?;
    for options in [["--filter", "publish"], ["--file", "waits-holder.c"]] {
        words(&room, &program, &options, "")?;
        let calls = calls(&room, "traced")?;
        let is_outside = |(name, _, depth, _): &&(String, u64, u64, u64)| {
            *depth == 0 && !["publish", "serve", "reporter", "main"].contains(&name.as_str())
        };
        let outside = calls.iter().filter(|call| !call.0.starts_with("linux:")).find(is_outside);
        if let Some(call) = outside {
            return Err(format!("{options:?}: {call:?} is in no function that was chosen"));
        }
        if !calls.iter().any(|(name, _, depth, _)| name == "usleep" && *depth > 0) {
            return Err(format!("{options:?}: no wait is recorded: {calls:?}"));
        }
        std::fs::remove_dir_all(room.path("traced")).map_err(text)?;
    }
    Ok(())
}

/// After a trace, one line says what to do with it, and nothing else is said.
fn next_command() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "waits-pipe.c")?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.arg("trace").arg(&program).current_dir(room.path("."));
    let output = command.output().map_err(text)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = said.strip_suffix(
        " calls in waits-pipe.mcount; see where the time went: mcount stats waits-pipe.mcount\n",
    );
    let count = last.and_then(|text| text.strip_prefix("mcount: "));
    let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit() || c == ',');
    if count.is_some_and(is_number) { Ok(()) } else { Err(format!("{said:?}")) }
}
