//! `mcount stats`: what it says in words, running and waiting, names and columns. What it adds up is in `replay`, and against other
//! programs in `exports`.
#![expect(clippy::unwrap_used, reason = "a test")]

use mcount_trace::{End, ThreadId, Writer, layout};
use serde_json::Value;
use std::path::Path;
use testkit::room::{Outcome, Room};
use testkit::test;
use testkit::tools::need;

const MCOUNT: &str = env!("CARGO_BIN_EXE_mcount");
const LIBC: &str = "/lib/x86_64-linux-gnu/libc.so.6";

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

fn stats(trace: &[u8], arguments: &[&str]) -> Outcome {
    let room = Room::new().unwrap();
    room.put("t.mcount", trace).unwrap();
    room.run(Path::new(MCOUNT), &[&["stats"], arguments, &["t.mcount"]].concat()).unwrap()
}

fn printed(trace: &[u8], arguments: &[&str]) -> String {
    let outcome = stats(trace, arguments);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    outcome.stdout
}

/// The three lines in words.
fn words(trace: &[u8]) -> Vec<String> {
    let text = printed(trace, &[]);
    let (words, table) = text.split_once("\n\n").unwrap();
    assert!(table.trim_start().starts_with("CALLS "), "{text}");
    let lines: Vec<String> = words.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 3, "{text}");
    lines
}

/// The row of each function: running, waiting and self, in nanoseconds.
fn rows(trace: &[u8], arguments: &[&str]) -> Vec<(String, Option<u64>, Option<u64>, u64)> {
    let outcome = stats(trace, &[&["--format", "jsonl"], arguments].concat());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        let number = |name: &str| row.get(name).and_then(Value::as_u64);
        let name = row.get("function").and_then(Value::as_str).unwrap_or_default().to_owned();
        (name, number("running_ns"), number("waiting_ns"), number("self_ns").unwrap())
    };
    outcome.stdout.lines().map(row).collect()
}

fn slot(depth: u64) -> u64 {
    0x7ffd_0000_0000 - depth * 64
}

/// A call at this depth.
fn call(writer: &mut Writer, thread: ThreadId, function: u32, depth: u64, times: (u64, u64)) {
    writer.call(thread, function).from(times.0).to(times.1).slot(slot(depth)).end(End::Return);
}

/// The functions of a shop.
struct Shop {
    writer: Writer,
    serve: u32,
    reserve: u32,
    threads: [ThreadId; 2],
}

fn shop() -> Shop {
    let mut writer = Writer::new();
    writer.process(7, 1, 0, "/bin/shop");
    let serve = writer.function("/bin/shop", "_ZN4shop5serveEi");
    let reserve = writer.function("/bin/shop", "_ZN4shop9Inventory7reserveEi");
    let threads = [writer.thread(7, 7), writer.thread(7, 8)];
    Shop { writer, serve, reserve, threads }
}

/// Two threads of 10 ms each; 14 of the 20 ms are within a lock, of which a call of the program's takes 1 ms.
fn locked() -> Writer {
    let Shop { mut writer, serve, reserve, threads } = shop();
    let lock = writer.function(LIBC, "pthread_mutex_lock");
    let hook = writer.function("/bin/shop", "on_lock");
    for thread in threads {
        call(&mut writer, thread, hook, 3, (2_000_000, 2_500_000));
        call(&mut writer, thread, lock, 2, (1_000_000, 8_000_000));
        call(&mut writer, thread, reserve, 1, (1_000_000, 9_000_000));
        call(&mut writer, thread, serve, 0, (0, 10_000_000));
    }
    writer
}

