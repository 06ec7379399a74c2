//! Stopping all threads of a process that runs, and letting them go as if nothing had been (`ptrace(2)`,
//! `PTRACE_SEIZE`).
//!
//! A system call under way ends when its thread is stopped. The kernel starts most of them again by itself. A few
//! return EINTR instead (`signal(7)`, "Interruption of system calls by stop signals"); those are started again
//! here, unless a signal has come as well, which the program may have meant to interrupt them by.

use crate::memory::status;
use crate::request::{self, Change, Wait};
use crate::tracee::Tracee;
use mcount_cpu::outside::GeneralRegisters;
use nix::errno::Errno;
use nix::libc;
use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

/// How long a thread may take to stop. One may be in the kernel, waiting for a disk or for a child of `vfork`.
const PATIENCE: Duration = Duration::from_secs(5);

/// A thread that stands.
#[derive(Debug)]
pub struct Thread {
    /// The thread.
    pub tracee: Tracee,
    /// Its registers, as it's to go on with.
    pub registers: GeneralRegisters,
    is_changed: bool,
}

impl Thread {
    /// A thread that stands already.
    pub(crate) fn of(tracee: Tracee) -> io::Result<Self> {
        Ok(Self { tracee, registers: tracee.registers()?, is_changed: false })
    }

    /// Its registers, to be changed.
    pub fn change(&mut self) -> &mut GeneralRegisters {
        self.is_changed = true;
        &mut self.registers
    }

    /// Its registers are as they're to be.
    fn settle(&mut self) -> io::Result<()> {
        if self.is_changed {
            self.tracee.set_registers(&self.registers)?;
            self.is_changed = false;
        }
        Ok(())
    }
}

/// Threads of a process, which stand until this is dropped.
#[derive(Debug)]
pub struct Standing {
    /// The threads.
    pub threads: Vec<Thread>,
    /// Until then they ran.
    pub since: Instant,
    /// Dropped after the threads were let go.
    _hurry: Hurry,
}

/// This thread is preferred to others until this is dropped, if that's allowed (`setpriority(2)`): as long as others stand, the rest of the
/// machine shouldn't have this one wait.
#[derive(Debug)]
struct Hurry {
    /// What to return to.
    before: Option<libc::c_int>,
}

impl Hurry {
    fn new() -> Self {
        const MOST: libc::c_int = -20;
        // SAFETY: no pointer is passed. 0 is this thread.
        let (before, result) = unsafe {
            (
                libc::getpriority(libc::PRIO_PROCESS, 0),
                libc::setpriority(libc::PRIO_PROCESS, 0, MOST),
            )
        };
        Self { before: (result == 0).then_some(before) }
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // SAFETY: no pointer is passed. 0 is this thread.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, before) };
        }
    }
}

impl Standing {
    /// Stops all threads of `process`.
    ///
    /// # Errors
    ///
    /// It isn't allowed, the process ends, or a thread doesn't stop.
    pub fn of(process: i32) -> io::Result<Self> {
        let mut all = Self { threads: Vec::new(), since: Instant::now(), _hurry: Hurry::new() };
        let (mut known, mut new) = (BTreeSet::new(), Vec::new());
        loop {
            for id in threads(process)? {
                // A thread that hasn't stopped yet can make others.
                if known.insert(id) && seize(process, id)? {
                    new.push(id);
                }
            }
            if new.is_empty() {
                break;
            }
            all.stop(&new)?;
            new.clear();
        }
        if all.threads.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        all.start_calls_again();
        Ok(all)
    }

    /// Stops one thread; `None` if it ends.
    ///
    /// # Errors
    ///
    /// As for [`Standing::of`].
    pub fn one(process: i32, id: i32) -> io::Result<Option<Self>> {
        let mut all = Self { threads: Vec::new(), since: Instant::now(), _hurry: Hurry::new() };
        if !seize(process, id)? {
            return Ok(None);
        }
        all.stop(&[id])?;
        all.start_calls_again();
        Ok(Some(all).filter(|all| !all.threads.is_empty()))
    }

    /// Has these threads, which are traced, stop. Those that end instead don't become part of it.
    fn stop(&mut self, threads: &[i32]) -> io::Result<()> {
        if self.threads.is_empty() {
            self.since = Instant::now();
        }
        for id in threads {
            // It may have ended; then waiting for it says so.
            let _ = request::interrupt(*id);
        }
        for id in threads {
            self.threads.extend(wait_for(*id)?);
        }
        Ok(())
    }

    /// All threads' registers are as they're to be: should the recorder be killed, they go on so.
    ///
    /// # Errors
    ///
    /// A thread has been killed.
    pub fn settle(&mut self) -> io::Result<()> {
        self.threads.iter_mut().try_for_each(Thread::settle)
    }

    /// Has system calls begin again which the stop made fail with EINTR.
    fn start_calls_again(&mut self) {
        let mut shared = None;
        for thread in &mut self.threads {
            if !thread.registers.is_interrupted() {
                continue;
            }
            let id = thread.tracee.id();
            let all = *shared.get_or_insert_with(|| request::pending(id, true));
            if (all | request::pending(id, false)) & !request::blocked(id).unwrap_or(0) == 0 {
                thread.change().call_again();
            }
        }
        // A thread may have been killed meanwhile.
        let _ = self.settle();
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        for thread in &mut self.threads {
            // It may have been killed meanwhile.
            let _ = thread.settle();
            thread.tracee.let_go();
        }
    }
}

