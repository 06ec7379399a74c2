//! `mcount sample`: what it says of a program is near what the program counts itself, and nothing of it is left.

use crate::Test;
use crate::attach::text;
use crate::attach_where::code_is_as_in_file;
use crate::truth::{Room, kill_one, until};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use testkit::served::Served;

pub(crate) const HOOKS: &[&str] = &["-O2", "-fpatchable-function-entry=5"];

/// What a test does.
pub(crate) type Check = fn() -> Result<(), String>;

pub(crate) fn tests() -> Vec<Test> {
    let rows: [(&str, Check); 13] = [
        ("sample::near-the-truth", || near_the_truth(&["1"], &["--duration", "2s"])),
        ("sample::threads-100", || near_the_truth(&["100", "2000"], &["--duration", "2s"])),
        ("sample::forks", || near_the_truth(&["1", "500", "1"], &["--duration", "2s"])),
        // So many functions that each window has some of them only.
        ("sample::groups", || near_the_truth(&["1"], &["--duration", "6s", "--probe", "*@libc*"])),
        ("sample::ended", ended),
        ("sample::killed", killed),
        ("sample::refused", refused),
        ("sample::rotated", rotated),
        ("sample::rotated-folder-gone", folder_gone),
        ("sample::parquet", parquet),
        ("sample::program", program),
        ("sample::program-killed", program_killed),
        ("sample::too-soon", too_soon),
    ];
    rows.into_iter().map(test).collect()
}

pub(crate) fn test((name, run): (&str, Check)) -> Test {
    Test { name: name.to_owned(), wants: vec!["gcc"], open: None, run: Box::new(run) }
}

/// What the program says of itself.
#[derive(Debug, Clone, Copy)]
struct Counted {
    /// Nanoseconds.
    now: f64,
    calls: f64,
    nanoseconds: f64,
    shortest: f64,
    failed: f64,
}

fn ask(served: &mut Served) -> Result<Counted, String> {
    served.tell("count")?;
    let line = served.line()?;
    let words: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [now, calls, nanoseconds, shortest, failed, _] = words[..] else { return Err(line) };
    Ok(Counted { now, calls, nanoseconds, shortest, failed })
}

/// A program that counts, and where it is.
fn counting(room: &Room, arguments: &[&str]) -> Result<(PathBuf, Served), String> {
    let program = room.compile("gcc", HOOKS, "sampled.c")?;
    let served = Served::command(Command::new(&program).args(arguments))?;
    Ok((program, served))
}

pub(crate) fn sample(room: &Room, options: &[&str], process: u32) -> Result<Child, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.arg("sample").args(options).arg(process.to_string());
    room.start("sample", &mut command)
}

/// Waits until it has begun.
pub(crate) fn has_begun(room: &Room) -> Result<(), String> {
    let said = || std::fs::read_to_string(room.path("sample/stderr")).unwrap_or_default();
    until("it samples", || said().contains("; ^C ends it"))
}

fn near_the_truth(arguments: &[&str], options: &[&str]) -> Result<(), String> {
    let room = Room::new()?;
    let (program, mut served) = counting(&room, arguments)?;
    let before = ask(&mut served)?;
    let options = [&["--cost", "10%", "--seed", "7", "--format", "jsonl"], options].concat();
    let mut child = sample(&room, &options, served.id())?;
    let ended = room.wait("sample", &mut child)?;
    let after = ask(&mut served)?;
    if ended.code != 0 || after.failed != 0.0 {
        return Err(format!("{ended:?}, {after:?}"));
    }
    code_is_as_in_file(&program, served.id())?;
    let row = row(&ended.stdout, "step")?;
    let number = |name: &str| row.get(name).and_then(Value::as_f64);
    let calls = after.calls - before.calls;
    let rate = calls / (after.now - before.now) * 1e9;
    let mean = (after.nanoseconds - before.nanoseconds) / calls;
    for (name, truth) in [("calls_per_second", rate), ("mean_ns", mean)] {
        let found = number(name).ok_or("no estimate")?;
        // Few windows, on a machine with other work to do, don't say how far the truth may be.
        let Some(error) = number(&format!("{name}_error")) else { continue };
        // If a few calls were interrupted for long, windows may have had none of these.
        let is_time = name == "mean_ns";
        let least = if is_time { after.shortest / 2.0 } else { truth / 2.0 - 5.0 * error };
        if found < least || found > 1.5 * truth + 5.0 * error {
            return Err(format!("{name}: {found} ± {error} instead of {truth}, {after:?}"));
        }
    }
    // It goes on.
    let later = ask(&mut served)?;
    until("it makes calls", || ask(&mut served).is_ok_and(|now| now.calls > later.calls))
}

