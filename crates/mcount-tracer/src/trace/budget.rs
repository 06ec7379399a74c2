//! `--budget`: how much of the program's processor time tracing may cost, and which functions are given up for that.
//!
//! What a call costs is known: two readings of the clock, which take as long as they take here, and a little more. So calls
//! say what tracing costs. Half of what is allowed is saved up, for ten seconds at most; calls are paid from that. So in any
//! ten seconds no more than what is allowed is spent. When nothing is left, the functions that are called most often are
//! given up, until what the others cost is less than what comes in.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// For how long it can be saved, and for how long it's measured.
const SPAN: f64 = 10.0;
/// Processor time over which it's decided who is called too often, unless in haste.
const DECIDED: Duration = Duration::from_millis(8);
/// What a call costs besides reading the clock twice, in nanoseconds; and one whose hook is after the prologue.
const BESIDES: f64 = 8.0;

/// What tracing may cost, and does.
#[derive(Debug)]
pub(super) struct Budget {
    /// The part of the program's time.
    share: f64,
    /// What a call costs, in seconds.
    cost: f64,
    /// Processor time over which it's decided who is called too often.
    decided: Duration,
    /// Seconds that may be spent now.
    left: f64,
    /// Calls that were seen until the last decision, by number, and all, as far as that's known.
    before: Vec<u64>,
    all: u64,
    /// The program's time at the last decision.
    last: Duration,
    given_up: BTreeSet<u32>,
}

impl Budget {
    /// `share` of the program's time may be spent.
    pub(super) fn new(share: f64) -> Self {
        Self::with_cost(share, (2.0 * clock_reading() + BESIDES) * 1e-9)
    }

    fn with_cost(share: f64, cost: f64) -> Self {
        let (left, last) = (0.0, Duration::ZERO);
        let (before, given_up, decided) = (Vec::new(), BTreeSet::new(), DECIDED);
        Self { share, cost, decided, left, before, all: 0, last, given_up }
    }

    /// The same, which decides sooner.
    pub(super) fn hasty(share: f64) -> Self {
        Self { decided: DECIDED / 4, ..Self::new(share) }
    }

    /// What so many calls cost, in seconds.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub(super) fn cost_of(&self, calls: u64) -> f64 {
        calls as f64 * self.cost
    }

    /// The functions to be given up now. The program has used `used` so far, and there were that many calls: of
    /// each function, and of unknown ones.
    pub(super) fn decide(&mut self, used: Duration, (calls, missed): (&[u64], u64)) -> Vec<u32> {
        let elapsed = used.saturating_sub(self.last);
        if elapsed < self.decided {
            return Vec::new();
        }
        self.last = used;
        let calls = self.since(calls, missed);
        let cost = calls.iter().map(|(_, calls)| calls).sum::<f64>() * self.cost;
        // What it would have used untraced.
        let untraced = (elapsed.as_secs_f64() - cost).max(elapsed.as_secs_f64() / 20.0);
        let income = self.share / 2.0;
        self.left = (self.left + untraced * income - cost).min(SPAN * income);
        if self.left >= 0.0 || cost <= untraced * income {
            return Vec::new();
        }
        let mut rates: Vec<(u32, f64)> =
            calls.into_iter().map(|(number, calls)| (number, calls / untraced)).collect();
        // Who is called least stays, as long as all that stay are cheap enough.
        rates.sort_unstable_by(|one, other| one.1.total_cmp(&other.1).then(one.0.cmp(&other.0)));
        let mut sum = 0.0;
        rates.retain(|(_, rate)| {
            sum += rate * self.cost;
            sum > income * 0.8
        });
        rates.retain(|(number, _)| self.given_up.insert(*number));
        rates.into_iter().rev().map(|(number, _)| number).collect()
    }

    /// How often each function was called since the last decision.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn since(&mut self, calls: &[u64], missed: u64) -> Vec<(u32, f64)> {
        let before = self.before.iter().copied().chain(std::iter::repeat(0));
        let new = (0..).zip(calls.iter().zip(before).map(|(now, before)| now - before));
        let mut new: Vec<(u32, f64)> =
            new.filter(|(_, calls)| *calls != 0).map(|(n, calls)| (n, calls as f64)).collect();
        // Those that nobody has seen are of the same functions; and some of those that were seen now were counted before.
        let seen: f64 = new.iter().map(|(_, calls)| calls).sum();
        let all = calls.iter().sum::<u64>() + missed;
        let factor = all.saturating_sub(self.all) as f64 / seen.max(1.0);
        for (_, calls) in &mut new {
            *calls *= factor;
        }
        self.all = self.all.max(all);
        self.before.clear();
        self.before.extend_from_slice(calls);
        new
    }

    /// Forgets which functions were given up: they're armed again.
    pub(super) fn forgive(&mut self) {
        self.given_up.clear();
    }

    /// The functions that were given up.
    pub(super) fn given_up(&self) -> &BTreeSet<u32> {
        &self.given_up
    }
}

