//! What a reader makes of a trace: order, depth, caller and end of calls, as tables. Each trace is
//! made by the writer.
#![expect(clippy::unwrap_used, reason = "a test")]

use mcount_trace::layout::{header, special};
use mcount_trace::{Call, End, Trace, Writer};

const TOP: u64 = 0x7ffd_1234_5000;

/// The slot of a call at this depth.
fn slot(depth: u64) -> u64 {
    TOP - depth * 64
}

/// A writer with the functions `a` to `f`, numbered from 1, and a process.
fn writer() -> Writer {
    let mut writer = Writer::new();
    writer.process(100, 1, 0, "/bin/program");
    for name in ["a", "b", "c", "d", "e", "f"] {
        writer.function("/bin/program", name);
    }
    writer
}

/// A call of a table: depth, function, start, end, how it ended.
type Row = (usize, &'static str, u64, Option<u64>, Option<End>);

fn name(trace: &Trace<'_>, number: u32) -> &'static str {
    let name = trace.function(number).map(|function| function.name);
    ["a", "b", "c", "d", "e", "f"].into_iter().find(|n| Some(n.as_bytes()) == name).unwrap_or("?")
}

fn row(trace: &Trace<'_>, call: &Call) -> Row {
    (call.depth, name(trace, call.function), call.start, call.end, call.how)
}

/// What a trace is read as, thread by thread; the same comes out of all threads together.
fn rows(bytes: &[u8]) -> Vec<Row> {
    let trace = Trace::parse(bytes).unwrap();
    assert_eq!(trace.damage, mcount_trace::Damage::default());
    let mut rows = Vec::new();
    let mut counts = 0;
    for thread in 0..trace.threads.len() {
        let calls = trace.thread_calls(thread).into_iter().flatten();
        rows.extend(calls.map(|call| row(&trace, &call)));
        counts += trace.count(thread);
    }
    assert_eq!(rows.len() as u64, counts);
    let mut together: Vec<Row> = trace.calls().map(|call| row(&trace, &call)).collect();
    assert!(together.is_sorted_by_key(|(_, _, start, ..)| *start));
    let mut sorted = rows.clone();
    sorted.sort_by_key(|row| format!("{row:?}"));
    together.sort_by_key(|row| format!("{row:?}"));
    assert_eq!(together, sorted);
    rows
}

const RETURN: Option<End> = Some(End::Return);
const TAIL: Option<End> = Some(End::TailCall);
const UNWOUND: Option<End> = Some(End::Unwound);
const EXIT: Option<End> = Some(End::Exit);

/// A trace of one thread: (depth of the slot, function, start, end, how), in the order of ends.
fn one_thread(calls: &[(u64, u32, u64, u64, End)]) -> Writer {
    let mut writer = writer();
    let thread = writer.thread(100, 100);
    for (depth, function, start, end, how) in calls {
        writer.call(thread, *function).from(*start).to(*end).slot(slot(*depth)).end(*how);
    }
    writer
}

#[test]
fn nested_calls() {
    let calls = [
        (2, 3, 12, 14, End::Return),
        (2, 4, 15, 18, End::Return),
        (1, 2, 11, 20, End::Return),
        (1, 2, 21, 22, End::Return),
        (0, 1, 10, 30, End::Return),
    ];
    let expected = [
        (0, "a", 10, Some(30), RETURN),
        (1, "b", 11, Some(20), RETURN),
        (2, "c", 12, Some(14), RETURN),
        (2, "d", 15, Some(18), RETURN),
        (1, "b", 21, Some(22), RETURN),
    ];
    assert_eq!(rows(&one_thread(&calls).finish()), expected);
}

#[test]
fn callers_are_the_calls_around() {
    let calls =
        [(1, 2, 11, 12, End::Return), (0, 1, 10, 13, End::Return), (0, 3, 14, 15, End::Return)];
    let bytes = one_thread(&calls).finish();
    let trace = Trace::parse(&bytes).unwrap();
    let callers: Vec<_> = trace.calls().map(|call| (call.function, call.caller)).collect();
    assert_eq!(callers, [(1, None), (2, Some(1)), (3, None)]);
}

#[test]
fn recursion_over_many_chunks() {
    const DEPTH: u64 = 20_000;
    let mut writer = writer();
    let thread = writer.thread(100, 100);
    for depth in (0..DEPTH).rev() {
        let (start, end) = (depth, 2 * DEPTH - depth);
        writer.call(thread, 1).from(start).to(end).slot(slot(depth)).end(End::Return);
    }
    let rows = rows(&writer.finish());
    assert_eq!(rows.len() as u64, DEPTH);
    for (at, row) in (0..).zip(rows) {
        let depth = usize::try_from(at).unwrap();
        assert_eq!(row, (depth, "a", at, Some(2 * DEPTH - at), RETURN));
    }
}

#[test]
fn a_long_loop_over_many_chunks() {
    let mut writer = writer();
    let thread = writer.thread(100, 100);
    for at in 0..30_000 {
        writer.call(thread, 3).from(10 * at + 4).to(10 * at + 6).slot(slot(2)).end(End::Return);
        writer.call(thread, 2).from(10 * at + 2).to(10 * at + 8).slot(slot(1)).end(End::Return);
    }
    writer.call(thread, 1).from(1).to(300_000).slot(slot(0)).end(End::Return);
    let rows = rows(&writer.finish());
    assert_eq!(rows.len(), 60_001);
    assert_eq!(rows[0], (0, "a", 1, Some(300_000), RETURN));
    for (at, pair) in (0..).zip(rows[1..].chunks(2)) {
        let time = 10 * at;
        assert_eq!(pair[0], (1, "b", time + 2, Some(time + 8), RETURN));
        assert_eq!(pair[1], (2, "c", time + 4, Some(time + 6), RETURN));
    }
}

#[test]
fn ties_are_decided_by_slot_and_order() {
    // All in one tick: a calls b and c, then d follows.
    let calls = [
        (1, 2, 5, 5, End::Return),
        (1, 3, 5, 5, End::Return),
        (0, 1, 5, 5, End::Return),
        (0, 4, 5, 5, End::Return),
    ];
    let expected = [
        (0, "a", 5, Some(5), RETURN),
        (0, "d", 5, Some(5), RETURN),
        (1, "b", 5, Some(5), RETURN),
        (1, "c", 5, Some(5), RETURN),
    ];
    let found = rows(&one_thread(&calls).finish());
    let mut sorted = found.clone();
    sorted.sort_by_key(|(depth, name, ..)| (*depth, *name));
    assert_eq!(sorted, expected);
    assert_eq!(found[0].1, "a");
}

#[test]
fn a_call_that_starts_when_another_ends() {
    // b ended in the tick in which c began: side by side. d ended before its caller c, in one tick.
    let calls = [
        (1, 2, 2, 5, End::Return),
        (2, 4, 7, 7, End::Return),
        (1, 3, 5, 7, End::Return),
        (0, 1, 1, 9, End::Return),
    ];
    let expected = [
        (0, "a", 1, Some(9), RETURN),
        (1, "b", 2, Some(5), RETURN),
        (1, "c", 5, Some(7), RETURN),
        (2, "d", 7, Some(7), RETURN),
    ];
    assert_eq!(rows(&one_thread(&calls).finish()), expected);
}

#[test]
fn tail_calls_are_side_by_side() {
    let calls = [
        (1, 2, 2, 4, End::TailCall),
        (1, 3, 4, 4, End::TailCall),
        (1, 4, 4, 6, End::Return),
        (0, 1, 1, 9, End::Return),
    ];
    let expected = [
        (0, "a", 1, Some(9), RETURN),
        (1, "b", 2, Some(4), TAIL),
        (1, "c", 4, Some(4), TAIL),
        (1, "d", 4, Some(6), RETURN),
    ];
    assert_eq!(rows(&one_thread(&calls).finish()), expected);
}

#[test]
fn slots_wrap_around() {
    // 2^25 bytes of stack are what a record's slot can tell apart.
    let mut writer = writer();
    let thread = writer.thread(100, 100);
    let edge = 0x7ffd_0200_0000;
    writer.call(thread, 2).from(5).to(5).slot(edge - 64).end(End::Return);
    writer.call(thread, 1).from(5).to(5).slot(edge + 64).end(End::Return);
    let expected = [(0, "a", 5, Some(5), RETURN), (1, "b", 5, Some(5), RETURN)];
    assert_eq!(rows(&writer.finish()), expected);
}

#[test]
fn frames_left_by_longjmp_end_when_their_place_is_used() {
    // a calls b, which calls c, which jumps back to a. a calls d. The agent saw it late.
    let calls = [
        (1, 4, 20, 22, End::Return),
        (1, 2, 11, 28, End::Unwound),
        (2, 3, 12, 29, End::Unwound),
        (0, 1, 10, 30, End::Return),
    ];
    let expected = [
        (0, "a", 10, Some(30), RETURN),
        (1, "b", 11, Some(20), UNWOUND),
        (2, "c", 12, Some(20), UNWOUND),
        (1, "d", 20, Some(22), RETURN),
    ];
    assert_eq!(rows(&one_thread(&calls).finish()), expected);
}

#[test]
fn frames_left_by_longjmp_end_with_their_caller() {
    let calls =
        [(0, 1, 10, 20, End::Return), (2, 3, 12, 40, End::Unwound), (1, 2, 11, 41, End::Unwound)];
    let expected = [
        (0, "a", 10, Some(20), RETURN),
        (1, "b", 11, Some(20), UNWOUND),
        (2, "c", 12, Some(20), UNWOUND),
    ];
    assert_eq!(rows(&one_thread(&calls).finish()), expected);
}

#[test]
fn exceptions_end_frames_when_it_is_recorded() {
    // A destructor d runs while the exception passes b.
    let calls = [
        (3, 3, 12, 14, End::Unwound),
        (2, 4, 15, 16, End::Return),
        (1, 2, 11, 17, End::Unwound),
        (0, 1, 10, 20, End::Return),
    ];
    let expected = [
        (0, "a", 10, Some(20), RETURN),
        (1, "b", 11, Some(17), UNWOUND),
        (2, "c", 12, Some(14), UNWOUND),
        (2, "d", 15, Some(16), RETURN),
    ];
    assert_eq!(rows(&one_thread(&calls).finish()), expected);
}

/// `a` and `b` are open, `c` ended.
fn killed() -> (Writer, mcount_trace::ThreadId) {
    let mut writer = writer();
    let thread = writer.thread(100, 101);
    writer.call(thread, 3).from(12).to(14).slot(slot(2)).end(End::Return);
    writer.open(thread, 1, 10, slot(0)).open(thread, 2, 11, slot(1));
    (writer, thread)
}

#[test]
fn open_calls() {
    let ended =
        [(0, "a", 10, None, None), (1, "b", 11, None, None), (2, "c", 12, Some(14), RETURN)];
    assert_eq!(rows(&killed().0.finish()), ended);
}

#[test]
fn open_calls_end_with_their_process() {
    let (mut writer, _) = killed();
    writer.process_end(100, 9, 50);
    let rows = rows(&writer.finish());
    assert_eq!(rows[0], (0, "a", 10, Some(50), EXIT));
    assert_eq!(rows[1], (1, "b", 11, Some(50), EXIT));
}

#[test]
fn open_calls_end_with_exec() {
    let (mut writer, _) = killed();
    writer.process(100, 1, 40, "/bin/other").process_end(100, 0, 50);
    let bytes = writer.finish();
    assert_eq!(rows(&bytes)[0], (0, "a", 10, Some(40), EXIT));
    let trace = Trace::parse(&bytes).unwrap();
    let programs: Vec<_> = trace.processes.iter().map(|p| (p.name, p.end, p.status)).collect();
    assert_eq!(
        programs,
        [(&b"/bin/program"[..], Some(40), None), (&b"/bin/other"[..], Some(50), Some(0))]
    );
    assert!(trace.calls().all(|call| call.process == Some(0)));
}

#[test]
fn open_calls_end_with_their_thread() {
    let (mut writer, _) = killed();
    writer.thread_end(100, 101, 30).process_end(100, 0, 50);
    let rows = rows(&writer.finish());
    assert_eq!(rows[0], (0, "a", 10, Some(30), UNWOUND));
    assert_eq!(rows[1], (1, "b", 11, Some(30), UNWOUND));
}

#[test]
fn a_call_that_was_completed_is_not_open_too() {
    let (mut writer, thread) = killed();
    writer.call(thread, 2).from(11).to(16).slot(slot(1)).end(End::Return);
    let expected =
        [(0, "a", 10, None, None), (1, "b", 11, Some(16), RETURN), (2, "c", 12, Some(14), RETURN)];
    assert_eq!(rows(&writer.finish()), expected);
}

#[test]
fn open_calls_that_a_later_one_proves_gone() {
    let (mut writer, thread) = killed();
    writer.call(thread, 4).from(20).to(21).slot(slot(1)).end(End::Return);
    let expected = [
        (0, "a", 10, None, None),
        (1, "b", 11, Some(20), UNWOUND),
        (2, "c", 12, Some(14), RETURN),
        (1, "d", 20, Some(21), RETURN),
    ];
    assert_eq!(rows(&writer.finish()), expected);
}

#[test]
fn a_call_on_another_stack_proves_nothing() {
    let (mut writer, thread) = killed();
    // A signal handler with a stack of its own.
    writer.call(thread, 4).from(20).to(21).slot(TOP + 0x60_0000).end(End::Return);
    let rows = rows(&writer.finish());
    assert_eq!(rows[1], (1, "b", 11, None, None));
    assert_eq!(rows[3], (2, "d", 20, Some(21), RETURN));
}

#[test]
fn fibres_overlap() {
    // b runs on a fibre of its own and ends after a, which started it.
    let mut writer = writer();
    let thread = writer.thread(100, 100);
    let fibre = TOP + 0x100_0000;
    writer.call(thread, 3).from(20).to(25).slot(fibre - 64).end(End::Return);
    writer.call(thread, 1).from(10).to(30).slot(slot(0)).end(End::Return);
    writer.call(thread, 4).from(32).to(35).slot(fibre - 64).end(End::Return);
    writer.call(thread, 2).from(15).to(40).slot(fibre).end(End::Return);
    let expected = [
        (0, "a", 10, Some(30), RETURN),
        (0, "b", 15, Some(40), RETURN),
        (2, "c", 20, Some(25), RETURN),
        (1, "d", 32, Some(35), RETURN),
    ];
    assert_eq!(rows(&writer.finish()), expected);
}

#[test]
fn a_chunk_that_another_thread_gets() {
    let mut writer = writer();
    let (first, second) = (writer.thread(100, 101), writer.thread(100, 102));
    writer.call(first, 1).from(10).to(11).slot(slot(0)).end(End::Return);
    writer.hand_over(first, second);
    writer.call(second, 2).from(20).to(21).slot(slot(0)).end(End::Return);
    // A chunk of its own, with a later number.
    writer.call(first, 3).from(12).to(13).slot(slot(0)).end(End::Return);
    let bytes = writer.finish();
    let trace = Trace::parse(&bytes).unwrap();
    let found: Vec<_> = trace
        .calls()
        .map(|call| (trace.threads[call.thread].tid, call.function, call.start))
        .collect();
    assert_eq!(found, [(101, 1, 10), (101, 3, 12), (102, 2, 20)]);
}

#[test]
fn a_forked_child_has_a_thread_of_its_own() {
    let mut writer = writer();
    writer.process(200, 100, 15, "/bin/program").process_end(200, 0, 40);
    let (parent, child) = (writer.thread(100, 100), writer.thread(200, 200));
    writer.call(child, 2).from(20).to(21).slot(slot(1)).end(End::Return);
    writer.call(parent, 2).from(20).to(22).slot(slot(1)).end(End::Return);
    writer.call(parent, 1).from(10).to(30).slot(slot(0)).end(End::Return);
    writer.open(child, 3, 22, slot(1));
    let bytes = writer.finish();
    let trace = Trace::parse(&bytes).unwrap();
    let found: Vec<_> = trace
        .calls()
        .map(|call| (trace.processes[call.process.unwrap()].pid, call.depth, call.start, call.end))
        .collect();
    let expected = [
        (100, 0, 10, Some(30)),
        (100, 1, 20, Some(22)),
        (200, 0, 20, Some(21)),
        (200, 0, 22, Some(40)),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_call_that_another_thread_records() {
    let mut writer = writer();
    let (owner, finder) = (writer.thread(100, 101), writer.thread(100, 102));
    writer.call(owner, 2).from(12).to(13).slot(slot(1)).end(End::Return);
    writer.call(finder, 3).from(50).to(60).slot(slot(0)).end(End::Return);
    writer.call(finder, 1).from(10).to(20).slot(slot(0)).owner(owner).end(End::Unwound);
    let expected = [
        (0, "a", 10, Some(20), UNWOUND),
        (1, "b", 12, Some(13), RETURN),
        (0, "c", 50, Some(60), RETURN),
    ];
    assert_eq!(rows(&writer.finish()), expected);
}

#[test]
fn calls_longer_than_a_record_can_say() {
    const LONG: u64 = 1 << 40;
    let calls = [
        (1, 2, 5, 6, End::Return),
        (1, 3, 2 * LONG, 2 * LONG + 7, End::Return),
        (0, 1, 1, 3 * LONG + 1, End::Return),
    ];
    let expected = [
        (0, "a", 1, Some(3 * LONG + 1), RETURN),
        (1, "b", 5, Some(6), RETURN),
        (1, "c", 2 * LONG, Some(2 * LONG + 7), RETURN),
    ];
    assert_eq!(rows(&one_thread(&calls).finish()), expected);
}

#[test]
fn records_that_were_reserved_and_never_written() {
    let mut writer = writer();
    let thread = writer.thread(100, 100);
    writer.record(thread, 0, 0).record(thread, 0, 0);
    writer.call(thread, 1).from(1).to(2).slot(slot(0)).end(End::Return);
    // A special record says something of the next call, whatever lies between; unknown ones nothing.
    let unknown = 200 << special::KIND_SHIFT;
    writer.record(thread, special::START << special::KIND_SHIFT, 3).record(thread, 0, 0);
    writer.record(thread, unknown, 7);
    writer.call(thread, 2).from(5).to(6).slot(slot(0)).end(End::Return);
    let expected = [(0, "a", 1, Some(2), RETURN), (0, "b", 3, Some(6), RETURN)];
    assert_eq!(rows(&writer.finish()), expected);
}

#[test]
fn a_chunk_whose_first_record_was_interrupted() {
    let mut writer = writer();
    let thread = writer.thread(100, 101);
    writer.call(thread, 1).from(1).to(2).slot(slot(0)).end(End::Return);
    let mut bytes = writer.finish();
    let at = bytes.chunks(16).position(|record| record[3] == 1 && record[4] == 1).unwrap() * 16;
    assert_eq!(bytes[at + 8], 101);
    bytes[at..at + 16].fill(0);
    let trace = Trace::parse(&bytes).unwrap();
    assert_eq!(trace.calls().count(), 1);
    assert_eq!((trace.threads[0].number, trace.threads[0].pid), (thread.number(), 100));
}

#[test]
fn the_other_byte_order() {
    let mut writer = Writer::big_endian();
    let function = writer.function("program", "a");
    let thread = writer.thread(7, 8);
    writer.call(thread, function).from(3).to(5).slot(slot(0)).end(End::TailCall);
    writer.open(thread, function, 6, slot(0));
    let bytes = writer.finish();
    let trace = Trace::parse(&bytes).unwrap();
    assert!(trace.header.big_endian);
    let calls: Vec<_> = trace.calls().map(|call| (call.start, call.end, call.how)).collect();
    assert_eq!(calls, [(3, Some(5), TAIL), (6, None, None)]);
    assert_eq!((trace.threads[0].pid, trace.threads[0].tid), (7, 8));
}

#[test]
fn more_chunks_than_one_directory_describes() {
    let mut writer = writer();
    for at in 0..1500 {
        let thread = writer.thread(100, 1000 + at);
        let start = u64::from(at);
        writer.call(thread, 1).from(start).to(start + 1).slot(slot(0)).end(End::Return);
    }
    let bytes = writer.finish();
    let trace = Trace::parse(&bytes).unwrap();
    let starts: Vec<u64> = trace.calls().map(|call| call.start).collect();
    assert_eq!(starts, (0..1500).collect::<Vec<_>>());
}

#[test]
fn threads_get_the_names_of_their_time() {
    let mut writer = writer();
    writer.thread_name(100, 101, 5, "first").thread_end(100, 101, 15);
    writer.thread_name(100, 101, 20, "second").thread_name(100, 102, 30, "silent");
    let (first, second) = (writer.thread(100, 101), writer.thread(100, 101));
    writer.call(first, 1).from(6).to(7).slot(slot(0)).end(End::Return);
    writer.call(second, 1).from(21).to(22).slot(slot(0)).end(End::Return);
    let bytes = writer.finish();
    let trace = Trace::parse(&bytes).unwrap();
    let found: Vec<_> = trace.threads.iter().map(|t| (t.number, t.name, t.end)).collect();
    assert_eq!(
        found,
        [(1, &b"first"[..], Some(15)), (2, &b"second"[..], None), (0, &b"silent"[..], None)]
    );
}

#[test]
fn ticks_become_nanoseconds() {
    // Rate, ticks since the start, nanoseconds.
    let table = [
        (1_000_000_000, 12_345, 12_345),
        (2_000_000_000, 5, 2),
        (3_000_000_000, 3_000_000_001, 1_000_000_000),
        (24_000_000, 24, 1_000),
        (0, 77, 77),
        (1, 2, 2_000_000_000),
        (1 << 40, 1 << 40, 1_000_000_000),
        (1, u64::MAX - 1000, u64::MAX),
    ];
    for (rate, ticks, expected) in table {
        let mut writer = Writer::new();
        writer.header(header::TICKS_PER_SECOND, rate).header(header::START_TICKS, 1000);
        let bytes = writer.finish();
        let trace = Trace::parse(&bytes).unwrap();
        assert_eq!(trace.nanoseconds(1000 + ticks), expected, "{ticks} ticks at {rate}");
        assert_eq!(trace.nanoseconds(999), 0);
    }
}

/// A thread ends in a call, and another one with the same stack tells of that much later.
#[test]
fn a_call_ends_with_its_thread() {
    let mut writer = Writer::new();
    let (first, second) = (writer.thread(1, 2), writer.thread(1, 3));
    writer.call(first, 1).from(12).to(14).slot(TOP - 64).end(End::Return);
    writer.call(second, 1).from(10).to(100).slot(TOP).owner(first).end(End::Unwound);
    writer.thread_end(1, 2, 20);
    let bytes = writer.finish();
    let trace = Trace::parse(&bytes).unwrap();
    let found: Vec<_> = trace.calls().map(|call| (call.start, call.end, call.how)).collect();
    assert_eq!(found, [(10, Some(20), Some(End::Unwound)), (12, Some(14), Some(End::Return))]);
}
