//! `mcount replay`: what it prints of traces that are made here, in every format, and what options
//! leave of them; damaged traces too.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use mcount_trace::{End, Writer};
use std::path::Path;
use testkit::room::{Outcome, Room};
use testkit::test;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use testkit::tools::need;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

/// The outermost slots of two stacks.
const TOP: u64 = 0x7ffd_1234_5000;
const OTHER: u64 = 0x7f00_0000_1000;

/// What `mcount replay ARGUMENT… t.mcount` says of a trace.
fn replay(trace: &[u8], arguments: &[&str]) -> Outcome {
    let room = Room::new().unwrap();
    room.put("t.mcount", trace).unwrap();
    let arguments = [&["replay"], arguments, &["t.mcount"]].concat();
    room.run(Path::new(env!("CARGO_BIN_EXE_mcount")), &arguments).unwrap()
}

/// What it prints when all is well.
fn printed(trace: &[u8], arguments: &[&str]) -> String {
    let outcome = replay(trace, arguments);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    outcome.stdout
}

/// A trace of two threads, with a call of every end.
fn sample() -> Writer {
    let mut writer = Writer::new();
    writer.process(100, 1, 0, "/bin/program");
    writer.thread_name(100, 100, 0, "program").thread_name(100, 101, 2_000, "worker");
    let main = writer.function_at("/bin/program", "main", 0x1000, 64);
    let draw = writer.function_at("/lib/libdraw.so.1", "_ZN5shape4drawEi", 0x2000, 64);
    let tail = writer.function_at("/bin/program", "tail", 0x1040, 64);
    let jumps = writer.function_at("/bin/program", "jumps", 0x1080, 64);
    let work = writer.function_at("/bin/program", "work", 0x10c0, 64);
    let (first, second) = (writer.thread(100, 100), writer.thread(100, 101));
    let slot = |depth: u64| TOP - depth * 64;
    writer.call(first, tail).from(1_100).to(1_200).slot(slot(1)).end(End::TailCall);
    writer.call(first, draw).from(1_200).to(1_500).slot(slot(1)).end(End::Return);
    writer.call(first, draw).from(2_600).to(2_700).slot(slot(2)).end(End::Return);
    writer.call(first, work).from(4_000).to(2_504_000).slot(slot(1)).end(End::Return);
    writer.call(first, jumps).from(2_500).to(2_504_100).slot(slot(1)).end(End::Unwound);
    writer.call(second, draw).from(3_500).to(3_600).slot(OTHER - 64).end(End::Return);
    writer.open(first, main, 1_000, slot(0)).open(second, work, 3_000, OTHER);
    writer.header(mcount_trace::layout::header::END_TICKS, 3_000_000);
    writer
}

/// As it is when `exit` was called.
fn finished() -> Vec<u8> {
    let mut writer = sample();
    writer.process_end(100, 0, 3_000_000);
    writer.finish()
}

#[test]
fn a_call_graph() {
    let expected = "\
# DURATION     TID     FUNCTION
           [    100] | main() {
  0.100 us [    100] |   tail(); /* tail-call */
  0.300 us [    100] |   shape::draw(int);
           [    100] |   jumps() {
  0.100 us [    100] |     shape::draw(int);
           [    101] | work() {
  0.100 us [    101] |   shape::draw(int);
  1.500 us [    100] |   } /* jumps: unwound */
  2.500 ms [    100] |   work();
  2.997 ms [    101] | } /* work: exit */
  2.999 ms [    100] | } /* main: exit */
";
    assert_eq!(printed(&finished(), &[]), expected);
}

