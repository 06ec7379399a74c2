//! What the fuzzers share: ELF files made of the prebuilt objects and images by changing fields of
//! their headers, relocations and symbols, and what must hold of each verb.
//!
//! An input is the number of a file (two bytes), then changes of twelve bytes each: what kind of
//! thing, which one of them (two bytes), which field, how, and a value (seven bytes). So one mutation of the fuzzer
//! changes one thing, and the file stays one that the code looks into.

use mcount::{
    Base, CheckOptions, Glob, GlobSetBuilder, LateOptions, NopChange, Options, Policy,
    RecordOptions, SortOptions,
};
use mcount_store::{archive, unpack};
use mcount_view::replay::graph::{self, GraphFormat, GraphManner};
use mcount_view::replay::stats::{self, By};
use mcount_view::replay::{self, CallFormat, Clock, Field, Manner, Progress, Selection, Weight};
use std::path::Path;
use std::sync::LazyLock;

/// The files that are changed, in order of their names: `tests/prebuilt/*.o` and `fuzz/images/*`.
static FILES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    for folder in ["../tests/prebuilt", "images"] {
        let entries = std::fs::read_dir(here.join(folder)).into_iter().flatten().flatten();
        let mut found: Vec<_> = entries.map(|entry| entry.path()).collect();
        found.retain(|path| folder == "images" || path.extension().is_some_and(|e| e == "o"));
        found.sort();
        paths.extend(found);
    }
    paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
});

/// How many files there are to change.
pub fn count() -> usize {
    FILES.len()
}

/// The file that `data` stands for.
pub fn file(data: &[u8]) -> Vec<u8> {
    let Some(([low, high], changes)) = data.split_first_chunk::<2>() else { return Vec::new() };
    let number = usize::from(u16::from_le_bytes([*low, *high]));
    if number == 0xffff || FILES.is_empty() {
        return changes.to_vec();
    }
    let mut file = File::new(FILES[number % FILES.len()].clone());
    for change in changes.chunks_exact(12).take(16) {
        file.change(change.try_into().unwrap_or_default());
    }
    file.bytes
}

/// A file, and where in it the tables are; they are looked up before anything changes.
struct File {
    bytes: Vec<u8>,
    is_64: bool,
    big_endian: bool,
    headers: usize,
    count: usize,
    symbols: (usize, usize),
    dynamic_symbols: (usize, usize),
    dynamic: (usize, usize),
    segments: (usize, usize),
    relocations: Vec<(usize, usize, usize)>,
    contents: Vec<(usize, usize)>,
}

/// Offsets and sizes of fields.
type Fields = &'static [(usize, usize)];
const HEADER: [Fields; 2] = [
    &[
        (4, 1),
        (5, 1),
        (16, 2),
        (18, 2),
        (32, 4),
        (36, 4),
        (46, 2),
        (48, 2),
        (50, 2),
        (28, 4),
        (42, 2),
        (44, 2),
        (24, 4),
    ],
    &[
        (4, 1),
        (5, 1),
        (16, 2),
        (18, 2),
        (40, 8),
        (48, 4),
        (58, 2),
        (60, 2),
        (62, 2),
        (32, 8),
        (54, 2),
        (56, 2),
        (24, 8),
    ],
];
const SECTION: [Fields; 2] = [
    &[(0, 4), (4, 4), (8, 4), (12, 4), (16, 4), (20, 4), (24, 4), (28, 4), (32, 4), (36, 4)],
    &[(0, 4), (4, 4), (8, 8), (16, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 8), (56, 8)],
];
const SYMBOL: [Fields; 2] = [
    &[(0, 4), (4, 4), (8, 4), (12, 1), (13, 1), (14, 2)],
    &[(0, 4), (8, 8), (16, 8), (4, 1), (5, 1), (6, 2)],
];
const SEGMENT: [Fields; 2] = [
    &[(0, 4), (4, 4), (8, 4), (12, 4), (16, 4), (20, 4), (24, 4), (28, 4)],
    &[(0, 4), (4, 4), (8, 8), (16, 8), (24, 8), (32, 8), (40, 8), (48, 8)],
];
const RELOCATION: [Fields; 2] = [&[(0, 4), (4, 4), (8, 4)], &[(0, 8), (8, 4), (12, 4), (16, 8)]];

