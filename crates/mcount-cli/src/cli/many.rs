//! Running a command over many files: in parallel, with progress, the results in order.

use super::options::JobArgs;
use crate::commit::Failure;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::prelude::*;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

/// From this many files on, a terminal shows progress.
const PROGRESS_FROM: usize = 200;

/// `work` on each of `files`, in parallel; the results in the files' order.
pub(super) fn over<T: Send>(
    files: &[PathBuf],
    jobs: &JobArgs,
    work: impl Fn(&Path) -> Result<T, Failure> + Sync,
) -> io::Result<Vec<Result<T, Failure>>> {
    if files.len() == 1 || jobs.jobs == 1 {
        return Ok(files.iter().map(|path| work(path)).collect());
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs.jobs).build();
    let pool = pool.map_err(io::Error::other)?;
    let progress = progress(files.len());
    let done = |path: &PathBuf| {
        let result = work(path);
        progress.inc(1);
        result
    };
    let results = pool.install(|| files.par_iter().map(done).collect());
    progress.finish_and_clear();
    Ok(results)
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
