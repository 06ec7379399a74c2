//! `mcount attach`: the program runs already, works when it's told to, and says how often each function was called for
//! that. The trace has exactly those calls, and the program's output and memory are as if nobody had been there.

use crate::Test;
use crate::truth::{Room, as_given, kill_one, until};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;
use testkit::sample::one_in;
use testkit::sample::trials;
use testkit::served::Served;
use testkit::trace::Trace;

const HOOKS: &[&str] = &["-O2", "-fpatchable-function-entry=5"];

/// What a test does.
type Check = fn() -> Result<(), String>;

/// Name, compiler, flags, source.
type Build = (&'static str, &'static str, &'static [&'static str], &'static str);

const BUILDS: &[Build] = &[
    ("pie", "gcc", HOOKS, "served.c"),
    ("no-pie", "gcc", &["-O2", "-no-pie", "-fpatchable-function-entry=5"], "served.c"),
    ("static", "gcc", &["-O2", "-static", "-fpatchable-function-entry=5"], "served.c"),
    ("static-pie", "gcc", &["-O2", "-static-pie", "-fpatchable-function-entry=5"], "served.c"),
    ("not-optimized", "gcc", &["-O0", "-fpatchable-function-entry=16"], "served.c"),
    ("before", "gcc", &["-O2", "-fpatchable-function-entry=7,5"], "served.c"),
    ("fentry", "gcc", &["-O2", "-pg", "-mfentry"], "served.c"),
    ("pg", "gcc", &["-O2", "-pg"], "served.c"),
    ("pg-aligned", "gcc", &["-O2", "-pg", "-DALIGNED"], "served.c"),
    ("cet", "gcc", &["-O2", "-fcf-protection", "-fpatchable-function-entry=5"], "served.c"),
    ("clang", "clang", HOOKS, "served.c"),
    ("musl", "musl-gcc", HOOKS, "served.c"),
    ("musl-static", "musl-gcc", &["-O2", "-static", "-fpatchable-function-entry=5"], "served.c"),
    ("fork", "gcc", HOOKS, "served-fork.c"),
    ("fork-static", "gcc", &["-O2", "-static", "-fpatchable-function-entry=5"], "served-fork.c"),
    ("throw", "g++", HOOKS, "served-throw.cpp"),
    ("throw-pg", "g++", &["-O2", "-pg"], "served-throw.cpp"),
    (
        "throw-static",
        "g++",
        &["-O2", "-static", "-fpatchable-function-entry=5"],
        "served-throw.cpp",
    ),
    ("throw-clang", "clang++", HOOKS, "served-throw.cpp"),
    #[cfg(target_arch = "x86_64")]
    ("sleds", "clang", SLEDS, "served.c"),
    #[cfg(target_arch = "x86_64")]
    ("sleds-throw", "clang++", SLEDS, "served-throw.cpp"),
];

/// Sleds, and LLVM's runtime for them.
pub(crate) const SLEDS: &[&str] =
    &["-O2", "-fxray-instrument", "-fxray-instruction-threshold=1", "-DSLEDS"];

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for (name, compiler, flags, source) in BUILDS {
        let run = || exact(compiler, flags, source);
        tests.push(test(&format!("attach::{name}"), &[compiler], run));
    }
    tests = one_in(3, tests);
    let rows: [(&str, Check); 15] = [
        ("attach::again", again),
        ("attach::copied-stacks", || copied_stacks(HOOKS)),
        ("attach::copied-stacks-fentry", || copied_stacks(&["-O2", "-pg", "-mfentry"])),
        ("attach::copied-stacks-pg", || copied_stacks(&["-O2", "-pg"])),
        ("attach::nobody-is-interrupted", nobody_is_interrupted),
        ("attach::patterns", patterns),
        ("attach::limits", limits),
        ("attach::calls", calls),
        ("attach::list", list),
        ("attach::process-ends", process_ends),
        ("attach::killed", killed),
        ("attach::both-killed", both_killed),
        ("attach::two-at-once", two_at_once),
        ("attach::refused", refused),
        ("attach::stripped-throw", stripped_throw),
    ];
    tests.extend(rows.map(|(name, run)| test(name, &["gcc", "g++"], run)));
    tests
}

