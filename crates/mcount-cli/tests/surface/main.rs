//! What holds for every command alike: new files honour the umask, `-` is standard input or output, an
//! option may be given twice, and whatever is wrong is said in one plain line.
#![expect(clippy::unwrap_used, reason = "a test")]

mod inputs;
mod messages;
mod said;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use testkit::room::{Outcome, Room};
use testkit::test;
use testkit::tools::need;

const MCOUNT: &str = env!("CARGO_BIN_EXE_mcount");
const RECORDMCOUNT: &str = env!("CARGO_BIN_EXE_recordmcount");

fn mcount(room: &Room, arguments: &[&str]) -> Outcome {
    room.run(Path::new(MCOUNT), arguments).unwrap()
}

/// Runs a tool that must succeed.
fn tool(room: &Room, program: &str, arguments: &[&str]) {
    let outcome = room.run(Path::new(program), arguments).unwrap();
    assert_eq!(outcome.code, Some(0), "{program} {arguments:?}: {outcome:?}");
}

/// The commands that `mcount --help` names.
fn commands(room: &Room) -> Vec<String> {
    let help = mcount(room, &["--help"]).stdout;
    let (_, lists) = help.split_once("Running programs:\n").unwrap();
    let (lists, _) = lists.split_once("Options:\n").unwrap();
    let indented = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let names = lists.lines().filter(indented).filter_map(|line| line.split_whitespace().next());
    let names: Vec<_> = names.filter(|name| *name != "help").map(str::to_owned).collect();
    assert!(names.len() >= 13, "{names:?}");
    names
}

/// `a.o`; `done.o`, which is recorded; `lib.a` with `a.o`; `image`, which is linked.
fn room() -> Room {
    need(["gcc", "ar"]);
    let room = Room::new().unwrap();
    room.put("hook.c", b"void __fentry__(void) {}\n").unwrap();
    room.put("a.c", b"int f(int x) { return x + 1; }\nint g(int x) { return x + 2; }\n").unwrap();
    tool(&room, "gcc", &["-O2", "-g", "-pg", "-mfentry", "-fno-pie", "-c", "a.c"]);
    tool(&room, "gcc", &["-O2", "-c", "hook.c"]);
    tool(&room, MCOUNT, &["record", "--policy", "all", "-o", "done.o", "a.o"]);
    let link = ["-nostdlib", "-static", "-Wl,-e,f", "-o", "image", "done.o", "hook.o"];
    tool(&room, "gcc", &link);
    tool(&room, "ar", &["rcD", "lib.a", "a.o"]);
    for (name, mode) in [("a.o", 0o644), ("done.o", 0o640), ("lib.a", 0o666), ("image", 0o775)] {
        fs::set_permissions(room.path(name), Permissions::from_mode(mode)).unwrap();
    }
    room
}

/// Commands that make a file: the arguments, the file, and its mode before the umask.
const MAKERS: &[(&[&str], &str, u32)] = &[
    (&["record", "-o", "new", "a.o"], "new", 0o644),
    (&["record", "-o", "new", "done.o", "--policy", "all"], "new", 0o640),
    (&["record", "-o", "new", "lib.a"], "new", 0o666),
    (&["nop", "-o", "new", "done.o"], "new", 0o640),
    (&["nop", "-o", "new", "lib.a"], "new", 0o666),
    (&["nop", "-o", "new", "image"], "new", 0o775),
    (&["sort", "-o", "new", "image"], "new", 0o775),
    (&["table", "-o", "new", "image"], "new", 0o666),
    (&["table", "-o", "new", "--format", "raw", "image"], "new", 0o666),
    (&["report", "-o", "new", "image"], "new", 0o666),
    (&["man", "."], "mcount.1", 0o666),
    (&["man", "."], "recordmcount.1", 0o666),
];

