//! `mcount diff` of traces: on traces that are made here, whose noise is known; and on a program that has
//! one function made slower by a twentieth.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use mcount_trace::{End, Writer};
use serde_json::Value;
use std::path::Path;
use testkit::room::{Outcome, Room};
use testkit::test;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use testkit::tools::need;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

const MCOUNT: &str = env!("CARGO_BIN_EXE_mcount");

/// What each trace has of `work`, which `main` calls: how often, and nanoseconds.
#[derive(Clone, Copy)]
struct Build {
    calls: u64,
    time: u64,
    /// How many calls of `extra` there are.
    extra: u64,
    /// The machine does other work: it makes most calls slower, in each trace by another part.
    is_busy: bool,
    /// How many traces of a side are slower as a whole, each by another part.
    disturbed: u64,
    /// In how many traces of a side `work` alone takes longer, by an eighth.
    elsewhere: u64,
    /// How many hundredths all other functions take of what they usually take.
    others: u64,
}

const USUAL: Build = Build {
    calls: 200,
    time: 10_000,
    extra: 0,
    is_busy: false,
    disturbed: 0,
    elsewhere: 0,
    others: 100,
};

/// Random, and the same each time, for seeds next to each other as well (`SplitMix64`).
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*seed ^ *seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ mixed >> 31) >> 33
}

/// A trace of a program with 40 functions, of which `work` is the one of interest. Times of calls vary by
/// a tenth, those of a trace by a hundredth, and a call in 40 is interrupted.
fn trace(build: Build, seed: u64, path: &str) -> Vec<u8> {
    let at = seed % 1_000 / 2;
    let is_disturbed = at < build.disturbed;
    let is_elsewhere = at < build.elsewhere;
    let mut seed = seed * 7919 + 1;
    // In hundredths.
    let whole = if is_disturbed { 108 + random(&mut seed) % 60 } else { 100 };
    let mut writer = Writer::new();
    writer.process(100, 1, 0, path);
    let thread = writer.thread(100, 100);
    let main = writer.function_at(path, "main", 0x1000, 64);
    let mut now = 1_000;
    // How many calls of 100 other work makes slower, and by how many hundredths.
    let (share, slower) = if build.is_busy {
        (85 + random(&mut seed) % 6, 5 + random(&mut seed) % 40)
    } else {
        (0, 0)
    };
    let time = if is_elsewhere { build.time * 9 / 8 } else { build.time };
    let mut functions = vec![("work.constprop.0".to_owned(), build.calls, time)];
    functions.extend(
        (0..38).map(|at| (format!("other{at}"), 100, (2_000 + at * 300) * build.others / 100)),
    );
    functions.push(("extra".to_owned(), build.extra, 1_000));
    for (name, calls, time) in functions {
        let library = if name.starts_with("other") { "/lib/libother.so.1" } else { path };
        let number = writer.function_at(library, &name, 0x2000, 64);
        // In hundredths of a per cent.
        let of_trace = 9_900 + random(&mut seed) % 200;
        // Other work doesn't make all functions slower by the same part.
        let uneven = if is_disturbed { 97 + random(&mut seed) % 7 } else { 100 };
        let of_trace = of_trace * whole * uneven / 10_000;
        for _ in 0..calls {
            let own = time * of_trace / 10_000 * (950 + random(&mut seed) % 100) / 1_000;
            let is_slower = random(&mut seed) % 100 < share;
            let own = if is_slower { own * (100 + slower) / 100 } else { own };
            let interrupted = if random(&mut seed).is_multiple_of(40) { 4_000_000 } else { 0 };
            let end = now + own + interrupted;
            writer.call(thread, number).from(now).to(end).slot(0x7ffe_0000).end(End::Return);
            now = end;
        }
    }
    writer.call(thread, main).from(500).to(now).slot(0x7ffe_1000).end(End::Return);
    writer.finish()
}

