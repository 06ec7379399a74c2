//! Traces that lie: damaged at random, cut off anywhere, made of random records, or made to take long.
//! Reading them neither panics nor hangs, and gives no more calls than the bytes can hold.
#![expect(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "a test")]

use mcount_trace::layout::{chunk, directory, header};
use mcount_trace::{Call, End, Trace, Visitor, Writer};
use proptest::prelude::*;
use std::time::{Duration, Instant};

const TOP: u64 = 0x7ffd_1234_5000;

/// Reads everything there is, and checks what holds for every trace.
fn read(bytes: &[u8]) {
    let Ok(trace) = Trace::parse(bytes) else { return };
    let mut counts = vec![0; trace.threads.len()];
    let mut latest = vec![0; trace.threads.len()];
    let mut last = (0, 0);
    for call in trace.calls() {
        assert!(last <= (call.start, call.thread));
        last = (call.start, call.thread);
        counts[call.thread] += 1;
        assert!(latest[call.thread] <= call.start);
        latest[call.thread] = call.start;
        assert!(call.end.is_none_or(|end| end >= call.start));
        assert_eq!(call.end.is_some(), call.how.is_some());
        assert_eq!(call.caller.is_some(), call.depth > 0);
        assert!(call.process.is_none_or(|process| process < trace.processes.len()));
        let _ = trace.function(call.function);
        assert!(trace.nanoseconds(call.end.unwrap_or(u64::MAX)) >= trace.nanoseconds(call.start));
    }
    for (thread, count) in counts.into_iter().enumerate() {
        assert_eq!(count, trace.count(thread));
    }
    for (thread, count) in visited(&trace).into_iter().enumerate() {
        assert_eq!(count, trace.count(thread));
    }
    // A record has 16 bytes, an open call has 8 and 8 more for its start.
    assert!(latest.len() * 8 <= bytes.len());
}

/// Reads everything of a trace whose index may lie.
fn read_indexed(bytes: &[u8]) {
    let Ok(trace) = Trace::parse(bytes) else { return };
    let count = trace.calls().count().max(trace.calls_from(100, |_| true).count());
    let visited: u64 = visited(&trace).iter().sum();
    // A record has 16 bytes, an open call has 8 and 8 more for its start, and an index has 32 for what it has.
    assert!(count.max(visited as usize) * 8 <= bytes.len());
}

/// Counts the calls of each thread.
struct Count(Vec<u64>);

impl Visitor for Count {
    type Mark = ();

    fn enter(&mut self, call: &Call, _: Option<()>) {
        assert!(call.end.is_none_or(|end| end >= call.start));
        assert_eq!(call.caller.is_some(), call.depth > 0);
        self.0[call.thread] += 1;
    }

    fn enclose(&mut self, _: &Call, _: Option<()>) {}

    fn leave(&mut self, (): (), _: u64) {}

    fn spend(&mut self, (): (), from: u64, to: u64) {
        assert!(from < to);
    }
}

/// How many calls of each thread are visited from the last to the first.
fn visited(trace: &Trace<'_>) -> Vec<u64> {
    let mut count = Count(vec![0; trace.threads.len()]);
    for mut stretch in trace.stretches(1, |_| true) {
        stretch.tells_times = true;
        trace.visit(&stretch, &mut count);
    }
    count.0
}

/// A trace with something of everything.
fn sample(big_endian: bool) -> Vec<u8> {
    let mut writer = if big_endian { Writer::big_endian() } else { Writer::new() };
    writer.process(100, 1, 0, "/bin/program").process(100, 1, 900, "/bin/other");
    writer.process_end(100, 0, 2000).thread_name(100, 101, 3, "worker").thread_end(100, 101, 950);
    writer.note("a note");
    for name in ["a", "b", "c"] {
        writer.function("/bin/program", name);
    }
    let threads = [writer.thread(100, 100), writer.thread(100, 101), writer.thread(200, 200)];
    for at in 0..40 {
        let thread = threads[at % 3];
        let (start, slot) =
            (at as u64 * 10, TOP - (at as u64 % 5) * 64 - (at as u64 % 3) * 0x10_0000);
        let how = [End::Return, End::TailCall, End::Unwound, End::Exit][at % 4];
        let call = writer.call(thread, 1 + at as u32 % 3).from(start).to(start + 25).slot(slot);
        if at % 7 == 0 {
            call.owner(threads[0]).end(how);
        } else {
            call.end(how);
        }
        if at % 9 == 0 {
            writer.off_cpu(thread, 3, start + 2, start + 20);
            writer.told((1, 1), 2, (start + 1, Some(start + 30)), &[7; 20]);
        }
        if at == 20 {
            writer.hand_over(threads[1], threads[2]);
            writer.call(threads[0], 1).from(1).to(1 << 50).slot(TOP + 64).end(End::Return);
        }
    }
    writer.open(threads[0], 1, 5, TOP + 128).open(threads[2], 2, 300, TOP - 0x20_0000);
    writer.finish()
}

