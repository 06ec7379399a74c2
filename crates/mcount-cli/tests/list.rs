//! What `list` says besides the table itself: source lines from the debug information of objects and
//! images, of every compiler that is here; names and lines from separate debug files; the status of
//! each entry; counts; comma-separated values.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use serde_json::Value;
use std::path::Path;
use testkit::room::{Outcome, Room};
use testkit::test;
use testkit::tools::need;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

/// The functions are on lines 3, 8 and 13; the one on line 17 is overridden by `OTHER`.
const SOURCE: &str = "\
static int helper(int x) { return x * 3; }

__attribute__((noinline)) int first(int x) {

	return x + 1;
}

__attribute__((noinline, section(\".init.text\"))) int second(int x) {

	return x + 2;
}

int third(int x) {

	return first(x) + second(x) + helper(x);
}
__attribute__((weak)) int fourth(int x) { return third(x) * 7; }
";

const OTHER: &str = "
int fourth(int x) { return x; }
int main(int count, char **names) { return fourth(count) - 1; }
";

/// Compilers and their flags.
const COMPILERS: &[(&str, &[&str])] = &[
    ("gcc", &[]),
    ("gcc", &["-gdwarf-4"]),
    ("gcc", &["-gz"]),
    ("gcc", &["-ffunction-sections"]),
    ("clang", &[]),
    ("clang-19", &["-gz=zstd"]),
    ("clang-19", &["--target=loongarch64-linux-gnu"]),
    ("clang-19", &["--target=riscv64-linux-gnu"]),
    ("aarch64-linux-gnu-gcc", &[]),
    ("arm-linux-gnueabi-gcc", &[]),
    ("arm-linux-gnueabihf-gcc", &["-mthumb"]),
    ("hppa-linux-gnu-gcc", &[]),
    ("i686-linux-gnu-gcc", &[]),
    ("mips-linux-gnu-gcc", &[]),
    ("mips64el-linux-gnuabi64-gcc", &[]),
    ("powerpc-linux-gnu-gcc", &[]),
    ("powerpc64-linux-gnu-gcc", &[]),
    ("powerpc64le-linux-gnu-gcc", &[]),
    ("riscv64-linux-gnu-gcc", &[]),
    ("s390x-linux-gnu-gcc", &[]),
    ("sh4-linux-gnu-gcc", &[]),
    ("sparc64-linux-gnu-gcc", &[]),
];

fn mcount(room: &Room, arguments: &[&str]) -> Outcome {
    room.run(Path::new(env!("CARGO_BIN_EXE_mcount")), arguments).unwrap()
}

/// Runs a tool that must succeed.
fn tool(room: &Room, program: &str, arguments: &[&str]) {
    let outcome = room.run(Path::new(program), arguments).unwrap();
    assert_eq!(outcome.code, Some(0), "{program} {arguments:?}: {outcome:?}");
}

fn lines(outcome: &Outcome) -> Vec<Value> {
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Function, source file and line of each entry of `file`.
fn places(room: &Room, file: &str, arguments: &[&str]) -> Vec<(String, String, u64)> {
    let list = ["list", "--policy", "all", "--lines", "--format", "jsonl", file];
    let outcome = mcount(room, &[&list, arguments].concat());
    let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
    let place = |line: &Value| {
        let number = line["source_line"].as_u64().unwrap_or(0);
        (text(&line["symbol"]), text(&line["source_file"]), number)
    };
    let mut places: Vec<_> = lines(&outcome).iter().map(place).collect();
    places.sort();
    places
}

#[test(each = COMPILERS)]
fn lines_of_objects((compiler, flags): &(&str, &[&str])) {
    need([*compiler]);
    let room = Room::new().unwrap();
    room.put("a.c", SOURCE.as_bytes()).unwrap();
    let arguments = [&["-g", "-O2", "-pg", "-c", "a.c"], *flags].concat();
    tool(&room, compiler, &arguments);
    tool(&room, env!("CARGO_BIN_EXE_mcount"), &["record", "--policy", "all", "a.o"]);
    let expected = [("first", 3), ("fourth", 17), ("second", 8), ("third", 13)]
        .map(|(name, line)| (name.to_owned(), "a.c".to_owned(), line));
    assert_eq!(places(&room, "a.o", &[]), expected, "{compiler} {flags:?}");
}

/// Without debug information there are no lines, and that is no error.
#[test]
fn no_debug_information() {
    let room = Room::new().unwrap();
    room.put_prebuilt("a.o", "x86_64-fentry").unwrap();
    tool(&room, env!("CARGO_BIN_EXE_mcount"), &["record", "a.o"]);
    assert!(places(&room, "a.o", &[]).iter().all(|(_, file, line)| file == "none" && *line == 0));
    let text = mcount(&room, &["list", "--lines", "a.o"]);
    assert!(text.stdout.contains("SOURCE"), "{text:?}");
}

/// `program`, not position-independent, with a table; its weak function is overridden.
fn program() -> Room {
    let room = Room::new().unwrap();
    room.put("a.c", SOURCE.as_bytes()).unwrap();
    room.put("b.c", OTHER.as_bytes()).unwrap();
    for name in ["a", "b"] {
        let source = format!("{name}.c");
        tool(&room, "gcc", &["-g", "-O2", "-pg", "-fno-pie", "-c", &source]);
        let object = format!("{name}.o");
        tool(&room, env!("CARGO_BIN_EXE_mcount"), &["record", "--policy", "all", &object]);
    }
    let link = ["-pg", "-no-pie", "-Wl,--build-id", "-o", "program", "a.o", "b.o"];
    tool(&room, "gcc", &link);
    room
}

#[test]
fn status_of_entries() {
    need(["gcc"]);
    let room = program();
    let list = ["list", "--policy", "all", "--format", "jsonl", "program"];
    let found = lines(&mcount(&room, &list));
    let of = |status: &str| found.iter().filter(|line| line["status"] == status).count();
    assert_eq!((found.len(), of("recorded"), of("stale")), (6, 5, 1), "{found:?}");
    tool(&room, env!("CARGO_BIN_EXE_mcount"), &["sort", "--drop-weak", "--force", "program"]);
    let found = lines(&mcount(&room, &list));
    assert_eq!(found.first().unwrap()["status"], "dropped");
    let linux = ["list", "--format", "jsonl", "--exclude-section", ".text", "program"];
    let found = lines(&mcount(&room, &linux));
    assert!(found.iter().any(|line| line["status"] == "recorded, excluded"), "{found:?}");
}

/// The places where a debug file may be, and whether it is found there.
#[test]
fn separate_debug_files() {
    need(["gcc", "objcopy", "strip", "readelf"]);
    let room = program();
    let expected = places(&room, "program", &[]);
    assert!(expected.contains(&("third".to_owned(), "a.c".to_owned(), 13)), "{expected:?}");
    tool(&room, "objcopy", &["--only-keep-debug", "program", "program.debug"]);
    tool(&room, "objcopy", &["--strip-all", "program", "stripped"]);
    tool(
        &room,
        "objcopy",
        &[
            "--strip-all",
            "-R",
            ".note.gnu.build-id",
            "--add-gnu-debuglink=program.debug",
            "program",
            "linked",
        ],
    );
    let notes = room.run(Path::new("readelf"), &["-n", "program"]).unwrap().stdout;
    let id = notes.split("Build ID: ").nth(1).unwrap().lines().next().unwrap();
    let (first, rest) = id.split_at(2);
    let debug = room.get("program.debug").unwrap();
    let is_found = |image: &str, place: &str, bytes: &[u8]| {
        let path = room.path(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        room.put(place, bytes).unwrap();
        let found = places(&room, image, &["--debug-dir", "debug"]);
        std::fs::remove_file(path).unwrap();
        found == expected
    };
    std::fs::remove_file(room.path("program.debug")).unwrap();
    let by_id = format!("debug/.build-id/{first}/{rest}.debug");
    assert!(is_found("stripped", &by_id, &debug));
    // Where the file itself is, below the folder of debug files.
    assert!(is_found("stripped", "debug/stripped", &debug));
    let other = room.get("a.o").unwrap();
    assert!(!is_found("stripped", &by_id, &other), "another build ID");
    let own = std::path::absolute(room.path("")).unwrap();
    let installed = format!("debug{}/program.debug", own.display());
    for place in ["program.debug", ".debug/program.debug", &installed] {
        assert!(is_found("linked", place, &debug), "{place}");
        let mut wrong = debug.clone();
        *wrong.last_mut().unwrap() ^= 1;
        assert!(!is_found("linked", place, &wrong), "{place}: the checksum is wrong");
    }
    assert!(!is_found("linked", "elsewhere/program.debug", &debug));
}

/// Without names, a long table is known by where its entries lead, and the hook by them.
/// Prefix of the tools, flags, and hook.
const NAMELESS: &[(&str, &[&str], &str)] = &[
    ("", &["-pg", "-no-pie"], "mcount"),
    ("", &["-pg", "-mfentry", "-no-pie"], "__fentry__"),
    ("", &["-pg", "-fpie", "-pie"], "mcount"),
    ("aarch64-linux-gnu-", &["-pg", "-no-pie"], "_mcount"),
    ("i686-linux-gnu-", &["-fno-pie", "-pg", "-mfentry", "-no-pie"], "__fentry__"),
    ("powerpc64le-linux-gnu-", &["-pg", "-no-pie"], "_mcount"),
];

#[test(each = NAMELESS)]
fn a_table_that_nothing_names((prefix, flags, hook): &(&str, &[&str], &str)) {
    let (compiler, objcopy) = (format!("{prefix}gcc"), format!("{prefix}objcopy"));
    need([compiler.as_str(), objcopy.as_str()]);
    let room = Room::new().unwrap();
    let functions: Vec<_> =
        (0..100).map(|n| format!("int f{n}(int x) {{ return x + {n}; }}")).collect();
    room.put("a.c", functions.join("\n").as_bytes()).unwrap();
    room.put("hook.c", format!("void {hook}(void) {{}}\n").as_bytes()).unwrap();
    tool(&room, &compiler, &[&flags[..flags.len() - 1], &["-O2", "-c", "a.c"]].concat());
    tool(&room, &compiler, &["-O2", "-fpie", "-c", "hook.c"]);
    assert_eq!(mcount(&room, &["record", "--policy", "all", "a.o"]).code, Some(0));
    let link = [flags.last().unwrap(), "-nostdlib", "-Wl,-e,f0", "-o", "program"];
    tool(&room, &compiler, &[&link[..], &["a.o", "hook.o"]].concat());
    let before = addresses(&mcount(&room, &["list", "--format", "jsonl", "program"]));
    assert_eq!(before.len(), 100, "{prefix}gcc {flags:?}");
    tool(&room, &objcopy, &["-S", "--rename-section", "__mcount_loc=.tables", "program"]);
    for command in ["list", "scan"] {
        let after = addresses(&mcount(&room, &[command, "--format", "jsonl", "program"]));
        assert_eq!(after, before, "{command}: {prefix}gcc {flags:?}");
    }
    let outcome = mcount(&room, &["check", "--policy", "all", "program"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

/// The addresses of a listing in jsonl, all of them recorded.
fn addresses(outcome: &Outcome) -> Vec<u64> {
    let lines = outcome.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let address = |value: Value| {
        assert_eq!(value["recorded"], true, "{value}");
        value["address"].as_u64().unwrap()
    };
    lines.map(address).collect()
}

/// Without any symbol nothing can be found: that is said, with the build ID to look for.
#[test]
fn an_image_without_symbols() {
    need(["gcc", "objcopy"]);
    let room = Room::new().unwrap();
    room.put("a.c", b"int main(void) { return 0; }\nvoid mcount(void) {}\n").unwrap();
    let flags = ["-O2", "-static", "-nostdlib", "-Wl,-e,main", "-Wl,--build-id=0x1234", "a.c"];
    tool(&room, "gcc", &[&flags[..], &["-o", "program"]].concat());
    tool(&room, "objcopy", &["--strip-all", "program"]);
    for command in [&["list", "program"][..], &["check", "program"], &["why", "program", "main"]] {
        let outcome = mcount(&room, command);
        assert_eq!(outcome.code, Some(2));
        let expected = "program: no symbols: its debug file (build ID 1234) would have them";
        assert!(outcome.stderr.contains(expected), "{outcome:?}");
    }
}

#[test]
fn counts() {
    need(["gcc"]);
    let room = program();
    let count = |arguments: &[&str]| {
        let all = [&["list", "--policy", "all", "--count"], arguments].concat();
        mcount(&room, &all).stdout
    };
    assert_eq!(count(&["program", "a.o"]), "6  program\n4  a.o\n");
    assert_eq!(count(&["--by", "section", "program"]), "5  .text\n1  .init.text\n");
    assert_eq!(count(&["--by", "file", "program", "a.o"]), "8  a.c\n2  b.c\n");
    assert_eq!(count(&["--by", "dir", "a.o"]), "4  .\n");
    let csv = count(&["--by", "function", "--format", "csv", "a.o"]);
    assert_eq!(csv, "function,count\nfirst,1\nfourth,1\nsecond,1\nthird,1\n");
    let jsonl = count(&["--by", "section", "--format", "jsonl", "a.o"]);
    assert_eq!(jsonl.lines().next(), Some(r#"{"count":3,"section":".text"}"#));
}

#[test]
fn comma_separated_values() {
    let room = Room::new().unwrap();
    room.put_prebuilt("a, \"b\".o", "x86_64-fentry").unwrap();
    let outcome = mcount(&room, &["scan", "--format", "csv", "a, \"b\".o"]);
    let mut rows = outcome.stdout.lines();
    let head = rows.next().unwrap();
    assert!(head.starts_with("file,member,section,offset,address,symbol,"), "{head}");
    for row in rows {
        assert!(row.starts_with("\"a, \"\"b\"\".o\",,.") && row.contains(",call,__fentry__,5,"));
        assert_eq!(row.matches(',').count(), head.matches(',').count() + 1, "{row}");
    }
}
