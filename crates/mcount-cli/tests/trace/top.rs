//! `mcount top`: what it says was called is what the program counted; its keys do what they say, on a terminal that `script`
//! makes; and `--budget` gives up the functions that cost too much, here and in `mcount attach` and `mcount trace`.

use crate::Test;
use crate::attach::text;
use crate::attach_where::code_is_as_in_file;
use crate::terminal::Terminal;
use crate::told::is_on;
use crate::truth::{Room, kill_one, until};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;
use testkit::served::Served;
use testkit::trace::Trace;

const HOOKS: &[&str] = &["-O2", "-fpatchable-function-entry=5"];

/// What a test does.
type Check = fn() -> Result<(), String>;

pub(crate) fn tests() -> Vec<Test> {
    let builds: [(&str, &str, &[&str]); 5] = [
        ("pie", "gcc", HOOKS),
        ("static", "gcc", &["-O2", "-static", "-fpatchable-function-entry=5"]),
        ("static-pie", "gcc", &["-O2", "-static-pie", "-fpatchable-function-entry=5"]),
        ("musl", "musl-gcc", HOOKS),
        ("musl-static", "musl-gcc", &["-O2", "-static", "-fpatchable-function-entry=5"]),
    ];
    let mut tests = Vec::new();
    for (name, compiler, flags) in builds {
        let run = || started(compiler, flags);
        tests.push(test(&format!("top::started-{name}"), &[compiler], run));
    }
    let rows: [(&str, &[&'static str], Check); 11] = [
        ("top::once", &["gcc"], once),
        ("top::own-time", &["gcc"], own_time),
        ("top::text", &["gcc"], in_words),
        ("top::refused", &["gcc"], refused),
        ("top::keys", &["gcc", "script"], keys),
        ("top::killed", &["gcc", "script", "stty"], killed),
        ("budget::top", &["gcc"], budget_of_top),
        ("budget::attach", &["gcc"], budget_of_attach),
        ("budget::trace", &["gcc"], budget_of_trace),
        ("budget::short-jump", &["gcc"], budget_with_short_jumps),
        ("budget::forked", &["gcc"], budget_of_forked),
    ];
    tests.extend(rows.map(|(name, wants, run)| test(name, wants, run)));
    tests.extend([("hooks", HOOKS), ("none", &["-O2"])].map(|(name, flags)| Test {
        open: crate::system_calls::is_forbidden(),
        ..test(&format!("top::system-calls-{name}"), &["gcc"], || system_calls(flags))
    }));
    tests
}

fn test(
    name: &str,
    wants: &[&'static str],
    run: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Test {
    Test { name: name.to_owned(), wants: wants.to_vec(), open: None, run: Box::new(run) }
}

fn mcount(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(arguments);
    command
}

/// How often each function was called, and which aren't armed, as `--format jsonl` has it.
fn rows(lines: &str) -> Result<BTreeMap<String, (u64, bool)>, String> {
    let mut rows = BTreeMap::new();
    for line in lines.lines() {
        let row: serde_json::Value =
            serde_json::from_str(line).map_err(|error| format!("{line:?}: {error}"))?;
        let number = |name: &str| row.get(name).and_then(serde_json::Value::as_u64);
        let function = row.get("function").and_then(|name| name.as_str()).ok_or("no name")?;
        let armed = row.get("armed").and_then(serde_json::Value::as_bool).ok_or("armed?")?;
        let (Some(calls), Some(total), Some(own), Some(mean), Some(max)) = (
            number("calls"),
            number("total_ns"),
            number("self_ns"),
            number("mean_ns"),
            number("max_ns"),
        ) else {
            return Err(format!("{line} lacks a number"));
        };
        if own > total || mean > max || max > total {
            return Err(format!("{line} makes no sense"));
        }
        rows.insert(function.to_owned(), (calls, armed));
    }
    Ok(rows)
}

/// Waits until a process has the trace mapped.
fn is_watched(process: u32) -> Result<(), String> {
    let maps = || std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    until("it's attached to", || maps().contains("top.mcount"))?;
    // It's armed in the same moment, in which it stands.
    sleep(Duration::from_millis(50));
    Ok(())
}

/// How many events of the kernel the children of a process have open.
fn events_of_children(process: u32) -> usize {
    let path = format!("/proc/{process}/task/{process}/children");
    let children = std::fs::read_to_string(path).unwrap_or_default();
    let open = children.split_whitespace().filter_map(|child| {
        let links = std::fs::read_dir(format!("/proc/{child}/fd")).ok()?;
        let links = links.filter_map(|link| std::fs::read_link(link.ok()?.path()).ok());
        Some(links.filter(|link| link.to_string_lossy().contains("perf_event")).count())
    });
    open.sum()
}

/// System calls, of a program that knows how many it makes.
fn system_calls(flags: &[&str]) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", flags, "asks.c")?;
    let mut served = Served::start(&program)?;
    let process = served.id().to_string();
    let options =
        ["top", "--once", "--format", "jsonl", "--interval", "3s", "--system-calls", &process];
    let mut child = room.start("top", &mut mcount(&options))?;
    let tells = || events_of_children(child.id()) != 0;
    until("the kernel tells of system calls", tells)?;
    // All that it needs is opened in the same moment, unless other tests have the processors.
    sleep(Duration::from_millis(600));
    let counts = served.work()?;
    let ended = room.wait("top", &mut child)?;
    let found = rows(&ended.stdout)?;
    let count = |name: &str| found.get(name).map_or(0, |(calls, _)| *calls);
    let strange = found.keys().find(|name| name.starts_with("linux:sched"));
    match counts.iter().find(|(name, number)| count(name) != **number) {
        None if ended.code == 0 && strange.is_none() => Ok(()),
        wrong => Err(format!("{wrong:?}: {ended:?}")),
    }
}

/// The process under test is looked at while it works.
fn once() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let mut served = Served::start(&program)?;
    let process = served.id().to_string();
    for _ in 0..2 {
        let options = ["top", "--once", "--format", "jsonl", "--interval", "2s", &process];
        let mut child = room.start("top", &mut mcount(&options))?;
        is_watched(served.id())?;
        let counts = served.work()?;
        let ended = room.wait("top", &mut child)?;
        if ended.code != 0 || !ended.stderr.is_empty() {
            return Err(format!("{ended:?}"));
        }
        let found = rows(&ended.stdout)?;
        let found: BTreeMap<String, u64> =
            found.into_iter().map(|(name, (calls, _))| (name, calls)).collect();
        let wrong = counts.iter().find(|(name, count)| {
            // These don't end while it's looked.
            found.get(*name) != Some(*count) && !["run", "main"].contains(&&***name)
        });
        if let Some((name, count)) = wrong {
            return Err(format!("{name}: {:?} instead of {count}", found.get(name)));
        }
    }
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).map_err(text)?;
    if maps.contains("top.mcount") {
        return Err("the trace is still mapped".to_owned());
    }
    served.end()
}

/// A program that's started is traced from its `main` on.
fn started(compiler: &str, flags: &[&str]) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile(compiler, flags, "threads.c")?;
    let options = ["top", "--once", "--format", "jsonl", "--interval", "1m", "--"];
    let ended = room.run("top", mcount(&options).arg(&program))?;
    if ended.code != 0 {
        return Err(format!("{ended:?}"));
    }
    let found = rows(&ended.stdout)?;
    let counted = room.counted("top")?;
    for ((_, function), count) in &counted {
        let found = found.get(function).map_or(0, |(calls, _)| *calls);
        if found != *count {
            return Err(format!("{function}: {found} instead of {count}"));
        }
    }
    if counted.is_empty() { Err("it counted nothing".to_owned()) } else { Ok(()) }
}

