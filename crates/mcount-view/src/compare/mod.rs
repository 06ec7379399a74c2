//! Comparing the traces of two builds, several on each side: which functions take longer, are called more
//! often, are new or gone. What lies within the spread of the traces is no difference.
//!
//! Two traces of one program differ as well: the machine did something else, memory lay elsewhere. So a
//! difference counts if three things are true: every trace of one side is beyond all of the other, the
//! difference is greater than what chance makes of that many functions (`statistics`), and it's greater than
//! the threshold.

mod disturbed;
mod measure;
mod print;
mod samples;
pub(crate) mod statistics;

pub use measure::{By, Functions, Key, Measured, measure};
pub use print::{ComparisonFormat, print};
pub use samples::{Sampled, compare_samples, is_left_out, is_sample, samples};

use disturbed::Levels;
use measure::{SHARES, VIEWS};
use statistics::{Sample, mean, median};
use std::collections::BTreeSet;

/// The compared numbers.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Which time.
    pub by: By,
    /// A difference is greater than this part of what it was.
    pub threshold: f64,
    /// Only what takes longer, is called more often, or is new.
    pub only_worse: bool,
    /// Functions without a difference too.
    pub has_all: bool,
}

/// A number of both sides.
#[derive(Debug, Clone, Copy, Default)]
pub struct Change {
    /// Of the traces: the geometric mean of times, the median of numbers of calls.
    pub old: f64,
    /// The same.
    pub new: f64,
    /// As a part of the old number.
    pub difference: f64,
    /// What chance doesn't pass, the same; not known of one number a side.
    pub noise: Option<f64>,
    /// Whether this is a difference.
    pub counts: bool,
    /// Of times: which part of the calls it's of, the fastest ones.
    pub share: Option<f64>,
}

/// A function of both sides, or one.
#[derive(Debug, Clone)]
pub struct Row {
    /// Which.
    pub key: Key,
    /// How often it was called.
    pub calls: Change,
    /// Nanoseconds of a call, of those that tell most.
    pub time: Option<Change>,
    /// The time of a call on each side, of all calls, for people.
    pub shown: Option<[f64; 2]>,
}

impl Row {
    /// The differences: words for a program to read.
    #[must_use]
    pub fn words(&self) -> Vec<&'static str> {
        let calls = self.calls;
        if calls.counts && calls.old == 0.0 {
            return vec!["new"];
        }
        if calls.counts && calls.new == 0.0 {
            return vec!["gone"];
        }
        let time = self.time.filter(|time| time.counts);
        let time = time.map(|time| if time.difference > 0.0 { "slower" } else { "faster" });
        let more = if calls.difference > 0.0 { "more-calls" } else { "fewer-calls" };
        time.into_iter().chain(calls.counts.then_some(more)).collect()
    }

    /// Whether the user has to wait longer for the program because of this.
    #[must_use]
    pub fn is_worse(&self) -> bool {
        self.words().iter().any(|word| ["new", "slower", "more-calls"].contains(word))
    }

    /// Nanoseconds that it costs more or less in a run, about.
    fn impact(&self) -> f64 {
        self.shown.map_or(0.0, |[old, new]| (new * self.calls.new - old * self.calls.old).abs())
    }
}

/// What sides are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// Traces: all calls.
    #[default]
    Traces,
    /// Samples: estimates. Numbers of calls are those in a second.
    Samples,
}

/// What two sides come to.
#[derive(Debug, Default)]
pub struct Comparison {
    /// What they are made of.
    pub kind: Kind,
    /// How many traces or samples each side has.
    pub traces: [usize; 2],
    /// How many of them are slower as a whole than others of their side.
    pub disturbed: usize,
    /// How many functions can't be compared, because all samples of a side left them out.
    pub left_out: usize,
    /// How many functions were compared.
    pub functions: usize,
    /// The differences, that with the greatest effect first; or all functions.
    pub rows: Vec<Row>,
    /// How many of them are different.
    pub differences: usize,
    /// The noise of half of the functions that are called often and aren't very short.
    pub noise: Option<f64>,
}

