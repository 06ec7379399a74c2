//! Programs that are compiled with each sanitizer that the compilers say they have: a trace of them has all their calls, or says why
//! it only has entries.

use crate::Test;
use crate::truth::{Room, tracer};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const FLAGS: &[&str] = &["-O1", "-g", "-fpatchable-function-entry=5"];

/// Runtimes of clang, by what's between `libclang_rt.` and the processor, and the sanitizers that they're of; none: what is for
/// something else.
const RUNTIMES: &[(&str, &[&str])] = &[
    ("asan", &["address"]),
    ("cfi", &["cfi"]),
    ("dfsan", &["dataflow"]),
    ("fuzzer", &[]),
    ("gwp_asan", &[]),
    ("hwasan", &["hwaddress"]),
    ("lsan", &["leak"]),
    ("memprof", &[]),
    ("msan", &["memory"]),
    ("rtsan", &["realtime"]),
    ("safestack", &["safe-stack"]),
    ("scudo", &["scudo"]),
    ("stats", &[]),
    ("tsan", &["thread"]),
    ("tysan", &["type"]),
    ("ubsan", &["undefined", "integer"]),
];

pub(crate) fn tests() -> Vec<Test> {
    let test = |compiler: &'static str| Test {
        name: format!("sanitizer::{compiler}"),
        wants: vec![compiler],
        open: None,
        run: Box::new(move || check(compiler)),
    };
    ["gcc", "clang"].into_iter().map(test).collect()
}

fn check(compiler: &str) -> Result<(), String> {
    let (mut tried, mut limited) = (BTreeSet::new(), BTreeSet::new());
    for name in sanitizers(compiler)? {
        let room = Room::new()?;
        let flag = format!("-fsanitize={name}");
        // Some need another processor, or other flags.
        let flags = [FLAGS, &[&flag]].concat();
        let Ok(program) = room.compile(compiler, &flags, "sums.c") else { continue };
        if let Some(why) = traced(&room, &program).map_err(|error| format!("{name}: {error}"))? {
            if why {
                limited.insert(name.clone());
            }
            tried.insert(name);
        }
    }
    let has = |name: &str| tried.contains(name);
    let are_limited = limited.iter().all(|one| ["thread", "memory", "dataflow"].contains(&&**one));
    if has("address") && has("undefined") && has("thread") && are_limited {
        Ok(())
    } else {
        Err(format!("tried {tried:?}, only entries of {limited:?}"))
    }
}

/// Whether only entries were recorded, which is said; `None` if the program doesn't run here.
fn traced(room: &Room, program: &Path) -> Result<Option<bool>, String> {
    // Leaks can't be looked for in a program that has a tracer.
    let quiet = |command: &mut Command| {
        command.env("ASAN_OPTIONS", "detect_leaks=0").env("LSAN_OPTIONS", "detect_leaks=0");
    };
    let mut command = Command::new(program);
    quiet(&mut command);
    let untraced = room.run("untraced", &mut command)?;
    if untraced.code != 0 {
        return Ok(None);
    }
    let mut command = tracer(program);
    quiet(&mut command);
    let ended = room.run("traced", &mut command)?;
    if (ended.code, &ended.stdout) != (untraced.code, &untraced.stdout) {
        return Err(format!("{untraced:?}, traced {ended:?}"));
    }
    let trace = room.trace("traced")?;
    let found = [trace.count(0, "leaf"), trace.count(0, "middle"), trace.dropped];
    let is_limited = ended.stderr.ends_with("returns takes: only entries are recorded\n");
    if found != [1000, 100, 0] || !is_limited && !ended.stderr.is_empty() {
        return Err(format!("{found:?}, {ended:?}"));
    }
    Ok(Some(is_limited))
}

/// What the compiler says it has.
fn sanitizers(compiler: &str) -> Result<BTreeSet<String>, String> {
    let said = |argument: &str| {
        let output = Command::new(compiler).arg(argument).output();
        let output = output.map_err(|error| error.to_string())?;
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    if compiler == "gcc" {
        let text = said("--completion=-fsanitize=")?;
        let names = text.lines().filter_map(|line| line.strip_prefix("-fsanitize="));
        return Ok(names.filter(|name| !name.is_empty()).map(str::to_owned).collect());
    }
    let folder = said("-print-resource-dir")?;
    let files = std::fs::read_dir(Path::new(folder.trim()).join("lib/linux"));
    let mut found = BTreeSet::new();
    for file in files.map_err(|error| error.to_string())?.flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        let Some(name) = name.strip_prefix("libclang_rt.") else { continue };
        let name = name.split(['-', '.']).next().unwrap_or_default();
        let row = RUNTIMES.iter().find(|(runtime, _)| {
            name.strip_prefix(runtime).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        });
        match row {
            Some((_, flags)) => found.extend(flags.iter().map(|flag| (*flag).to_owned())),
            None if name.contains("san") => return Err(format!("which sanitizer is {name} of?")),
            None => {}
        }
    }
    Ok(found)
}
