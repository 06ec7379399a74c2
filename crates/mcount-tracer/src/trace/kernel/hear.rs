//! What the kernel says, one record after the other in the order of times: what it means for each thread.

use super::events::{Event, Said};
use super::functions::{Functions, Inner};
use super::lost::Lost;
use super::waits::Waker;
use super::{Heard, Instant, State, reasons, ticks_at};
use crate::words::counted;
use mcount_ptrace::Tracee;
use mcount_trace::Moment;
use mcount_trace::layout::header;
use std::sync::atomic::Ordering::SeqCst;

/// A thread that has ended takes less than this many nanoseconds for what is left to do.
const ENDING: u64 = 10_000_000_000;

/// A thread that has ended, or nearly so, at that time: in nanoseconds, and in ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending {
    ids: (u32, u32),
    time: u64,
    ticks: u64,
}

impl State {
    /// When that was, in ticks: not before what came earlier.
    pub(super) fn ticks_of(&mut self, time: u64, now: Moment) -> u64 {
        /// Two readings of both clocks differ by less.
        const CLOSE: u64 = 100_000;
        let ticks = ticks_at(time, self.reads[0], now);
        let is_close = ticks < self.last && self.last - ticks < CLOSE;
        self.last = if is_close { self.last } else { ticks };
        self.last
    }

    /// A thread has called functions of the kernel. Where its system call isn't known to be the program's yet, they wait for that.
    pub(super) fn called(
        &mut self,
        thread: u32,
        all: impl IntoIterator<Item = Inner>,
        heard: &mut Heard,
    ) {
        let Some(calls) = &mut self.calls else { return };
        // Threads that aren't known aren't followed.
        let Some(process) = self.processes.known(thread) else { return };
        let ready = all.into_iter().filter_map(|inner| calls.inside(thread, inner));
        heard.functions.extend(ready.map(|inner| ((process, thread), inner)));
    }

    /// Takes in what the kernel said of one of its functions.
    fn hear_function(&mut self, thread: u32, ticks: u64, said: &Said, heard: &mut Heard) {
        let is_away = self.waits.has(thread);
        let Some(functions) = &mut self.functions else { return };
        let call = match said {
            Said::Into(address) => {
                functions.enter(thread, *address, ticks, is_away);
                None
            }
            Said::OutOf(address) => functions.leave(thread, *address, ticks, is_away),
            Said::Through(address) => Some(Functions::through(*address, ticks)),
            _ => None,
        };
        self.called(thread, call, heard);
    }

    /// Takes in what threads of the program do that matters for functions of the kernel.
    fn follow_functions(&mut self, ids: (u32, u32), said: &Said) {
        let Some(functions) = &mut self.functions else { return };
        match said {
            Said::New { .. } => functions.begun(ids.1),
            Said::Enter(_) | Said::Exit { .. } => functions.cross(ids.1),
            _ => {}
        }
    }

    /// A thread has ended, or nearly so: since 2025, kernels say so before they unmap its memory and close its files (`do_exit`), and what
    /// they call for that is the thread's, too.
    fn ends(&mut self, ids: (u32, u32), (time, ticks): (u64, u64), heard: &mut Heard) {
        let ending = Ending { ids, time, ticks };
        if self.functions.is_some() {
            self.ending.push_back(ending);
        } else {
            self.end_of(ending, heard);
        }
    }

    /// Nothing more is heard of threads that ended long before that time, in nanoseconds.
    pub(super) fn end_before(&mut self, now: u64, heard: &mut Heard) {
        let is_over = |one: &Ending| now.saturating_sub(one.time) > ENDING;
        while self.ending.front().is_some_and(is_over) {
            let Some(ending) = self.ending.pop_front() else { return };
            self.end_of(ending, heard);
        }
    }

    /// A thread is new: nothing more is heard of the one that had its number.
    fn end_of_number(&mut self, thread: u32, heard: &mut Heard) {
        if self.functions.is_none() || self.processes.known(thread).is_none() {
            return;
        }
        let at = self.ending.iter().position(|one| one.ids.1 == thread);
        if let Some(ending) = at.and_then(|at| self.ending.remove(at)) {
            self.end_of(ending, heard);
        }
    }

    fn end_of(&mut self, Ending { ids, ticks, .. }: Ending, heard: &mut Heard) {
        if let Some(functions) = &mut self.functions {
            let inner = functions.ended(ids.1, ticks);
            self.called(ids.1, inner, heard);
        }
        self.processes.forget(ids.1);
        let calls = self.calls.as_mut();
        heard.calls.extend(calls.and_then(|calls| calls.ended(ids, ticks)));
    }

