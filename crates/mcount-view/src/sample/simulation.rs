//! Programs of which every call is known, and what samples of them say: are estimates right on average, and do the intervals hold
//! the truth as often as they say?

use super::calibration::Calibration;
use super::random::{Random, are_heads};
use super::{Called, Chance, Estimate, Load, Row, Sample, Thinned, Window, to_float};
use crate::compare::{By, Rule, Sampled, compare_samples};
use mcount_trace::Ended;
use std::collections::{BTreeMap, BTreeSet};

/// Ticks in a second.
const RATE: u64 = 10_000_000;
const SECONDS: u64 = 100;

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it's positive")]
fn ticks(seconds: f64) -> u64 {
    (seconds * to_float(RATE)) as u64
}

/// A program: its calls in the order of their starts. Where they return to is the number of who made them.
struct Stream(Vec<Ended>);

/// Who makes calls, and isn't sampled.
const OUTSIDE: u32 = 1000;

fn caller_of(call: &Ended) -> Option<u32> {
    call.caller.and_then(|caller| u32::try_from(caller).ok())
}

impl Stream {
    /// Requests come in bursts to some threads. Each (0) parses (1), works (2) for a time with a heavy tail, in which it parses
    /// once more, and seldom waits (3) for longer than windows and gaps are.
    fn new(seed: u64, threads: u32, busy: f64) -> Self {
        let mut random = Random(seed);
        let mut calls = Vec::new();
        for thread in 0..threads {
            let mut now = random.exponential(0.001);
            let (mut is_busy, mut until) = (false, 0.0);
            while now < to_float(SECONDS) {
                if now > until {
                    is_busy = !is_busy;
                    until = now + random.exponential(if is_busy { 0.02 } else { 0.06 });
                }
                now += random.exponential(if is_busy { busy } else { busy * 20.0 });
                now = Self::request(&mut random, &mut calls, thread, now);
            }
        }
        calls.sort_by_key(|call| call.start);
        Self(calls)
    }

    /// A request that comes at `start`; its end.
    fn request(random: &mut Random, calls: &mut Vec<Ended>, thread: u32, start: f64) -> f64 {
        let mut now = start + 2e-6;
        let mut call = |caller: u32, function: u32, from: f64, to: f64| {
            let (start, end) = (ticks(from), ticks(to).max(ticks(from) + 1));
            let (process, tid, how, caller) = (1, 1, None, Some(caller.into()));
            calls.push(Ended { thread, process, tid, function, start, end, how, caller });
        };
        for _ in 0..3 {
            let end = now + random.exponential(3e-6);
            call(0, 1, now, end);
            now = end + 1e-6;
        }
        let half = now + random.log_normal(20e-6, 1.3);
        let inner = half + random.exponential(30e-6);
        call(2, 1, half, inner);
        let end = inner + random.log_normal(20e-6, 1.3);
        call(0, 2, now, end);
        now = end + 1e-6;
        if random.part() < 0.1 {
            let end = now + random.exponential(0.02);
            call(0, 3, now, end);
            now = end;
        }
        call(OUTSIDE, 0, start, now + 1e-6);
        now + 1e-6
    }

    /// How many calls there are of which this is so, and how many seconds they take.
    fn sum(&self, is_it: impl Fn(&Ended) -> bool) -> (f64, f64) {
        let calls = self.0.iter().filter(|call| is_it(call));
        let (count, time) =
            calls.fold((0, 0), |(count, time), call| (count + 1, time + (call.end - call.start)));
        (to_float(count), to_float(time) / to_float(RATE))
    }

    /// Of a function: calls in a second, nanoseconds of a call, its part of all time, that of its own time, and the calls and their part of
    /// all time that are [`Self::callers`]'s.
    fn truth(&self, function: u32) -> [f64; KINDS] {
        let (count, time) = self.sum(|call| call.function == function);
        let (_, within) = self.sum(|call| caller_of(call) == Some(function));
        let is_it =
            |call: &Ended| call.function == function && caller_of(call) == Some(caller(function));
        let (called, its_time) = self.sum(is_it);
        let parts =
            [count, time / count * to_float(SECONDS) * 1e9, time, time - within, called, its_time];
        parts.map(|sum| sum / to_float(SECONDS))
    }

