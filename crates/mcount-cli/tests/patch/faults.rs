//! Objects that are damaged, recorders that are killed, and others who have the process.

use crate::Check;
use crate::program::{HOOKS, Room, command, patch, text, until, with};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use testkit::damage::{Random, SECTIONS, damaged};
use testkit::sample::trials;
use testkit::served::Served;

pub(crate) const TESTS: &[(&str, Check)] = &[
    #[cfg(target_arch = "aarch64")]
    ("faults::inside-a-gate", inside_a_gate),
    ("faults::damaged-objects", damaged_objects),
    ("faults::damaged-programs", damaged_programs),
    ("faults::between-nops", between_nops),
    ("faults::inside-a-hook", inside_a_hook),
    ("faults::killed", killed),
    ("faults::both-killed", both_killed),
    ("faults::killed-while-it-stands", killed_while_it_stands),
    ("faults::killed-at-each-call", killed_at_each_call),
    ("faults::attached", attached),
    ("faults::breakpoint", breakpoint),
    ("faults::hostile-state", hostile_state),
    ("faults::two-at-once", two_at_once),
];

/// Whatever bytes are wrong, it's refused or done, and the program goes on, as it calls nothing of it.
fn damaged_objects() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("served", "gcc", HOOKS, &["served.c"])?;
    let fix = room.fix("fix.so", &["-Wl,-z,relro,-z,now"], &["fix.c"])?;
    let whole = testkit::files::read(&fix)?;
    let damaged = room.path("damaged.so");
    let mut served = Served::start(&program)?;
    let mut numbers = Random::new();
    let mut random = |below: usize| numbers.below(below);
    for round in 0..trials(200) {
        let mut bytes = whole.clone();
        if round % 4 == 0 {
            bytes.truncate(random(whole.len()));
        }
        for _ in 0..=random(4) {
            // Headers and tables are at both ends.
            let at = if random(2) == 0 { random(0x800) } else { random(whole.len()) };
            if let Some(byte) = bytes.get_mut(at) {
                *byte = match random(4) {
                    0 => 0,
                    1 => 0xff,
                    2 => 0x80,
                    _ => u8::try_from(random(256)).unwrap_or(0),
                };
            }
        }
        testkit::files::write(&damaged, &bytes)?;
        let ended = patch(&served, &damaged)?;
        match ended.code {
            Some(0 | 2) if !ended.stderr.contains("panicked") => {}
            _ => return Err(format!("round {round}: {ended:?}")),
        }
        if ended.code == Some(0) && with(&served, &["--revert"], &[])?.code != Some(0) {
            return Err(format!("round {round}: it can't be reverted"));
        }
        if round % 40 == 39 {
            served.ask("which", "11")?;
            served.end()?;
            served = Served::start(&program)?;
        }
    }
    Ok(())
}

/// Whatever is wrong with the symbols, the unwind information or the debug information of the program: its functions are
/// replaced or they aren't, and it goes on.
fn damaged_programs() -> Result<(), String> {
    const ROUNDS: usize = 4;
    let room = Room::new()?;
    let program = room.compile("served", "gcc", &[HOOKS, &["-g"]].concat(), &["served.c"])?;
    let fix = room.fix("both.so", &[], &["both.c"])?;
    let whole = testkit::files::read(&program)?;
    let copy = room.path("damaged");
    let (mut random, mut patched) = (Random::new(), 0);
    for section in SECTIONS {
        for round in 0..ROUNDS {
            let Some(bytes) = damaged(&whole, section, &mut random) else { continue };
            testkit::files::write_program(&copy, &bytes)?;
            let mut served = Served::start(&copy)?;
            served.ask("start", "started")?;
            let mut command = command(&["--wait", "300ms", &served.id().to_string()]);
            let ended = crate::program::run(command.arg(&fix))?;
            let at = format!("{section:?}, round {round}: {ended:?}");
            if !matches!(ended.code, Some(0..=2)) || ended.stderr.contains("panicked") {
                return Err(at);
            }
            let is_done = ended.code == Some(0);
            patched += u32::from(is_done);
            let error = |error| format!("{at}: {error}");
            served.ask("which", if is_done { "22" } else { "11" }).map_err(error)?;
            served.ask("stop", "called 0").map_err(error)?;
            served.end().map_err(error)?;
        }
    }
    // Else nothing was tried.
    if patched > 10 { Ok(()) } else { Err(format!("only {patched} were patched")) }
}

