//! Programs that are slowed down by being recorded, by more than it's taken for: are the estimates those of the program without?

use super::random::{Random, are_heads};
use super::{Load, Sample, Thinned, Window};
use mcount_trace::Ended;

/// Ticks in a second.
const RATE: u64 = 1_000_000_000;
/// What recording is taken for, and costs.
const USUAL: f64 = 50e-9;
const COST: f64 = 110e-9;
/// Each request calls so many functions, the first ones most often.
const FUNCTIONS: u32 = 20;
/// Seconds that a request takes of the processor.
const WORK: f64 = 20e-6;

/// How often a request calls a function.
fn calls_of(function: u32) -> u32 {
    if WATCHED.contains(&function) { 4 } else { 20 / (function + 1) + 1 }
}

/// How requests come.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Client {
    /// The next one is there already.
    Never,
    /// After so many seconds, when the last one has been answered.
    Waiting(f64),
    /// One in so many seconds, whatever happens.
    Apart(f64),
}

/// Requests in a second, and processor time in each, if recording takes so many seconds of each request.
fn rate(client: Client, recording: f64) -> (f64, f64) {
    let work = WORK + recording;
    let rate = match client {
        Client::Never => 1.0 / work,
        Client::Waiting(wait) => 1.0 / (work + wait),
        Client::Apart(time) => 1.0 / time,
    };
    (rate, rate * work)
}

/// Functions of another group that are armed all the time, and called in each request.
const WATCHED: std::ops::Range<u32> = 100..104;

/// The estimates of a sample as parts of the truth, with their errors. Every other window has the other group if its functions are
/// armed all the time.
fn sample(client: Client, seed: u64, is_watching: bool) -> (Sample, Vec<(f64, f64)>) {
    const WINDOWS: u64 = 200;
    const LENGTH: f64 = 0.002;
    let mut random = Random(seed);
    let mut sample = Sample::new(RATE, USUAL);
    let others = WATCHED.map(|function| (function, 1));
    sample.set_groups((0..FUNCTIONS).map(|function| (function, 0)).chain(others));
    if is_watching {
        sample.set_always(&WATCHED.collect(), true);
    }
    let count = if is_watching { 2 * WINDOWS } else { WINDOWS };
    for window in 0..count {
        let group = u32::from(is_watching && random.next() & 1 == 0);
        let halvings = 1 + u32::try_from(window % 3).unwrap();
        let thinned = random.next().is_multiple_of(4).then(|| Thinned {
            seed: random.next(),
            halvings,
            has: are_heads,
        });
        let likely = 1.0 - 0.25 * (1.0 - 0.5_f64.powi(halvings.cast_signed()));
        let is_armed = |function: &u32| thinned.is_none_or(|thinned| thinned.has(*function));
        let of_group = (0..FUNCTIONS).filter(|_| group == 0);
        let watched = WATCHED.filter(|_| is_watching);
        let armed: Vec<u32> = of_group.filter(is_armed).chain(watched).collect();
        let calls: u32 = armed.iter().map(|function| calls_of(*function)).sum();
        // The work of a request isn't always the same.
        let noise = 1.0 + 0.2 * (random.part() - 0.5);
        let (rate, used) = rate(client, f64::from(calls) * COST);
        let (rate, used) = (rate * noise, used * (1.0 + 0.02 * (random.part() - 0.5)));
        let used = if client == Client::Never { used } else { used * noise };
        let (start, length) = (window * RATE + 7, ticks(LENGTH));
        let load = Load { used: used * LENGTH, elapsed: LENGTH };
        let (gap, chances) = (1.0, Vec::new());
        let measured = start;
        let odds = if is_watching { 0.5 } else { 1.0 };
        let window =
            Window { measured, start, length, gap, group, odds, chances, ..Window::default() };
        sample.open(Window { thinned, likely, load, ..window });
        let requests = ticks(rate * LENGTH / 1e9 + random.part() / 1e9);
        for request in 0..requests {
            let start = start + length * request / requests.max(1);
            for function in &armed {
                for _ in 0..calls_of(*function) {
                    let (function, end) = (*function, start + 1);
                    let (thread, process, tid, how) = (0, 1, 1, None);
                    sample.add(
                        &Ended { thread, process, tid, function, start, end, how, caller: None },
                        None,
                    );
                }
            }
        }
    }
    let parts = parts(&mut sample, client);
    (sample, parts)
}

