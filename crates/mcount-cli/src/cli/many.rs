//! Running a command over many files: in parallel, with progress, the results in order.

use super::options::ManyArgs;
use super::{SUCCESS, complain};
use crate::archive::Members;
use crate::commit::Failure;
use crate::inputs::{Item, Kind, Label, Take, expand, is_folder};
use crate::jobs::Threads;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::ThreadPool;
use rayon::prelude::*;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

/// From this many files on, a terminal shows progress.
const PROGRESS_FROM: usize = 200;

/// Its subject, and the result.
pub(super) type FileResult<T> = (Label, Result<T, Failure>);

/// Runs `file` on each file and `archive` on each archive that `paths` mean, in parallel. The
/// results come in the order of the paths. `take` says which files of a folder are taken. `file` learns
/// whether it has the only file there is.
pub(super) fn over<T: Send>(
    paths: &[PathBuf],
    many: &ManyArgs,
    take: Take,
    file: impl Fn(&Path, bool) -> Result<T, Failure> + Sync,
    archive: impl Fn(&Path) -> Result<Members<T>, Failure> + Sync,
) -> io::Result<Vec<FileResult<T>>> {
    let mut threads = if paths.len() > 1 { pool(many)? } else { None };
    let items = each(threads.as_ref(), paths.iter().collect(), |path: &PathBuf| {
        let items = expand(path, take);
        let is_wrong = items.is_empty() && is_folder(path) && !many.allow_empty;
        if is_wrong { vec![without_objects(path, take)] } else { items }
    });
    let items: Vec<Item> = items.into_iter().flatten().collect();
    if threads.is_none() && is_work_for_many(&items) {
        threads = pool(many)?;
    }
    let is_one = items.len() == 1;
    let done = each(threads.as_ref(), items, |Item { label, kind }| match kind {
        Kind::File(path) => (vec![(label, file(&path, is_one))], Vec::new()),
        Kind::Unreadable(failure) => (vec![(label, Err(failure))], Vec::new()),
        Kind::Nested => (Vec::new(), vec![label]),
        Kind::Archive => match archive(&label.file) {
            Err(failure) => (vec![(label, Err(failure))], Vec::new()),
            Ok(members) => of_members(&label, members),
        },
    });
    let mut outcomes = Vec::new();
    for (results, nested) in done {
        outcomes.extend(results);
        for label in nested {
            complain(&format!("warning: {label}: skipped, because it is an archive in an archive"));
        }
    }
    Ok(outcomes)
}

/// Says of the folder at `path` that no object is in it. It may be the wrong one: a build that records or
/// checks that must not pass.
fn without_objects(path: &Path, take: Take) -> Item {
    let is_packed = take == Take::Objects && !expand(path, Take::Compressed).is_empty();
    let what = if is_packed { "only compressed objects in it" } else { "no objects in it" };
    let why = io::Error::other(format!("{what}; --allow-empty accepts that"));
    Item { label: Label::of(path), kind: Kind::Unreadable(why.into()) }
}

/// The outcomes of `members`, which are of the archive `label`, and which of them are archives.
fn of_members<T>(label: &Label, members: Members<T>) -> (Vec<FileResult<T>>, Vec<Label>) {
    let results = members.results.into_iter();
    let nested = members.nested.into_iter();
    (
        results.map(|(name, result)| (label.member(name), result)).collect(),
        nested.map(|name| label.member(name)).collect(),
    )
}

/// Complains about what failed and prints the rest, in order; the exit code. A reader that has seen
/// enough is no error, and hides no error either.
pub(super) fn report<T>(
    results: Vec<FileResult<T>>,
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
fn pool(many: &ManyArgs) -> io::Result<Option<(ThreadPool, Threads)>> {
    let threads = Threads::new(many.jobs);
    if threads.count == 1 {
        return Ok(None);
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.count).build();
    pool.map(|pool| Some((pool, threads)))
        .map_err(|_| io::Error::other("cannot start threads: try --jobs 1"))
}

/// `work` on each of `items`, on the threads of `pool` if there is one.
fn each<I: Send, T: Send>(
    pool: Option<&(ThreadPool, Threads)>,
    items: Vec<I>,
    work: impl Fn(I) -> T + Sync,
) -> Vec<T> {
    let Some((pool, _)) = pool else { return items.into_iter().map(work).collect() };
    let progress = progress(items.len());
    let results = pool.install(|| {
        let results = items.into_par_iter().map(|item| {
            let result = work(item);
            progress.inc(1);
            result
        });
        results.collect()
    });
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