    /// What begins from one moment to another.
    fn between(&self, from: u64, to: u64) -> &[Ended] {
        let at = |ticks| self.0.partition_point(|call| call.start < ticks);
        &self.0[at(from)..at(to)]
    }
}

/// How many quantities are estimated.
const KINDS: usize = 6;

/// Whose calls of a function are looked at.
fn caller(function: u32) -> u32 {
    [OUTSIDE, 2, 0, 0].get(function as usize).copied().unwrap_or(OUTSIDE)
}

/// How windows come.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Manner {
    Plain,
    /// There are fewer where much is called.
    Steered,
    /// Functions are armed by lot.
    ByLot,
    /// A window has one of two groups.
    InGroups,
    /// So does it, but the first function is armed all the time, the second one until it has been called some times in windows, and the third one
    /// between two such times.
    Always,
    /// Every other window has half of the functions, or a quarter, and some are armed by lot.
    Thinned,
    /// Calls before the window count, too: that's wrong.
    Wrong,
}

/// How often windows have the second group.
const SECOND: f64 = 0.3;

/// Callers and callees are apart.
fn group_of(function: u32) -> u32 {
    u32::from(function == 2)
}

/// What functions draw that aren't armed in every window.
fn lots(random: &mut Random, manner: Manner) -> Vec<Chance> {
    let has_lots = matches!(manner, Manner::ByLot | Manner::Thinned);
    let lots = if has_lots { &[(1, 0.4), (2, 0.7)][..] } else { &[] };
    let draw = |(function, chance): &(u32, f64)| {
        let is_armed = random.part() < *chance;
        Chance { function: *function, chance: *chance, is_armed }
    };
    lots.iter().map(draw).collect()
}

/// Functions that are armed all the time.
#[derive(Default)]
struct Always {
    functions: BTreeSet<u32>,
    /// Calls in windows that each function has had.
    calls: [u64; 4],
    is_changing: bool,
    /// The second one has moved to the other group.
    has_moved: bool,
}

impl Always {
    fn new(sample: &mut Sample, manner: Manner) -> Self {
        let mut always = Self { is_changing: manner == Manner::Always, ..Self::default() };
        if always.is_changing {
            always.set(sample, 0, true);
            always.set(sample, 1, true);
        }
        always
    }

    fn has(&self, function: u32) -> bool {
        self.functions.contains(&function)
    }

    fn set(&mut self, sample: &mut Sample, function: u32, is_always: bool) {
        if is_always {
            self.functions.insert(function)
        } else {
            self.functions.remove(&function)
        };
        sample.set_always(&BTreeSet::from([function]), is_always);
    }

    fn group_of(&self, function: u32) -> u32 {
        if function == 1 && self.has_moved { 1 } else { group_of(function) }
    }

    /// A window has had calls of these functions.
    fn saw(&mut self, calls: &[&Ended]) {
        for call in calls {
            self.calls[call.function as usize] += 1;
        }
    }

    /// Chooses which are armed from now on.
    fn choose(&mut self, sample: &mut Sample) {
        if !self.is_changing {
            return;
        }
        let [_, second, third, _] = self.calls;
        if second >= 1000 && !self.has_moved {
            self.has_moved = true;
            sample.move_always(&BTreeMap::from([(1, 1)]));
        }
        self.set(sample, 1, second < 1000);
        self.set(sample, 2, (200..600).contains(&third));
    }
}

