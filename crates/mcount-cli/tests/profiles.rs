//! Profiles and tables that `mcount replay` makes of traces (pprof, callgrind, firefox, parquet, otlp), read by the programs that they are
//! for, or by a script. All have the numbers of `mcount stats`.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use mcount_trace::layout::header;
use mcount_trace::{End, ThreadId, Writer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use testkit::room::Room;
use testkit::test;
use testkit::tools::need;
use testkit::trial::ignore;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

const MCOUNT: &str = env!("CARGO_BIN_EXE_mcount");

/// What a program prints that must succeed.
fn run(room: &Room, program: &str, arguments: &[&str]) -> String {
    let outcome = room.run(Path::new(program), arguments).unwrap();
    assert_eq!(outcome.code, Some(0), "{program} {arguments:?}: {}", outcome.stderr);
    outcome.stdout
}

fn mcount(room: &Room, arguments: &[&str]) -> String {
    run(room, MCOUNT, arguments)
}

/// What `stats` says of a function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Numbers {
    calls: u64,
    total: u64,
    own: u64,
    running: u64,
    waiting: u64,
    /// Functions of that name.
    count: u64,
}

/// Those of all functions, by name: functions of one name are added up.
fn stats(room: &Room, arguments: &[&str]) -> BTreeMap<String, Numbers> {
    let all = [&["stats", "--format", "jsonl"], arguments, &["t.mcount"]].concat();
    let mut found: BTreeMap<String, Numbers> = BTreeMap::new();
    for line in mcount(room, &all).lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let number = |name: &str| row[name].as_u64().unwrap_or(0);
        let of = found.entry(row["function"].as_str().unwrap().to_owned()).or_default();
        of.calls += number("calls");
        of.total += number("total_ns");
        of.own += number("self_ns");
        of.running += number("running_ns");
        of.waiting += number("waiting_ns");
        of.count += 1;
    }
    found
}

/// Numbers without a pattern, the same in each run.
struct Numbered(u64);

impl Numbered {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }
}

/// Functions of programs and libraries: names of C++ and Rust, names that formats have to quote, and two of the same name.
const FUNCTIONS: [(&str, &str); 9] = [
    ("/bin/shop", "main"),
    ("/bin/shop", "_ZN4shop9Inventory7reserveEi"),
    ("/bin/shop", "_ZN4shop5stock17h0123456789abcdefE"),
    ("/bin/shop", "odd \"name\" (1) \\ & <b>\t;"),
    ("/bin/shop", "(2) numbered"),
    ("/lib/one.so", "twin"),
    ("/lib/two.so", "twin"),
    ("/lib/x86_64-linux-gnu/libc.so.6", "pthread_mutex_lock"),
    ("[kernel]", "linux:write"),
];

/// Makes calls that call each other and themselves, each with all that it calls.
struct Maker {
    writer: Writer,
    functions: Vec<u32>,
    /// What stands for time off the processor, if there is any.
    away: Option<u32>,
    numbers: Numbered,
    now: u64,
}

impl Maker {
    fn call(&mut self, thread: ThreadId, depth: u64) {
        let function = self.functions[usize::try_from(self.numbers.below(8)).unwrap()];
        let start = self.now;
        self.now += self.numbers.below(3) * self.numbers.below(1_000_000);
        for _ in 0..self.numbers.below(4).saturating_sub(depth / 4) {
            self.call(thread, depth + 1);
        }
        if let Some(away) = self.away
            && self.numbers.below(2) == 0
        {
            let start = self.now + self.numbers.below(100);
            self.now = start + self.numbers.below(500_000);
            self.writer.off_cpu(thread, away, start, self.now);
        }
        self.now += self.numbers.below(2_000);
        let how =
            [End::Return, End::TailCall, End::Unwound][usize::try_from(self.now % 3).unwrap()];
        let call = self.writer.call(thread, function).from(start).to(self.now);
        call.slot(0x7ffd_0000_0000 - depth * 64).end(how);
    }
}

