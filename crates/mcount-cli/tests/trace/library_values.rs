//! Arguments and results of library calls (`--library-calls` with `--args`): they're those that the program tells of.

use crate::Test;
use crate::attach::{Attached, Waiting};
use crate::library_calls::replay;
use crate::truth::{Room, tracer_with};
use serde_json::Value;

pub(crate) fn tests() -> Vec<Test> {
    let (name, wants) = ("library-values::recorded".to_owned(), vec!["gcc"]);
    vec![Test { name, wants, open: None, run: Box::new(recorded) }]
}

/// The options for values of library functions, which the user has to describe.
const VALUES: &[&str] = &[
    "--library-calls",
    "labs",
    "--library-calls",
    "strlen",
    "--args",
    "labs(i64) -> i64",
    "--args",
    "strlen(s) -> u64",
];

/// Arguments and results of library functions are those that the program tells of, from its start or later.
fn recorded() -> Result<(), String> {
    let room = Room::new()?;
    let flags = ["-O2", "-fno-builtin", "-fpatchable-function-entry=5"];
    let program = room.compile("gcc", &flags, "library-values.c")?;
    let ended = room.run("traced", &mut tracer_with(VALUES, &program))?;
    let told = told_values(&ended.stdout)?;
    let found = recorded_values(&room, "traced")?;
    if told.len() != 7 || found != told || ended.code != 0 {
        return Err(format!("{found:?} instead of {told:?}: {ended:?}"));
    }
    let waiting = Waiting::start(&room, &program)?;
    let attached = Attached::start(&room, "attached", VALUES, waiting.child.id())?;
    let told = told_values(&waiting.go_on()?)?;
    attached.finish()?;
    let found = recorded_values(&room, "attached")?;
    if found != told {
        return Err(format!("attached: {found:?} instead of {told:?}"));
    }
    let only = [VALUES, &["--if", "arg1 < 0"]].concat();
    room.run("some", &mut tracer_with(&only, &program))?;
    let found = recorded_values(&room, "some")?;
    // No address is less than 0.
    let meant =
        told.into_iter().filter(|(function, argument, _)| function == "labs" && argument == "-7");
    if found == meant.collect::<Vec<_>>() { Ok(()) } else { Err(format!("{found:?}")) }
}

/// Function, argument and result.
type Values = (String, String, String);

fn told_values(text: &str) -> Result<Vec<Values>, String> {
    let of_line = |line: &str| {
        let call: Value = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
        let field = |name: &str| call.get(name).cloned().unwrap_or_default();
        let function = field("function").as_str().unwrap_or_default().to_owned();
        let argument = if function == "labs" { field("number") } else { field("text") };
        Ok((function, argument.to_string(), field("result").to_string()))
    };
    text.lines().map(of_line).collect()
}

fn recorded_values(room: &Room, name: &str) -> Result<Vec<Values>, String> {
    let calls = replay(room, name)?.into_iter();
    let values = calls.filter_map(|call| {
        let function = call.get("function")?.as_str()?.to_owned();
        let value = |place: &str| call.pointer(place).cloned().unwrap_or_default().to_string();
        let is_one = ["labs", "strlen"].contains(&function.as_str());
        is_one.then(|| (function, value("/arguments/0/value"), value("/result/value")))
    });
    Ok(values.collect())
}