/// What a sample says that was made with this seed.
fn sample(stream: &Stream, seed: u64, manner: Manner) -> (Vec<Row>, Vec<Called>) {
    const LENGTH: f64 = 0.004;
    let mut random = Random(seed);
    let mut sample = Sample::new(RATE, 0.0);
    let has_groups = matches!(manner, Manner::InGroups | Manner::Always);
    let group_of = |always: &Always, function| always.group_of(function) * u32::from(has_groups);
    let first = Always::default();
    sample.set_groups([0, 1, 2, 3].map(|function| (function, group_of(&first, function))));
    let mut always = Always::new(&mut sample, manner);
    let (mut now, mut gap, mut usual) = (0.0, 0.15, 0.0);
    let mut begun: Vec<Ended> = Vec::new();
    loop {
        now += random.exponential(gap);
        if now + LENGTH > to_float(SECONDS) {
            break;
        }
        let (start, length) = (ticks(now), ticks(LENGTH));
        // As they come: what ended before this window.
        begun.sort_by_key(|call| call.end);
        let ended = begun.partition_point(|call| call.end < start);
        begun.drain(..ended).for_each(|call| sample.add(&call, caller_of(&call)));
        let chances = lots(&mut random, manner);
        let is_thinned = manner == Manner::Thinned && random.part() < 0.5;
        let halvings = 1 + u32::from(random.part() < 0.5);
        let seed = random.next();
        let thinned = is_thinned.then_some(Thinned { seed, halvings, has: are_heads });
        let part = if manner == Manner::Thinned { 0.5 } else { 0.0 };
        let likely = 1.0 - part * (1.0 - 0.5_f64.powi(halvings.cast_signed()));
        let is_second = has_groups && random.part() < SECOND;
        let is_armed = |call: &&Ended| {
            let is_of_group = group_of(&always, call.function) == u32::from(is_second);
            (is_of_group || always.has(call.function))
                && thinned.is_none_or(|thinned| thinned.has(call.function))
                && chances.iter().all(|chance| chance.function != call.function || chance.is_armed)
        };
        let early = length / 8 * u64::from(manner == Manner::Wrong);
        let new = stream.between(start - early.min(start), start + length);
        let new: Vec<&Ended> = new.iter().filter(is_armed).collect();
        let count = new.len();
        always.saw(&new);
        begun.extend(new.into_iter().map(|call| Ended { start: call.start.max(start), ..*call }));
        let odds = if is_second { SECOND } else { 1.0 - SECOND };
        let (group, odds) = (is_second.into(), if has_groups { odds } else { 1.0 });
        let window = Window { start, length, gap, group, odds, ..Window::default() };
        sample.open(Window { measured: start, chances, thinned, likely, ..window });
        always.choose(&mut sample);
        if manner == Manner::Steered {
            usual += 0.1 * (to_float(count as u64) - usual);
            gap = 0.1 + 0.05 * usual.min(4.0);
        }
        now += LENGTH;
    }
    begun.sort_by_key(|call| call.end);
    for call in &begun {
        sample.add(call, caller_of(call));
    }
    (sample.rows(Load::default()), sample.called(Load::default()))
}

/// What many samples say.
struct Cover {
    /// How often the truth was in the interval, by quantity.
    held: [f64; KINDS],
    /// How far the mean was from the truth, in standard errors of that mean, at worst.
    worst: f64,
}

fn cover(stream: &Stream, manner: Manner, repetitions: u64) -> Cover {
    let truth = [0, 1, 2, 3].map(|function| stream.truth(function));
    let (mut held, mut all) = ([0_u32; KINDS], [0_u32; KINDS]);
    let mut found: Vec<Vec<[f64; KINDS]>> = vec![Vec::new(); truth.len()];
    for seed in 0..repetitions {
        let (rows, called) = sample(stream, seed, manner);
        for row in rows {
            let function = usize::try_from(row.function).unwrap();
            let is_its =
                |one: &&Called| one.function == row.function && one.caller == caller(row.function);
            let pair = called.iter().find(is_its);
            let [rate, share] = pair.map(|pair| [pair.per_second, pair.share]).unwrap_or_default();
            let own = row.own.unwrap();
            let estimates = [row.per_second, row.mean, row.share, own, rate, share];
            found[function].push(estimates.map(|estimate| estimate.value));
            for (at, (estimate, truth)) in estimates.iter().zip(truth[function]).enumerate() {
                if let Some(error) = estimate.error {
                    all[at] += 1;
                    held[at] += u32::from((estimate.value - truth).abs() <= error);
                }
            }
        }
    }
    let mut worst: f64 = 0.0;
    for (values, truth) in found.iter().zip(truth) {
        // The time of a call is a ratio of two estimates, which is right only in the long run.
        for at in [0, 2, 3, 4, 5] {
            let count = to_float(values.len() as u64);
            let mean = values.iter().map(|value| value[at]).sum::<f64>() / count;
            let squares: f64 = values.iter().map(|value| (value[at] - mean).powi(2)).sum();
            let error = (squares / count / (count - 1.0)).sqrt();
            worst = worst.max(((mean - truth[at]) / error).abs());
        }
    }
    Cover { held: std::array::from_fn(|at| f64::from(held[at]) / f64::from(all[at])), worst }
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    for (seed, threads, busy) in [(1, 4, 0.0005), (2, 1, 0.0002)] {
        let stream = Stream::new(seed, threads, busy);
        for manner in [
            Manner::Plain,
            Manner::Steered,
            Manner::ByLot,
            Manner::InGroups,
            Manner::Thinned,
            Manner::Always,
        ] {
            let Cover { held, worst } = cover(&stream, manner, 600);
            let is_right = held.iter().all(|part| (0.93..=0.97).contains(part));
            assert!(is_right && worst < 3.5, "{seed} {manner:?}: {held:?}, {worst}");
        }
        let Cover { held, worst } = cover(&stream, Manner::Wrong, 50);
        assert!(worst > 5.0 && held[0] < 0.9, "{held:?}, {worst}");
    }
}