/// Runs `mcount diff ARGUMENT…` on so many traces a side.
fn diff(builds: [Build; 2], count: u64, seed: u64, arguments: &[&str]) -> Outcome {
    let room = Room::new().unwrap();
    let mut sides = Vec::new();
    for (side, build) in ["old", "new"].into_iter().zip(builds) {
        let mut names = Vec::new();
        for at in 0..count {
            let name = format!("{side}{at}.mcount");
            let seed = seed * 1_000 + at * 2 + u64::from(side == "new");
            room.put(&name, &trace(build, seed, &format!("/{side}/program"))).unwrap();
            names.push(name);
        }
        sides.push(names.join(","));
    }
    let arguments = [&["diff"], arguments, &[&sides[0], &sides[1]]].concat();
    room.run(Path::new(MCOUNT), &arguments).unwrap()
}

/// Function and changes of each line of jsonl; the exit code says whether there are any.
fn changes(builds: [Build; 2], seed: u64, arguments: &[&str]) -> Vec<(String, String)> {
    let outcome = diff(builds, 5, seed, &[&["--format", "jsonl"], arguments].concat());
    assert_eq!(outcome.stderr, "");
    let mut found = Vec::new();
    for line in outcome.stdout.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let words: Vec<_> = line["changes"].as_array().unwrap().iter().map(Value::as_str).collect();
        let words: Vec<_> = words.into_iter().flatten().collect();
        found.push((line["function"].as_str().unwrap().to_owned(), words.join(" ")));
    }
    assert_eq!(outcome.code, Some(i32::from(!found.is_empty())), "{found:?}");
    found
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, change)| ((*name).to_owned(), (*change).to_owned())).collect()
}

#[test]
fn equal_builds_do_not_differ() {
    let found = |seed: &u64| !changes([USUAL, USUAL], *seed, &["--threshold", "0"]).is_empty();
    let found: Vec<u64> = (0..200).filter(found).collect();
    // The odds are 1 in 100.
    assert!(found.len() <= 2, "{found:?}");
    assert!(found.iter().all(|seed| *seed >= 20), "{found:?}");
}

/// One trace of a side, or of both, has its memory elsewhere: one function takes longer, and no other does.
#[test]
fn a_twentieth_is_found_though_one_trace_is_unlike_the_others() {
    for seed in 0..12 {
        let usual = Build { elsewhere: u64::from(seed % 3 != 0), ..USUAL };
        let slower = Build { time: 10_500, elsewhere: u64::from(seed % 3 != 1), ..USUAL };
        let equal = Build { time: USUAL.time, ..slower };
        assert_eq!(changes([usual, slower], seed, &[]), pairs(&[("work", "slower")]), "{seed}");
        assert_eq!(changes([usual, equal], seed, &[]), [], "{seed}");
        assert_eq!(changes([equal, usual], seed, &[]), [], "{seed}");
    }
}

#[test]
fn a_twentieth_is_found() {
    let slower = Build { time: 10_500, ..USUAL };
    for seed in 0..20 {
        let expected = pairs(&[("work", "slower")]);
        assert_eq!(changes([USUAL, slower], seed, &[]), expected, "{seed}");
        assert_eq!(changes([USUAL, slower], seed, &["--worse"]), expected, "{seed}");
        assert_eq!(changes([slower, USUAL], seed, &[]), pairs(&[("work", "faster")]), "{seed}");
        assert_eq!(changes([slower, USUAL], seed, &["--worse"]), [], "{seed}");
    }
    assert_eq!(changes([USUAL, slower], 1, &["--threshold", "10%"]), []);
    assert_eq!(changes([USUAL, slower], 1, &["--by", "calls"]), []);
    assert_eq!(changes([USUAL, slower], 1, &["--sort", "total"]), pairs(&[("work", "slower")]));
}

