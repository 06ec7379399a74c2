//! Compressed traces: what comes back is what went in, bit for bit, and damage costs what was damaged and no more.
#![expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::unwrap_used,
    reason = "a test"
)]

use mcount_trace::layout::{call, packed};
use mcount_trace::{Call, End, Packed, Packer, Trace, Writer};
use proptest::prelude::*;

const TOP: u64 = 0x7ffd_1234_5000;

/// Compresses a trace.
fn pack(bytes: &[u8]) -> Vec<u8> {
    let packer = Packer::new(bytes).unwrap();
    let mut file = packer.head();
    let mut sizes = Vec::new();
    for number in 0..packer.blocks() {
        let (frame, whole) = packer.frame(number);
        sizes.push((frame.len() as u32, whole as u32));
        file.extend(frame);
    }
    file.extend(packer.table(&sizes));
    file
}

/// The trace that was compressed; blocks that are damaged are left out.
fn restored(file: &[u8]) -> Vec<u8> {
    let packed = Packed::open(file).unwrap();
    (0..packed.blocks()).filter_map(|number| packed.block(number)).flatten().collect()
}

fn calls(trace: &Trace<'_>) -> Vec<Call> {
    trace.calls().collect()
}

/// Reads all of a compressed trace: how many calls there are, and how many frames are damaged.
fn read(file: &[u8]) -> Option<(u64, u64)> {
    let packed = Packed::open(file).ok()?;
    let trace = Trace::unpack(&packed).ok()?;
    let count = trace.calls().count() as u64;
    trace.calls_from(100, |_| true).for_each(drop);
    Some((count, trace.bad_frames()))
}

/// Two threads that call each other's functions, a fork, exceptions, calls that are open.
fn sample(big_endian: bool, rounds: u64) -> Vec<u8> {
    let mut writer = if big_endian { Writer::big_endian() } else { Writer::new() };
    writer.process(100, 1, 0, "/bin/program").note("a note");
    for name in 0..300 {
        writer.function("/bin/program", &format!("function_{name}"));
    }
    let threads = [writer.thread(100, 100), writer.thread(100, 101)];
    for round in 0..rounds {
        let thread = threads[usize::from(round % 7 == 0)];
        let start = round * 100;
        for leaf in 0..3 {
            let from = start + 10 + leaf * 20;
            let call = writer.call(thread, 2 + (round * leaf % 290) as u32).from(from);
            call.to(from + 7 + round % 5).slot(TOP - 64).end(End::Return);
        }
        let how = [End::Return, End::TailCall, End::Unwound, End::Exit][round as usize % 4];
        writer.call(thread, 1).from(start).to(start + 90).slot(TOP).end(how);
        writer.off_cpu(thread, 300, start + 20, start + 22);
        if round == rounds / 2 {
            writer.call(thread, 1).from(1).to(1 << 50).slot(TOP + 64).end(End::Return);
        }
    }
    writer.open(threads[0], 1, 5, TOP + 128).open(threads[1], 2, 300, TOP - 0x20_0000);
    writer.finish()
}

fn with_index(mut bytes: Vec<u8>) -> Vec<u8> {
    for patch in mcount_trace::index(&bytes.clone()).unwrap_or_default() {
        let (from, to) = (patch.offset as usize, patch.offset as usize + patch.bytes.len());
        bytes.resize(bytes.len().max(to), 0);
        bytes[from..to].copy_from_slice(&patch.bytes);
    }
    bytes
}

#[test]
fn a_trace_comes_back_and_reads_the_same() {
    for big_endian in [false, true] {
        for plain in [sample(big_endian, 3000), with_index(sample(big_endian, 3000))] {
            let file = pack(&plain);
            assert!(restored(&file) == plain);
            assert!(file.len() * 10 < plain.len(), "{} of {}", file.len(), plain.len());
            assert_eq!(Trace::parse(&file).err(), Some(mcount_trace::Error::Packed));
            let packed = Packed::open(&file).unwrap();
            let (trace, expected) =
                (Trace::unpack(&packed).unwrap(), Trace::parse(&plain).unwrap());
            assert_eq!(trace.has_index(), expected.has_index());
            assert_eq!(calls(&trace), calls(&expected));
            assert_eq!(trace.functions, expected.functions);
            assert_eq!(trace.threads, expected.threads);
            assert_eq!((trace.damage, trace.bad_frames()), (expected.damage, 0));
        }
    }
}