/// No landing pads.
#[cfg(target_arch = "x86_64")]
const NO_PADS: &[&str] = &["-fcf-protection=none"];
#[cfg(not(target_arch = "x86_64"))]
const NO_PADS: &[&str] = &["-mbranch-protection=none"];
/// Where a thread stands behind the first of five NOPs.
#[cfg(target_arch = "x86_64")]
const BETWEEN: [u64; 4] = [1, 2, 3, 4];
#[cfg(not(target_arch = "x86_64"))]
const BETWEEN: [u64; 2] = [4, 16];

/// A thread stands between the single NOPs of a hook that becomes one instruction, of a function that is replaced. Where one of them is
/// enough, it's behind that, and so in the function.
fn between_nops() -> Result<(), String> {
    let room = Room::new()?;
    let flags = [HOOKS, NO_PADS].concat();
    let program = room.compile("hot", "gcc", &flags, &["../trace/hot.c"])?;
    let fix = room.source("fix.c", "int hot(int n) { return n + 1; }")?;
    let fix = room.fix("fix.so", &[], &[&fix.to_string_lossy()])?;
    for offset in BETWEEN {
        let served = Served::start(&program)?;
        let process = served.id();
        let place = testkit::standing::address_of(process, &program, "hot")? + offset;
        testkit::standing::stop_at(process.cast_signed(), place)?;
        until("it stops", || state(process) == 'T')?;
        let patched = patch(&served, &fix)?;
        let is_behind = cfg!(not(target_arch = "x86_64"));
        if is_behind {
            patched.is(1, &format!("(hot) is in hot+{offset:#x}"))?;
        } else {
            patched.is(0, "replaces hot")?;
        }
        kill(Pid::from_raw(process.cast_signed()), Signal::SIGCONT).map_err(text)?;
        until("it goes on", || state(process) != 'T')?;
        // It has time for some instructions at least.
        let reverted = with(&served, &["--revert"], &[])?;
        if state(process) != 'R' {
            return Err(format!("{offset} bytes behind: {}, {reverted:?}", state(process)));
        }
        if is_behind {
            reverted.is(2, "no patch is in force")?;
        } else {
            reverted.is(0, "reverted")?;
        }
    }
    Ok(())
}

/// A thread has asked its gate where to go, and stands before it goes there, or before it has asked: it asks again.
#[cfg(target_arch = "aarch64")]
fn inside_a_gate() -> Result<(), String> {
    use std::os::unix::fs::FileExt;
    let room = Room::new()?;
    let program = room.compile("hot", "gcc", HOOKS, &["../trace/hot.c"])?;
    let fix = room.source("fix.c", "int hot(int n) { return n + 1; }")?;
    let fix = room.fix("fix.so", &[], &[&fix.to_string_lossy()])?;
    let served = Served::start(&program)?;
    let process = served.id();
    patch(&served, &fix)?.is(0, "replaces hot")?;
    let site = testkit::standing::address_of(process, &program, "hot")?;
    let memory = std::fs::File::open(format!("/proc/{process}/mem")).map_err(text)?;
    let mut bytes = [0; 4];
    memory.read_exact_at(&mut bytes, site).map_err(text)?;
    let branch = u32::from_le_bytes(bytes);
    if branch >> 26 != 0b00_0101 {
        return Err(format!("{branch:#x} is no branch"));
    }
    let gate = site.wrapping_add_signed(i64::from((branch << 6).cast_signed() >> 4));
    for offset in [4, 8] {
        testkit::standing::stop_at(process.cast_signed(), gate + offset)?;
        until("it stops", || state(process) == 'T')?;
        patch(&served, &fix)?.is(0, "replaces hot")?;
        let place = std::fs::read_to_string(format!("/proc/{process}/syscall")).map_err(text)?;
        if !place.trim_end().ends_with(&format!(" {gate:#x}")) {
            return Err(format!("{offset} bytes behind {gate:#x} it's at {place}"));
        }
        kill(Pid::from_raw(process.cast_signed()), Signal::SIGCONT).map_err(text)?;
        until("it goes on", || state(process) != 'T')?;
    }
    with(&served, &["--revert"], &[])?.is(0, "reverted")
}

/// A signal handler is to return there.
fn inside_a_hook() -> Result<(), String> {
    let room = Room::new()?;
    let flags = [HOOKS, &["-fcf-protection=none", "-DINSIDE"]].concat();
    let program = room.compile("served", "gcc", &flags, &["../trace/served.c"])?;
    let fix = room.source("fix.c", "int target(int n) { return n + 1; }")?;
    let fix = room.fix("fix.so", &[], &[&fix.to_string_lossy()])?;
    let mut served = Served::start(&program)?;
    served.ask("go", "inside")?;
    patch(&served, &fix)?.is(0, "replaces target")?;
    served.ask("on", "outside")?;
    served.tell("go")?;
    let counts = served.line()?;
    if counts.is_empty() { Err("it has ended".to_owned()) } else { served.end() }
}

