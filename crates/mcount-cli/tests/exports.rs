//! What `mcount replay` and `mcount stats` make of traces, opened by the programs that it is for: uftrace, a decoder of
//! protocol buffers, a flame graph program, Chromium; and counted again by a script.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use clap::ValueEnum;
use mcount_symbols::pattern::{Language, Pattern};
use mcount_trace::{End, Writer};
use mcount_view::replay::stats::{self, By};
use mcount_view::replay::{
    CallFormat, Clock, Field, Manner, Progress, Requests, Selection, Weight, print, write_otlp,
    write_parquet,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use testkit::room::Room;
use testkit::sample::one_in;
use testkit::test;
use testkit::tools::{find, need};
use testkit::trial::ignore;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

const MCOUNT: &str = env!("CARGO_BIN_EXE_mcount");
const TOP: u64 = 0x7ffd_1234_5000;

/// What a program prints that must succeed.
fn run(room: &Room, program: &str, arguments: &[&str]) -> String {
    let outcome = room.run(Path::new(program), arguments).unwrap();
    assert_eq!(outcome.code, Some(0), "{program} {arguments:?}: {}", outcome.stderr);
    outcome.stdout
}

fn mcount(room: &Room, arguments: &[&str]) -> String {
    run(room, MCOUNT, arguments)
}

/// A program of threads whose functions call each other and themselves.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#define NI __attribute__((noinline))
#include "mark.h"
static __thread jmp_buf out;
NI int leaf(int x) { __asm__ volatile(""); return x + 1; }
NI int fib(int n) { return n < 2 ? leaf(n) : fib(n - 1) + fib(n - 2); }
NI void leave(int n) { if (!n) longjmp(out, 1); leave(n - 1); __asm__ volatile(""); }
NI int jump(int n) { if (!setjmp(out)) leave(n); return n; }
NI void *work(void *p) {
    long n = 0;
    for (int i = 0; i < 200; i++) n += fib(i % 12) + jump(i % 7);
    mcount_mark("a thread is done");
    return (void *)n;
}
int main(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    work(0);
    exit(0);
}
"#;

/// A room with `t.mcount`, a trace of it.
fn traced() -> Room {
    need(["gcc"]);
    let room = Room::new().unwrap();
    room.put("threads.c", PROGRAM.as_bytes()).unwrap();
    room.put("mark.h", include_bytes!("../../../include/mcount/mark.h")).unwrap();
    let flags = ["-O2", "-g", "-fpatchable-function-entry=5", "-fno-optimize-sibling-calls"];
    let names = ["-o", "threads", "threads.c", "-lpthread"];
    run(&room, "gcc", &[&flags[..], &names[..]].concat());
    mcount(&room, &["trace", "--plain", "-o", "t.mcount", "--", "./threads"]);
    room
}

/// A trace with calls of fibres, which overlap, and functions of the same name in files of the same name.
fn odd() -> Room {
    let room = Room::new().unwrap();
    let mut writer = Writer::new();
    writer.process(7, 1, 0, "/bin/program").thread_name(7, 7, 0, "first");
    let one = writer.function_at("/lib/one/same.so", "a b(int)", 0x10, 8);
    let two = writer.function_at("/lib/two/same.so", "twin", 0x10, 8);
    let far = writer.function_at("/lib/two/same.so", "far", u64::MAX - 3, u64::MAX);
    let thread = writer.thread(7, 7);
    for at in 0..50 {
        let start = at * 100;
        writer.call(thread, one).from(start + 10).to(start + 50).slot(TOP).end(End::Return);
        let other = TOP - 0x100_0000;
        writer.call(thread, two).from(start + 40).to(start + 80).slot(other).end(End::Unwound);
        writer.call(thread, far).from(start + 85).to(start + 85).slot(TOP).end(End::TailCall);
    }
    writer.open(thread, one, 6_000, TOP);
    writer.header(mcount_trace::layout::header::END_TICKS, 9_000);
    room.put("t.mcount", &writer.finish()).unwrap();
    room
}

/// How often each function was called, by `stats`.
fn counts(room: &Room) -> BTreeMap<String, u64> {
    let lines = mcount(room, &["stats", "--format", "jsonl", "t.mcount"]);
    let values = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let pair = |value: serde_json::Value| {
        (value["function"].as_str().unwrap().to_owned(), value["calls"].as_u64().unwrap())
    };
    values.map(pair).collect()
}

#[test]
fn uftrace_counts_as_many_calls() {
    need(["uftrace"]);
    for room in [traced(), odd()] {
        mcount(&room, &["replay", "--format", "uftrace", "-o", "data", "t.mcount"]);
        let text = run(&room, "uftrace", &["report", "--no-pager", "-d", "data", "-f", "call"]);
        let row = |line: &str| {
            let (count, name) = line.trim().split_once("  ")?;
            Some((name.trim().to_owned(), count.parse().ok()?))
        };
        let found: BTreeMap<String, u64> = text.lines().filter_map(row).collect();
        assert_eq!(found, counts(&room), "{text}");
        let graph = run(&room, "uftrace", &["replay", "--no-pager", "-d", "data"]);
        let (begun, ended) = (graph.matches('{').count(), graph.matches("} /*").count());
        assert!(begun >= ended && begun > 0, "{begun} {ended}");
    }
}

#[test]
fn a_folder_for_uftrace_must_be_new() {
    let room = odd();
    let outcome = |arguments: &[&str]| {
        let arguments = [&["replay"], arguments, &["t.mcount"]].concat();
        room.run(Path::new(MCOUNT), &arguments).unwrap()
    };
    let table: [(&[&str], &str); 2] = [
        (&["--format", "uftrace"], "--format uftrace needs --output DIR"),
        (&["--format", "uftrace", "-o", "."], ".: File exists"),
    ];
    for (arguments, expected) in table {
        let found = outcome(arguments);
        assert_eq!((found.code, found.stderr), (Some(2), format!("mcount: {expected}\n")));
    }
}

/// A file that can't be written is named, and nothing is half there.
#[test]
fn a_folder_is_written_completely_or_not_at_all() {
    let room = odd();
    for (format, file) in [
        ("parquet", "tables/functions/build=unknown/t-"),
        ("uftrace", "tables/7.dat"),
        ("csv", "tables"),
    ] {
        let script = "ulimit -f 0; \"$0\" replay --format \"$1\" -o tables t.mcount";
        let outcome = room.run(Path::new("bash"), &["-c", script, MCOUNT, format]).unwrap();
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        let is_named = outcome.stderr.starts_with(&format!("mcount: {file}"));
        let is_said = outcome.stderr.ends_with(": File too large: raise ulimit -f\n");
        assert!(is_named && is_said, "{outcome:?}");
        assert_eq!(room.names().unwrap(), ["t.mcount"], "{format}");
    }
}

/// `--output` has what is printed otherwise, and replaces a file as a whole.
#[test]
fn a_file_has_what_is_printed() {
    let room = odd();
    room.put("x", b"older").unwrap();
    for format in
        ["text", "csv", "jsonl", "folded", "chrome", "perfetto", "pprof", "callgrind", "firefox"]
    {
        let program = Path::new(MCOUNT);
        let printed = room.run(program, &["replay", "--format", format, "t.mcount"]).unwrap();
        let arguments = ["replay", "--format", format, "-o", "x", "t.mcount"];
        let written = room.run(program, &arguments).unwrap();
        assert_eq!((written.code, written.stdout.as_str()), (Some(0), ""), "{format}");
        let bytes = testkit::files::read(&room.path("x")).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), printed.stdout, "{format}");
        let to_device = ["replay", "--format", format, "-o", "/dev/stdout", "t.mcount"];
        assert_eq!(room.run(program, &to_device).unwrap().stdout, printed.stdout, "{format}");
    }
    // A link stays, whether there's a file or not, and a file without a name is written, too.
    std::os::unix::fs::symlink("y", room.path("link")).unwrap();
    for _ in 0..2 {
        let through = room.run(Path::new(MCOUNT), &["replay", "-o", "link", "t.mcount"]).unwrap();
        assert_eq!(through.code, Some(0), "{through:?}");
        assert!(room.path("link").is_symlink() && room.path("y").is_file());
    }
    let shell = "exec 3> gone; rm gone; ln -s /proc/self/fd/3 three; \"$0\" replay -o three t.mcount && wc -c < /proc/self/fd/3";
    let gone = room.run(Path::new("sh"), &["-c", shell, MCOUNT]).unwrap();
    assert_eq!(gone.stdout.trim(), room.get("y").unwrap().len().to_string(), "{gone:?}");
    assert!(room.path("three").is_symlink());
    let nowhere = ["replay", "-o", "none/x", "t.mcount"];
    let outcome = room.run(Path::new(MCOUNT), &nowhere).unwrap();
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
}

