//! Probes cost `mcount sample` nothing between windows: functions are as in their files then, and one byte arms them.
//!
//! `puns.c` calls functions whose first instructions have to be undone before they're executed elsewhere, and looks at what they return and at its
//! registers.

use crate::Test;
use crate::attach::text;
use crate::attach_where::code_is_as_in_file;
use crate::sample::{Check, maps_have, row, sample, test};
use crate::truth::{Room, kill_one, until};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use testkit::sample::one_in;
use testkit::served::Served;

/// What the kernel shows for pages that jumps lead to.
const PAGES: &str = "mcount-jumps";
const FUNCTIONS: [&str; 8] =
    ["pushes", "lowers", "restores", "twice", "subtracts", "leaf", "jumps", STAYS];
/// The one that has no such byte.
const STAYS: &str = "stays";

pub(crate) fn tests() -> Vec<Test> {
    if !cfg!(target_arch = "x86_64") {
        return Vec::new();
    }
    let rows: [(&str, Check); 4] = [
        ("sample::puns", || near_the_truth(&["-O2", "-no-pie"])),
        ("sample::puns-pie", || near_the_truth(&["-O2", "-pie", "-fPIE"])),
        ("sample::puns-left-out", left_out),
        ("sample::puns-killed", killed),
    ];
    let mut tests: Vec<Test> = rows.into_iter().map(test).collect();
    tests
        .iter_mut()
        .filter(|one| one.name.ends_with("killed"))
        .for_each(|one| one.wants.push("strace"));
    one_in(4, tests)
}

/// What the program says of itself.
struct Counted {
    seconds: f64,
    /// Calls of each function.
    calls: Vec<f64>,
    /// Those that aren't as they were at the start.
    changed: Vec<&'static str>,
}

fn ask(served: &mut Served) -> Result<Counted, String> {
    served.tell("count")?;
    let line = served.line()?;
    let words: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [now, words @ ..] = words.as_slice() else { return Err(format!("nothing: {line:?}")) };
    match words.split_at_checked(FUNCTIONS.len()) {
        Some((calls, [0.0, flags @ ..])) if flags.len() == FUNCTIONS.len() => {
            let changed = FUNCTIONS.into_iter().zip(flags).filter(|(_, flag)| **flag != 0.0);
            let changed = changed.map(|(function, _)| function).collect();
            Ok(Counted { seconds: now / 1e9, calls: calls.to_vec(), changed })
        }
        _ => Err(format!("wrong: {line:?}")),
    }
}

/// Waits until these functions are as in the file, but for some, while it's sampled.
fn wait_for_idle(served: &mut Served, but_for: &[&str]) -> Result<(), String> {
    until("functions are as in the file while it samples", || {
        let is_idle = |now: Counted| now.changed.iter().all(|function| but_for.contains(function));
        ask(served).is_ok_and(is_idle) && maps_have(served.id(), PAGES)
    })
}

/// It makes calls of all functions.
fn runs_on(served: &mut Served) -> Result<(), String> {
    let before = ask(served)?.calls;
    let is_more = |now: Counted| now.calls.iter().zip(&before).all(|(now, then)| now > then);
    until("it makes calls", || ask(served).is_ok_and(is_more))
}

/// The program, and a pattern for its functions.
fn compiled(room: &Room, flags: &[&str]) -> Result<(PathBuf, String), String> {
    let program = room.compile("gcc", flags, "puns.c")?;
    let pattern = format!("*@{}", program.display());
    Ok((program, pattern))
}

