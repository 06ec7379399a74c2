//! `cargo lab sampled --perf`: own times as `mcount sample` and `perf record` estimate them, at the same cost.
//!
//! A program takes steps in five functions (`callers.c` of the tests of `mcount trace`), on one of two processors. What part of its time each takes is
//! measured by `perf record` at 10,000 Hz for a minute. Then both sample it, in turn. What they cost is their processor time and the turns that the
//! program makes less; perf's rate is chosen so that it costs as much as `mcount` does.

use super::Plan;
use crate::{Result, files};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const FUNCTIONS: [&str; 5] = ["turn", "one", "two", "leaf", "rare"];

/// Parts of the program's time, by function.
type Parts = BTreeMap<String, f64>;

/// The program, which says how many turns it has made.
struct Turning {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Turning {
    fn start(folder: &Path) -> Result<Self> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/trace/callers.c");
        let mut compiler = Command::new("gcc");
        compiler.args(["-O2", "-g", "-fpatchable-function-entry=5", "-pthread", "-o", "callers"]);
        if !compiler.arg(source).current_dir(folder).status()?.success() {
            return Err("gcc: it doesn't compile".into());
        }
        let mut command = Command::new(folder.join("callers"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut program = Self { child, input, output };
        program.line()?;
        Ok(program)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }

    fn turns(&mut self) -> Result<f64> {
        self.input.write_all(b"\n")?;
        self.input.flush()?;
        Ok(self.line()?.trim().parse()?)
    }

    /// Turns in a second while this command runs, and the processor time that it takes, as a part of one processor.
    fn while_it_runs(&mut self, command: &mut Command) -> Result<(f64, f64)> {
        let (began, before, used) = (Instant::now(), self.turns()?, used_by_children());
        if !command.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success() {
            return Err(format!("{command:?} failed").into());
        }
        let elapsed = began.elapsed().as_secs_f64();
        let turns = self.turns()? - before;
        Ok((turns / elapsed, (used_by_children() - used) / elapsed))
    }
}

impl Drop for Turning {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Seconds of processor time of all children that have ended.
fn used_by_children() -> f64 {
    let text = files::read(Path::new("/proc/self/stat")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let behind = text.rsplit(')').next().unwrap_or_default();
    let ticks = |at: usize| behind.split_whitespace().nth(at).and_then(|word| word.parse().ok());
    // What the kernel counts in is a hundredth of a second (`proc(5)`).
    (ticks(13).unwrap_or(0.0) + ticks(14).unwrap_or(0.0)) / 100.0
}

fn perf(rate: u32, seconds: u64, process: u32, file: &Path) -> Command {
    let mut command = Command::new("perf");
    command.args(["record", "-e", "cpu-clock", "-F"]).arg(rate.to_string());
    command.arg("-o").arg(file).arg("-p").arg(process.to_string());
    command.args(["--", "sleep"]).arg(seconds.to_string());
    command
}

/// What a file of `perf` says.
fn parts(file: &Path) -> Result<Parts> {
    let mut command = Command::new("perf");
    command.args(["report", "--stdio", "--no-children", "-g", "none", "-F", "overhead,symbol"]);
    command.args(["--field-separator", ";", "-i"]).arg(file);
    let text = String::from_utf8(command.output()?.stdout)?;
    let mut parts = Parts::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((part, symbol)) = line.split_once(';') else { continue };
        let name = symbol.rsplit(' ').next().unwrap_or_default();
        let name = name.split('.').next().unwrap_or_default();
        let part: f64 = part.trim().trim_end_matches('%').parse()?;
        if FUNCTIONS.contains(&name) {
            *parts.entry(name.to_owned()).or_default() += part / 100.0;
        }
    }
    Ok(parts)
}

/// What a sample says.
fn own(file: &Path) -> Result<Parts> {
    let lines = String::from_utf8(files::read(file)?)?;
    let rows = lines.lines().map(serde_json::from_str::<Value>);
    let mut parts = Parts::new();
    for row in rows {
        let row = row?;
        let name = row.get("function").and_then(Value::as_str).unwrap_or_default().to_owned();
        parts.insert(name, row.get("self_share").and_then(Value::as_f64).unwrap_or(0.0));
    }
    Ok(parts)
}

/// Compares, and prints a table.
pub(super) fn run(plan: &Plan) -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let mut program = Turning::start(folder.path())?;
    let process = program.child.id();
    let file = folder.path().join("perf.data");
    program.while_it_runs(&mut perf(10_000, 60, process, &file))?;
    let truth = parts(&file)?;
    let seconds = plan.seconds;
    let mut idle = Command::new("sleep");
    let (alone, _) = program.while_it_runs(idle.arg(seconds.to_string()))?;
    println!("| | {} | turns | processor time |", FUNCTIONS.join(" | "));
    println!("|---|{}", "--:|".repeat(FUNCTIONS.len() + 2));
    let row = |name: &str, parts: &dyn Fn(&str) -> f64, turns: f64, used: f64| {
        let cells = FUNCTIONS.map(|one| format!("{:.2} %", parts(one) * 100.0));
        println!(
            "| {name} | {} | {:.2} % | {:.2} % |",
            cells.join(" | "),
            turns / alone * 100.0,
            used * 100.0
        );
    };
    row("their part of the time", &|one| truth.get(one).copied().unwrap_or(0.0), alone, 0.0);
    let sample = folder.path().join("sample.jsonl");
    let mut all: BTreeMap<&str, Vec<(Parts, f64, f64)>> = BTreeMap::new();
    for round in 0..plan.rounds {
        let mut mcount = Command::new(&plan.mcount);
        mcount.args(["sample", "--cost", &plan.cost, "--seed"]).arg(round.to_string());
        mcount.arg("--duration").arg(format!("{seconds}s")).arg("--output").arg(&sample);
        let (turns, used) = program.while_it_runs(mcount.arg(process.to_string()))?;
        all.entry("mcount sample").or_default().push((own(&sample)?, turns, used));
        for (name, rate) in
            [("perf record -F 99", 99), ("perf record -F 999", 999), ("perf record -F 4999", 4999)]
        {
            let (turns, used) = program.while_it_runs(&mut perf(rate, seconds, process, &file))?;
            all.entry(name).or_default().push((parts(&file)?, turns, used));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    println!("| *root of the mean square of errors:* |{}", " |".repeat(FUNCTIONS.len() + 2));
    for (name, rounds) in &all {
        let count = f64::from(u32::try_from(rounds.len()).unwrap_or(u32::MAX));
        let error = |one: &str| {
            let truth = truth.get(one).copied().unwrap_or(0.0);
            let square = |(parts, ..): &(Parts, f64, f64)| {
                (parts.get(one).copied().unwrap_or(0.0) - truth).powi(2)
            };
            (rounds.iter().map(square).sum::<f64>() / count).sqrt()
        };
        let mean =
            |of: &dyn Fn(&(Parts, f64, f64)) -> f64| rounds.iter().map(of).sum::<f64>() / count;
        row(name, &error, mean(&|one| one.1), mean(&|one| one.2));
    }
    Ok(true)
}
