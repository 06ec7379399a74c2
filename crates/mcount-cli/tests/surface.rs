//! What holds for every command alike: new files honour the umask, `-` is standard input or output, an
//! option may be given twice, and whatever is wrong is said in one plain line.
//!
//! Its own file because it walks the commands that `mcount --help` names, so that a new one cannot be
//! forgotten.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use testkit::room::{Outcome, Room};
use testkit::test;
use testkit::tools::are_here;

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
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let indented = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let names = list.lines().filter(indented).filter_map(|line| line.split_whitespace().next());
    let names: Vec<_> = names.filter(|name| *name != "help").map(str::to_owned).collect();
    assert!(names.len() >= 13, "{names:?}");
    names
}

/// `a.o`; `done.o`, which is recorded; `lib.a` with `a.o`; `image`, which is linked.
fn room() -> Option<Room> {
    if !are_here(["gcc", "ar"]) {
        return None;
    }
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
    Some(room)
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
    let Some(room) = room() else { return };
    for command in commands(&room) {
        let has_output = mcount(&room, &[&command, "--help"]).stdout.contains("--output <FILE>");
        let is_here = MAKERS.iter().any(|(arguments, ..)| arguments[0] == command);
        // The programs that these run make the files; `trace` has tests of its own.
        let is_other = ["link", "cc", "trace"].contains(&command.as_str());
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
    let Some(room) = room() else { return };
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
    let Some(room) = room() else { return };
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
    let Some(room) = room() else { return };
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
    let Some(room) = room() else { return };
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
        found.push((name, takes_value));
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
    let Some(room) = self::room() else { return };
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

/// Whether a message speaks to the one who reads it, and not of what a program is made of.
fn is_plain(said: &str) -> bool {
    let of_programs = [
        "Error",
        "Some(",
        "None",
        "Kind",
        "{",
        "}",
        "::",
        "os error",
        "unwrap",
        "panicked",
        "digit found",
        "operation on",
        "`Err`",
    ];
    of_programs.iter().all(|part| !said.contains(part))
}

#[test]
fn every_number_is_refused_in_plain_words() {
    let room = Room::new().unwrap();
    let mut refused = 0;
    for command in commands(&room) {
        for (name, _) in options(&room, &command).iter().filter(|(_, takes_value)| *takes_value) {
            for value in ["x", "", "-1", "+1", "99999999999999999999999", "1.5"] {
                let value = format!("{name}={value}");
                let said = mcount(&room, &[&command, &value]).stderr;
                let first = said.lines().next().unwrap_or_default();
                assert!(is_plain(first), "{command} {value}: {said}");
                refused += usize::from(first.contains("number"));
            }
        }
    }
    assert!(refused > 30, "only {refused} were refused");
}

/// Files that are no object, each command, and one line for each.
#[test]
fn what_is_wrong_with_a_file_is_one_plain_line() {
    let Some(room) = room() else { return };
    let object = room.get("done.o").unwrap();
    fs::create_dir(room.path("folder")).unwrap();
    room.put("empty", b"").unwrap();
    room.put("text", b"int main;\n").unwrap();
    room.put("half", object.split_at(object.len() / 2).0).unwrap();
    room.put("head", object.split_at(40).0).unwrap();
    room.put("short.a", b"!<arch>\nshort").unwrap();
    room.put("zip.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\0").unwrap();
    let bad = ["empty", "text", "half", "head", "short.a", "zip.gz", "missing", "missing/x"];
    for file in bad {
        for command in ["scan", "list", "check", "record", "nop", "sort", "table", "why", "report"]
        {
            let rest: &[&str] = match command {
                "why" => &["f"],
                "report" => &["-o", "page"],
                _ => &[],
            };
            let outcome = mcount(&room, &[&[command, file], rest].concat());
            let said = outcome.stderr;
            assert_eq!(outcome.code, Some(2), "{command} {file}: {said}");
            assert_eq!(said.lines().count(), 1, "{command} {file}: {said}");
            assert!(said.starts_with(&format!("mcount: {file}")), "{command} {file}: {said}");
            assert!(is_plain(&said), "{command} {file}: {said}");
        }
        for command in [["trace", file], ["replay", file]] {
            let said = mcount(&room, &command).stderr;
            assert!(said.starts_with("mcount: ") && is_plain(&said), "{command:?}: {said}");
        }
        let outcome = mcount(&room, &["diff", file, file]);
        assert_eq!(outcome.stderr.lines().count(), 1, "diff {file} twice: {outcome:?}");
        let outcome = room.run(Path::new(RECORDMCOUNT), &[file]).unwrap();
        let said = &outcome.stderr;
        assert_eq!((outcome.code, said.lines().count()), (Some(1), 1), "{file}: {said}");
        assert!(said.starts_with(&format!("{file}: failed: ")) && is_plain(said), "{said}");
    }
    for words in [&["sort", "folder"][..], &["table", "folder"], &["why", "folder", "f"]] {
        let outcome = mcount(&room, words);
        assert_eq!(outcome.stderr, "mcount: folder: is a folder\n", "{words:?}");
    }
    let outcome = room.run(Path::new(RECORDMCOUNT), &["folder"]).unwrap();
    assert_eq!(outcome.stderr, "folder: failed: is a folder\n");
}

/// The name of a file neither ends a line nor speaks to the terminal.
#[test]
fn the_drop_in_escapes_names() {
    let room = Room::new().unwrap();
    let (bad, good) = ("b\n\x1b[31m.o", "g\r.o");
    room.put(bad, b"text").unwrap();
    room.put_prebuilt(good, "x86_64-fentry-table").unwrap();
    let said = room.run(Path::new(RECORDMCOUNT), &[bad, good]).unwrap().stderr;
    let expected = "b\\n\\u{1b}[31m.o: failed: not an ELF file\n\
                    warning: __mcount_loc already exists: g\\r.o\n";
    assert_eq!(said, expected);
    let said = room.run(Path::new(RECORDMCOUNT), &["--a\nb"]).unwrap().stderr;
    assert_eq!(said.lines().count(), 2, "{said:?}");
}

/// A build that checks the wrong folder must not pass.
#[test]
fn nothing_to_check_is_an_error() {
    let Some(room) = room() else { return };
    for folder in ["empty", "text", "good"] {
        fs::create_dir(room.path(folder)).unwrap();
    }
    room.put("text/readme", b"text").unwrap();
    room.put("empty.a", b"!<arch>\n").unwrap();
    room.put("good/done.o", &room.get("done.o").unwrap()).unwrap();
    let rows: &[(&[&str], i32)] = &[
        (&["empty"], 2),
        (&["text"], 2),
        (&["empty", "text"], 2),
        (&["empty.a"], 2),
        (&["good"], 0),
        (&["good", "empty.a"], 0),
        (&["good", "empty"], 2),
        (&["--allow-empty", "empty"], 0),
        (&["--allow-empty", "empty.a", "text"], 0),
        (&["--allow-empty", "missing"], 2),
    ];
    for (arguments, code) in rows {
        let outcome = mcount(&room, &[&["check", "--policy", "all"], *arguments].concat());
        assert_eq!(outcome.code, Some(*code), "{arguments:?}: {outcome:?}");
        let complaints = outcome.stderr.matches("--allow-empty").count();
        let is_asked = arguments.contains(&"--allow-empty");
        assert_eq!(complaints != 0, *code == 2 && !is_asked, "{arguments:?}: {outcome:?}");
    }
}

/// What every command that takes folders says of one without objects.
#[test]
fn a_folder_without_objects_is_an_error() {
    let Some(room) = room() else { return };
    fs::create_dir(room.path("empty")).unwrap();
    fs::create_dir(room.path("good")).unwrap();
    room.put("good/done.o", &room.get("done.o").unwrap()).unwrap();
    room.put("empty.a", b"!<arch>\n").unwrap();
    let said = "mcount: empty: no objects in it; --allow-empty accepts that\n";
    let run = |arguments: &[&str]| {
        let mut outcome = mcount(&room, arguments);
        // What check says at its end.
        let lines = outcome.stderr.split_inclusive('\n');
        outcome.stderr = lines.filter(|line| !line.contains(" checked, ")).collect();
        outcome
    };
    for command in ["record", "nop", "scan", "list", "check"] {
        let outcome = run(&[command, "empty"]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(2), said), "{command}");
        // The rest is worked on all the same.
        let outcome = run(&[command, "empty", "good"]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(2), said), "{command}");
        let alone = run(&[command, "good"]).stdout;
        assert_eq!(outcome.stdout, alone, "{command}");
        let outcome = run(&[command, "--allow-empty", "empty"]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{command}");
        // An archive without members is as good as any: builds make them.
        let outcome = run(&[command, "empty.a", "good"]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{command}");
    }
    for arguments in [["diff", "empty", "empty"], ["diff", "empty", "good"]] {
        let outcome = run(&arguments);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(2), said), "{arguments:?}");
    }
    let outcome = run(&["diff", "--allow-empty", "empty", "good"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(1), ""));
}

