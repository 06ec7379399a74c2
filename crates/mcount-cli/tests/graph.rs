//! `mcount graph`: its tree is what folded stacks add up to, with and without a function, and what a program counts of itself.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use mcount_trace::{End, Writer, layout};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use testkit::room::{Outcome, Room};
use testkit::test;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use testkit::tools::need;

const MCOUNT: &str = env!("CARGO_BIN_EXE_mcount");

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

fn mcount(room: &Room, arguments: &[&str]) -> Outcome {
    room.run(Path::new(MCOUNT), arguments).unwrap()
}

fn room(trace: &[u8]) -> Room {
    let room = Room::new().unwrap();
    room.put("t.mcount", trace).unwrap();
    room
}

fn printed(trace: &[u8], arguments: &[&str]) -> String {
    let outcome = mcount(&room(trace), &[&["graph", "t.mcount"], arguments].concat());
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    outcome.stdout
}

/// Two processes: one calls itself, has a call that's still open, and one that was unwound; the other has two threads.
fn sample() -> Writer {
    let mut writer = Writer::new();
    writer.process(100, 1, 0, "/bin/program").process(200, 100, 500, "/bin/other");
    let main = writer.function("/bin/program", "main");
    let walk = writer.function("/bin/program", "_ZN4tree4walkEi");
    let leaf = writer.function("/lib/libdraw.so.1", "leaf");
    let work = writer.function("/bin/other", "work");
    let threads = [writer.thread(100, 100), writer.thread(200, 200), writer.thread(200, 201)];
    let slot = |depth: u64| 0x7ffd_0000_0000 - depth * 64;
    let mut call = |thread, function, depth, from, to, end| {
        writer.call(thread, function).from(from).to(to).slot(slot(depth)).end(end);
    };
    let first = threads[0];
    call(first, leaf, 4, 1_300, 1_400, End::Return);
    call(first, walk, 3, 1_200, 1_500, End::Return);
    call(first, walk, 2, 1_150, 1_600, End::Unwound);
    call(first, walk, 1, 1_100, 1_700, End::Return);
    call(first, leaf, 1, 1_700, 1_750, End::TailCall);
    call(first, walk, 1, 1_800, 1_900, End::Return);
    for thread in [threads[1], threads[2]] {
        call(thread, leaf, 1, 2_100, 2_200, End::Return);
        call(thread, work, 0, 2_000, 3_000, End::Return);
    }
    writer.open(first, main, 1_000, slot(0));
    writer.header(layout::header::END_TICKS, 5_000);
    writer
}

#[test]
fn a_tree() {
    let expected = "     TOTAL  SHARE       SELF      CALLS  FUNCTION
  4.000 us  66.6%   0.000 us          0  program
  4.000 us  66.6%   3.250 us          1  └─ main
  0.700 us  11.6%   0.250 us          2     ├─ tree::walk
  0.450 us   7.5%   0.150 us          1     │  └─ tree::walk
  0.300 us   5.0%   0.200 us          1     │     └─ tree::walk
  0.100 us   1.6%   0.100 us          1     │        └─ leaf
  0.050 us   0.8%   0.050 us          1     └─ leaf
  2.000 us  33.3%   0.000 us          0  other
  2.000 us  33.3%   1.800 us          2  └─ work
  0.200 us   3.3%   0.200 us          2     └─ leaf
";
    assert_eq!(printed(&sample().finish(), &[]), expected);
}

#[test]
fn a_function_with_its_callers_and_callees() {
    let expected = "3 call paths to leaf:

     TOTAL  SHARE       SELF      CALLS  PATH
  0.200 us  57.1%   0.200 us          2  other
                                          └ work
                                           └ leaf
  0.100 us  28.5%   0.100 us          1  program
                                          └ main
                                           └ tree::walk
                                            └ tree::walk
                                             └ tree::walk
                                              └ leaf
  0.050 us  14.2%   0.050 us          1  program
                                          └ main
                                           └ leaf

Calls beneath leaf:

     TOTAL  SHARE       SELF      CALLS  FUNCTION
  0.350 us 100.0%   0.350 us          4  leaf
";
    assert_eq!(printed(&sample().finish(), &["leaf"]), expected);
    // Calls within calls of the same function are beneath it, and no paths of their own.
    let text = printed(&sample().finish(), &["tree::*"]);
    let (paths, beneath) = text.split_once("Calls beneath tree::*:\n\n").unwrap();
    assert!(paths.starts_with("1 call path to tree::*:"), "{text}");
    let expected = "     TOTAL  SHARE       SELF      CALLS  FUNCTION
  0.700 us 100.0%   0.250 us          2  tree::walk
  0.450 us  64.2%   0.150 us          1  └─ tree::walk
  0.300 us  42.8%   0.200 us          1     └─ tree::walk
  0.100 us  14.2%   0.100 us          1        └─ leaf
";
    assert_eq!(beneath, expected);
}

