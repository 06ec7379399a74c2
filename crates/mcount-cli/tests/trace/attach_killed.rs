//! `mcount attach` and `mcount top` are killed by `strace` at one of their system calls: the program runs on, its threads get what they
//! should, and the next one can attach.
//!
//! Which calls these are is what `strace` sees them make. In CI some are drawn by lot; what is said of a failure has the seed, with
//! which `MCOUNT_SEED` repeats it. With `MCOUNT_EVERY_CALL=1` it's each by which a process is changed: whoever is killed between two of
//! them leaves the same. Of the thousands that 100 threads take, it's some more by lot.

use crate::Test;
use crate::truth::{Room, kill_one};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use testkit::sample::{one_in, trials};
use testkit::served::Served;

/// What threads wait in.
const KINDS: [&str; 4] = ["epoll", "futex", "read", "user"];

/// What is killed, and its arguments before the process's ID.
const COMMANDS: [&[&str]; 2] = [
    &["attach", "--duration", "20ms", "--output", "trace.mcount"],
    &["top", "--once", "--interval", "50ms"],
];

/// How many calls are drawn in CI, for each command and number of threads: those by which a process is changed, and others.
const DRAWN: [(bool, usize); 2] = [(true, 5), (false, 3)];
const DRAWN_OF_100: [(bool, usize); 2] = [(true, 60), (false, 20)];

/// The calls by which a process is changed.
const CHANGING: [&str; 3] = ["ptrace", "pwrite64", "wait4"];

/// How often `mcount attach` reads memory or the trace at most. It was once for each chunk of the trace and each look at the process: thousands.
const MOST_READS: usize = 1000;

pub(crate) fn tests() -> Vec<Test> {
    let test = |kind: &'static str| Test {
        name: format!("attach::killed-at-work-{kind}"),
        wants: vec!["gcc", "strace"],
        open: None,
        run: Box::new(move || check(kind)),
    };
    let target = Test {
        name: "attach::target-killed".to_owned(),
        wants: vec!["gcc", "strace"],
        open: None,
        run: Box::new(target_killed),
    };
    one_in(5, KINDS.into_iter().map(test).chain([target]).collect())
}

/// The process is killed while `mcount attach` comes, records or leaves: `mcount` ends, too, and doesn't take the process for one that
/// doesn't stop. Each of its requests to the kernel takes longer, so that the process is killed between any two.
fn target_killed() -> Result<(), String> {
    let room = Room::new()?;
    let flags = &["-O2", "-pthread", "-fpatchable-function-entry=5"];
    let program = room.compile("gcc", flags, "stands.c")?;
    let seed = seed();
    let mut lot = Lot(seed);
    for _ in 0..trials(40) {
        let served = Served::command(Command::new(&program).args(["user", "4"]))?;
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=ptrace"]);
        strace.args(["-e", "inject=ptrace:delay_enter=1000", env!("CARGO_BIN_EXE_mcount")]);
        strace.args(["attach", "--plain", "--duration", "20ms", "-o", "trace.mcount"]);
        let mut attached = room.start("attached", strace.arg(served.id().to_string()))?;
        let delay = lot.draw(500);
        sleep(Duration::from_millis(u64::try_from(delay).unwrap_or(0)));
        kill_one(served.id().into(), Signal::SIGKILL);
        let ended = room.wait("attached", &mut attached)?;
        if ended.stderr.contains("doesn't stop") {
            return Err(format!("MCOUNT_SEED={seed}, after {delay} ms: {ended:?}"));
        }
    }
    Ok(())
}

/// Numbers by lot, always the same of a seed.
struct Lot(u64);

impl Lot {
    /// One of so many.
    fn draw(&mut self, count: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let count = u64::try_from(count).unwrap_or(1).max(1);
        usize::try_from((mixed ^ mixed >> 31) % count).unwrap_or(0)
    }
}

fn seed() -> u64 {
    let given = std::env::var("MCOUNT_SEED").ok().and_then(|text| text.parse().ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| u64::from(since.subsec_nanos()) ^ since.as_secs());
    given.unwrap_or(now)
}

fn check(kind: &'static str) -> Result<(), String> {
    let seed = seed();
    check_by(kind, &mut Lot(seed)).map_err(|error| format!("MCOUNT_SEED={seed}: {error}"))
}