    /// Takes in what the kernel said.
    pub(super) fn hear(&mut self, event: Event, now: Moment, heard: &mut Heard) {
        let Event { time, mut ids, said } = event;
        if ids.0 == 0 && matches!(said, Said::Enter(_) | Said::Exit { .. }) {
            ids.0 = self.processes.of(ids.1);
        }
        let ticks = self.ticks_of(time, now);
        let ticks = match &mut self.functions {
            Some(functions) if said.is_border() => functions.distinct(ids.1, ticks),
            _ => ticks,
        };
        self.end_before(time, heard);
        if matches!(said, Said::New { .. }) {
            self.end_of_number(ids.1, heard);
        }
        self.follow_functions(ids, &said);
        match said {
            Said::Off { is_preempted } => self.waits.off(ids, ticks, is_preempted),
            Said::On => {
                self.waits.switches += 1;
                heard.times.extend(self.waits.on(ids, ticks));
            }
            Said::New { maker } => self.made(ids, maker, time),
            Said::Lost(count) => {
                let forgotten = self.forget_open();
                self.lost.add(count + forgotten, ticks);
            }
            Said::Missed(count) => {
                self.lost_functions.add(count, ticks);
                self.functions.iter_mut().for_each(Functions::lose);
            }
            Said::Into(_) | Said::OutOf(_) | Said::Through(_) => {
                self.hear_function(ids.1, ticks, &said, heard);
            }
            Said::Executed => self.before = self.before.filter(|before| *before != ids.1),
            Said::Wakes { thread, name, is_interrupt } => {
                self.woken((thread, name), ids, ticks, is_interrupt);
            }
            Said::Event(what, instruction) => {
                let instant = Instant { time: ticks, ids, instruction, what };
                heard.instants.extend(Some(instant).filter(|one| self.is_own(one, time)));
            }
            Said::Enter(entry) => {
                let is_ours = self.ours.has(ids, time, (entry.instruction, entry.arguments[0]));
                self.calls.iter_mut().for_each(|calls| calls.enter(ids, ticks, (entry, is_ours)));
            }
            Said::Exit { number, result } => {
                let calls = self.calls.as_mut();
                heard
                    .calls
                    .extend(calls.and_then(|calls| calls.exit(ids, ticks, (number, result))));
            }
            Said::Ended => {
                self.members.remove(&ids.1);
                if ids.0 == ids.1 {
                    self.ours.ended(ids.0);
                }
                self.ends(ids, (time, ticks), heard);
            }
        }
    }

    /// `maker` made this thread, at that time of the kernel's clock.
    fn made(&mut self, ids: (u32, u32), maker: u32, time: u64) {
        self.new_threads += 1;
        self.processes.add(ids);
        self.waits.begun(ids.1);
        self.members.insert(ids.1);
        self.ours.forked(ids.0, maker, time);
        if let Some(calls) = &mut self.calls {
            calls.begun(ids.1);
        }
        if let Some(inner) = &mut self.inner {
            inner.remove(&ids.1);
        }
    }

    /// A thread wakes another one at that time, in ticks, or an interrupt does.
    fn woken(
        &mut self,
        (thread, name): (u32, [u8; 16]),
        by: (u32, u32),
        ticks: u64,
        is_interrupt: bool,
    ) {
        if self.members.contains(&thread) {
            self.waits.called(thread, name);
            let is_member = self.members.contains(&by.1);
            let ids = (!is_interrupt).then_some(by);
            self.waits.woken(thread, Waker { ids, is_member, name: [0; 16], ticks });
        }
    }

    /// Is an event at that time, in nanoseconds, one of the program's?
    fn is_own(&self, Instant { ids, instruction, .. }: &Instant, time: u64) -> bool {
        self.members.contains(&ids.1)
            && self.before != Some(ids.1)
            && !self.ours.has(*ids, time, (*instruction, 0))
    }

    /// What is said if it isn't known what wakes threads.
    pub(super) fn no_wakers(&self) -> Option<String> {
        let why = match self.rings.has_wakers() {
            _ if !self.rings.wanted.wakers => None,
            (false, _) => Some(reasons::NO_WAKERS),
            (true, false) => Some(reasons::OWN_WAKERS),
            (true, true) => None,
        };
        why.map(str::to_owned)
    }

    /// What is said of lost records.
    pub(super) fn lost_lines(&self) -> Vec<String> {
        let field = |offset: usize| self.trace.field(offset).load(SeqCst);
        let (start, rate) = (field(header::START_TICKS), field(header::TICKS_PER_SECOND).max(1));
        let when = |lost: &Lost| lost.when(start, rate);
        let of_functions = when(&self.lost_functions).map(|(count, when)| {
            format!("kernel functions came too fast: the trace lacks {count} of the kernel's records {when}; choose fewer functions with --kernel")
        });
        let others = when(&self.lost).map(|(count, when)| match (&self.instants, &self.calls) {
            (Some(_), _) => format!(
                "events came too fast: the trace lacks {count} of the kernel's records {when}; choose fewer with --events"
            ),
            (None, None) => format!("{count} context switches came too fast, and aren't in the trace"),
            (None, Some(_)) => format!(
                "system calls came too fast: the trace lacks {count} of the kernel's records {when}"
            ),
        });
        let lost = counted(self.lost_somewhere, "record", "records");
        let somewhere = (self.lost_somewhere > 0).then(|| {
            format!("the kernel lost {lost} of its functions, and doesn't say when: the trace lacks them")
        });
        others.into_iter().chain(of_functions).chain(somewhere).collect()
    }

    /// The numbers that a process and a thread have in their own namespace.
    pub(super) fn inner_ids(&mut self, ids: (u32, u32)) -> (u32, u32) {
        let Some(inner) = &mut self.inner else { return ids };
        *inner.entry(ids.1).or_insert_with(|| {
            // It may have ended; then nobody can tell.
            let of =
                |id: u32| Tracee::new(id.cast_signed()).inner_id().map_or(0, i32::cast_unsigned);
            (of(ids.0), of(ids.1))
        })
    }
}