#[test]
fn what_is_put_together_is_said() {
    let text = printed(&sample().finish(), &["--min-share", "10%", "--depth", "2"]);
    let expected = "     TOTAL  SHARE       SELF      CALLS  FUNCTION
  4.000 us  66.6%   0.000 us          0  program
  4.000 us  66.6%   3.250 us          1  └─ main
  0.700 us  11.6%   0.250 us          2     ├─ tree::walk
                                            │  └─ (1 more function: 0.450 us)
                                            └─ (1 more function: 0.050 us)
  2.000 us  33.3%   0.000 us          0  other
  2.000 us  33.3%   1.800 us          2  └─ work
                                            └─ (1 more function: 0.200 us)

In parentheses: functions with less than 10 % of the time, or more than 2 deep; --min-share 0 and --depth change that.
";
    assert_eq!(text, expected);
    let text = printed(&sample().finish(), &["leaf", "--min-share", "20"]);
    assert!(text.contains("(1 more path: 0.050 us)"), "{text}");
}

#[test]
fn only_some_threads_and_times() {
    let text = printed(&sample().finish(), &["--thread", "201"]);
    assert!(text.contains(" 1  └─ work") && !text.contains("main"), "{text}");
    let text = printed(&sample().finish(), &["--to", "1.75us", "--from", "1.1us"]);
    assert!(text.contains(" 1  ├─ tree::walk") && !text.contains("work"), "{text}");
}