#[test]
fn a_call_graph_without_ends() {
    let text = printed(&sample().finish(), &["--depth", "1"]);
    let expected = "\
# DURATION     TID     FUNCTION
           [    100] | main() {
           [    101] | work() {
";
    assert_eq!(text, expected);
}

#[test]
fn columns_of_ones_own() {
    let mut writer = sample();
    writer.header(mcount_trace::layout::header::START_REALTIME, 1_700_000_000_123_456_789);
    writer.process_end(100, 0, 3_000_000);
    let bytes = writer.finish();
    let some = ["--thread", "101", "--fields"];
    let table = [
        ("none", "# FUNCTION\nwork() {\n  shape::draw(int);\n} /* work: exit */\n"),
        (
            "elapsed,delta,pid",
            "#       ELAPSED      DELTA     PID     FUNCTION
    0.000003000            [    100] | work() {
    0.000003500   0.500 us [    100] |   shape::draw(int);
    0.003000000   2.996 ms [    100] | } /* work: exit */
",
        ),
        (
            "time,task,module,address",
            "#               TIME            TASK           MODULE            ADDRESS   FUNCTION
1700000000.123459789          worker          program             0x10c0 | work() {
1700000000.123460289          worker  libdraw.so.1               0x2000 |   shape::draw(int);
1700000000.126456789          worker          program             0x10c0 | } /* work: exit */
",
        ),
    ];
    for (fields, expected) in table {
        let text = printed(&bytes, &[&some[..], &[fields]].concat());
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&text), words(expected), "{fields}");
        let bars: Vec<_> = text.lines().skip(1).map(|line| line.find('|')).collect();
        assert!(bars.iter().all(|bar| *bar == bars[0]), "{fields}: {text}");
    }
}

#[test]
fn names_without_arguments() {
    let text = printed(&finished(), &["--simple-names", "--function", "shape::*"]);
    assert_eq!(text.matches("shape::draw();").count(), 3, "{text}");
    let lines = printed(&finished(), &["--simple-names", "--format", "jsonl", "--thread", "101"]);
    assert!(lines.contains("\"function\":\"shape::draw\""), "{lines}");
}

#[test]
fn colours_where_they_are_wanted() {
    let coloured = printed(&finished(), &["--color", "always"]);
    assert!(coloured.contains("\u{1b}[33m  2.500 ms\u{1b}[0m [    100] |   work();"), "{coloured}");
    assert!(!printed(&finished(), &[]).contains('\u{1b}'));
}

#[test]
fn one_object_a_call() {
    let lines = printed(&finished(), &["--format", "jsonl"]);
    let expected = [
        r#"{"process":100,"thread":100,"depth":0,"function":"main","module":"/bin/program","address":4096,"caller":null,"start_ns":1000,"duration_ns":2999000,"end":"exit"}"#,
        r#"{"process":100,"thread":100,"depth":1,"function":"tail","module":"/bin/program","address":4160,"caller":"main","start_ns":1100,"duration_ns":100,"end":"tail-call"}"#,
        r#"{"process":100,"thread":100,"depth":1,"function":"shape::draw(int)","module":"/lib/libdraw.so.1","address":8192,"caller":"main","start_ns":1200,"duration_ns":300,"end":"return"}"#,
        r#"{"process":100,"thread":100,"depth":1,"function":"jumps","module":"/bin/program","address":4224,"caller":"main","start_ns":2500,"duration_ns":1500,"end":"unwound"}"#,
        r#"{"process":100,"thread":100,"depth":2,"function":"shape::draw(int)","module":"/lib/libdraw.so.1","address":8192,"caller":"jumps","start_ns":2600,"duration_ns":100,"end":"return"}"#,
        r#"{"process":100,"thread":101,"depth":0,"function":"work","module":"/bin/program","address":4288,"caller":null,"start_ns":3000,"duration_ns":2997000,"end":"exit"}"#,
        r#"{"process":100,"thread":101,"depth":1,"function":"shape::draw(int)","module":"/lib/libdraw.so.1","address":8192,"caller":"work","start_ns":3500,"duration_ns":100,"end":"return"}"#,
        r#"{"process":100,"thread":100,"depth":1,"function":"work","module":"/bin/program","address":4288,"caller":"main","start_ns":4000,"duration_ns":2500000,"end":"return"}"#,
    ];
    assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
    let open = printed(&sample().finish(), &["--format", "jsonl", "--function", "main"]);
    let end = r#""start_ns":1000,"duration_ns":null,"end":null}"#;
    assert!(open.trim_end().ends_with(end), "{open}");
}