/// Nothing but the table tells that a NOP was a call.
#[test]
fn a_narrower_policy_says_which_nops_it_drops() {
    let room = Room::new().unwrap();
    room.put_prebuilt("a.o", "aarch64-pg").unwrap();
    let entries = || mcount(&room, &["list", "--count", "a.o"]).stdout;
    let wide = ["record", "--policy", "all", "--nop-all", "a.o"];
    assert_eq!(mcount(&room, &wide).stderr, "");
    let before = entries();
    assert_eq!(mcount(&room, &wide).stderr, "");
    assert_eq!(entries(), before);
    let said = "mcount: warning: a.o: .exit.text: 1 entry dropped, which led to NOPs in place of calls: \
                the policy leaves them out\n";
    let outcome = mcount(&room, &["record", "a.o"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), said));
    assert_ne!(entries(), before);
    assert_eq!(mcount(&room, &["record", "a.o"]).stderr, "");
}

#[test]
fn counts_have_a_line_for_each_file() {
    let Some(room) = room() else { return };
    let outcome = mcount(&room, &["scan", "--count", "image", "a.o", "a.o"]);
    assert_eq!(outcome.stdout, "2  image\n2  a.o\n2  a.o\n");
    let jsonl = ["scan", "--count", "--format", "jsonl", "a.o", "a.o"];
    assert_eq!(mcount(&room, &jsonl).stdout, "{\"count\":2,\"file\":\"a.o\"}\n".repeat(2));
}

