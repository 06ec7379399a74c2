//! Printing calls on all processors: slices of time are printed into memory, and written in their order.
//!
//! For formats in which what is printed of a call depends on nothing but that call.

use super::Names;
use super::progress::Progress;
use super::select::Filter;
use mcount_trace::{Call, Slice};
use rayon::prelude::*;
use std::io::{self, Write};

/// Calls of a slice. What is printed of those that are worked on has to fit into memory.
const SLICE: u64 = 32_768;

/// With more threads than this, too much of a slice would be read twice: slices get longer.
const FEW_THREADS: u64 = 4;

/// The most calls of a slice.
const MOST: u64 = 8 * SLICE;

/// What is printed of a call.
pub(super) trait Format: Sync {
    /// Appends `calls` to `out`.
    fn print(&self, out: &mut Vec<u8>, names: &Names<'_, '_>, calls: impl Iterator<Item = Call>);
}

/// What is to be printed.
pub(super) struct Work<'w, 't, 'a> {
    pub(super) names: &'w Names<'t, 'a>,
    pub(super) filter: &'w Filter<'w>,
    pub(super) progress: &'w Progress<'w>,
}

/// Prints the calls that are wanted, by start.
pub(super) fn print(
    out: &mut impl Write,
    work: &Work<'_, '_, '_>,
    format: &impl Format,
) -> io::Result<()> {
    let threads = work.filter.threads() as u64;
    let slices = work.filter.slices((SLICE * threads.div_ceil(FEW_THREADS)).min(MOST));
    let mut done = Vec::new();
    for batch in slices.chunks(2 * rayon::current_num_threads()) {
        let mut next = Vec::new();
        rayon::in_place_scope(|scope| {
            scope.spawn(|_| next = printed(batch, work, format));
            write(out, &done)
        })?;
        done = next;
    }
    write(out, &done)
}

fn printed(slices: &[Slice], work: &Work<'_, '_, '_>, format: &impl Format) -> Vec<Vec<u8>> {
    let slices = slices.par_iter().map(|slice| {
        let (mut bytes, mut count) = (Vec::new(), 0);
        let calls = work.filter.calls_within(*slice).inspect(|_| count += 1);
        format.print(&mut bytes, work.names, calls);
        work.progress.add(count);
        bytes
    });
    slices.collect()
}

fn write(out: &mut impl Write, parts: &[Vec<u8>]) -> io::Result<()> {
    parts.iter().try_for_each(|part| out.write_all(part))
}
