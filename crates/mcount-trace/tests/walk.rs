//! Calls that are visited from the last to the first, in stretches, against the same calls in the order of starts.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use mcount_trace::layout::special;
use mcount_trace::{Call, End, Patch, Trace, Visitor, Writer, index};
use proptest::prelude::*;
use std::collections::BTreeMap;

const TOP: u64 = 0x7ffd_1234_5000;

/// Collects what it is shown, and checks the marks.
#[derive(Default)]
struct Seen {
    calls: Vec<Call>,
    open: Vec<u32>,
    /// How long the thread was in each function itself, as it's told.
    own: BTreeMap<(usize, u32), u64>,
    thread: usize,
}

impl Visitor for Seen {
    type Mark = u32;

    fn enter(&mut self, call: &Call, caller: Option<u32>) -> u32 {
        self.calls.push(*call);
        self.enclose(call, caller)
    }

    fn enclose(&mut self, call: &Call, caller: Option<u32>) -> u32 {
        assert_eq!(call.caller, caller);
        self.open.push(call.function);
        call.function
    }

    fn leave(&mut self, mark: u32, _: u64) {
        let place = self.open.iter().rposition(|open| *open == mark).unwrap();
        self.open.remove(place);
    }

    fn spend(&mut self, mark: u32, from: u64, to: u64) {
        assert!(from < to && self.open.contains(&mark));
        *self.own.entry((self.thread, mark)).or_default() += to - from;
    }
}

/// How long threads were in each function itself, as stretches of `size` tell.
fn told_times(trace: &Trace<'_>, size: u64) -> BTreeMap<(usize, u32), u64> {
    let mut own = BTreeMap::new();
    for mut stretch in trace.stretches(size, |_| true) {
        stretch.tells_times = true;
        let mut seen = Seen { thread: stretch.thread(), ..Seen::default() };
        trace.visit(&stretch, &mut seen);
        for (of, time) in seen.own {
            *own.entry(of).or_default() += time;
        }
    }
    own
}

/// The same from the calls alone: after each beginning or end, the thread is in the call, or in its caller.
fn counted_times(trace: &Trace<'_>) -> BTreeMap<(usize, u32), u64> {
    let mut own = BTreeMap::new();
    for thread in 0..trace.threads.len() {
        let mut events = Vec::new();
        for call in trace.calls_of(|at| at == thread) {
            events.push((call.start, Some(call.function)));
            events.extend(call.end.map(|end| (end, call.caller)));
        }
        events.sort_by_key(|(at, _)| *at);
        events.push((trace.latest(), None));
        for pair in events.windows(2) {
            if let ((from, Some(function)), (to, _)) = (pair[0], pair[1])
                && from < to
            {
                *own.entry((thread, function)).or_default() += to - from;
            }
        }
    }
    own
}

/// The calls that visiting in stretches of `size` shows, in the order of starts.
fn visited(trace: &Trace<'_>, size: u64) -> Vec<Call> {
    let mut calls = Vec::new();
    for stretch in trace.stretches(size, |_| true) {
        let mut seen = Seen::default();
        trace.visit(&stretch, &mut seen);
        assert!(seen.open.is_empty());
        calls.extend(seen.calls);
    }
    sorted(calls)
}

fn sorted(mut calls: Vec<Call>) -> Vec<Call> {
    for call in &mut calls {
        call.process = None;
    }
    let key = |call: &Call| {
        (call.thread, call.start, call.depth, call.function, call.end.unwrap_or(u64::MAX))
    };
    calls.sort_by_key(key);
    calls
}

/// The trace with an index.
fn indexed(bytes: &[u8]) -> Vec<u8> {
    let mut indexed = bytes.to_vec();
    for Patch { offset, bytes } in index(&indexed.clone()).unwrap() {
        let offset = usize::try_from(offset).unwrap();
        let end = offset + bytes.len();
        indexed.resize(indexed.len().max(end), 0);
        indexed[offset..end].copy_from_slice(&bytes);
    }
    indexed
}