/// Says which functions were given up.
pub(super) fn line(names: &[&str]) -> String {
    const SHOWN: usize = 5;
    let shown = names.get(..SHOWN).unwrap_or(names).join(", ");
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("--budget: called too often, so no longer traced: {shown}{more}")
}

/// The same for the trace, with all names.
pub(super) fn notes(names: &[&str]) -> Vec<String> {
    let pieces = names.chunks(50).map(|names| names.join(", "));
    pieces
        .map(|names| {
            format!("--budget: called too often, and no longer traced from then on: {names}")
        })
        .collect()
}

/// How long one reading of the clock takes, in nanoseconds: the shortest of some measurements.
fn clock_reading() -> f64 {
    const READINGS: u32 = 2000;
    let mut best = f64::MAX;
    for _ in 0..8 {
        let start = Instant::now();
        for _ in 0..READINGS {
            std::hint::black_box(super::clock::clock());
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(READINGS));
    }
    best
}

/// The processor time of some processes, together.
#[derive(Debug, Default)]
pub(super) struct Times {
    last: HashMap<i32, Duration>,
    used: Duration,
}

impl Times {
    /// What `process` has used so far isn't counted.
    pub(super) fn begin(&mut self, process: i32) {
        self.last.insert(process, used(process));
    }

    /// All that these have used, and others before.
    pub(super) fn count(&mut self, processes: impl Iterator<Item = i32>) -> Duration {
        for process in processes {
            let now = used(process);
            let before = self.last.insert(process, now).unwrap_or_default();
            self.used += now.saturating_sub(before);
        }
        self.used
    }
}