fn near_the_truth(flags: &[&str]) -> Result<(), String> {
    let room = Room::new()?;
    let (program, pattern) = compiled(&room, flags)?;
    let mut served = Served::command(Command::new(&program).arg("2"))?;
    let before = ask(&mut served)?;
    let options = ["--cost", "40%", "--format", "jsonl", "--probe", &pattern];
    let mut child = sample(&room, &options, served.id())?;
    until("there are pages", || maps_have(served.id(), PAGES))?;
    // On a busy machine, some functions are seen late.
    wait_for_idle(&mut served, &[STAYS])?;
    std::thread::sleep(Duration::from_secs(4));
    kill_one(child.id().into(), Signal::SIGINT);
    let ended = room.wait("sample", &mut child)?;
    let after = ask(&mut served)?;
    if ended.code != 0 || maps_have(served.id(), PAGES) {
        return Err(format!("{ended:?}"));
    }
    code_is_as_in_file(&program, served.id())?;
    let seconds = after.seconds - before.seconds;
    let calls = before.calls.iter().zip(&after.calls);
    let sampled = FUNCTIONS.iter().zip(calls).filter(|(function, _)| **function != STAYS);
    for (function, (before, after)) in sampled {
        let truth = (after - before) / seconds;
        let row = row(&ended.stdout, function)?;
        let number = |name: &str| row.get(name).and_then(Value::as_f64);
        let found = number("calls_per_second").ok_or("no estimate")?;
        let Some(error) = number("calls_per_second_error") else { continue };
        if found < truth / 2.0 - 5.0 * error || found > truth * 2.0 + 5.0 * error {
            return Err(format!("{function}: {found} ± {error} instead of {truth}"));
        }
    }
    runs_on(&mut served)
}

/// A function whose probe would cost too much isn't sampled, which is said.
fn left_out() -> Result<(), String> {
    let room = Room::new()?;
    let (program, pattern) = compiled(&room, &["-O2", "-no-pie"])?;
    let mut served = Served::command(Command::new(&program).arg("2"))?;
    let options = ["--cost", "3%", "--duration", "15s", "--format", "jsonl", "--probe", &pattern];
    let mut child = sample(&room, &options, served.id())?;
    wait_for_idle(&mut served, &[])?;
    let ended = room.wait("sample", &mut child)?;
    let said = ["mcount: 1 function left out, as its probe would cost ", ": stays; raise --cost"];
    let is_last = |line: &str| said.iter().all(|part| line.contains(part));
    if ended.code != 0 || !ended.stderr.lines().last().is_some_and(is_last) {
        return Err(format!("{ended:?}"));
    }
    // Each has windows of its own, and few of them.
    let has_row = |function: &&str| row(&ended.stdout, function).is_ok();
    let line = ended.stdout.lines().find(|line| line.contains("\"left_out\":true"));
    let is_named = line.is_some_and(|line| line.contains(&format!("\"function\":\"{STAYS}\"")));
    if has_row(&STAYS) || !is_named || FUNCTIONS.iter().filter(|one| has_row(one)).count() < 4 {
        return Err(format!("{ended:?}"));
    }
    code_is_as_in_file(&program, served.id())?;
    runs_on(&mut served)
}

/// Both processes of `mcount sample` are killed at one of their system calls, by lot: the program runs on, and the next one leaves nothing.
fn killed() -> Result<(), String> {
    /// System calls, and how many of them there are about.
    const CALLS: [(&str, u64); 3] = [("ptrace", 250), ("pwrite64", 400), ("pwrite64", 30)];
    let room = Room::new()?;
    let (program, pattern) = compiled(&room, &["-O2", "-no-pie"])?;
    let seed = std::env::var("MCOUNT_SEED").ok().and_then(|text| text.parse().ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(text)?;
    let seed: u64 = seed.unwrap_or_else(|| u64::from(now.subsec_nanos()));
    for (round, (call, most)) in CALLS.iter().cycle().take(9).enumerate() {
        let mixed = (seed ^ round as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        let number = mixed % most + 1;
        let at = |error: String| format!("MCOUNT_SEED={seed}, {call} {number}: {error}");
        killed_at((&room, &program, &pattern), call, number).map_err(at)?;
    }
    Ok(())
}

fn killed_at(
    (room, program, pattern): (&Room, &Path, &str),
    call: &str,
    number: u64,
) -> Result<(), String> {
    let mut served = Served::command(Command::new(program).arg("2"))?;
    let options = ["--cost", "40%", "--duration", "300ms", "--probe", pattern];
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e"]);
    strace.arg(format!("inject={call}:signal=KILL:when={number}"));
    strace.args([env!("CARGO_BIN_EXE_mcount"), "sample"]).args(options);
    room.run("killed", strace.arg(served.id().to_string()))?;
    ask(&mut served)?;
    let mut child = sample(room, &options, served.id())?;
    let ended = room.wait("sample", &mut child)?;
    if ended.code != 0 || maps_have(served.id(), PAGES) {
        return Err(format!("{ended:?}"));
    }
    code_is_as_in_file(program, served.id())?;
    runs_on(&mut served)
}
