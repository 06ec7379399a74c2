//! Code in pieces: those of functions, as unwind information and symbols tell them apart, and what's between them.

use super::image::{Image, Symbol};
use super::unwind::Unwind;
use mcount_cpu::probe::Scanned;
use std::ops::Range;

/// A piece of code that is decoded in one go: from the start of a function to its end, or to where another one starts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unit {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Where the function ends that starts here; `start` if nothing tells.
    pub(super) bound: u64,
    pub(super) found: Scanned,
}

/// The code of a section that belongs to no function that we know, from each symbol to the next.
pub(super) fn gaps(section: Range<u64>, units: &[Unit], symbols: &[Symbol<'_>]) -> Vec<Range<u64>> {
    let first = units.partition_point(|unit| unit.start < section.start);
    let within = units.get(first..).unwrap_or_default();
    let within = within.iter().take_while(|unit| unit.start < section.end);
    let mut found = Vec::new();
    let mut from = section.start;
    for unit in within {
        split(from..unit.start, symbols, &mut found);
        from = unit.end;
    }
    split(from..section.end, symbols, &mut found);
    found
}

/// Adds a range, in pieces that begin at symbols.
fn split(range: Range<u64>, symbols: &[Symbol<'_>], found: &mut Vec<Range<u64>>) {
    let first = symbols.partition_point(|symbol| symbol.address <= range.start);
    let within = symbols.get(first..).unwrap_or_default();
    let mut from = range.start;
    for symbol in within.iter().take_while(|symbol| symbol.address < range.end) {
        if from < symbol.address {
            found.push(from..symbol.address);
        }
        from = symbol.address;
    }
    if from < range.end {
        found.push(from..range.end);
    }
}

/// All functions' code, from the unwind information and the symbols, apart.
pub(super) fn units(image: &Image<'_>, unwind: &Unwind<'_>, symbols: &[Symbol<'_>]) -> Vec<Unit> {
    let frames = unwind.frames.iter().map(|frame| (frame.start, frame.end, true));
    let functions = symbols.iter().filter(|symbol| symbol.is_function);
    let functions =
        functions.map(|symbol| (symbol.address, symbol.address.saturating_add(symbol.size), false));
    let mut all: Vec<(u64, u64, bool)> = frames.chain(functions).collect();
    // Unwind information comes first, and of symbols the longest.
    all.sort_unstable_by_key(|(start, end, is_frame)| {
        (*start, !*is_frame, std::cmp::Reverse(*end))
    });
    all.dedup_by_key(|(start, ..)| *start);
    let nexts: Vec<u64> = all.iter().skip(1).map(|(start, ..)| *start).chain([u64::MAX]).collect();
    let mut covered = 0;
    let mut found = Vec::with_capacity(all.len());
    for ((start, bound, _), next) in all.into_iter().zip(nexts) {
        let section = start.saturating_add(image.code_at(start).len() as u64);
        // A symbol without a size, inside a function.
        let bound = match unwind.frame_at(start).filter(|_| bound == start) {
            Some(frame) => frame.end,
            None => bound,
        };
        covered = bound.max(covered);
        // A function inside another one may end before that.
        let end = covered.min(next).min(section);
        found.push(Unit { start, end, bound, found: Scanned::default() });
    }
    found
}
