//! Processes and threads: how they come, which memory they have, and how they end.

use super::agent::Symbols;
use super::confine::Confinement;
use super::modules::Modules;
use super::space::{Recording, Space};
use super::start::{self, Untraced};
use super::thread_names;
use super::{Ended, Maker, Process, Recorder, program};
use crate::commit::{Failure, about};
use mcount_agent::config;
use mcount_ptrace::{Memory, Tracee, status};
use mcount_trace::{Mapping, ProcessEnd, ProcessStart, ThreadEnd, ThreadStart};
use nix::libc;
use std::cell::RefCell;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long a new process waits until an event tells which process made it.
const PATIENCE: Duration = Duration::from_millis(500);
/// Said once.
const SHADOW_STACK: &str = "with -pg, a program with a shadow stack (CET) is slow, and returns aren't seen: use \
                            --entries, or compile with -mfentry or -fpatchable-function-entry=5";
/// How many processes that have ended are kept in mind.
const LATELY: usize = 16;

impl Recorder {
    /// A new thread or process means the first time, or one was stopped by a stop signal.
    pub(super) fn event_stop(&mut self, thread: Tracee, signal: i32) {
        let is_stop =
            [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&signal);
        if !self.threads.contains_key(&thread.id()) {
            self.early.insert(thread.id(), Instant::now());
        } else if is_stop {
            thread.listen();
        } else {
            if self.late.remove(&thread.id()) {
                self.borrow(thread, |this| this.begin_thread(thread));
            }
            self.go_on(thread);
        }
    }

    /// Lets a thread run on, or lets it go for good.
    fn go_on(&mut self, thread: Tracee) {
        if self.left_alone.remove(&thread.id()) {
            self.threads.remove(&thread.id());
            self.processes.remove(&thread.id());
            thread.let_go();
        } else {
            thread.resume(None);
        }
    }

    /// A new thread means the first time.
    pub(super) fn begin_thread(&mut self, thread: Tracee) {
        let Some(id) = self.threads.get(&thread.id()) else { return };
        // A process with memory of its own finds by itself that its parent's block isn't its own.
        let is_thread = *id != thread.id();
        let Some(process) = self.processes.get(id) else { return };
        let is_confined = self.begins_confined(thread, process);
        if (is_thread
            || Rc::strong_count(&process.space) > 1
            || process.confinement.has_been
            || is_confined)
            && let Err(error) =
                process.space.borrow().begin_thread(thread, &self.agent, is_confined)
            && error.raw_os_error() != Some(libc::ESRCH)
        {
            self.notes.push(format!("thread {}: {}", thread.id(), Failure::from(error)));
        }
        self.is_confined |= is_confined;
    }

    /// `thread` is of process `process` from now on, and may have been waiting for that.
    pub(super) fn know(&mut self, thread: i32, process: i32) {
        self.threads.insert(thread, process);
        if self.early.remove(&thread).is_some() {
            let thread = Tracee::new(thread);
            self.borrow(thread, |this| this.begin_thread(thread));
            self.go_on(thread);
        } else {
            self.late.insert(thread);
        }
    }

    pub(super) fn cloned(&mut self, thread: Tracee) {
        if let Some(new) = self.unknown(thread) {
            let process = self.threads.get(&thread.id()).copied().unwrap_or(thread.id());
            let shares = thread_group(new).is_none_or(|group| group == process);
            if shares {
                let (pid, tid) = (process.cast_unsigned(), new.cast_unsigned());
                self.add(ThreadStart { pid, tid, ticks: self.trace.ticks(), name: b"" });
                self.know(new, process);
            } else {
                // `clone` with another exit signal than SIGCHLD makes a process, with memory of its own or not.
                self.new_process(thread, new, false);
            }
        }
        thread.resume(None);
    }

    /// What `thread` has made, unless it has waited so long that it was adopted.
    fn unknown(&self, thread: Tracee) -> Option<i32> {
        thread.event_message().filter(|new| !self.threads.contains_key(new))
    }

    pub(super) fn forked(&mut self, thread: Tracee, is_vfork: bool) {
        if let Some(new) = self.unknown(thread) {
            self.new_process(thread, new, is_vfork);
        }
        thread.resume(None);
    }