/// A room with `t.mcount`: two processes, one of which runs a second program, with threads, calls that hadn't ended, calls into the system,
/// and, if asked for, time off the processor.
fn made(has_off_cpu: bool) -> Room {
    let room = Room::new().unwrap();
    let mut writer = Writer::new();
    writer.process(7, 1, 0, "/bin/shop").process(9, 7, 50_000, "/bin/shop");
    writer.process(9, 7, 900_000, "/bin/other").thread_name(7, 7, 0, "shop");
    writer.thread_name(7, 8, 0, "worker 1").thread_name(7, 10, 0, "worker 1");
    writer.note("probes can't be placed in 2 functions");
    writer.header(header::START_REALTIME, 1_700_000_000_000_000_000);
    let functions = FUNCTIONS.map(|(module, name)| writer.function(module, name));
    let away = has_off_cpu.then(|| writer.function("[kernel]", "linux:schedule"));
    let mut maker =
        Maker { writer, functions: functions.to_vec(), away, numbers: Numbered(53), now: 1_000 };
    let mut threads = Vec::new();
    for (pid, tid) in [(7, 7), (7, 8), (7, 10), (9, 9)] {
        let thread = maker.writer.thread(pid, tid);
        threads.push(thread);
        maker.now = 1_000 * u64::from(tid);
        for _ in 0..40 {
            maker.call(thread, 2);
            maker.now += maker.numbers.below(100_000);
        }
        let now = maker.now;
        maker.writer.told((pid, tid), functions[8], (now + 10, Some(now + 500)), &[]);
    }
    let mut writer = maker.writer;
    let late = maker.now + 1_000_000_000;
    writer.open(threads[0], functions[0], 10, 0x7ffd_0000_0000);
    writer.open(threads[1], functions[7], late, 0x7ffd_0000_0000);
    writer.header(header::END_TICKS, late + 12_345_678);
    room.put("t.mcount", &writer.finish()).unwrap();
    room
}

/// The traces that all formats have to get right, and what is selected.
fn rooms() -> Vec<(Room, &'static [&'static str])> {
    vec![(made(false), &[]), (made(true), &[]), (made(true), &["--thread", "worker*"])]
}

/// The rows of `go tool pprof -top`: the value of a function alone, and with what it called.
fn top(room: &Room, kind: &str) -> BTreeMap<String, (u64, u64)> {
    let sample = format!("-sample_index={kind}");
    let fixed =
        ["tool", "pprof", "-top", "-nodecount=1000000", "-nodefraction=0", "-symbolize=none"];
    let text = run(room, "go", &[&fixed[..], &["-unit=ns", &sample, "t.pb.gz"]].concat());
    let (_, rows) = text.split_once("flat  flat%   sum%        cum   cum%\n").unwrap();
    let number = |text: &str| text.trim_end_matches("ns").parse::<u64>().unwrap();
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let flat = number(words.next().unwrap());
        let cum = number(words.nth(2).unwrap());
        // The name comes after three shares, and can have spaces.
        let name = line.splitn(4, '%').nth(3).unwrap().trim_start();
        (name.to_owned(), (flat, cum))
    };
    rows.lines().map(row).collect()
}

/// What pprof should say of a function: alone, and, if no other has its name, with what it called.
type Expected = fn(&Numbers) -> (u64, Option<u64>);

#[test]
fn pprof_counts_as_stats_does() {
    need(["go"]);
    for (room, selection) in rooms() {
        let replay = ["replay", "--format", "pprof", "-o", "t.pb.gz", "t.mcount"];
        mcount(&room, &[&replay[..], selection].concat());
        let stats = stats(&room, selection);
        assert!(stats.values().any(|row| row.waiting > 0));
        let kinds: [(&str, Expected); 4] = [
            ("calls", |row| (row.calls, None)),
            ("time", |row| (row.own, Some(row.total).filter(|_| row.count == 1))),
            ("running", |row| (row.running, None)),
            ("waiting", |row| (row.waiting, None)),
        ];
        for (kind, expected) in kinds {
            let mut found = top(&room, kind);
            for (name, row) in &stats {
                let (flat, cum) = expected(row);
                // Names are on one line.
                let name = name.replace('\t', "\\t");
                let row = found.remove(&name).unwrap_or_default();
                assert_eq!(row.0, flat, "{kind} of {name}");
                assert!(cum.is_none_or(|cum| cum == row.1), "{kind} of {name}: {cum:?} {row:?}");
            }
            assert!(found.is_empty(), "{found:?}");
        }
    }
}

/// Labels, mappings and comments, as pprof prints them.
#[test]
fn pprof_knows_processes_threads_and_files() {
    need(["go"]);
    let room = made(true);
    mcount(&room, &["replay", "--format", "pprof", "-o", "t.pb.gz", "t.mcount"]);
    let raw = run(&room, "go", &["tool", "pprof", "-raw", "t.pb.gz"]);
    for expected in [
        "process:[shop] thread:[worker 1]",
        "process:[other]",
        "pid:[7]",
        "/bin/shop",
        "/lib/two.so",
        "Time: 2023-11-14 ",
    ] {
        assert!(raw.contains(expected), "{expected}: {raw}");
    }
    let comments = run(&room, "go", &["tool", "pprof", "-comments", "t.pb.gz"]);
    assert_eq!(comments.trim(), "probes can't be placed in 2 functions");
}

