//! `cargo lab sampled`: samples programs of Debian that do the same thing again and again, and says how often the 95 % intervals of
//! `mcount sample` hold the truth.
//!
//! The truth comes from two whole traces with different numbers of turns, which tell how often a turn calls each function, and from the
//! program itself: it prints a line after each turn, so it's known how many turns there were while it was sampled. A server's turn is a
//! request, and its client prints the line.

mod perf;
mod served;

use self::served::{Server, Serving};
use crate::{Result, apt, files, programs};
use lexopt::{Arg, ValueExt as _};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

const USAGE: &str = "\
usage: cargo lab sampled [--mcount PATH] [--rounds N] [--seconds N] [--cost PERCENT] [PROGRAM…]

Samples lua, perl, python, sqlite, redis, nginx, postgresql and a program of threads while they repeat something, and compares with
what they did.

  --mcount PATH   the program to test (default: target/release/mcount, built now)
  --rounds N      how often each is sampled (default: 10)
  --seconds N     for how long (default: 10)
  --cost PERCENT  what it may cost (default: 2%)
  --verbose       print the intervals that lack the truth
  --perf          compare own times with perf record, instead
";

/// A program that repeats something.
struct Program {
    name: &'static str,
    words: &'static [&'static str],
    file: &'static str,
    /// Its source. `N` is how many turns there are, or 0: no end.
    source: &'static str,
    /// Is the source a line for each turn on its standard input?
    is_fed: bool,
    probes: &'static [&'static str],
    /// Functions that a turn calls however often it likes.
    others: &'static [&'static str],
    /// What is sampled, if that's another process.
    server: Option<Server>,
}

/// Debian's packages of the programs, and of what asks nginx whether it's there.
const PACKAGES: [&str; 6] =
    ["apache2-utils", "lua5.4", "nginx-light", "postgresql", "redis-server", "sqlite3"];

/// Threads that wait while another one never does. With `mcount` at work, they may have to wait for a processor as well.
const THREADS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static volatile int turns;
__attribute__((noipa)) static void parse(void) { for (volatile int i = 0; i < 100; i++); }
__attribute__((noipa)) static void handle(int i) { for (int k = 0; k < i % 5; k++) parse(); usleep(500); }
__attribute__((noipa)) static void busy(void) { __asm__ volatile(""); }
static void *wait_and_work(void *_) {
    for (int i = 0; N == 0 || i < N / 4; i++) { handle(i); puts("turn"); }
    return 0;
}
static void *never_wait(void *_) { for (;;) busy(); }
int main(void) {
    pthread_t threads[4], hurry;
    setvbuf(stdout, 0, _IOLBF, 0);
    pthread_create(&hurry, 0, never_wait, 0);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, wait_and_work, 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    fflush(stdout);
    _exit(0);
}
"#;

const PROGRAMS: &[Program] = &[
    Program {
        name: "lua",
        words: &["lua5.4", "turns.lua"],
        file: "turns.lua",
        source: "local i = 0\nwhile N == 0 or i < N do\n  local t = {}\n  for k = 1, 90 do t[k] = tostring(k * 7919 % 1000) end\n  \
                 table.sort(t)\n  local s = table.concat(t, ','):gsub('%d+', function(d) return d + 1 end)\n  i = i + 1\n  \
                 print(i, #s)\n  io.flush()\nend\n",
        is_fed: false,
        probes: &["*@lua5.4"],
        others: &[],
        server: None,
    },
    Program {
        name: "perl",
        words: &["perl", "turns.pl"],
        file: "turns.pl",
        source: "$| = 1;\nfor (my $i = 0; N == 0 || $i < N; $i++) {\n  my %h = map { $_ => $_ * 7919 % 1000 } 1 .. 90;\n  \
                 my @s = sort { $h{$a} <=> $h{$b} } keys %h;\n  my $t = join ',', @s;\n  $t =~ s/(\\d+)/<$1>/g;\n  \
                 print length($t), \"\\n\";\n}\n",
        is_fed: false,
        probes: &["*@perl"],
        others: &[],
        server: None,
    },
    Program {
        name: "python",
        words: &["/usr/bin/python3", "-S", "turns.py"],
        file: "turns.py",
        source: "import json\ni = 0\nwhile N == 0 or i < N:\n    d = {str(k): k * 7919 % 1000 for k in range(90)}\n    \
                 s = json.dumps(sorted(d.items(), key=lambda item: item[1]))\n    i += len(json.loads(s)) // 90\n    \
                 print(i, flush=True)\n",
        is_fed: false,
        probes: &["*@python3*"],
        others: &[],
        server: None,
    },
    Program {
        name: "sqlite",
        words: &["sqlite3", "-batch", ":memory:"],
        file: "turns.sql",
        source: "with recursive t(k) as (select 1 union all select k + 1 from t where k < 90) \
                 select count(*), sum(k * 7919 % 1000), group_concat(k) from (select k from t order by k * 7919 % 1000);\n",
        is_fed: true,
        probes: &["*@libsqlite3*"],
        others: &[],
        server: None,
    },
    Program {
        name: "threads",
        words: &["./turns"],
        file: "turns.c",
        source: THREADS,
        is_fed: false,
        probes: &[],
        others: &["busy"],
        server: None,
    },
    served::REDIS,
    served::NGINX,
    served::POSTGRESQL,
];

