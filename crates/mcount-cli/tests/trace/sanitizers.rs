//! Programs that are compiled with each sanitizer that the compilers say they have, traced from their start on and attached to: the trace
//! has all their calls, or says why it only has entries.
//!
//! gcc lists its sanitizers. clang doesn't, but it tells which names it doesn't know. So it's asked about all words in its own
//! files.

use crate::Test;
use crate::attach::Attached;
use crate::truth::{Ended, Room, tracer};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use testkit::served::Served;
use testkit::trace::Trace;

const FLAGS: &[&str] = &["-O1", "-g", "-fpatchable-function-entry=5"];

/// What some sanitizers take besides; with a star, by how their names begin.
const BESIDES: &[(&str, &[&str])] = &[
    ("cfi*", &["-flto", "-fvisibility=hidden", "-fuse-ld=lld"]),
    ("fuzzer", &["-DFUZZER"]),
    ("pointer-compare", &["-fsanitize=address"]),
    ("pointer-subtract", &["-fsanitize=address"]),
    // x86 has no tags in addresses.
    ("hwaddress", &["-fsanitize-hwaddress-experimental-aliasing"]),
];

/// Why there's no program with some of them here: the kernel's, and those of other processors or systems.
const NOT_HERE: &[&str] = &["kernel-", "memtag", "objc-cast"];
/// gcc's that aren't for x86.
const NOT_HERE_BY_GCC: &[&str] = &["hwaddress", "shadow-call-stack"];

/// Those that have the addresses that tracing returns takes, and what is said of that.
const LIMITED: &[(&str, &str)] = &[
    ("hwaddress", "HWAddressSanitizer"),
    ("thread", "ThreadSanitizer"),
    ("memory", "MemorySanitizer"),
    ("dataflow", "DataFlowSanitizer"),
];

/// Names that every compiler of these has: else the list isn't what it should be.
const SURE: &[&str] = &["address", "leak", "shift", "thread", "undefined", "vptr"];

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
    let names = if compiler == "gcc" { of_gcc()? } else { of_clang()? };
    if let Some(missing) = SURE.iter().find(|name| !names.contains(**name)) {
        return Err(format!("{missing} isn't in {names:?}"));
    }
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for name in &names {
        match one(compiler, name) {
            Ok(true) => tried += 1,
            Ok(false) => {}
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
    }
    if wrong.is_empty() && tried > names.len() / 2 {
        Ok(())
    } else {
        Err(format!("{tried} of {}: {}", names.len(), wrong.join("\n")))
    }
}

/// Programs with the sanitizer of this name. `false`: there can't be any here.
fn one(compiler: &str, name: &str) -> Result<bool, String> {
    let not_here = NOT_HERE.iter().chain(NOT_HERE_BY_GCC.iter().filter(|_| compiler == "gcc"));
    if not_here.into_iter().any(|start| name.starts_with(start)) {
        return Ok(false);
    }
    let flag = format!("-fsanitize={name}");
    let is_it = |pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    };
    let besides = BESIDES.iter().filter(|(pattern, _)| is_it(pattern));
    let besides = besides.flat_map(|(_, flags)| *flags).copied();
    let flags: Vec<&str> = FLAGS.iter().copied().chain([flag.as_str()]).chain(besides).collect();
    let room = Room::new()?;
    let program = room.compile(compiler, &flags, "sums.c")?;
    let said = LIMITED.iter().find(|(of, _)| *of == name).map(|(_, said)| *said);
    let mut untraced = Command::new(&program);
    let untraced = room.run("untraced", quiet(&mut untraced))?;
    if untraced.code != 0 {
        return Err(format!("untraced: {untraced:?}"));
    }
    traced(&room, &program, &untraced, said).map_err(|error| format!("traced: {error}"))?;
    attached(&room, &program, &untraced, said).map_err(|error| format!("attached: {error}"))?;
    Ok(true)
}

/// Leaks can't be looked for in a program that has a tracer.
fn quiet(command: &mut Command) -> &mut Command {
    command.env("ASAN_OPTIONS", "detect_leaks=0").env("LSAN_OPTIONS", "detect_leaks=0")
}