/// The processor time that `process` has used, all threads together.
pub(super) fn used(process: i32) -> Duration {
    // As the C library's clock_getcpuclockid(3) makes it: of a process, and as scheduled.
    let clock = (!process) << 3 | 2;
    let mut time = nix::libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time goes to a value of ours.
    let got = unsafe { nix::libc::clock_gettime(clock, &raw mut time) };
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    let time = Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec));
    if got == 0 { time } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that calls functions so often in a second, for some seconds; what tracing costs it in each.
    fn run(share: f64, rates: &[(u32, f64)], seconds: u32) -> (Vec<f64>, BTreeSet<u32>) {
        let cost = 30e-9;
        let mut budget = Budget::with_cost(share, cost);
        let (mut used, mut spent) = (Duration::ZERO, Vec::new());
        let mut all = vec![0_u64; rates.len() + 1];
        for _ in 0..seconds {
            let mut sum = 0.0;
            for _ in 0..100 {
                let mut busy = 0.01;
                for (number, rate) in rates {
                    if !budget.given_up().contains(number) {
                        #[expect(
                            clippy::cast_possible_truncation,
                            clippy::cast_sign_loss,
                            reason = "small"
                        )]
                        let calls = (rate * 0.01) as u64;
                        all[usize::try_from(*number).unwrap()] += calls;
                        #[expect(clippy::cast_precision_loss, reason = "small")]
                        let cost = calls as f64 * cost;
                        (busy, sum) = (busy + cost, sum + cost);
                    }
                }
                used += Duration::from_secs_f64(busy);
                budget.decide(used, (&all, 0));
            }
            spent.push(sum);
        }
        (spent, budget.given_up.clone())
    }

    #[test]
    fn who_is_called_too_often_is_given_up_and_nobody_else() {
        let rates = [(1, 10_000_000.0), (2, 1000.0), (3, 2_000_000.0), (4, 100_000.0)];
        let (spent, given_up) = run(0.02, &rates, 20);
        assert_eq!(given_up, BTreeSet::from([1, 3]));
        assert!(spent[1..].iter().all(|second| *second < 0.02), "{spent:?}");
        // 101,000 calls a second are less than 1 % and are seen all the time.
        assert!(spent[19] > 0.003, "{spent:?}");
    }

    #[test]
    fn many_that_are_called_seldom_are_too_much_together() {
        let rates: Vec<(u32, f64)> = (1..=1000).map(|number| (number, 2000.0)).collect();
        let (spent, given_up) = run(0.02, &rates, 15);
        assert!((600..1000).contains(&given_up.len()), "{}", given_up.len());
        let ten: f64 = spent[1..11].iter().sum();
        assert!(ten < 0.2, "{spent:?}");
    }

    #[test]
    fn calls_that_nobody_has_seen_cost_as_well() {
        let mut budget = Budget::with_cost(0.02, 30e-9);
        // 1000 seen in 10 ms are 0.3 %, a million more aren't.
        assert!(budget.decide(Duration::from_millis(10), (&[0, 1000], 0)).is_empty());
        let second = budget.decide(Duration::from_millis(20), (&[0, 2000], 1_000_000));
        assert_eq!(second, [1]);
    }

    #[test]
    fn what_is_cheap_stays() {
        let (spent, given_up) = run(0.02, &[(1, 300_000.0)], 12);
        assert!(given_up.is_empty() && spent[11] > 0.0089, "{spent:?}");
    }

    const MS: Duration = Duration::from_millis(1);

    fn budget() -> Budget {
        Budget::with_cost(0.02, 30e-9)
    }

    #[test]
    fn half_of_what_is_allowed_is_for_calls_that_go_on() {
        // 1.5 %, which is less than is allowed, but not of what comes in.
        let (_, given_up) = run(0.02, &[(1, 500_000.0)], 30);
        assert_eq!(given_up, BTreeSet::from([1]));
    }

    #[test]
    fn what_stays_is_cheap_enough_to_stay() {
        let rates: Vec<(u32, f64)> = (1..=1000).map(|number| (number, 2000.0)).collect();
        let (spent, _) = run(0.02, &rates, 15);
        assert!((0.006..0.0082).contains(&spent[14]), "{spent:?}");
    }

    #[test]
    fn nothing_is_decided_too_soon_after_the_last_time() {
        let mut budget = budget();
        assert!(budget.decide(7 * MS, (&[0, 10_000_000], 0)).is_empty());
        assert!(budget.decide(1000 * MS, (&[0, 0], 0)).is_empty());
        assert!(budget.decide(1001 * MS, (&[0, 10_000_000], 0)).is_empty());
        assert_eq!(budget.decide(1010 * MS, (&[0, 10_000_000], 0)), [1]);
    }

    #[test]
    fn savings_are_spent_and_have_an_end() {
        let mut budget = budget();
        // 0.1 s are saved in ten seconds.
        assert!(budget.decide(10_000 * MS, (&[0, 0], 0)).is_empty());
        assert!(budget.decide(10_010 * MS, (&[0, 1_000_000], 0)).is_empty());
        // In a thousand it's no more: 0.12 are too much.
        assert!(budget.decide(1_000_000 * MS, (&[0, 1_000_000], 0)).is_empty());
        assert_eq!(budget.decide(1_000_150 * MS, (&[0, 5_000_000], 0)), [1]);
    }

    #[test]
    fn debts_are_no_reason_to_give_up_what_is_cheap() {
        let mut budget = budget();
        assert_eq!(budget.decide(10 * MS, (&[0, 200_000, 0], 0)), [1]);
        // 0.9 %.
        assert!(budget.decide(20 * MS, (&[0, 200_000, 3000], 0)).is_empty());
    }

    #[test]
    fn shares_are_those_of_the_time_without_tracing() {
        // Of 10 ms, 9 are the first one's cost; 30 us are 3 % of the rest.
        assert_eq!(budget().decide(10 * MS, (&[0, 300_000, 1000], 0)), [1, 2]);
        // More than all of it: then it's taken for a twentieth.
        assert_eq!(budget().decide(10 * MS, (&[0, 1_000_000, 1], 0)), [1]);
    }

    #[test]
    fn calls_of_former_times_do_not_count() {
        let mut budget = budget();
        assert!(budget.decide(10_000 * MS, (&[0, 1_000_000, 0], 0)).is_empty());
        assert_eq!(budget.decide(10_010 * MS, (&[0, 1_000_000, 10_000_000], 0)), [2]);
    }

    #[test]
    fn who_was_given_up_is_not_given_up_again_until_forgiven() {
        let mut budget = budget();
        assert_eq!(budget.decide(10 * MS, (&[0, 200_000], 0)), [1]);
        assert!(budget.decide(20 * MS, (&[0, 400_000], 0)).is_empty());
        budget.forgive();
        assert_eq!(budget.decide(30 * MS, (&[0, 600_000], 0)), [1]);
    }

    #[test]
    fn a_call_costs_two_readings_and_more() {
        let cost = Budget::new(0.02).cost * 1e9;
        assert!(cost > clock_reading() + BESIDES, "{cost}");
    }

    #[test]
    fn time_counts_from_the_beginning_on() {
        let own = i32::try_from(std::process::id()).unwrap();
        while used(own) < 50 * MS {
            std::hint::black_box(clock_reading());
        }
        let (mut begun, mut whole) = (Times::default(), Times::default());
        begun.begin(own);
        assert!(begun.count([own].into_iter()) + 40 * MS < whole.count([own].into_iter()));
        // What ended stays counted.
        let before = begun.count([].into_iter());
        assert!(begun.count([own].into_iter()) >= before);
    }

    #[test]
    fn this_process_uses_time() {
        let before = used(i32::try_from(std::process::id()).unwrap());
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(30) {
            std::hint::black_box(clock_reading());
        }
        let after = used(i32::try_from(std::process::id()).unwrap());
        assert!(after > before, "{before:?} {after:?}");
        // More than there can be.
        assert_eq!(used(1 << 23), Duration::ZERO);
    }
}