/// What the kernel says that a process does.
fn state(process: u32) -> char {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('X')
}

/// The process that was started is killed at a random moment: the worker comes to an end by itself.
fn killed() -> Result<(), String> {
    killed_at_moments(|_| {})
}

/// Both are killed, as if the machine's memory were short.
fn both_killed() -> Result<(), String> {
    killed_at_moments(|worker| {
        let _ = kill(Pid::from_raw(worker), Signal::SIGKILL);
    })
}

/// Kills what was started; its worker, if there's one already, is given to `end`. Both are gone then.
fn end_both(mut child: Child, end: impl Fn(i32)) -> Result<(), String> {
    let process = i32::try_from(child.id()).map_err(text)?;
    let signal = |signal| kill(Pid::from_raw(process), signal).map_err(text);
    // So that it makes no worker meanwhile.
    signal(Signal::SIGSTOP)?;
    let state = |process: i32| {
        let path = format!("/proc/{process}/stat");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('X')
    };
    until("it stands", || matches!(state(process), 'T' | 'Z' | 'X'))?;
    let path = format!("/proc/{process}/task/{process}/children");
    let workers = std::fs::read_to_string(path).unwrap_or_default();
    let workers: Vec<i32> =
        workers.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    for worker in &workers {
        end(*worker);
    }
    signal(Signal::SIGKILL)?;
    child.wait().map_err(text)?;
    until("the worker ends", || workers.iter().all(|worker| matches!(state(*worker), 'Z' | 'X')))
}

fn killed_at_moments(end: impl Fn(i32)) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("served", "gcc", HOOKS, &["served.c"])?;
    let fix = room.fix("both.so", &[], &["both.c"])?;
    let mut served = Served::start(&program)?;
    // Once, so that what stays is there, and to see how long it takes.
    let since = std::time::Instant::now();
    patch(&served, &fix)?.is(0, "")?;
    let whole = since.elapsed();
    served.ask("start", "started")?;
    let mut is_new = true;
    for round in 0..50_u32 {
        let id = served.id().to_string();
        let mut child = if is_new { command(&["--revert", &id]) } else { command(&[&id]) };
        if !is_new {
            child.arg(&fix);
        }
        let child = child.stderr(Stdio::null()).spawn().map_err(text)?;
        sleep(whole * round / 50);
        end_both(child, &end).map_err(|error| format!("round {round}: {error}"))?;
        served.tell("which")?;
        let line = served.line()?;
        is_new = match line.as_str() {
            "22" => true,
            "11" => false,
            _ => return Err(format!("round {round}: {line}")),
        };
        with(&served, &["--list"], &[])?.is(0, if is_new { "in force" } else { "" })?;
    }
    served.ask("stop", "called 0")?;
    if !is_new {
        patch(&served, &fix)?.is(0, "")?;
        served.ask("which", "22")?;
    }
    with(&served, &["--revert"], &[])?.is(0, "reverted")?;
    served.ask("which", "11")?;
    served.end()
}

/// The worker is killed while the process stands, perhaps while a thread does something for it.
fn killed_while_it_stands() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("served", "gcc", HOOKS, &["served.c"])?;
    let fix = room.fix("both.so", &[], &["both.c"])?;
    let mut served = Served::start(&program)?;
    patch(&served, &fix)?.is(0, "")?;
    let (mut new, mut hits) = (0, 0);
    for round in 0..60_u32 {
        let id = served.id().to_string();
        let mut child = command(&[&id]).arg(&fix).stderr(Stdio::null()).spawn().map_err(text)?;
        let mut worker = 0;
        while worker == 0 && matches!(child.try_wait(), Ok(None)) {
            worker = tracer(served.id()).filter(|id| !is_own(*id)).unwrap_or(0);
        }
        let moment = std::time::Instant::now();
        while moment.elapsed() < std::time::Duration::from_micros(u64::from(round) * 15) {
            std::hint::spin_loop();
        }
        if worker != 0 {
            hits += 1;
            let _ = kill(Pid::from_raw(worker), Signal::SIGKILL);
        }
        child.wait().map_err(text)?;
        served.ask("which", "22").map_err(|error| format!("round {round}: {error}"))?;
        let listed = with(&served, &["--list"], &[])?;
        new = listed.stdout.lines().count();
        if new > 55 {
            // There's room for 64.
            served.end()?;
            served = Served::start(&program)?;
            patch(&served, &fix)?.is(0, "")?;
        }
    }
    if hits < 20 || new == 0 {
        return Err(format!("it was seen standing {hits} times"));
    }
    with(&served, &["--revert"], &[])?.is(0, "reverted")?;
    served.ask("which", "11")?;
    served.end()
}

