//! Following a trace while it grows, against the calls that it has in the end.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use mcount_trace::layout::{CHUNK_SIZE, HEADER_BLOCK, chunk, directory, header, share, special};
use mcount_trace::{End, Ended, Follower, Look, Trace, Writer};

const SIZE: usize = 65_536;
const CALLS: u64 = 10_000;

/// A trace of two threads whose calls take several chunks.
fn trace() -> Vec<u8> {
    let mut writer = Writer::new();
    let names = ["a", "b", "c"].map(|name| writer.function("/bin/program", name));
    let threads = [1, 2].map(|number| writer.thread(100, 100 + number));
    for number in 0..CALLS {
        for (at, thread) in threads.into_iter().enumerate() {
            let start = number * 100 + at as u64;
            let call = writer.call(thread, names[usize::try_from(number % 3).unwrap()]);
            // Now and then a call takes longer than a record has bits for.
            let long = if number == 5000 { 1 << 41 } else { 0 };
            call.from(start).to(start + 50 + long).slot(0x7ffe_0000).end(End::Return);
        }
    }
    writer.finish()
}

fn look(follower: &mut Follower, bytes: &[u8]) -> (Look, Vec<Ended>) {
    look_at(follower, bytes, usize::MAX)
}

fn look_at(follower: &mut Follower, bytes: &[u8], most: usize) -> (Look, Vec<Ended>) {
    let mut found = Vec::new();
    let mut read = |offset: u64, room: &mut [u8]| {
        let from = usize::try_from(offset).unwrap();
        let Some(there) = bytes.get(from..from + room.len()) else { return false };
        room.copy_from_slice(there);
        true
    };
    let look = follower.look(&mut read, most, |call| found.push(*call));
    (look, found)
}

fn set(bytes: &mut [u8], offset: usize, value: u64) {
    bytes[offset..offset + 8].copy_from_slice(&value.to_ne_bytes());
}

fn key(call: &Ended) -> (u32, u32, u64, u64) {
    (call.thread, call.function, call.start, call.end)
}

fn expected(bytes: &[u8]) -> Vec<(u32, u32, u64, u64)> {
    let trace = Trace::parse(bytes).unwrap();
    let number = |at: usize| trace.threads[at].number;
    let call = |call: mcount_trace::Call| {
        (number(call.thread), call.function, call.start, call.end.unwrap())
    };
    trace.calls().map(call).collect()
}

fn sorted(calls: &[Ended]) -> Vec<(u32, u32, u64, u64)> {
    let mut all: Vec<_> = calls.iter().map(key).collect();
    all.sort_by_key(|call| (call.2, call.0));
    all
}

fn little_endian_only() -> bool {
    // The writer's traces are little-endian, and only this machine's are followed.
    cfg!(target_endian = "little")
}

#[test]
fn each_call_is_shown_once_as_it_comes() {
    if !little_endian_only() {
        return;
    }
    let whole = trace();
    let chunks = (whole.len() - usize::try_from(HEADER_BLOCK).unwrap()) / SIZE;
    assert!(chunks > 5, "{chunks}");
    let (mut follower, mut all, mut most) = (Follower::new(), Vec::new(), 0);
    // Records appear one after the other in each chunk.
    for step in (0..=SIZE).step_by(1008) {
        let mut now = whole.clone();
        for number in 1..chunks {
            let start = usize::try_from(HEADER_BLOCK).unwrap() + number * SIZE;
            let kind = usize::try_from(HEADER_BLOCK).unwrap() + number * directory::DESCRIPTOR_SIZE;
            if now[kind] == u8::try_from(chunk::CALLS).unwrap() {
                now[start + step.next_multiple_of(16).min(SIZE)..start + SIZE].fill(0);
            }
        }
        set(&mut now, header::NEXT_CHUNK, chunks as u64);
        let (look, found) = look(&mut follower, &now);
        assert_eq!((look.calls, look.missed), (found.len() as u64, 0));
        most = most.max(found.len());
        all.extend(found);
    }
    let (last, found) = look(&mut follower, &whole);
    assert_eq!(last.calls, found.len() as u64);
    all.extend(found);
    assert!(most < 1000, "{most} at once");
    assert_eq!(sorted(&all), expected(&whole));
}