impl Program {
    /// The options that say which functions are probed.
    fn probes(&self) -> Vec<&'static str> {
        self.probes.iter().flat_map(|probe| ["--probe", probe]).collect()
    }

    fn command(&self, folder: &Path) -> Result<Command> {
        let mut command = Command::new(self.words.first().ok_or("no program")?);
        command.args(self.words.get(1..).unwrap_or_default()).current_dir(folder);
        // Where `psql` finds its server.
        command.env("PGHOST", folder.join("server"));
        Ok(command)
    }

    /// Does a turn of the program call a function this often, and not only time? What a server does now and then is no turn's.
    fn is_turns(&self, calls: f64) -> bool {
        calls > if self.server.is_some() { 0.5 } else { 0.0 }
    }
}

/// Turns of the two traces. What both have is no turn's.
const TURNS: [u32; 2] = [100, 600];

/// Name and module of a function.
type Function = (String, String);

/// What is done how often.
struct Plan {
    mcount: PathBuf,
    rounds: u64,
    seconds: u64,
    cost: String,
    is_verbose: bool,
}

pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let (mut mcount, mut names) = (None, Vec::new());
    let (mut rounds, mut seconds, mut cost) = (10, 10, "2%".to_owned());
    let (mut is_verbose, mut with_perf) = (false, false);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("mcount") => mcount = Some(PathBuf::from(parser.value()?)),
            Arg::Long("rounds") => rounds = parser.value()?.parse()?,
            Arg::Long("seconds") => seconds = parser.value()?.parse()?,
            Arg::Long("verbose") => is_verbose = true,
            Arg::Long("perf") => with_perf = true,
            Arg::Long("cost") => cost = parser.value()?.string()?,
            Arg::Value(name) => names.push(name.string()?),
            Arg::Short('h') | Arg::Long("help") => {
                print!("{USAGE}");
                return Ok(true);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let mcount = programs::mcount(mcount)?;
    let plan = Plan { mcount, rounds, seconds, cost, is_verbose };
    if with_perf {
        apt::install(&apt::missing(&["linux-perf"]).unwrap_or_default())?;
        return perf::run(&plan);
    }
    apt::install(&apt::missing(&PACKAGES).unwrap_or_default())?;
    println!(
        "| program | functions called | intervals | hold the truth | overlap of calls | calls of functions left out | speed while sampled |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|");
    let mut all = Outcome::default();
    for program in PROGRAMS {
        if names.is_empty() || names.iter().any(|name| name == program.name) {
            let outcome = examine(program, &plan)?;
            println!("{}", outcome.row(program.name));
            all.intervals += outcome.intervals;
            all.held += outcome.held;
        }
    }
    let held = all.held / all.intervals;
    println!("\n{:.1} % of {} intervals hold the truth", held * 100.0, all.intervals);
    Ok((0.93..=0.97).contains(&held))
}

/// What came of a program.
#[derive(Default)]
struct Outcome {
    functions: usize,
    intervals: f64,
    held: f64,
    /// Of each round: the part of all calls that both agree on, without functions that were left out; what part of calls these have; and turns in
    /// a second as a part of those before and after.
    overlaps: Vec<f64>,
    left_out: Vec<f64>,
    speeds: Vec<f64>,
    is_verbose: bool,
}

impl Outcome {
    fn row(&self, name: &str) -> String {
        let held = if self.intervals > 0.0 {
            format!("{:.1} %", self.held / self.intervals * 100.0)
        } else {
            "-".to_owned()
        };
        format!(
            "| {name} | {} | {} | {held} | {:.1} % | {:.1} % | {:.3} |",
            self.functions,
            self.intervals,
            median(&self.overlaps) * 100.0,
            median(&self.left_out) * 100.0,
            median(&self.speeds),
        )
    }
}