/// Waits until a thread that was asked to stop does; `None` if it ends instead.
fn wait_for(id: i32) -> io::Result<Option<Thread>> {
    let deadline = Instant::now() + PATIENCE;
    let (mut wait, tracee) = (Wait::of(id), Tracee::new(id));
    loop {
        match request::look(id, libc::__WALL | libc::WNOHANG) {
            Ok(None) if Instant::now() > deadline => {
                return Err(io::Error::other(format!("thread {id} doesn't stop")));
            }
            Ok(None) if wait.goes_on() => {}
            Ok(None | Some(Change::Ended)) | Err(_) => return Ok(None),
            Ok(Some(Change::Stopped(status))) => match status >> 16 {
                libc::PTRACE_EVENT_STOP => return Ok(Thread::of(tracee).ok()),
                // A signal was faster: the thread has it, and stops before it does anything else.
                0 => tracee.resume_with(libc::WSTOPSIG(status)),
                _ => tracee.resume(None),
            },
        }
    }
}

/// Becomes the tracer of thread `id`, which runs on. `false` if it has ended.
fn seize(process: i32, id: i32) -> io::Result<bool> {
    match request::seize(id, libc::PTRACE_O_TRACESYSGOOD) {
        Ok(()) => Ok(true),
        Err(error) => match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
            Errno::ESRCH => Ok(false),
            Errno::EPERM if request::has_ended(&format!("/proc/{process}/task/{id}/stat")) => {
                Ok(false)
            }
            _ => Err(refused(process, error)),
        },
    }
}

/// How often the parent is looked at again that may only seem to be the tracer: it does once in 240 times that a process is let go again and again.
const UNLINKED: u32 = 5;

/// Why process `process` can't be traced, if the kernel says `error`.
#[must_use]
pub fn refused(process: i32, error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(libc::EPERM) {
        return error;
    }
    let text = match traced(process) {
        Some(text) => text,
        None => "you may not trace it: another user owns it, it has privileges, or the system forbids it (kernel.yama.ptrace_scope); root may do more"
            .to_owned(),
    };
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

/// That another process traces `process`, in words; `None` if no one does.
#[must_use]
pub fn traced(process: i32) -> Option<String> {
    let tracer = tracer(process)?;
    Some(format!("process {tracer} traces it already: end that one first"))
}

/// The process that traces `process`. When a tracer lets it go, Linux makes its parent the tracer until it has none
/// (`__ptrace_unlink`), so the parent has to be seen again and again.
fn tracer(process: i32) -> Option<i32> {
    let mut again = UNLINKED;
    loop {
        let thread = status(process, "TracerPid:").filter(|thread| *thread != 0)?;
        let thread = i32::try_from(thread).ok()?;
        // It may have ended meanwhile.
        let tracer = status(thread, "Tgid:");
        if again == 0 || tracer != status(process, "PPid:") {
            return Some(tracer.and_then(|tracer| i32::try_from(tracer).ok()).unwrap_or(thread));
        }
        again -= 1;
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// The numbers of all threads of `process`.
///
/// # Errors
///
/// There's no such process.
pub fn threads(process: i32) -> io::Result<Vec<i32>> {
    let folder = std::fs::read_dir(format!("/proc/{process}/task")).map_err(|error| {
        let is_gone = error.kind() == io::ErrorKind::NotFound;
        if is_gone { io::Error::from_raw_os_error(libc::ESRCH) } else { error }
    })?;
    let names = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.filter_map(|name| name.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_as_they_were_afterwards() {
        // SAFETY: no pointer is passed.
        let priority = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let before = priority();
        let hurry = Hurry::new();
        let is_allowed = hurry.before.is_some();
        assert_eq!(priority(), if is_allowed { -20 } else { before });
        drop(hurry);
        assert_eq!(priority(), before);
    }

    /// A child of this process runs `work` again and again, and is killed in the end.
    struct Child(i32);

    impl Child {
        fn new(work: impl Fn()) -> Self {
            // SAFETY: the child only makes system calls.
            match unsafe { libc::fork() } {
                0 => loop {
                    work();
                },
                id => Self(id),
            }
        }
    }

    impl Drop for Child {
        fn drop(&mut self) {
            // SAFETY: these take no pointer to anything, and the child is this process's own.
            unsafe {
                libc::kill(self.0, libc::SIGKILL);
                libc::waitpid(self.0, std::ptr::null_mut(), 0);
            }
        }
    }

    /// The parent of a process isn't its tracer while another one lets it go.
    #[test]
    fn a_process_is_traced_by_its_tracer() {
        // SAFETY: these take no pointers to anything.
        let traced = Child::new(|| unsafe {
            libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY);
            libc::pause();
        });
        let id = traced.0;
        let tracing = Child::new(|| {
            if request::seize(id, 0).is_ok() {
                // SAFETY: these take no pointers to anything.
                unsafe {
                    libc::ptrace(libc::PTRACE_INTERRUPT, id, 0, 0);
                    libc::waitpid(id, std::ptr::null_mut(), libc::__WALL);
                    libc::ptrace(libc::PTRACE_DETACH, id, 0, 0);
                }
            }
        });
        let (mut seen, mut reads) = (0, 0);
        let deadline = Instant::now() + PATIENCE;
        while (reads < 20_000 || seen == 0) && Instant::now() < deadline {
            let found = tracer(id);
            assert!(found.is_none_or(|found| found == tracing.0), "{found:?} after {reads}");
            seen += u32::from(found.is_some());
            reads += 1;
        }
        assert!(seen > 0, "no tracer in {reads}");
    }
}