/// Slices of time have every call once, in the order of starts.
fn compare_slices(trace: &Trace<'_>, expected: &[Call]) {
    for size in [1, 3000, u64::MAX] {
        let slices = trace.slices(size, (0, None), |_| true);
        let found: Vec<Call> =
            slices.iter().flat_map(|slice| trace.calls_within(*slice, |_| true)).collect();
        assert!(found == expected, "slices of {size}");
    }
    let last = expected.last().map_or(0, |call| call.start);
    let (from, to) = (last / 3, last / 2);
    let is_meant = |call: &&Call| (from..to).contains(&call.start);
    let meant: Vec<Call> = expected.iter().filter(is_meant).copied().collect();
    let slices = trace.slices(2000, (from, Some(to)), |_| true);
    let found = slices.iter().flat_map(|slice| trace.calls_within(*slice, |_| true));
    let found: Vec<Call> = found.filter(|call| is_meant(&call)).collect();
    assert!(found == meant, "from {from} to {to}");
}

/// Calls from any time on are those that start then, with their depth and caller; a few may come before them.
fn compare_later(trace: &Trace<'_>, expected: &[Call]) {
    let last = expected.last().map_or(0, |call| call.start);
    for part in 0..=7 {
        let from = last / 7 * part;
        let later: Vec<Call> = expected.iter().filter(|call| call.start >= from).copied().collect();
        let found: Vec<Call> = trace.calls_from(from, |_| true).collect();
        let before = found.iter().filter(|call| call.start < from).count();
        assert!(before <= 3 * 4096, "{before} calls before {from}");
        assert!(found[before..] == later, "from {from}");
    }
}

fn compare(writer: Writer) {
    let bytes = writer.finish();
    let trace = Trace::parse(&bytes).unwrap();
    let all: Vec<Call> = trace.calls().collect();
    let with_index = indexed(&bytes);
    let indexed = Trace::parse(&with_index).unwrap();
    assert!(!trace.has_index() && indexed.has_index());
    assert!(index(&with_index).unwrap().is_empty());
    assert!(!indexed.damage.is_any());
    assert!(indexed.calls().eq(all.iter().copied()));
    assert_eq!(indexed.threads, trace.threads);
    assert_eq!(indexed.latest(), trace.latest());
    compare_later(&indexed, &all);
    compare_slices(&trace, &all);
    compare_slices(&indexed, &all);
    let expected = sorted(all);
    compare_visits(&indexed, &expected);
    compare_visits(&trace, &expected);
}

fn compare_visits(trace: &Trace<'_>, expected: &[Call]) {
    for size in [1, 10_000, u64::MAX] {
        let found = visited(trace, size);
        let different = found.iter().zip(expected).position(|(found, expected)| found != expected);
        let pair = different.map(|at| (found.get(at), expected.get(at)));
        assert_eq!((pair, found.len()), (None, expected.len()), "stretches of {size}");
    }
}

