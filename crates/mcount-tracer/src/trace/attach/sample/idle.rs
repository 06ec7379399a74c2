//! Probes that cost most while they're idle, and so are made to cost nothing. If that isn't possible, and they'd cost too much, their functions
//! are left out of the sample.
//!
//! Windows tell which ones these are. At the start, each group has a short one that isn't in the sample. Threads stop for each change, so there
//! are few later: after 4, 8, 16 windows, and so on.

use super::super::worker::Worker;
use super::Sampler;
use super::steer::{self, Steering};
use super::window::{Armed, Window};
use crate::trace::processor;
use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

/// What a call of a function takes longer that has a probe, in seconds, while that's idle: with lua, perl and Python, 2 to 5 ns.
pub const IDLE_PROBE: f64 = 3.5e-9;
/// Of what sampling may cost, idle probes may cost this part.
const PART: f64 = 0.05;
/// The same of all of them, if they can't be made to cost nothing. Others are left out.
const LEFT: f64 = 0.25;
/// How long windows are that aren't in the sample.
const GLANCE: Duration = Duration::from_millis(1);
/// How many of them a group has before functions of it are left out, which is for good.
const GLANCES: u32 = 4;
/// Windows before the first change after that.
const FIRST: u64 = 4;

/// Probes that cost something while they're idle.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// Functions that have one.
    probes: BTreeSet<u32>,
    windows: u64,
    /// It's to be looked at after the next window.
    is_hurried: bool,
    /// It's not possible.
    is_over: bool,
    /// Functions whose probes cost too much when that was looked at last.
    suspects: BTreeSet<u32>,
}

impl Idle {
    /// These functions have probes.
    pub(super) fn of(probes: BTreeSet<u32>) -> Self {
        Self { probes, ..Self::default() }
    }

    /// There was a window. Is it time to look?
    fn is_due(&mut self) -> bool {
        self.windows += 1;
        let is_hurried = std::mem::take(&mut self.is_hurried);
        let is_time = self.windows >= FIRST && self.windows.is_power_of_two();
        !self.probes.is_empty() && (is_time || is_hurried)
    }

    /// Other functions are called than before.
    pub(super) fn hurry(&mut self) {
        self.is_hurried = true;
    }

    /// Calls in a second of functions that have one, but for some.
    fn calls(&self, steering: &Steering, is_left_out: impl Fn(u32) -> bool) -> f64 {
        let all = steering.all_rates();
        all.filter(|(_, one)| self.probes.contains(one) && !is_left_out(*one)).map(|of| of.0).sum()
    }

    /// The functions whose probes cost most, if all that count cost more than this part of what sampling may cost; until the rest costs so
    /// much. With calls in a second.
    fn dearest(
        &self,
        steering: &Steering,
        part: f64,
        counts: impl Fn(u32) -> bool,
        is_candidate: impl Fn(u32) -> bool,
    ) -> Vec<(f64, u32)> {
        let is_one = |function: u32| self.probes.contains(&function) && counts(function);
        let mut rates: Vec<(f64, u32)> = steering.all_rates().filter(|one| is_one(one.1)).collect();
        rates.sort_unstable_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        let mut left: f64 = rates.iter().map(|(rate, _)| rate).sum();
        let most = steering.cost() * part * steering.load() / IDLE_PROBE;
        let dear = |(rate, function): (f64, u32)| {
            let is_dear = left > most;
            left -= rate;
            is_dear.then_some((rate, function))
        };
        rates.into_iter().filter(|(_, function)| is_candidate(*function)).map_while(dear).collect()
    }
}

impl Sampler {
    /// Finds out how often functions of these groups are called: a glance that counts for this part of what's known. Nothing of it is in the
    /// sample.
    pub(super) fn glance(
        &mut self,
        worker: &Worker,
        (groups, part): (impl IntoIterator<Item = u32>, f64),
    ) -> io::Result<()> {
        for group in groups {
            if worker.pauses.told.to_end() || !worker.session.is_there() {
                return Ok(());
            }
            let drawn = self.steering.whole(group);
            let armed = Armed::of(&self.steering.groups, &drawn, &self.watch);
            let of_group = self.hooks.of_group(group);
            let window = Window::open(worker, of_group, (armed, None), steer::own_time())?;
            std::thread::sleep(window.end(GLANCE).saturating_duration_since(Instant::now()));
            let mut closed = window.close(worker, of_group, GLANCE)?;
            // How busy the program is decides how much its probes may cost.
            let used = closed.used;
            self.steering.outside((used, closed.elapsed));
            self.steering.closed(&mut closed);
            self.look(worker);
            self.steering.glanced(group, (GLANCE, part), used);
        }
        Ok(())
    }