/// `nop` takes what `record` takes: archives, thin ones too, and folders.
#[test]
fn nop_takes_archives_and_folders() {
    let Some(room) = room() else { return };
    tool(&room, "ar", &["rcD", "both.a", "a.o", "done.o"]);
    tool(&room, "ar", &["rcTD", "thin.a", "done.o"]);
    let outcome = mcount(&room, &["nop", "-v", "both.a"]);
    let expected = "both.a(a.o): 0 NOPs made, 2 calls not in the table\n\
                    both.a(done.o): 2 NOPs made, 0 calls not in the table\n";
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), expected), "{outcome:?}");
    fs::create_dir(room.path("out")).unwrap();
    tool(&room, "ar", &["x", "--output", "out", "both.a"]);
    let made = room.get("out/done.o").unwrap();
    assert_eq!(room.get("out/a.o").unwrap(), room.get("a.o").unwrap());
    tool(&room, MCOUNT, &["nop", "-o", "expected.o", "done.o"]);
    assert!(made == room.get("expected.o").unwrap());
    fs::create_dir(room.path("folder")).unwrap();
    room.put("folder/done.o", &room.get("done.o").unwrap()).unwrap();
    tool(&room, MCOUNT, &["nop", "folder", "thin.a"]);
    assert!(room.get("folder/done.o").unwrap() == made && room.get("done.o").unwrap() == made);
    // An archive is for objects, and is changed whole or not at all.
    tool(&room, "ar", &["rcD", "mixed.a", "done.o", "image"]);
    let before = room.get("mixed.a").unwrap();
    let outcome = mcount(&room, &["nop", "mixed.a"]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
    assert!(room.get("mixed.a").unwrap() == before);
}

