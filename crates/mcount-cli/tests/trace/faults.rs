//! What goes wrong around the program: it's killed, the tracer is killed, the disk is full. The program doesn't
//! notice, and what was recorded is there.

use crate::Test;
use crate::truth::{Room, tracer};
use std::process::Command;

type Run = fn() -> Result<(), String>;

/// Name, why it fails so far, what it does.
const TESTS: &[(&str, Option<&str>, Run)] = &[
    ("refused", None, refused),
    ("no-such-program", None, no_such_program),
    ("no-such-folder", None, no_such_folder),
];

pub(crate) fn tests() -> Vec<Test> {
    let test = |(name, open, run): &(&str, Option<&'static str>, Run)| Test {
        name: format!("fault::{name}"),
        wants: vec!["gcc"],
        open: *open,
        run: Box::new(*run),
    };
    TESTS.iter().map(test).collect()
}

const HOOKS: &[&str] = &["-O2", "-fpatchable-function-entry=5"];

/// `mcount` ended with 2 and one line that has `text`, the program didn't run, and no trace is left.
fn is_refused(room: &Room, command: &mut Command, text: &str) -> Result<(), String> {
    let ended = room.run("traced", command)?;
    let is_one_line = ended.stderr.lines().count() == 1 && ended.stderr.contains(text);
    let left = ["mark", "trace.mcount"].map(|name| room.path("traced").join(name).exists());
    if ended.code == 2 && is_one_line && ended.stdout.is_empty() && left == [false; 2] {
        return Ok(());
    }
    Err(format!("{ended:?}, mark and trace left: {left:?}"))
}

/// A program without hooks doesn't run.
fn refused() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2"], "bare.c")?;
    is_refused(&room, tracer(&program).arg("mark"), "no function has a hook")
}

fn no_such_program() -> Result<(), String> {
    let room = Room::new()?;
    is_refused(&room, tracer(&room.path("nothing")).arg("mark"), "No such file")
}

fn no_such_folder() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "bare.c")?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["trace", "-o", "/nonexistent/trace.mcount", "--"]).arg(program).arg("mark");
    is_refused(&room, &mut command, "/nonexistent/trace.mcount: No such file")
}