/// Where something is that is worth damaging: the header, descriptors, and all that isn't 0.
fn places(bytes: &[u8]) -> Vec<usize> {
    let full = |at: &usize| bytes[*at] != 0;
    (0..bytes.len()).filter(|at| *at < 280 || full(at)).collect()
}

/// Numbers that are wrong in an interesting way.
const NUMBERS: [u64; 12] = [
    0,
    1,
    3,
    16,
    0xff,
    0xff_ffff,
    0x0100_0000,
    0xffff_ffff,
    1 << 40,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

#[test]
fn every_byte_damaged() {
    for big_endian in [false, true] {
        let mut bytes = sample(big_endian);
        read(&bytes);
        for at in places(&bytes) {
            let before = bytes[at];
            for value in [before ^ 1, before ^ 0x80, 0, 0xff] {
                bytes[at] = value;
                read(&bytes);
            }
            bytes[at] = before;
        }
    }
}

fn indexed() -> Vec<u8> {
    let mut bytes = sample(false);
    for patch in mcount_trace::index(&bytes.clone()).unwrap_or_default() {
        let (from, to) = (patch.offset as usize, patch.offset as usize + patch.bytes.len());
        bytes.resize(bytes.len().max(to), 0);
        bytes[from..to].copy_from_slice(&patch.bytes);
    }
    assert!(Trace::parse(&bytes).is_ok_and(|trace| trace.has_index()));
    bytes
}

#[test]
fn an_index_that_lies() {
    let mut bytes = indexed();
    let start = bytes.len() - 65_536;
    let places: Vec<usize> = places(&bytes).into_iter().filter(|at| *at >= start).collect();
    for at in places {
        let before = bytes[at];
        for value in [before ^ 1, before ^ 0x80, 0, 0xff, before.wrapping_add(1)] {
            bytes[at] = value;
            read_indexed(&bytes);
        }
        bytes[at] = before;
        let word = at & !7;
        let before: [u8; 8] = bytes[word..word + 8].try_into().unwrap_or_default();
        for number in NUMBERS {
            bytes[word..word + 8].copy_from_slice(&number.to_le_bytes());
            read_indexed(&bytes);
        }
        bytes[word..word + 8].copy_from_slice(&before);
    }
    for size in NUMBERS {
        bytes[header::INDEX..header::INDEX + 8].copy_from_slice(&size.to_le_bytes());
        read_indexed(&bytes);
    }
}

#[test]
fn cut_off_anywhere() {
    let bytes = sample(false);
    let near = places(&bytes).into_iter().flat_map(|at| [at, at + 1]);
    for end in near.chain((0..bytes.len()).step_by(4096)) {
        read(&bytes[..end]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn some_numbers_damaged(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..8),
        big_endian: bool,
    ) {
        let mut bytes = sample(big_endian);
        let places = places(&bytes);
        for (place, number) in damage {
            let at = *place.get(&places) & !7;
            bytes[at..at + 8].copy_from_slice(&number.get(&NUMBERS).to_le_bytes());
        }
        read(&bytes);
    }

    #[test]
    fn random_records(records in prop::collection::vec((word(), word()), 1..400)) {
        let mut writer = Writer::new();
        let threads = [writer.thread(1, 1), writer.thread(1, 2)];
        for (first, second) in records {
            writer.record(threads[usize::from(second & 64 != 0)], first, second);
        }
        writer.open(threads[0], 1, 50, TOP).open(threads[0], 2, 60, TOP - 64);
        read(&writer.finish());
    }

    /// Random calls, properly nested, come out as they were made.
    #[test]
    fn nested_calls_come_back(steps in prop::collection::vec((any::<bool>(), 0_u64..3), 1..300)) {
        let mut writer = Writer::new();
        let thread = writer.thread(1, 1);
        let (mut now, mut stack, mut expected) = (1, Vec::new(), Vec::new());
        for (is_call, wait) in steps {
            // Calls of a function in one tick with their caller's end cannot be told apart.
            now += 1 + wait;
            if is_call {
                expected.push((stack.len(), now, 0));
                stack.push(expected.len() - 1);
            } else if let Some(at) = stack.pop() {
                expected[at].2 = now;
                let slot = TOP - stack.len() as u64 * 32;
                let (_, start, end) = expected[at];
                writer.call(thread, 1).from(start).to(end).slot(slot).end(End::Return);
            }
        }
        for (depth, at) in stack.iter().enumerate() {
            writer.open(thread, 1, expected[*at].1, TOP - depth as u64 * 32);
        }
        let bytes = writer.finish();
        let trace = Trace::parse(&bytes).unwrap();
        let found: Vec<_> =
            trace.calls().map(|call| (call.depth, call.start, call.end.unwrap_or(0))).collect();
        prop_assert_eq!(found, expected);
    }
}

/// Words that are often special records, small numbers or times that go backwards.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0_u64..8,
        (0_u64..8, 0_u64..4).prop_map(|(kind, value)| kind << 24 | value << 32),
        (0_u64..100, 1_u64..4).prop_map(|(ticks, low)| ticks << 24 | low),
        (0_u64..100, 0_u64..16).prop_map(|(ticks, low)| ticks << 24 | low),
    ]
}