#[test]
fn a_decoder_of_protocol_buffers_reads_what_is_for_perfetto() {
    need(["protoc", "sh"]);
    for room in [traced(), odd()] {
        let script = "\"$0\" replay --format perfetto t.mcount > t.perfetto && \
                      protoc --decode_raw < t.perfetto";
        let text = run(&room, "sh", &["-c", script, MCOUNT]);
        let calls = mcount(&room, &["replay", "--format", "jsonl", "t.mcount"]);
        let open = calls.lines().filter(|line| line.ends_with("\"end\":null}")).count();
        // Markers are instants.
        let all = calls.lines().filter(|line| !line.contains("\"mark\":")).count();
        // TrackEvent.type: begin, end.
        let of_type = |kind: u8| text.matches(&format!("\n    9: {kind}\n")).count();
        let events =
            |kind: u8| of_type(kind) + text.matches(&format!("\n  11 {{\n    9: {kind}\n")).count();
        let (begun, ended) = (events(1) / 2 + events(1) % 2, events(2) / 2 + events(2) % 2);
        assert_eq!((begun, ended), (all, all - open));
        for name in counts(&room).keys().filter(|name| *name != "mcount_mark") {
            assert!(text.contains(&format!("2: \"{name}\"")), "{name}");
        }
        // Names are said once a thread.
        let threads = text.matches("\n    4 {\n").count();
        let first = counts(&room).keys().next().unwrap().clone();
        assert!(text.matches(&format!("\"{first}\"")).count() <= threads);
    }
}