/// Each thing is said once of a file that is compared with itself.
#[test]
fn a_file_compared_with_itself_is_complained_about_once() {
    let Some(room) = room() else { return };
    tool(&room, "gcc", &["-shared", "-s", "-o", "stripped", "done.o", "hook.o"]);
    let said = mcount(&room, &["diff", "stripped", "stripped"]).stderr;
    assert_eq!(said.matches("stripped: stripped: ").count(), 1, "{said}");
}

/// Commands whose messages count something: their arguments, and what one of them says when there is one.
const COUNTERS: &[(&[&str], &str)] = &[
    (&["scan", "one.o"], ", 1 site\n"),
    (&["scan", "--count", "one.o"], "1  one.o\n"),
    (&["scan", "--count", "--by", "section", "a.o", "one.o"], "3  .text\n"),
    (&["list", "recorded.o"], ", 1 entry\n"),
    (&["check", "--policy", "all", "one.o"], "1 hook and no table"),
    (&["check", "--policy", "all", "one.o"], "1 file checked, 1 error, 0 warnings"),
    (&["check", "recorded.o"], "1 file checked, nothing found"),
    (&["check", "area.o"], "3 bytes of NOPs"),
    (&["check", "tiny.o"], "1 byte of NOPs"),
    (&["check", "moved.o"], "1 byte before"),
    (&["check", "--coverage", "one.o", "none.o"], "0 of 1 function has no hook"),
    (&["check", "--coverage", "none.o"], "1 of 1 function has no hook\n  1 in a file"),
    (&["check", "--coverage", "linked"], "1 of 2 functions has no hook\n  1 for reasons"),
    (&["check", "--coverage", "cold.o"], "1 cold part of a function, "),
    (&["check", "--coverage", "text", "a.o"], "1 error"),
    (&["diff", "one.o", "recorded.o"], "1 recorded\n"),
    (&["diff", "old", "new"], "1 file in one folder only\n"),
    (&["why", "linked", "f"], "recorded"),
    (&["table", "linked"], ", 1 site\n"),
    (&["record", "-v", "--policy", "all", "-o", "new.o", "one.o"], "recorded, 1 entry\n"),
    (&["record", "-v", "-o", "new.o", "init.o"], "1 NOP made, 0 calls left alone\n"),
    (&["nop", "-v", "-o", "new.o", "recorded.o"], "1 NOP made, 0 calls not in the table\n"),
    (&["nop", "-v", "-o", "new.o", "one.o"], "0 NOPs made, 1 call not in the table\n"),
    (&["nop", "-o", "new.o", "moved.o"], "1 entry of the table leads to no call"),
    (&["sort", "-v", "linked"], "unchanged, 1 entry, 0 stale\n"),
    (&["link", "-v", "--", "ld", "-e", "f", "-o", "out", "one.o", "hook.o"], "link 1: 1 site, "),
    (&["link", "--max-passes", "1", "--", "ld", "-r", "one.o"], ""),
    (&["cc", "--", "gcc", "-O2", "-pg", "-mfentry", "-c", "-o", "new.o", "one.c"], ""),
    (&["report", "-o", "-", "linked"], "1 entry in the table"),
    (&["report", "-o", "-", "linked"], "1 of 2 functions has a hook, 50 %"),
    (&["report", "-o", "-", "--policy", "all", "one.o"], "<small>1 error</small>"),
];

