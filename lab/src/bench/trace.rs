//! The row `trace`: what reading a trace costs, beside uftrace.
//!
//! A program of two threads makes as many calls as it is told to (`benches/live/tree.c`), once under each tracer. Then
//! all sides read what was recorded, in turns, and write to `/dev/null`. They go before what else the machine does, if
//! that's allowed (`chrt`): it would make all sides slower, by as much as chance has it. The result is a table in
//! `docs/evidence.md`.
//!
//! Both traces take 6 GB in `target/bench/trace` until they're measured.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::Options;
use crate::{Result, document, files};

/// Calls in the trace.
const CALLS: u64 = 100_000_000;

/// Rounds. One takes some minutes.
const MOST: usize = 3;

const BEGIN: &str = "<!-- begin: cargo lab bench trace -->\n";
const END: &str = "<!-- end: cargo lab bench trace -->\n";

/// A command of ours, and the one of uftrace that comes nearest to it.
struct Row {
    ours: &'static [&'static str],
    theirs: &'static [&'static str],
}

const ROWS: &[Row] = &[
    Row { ours: &["stats"], theirs: &["report", "--no-pager"] },
    Row { ours: &["replay", "--format", "folded"], theirs: &["dump", "--flame-graph"] },
    Row { ours: &["replay", "--format", "chrome"], theirs: &["dump", "--chrome"] },
    Row { ours: &["replay", "--format", "perfetto"], theirs: &[] },
    Row { ours: &["replay", "--format", "jsonl"], theirs: &[] },
    Row { ours: &["replay"], theirs: &["replay", "--no-pager"] },
    Row { ours: &["replay", "--from", "{half}ns", "--to", "{later}ns"], theirs: &[] },
    Row {
        ours: &["replay", "--thread", "ours", "--from", "{half}ns", "--to", "{later}ns"],
        theirs: &[],
    },
];

/// What a run took.
#[derive(Clone, Copy, Default)]
struct Cost {
    wall: f64,
    processor: f64,
    /// KiB.
    memory: u64,
}

/// Measures, and prints a table; with `docs`, that goes to `docs/evidence.md`.
pub(crate) fn run(ours: &Path, options: &Options) -> Result<()> {
    let folder = files::target().join("bench/trace");
    files::make_folder(&folder)?;
    let mcount = ours.join("mcount").to_string_lossy().into_owned();
    let half = record(&folder, &mcount)?;
    let fill = |word: &&str| {
        word.replace("{half}", &half.to_string()).replace("{later}", &(half + 10_000).to_string())
    };
    let mut all = vec![(Vec::new(), Vec::new()); ROWS.len()];
    let runs = options.runs.min(MOST);
    for round in 0..runs {
        eprintln!("trace: round {} of {runs}", round + 1);
        for (row, (own, others)) in ROWS.iter().zip(&mut all) {
            let words: Vec<String> = row.ours.iter().map(fill).collect();
            own.push(once(&folder, &mcount, &words, &["ours.mcount"])?);
            if !row.theirs.is_empty() {
                let words: Vec<String> = row.theirs.iter().map(fill).collect();
                others.push(once(&folder, "uftrace", &words, &["-d", "theirs"])?);
            }
        }
    }
    Command::new("rm").args(["-rf", "theirs", "ours.mcount"]).current_dir(&folder).status()?;
    let text = table(&all);
    println!("{text}");
    if options.docs {
        document::put("docs/evidence.md", (BEGIN, END), &text)?;
    }
    Ok(())
}

/// Makes both traces; half the time that ours covers, in nanoseconds.
fn record(folder: &Path, mcount: &str) -> Result<u64> {
    let source = files::workspace().join("benches/live/tree.c");
    let source = source.to_string_lossy();
    let calls = CALLS.to_string();
    let patchable = ["-O1", "-fpatchable-function-entry=5", "-o", "ours", &source, "-lpthread"];
    let profiled = ["-O1", "-pg", "-o", "profiled", &source, "-lpthread"];
    let begin = Instant::now();
    let commands: [&[&str]; 5] = [
        &[&["gcc"], &patchable[..]].concat(),
        &[&["gcc"], &profiled[..]].concat(),
        &["rm", "-rf", "theirs", "ours.mcount"],
        &["uftrace", "record", "--no-libcall", "-d", "theirs", "./profiled", &calls, "2"],
        &[mcount, "trace", "-o", "ours.mcount", "--", "./ours", &calls, "2"],
    ];
    let mut last = begin;
    for words in commands {
        last = Instant::now();
        let Some((program, rest)) = words.split_first() else { continue };
        if !Command::new(program).args(rest).current_dir(folder).status()?.success() {
            return Err(format!("{} failed", words.join(" ")).into());
        }
    }
    Ok(u64::try_from(last.elapsed().as_nanos() / 2)?)
}

/// Runs a command that reads a trace.
fn once(folder: &Path, program: &str, words: &[String], trace: &[&str]) -> Result<Cost> {
    let time = ["/usr/bin/time", "-f", "%U %S %M", program];
    let first: &[&str] = if may_go_first() { &["chrt", "-f", "1"] } else { &[] };
    let mut command = Command::new("env");
    command.args(first).args(time).args(words).args(trace).current_dir(folder);
    let begin = Instant::now();
    let output =
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?.wait_with_output()?;
    let wall = begin.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last: Vec<&str> = said.lines().last().unwrap_or_default().split(' ').collect();
    let [user, system, memory] = last.as_slice() else {
        return Err(format!("{program} {}: {said}", words.join(" ")).into());
    };
    let processor = user.parse::<f64>()? + system.parse::<f64>()?;
    Ok(Cost { wall, processor, memory: memory.parse()? })
}

/// Whether what is measured may go before what else the machine does.
fn may_go_first() -> bool {
    let tried = Command::new("chrt").args(["-f", "1", "true"]).stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

/// The run of median processor time.
fn median(runs: &[Cost]) -> Option<Cost> {
    let mut sorted = runs.to_vec();
    sorted.sort_by(|a, b| a.processor.total_cmp(&b.processor));
    sorted.get(sorted.len() / 2).copied()
}

#[expect(clippy::cast_precision_loss, reason = "numbers for people")]
fn table(all: &[(Vec<Cost>, Vec<Cost>)]) -> String {
    let mut text = format!(
        "{} million calls of two threads. Time is of the processors; elapsed time is in brackets.\n\n\
         | `mcount` | time | ns a call | memory | `uftrace` | time | against `mcount` |\n\
         |---|--:|--:|--:|---|--:|--:|\n",
        CALLS / 1_000_000
    );
    for (row, (ours, theirs)) in ROWS.iter().zip(all) {
        let Some(own) = median(ours) else { continue };
        let of_calls = own.processor * 1e9 / CALLS as f64;
        let name = row.ours.join(" ").replace("{half}ns", "A").replace("{later}ns", "B");
        let _ = write!(
            text,
            "| `{name}` | {:.2} s ({:.2} s) | {of_calls:.1} | {} MiB |",
            own.processor,
            own.wall,
            own.memory >> 10
        );
        let _ = match median(theirs) {
            Some(other) => writeln!(
                text,
                " `{}` | {:.2} s ({:.2} s) | {:.1}× ({:.1}×) |",
                row.theirs.join(" "),
                other.processor,
                other.wall,
                other.processor / own.processor,
                other.wall / own.wall
            ),
            None => writeln!(text, " | | |"),
        };
    }
    text
}