#[test]
fn a_lock_is_named() {
    let trace = locked().finish();
    let expected = [
        "2 threads spent 20.000 ms in traced functions, 35 % running and 65 % waiting. Most running time: \
         shop::serve (20 %), shop::Inventory::reserve (10 %), on_lock (5 %).",
        "65 % of all threads' time was spent waiting in pthread_mutex_lock, called by shop::Inventory::reserve.",
        "The trace lacks time off the CPU (--context-switches).",
    ];
    assert_eq!(words(&trace), expected);
    let ms = |running: u64, waiting: u64, own: u64| {
        (Some(running * 500_000), Some(waiting * 500_000), own * 500_000)
    };
    let expected = [
        ("shop::serve(int)", ms(8, 0, 8)),
        ("shop::Inventory::reserve(int)", ms(4, 0, 4)),
        ("pthread_mutex_lock", ms(0, 26, 26)),
        ("on_lock", ms(2, 0, 2)),
    ];
    let found = rows(&trace, &[]);
    let found: Vec<_> = found.iter().map(|(name, a, b, c)| (name.as_str(), (*a, *b, *c))).collect();
    assert_eq!(found, expected);
}

/// Another thread is in a function while this one waits for a lock, and has left it when the lock is had: it's named. So is no function
/// that threads are always in.
#[test]
fn who_has_the_lock_is_named() {
    let Shop { mut writer, serve, reserve, threads: [first, second] } = shop();
    let lock = writer.function(LIBC, "pthread_mutex_lock");
    let sleep = writer.function(LIBC, "usleep");
    let write = writer.function("/bin/shop", "_ZN4shop5writeEv");
    let third = writer.thread(7, 9);
    let accept = writer.function(LIBC, "accept");
    for at in (0..10).map(|at| at * 1_000_000) {
        call(&mut writer, first, sleep, 3, (at + 1_000, at + 700_000));
        call(&mut writer, first, write, 2, (at + 1_000, at + 700_500));
        call(&mut writer, first, reserve, 1, (at, at + 700_800));
        call(&mut writer, second, lock, 2, (at + 2_000, at + 701_000));
        // The lock is free.
        call(&mut writer, second, lock, 1, (at + 710_000, at + 711_000));
        call(&mut writer, second, lock, 1, (at + 720_000, at + 721_000));
        call(&mut writer, second, reserve, 1, (at + 2_000, at + 702_000));
    }
    call(&mut writer, first, serve, 0, (0, 10_000_000));
    call(&mut writer, second, serve, 0, (0, 10_000_000));
    call(&mut writer, third, accept, 1, (0, 10_000_000));
    call(&mut writer, third, serve, 0, (0, 10_000_000));
    let said = words(&writer.finish());
    let expected = " During 100 % of the longest waits in pthread_mutex_lock, another thread was in shop::write, called by \
                    shop::Inventory::reserve.";
    assert!(said[1].ends_with(expected), "{}", said[1]);
    // Who waits for the lock, too, doesn't have it.
    assert!(!words(&locked().finish())[1].contains("another thread"));
}

/// The recorder was killed: nothing says until when a thread that waits was off the processor.
#[test]
fn a_wait_without_an_end_is_no_work() {
    let Shop { mut writer, serve, threads: [first, _], .. } = shop();
    let join = writer.function(LIBC, "pthread_join");
    let away = writer.function("[kernel]", "linux:schedule");
    call(&mut writer, first, serve, 1, (1_000, 2_000));
    writer.off_cpu(first, away, 1_200, 1_800);
    writer.off_cpu(first, away, 3_500, 5_000);
    writer.open(first, serve, 500, slot(0));
    writer.open(first, join, 3_000, slot(1));
    call(&mut writer, first, serve, 3, (9_000, 10_000));
    let found = rows(&writer.finish(), &[]);
    let row = found.into_iter().find(|row| row.0 == "pthread_join").unwrap();
    assert_eq!((row.1, row.2), (Some(0), Some(6_000)));
}