/// The rows of `callgrind_annotate`: the numbers of each function.
fn annotated(room: &Room, events: &str, inclusive: bool) -> BTreeMap<String, Vec<u64>> {
    let fixed = ["--auto=no", "--threshold=100"];
    let (show, sort) = (format!("--show={events}"), "--sort=Calls".to_owned());
    let inclusive = format!("--inclusive={}", if inclusive { "yes" } else { "no" });
    let text = run(
        room,
        "callgrind_annotate",
        &[&fixed[..], &[&show, &sort, &inclusive, "callgrind.out"]].concat(),
    );
    let (_, rows) = text.split_once("file:function\n").unwrap();
    let row = |line: &str| {
        let (numbers, name) = line.split_once("???:")?;
        let name = name.rsplit_once(" [").map_or(name, |(name, _)| name);
        // Shares are in parentheses.
        let numbers = numbers.split_whitespace().filter(|word| !word.contains(['(', '%', ')']));
        let number = |word: &str| word.replace(',', "").parse::<u64>().unwrap_or(0);
        Some((name.to_owned(), numbers.map(number).collect()))
    };
    rows.lines().filter_map(row).collect()
}

#[test]
fn callgrind_counts_as_stats_does() {
    need(["callgrind_annotate"]);
    for (room, selection) in rooms() {
        let replay = ["replay", "--format", "callgrind", "-o", "callgrind.out", "t.mcount"];
        mcount(&room, &[&replay[..], selection].concat());
        let stats = stats(&room, selection);
        let mut alone = annotated(&room, "Time,Running,Waiting,Calls", false);
        let with_callees = annotated(&room, "Time", true);
        for (name, row) in &stats {
            let name = name.replace('\t', "\\t");
            let found = alone.remove(&name).unwrap();
            assert_eq!(found, [row.own, row.running, row.waiting, row.calls], "{name}");
            if row.count == 1 {
                assert_eq!(with_callees[&name], [row.total], "{name}");
            }
        }
        assert!(alone.keys().all(|name| name.starts_with('[')), "{alone:?}");
        let threads = with_callees.keys().filter(|name| name.starts_with('['));
        assert_eq!(threads.count(), if selection.is_empty() { 5 } else { 2 });
    }
}

/// Reads t.json and says where it isn't as it should be, and the numbers of each function.
const FIREFOX: &str = include_str!("../../../tests/trace/firefox.py");

#[test]
fn the_firefox_profiler_counts_as_stats_does() {
    need(["python3"]);
    for (room, selection) in rooms() {
        room.put("firefox.py", FIREFOX.as_bytes()).unwrap();
        let replay = ["replay", "--format", "firefox", "-o", "t.json", "t.mcount"];
        mcount(&room, &[&replay[..], selection].concat());
        let said: Value = serde_json::from_str(&run(&room, "python3", &["firefox.py"])).unwrap();
        let stats = stats(&room, selection);
        for (name, row) in &stats {
            let found = &said[name];
            assert_eq!(found[0].as_u64(), Some(row.own), "{name}");
            assert!(
                row.count > 1 || found[1].as_u64() == Some(row.total),
                "{name} {found} {row:?}"
            );
        }
        assert_eq!(said.as_object().unwrap().len(), stats.len());
    }
}