    /// `clone` can make any kind of process, and is told of as the kind that comes nearest to it.
    pub(super) fn new_process(&mut self, parent: Tracee, new: i32, is_vfork: bool) {
        let parent = self.threads.get(&parent.id()).copied().unwrap_or(parent.id());
        let shares_memory = shares_memory(parent, new).unwrap_or(is_vfork);
        let maker = self.processes.get(&parent).map(Process::as_maker).unwrap_or_default();
        self.begin_process(new, parent, maker, shares_memory);
    }

    fn begin_process(&mut self, new: i32, parent: i32, maker: Maker, shares_memory: bool) {
        let Maker { mut space, traced, confinement } = maker;
        if !shares_memory {
            let own = space.borrow().clone();
            space = Rc::new(RefCell::new(own));
        }
        if self.request.is_alone && !shares_memory {
            self.leave_alone(new, &space.borrow());
        } else if let Ok(memory) = Memory::open(new) {
            let loaded: Vec<_> = space.borrow().loaded.iter().map(|(a, b)| (*a, *b)).collect();
            self.processes.insert(new, Process { space, memory, traced, confinement });
            // One that isn't to be traced has its maker's memory until it executes something.
            let told_of = if self.request.is_alone { Vec::new() } else { loaded };
            if !self.request.is_alone {
                self.process_record(new, parent);
            }
            self.give_up_again(new);
            self.switch_as_told(new);
            for (bias, index) in told_of {
                self.loaded_record(true, new, bias, index);
            }
        }
        self.know(new, new);
    }

    /// Lets those go on that no event announced for long: their maker was killed at that moment.
    pub(super) fn adopt(&mut self) {
        let late = self.early.iter().filter(|(_, since)| since.elapsed() >= PATIENCE);
        let late: Vec<i32> = late.map(|(thread, _)| *thread).collect();
        for thread in late {
            match thread_group(thread) {
                Some(group) if group != thread => self.know(thread, group),
                _ => {
                    let (parent, maker) = self.maker_of(thread).unwrap_or_default();
                    self.begin_process(thread, parent, maker, false);
                }
            }
        }
    }

    /// The maker of a process, of those that are like it in where the agent is.
    fn maker_of(&self, process: i32) -> Option<(i32, Maker)> {
        let memory = Memory::open(process).ok()?;
        let is_it = |space: &Space| {
            let place = space.agent.as_ref().map(|placed| placed.bias + self.agent.symbols.config);
            let length = place.and_then(|place| memory.word(place + config::LENGTH).ok());
            let file = place.and_then(|place| memory.word(place + config::FILE).ok());
            length.is_some_and(|length| length != 0) && file.is_some_and(|file| file != 0)
        };
        let ended = self.ended_lately.iter().rev().find(|(_, maker)| is_it(&maker.space.borrow()));
        let running = || {
            let mut all = self.processes.iter();
            let found = all.find(|(_, one)| is_it(&one.space.borrow()));
            found.map(|(id, one)| (*id, one.as_maker()))
        };
        ended.cloned().or_else(running)
    }

    /// The agent ends the program, as a call has returned for which there's no caller any more: says why, and what helps.
    pub(super) fn ends_in_agent(&mut self, thread: Tracee) {
        let process = self.threads.get(&thread.id()).and_then(|id| self.processes.get(id));
        let placed = process.and_then(|process| Some(process.space.borrow().agent.as_ref()?.bias));
        let at = thread.registers().map(|registers| registers.instruction());
        let size = self.agent.symbols.size;
        if placed.zip(at.ok()).is_some_and(|(bias, at)| (bias..bias + size).contains(&at)) {
            let text = "a call returned a second time, as those of continuations do (callcc, call/cc), and \
                        that ends the program: with --entries it goes on";
            self.note(text.to_owned());
        }
    }

