//! Printing calls on all processors: slices of time are printed into memory, and written in their order.
//!
//! That's for formats in which what is printed of a call depends on nothing but that call. For others, calls are read
//! ahead on all processors, and printed on one.

use super::Names;
use super::progress::Progress;
use super::select::Filter;
use mcount_trace::{Call, Slice};
use rayon::prelude::*;
use std::io::{self, Write};
use std::iter::Flatten;
use std::sync::mpsc::{IntoIter, SyncSender, sync_channel};

/// Calls of a slice. The text of those that are worked on has to fit into memory.
const SLICE: u64 = 8_192;

/// With more threads than this, too much of a slice would be read twice: slices get longer.
const FEW_THREADS: u64 = 4;

/// The most calls of a slice.
const MOST: u64 = 16 * SLICE;

/// The text for a call.
pub(super) trait Printer: Sync {
    /// Appends `calls` to `out`.
    fn print(&self, out: &mut Vec<u8>, names: &Names<'_, '_>, calls: impl Iterator<Item = Call>);
}

/// The selected calls.
#[derive(Clone, Copy)]
pub(super) struct PrintJob<'w, 't, 'a> {
    pub(super) names: &'w Names<'t, 'a>,
    pub(super) filter: &'w Filter<'w>,
    pub(super) progress: &'w Progress<'w>,
}

/// Prints the calls that are wanted, by start.
pub(super) fn print(
    out: &mut impl Write,
    work: &PrintJob<'_, '_, '_>,
    printer: &impl Printer,
) -> io::Result<()> {
    let slices = slices(work);
    let batch = 2 * rayon::current_num_threads();
    // The same memory again and again: the kernel takes long to hand out new.
    let (mut done, mut next) = (vec![Vec::new(); batch], vec![Vec::new(); batch]);
    for batch in slices.chunks(batch) {
        rayon::in_place_scope(|scope| {
            scope.spawn(|_| fill(&mut next, batch, work, printer));
            write(out, &done)
        })?;
        std::mem::swap(&mut done, &mut next);
    }
    write(out, &done)
}

fn slices(work: &PrintJob<'_, '_, '_>) -> Vec<Slice> {
    let threads = work.filter.threads() as u64;
    work.filter.slices((SLICE * threads.div_ceil(FEW_THREADS)).min(MOST))
}

/// Calls that were read ahead.
pub(super) type Ahead = Flatten<IntoIter<Vec<Call>>>;

/// Lets `print` print the calls that are wanted, by start.
pub(super) fn ahead<T>(work: &PrintJob<'_, '_, '_>, print: impl FnOnce(Ahead) -> T) -> T {
    let (sender, receiver) = sync_channel(1);
    std::thread::scope(|scope| {
        scope.spawn(move || read(work, &sender));
        print(receiver.into_iter().flatten())
    })
}

/// Sends all calls, a slice at a time, until the receiver wants no more.
fn read(work: &PrintJob<'_, '_, '_>, sender: &SyncSender<Vec<Call>>) {
    for batch in slices(work).chunks(rayon::current_num_threads()) {
        let calls = batch.par_iter().map(|slice| work.filter.calls_within(*slice).collect());
        for calls in calls.collect::<Vec<Vec<Call>>>() {
            work.progress.add(calls.len() as u64);
            if sender.send(calls).is_err() {
                return;
            }
        }
    }
}

/// Prints each slice into one of `parts`; what's left of those is emptied.
fn fill(
    parts: &mut [Vec<u8>],
    slices: &[Slice],
    work: &PrintJob<'_, '_, '_>,
    printer: &impl Printer,
) {
    parts.iter_mut().for_each(Vec::clear);
    parts.par_iter_mut().zip(slices).for_each(|(bytes, slice)| {
        let mut count = 0;
        let calls = work.filter.calls_within(*slice).inspect(|_| count += 1);
        printer.print(bytes, work.names, calls);
        work.progress.add(count);
    });
}

fn write(out: &mut impl Write, parts: &[Vec<u8>]) -> io::Result<()> {
    parts.iter().try_for_each(|part| out.write_all(part))
}