/// Compares two sides, with functions of each trace.
#[must_use]
pub fn compare(old: &[Functions], new: &[Functions], rule: &Rule) -> Comparison {
    let keys: BTreeSet<&Key> = old.iter().chain(new).flat_map(|trace| trace.keys()).collect();
    let (views, disturbed) = views(&keys, old, new);
    let mut rows: Vec<Row> = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        let calls = calls_of(key, old, new, statistics::equal_odds(keys.len()), rule);
        let odds = 1.0 / float(views.len() as u64);
        let times = views.iter().filter_map(|view| view.change(at, odds, rule));
        // The view that tells most; if none tells anything, the last: most calls.
        let tells = |change: &Change| (change.counts, change.surplus());
        let time = times.reduce(|best, next| if tells(&best) > tells(&next) { best } else { next });
        let shown = time.and_then(|_| Some([shown(key, old)?, shown(key, new)?]));
        rows.push(Row { key: (*key).clone(), calls, time, shown });
    }
    let is_clear =
        |row: &&Row| row.calls.old >= FREQUENT && row.time.is_some_and(|time| time.old > SHORT);
    let noise: Vec<f64> = rows.iter().filter(is_clear).filter_map(|row| row.time?.noise).collect();
    let noise = (!noise.is_empty()).then(|| median(&noise));
    let traces = [old.len(), new.len()];
    finish(Comparison { traces, disturbed, rows, noise, ..Comparison::default() }, rule)
}

/// Counts the differences, and leaves out what isn't wanted.
fn finish(mut comparison: Comparison, rule: &Rule) -> Comparison {
    let rows = &mut comparison.rows;
    comparison.functions = rows.len();
    let is_wanted =
        |row: &Row| if rule.only_worse { row.is_worse() } else { !row.words().is_empty() };
    comparison.differences = rows.iter().filter(|row| is_wanted(row)).count();
    rows.retain(|row| rule.has_all || is_wanted(row));
    rows.sort_by(|a, b| {
        let first = is_wanted(b).cmp(&is_wanted(a));
        first.then(b.impact().total_cmp(&a.impact())).then_with(|| a.key.cmp(&b.key))
    });
    comparison
}

impl Change {
    fn new(sample: &Sample, noise: Option<f64>, rule: &Rule) -> Self {
        let difference = sample.difference();
        let is_beyond = difference.abs() > noise.unwrap_or(0.0) && sample.is_apart();
        let relative = difference.exp_m1();
        Self {
            old: mean(&sample.old).exp(),
            new: mean(&sample.new).exp(),
            difference: relative,
            noise: noise.map(f64::exp_m1),
            counts: is_beyond && relative.abs() > rule.threshold,
            share: None,
        }
    }

    /// How many times the noise the difference is.
    fn surplus(&self) -> f64 {
        self.difference.ln_1p().abs() / self.noise.map_or(1.0, f64::ln_1p)
    }
}

/// The geometric mean of what the traces of a side show of a function.
fn shown(key: &Key, side: &[Functions]) -> Option<f64> {
    let times = side.iter().map(|trace| Some(trace.get(key)?.shown?.max(1.0).ln()));
    times.collect::<Option<Vec<f64>>>().map(|times| mean(&times).exp())
}

/// One view of the time of all functions.
struct View {
    /// Which part of the calls it's of.
    share: Option<f64>,
    /// Of each function that is timed on both sides, and matters.
    samples: Vec<Option<Timed>>,
    /// How many these are.
    count: usize,
    /// Nanoseconds of all of them in a trace, about.
    sum: f64,
    /// The variance that functions usually have: those that are called rarely, and those called often.
    usual: [Option<f64>; 2],
}

/// The time of a function.
struct Timed {
    sample: Sample,
    /// If these aren't the times as they were recorded: those of the same traces that were.
    recorded: Option<Sample>,
    /// How many times as wide as usual the bound of chance is.
    width: f64,
    /// The least one, in nanoseconds.
    least: f64,
    /// Nanoseconds of all its calls in a trace, about.
    sum: f64,
    /// It has enough calls for means.
    is_frequent: bool,
    /// It has too few calls for one trace to say anything.
    is_rare: bool,
    /// A side has one trace only.
    is_alone: bool,
}

/// Calls of fewer nanoseconds don't tell how much functions vary: the clock's steps do.
const SHORT: f64 = 100.0;

