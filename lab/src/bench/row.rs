//! A row of `docs/benchmarks.md` as plain data: programs, their input, and the goals.

use std::ffi::OsString;
use std::path::PathBuf;

use super::sample::{Sample, Verdict};

/// What a program works on.
#[derive(Clone)]
pub(crate) enum Input {
    /// Fresh copies of these files, one for each run; their names are the last arguments.
    Copies(Vec<PathBuf>),
    /// This file, which is only read; its path is the last argument.
    InPlace(PathBuf),
}

/// What can be counted of what a program did.
#[derive(Clone, Copy)]
pub(crate) enum What {
    Records,
    Prints,
    Nothing,
}

/// A program to measure.
pub(crate) struct Program {
    pub(crate) label: String,
    /// The command as a reader would type it.
    pub(crate) shown: String,
    pub(crate) command: Vec<OsString>,
    pub(crate) input: Input,
    pub(crate) what: What,
}

/// The least that a program of this row could do.
pub(crate) struct Floor {
    pub(crate) text: String,
    pub(crate) reads: Reads,
}

/// What must be read of files.
pub(crate) enum Reads {
    /// Symbols and the relocations of code, of each copy of these; then what was added is appended.
    Relocations(Vec<PathBuf>),
    /// Symbols, and the relocations of code.
    ImageRelocations(PathBuf),
    /// Symbols, and the table.
    Table(PathBuf),
}

/// What is to be reached: by positions in [`Row::programs`].
pub(crate) enum Goal {
    /// `peer` takes at least so many times as long as `ours`.
    Faster { ours: usize, peer: usize, times: f64 },
    /// `ours` takes at most so many times as long as `peer`.
    Within { ours: usize, peer: usize, times: f64 },
    /// The peak memory of `ours` is at most a tenth more than that of `like`.
    Memory { ours: usize, like: usize },
}

/// One row.
pub(crate) struct Row {
    pub(crate) title: String,
    /// What the input is.
    pub(crate) input: String,
    pub(crate) programs: Vec<Program>,
    pub(crate) goals: Vec<Goal>,
    pub(crate) floor: Option<Floor>,
    /// So many times as many runs as asked for: a short program is disturbed by anything.
    pub(crate) repeat: usize,
}

impl Goal {
    pub(crate) fn verdict(&self, samples: &[Sample]) -> Verdict {
        let sample = |index: usize| samples.get(index).cloned().unwrap_or_default();
        match *self {
            Self::Faster { ours, peer, times } => {
                let (ours, peer) = (sample(ours), sample(peer));
                let ratio = peer.median() / ours.median();
                let least =
                    if times > 1.0 { format!("≥ {times}× faster") } else { "no slower".into() };
                Verdict {
                    text: format!("{}: {least} than {}", ours.label, peer.label),
                    measured: with_cpu(ratio, peer.median_cpu() / ours.median_cpu()),
                    is_reached: ratio >= times,
                }
            }
            Self::Within { ours, peer, times } => {
                let (ours, peer) = (sample(ours), sample(peer));
                let ratio = ours.median() / peer.median();
                Verdict {
                    text: format!("{}: within {times}× of {}", ours.label, peer.label),
                    measured: with_cpu(ratio, ours.median_cpu() / peer.median_cpu()),
                    is_reached: ratio <= times,
                }
            }
            Self::Memory { ours, like } => {
                let (ours, like) = (sample(ours), sample(like));
                let memory = |sample: &Sample| sample.memory.unwrap_or(0);
                let (own, other) = (memory(&ours), memory(&like));
                Verdict {
                    text: format!("{}: peak memory that does not grow with them", ours.label),
                    measured: format!("{own} KiB, and {other} KiB without them"),
                    is_reached: own <= other + other / 10,
                }
            }
        }
    }
}

/// A ratio of times, and the same of processor times.
fn with_cpu(wall: f64, cpu: f64) -> String {
    let text = |ratio: f64| {
        let digits = if ratio < 10.0 { 2 } else { usize::from(ratio < 100.0) };
        format!("{ratio:.digits$}×")
    };
    format!("{} (processor time {})", text(wall), text(cpu))
}
