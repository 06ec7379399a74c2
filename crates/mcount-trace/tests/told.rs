//! System calls and times off the processor: among which calls a reader puts them, and which it skips.

use mcount_trace::layout::{header, kind};
use mcount_trace::{Call, End, Enumeration, Signature, Trace, Value, Writer};

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

type Known = (usize, u32, Option<u32>, u64, Option<u64>);

fn known(call: &Call) -> Known {
    (call.depth, call.function, call.caller, call.start, call.end)
}

#[test]
fn system_calls_are_within_what_made_them() {
    for mut writer in [writer(), Writer::big_endian()] {
        let thread = writer.thread(100, 100);
        writer.call(thread, 1).from(10).to(30).slot(slot(0)).end(End::Return);
        writer.off_cpu(thread, 6, 14, 16).off_cpu(thread, 6, 41, 42);
        let own = (100, 100);
        writer.told(own, 5, (12, Some(20)), &[]).told(own, 5, (40, None), &[1; 40]);
        writer.told(own, 5, (2, Some(4)), &[7]);
        let bytes = writer.finish();
        let trace = Trace::parse(&bytes).unwrap();
        let expected = [
            (0, 5, None, 2, Some(4)),
            (0, 1, None, 10, Some(30)),
            (1, 5, Some(1), 12, Some(20)),
            (2, 6, Some(5), 14, Some(16)),
            (0, 5, None, 40, None),
            (1, 6, Some(5), 41, Some(42)),
        ];
        assert_eq!(trace.calls().map(|call| known(&call)).collect::<Vec<_>>(), expected);
        assert_eq!((trace.damage.is_any(), trace.threads.len(), trace.count(0)), (false, 1, 6));
    }
}

#[test]
fn system_calls_end_by_the_next_one_or_with_the_thread() {
    let mut writer = writer();
    let own = (100, 101);
    writer.thread_end(100, 101, 90);
    // A record was lost: the second proves that the first had ended.
    writer.told(own, 5, (10, None), &[]).told(own, 4, (50, None), &[]);
    let bytes = writer.finish();
    let trace = Trace::parse(&bytes).unwrap();
    let expected = [(0, 5, None, 10, Some(50)), (0, 4, None, 50, Some(90))];
    assert_eq!(trace.calls().map(|call| known(&call)).collect::<Vec<_>>(), expected);
}

#[test]
fn threads_that_make_system_calls_alone_are_there() {
    let mut writer = writer();
    writer.process(100, 1, 50, "/other").process_end(100, 0, 200);
    writer.thread_end(100, 101, 30);
    for (own, start, end) in [
        ((100, 100), 10, 20),
        // It executes the other program.
        ((100, 100), 45, 55),
        ((100, 100), 60, 70),
        ((100, 101), 12, 13),
        // Another thread with this number.
        ((100, 101), 40, 41),
        ((300, 300), 1, 2),
    ] {
        writer.told(own, 5, (start, Some(end)), &[]);
    }
    // That of a thread that isn't there is skipped.
    let thread = writer.thread(300, 300);
    let silent = writer.thread(400, 400);
    writer.off_cpu(thread, 6, 1, 2).off_cpu(silent, 6, 1, 2);
    let bytes = writer.finish();
    let trace = Trace::parse(&bytes).unwrap();
    let mut all: Vec<_> = (0..trace.threads.len())
        .filter_map(|at| {
            let of = &trace.threads[at];
            let starts: Vec<u64> = trace.thread_calls(at)?.map(|call| call.start).collect();
            Some((of.pid, of.tid, starts))
        })
        .collect();
    all.sort();
    let expected = [
        (100, 100, vec![10, 45]),
        (100, 100, vec![60]),
        (100, 101, vec![12]),
        (100, 101, vec![40]),
        (300, 300, vec![1, 1]),
    ];
    assert_eq!(all, expected);
}