/// Nanoseconds that a clock may be off by, and code that lies elsewhere.
const UNSURE: f64 = 1.0;

/// Calls from which on one that was interrupted makes no difference.
const FREQUENT: f64 = 30.0;

/// Functions whose spread says what is usual.
const SEVERAL: usize = 5;

/// With few traces a side, what functions are taken to vary by at most, and by if there are few of them, as the deviation of a
/// logarithm.
const MOST_GUESSED: f64 = 0.2;

/// How often a function has to be called in each trace if a side has one trace only: one call may have been interrupted.
const OFTEN_ENOUGH: f64 = 5.0;

/// What takes less than this part of the function that takes most isn't compared by time: each function
/// that is makes it harder to be sure of the others.
const MATTERS: f64 = 1e-4;

/// All views of the times, and how many traces are disturbed: in the view in which most are.
fn views(keys: &BTreeSet<&Key>, old: &[Functions], new: &[Functions]) -> (Vec<View>, usize) {
    let (mut quiet, mut views, mut disturbed) = (Vec::new(), Vec::new(), 0);
    for view in 0..VIEWS {
        let share = SHARES.get(view).copied();
        let mut samples: Vec<_> = keys.iter().map(|key| Timed::new(key, old, new, view)).collect();
        let greatest = samples.iter().flatten().map(|timed| timed.sum).fold(0.0, f64::max);
        for sample in &mut samples {
            sample.take_if(|timed| timed.sum < greatest * MATTERS);
        }
        if let Some(levels) = Levels::new(&samples) {
            disturbed = disturbed.max(levels.left_out());
            let apply = |timed: &Timed| Timed {
                sample: levels.apply(&timed.sample),
                recorded: Some(levels.remaining(&timed.sample)),
                ..*timed
            };
            let samples = samples.iter().map(|timed| timed.as_ref().map(apply)).collect();
            quiet.push(View::new(share, samples));
        }
        let trimmed: Vec<_> = samples.iter().map(|timed| Timed::trimmed(timed.as_ref()?)).collect();
        if trimmed.iter().any(Option::is_some) {
            quiet.push(View::new(share, trimmed));
        }
        views.push(View::new(share, samples));
    }
    (quiet.into_iter().chain(views).collect(), disturbed)
}

impl View {
    fn new(share: Option<f64>, samples: Vec<Option<Timed>>) -> Self {
        let usual = [false, true].map(|is_frequent| usual(&samples, is_frequent));
        let count = samples.iter().flatten().count();
        let sum = samples.iter().flatten().map(|timed| timed.sum).sum();
        Self { share, samples, count, sum, usual }
    }

    /// The finding about a function if the odds of all views together are shared like this.
    fn change(&self, at: usize, share: f64, rule: &Rule) -> Option<Change> {
        let timed = self.samples.get(at)?.as_ref()?;
        let usual = self.usual.get(usize::from(timed.is_frequent)).copied().flatten();
        let odds = statistics::weighted_odds(self.count, timed.sum / self.sum) * share;
        let found = timed.sample.noise(odds, usual, (UNSURE / timed.least).powi(2));
        let guessed = (!timed.is_rare).then(|| timed.sample.guessed_noise(odds, MOST_GUESSED));
        let noise = timed.width * guessed.map_or(found, |guessed| found.min(guessed));
        let mut change = Change::new(&timed.sample, Some(noise), rule);
        change.share = self.share;
        change.counts &= !(timed.is_rare && timed.is_alone);
        // What didn't change in a build that's slower as a whole isn't faster. And a few calls may all have been made while
        // a disturbed trace wasn't.
        let half = 0.5 * timed.sample.difference().abs();
        let sign = timed.sample.difference().signum();
        change.counts &= timed
            .recorded
            .as_ref()
            .is_none_or(|sample| timed.is_frequent && sample.difference() * sign >= half);
        Some(change)
    }
}