fn check_by(kind: &'static str, lot: &mut Lot) -> Result<(), String> {
    let room = Room::new()?;
    let flags = &["-O2", "-pthread", "-fpatchable-function-entry=5"];
    let program = room.compile("gcc", flags, "stands.c")?;
    let is_every = std::env::var_os("MCOUNT_EVERY_CALL").is_some();
    let only = std::env::var("MCOUNT_THREADS").ok();
    let counts = ["1", "4", "100"].into_iter().take(if is_every { 3 } else { 2 });
    for threads in counts.filter(|count| only.as_ref().is_none_or(|only| only == count)) {
        for command in COMMANDS {
            let place = Place { room: &room, program: &program, kind, threads, command };
            let made = place.calls()?;
            let chosen = match (is_every, threads) {
                (true, "100") => drawn(&made, lot, &DRAWN_OF_100),
                (true, _) => made.into_iter().filter(is_changing).collect(),
                (false, _) => drawn(&made, lot, &DRAWN),
            };
            let (mut killed, tried) = (0, chosen.len());
            for (call, number) in chosen {
                killed += usize::from(place.killed_at(&call, number)?);
            }
            // Not all runs make the same calls, and those with the highest numbers only some do.
            if killed == 0 {
                return Err(format!("{kind}, {command:?}: killed at {killed} of {tried} calls"));
            }
        }
    }
    Ok(())
}

/// Is a process changed by this call?
fn is_changing((call, _): &(String, usize)) -> bool {
    CHANGING.contains(&call.as_str())
}

/// Some calls, by lot: so many by which a process is changed, and so many others.
fn drawn(
    made: &[(String, usize)],
    lot: &mut Lot,
    counts: &[(bool, usize)],
) -> Vec<(String, usize)> {
    let mut chosen = Vec::new();
    for (of_changing, count) in counts {
        let all: Vec<_> = made.iter().filter(|one| is_changing(one) == *of_changing).collect();
        let draw = |_| all.get(lot.draw(all.len())).map(|one| (*one).clone());
        chosen.extend((0..*count).filter_map(draw));
    }
    chosen
}

/// What is attached to, and how.
struct Place<'a> {
    room: &'a Room,
    program: &'a Path,
    kind: &'a str,
    threads: &'a str,
    command: &'a [&'a str],
}

impl Place<'_> {
    /// Runs the command by `strace` with these options, on a program that has to be well afterwards. What `strace` wrote.
    fn run(&self, what: &str, options: &[&str]) -> Result<String, String> {
        let Self { room, program, kind, threads, command } = *self;
        let at = format!("{kind}, {threads} threads, {}, {what}", command.first().unwrap_or(&""));
        let mut served = Served::command(Command::new(program).args([kind, threads]))?;
        let log = room.path("log");
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o"]).arg(&log).args(options);
        strace.arg(env!("CARGO_BIN_EXE_mcount")).args(command).arg(served.id().to_string());
        room.run("attached", &mut strace)?;
        let log = testkit::files::read(&log)?;
        served.ask("go", "here").map_err(|error| format!("{at}: {error}"))?;
        let said = served.last().map_err(|error| format!("{at}: {error}"))?;
        if said.starts_with("0 wrong,") {
            Ok(String::from_utf8_lossy(&log).into_owned())
        } else {
            Err(format!("{at}: {said:?}"))
        }
    }

    /// The calls that the command makes when nobody kills it: each with its number among those of its name in its thread.
    fn calls(&self) -> Result<Vec<(String, usize)>, String> {
        let log = self.run("not killed", &[])?;
        let mut by_thread: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for line in log.lines() {
            let mut words = line.splitn(2, ' ');
            let (Some(thread), Some(rest)) = (words.next(), words.next()) else { continue };
            let name = rest.trim_start().split('(').next().unwrap_or_default();
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            if rest.contains('(') && !name.is_empty() && name.bytes().all(is_name) {
                *by_thread.entry((name, thread)).or_default() += 1;
            }
        }
        let mut most: BTreeMap<&str, usize> = BTreeMap::new();
        for ((name, _), count) in by_thread {
            let known = most.entry(name).or_default();
            *known = count.max(*known);
        }
        if !CHANGING.iter().all(|name| most.get(name).is_some_and(|count| *count > 2)) {
            return Err(format!("{most:?}"));
        }
        let reads = most.get("pread64").copied().unwrap_or(0);
        if self.command.first() == Some(&"attach") && reads > MOST_READS {
            return Err(format!("{reads} reads"));
        }
        let each = |(name, count): (&str, usize)| {
            let name = name.to_owned();
            (1..=count).map(move |number| (name.clone(), number))
        };
        Ok(most.into_iter().flat_map(each).collect())
    }

    /// The command is killed at its call of this name and number. `false` if it made fewer.
    fn killed_at(&self, call: &str, number: usize) -> Result<bool, String> {
        let trace = format!("trace={call}");
        let inject = format!("inject={call}:signal=KILL:when={number}");
        let log = self.run(&format!("{call} {number}"), &["-e", &trace, "-e", &inject])?;
        Ok(log.contains("killed by SIGKILL"))
    }
}