/// What a call called isn't its own time, however many calls these are.
fn own_time() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "inside.c")?;
    let options = ["top", "--once", "--format", "jsonl", "--interval", "1m", "--"];
    let ended = room.run("top", mcount(&options).arg(&program))?;
    if rows(&ended.stdout)?.get("leaf") != Some(&(400_000, true)) {
        return Err(format!("not all calls: {ended:?}"));
    }
    let mut times = BTreeMap::new();
    for line in ended.stdout.lines() {
        let row: serde_json::Value = serde_json::from_str(line).map_err(text)?;
        let number = |name: &str| row.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0);
        let name = row.get("function").and_then(|name| name.as_str()).unwrap_or_default();
        times.insert(name.to_owned(), (number("total_ns"), number("self_ns")));
    }
    let time = |name: &str| times.get(name).copied().unwrap_or_default();
    let ((all, outer), (of_middle, middle), (of_leaf, _)) =
        (time("outer"), time("middle"), time("leaf"));
    let is_near =
        |own: u64, whole: u64, inside: u64| own.abs_diff(whole.saturating_sub(inside)) <= all / 50;
    if is_near(outer, all, of_middle) && is_near(middle, of_middle, of_leaf) {
        Ok(())
    } else {
        Err(format!("{times:?}"))
    }
}

