//! Which calls of a real trace readers print: those that failed, and those of functions of some sizes; and with source lines.
#![cfg_attr(
    all(target_os = "linux", target_arch = "x86_64"),
    expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")
)]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use std::path::Path;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use testkit::room::{Outcome, Room};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use testkit::test;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use testkit::tools::need;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

/// What these functions return is on standard output, and which of it is an error.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const FAILING: &str = r#"
#include <stdio.h>
#include <stdint.h>
#include <stddef.h>
#include <sys/types.h>
#define CALL(name, value, failed) do { (void)name(value); printf("%s %d\n", #name, failed); } while (0)
#define SAME(type, name) __attribute__((noinline)) type name(type x) { __asm__ volatile(""); return x; }
enum answer { WRONG = -1, RIGHT };
SAME(int, number)
SAME(ssize_t, length)
SAME(size_t, size)
SAME(unsigned, word)
SAME(void *, pointer)
SAME(const char *, text)
SAME(enum answer, answered)
SAME(_Bool, truth)
SAME(double, real)
int main(void) {
    CALL(number, 0, 0); CALL(number, -1, 1); CALL(number, 5, 0); CALL(number, -2147483647 - 1, 1);
    CALL(length, 7, 0); CALL(length, -7, 1);
    CALL(size, 0, 0); CALL(size, (size_t)-1, 1); CALL(size, (size_t)-4095, 1); CALL(size, (size_t)-4096, 0);
    CALL(word, 0, 0); CALL(word, 0xffffffff, 0);
    CALL(pointer, main, 0); CALL(pointer, NULL, 1); CALL(pointer, (void *)-1, 1); CALL(pointer, (void *)-5000, 0);
    CALL(text, "here", 0); CALL(text, NULL, 1);
    CALL(answered, WRONG, 1); CALL(answered, RIGHT, 0);
    CALL(truth, 0, 0); CALL(truth, 1, 0);
    CALL(real, 0.5, 0); CALL(real, -0.5, 1);
    return 0;
}
"#;

/// A program that was traced with its results.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
struct Traced {
    room: Room,
    /// The functions that it calls, in order, and whether each call fails.
    told: Vec<(String, bool)>,
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
impl Traced {
    fn new() -> Self {
        need(["gcc", "nm"]);
        let room = Room::new().unwrap();
        room.put("p.c", FAILING.as_bytes()).unwrap();
        let flags = ["-O1", "-g", "-fpatchable-function-entry=5", "-o", "p", "p.c"];
        assert_eq!(room.run(Path::new("gcc"), &flags).unwrap().code, Some(0));
        let traced = Self { room, told: Vec::new() };
        let outcome =
            traced.run(&["trace", "--plain", "--results", "*", "-o", "t.mcount", "--", "./p"]);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let told = outcome.stdout.lines().map(|line| line.split_once(' ').unwrap());
        let told = told.map(|(name, failed)| (name.to_owned(), failed == "1")).collect();
        Self { told, ..traced }
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        self.room.run(Path::new(env!("CARGO_BIN_EXE_mcount")), arguments).unwrap()
    }

    /// The functions of the calls that these arguments of `replay` leave.
    fn names(&self, arguments: &[&str]) -> Vec<String> {
        let lines = self.run(&[&["replay", "--format", "jsonl"], arguments].concat()).stdout;
        let rows = lines.lines().map(serde_json::from_str::<serde_json::Value>);
        rows.map(|row| row.unwrap()["function"].as_str().unwrap().to_owned()).collect()
    }
}

/// Calls that failed, against what the program says.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn calls_that_failed() {
    let traced = Traced::new();
    let told = &traced.told;
    let failed: Vec<&str> =
        told.iter().filter(|(_, failed)| *failed).map(|(name, _)| name.as_str()).collect();
    assert_eq!(traced.names(&["--failed", "t.mcount"]), failed);
    assert_eq!((told.len(), failed.len()), (24, 10));
    let counts = traced.run(&["stats", "--failed", "--format", "csv", "t.mcount"]).stdout;
    let mut counts: Vec<(&str, usize)> = counts
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect::<Vec<_>>())
        .map(|fields| (fields[0], fields[3].parse().unwrap()))
        .collect();
    counts.sort_unstable();
    let mut expected: Vec<(&str, usize)> = Vec::new();
    for name in &failed {
        match expected.iter_mut().find(|(other, _)| other == name) {
            Some((_, count)) => *count += 1,
            None => expected.push((name, 1)),
        }
    }
    expected.sort_unstable();
    assert_eq!(counts, expected);

    assert_eq!(traced.run(&["trace", "--plain", "-o", "n.mcount", "--", "./p"]).code, Some(0));
    for command in ["replay", "stats"] {
        let outcome = traced.run(&[command, "--failed", "n.mcount"]);
        let expected = "mcount: n.mcount: --failed: no results were recorded: trace again with --results PATTERN\n";
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(2), expected));
    }
}

