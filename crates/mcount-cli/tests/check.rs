//! `mcount check` as a command: levels, exit codes, what it prints, and coverage.
#![expect(clippy::unwrap_used, reason = "a test")]

use serde_json::Value;
use std::path::Path;
use testkit::room::{Outcome, Room};
use testkit::test;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

fn mcount(room: &Room, arguments: &[&str]) -> Outcome {
    room.run(Path::new(env!("CARGO_BIN_EXE_mcount")), arguments).unwrap()
}

/// An object that is not recorded, one that is, and one whose compiler recorded an excluded section.
fn room() -> Room {
    let room = Room::new().unwrap();
    room.put_prebuilt("bare.o", "x86_64-fentry").unwrap();
    room.put_prebuilt("good.o", "x86_64-fentry").unwrap();
    room.put_prebuilt("table.o", "x86_64-fentry-table").unwrap();
    room.put_prebuilt("sparc.o", "sparc64-pg").unwrap();
    assert_eq!(mcount(&room, &["record", "good.o"]).code, Some(0));
    room
}

#[test]
fn what_is_right_has_exit_code_0() {
    let outcome = mcount(&room(), &["check", "good.o"]);
    assert_eq!(outcome.code, Some(0));
    assert_eq!(outcome.stdout, "");
    assert_eq!(outcome.stderr, "mcount: 1 file checked, nothing found\n");
}

#[test]
fn a_denied_finding_has_exit_code_1_and_a_line() {
    let outcome = mcount(&room(), &["check", "bare.o", "good.o", "table.o"]);
    assert_eq!(outcome.code, Some(1));
    let lines: Vec<_> = outcome.stdout.lines().collect();
    let expected = [
        "bare.o: missing-site: 8 hooks and no table",
        "table.o: .exit.text+0x0: sample_exit+0x0: excluded-section: \
         the policy leaves this function of .exit.text out",
    ];
    assert_eq!(lines, expected);
    assert_eq!(outcome.stderr, "mcount: 3 files checked, 2 errors, 0 warnings\n");
}

#[test]
fn levels() {
    let room = room();
    let cases: &[(&[&str], i32, usize)] = &[
        (&[], 1, 1),
        (&["--warn", "missing-site"], 0, 1),
        (&["--allow", "missing-site"], 0, 0),
        (&["--allow", "all"], 0, 0),
        (&["--allow", "all", "--deny", "missing-site"], 1, 1),
        (&["--deny", "all", "--allow", "missing-site"], 0, 0),
        (&["--warn", "all"], 0, 1),
        (&["--allow", "missing-site", "--deny", "missing-site"], 1, 1),
    ];
    for (options, code, count) in cases {
        let outcome = mcount(&room, &[&["check", "bare.o"], *options].concat());
        assert_eq!(outcome.code, Some(*code), "{options:?}");
        assert_eq!(outcome.stdout.lines().count(), *count, "{options:?}");
    }
    let outcome = mcount(&room, &["check", "good.o", "--deny", "gc-unsafe"]);
    assert_eq!(outcome.code, Some(1), "what is allowed by default can be denied");
}

#[test]
fn an_error_has_exit_code_2_and_stops_nothing() {
    let room = room();
    room.put("text.o", b"no object").unwrap();
    let outcome = mcount(&room, &["check", "text.o", "bare.o"]);
    assert_eq!(outcome.code, Some(2));
    assert_eq!(outcome.stdout.lines().count(), 1);
    assert!(outcome.stderr.starts_with("mcount: text.o: not an ELF file"), "{}", outcome.stderr);
    assert_eq!(mcount(&room, &["check", "good.o", "--deny", "no-such-rule"]).code, Some(2));
    assert_eq!(mcount(&room, &["check"]).code, Some(2));
}

#[test]
fn machine_output() {
    let outcome = mcount(&room(), &["check", "--format", "jsonl", "table.o"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(1), ""));
    let line: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let expected = serde_json::json!({
        "file": "table.o", "member": null, "section": ".exit.text", "offset": 0, "address": null,
        "symbol": "sample_exit", "symbol_offset": 0, "rule": "excluded-section", "level": "deny",
        "detail": "the policy leaves this function of .exit.text out",
    });
    assert_eq!(line, expected);
}

#[test]
fn each_rule_is_explained() {
    let room = Room::new().unwrap();
    let list = mcount(&room, &["check", "--explain", "all"]);
    assert_eq!((list.code, list.stdout.lines().count()), (Some(0), 19));
    for line in list.stdout.lines() {
        let rule = line.split_whitespace().next().unwrap();
        let one = mcount(&room, &["check", "--explain", rule]);
        assert_eq!(one.code, Some(0));
        assert!(one.stdout.starts_with(rule) && one.stdout.len() > 200, "{}", one.stdout);
    }
}

/// docs/checks.md has the paragraphs that the command prints.
#[test]
fn the_documentation_explains_each_rule_in_the_same_words() {
    let path = testkit::prebuilt::root().join("docs/checks.md");
    let text = String::from_utf8(testkit::files::read(&path).unwrap()).unwrap();
    for rule in mcount::Rule::all() {
        let expected = format!("### {rule}\n{}\n", rule.explanation());
        assert!(text.contains(&expected), "{rule}");
    }
}

#[test]
fn archives_and_folders() {
    let room = room();
    let outcome = mcount(&room, &["check", "."]);
    let named: Vec<_> = outcome.stdout.lines().filter_map(|l| l.split(':').next()).collect();
    assert_eq!(named, ["./bare.o", "./sparc.o", "./table.o"]);
}

#[test]
fn coverage_names_the_functions_without_a_hook() {
    let room = room();
    let outcome = mcount(&room, &["check", "--coverage", "good.o"]);
    assert_eq!(outcome.code, Some(0));
    assert!(outcome.stdout.contains("functions have no hook"), "{}", outcome.stdout);
    let lines = mcount(&room, &["check", "--coverage=*", "--format", "jsonl", "good.o"]).stdout;
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["symbol"].is_string() && line["no_hook"].is_string(), "{line}");
        let symbol = line["symbol"].as_str().unwrap();
        assert!(outcome.stdout.contains(symbol), "{symbol}");
    }
    let none = mcount(&room, &["check", "--coverage=no_such_*", "good.o"]);
    assert_eq!(none.stdout, "good.o: 0 of 0 functions have no hook\n");
}