impl File {
    fn new(bytes: Vec<u8>) -> Self {
        let is_64 = bytes.get(4) == Some(&2);
        let big_endian = bytes.get(5) == Some(&2);
        let mut file = Self {
            bytes,
            is_64,
            big_endian,
            headers: 0,
            count: 0,
            symbols: (0, 0),
            dynamic_symbols: (0, 0),
            dynamic: (0, 0),
            segments: (0, 0),
            relocations: Vec::new(),
            contents: Vec::new(),
        };
        let at = |fields: [Fields; 2], index: usize| fields[usize::from(is_64)][index];
        file.headers = file.get(at(HEADER, 4));
        file.count = file.get(at(HEADER, 7));
        file.segments = (file.get(at(HEADER, 9)), file.get(at(HEADER, 11)));
        for section in 0..file.count {
            let base = file.headers + section * file.header_size();
            let field = |index| {
                let (offset, size) = at(SECTION, index);
                file.get((base + offset, size))
            };
            let (kind, offset, size, entry) = (field(1), field(4), field(5), field(9));
            match kind {
                2 => file.symbols = (offset, size),
                11 => file.dynamic_symbols = (offset, size),
                6 => file.dynamic = (offset, size),
                4 | 9 => file.relocations.push((offset, size, entry)),
                0 | 8 => {}
                _ => file.contents.push((offset, size)),
            }
        }
        file
    }

    fn header_size(&self) -> usize {
        if self.is_64 { 64 } else { 40 }
    }

    fn get(&self, (at, size): (usize, usize)) -> usize {
        let Some(bytes) = self.bytes.get(at..at.saturating_add(size)) else { return 0 };
        let join = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        let value = if self.big_endian {
            bytes.iter().fold(0, join)
        } else {
            bytes.iter().rev().fold(0, join)
        };
        usize::try_from(value).unwrap_or(usize::MAX)
    }

    fn change(&mut self, [kind, a, b, field, how, value @ ..]: [u8; 12]) {
        let which = usize::from(u16::from_le_bytes([a, b]));
        let value = value.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
        if !(0x80..=0xdf).contains(&kind) && kind % 8 == 7 {
            self.cut_or_extend(which, how);
        } else if let Some(place) = self.place(kind, which, field, value) {
            self.put(place, how, value);
        }
    }

    /// Cuts the end off, or adds to it.
    fn cut_or_extend(&mut self, which: usize, how: u8) {
        if how & 1 == 0 {
            self.bytes.truncate(self.bytes.len() * which / 0xffff);
        } else {
            self.bytes.extend([how; 24]);
        }
    }

    /// The field that a change is about: offset and size.
    fn place(&self, kind: u8, which: usize, field: u8, value: u64) -> Option<(usize, usize)> {
        let class = usize::from(self.is_64);
        let pick = |fields: Fields| fields[usize::from(field) % fields.len()];
        let word = (0, if self.is_64 { 8 } else { 4 });
        let of_symbol = if self.is_64 { 24 } else { 16 };
        let of_segment = if self.is_64 { 56 } else { 32 };
        let (base, (offset, size)) = match kind {
            0x80..=0x9f => {
                let (at, count) = self.segments;
                (nth(which, at, count * of_segment, of_segment), pick(SEGMENT[class]))
            }
            0xa0..=0xaf => {
                let (at, room) = self.dynamic_symbols;
                (nth(which, at, room, of_symbol), pick(SYMBOL[class]))
            }
            0xb0..=0xbf => (nth(which, self.dynamic.0, self.dynamic.1, word.1), word),
            0xc0..=0xdf => {
                let (offset, size) = self.contents.get(which % self.contents.len().max(1))?;
                let words = (size / word.1).max(1);
                (offset + usize::try_from(value >> 32).unwrap_or(0) % words * word.1, word)
            }
            _ => match kind % 8 {
                0 => (0, pick(HEADER[class])),
                1 | 2 => {
                    let size = self.header_size();
                    (nth(which, self.headers, self.count * size, size), pick(SECTION[class]))
                }
                3 => {
                    let (at, room) = self.symbols;
                    (nth(which, at, room, of_symbol), pick(SYMBOL[class]))
                }
                4 | 5 => {
                    let relocations = self.relocations.len().max(1);
                    let (offset, size, entry) = self.relocations.get(which % relocations)?;
                    let room = (*size / (*entry).max(1)).max(1);
                    let at = offset + usize::try_from(value >> 16).unwrap_or(0) % room * entry;
                    (at, pick(RELOCATION[class]))
                }
                _ => {
                    let (offset, size) = self.contents.get(which % self.contents.len().max(1))?;
                    let at = usize::try_from(value >> 8).unwrap_or(0) % (*size).max(1);
                    (offset + at, (0, 1))
                }
            },
        };
        Some((base.saturating_add(offset), size))
    }

