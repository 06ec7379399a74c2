//! Traces that a program records of itself have exactly the calls that it counted.

use crate::Test;
use crate::build::{FENTRY, Hooks, LINKS, Link, PATCHABLE, PG, Room, USUAL, sources};
use crate::reader::Trace;
use std::collections::HashMap;
use std::process::Command;

pub(crate) fn tests() -> Vec<Test> {
    let fixed = LINKS.iter().find(|link| link.name == "static").copied().unwrap_or(USUAL);
    [
        ("gcc", PATCHABLE, USUAL),
        ("clang", FENTRY, USUAL),
        ("gcc", PG, USUAL),
        ("gcc", PATCHABLE, fixed),
    ]
    .into_iter()
    .map(|(compiler, hooks, link)| Test {
        name: format!("traces/{compiler}/{}/{}", hooks.name, link.name),
        wants: vec![compiler],
        run: Box::new(move || check(compiler, hooks, link)),
    })
    .collect()
}

/// The program starts and ends many traces, and lists how many calls each must have.
fn check(compiler: &'static str, hooks: Hooks, link: Link) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.program(compiler, hooks.flags, link, &[sources("live").join("traces.c")])?;
    let late = if hooks.after_prologue { "after-prologue" } else { "" };
    testkit::process::run(Command::new(program).arg(late).current_dir(room.path("")))?;
    let text = room.text("truth")?;
    let mut traces: HashMap<&str, Trace> = HashMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, process, function, count] = words.as_slice() else {
            return Err(format!("not a count: {line}"));
        };
        if !traces.contains_key(name) {
            let mut trace = Trace::read(&room.path(name))?;
            trace.check_nesting().map_err(|error| format!("{name}: {error}"))?;
            traces.insert(name, trace);
        }
        let number = |word: &str| word.parse::<u64>().map_err(|error| format!("{line}: {error}"));
        let (process, count) = (number(process)?, number(count)?);
        let process = u32::try_from(process).map_err(|error| error.to_string())?;
        let found = traces.get(name).map_or(0, |trace| trace.count(process, function));
        if count != 0 && found != count {
            return Err(format!("{name}: {function}: {found} calls instead of {count}"));
        }
    }
    for (name, trace) in &traces {
        if trace.dropped != 0 || !trace.finished {
            return Err(format!("{name}: dropped {}, finished {}", trace.dropped, trace.finished));
        }
    }
    if traces.len() < 30 { Err(format!("only {} traces", traces.len())) } else { Ok(()) }
}
