//! Hooks of programs that are run by the recorder become idle, and are armed again, by one store each, while all threads run. That's
//! for `--budget`, and for signals that pause the recorder.

use super::instrumented_table;
use super::modules::Hook;
use super::probes;
use super::processor;
use super::space::Space;
use super::told;
use super::{Process, Recorder, Size, save};
use super::{marker, markers};
use crate::words::printable;
use mcount_ptrace::Memory;
use mcount_trace::Note;
use nix::libc;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// How often the recorder is woken until it has heard.
const OFTEN: Duration = Duration::from_millis(10);

impl Recorder {
    /// Does what signals have said.
    pub(super) fn obey(&mut self) {
        if self.told.to_pause() {
            self.pause();
        }
        if self.told.to_write() {
            self.write_newest();
        }
    }

    /// Pauses, or goes on.
    fn pause(&mut self) {
        let now = self.began.elapsed().as_secs_f64();
        let note = if let Some(from) = self.paused.take() {
            format!("SIGUSR1 paused the recording from {from:.3} s to {now:.3} s")
        } else {
            self.paused = Some(now);
            format!("SIGUSR1 paused the recording from {now:.3} s on")
        };
        self.has_paused = true;
        let processes: Vec<i32> = self.processes.keys().copied().collect();
        for process in processes {
            self.switch_as_told(process);
        }
        self.add(Note { text: note.as_bytes() });
        say(told::line(self.paused.is_some()));
    }

    /// Makes a process pause, or go on, as the others do. A new one may have been made before that was said.
    pub(super) fn switch_as_told(&self, process: i32) {
        let Some(process) = self.processes.get(&process).filter(|_| self.has_paused) else {
            return;
        };
        let on = self.paused.is_none();
        self.switch(&process.memory, &process.space.borrow(), on, |_, is_wanted| is_wanted);
    }

    /// The same for what has just been armed in a space.
    pub(super) fn switch_new(&self, memory: &Memory, space: &Space) {
        if self.paused.is_some() {
            self.switch(memory, space, false, |_, _| true);
        }
    }

    /// Makes all hooks idle.
    pub(super) fn switch_all_off(&self, memory: &Memory, space: &Space) {
        self.switch(memory, space, false, |_, _| true);
        for (bias, index) in &space.loaded {
            let hooks = self.modules.at(*index).map(|module| module.hooks.as_slice());
            let wanted = hooks.unwrap_or_default().iter().filter(|hook| hook.is_wanted);
            for semaphore in wanted.filter_map(Hook::semaphore) {
                // It may have ended meanwhile.
                let _ = markers::count(memory, bias + semaphore, false);
            }
        }
    }

    /// Makes hooks of these functions idle.
    pub(super) fn switch_off(&self, process: &Process, functions: &BTreeSet<u32>) {
        let is_one = |number: u32, _: bool| functions.contains(&number);
        self.switch(&process.memory, &process.space.borrow(), false, is_one);
    }

    /// Arms hooks of these functions again.
    pub(super) fn switch_on(&self, process: &Process, functions: &BTreeSet<u32>) {
        let is_one = |number: u32, _: bool| functions.contains(&number);
        self.switch(&process.memory, &process.space.borrow(), true, is_one);
    }

    /// Switches hooks on or off, by one byte each: those of which `is_one` says so by the function's number, and whether it's wanted.
    fn switch(&self, memory: &Memory, space: &Space, on: bool, is_one: impl Fn(u32, bool) -> bool) {
        for (bias, index) in &space.loaded {
            let hooks = self.modules.at(*index).map(|module| module.hooks.as_slice());
            let hooks = hooks.unwrap_or_default().iter().filter(|hook| !hook.is_instrumented);
            for hook in hooks.filter(|hook| is_one(hook.id, hook.is_wanted)) {
                let site = bias + hook.site;
                let read = |at: u64, bytes: &mut [u8]| memory.read(at, bytes);
                let gate = if hook.probe.is_some() { probes::gate(site, read) } else { Some(site) };
                match gate {
                    Some(unit) if hook.marker().is_some() => {
                        let (at, armed, idle) = marker::switch(unit);
                        let _ = memory.write(at, if on { &armed } else { &idle });
                    }
                    Some(site) => switch_site(memory, site, on),
                    None => {}
                }
            }
        }
        let gates = space.gates.iter();
        for gate in gates.filter(|gate| is_one(gate.number, self.library.is_wanted(gate.number))) {
            switch_site(memory, gate.site, on);
        }
        let told = space.instrumented.values().flatten();
        let told = told.filter(|(number, _)| is_one(*number, true));
        // As above.
        let _ = instrumented_table::switch(memory, told.map(|(_, at)| *at), on);
    }

    /// Writes what the ring has now to a trace of its own.
    fn write_newest(&self) {
        if !matches!(self.request.size, Size::Ring(_)) {
            return say(told::NO_RING);
        }
        if let Some(kernel) = &self.kernel {
            kernel.write();
        }
        // To have all threads stand would interrupt system calls.
        match save::save(&self.trace, &self.request.output, || Ok::<_, io::Error>(())) {
            Ok(path) => say(&format!("written to {}", path.display())),
            Err(error) => say(&error.to_string()),
        }
    }
}

fn switch_site(memory: &Memory, site: u64, is_on: bool) {
    let mut bytes = [0; processor::SWITCH];
    // It may have ended meanwhile.
    if memory.read(site, &mut bytes).is_ok()
        && let Some((at, on, off)) = processor::switch(site, bytes)
    {
        let _ = memory.write(at, if is_on { &on } else { &off });
    }
}

pub(super) fn say(text: &str) {
    let _ = writeln!(anstream::stderr(), "mcount: {}", printable(text));
}

/// Wakes a thread that sleeps in a system call.
#[derive(Clone, Copy)]
pub(super) struct Waker {
    process: libc::pid_t,
    thread: libc::pid_t,
}

impl Waker {
    /// Of this thread. When it's woken, it has to find out itself why.
    pub(super) fn new() -> Self {
        extern "C" fn nothing(_: libc::c_int) {}
        // SAFETY: the handler does nothing; numbers of this process and thread.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
            libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
            Self { process: libc::getpid(), thread: libc::gettid() }
        }
    }

    /// Interrupts its sleep. `false` if it has ended.
    pub(super) fn wake(self) -> bool {
        // SAFETY: no pointer is passed.
        unsafe { libc::syscall(libc::SYS_tgkill, self.process, self.thread, libc::SIGALRM) == 0 }
    }

    /// Interrupts it until it has heard, as it may not be asleep yet.
    pub(super) fn wake_until(self, has_heard: impl Fn() -> bool) {
        let limit = Instant::now() + Duration::from_secs(10);
        while self.wake() && !has_heard() && Instant::now() < limit {
            std::thread::sleep(OFTEN);
        }
    }
}