/// Just one call in ten is as fast as the function can be. That's enough if it's called often and takes much of the time.
#[test]
fn a_twentieth_is_found_on_a_busy_machine() {
    let usual = Build { calls: 2_000, is_busy: true, ..USUAL };
    let slower = Build { time: 10_500, ..usual };
    for seed in 0..10 {
        assert_eq!(changes([usual, slower], seed, &[]), pairs(&[("work", "slower")]), "{seed}");
        assert_eq!(changes([usual, usual], seed, &["--threshold", "0"]), [], "{seed}");
    }
}

/// Up to three traces of five are slower as a whole.
#[test]
fn a_tenth_is_found_among_disturbed_traces() {
    for seed in 0..12 {
        let usual = Build { disturbed: seed % 4, ..USUAL };
        let slower = Build { time: 11_000, disturbed: (seed / 4 + 1) % 4, ..USUAL };
        let equal = Build { time: USUAL.time, ..slower };
        let found = changes([usual, slower], seed, &[]);
        assert_eq!(found, pairs(&[("work", "slower")]), "{seed}");
        assert_eq!(changes([usual, equal], seed, &["--threshold", "0"]), [], "{seed}");
        assert_eq!(changes([equal, usual], seed, &["--threshold", "0"]), [], "{seed}");
    }
}

/// If a whole side is disturbed, or too much of it is, nothing is found that isn't there.
#[test]
fn sides_that_are_disturbed_are_not_told_apart_by_it() {
    for seed in 0..12 {
        let disturbed = Build { disturbed: 4, ..USUAL };
        assert_eq!(changes([USUAL, disturbed], seed, &["--threshold", "0"]), [], "{seed}");
        let both = [Build { disturbed: 5, ..USUAL }; 2];
        assert_eq!(changes(both, seed, &["--threshold", "0"]), [], "{seed}");
    }
}

/// A function that takes as long as before isn't faster in a program that's slower as a whole, disturbed or not.
#[test]
fn a_function_is_not_faster_for_others_being_slower() {
    for seed in 0..8 {
        let usual = Build { disturbed: seed % 3, ..USUAL };
        let slower = Build { others: 130, disturbed: seed / 3, ..USUAL };
        let found = changes([usual, slower], seed, &[]);
        assert!(!found.iter().any(|(name, _)| name == "work"), "{seed}: {found:?}");
        if seed == 0 {
            assert_eq!(found.len(), 38, "{found:?}");
        }
    }
}

#[test]
fn calls_and_functions_that_come_and_go() {
    let table = [
        (Build { calls: 300, ..USUAL }, "work", "more-calls"),
        (Build { calls: 100, ..USUAL }, "work", "fewer-calls"),
        (Build { calls: 0, ..USUAL }, "work", "gone"),
        (Build { extra: 7, ..USUAL }, "extra", "new"),
        (Build { calls: 300, time: 20_000, ..USUAL }, "work", "slower more-calls"),
    ];
    for (build, name, words) in table {
        assert_eq!(changes([USUAL, build], 1, &[]), pairs(&[(name, words)]), "{words}");
    }
    let exact = changes([USUAL, Build { calls: 300, ..USUAL }], 1, &["--exact"]);
    assert_eq!(exact, pairs(&[("work.constprop.0", "more-calls")]));
    let all = changes([USUAL, Build { extra: 7, ..USUAL }], 1, &["--all", "--by", "calls"]);
    assert_eq!((all.len(), &all[0].1[..]), (41, "new"));
}