fn test(
    name: &str,
    wants: &[&'static str],
    run: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Test {
    Test { name: name.to_owned(), wants: wants.to_vec(), open: None, run: Box::new(run) }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(crate) fn text<E: ToString>(error: E) -> String {
    error.to_string()
}

/// A program with the argument `served`, which waits for a line after its first, "ready".
pub(crate) struct Waiting {
    pub(crate) child: Child,
    /// What it prints.
    told: PathBuf,
}

impl Waiting {
    pub(crate) fn start(room: &Room, program: &Path) -> Result<Self, String> {
        let told = room.path("told");
        testkit::files::write(&told, b"")?;
        let output = OpenOptions::new().append(true).open(&told).map_err(text)?;
        let mut command = Command::new(program);
        command.arg("served").stdin(Stdio::piped()).stdout(output);
        let waiting = Self { child: command.spawn().map_err(text)?, told };
        until("it's ready", || waiting.said() == "ready\n")?;
        Ok(waiting)
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.told).unwrap_or_default()
    }

    /// Has it go on to its end; what it says behind its first line.
    pub(crate) fn go_on(mut self) -> Result<String, String> {
        self.child.stdin.take().ok_or("no input")?.write_all(b"go\n").map_err(text)?;
        self.child.wait().map_err(text)?;
        Ok(self.said().split_off("ready\n".len()))
    }
}

/// `mcount attach` at work.
pub(crate) struct Attached {
    pub(crate) child: Child,
    folder: PathBuf,
}

impl Attached {
    /// Attaches, in the folder `name` of `room`, and waits until calls are traced.
    pub(crate) fn start(
        room: &Room,
        name: &str,
        options: &[&str],
        process: u32,
    ) -> Result<Self, String> {
        Self::by(room, name, Command::new(env!("CARGO_BIN_EXE_mcount")), options, process)
    }

    /// The same by this command.
    pub(crate) fn by(
        room: &Room,
        name: &str,
        mut command: Command,
        options: &[&str],
        process: u32,
    ) -> Result<Self, String> {
        command.args(["attach", "--output", "trace.mcount"]).args(as_given(options));
        let child = room.start(name, command.arg(process.to_string()))?;
        let mut attached = Self { child, folder: room.path(name) };
        until("it attaches", || attached.said().contains("; ^C ends it") || attached.has_ended())?;
        if attached.has_ended() { Err(attached.said()) } else { Ok(attached) }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.folder.join("stderr")).unwrap_or_default()
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// What it says besides that it traces.
    fn notes(&self) -> String {
        self.said().lines().filter(|line| !line.ends_with("^C ends it")).collect()
    }

    /// ^C; the trace.
    pub(crate) fn stop(self) -> Result<Trace, String> {
        kill_one(self.child.id().into(), Signal::SIGINT);
        self.finish()
    }

    /// The trace, once it has ended.
    pub(crate) fn finish(mut self) -> Result<Trace, String> {
        let mut status = ExitStatus::from_raw(0);
        until("mcount attach ends", || match self.child.try_wait() {
            Ok(None) => false,
            Ok(Some(found)) => {
                status = found;
                true
            }
            Err(_) => true,
        })?;
        if !status.success() {
            return Err(format!("mcount attach: {status}: {}", self.said()));
        }
        let trace = Trace::read(&self.folder.join("trace.mcount"))?;
        if trace.finished && trace.dropped == 0 {
            Ok(trace)
        } else {
            Err(format!("finished {}, dropped {}", trace.finished, trace.dropped))
        }
    }
}

/// Has the trace these calls?
pub(crate) fn compare(counts: &BTreeMap<String, u64>, trace: &Trace) -> Result<(), String> {
    let wrong = counts.iter().filter(|(name, count)| trace.count(0, name) != **count);
    let wrong: Vec<String> = wrong
        .map(|(name, count)| format!("{name}: {} instead of {count}", trace.count(0, name)))
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join(", ")) }
}

/// Attaches some times, with work before, in between and after.
fn exact(compiler: &str, flags: &[&str], source: &str) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile(compiler, flags, source)?;
    let mut served = Served::start(&program)?;
    let expected = served.work()?;
    for round in 0..3 {
        let attached = Attached::start(&room, "attached", &[], served.id())?;
        let counts = served.work()?;
        let notes = attached.notes();
        let mut trace = attached.stop()?;
        if counts != expected || served.work()? != expected {
            return Err(format!("round {round}: {counts:?} instead of {expected:?}"));
        }
        compare(&counts, &trace).map_err(|error| format!("round {round}: {error}"))?;
        trace.check_nesting()?;
        if !trace.notes.is_empty() || !notes.is_empty() {
            return Err(format!("{:?} {notes}", trace.notes));
        }
    }
    served.end()
}