    fn put(&mut self, (at, size): (usize, usize), how: u8, value: u64) {
        let old = self.get((at, size)) as u64;
        let length = self.bytes.len() as u64;
        let new = match how % 12 {
            0 => 0,
            1 => u64::MAX,
            2 => old.wrapping_add(1),
            3 => old.wrapping_sub(1),
            4 => 1 << (size * 8 - 1),
            5 => (1 << (size * 8 - 1)) - 1,
            6 => length.wrapping_sub(value & 0xff),
            7 => value & 0xff,
            8 => old.wrapping_mul(2),
            9 => old.wrapping_add(value & 0xffff),
            10 => 0xff00 | value & 0xff,
            _ => value,
        };
        let bytes = new.to_le_bytes();
        let Some(place) = self.bytes.get_mut(at..at.saturating_add(size)) else { return };
        for (index, byte) in place.iter_mut().enumerate() {
            *byte = bytes[if self.big_endian { size - 1 - index } else { index }];
        }
    }
}

/// Where element `which` of a table begins that has `room` bytes at `base`.
fn nth(which: usize, base: usize, room: usize, size: usize) -> usize {
    base.saturating_add(which % (room / size.max(1)).max(1) * size.max(1))
}

/// Options that between them go through all the code.
fn variants() -> [(Options, RecordOptions); 3] {
    let every = GlobSetBuilder::new().add(Glob::new("*").expect("a glob")).build().expect("globs");
    let policy = Policy::of(Base::All);
    let all = RecordOptions::default().writable(true).link_order(true).split_lists(true);
    let all = (Options::default().policy(policy).nops(true), all);
    let policy = Policy::default().exclude_sections(every);
    let nop = (Options::default().policy(policy), RecordOptions::default().nop_all(true));
    [Default::default(), all, nop]
}

/// `mcount scan`.
pub fn scan(file: &[u8]) {
    for (options, _) in variants() {
        let _ = mcount::scan(file, &options);
    }
}

/// `mcount list`.
pub fn list(file: &[u8]) {
    let _ = mcount::read_table(file, &Options::default());
}

/// `mcount check`: each finding has a rule and a line of text; and the functions behind coverage, each
/// of which has a hook or a reason.
pub fn check(file: &[u8]) {
    for (options, _) in variants() {
        for finding in mcount::check(file, &options, &CheckOptions::default()).into_iter().flatten()
        {
            assert!(!finding.detail.is_empty() && !finding.rule.name().is_empty());
        }
        if let Ok(functions) = mcount::functions(file, &options) {
            let found = mcount::coverage(&functions);
            assert_eq!(found.with_site + found.without_site(), functions.functions.len());
        }
    }
}

/// `mcount record`: what it makes has a table of as many entries as it says, and is done.
pub fn record(file: &[u8]) {
    for (options, how) in variants() {
        let Ok(recording) = mcount::record(file, &options, &how) else { continue };
        let Some(change) = recording.change else { continue };
        assert!(change.appended.len() <= 64 * file.len() + 4096, "more than the file explains");
        let new = change.apply(file);
        let _ = mcount::record(&new, &options, &how);
    }
}

/// `mcount table`.
pub fn table(file: &[u8]) {
    for (options, _) in variants() {
        let _ = mcount::late_table(file, &options, &LateOptions::default());
    }
}

/// `mcount sort`: it writes inside the file, and what is sorted stays.
pub fn sort(file: &[u8]) {
    for drop_stale in [false, true] {
        let sort = SortOptions::default().drop_stale(drop_stale);
        let Ok(sorted) = mcount::sort_table(file, &Options::default(), &sort) else {
            continue;
        };
        let new = written(file, &sorted.writes);
        let _ = mcount::sort_table(&new, &Options::default(), &sort);
    }
}

/// `mcount nop`.
pub fn nop(file: &[u8]) {
    for (options, _) in variants() {
        let Ok(nops) = mcount::make_nops(file, &options, &|_| true) else { continue };
        match nops.change {
            NopChange::Object(Some(change)) => drop(change.apply(file)),
            NopChange::Object(None) => {}
            NopChange::Image(writes) => drop(written(file, &writes)),
        }
    }
}