#[test]
fn a_few_chunks_at_a_time_are_all_in_the_end() {
    if !little_endian_only() {
        return;
    }
    for ring in [0, 20] {
        let mut whole = trace();
        let chunks = (whole.len() - usize::try_from(HEADER_BLOCK).unwrap()) / SIZE;
        set(&mut whole, header::NEXT_CHUNK, chunks as u64);
        set(&mut whole, header::RING, ring);
        let (mut follower, mut all, mut last) = (Follower::new(), Vec::new(), u64::MAX);
        while last != 0 {
            let (look, found) = look_at(&mut follower, &whole, 2);
            assert!(look.left < last && found.len() <= 2 * 4096, "{look:?}");
            last = look.left;
            all.extend(found);
        }
        assert_eq!(sorted(&all), expected(&whole), "{ring}");
    }
}

#[test]
fn who_is_too_slow_for_a_ring_reads_what_is_newest() {
    if !little_endian_only() {
        return;
    }
    let mut whole = trace();
    let chunks = (whole.len() - usize::try_from(HEADER_BLOCK).unwrap()) / SIZE;
    set(&mut whole, header::NEXT_CHUNK, chunks as u64);
    set(&mut whole, header::RING, 4);
    let mut follower = Follower::new();
    let (found, calls) = look_at(&mut follower, &whole, 1);
    assert!(found.left > 3 && found.calls > 0, "{found:?}");
    let last = expected(&whole).last().unwrap().2;
    assert!(calls.iter().any(|call| call.start == last), "{calls:?}");
    assert_eq!(look(&mut follower, &whole).0, Look::default());
}

#[test]
fn a_chunk_that_is_described_late_is_read_then() {
    if !little_endian_only() {
        return;
    }
    let whole = trace();
    let kind = |number: usize| {
        usize::try_from(HEADER_BLOCK).unwrap() + number * directory::DESCRIPTOR_SIZE
    };
    let chunks = (whole.len() - usize::try_from(HEADER_BLOCK).unwrap()) / SIZE;
    let late = (1..chunks).find(|number| whole[kind(*number)] == 1).unwrap();
    let mut now = whole.clone();
    now[kind(late)] = 0;
    set(&mut now, header::NEXT_CHUNK, chunks as u64);
    let mut whole = whole;
    set(&mut whole, header::NEXT_CHUNK, chunks as u64);
    let mut follower = Follower::new();
    let (_, mut all) = look(&mut follower, &now);
    assert!((all.len() as u64) < 2 * CALLS);
    all.extend(look(&mut follower, &whole).1);
    assert_eq!(sorted(&all), expected(&whole));
}

#[test]
fn a_ring_says_what_was_written_over_unread() {
    if !little_endian_only() {
        return;
    }
    let mut first = trace();
    let chunks = (first.len() - usize::try_from(HEADER_BLOCK).unwrap()) / SIZE;
    set(&mut first, header::NEXT_CHUNK, chunks as u64);
    set(&mut first, header::RING, chunks as u64);
    let mut follower = Follower::new();
    let (before, _) = look(&mut follower, &first);
    assert_eq!((before.calls, before.missed), (2 * CALLS, 0));
    // One chunk is used again, by another thread.
    let entry = |number: usize| {
        usize::try_from(HEADER_BLOCK).unwrap() + number * directory::DESCRIPTOR_SIZE
    };
    let again = (1..chunks).find(|number| first[entry(*number)] == 1).unwrap();
    let start = usize::try_from(HEADER_BLOCK + again as u64 * CHUNK_SIZE).unwrap();
    let records = first[start..start + SIZE].as_chunks::<16>().0.iter();
    let calls = records.filter(|record| record[..3] != [0; 3]).count() as u64;
    first[start..start + SIZE].fill(0);
    set(&mut first, entry(again) + directory::BASE, 1 << 42);
    first[entry(again) + directory::THREAD] = 9;
    set(&mut first, start, 10 << 24 | 2);
    set(&mut first, start + 8, 3 << 24);
    set(&mut first, header::DROPPED, calls);
    let (after, found) = look(&mut follower, &first);
    assert_eq!((after.calls, after.missed), (1, 0));
    assert_eq!(key(&found[0]), (9, 2, (1 << 42) + 7, (1 << 42) + 10));
    // Written over once more, with calls that nobody has read.
    set(&mut first, entry(again) + directory::BASE, 1 << 43);
    set(&mut first, header::DROPPED, calls + 1 + 500);
    let (last, _) = look(&mut follower, &first);
    assert_eq!((last.calls, last.missed), (1, 500));
}