#[test]
fn without_a_table_frames_are_found_one_by_one() {
    let plain = sample(false, 3000);
    let file = pack(&plain);
    let cut = &file[..file.len() - 9];
    assert!(restored(cut) == plain);
    // Cut off within a frame, what's before it is there.
    let half = restored(&file[..file.len() / 2]);
    assert!(!half.is_empty() && plain.starts_with(&half));
}

#[test]
fn damage_is_noticed() {
    let plain = sample(false, 100);
    let file = pack(&plain);
    let whole = read(&file).unwrap();
    assert_eq!(whole.1, 0);
    let mut damaged = file.clone();
    for at in (0..file.len()).step_by(5) {
        for value in [file[at] ^ 1, file[at] ^ 0x80] {
            damaged[at] = value;
            if let Some((count, bad)) = read(&damaged) {
                assert!(count <= whole.0);
                let is_noticed = bad > 0 || Packed::open(&damaged).unwrap().len() < plain.len();
                assert!(is_noticed || count == whole.0, "byte {at} is {value}: {count} calls");
            }
        }
        damaged[at] = file[at];
    }
}

#[test]
fn cut_off_anywhere() {
    let file = pack(&sample(false, 100));
    for end in (0..file.len()).step_by(11) {
        read(&file[..end]);
    }
}

/// A frame that unfolds to a gigabyte, where a block has 64 KiB.
#[test]
fn a_frame_that_is_too_large_is_damaged() {
    let plain = sample(false, 10);
    let packer = Packer::new(&plain).unwrap();
    let mut file = packer.head();
    let bomb: Vec<u8> = {
        // A block of zstd that repeats one byte (RFC 8878, section 3.1.1.2) has at most 128 KiB.
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x38];
        for at in 0..8192_u32 {
            let header = 131_072 << 3 | 1 << 1 | u32::from(at == 8191);
            frame.extend(&header.to_le_bytes()[..3]);
            frame.push(0);
        }
        frame
    };
    let (first, _) = packer.frame(0);
    let sizes = [(first.len() as u32, 65_537), (bomb.len() as u32, 1 << 30)];
    file.extend(first);
    file.extend(bomb);
    file.extend(packer.table(&sizes));
    let opened = Packed::open(&file).unwrap();
    assert_eq!(opened.block(1), None);
    let trace = Trace::unpack(&opened).unwrap();
    assert_eq!((trace.calls().count(), trace.bad_frames()), (0, 1));
}

/// A small file with very many calls that nobody saw ending, each of which a reader has to keep.
#[test]
fn what_is_kept_is_in_proportion_to_the_file() {
    let mut writer = Writer::new();
    let thread = writer.thread(1, 1);
    for at in 0..(1 << 21) {
        writer.call(thread, 1).from(at).to(at + 1).slot(TOP).end(End::Unwound);
    }
    let file = pack(&writer.finish());
    assert!(file.len() < 1 << 19, "{}", file.len());
    let packed = Packed::open(&file).unwrap();
    let trace = Trace::unpack(&packed).unwrap();
    let most = (1 << 20) + 8 * file.len() as u64 + 4096;
    assert!(trace.count(0) <= most, "{} calls of {} bytes", trace.count(0), file.len());
    assert_eq!(trace.count(0) + trace.damage.left_out, 1 << 21);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    /// Any words at all, where records are.
    #[test]
    fn random_records_come_back(
        records in prop::collection::vec((word(), word()), 1..2000),
        big_endian: bool,
    ) {
        let mut writer = if big_endian { Writer::big_endian() } else { Writer::new() };
        let threads = [writer.thread(1, 1), writer.thread(1, 2)];
        for (first, second) in records {
            writer.record(threads[usize::from(second & 64 != 0)], first, second);
        }
        let plain = writer.finish();
        let file = pack(&plain);
        prop_assert!(restored(&file) == plain);
        prop_assert_eq!(file[packed::SKIPPABLE..][..8].to_vec(), packed::MAGIC.to_vec());
    }
}

/// Words that are often special records, small numbers or times that go backwards.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0_u64..8,
        (0_u64..8, 0_u64..4).prop_map(|(kind, value)| kind << 24 | value << 32),
        (0_u64..100, 1_u64..400).prop_map(|(ticks, low)| ticks << call::TIME_SHIFT | low),
        (0_u64..100, 0_u64..16).prop_map(|(ticks, low)| ticks << call::TIME_SHIFT | low),
    ]
}