#[test]
fn text_and_tables() {
    let slower = Build { time: 12_000, calls: 220, ..USUAL };
    let text = diff([USUAL, slower], 5, 1, &[]).stdout;
    let lines: Vec<&str> = text.lines().collect();
    let words: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!(words[..3], ["slower,", "more", "calls"], "{text}");
    assert!(lines[1].ends_with("%  200 -> 220 (+10.0 %)  work"), "{text}");
    assert!(
        lines[2].starts_with("1 of 40 functions differ by more than 3.0 %: 5 traces"),
        "{text}"
    );
    let csv = diff([USUAL, slower], 5, 1, &["--format", "csv"]).stdout;
    assert!(csv.starts_with("function,module,changes,old_ns,"), "{csv}");
    assert!(csv.lines().nth(1).unwrap().starts_with("work,,slower more-calls,"), "{csv}");
    let table = diff([USUAL, slower], 5, 1, &["--format", "markdown"]).stdout;
    assert!(
        table.lines().nth(2).unwrap().ends_with("| 200 -> 220 (+10.0 %) | `work` |"),
        "{table}"
    );
    let none = diff([USUAL, USUAL], 5, 1, &[]).stdout;
    assert!(none.starts_with("No difference above 3.0 % in 40 functions: 5 traces"), "{none}");
}

#[test]
fn one_trace_a_side() {
    let outcome = diff([USUAL, Build { time: 20_000, ..USUAL }], 1, 1, &["--format", "jsonl"]);
    let said = "mcount: warning: can't estimate noise from one trace per side";
    assert!(outcome.stderr.starts_with(said), "{}", outcome.stderr);
    assert_eq!((outcome.code, outcome.stdout.lines().count()), (Some(1), 1), "{outcome:?}");
    let equal = diff([USUAL, USUAL], 1, 1, &[]);
    assert_eq!(equal.code, Some(0), "{equal:?}");
}

/// A program of few functions, of which most have changed: `(name, calls, nanoseconds of each)`.
fn few(functions: &[(&str, u64, u64)]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.process(100, 1, 0, "/bin/program");
    let thread = writer.thread(100, 100);
    let mut now = 1_000;
    for (name, calls, time) in functions {
        let number = writer.function_at("/bin/program", name, 0x1000, 64);
        for call in 0..*calls {
            // One in ten waits.
            let end = now + time + if call % 10 == 9 { 90 * time } else { call % 7 };
            writer.call(thread, number).from(now).to(end).slot(0x7ffe_0000).end(End::Return);
            now = end;
        }
    }
    writer.finish()
}

/// Changes of the lines of `mcount diff OLD NEW`, with the times that are shown.
fn diff_few(old: &[&[u8]], new: &[&[u8]]) -> (Outcome, Vec<Value>) {
    let room = Room::new().unwrap();
    let names = [("old", old), ("new", new)].map(|(side, traces)| {
        let put = |(at, bytes): (usize, &&[u8])| {
            let name = format!("{side}{at}.mcount");
            room.put(&name, bytes).unwrap();
            name
        };
        traces.iter().enumerate().map(put).collect::<Vec<_>>().join(",")
    });
    let all = ["diff", "--all", "--format", "jsonl", &names[0], &names[1]];
    let outcome = room.run(Path::new(MCOUNT), &all).unwrap();
    let lines = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (outcome, lines)
}