/// A thread that never waits makes fewer calls while they're recorded, as does one whose client waits for each answer. One that waits
/// for requests has as many. All are seen as they are without.
#[test]
fn recording_does_not_count() {
    // A call in a microsecond, and half of one to record it.
    const COST: f64 = 0.5e-6;
    // Ticks from call to call, processor time in a second outside and in windows, and calls in a second.
    let table = [
        (15, 1.0, 1.0, 1e6),
        (50, 0.2, 0.3, 2e5),
        (25, 0.5, 0.6, 5e5),
        (100, 1.0 / 9.5, 0.15, 1e6 / 9.5),
    ];
    for (apart, used_outside, used_in, expected) in table {
        // What it's likely to cost has to be what it does.
        let mut usual = COST;
        for _ in 0..100 {
            let likely = Calibration::default().cost(usual);
            let recording = usual / (1e-7 * to_float(apart as u64)) / used_in;
            usual += 0.1 * (COST / likely.of(recording).part - usual);
        }
        let mut sample = Sample::new(RATE, usual);
        for window in 0..100_u64 {
            let (start, length) = (window * RATE + 7, 10_000);
            // They come with some noise.
            let noise = 0.01 * (to_float(window % 10) - 4.5) / 4.5;
            let load = Load { used: used_in * 0.001 * (1.0 + noise), elapsed: 0.001 };
            let (measured, chances) = (start, Vec::new());
            sample.open(Window {
                measured,
                start,
                length,
                gap: 1.0,
                odds: 1.0,
                chances,
                likely: 1.0,
                load,
                ..Window::default()
            });
            for call in (start..start + length).step_by(apart) {
                let (thread, process, tid, function) = (0, 1, 1, 1);
                let (start, end, how, caller) = (call, call + 9, None, None);
                let call = Ended { thread, process, tid, function, start, end, how, caller };
                sample.add(&call, None);
            }
        }
        let [row] = sample.rows(Load { used: used_outside, elapsed: 1.0 })[..] else { panic!() };
        let Estimate { value, error } = row.per_second;
        assert!((value / expected - 1.0).abs() < 0.01, "{apart}: {row:?}");
        // No window has only some of the functions, so what recording costs is hardly known.
        let most = 0.5e-6 / (1e-7 * to_float(apart as u64) - 0.5e-6);
        assert!((0.19 * most..4.0 * most).contains(&(error.unwrap() / value)), "{row:?}");
        // 900 ns, of which 250 are recording.
        assert!((row.mean.value - 650.0).abs() < 1.0, "{row:?}");
    }
}

/// A window of 100 ticks that begins then.
fn open(sample: &mut Sample, start: u64) {
    sample.open(Window {
        measured: start,
        start,
        length: 100,
        gap: 1.0,
        likely: 1.0,
        ..Window::default()
    });
}

/// A call of the only function.
fn add(sample: &mut Sample, start: u64, end: u64) {
    let (how, caller) = (None, None);
    let call = Ended { thread: 0, process: 1, tid: 1, function: 1, start, end, how, caller };
    sample.add(&call, None);
}