#[test]
fn what_does_not_fit_at_the_end_of_a_chunk_is_looked_for_some_time() {
    if !little_endian_only() {
        return;
    }
    let mut empty = trace();
    let chunks = (empty.len() - usize::try_from(HEADER_BLOCK).unwrap()) / SIZE;
    set(&mut empty, header::NEXT_CHUNK, chunks as u64);
    set(&mut empty, header::RING, chunks as u64);
    let start = usize::try_from(HEADER_BLOCK).unwrap();
    // Two records have room at the end of each full chunk.
    let ends = (1..=chunks).map(|chunk| start + chunk * SIZE - 32);
    let full: Vec<usize> = ends.filter(|end| empty[end - 16..*end] != [0; 16]).collect();
    let mut whole = empty.clone();
    for end in &full {
        whole.copy_within(end - 16..*end, *end);
    }
    let mut follower = Follower::new();
    let mut reads = |bytes: &[u8]| {
        let (mut count, mut calls) = (0, 0);
        let mut read = |offset: u64, room: &mut [u8]| {
            count += 1;
            let from = usize::try_from(offset).unwrap();
            bytes.get(from..from + room.len()).is_some_and(|there| {
                room.copy_from_slice(there);
                true
            })
        };
        follower.look(&mut read, usize::MAX, |_| calls += 1);
        (count, calls)
    };
    let most = usize::try_from(2 * CALLS).unwrap();
    assert_eq!((full.len(), reads(&empty).1), (4, most));
    let (often, _) = reads(&empty);
    // One was interrupted while it wrote there.
    let [first, ..] = full[..] else { panic!() };
    empty[first..first + 16].copy_from_slice(&whole[first..first + 16]);
    assert_eq!(reads(&empty).1, 1);
    for _ in 0..20 {
        assert_eq!(reads(&empty).1, 0);
    }
    let (seldom, _) = reads(&empty);
    assert!(often - seldom >= full.len(), "{often}, {seldom}");
    assert_eq!(reads(&whole).1, 0);
}

/// A trace whose chunk of calls has shares: each is a thread's number, its bytes, and how many calls there are in it. The trace, where the
/// shares begin in it, and where the chunk's descriptor is.
fn shared(shares: &[(u32, usize, usize)]) -> (Vec<u8>, Vec<usize>, usize) {
    let mut writer = Writer::new();
    let function = writer.function("/bin/program", "a");
    for (number, _, _) in shares {
        writer.thread(100, 100 + number);
    }
    let first = writer.thread(100, 200);
    writer.call(first, function).from(1).to(2).slot(0x7ffe_0000).end(End::Return);
    let mut bytes = writer.finish();
    let head = usize::try_from(HEADER_BLOCK).unwrap();
    let chunks = (bytes.len() - head) / SIZE;
    let descriptor = |number: usize| head + number * directory::DESCRIPTOR_SIZE;
    let number = (1..chunks).find(|number| bytes[descriptor(*number)] == 1).unwrap();
    let start = head + number * SIZE;
    bytes[start..start + SIZE].fill(0);
    let (mut at, mut starts) = (start, Vec::new());
    for (turn, (thread, size, calls)) in shares.iter().enumerate() {
        let base = 1_000_000 * (turn as u64 + 1);
        let ids = 100 << 32 | u64::from(100 + thread);
        let mut records = vec![
            (u64::from(*thread) << 32 | special::THREAD << 24, ids),
            (special::BASE << 24, base),
        ];
        let call = |k: usize| ((k as u64 * 10 + 9) << 24 | u64::from(function), 5 << 24 | 64);
        records.extend((0..*calls).map(call));
        for (place, (low, high)) in records.into_iter().enumerate() {
            set(&mut bytes, at + place * 16, low);
            set(&mut bytes, at + place * 16 + 8, high);
        }
        starts.push(at);
        at += size;
    }
    set(&mut bytes, descriptor(number) + directory::SHARED, (at - start) as u64);
    set(&mut bytes, descriptor(number) + directory::USED, 0);
    set(&mut bytes, header::NEXT_CHUNK, chunks as u64);
    (bytes, starts, descriptor(number))
}

/// The most calls in a share of so many bytes.
fn most_in(size: usize) -> usize {
    (size - usize::try_from(share::HEAD).unwrap()) / 16
}