#[test]
fn comma_separated_values() {
    let text = printed(&sample().finish(), &["--format", "csv", "--depth", "1"]);
    let expected = "\
process,thread,depth,function,module,address,caller,start_ns,duration_ns,end
100,100,0,main,/bin/program,4096,,1000,,
100,101,0,work,/bin/program,4288,,3000,,
";
    assert_eq!(text, expected);
}

#[test]
fn folded_stacks() {
    let expected = "\
program;main 497100
program;main;jumps 1400
program;main;jumps;shape::draw(int) 100
program;main;shape::draw(int) 300
program;main;tail 100
program;main;work 2500000
program;work 2996900
program;work;shape::draw(int) 100
";
    // It makes no difference whether the process or the trace ended then.
    for trace in [finished(), sample().finish()] {
        assert_eq!(printed(&trace, &["--format", "folded"]), expected);
    }
}

#[test]
fn folded_stacks_of_calls() {
    let expected = "\
program;main 1
program;main;jumps 1
program;main;jumps;shape::draw(int) 1
program;main;shape::draw(int) 1
program;main;tail 1
program;main;work 1
program;work 1
program;work;shape::draw(int) 1
";
    assert_eq!(printed(&finished(), &["--format", "folded", "--weight", "calls"]), expected);
}

#[test]
fn events_for_chrome() {
    let text = printed(&sample().finish(), &["--format", "chrome"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let phases: Vec<_> = events.iter().map(|event| event["ph"].as_str().unwrap()).collect();
    assert_eq!(phases, ["M", "M", "M", "B", "X", "X", "X", "X", "B", "X", "X"]);
    assert_eq!(events[0]["args"]["name"], "program");
    assert_eq!(events[2]["args"]["name"], "worker");
    assert_eq!(
        events[4].to_string(),
        r#"{"args":{"end":"tail-call"},"cat":"/bin/program","dur":0.1,"name":"tail","ph":"X","pid":100,"tid":100,"ts":1.1}"#
    );
}

/// The functions and starts of the calls that options leave.
fn selected(arguments: &[&str]) -> Vec<(String, u64)> {
    let lines = printed(&finished(), &[&["--format", "jsonl"], arguments].concat());
    let values = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let pair = |value: serde_json::Value| {
        (value["function"].as_str().unwrap().to_owned(), value["start_ns"].as_u64().unwrap())
    };
    values.map(pair).collect()
}

#[test]
fn only_some_calls() {
    let table: [(&[&str], &[u64]); 14] = [
        (&["--function", "shape::*"], &[1_200, 2_600, 3_500]),
        (&["--function", "shape::draw"], &[1_200, 2_600, 3_500]),
        (&["--function", "_ZN5shape*"], &[1_200, 2_600, 3_500]),
        (&["--function", "main", "--function", "jumps"], &[1_000, 2_500]),
        (&["--function", "@libdraw*"], &[1_200, 2_600, 3_500]),
        (&["--module", "libdraw.so.1"], &[1_200, 2_600, 3_500]),
        (&["--module", "/bin/*", "--depth", "1"], &[1_000, 3_000]),
        (&["--thread", "101"], &[3_000, 3_500]),
        (&["--thread", "work*"], &[3_000, 3_500]),
        (&["--caller", "jumps"], &[2_600]),
        (&["--min-duration", "1ms"], &[1_000, 3_000, 4_000]),
        (&["--from", "2.6us", "--to", "3.5us"], &[2_600, 3_000]),
        (&["--to", "0"], &[]),
        (&["--depth", "0"], &[]),
    ];
    for (arguments, expected) in table {
        let starts: Vec<u64> = selected(arguments).into_iter().map(|(_, start)| start).collect();
        assert_eq!(starts, expected, "{arguments:?}");
    }
}

/// What the kernel does has no source lines, and nobody misses them.
#[test]
fn lines_of_the_kernel() {
    let mut writer = Writer::new();
    writer.process(100, 1, 0, "/bin/program");
    let call = writer.function_at("[kernel]", "vfs_read", 0x1000, 1);
    let thread = writer.thread(100, 100);
    writer.call(thread, call).from(1_000).to(1_500).slot(TOP).end(End::Return);
    let text = printed(&writer.finish(), &["--lines", "--fields", "none"]);
    assert_eq!(text, "# FUNCTION\nvfs_read();\n");
}

/// What a hidden function called is its caller's, in every format, and so is its own time.
#[test]
fn hidden_functions() {
    let table: [(&[&str], &[u64]); 4] = [
        (&["--hide", "main", "--hide", "work"], &[1_100, 1_200, 2_500, 2_600, 3_500]),
        (&["--hide", "jumps", "--caller", "main"], &[1_100, 1_200, 2_600, 4_000]),
        (&["--hide", "jumps", "--depth", "1"], &[1_000, 3_000]),
        (
            &["--hide", "^(main|jumps)$", "--regex", "--depth", "1"],
            &[1_100, 1_200, 2_600, 3_000, 4_000],
        ),
    ];
    for (arguments, expected) in table {
        let starts: Vec<u64> = selected(arguments).into_iter().map(|(_, start)| start).collect();
        assert_eq!(starts, expected, "{arguments:?}");
    }
    let text = printed(&finished(), &["--thread", "100", "--hide", "jumps"]);
    assert!(text.contains("[    100] |   shape::draw(int);\n  2.500 ms"), "{text}");
    let folded = |arguments: &[&str]| {
        let arguments = [&["--format", "folded", "--weight", "time", "--thread", "100"], arguments];
        printed(&finished(), &arguments.concat())
    };
    let own = |text: &str, chain: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("program;{chain} ")));
        line.map_or(0, |number| number.parse::<u64>().unwrap())
    };
    let (all, without) = (folded(&[]), folded(&["--hide", "jumps"]));
    let sum = own(&all, "main") + own(&all, "main;jumps");
    assert_eq!(own(&without, "main"), sum, "{all}{without}");
    let row = |arguments: &[&str]| {
        let arguments = [&["--format", "csv", "--thread", "100"], arguments].concat();
        let csv = stats(&arguments);
        let of_main = csv.lines().find(|line| line.starts_with("main,")).unwrap();
        let fields: Vec<u64> = of_main.split(',').filter_map(|word| word.parse().ok()).collect();
        (csv.clone(), fields)
    };
    let ((_, before), (csv, after)) = (row(&[]), row(&["--hide", "jumps"]));
    assert!(!csv.contains("jumps"), "{csv}");
    // Total and own time.
    assert_eq!((after[2], after[3]), (before[2], before[3] + 1_500 - 100), "{before:?} {after:?}");
}