#[test]
fn calls_count_if_they_begin_in_a_window() {
    let mut sample = Sample::new(RATE, 0.0);
    open(&mut sample, 1000);
    for (start, end) in [(999, 1001), (1000, 1002), (1099, 1300), (1100, 1301)] {
        add(&mut sample, start, end);
    }
    open(&mut sample, 2000);
    // It began in the first one.
    add(&mut sample, 1050, 9000);
    assert!(sample.add_open(1, 2099) && !sample.add_open(1, 2100) && !sample.add_open(1, 5));
    let [row] = sample.rows(Load::default())[..] else { panic!() };
    assert_eq!((row.calls, row.windows, sample.windows()), (4, 2, 2));
    assert_eq!((row.per_second.error, row.mean.error, row.share.error), (None, None, None));
    let seconds = 200.0 / to_float(RATE);
    assert!((row.per_second.value * seconds - 4.0).abs() < 1e-6, "{row:?}");
    let time = to_float(2 + 201 + 7950) / to_float(RATE);
    assert!((row.share.value * seconds - time).abs() < 1e-9, "{row:?}");
    assert!((row.mean.value - time / 3.0 * 1e9).abs() < 1e-3, "{row:?}");
}

#[test]
fn intervals_of_times_are_known_if_nearly_all_calls_have_ended() {
    let mut sample = Sample::new(RATE, 0.0);
    for window in 1..201 {
        open(&mut sample, window * 1000);
        add(&mut sample, window * 1000 + 5, window * 1000 + 6 + window % 7);
    }
    for unfinished in [0, 2, 4] {
        let [row] = sample.rows(Load::default())[..] else { panic!() };
        assert!(row.per_second.error.is_some(), "{row:?}");
        let is_known = [row.mean, row.share, row.own.unwrap()].map(|one| one.error.is_some());
        assert_eq!(is_known, [unfinished <= 2; 3], "{row:?}");
        for start in [200_010, 200_020] {
            assert!(sample.add_open(1, start));
        }
    }
}

/// Samples of one program are different about once in a hundred times; of programs that differ, always.
#[test]
fn equal_programs_are_seldom_different() {
    let streams = [Stream::new(1, 4, 0.0005), Stream::new(1, 4, 0.00015)];
    let named = |row: Row| {
        let estimates = [row.per_second, row.mean].map(|one| (one.value, one.error));
        (row.function.to_string(), estimates, row.windows)
    };
    let sampled = |stream: &Stream, seed| {
        let rows = sample(stream, seed, Manner::Plain).0.into_iter().map(named);
        [Sampled::of(to_float(SECONDS), rows)]
    };
    let rule = Rule { by: By::Total, threshold: 0.0, only_worse: false, has_all: false };
    let [mut equal, mut unlike] = [0; 2];
    for seed in 0..250 {
        let [one, other] = &streams;
        let (old, new) = (sampled(one, 2 * seed), sampled(one, 2 * seed + 1));
        equal += u32::from(compare_samples(&old, &new, &rule).differences != 0);
        let new = sampled(other, 2 * seed + 1);
        unlike += u32::from(compare_samples(&old, &new, &rule).differences != 0);
    }
    assert!(equal <= 6 && unlike == 250, "{equal}, {unlike}");
}

/// The parts of all calls that percentiles have below them, on average.
#[test]
fn percentiles_divide_all_calls() {
    let stream = Stream::new(3, 4, 0.0005);
    let mut sums = [[0.0; 3]; 4];
    for seed in 0..50 {
        for row in sample(&stream, seed, Manner::Steered).0 {
            let calls = stream.0.iter().filter(|call| call.function == row.function);
            let took: Vec<f64> =
                calls.map(|call| to_float(call.end - call.start) * 1e9 / to_float(RATE)).collect();
            for (sum, limit) in
                sums[usize::try_from(row.function).unwrap()].iter_mut().zip(row.percentiles)
            {
                let below = took.iter().filter(|time| **time <= limit.unwrap()).count();
                *sum += to_float(below as u64) / to_float(took.len() as u64) / 50.0;
            }
        }
    }
    for parts in sums {
        for (part, expected) in parts.into_iter().zip([0.5, 0.9, 0.99]) {
            assert!((part - expected).abs() < 0.02, "{sums:?}");
        }
    }
}
