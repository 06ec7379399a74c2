//! Where the table is, in a kernel whose names don't say it: without `CONFIG_KALLSYMS_ALL`, kernels only keep
//! the names of functions. It's the longest run of words that lead to places in code that look alike.

use super::words::{Order, word};
use super::{Name, PAGE};
use std::collections::{BTreeSet, HashMap};

/// The names of the bounds of the table.
const START: &str = "__start_mcount_loc";
const END: &str = "__stop_mcount_loc";
/// The fewest entries of a table.
const FEWEST: usize = 64;
/// How many entries to look at, to find out what they have in common.
const SAMPLES: usize = 512;
/// With how many of them to look for the address of the image. An entry may be that of a function without name.
const ANCHORS: usize = 4;

/// Bytes with words, and the address of the first of them.
#[derive(Clone, Copy)]
pub(super) struct Data<'d> {
    pub(super) bytes: &'d [u8],
    pub(super) address: u64,
    /// The size of a word in bytes.
    pub(super) size: usize,
    pub(super) order: Order,
}

/// A run of words: the offset of the first, and the words.
pub(super) struct Run {
    pub(super) offset: usize,
    pub(super) words: Vec<u64>,
}

impl Data<'_> {
    /// The longest run of words between `first` and `last`, all different from the one before. `None` if
    /// none is long enough.
    pub(super) fn longest(&self, first: u64, last: u64) -> Option<Run> {
        let is_big = self.order == Order::Big;
        let (mut best, mut run) = ((0, 0), (0, 0));
        let mut before = 0;
        for (number, bytes) in self.bytes.chunks_exact(self.size).enumerate() {
            let word = word(bytes, 0, self.size, is_big)?;
            if !(first..last).contains(&word) || word == before {
                run = (number + 1, 0);
            } else {
                run.1 += 1;
            }
            before = word;
            if run.1 > best.1 {
                best = run;
            }
        }
        let (start, count) = best;
        self.run(start, count)
    }

    /// The run of `count` words from the one with the number `start` on. `None` if it isn't long enough.
    fn run(&self, start: usize, count: usize) -> Option<Run> {
        let is_big = self.order == Order::Big;
        let bytes = self.bytes.get(start * self.size..(start + count) * self.size)?;
        let words = bytes.chunks_exact(self.size).filter_map(|at| word(at, 0, self.size, is_big));
        (count >= FEWEST).then(|| Run { offset: start * self.size, words: words.collect() })
    }

    /// The words of the longest run in which each differs from the one before, by less than `size`.
    fn longest_cluster(&self, size: u64) -> Option<Vec<u64>> {
        let is_big = self.order == Order::Big;
        let (mut best, mut run) = ((0, 0), (0, 0));
        let mut before = 0;
        for (number, bytes) in self.bytes.chunks_exact(self.size).enumerate() {
            let word = word(bytes, 0, self.size, is_big)?;
            if before >= PAGE && word >= PAGE && (1..size).contains(&word.abs_diff(before)) {
                run.1 += 1;
            } else {
                run = (number, 1);
            }
            before = word;
            if run.1 > best.1 {
                best = run;
            }
        }
        self.run(best.0, best.1).map(|run| run.words)
    }
}

/// What places in code have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Mark {
    /// Their first byte.
    First(u8),
    /// The four bytes before them.
    Before([u8; 4]),
}

/// What `bytes` have at and before `at`.
fn marks(bytes: &[u8], at: usize) -> impl Iterator<Item = Mark> {
    let first = bytes.get(at).map(|byte| Mark::First(*byte));
    let before =
        at.checked_sub(4).and_then(|start| bytes.get(start..)?.first_chunk::<4>().copied());
    first.into_iter().chain(before.map(Mark::Before))
}

