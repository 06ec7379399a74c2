//! The row `stop`: for how long `mcount attach` has a process stand, one with a hundred threads and ten thousand hooks.
//!
//! The program is `benches/live/threads.c`. What each attaching says with `--verbose` is listed; nothing is written to the
//! documents, since it says as much of the machine's other work as of `mcount`. With real-time priority
//! (`chrt -f 1 cargo lab bench stop`) it waits for a processor less often.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use super::Options;
use crate::attached::{Running, median};
use crate::sources::shell;
use crate::{Result, files};

/// Threads of the program.
const THREADS: &str = "100";

/// Measures, and prints how long it stood.
pub(crate) fn run(ours: &Path, options: &Options) -> Result<()> {
    let folder = files::target().join("bench/stop");
    files::make_folder(&folder)?;
    let root = files::workspace();
    let line = format!(
        "gcc -O2 -w -fpatchable-function-entry=5 '{0}/benches/live/threads.c' '{0}/tests/live/many.c' \
         -o threads -lpthread",
        root.display()
    );
    shell(&folder, &line)?;
    let mut command = Command::new(folder.join("threads"));
    command.arg(THREADS).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = Running(command.spawn()?);
    let output = program.0.stdout.take().ok_or("it has no output")?;
    BufReader::new(output).read_line(&mut String::new())?;
    let mut times = Vec::new();
    for _ in 0..options.runs {
        let mut command = Command::new(ours.join("mcount"));
        command.args(["attach", "--verbose", "--duration", "30ms", "--output", "stop.mcount"]);
        let output = command.arg(program.id().to_string()).current_dir(&folder).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let time =
            said.lines().find_map(|line| line.split_once("was stopped for ")?.1.split(' ').next());
        times.push(time.ok_or_else(|| said.clone())?.parse::<f64>()?);
    }
    let middle = median(&mut times);
    println!(
        "{THREADS} threads, 10,000 hooks: it was stopped for {middle:.2} ms (median of {})",
        times.len()
    );
    println!("all, in ms: {times:.2?}");
    Ok(())
}
