//! Times off the processor: among which calls a reader puts them, and which it skips.

use mcount_trace::layout::header;
use mcount_trace::{End, Trace, Writer};

/// The slot of a call at this depth.
fn slot(depth: u64) -> u64 {
    0x7ffd_1234_5000 - depth * 64
}

/// A writer with functions that are numbered from 1, and a process.
fn writer() -> Writer {
    let mut writer = Writer::new();
    writer.process(100, 1, 0, "/bin/program");
    for name in ["a", "b", "c", "d", "e", "f"] {
        writer.function("/bin/program", name);
    }
    writer
}

#[test]
fn times_off_the_processor_are_beneath_all_that_encloses_them() {
    for mut writer in [writer(), Writer::big_endian()] {
        let thread = writer.thread(100, 100);
        for (depth, function, start, end) in [(1, 2, 12, 20), (0, 1, 10, 30)] {
            writer.call(thread, function).from(start).to(end).slot(slot(depth)).end(End::Return);
        }
        // One that ended by a jump leaves no trace of its end but that of what comes later.
        writer.call(thread, 3).from(40).to(90).slot(slot(1)).end(End::Unwound);
        writer.call(thread, 4).from(50).to(60).slot(slot(1)).end(End::Return);
        for (start, end) in [(55, 56), (14, 16), (25, 26), (1, 5), (8, 11), (45, 46)] {
            writer.off_cpu(thread, 6, start, end);
        }
        let silent = writer.thread(100, 200);
        writer.off_cpu(silent, 6, 1, 2);
        let bytes = writer.finish();
        let trace = Trace::parse(&bytes).unwrap();
        let calls: Vec<_> =
            trace.calls().map(|c| (c.depth, c.function, c.caller, c.start, c.end)).collect();
        let expected = [
            (0, 6, None, 8, Some(11)),
            (0, 1, None, 10, Some(30)),
            (1, 2, Some(1), 12, Some(20)),
            (2, 6, Some(2), 14, Some(16)),
            (1, 6, Some(1), 25, Some(26)),
            (0, 3, None, 40, Some(50)),
            (1, 6, Some(3), 45, Some(46)),
            (0, 4, None, 50, Some(60)),
            (1, 6, Some(4), 55, Some(56)),
        ];
        assert_eq!(calls, expected);
        assert_eq!((trace.damage.is_any(), trace.count(0)), (false, 9));
    }
}

#[test]
fn times_off_the_processor_are_those_of_the_thread_that_had_the_id_then() {
    let mut writer = writer();
    let (first, second) = (writer.thread(100, 101), writer.thread(100, 101));
    writer.call(second, 2).from(50).to(60).slot(slot(0)).end(End::Return);
    writer.call(first, 1).from(10).to(20).slot(slot(0)).end(End::Return);
    for (start, end) in [(1, 2), (15, 16), (40, 55), (70, 80)] {
        writer.off_cpu(first, 6, start, end);
    }
    let bytes = writer.finish();
    let trace = Trace::parse(&bytes).unwrap();
    let of = |thread| -> Vec<u64> {
        let calls = trace.thread_calls(thread).into_iter().flatten();
        calls.filter(|call| call.function == 6).map(|call| call.start).collect()
    };
    assert_eq!((of(0), of(1)), (vec![15], vec![40, 70]));
}

#[test]
fn times_off_the_processor_end_with_the_thread_and_the_program() {
    let ends: [fn(&mut Writer); 3] = [
        |writer| _ = writer.thread_end(100, 101, 50),
        |writer| _ = writer.process_end(100, 0, 50),
        // Another program is executed.
        |writer| _ = writer.process(100, 1, 50, "/other"),
    ];
    for end in ends {
        let mut writer = writer();
        writer.process(100, 1, 5, "/program");
        end(&mut writer);
        let thread = writer.thread(100, 101);
        writer.call(thread, 1).from(10).to(20).slot(slot(0)).end(End::Return);
        for (start, end) in [(30, 40), (49, 60), (50, 60), (70, 80)] {
            writer.off_cpu(thread, 6, start, end);
        }
        let bytes = writer.finish();
        let trace = Trace::parse(&bytes).unwrap();
        assert_eq!(trace.calls().map(|call| call.start).collect::<Vec<_>>(), [10, 30, 49]);
    }
}

#[test]
fn times_off_the_processor_are_forgotten_with_the_calls_of_a_ring() {
    for (ring, expected) in [(0, vec![1010, 1020, 1032]), (4, vec![1010, 1032])] {
        let mut writer = writer();
        writer.header(header::RING, ring);
        let thread = writer.thread(100, 100);
        writer.call(thread, 1).from(1010).to(1030).slot(slot(0)).end(End::Return);
        writer.off_cpu(thread, 6, 1020, 1025).off_cpu(thread, 6, 1032, 1040);
        let bytes = writer.finish();
        let trace = Trace::parse(&bytes).unwrap();
        assert_eq!(trace.calls().map(|call| call.start).collect::<Vec<_>>(), expected);
    }
}