/// Threads with calls by `choices`, a number a step: whether and how deep a call begins, and how long that takes. The
/// chunks of all threads together are many. Calls of some functions aren't recorded.
fn writer_of(
    choices: impl Fn(u64) -> u64,
    steps: u64,
    gap: u64,
    is_kept: &dyn Fn(u32) -> bool,
) -> Writer {
    let mut writer = Writer::new();
    writer.header(mcount_trace::layout::header::END_TICKS, steps * 10);
    for name in ["a", "b", "c", "d", "off the processor", "first"] {
        writer.function("/bin/program", name);
    }
    for number in 0..2 {
        let thread = writer.thread(100, 100 + number);
        let top = TOP - u64::from(number) * 0x100_0000;
        // Times off the processor are those of threads that have called something.
        writer.call(thread, 6).from(0).to(0).slot(top).end(End::Return);
        let (mut now, mut stack) = (1, Vec::new());
        for step in 0..steps {
            let choice = choices(step * 2 + u64::from(number));
            now += gap + choice % 3;
            if (choice / 4096).is_multiple_of(100) {
                if is_kept(5) {
                    writer.off_cpu(thread, 5, now + 1, now + 4);
                }
                now += 5;
            }
            let function = 1 + u32::try_from(choice / 8 % 4).unwrap();
            // Now and then it goes far up or down, so that calls reach over pieces.
            let is_rising = step / 7_000 % 2 == 0;
            if stack.len() < 2 || choice % 16 < if is_rising { 9 } else { 7 } && stack.len() < 500 {
                stack.push((function, now));
            } else if let Some((function, start)) = stack.pop() {
                let slot = top - stack.len() as u64 * 32;
                let how = match choice / 64 % 64 {
                    0 => End::Unwound,
                    1 => End::Exit,
                    _ => End::Return,
                };
                if is_kept(function) {
                    writer.call(thread, function).from(start).to(now).slot(slot).end(how);
                }
            }
        }
        for (depth, (function, start)) in stack.into_iter().enumerate() {
            if !is_kept(function) {
                continue;
            }
            writer.open(thread, function, start, top - depth as u64 * 32);
        }
    }
    writer
}

