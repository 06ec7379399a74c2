//! The command line of `mcount`: exit codes, what goes to which stream, machine output, and what
//! becomes of files, their links, modes and times.
#![expect(clippy::unwrap_used, reason = "a test")]

use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;
use testkit::prebuilt;
use testkit::reader;
use testkit::room::{Outcome, Room};
use testkit::test;
use testkit::tiny_elf::{Object, Relocation, Section, Symbol};

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

const OBJECT: &str = "x86_64-fentry";

fn mcount(room: &Room, arguments: &[&str]) -> Outcome {
    room.run(Path::new(env!("CARGO_BIN_EXE_mcount")), arguments).unwrap()
}

/// `a.o` and `b.o`, good; `text.o`, which is no object; `done.o`, which has its table.
fn room() -> Room {
    let room = Room::new().unwrap();
    for name in ["a.o", "b.o", "done.o"] {
        room.put_prebuilt(name, OBJECT).unwrap();
    }
    room.put("text.o", b"int main;\n").unwrap();
    room.put("bitcode.o", b"BC\xc0\xde5\x14").unwrap();
    room.put("archive.a", b"!<arch>\n").unwrap();
    assert_eq!(mcount(&room, &["record", "done.o"]).code, Some(0));
    room
}

/// Arguments, exit code, and what standard output and standard error contain; nothing means that
/// they are empty.
type Row = (&'static [&'static str], i32, &'static str, &'static str);