fn examine(program: &Program, plan: &Plan) -> Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let truth = calls_of_a_turn(program, plan, folder.path())?;
    let is_verbose = plan.is_verbose;
    let mut outcome = Outcome { functions: truth.len(), is_verbose, ..Outcome::default() };
    for round in 0..plan.rounds {
        let mut running = Running::start(program, folder.path())?;
        std::thread::sleep(Duration::from_secs(2));
        let path = folder.path().join("sample.jsonl");
        let mut command = Command::new(&plan.mcount);
        command.arg("sample").args(program.probes()).args(["--cost", &plan.cost, "--seed"]);
        command.arg(round.to_string()).arg("--duration").arg(format!("{}s", plan.seconds));
        command.arg("--output").arg(&path).arg(running.target.to_string());
        let output = command.output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        std::thread::sleep(Duration::from_secs(2));
        let lines = String::from_utf8(files::read(&path)?)?;
        outcome.compare(program, &truth, &lines, &mut running)?;
    }
    Ok(outcome)
}

impl Outcome {
    fn compare(
        &mut self,
        program: &Program,
        truth: &BTreeMap<Function, f64>,
        lines: &str,
        running: &mut Running,
    ) -> Result<()> {
        let rows: Vec<Value> =
            lines.lines().map(serde_json::from_str).collect::<std::result::Result<_, _>>()?;
        let (left_out, rows): (Vec<Value>, Vec<Value>) =
            rows.into_iter().partition(|row| row.get("left_out").is_some());
        let left_out: BTreeSet<Function> = left_out.iter().map(function).collect();
        let number = |row: &Value, name: &str| row.get(name).and_then(Value::as_f64);
        let first = rows.first().ok_or("no function was called")?;
        let times = number(first, "start").zip(number(first, "seconds"));
        let (start, seconds) = times.ok_or("no times")?;
        let rate = running.turns(start, start + seconds) / seconds;
        let around = running.turns(start - 2.0, start - 0.5)
            + running.turns(start + seconds + 0.5, start + seconds + 2.0);
        self.speeds.push(rate / (around / 3.0));
        let mut sampled: BTreeMap<Function, f64> = BTreeMap::new();
        for row in &rows {
            let function = function(row);
            if program.others.contains(&&*function.0) {
                continue;
            }
            if program.server.is_some() && !truth.contains_key(&function) {
                continue;
            }
            let value = number(row, "calls_per_second").ok_or("no rate")?;
            if let Some(error) = number(row, "calls_per_second_error") {
                let calls = truth.get(&function).copied().unwrap_or(0.0) * rate;
                let holds = (value - calls).abs() <= error;
                if !holds && self.is_verbose {
                    eprintln!("{}: {value:.1} ± {error:.1} instead of {calls:.1}", function.0);
                }
                self.intervals += 1.0;
                self.held += f64::from(u8::from(holds));
            }
            *sampled.entry(function).or_default() += value;
        }
        let (without, known): (Vec<_>, Vec<_>) =
            truth.iter().partition(|(function, _)| left_out.contains(function));
        let sum =
            |calls: &[(&Function, &f64)]| calls.iter().fold(0.0, |sum, (_, calls)| sum + **calls);
        let (all, all_sampled) = (sum(&known), sampled.values().sum::<f64>());
        self.left_out.push(sum(&without) / (all + sum(&without)));
        let common = sampled.iter().map(|(function, calls)| {
            (calls / all_sampled).min(truth.get(function).copied().unwrap_or(0.0) / all)
        });
        self.overlaps.push(common.sum());
        if self.is_verbose {
            for (function, calls) in known {
                let found = sampled.get(function).copied().unwrap_or(0.0) / all_sampled * 100.0;
                let part = calls / all * 100.0;
                eprintln!("{}: {found:.2} % of calls instead of {part:.2} %", function.0);
            }
        }
        Ok(())
    }
}

/// How often a turn calls each function.
fn calls_of_a_turn(
    program: &Program,
    plan: &Plan,
    folder: &Path,
) -> Result<BTreeMap<Function, f64>> {
    let [few, many] = TURNS.map(|turns| calls_of(program, plan, folder, turns));
    let (few, many) = (few?, many?);
    let turns = f64::from(TURNS[1] - TURNS[0]);
    let each = many.into_iter().map(|(function, calls)| {
        let before = few.get(&function).copied().unwrap_or(0.0);
        (function, (calls - before) / turns)
    });
    Ok(each.filter(|(_, calls)| program.is_turns(*calls)).collect())
}