fn random(step: u64) -> u64 {
    let mixed = (step + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
}

#[test]
fn many_pieces() {
    compare(writer_of(random, 60_000, 1, &|_| true));
}

/// A signal handler's calls can be recorded before one that ended earlier.
#[test]
fn records_out_of_order() {
    let mut writer = Writer::new();
    let thread = writer.thread(1, 1);
    for at in 0..20_000 {
        let start = at * 10;
        writer.call(thread, 2).from(start + 5).to(start + 6).slot(TOP - 64).end(End::Return);
        writer.call(thread, 1).from(start).to(start + 4).slot(TOP).end(End::Return);
    }
    compare(writer);
}

/// Calls of two fibres overlap.
#[test]
fn fibres() {
    let mut writer = Writer::new();
    let thread = writer.thread(1, 1);
    let other = TOP - 0x100_0000;
    for at in 0..10_000 {
        let start = at * 100;
        writer.call(thread, 3).from(start + 20).to(start + 30).slot(TOP - 64).end(End::Return);
        // While both are open.
        writer.call(thread, 5).from(start + 42).to(start + 45).slot(other - 64).end(End::Return);
        writer.call(thread, 6).from(start + 46).to(start + 48).slot(TOP - 64).end(End::Return);
        writer.call(thread, 1).from(start + 10).to(start + 50).slot(TOP).end(End::Return);
        writer.call(thread, 4).from(start + 60).to(start + 70).slot(other - 64).end(End::Return);
        writer.call(thread, 2).from(start + 40).to(start + 80).slot(other).end(End::Return);
    }
    compare(writer);
}

/// Calls of four fibres overlap in every way, and some are open where a stretch ends.
#[test]
fn many_fibres() {
    compare(fibres_of(&|_| true));
}

/// Where stacks take turns, each moment counts for one call: the same for all sizes of stretches, but for a call where one begins.
#[test]
fn times_of_fibres() {
    let bytes = fibres_of(&|_| true).finish();
    let trace = Trace::parse(&bytes).unwrap();
    let expected = counted_times(&trace);
    assert_eq!(told_times(&trace, u64::MAX), expected);
    let sum = |times: &BTreeMap<(usize, u32), u64>| times.values().sum::<u64>();
    for size in [1, 1_000, 10_000] {
        let stretches = trace.stretches(size, |_| true).len() as u64;
        let told = told_times(&trace, size);
        assert!(sum(&told) <= sum(&expected) && sum(&expected) - sum(&told) <= stretches);
        for (of, time) in &expected {
            assert!(told[of].abs_diff(*time) <= stretches, "{of:?}: {} of {time}", told[of]);
        }
    }
}

/// Where none take turns, it's the duration without those of callees.
#[test]
fn times_of_nested_calls() {
    let mut trace = writer_of(random, 60_000, 1, &|_| true).finish();
    for _ in 0..2 {
        let parsed = Trace::parse(&trace).unwrap();
        let mut own: BTreeMap<(usize, u32), i64> = BTreeMap::new();
        for call in parsed.calls() {
            let time = (call.end.unwrap_or(parsed.latest()) - call.start).cast_signed();
            *own.entry((call.thread, call.function)).or_default() += time;
            if let Some(caller) = call.caller {
                *own.entry((call.thread, caller)).or_default() -= time;
            }
        }
        own.retain(|_, time| *time > 0);
        for size in [1, 1_000, u64::MAX] {
            let told =
                told_times(&parsed, size).into_iter().map(|(of, time)| (of, time.cast_signed()));
            assert_eq!(told.collect::<BTreeMap<_, _>>(), own, "stretches of {size}");
        }
        trace = indexed(&trace);
    }
}

fn fibres_of(is_kept: &dyn Fn(u32) -> bool) -> Writer {
    let mut writer = Writer::new();
    let thread = writer.thread(1, 1);
    let mut fibres = vec![Vec::new(); 4];
    for now in 1..60_000 {
        let choice = random(now);
        let fibre = (choice / 64) as usize % 4;
        let top = TOP - fibre as u64 * 0x100_0000;
        let stack = &mut fibres[fibre];
        if stack.len() < 2 || stack.len() < 20 && choice % 16 < 8 {
            stack.push((1 + u32::try_from(choice / 1024 % 4).unwrap(), now));
        } else if let Some((function, start)) = stack.pop() {
            let slot = top - stack.len() as u64 * 32;
            if is_kept(function) {
                writer.call(thread, function).from(start).to(now).slot(slot).end(End::Return);
            }
        }
    }
    writer
}

/// A piece with values, and with no call but one that a special record says something of.
#[test]
fn a_first_piece_of_special_records() {
    const KIND: u32 = mcount_trace::layout::special::KIND_SHIFT;
    let mut writer = Writer::new();
    let thread = writer.thread(1, 1);
    writer.record(thread, special::ARGUMENTS << KIND, 5);
    writer.record(thread, special::START << KIND, 5);
    writer.call(thread, 1).from(8).to(9).slot(TOP).end(End::Return);
    writer.record(thread, special::BASE << KIND, 100);
    writer.call(thread, 2).from(110).to(120).slot(TOP).end(End::Return);
    writer.call(thread, 1).from(200).to(210).slot(TOP).end(End::Unwound);
    writer.open(thread, 1, 7, TOP + 64);
    compare(writer);
}

#[test]
fn special_records() {
    const LONG: u64 = 1 << 41;
    let mut writer = Writer::new();
    let (first, second) = (writer.thread(1, 1), writer.thread(1, 2));
    for at in 0..6_000 {
        let start = LONG + at * 10;
        writer.call(first, 1).from(start).to(start + 5).slot(TOP - 64).end(End::Return);
        if at % 1_000 == 7 {
            writer
                .call(first, 2)
                .from(start)
                .to(start + 7)
                .slot(TOP)
                .owner(second)
                .end(End::Unwound);
        }
    }
    writer.call(first, 3).from(1).to(2 * LONG).slot(TOP).end(End::Return);
    compare(writer);
}

#[test]
fn only_entries() {
    let mut writer = Writer::new();
    writer.header(mcount_trace::layout::header::FLAGS, mcount_trace::layout::flags::ENTRIES | 1);
    let thread = writer.thread(1, 1);
    for at in 0..10_000 {
        writer.call(thread, 1 + u32::try_from(at % 3).unwrap()).from(at).to(at).end(End::Return);
    }
    compare(writer);
}

/// A call without its place in the file.
fn told(call: &Call) -> impl PartialEq + std::fmt::Debug + use<> {
    (call.thread, call.function, call.caller, call.depth, call.start, call.end, call.how)
}

/// Hiding functions is as if their calls had never been recorded.
fn compare_hidden(write: impl Fn(&dyn Fn(u32) -> bool) -> Writer) {
    for hidden in [vec![1], vec![2, 4], vec![5], vec![1, 2, 3, 4, 5]] {
        let without = write(&|function| !hidden.contains(&function)).finish();
        let without = Trace::parse(&without).unwrap();
        let expected: Vec<Call> = without.calls().collect();
        let bytes = write(&|_| true).finish();
        for bytes in [indexed(&bytes), bytes] {
            let mut trace = Trace::parse(&bytes).unwrap();
            trace.hide(hidden.iter().copied());
            let different = trace.calls().zip(&expected).find(|(a, b)| told(a) != told(b));
            assert_eq!((different, trace.calls().count()), (None, expected.len()));
            let all: Vec<Call> = trace.calls().collect();
            compare_later(&trace, &all);
            compare_slices(&trace, &all);
            compare_visits(&trace, &sorted(all));
        }
    }
}

#[test]
fn hidden_functions() {
    // When calls ended that were left is told by other calls, which aren't there in the one trace.
    compare_hidden(|is_kept| writer_of(|step| random(step) | 64, 30_000, 1, is_kept));
}

#[test]
fn hidden_functions_of_fibres() {
    compare_hidden(fibres_of);
}

#[test]
fn hidden_entries() {
    compare_hidden(|is_kept| {
        let mut writer = Writer::new();
        let flags = mcount_trace::layout::flags::ENTRIES | 1;
        writer.header(mcount_trace::layout::header::FLAGS, flags);
        let thread = writer.thread(1, 1);
        for at in 0..10_000 {
            let function = 1 + u32::try_from(at % 3).unwrap();
            if is_kept(function) {
                writer.call(thread, function).from(at).to(at).end(End::Return);
            }
        }
        writer
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn any_nesting(seed: u64) {
        compare(writer_of(|step| random(step ^ seed), 12_000, 1, &|_| true));
    }
}

/// A thread's stack at any moment is the calls that began and haven't ended, whatever is read for that.
#[test]
fn stacks_at_moments() {
    for big in [false, true] {
        let mut writer = if big { Writer::big_endian() } else { Writer::new() };
        let functions: Vec<u32> =
            ["main", "a", "b", "c"].iter().map(|name| writer.function("/bin/p", name)).collect();
        let threads = [writer.thread(1, 1), writer.thread(1, 2)];
        for thread in threads {
            for at in 0..20_000_u64 {
                let start = 100 + at * 10;
                let call = writer.call(thread, functions[3]).from(start + 2).to(start + 4);
                call.slot(TOP - 192).end(End::Return);
                let call = writer.call(thread, functions[2]).from(start + 1).to(start + 9);
                call.slot(TOP - 128).end(End::Return);
                if at % 5_000 == 4_999 {
                    let from = start - 49_990;
                    let call = writer.call(thread, functions[1]).from(from).to(start + 9);
                    call.slot(TOP - 64).end(End::Return);
                }
            }
            writer.open(thread, functions[0], 50, TOP);
        }
        let bytes = writer.finish();
        let trace = Trace::parse(&bytes).unwrap();
        let calls: Vec<Call> = trace.calls().collect();
        for at in [0, 50, 99, 101, 102, 103, 104, 49_000, 50_099, 50_100, 123_456, 200_099, 200_100]
        {
            for thread in 0..2 {
                let is_open = |call: &&Call| {
                    call.thread == thread && call.start <= at && call.end.is_none_or(|end| end > at)
                };
                let expected = sorted(calls.iter().filter(is_open).copied().collect());
                assert_eq!(sorted(trace.stack_at(thread, at)), expected, "{at}");
            }
        }
        assert!(trace.stack_at(7, 0).is_empty());
    }
}
