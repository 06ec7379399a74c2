//! Following a trace while it grows, against the calls that it has in the end.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use mcount_trace::layout::{CHUNK_SIZE, HEADER_BLOCK, chunk, directory, header};
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
fn nothing_is_no_trace() {
    let (found, calls) = look(&mut Follower::new(), &[]);
    assert_eq!((found, calls.len()), (Look::default(), 0));
    // Numbers that make no sense lead nowhere.
    let mut bytes = vec![0xff; usize::try_from(HEADER_BLOCK).unwrap() + 2 * SIZE];
    set(&mut bytes, header::NEXT_CHUNK, 4096);
    let (found, _) = look(&mut Follower::new(), &bytes);
    assert_eq!(found.calls, 0);
}