    /// Has probes cost nothing that cost most, before the first window, or leaves their functions out.
    pub(super) fn free_first(&mut self, worker: &mut Worker) -> io::Result<()> {
        self.idle.is_over = processor::PROBES.is_none_or(|all| all.puns.is_none());
        while !self.idle.is_over && self.free_dearest(worker)? {}
        let dear = self.too_dear(worker);
        if !dear.is_empty() {
            // A millisecond isn't enough to tell.
            let groups: BTreeSet<u32> =
                dear.iter().map(|(_, function)| self.steering.groups.of(*function)).collect();
            self.hooks = self.find_hooks(worker)?;
            for number in 2..=GLANCES {
                let part = 1.0 / f64::from(number);
                self.glance(worker, (groups.iter().copied(), part))?;
            }
            let dear = self.too_dear(worker);
            self.leave_out(worker, &dear)?;
        }
        self.leave_room(worker);
        Ok(())
    }

    /// What probes still cost while they're idle, windows don't.
    fn leave_room(&mut self, worker: &Worker) {
        let puns = &worker.session.puns;
        let costs_nothing = |one: u32| puns.has(one) || puns.left_out.contains(&one);
        let calls = self.idle.calls(&self.steering, costs_nothing);
        self.steering.set_idle(calls * IDLE_PROBE / self.steering.load());
    }

    /// There was a window. Has probes cost nothing that cost most, if it's time to look, or leaves their functions out. Whether some have
    /// changed.
    pub(super) fn free_idle(&mut self, worker: &mut Worker) -> io::Result<bool> {
        if !self.idle.is_due() {
            return Ok(false);
        }
        let has_freed = !self.idle.is_over && self.free_dearest(worker)?;
        let mut dear = self.too_dear(worker);
        // One window of a burst isn't enough to tell.
        let suspects = dear.iter().map(|(_, function)| *function).collect();
        let before = std::mem::replace(&mut self.idle.suspects, suspects);
        dear.retain(|(_, function)| before.contains(function));
        let has_left_out = self.leave_out(worker, &dear)?;
        self.leave_room(worker);
        Ok(has_freed || has_left_out)
    }

    fn free_dearest(&mut self, worker: &mut Worker) -> io::Result<bool> {
        let puns = &worker.session.puns;
        let is_open = |function: u32| !puns.is_decided(function) && !self.watch.has(function);
        let dearest = self.idle.dearest(&self.steering, PART, is_open, |_| true);
        let functions: Vec<u32> = dearest.into_iter().map(|(_, function)| function).collect();
        if functions.is_empty() {
            return Ok(false);
        }
        let freed = worker.session.free_idle(&functions);
        self.steering.pass();
        match freed {
            Ok(0) => Ok(false),
            Ok(_) => {
                let puns = &worker.session.puns;
                let freed = functions.into_iter().filter(|function| puns.has(*function));
                self.observer.freed(&freed.collect());
                Ok(true)
            }
            Err(error) if !worker.session.is_there() => Err(error),
            // They cost what they did.
            Err(_) => {
                self.idle.is_over = true;
                Ok(true)
            }
        }
    }

    /// Functions whose probes can't be made to cost nothing, and cost too much, with calls in a second.
    fn too_dear(&self, worker: &Worker) -> Vec<(f64, u32)> {
        // If that's unknown, all stay.
        if self.idle.is_over {
            return Vec::new();
        }
        let puns = &worker.session.puns;
        let costs = |function: u32| {
            !puns.has(function) && !puns.left_out.contains(&function) && !self.watch.has(function)
        };
        let is_refused = |function: u32| puns.refused.contains(&function);
        self.idle.dearest(&self.steering, LEFT, costs, is_refused)
    }