/// Reads t.perfetto with the classes that Perfetto's own schema was made into, and prints what `--format jsonl` has.
const PERFETTO: &str = r#"
import collections, json, sys
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema
data = open("t.perfetto", "rb").read()
trace = schema.Trace.FromString(data)
assert trace.ByteSize() == len(data)
trace.DiscardUnknownFields()
assert trace.ByteSize() == len(data), "fields that the schema doesn't have"
names, tracks, threads, defaults, stacks = {}, {}, {}, {}, collections.defaultdict(list)
found = collections.Counter()
for packet in trace.packet:
    sequence = packet.trusted_packet_sequence_id
    if packet.HasField("track_descriptor"):
        track = packet.track_descriptor
        tracks[track.uuid] = track.parent_uuid
        if track.HasField("thread"):
            threads[track.uuid] = track.thread.tid
    if packet.HasField("trace_packet_defaults"):
        defaults[sequence] = packet.trace_packet_defaults.track_event_defaults.track_uuid
    for entry in packet.interned_data.event_names:
        names[sequence, entry.iid] = entry.name
    if not packet.HasField("track_event"):
        continue
    event = packet.track_event
    track = event.track_uuid or defaults[sequence]
    thread = track
    while thread not in threads:
        thread = tracks[thread]
    if event.type == event.TYPE_SLICE_BEGIN:
        stacks[track].append((names[sequence, event.name_iid], packet.timestamp))
    elif event.type == event.TYPE_SLICE_END:
        name, start = stacks[track].pop()
        found[threads[thread], name, start, packet.timestamp - start] += 1
    elif event.type == event.TYPE_INSTANT:
        found[threads[thread], event.name, packet.timestamp, "mark"] += 1
for track, stack in stacks.items():
    while track not in threads:
        track = tracks[track]
    for name, start in stack:
        found[threads[track], name, start, None] += 1
right = collections.Counter()
for line in open("calls.jsonl"):
    call = json.loads(line)
    is_mark = "mark" in call
    name, length = (call["mark"], "mark") if is_mark else (call["function"], call["duration_ns"])
    right[call["thread"], name, call["start_ns"], length] += 1
print(sum(right.values()), "calls,", sum((right - found).values()), "missing,", sum((found - right).values()), "wrong")
"#;