/// What the recorder says it couldn't keep, and locks that were taken too often, aren't forgotten by what is said of waits.
#[test]
fn waits_that_are_not_recorded() {
    let given_up = "called so often without waiting that waits aren't recorded from 0.061 s on: pthread_mutex_lock";
    let Shop { mut writer, serve, reserve, threads: [first, _] } = shop();
    let lock = writer.function(LIBC, "pthread_mutex_lock");
    let away = writer.function("[kernel]", "linux:schedule");
    call(&mut writer, first, lock, 2, (1_000, 2_000));
    call(&mut writer, first, reserve, 1, (1_000, 9_000));
    call(&mut writer, first, serve, 0, (0, 10_000));
    writer.off_cpu(first, away, 3_000, 8_500);
    writer.note(given_up);
    let said = words(&writer.finish());
    let expected = "55 % of the thread's time was spent waiting in shop::Inventory::reserve, called by shop::serve (perhaps in \
                    pthread_mutex_lock; to see: --library-calls pthread_mutex_lock).";
    assert_eq!(said[1], expected);
    assert_eq!(said[2], format!("The trace isn't complete: {given_up}."));
    // All of it is given up: only library calls tell waiting from work.
    let mut trace = locked();
    trace.function("[kernel]", "linux:schedule");
    trace.note("threads leave the CPU so often that the trace lacks time off the CPU: use --context-switches");
    let said = words(&trace.finish());
    assert!(
        said[1].starts_with("65 % of all threads' time was spent waiting in pthread_mutex_lock"),
        "{said:?}"
    );
}

/// Time off the processor is waiting of the function that it's in, whoever's that is; and nobody's twice.
#[test]
fn off_the_processor() {
    let Shop { mut writer, serve, reserve, threads: [first, second] } = shop();
    let lock = writer.function(LIBC, "pthread_mutex_lock");
    let away = writer.function("[kernel]", "linux:schedule");
    let preempted = writer.function("[kernel]", "linux:schedule (preempted)");
    call(&mut writer, first, lock, 2, (1_000, 9_000));
    call(&mut writer, first, reserve, 1, (1_000, 9_000));
    call(&mut writer, first, serve, 0, (0, 10_000));
    call(&mut writer, second, reserve, 0, (0, 10_000));
    writer.off_cpu(first, away, 1_500, 8_500);
    writer.off_cpu(second, preempted, 2_000, 5_000);
    writer.off_cpu(second, away, 11_000, 12_000);
    call(&mut writer, second, reserve, 0, (13_000, 14_000));
    let trace = writer.finish();
    let lines = words(&trace);
    assert_eq!(
        lines[1],
        "32 % of all threads' time was spent waiting in pthread_mutex_lock, called by shop::Inventory::reserve; \
         14 % for a free processor, in shop::Inventory::reserve; 5 % outside of traced functions."
    );
    assert_eq!(lines[2], "Nothing is missing from the trace, as far as it tells.");
    let row = |name: &str| {
        let found = rows(&trace, &[]);
        let row = found.into_iter().find(|row| row.0 == name).unwrap();
        (row.1.unwrap(), row.2.unwrap())
    };
    assert_eq!(row("pthread_mutex_lock"), (1_000, 7_000));
    assert_eq!(row("shop::Inventory::reserve(int)"), (8_000, 3_000));
    assert_eq!(row("linux:schedule"), (0, 1_000));
    assert_eq!(row("linux:schedule (preempted)"), (0, 0));
    let text = printed(&trace, &["--sort", "waiting"]);
    let first = text.lines().nth(5).unwrap();
    assert!(first.ends_with(" pthread_mutex_lock"), "{text}");
}

/// Whatever has a row, each moment is running or waiting of one.
#[test]
fn running_and_waiting_are_all_of_it() {
    let Shop { mut writer, serve, reserve, threads: [thread, _] } = shop();
    let away = writer.function("[kernel]", "linux:schedule");
    for at in 0..1_000 {
        let start = at * 1_000;
        writer.off_cpu(thread, away, start + 300, start + 400 + at % 7);
        call(&mut writer, thread, reserve, 1, (start + 100, start + 900));
        call(&mut writer, thread, serve, 0, (start, start + 990));
    }
    for trace in [writer.finish(), locked().finish()] {
        for by in ["function", "caller", "thread", "module"] {
            let rows = rows(&trace, &["--by", by]);
            let split: u64 = rows.iter().map(|row| row.1.unwrap() + row.2.unwrap()).sum();
            let own: u64 = rows.iter().map(|row| row.3).sum();
            assert_eq!(split, own, "{by}: {rows:?}");
        }
    }
}