/// Files that can't be written whole aren't there, and a pipe that nobody reads is an error.
#[test]
fn a_full_disk_and_a_broken_pipe() {
    need(["sh"]);
    let room = made(true);
    for format in ["pprof", "callgrind", "firefox"] {
        let script = "\"$0\" replay --format $1 t.mcount > /dev/full";
        let outcome = room.run(Path::new("sh"), &["-c", script, MCOUNT, format]).unwrap();
        assert_eq!(outcome.code, Some(2), "{format}: {outcome:?}");
        assert!(outcome.stderr.contains("No space left"), "{format}: {outcome:?}");
        let script = "ulimit -f 1; trap '' XFSZ; \"$0\" replay --format $1 -o out t.mcount";
        let outcome = room.run(Path::new("bash"), &["-c", script, MCOUNT, format]).unwrap();
        if format == "firefox" {
            assert_eq!(outcome.code, Some(2), "{format}: {outcome:?}");
        }
        let names = room.names().unwrap();
        assert!(
            names.iter().all(|name| name == "t.mcount" || outcome.code == Some(0)),
            "{names:?}"
        );
        let _ = std::fs::remove_file(room.path("out"));
    }
    // Its reader is gone before it begins.
    let script = "set -o pipefail; { sleep 0.3; \"$0\" replay --format $1 t.mcount; } | true";
    for format in ["pprof", "callgrind", "firefox", "chrome", "perfetto"] {
        let outcome = room.run(Path::new("bash"), &["-c", script, MCOUNT, format]).unwrap();
        let is_said = outcome.stderr == "mcount: standard output: Broken pipe\n";
        assert!(outcome.code == Some(2) && is_said, "{format}: {outcome:?}");
    }
    for format in ["text", "jsonl", "csv", "folded"] {
        let outcome = room.run(Path::new("bash"), &["-c", script, MCOUNT, format]).unwrap();
        assert!(outcome.code == Some(0) && outcome.stderr.is_empty(), "{format}: {outcome:?}");
    }
}

/// Reads tables with DuckDB: how often each function was called, and its self time; and how many rows the other tables have.
const DUCKDB: &str = r#"
import duckdb, json, sys
table = lambda name: f"read_parquet('tables/{name}/**/*.parquet', hive_partitioning=true, hive_types={{'build': VARCHAR}})"
rows = lambda query: duckdb.sql(query).fetchall()
calls = rows(f"select function, count(*), sum(self_ns), count(*) - count(duration_ns) from {table('calls')} group by 1")
joined = rows(f"""select count(*) from {table('calls')} c join {table('functions')} f using (build, trace, function_id)
    join {table('threads')} t using (build, trace, process, thread) where f.function = c.function""")
others = {name: rows(f"select count(*) from {table(name)}")[0][0] for name in ["functions", "threads", "processes"]}
start = rows(f"select min(trace_start)::varchar, count(distinct build) from {table('processes')}")[0]
print(json.dumps(dict(calls=calls, joined=joined[0][0], others=others, start=start)))
"#;

#[test]
fn duckdb_counts_as_stats_does() {
    // Debian doesn't have it: `pip install duckdb`.
    need_module("duckdb");
    for (room, selection) in rooms() {
        room.put("duckdb.sql.py", DUCKDB.as_bytes()).unwrap();
        let replay = ["replay", "--format", "parquet", "-o", "tables", "t.mcount"];
        for _ in 0..2 {
            // The second one replaces the first.
            mcount(&room, &[&replay[..], selection].concat());
        }
        let said = run(&room, "python3", &["duckdb.sql.py"]);
        let said: Value = serde_json::from_str(&said).unwrap();
        let (mut stats, mut all) = (stats(&room, selection), 0);
        for row in said["calls"].as_array().unwrap() {
            let name = row[0].as_str().unwrap().replace("\\t", "\t");
            let expected = stats.remove(&name).unwrap();
            all += expected.calls;
            assert_eq!(row[1].as_u64(), Some(expected.calls), "{row}");
            // Calls that hadn't ended have no self time.
            if row[3] == 0 {
                assert_eq!(row[2].as_u64(), Some(expected.own), "{row}");
            }
        }
        assert!(stats.is_empty(), "{stats:?}");
        assert_eq!(said["joined"].as_u64(), Some(all));
        assert_eq!(said["others"]["processes"], 3);
        assert!(said["start"][0].as_str().unwrap().starts_with("2023-11-14 22:13:20"), "{said}");
    }
}

/// A table of call sites has the rows that are printed.
#[test]
fn duckdb_reads_call_sites() {
    need_module("duckdb");
    let room = Room::new().unwrap();
    room.put_prebuilt("one.o", "x86_64-pg").unwrap();
    let script = "\"$0\" scan --format parquet one.o | cat > t.parquet && \"$0\" scan --format csv one.o > t.csv && \
                  \"$0\" scan --count --by section --format parquet one.o > counts.parquet";
    run(&room, "sh", &["-c", script, MCOUNT]);
    let script = "import csv, duckdb\n\
                  text = lambda one: '' if one is None else str(one).lower() if isinstance(one, bool) else str(one)\n\
                  found = duckdb.sql(\"select * from 't.parquet'\")\n\
                  rows = [found.columns] + [[text(one) for one in row] for row in found.fetchall()]\n\
                  assert rows == list(csv.reader(open('t.csv'))), rows\n\
                  counts = duckdb.sql(\"select sum(count) from 'counts.parquet'\").fetchall()[0][0]\n\
                  print(len(rows) - 1 - counts, counts > 0)";
    assert_eq!(run(&room, "python3", &["-c", script]), "0 True\n");
}