pub(crate) fn row(lines: &str, function: &str) -> Result<Value, String> {
    let rows = lines.lines().map(|line| serde_json::from_str(line).map_err(text));
    let rows: Vec<Value> = rows.collect::<Result<_, String>>()?;
    let is_it = |row: &Value| {
        row.get("function").and_then(Value::as_str) == Some(function)
            && row.get("left_out").is_none()
    };
    rows.into_iter().find(is_it).ok_or_else(|| format!("no {function} in {lines}"))
}

/// The process ends, or somebody ends the sample: there's a table.
fn ended() -> Result<(), String> {
    let room = Room::new()?;
    for signal in [None, Some(Signal::SIGINT), Some(Signal::SIGTERM)] {
        let (program, served) = counting(&room, &["2", "100"])?;
        let mut child = sample(&room, &["--cost", "10%"], served.id())?;
        has_begun(&room)?;
        std::thread::sleep(std::time::Duration::from_millis(300));
        let served = if let Some(signal) = signal {
            kill_one(child.id().into(), signal);
            Some(served)
        } else {
            drop(served);
            None
        };
        let ended = room.wait("sample", &mut child)?;
        let head = ended.stdout.lines().nth(1).unwrap_or_default();
        if ended.code != 0 || !head.starts_with("FUNCTION") || !ended.stdout.contains("sampled (") {
            return Err(format!("{signal:?}: {ended:?}"));
        }
        if let Some(served) = served {
            code_is_as_in_file(&program, served.id())?;
        }
    }
    Ok(())
}

/// Its first process is killed: the other makes the hooks idle.
fn killed() -> Result<(), String> {
    let room = Room::new()?;
    let (program, mut served) = counting(&room, &["2", "100"])?;
    let mut child = sample(&room, &["--cost", "50%"], served.id())?;
    has_begun(&room)?;
    kill_one(child.id().into(), Signal::SIGKILL);
    let _ = child.wait();
    let is_left = || !maps_have(served.id(), "top.mcount");
    until("the trace isn't mapped any more", is_left)?;
    code_is_as_in_file(&program, served.id())?;
    ask(&mut served).map(|_| ())
}

pub(crate) fn maps_have(process: u32, what: &str) -> bool {
    let maps = std::fs::read_to_string(Path::new("/proc").join(process.to_string()).join("maps"));
    maps.is_ok_and(|maps| maps.contains(what))
}

/// What can't be sampled is said in a line.
fn refused() -> Result<(), String> {
    let room = Room::new()?;
    let (_, served) = counting(&room, &["1", "100"])?;
    let process = served.id();
    for (options, said) in [
        (&["--filter", "nothing"] as &[&str], "nothing"),
        (&["--cost", "0%"], "--cost"),
        (&["--seed", "x"], "--seed"),
        (&["--keep", "3"], "--rotate"),
        (&["--rotate", "1s"], "--output"),
        (&["--output", "x", "--rotate", "1ms"], "at least 1s"),
        (&["--program", "x"], "cannot be used with"),
        (&["--output", "x", "--rotate", "1s", "--keep", "0"], "at least 1"),
        (&["--output", "-", "--rotate", "1s"], "needs the name of a file"),
        // It's said before the process is sampled.
        (&["--duration", "1h", "--output", "nowhere/x"], "nowhere/x: No such file"),
        (&["--duration", "1h", "--output", "."], "directory"),
    ] {
        let mut child = sample(&room, options, process)?;
        let ended = room.wait("sample", &mut child)?;
        if ended.code != 2 || !ended.stderr.contains(said) {
            return Err(format!("{options:?}: {ended:?}"));
        }
    }
    Ok(())
}