/// What stays in the process doesn't grow.
fn again() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let mut served = Served::start(&program)?;
    let mut sizes = Vec::new();
    for _ in 0..30 {
        let attached = Attached::start(&room, "attached", &[], served.id())?;
        let counts = served.work()?;
        compare(&counts, &attached.stop()?)?;
        sizes.push(served.size()?);
    }
    match (sizes.get(3), sizes.last()) {
        (Some(first), Some(last)) if last.0 <= first.0 && last.1 == first.1 => served.end(),
        _ => Err(format!("mappings and files: {sizes:?}")),
    }
}

/// Coroutines share a stack, and while somebody attaches or leaves, most of them are elsewhere. They go on as if nothing had been.
fn copied_stacks(flags: &[&str]) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", flags, "served-copies.c")?;
    let mut served = Served::start(&program)?;
    served.work()?;
    for round in 0..6 {
        let attached = Attached::start(&room, "attached", &[], served.id())?;
        let counts = served.work()?;
        compare(&counts, &attached.stop()?).map_err(|error| format!("round {round}: {error}"))?;
        // Twice, or never: then the next one finds frames that the last one has left.
        for _ in 0..2 * (round % 2) {
            served.work()?;
        }
    }
    served.end()
}

/// Threads that wait in the kernel go on waiting.
fn nobody_is_interrupted() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "blocked.c")?;
    let served = Served::start(&program)?;
    for _ in 0..15 {
        Attached::start(&room, "attached", &["--duration", "20ms"], served.id())?.finish()?;
    }
    served.end()
}

/// Only what is meant is armed.
fn patterns() -> Result<(), String> {
    const BOTH: &[&str] = if cfg!(any(target_arch = "aarch64", target_arch = "powerpc64")) {
        &["-O2", "-fpatchable-function-entry=2", "-pg"]
    } else if cfg!(target_arch = "riscv64") {
        &["-O2", "-fpatchable-function-entry=4", "-pg"]
    } else {
        &["-O2", "-fpatchable-function-entry=5", "-pg", "-mfentry"]
    };
    let rooms = [Room::new()?, Room::new()?];
    let [one, other] = &rooms;
    let programs =
        [one.compile("gcc", HOOKS, "served.c")?, other.compile("gcc", BOTH, "served.c")?];
    rooms.iter().zip(&programs).try_for_each(|(room, program)| patterns_in(room, program))
}

fn patterns_in(room: &Room, program: &Path) -> Result<(), String> {
    let mut served = Served::start(program)?;
    let rows: &[(&[&str], &[&str])] = &[
        (&["--filter", "leaf", "--filter", "d*"], &["leaf", "deep"]),
        (&["--exclude", "@*served", "--filter", "*"], &[]),
        (&["--exclude", "leaf"], &["deep", "target", "jumps", "other", "work"]),
    ];
    for (options, expected) in rows {
        let attached = Attached::start(room, "attached", options, served.id());
        if expected.is_empty() {
            if !attached.is_err_and(|error| error.contains("no hooked function matches the filter"))
            {
                return Err(format!("{options:?}: it attached to nothing"));
            }
            continue;
        }
        let attached = attached?;
        let counts = served.work()?;
        let trace = attached.stop()?;
        for (function, count) in counts {
            let wanted = if expected.contains(&&*function) { count } else { 0 };
            if trace.count(0, &function) != wanted {
                return Err(format!("{options:?}: {function}: {}", trace.count(0, &function)));
            }
        }
    }
    served.end()
}

/// Options, and how often some functions are in the trace then.
type Limits = (&'static [&'static str], &'static [(&'static str, u64)]);

/// Each time another kind of recording, in one process.
fn limits() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let mut served = Served::start(&program)?;
    let rows: &[Limits] = &[
        (&[], &[("leaf", 19_001), ("deep", 804), ("work", 4), ("other", 1)]),
        (&["--only-under", "deep"], &[("leaf", 800), ("deep", 804), ("work", 0), ("other", 0)]),
        (&["--entries"], &[("leaf", 19_001), ("deep", 804), ("work", 4), ("other", 1)]),
        (&["--depth", "1"], &[("leaf", 0), ("deep", 0), ("work", 4), ("other", 1)]),
        (&["--min-duration", "10s"], &[("leaf", 0), ("deep", 0), ("work", 0), ("other", 0)]),
        (&["--not-under", "work", "--clock", "none"], &[("deep", 0), ("work", 0), ("other", 1)]),
        (&["--depth", "1"], &[("leaf", 0), ("deep", 0), ("work", 4), ("other", 1)]),
        (&["--clock", "none"], &[("leaf", 19_001), ("deep", 804), ("work", 4), ("other", 1)]),
    ];
    let counts = served.work()?;
    for (options, expected) in rows {
        let attached = Attached::start(&room, "attached", options, served.id())?;
        if served.work()? != counts {
            return Err(format!("{options:?}: it counts otherwise"));
        }
        let trace = attached.stop()?;
        for (function, count) in *expected {
            if trace.count(0, function) != *count {
                let found = trace.count(0, function);
                return Err(format!("{options:?}: {function}: {found} instead of {count}"));
            }
        }
    }
    served.end()
}