    /// Did `thread` get a fault because its shadow stack, which the processor keeps (CET), has another return address? Then
    /// it's given the caller's, if the one that it has is ours. The call ends in the trace when a later one is made there.
    ///
    /// That can only be after a prologue: elsewhere, functions are called by what they return to.
    pub(super) fn gave_return_address(&mut self, thread: Tracee) -> bool {
        /// `SEGV_CPERR`.
        const WRONG_RETURN: i32 = 10;
        /// Where the caller's address is kept, from that place on the stack.
        const RET: u64 = 1 << 46 | 1 << 27;
        /// `LET_GO` of the agent.
        const LET_GO: u64 = 2;
        let process = self.threads.get(&thread.id()).and_then(|id| self.processes.get(id));
        let Some(process) = process.filter(|_| thread.signal_code() == Some(WRONG_RETURN)) else {
            return false;
        };
        let Some(placed) = process.space.borrow().agent.as_ref().map(|placed| placed.bias) else {
            return false;
        };
        let Ok(slot) = thread.registers().map(|registers| registers.stack()) else { return false };
        let memory = &process.memory;
        let Ok(returns_to) = memory.word(slot) else { return false };
        let Symbols { pg_return, pads, pads_end, .. } = self.agent.symbols;
        let caller = if returns_to == placed + pg_return {
            let caller = memory.word(slot ^ RET).unwrap_or(0);
            let _ = memory.write(slot ^ RET, &LET_GO.to_le_bytes());
            caller
        } else if (placed + pads..placed + pads_end).contains(&returns_to) {
            // A page of pads begins with the distance to their words.
            let distance = memory.word(returns_to & !0xfff).unwrap_or(0);
            memory.word(returns_to.wrapping_add(distance)).unwrap_or(0)
        } else {
            0
        };
        let is_given = caller > LET_GO && memory.write(slot, &caller.to_le_bytes()).is_ok();
        if is_given {
            self.note(SHADOW_STACK.to_owned());
        }
        is_given
    }

    /// A new process with memory of its own isn't to be traced: its hooks become idle, and the agent in it
    /// knows of no trace and asks no recorder. It's let go when it stands.
    fn leave_alone(&mut self, new: i32, space: &Space) {
        self.left_alone.insert(new);
        let Ok(memory) = Memory::open(new) else { return };
        self.switch_all_off(&memory, space);
        if let Some(placed) = &space.agent {
            let symbols = &self.agent.symbols;
            let file = placed.bias + symbols.config + mcount_agent::config::FILE;
            // If it has ended meanwhile, that much the better.
            let _ = memory.write(file, &[0; 8]);
            let _ = memory.write(placed.bias + symbols.ask, mcount_cpu::here::outside::RETURN);
        }
    }

    pub(super) fn process_record(&mut self, process: i32, parent: i32) {
        let name = std::fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default();
        self.add(ProcessStart {
            pid: process.cast_unsigned(),
            parent: parent.cast_unsigned(),
            ticks: self.trace.ticks(),
            path: name.as_os_str().as_bytes(),
        });
    }

    pub(super) fn loaded_record(&mut self, is_loaded: bool, process: i32, bias: u64, index: usize) {
        let module = self.modules.at(index).map_or(0, |module| module.number);
        let (pid, ticks) = (process.cast_unsigned(), self.trace.ticks());
        self.add(Mapping { module, pid, bias, ticks, is_loaded });
    }

    /// Puts into the trace what a thread is called that has ended, and that hasn't been waited for.
    pub(super) fn name(&self, thread: i32) {
        if let Some(process) = self.threads.get(&thread)
            && !self.left_alone.contains(&thread)
            && self
                .processes
                .get(process)
                .is_some_and(|process| process.traced || self.request.scope.has_kernel())
        {
            let ids = (*process, thread);
            thread_names::add(&self.trace, ids, ids);
        }
    }