/// `mcount record` of an archive: the new one has the members of the old, and the rest of its bytes;
/// and of a thin one, its names.
pub fn archive(file: &[u8]) {
    static PLACE: LazyLock<tempfile::TempDir> =
        LazyLock::new(|| tempfile::tempdir_in("/dev/shm").expect("a folder in memory"));
    if file.starts_with(archive::THIN_MAGIC) {
        let _ = archive::names(file);
        return;
    }
    let (old, new) = (PLACE.path().join("old.a"), PLACE.path().join("new.a"));
    std::fs::write(&old, file).expect("a file in memory");
    let (options, how) = <(Options, RecordOptions)>::default();
    let Ok(recorded) = archive::record(&old, Some(&new), &options, &how) else { return };
    if recorded.results.iter().any(|(_, result)| result.is_err()) {
        return;
    }
    let names = |path| -> Vec<String> {
        let again = archive::read(path, |object| mcount::record(object, &options, &how));
        let again = again.expect("an archive that can be read");
        again
            .into_iter()
            .map(|(name, result)| (name, result.expect("recorded").change))
            .map(|(name, change)| {
                assert!(path == &old || change.is_none(), "{name} is recorded again");
                name
            })
            .collect()
    };
    assert_eq!(names(&old), names(&new));
}

/// What reads modules and kernel images: it keeps to its limit.
pub fn unpack(file: &[u8]) {
    const LIMIT: u64 = 1 << 20;
    let _ = unpack::packed_as(file);
    let _ = unpack::peek::<64>(file);
    let limits = unpack::Limits { max_size: Some(LIMIT) };
    if let Ok(Some(held)) = unpack::unpack(file, limits) {
        assert!(held.len() as u64 <= LIMIT.max(file.len() as u64));
    }
    for is_zstd in [false, true] {
        let held = unpack::section(file, is_zstd, LIMIT);
        assert!(held.is_none_or(|held| held.len() as u64 <= LIMIT));
    }
}

/// What reads traces: whatever is in them can be printed in each format, and compressed and brought back.
pub fn trace(bytes: &[u8]) {
    let Ok(calls) = mcount_trace::read(bytes, |trace| print_trace(trace)) else { return };
    let Ok(packer) = mcount_trace::Packer::new(bytes) else { return };
    assert!(calls * 8 <= bytes.len(), "more calls than there is room for");
    mcount_trace::index(bytes).expect("it was read before");
    let mut file = packer.head();
    let mut sizes = Vec::new();
    for number in 0..packer.blocks() {
        let (frame, whole) = packer.frame(number);
        sizes.push((frame.len() as u32, whole as u32));
        file.extend(frame);
    }
    file.extend(packer.table(&sizes));
    let packed = mcount_trace::Packed::open(&file).expect("it was just made");
    let blocks = (0..packed.blocks()).flat_map(|number| packed.block(number).expect("it is whole"));
    assert!(blocks.eq(bytes.iter().copied()));
}

/// Prints a trace in every way; how many calls it has.
fn print_trace(trace: &mcount_trace::Trace<'_>) -> usize {
    let (selection, none) = (Selection::default(), &mut std::io::sink());
    let progress = Progress::new(trace, None);
    use CallFormat::{Callgrind, Chrome, Csv, Firefox, Folded, Jsonl, Perfetto, Pprof, Text};
    for format in [Text, Jsonl, Csv, Folded, Chrome, Perfetto, Pprof, Callgrind, Firefox] {
        let fields = Field::USUAL.to_vec();
        let (has_colour, has_simple_names) = (false, true);
        let (weight, clock) = (Weight::Time, Clock::Trace);
        let lines = None;
        let manner = Manner { format, has_colour, has_simple_names, fields, weight, clock, lines };
        replay::print(none, trace, &selection, &manner, &progress).expect("nothing is written");
    }
    for by in [By::Function, By::Thread, By::Caller] {
        for format in [stats::StatsFormat::Jsonl, stats::StatsFormat::Text] {
            let manner = stats::Manner {
                by,
                sort: stats::Column::Total,
                format,
                has_simple_names: false,
                has_full_names: false,
                width: Some(80),
            };
            stats::print(none, trace, &selection, manner, &progress, |_| Vec::new())
                .expect("nothing is written");
        }
    }
    for format in [GraphFormat::Text, GraphFormat::Json] {
        let (function, width) = (None, Some(80));
        let (depth, min_share, has_full_names) = (64, 0.5, false);
        let manner = GraphManner { function, depth, min_share, format, has_full_names, width };
        graph::print(none, trace, &selection, &manner, &progress).expect("nothing is written");
    }
    for thread in 0..trace.threads.len().min(4) {
        for time in [0, 1_000, u64::MAX] {
            let _ = trace.stack_at(thread, time);
        }
    }
    trace.calls().count()
}

fn written(file: &[u8], writes: &[mcount::Write]) -> Vec<u8> {
    let mut new = file.to_vec();
    for (at, bytes) in writes {
        let at = usize::try_from(*at).expect("an offset in the file");
        new[at..][..bytes.len()].copy_from_slice(bytes);
    }
    new
}