/// Commands that count nothing, or always the same; and those with tests of their own.
const NO_COUNTERS: &[&str] = &["completions", "man", "demo", "trace", "replay", "stats"];

/// Adds files to the room in which there is one of each thing.
fn one_of_each(room: &Room) {
    let source = b"int f(int x) { return x + 1; }\n";
    room.put("one.c", source).unwrap();
    room.put("none.c", b"int g(int x) { return x; }\n").unwrap();
    room.put("init.c", &[b"__attribute__((section(\".skip\"))) ", &source[..]].concat()).unwrap();
    let cold = "void f(void) { asm volatile(\".pushsection .text.unlikely\\n.type f.cold,@function\\n\
                f.cold: ret\\n.size f.cold,1\\n.popsection\"); }\n";
    room.put("cold.c", cold.as_bytes()).unwrap();
    for name in ["one", "init", "cold"] {
        let source = format!("{name}.c");
        tool(room, "gcc", &["-O2", "-g", "-pg", "-mfentry", "-fno-pie", "-c", &source]);
    }
    tool(room, "gcc", &["-O2", "-c", "none.c"]);
    for (count, name) in [("3", "area.o"), ("1", "tiny.o")] {
        let entry = format!("-fpatchable-function-entry={count}");
        tool(room, "gcc", &["-O2", &entry, "-c", "-o", name, "one.c"]);
    }
    tool(room, MCOUNT, &["record", "--policy", "all", "-o", "recorded.o", "one.o"]);
    let link = ["-nostdlib", "-static", "-Wl,-e,f", "-o", "linked", "recorded.o", "hook.o"];
    tool(room, "gcc", &link);
    // The table of one entry, and the entry leads to the byte behind the hook.
    tool(room, "gcc", &["-O2", "-pg", "-mfentry", "-fno-pie", "-S", "one.c"]);
    let code = String::from_utf8(room.get("one.s").unwrap()).unwrap();
    let table = "\t.section __mcount_loc,\"a\"\n\t.quad f + 1\n\t.text\n";
    room.put("moved.s", format!("{code}{table}").as_bytes()).unwrap();
    tool(room, "gcc", &["-c", "moved.s"]);
    for (folder, files) in [("old", &["one.o"][..]), ("new", &["one.o", "none.o"])] {
        fs::create_dir(room.path(folder)).unwrap();
        for file in files {
            room.put(&format!("{folder}/{file}"), &room.get(file).unwrap()).unwrap();
        }
    }
}

/// The first number in `said` whose noun doesn't go with it.
fn miscounted(said: &str) -> Option<String> {
    let singular = ["site", "entry", "hook", "call", "NOP", "file", "function", "byte", "error"];
    let singular = [&singular[..], &["warning", "link", "relocation", "area", "other"]].concat();
    let many = |noun: &str| match noun.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{noun}s"),
    };
    let words = said.split_ascii_whitespace();
    let mut pairs = words.clone().zip(words.skip(1));
    let wrong = pairs.find(|(number, noun)| {
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        let noun = noun.trim_end_matches(|c: char| !c.is_alphabetic());
        let is_wrong = |one: &&str| noun == if *number == "1" { many(one) } else { (*one).into() };
        is_number && singular.iter().any(is_wrong)
    });
    wrong.map(|(number, noun)| format!("{number} {noun}"))
}

#[test]
fn one_thing_is_counted_as_one() {
    let Some(room) = room() else { return };
    one_of_each(&room);
    for command in commands(&room) {
        let is_here = COUNTERS.iter().any(|(arguments, _)| arguments[0] == command);
        assert!(is_here || NO_COUNTERS.contains(&command.as_str()), "{command} is not tested");
    }
    for (arguments, expected) in COUNTERS {
        let outcome = mcount(&room, arguments);
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert_eq!(miscounted(&said), None, "{arguments:?}: {said}");
    }
}

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}
