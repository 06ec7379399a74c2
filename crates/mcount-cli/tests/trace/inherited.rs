//! What a program inherits from whoever starts it is the same with `mcount` in between.

use crate::Test;
use crate::truth::Room;
use std::process::Command;

pub(crate) fn tests() -> Vec<Test> {
    let test = |(name, prepares): (&str, &'static str)| Test {
        name: format!("inherited::{name}"),
        wants: vec!["sh"],
        open: None,
        run: Box::new(move || is_inherited(prepares)),
    };
    let rows = [
        ("nothing-special", "exec \"$@\""),
        ("ignored-pipe", "trap '' PIPE; exec \"$@\""),
        ("closed-input", "exec \"$@\" <&-"),
        ("closed-input-and-errors", "trap '' PIPE; exec \"$@\" <&- 2>&-"),
    ];
    rows.map(test).into()
}

/// Says which signals it ignores, and which standard descriptors it has. Signals from 32 on are left out: the C library uses two of them in
/// programs with threads.
const SAYS: &str =
    "while read name value; do [ $name != SigIgn: ] || echo ${value#????????}; done </proc/$$/status
for one in 0 1 2; do [ ! -e /proc/$$/fd/$one ] || echo $one; done";

/// A shell `prepares`, and executes what says how it is.
fn is_inherited(prepares: &str) -> Result<(), String> {
    let room = Room::new()?;
    let run = |name: &str, before: &[&str]| {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", prepares, "sh"]).args(before).args(["/bin/sh", "-c", SAYS]);
        room.run(name, &mut command)
    };
    let untraced = run("untraced", &[])?;
    let mcount = env!("CARGO_BIN_EXE_mcount");
    let traced = run("traced", &[mcount, "trace", "--probe", "*", "-o", "trace.mcount", "--"])?;
    if (untraced.code, &untraced.stdout) != (traced.code, &traced.stdout) || traced.code != 0 {
        return Err(format!("{untraced:?}, and traced {traced:?}"));
    }
    Ok(())
}