/// The variance that is usual for functions that are called often, or not.
fn usual(samples: &[Option<Timed>], is_frequent: bool) -> Option<f64> {
    let like = |timed: &&Timed| timed.least > SHORT && timed.is_frequent == is_frequent;
    let like: Vec<&Timed> = samples.iter().flatten().filter(like).collect();
    if like.is_empty() {
        return None;
    }
    let variances: Vec<f64> = like.iter().filter_map(|timed| timed.sample.variance()).collect();
    if !variances.is_empty() {
        // A few say nothing of the others.
        return (variances.len() >= SEVERAL).then(|| median(&variances));
    }
    // With one trace a side: most functions are as they were, so what they differ by is noise. The median of
    // absolute values is 0.6745 deviations of a normal distribution.
    // Of a few functions most may well have changed, and no machine is that noisy.
    let apart: Vec<f64> = like.iter().map(|timed| timed.sample.difference().abs()).collect();
    let deviation = median(&apart) / 0.6745 / 2.0_f64.sqrt();
    let few = if apart.len() < SEVERAL { MOST_GUESSED } else { 0.0 };
    Some(deviation.max(few).min(MOST_GUESSED).powi(2))
}

impl Timed {
    /// The times of a function, if every trace has one.
    fn new(key: &Key, old: &[Functions], new: &[Functions], view: usize) -> Option<Self> {
        let side = |traces: &[Functions]| -> Option<Vec<f64>> {
            let time =
                |trace: &Functions| trace.get(key)?.times?.get(view).map(|time| time.max(1.0));
            traces.iter().map(time).collect()
        };
        let (old_times, new_times) = (side(old)?, side(new)?);
        let times = || old_times.iter().chain(&new_times).copied();
        let least = times().fold(f64::INFINITY, f64::min);
        let calls = old.iter().chain(new).filter_map(|trace| trace.get(key));
        let calls: Vec<f64> = calls.map(|measured| float(measured.calls)).collect();
        let fewest = calls.iter().copied().fold(f64::INFINITY, f64::min);
        let sum = median(&calls) * median(&times().collect::<Vec<_>>());
        let logarithms = |side: &[f64]| side.iter().map(|time| time.ln()).collect();
        let sample = Sample { old: logarithms(&old_times), new: logarithms(&new_times) };
        let seen = fewest * SHARES.get(view).copied().unwrap_or(1.0);
        let is_frequent = seen >= FREQUENT;
        let is_rare = fewest < OFTEN_ENOUGH;
        let is_alone = old.len().min(new.len()) == 1;
        Some(Self {
            sample,
            recorded: None,
            width: 1.0,
            least,
            sum,
            is_frequent,
            is_rare,
            is_alone,
        })
    }

    /// Without the slowest trace of each side. Now and then, all calls of one function in a trace take longer, by a tenth or
    /// more, and nothing else does: memory lies elsewhere. `None` of few traces or calls, and where the clock's steps matter.
    fn trimmed(&self) -> Option<Self> {
        let is_clear = self.is_frequent && self.least > SHORT;
        let (sample, width) = self.sample.trimmed().filter(|_| is_clear)?;
        Some(Self { sample, recorded: None, width, ..*self })
    }
}

#[expect(clippy::cast_precision_loss, reason = "2^53 calls are more than a file holds")]
fn float(calls: u64) -> f64 {
    calls as f64
}

/// How often a function was called.
fn calls_of(key: &Key, old: &[Functions], new: &[Functions], odds: f64, rule: &Rule) -> Change {
    let side = |traces: &[Functions]| -> Vec<f64> {
        traces.iter().map(|trace| trace.get(key).map_or(0.0, |row| float(row.calls))).collect()
    };
    let (old, new) = (side(old), side(new));
    let logarithms = |side: &[f64]| side.iter().map(|calls| calls.ln()).collect();
    let sample = Sample { old: logarithms(&old), new: logarithms(&new) };
    let is_missing = |side: &[f64]| side.contains(&0.0);
    let (before, after) = (median(&old), median(&new));
    if is_missing(&old) || is_missing(&new) {
        // There is no logarithm of 0, and no part of it.
        let difference = if before > 0.0 { after / before - 1.0 } else { f64::INFINITY };
        return Change {
            old: before,
            new: after,
            difference,
            noise: None,
            counts: sample.is_apart(),
            share: None,
        };
    }
    // What usually varies by nothing has no usual variance.
    let noise = sample.variance().map(|_| sample.noise(odds, None, 0.0));
    Change { old: before, new: after, ..Change::new(&sample, noise, rule) }
}