#[test]
fn a_trace_that_does_not_know() {
    let Shop { mut writer, serve, threads: [thread, _], .. } = shop();
    call(&mut writer, thread, serve, 0, (0, 10_000));
    // A function of the program's own, whatever it's called.
    let poll = writer.function("/bin/shop", "poll");
    call(&mut writer, thread, poll, 0, (10_000, 30_000));
    writer.note("the disk was full").header(layout::header::DROPPED, 1);
    let trace = writer.finish();
    let expected = [
        "1 thread spent 30.000 us in traced functions. Most time: poll (67 %), shop::serve (33 %).",
        "What the threads waited for isn't known: the trace has neither time off the CPU nor library calls that wait.",
        "The trace lacks time off the CPU (--context-switches) and library calls that wait (--library-calls); \
         the disk was full; 1 call could not be recorded.",
    ];
    assert_eq!(words(&trace), expected);
    assert_eq!((rows(&trace, &[])[0].1, rows(&trace, &[])[0].2), (None, None));
    // What isn't in words is warned of.
    let narrow = stats(&trace, &["--function", "poll"]);
    assert!(narrow.stdout.trim_start().starts_with("CALLS "), "{}", narrow.stdout);
    assert_eq!(narrow.stderr.lines().count(), 2, "{}", narrow.stderr);
}

#[test]
fn a_trace_without_durations() {
    let Shop { mut writer, serve, threads: [thread, _], .. } = shop();
    call(&mut writer, thread, serve, 0, (0, 10_000));
    let flags = layout::flags::FINISHED | layout::flags::ENTRIES;
    writer.header(layout::header::FLAGS, flags);
    let expected = [
        "1 thread made 1 call. Most calls: shop::serve (100 %).",
        "What the threads waited for isn't known: the trace has no durations.",
        "The trace lacks durations and callers: only entries were recorded.",
    ];
    assert_eq!(words(&writer.finish()), expected);
    assert_eq!(words(&Writer::new().finish())[0], "No call in the trace took any time.");
}

/// The last words of the rows.
fn names(text: &str) -> Vec<&str> {
    let (_, table) = text.split_once("\n\n").unwrap();
    let column = table.find("FUNCTION").unwrap();
    table.lines().skip(1).map(|line| line.get(column..).unwrap()).collect()
}

#[test]
fn names_are_short_and_differ() {
    let mut writer = Writer::new();
    let thread = writer.thread(7, 7);
    let symbols = [
        "_ZN4shop12_GLOBAL__N_15parseEPKc",
        "_ZN4shop4findEi",
        "_ZN4shop4findEc",
        "_ZN4shop3addIiEEvT_",
        "_ZN49_$LT$shop..Cart$u20$as$u20$core..fmt..Display$GT$3fmt17h0123456789abcdefE",
    ];
    for (at, symbol) in (0..).zip(symbols) {
        let function = writer.function("/bin/shop", symbol);
        call(&mut writer, thread, function, 0, (at * 100, at * 100 + 50 - at));
    }
    let trace = writer.finish();
    let short =
        ["shop::parse", "shop::find(int)", "shop::find(char)", "shop::add", "shop::Cart::fmt"];
    assert_eq!(names(&printed(&trace, &[])), short);
    let full = [
        "shop::(anonymous namespace)::parse(char const*)",
        "shop::find(int)",
        "shop::find(char)",
        "void shop::add<int>(int)",
        "<shop::Cart as core::fmt::Display>::fmt",
    ];
    assert_eq!(names(&printed(&trace, &["--full-names"])), full);
    let json: Vec<_> = rows(&trace, &[]).into_iter().map(|row| row.0).collect();
    assert_eq!(json, full);
}

