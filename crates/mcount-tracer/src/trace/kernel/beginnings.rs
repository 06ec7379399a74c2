//! The first system calls of a program. Its dynamic linker loads the agent, too: those calls are left out.
//!
//! The recorder learns where the agent is when the dynamic linker has loaded it. Until then, the calls wait.

use super::calls::Call;
use foldhash::HashMap;
use std::ops::Range;

/// More calls than that don't wait: no dynamic linker makes that many before it has loaded its first library.
const MOST: usize = 4096;

/// The calls of a process that begins.
#[derive(Default)]
struct Beginning {
    held: Vec<Call>,
    /// Until when calls wait, in nanoseconds, and where the agent is.
    loaded: Option<(u64, Range<u64>)>,
}

/// Those of all processes that begin.
#[derive(Default)]
pub(super) struct Beginnings(HashMap<u32, Beginning>);

impl Beginnings {
    /// A process begins, and its dynamic linker is to load the agent.
    pub(super) fn begin(&mut self, process: u32) {
        self.0.entry(process).or_default().loaded = None;
    }

    /// The agent is loaded.
    pub(super) fn loaded(&mut self, process: u32, now: u64, agent: Range<u64>) {
        if let Some(beginning) = self.0.get_mut(&process)
            && beginning.loaded.is_none()
        {
            beginning.loaded = Some((now, agent));
        }
    }

    /// Calls have ended: some wait, others are handed out again.
    pub(super) fn hold_all(&mut self, calls: Vec<Call>) -> Vec<Call> {
        if self.0.is_empty() {
            return calls;
        }
        calls.into_iter().filter_map(|call| self.hold(call)).collect()
    }

    fn hold(&mut self, call: Call) -> Option<Call> {
        let Some(beginning) = self.0.get_mut(&call.ids.0) else { return Some(call) };
        beginning.held.push(call);
        None
    }

    /// Calls that have waited, if all that ended until this time are known.
    pub(super) fn take(&mut self, known: u64) -> Vec<Call> {
        let is_ready = |beginning: &Beginning| {
            beginning.held.len() > MOST
                || beginning.loaded.as_ref().is_some_and(|(until, _)| *until <= known)
        };
        let ready: Vec<u32> =
            self.0.iter().filter(|(_, one)| is_ready(one)).map(|(process, _)| *process).collect();
        let ready = ready.iter().filter_map(|process| self.0.remove(process));
        ready.flat_map(without_agent).collect()
    }

    /// All that wait.
    pub(super) fn rest(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.0).into_values().flat_map(without_agent).collect()
    }
}

/// Without those from where the agent's file is opened until it's closed, and those that protect its memory later.
fn without_agent(beginning: Beginning) -> Vec<Call> {
    let Beginning { mut held, loaded } = beginning;
    let Some((_, agent)) = loaded else { return held };
    let is_agents = |call: &Call| {
        call.is("mmap") && call.result.is_some_and(|at| agent.contains(&at.cast_unsigned()))
    };
    let Some(mapped) = held.iter().position(is_agents) else { return held };
    let file = held.get(mapped).and_then(|call| call.entry.arguments.get(4).copied());
    let Some(file) = file.and_then(|file| i64::try_from(file).ok()) else { return held };
    let opens = |call: &Call| (call.is("openat") || call.is("open")) && call.result == Some(file);
    let closes = |call: &Call| {
        call.is("close")
            && call.entry.arguments.first().is_some_and(|of| *of == file.cast_unsigned())
    };
    let first = held.iter().take(mapped).rposition(opens);
    let last = held.iter().skip(mapped).position(closes).map(|behind| mapped + behind);
    if let (Some(first), Some(last)) = (first, last) {
        held.drain(first..=last);
    }
    let is_about = |call: &Call| call.entry.arguments.first().is_some_and(|at| agent.contains(at));
    held.retain(|call| !(call.is("mprotect") && is_about(call)));
    held
}