const ROWS: &[Row] = &[
    (&["scan", "a.o"], 0, "sample_weak_only", ""),
    (&["scan", "done.o"], 0, "recorded", ""),
    (&["list", "done.o"], 0, "sample_init", ""),
    (&["list", "a.o"], 0, "0 entries", ""),
    (&["list", "done.o"], 0, "done.o: x86_64 64-bit little endian, 8 entries\n", ""),
    (&["record", "a.o"], 0, "", ""),
    (&["record", "a.o", "b.o"], 0, "", ""),
    (&["record", "-v", "a.o"], 0, "a.o: recorded, 8 entries", ""),
    (&["record", "-v", "done.o"], 0, "done.o: unchanged, 8 entries", ""),
    (&["record", "-v", "a.o"], 0, ".exit.text: excluded, 1 NOP made, 0 calls left alone", ""),
    (&["demo"], 0, "call sites recorded", ""),
    (&["--version"], 0, "mcount 0.", ""),
    (&["--help"], 0, "Exit codes", ""),
    (&["record", "--help"], 0, "--exclude-section", ""),
    (&["completions", "bash"], 0, "complete", ""),
    (&[], 2, "", "mcount trace -- ./program"),
    (&["frobnicate"], 2, "", "frobnicate"),
    (&["record"], 2, "", "FILE"),
    (&["scan", "--policy", "some", "a.o"], 2, "", "some"),
    (&["record", "--exclude-section", "[", "a.o"], 2, "", "["),
    (&["record", "-o", "x.o", "a.o", "b.o"], 2, "", "one input file"),
    (&["scan", "none.o"], 2, "", "none.o: No such file or directory\n"),
    (&["record", "none.o"], 2, "", "none.o: No such file or directory\n"),
    (&["record", "/dev/null"], 2, "", "/dev/null: not a regular file\n"),
    (&["scan", "/dev/null"], 2, "", "/dev/null: not a regular file\n"),
    (&["scan", "text.o"], 2, "", "text.o: not an ELF file\n"),
    (&["list", "text.o"], 2, "", "text.o: not an ELF file\n"),
    (&["record", "text.o"], 2, "", "text.o: not an ELF file\n"),
    (&["record", "bitcode.o"], 2, "", "LLVM bitcode, not machine code: record vmlinux.o after"),
    (&["scan", "text.o", "a.o", "none.o"], 2, "sample_weak", "none.o: No such"),
    (&["record", "-v", "text.o", "a.o"], 2, "a.o: recorded", "text.o: not an ELF"),
    (&["record", "-v", "a.o", "text.o", "b.o"], 2, "b.o: recorded", "text.o: not an ELF"),
    (&["sort", "archive.a"], 2, "", "archive.a: an archive, not an ELF file: take out its members"),
    (&["table", "archive.a"], 2, "", "an archive, not an ELF file: take out its members (ar x)"),
    // It is said which of several files the matter is.
    (
        &["record", "-o", "none/x.o", "a.o"],
        2,
        "",
        "a.o: cannot write none/x.o: No such file or dir",
    ),
    (
        &["nop", "-o", "none/x.o", "a.o"],
        2,
        "",
        "a.o: cannot write none/x.o: No such file or directory",
    ),
    (&["record", "-o", ".", "a.o"], 2, "", "a.o: cannot write .: "),
    (&["report", "text.o"], 2, "", "text.o: neither a trace nor an ELF file\n"),
    (&["report", "-o", "none/x", "a.o"], 2, "", "mcount: none/x: No such file or directory\n"),
    (&["man", "none"], 2, "", "mcount: none: No such file or directory\n"),
    (&["diff", ".", "a.o"], 2, "", "mcount: .: is a folder, but a.o is not\n"),
    (&["diff", ".", "none"], 2, "", "none: No such file or directory\n"),
    (&["link", "--", "./none", "-o", "x"], 2, "", "./none: No such file or directory\n"),
    (&["table", "--bounds=start", "a.o"], 2, "", "no comma"),
    (&["table", "--bounds=,stop", "a.o"], 2, "", "needs a name"),
    (&["table", "--anchor", "_text", "a.o"], 2, "", "no ="),
    (&["table", "--anchor", "_text=x", "a.o"], 2, "", "hexadecimal number"),
    (&["table", "--bounds=a,b,c", "a.o"], 2, "", "more than two names"),
    (&["link", "--bounds=a,b,c", "--", "ld"], 2, "", "more than two names"),
    (&["link", "--bounds=start", "--", "ld"], 2, "", "no comma"),
    (&["link", "--max-passes", "0", "--", "ld"], 2, "", "--max-passes"),
    (&["link", "--verbos", "--", "ld"], 2, "", "--verbose"),
    // What would have no effect is no option.
    (&["nop", "--exclude-symbol", "f", "a.o"], 2, "", "--exclude-symbol"),
    (&["sort", "--policy", "linux", "a.o"], 2, "", "--policy"),
    // Section symbols have no name.
    (&["scan", "--hook", "", "a.o"], 2, "", "--hook"),
    (&["record", "--table-section", "", "a.o"], 2, "", "--table-section"),
    (&["why", "a.o", ""], 2, "", "FUNCTION"),
];

#[test]
fn exit_codes_and_streams() {
    for (arguments, code, stdout, stderr) in ROWS {
        let outcome = mcount(&room(), arguments);
        assert_eq!(outcome.code, Some(*code), "{arguments:?}: {outcome:?}");
        for (found, expected) in [(&outcome.stdout, stdout), (&outcome.stderr, stderr)] {
            assert_eq!(found.is_empty(), expected.is_empty(), "{arguments:?}: {outcome:?}");
            assert!(found.contains(expected), "{arguments:?}: {outcome:?}");
        }
        // Whatever is wrong with a file is one line.
        let of_files = outcome.stderr.contains(".o: ");
        let lines = outcome.stderr.lines().count();
        let bad = arguments.iter().filter(|argument| ["text.o", "none.o"].contains(argument));
        assert!(!of_files || lines == bad.count().max(1), "{arguments:?}: {outcome:?}");
    }
}