#[test]
fn new_files_honour_the_umask() {
    let room = room();
    for command in commands(&room) {
        let has_output = mcount(&room, &[&command, "--help"]).stdout.contains("--output <FILE>");
        let is_here = MAKERS.iter().any(|(arguments, ..)| arguments[0] == command);
        // The programs that these run make the files; what traces or samples processes has tests of its own, and what
        // `top` writes only its user can read. What `query` runs is in a workspace of its own.
        let is_other = ["link", "cc", "trace", "attach", "top", "sample", "query", "compress"]
            .contains(&command.as_str());
        assert!(!has_output || is_here || is_other, "{command} is not tested");
    }
    for umask in [0o077, 0o022, 0o002, 0o000] {
        for (arguments, file, mode) in MAKERS {
            let _ = fs::remove_file(room.path(file));
            let script = format!("umask {umask:o}; exec \"$@\"");
            let words = [&["-c", &script, "sh", MCOUNT], *arguments].concat();
            tool(&room, "sh", &words);
            let found = room.path(file).metadata().unwrap().permissions().mode() & 0o7777;
            assert_eq!(found, mode & !umask, "{arguments:?} with umask {umask:o}: {found:o}");
        }
    }
}

/// A file that is changed keeps its mode, whatever the umask.
#[test]
fn changed_files_keep_their_mode() {
    let room = room();
    let room = &room;
    fs::hard_link(room.path("a.o"), room.path("other.o")).unwrap();
    for (arguments, file, mode) in [
        (["record", "a.o"], "a.o", 0o644),
        (["record", "lib.a"], "lib.a", 0o666),
        (["nop", "image"], "image", 0o775),
    ] {
        tool(
            room,
            "sh",
            &[&["-c", "umask 077; exec \"$@\"", "sh", MCOUNT], &arguments[..]].concat(),
        );
        let found = room.path(file).metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(found, mode, "{arguments:?}: {found:o}");
    }
}

/// Runs `mcount` with a file as standard input; the exit code, standard output and standard error.
fn with_input(room: &Room, input: &str, arguments: &[&str]) -> (Option<i32>, Vec<u8>, String) {
    let mut command = room.command(Path::new("sh"), &["-c", "cat \"$0\" | exec \"$@\"", input]);
    command.arg(MCOUNT).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), output.stdout, said)
}

/// Commands that read a file: their arguments, with FILE for it.
const READERS: &[(&str, &[&str])] = &[
    ("a.o", &["scan", "FILE"]),
    ("a.o", &["scan", "--count", "FILE"]),
    ("lib.a", &["scan", "--format", "jsonl", "FILE"]),
    ("done.o", &["list", "FILE"]),
    ("image", &["list", "--lines", "FILE"]),
    ("image", &["check", "--policy", "all", "FILE"]),
    ("lib.a", &["check", "--policy", "all", "FILE"]),
    ("done.o", &["diff", "a.o", "FILE"]),
    ("a.o", &["diff", "FILE", "done.o"]),
    ("image", &["diff", "FILE", "FILE"]),
    ("image", &["why", "FILE", "f", "nothing"]),
    ("image", &["table", "FILE"]),
    ("image", &["table", "--format", "raw", "FILE"]),
];

#[test]
fn a_dash_is_standard_input() {
    let room = room();
    for (file, arguments) in READERS {
        let with = |name: &'static str| {
            arguments.iter().map(|word| if *word == "FILE" { name } else { *word }).collect()
        };
        let named: Vec<_> =
            arguments.iter().map(|word| if *word == "FILE" { file } else { word }).collect();
        let dashed: Vec<&str> = with("-");
        let named: Vec<&str> = named.into_iter().copied().collect();
        let expected = room.command(Path::new(MCOUNT), &named).output().unwrap();
        let (code, stdout, said) = with_input(&room, file, &dashed);
        assert_eq!(code, expected.status.code(), "{arguments:?}: {said}");
        // In text, the name of the file is part of what is printed.
        let plain = |bytes: &[u8], name: &str| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            text.replace(&format!("\"{name}\""), "\"F\"")
                .replacen(&format!("{name}:"), "F:", 1)
                .replacen(&format!("{name}("), "F(", 1)
                .replace(&format!("  {name}\n"), "  F\n")
        };
        if arguments.contains(&"raw") {
            assert_eq!(stdout, expected.stdout, "{arguments:?}");
        } else {
            assert_eq!(plain(&stdout, "-"), plain(&expected.stdout, file), "{arguments:?}");
        }
    }
    let (code, page, said) = with_input(&room, "image", &["report", "-o", "-", "-"]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    assert!(String::from_utf8(page).unwrap().contains("</html>"));
}