/// A sample for each period, of which the newest are kept. Together they are what one would have been.
fn rotated() -> Result<(), String> {
    let room = Room::new()?;
    let (_, mut served) = counting(&room, &["1", "50"])?;
    let path = room.path("kept.jsonl").display().to_string();
    let options =
        ["--cost", "20%", "-o", &path, "--rotate", "1s", "--keep", "3", "--duration", "4500ms"];
    let before = ask(&mut served)?;
    let mut child = sample(&room, &options, served.id())?;
    let ended = room.wait("sample", &mut child)?;
    let after = ask(&mut served)?;
    if ended.code != 0 || !ended.stdout.is_empty() {
        return Err(format!("{ended:?}"));
    }
    let files = files(&room, "kept-")?;
    // The last one is what was left when it ended.
    let [first, _, last] = &files[..] else { return Err(format!("{files:?}")) };
    let truth = (after.calls - before.calls) / (after.now - before.now) * 1e9;
    let mut start = 0.0;
    for path in &files {
        let row = row(&std::fs::read_to_string(path).map_err(text)?, "step")?;
        let number = |name: &str| row.get(name).and_then(Value::as_f64).ok_or("no number");
        let (began, seconds, rate) =
            (number("start")?, number("seconds")?, number("calls_per_second")?);
        let is_whole = path != last && (0.9..1.9).contains(&seconds);
        if began < start || !(is_whole || path == last && seconds < 1.9) {
            return Err(format!("{row:?}"));
        }
        start = began + seconds - 0.1;
        if !(truth / 4.0..truth * 4.0).contains(&rate) {
            return Err(format!("{rate} instead of {truth}: {row:?}"));
        }
    }
    let diff = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command.arg("diff").args(["--by", "calls", "--all", "--format", "jsonl"]);
        command.arg(format!("{},{}", first.display(), last.display())).arg(first);
        command
    };
    let ended = room.run("diff", &mut diff())?;
    if !ended.stdout.contains("\"function\":\"step\"") || ended.code > 1 {
        return Err(format!("{ended:?}"));
    }
    Ok(())
}

/// A table that's complete. What is in it is DuckDB's and Spark's matter: `cargo lab fleet`.
fn parquet() -> Result<(), String> {
    let room = Room::new()?;
    let (_, served) = counting(&room, &["1", "50"])?;
    let path = room.path("kept.parquet");
    let options = ["--cost", "20%", "--duration", "1s", "-o", &path.display().to_string()];
    let mut child = sample(&room, &options, served.id())?;
    let ended = room.wait("sample", &mut child)?;
    let file = testkit::files::read(&path)?;
    let has = |text: &str| file.windows(text.len()).any(|part| part == text.as_bytes());
    let is_whole = file.starts_with(b"PAR1") && file.ends_with(b"PAR1");
    if ended.code != 0 || !is_whole || !has("calls_per_second_error") || !has("step") {
        return Err(format!("{ended:?}: {} bytes", file.len()));
    }
    Ok(())
}

/// The files in the room whose names begin like this, in their order.
pub(crate) fn files(room: &Room, beginning: &str) -> Result<Vec<PathBuf>, String> {
    let all = room.path("").read_dir().map_err(text)?;
    let is_it = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(beginning))
    };
    let mut files: Vec<PathBuf> =
        all.filter_map(|entry| Some(entry.ok()?.path())).filter(is_it).collect();
    files.sort();
    Ok(files)
}

/// Starts `mcount sample --program` of a program that nothing else runs; its path.
fn sampling_program(room: &Room) -> Result<(PathBuf, Child), String> {
    let program = room.compile("gcc", HOOKS, "sampled.c")?;
    // As the room's folder, which no other test has.
    let folder = room.path("");
    let folder = folder.file_name().unwrap_or_default().to_string_lossy();
    let path = room.path(&format!("sampled-{}", folder.trim_start_matches('.')));
    std::fs::rename(program, &path).map_err(text)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command
        .args(["sample", "--cost", "20%", "--program"])
        .arg(path.file_name().unwrap_or_default());
    command.arg("-o").arg(room.path("kept.jsonl")).args(["--rotate", "1h"]);
    let child = room.start("sample", &mut command)?;
    Ok((path, child))
}

/// How often it has begun to sample a process.
fn beginnings(room: &Room) -> usize {
    let said = std::fs::read_to_string(room.path("sample/stderr")).unwrap_or_default();
    said.matches("; ^C ends it").count()
}

/// How often a process has ended without a sample.
fn too_short(room: &Room) -> usize {
    let said = std::fs::read_to_string(room.path("sample/stderr")).unwrap_or_default();
    said.matches("ended before there was a sample").count()
}