/// What it prints on a terminal of this width.
fn on_terminal(trace: &[u8], width: usize, arguments: &str) -> String {
    need(["script", "stty"]);
    let room = Room::new().unwrap();
    room.put("t.mcount", trace).unwrap();
    let line = format!("stty cols {width}; '{MCOUNT}' stats {arguments} t.mcount");
    let words = ["--quiet", "--return", "--command", &line, "/dev/null"];
    let mut command = room.command(Path::new("script"), &words);
    let output = command.env("PAGER", "cat").env_remove("COLUMNS").output().unwrap();
    String::from_utf8(output.stdout).unwrap().replace('\r', "")
}

#[test]
fn only_columns_that_fit() {
    let mut writer = locked();
    let long = "a_name_that_is_much_too_long_for_any_line_of_a_terminal_and_has_a_telling_end";
    let function = writer.function("/bin/shop", long);
    let thread = writer.thread(7, 9);
    call(&mut writer, thread, function, 0, (0, 10));
    let trace = writer.finish();
    for (width, expected) in [
        (200, "CALLS TOTAL RUNNING WAITING MEAN MIN MEDIAN P99 MAX FUNCTION"),
        (110, "CALLS TOTAL RUNNING WAITING MEAN P99 MAX FUNCTION"),
        (80, "CALLS TOTAL RUNNING WAITING FUNCTION"),
        (44, "TOTAL RUNNING WAITING FUNCTION"),
    ] {
        let text = on_terminal(&trace, width, "");
        let (_, table) = text.split_once("\n\n").unwrap();
        let heading: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
        assert_eq!(heading.join(" "), expected, "{width}: {text}");
        let widest = table.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= width, "{width}: {text}");
        assert_eq!(table.contains(long), width == 200, "{width}: {text}");
        assert!(width == 44 || table.contains("_telling_end"), "{width}: {text}");
    }
    let sorted = on_terminal(&trace, 80, "--sort min");
    assert!(sorted.contains(" MIN "), "{sorted}");
    // No terminal, no limit.
    let all = printed(&trace, &[]);
    assert!(all.contains("MEDIAN") && all.contains(long), "{all}");
}

/// A lock that four threads share, and each holds for a while.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const SERVER: &str = "
#include <pthread.h>
#include <unistd.h>
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
void save_order(void) { pthread_mutex_lock(&lock); usleep(2000); pthread_mutex_unlock(&lock); }
void *worker(void *unused) { for (int i = 0; i < 20; i++) save_order(); return unused; }
int main(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, worker, 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
}
";

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn the_lock_of_a_server_is_named() {
    need(["gcc"]);
    let room = Room::new().unwrap();
    room.put("p.c", SERVER.as_bytes()).unwrap();
    let flags = ["-O1", "-pthread", "-fpatchable-function-entry=5", "-o", "p", "p.c"];
    assert_eq!(room.run(Path::new("gcc"), &flags).unwrap().code, Some(0));
    let traced = ["trace", "--library-calls", "*", "-o", "t.mcount", "--", "./p"];
    let traced = room.run(Path::new(MCOUNT), &traced).unwrap();
    assert_eq!(traced.code, Some(0), "{}", traced.stderr);
    let text = room.run(Path::new(MCOUNT), &["stats", "t.mcount"]).unwrap().stdout;
    let second = text.lines().nth(1).unwrap();
    let expected =
        "of all threads' time was spent waiting in pthread_mutex_lock, called by save_order; ";
    assert!(second.contains(expected), "{text}");
}