fn is_read_soon(writer: Writer) {
    let bytes = writer.finish();
    let start = Instant::now();
    read(&bytes);
    let time = start.elapsed();
    assert!(time < Duration::from_secs(20), "{time:?}");
}

const MANY: u64 = 300_000;

#[test]
fn calls_that_all_overlap() {
    let mut writer = Writer::new();
    let thread = writer.thread(1, 1);
    for at in 0..MANY {
        writer.call(thread, 1).from(at).to(MANY + at).slot(TOP).end(End::Return);
    }
    is_read_soon(writer);
}

#[test]
fn deep_calls_that_others_end_after() {
    let mut writer = Writer::new();
    let thread = writer.thread(1, 1);
    for at in (0..MANY).rev() {
        writer.call(thread, 1).from(at).to(5 * MANY - at).slot(TOP).end(End::Return);
    }
    for at in 0..MANY {
        writer.call(thread, 2).from(MANY + at).to(6 * MANY + at).slot(TOP).end(End::Return);
    }
    is_read_soon(writer);
}

#[test]
fn many_open_calls() {
    let mut writer = Writer::new();
    let thread = writer.thread(1, 1);
    for at in 0..MANY {
        writer.open(thread, 1, 2 * at, TOP - at * 8);
        writer
            .call(thread, 2)
            .from(2 * at + 1)
            .to(2 * at + 1)
            .slot(TOP - at * 8 - 8)
            .end(End::Return);
    }
    is_read_soon(writer);
}

#[test]
fn many_open_calls_of_strange_stacks() {
    let mut writer = Writer::new();
    let thread = writer.thread(1, 1);
    for at in 0..MANY {
        let slot = TOP - at % 8 * 0x20_0000 - at * 8;
        writer.call(thread, 1).from(at).to(MANY + at).slot(slot).end(End::Unwound);
    }
    is_read_soon(writer);
}

#[test]
fn a_thread_in_every_record() {
    let mut writer = Writer::new();
    let threads: Vec<_> = (0..60_000).map(|at| writer.thread(1, at)).collect();
    let mut last = None;
    for thread in threads {
        if let Some(last) = last {
            writer.hand_over(last, thread);
        }
        writer.thread_end(1, thread.number(), 5);
        writer.call(thread, 1).from(3).to(4).slot(TOP).end(End::Unwound);
        last = Some(thread);
    }
    is_read_soon(writer);
}

/// Directories that name chunks far behind the end.
#[test]
fn more_chunks_than_bytes() {
    let mut bytes = sample(false);
    bytes[header::NEXT_CHUNK..header::NEXT_CHUNK + 8].fill(0xff);
    for k in 1..1024 {
        let at = 65_536 + k * directory::DESCRIPTOR_SIZE;
        bytes[at..at + 4].copy_from_slice(&chunk::CALLS.to_le_bytes());
    }
    read(&bytes);
    let trace = Trace::parse(&bytes).unwrap();
    assert!(trace.damage.missing_chunks > 900);
}

/// A traced program can write into the header. What it says there isn't believed when an index is added.
#[test]
fn counts_that_lie_get_no_index() {
    for count in [1_000_000, 1 << 47, 1 << 60, u64::MAX] {
        let mut writer = Writer::new();
        let main = writer.function("program", "main");
        let thread = writer.thread(1, 1);
        writer.call(thread, main).from(10).to(20).slot(0x7ffe_0000).end(End::Return);
        writer.header(header::NEXT_CHUNK, count);
        let patches = mcount_trace::index(&writer.finish()).unwrap();
        assert!(patches.is_empty(), "{count}: {} patches", patches.len());
    }
}