#[test]
fn text_is_indented_by_what_is_printed() {
    let expected = "\
# DURATION     TID     FUNCTION
           [    100] | jumps() {
  0.100 us [    100] |   shape::draw(int);
  1.500 us [    100] | } /* jumps: unwound */
";
    let arguments = ["--function", "jumps", "--function", "shape*", "--from", "2us", "--to", "3us"];
    assert_eq!(printed(&finished(), &arguments), expected);
}

#[test]
fn a_pattern_that_means_nothing_is_warned_of() {
    let outcome =
        replay(&finished(), &["--function", "nothing", "--thread", "7", "--hide", "nobody"]);
    assert_eq!(outcome.code, Some(0));
    let expected = "\
mcount: warning: t.mcount: no function matches nothing
mcount: warning: t.mcount: no function matches nobody
mcount: warning: t.mcount: no thread matches 7
";
    assert_eq!(outcome.stderr, expected);
}

#[test]
fn names_cannot_take_over_the_terminal() {
    let mut writer = Writer::new();
    let function = writer.function("/bin/\u{1b}[2J", "evil\u{1b}[31m\n\"name\"");
    let thread = writer.thread(1, 1);
    writer.call(thread, function).from(1).to(2).slot(TOP).end(End::Return);
    let bytes = writer.finish();
    for format in ["text", "jsonl", "csv", "folded", "chrome"] {
        let text = printed(&bytes, &["--format", format]);
        assert!(!text.contains('\u{1b}'), "{format}: {text}");
    }
    assert_eq!(printed(&bytes, &["--format", "jsonl"]).lines().count(), 1);
}

