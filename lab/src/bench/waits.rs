//! The row `waits`: what it costs that `mcount trace` records waits and time off the CPU without being told to.
//!
//! Programs that take free locks, hand jobs to threads, or a byte to another process (`benches/live/waits.c`) run under
//! `mcount trace --plain` and under `mcount trace`, and say how long they took, and how much processor time. What's compared is the
//! two sides of one round, as in [`super::idle`].

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
        "| program | `--plain` | by default | longer: median, quartiles | more processor time |\n\
         |---|--:|--:|--:|--:|\n",
    );
    for (program, words) in PROGRAMS {
        let mut times = Vec::new();
        for round in 0..options.runs {
            eprintln!("waits, {program}: round {} of {}", round + 1, options.runs);
            times.push(both(&ours.join("mcount"), &folder, program, round % 2 == 1)?);
        }
        let [plain, default] = [0, 1].map(|side| {
            let seconds = times.iter().filter_map(|round: &[Took; 2]| round.get(side));
            quartiles(seconds.map(|took| took.time).collect())[1]
        });
        let [longer, more] = [Took::time, Took::processor].map(|of| {
            let shares =
                times.iter().map(|[plain, default]| (of(default) / of(plain) - 1.0) * 100.0);
            let [low, middle, high] = quartiles(shares.collect());
            format!("{middle:.1} % ({low:.1} to {high:.1})")
        });
        let _ = writeln!(text, "| {words} | {plain:.3} s | {default:.3} s | {longer} | {more} |");
    }
    println!("{text}");
    if options.docs {
        document::put("docs/evidence.md", (BEGIN, END), &text)?;
    }
    Ok(())
}

/// What a program took, in seconds.
#[derive(Debug, Clone, Copy, Default)]
struct Took {
    time: f64,
    processor: f64,
}

impl Took {
    fn time(&self) -> f64 {
        self.time
    }

    fn processor(&self) -> f64 {
        self.processor
    }

    /// As the program prints it.
    fn from_words(printed: &str) -> Option<Self> {
        let (processor, time) = printed.trim().split_once(' ')?;
        Some(Self { processor: processor.parse().ok()?, time: time.parse().ok()? })
    }
}

/// What both sides took in one round.
fn both(mcount: &Path, folder: &Path, program: &str, is_reversed: bool) -> Result<[Took; 2]> {
    let mut took = [Took::default(); SIDES.len()];
    let mut order: Vec<_> = SIDES.iter().zip(&mut took).collect();
    if is_reversed {
        order.reverse();
    }
    for (options, took) in order {
        let mut command = Command::new(mcount);
        command.arg("trace").args(*options).args(["-o", "waits.mcount", "--", "./waits", program]);
        let output = command.current_dir(folder).stderr(Stdio::null()).output()?;
        std::fs::remove_file(folder.join("waits.mcount"))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        *took = Took::from_words(&printed)
            .ok_or_else(|| format!("waits {program} printed {printed:?}"))?;
    }
    Ok(took)
}