#[test]
fn a_function_that_is_not_there() {
    let room = room(&sample().finish());
    for (function, expected) in [
        ("wrok", "no function in the trace matches 'wrok'; did you mean 'work'?"),
        ("nothing_like_it", "no function in the trace matches 'nothing_like_it'"),
        ("[", "unclosed character class"),
    ] {
        let outcome = mcount(&room, &["graph", "t.mcount", function]);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{outcome:?}");
        assert!(outcome.stderr.contains(expected), "{outcome:?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
    }
    let outcome = mcount(&room, &["graph", "--from", "4us", "t.mcount", "leaf"]);
    assert!(outcome.stderr.contains("no call of 'leaf' is in the trace"), "{outcome:?}");
}

/// The graph as JSON, with nothing put together.
fn json(room: &Room, arguments: &[&str]) -> Value {
    let all = ["graph", "t.mcount", "--format", "json", "--min-share", "0", "--depth", "600"];
    let outcome = mcount(room, &[&all, arguments].concat());
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    serde_json::from_str(&outcome.stdout).unwrap()
}

/// What each path of a graph has: calls and nanoseconds of its own.
fn paths(graph: &Value) -> BTreeMap<String, (u64, u64)> {
    let mut names: Vec<String> = Vec::new();
    let mut found = BTreeMap::new();
    for node in graph["nodes"].as_array().unwrap() {
        let own = node["function"].as_str().or(node["process"].as_str()).unwrap();
        let name = match node["parent"].as_u64() {
            Some(parent) => format!("{};{own}", names[usize::try_from(parent).unwrap()]),
            None => own.to_owned(),
        };
        let numbers = (node["calls"].as_u64().unwrap(), node["self_ns"].as_u64().unwrap());
        assert!(found.insert(name.clone(), numbers).is_none(), "{name} is there twice");
        assert_eq!(node["left_out"], 0, "{node}");
        names.push(name);
    }
    found
}

/// The lines of folded stacks.
fn folded(room: &Room, weight: &str) -> BTreeMap<String, u64> {
    let words = ["replay", "--format", "folded", "--weight", weight, "t.mcount"];
    let text = mcount(room, &words).stdout;
    let line = |line: &str| {
        let (path, number) = line.rsplit_once(' ').unwrap();
        (path.to_owned(), number.parse().unwrap())
    };
    text.lines().map(line).collect()
}

/// Everything that a graph says is what folded stacks add up to.
fn is_as_folded(room: &Room) {
    let graph = json(room, &[]);
    let (time, calls) = (folded(room, "time"), folded(room, "calls"));
    assert!(!time.is_empty() && !calls.is_empty());
    let found = paths(&graph);
    let of = |which: fn(&(u64, u64)) -> u64| -> BTreeMap<String, u64> {
        let all = found.iter().map(|(path, numbers)| (path.clone(), which(numbers)));
        all.filter(|(_, number)| *number > 0).collect()
    };
    assert_eq!(of(|numbers| numbers.0), calls);
    assert_eq!(of(|numbers| numbers.1), time);
    let names: Vec<&str> = calls.keys().filter_map(|path| path.rsplit(';').next()).collect();
    for name in names {
        of_function(room, name, &time, &calls);
    }
}

/// The same of what's beneath a function.
fn of_function(
    room: &Room,
    name: &str,
    time: &BTreeMap<String, u64>,
    calls: &BTreeMap<String, u64>,
) {
    let graph = json(room, &[name]);
    let beneath = |all: &BTreeMap<String, u64>| {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for (path, number) in all {
            let steps: Vec<&str> = path.split(';').collect();
            // The first step is a process.
            if let Some(at) = steps.iter().skip(1).position(|step| *step == name) {
                *sums.entry(steps[at + 1..].join(";")).or_default() += number;
            }
        }
        sums
    };
    let found = paths(&graph);
    for (path, number) in beneath(calls) {
        assert_eq!(found[&path].0, number, "{path}");
    }
    for (path, number) in beneath(time) {
        assert_eq!(found[&path].1, number, "{path}");
    }
    let total: u64 = beneath(time).values().sum();
    let ways = graph["paths"].as_array().unwrap();
    let sum = |field: &str| ways.iter().map(|way| way[field].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("total_ns"), total, "{name}");
    assert_eq!(graph["nodes"][0]["total_ns"].as_u64(), Some(total), "{name}");
    assert_eq!(graph["nodes"][0]["calls"].as_u64(), Some(sum("calls")), "{name}");
}

#[test]
fn as_folded_stacks_have_it() {
    is_as_folded(&room(&sample().finish()));
}

/// A million deep, and no path is printed deeper than folded stacks have it.
#[test]
fn deep_recursion() {
    let mut writer = Writer::new();
    let (thread, down) = (writer.thread(1, 1), writer.function("/bin/p", "down"));
    let deepest = 100_000;
    for depth in (0..deepest).rev() {
        let call = writer.call(thread, down).from(depth).to(2 * deepest - depth);
        call.slot(0x7fff_0000_0000 - depth * 16).end(End::Return);
    }
    let room = room(&writer.finish());
    let graph = json(&room, &[]);
    assert_eq!(graph["deeper_calls"], deepest - 512);
    assert_eq!(graph["nodes"].as_array().unwrap().len(), 513);
    assert_eq!(graph["nodes"][1]["total_ns"], 2 * deepest);
    let text = mcount(&room, &["graph", "t.mcount"]).stdout;
    assert!(text.contains("99488 calls are on too many or too long paths"), "{text}");
    assert!(text.contains("(1 more function: "), "{text}");
}

#[test]
fn without_times() {
    let mut writer = sample();
    let flags = layout::flags::FINISHED | layout::flags::ENTRIES;
    writer.header(layout::header::FLAGS, flags);
    let text = printed(&writer.finish(), &[]);
    assert!(text.contains("Only entries were recorded"), "{text}");
    assert!(text.contains("         4  ├─ tree::walk\n"), "{text}");
    assert_eq!(text.lines().next().unwrap().trim_start(), "CALLS  FUNCTION");
    let empty = printed(&Writer::new().finish(), &[]);
    assert_eq!(empty.lines().count(), 1, "{empty}");
}

/// Counts its own calls, by who called.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const PROGRAM: &str = "
#include <stdio.h>
#define HOOKED __attribute__((noinline))
static long even, odd, deep;
HOOKED int leaf(int n) { __asm__ volatile(\"\"); return n; }
HOOKED int fib(int n) { deep++; return n < 2 ? leaf(n) : fib(n - 1) + fib(n - 2); }
HOOKED int on_even(int n) { even++; return leaf(n); }
HOOKED int on_odd(int n) { odd++; return leaf(n) + leaf(n); }
int main(void)
{
    int sum = fib(16);
    for (int i = 0; i < 999; i++) sum += i % 2 ? on_odd(i) : on_even(i);
    printf(\"%ld %ld %ld\\n\", even, odd, deep);
    return sum == 7;
}
";

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn as_a_program_counts() {
    need(["gcc"]);
    let room = Room::new().unwrap();
    room.put("p.c", PROGRAM.as_bytes()).unwrap();
    let flags = ["-O1", "-fpatchable-function-entry=5", "-o", "p", "p.c"];
    assert_eq!(room.run(Path::new("gcc"), &flags).unwrap().code, Some(0));
    let traced = mcount(&room, &["trace", "--plain", "-o", "t.mcount", "--", "./p"]);
    assert_eq!(traced.code, Some(0), "{}", traced.stderr);
    let counts: Vec<u64> =
        traced.stdout.split_whitespace().map(|count| count.parse().unwrap()).collect();
    let found = paths(&json(&room, &[]));
    let calls = |path: &str| found[&format!("p;main;{path}")].0;
    assert_eq!(calls("on_even"), counts[0]);
    assert_eq!(calls("on_even;leaf"), counts[0]);
    assert_eq!(calls("on_odd"), counts[1]);
    assert_eq!(calls("on_odd;leaf"), 2 * counts[1]);
    let is_fib = |path: &str| path.rsplit(';').next() == Some("fib");
    let fibs = found.iter().filter(|(path, _)| is_fib(path)).map(|(_, numbers)| numbers.0);
    assert_eq!(fibs.sum::<u64>(), counts[2]);
    is_as_folded(&room);
}