/// How often each function is called in so many turns.
fn calls_of(
    program: &Program,
    plan: &Plan,
    folder: &Path,
    turns: u32,
) -> Result<BTreeMap<Function, f64>> {
    let path = folder.join("turns.mcount");
    let _ = std::fs::remove_file(&path);
    if program.server.is_some() {
        served::trace(program, &plan.mcount, folder, turns)?;
    } else {
        let mut command = Command::new(&plan.mcount);
        command.args(["trace", "--plain", "--clock", "none"]).args(program.probes());
        command.args(["--output", "turns.mcount", "--"]).args(program.words).current_dir(folder);
        let mut child = start(program, command, folder, turns)?;
        let output = child.stdout.take().ok_or("no output")?;
        std::thread::spawn(move || BufReader::new(output).lines().for_each(drop));
        if !child.wait()?.success() {
            return Err(format!("{}: it can't be traced", program.name).into());
        }
    }
    let mut stats = Command::new(&plan.mcount);
    stats.args(["stats", "--format", "jsonl"]).arg(&path);
    let text = String::from_utf8(stats.output()?.stdout)?;
    let mut calls = BTreeMap::new();
    for line in text.lines() {
        let row: Value = serde_json::from_str(line)?;
        let function = function(&row);
        if program.others.contains(&&*function.0) {
            continue;
        }
        *calls.entry(function).or_default() +=
            row.get("calls").and_then(Value::as_f64).ok_or("no calls")?;
    }
    Ok(calls)
}

/// A function and its module, without symbolic links: those without a name have that of the module's file.
fn function(row: &Value) -> Function {
    let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default();
    let (name, module) = (text("function"), real(text("module")));
    let file = Path::new(&module).file_name().unwrap_or_default().to_string_lossy();
    match name.split_once("+0x") {
        Some((_, offset)) => (format!("{file}+0x{offset}"), module),
        None => (name.to_owned(), module),
    }
}

/// The path of a module without symbolic links: a program that is started knows its libraries by the names that it asks for.
fn real(module: &str) -> String {
    let path = Path::new(module).canonicalize();
    path.map_or_else(|_| module.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// Starts the program for so many turns; 0 for no end.
fn start(program: &Program, mut command: Command, folder: &Path, turns: u32) -> Result<Child> {
    if !program.is_fed {
        let source = program.source.replace('N', &turns.to_string());
        files::write(&folder.join(program.file), source.as_bytes())?;
    }
    if Path::new(program.file).extension().is_some_and(|extension| extension == "c") {
        let mut compiler = Command::new("gcc");
        compiler.args(["-O2", "-fpatchable-function-entry=5", "-pthread", "-o", "turns"]);
        if !compiler.arg(program.file).current_dir(folder).status()?.success() {
            return Err("gcc: it doesn't compile".into());
        }
    }
    let input = if program.is_fed { Stdio::piped() } else { Stdio::null() };
    command.env("PYTHONHASHSEED", "0").env("PERL_HASH_SEED", "0");
    let mut child = command.stdin(input).stdout(Stdio::piped()).spawn()?;
    if let Some(input) = child.stdin.take() {
        feed(input, program.source, turns);
    }
    Ok(child)
}

/// Writes a line for each turn; without end, if there are to be 0.
fn feed(mut input: ChildStdin, line: &'static str, turns: u32) {
    std::thread::spawn(move || {
        let mut turn = 0;
        while (turns == 0 || turn < turns) && input.write_all(line.as_bytes()).is_ok() {
            turn += 1;
        }
    });
}

/// A program that runs without end, and when its turns ended, in seconds since 1970.
struct Running {
    child: Child,
    /// The process that is sampled.
    target: u32,
    _server: Option<Serving>,
    ends: Arc<Mutex<Vec<f64>>>,
}

impl Running {
    fn start(program: &Program, folder: &Path) -> Result<Self> {
        let server = program.server.map(|server| server.start(folder)).transpose()?;
        let mut child = start(program, program.command(folder)?, folder, 0)?;
        let target = server.as_ref().map_or_else(|| Ok(child.id()), Serving::target)?;
        let output = child.stdout.take().ok_or("no output")?;
        let ends = Arc::new(Mutex::new(Vec::new()));
        let of_reader = Arc::clone(&ends);
        std::thread::spawn(move || {
            for _ in BufReader::new(output).lines() {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                if let (Ok(mut ends), Ok(now)) = (of_reader.lock(), now) {
                    ends.push(now.as_secs_f64());
                }
            }
        });
        Ok(Self { child, target, _server: server, ends })
    }

    /// How many turns ended between two times.
    fn turns(&self, from: f64, to: f64) -> f64 {
        let ends = self.ends.lock().map(|ends| ends.clone()).unwrap_or_default();
        let count = ends.iter().filter(|end| (from..to).contains(*end)).count();
        f64::from(u32::try_from(count).unwrap_or(u32::MAX))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
