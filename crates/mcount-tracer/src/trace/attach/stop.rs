//! Stopping all threads of a process that runs, and letting them go as if nothing had been (`ptrace(2)`,
//! `PTRACE_SEIZE`).
//!
//! A system call under way ends when its thread is stopped. The kernel starts most of them again by itself. A few
//! return EINTR instead (`signal(7)`, "Interruption of system calls by stop signals"); those are started again
//! here, unless a signal has come as well, which the program may have meant to interrupt them by.

use super::refused;
use crate::trace::processor::{ENDED_BY_STOPS, Registers};
use crate::trace::tracee::{Asked, Tracee};
use nix::errno::Errno;
use nix::libc;
use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

/// How long a thread may take to stop. One may be in the kernel, waiting for a disk or for a child of `vfork`.
const PATIENCE: Duration = Duration::from_secs(5);

const PTRACE_O_TRACESYSGOOD: u64 = 1;
const PTRACE_GETSIGMASK: Asked = 0x420a;
const PTRACE_PEEKSIGINFO: Asked = 0x4209;
const PTRACE_PEEKSIGINFO_SHARED: u32 = 1;

/// A thread that stands.
pub(super) struct Thread {
    pub(super) tracee: Tracee,
    /// Its registers, as it's to go on with.
    pub(super) registers: Registers,
    is_changed: bool,
}

impl Thread {
    /// Its registers, to be changed.
    pub(super) fn change(&mut self) -> &mut Registers {
        self.is_changed = true;
        &mut self.registers
    }

    /// Its registers are as they're to be.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        if self.is_changed {
            self.tracee.set_registers(&self.registers)?;
            self.is_changed = false;
        }
        Ok(())
    }
}

/// All threads of a process, which stand until this is dropped.
pub(super) struct Standing {
    pub(super) threads: Vec<Thread>,
    pub(super) since: Instant,
}

impl Standing {
    /// Stops all threads of `process`.
    ///
    /// # Errors
    ///
    /// It isn't allowed, the process ends, or a thread doesn't stop.
    pub(super) fn of(process: i32) -> io::Result<Self> {
        let mut all = Self { threads: Vec::new(), since: Instant::now() };
        let (mut known, mut waited) = (BTreeSet::new(), Vec::new());
        loop {
            for id in threads(process)? {
                // A thread that hasn't stopped yet can make others.
                if known.insert(id) && seize(process, id)? {
                    waited.push(id);
                }
            }
            if waited.is_empty() {
                break;
            }
            // Until here they run.
            if all.threads.is_empty() {
                all.since = Instant::now();
            }
            for id in &waited {
                interrupt(*id);
            }
            for id in waited.drain(..) {
                if let Some(registers) = wait_for(id)? {
                    let tracee = Tracee::new(id);
                    all.threads.push(Thread { tracee, registers, is_changed: false });
                }
            }
        }
        if all.threads.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        all.start_calls_again();
        // A thread may have been killed meanwhile.
        let _ = all.settle();
        Ok(all)
    }

    /// All threads' registers are as they're to be: should the recorder be killed, they go on so.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        self.threads.iter_mut().try_for_each(Thread::settle)
    }

    /// Stops one thread; `None` if it ends.
    pub(super) fn one(process: i32, id: i32) -> io::Result<Option<Self>> {
        let mut all = Self { threads: Vec::new(), since: Instant::now() };
        if !seize(process, id)? {
            return Ok(None);
        }
        interrupt(id);
        let Some(registers) = wait_for(id)? else { return Ok(None) };
        let tracee = Tracee::new(id);
        all.threads.push(Thread { tracee, registers, is_changed: false });
        all.start_calls_again();
        // A thread may have been killed meanwhile.
        let _ = all.settle();
        Ok(Some(all))
    }

    /// Has system calls begin again which the stop made fail with EINTR.
    fn start_calls_again(&mut self) {
        let mut shared = None;
        for thread in &mut self.threads {
            let number = thread.registers.interrupted_call();
            if !number.is_some_and(|number| ENDED_BY_STOPS.contains(&number)) {
                continue;
            }
            let id = thread.tracee;
            let all = *shared.get_or_insert_with(|| pending(id, PTRACE_PEEKSIGINFO_SHARED));
            if (all | pending(id, 0)) & !blocked(id) == 0 {
                thread.change().call_again();
            }
        }
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        for thread in &mut self.threads {
            // It may have been killed meanwhile.
            let _ = thread.settle();
            // SAFETY: no pointer is passed.
            unsafe { libc::ptrace(libc::PTRACE_DETACH, thread.tracee.id(), 0, 0) };
        }
    }
}