#[test]
fn a_bad_file_stops_no_other() {
    for jobs in ["1", "4"] {
        let room = room();
        let files = ["text.o", "a.o", "none.o", "bitcode.o", "b.o"];
        let outcome = mcount(&room, &[&["record", "-j", jobs], &files[..]].concat());
        assert_eq!(outcome.code, Some(2));
        let lines: Vec<_> = outcome.stderr.lines().collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        // In the order of the arguments, whatever the order of the work.
        for (line, name) in lines.iter().zip(["text.o", "none.o", "bitcode.o"]) {
            assert!(line.contains(name), "{line}");
        }
        for name in ["a.o", "b.o"] {
            assert_eq!(reader::table(&room.get(name).unwrap(), "__mcount_loc").unwrap().len(), 8);
        }
        assert_eq!(room.get("text.o").unwrap(), b"int main;\n");
        assert_eq!(room.names().unwrap().len(), 6, "a temporary is left");
    }
}

#[test]
fn a_file_given_twice_is_recorded_once() {
    let room = room();
    let outcome = mcount(&room, &["record", "-v", "-j", "4", "a.o", "a.o", "./a.o"]);
    assert_eq!((outcome.code, outcome.stdout.matches(": recorded").count()), (Some(0), 1));
    assert_eq!(room.get("a.o").unwrap(), room.get("done.o").unwrap());
}

#[test]
fn output_leaves_the_input_alone() {
    let room = room();
    let before = room.get("a.o").unwrap();
    for (input, output) in [("a.o", "new.o"), ("done.o", "copy.o"), ("a.o", "b.o")] {
        fs::set_permissions(room.path(input), Permissions::from_mode(0o640)).unwrap();
        assert_eq!(mcount(&room, &["record", "-o", output, input]).code, Some(0));
        assert_eq!(room.get(output).unwrap(), room.get("done.o").unwrap(), "{output}");
        assert_eq!(room.path(output).metadata().unwrap().mode() & 0o777, 0o640);
    }
    assert_eq!(room.get("a.o").unwrap(), before);
    let names = ["a.o", "archive.a", "b.o", "bitcode.o", "copy.o", "done.o", "new.o", "text.o"];
    assert_eq!(room.names().unwrap(), names);
}

#[test]
fn a_failed_output_is_not_there() {
    let room = room();
    for input in ["text.o", "none.o"] {
        assert_eq!(mcount(&room, &["record", "-o", "new.o", input]).code, Some(2));
        assert!(!room.path("new.o").exists());
    }
}

#[test]
fn output_may_be_the_input() {
    let room = room();
    let before = (room.path("done.o").metadata().unwrap(), room.get("done.o").unwrap());
    assert_eq!(mcount(&room, &["record", "-o", "a.o", "a.o"]).code, Some(0));
    assert_eq!(room.get("a.o").unwrap(), before.1);
    assert_eq!(mcount(&room, &["record", "-o", "done.o", "done.o"]).code, Some(0));
    let after = room.path("done.o").metadata().unwrap();
    assert_eq!(
        (after.ino(), after.modified().unwrap()),
        (before.0.ino(), before.0.modified().unwrap())
    );
}

/// What stays of a file that is recorded in place.
#[test]
fn in_place_keeps_inode_mode_and_links() {
    for mode in [0o644, 0o755, 0o600, 0o444] {
        let room = room();
        let path = room.path("a.o");
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let before = path.metadata().unwrap();
        symlink("a.o", room.path("link.o")).unwrap();
        assert_eq!(mcount(&room, &["record", "link.o"]).code, Some(0));
        let after = path.metadata().unwrap();
        assert!(room.path("link.o").is_symlink());
        assert_eq!(after.mode(), before.mode());
        assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
        // A file that may not be written gets a new inode, unless root records it.
        let may_write = mode & 0o200 != 0;
        assert!(!may_write || after.ino() == before.ino(), "{mode:o}");
        assert_eq!(room.get("a.o").unwrap(), room.get("done.o").unwrap());
    }
}

#[test]
fn another_name_keeps_the_old_object() {
    let room = room();
    let old = room.get("a.o").unwrap();
    fs::hard_link(room.path("a.o"), room.path("other.o")).unwrap();
    fs::set_permissions(room.path("a.o"), Permissions::from_mode(0o750)).unwrap();
    assert_eq!(mcount(&room, &["record", "a.o"]).code, Some(0));
    assert_eq!(room.get("other.o").unwrap(), old);
    assert_eq!(room.get("a.o").unwrap(), room.get("done.o").unwrap());
    assert_eq!(room.path("a.o").metadata().unwrap().mode() & 0o777, 0o750);
    assert_eq!(room.names().unwrap().len(), 7, "a temporary is left");
}