/// Text has a row of each function; `--filter` and `--sort` say which, and in which order.
fn in_words() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "hot.c")?;
    let options = ["top", "--once", "--plain", "--sort", "name", "--exclude", "hot", "--"];
    let ended = room.run("top", mcount(&options).arg(&program).arg("5"))?;
    let lines: Vec<&str> = ended.stdout.lines().collect();
    let last: Vec<&str> = lines.iter().filter_map(|line| line.split_whitespace().last()).collect();
    // On a busy machine, `main` hasn't returned when the second is over; `goes_on` may be a part of it.
    let (Some(title), Some(&["*FUNCTION", ref others @ .., "rare", "warm"])) =
        (lines.first(), last.get(1..))
    else {
        return Err(format!("{ended:?}"));
    };
    if others.iter().any(|name| !["goes_on", "main"].contains(name)) || !others.is_sorted() {
        return Err(format!("{ended:?}"));
    }
    if !title.starts_with("hot (process ") || !ended.stderr.starts_with("ready\n") {
        return Err(format!("{ended:?}"));
    }
    Ok(())
}

fn refused() -> Result<(), String> {
    let room = Room::new()?;
    let plain = room.compile("gcc", &["-O2"], "served.c")?;
    let plain = plain.to_string_lossy();
    let rows: &[(&[&str], &str)] = &[
        (&["top", "1"], "use --once"),
        (&["top", "--once", "--", "/nowhere/x"], "/nowhere/x: no such file"),
        (&["top", "--once", "--", &plain], "no function of"),
        (&["top", "--once", "--budget", "2", "1"], "not a part such as 2%"),
        (&["top", "--once"], "required"),
    ];
    for (arguments, expected) in rows {
        let ended = room.run("refused", &mut mcount(arguments))?;
        if ended.code != 2 || !ended.stderr.to_lowercase().contains(expected) {
            return Err(format!("{arguments:?}: {ended:?}"));
        }
    }
    Ok(())
}

/// A program that works all the time, and its number.
fn busy(program: &Path) -> Result<(Served, String), String> {
    let served = Served::start(program)?;
    let process = served.id().to_string();
    Ok((served, process))
}

