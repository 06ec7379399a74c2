//! The row `waits`: what it costs that `mcount trace` records waits and time off the CPU without being told to.
//!
//! Programs that take free locks, hand jobs to threads, or a byte to another process (`benches/live/waits.c`) run under
//! `mcount trace --plain` and under `mcount trace`, and say what processor time they took. What's compared is the two times of
//! one round, as in [`super::idle`].

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::Options;
use super::idle::quartiles;
use crate::sources::shell;
use crate::{Result, document, files};

/// What the program is told to do, and in words.
const PROGRAMS: [(&str, &str); 3] = [
    ("free", "a thread takes a free lock, 150 million times"),
    ("queue", "a thread hands 300,000 jobs to three others"),
    ("pipe", "two processes hand a byte to each other, 300,000 times"),
];

/// The options of both sides.
const SIDES: [&[&str]; 2] = [&["--plain"], &[]];

const BEGIN: &str = "<!-- begin: cargo lab bench waits -->\n";
const END: &str = "<!-- end: cargo lab bench waits -->\n";

/// Measures, and prints a table; with `docs`, that goes to `docs/evidence.md`.
pub(crate) fn run(ours: &Path, options: &Options) -> Result<()> {
    let folder = files::target().join("bench/waits");
    files::make_folder(&folder)?;
    let source = files::workspace().join("benches/live/waits.c");
    let compile = "gcc -O2 -fpatchable-function-entry=5 -o waits";
    shell(&folder, &format!("{compile} '{}' -lpthread", source.display()))?;
    let mut text = String::from(
        "| program | `--plain` | by default | more processor time: median, quartiles |\n\
         |---|--:|--:|--:|\n",
    );
    for (program, words) in PROGRAMS {
        let mut times = Vec::new();
        for round in 0..options.runs {
            eprintln!("waits, {program}: round {} of {}", round + 1, options.runs);
            times.push(both(&ours.join("mcount"), &folder, program, round % 2 == 1)?);
        }
        let [plain, default] = [0, 1].map(|side| {
            let seconds = times.iter().filter_map(|round| round.get(side).copied());
            quartiles(seconds.collect())[1]
        });
        let more = times.iter().map(|[plain, default]| (default / plain - 1.0) * 100.0);
        let [low, middle, high] = quartiles(more.collect());
        let _ = writeln!(
            text,
            "| {words} | {plain:.3} s | {default:.3} s | {middle:.1} % ({low:.1} to {high:.1}) |"
        );
    }
    println!("{text}");
    if options.docs {
        document::put("docs/evidence.md", (BEGIN, END), &text)?;
    }
    Ok(())
}

/// Seconds of both sides in one round.
fn both(mcount: &Path, folder: &Path, program: &str, is_reversed: bool) -> Result<[f64; 2]> {
    let mut times = [0.0; SIDES.len()];
    let mut order: Vec<_> = SIDES.iter().zip(&mut times).collect();
    if is_reversed {
        order.reverse();
    }
    for (options, time) in order {
        let mut command = Command::new(mcount);
        command.arg("trace").args(*options).args(["-o", "waits.mcount", "--", "./waits", program]);
        let output = command.current_dir(folder).stderr(Stdio::null()).output()?;
        std::fs::remove_file(folder.join("waits.mcount"))?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let wrong = |_| format!("waits {program} printed {printed:?}");
        *time = printed.trim().parse().map_err(wrong)?;
    }
    Ok(times)
}