#[test]
fn a_link_to_one_of_two_names_stays_a_link() {
    let room = room();
    let old = room.get("a.o").unwrap();
    fs::hard_link(room.path("a.o"), room.path("other.o")).unwrap();
    symlink("a.o", room.path("link.o")).unwrap();
    assert_eq!(mcount(&room, &["record", "link.o"]).code, Some(0));
    assert!(room.path("link.o").is_symlink());
    assert_eq!(room.get("a.o").unwrap(), room.get("done.o").unwrap());
    assert_eq!(room.get("other.o").unwrap(), old);
}

#[test]
fn a_file_with_the_right_table_is_untouched() {
    let room = room();
    let stamp = |name: &str| {
        let metadata = room.path(name).metadata().unwrap();
        (metadata.ino(), metadata.modified().unwrap(), metadata.ctime_nsec(), metadata.len())
    };
    let empty = Object::new(62, true, false, true).build();
    room.put("empty.o", &empty).unwrap();
    for name in ["done.o", "empty.o", "text.o"] {
        let before = stamp(name);
        sleep(Duration::from_millis(20));
        mcount(&room, &["record", name]);
        assert_eq!(stamp(name), before, "{name}");
    }
}

#[test]
fn a_temporary_that_a_killed_run_left_is_replaced() {
    let room = room();
    fs::hard_link(room.path("a.o"), room.path("other.o")).unwrap();
    symlink("victim", room.path(".a.o.mcount-tmp")).unwrap();
    room.put("victim", b"not to be written").unwrap();
    assert_eq!(mcount(&room, &["record", "a.o"]).code, Some(0));
    assert_eq!(room.get("victim").unwrap(), b"not to be written");
    assert_eq!(room.get("a.o").unwrap(), room.get("done.o").unwrap());
    assert!(!room.path(".a.o.mcount-tmp").exists());
}

/// Runs `mcount` where no file may grow beyond 4096 bytes; `setup` says what the signal does.
fn without_space(room: &Room, setup: &str, arguments: &str) -> Outcome {
    let program = env!("CARGO_BIN_EXE_mcount");
    let script = format!("{setup}; ulimit -f 8; exec '{program}' {arguments}");
    room.run(Path::new("sh"), &["-c", &script]).unwrap()
}

#[test]
fn a_full_disk_changes_nothing() {
    // Whether the signal is ignored or would end the program.
    let setups = ["trap '' XFSZ", ":"].into_iter();
    let commands = ["record a.o", "record other.o", "record -o new.o b.o"];
    for (setup, arguments) in setups.flat_map(|setup| commands.map(|command| (setup, command))) {
        let room = room();
        fs::hard_link(room.path("bitcode.o"), room.path("other.o")).unwrap();
        room.put_prebuilt("other.o", OBJECT).unwrap();
        let (names, old) = (room.names().unwrap(), room.get("a.o").unwrap());
        assert!((2000..4096).contains(&old.len()) && room.get("done.o").unwrap().len() > 4096);
        let outcome = without_space(&room, setup, arguments);
        assert_eq!((outcome.code, outcome.stderr.lines().count()), (Some(2), 1), "{outcome:?}");
        assert!(outcome.stderr.contains("File too large"), "{outcome:?}");
        assert_eq!(room.names().unwrap(), names, "{arguments}: a temporary is left");
        for name in ["a.o", "b.o", "other.o"] {
            assert_eq!(room.get(name).unwrap(), old, "{arguments}: {name}");
        }
    }
}

/// What a run that was killed while it appended leaves is the old object, and the next run ends it.
#[test]
fn a_killed_run_is_taken_up() {
    let room = room();
    let (old, done) = (room.get("a.o").unwrap(), room.get("done.o").unwrap());
    let half = old.len().midpoint(done.len());
    room.put("a.o", &[&old, &done[old.len()..half]].concat()).unwrap();
    assert_eq!(mcount(&room, &["record", "a.o"]).code, Some(0));
    assert_eq!(room.get("a.o").unwrap(), room.get("done.o").unwrap());
}