/// A program is sampled whenever it runs.
fn program() -> Result<(), String> {
    let room = Room::new()?;
    let (path, mut child) = sampling_program(&room)?;
    let start = || Served::command(Command::new(&path).args(["1", "50"]));
    let written = || files(&room, "kept-").map_or(0, |files| files.len());
    // On a busy machine, it takes some time until there's a window.
    let (mut run, mut time) = (0, std::time::Duration::from_millis(500));
    while written() < 2 {
        run += 1;
        let served = start()?;
        until("it samples", || beginnings(&room) == run)?;
        std::thread::sleep(time);
        drop(served);
        until("its file is there", || written() + too_short(&room) == run)?;
        if too_short(&room) != 0 {
            time *= 2;
        }
    }
    let served = start()?;
    until("it samples", || beginnings(&room) == run + 1)?;
    std::thread::sleep(time * 4);
    kill_one(child.id().into(), Signal::SIGTERM);
    let ended = room.wait("sample", &mut child)?;
    let files = files(&room, "kept-")?;
    if ended.code != 0 || files.len() != 3 || !ended.stdout.is_empty() {
        return Err(format!("{ended:?}: {files:?}"));
    }
    for path in files.iter().take(2) {
        row(&std::fs::read_to_string(path).map_err(text)?, "step")?;
    }
    code_is_as_in_file(&path, served.id())
}

/// Who looks for processes is killed: the sample ends, too.
fn program_killed() -> Result<(), String> {
    for seconds in [1, 4, 16] {
        if is_written_when_killed(std::time::Duration::from_secs(seconds))? {
            return Ok(());
        }
    }
    Err("there was no window in 16 s".to_owned())
}

/// Whether there was a window in this time.
fn is_written_when_killed(time: std::time::Duration) -> Result<bool, String> {
    let room = Room::new()?;
    let (path, mut child) = sampling_program(&room)?;
    let served = Served::command(Command::new(&path).args(["1", "50"]))?;
    until("it samples", || beginnings(&room) == 1)?;
    std::thread::sleep(time);
    kill_one(child.id().into(), Signal::SIGKILL);
    let _ = child.wait();
    let written = || files(&room, "kept-").map_or(0, |files| files.len());
    until("its file is there", || written() + too_short(&room) == 1)?;
    let is_left = || !maps_have(served.id(), "top.mcount");
    until("the trace isn't mapped any more", is_left)?;
    code_is_as_in_file(&path, served.id())?;
    until("nobody traces it", || !is_traced(served.id()))?;
    Ok(written() == 1)
}

/// A file can't be written for some time: sampling goes on, and says what's lost.
fn folder_gone() -> Result<(), String> {
    let room = Room::new()?;
    let (_, served) = counting(&room, &["1", "50"])?;
    let folder = room.path("samples");
    std::fs::create_dir(&folder).map_err(text)?;
    let path = folder.join("kept.jsonl").display().to_string();
    let mut child = sample(&room, &["--cost", "20%", "-o", &path, "--rotate", "1s"], served.id())?;
    has_begun(&room)?;
    std::fs::remove_dir(&folder).map_err(text)?;
    let said = || std::fs::read_to_string(room.path("sample/stderr")).unwrap_or_default();
    until("it says what's lost", || said().contains("this period is lost"))?;
    std::fs::create_dir(&folder).map_err(text)?;
    let is_any = || folder.read_dir().is_ok_and(|mut files| files.next().is_some());
    until("there's a file", is_any)?;
    kill_one(child.id().into(), Signal::SIGTERM);
    let ended = room.wait("sample", &mut child)?;
    let is_named = ended.stderr.contains("samples/kept-");
    if ended.code == 0 && is_named { Ok(()) } else { Err(format!("{ended:?}")) }
}

/// A process that's sampled for no time has no file, and that's said.
fn too_soon() -> Result<(), String> {
    let room = Room::new()?;
    let (_, served) = counting(&room, &["1", "50"])?;
    for (rotate, code) in [(&["--rotate", "1h"][..], 0), (&[], 2)] {
        let path = room.path("kept.jsonl").display().to_string();
        let options = ["--duration", "1us", "-o", &path];
        let mut child = sample(&room, &[&options, rotate].concat(), served.id())?;
        let ended = room.wait("sample", &mut child)?;
        let says = ended.stderr.contains("ended before there was a sample: nothing is written");
        if ended.code != code || !says || !files(&room, "kept")?.is_empty() {
            return Err(format!("{ended:?}"));
        }
    }
    Ok(())
}

fn is_traced(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    !status.contains("TracerPid:\t0\n")
}