/// Two coroutines take turns: each moment of the thread counts once, although calls of both go on.
#[test]
fn coroutines_share_the_time() {
    let mut writer = Writer::new();
    writer.process(7, 1, 0, "/bin/turns");
    let thread = writer.thread(7, 7);
    let [main, step, leaf] = ["main", "step", "leaf"].map(|one| writer.function("/bin/turns", one));
    call(&mut writer, thread, leaf, 1000, (40, 45));
    call(&mut writer, thread, step, 1, (10, 60));
    call(&mut writer, thread, step, 999, (20, 90));
    call(&mut writer, thread, main, 0, (0, 100));
    let trace = writer.finish();
    let text = printed(&trace, &["--format", "csv", "--sort", "name"]);
    let times = |line: &str| line.split(',').skip(4).take(2).collect::<Vec<&str>>().join(" ");
    let times: Vec<String> = text.lines().map(times).collect();
    assert_eq!(times, ["total_ns self_ns", "5 5", "100 50", "80 45"], "{text}");
    let room = Room::new().unwrap();
    room.put("t.mcount", &trace).unwrap();
    let folded = ["replay", "--format", "folded", "t.mcount"];
    let folded = room.run(Path::new(MCOUNT), &folded).unwrap().stdout;
    assert_eq!(folded, "turns;main 50\nturns;main;step 45\nturns;main;step;leaf 5\n");
}

/// A record of what counters said when a call began or ended.
fn counters(
    writer: &mut Writer,
    thread: ThreadId,
    of: (u64, u32, u64),
    (counted, more): (&[u64], &[u8]),
) {
    use layout::special::{BYTES, KIND_SHIFT};
    let (kind, function, start) = of;
    let bytes = counted.iter().flat_map(|counted| counted.to_le_bytes());
    let bytes: Vec<u8> = bytes.chain(more.iter().copied()).collect();
    let records = bytes.chunks(layout::value::IN_RECORD);
    let value = u64::from(function) | (records.len() as u64) << 24;
    writer.record(thread, value << 32 | kind << KIND_SHIFT, start);
    for record in records {
        let mut piece = vec![0; 4];
        piece.extend_from_slice(record);
        piece.resize(16, 0);
        let (low, high) = piece.split_at(8);
        let [low, high] = [low, high].map(|half| half.try_into().unwrap());
        writer.record(
            thread,
            u64::from_le_bytes(low) | BYTES << KIND_SHIFT,
            u64::from_le_bytes(high),
        );
    }
}

/// `outer` calls `inner`, which calls itself. What one counter said of `outer` isn't known.
fn counted() -> Vec<u8> {
    const NAMES: &[u8] = b"\x07\x06cycles\x02\x08\x07\x0cinstructions\x02\x08";
    let mut writer = Writer::new();
    let thread = writer.thread(1, 1);
    let [outer, inner] = ["outer", "inner"].map(|name| writer.function("/bin/x", name));
    // The second one has an argument and a result, too; a call that's left has none.
    for (function, more) in [(outer, &b""[..]), (inner, b"\x01\x01n\x01\x08\x02\x00\x01\x04")] {
        writer.entry(mcount_trace::Signature { function, values: &[NAMES, more].concat() });
    }
    let (begin, end) = (layout::special::ARGUMENTS, layout::special::RESULT);
    counters(&mut writer, thread, (begin, outer, 10), (&[100, 50], &[]));
    counters(&mut writer, thread, (begin, inner, 20), (&[1_100, 60], &[7]));
    counters(&mut writer, thread, (begin, inner, 30), (&[2_100, 70], &[8]));
    counters(&mut writer, thread, (end, inner, 30), (&[4_100, 80], &[]));
    let inner_most = writer.call(thread, inner).from(30).to(40).slot(slot(2));
    inner_most.end(End::Unwound);
    counters(&mut writer, thread, (end, inner, 20), (&[5_100, 100], &[9, 0, 0, 0]));
    call(&mut writer, thread, inner, 1, (20, 50));
    counters(&mut writer, thread, (end, outer, 10), (&[5_600, u64::MAX], &[]));
    call(&mut writer, thread, outer, 0, (10, 60));
    writer.finish()
}