/// The fields that DESIGN.md promises, on every line, and `btf`.
const FIELDS: &[&str] = &[
    "address",
    "btf",
    "excluded",
    "file",
    "hook",
    "kind",
    "member",
    "offset",
    "recorded",
    "section",
    "size",
    "source_file",
    "source_line",
    "status",
    "symbol",
    "symbol_offset",
];

fn lines(outcome: &Outcome) -> Vec<Value> {
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn machine_output_has_every_field() {
    let room = room();
    room.put_prebuilt("areas.o", "x86_64-clang-patchable-16-4").unwrap();
    for verb in ["scan", "list"] {
        for name in ["a.o", "done.o", "areas.o"] {
            let found = lines(&mcount(&room, &[verb, "--format", "jsonl", name]));
            assert_eq!(found.is_empty(), (verb, name) == ("list", "a.o"), "{verb} {name}");
            for line in found {
                let mut fields: Vec<_> = line.as_object().unwrap().keys().collect();
                fields.sort();
                assert_eq!(fields, FIELDS, "{verb} {name}");
                assert_eq!((&line["file"], &line["member"]), (&name.into(), &Value::Null));
                assert!(line["offset"].is_u64() && line["symbol_offset"].is_i64(), "{line}");
                assert!(line["recorded"].is_boolean() && line["excluded"].is_boolean(), "{line}");
            }
        }
    }
}

#[test]
fn machine_output_says_what_is_where() {
    let room = room();
    room.put_prebuilt("areas.o", "x86_64-clang-patchable-16-4").unwrap();
    let of = |verb: &str, file: &str, symbol: &str| {
        let found = lines(&mcount(&room, &[verb, "--format", "jsonl", file]));
        found.into_iter().find(|line| line["symbol"] == symbol).unwrap_or(Value::Null)
    };
    let fields = |line: &Value, names: &[&str]| -> Value {
        names.iter().map(|name| line[name].clone()).collect()
    };
    let found = fields(&of("scan", "a.o", "sample_init"), &["section", "offset", "symbol_offset"]);
    assert_eq!(found, json!([".init.text", 0, 0]));
    let names = ["kind", "hook", "recorded", "excluded", "address"];
    let found = fields(&of("scan", "a.o", "sample_init"), &names);
    assert_eq!(found, json!(["call", "__fentry__", false, false, null]));
    assert_eq!(fields(&of("list", "done.o", "sample_init"), &["recorded"]), json!([true]));
    assert_eq!(fields(&of("scan", "a.o", "sample_exit"), &["excluded"]), json!([true]));
    assert_eq!(of("scan", "done.o", "sample_exit"), Value::Null, "it became a NOP");
    let area = of("scan", "areas.o", "sample_weak_only");
    let expected = json!(["patchable", null, -4, 16]);
    assert_eq!(fields(&area, &["kind", "hook", "symbol_offset", "size"]), expected);
}

/// A C++ and a Rust name, and one with control characters.
fn named(name: &str) -> Vec<u8> {
    let mut object = Object::new(62, true, false, true);
    let call = Relocation { offset: 1, symbol: 1, kind: 4, addend: -4 };
    let text = Section::code(".text", &[0xe8, 0, 0, 0, 0]);
    object.sections.push(Section { relocations: vec![call], ..text });
    object.symbols = vec![Symbol::undefined("mcount"), Symbol::function(name, 1, 1, 0, 5)];
    object.build()
}

#[test]
fn demangled_names() {
    let room = Room::new().unwrap();
    for (name, expected) in [
        ("_ZN6Comdat6methodEi", "Comdat::method(int)"),
        ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
        ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
        ("plain", "plain"),
        ("_Znonsense", "_Znonsense"),
    ] {
        room.put("a.o", &named(name)).unwrap();
        for arguments in [&["scan", "a.o"][..], &["scan", "--format", "jsonl", "a.o"]] {
            assert!(mcount(&room, arguments).stdout.contains(name), "{name}");
            let demangled = mcount(&room, &[arguments, &["--demangle"]].concat()).stdout;
            assert!(demangled.contains(expected), "{demangled}");
        }
    }
}

/// A name from a file that nobody trusts neither ends a row nor speaks to the terminal.
#[test]
fn names_are_one_cell() {
    let room = Room::new().unwrap();
    room.put("a.o", &named("a\nb\x1b[31mc")).unwrap();
    let stdout = mcount(&room, &["scan", "a.o"]).stdout;
    assert_eq!(stdout.lines().count(), 3, "{stdout}");
    assert!(!stdout.contains('\x1b'), "{stdout}");
    assert_eq!(lines(&mcount(&room, &["scan", "--format", "jsonl", "a.o"])).len(), 1);
}

/// Nor does the name of a file: what is said of it is one line.
#[test]
fn file_names_are_one_line() {
    let room = Room::new().unwrap();
    let (good, bad) = ("a\n\x1b[31m.o", "b\n\x1b[31m.o");
    room.put_prebuilt(good, OBJECT).unwrap();
    room.put(bad, b"text").unwrap();
    for verb in ["scan", "record", "list", "check", "nop"] {
        let said = mcount(&room, &[verb, bad]).stderr;
        assert!(said.starts_with("mcount: b\\n\\u{1b}[31m.o: not an ELF file\n"), "{said:?}");
    }
    for arguments in [&["scan", good][..], &["record", "-v", good], &["nop", "-v", good]] {
        let said = mcount(&room, &[arguments, &["--color", "always"]].concat()).stdout;
        assert!(said.contains("a\\n\\u{1b}[31m.o"), "{said:?}");
    }
}

/// What programs read has the names as the file has them, and not as a terminal would like them.
#[test]
fn machine_output_keeps_every_byte() {
    let room = Room::new().unwrap();
    let name = "a\x7fb\x1b[31mc";
    room.put("a.o", &named(name)).unwrap();
    let found = lines(&mcount(&room, &["scan", "--format", "jsonl", "a.o"]));
    assert_eq!(found[0]["symbol"], name);
    let found = lines(&mcount(&room, &["why", "--format", "jsonl", "a.o", "a*"]));
    assert_eq!(found[0]["function"], name);
    assert!(mcount(&room, &["scan", "--format", "csv", "a.o"]).stdout.contains(name));
    let raw = |arguments: &[&str]| {
        let image = "tests/fuzz-corpus/relocations-of-themselves.elf";
        let image = prebuilt::root().join(image).display().to_string();
        let arguments = [&["table", "--format", "raw", image.as_str()], arguments].concat();
        let program = Path::new(env!("CARGO_BIN_EXE_mcount"));
        room.command(program, &arguments).output().unwrap().stdout
    };
    assert_eq!(raw(&["-o", "raw"]), b"");
    assert_eq!((raw(&[]), 72), (room.get("raw").unwrap(), room.get("raw").unwrap().len()));
}

#[test]
fn colour_is_for_terminals() {
    let room = room();
    assert!(!mcount(&room, &["scan", "a.o"]).stdout.contains('\x1b'));
    assert!(!mcount(&room, &["scan", "none.o"]).stderr.contains('\x1b'));
    assert!(mcount(&room, &["--color", "always", "scan", "a.o"]).stdout.contains('\x1b'));
    assert!(mcount(&room, &["scan", "none.o", "--color", "always"]).stderr.contains('\x1b'));
}

/// Runs `mcount` and reads one byte of what it prints; its exit code and standard error.
fn with_impatient_reader(room: &Room, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = room.command(Path::new(env!("CARGO_BIN_EXE_mcount")), arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut byte = [0];
    child.stdout.take().unwrap().read_exact(&mut byte).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    let room = room();
    // More than a pipe holds.
    let many = vec!["a.o"; 300];
    for verb in [&["scan"][..], &["scan", "--format", "jsonl"]] {
        let outcome = with_impatient_reader(&room, &[verb, &many].concat());
        assert_eq!(outcome, (Some(0), String::new()));
    }
}

#[test]
fn a_reader_that_has_enough_hides_no_error() {
    let room = room();
    let many = vec!["a.o"; 300];
    let (code, stderr) = with_impatient_reader(&room, &[&["scan", "none.o"], &many[..]].concat());
    assert_eq!(code, Some(2), "a file failed before: {stderr}");
}

/// What follows a file is recorded all the same when nobody reads what `-v` says.
/// Commands that print something.
const PRINTING: &[&[&str]] = &[
    &["--help"],
    &["--version"],
    &["record", "--help"],
    &["help", "scan"],
    &["completions", "bash"],
    &["completions", "fish"],
    &["demo"],
    &["scan", "a.o"],
    &["scan", "--count", "a.o"],
    &["list", "--format", "jsonl", "done.o"],
    &["check", "--policy", "all", "a.o"],
    &["check", "--explain", "all"],
    &["check", "--explain", "unsorted"],
    &["diff", "a.o", "done.o"],
    &["record", "-v", "a.o"],
];

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let room = room();
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let run = |program: &str, arguments: &[&str]| {
        let mut command = room.command(Path::new(program), arguments);
        let output = command.stdout(full()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for arguments in PRINTING {
        let (code, said) = run(env!("CARGO_BIN_EXE_mcount"), arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(
            said.contains("mcount: standard output: No space left on device\n"),
            "{arguments:?}: {said}"
        );
    }
    let (code, said) = run(env!("CARGO_BIN_EXE_recordmcount"), &["--version"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with("recordmcount: No space left"), "{said}");
    // What was done is done.
    assert!(mcount(&room, &["list", "a.o"]).stdout.contains("sample_init"));
}

#[test]
fn recording_needs_no_reader() {
    let room = room();
    let names: Vec<String> = (0..40).map(|index| format!("{}{index}.o", "n".repeat(100))).collect();
    for name in &names {
        room.put_prebuilt(name, OBJECT).unwrap();
    }
    let arguments: Vec<_> =
        ["record", "-v", "-j", "1"].into_iter().chain(names.iter().map(String::as_str)).collect();
    assert_eq!(with_impatient_reader(&room, &arguments).0, Some(0));
    for name in &names {
        assert_eq!(room.get(name).unwrap(), room.get("done.o").unwrap());
    }
}

#[test]
fn help_is_read_to_its_end() {
    let room = room();
    for (arguments, most) in
        [(&["--help"][..], 59), (&["trace", "--help"], 89), (&["attach", "--help"], 99)]
    {
        let lines = mcount(&room, arguments).stdout.lines().count();
        assert!(lines <= most, "{arguments:?}: {lines} lines");
    }
}

#[test]
fn man_pages_are_written() {
    let room = Room::new().unwrap();
    assert_eq!(mcount(&room, &["man", "."]).code, Some(0));
    let names = room.names().unwrap();
    for name in ["mcount.1", "mcount-scan.1", "mcount-record.1", "mcount-list.1"] {
        assert!(names.iter().any(|other| other == name), "{name} of {names:?}");
    }
    assert_eq!(mcount(&room, &["man", "none"]).code, Some(2));
}

/// The same input gives the same output at any `-j`.
#[test]
fn jobs_change_nothing() {
    let room = room();
    let names: Vec<String> = (0..20).map(|index| format!("{index}.o")).collect();
    for name in &names {
        room.put_prebuilt(name, "x86_64-comdat").unwrap();
    }
    let outcomes = ["1", "2", "8"].map(|jobs| {
        let arguments = ["scan", "--format", "jsonl", "-j", jobs].into_iter();
        mcount(&room, &arguments.chain(names.iter().map(String::as_str)).collect::<Vec<_>>())
    });
    assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]));
    assert!(!outcomes[0].stdout.is_empty());
}