/// It leaves by itself when there are enough calls.
fn calls() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let mut served = Served::start(&program)?;
    let mut attached = Attached::start(&room, "attached", &["--calls", "100000"], served.id())?;
    let mut count = 0;
    while !attached.has_ended() {
        count += served.work()?.values().sum::<u64>();
        sleep(Duration::from_millis(1)); // The recorder has to run, too.
        if count > 100_000_000 {
            return Err("it doesn't end".to_owned());
        }
    }
    let trace = attached.finish()?;
    let found: u64 = ["leaf", "deep", "target", "jumps", "work", "other"]
        .map(|function| trace.count(0, function))
        .iter()
        .sum();
    if found < 100_000 || found > count {
        return Err(format!("{found} calls of {count}"));
    }
    served.end()
}

/// Says what could be traced, and does nothing.
fn list() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let served = Served::start(&program)?;
    let before = served.size()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["attach", "--plain", "--list", "--filter", "d*", "--filter", "none"]);
    let ended = room.run("listed", command.arg(served.id().to_string()))?;
    let expected = format!("deep@{}\n", program.display());
    let note = "mcount: warning: no function matches none\n";
    if (ended.code, &*ended.stdout, &*ended.stderr) != (0, &expected, note) {
        return Err(format!("{ended:?}"));
    }
    if served.size()? != before {
        return Err("something is left in the process".to_owned());
    }
    served.end()
}

/// The process ends while it's traced: the trace is finished.
fn process_ends() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let mut served = Served::start(&program)?;
    let attached = Attached::start(&room, "attached", &[], served.id())?;
    let counts = served.work()?;
    served.end()?;
    compare(&counts, &attached.finish()?)
}

/// The bytes that a function begins with in memory, of a program that isn't position-independent.
fn first_bytes(program: &Path, process: u32, function: &str) -> Result<[u8; 5], String> {
    use std::os::unix::fs::FileExt;
    let address = testkit::standing::address_of(process, program, function)?;
    let memory = OpenOptions::new().read(true).open(format!("/proc/{process}/mem"));
    let memory = memory.map_err(text)?;
    let mut bytes = [0; 5];
    memory.read_exact_at(&mut bytes, address).map_err(text)?;
    Ok(bytes)
}

/// What the compiler leaves at an entry.
const NOPS: [u8; 5] = if cfg!(target_arch = "aarch64") {
    [0x1f, 0x20, 0x03, 0xd5, 0x1f]
} else if cfg!(target_arch = "riscv64") {
    [1, 0, 1, 0, 1]
} else if cfg!(target_arch = "powerpc64") {
    [0, 0, 0, 0x60, 0]
} else {
    [0x90; 5]
};
const FIXED: &[&str] = &["-O2", "-no-pie", "-fpatchable-function-entry=5"];

/// The worker, whose parent `mcount attach` is.
pub(crate) fn worker(attached: &Attached) -> Result<u64, String> {
    let id = attached.child.id();
    let path = format!("/proc/{id}/task/{id}/children");
    let children = std::fs::read_to_string(path).map_err(text)?;
    children.trim().parse().map_err(|_| format!("its children are {children:?}"))
}

/// `mcount attach` or its worker is killed, at some moment: the program runs on, right, its hooks are idle, and it can be
/// attached to again.
fn killed() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", FIXED, "served.c")?;
    let mut served = Served::start(&program)?;
    let expected = served.work()?;
    for round in (0..24).take(trials(48)) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command
            .args(["attach", "--plain", "--output", "trace.mcount"])
            .arg(served.id().to_string());
        let child = room.start("killed", &mut command)?;
        let mut attached = Attached { child, folder: room.path("killed") };
        if round % 2 == 0 {
            sleep(Duration::from_millis(3 * round));
        } else {
            until("it attaches", || attached.said().contains("^C ends it"))?;
        }
        let worker = worker(&attached).ok();
        // Its worker only once it stands by: it can't be killed in the middle of the work and leave no trace.
        match worker.filter(|_| round % 4 == 1) {
            Some(worker) => kill_one(worker, Signal::SIGKILL),
            None => attached.child.kill().map_err(text)?,
        }
        attached.child.wait().map_err(text)?;
        if let Some(worker) = worker {
            let folder = format!("/proc/{worker}");
            until("the worker ends", || !Path::new(&folder).exists())?;
        }
        if served.work()? != expected {
            return Err(format!("round {round}: it counts otherwise"));
        }
        for function in ["leaf", "target"] {
            let bytes = first_bytes(&program, served.id(), function)?;
            if bytes != NOPS {
                return Err(format!("round {round}: {function} begins with {bytes:x?}"));
            }
        }
    }
    let attached = Attached::start(&room, "attached", &[], served.id())?;
    let counts = served.work()?;
    compare(&counts, &attached.stop()?)?;
    served.end()
}

