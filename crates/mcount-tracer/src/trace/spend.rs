//! `--budget` for programs that are run by the recorder: functions that are called too often become idle while all threads run.
//!
//! The recorder sleeps until something happens to a process. So a thread wakes it now and then, by a signal that
//! does nothing.

use super::Recorder;
use super::budget::{self, Budget, Times};
use super::live::Live;
use super::scope::Switches;
use super::switch::Waker;
use super::thrift::{self, Counted, GivenUp, Pace, Thrift};
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
        self.spending = self.request.budget.map(|share| Spending {
            live: Live::default(),
            budget: Budget::new(share),
            looked: Instant::now(),
            times: Times::default(),
        });
        let scope = &self.request.scope;
        let has_defaults = scope.has_waits() || scope.switches == Switches::IfPossible;
        self.thrift = (has_defaults && !self.request.is_list).then(|| Thrift::new(self.main));
        if let Some(thrift) = &self.thrift {
            wake_often(thrift.pace().clone());
        } else if self.spending.is_some() {
            wake_often(Pace::new(OFTEN));
        }
    }

    /// Looks at what the defaults cost, and gives up what costs too much.
    pub(super) fn look_at_defaults(&mut self) {
        let Some(mut thrift) = self.thrift.take_if(|_| self.begun) else { return };
        let counts = self.agent.symbols.short_waits;
        let counted = self.processes.iter().filter_map(|(id, process)| {
            let bias = process.space.borrow().agent.as_ref()?.bias;
            Some(Counted { process: *id, memory: &process.memory, address: bias + counts })
        });
        let is_default = self.request.scope.switches == Switches::IfPossible;
        let verdict = thrift.look(counted, self.kernel.as_ref().filter(|_| is_default));
        self.thrift = Some(thrift);
        if !verdict.given_up.is_empty() {
            self.give_defaults_up(&verdict.given_up);
        }
        if !verdict.again.is_empty() {
            self.take_waits_up(&verdict.again);
        }
    }

    fn take_waits_up(&mut self, again: &BTreeSet<GivenUp>) {
        let waits: BTreeSet<u32> =
            self.library.waits().filter(|number| thrift::is_one(again, *number)).collect();
        let names = self.library.take_up(&waits);
        if self.paused.is_none() {
            for process in self.processes.values() {
                self.switch_on(process, &waits);
            }
        }
        let seconds = self.began.elapsed().as_secs_f64();
        self.add(Note { text: thrift::note_of_return(&names, seconds).as_bytes() });
    }

    fn give_defaults_up(&mut self, given_up: &BTreeSet<GivenUp>) {
        let seconds = self.began.elapsed().as_secs_f64();
        let waits: BTreeSet<u32> =
            self.library.waits().filter(|number| thrift::is_one(given_up, *number)).collect();
        let names = self.library.give_up(&waits);
        for process in self.processes.values() {
            self.switch_off(process, &waits);
        }
        if !names.is_empty() {
            let names: Vec<&str> = names.iter().map(|(_, name)| &**name).collect();
            self.add(Note { text: thrift::note_of_waits(&names, seconds).as_bytes() });
        }
        if given_up.contains(&GivenUp::Switches)
            && let Some(kernel) = self.kernel.as_ref()
        {
            kernel.give_up();
            self.add(Note { text: thrift::note_of_switches().as_bytes() });
        }
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
        let waits = self.library.waits().filter(|number| !self.library.is_wanted(*number));
        let given_up: BTreeSet<u32> =
            given_up.into_iter().flatten().copied().chain(waits).collect();
        if let Some(process) = self.processes.get(&process).filter(|_| !given_up.is_empty()) {
            self.switch_off(process, &given_up);
        }
    }
}

/// Interrupts this thread's sleep now and then.
fn wake_often(pace: Pace) {
    let waker = Waker::new();
    std::thread::spawn(move || {
        while waker.wake() {
            std::thread::sleep(pace.get());
        }
    });
}