    /// Leaves these functions out of the sample for good. Whether some were.
    fn leave_out(&mut self, worker: &mut Worker, dear: &[(f64, u32)]) -> io::Result<bool> {
        if dear.is_empty() {
            return Ok(false);
        }
        let functions: Vec<u32> = dear.iter().map(|(_, function)| *function).collect();
        let left_out = worker.session.leave_out(&functions);
        self.steering.pass();
        let left_out = match left_out {
            Err(error) if !worker.session.is_there() => return Err(error),
            // They cost what they did.
            left_out => left_out.unwrap_or_default(),
        };
        let dear: Vec<_> = dear.iter().filter(|(_, one)| left_out.contains(one)).collect();
        let calls: f64 = dear.iter().map(|(rate, _)| rate).sum();
        let functions: Vec<u32> = dear.iter().map(|(_, function)| *function).collect();
        self.functions.retain(|function| !left_out.contains(function));
        self.steering.forget(&left_out);
        self.observer.left_out(&functions, calls * IDLE_PROBE / self.steering.load());
        Ok(!left_out.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::super::groups::Groups;
    use super::*;

    #[test]
    fn the_dearest_are_chosen() {
        let mut steering = Steering::new(0.01, (1, Groups::new(5, 1)), 50e-9);
        steering.outside((1.0, 1.0));
        // 0.05 % of a second are 142,857 calls.
        steering.set_rates(&[(1, 1e6), (2, 1e5), (3, 4e4), (4, 3e6), (5, 2e6)]);
        let idle = Idle::of(BTreeSet::from([1, 2, 3, 4]));
        let choose = |steering: &Steering, part, counts: &[u32], candidates: &[u32]| {
            let is_in = |all: &[u32], one: u32| all.contains(&one);
            let dearest = idle.dearest(
                steering,
                part,
                |one| is_in(counts, one),
                |one| is_in(candidates, one),
            );
            dearest.into_iter().map(|(_, function)| function).collect::<Vec<u32>>()
        };
        let all = [1, 2, 3, 4, 5];
        assert_eq!(choose(&steering, PART, &all, &all), [4, 1]);
        assert_eq!(choose(&steering, PART, &[1, 2, 3], &all), [1]);
        // What isn't a candidate costs something all the same.
        assert_eq!(choose(&steering, 0.1, &all, &[1, 2, 3]), [1, 2, 3]);
        assert_eq!(choose(&steering, 0.1, &[1, 2, 3], &[2, 3]), [2, 3]);
        assert_eq!(choose(&steering, 0.1, &[2, 3], &[2, 3]), []);
        steering.forget(&BTreeSet::from([4]));
        assert_eq!(choose(&steering, 0.1, &all, &all), [1]);
        steering.set_rates(&[(1, 1e5), (2, 3e4), (4, 1e4)]);
        assert!(choose(&steering, PART, &all, &all).is_empty());
    }

    #[test]
    fn windows_cost_less_if_idle_probes_cost_something() {
        let mut steering = Steering::new(0.01, (1, Groups::new(5, 1)), 50e-9);
        steering.outside((1.0, 2.0));
        steering.set_rates(&[(1, 1e6), (2, 4e5), (3, 5e6)]);
        let idle = Idle::of(BTreeSet::from([1, 2, 3]));
        // 1.4 million calls of 3.5 ns are 4.9 ms of half a second.
        let calls = idle.calls(&steering, |function| function == 3);
        assert!((calls - 1.4e6).abs() < 1.0);
        let all = steering.room_to_watch(true);
        for (part, left) in [(0.004, 0.6), (0.009, 0.25), (0.5, 0.25)] {
            steering.set_idle(part);
            assert!((steering.room_to_watch(true) / all - left).abs() < 1e-9);
        }
    }

    #[test]
    fn it_is_looked_less_and_less_often() {
        let mut idle = Idle::of(BTreeSet::from([1]));
        let due: Vec<u64> = (1..=64).filter(|_| idle.is_due()).collect();
        assert_eq!(due, [4, 8, 16, 32, 64]);
        assert!(!idle.is_due());
        idle.hurry();
        assert!(idle.is_due() && !idle.is_due());
        assert!((0..200).all(|_| !Idle::default().is_due()));
    }
}
