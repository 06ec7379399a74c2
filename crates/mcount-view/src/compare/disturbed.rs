//! Traces that are slower as a whole, because the machine did something else: the times of nearly all functions are greater
//! there by about as much.
//!
//! The level of a trace is the median of its functions' slowdowns. Traces far above the quietest of their side
//! are left out, and what remains of levels is taken off the others' times. This is a further view of the
//! times, beside those of all traces: a build that is slower as a whole is seen only there.

use super::statistics::{Sample, median};
use super::{SEVERAL, Timed};

/// By how much more than the quietest trace of its side a trace may be slower, as a logarithm.
const DISTURBED: f64 = 0.03;

/// How many traces of a side aren't left out.
const LEAST: usize = 2;

/// Nanoseconds from which on a function's time says how much slower a trace is: the clock's steps matter little.
const CLEAR: f64 = 50.0;

/// How disturbed the traces of both sides are.
#[derive(Debug)]
pub(super) struct Levels {
    old: Side,
    new: Side,
}

/// The traces of a side that remain, and how much slower than the quietest of all each is, as a logarithm.
#[derive(Debug)]
struct Side {
    quiet: Vec<(usize, f64)>,
    all: usize,
}

impl Levels {
    /// Of times in one view; `None` if too few functions tell, or no trace is disturbed.
    pub(super) fn new(samples: &[Option<Timed>]) -> Option<Self> {
        let tells = |timed: &&Timed| timed.is_frequent && timed.least > CLEAR;
        let clear: Vec<&Sample> =
            samples.iter().flatten().filter(tells).map(|timed| &timed.sample).collect();
        if clear.len() < SEVERAL {
            return None;
        }
        let references: Vec<f64> = clear
            .iter()
            .map(|sample| median(&[&sample.old[..], &sample.new[..]].concat()))
            .collect();
        let levels = |side: fn(&Sample) -> &[f64]| -> Vec<f64> {
            let count = clear.first().map_or(0, |sample| side(sample).len());
            let level = |trace: usize| {
                let times = clear.iter().map(|sample| side(sample).get(trace));
                let beyond: Vec<f64> = times
                    .zip(&references)
                    .filter_map(|(time, reference)| Some(time? - reference))
                    .collect();
                median(&beyond)
            };
            (0..count).map(level).collect()
        };
        let (old, new) = (levels(|sample| &sample.old), levels(|sample| &sample.new));
        let quietest = old.iter().chain(&new).copied().fold(f64::INFINITY, f64::min);
        let (old, new) = (Side::new(&old, quietest), Side::new(&new, quietest));
        let levels = Self { old, new };
        (levels.left_out() > 0).then_some(levels)
    }

    /// How many traces are left out.
    pub(super) fn left_out(&self) -> usize {
        [&self.old, &self.new].iter().map(|side| side.all - side.quiet.len()).sum()
    }

    /// Times as they'd be, had the traces been quiet.
    pub(super) fn apply(&self, sample: &Sample) -> Sample {
        Sample { old: self.old.apply(&sample.old), new: self.new.apply(&sample.new) }
    }

    /// The times of the traces that aren't left out.
    pub(super) fn remaining(&self, sample: &Sample) -> Sample {
        Sample { old: self.old.remaining(&sample.old), new: self.new.remaining(&sample.new) }
    }
}

impl Side {
    fn new(levels: &[f64], quietest: f64) -> Self {
        let mut order: Vec<(usize, f64)> = levels.iter().copied().enumerate().collect();
        order.sort_by(|a, b| a.1.total_cmp(&b.1));
        let first = order.first().map_or(0.0, |(_, level)| *level);
        let quiet = order.iter().filter(|(_, level)| level - first <= DISTURBED).count();
        order.truncate(quiet.max(LEAST));
        let quiet = order.into_iter().map(|(at, level)| (at, level - quietest)).collect();
        Self { quiet, all: levels.len() }
    }

    fn apply(&self, times: &[f64]) -> Vec<f64> {
        let time = |(at, level): &(usize, f64)| Some(times.get(*at)? - level);
        self.quiet.iter().filter_map(time).collect()
    }

    fn remaining(&self, times: &[f64]) -> Vec<f64> {
        self.quiet.iter().filter_map(|(at, _)| times.get(*at).copied()).collect()
    }
}
