//! Programs that forbid themselves system calls (seccomp): the agent is to make none that a filter ends the program for.
//!
//! The C library's functions with which a program does that, `prctl` and `syscall`, call the agent first, which asks here. If
//! the filter forbids something that the agent needs, the agent makes ready what the thread's calls will need, and does without
//! from then on; what can't be recorded so is counted. Filters last: threads and processes that are made begin with them, and so do
//! programs that are executed. That's seen where these stop for the first time.
//!
//! In the strict mode, the processor's clock mayn't be read either; it's read here then.

use super::clock::clock;
use super::modules::{Hook, Module};
use super::processor;
use super::rlimit::Limit;
use super::sandbox;
use super::space::Space;
use super::start::Untraced;
use super::{Process, Recorder};
use mcount_agent::question;
use mcount_hooks::maps;
use mcount_ptrace::{Memory, Tracee};
use std::io;

/// The answer if nothing is forbidden that the agent needs.
const FINE: u64 = 0;
/// The most of a stack that's made ready, in bytes.
const MOST: u64 = 8 << 20;

/// What programs take on in a sandbox.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Confinement {
    /// Filters that are known to forbid nothing that the agent needs.
    harmless: u64,
    /// There has been one that does.
    pub(super) has_been: bool,
}

impl Recorder {
    /// Answers a thread that is going to forbid itself system calls. `false` if it has asked for something else.
    pub(super) fn answered(&mut self, thread: Tracee) -> bool {
        let id = self.threads.get(&thread.id()).copied();
        let Some(process) = id.and_then(|id| self.processes.get_mut(&id)) else { return false };
        let placed = process.space.borrow().agent.as_ref().map(|placed| placed.bias);
        let Some(at) = placed.map(|bias| bias + self.agent.symbols.question) else { return false };
        let word = |offset: u64| process.memory.word(at + offset).unwrap_or(0);
        let asks =
            thread.registers().map_or(0, |registers| registers.second_argument() & 0xffff_ffff);
        if asks == 0 || word(question::THREAD) != asks {
            return false;
        }
        let (mode, stack) = (word(question::MODE), word(question::STACK));
        let further = self.request.scope.further_system_calls();
        let is_harmless = mode == 2
            && read_filter(&process.memory, word(question::FILTER))
                .is_ok_and(|filter| sandbox::allows_tracing(&filter, &further));
        let answer = if is_harmless {
            process.confinement.harmless += 1;
            FINE
        } else {
            process.confinement.has_been = true;
            self.is_confined = true;
            lowest(thread.id(), stack).unwrap_or(stack)
        };
        // It does without an answer, too.
        let _ = process.memory.write(at + question::ANSWER, &answer.to_le_bytes());
        true
    }

    /// Does a new thread of `process` begin with something forbidden that the agent needs?
    pub(super) fn begins_confined(&self, thread: Tracee, process: &Process) -> bool {
        let Confinement { harmless, has_been } = process.confinement;
        let is_first = self.threads.get(&thread.id()) == Some(&thread.id());
        // Threads are many. Where nobody has asked, none has a filter.
        (is_first || has_been || harmless != 0)
            && sandbox::filters_of(thread.id()) > self.own_filters + harmless
    }

    /// What `thread` has taken on, which has just executed a program.
    ///
    /// # Errors
    ///
    /// Something is forbidden that the agent needs, or that isn't known.
    pub(super) fn confinement_at_exec(&self, thread: Tracee) -> Result<Confinement, Untraced> {
        let before = self.processes.get(&thread.id());
        let before = before.map_or(0, |process| process.confinement.harmless);
        let filters = sandbox::filters_of(thread.id());
        if filters > self.own_filters + before
            && !sandbox::lets_begin(thread.id(), &self.request.scope.further_system_calls())
        {
            return Err(Untraced::Confined);
        }
        let harmless = filters.saturating_sub(self.own_filters);
        Ok(Confinement { harmless, has_been: false })
    }

    /// Did `thread` get a fault because its process may not read the clock? Then it's given the time.
    pub(super) fn gave_time(&self, thread: Tracee) -> bool {
        let process = self.threads.get(&thread.id()).and_then(|id| self.processes.get(id));
        let Some(process) = process else { return false };
        let Some(bias) = process.space.borrow().agent.as_ref().map(|placed| placed.bias) else {
            return false;
        };
        let Ok(mut registers) = thread.registers() else { return false };
        let mut bytes = [0; 2];
        let place = registers.instruction();
        if !(bias..bias + self.agent.symbols.stubs).contains(&place)
            || process.memory.read(place, &mut bytes).is_err()
            || !registers.give_time(bytes, clock())
        {
            return false;
        }
        thread.set_registers(&registers).is_ok()
    }
}

impl Space {
    /// Has the functions of `module` with which a program forbids itself something call the agent first. No thread runs there.
    pub(super) fn watch(
        &mut self,
        memory: &Memory,
        watch: u64,
        module: &Module,
        bias: u64,
    ) -> io::Result<()> {
        let Some(placed) = &mut self.agent else { return Ok(()) };
        let watch = placed.bias + watch;
        for (function, bytes) in &module.confining {
            let has_hook = |hook: &Hook| hook.function == *function && !hook.is_instrumented;
            if module.hooks.iter().any(has_hook) {
                continue;
            }
            let Some(at) = placed.stubs.take(processor::STUB as u64) else { continue };
            let made = processor::watched(bias + function, bytes, at, watch);
            let Some(made) = made else { continue };
            memory.write(at, &made.stub)?;
            memory.write(made.place, &made.jump)?;
        }
        Ok(())
    }
}

/// The filter that a `struct sock_fprog` leads to.
fn read_filter(memory: &Memory, at: u64) -> io::Result<Vec<sandbox::Instruction>> {
    let words = memory.words(at, 2)?;
    let [count, start] = words.as_slice() else { return Err(io::ErrorKind::InvalidData.into()) };
    let count = usize::try_from(count & 0xffff).unwrap_or(0);
    if count > sandbox::LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(memory.words(*start, count)?.into_iter().map(sandbox::Instruction::from_word).collect())
}

/// The lowest address of the stack that `stack` is on, within reason.
fn lowest(thread: i32, stack: u64) -> Option<u64> {
    let maps = maps::read(thread).ok()?;
    let map = maps::find(&maps, stack)?;
    let most = stack.saturating_sub(MOST);
    // The first thread's grows.
    let grows = map.path.as_os_str() == "[stack]";
    let low = if grows { stack.saturating_sub(stack_limit(thread)) } else { map.start };
    Some(low.max(most))
}

/// How large the first thread's stack may get.
fn stack_limit(process: i32) -> u64 {
    Limit::Stack.of(process).ok().flatten().unwrap_or(MOST)
}