/// Ends the test if Python doesn't have a module.
fn need_module(name: &str) {
    let import = format!("import {name}");
    let outcome = Command::new("python3").args(["-c", &import]).output();
    if !outcome.is_ok_and(|outcome| outcome.status.success()) {
        ignore(format!("not installed: {name}, of Python"));
    }
}

/// Builds of programs are folders, as Hive has them; after an error, there's nothing new.
#[test]
fn tables_are_in_folders() {
    need(["gcc", "bash"]);
    let room = Room::new().unwrap();
    room.put("p.c", b"int main(void) { return 0; }").unwrap();
    run(
        &room,
        "gcc",
        &["-fpatchable-function-entry=5", "-Wl,--build-id=0x0123456789abcdef", "-o", "p", "p.c"],
    );
    mcount(&room, &["trace", "--plain", "-o", "t.mcount", "--", "./p"]);
    mcount(&room, &["replay", "--format", "parquet", "-o", "deep/tables", "t.mcount"]);
    let listed = run(&room, "bash", &["-c", "cd deep/tables && find . -type f | sort"]);
    let expected = ["calls", "functions", "processes", "threads"];
    let found: Vec<&str> = listed.lines().collect();
    assert_eq!(found.len(), 4, "{listed}");
    for (path, table) in found.iter().zip(expected) {
        assert!(path.starts_with(&format!("./{table}/build=0123456789abcdef/t-")), "{path}");
        assert_eq!(Path::new(path).extension().unwrap(), "parquet", "{path}");
        let bytes = room.get(&format!("deep/tables/{path}")).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    }
    let script =
        "ulimit -f 0; trap '' XFSZ; \"$0\" replay --format parquet -o none/tables t.mcount";
    let outcome = room.run(Path::new("bash"), &["-c", script, MCOUNT]).unwrap();
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(!room.names().unwrap().contains(&"none".to_owned()), "{outcome:?}");
}

/// Reads t.otlp with the classes of OpenTelemetry's own package, and says what's in each trace.
const OTLP: &str = r#"
import collections, json
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
data = open("t.otlp", "rb").read()
traces = TracesData.FromString(data)
size = traces.ByteSize()
traces.DiscardUnknownFields()
assert traces.ByteSize() == size, "fields that the schema doesn't have"
spans = [(resource, span) for resource in traces.resource_spans for scope in resource.scope_spans for span in scope.spans]
known = {(span.trace_id, span.span_id): span for _, span in spans}
assert len(known) == len(spans)
roots = 0
for resource, span in spans:
    assert len(span.trace_id) == 16 and len(span.span_id) == 8
    assert span.end_time_unix_nano >= span.start_time_unix_nano >= 1_700_000_000_000_000_000
    if span.parent_span_id:
        parent = known[span.trace_id, span.parent_span_id]
        assert parent.start_time_unix_nano <= span.start_time_unix_nano
        assert parent.end_time_unix_nano >= span.end_time_unix_nano
    else:
        roots += 1
        assert span.kind == span.SPAN_KIND_SERVER
keys = {one.key for resource in traces.resource_spans for one in resource.resource.attributes}
attributes = {one.key for _, span in spans for one in span.attributes}
print(json.dumps(dict(roots=roots, spans=len(spans), names=collections.Counter(span.name for _, span in spans),
                      keys=sorted(keys), attributes=sorted(attributes))))
"#;

const REQUEST: &str = "shop::Inventory::reserve*";

/// Of calls in the order of starts, how often each function is called in a request.
fn in_requests(room: &Room) -> (u64, BTreeMap<String, u64>) {
    let (mut roots, mut names) = (0, BTreeMap::new());
    // The depth of the request that a thread is in.
    let mut within: BTreeMap<u64, u64> = BTreeMap::new();
    for line in mcount(room, &["replay", "--format", "jsonl", "t.mcount"]).lines() {
        let call: Value = serde_json::from_str(line).unwrap();
        let (thread, depth) = (call["thread"].as_u64().unwrap(), call["depth"].as_u64().unwrap());
        let name = call["function"].as_str().unwrap();
        if within.get(&thread).is_some_and(|outer| depth <= *outer) {
            within.remove(&thread);
        }
        if !within.contains_key(&thread) && name.starts_with("shop::Inventory::reserve") {
            within.insert(thread, depth);
            roots += 1;
        }
        if within.contains_key(&thread) {
            *names.entry(name.replace('\t', "\\t")).or_default() += 1;
        }
    }
    (roots, names)
}