fn keys() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "hot.c")?;
    let (_served, process) = busy(&program)?;
    let exe = env!("CARGO_BIN_EXE_mcount");
    let command =
        format!("{exe} top --interval 0.1s --filter rare --filter warm {process}; echo; stty -a");
    let mut terminal = Terminal::start(&room, &command)?;
    terminal.expect("*SELF", 0)?;
    terminal.expect("warm", 0)?;
    terminal.press("c", "*CALLS/S")?;
    terminal.press("n", "*FUNCTION")?;
    terminal.press("/rar\r", "only rar; ")?;
    let since = terminal.shown().len();
    terminal.press("x", "*MAX")?;
    terminal.expect("rare", since)?;
    if terminal.shown().get(since..).is_some_and(|shown| shown.contains("warm")) {
        return Err("the filter doesn't filter".to_owned());
    }
    terminal.press("w", "written to")?;
    terminal.press("w", "hot-2.mcount")?;
    terminal.press("p", "paused")?;
    terminal.press("q", "\x1b[?1049l")?;
    let shown = terminal.wait()?;
    let (_, after) = shown.rsplit_once("\x1b[?1049l").ok_or("it doesn't leave the screen")?;
    if !after.contains(" icanon") || !after.contains(" echo ") {
        return Err(format!("the terminal isn't as before: {after}"));
    }
    for name in ["hot.mcount", "hot-2.mcount"] {
        let mut trace = Trace::read(&room.path(name))?;
        let process = process.parse().unwrap_or(0);
        if !trace.finished || trace.count(process, "warm") < 100 || trace.count(process, "hot") != 0
        {
            return Err(format!("{name}: {} calls", trace.count(process, "warm")));
        }
        trace.check_nesting()?;
    }
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).map_err(text)?;
    if maps.contains("top.mcount") { Err("it's still traced".to_owned()) } else { Ok(()) }
}

/// Whichever of both processes is killed, the terminal is as it was, and the program is let go.
fn killed() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "hot.c")?;
    let exe = env!("CARGO_BIN_EXE_mcount");
    // The newest child of the newest one is the worker.
    for victim in ["$first", "$(cat /proc/$first/task/$first/children)"] {
        let (_served, process) = busy(&program)?;
        let command = format!(
            "{exe} top --interval 0.1s --exclude hot {process} < /dev/tty & first=$!; sleep 2; \
             kill -9 {victim}; wait; sleep 1; echo; stty -a; echo over"
        );
        // In a shell's background, and still allowed to read.
        let terminal = Terminal::start(&room, &format!("sh -c '{command}'"))?;
        let shown = terminal.wait()?;
        let after = shown.rsplit_once("\x1b[?1049l").ok_or("it doesn't leave the screen")?.1;
        if !after.contains(" icanon") || !after.contains("over") {
            return Err(format!("{victim}: the terminal isn't as before: {after}"));
        }
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).map_err(text)?;
        if maps.contains("top.mcount") {
            return Err(format!("{victim}: it's still traced"));
        }
    }
    Ok(())
}

const ROUNDS: &str = "60";

/// So many of the 600 million calls that `hot.c` makes may have been recorded until the function was given up. What
/// they cost is measured elsewhere: `cargo lab bench live`.
const MOST: u64 = 100_000_000;

fn budget_of_top() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "hot.c")?;
    // With room for all that's recorded until the function is given up, no call is missed on a busy machine.
    let options = ["top", "--once", "--format", "jsonl", "--budget", "2%", "--interval", "1m"];
    let mut top = mcount(&options);
    top.args(["--ring", "2G", "--"]).arg(&program).arg(ROUNDS);
    let ended = room.run("top", &mut top)?;
    let found = rows(&ended.stdout)?;
    let said = "--budget: called too often, so no longer traced: hot";
    match (found.get("hot"), found.get("rare")) {
        (Some((1..=MOST, false)), Some((60, true))) if ended.stderr.matches(said).count() == 1 => {
            Ok(())
        }
        _ => Err(format!("{ended:?}")),
    }
}

/// What the trace in `folder` has to have, and not.
fn check_trace(room: &Room, folder: &str, process: Option<u32>) -> Result<(), String> {
    let mut trace = room.trace(folder)?;
    let process = process.or(trace.processes.first().copied()).unwrap_or(0);
    let counts = ["hot", "rare"].map(|name| trace.count(process, name));
    let [hot, rare] = counts;
    let notes: Vec<&String> =
        trace.notes.iter().filter(|note| note.starts_with("--budget: called too often")).collect();
    let is_said = matches!(notes.as_slice(), [note] if note.ends_with(": hot"))
        || notes.iter().any(|note| note.contains("hot"));
    if hot == 0 || hot > MOST || rare < 10 || !is_said {
        return Err(format!("hot {hot}, rare {rare}, {:?}", trace.notes));
    }
    trace.check_nesting()
}