    pub(super) fn exited(&mut self, thread: i32, status: i32) {
        self.early.remove(&thread);
        self.late.remove(&thread);
        self.left_alone.remove(&thread);
        let Some(process) = self.threads.remove(&thread) else { return };
        let (pid, ticks) = (process.cast_unsigned(), self.trace.ticks());
        if thread != process {
            return self.add(ThreadEnd { pid, tid: thread.cast_unsigned(), ticks });
        }
        self.add(ProcessEnd { pid, status: status.cast_unsigned(), ticks });
        if let Some(process_now) = self.processes.remove(&process) {
            self.ended_lately.push_back((process, process_now.as_maker()));
            if self.ended_lately.len() > LATELY {
                self.ended_lately.pop_front();
            }
        }
        if let Err(error) = self.trace.release(process) {
            self.note(format!("process {process}: {}", Failure::from(error)));
        }
        if process == self.main && self.ended.is_none() {
            self.ended = Some(if libc::WIFSIGNALED(status) {
                Ended::Signal(libc::WTERMSIG(status))
            } else {
                Ended::Code(u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(255))
            });
        }
    }

    /// A program was executed: nothing is left of what was in memory before.
    pub(super) fn executed(&mut self, thread: Tracee) {
        let process = thread.id();
        if self.request.is_alone && process != self.main {
            // Until here it had its maker's memory.
            self.threads.retain(|_, of| *of != process);
            self.left_alone.insert(process);
            return self.go_on(thread);
        }
        // Its other threads are gone, and the one that called exec has the process's number now.
        self.threads.retain(|_, of| *of != process);
        self.threads.insert(process, process);
        self.process_record(process, 0);
        if self.needs_no_agent(process) {
            self.follow_alone(process);
            self.has_begun_alone(process);
        } else if let Err(why) = self.borrow(thread, |this| this.prepare(thread)) {
            self.follow_alone(process);
            self.untraced(process, &why);
        }
        thread.resume(None);
    }

    /// Has a process that isn't traced itself tell of what it makes.
    fn follow_alone(&mut self, process: i32) {
        if let Ok(memory) = Memory::open(process) {
            let (space, confinement) = (Rc::default(), Confinement::default());
            self.processes.insert(process, Process { space, memory, traced: false, confinement });
            self.know_code(Tracee::new(process));
        }
    }

    /// Is the program without hooks, and are system calls or events wanted? The kernel tells of these.
    fn needs_no_agent(&self, process: i32) -> bool {
        let scope = &self.request.scope;
        if !scope.has_kernel() || scope.makes_hooks() || self.request.is_list {
            return false;
        }
        let file = PathBuf::from(format!("/proc/{process}/exe"));
        let mut modules = Modules::default();
        let index = modules.get(&program(process), &file, scope).map(|(index, _)| index);
        let module = index.ok().and_then(|index| modules.at(index));
        module.is_some_and(|module| module.hooks.is_empty())
    }

    /// The first program begins, and needs no agent.
    fn has_begun_alone(&mut self, process: i32) {
        if process == self.main
            && !std::mem::replace(&mut self.begun, true)
            && let Err(error) = self.publish()
        {
            self.refuse(process, about(&self.request.output, error).to_string());
        }
    }

    pub(super) fn prepare(&mut self, thread: Tracee) -> Result<(), Untraced> {
        let memory = Memory::open(thread.id())?;
        let confinement = self.confinement_at_exec(thread)?;
        let recording = Recording { trace: &self.trace, scope: &self.request.scope };
        let start::Prepared { mut space, bias } =
            start::prepare(thread, &memory, &self.agent, recording)?;
        let id = thread.id();
        if let Some(bias) = bias {
            if !self.request.scope.library.is_empty() {
                let name = program(id).display().to_string();
                self.note(format!("{name}: statically linked, so no call leaves it"));
            }
            self.arm(thread, id, &memory, &mut space, bias, &program(id))?;
            self.switch_new(&memory, &space);
            self.has_begun(id);
        }
        let space = Rc::new(RefCell::new(space));
        self.processes.insert(id, Process { space, memory, traced: true, confinement });
        Ok(())
    }
}

/// The thread group, which is the process, that a thread belongs to.
fn thread_group(thread: i32) -> Option<i32> {
    status(thread, "Tgid:").and_then(|process| process.try_into().ok())
}

/// Do both processes have one memory? `None` if the kernel doesn't say.
fn shares_memory(one: i32, other: i32) -> Option<bool> {
    const KCMP_VM: libc::c_int = 1;
    // SAFETY: no pointer is passed.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0, 0) };
    (order >= 0).then_some(order == 0)
}
