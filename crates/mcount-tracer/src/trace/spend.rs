//! `--budget` for programs that are run by the recorder: functions that are called too often become idle while all threads run.
//!
//! The recorder sleeps until something happens to a process. So a thread wakes it now and then, by a signal that
//! does nothing.

use super::Recorder;
use super::budget::{self, Budget, Times};
use super::live::Live;
use super::switch::Waker;
use crate::words::printable;
use mcount_trace::Note;
use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::time::{Duration, Instant};

/// How often it's looked whether there is much to read.
const OFTEN: Duration = Duration::from_millis(10);
/// After that much time calls are read, however few they are.
const STALE: Duration = Duration::from_millis(100);

/// What tracing has cost so far.
pub(super) struct Spending {
    live: Live,
    budget: Budget,
    looked: Instant,
    times: Times,
}

impl Recorder {
    /// From now on it's looked at what tracing costs, if that's asked for.
    pub(super) fn begin_spending(&mut self) {
        let Some(share) = self.request.budget else { return };
        self.spending = Some(Spending {
            live: Live::default(),
            budget: Budget::new(share),
            looked: Instant::now(),
            times: Times::default(),
        });
        wake_often();
    }

    /// Looks at what tracing costs, and gives functions up if that's too much.
    pub(super) fn look_at_spending(&mut self) {
        let Some(mut spending) = self.spending.take() else { return };
        if spending.live.news(&self.trace) >= 2 || spending.looked.elapsed() >= STALE {
            spending.looked = Instant::now();
            spending.live.look(&self.trace);
            let used = spending.times.count(self.processes.keys().copied());
            let given_up = spending.budget.decide(used, spending.live.all_calls());
            if !given_up.is_empty() {
                self.give_up(&given_up);
            }
        }
        self.spending = Some(spending);
    }

    fn give_up(&mut self, numbers: &[u32]) {
        let set: BTreeSet<u32> = numbers.iter().copied().collect();
        let mut names = HashMap::new();
        for module in self.modules.iter_mut() {
            for hook in module.hooks.iter_mut().filter(|hook| set.contains(&hook.id)) {
                hook.is_wanted = false;
                names.insert(hook.id, crate::names::name_of(&hook.name, true).into_owned());
            }
        }
        names.extend(self.library.give_up(&set));
        for process in self.processes.values() {
            self.switch_off(process, &set);
        }
        let names: Vec<&str> =
            numbers.iter().map(|number| names.get(number).map_or("?", |name| name)).collect();
        for note in budget::notes(&names) {
            self.add(Note { text: note.as_bytes() });
        }
        let line = budget::line(&names);
        let _ = writeln!(anstream::stderr(), "mcount: {}", printable(&line));
    }

    /// A new process may have been made before functions were given up, and be known only now.
    pub(super) fn give_up_again(&self, process: i32) {
        let given_up = self.spending.as_ref().map(|spending| spending.budget.given_up());
        let given_up = given_up.filter(|given_up| !given_up.is_empty());
        if let (Some(given_up), Some(process)) = (given_up, self.processes.get(&process)) {
            self.switch_off(process, given_up);
        }
    }
}

/// Interrupts this thread's sleep now and then.
fn wake_often() {
    let waker = Waker::new();
    std::thread::spawn(move || {
        while waker.wake() {
            std::thread::sleep(OFTEN);
        }
    });
}
