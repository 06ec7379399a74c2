//! Markers that a program sets in a trace of itself (`tests/live/marks.c`); `mcount_trace` reads them here.

use crate::Test;
use crate::build::{FENTRY, Hooks, LINKS, Link, PATCHABLE, Room, USUAL, sources};
use mcount_trace::{Trace, Value};
use std::process::Command;

pub(crate) fn tests() -> Vec<Test> {
    let fixed = LINKS.iter().find(|link| link.name == "static").copied().unwrap_or(USUAL);
    [
        ("gcc", PATCHABLE, USUAL),
        ("gcc", FENTRY, USUAL),
        ("gcc", PATCHABLE, fixed),
        ("clang", PATCHABLE, USUAL),
    ]
    .into_iter()
    .map(|(compiler, hooks, link)| Test {
        name: format!("marks/{compiler}/{}/{}", hooks.name, link.name),
        wants: vec![compiler],
        run: Box::new(move || check(compiler, hooks, link)),
    })
    .collect()
}

fn check(compiler: &str, hooks: Hooks, link: Link) -> Result<(), String> {
    let room = Room::new()?;
    let flags = [link.flags, hooks.flags, &["-DMARKS_ELSEWHERE"]].concat();
    let elsewhere = room.object(compiler, &flags, "marks.c")?;
    let program =
        room.program(compiler, hooks.flags, link, &[sources("live").join("marks.c"), elsewhere])?;
    let path = room.path("own.mcount");
    let untraced = testkit::process::run(&mut Command::new(&program))?;
    let traced = testkit::process::run(Command::new(&program).arg(&path))?;
    if traced != untraced {
        return Err(format!("{traced} instead of {untraced}"));
    }
    let bytes = testkit::files::read(&path)?;
    let trace = Trace::parse(&bytes).map_err(|error| error.to_string())?;
    let long = "0123456789012345678901234567890123456789012345678901234567890123";
    let mut values = trace.values();
    let mut found = Vec::new();
    for call in trace.calls() {
        let name = trace.function(call.function).map_or(&b"?"[..], |function| function.name);
        if !values.is_mark(call.function) {
            found.push(String::from_utf8_lossy(name).into_owned());
            continue;
        }
        let caller = call.caller.and_then(|caller| trace.function(caller));
        let caller = caller.map_or("nobody".into(), |caller| String::from_utf8_lossy(caller.name));
        let arguments = values.arguments(&call).unwrap_or_default();
        let Some(Value::Text { bytes, is_cut, .. }) = arguments.first().map(|one| &one.value)
        else {
            return Err(format!("no text: {arguments:?}"));
        };
        let text = String::from_utf8_lossy(bytes);
        if *is_cut != (text == long) {
            return Err(format!("{text}: cut: {is_cut}"));
        }
        found.push(format!("{caller}: {text}"));
    }
    let phase = |text: &str, steps| {
        let head = ["phase".to_owned(), format!("phase: {text}")];
        head.into_iter().chain(vec!["step".to_owned(); steps]).collect::<Vec<_>>()
    };
    let last = ["elsewhere".to_owned(), "elsewhere: elsewhere".to_owned()];
    let right = [&["run".to_owned()][..], &phase("thread", 5), &phase(long, 2), &last].concat();
    if found == right { Ok(()) } else { Err(format!("{found:?} instead of {right:?}")) }
}