/// A function whose values follow its records: flags, a pointer, and what it returned.
fn described(writer: &mut Writer, big_endian: bool) -> u32 {
    let number = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let long = |value: u64| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let names = |all: &[(u64, &str)]| {
        let mut bytes = number(u32::try_from(all.len()).unwrap_or(0)).to_vec();
        for (value, name) in all {
            bytes.extend(long(*value));
            bytes.push(u8::try_from(name.len()).unwrap_or(0));
            bytes.extend(name.bytes());
        }
        bytes
    };
    let flags = [
        (3 << 32, "READ"),
        (3 << 32 | 1, "WRITE"),
        (3 << 32 | 2, "BOTH"),
        (0x30 << 32 | 0x30, "SYNC"),
        (0x10 << 32 | 0x10, "DATA"),
        // A mask of nothing would always be there.
        (0, "NONE"),
    ];
    writer.entry(Enumeration { number: 1, enumerators: &names(&flags) });
    let errors = [(2_u64.wrapping_neg(), "-1 ENOENT")];
    writer.entry(Enumeration { number: 2, enumerators: &names(&errors) });
    let function = writer.function("[kernel]", "linux:call");
    let mut values = vec![4, 1, b'f', kind::FLAGS, 4];
    values.extend(number(1));
    values.extend([4, 1, b'p', kind::POINTER, 5, 0, kind::RETURNED, kind::SIGNED]);
    values.extend(number(2));
    writer.entry(Signature { function, values: &values });
    function
}

#[test]
fn values_of_system_calls_follow_them() {
    for big_endian in [false, true] {
        let mut writer = if big_endian { Writer::big_endian() } else { writer() };
        let function = described(&mut writer, big_endian);
        let table: [(u32, &str, i64, Value); 6] = [
            (0, "READ", 5, Value::Signed(5)),
            (1, "WRITE", -2, Value::Enumerator(Some("-1 ENOENT".into()), (-2_i64).cast_unsigned())),
            (0x32, "BOTH|SYNC", -3, Value::Signed(-3)),
            (0x12, "BOTH|DATA", -4096, Value::Signed(-4096)),
            (0x143, "0x143", 0, Value::Signed(0)),
            (0x100, "READ|0x100", i64::MIN, Value::Signed(i64::MIN.into())),
        ];
        let mut start = 0;
        for (flags, _, result, _) in &table {
            let [flags, result] = if big_endian {
                [flags.to_be_bytes().to_vec(), result.to_be_bytes().to_vec()]
            } else {
                [flags.to_le_bytes().to_vec(), result.to_le_bytes().to_vec()]
            };
            let values = [flags, vec![0; 8], result].concat();
            start += 10;
            writer.told((100, 100), function, (start, Some(start + 5)), &values);
        }
        // One whose end wasn't seen has no result, and one that ended early not all arguments.
        writer.told((100, 100), function, (start + 10, None), &[0; 12]);
        writer.told((100, 100), function, (start + 20, Some(start + 21)), &[0; 3]);
        let bytes = writer.finish();
        let trace = Trace::parse(&bytes).unwrap();
        assert!(trace.has_values() && trace.has_results() && trace.has_value("result"));
        let mut values = trace.values();
        let calls: Vec<Call> = trace.calls().collect();
        for (call, (bits, name, _, result)) in calls.iter().zip(&table) {
            let arguments = values.arguments(call).unwrap();
            let flags = Value::Enumerator(Some((*name).to_owned()), u64::from(*bits));
            assert_eq!((arguments[0].name.as_str(), &arguments[0].value), ("f", &flags));
            assert_eq!(arguments[1].value, Value::Pointer(0));
            assert_eq!(values.result(call).as_ref(), Some(result));
        }
        assert_eq!(values.result(&calls[6]), Some(Value::Missing));
        let cut = values.arguments(&calls[7]).unwrap();
        assert_eq!(cut.iter().filter(|one| one.value == Value::Missing).count(), 2);
        assert_eq!(values.result(&calls[7]), Some(Value::Missing));
    }
}

#[test]
fn a_damaged_record_ends_its_chunk() {
    let whole = {
        let mut writer = writer();
        for start in [10, 20, 30] {
            writer.told((100, 100), 5, (start, Some(start + 1)), &[1; 24]);
        }
        writer.finish()
    };
    let record = whole.windows(8).rposition(|bytes| bytes == 20_u64.to_le_bytes()).unwrap();
    for (at, bytes) in [(24, [0; 4]), (28, [0xff; 4]), (28, [1, 4, 0, 0])] {
        let mut damaged = whole.clone();
        damaged[record + at..record + at + 4].copy_from_slice(&bytes);
        let trace = Trace::parse(&damaged).unwrap();
        assert_eq!(trace.calls().map(|call| call.start).collect::<Vec<_>>(), [10]);
    }
}