/// The worker is killed before one of its calls of `ptrace`, while a process is patched for the first time: before each of the
/// first ones, and later before some.
fn killed_at_each_call() -> Result<(), String> {
    testkit::tools::need(["strace"]);
    let room = Room::new()?;
    let program = room.compile("served", "gcc", HOOKS, &["served.c"])?;
    let fix = room.fix("both.so", &[], &["both.c"])?;
    let (mut call, mut left_old) = (1, 0);
    loop {
        let mut served = Served::start(&program)?;
        let id = served.id().to_string();
        let patch = command(&[&id]);
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=ptrace"]);
        strace.arg("-e").arg(format!("inject=ptrace:signal=SIGKILL:when={call}"));
        strace.arg(patch.get_program()).args(patch.get_args()).arg(&fix);
        let ended = strace.stderr(Stdio::null()).status().map_err(text)?;
        served.tell("which")?;
        let line = served.line().map_err(|error| format!("call {call}: {error}"))?;
        match line.as_str() {
            "11" => left_old += 1,
            "22" => {}
            _ => return Err(format!("call {call}: {line}")),
        }
        if ended.success() {
            break;
        }
        if line == "11" {
            crate::program::patch(&served, &fix)?.is(0, "")?;
            served.ask("which", "22").map_err(|error| format!("call {call}: {error}"))?;
        }
        with(&served, &["--revert"], &[])?.is(0, "reverted")?;
        served.ask("which", "11")?;
        served.end()?;
        call += if call < 30 { 1 } else { 9 };
    }
    if left_old > 30 { Ok(()) } else { Err(format!("only {left_old} were killed in time")) }
}

/// Who traces a process.
fn tracer(process: u32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?.trim().parse().ok()
}

/// Whether a thread is one of this program. While a process is let go, the kernel takes the parent for the tracer for a moment
/// (`__ptrace_unlink`), and that's who started it.
fn is_own(thread: i32) -> bool {
    std::path::Path::new("/proc/self/task").join(thread.to_string()).exists()
}

/// `mcount attach` and `mcount patch` of one process: one after the other, or it's said who has it.
fn attached() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("served", "gcc", HOOKS, &["served.c"])?;
    let fix = room.fix("fix.so", &[], &["fix.c"])?;
    let mut served = Served::start(&program)?;
    let trace = room.path("trace.mcount");
    let attach = |served: &Served| -> Result<Child, String> {
        let errors = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(room.path("said"))
            .map_err(text)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command.args(["attach", "--output"]).arg(&trace).arg(served.id().to_string());
        let child = command.stderr(errors).spawn().map_err(text)?;
        let said = || std::fs::read_to_string(room.path("said")).unwrap_or_default();
        until("it attaches", || said().contains("^C ends it"))?;
        Ok(child)
    };
    let stop = |mut child: Child| {
        let process = i32::try_from(child.id()).map_err(text)?;
        kill(Pid::from_raw(process), Signal::SIGINT).map_err(text)?;
        let status = child.wait().map_err(text)?;
        if status.success() { Ok(()) } else { Err(format!("attach: {status}")) }
    };
    let child = attach(&served)?;
    patch(&served, &fix)?.is(2, "is attached to it already")?;
    served.ask("go", "8 4 8 5 1")?;
    stop(child)?;
    patch(&served, &fix)?.is(0, "replaces")?;
    let child = attach(&served)?;
    served.ask("go", "4001 -8 108 6 1")?;
    with(&served, &["--revert"], &[])?.is(2, "is attached to it already")?;
    stop(child)?;
    let said = std::fs::read_to_string(room.path("said")).map_err(text)?;
    if !said.contains("not as in their file, and left alone: 2 hooks") {
        return Err(said);
    }
    served.ask("go", "4002 -8 208 7 1")?;
    with(&served, &["--revert"], &[])?.is(0, "reverted")?;
    let child = attach(&served)?;
    served.ask("go", "8 4 209 7 1")?;
    stop(child)?;
    let said = std::fs::read_to_string(room.path("said")).map_err(text)?;
    if said.contains("left alone") {
        return Err(said);
    }
    served.end()
}

