//! Tests of `mcount-query`. Those of real programs take gcc and an `mcount`: `$MCOUNT`, or what is built in `target`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod fleet;
mod hostile;
mod real;
mod refused;
mod tables;

use mcount_trace::{End, Writer};
use std::path::{Path, PathBuf};
use testkit::room::{Outcome, Room};

const QUERY: &str = env!("CARGO_BIN_EXE_mcount-query");

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

/// Runs the program.
fn run(room: &Room, arguments: &[&str]) -> Outcome {
    room.run(Path::new(QUERY), arguments).unwrap()
}

/// What a query says, as comma-separated values without their names.
fn ask(room: &Room, inputs: &[&str], sql: &str) -> Vec<String> {
    let outcome = run(room, &[&["--format", "csv"], inputs, &[sql]].concat());
    let mut said = outcome.stderr.lines();
    let is_well = outcome.code == Some(0) && said.all(|line| line.contains("warning: [kernel]"));
    assert!(is_well, "{sql}: {outcome:?}");
    outcome.stdout.lines().skip(1).map(str::to_owned).collect()
}

/// The folder of the project.
fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// A trace of two threads: `main` calls `work` so often, each for 10 ticks; `other` never ends.
fn trace(calls: u64) -> Vec<u8> {
    let mut writer = Writer::new();
    let main = writer.function("/bin/program", "main");
    let work = writer.function("/bin/program", "work");
    let other = writer.function("/lib/library", "other");
    writer.process(100, 1, 0, "/bin/program");
    let (first, second) = (writer.thread(100, 100), writer.thread(100, 101));
    writer.thread_called(100, 100, 0, "first");
    for at in 0..calls {
        let start = 10 + at * 20;
        writer.call(first, work).from(start).to(start + 10).slot(0x7ffe_0000).end(End::Return);
    }
    writer.call(first, main).from(5).to(20 + calls * 20).slot(0x7ffe_1000).end(End::Exit);
    writer.open(second, other, 7, 0x7ffe_2000);
    writer.finish()
}