/// What it estimates, as parts of the truth, with errors.
fn parts(sample: &mut Sample, client: Client) -> Vec<(f64, f64)> {
    let (truth, used) = rate(client, 0.0);
    let rows = sample.rows(Load { used, elapsed: 1.0 });
    let part = |row: &super::Row| {
        let truth = truth * f64::from(calls_of(row.function));
        let error = row.per_second.error.unwrap_or(f64::NAN);
        (row.per_second.value / truth, error / truth)
    };
    rows.iter().map(part).collect()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it's positive")]
fn ticks(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

/// However requests come, and though recording costs more than what it's taken for.
#[test]
fn programs_are_estimated_as_they_are_when_nobody_looks() {
    let clients =
        [Client::Never, Client::Waiting(20e-6), Client::Waiting(200e-6), Client::Apart(80e-6)];
    for (client, is_watching) in clients.into_iter().flat_map(|one| [(one, false), (one, true)]) {
        let (mut held, mut all, mut sum, mut wide) = (0.0, 0.0, 0.0, 0.0);
        for seed in 0..50 {
            for (value, error) in sample(client, seed, is_watching).1 {
                held += f64::from(u8::from((value - 1.0).abs() <= error));
                all += 1.0;
                sum += value;
                wide += error;
            }
        }
        println!(
            "{client:?}, {is_watching}: {:.3} held, mean {:.3}, ± {:.3}",
            held / all,
            sum / all,
            wide / all
        );
        assert!((sum / all - 1.0).abs() < 0.03, "{client:?}, {is_watching}: {}", sum / all);
        assert!(
            held / all > 0.93 && wide / all < 0.25,
            "{client:?}, {is_watching}: {held} of {all}"
        );
    }
}

/// Functions of groups 1 to 3 are called so often that recording takes a third to half of the time. The machine is faster at one time than at
/// another, and how much processor time the program used is known as badly as from ticks of 4 ms. The estimates as parts of the truth, with errors.
fn busy(seed: u64) -> Vec<(f64, f64)> {
    /// Calls of each function for each of a witness, and what recording one costs.
    const BUSY: [(f64, f64); 3] = [(60.0, 90e-9), (30.0, 110e-9), (40.0, 130e-9)];
    const PERIOD: f64 = 4e-6;
    let mut random = Random(seed);
    let mut sample = Sample::new(RATE, USUAL);
    sample.set_groups((0..4).map(|one| (one, one)));
    let mut speeds = 0.0;
    for window in 0..300_u64 {
        let group = u32::try_from(random.next() % 4).unwrap();
        let faster = if random.next() & 1 == 0 { 1.0 } else { 1.5 };
        speeds += faster;
        // Rounds in a second, in each of which the witness is called once.
        let own = PERIOD / faster;
        let few = 1.0 / (own + BUSY[1].1);
        let (calls, cost) = group.checked_sub(1).map_or((0.0, 0.0), |one| BUSY[one as usize]);
        let many = 1.0 / (own + BUSY[1].1 + calls * cost);
        let at = window * RATE;
        let (start, length) = (at + 2_000_000, 500_000);
        let quiet = super::Quiet { start: at, end: at + 1_000_000, witnesses: vec![0] };
        let used = if random.part() < 0.125 { 0.004 } else { 0.0 };
        sample.open(Window {
            measured: start,
            start,
            length,
            gap: 1.0,
            group,
            odds: 0.25,
            likely: 1.0,
            is_busy: group != 0,
            quiet: Some(quiet),
            load: Load { used, elapsed: 0.0005 },
            ..Window::default()
        });
        let mut record = |function: u32, (from, length): (u64, u64), rate: f64| {
            let noise = 1.0 + 0.2 * (random.part() - 0.5);
            let count =
                ticks(rate * noise * super::to_float(length) / 1e9 / 1e9 + random.part() / 1e9);
            for one in 0..count {
                let start = from + length * one / count.max(1);
                let (thread, process, tid, how, end) = (0, 1, 1, None, start + 1);
                let call = Ended { thread, process, tid, function, start, end, how, caller: None };
                sample.add(&call, None);
            }
        };
        record(0, (at, 1_000_000), few);
        record(0, (start, length), many);
        if group != 0 {
            record(group, (start, length), many * calls);
        }
    }
    let truth = speeds / 300.0 / PERIOD;
    let rows = sample.rows(Load { used: 1.0, elapsed: 1.0 });
    let part = |row: &super::Row| {
        let calls = row.function.checked_sub(1).map_or(1.0, |one| BUSY[one as usize].0);
        let error = row.per_second.error.unwrap_or(f64::NAN);
        (row.per_second.value / (truth * calls), error / (truth * calls))
    };
    rows.iter().map(part).collect()
}

/// Witnesses tell how much slower the program is.
#[test]
fn functions_that_are_called_most_often_are_estimated_too() {
    let (mut held, mut all, mut sum, mut wide) = (0.0, 0.0, 0.0, 0.0);
    for (value, error) in (0..50).flat_map(busy) {
        held += f64::from(u8::from((value - 1.0).abs() <= error));
        all += 1.0;
        sum += value;
        wide += error;
    }
    println!("{:.3} held, mean {:.3}, ± {:.3}", held / all, sum / all, wide / all);
    assert!((sum / all - 1.0).abs() < 0.03, "{}", sum / all);
    assert!(held / all > 0.93 && wide / all < 0.25, "{held} of {all}, ± {}", wide / all);
}

/// The next period begins with what the last one has found out.
#[test]
fn the_cost_outlives_a_period() {
    let (mut sample, _) = sample(Client::Never, 1, false);
    let known = sample.cost();
    sample.begin_again(USUAL);
    assert!(sample.windows() == 0 && (known / COST - 1.0).abs() < 0.2, "{known}");
    assert!((sample.cost() - known).abs() < f64::EPSILON, "{}", sample.cost());
}