/// What most of `words` have in common, if the code at `base` is `bytes`, and how many of a hundred have it.
fn most(bytes: &[u8], base: u64, words: &[u64]) -> Option<(Mark, usize)> {
    let step = words.len().div_ceil(SAMPLES).max(1);
    let mut counts: HashMap<Mark, usize> = HashMap::new();
    for word in words.iter().step_by(step) {
        let at = word.checked_sub(base).and_then(|at| usize::try_from(at).ok());
        for mark in at.into_iter().flat_map(|at| marks(bytes, at)) {
            *counts.entry(mark).or_default() += 1;
        }
    }
    let of = words.len().div_ceil(step).max(1);
    // Zeroes have nothing in common.
    counts.retain(|mark, _| !matches!(mark, Mark::First(0) | Mark::Before([0, 0, 0, 0])));
    let (mark, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    Some((mark, count * 100 / of))
}

/// How well `words` lead to places that look alike if the code at `base` is `bytes`: of a hundred.
pub(super) fn likeness(bytes: &[u8], base: u64, words: &[u64]) -> usize {
    most(bytes, base, words).map_or(0, |(_, share)| share)
}

/// How far from the start of its function an entry may lead, in bytes.
const NEAR: u64 = 16;

/// The address of the first byte of `data`, by the table in it and by `names`, whose addresses count from that
/// byte. Among the multiples of a page, it is the one from which most entries lead to functions.
pub(super) fn base_by_functions(data: Data<'_>, names: &[Name]) -> Option<u64> {
    let size = data.bytes.len() as u64;
    let functions = names.iter().filter(|name| name.is_code() && name.address < size);
    let functions: BTreeSet<u64> = functions.map(|name| name.address).collect();
    let words = data.longest_cluster(size)?;
    let step = words.len().div_ceil(SAMPLES).max(1);
    let samples: Vec<u64> = words.into_iter().step_by(step).collect();
    let score = |base: u64| {
        let offsets = samples.iter().filter_map(|word| word.checked_sub(base));
        let is_near = |at: &u64| {
            functions.range(at.saturating_sub(NEAR)..=at.saturating_add(NEAR)).next().is_some()
        };
        offsets.filter(is_near).count()
    };
    let mut candidates = BTreeSet::new();
    for word in samples.iter().step_by(samples.len().div_ceil(ANCHORS)) {
        let bases = functions.iter().filter_map(|function| {
            let base = word.checked_sub(*function)?.checked_add(NEAR)?;
            (base % PAGE <= 2 * NEAR).then_some(base - base % PAGE)
        });
        candidates.extend(bases);
    }
    let (best, base) = candidates.into_iter().map(|base| (score(base), base)).max()?;
    (best * 100 >= samples.len() * 80).then_some(base)
}

/// The names of the bounds of the table in `data`, which leads into `code` from `base` on; `names` are those of
/// functions. Empty if they are among `names`, or if there is no table.
pub(super) fn bounds(data: Data<'_>, code: &[u8], base: u64, names: &[Name]) -> Vec<Name> {
    let functions = || names.iter().filter(|name| name.is_code()).map(|name| name.address);
    if names.iter().any(|name| name.text == START) {
        return Vec::new();
    }
    let (Some(first), Some(last)) = (functions().min(), functions().max()) else {
        return Vec::new();
    };
    let Some(run) = data.longest(first, last.saturating_add(0x1000)) else { return Vec::new() };
    let Some((mark, share)) = most(code, base, &run.words) else { return Vec::new() };
    if share < 80 {
        return Vec::new();
    }
    let has = |word: &u64| {
        let at = word.checked_sub(base).and_then(|at| usize::try_from(at).ok());
        at.is_some_and(|at| marks(code, at).any(|other| other == mark))
    };
    // What is before and after the table may lead into code, too.
    let Some(start) = run.words.iter().position(has) else { return Vec::new() };
    let end = run.words.iter().rposition(has).map_or(start, |last| last + 1);
    let place = |number: usize| data.address + (run.offset + number * data.size) as u64;
    let bound = |text: &str, number| Name {
        text: text.to_owned(),
        address: place(number),
        letter: b'D',
        size: 0,
    };
    vec![bound(START, start), bound(END, end)]
}