/// A hook that somebody else has changed is left alone, and the others too.
fn breakpoint() -> Result<(), String> {
    use std::os::unix::fs::FileExt;
    let room = Room::new()?;
    let flags = [HOOKS, &["-no-pie"]].concat();
    let program = room.compile("served", "gcc", &flags, &["served.c"])?;
    let fix = room.fix("fix.so", &[], &["fix.c"])?;
    let mut served = Served::start(&program)?;
    let address = testkit::standing::address_of(served.id(), &program, "hidden")?;
    // A breakpoint, and what was there.
    let (trap, nop): (&[u8], &[u8]) = if cfg!(target_arch = "aarch64") {
        (&[0, 0, 0x20, 0xd4], &[0x1f, 0x20, 0x03, 0xd5])
    } else {
        (&[0xcc], &[0x90])
    };
    let path = format!("/proc/{}/mem", served.id());
    let memory = std::fs::OpenOptions::new().write(true).open(path).map_err(text)?;
    memory.write_all_at(trap, address).map_err(text)?;
    let before = served.code()?;
    patch(&served, &fix)?
        .is(2, "the hook of hidden isn't as in its file: a debugger or another tracer has it")?;
    if served.code()? != before {
        return Err("something has changed".to_owned());
    }
    memory.write_all_at(nop, address).map_err(text)?;
    patch(&served, &fix)?.is(0, "replaces")?;
    served.ask("go", "4001 -8 107 6 1")?;
    served.end()
}

/// The program overwrites what is kept in it, with anything.
fn hostile_state() -> Result<(), String> {
    use std::os::unix::fs::FileExt;
    let room = Room::new()?;
    let program = room.compile("served", "gcc", HOOKS, &["served.c"])?;
    let fix = room.fix("fix.so", &[], &["fix.c"])?;
    for value in [u64::MAX, 0x7fff_ffff_f001, 1, 0xdead_beef_0001] {
        let served = Served::start(&program)?;
        patch(&served, &fix)?.is(0, "")?;
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", served.id())).map_err(text)?;
        // Of a patch itself, pieces are elsewhere in their file.
        let place =
            if cfg!(target_arch = "aarch64") { " rw-p 00004000 " } else { " rw-p 00003000 " };
        let is_data = |line: &&str| line.contains("mcount-patch") && line.contains(place);
        let line = maps.lines().find(is_data).ok_or(maps.clone())?;
        let start = line.split('-').next().ok_or("a line")?;
        let start = u64::from_str_radix(start, 16).map_err(text)?;
        let path = format!("/proc/{}/mem", served.id());
        let memory = std::fs::OpenOptions::new().write(true).open(path).map_err(text)?;
        let words: Vec<u8> = std::iter::repeat_n(value.to_le_bytes(), 3500).flatten().collect();
        memory.write_all_at(&words, start + 64).map_err(text)?;
        for words in [&["--list"][..], &["--revert"], &["--wait", "10ms"]] {
            let mut command = command(words);
            command.arg(served.id().to_string());
            if words == ["--wait", "10ms"] {
                command.arg(&fix);
            }
            let ended = crate::program::run(&mut command)?;
            if !matches!(ended.code, Some(0..=2)) || ended.stderr.contains("panicked") {
                return Err(format!("{value:#x} {words:?}: {ended:?}"));
            }
        }
    }
    Ok(())
}

/// Two at once: each is done, or it's said who's at work.
fn two_at_once() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("served", "gcc", HOOKS, &["served.c"])?;
    let fix = room.fix("both.so", &[], &["both.c"])?;
    let mut served = Served::start(&program)?;
    served.ask("start", "started")?;
    for round in 0..10 {
        let id = served.id().to_string();
        let start = || command(&[&id]).arg(&fix).stderr(Stdio::null()).spawn().map_err(text);
        let (mut one, mut other) = (start()?, start()?);
        let codes = [one.wait().map_err(text)?.code(), other.wait().map_err(text)?.code()];
        if !codes.iter().all(|code| matches!(code, Some(0 | 2))) {
            return Err(format!("round {round}: {codes:?}"));
        }
        served.ask("which", if codes.contains(&Some(0)) { "22" } else { "11" })?;
        if codes.contains(&Some(0)) {
            with(&served, &["--revert"], &[])?.is(0, "reverted")?;
        }
    }
    served.ask("stop", "called 0")?;
    served.end()
}
