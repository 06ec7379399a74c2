//! Running a command over many files: in parallel, with progress, the results in order.

use super::options::JobArgs;
use super::{SUCCESS, complain};
use crate::archive::Members;
use crate::commit::Failure;
use crate::inputs::{Item, Kind, Label, Take, expand};
use crate::jobs::Threads;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::ThreadPool;
use rayon::prelude::*;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

/// From this many files on, a terminal shows progress.
const PROGRESS_FROM: usize = 200;

/// A result, and what it is about.
pub(super) type Outcome<T> = (Label, Result<T, Failure>);

/// `file` on each file, and `archive` on each archive, that `paths` stand for, in parallel; the
/// results in order. Of folders those files that `take` says. `file` is told whether it is the only
/// work that there is.
pub(super) fn over<T: Send>(
    paths: &[PathBuf],
    jobs: &JobArgs,
    take: Take,
    file: impl Fn(&Path, bool) -> Result<T, Failure> + Sync,
    archive: impl Fn(&Path) -> Result<Members<T>, Failure> + Sync,
) -> io::Result<Vec<Outcome<T>>> {
    let mut threads = if paths.len() > 1 { pool(jobs)? } else { None };
    let items = each(threads.as_ref(), paths.iter().collect(), |path: &PathBuf| expand(path, take));
    let items: Vec<Item> = items.into_iter().flatten().collect();
    if threads.is_none() && is_work_for_many(&items) {
        threads = pool(jobs)?;
    }
    let is_one = items.len() == 1;
    let work = |Item { label, kind }: Item| match kind {
        Kind::File(path) => (vec![(label, file(&path, is_one))], Vec::new()),
        Kind::Unreadable(failure) => (vec![(label, Err(failure))], Vec::new()),
        Kind::Nested => (Vec::new(), vec![label]),
        Kind::Archive => match archive(&label.file) {
            Err(failure) => (vec![(label, Err(failure))], Vec::new()),
            Ok(Members { results, nested }) => {
                let of_member = |(name, result)| (label.member(name), result);
                let nested = nested.into_iter().map(|name| label.member(name));
                (results.into_iter().map(of_member).collect(), nested.collect())
            }
        },
    };
    let mut outcomes = Vec::new();
    for (results, nested) in each(threads.as_ref(), items, work) {
        outcomes.extend(results);
        for label in nested {
            complain(&format!("warning: {label}: an archive in an archive is passed over"));
        }
    }
    Ok(outcomes)
}

/// Complains of what failed and prints the rest, in order; the exit code. That somebody has read
/// enough of the output is no error, but hides none either.
pub(super) fn report<T>(
    results: Vec<Outcome<T>>,
    mut print: impl FnMut(&Label, &T) -> io::Result<()>,
) -> io::Result<u8> {
    let mut code = SUCCESS;
    let mut is_read = true;
    for (label, result) in results {
        match result {
            Ok(value) if is_read => match print(&label, &value) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => is_read = false,
                other => other?,
            },
            Ok(_) => {}
            Err(failure) => code = complain(&format!("{label}: {failure}")),
        }
    }
    Ok(code)
}

/// Whether threads are worth starting.
fn is_work_for_many(items: &[Item]) -> bool {
    items.len() > 1 || items.iter().any(|item| matches!(item.kind, Kind::Archive))
}

/// The threads to work on, and the right to; none where one does it all.
fn pool(jobs: &JobArgs) -> io::Result<Option<(ThreadPool, Threads)>> {
    let threads = Threads::new(jobs.jobs);
    if threads.count == 1 {
        return Ok(None);
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.count).build();
    pool.map(|pool| Some((pool, threads))).map_err(io::Error::other)
}

/// `work` on each of `items`, on the threads of `pool` if there is one.
fn each<I: Send, T: Send>(
    pool: Option<&(ThreadPool, Threads)>,
    items: Vec<I>,
    work: impl Fn(I) -> T + Sync,
) -> Vec<T> {
    let Some((pool, _)) = pool else { return items.into_iter().map(work).collect() };
    let progress = progress(items.len());
    let done = |item| {
        let result = work(item);
        progress.inc(1);
        result
    };
    let results = pool.install(|| items.into_par_iter().map(done).collect());
    progress.finish_and_clear();
    results
}

/// A bar on stderr, for long work on a terminal.
fn progress(length: usize) -> ProgressBar {
    if length < PROGRESS_FROM || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let target = ProgressDrawTarget::stderr();
    let bar = ProgressBar::with_draw_target(Some(length as u64), target);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} files, {eta} left");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