fn traced(
    room: &Room,
    program: &Path,
    untraced: &Ended,
    limited: Option<&str>,
) -> Result<(), String> {
    let ended = room.run("traced", quiet(&mut tracer(program)))?;
    if (ended.code, &ended.stdout) != (untraced.code, &untraced.stdout) {
        return Err(format!("{untraced:?}, traced {ended:?}"));
    }
    counts(&room.trace("traced")?, &warnings(&ended.stderr), limited)?;
    // Leaks are looked for by default. Under a tracer, that makes the program fail.
    let ended = room.run("leaks", &mut tracer(program))?;
    let has_said = warnings(&ended.stderr).contains("detect_leaks=0");
    if has_said == ended.stderr.contains("LeakSanitizer has encountered a fatal error") {
        Ok(())
    } else {
        Err(format!("looking for leaks: {ended:?}"))
    }
}

/// What is said, but for what the program says: a fuzzer tells much.
fn warnings(said: &str) -> String {
    said.lines().filter(|line| line.starts_with("mcount: warning: ")).collect()
}

fn attached(
    room: &Room,
    program: &Path,
    untraced: &Ended,
    limited: Option<&str>,
) -> Result<(), String> {
    let mut command = Command::new(program);
    let is_fuzzer = !untraced.stderr.is_empty();
    if is_fuzzer {
        command.env("SERVED", "1").stderr(std::process::Stdio::null());
    } else {
        command.arg("served");
    }
    let mut served = Served::command(quiet(&mut command))?;
    let attached = Attached::start(room, "attached", &[], served.id())?;
    served.ask("go", untraced.stdout.trim_end())?;
    let trace = attached.stop()?;
    served.last().map_err(|error| format!("its end: {error}"))?;
    let said = testkit::files::read(&room.path("attached").join("stderr"))?;
    counts(&trace, &warnings(&String::from_utf8_lossy(&said)), limited)
}

/// Has the trace all calls, and was said why there are only entries, if that's so, and nothing else?
fn counts(trace: &Trace, notes: &str, limited: Option<&str>) -> Result<(), String> {
    let found = [trace.count(0, "leaf"), trace.count(0, "middle"), trace.dropped];
    let is_said = match limited {
        Some(name) => notes.contains(name) && notes.contains("only entries are recorded"),
        None => notes.is_empty(),
    };
    if found == [1000, 100, 0] && is_said { Ok(()) } else { Err(format!("{found:?}, {notes:?}")) }
}

/// What gcc says it has.
fn of_gcc() -> Result<BTreeSet<String>, String> {
    let output = Command::new("gcc").arg("--completion=-fsanitize=").output();
    let output = output.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = text.lines().filter_map(|line| line.trim().strip_prefix("-fsanitize="));
    Ok(names.filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

/// What clang doesn't call an unsupported argument.
fn of_clang() -> Result<BTreeSet<String>, String> {
    /// Words that it's asked about at a time.
    const AT_ONCE: usize = 2000;
    let words: Vec<String> = words_of_clang()?.into_iter().collect();
    let mut known = BTreeSet::new();
    for words in words.chunks(AT_ONCE) {
        let mut command = Command::new("clang");
        command.args(["-###", "-x", "c", "-c", "/dev/null"]);
        command.arg(format!("-fsanitize={}", words.join(",")));
        let output = command.output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let unknown: BTreeSet<&str> = text
            .lines()
            .filter(|line| line.contains("unsupported argument") && line.contains("fsanitize="))
            .filter_map(|line| line.split('\'').nth(1))
            .collect();
        known.extend(words.iter().filter(|word| !unknown.contains(word.as_str())).cloned());
    }
    Ok(known)
}

/// All words between zeroes in clang, and in the library that it's in.
fn words_of_clang() -> Result<BTreeSet<String>, String> {
    let error = |error: std::io::Error| error.to_string();
    let output = Command::new("sh").args(["-c", "command -v clang"]).output().map_err(error)?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let path = std::fs::canonicalize(path).map_err(error)?;
    let output = Command::new("ldd").arg(&path).output().map_err(error)?;
    let libraries = String::from_utf8_lossy(&output.stdout).into_owned();
    let library = libraries
        .split_whitespace()
        .find(|word| word.starts_with('/') && word.contains("clang-cpp"));
    let mut words = BTreeSet::new();
    for file in [Some(path.as_path()), library.map(Path::new)].into_iter().flatten() {
        let bytes = testkit::files::read(file)?;
        for word in bytes.split(|byte| *byte == 0).filter(|word| (2..40).contains(&word.len())) {
            let is_one = |byte: &u8| byte.is_ascii_lowercase() || *byte == b'-';
            if word.first() != Some(&b'-') && word.iter().all(is_one) {
                words.insert(String::from_utf8_lossy(word).into_owned());
            }
        }
    }
    Ok(words)
}