#[test]
fn perfettos_own_schema_reads_what_is_for_it() {
    // Debian doesn't have it: `pip install perfetto`.
    let module = "from perfetto.protos.perfetto.trace import perfetto_trace_pb2";
    let has_it = Command::new("python3").args(["-c", module]).output();
    if !has_it.is_ok_and(|output| output.status.success()) {
        ignore("not installed: perfetto, of Python");
    }
    let room = traced();
    room.put("check.py", PERFETTO.as_bytes()).unwrap();
    let script = "\"$0\" replay --format perfetto t.mcount > t.perfetto && \
                  \"$0\" replay --format jsonl t.mcount > calls.jsonl && python3 check.py";
    let said = run(&room, "sh", &["-c", script, MCOUNT]);
    let count = said.strip_suffix(" calls, 0 missing, 0 wrong\n").and_then(|n| n.parse().ok());
    assert!(count.is_some_and(|count: u64| count > 50_000), "{said}");
}

#[test]
fn a_flame_graph_of_folded_stacks() {
    // Debian doesn't have it: `cargo install inferno`.
    if find("inferno-flamegraph").is_none() {
        ignore("not installed: inferno-flamegraph");
    }
    let room = traced();
    for (weight, least) in [("time", 1), ("calls", 1_000)] {
        let folded = ["replay", "--format", "folded", "--weight", weight, "t.mcount"];
        let folded = mcount(&room, &folded);
        let total: u64 = folded
            .lines()
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum();
        assert!(total > least);
        room.put("folded", folded.as_bytes()).unwrap();
        let picture = run(&room, "inferno-flamegraph", &["folded"]);
        for name in ["threads", "main", "fib", "leave"] {
            assert!(picture.contains(&format!("<title>{name} (")), "{weight}: {name}");
        }
    }
}

#[test]
fn a_browser_reads_what_is_for_chrome() {
    need(["chromium"]);
    let room = traced();
    let json = mcount(&room, &["replay", "--format", "chrome", "t.mcount"]);
    let calls = mcount(&room, &["replay", "--format", "csv", "t.mcount"]).lines().count() - 1;
    let page = format!(
        "<title>no</title><script>const trace = {json};\
         const calls = trace.traceEvents.filter(e => e.ph != 'M');\
         const right = calls.every(e => e.ts >= 0 && e.name && e.pid && e.tid);\
         document.title = calls.length + ' ' + right;</script>"
    );
    room.put("page.html", page.as_bytes()).unwrap();
    let mut browser = Command::new("chromium");
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
    browser.args(["--disable-background-networking", "--disable-component-update"]);
    browser.arg("--host-resolver-rules=MAP * ~NOTFOUND");
    browser.arg(format!("--user-data-dir={}", room.path("browser").display()));
    let script =
        format!("{browser:?} --dump-dom page.html | grep -o '<title>[^<]*</title>' | head -1");
    let title = run(&room, "sh", &["-c", &script]);
    assert_eq!(title.trim(), format!("<title>{calls} true</title>"));
}

/// Reads calls as JSON and says what `stats` should: the keys are given, and the numbers for each.
const SCRIPT: &str = include_str!("../../../tests/trace/count.py");

/// A script of its own, which knows only the calls, comes to the same numbers.
#[test]
fn a_script_counts_the_same() {
    need(["python3"]);
    let room = traced();
    room.put("count.py", SCRIPT.as_bytes()).unwrap();
    let calls = mcount(&room, &["replay", "--format", "jsonl", "t.mcount"]);
    assert!(calls.lines().count() > 50_000, "{}", calls.lines().count());
    room.put("calls.jsonl", calls.as_bytes()).unwrap();
    for by in ["function", "module", "thread", "caller"] {
        let stats = mcount(&room, &["stats", "--format", "jsonl", "--by", by, "t.mcount"]);
        room.put("stats.jsonl", stats.as_bytes()).unwrap();
        let said = run(&room, "python3", &["count.py", by]);
        assert_eq!(said, "missing [] failed 0\n", "{by}");
    }
}

#[test]
fn rows_of_source_files() {
    let room = traced();
    let stats = ["stats", "--by", "source", "--format", "csv", "t.mcount"];
    let text = mcount(&room, &stats);
    let total: u64 = counts(&room).values().sum();
    let row = text.lines().nth(1).unwrap();
    // Of four markers.
    assert!(text.starts_with("source,calls,") && text.lines().count() == 3, "{text}");
    assert!(row.starts_with(&format!("threads.c,{},", total - 4)), "{row}");
    // Another program in its place isn't taken for it.
    run(&room, "gcc", &["-g", "-o", "threads", "threads.c", "-lpthread"]);
    let outcome = room.run(Path::new(MCOUNT), &stats).unwrap();
    assert!(outcome.stderr.contains("has changed since it was traced"), "{outcome:?}");
    assert!(outcome.stdout.lines().nth(1).unwrap().starts_with(&format!(",{total},")));
}

