//! Sleds of LLVM's XRay as hooks, beside LLVM's own runtime for them, which writes calls over them when it's told to.

use crate::Test;
use crate::attach::{Attached, SLEDS, compare, text};
use crate::truth::{Room, tracer};
use object::{Object, ObjectSegment, ObjectSymbol};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use testkit::served::Served;

/// What a test does.
type Check = fn() -> Result<(), String>;

pub(crate) fn tests() -> Vec<Test> {
    if !cfg!(target_arch = "x86_64") {
        return Vec::new();
    }
    let rows: [(&str, Check); 6] = [
        ("sleds::code", code),
        ("sleds::patched", patched),
        ("sleds::patched-meanwhile", patched_meanwhile),
        ("sleds::patched-first", patched_first),
        ("sleds::some", some),
        ("sleds::commands", commands),
    ];
    let tests = rows.map(|(name, run)| Test {
        name: name.to_owned(),
        wants: vec!["clang"],
        open: None,
        run: Box::new(run),
    });
    tests.into()
}

fn served() -> Result<(Room, Served), String> {
    let room = Room::new()?;
    let program = room.compile("clang", SLEDS, "served.c")?;
    let served = Served::start(&program)?;
    Ok((room, served))
}

/// Attaches for some work; the calls are those that it says.
fn attach(room: &Room, served: &mut Served) -> Result<(), String> {
    let attached = Attached::start(room, "attached", &[], served.id())?;
    let counts = served.work()?;
    compare(&counts, &attached.stop()?)
}

/// The code of the program's functions, as its file has it and as it's in memory; the sleds at its returns are XRay's business.
fn entries(served: &Served, program: &Path) -> Result<[Vec<Vec<u8>>; 2], String> {
    const SLED: usize = 11;
    let bytes = testkit::files::read(program)?;
    let file = object::File::parse(&*bytes).map_err(text)?;
    // The runtime splits the mapping of the code.
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", served.id())).map_err(text)?;
    let line = maps.lines().find(|line| line.ends_with("/served")).ok_or("no mapping")?;
    let start = line.split('-').next().ok_or("no address")?;
    let bias = u64::from_str_radix(start, 16).map_err(text)?;
    let mut read = OpenOptions::new();
    let memory = read.read(true).open(format!("/proc/{}/mem", served.id())).map_err(text)?;
    let mut found = [Vec::new(), Vec::new()];
    for name in ["leaf", "deep", "target", "jumps", "work", "other"] {
        let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name)).ok_or(name)?;
        let at = symbol.address();
        let segment =
            file.segments().find(|one| (one.address()..one.address() + one.size()).contains(&at));
        let segment = segment.ok_or("no segment")?;
        let mut in_memory = [0; SLED];
        memory.read_exact_at(&mut in_memory, bias + at).map_err(text)?;
        let in_file = segment.data_range(at, SLED as u64).map_err(text)?.ok_or("no bytes")?;
        for (all, one) in found.iter_mut().zip([in_file, &in_memory]) {
            all.push(one.to_vec());
        }
    }
    Ok(found)
}

/// Afterwards the code is as in the file.
fn code() -> Result<(), String> {
    let (room, mut served) = served()?;
    let before = served.code()?;
    let [file, memory] = entries(&served, &room.path("served"))?;
    if memory != file || !file.iter().all(|sled| sled.starts_with(&[0xeb, 0x09])) {
        return Err(format!("{memory:02x?} instead of {file:02x?}"));
    }
    let attached = Attached::start(&room, "attached", &[], served.id())?;
    if served.code()? == before {
        return Err("nothing is armed".to_owned());
    }
    let counts = served.work()?;
    compare(&counts, &attached.stop()?)?;
    if served.code()? != before {
        return Err("the code isn't as before".to_owned());
    }
    served.end()
}