fn budget_of_attach() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "hot.c")?;
    // It runs long enough to be found running on a busy machine.
    let mut child = room.start("program", Command::new(&program).arg("400"))?;
    until("it's ready", || room.printed("program").contains("ready"))?;
    let options =
        ["attach", "--plain", "--output", "trace.mcount", "--budget", "2%", "--max-size", "1G"];
    let attached = room.run("attach", mcount(&options).arg(child.id().to_string()))?;
    let ended = room.wait("program", &mut child)?;
    let is_given_up = attached.stderr.contains("no longer traced: hot");
    if attached.code != 0 || ended.code != 0 || !is_given_up {
        return Err(format!("{attached:?}, {ended:?}"));
    }
    check_trace(&room, "attach", None)
}

fn budget_of_trace() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "hot.c")?;
    let options = ["trace", "--plain", "--output", "trace.mcount", "--budget", "2%", "--"];
    let ended = room.run("trace", mcount(&options).arg(&program).arg(ROUNDS))?;
    if !ended.stderr.contains("no longer traced: hot") {
        return Err(format!("{ended:?}"));
    }
    check_trace(&room, "trace", None)?;
    let mut trace = room.trace("trace")?;
    let process = trace.processes.first().copied().unwrap_or(0);
    match trace.count(process, "rare") {
        60 => trace.check_nesting(),
        other => Err(format!("rare: {other}")),
    }
}

/// A child that the process makes while it's attached to gives functions up as well.
fn budget_of_forked() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &[HOOKS, &["-DFORK"]].concat(), "hot.c")?;
    let mut child = room.start("program", Command::new(&program).arg("1000000"))?;
    until("it's ready", || room.printed("program").contains("ready"))?;
    let process = child.id();
    let place = testkit::standing::address_of(process, &program, "hot")?;
    let options = ["attach", "--plain", "--output", "trace.mcount", "--budget", "2%"];
    let mut attached = room.start("attach", mcount(&options).arg(process.to_string()))?;
    let path = format!("/proc/{process}/task/{process}/children");
    let forked = || std::fs::read_to_string(&path).unwrap_or_default().trim().parse::<u32>().ok();
    let is_given_up = |process: u32| {
        use std::os::unix::fs::FileExt;
        let memory =
            std::fs::OpenOptions::new().read(true).open(format!("/proc/{process}/mem")).ok()?;
        let read = |place: u64| {
            let mut word = [0; 4];
            memory.read_exact_at(&mut word, place).map(|()| word).map_err(text)
        };
        is_on(place, read).ok().map(|is_on| !is_on)
    };
    let is_idle = || forked().and_then(is_given_up) == Some(true);
    let found = until("the child's hook is idle", is_idle);
    kill_one(attached.id().into(), Signal::SIGINT);
    let ended = room.wait("attach", &mut attached)?;
    kill_one(forked().unwrap_or(0).into(), Signal::SIGKILL);
    let _ = child.kill();
    let _ = child.wait();
    found.map_err(|error| format!("{error}: {ended:?}"))
}

/// Hooks of two bytes, with five before them, are switched off as well, and are what they were in the end.
fn budget_with_short_jumps() -> Result<(), String> {
    let room = Room::new()?;
    let flags = ["-O2", "-fpatchable-function-entry=7,5"];
    let program = room.compile("gcc", &flags, "hot.c")?;
    let (served, process) = busy(&program)?;
    let options = ["top", "--once", "--format", "jsonl", "--budget", "2%", "--interval", "1s"];
    for _ in 0..2 {
        let ended = room.run("top", mcount(&options).arg(&process))?;
        if !matches!(rows(&ended.stdout)?.get("hot"), Some((_, false))) {
            return Err(format!("{ended:?}"));
        }
    }
    code_is_as_in_file(&program, served.id())
}