/// Prints a trace, compressed or not, in every way, to nowhere.
fn print_all(bytes: &[u8]) {
    let _ = mcount_trace::read(bytes, |trace| print_trace(trace));
}

fn print_trace(trace: &mcount_trace::Trace<'_>) {
    write_tables(trace);
    write_requests(trace);
    let progress = Progress::new(trace, None);
    let selection = Selection { from: 20, ..Selection::default() };
    for selection in [Selection::default(), selection] {
        for format in FORMATS {
            let manner = Manner {
                format,
                has_colour: true,
                has_simple_names: true,
                fields: Field::value_variants().to_vec(),
                weight: Weight::Time,
                clock: if format == CallFormat::Csv { Clock::Monotonic } else { Clock::Trace },
                lines: None,
            };
            print(&mut std::io::sink(), trace, &selection, &manner, &progress).unwrap();
        }
        for by in [By::Function, By::Module, By::Thread, By::Caller] {
            let manner = stats::Manner {
                by,
                sort: stats::Column::Total,
                format: stats::StatsFormat::Jsonl,
                has_simple_names: false,
                has_full_names: false,
                width: None,
            };
            let missing = |_: &mcount_trace::Trace<'_>| Vec::new();
            stats::print(&mut std::io::sink(), trace, &selection, manner, &progress, missing)
                .unwrap();
        }
    }
}

/// How folders and requests are written.
fn plain(format: CallFormat) -> Manner {
    Manner {
        format,
        has_colour: false,
        has_simple_names: false,
        fields: Vec::new(),
        weight: Weight::Time,
        clock: Clock::Trace,
        lines: None,
    }
}

/// Writes tables of one in eight traces: files take long.
fn write_tables(trace: &mcount_trace::Trace<'_>) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    if !COUNT.fetch_add(1, Ordering::Relaxed).is_multiple_of(8) {
        return;
    }
    let room = Room::new().unwrap();
    let path = room.put("t.mcount", b"").unwrap();
    let (folder, manner) = (room.path("tables"), plain(CallFormat::Parquet));
    let progress = Progress::new(trace, None);
    write_parquet(&folder, &path, trace, &Selection::default(), &manner, &progress).unwrap();
}

/// Writes each call as one of a request, to nowhere.
fn write_requests(trace: &mcount_trace::Trace<'_>) {
    let functions = Pattern::all(&["*".to_owned()], Language::Glob).unwrap();
    let (requests, manner) = (Requests { functions }, plain(CallFormat::Otlp));
    let progress = Progress::new(trace, None);
    let of = (&Selection::default(), &requests);
    // It's an error if the trace has no times.
    let _ = write_otlp(trace, of, &manner, &progress, &mut |_| Ok(()));
}

const FORMATS: [CallFormat; 9] = [
    CallFormat::Text,
    CallFormat::Jsonl,
    CallFormat::Csv,
    CallFormat::Folded,
    CallFormat::Chrome,
    CallFormat::Perfetto,
    CallFormat::Pprof,
    CallFormat::Callgrind,
    CallFormat::Firefox,
];

/// A trace with something of everything and an index, small enough to be damaged everywhere.
fn small() -> Vec<u8> {
    let mut writer = Writer::new();
    writer.process(7, 1, 0, "/bin/program").process_end(7, 0, 900).thread_name(7, 8, 3, "second");
    let functions =
        ["_ZN1a1bEi", "twin", "\u{1b}[2J"].map(|name| writer.function("/bin/program", name));
    let threads = [writer.thread(7, 7), writer.thread(7, 8)];
    for at in 0..20 {
        let (thread, function) = (threads[at % 2], functions[at % 3]);
        let start = at as u64 * 10;
        let how = [End::Return, End::TailCall, End::Unwound, End::Exit][at % 4];
        writer.call(thread, function).from(start).to(start + 25).slot(TOP - start * 8).end(how);
    }
    writer.open(threads[0], functions[0], 5, TOP + 64);
    let mut bytes = writer.finish();
    for patch in mcount_trace::index(&bytes.clone()).unwrap() {
        let from = usize::try_from(patch.offset).unwrap();
        let to = from + patch.bytes.len();
        bytes.resize(bytes.len().max(to), 0);
        bytes[from..to].copy_from_slice(&patch.bytes);
    }
    bytes
}