#[test]
fn opentelemetry_reads_requests() {
    // Debian doesn't have it: `pip install opentelemetry-proto`.
    need_module("opentelemetry.proto.trace.v1.trace_pb2");
    let room = made(true);
    room.put("otlp.py", OTLP.as_bytes()).unwrap();
    let replay = ["replay", "--format", "otlp", "--request", REQUEST, "-o", "t.otlp", "t.mcount"];
    mcount(&room, &replay);
    let said: Value = serde_json::from_str(&run(&room, "python3", &["otlp.py"])).unwrap();
    let (roots, names) = in_requests(&room);
    assert_eq!(said["roots"].as_u64(), Some(roots));
    assert_eq!(said["names"], serde_json::to_value(&names).unwrap());
    assert!(said["spans"].as_u64().unwrap() > 100, "{said}");
    for key in ["service.name", "process.pid", "process.executable.path"] {
        assert!(said["keys"].as_array().unwrap().iter().any(|one| one == key), "{said}");
    }
}

/// A decoder that knows no schema finds a span for each call of a request, and none that are shorter than asked for.
#[test]
fn spans_over_a_threshold() {
    need(["protoc", "sh"]);
    let room = made(false);
    let (_, names) = in_requests(&room);
    let all: u64 = names.values().sum();
    let spans = |options: &str| {
        let script = format!(
            "\"$0\" replay --format otlp --request '{REQUEST}' {options} t.mcount | protoc --decode_raw"
        );
        let text = run(&room, "sh", &["-c", &script, MCOUNT]);
        // Span.start_time_unix_nano.
        text.lines().filter(|line| line.trim_start().starts_with("7: 0x")).count() as u64
    };
    assert_eq!(spans(""), all);
    let fewer = spans("--min-duration 1ms");
    assert!(fewer < all && fewer > 0, "{fewer} of {all}");
}

/// A collector that's down at first, and then busy.
const COLLECTOR: &str = r#"
import http.server, sys, time
time.sleep(0.5)
count = 0
class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        global count
        count += 1
        body = self.rfile.read(int(self.headers["Content-Length"]))
        right = self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf"
        code = 503 if count < 3 else 200 if right else 400
        if code == 200:
            open("sent", "ab").write(body)
        self.send_response(code)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Collector)
server.serve_forever()
"#;

#[test]
fn a_collector_that_is_down_at_first() {
    need(["python3"]);
    let room = made(true);
    room.put("collector.py", COLLECTOR.as_bytes()).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let arguments = ["collector.py", &port.to_string()];
    let mut collector = room.command(Path::new("python3"), &arguments).spawn().unwrap();
    let url = format!("http://127.0.0.1:{port}");
    let replay = ["replay", "--format", "otlp", "--request", REQUEST];
    let sent = room.run(Path::new(MCOUNT), &[&replay[..], &["--send", &url, "t.mcount"]].concat());
    collector.kill().unwrap();
    collector.wait().unwrap();
    let sent = sent.unwrap();
    let warning = "mcount: warning: t.mcount: probes can't be placed in 2 functions\n";
    assert_eq!((sent.code, sent.stderr.as_str()), (Some(0), warning));
    mcount(&room, &[&replay[..], &["-o", "t.otlp", "t.mcount"]].concat());
    assert!(room.get("sent").unwrap() == room.get("t.otlp").unwrap());
}

#[test]
fn options_that_need_each_other() {
    let room = made(false);
    let table: [(&[&str], &str); 4] = [
        (&["--format", "otlp"], "--format otlp needs --request FUNCTION"),
        (&["--request", "f"], "--request needs --format otlp"),
        (&["--send", "http://localhost"], "--send needs --format otlp"),
        (&["--format", "parquet"], "--format parquet needs --output DIR"),
    ];
    for (arguments, expected) in table {
        let all = [&["replay"], arguments, &["t.mcount"]].concat();
        let found = room.run(Path::new(MCOUNT), &all).unwrap();
        assert_eq!((found.code, found.stderr), (Some(2), format!("mcount: {expected}\n")));
    }
}
