//! Profilers: a program that stops at every instruction of its calls and takes a backtrace there, for each way to have hooks and
//! each way to record.

use crate::Test;
use crate::truth::{Also, Room, same, tracer};
use std::process::Command;
use testkit::sample::one_in;

const HOOKS: &[&[&str]] = &[
    &["-O2", "-fpatchable-function-entry=5"],
    &["-O0", "-fpatchable-function-entry=5"],
    &["-O2", "-fpatchable-function-entry=5", "-no-pie"],
    &["-O2", "-fpatchable-function-entry=5", "-static"],
    &["-O2", "-pg", "-mfentry"],
    &["-O2", "-pg"],
    &["-O2", "-pg", "-no-pie"],
    &["-O2", "-pg", "-static"],
    &["-O0", "-pg"],
];

const OPTIONS: &[&[&str]] = &[
    &["--entries"],
    &["--clock", "none"],
    &["--entries", "--clock", "none"],
    &["--min-duration", "1us"],
    &["--ring", "1M"],
    &["--args", "*", "--results", "*"],
    &["--not-under", "dynamic"],
    &["--budget", "50%"],
];

pub(crate) fn tests() -> Vec<Test> {
    let by_hooks = HOOKS.iter().map(|flags| test(flags, &[]));
    let lazy = &["-O2", "-fpatchable-function-entry=5", "-Wl,-z,lazy"];
    let lazy = test(lazy, &["--library-calls", "getppid"]);
    let patchable =
        OPTIONS.iter().map(|options| test(&["-O2", "-g", "-fpatchable-function-entry=5"], options));
    let late = OPTIONS.iter().map(|options| test(&["-O2", "-g", "-pg"], options));
    one_in(4, by_hooks.chain([lazy]).chain(patchable).chain(late).collect())
}

fn test(flags: &'static [&'static str], options: &'static [&'static str]) -> Test {
    let name = [flags, options].concat().join(" ").replace(' ', "_");
    let run = Box::new(move || steps(flags, options));
    Test { name: format!("steps::{name}"), wants: vec!["gcc"], open: None, run }
}

fn steps(flags: &[&str], options: &[&str]) -> Result<(), String> {
    let room = Room::new()?;
    if options.is_empty() {
        let program = room.compile("gcc", flags, "steps.c")?;
        return same(&room, &program, |_| {}, Also::Nesting);
    }
    let program = room.compile("gcc", flags, "steps.c")?;
    let untraced = room.run("untraced", &mut Command::new(&program))?;
    let before = tracer(&program);
    let mut command = Command::new(before.get_program());
    let mut words = before.get_args();
    command.args(words.next()).args(options).args(words);
    let traced = room.run("traced", command.env("SHOW_STEPS", "1"))?;
    if traced.code == 0 && traced.stdout == untraced.stdout {
        Ok(())
    } else {
        Err(format!("{untraced:?}, traced {traced:?}"))
    }
}