/// The same, compressed.
fn compressed(bytes: &[u8]) -> Vec<u8> {
    let packer = mcount_trace::Packer::new(bytes).unwrap();
    let (mut file, mut sizes) = (packer.head(), Vec::new());
    for number in 0..packer.blocks() {
        let (frame, whole) = packer.frame(number);
        sizes.push((u32::try_from(frame.len()).unwrap(), u32::try_from(whole).unwrap()));
        file.extend(frame);
    }
    file.extend(packer.table(&sizes));
    file
}

/// Whatever is damaged, each way to print a trace comes to an end, and without a panic.
#[test]
fn damaged_traces_are_printed() {
    damage_and_print(small(), 5);
}

#[test]
fn damaged_compressed_traces_are_printed() {
    damage_and_print(compressed(&small()), 3);
}

/// One with markers and arguments, recorded by the program itself.
#[test]
fn damaged_values_are_printed() {
    need(["gcc"]);
    let room = Room::new().unwrap();
    let program = "#include \"mark.h\"\nstruct pair { long a; char *b; };\n\
                   __attribute__((noinline)) struct pair two(char *text, double real, struct pair p)\n\
                   { p.b = text; p.a += real; return p; }\n\
                   int main(void) { struct pair p = {1, \"x\"}; mcount_mark(\"first\"); p = two(\"yes\", 2.5, p);\n\
                   mcount_mark(\"last\"); return p.a != 3; }\n";
    room.put("small.c", program.as_bytes()).unwrap();
    room.put("mark.h", include_bytes!("../../../include/mcount/mark.h")).unwrap();
    let flags = ["-O2", "-g", "-fpatchable-function-entry=5", "-o", "small", "small.c"];
    run(&room, "gcc", &flags);
    let options =
        ["trace", "--plain", "--args", "*", "--results", "*", "-o", "t.mcount", "--", "./small"];
    mcount(&room, &options);
    let text = mcount(&room, &["replay", "t.mcount"]);
    let call = "two(\"yes\", 2.5, {a=1, b=\"x\"}) = {a=3";
    assert!(text.contains("/* last */") && text.contains(call), "{text}");
    let bytes = room.get("t.mcount").unwrap();
    damage_and_print(bytes, 2);
}

/// Changes every so-many-th byte that isn't zero, or one in three of these.
fn damage_and_print(mut bytes: Vec<u8>, step: usize) {
    print_all(&bytes);
    let places: Vec<usize> =
        (0..bytes.len()).filter(|at| bytes[*at] != 0 || (16..280).contains(at)).collect();
    let places = one_in(3, places.iter().step_by(step).collect());
    let begin = Instant::now();
    for (count, at) in places.into_iter().enumerate() {
        let before = bytes[*at];
        for value in [before ^ 1, before ^ 0x80, 0xff] {
            bytes[*at] = value;
            print_all(&bytes);
        }
        bytes[*at] = before;
        if count % 16 == 0 {
            print_all(&bytes[..*at]);
        }
    }
    assert!(begin.elapsed() < Duration::from_secs(600), "{:?}", begin.elapsed());
}

/// Calls that all overlap, and a depth that grows with the trace: time grows no faster than the trace.
#[test]
fn traces_that_would_take_long() {
    const MANY: u64 = 50_000;
    let made = |start: fn(u64) -> u64, end: fn(u64) -> u64| {
        let mut writer = Writer::new();
        let function = writer.function("/bin/program", "f");
        let thread = writer.thread(1, 1);
        for at in 0..MANY {
            let slot = TOP - at * 8;
            writer.call(thread, function).from(start(at)).to(end(at)).slot(slot).end(End::Return);
        }
        writer.finish()
    };
    let overlapping = made(|at| at, |at| MANY + at);
    let deep = made(|at| MANY - at, |at| MANY + at);
    for bytes in [overlapping, deep] {
        let begin = Instant::now();
        print_all(&bytes);
        assert!(begin.elapsed() < Duration::from_secs(300), "{:?}", begin.elapsed());
    }
}
