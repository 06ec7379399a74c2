//! Many files in one call: response files (`@FILE`), and as many threads as make's jobserver allows.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use testkit::room::{Outcome, Room};
use testkit::test;
use testkit::tools::need;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

const MCOUNT: &str = env!("CARGO_BIN_EXE_mcount");
const RECORDMCOUNT: &str = env!("CARGO_BIN_EXE_recordmcount");

/// Objects with names that need quoting, and response files that name them.
fn room() -> Room {
    let room = Room::new().unwrap();
    for name in ["a.o", "b c.o", "d'e.o", "@f.o"] {
        room.put_prebuilt(name, "x86_64-fentry").unwrap();
    }
    for (name, text) in [
        ("two", "a.o\n\t'b c.o'\n"),
        ("quoted", r#"b\ c.o "d'e.o" ./@f.o"#),
        ("nested", "@two d\\'e.o"),
        ("options", "record -v"),
        ("empty", " \n"),
        ("itself", "a.o @itself"),
        ("twice", "@twice @twice a.o"),
    ] {
        room.put(name, text.as_bytes()).unwrap();
    }
    room
}

fn run(room: &Room, program: &str, arguments: &[&str]) -> Outcome {
    room.run(Path::new(program), arguments).unwrap()
}

/// Pipes that nobody writes to: as a file, in a folder, as a member of a thin archive, and as a response
/// file. None is waited for.
#[test]
fn pipes_are_not_waited_for() {
    let room = room();
    assert!(Command::new("mkfifo").arg(room.path("pipe.o")).status().unwrap().success());
    std::fs::create_dir(room.path("folder")).unwrap();
    std::fs::rename(room.path("a.o"), room.path("folder/a.o")).unwrap();
    std::fs::hard_link(room.path("pipe.o"), room.path("folder/pipe.o")).unwrap();
    let member = format!("{:<48}{:<10}`\n", "/0", 100);
    let names = format!("{:<48}{:<10}`\npipe.o/\n", "//", 8);
    room.put("thin.a", format!("!<thin>\n{names}{member}").as_bytes()).unwrap();
    for (program, arguments, code, said) in [
        (MCOUNT, &["scan", "pipe.o"][..], 2, "pipe.o: not a regular file"),
        (MCOUNT, &["record", "pipe.o"], 2, "pipe.o: not a regular file"),
        (MCOUNT, &["nop", "pipe.o"], 2, "pipe.o: not a regular file"),
        (MCOUNT, &["sort", "pipe.o"], 2, "pipe.o: not a regular file"),
        (MCOUNT, &["table", "pipe.o"], 2, "pipe.o: not a regular file"),
        (MCOUNT, &["record", "folder"], 0, ""),
        (MCOUNT, &["scan", "thin.a"], 2, "thin.a(pipe.o): not a regular file"),
        (MCOUNT, &["record", "@pipe.o"], 2, "@pipe.o: No such file or directory"),
        (RECORDMCOUNT, &["pipe.o"], 1, "pipe.o: failed: not a regular file"),
        (RECORDMCOUNT, &["@pipe.o"], 1, "@pipe.o: failed: No such file or directory"),
    ] {
        let arguments = [&["20", program], arguments].concat();
        let outcome = run(&room, "timeout", &arguments);
        assert_eq!(outcome.code, Some(code), "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(said), "{arguments:?}: {}", outcome.stderr);
    }
}

/// Arguments, exit code, and how many objects are reported as recorded.
const ROWS: &[(&[&str], i32, usize)] = &[
    (&["record", "-v", "@two"], 0, 2),
    (&["record", "-v", "@quoted"], 0, 3),
    (&["record", "-v", "@nested"], 0, 3),
    (&["@options", "a.o"], 0, 1),
    (&["--color", "never", "@options", "@two"], 0, 2),
    (&["record", "-v", "@empty", "a.o"], 0, 1),
    // What cannot be read is a file of that name, which is not there.
    (&["record", "-v", "@missing", "a.o"], 2, 1),
    // The file itself, which is no list of words.
    (&["record", "-v", "./@f.o"], 0, 1),
];

#[test]
fn mcount_reads_response_files() {
    for (arguments, code, recorded) in ROWS {
        let outcome = run(&room(), MCOUNT, arguments);
        assert_eq!(outcome.code, Some(*code), "{arguments:?}: {}", outcome.stderr);
        assert_eq!(outcome.stdout.matches(": recorded").count(), *recorded, "{arguments:?}");
    }
}

/// The words of a program that is run are its own.
#[test]
fn mcount_cc_leaves_response_files_alone() {
    let room = room();
    let outcome = run(&room, MCOUNT, &["cc", "--", "echo", "@two"]);
    assert_eq!(outcome.stdout, "@two\n", "{}", outcome.stderr);
}

#[test]
fn recordmcount_reads_response_files() {
    let room = room();
    let outcome = run(&room, RECORDMCOUNT, &["@nested"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    let again = run(&room, RECORDMCOUNT, &["@two"]);
    let warning = "warning: __mcount_loc already exists: ";
    assert_eq!(again.stderr, format!("{warning}a.o\n{warning}b c.o\n"));
}

/// A response file that names itself, once or twice, has an end; what is left of it is no object.
#[test]
fn response_files_have_an_end() {
    for (list, code) in [("@itself", 1), ("@twice", 1)] {
        let outcome = run(&room(), RECORDMCOUNT, &[list]);
        assert_eq!(outcome.code, Some(code));
        assert!(outcome.stderr.contains(": failed: "), "{list}");
    }
}

/// `open(2)`: reading ends where there is nothing to read.
const O_NONBLOCK: i32 = 0o4000;

/// A jobserver with some tokens.
struct Server {
    fifo: File,
    flags: String,
}

impl Server {
    fn new(room: &Room, tokens: usize) -> Self {
        let path = room.path("jobserver");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let mut options = OpenOptions::new();
        let mut fifo = options.read(true).write(true).custom_flags(O_NONBLOCK).open(&path).unwrap();
        fifo.write_all(&vec![b'+'; tokens]).unwrap();
        Self { fifo, flags: format!("-j --jobserver-auth=fifo:{}", path.display()) }
    }

    /// The tokens that are there now.
    fn tokens(mut self) -> usize {
        let mut found = Vec::new();
        // It ends with the error that there are no more.
        let _ = self.fifo.read_to_end(&mut found);
        found.len()
    }
}

/// The threads that `mcount scan` of eight objects starts besides the first.
fn threads(room: &Room, make_flags: Option<&str>, jobs: &[&str]) -> usize {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-e", "trace=clone,clone3", "-o"]).arg(room.path("log")).arg(MCOUNT);
    strace.arg("scan").args(jobs).args(["a.o"; 8]).current_dir(room.path(""));
    for name in ["CARGO_MAKEFLAGS", "MAKEFLAGS", "MFLAGS"] {
        strace.env_remove(name);
    }
    strace.envs(make_flags.map(|flags| ("MAKEFLAGS", flags)));
    assert!(strace.output().unwrap().status.success());
    let log = String::from_utf8(room.get("log").unwrap()).unwrap();
    log.lines().filter(|line| line.contains("clone") && !line.contains("resumed")).count()
}

#[test]
fn threads_are_as_many_as_make_allows() {
    need(["strace"]);
    let processors = std::thread::available_parallelism().unwrap().get();
    let pool = |threads: usize| if threads == 1 { 0 } else { threads };
    let room = room();
    assert_eq!(threads(&room, None, &[]), pool(processors), "no make");
    assert_eq!(threads(&room, Some("-k"), &[]), pool(processors), "make without -j");
    assert_eq!(threads(&room, Some("-j4 --jobserver-auth=-2,-2"), &[]), 0, "out of reach");
    for (tokens, jobs, expected) in [
        (0, [].as_slice(), 1),
        (1, &[], processors.min(2)),
        (100, &[], processors),
        (0, &["-j3"], 3),
        (3, &["-j1"], 1),
        (0, &["-j0"], processors),
    ] {
        let room = self::room();
        let server = Server::new(&room, tokens);
        let started = threads(&room, Some(&server.flags), jobs);
        assert_eq!(started, pool(expected), "{tokens} tokens, {jobs:?}");
        assert_eq!(server.tokens(), tokens, "{jobs:?}: tokens are given back");
    }
}

/// A number that is a slip of the fingers does not take all memory.
#[test]
fn threads_have_an_end() {
    let room = room();
    let outcome = run(&room, MCOUNT, &["scan", "--count", "-j", "99999999", "a.o", "b c.o"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    assert_eq!(outcome.stdout.lines().count(), 2);
}

/// make says so itself when tokens are lost.
#[test]
fn make_gets_its_tokens_back() {
    need(["make"]);
    let room = room();
    let rules = format!("all: 1 2 3\n1 2 3:\n\t+@'{MCOUNT}' record -v a.o 'b c.o' @two\n");
    room.put("Makefile", rules.as_bytes()).unwrap();
    let mut make = Command::new("make");
    make.args(["-j3"]).current_dir(room.path("")).env_remove("MAKEFLAGS").env_remove("MFLAGS");
    let output = make.env_remove("CARGO_MAKEFLAGS").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert_eq!(said, "");
    let done = String::from_utf8(output.stdout).unwrap();
    assert_eq!(done.lines().filter(|line| line.ends_with("entries")).count(), 12, "{done}");
}