/// Sleds that LLVM's runtime has patched are no hooks; those that it has given back are.
fn patched() -> Result<(), String> {
    let (room, mut served) = served()?;
    served.ask("patch", "1")?;
    let code = served.code()?;
    let refused = Attached::start(&room, "refused", &[], served.id()).err();
    if !refused.as_ref().is_some_and(|why| why.contains("its __xray_unpatch() gives them back")) {
        return Err(format!("{refused:?}"));
    }
    served.work()?;
    if served.code()? != code {
        return Err("the runtime's code isn't as before".to_owned());
    }
    served.ask("unpatch", "1")?;
    attach(&room, &mut served)?;
    let [file, memory] = entries(&served, &room.path("served"))?;
    if memory != file {
        return Err(format!("{memory:02x?} instead of {file:02x?}"));
    }
    served.ask("patch", "1")?;
    served.work()?;
    served.end()
}

/// The runtime patches while hooks are armed: from then on the calls are its own.
fn patched_meanwhile() -> Result<(), String> {
    let (room, mut served) = served()?;
    let attached = Attached::start(&room, "attached", &[], served.id())?;
    let counts = served.work()?;
    served.ask("patch", "1")?;
    let code = served.code()?;
    served.work()?;
    compare(&counts, &attached.stop()?)?;
    if served.code()? != code {
        return Err("what the runtime has patched isn't its own any more".to_owned());
    }
    served.work()?;
    served.ask("unpatch", "1")?;
    attach(&room, &mut served)?;
    served.end()
}

/// The runtime patches when the program starts: there's nothing to trace, and it's said why.
fn patched_first() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("clang", SLEDS, "plain.c")?;
    let mut command = tracer(&program);
    let ended = room.run("traced", command.env("XRAY_OPTIONS", "patch_premain=true"))?;
    let why = "sleds are patched by LLVM's XRay when the program starts, and are no hooks: take \
               patch_premain out of XRAY_OPTIONS";
    if ended.code == 2 && ended.stderr.contains(why) { Ok(()) } else { Err(format!("{ended:?}")) }
}

/// Only some functions, with their arguments, and other kinds of recording.
fn some() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("clang", &[SLEDS, &["-g"]].concat(), "served.c")?;
    let mut served = Served::start(&program)?;
    let expected = served.work()?;
    let all = |name: &str| expected.get(name).copied().unwrap_or(0);
    let rows: [(&[&str], [u64; 3]); 5] = [
        (&["--filter", "deep"], [all("deep"), 0, 0]),
        // Called so once for each of four calls of `work`.
        (&["--args", "target", "--if", "n == 50"], [all("deep"), all("leaf"), 4]),
        (&["--entries"], ["deep", "leaf", "target"].map(all)),
        (&["--only-under", "target", "--depth", "1"], [0, 0, all("target")]),
        (&["--exclude", "leaf"], [all("deep"), 0, all("target")]),
    ];
    for (options, counts) in rows {
        let attached = Attached::start(&room, "attached", options, served.id())?;
        if served.work()? != expected {
            return Err(format!("{options:?}: it works differently"));
        }
        let trace = attached.stop()?;
        let found = ["deep", "leaf", "target"].map(|name| trace.count(0, name));
        if found != counts {
            return Err(format!("{options:?}: {found:?} instead of {counts:?}"));
        }
    }
    served.end()
}

/// What commands say of a program with sleds.
fn commands() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("clang", SLEDS, "served.c")?;
    let rows: [(&[&str], &[&str], &str); 7] = [
        (&["scan"], &[], " target+0x0  sled  "),
        (&["list"], &[], " exit-sled "),
        (&["list", "--format", "jsonl"], &[], "\"kind\":\"sled\""),
        (&["check", "--policy", "all"], &[], "1 file checked, nothing found"),
        (&["why"], &["leaf"], "an XRay sled, in the compiler's list"),
        (&["table"], &[], ""),
        (&["trace", "--list", "--plain", "--"], &[], "target@"),
    ];
    for (words, behind, expected) in rows {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        let ended = room.run("run", command.args(words).arg(&program).args(behind))?;
        let said = format!("{}{}", ended.stdout, ended.stderr);
        if ended.code != 0 || !said.contains(expected) {
            return Err(format!("{words:?}: {ended:?}"));
        }
    }
    Ok(())
}