#[test]
fn counters_add_up() {
    let trace = counted();
    let lines = printed(&trace, &["--format", "jsonl"]);
    let numbers = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        let names = ["cycles", "self_cycles", "instructions", "self_instructions"];
        let numbers = names.map(|name| row.get(name).unwrap().as_u64());
        (row.get("function").and_then(Value::as_str).unwrap().to_owned(), numbers)
    };
    let found: Vec<_> = lines.lines().map(numbers).collect();
    assert_eq!(
        found,
        [
            ("outer".to_owned(), [Some(5_500), Some(1_500), None, None]),
            ("inner".to_owned(), [Some(4_000), Some(4_000), Some(40), Some(40)]),
        ]
    );
    let csv = printed(&trace, &["--format", "csv"]);
    assert!(
        csv.lines().next().unwrap().ends_with(",cycles,self_cycles,instructions,self_instructions")
    );
    let text = printed(&trace, &[]);
    let mut rows = text.lines().rev();
    let words =
        |row: &str| row.split_whitespace().rev().map(str::to_owned).take(5).collect::<Vec<_>>();
    assert_eq!(words(rows.next().unwrap()), ["inner", "40", "40", "4,000", "4,000"]);
    assert_eq!(words(rows.next().unwrap()), ["outer", "-", "-", "1,500", "5,500"]);
}

#[test]
fn counters_are_printed_with_calls() {
    let room = Room::new().unwrap();
    room.put("t.mcount", &counted()).unwrap();
    let outcome = room.run(Path::new(MCOUNT), &["replay", "t.mcount"]).unwrap();
    let expected = [
        "outer() {",
        "inner(7) {",
        "inner(8); /* unwound */ /* 2,000 cycles, 10 instructions */",
        "} = 9; /* inner */ /* 4,000 cycles, 40 instructions */",
        "} /* outer */ /* 5,500 cycles */",
    ];
    let lines = outcome.stdout.lines().skip(1).map(|line| line.split_once("] |").unwrap().1.trim());
    assert_eq!(lines.collect::<Vec<_>>(), expected, "{outcome:?}");
    let outcome =
        room.run(Path::new(MCOUNT), &["replay", "--format", "jsonl", "t.mcount"]).unwrap();
    let found: Vec<_> =
        outcome.stdout.lines().map(|line| line.split_once("\"counters\":").unwrap().1).collect();
    let expected = [
        "{\"cycles\":5500,\"instructions\":null}}",
        "{\"cycles\":4000,\"instructions\":40}}",
        "{\"cycles\":2000,\"instructions\":10}}",
    ];
    assert_eq!(found, expected);
}

/// However a trace with counters is damaged, it's read or refused.
#[test]
fn damaged_counters_are_read_or_refused() {
    let whole = counted();
    let mut random = testkit::damage::Random::new();
    let room = Room::new().unwrap();
    // Names, descriptions and records, and not the zeroes between them.
    let places: Vec<usize> = (0..whole.len()).filter(|at| whole.get(*at) != Some(&0)).collect();
    for _ in 0..150 {
        let mut trace = whole.clone();
        for _ in 0..=random.below(3) {
            let at = places.get(random.below(places.len())).copied().unwrap_or(0);
            if let Some(byte) = trace.get_mut(at) {
                *byte = u8::try_from(random.below(256)).unwrap_or(0);
            }
        }
        room.put("t.mcount", &trace).unwrap();
        for command in [&["stats"][..], &["replay", "--format", "jsonl"]] {
            let arguments = [command, &["t.mcount"]].concat();
            let outcome = room.run(Path::new(MCOUNT), &arguments).unwrap();
            let is_said = matches!(outcome.code, Some(0 | 2));
            assert!(is_said && !outcome.stderr.contains("panicked"), "{outcome:?}");
        }
    }
}

/// No trace makes readers keep thousands of counters for each call.
#[test]
fn a_description_has_only_so_many_counters() {
    let mut writer = Writer::new();
    let thread = writer.thread(1, 1);
    let function = writer.function("/bin/x", "outer");
    let values = b"\x07\x01c\x02\x08".repeat(10_000);
    writer.entry(mcount_trace::Signature { function, values: &values });
    counters(&mut writer, thread, (layout::special::ARGUMENTS, function, 10), (&[1], &[]));
    call(&mut writer, thread, function, 0, (10, 60));
    let lines = printed(&writer.finish(), &["--format", "csv"]);
    assert!(lines.lines().next().unwrap().split(',').count() < 60, "{lines}");
}