/// Both are killed: the program runs on, and the next one puts all right, whatever it is to trace itself.
fn both_killed() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", FIXED, "served.c")?;
    let mut served = Served::start(&program)?;
    let expected = served.work()?;
    for _ in 0..3 {
        let mut attached = Attached::start(&room, "killed", &[], served.id())?;
        let worker = worker(&attached)?;
        kill_one(attached.child.id().into(), Signal::SIGSTOP);
        kill_one(worker, Signal::SIGKILL);
        attached.child.kill().and_then(|()| attached.child.wait()).map_err(text)?;
        if first_bytes(&program, served.id(), "leaf")? == NOPS {
            return Err("nothing was left to do".to_owned());
        }
        if served.work()? != expected {
            return Err("it counts otherwise".to_owned());
        }
        let attached = Attached::start(&room, "attached", &["--filter", "deep"], served.id())?;
        if first_bytes(&program, served.id(), "leaf")? != NOPS {
            return Err("leaf is still armed".to_owned());
        }
        let counts = served.work()?;
        let trace = attached.stop()?;
        if trace.count(0, "leaf") != 0
            || trace.count(0, "deep") != counts.get("deep").copied().unwrap_or(0)
        {
            return Err(format!("{} and {}", trace.count(0, "leaf"), trace.count(0, "deep")));
        }
        if first_bytes(&program, served.id(), "deep")? != NOPS {
            return Err("deep is still armed".to_owned());
        }
    }
    served.end()
}

/// The second one is told who is there, and disturbs nobody.
fn two_at_once() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let mut served = Served::start(&program)?;
    let first = Attached::start(&room, "first", &[], served.id())?;
    let second = Attached::start(&room, "second", &[], served.id()).err().unwrap_or_default();
    let expected = format!("mcount attach (process {}) is attached to it already", worker(&first)?);
    if !second.contains(&expected) || second.lines().count() != 1 {
        return Err(second);
    }
    let counts = served.work()?;
    compare(&counts, &first.stop()?)?;
    served.end()
}

/// Those that can't be attached to: one line says why, and nothing has changed.
fn refused() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2"], "served.c")?;
    let served = Served::start(&program)?;
    let rows: [(String, &str); 4] = [
        (served.id().to_string(), "no function of"),
        ("1999999999".to_owned(), "there's no such process"),
        ("0".to_owned(), "processes are numbered from 1 on"),
        ("2".to_owned(), "it's a thread of the kernel"),
    ];
    for (process, why) in rows {
        let comm = std::fs::read_to_string("/proc/2/comm").unwrap_or_default();
        if process == "2" && comm.trim() != "kthreadd" {
            continue;
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        let ended = room.run("refused", command.args(["attach", "--plain"]).arg(&process))?;
        if ended.code != 2 || !ended.stderr.contains(why) {
            return Err(format!("{process}: {ended:?}"));
        }
        let left = std::fs::read_dir(room.path("refused")).map_err(text)?.count();
        if left != 2 {
            return Err(format!("{process}: it left a file"));
        }
    }
    served.end()
}

/// Nobody can tell whether a stripped static program has an unwinder: returns aren't traced, and it's said.
fn stripped_throw() -> Result<(), String> {
    let room = Room::new()?;
    let flags = &["-O2", "-static", "-s", "-fpatchable-function-entry=5"];
    let program = room.compile("g++", flags, "served-throw.cpp")?;
    let mut served = Served::start(&program)?;
    let expected = served.work()?;
    let attached = Attached::start(&room, "attached", &[], served.id())?;
    let counts = served.work()?;
    let note = attached.stop()?.notes.concat();
    if counts != expected || !note.contains("only entries are recorded") {
        return Err(format!("{counts:?}: {note}"));
    }
    served.end()
}