#[test]
fn shares_of_a_chunk_grow_side_by_side() {
    if !little_endian_only() {
        return;
    }
    let shares = [
        (1, 512, most_in(512)),
        (2, 512, 3),
        (3, 1024, most_in(1024)),
        (1, 512, 20),
        (4, 4096, most_in(4096)),
        (2, 512, 0),
    ];
    let (whole, starts, descriptor) = shared(&shares);
    let (mut follower, mut all, mut most) = (Follower::new(), Vec::new(), 0);
    for step in (0..4096_usize).step_by(160) {
        let mut now = whole.clone();
        for (turn, start) in starts.iter().enumerate() {
            // One begins later than those behind it, and one when its thread has filled another.
            let late = [0, 0, 320, 512, 0, 0][turn];
            let step = step.saturating_sub(late);
            now[(start + step).min(start + shares[turn].1)..start + shares[turn].1].fill(0);
        }
        if step == 0 {
            // Not even given out.
            set(&mut now, descriptor + directory::SHARED, 0);
        }
        let (look, found) = look(&mut follower, &now);
        assert_eq!((look.calls, look.missed, look.left), (found.len() as u64, 0, 0));
        most = most.max(found.len());
        all.extend(found);
    }
    all.extend(look(&mut follower, &whole).1);
    assert!(most <= 60, "{most} at once");
    let calls: usize = shares.iter().map(|(_, _, calls)| calls).sum();
    assert_eq!((all.len(), sorted(&all)), (calls, expected(&whole)));
    // Calls of a thread are in the order of their ends.
    for thread in 1..=4 {
        let ends = all.iter().filter(|call| call.thread == thread).map(|call| call.end);
        assert!(ends.is_sorted(), "{thread}");
    }
    assert_eq!(look(&mut follower, &whole).0, Look::default());
}

#[test]
fn a_chunk_full_of_shares_is_left_alone_afterwards() {
    if !little_endian_only() {
        return;
    }
    let shares: Vec<_> = (1..=128).map(|thread| (thread, 512, most_in(512))).collect();
    let (whole, _, _) = shared(&shares);
    let mut follower = Follower::new();
    let mut all = Vec::new();
    // A few at a time.
    for _ in 0..60 {
        all.extend(look_at(&mut follower, &whole, 3).1);
    }
    assert_eq!(sorted(&all), expected(&whole));
    assert_eq!(look(&mut follower, &whole).0, Look::default());
}

#[test]
fn what_special_records_say_ends_with_a_thread() {
    // A thread was killed between what it said of its next call and the call.
    let (mut whole, starts, _) = shared(&[(1, 512, 2), (2, 512, 2)]);
    let at = starts[0] + 32 + 2 * 16;
    set(&mut whole, at, special::START << 24);
    set(&mut whole, at + 8, 5);
    set(&mut whole, at + 16, 7 << 32 | special::OWNER << 24);
    set(&mut whole, at + 32, special::CALLER << 24);
    set(&mut whole, at + 40, 0x1234);
    let trace = Trace::parse(&whole).unwrap();
    let of = |number: u32| trace.threads.iter().position(|thread| thread.number == number);
    let count = |number: u32| of(number).map_or(0, |at| trace.count(at));
    assert_eq!((count(1), count(2), count(7)), (2, 2, 0));
    assert!(trace.calls().all(|call| call.start >= 1_000_000));
    if little_endian_only() {
        let found = look(&mut Follower::new(), &whole).1;
        assert_eq!(sorted(&found), expected(&whole));
        assert!(found.iter().all(|call| call.caller.is_none()));
    }
}

#[test]
fn a_call_says_where_it_returns_to() {
    if !little_endian_only() {
        return;
    }
    let (mut whole, starts, _) = shared(&[(1, 512, 2)]);
    let first = starts[0] + 32;
    // The second call comes once more, behind a record that's about it alone, and then a third time.
    let call: Vec<u8> = whole[first + 16..first + 32].to_vec();
    set(&mut whole, first + 32, special::CALLER << 24);
    set(&mut whole, first + 40, 0x1234);
    whole[first + 48..first + 64].copy_from_slice(&call);
    whole[first + 64..first + 80].copy_from_slice(&call);
    let callers: Vec<_> =
        look(&mut Follower::new(), &whole).1.iter().map(|call| call.caller).collect();
    assert_eq!(callers, [None, None, Some(0x1234), None]);
}

#[test]
fn nothing_is_no_trace() {
    let (found, calls) = look(&mut Follower::new(), &[]);
    assert_eq!((found, calls.len()), (Look::default(), 0));
    // Numbers that make no sense lead nowhere.
    let mut bytes = vec![0xff; usize::try_from(HEADER_BLOCK).unwrap() + 2 * SIZE];
    set(&mut bytes, header::NEXT_CHUNK, 4096);
    let (found, _) = look(&mut Follower::new(), &bytes);
    assert_eq!(found.calls, 0);
}