#[test]
fn what_is_missing_is_said() {
    let mut writer = sample();
    writer.note("the disk was full").header(mcount_trace::layout::header::DROPPED, 12);
    let mut bytes = writer.finish();
    bytes.truncate(bytes.len() - 70_000);
    let outcome = replay(&bytes, &["--depth", "1"]);
    assert_eq!(outcome.code, Some(0));
    let expected = "\
mcount: warning: t.mcount: the disk was full
mcount: warning: t.mcount: 12 calls could not be recorded
mcount: warning: t.mcount: 2 pieces of the file are missing: it was cut off
";
    assert_eq!(outcome.stderr, expected);
}

#[test]
fn what_is_no_trace() {
    let mut newer = finished();
    newer[12] = 2;
    let mut odd = finished();
    odd[16] = 1;
    let table: [(&[u8], &str); 5] = [
        (b"", "not a trace; mcount trace -- PROGRAM writes one"),
        (b"\x7fELF", "not a trace; mcount trace -- PROGRAM writes one"),
        (b"\x89MCOUNT\n\x04\x03\x02\x01", "a trace that ends within its header"),
        (&newer, "a trace of version 2: this program knows version 1"),
        (&odd, "a trace with chunks of 65537 bytes"),
    ];
    for (bytes, expected) in table {
        let outcome = replay(bytes, &[]);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""));
        assert_eq!(outcome.stderr, format!("mcount: t.mcount: {expected}\n"));
    }
}

/// What `mcount stats ARGUMENT… t.mcount` prints of the sample.
fn stats(arguments: &[&str]) -> String {
    let room = Room::new().unwrap();
    room.put("t.mcount", &finished()).unwrap();
    let arguments = [&["stats"], arguments, &["t.mcount"]].concat();
    let outcome = room.run(Path::new(env!("CARGO_BIN_EXE_mcount")), &arguments).unwrap();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    outcome.stdout
}

#[test]
fn a_row_for_each_function() {
    let expected = "\
function,module,address,calls,total_ns,self_ns,mean_ns,min_ns,median_ns,p99_ns,max_ns,running_ns,waiting_ns
work,/bin/program,4288,2,5497000,5496900,2748500,2500000,2500000,2997000,2997000,,
main,/bin/program,4096,1,2999000,497100,2999000,2999000,2999000,2999000,2999000,,
jumps,/bin/program,4224,1,1500,1400,1500,1500,1500,1500,1500,,
shape::draw(int),/lib/libdraw.so.1,8192,3,500,500,166,100,100,300,300,,
tail,/bin/program,4160,1,100,100,100,100,100,100,100,,
";
    assert_eq!(stats(&["--format", "csv"]), expected);
    let first = |column| {
        let text = stats(&["--sort", column]);
        let (_, rows) = text.split_once("FUNCTION\n").unwrap();
        rows.lines().next().and_then(|line| line.split_whitespace().last()).unwrap().to_owned()
    };
    let table =
        [("calls", "shape::draw"), ("self", "work"), ("max", "main"), ("function", "jumps")];
    for (column, function) in table {
        assert_eq!(first(column), function, "{column}");
    }
    let json = stats(&["--format", "jsonl", "--function", "main"]);
    assert_eq!(
        json,
        "{\"function\":\"main\",\"module\":\"/bin/program\",\"address\":4096,\"calls\":1,\"total_ns\":2999000,\"self_ns\":497100,\"mean_ns\":2999000,\"min_ns\":2999000,\"median_ns\":2999000,\"p99_ns\":2999000,\"max_ns\":2999000,\"running_ns\":null,\"waiting_ns\":null}\n"
    );
}