/// Source lines, against the source.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn source_lines() {
    let traced = Traced::new();
    let lines = traced.run(&["replay", "--lines", "--fields", "none", "t.mcount"]).stdout;
    let number = |name: &str| {
        let is_it = |line: &str| line.contains(&format!(" {name})")) && line.starts_with("SAME(");
        let is_main = |line: &str| name == "main" && line.starts_with("int main");
        1 + FAILING.lines().position(|line| is_it(line) || is_main(line)).unwrap()
    };
    for name in ["number", "real"] {
        let place = format!("/* p.c:{} */", number(name));
        let all = lines.lines().filter(|line| line.trim_start().starts_with(&format!("{name}(")));
        assert!(
            all.clone().count() > 0 && all.clone().all(|line| line.ends_with(&place)),
            "{lines}"
        );
    }
    assert!(lines.contains(&format!("main() {{ /* p.c:{} */", number("main"))), "{lines}");
    let json = traced.run(&["replay", "--lines", "--format", "jsonl", "t.mcount"]).stdout;
    let row: serde_json::Value = serde_json::from_str(json.lines().nth(1).unwrap()).unwrap();
    assert_eq!(
        (row["source_file"].as_str(), row["source_line"].as_u64()),
        (Some("p.c"), Some(number("number") as u64))
    );
    let csv = traced.run(&["replay", "--lines", "--format", "csv", "t.mcount"]).stdout;
    assert!(csv.lines().next().unwrap().ends_with(",source_file,source_line"), "{csv}");
    assert!(csv.lines().nth(2).unwrap().ends_with(&format!(",p.c,{}", number("number"))), "{csv}");
    let refused = traced.run(&["replay", "--lines", "--format", "chrome", "t.mcount"]);
    assert_eq!(refused.code, Some(2));
}

/// Sizes, when a trace is recorded and when it's read, against nm.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn functions_of_some_sizes() {
    let traced = Traced::new();
    let told = &traced.told;
    let symbols = traced.room.run(Path::new("nm"), &["-S", "--defined-only", "p"]).unwrap().stdout;
    let mut sizes: Vec<(u64, &str)> = symbols
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| words.len() == 4 && "tT".contains(words[2]))
        .map(|words| (u64::from_str_radix(words[1], 16).unwrap(), words[3]))
        .filter(|(_, name)| told.iter().any(|(other, _)| other == name) || *name == "main")
        .collect();
    sizes.sort_unstable();
    let (least, most) = (sizes[0].0, sizes[sizes.len() - 1].0);
    assert!(least < most && sizes[sizes.len() - 1].1 == "main", "{sizes:?}");
    for bound in [least, least + 1, most, most + 1] {
        for (option, is_in) in [("--min-function-size", true), ("--max-function-size", false)] {
            let fits = |name: &str| {
                let size = sizes.iter().find(|(_, other)| *other == name).unwrap().0;
                if is_in { size >= bound } else { size <= bound }
            };
            let all = ["main"].into_iter().chain(told.iter().map(|(name, _)| name.as_str()));
            let expected: Vec<&str> = all.filter(|name| fits(name)).collect();
            let bound = bound.to_string();
            assert_eq!(traced.names(&[option, &bound, "t.mcount"]), expected, "{option} {bound}");
            let outcome =
                traced.run(&["trace", "--plain", option, &bound, "-o", "s.mcount", "--", "./p"]);
            let is_any = !expected.is_empty();
            assert_eq!(outcome.code, Some(if is_any { 0 } else { 2 }), "{}", outcome.stderr);
            if is_any {
                assert_eq!(traced.names(&["s.mcount"]), expected, "{option} {bound}");
            }
        }
    }
}