/// Waits until a thread that was asked to stop does; `None` if it ends instead.
fn wait_for(id: i32) -> io::Result<Option<Registers>> {
    let deadline = Instant::now() + PATIENCE;
    let mut looks = 0_u32;
    loop {
        let mut status = 0;
        let flags = libc::__WALL | libc::WNOHANG;
        // SAFETY: the status is a number of ours.
        match unsafe { libc::waitpid(id, &raw mut status, flags) } {
            0 if Instant::now() > deadline => {
                return Err(io::Error::other(format!("thread {id} doesn't stop")));
            }
            0 => pause(&mut looks),
            found if found < 0 && Errno::last() == Errno::EINTR => {}
            found if found < 0 || !libc::WIFSTOPPED(status) => return Ok(None),
            _ if status >> 16 == libc::PTRACE_EVENT_STOP => {
                return Ok(Tracee::new(id).registers().ok());
            }
            // A signal was faster: the thread has it, and stops before it does anything else.
            _ if status >> 16 == 0 => Tracee::new(id).resume_with(libc::WSTOPSIG(status)),
            _ => Tracee::new(id).resume(None),
        }
    }
}

/// Waits a little, longer the more often it was.
fn pause(looks: &mut u32) {
    *looks += 1;
    if *looks < 200 {
        std::thread::yield_now();
    } else {
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Becomes the tracer of thread `id`, which runs on. `false` if it has ended.
fn seize(process: i32, id: i32) -> io::Result<bool> {
    // SAFETY: no pointer is passed.
    let seized = unsafe { libc::ptrace(libc::PTRACE_SEIZE, id, 0, PTRACE_O_TRACESYSGOOD) };
    if seized != 0 {
        return match Errno::last() {
            Errno::ESRCH => Ok(false),
            Errno::EPERM if has_ended(process, id) => Ok(false),
            error => Err(refused(process, error.into())),
        };
    }
    Ok(true)
}

/// Asks a thread to stop.
fn interrupt(id: i32) {
    // SAFETY: no pointer is passed.
    unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, id, 0, 0) };
}

/// Is this thread gone, but for what its process has to know of it?
fn has_ended(process: i32, id: i32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{process}/task/{id}/stat"));
    text.map_or(true, |text| {
        text.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
    })
}

/// The numbers of all threads of `process`.
pub(super) fn threads(process: i32) -> io::Result<Vec<i32>> {
    let folder = std::fs::read_dir(format!("/proc/{process}/task")).map_err(|error| {
        let is_gone = error.kind() == io::ErrorKind::NotFound;
        if is_gone { io::Error::from_raw_os_error(libc::ESRCH) } else { error }
    })?;
    let names = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.filter_map(|name| name.parse().ok()).collect())
}

/// The signals that wait for a thread, or for its process.
fn pending(thread: Tracee, flags: u32) -> u64 {
    #[repr(C)]
    struct Arguments {
        offset: u64,
        flags: u32,
        count: i32,
    }
    const COUNT: usize = 32;
    let arguments = Arguments { offset: 0, flags, count: 32 };
    // SAFETY: plain data; the kernel writes at most so many.
    let (count, found) = unsafe {
        let mut found: [libc::siginfo_t; COUNT] = std::mem::zeroed();
        let (arguments, room) = (&raw const arguments, found.as_mut_ptr());
        (libc::ptrace(PTRACE_PEEKSIGINFO, thread.id(), arguments, room), found)
    };
    let count = usize::try_from(count).unwrap_or(0);
    let bit = |signal: &libc::siginfo_t| 1_u64 << (signal.si_signo.clamp(1, 64) - 1);
    found.iter().take(count).map(bit).fold(0, |all, one| all | one)
}

fn blocked(thread: Tracee) -> u64 {
    let mut set = 0_u64;
    // SAFETY: the word lives during the call; 8 is the size of the kernel's signal set.
    unsafe { libc::ptrace(PTRACE_GETSIGMASK, thread.id(), 8, &raw mut set) };
    set
}