/// One trace a side, and nearly all functions are other than they were: that's no noise. The times are those that `mcount stats`
/// shows.
#[test]
fn few_functions_that_change() {
    let old = few(&[("steady", 100, 50_000), ("quick", 100, 1_340_000), ("slow", 100, 5_000)]);
    let new = few(&[("steady", 100, 50_000), ("quick", 100, 24_000), ("slow", 100, 90_000)]);
    let (outcome, lines) = diff_few(&[&old], &[&new]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let of = |name: &str| lines.iter().find(|line| line["function"] == name).unwrap();
    for (name, changes) in [("quick", "faster"), ("slow", "slower")] {
        assert_eq!(of(name)["changes"][0], changes, "{name}: {outcome:?}");
    }
    assert!(of("steady")["changes"].as_array().unwrap().is_empty(), "{outcome:?}");
    for line in &lines {
        assert!(line["time_noise"].as_f64().unwrap() < 10.0, "{line}");
    }
    // Nine of ten calls take 24 us, and one 91 times as much.
    let shown = of("quick")["new_ns"].as_f64().unwrap();
    assert!((239_000.0..242_000.0).contains(&shown), "{shown}");
}

/// Two traces a side, or one against two. By their spread alone, even five times as long could be noise.
#[test]
fn few_traces_a_side() {
    let trace =
        |steady, slow| few(&[("steady", 100, steady), ("also", 90, steady), ("slow", 100, slow)]);
    let [a, b] = [trace(50_000, 20_000), trace(51_500, 23_000)];
    let [c, d] = [trace(52_000, 115_000), trace(49_900, 100_000)];
    for (old, new) in [(vec![&a[..], &b], vec![&c[..], &d]), (vec![&a], vec![&c, &d])] {
        let (outcome, lines) = diff_few(&old, &new);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        for line in &lines {
            let changes = if line["function"] == "slow" { vec!["slower"] } else { vec![] };
            assert_eq!(line["changes"], serde_json::json!(changes), "{line}");
            assert!(line["time_noise"].as_f64().unwrap() < 10.0, "{line}");
        }
    }
    let (outcome, _) = diff_few(&[&a, &c], &[&b, &d]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

/// The bound for a function with one call a trace has dozens of digits. People are told that it's wide.
#[test]
fn noise_without_bounds() {
    let room = Room::new().unwrap();
    for (name, once) in [("a", 20_000), ("b", 90_000), ("c", 20_000), ("d", 70_000)] {
        let trace = few(&[("steady", 100, 50_000), ("also", 90, 50_000), ("once", 1, once)]);
        room.put(name, &trace).unwrap();
    }
    let outcome = room.run(Path::new(MCOUNT), &["diff", "--all", "a,b", "c,d"]).unwrap();
    let line = outcome.stdout.lines().find(|line| line.ends_with(" once")).unwrap();
    assert!(line.contains("  >1000.0 %  "), "{}", outcome.stdout);
}

/// One call that took longer says nothing.
#[test]
fn one_call_of_one_trace() {
    let rest = [("a", 100, 50_000), ("b", 100, 5_000), ("c", 100, 7_000)];
    let with = |time| few(&[&rest[..], &[("once", 1, time)]].concat());
    let old = [with(20_000), with(20_100), with(20_200), with(19_900)];
    let (outcome, _) = diff_few(&old.each_ref().map(Vec::as_slice), &[&with(300_000)]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

#[test]
fn what_cannot_be_compared() {
    let room = Room::new().unwrap();
    room.put("t.mcount", &trace(USUAL, 1, "/bin/program")).unwrap();
    room.put("a,b.mcount", &trace(USUAL, 1, "/bin/program")).unwrap();
    room.put("elf", b"\x7fELF").unwrap();
    let table = [
        (["t.mcount", "elf"], 2, "mcount: elf: not a trace; mcount trace -- PROGRAM writes one\n"),
        (["elf", "t.mcount"], 2, "mcount: elf: not a trace; mcount trace -- PROGRAM writes one\n"),
        (["t.mcount", "t.mcount,none"], 2, "mcount: none: No such file or directory\n"),
        (["t.mcount", "t.mcount,"], 2, "mcount: t.mcount,: No such file or directory\n"),
        (["a,b.mcount", "t.mcount"], 0, ""),
    ];
    for (files, code, stderr) in table {
        let arguments = [&["diff", "--format", "csv"], &files[..]].concat();
        let outcome = room.run(Path::new(MCOUNT), &arguments).unwrap();
        assert_eq!(outcome.code, Some(code), "{files:?}: {outcome:?}");
        assert!(outcome.stderr.contains(stderr), "{files:?}: {}", outcome.stderr);
    }
    for wrong in ["x", "-1%", "", "1e9", "inf"] {
        let wrong = format!("--threshold={wrong}");
        let outcome =
            room.run(Path::new(MCOUNT), &["diff", &wrong, "t.mcount", "t.mcount"]).unwrap();
        assert_eq!(outcome.code, Some(2), "{wrong}: {outcome:?}");
    }
}

/// Bytes are changed, and the file is cut off: one line, or what is left is compared.
#[test]
fn damaged_traces() {
    let room = Room::new().unwrap();
    let whole = trace(USUAL, 1, "/bin/\u{1b}[2J");
    let mut seed = 5;
    for _ in 0..60 {
        let mut bytes = whole.clone();
        for _ in 0..20 {
            let at = usize::try_from(random(&mut seed)).unwrap() % bytes.len();
            bytes[at] = random(&mut seed).to_le_bytes()[0];
        }
        bytes.truncate(bytes.len() - usize::try_from(random(&mut seed)).unwrap() % bytes.len() / 2);
        room.put("t.mcount", &bytes).unwrap();
        room.put("whole.mcount", &whole).unwrap();
        for format in ["text", "csv", "jsonl", "markdown"] {
            let arguments = ["diff", "--format", format, "whole.mcount", "t.mcount"];
            let outcome = room.run(Path::new(MCOUNT), &arguments).unwrap();
            assert!(outcome.code.is_some_and(|code| code < 3), "{outcome:?}");
            assert!(!outcome.stdout.contains('\u{1b}') && !outcome.stderr.contains("panicked"));
        }
    }
}

/// `work` does N rounds; the other functions are for company. A round is a multiplication that waits for the last one, in
/// registers: what loops that go through memory take depends on what the processor remembers of other loops.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const PROGRAM: &str = "
#define F __attribute__((noinline)) void
#define ROUNDS(n) \
    { unsigned x = 1; for (int i = 0; i < (n); i++) { x = x * 1103515245 + 12345; __asm__ volatile (\"\" : \"+r\"(x)); } }
F turn(int n) { ROUNDS(n) }
F work(void) { ROUNDS(4 * N) }
F other(void) { ROUNDS(800) }
F rest(void) { ROUNDS(200) }
int main(void) { for (int i = 0; i < 1500; i++) { work(); other(); rest(); turn(i % 7 * 100); } }
";

/// 105 rounds against 100. The machine may do other work: then the noise is greater, and that's said.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn a_program_with_one_slower_function() {
    need(["gcc"]);
    let room = Room::new().unwrap();
    room.put("p.c", PROGRAM.as_bytes()).unwrap();
    for (name, rounds) in [("old", "-DN=100"), ("new", "-DN=105")] {
        let flags = ["-O2", "-fpatchable-function-entry=5", rounds, "-o", name, "p.c"];
        assert_eq!(room.run(Path::new("gcc"), &flags).unwrap().code, Some(0));
    }
    let mut sides = [Vec::new(), Vec::new(), Vec::new()];
    for at in 0..5 {
        for (side, program) in ["old", "new", "old"].into_iter().enumerate() {
            let name = format!("{side}-{at}.mcount");
            let program = format!("./{program}");
            let traced =
                room.run(Path::new(MCOUNT), &["trace", "--plain", "-o", &name, "--", &program]);
            assert_eq!(traced.unwrap().code, Some(0));
            sides[side].push(name);
        }
    }
    let [old, new, again] = sides.map(|side| side.join(","));
    let arguments = ["diff", "--format", "jsonl", "--all", &old, &new];
    let lines = room.run(Path::new(MCOUNT), &arguments).unwrap().stdout;
    for line in lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let difference = line["time_difference"].as_f64().unwrap();
        let (noise, is_work) = (line["time_noise"].as_f64().unwrap(), line["function"] == "work");
        let changes = line["changes"].to_string();
        if is_work && noise < 0.03 {
            assert_eq!(changes, "[\"slower\"]", "{lines}");
            assert!((0.03..0.07).contains(&difference), "{lines}");
        } else if !is_work {
            assert_eq!(changes, "[]", "{lines}");
        }
    }
    let equal = room.run(Path::new(MCOUNT), &["diff", &old, &again]).unwrap();
    assert_eq!(equal.code, Some(0), "{}", equal.stdout);
}