/// A trace of entries has no durations, and one without a clock has none that mean anything.
#[test]
fn durations_that_were_not_recorded() {
    use mcount_trace::layout::{clock, flags, header};
    let room = Room::new().unwrap();
    let entries = flags::FINISHED | flags::ENTRIES;
    for (offset, value) in [(header::FLAGS, entries), (header::CLOCK, clock::NONE)] {
        let mut writer = sample();
        writer.header(offset, value);
        room.put("t.mcount", &writer.finish()).unwrap();
        let mcount = Path::new(env!("CARGO_BIN_EXE_mcount"));
        let print = |format| room.run(mcount, &["stats", "--format", format, "t.mcount"]).unwrap();
        let csv = print("csv").stdout;
        let rows: Vec<&str> = csv.lines().skip(1).collect();
        assert_eq!(rows[0], "shape::draw(int),/lib/libdraw.so.1,8192,3,,,,,,,,,", "{csv}");
        let json = print("jsonl").stdout;
        assert_eq!(json.matches("\"median_ns\":null").count(), rows.len(), "{json}");
        let text = print("text").stdout;
        let row: Vec<&str> = text.lines().nth(5).unwrap().split_whitespace().take(8).collect();
        assert_eq!(row, ["3", "-", "-", "-", "-", "-", "-", "-"], "{text}");
    }
}

/// Counts 200,000 calls, in dozens of chunks.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const PROGRAM: &str = "
__attribute__((noinline)) int leaf(int x) { __asm__ volatile(\"\"); return x + 1; }
__attribute__((noinline)) int middle(int x) { return leaf(x) + leaf(x + 1); }
int main(void) { int n = 0; for (int i = 0; i < 100000; i++) n += middle(i); return n == 7; }
";

/// Every call of a real trace is where it belongs, also the first of each chunk.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn a_real_trace_of_many_chunks() {
    need(["gcc"]);
    let room = Room::new().unwrap();
    room.put("p.c", PROGRAM.as_bytes()).unwrap();
    let flags = ["-O2", "-fpatchable-function-entry=5", "-o", "p", "p.c"];
    assert_eq!(room.run(Path::new("gcc"), &flags).unwrap().code, Some(0));
    let mcount = Path::new(env!("CARGO_BIN_EXE_mcount"));
    let traced = room.run(mcount, &["trace", "--plain", "-o", "t.mcount", "--", "./p"]).unwrap();
    assert_eq!(traced.code, Some(0), "{}", traced.stderr);
    let lines = room.run(mcount, &["replay", "--format", "csv", "t.mcount"]).unwrap().stdout;
    let mut counts = std::collections::BTreeMap::new();
    for line in lines.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        *counts.entry((fields[2], fields[3], fields[6], fields[9])).or_insert(0) += 1;
    }
    let expected = [
        (("0", "main", "", "return"), 1),
        (("1", "middle", "main", "return"), 100_000),
        (("2", "leaf", "middle", "return"), 200_000),
    ];
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), expected);
}

/// A room with a trace of 600,000 calls, which it takes a while to print.
fn with_long_trace() -> Room {
    let mut writer = Writer::new();
    let (thread, function) = (writer.thread(1, 1), writer.function("/bin/x", "work"));
    for start in (0..12_000_000).step_by(20) {
        writer.call(thread, function).from(start).to(start + 9).slot(TOP).end(End::Return);
    }
    let room = Room::new().unwrap();
    room.put("t.mcount", &writer.finish()).unwrap();
    room
}