/// Commands that change a file, which is the last argument.
const CHANGERS: &[(&str, &[&str])] = &[
    ("a.o", &["record", "--policy", "all"]),
    ("done.o", &["record", "--policy", "all"]),
    ("lib.a", &["record", "--policy", "all"]),
    ("done.o", &["nop"]),
    ("lib.a", &["nop"]),
    ("image", &["nop"]),
    ("image", &["sort"]),
    ("image", &["table"]),
];

#[test]
fn a_dash_is_standard_output() {
    let room = room();
    for (file, arguments) in CHANGERS {
        let verb = arguments[0];
        tool(&room, MCOUNT, &[*arguments, &["-o", "expected", file]].concat());
        let expected = room.get("expected").unwrap();
        let before = room.get(file).unwrap();
        let ways: &[(&[&str], &str)] =
            &[(&["-o", "-", file], "named"), (&["-o", "-", "-"], "both"), (&["-"], "filter")];
        for (rest, way) in ways.iter().filter(|(_, way)| verb != "table" || *way != "filter") {
            let words = [*arguments, *rest].concat();
            let (code, stdout, said) = with_input(&room, file, &words);
            assert_eq!((code, said.as_str()), (Some(0), ""), "{words:?}, {way}");
            assert!(stdout == expected, "{words:?}, {way}");
        }
        // What -v says must not be in the file.
        if verb != "table" {
            let words = [*arguments, &["-v", "-"]].concat();
            let (code, stdout, said) = with_input(&room, file, &words);
            assert!(code == Some(0) && stdout == expected && said.starts_with('-'), "{said}");
        }
        assert_eq!(room.get(file).unwrap(), before, "{arguments:?}: the input changed");
    }
    assert!(!room.path("-").exists());
}

/// Nothing is written for a file that is refused.
#[test]
fn an_error_writes_nothing_to_standard_output() {
    let room = room();
    room.put("text", b"no object").unwrap();
    for command in ["record", "nop", "sort", "table", "report"] {
        for words in [[command, "-o", "-", "-"], [command, "-o", "-", "text"]] {
            let (code, stdout, said) = with_input(&room, "text", &words);
            assert_eq!((code, stdout.len()), (Some(2), 0), "{words:?}: {said}");
            assert_eq!(said.lines().count(), 1, "{words:?}: {said}");
        }
    }
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = room.command(Path::new(MCOUNT), &["record", "-o", "-", "a.o"]);
    let output = command.stdout(full).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = "mcount: a.o: cannot write standard output: No space left on device\n";
    assert_eq!((output.status.code(), said.as_str()), (Some(2), expected));
}

/// The options of a command, as its help has them, and whether each takes a value.
fn options(room: &Room, command: &str) -> Vec<(String, bool)> {
    let help = mcount(room, &[command, "--help"]).stdout;
    let mut found = Vec::new();
    for line in help.lines().map(str::trim_start).filter(|line| line.starts_with('-')) {
        let Some(name) = line.split([' ', ',']).find(|word| word.starts_with("--")) else {
            continue;
        };
        let name = name.split(['[', '=']).next().unwrap().to_owned();
        let takes_value = line.contains(" <");
        // `mcount sample --program` waits until the program runs.
        if name != "--program" {
            found.push((name, takes_value));
        }
    }
    found
}

#[test]
fn an_option_may_be_given_twice() {
    let room = Room::new().unwrap();
    let mut seen = 0;
    for command in commands(&room) {
        for (name, takes_value) in options(&room, &command) {
            if ["--help", "--version"].contains(&name.as_str()) {
                continue;
            }
            let once: &[&str] = if takes_value { &[&name, "1"] } else { &[&name] };
            let outcome = mcount(&room, &[&[command.as_str()], once, once].concat());
            assert!(!outcome.stderr.contains("multiple times"), "{command} {name}: {outcome:?}");
            seen += 1;
        }
    }
    assert!(seen > 60, "only {seen} options");
    let room = self::room();
    let outcome = mcount(&room, &["record", "-v", "-v", "-j1", "-j2", "a.o"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    // The last one counts.
    tool(&room, MCOUNT, &["--color", "never", "--color", "auto", "scan", "a.o"]);
    tool(&room, MCOUNT, &["table", "-o", "first", "-o", "second", "image"]);
    assert!(room.path("second").exists() && !room.path("first").exists());
    // What adds up, adds up.
    let words = ["scan", "--count", "--hook", "x", "--hook", "y", "a.o"];
    assert_eq!(mcount(&room, &words).stdout, "2  a.o\n");
}

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}