/// What was being written goes, if a signal ends it.
#[test]
fn an_interruption_leaves_nothing_half_written() {
    let room = with_long_trace();
    for (format, signal) in [("uftrace", "INT"), ("jsonl", "TERM"), ("parquet", "INT")] {
        let mcount = |out: &Path| {
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mcount"));
            command.args(["replay", "--format", format, "--output"]).arg(out);
            command.arg(room.path("t.mcount"));
            command
        };
        let [whole, folder] =
            ["whole", "folder"].map(|name| room.path(&format!("{format}-{name}")));
        std::fs::create_dir(&folder).unwrap();
        assert!(mcount(&whole).status().unwrap().success());
        let out = folder.join("out");
        let mut child = mcount(&out).spawn().unwrap();
        let count = || std::fs::read_dir(&folder).unwrap().count();
        while count() == 0 && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        let id = child.id().to_string();
        let _ = std::process::Command::new("kill").args(["-s", signal, &id]).status();
        let ended = child.wait().unwrap();
        // If it was quicker, all is there, also if the signal came just then.
        if ended.success() || count() != 0 {
            assert_eq!(count(), 1, "{format}: {ended}");
            assert_eq!(sizes(&out), sizes(&whole), "{format}: {ended}");
        }
    }
}

/// Others may write into the same folder of tables: a signal takes away only what this run wrote.
#[test]
fn an_interruption_leaves_the_files_of_others() {
    let room = with_long_trace();
    let script = "\"$0\" replay --format parquet -o tables t.mcount & \
                  until [ -d tables ]; do :; done; : > tables/others; kill -TERM $!; wait $!";
    let outcome = room.run(Path::new("sh"), &["-c", script, env!("CARGO_BIN_EXE_mcount")]).unwrap();
    assert!(room.path("tables/others").exists(), "{outcome:?}");
    if outcome.code != Some(0) {
        assert_eq!(std::fs::read_dir(room.path("tables")).unwrap().count(), 1, "{outcome:?}");
    }
}

/// The sizes of a file, or of those in a folder.
fn sizes(path: &Path) -> Vec<u64> {
    if path.is_file() {
        return vec![path.metadata().unwrap().len()];
    }
    let mut names: Vec<_> =
        std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names.iter().flat_map(|name| sizes(name)).collect()
}

/// A trace comes from standard input as well.
#[test]
fn standard_input() {
    let room = Room::new().unwrap();
    room.put("t.mcount", &sample().finish()).unwrap();
    let script = "\"$0\" $1 t.mcount > file && \"$0\" $1 - < t.mcount > input";
    for command in ["replay", "replay --format jsonl", "stats", "graph"] {
        let arguments = ["-c", script, env!("CARGO_BIN_EXE_mcount"), command];
        let outcome = room.run(Path::new("sh"), &arguments).unwrap();
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let [file, input] = ["file", "input"].map(|name| room.get(name).unwrap());
        assert!(!file.is_empty() && file == input, "{command}");
    }
}

/// A signal that the caller has it ignore, as `nohup` does, changes nothing.
#[test]
fn an_ignored_signal_leaves_what_is_written() {
    let room = with_long_trace();
    let script = "trap '' INT; mkdir made; \"$0\" replay --format jsonl -o made/out t.mcount & \
                  while [ -z \"$(ls -A made)\" ]; do :; done; kill -INT $!; wait $!";
    let outcome = room.run(Path::new("sh"), &["-c", script, env!("CARGO_BIN_EXE_mcount")]).unwrap();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    let lines = room.get("made/out").unwrap().split(|byte| *byte == b'\n').count();
    assert_eq!(lines, 600_001);
}

/// The trace that is read isn't written over.
#[test]
fn no_trace_is_written_over_by_what_is_made_of_it() {
    let room = Room::new().unwrap();
    let trace = sample().finish();
    room.put("t.mcount", &trace).unwrap();
    std::os::unix::fs::symlink("t.mcount", room.path("link")).unwrap();
    for output in ["t.mcount", "./t.mcount", "link"] {
        for command in [&["replay", "--format", "jsonl"][..], &["report"]] {
            let arguments = [command, &["--output", output, "t.mcount"]].concat();
            let outcome = room.run(Path::new(env!("CARGO_BIN_EXE_mcount")), &arguments).unwrap();
            assert_eq!(outcome.code, Some(2), "{outcome:?}");
            assert!(outcome.stderr.ends_with("is the file that is read: choose another name\n"));
            assert_eq!(room.get("t.mcount").unwrap(), trace);
        }
    }
}
