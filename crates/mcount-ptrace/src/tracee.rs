//! A stopped thread: its registers, its signals, and how it goes on.

use crate::memory::proc_text;
use crate::request;
use mcount_cpu::here::outside::{MORE_VECTORS, ROLES, VECTORS};
use mcount_cpu::outside::{GeneralRegisters, VectorState};
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use std::io;

/// The kernel's name for general registers.
const NT_PRSTATUS: libc::c_int = 1;
/// Bytes that the state of vector registers may have.
const MOST_STATE: usize = 1 << 15;

/// A traced thread that stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tracee(Pid);

/// How a thread goes on that is made to do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// To where a system call begins or ends.
    SystemCall,
    /// To a signal that it sends itself.
    Signal,
}

impl Tracee {
    /// The thread with this number.
    #[must_use]
    pub fn new(id: i32) -> Self {
        Self(Pid::from_raw(id))
    }

    /// Its number.
    #[must_use]
    pub fn id(self) -> i32 {
        self.0.as_raw()
    }

    /// Its general registers.
    ///
    /// # Errors
    ///
    /// It doesn't stand, or it runs code of another processor.
    pub fn registers(self) -> io::Result<GeneralRegisters> {
        let mut bytes = vec![0; 8 * ROLES.count];
        let size = request::registers(self.id(), NT_PRSTATUS, &mut bytes)?;
        let registers = GeneralRegisters::of(&ROLES, bytes.get(..size).unwrap_or_default());
        registers.ok_or_else(|| io::Error::other("it runs code of another processor"))
    }

    /// Changes its general registers.
    ///
    /// # Errors
    ///
    /// It doesn't stand.
    pub fn set_registers(self, registers: &GeneralRegisters) -> io::Result<()> {
        request::set_registers(self.id(), NT_PRSTATUS, &registers.bytes())
    }

    /// Its vector registers and all that goes with them: those of the first kind that there is.
    pub(crate) fn vectors(self) -> io::Result<VectorState> {
        let mut error = io::ErrorKind::Unsupported.into();
        for kind in VECTORS.iter().copied() {
            match self.state(kind) {
                Ok(bytes) => {
                    let more = MORE_VECTORS.iter();
                    let more = more.map(|kind| Ok((*kind, self.state(*kind)?)));
                    return Ok(VectorState { kind, bytes, more: more.collect::<io::Result<_>>()? });
                }
                Err(found) => error = found,
            }
        }
        Err(error)
    }

    /// Its registers that the kernel has this name for.
    fn state(self, kind: libc::c_int) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; MOST_STATE];
        let size = request::registers(self.id(), kind, &mut bytes)?;
        bytes.truncate(size);
        Ok(bytes)
    }

    pub(crate) fn set_vectors(self, state: &VectorState) -> io::Result<()> {
        request::set_registers(self.id(), state.kind, &state.bytes)?;
        let mut more = state.more.iter();
        more.try_for_each(|(kind, bytes)| request::set_registers(self.id(), *kind, bytes))
    }

    /// Lets it run on, with this signal.
    pub fn resume(self, signal: Option<Signal>) {
        self.resume_with(signal.map_or(0, |signal| signal as i32));
    }

    /// Lets it run on with a signal that may have no name, as real-time signals have none; 0 is none.
    pub fn resume_with(self, signal: i32) {
        // It may have been killed meanwhile; then `wait` tells.
        let _ = request::resume(self.id(), signal);
    }

    /// Lets it run on to where a system call begins or ends, with this signal; 0 is none.
    ///
    /// # Errors
    ///
    /// It doesn't stand.
    pub fn resume_to_system_call(self, signal: i32) -> io::Result<()> {
        request::resume_to_system_call(self.id(), signal)
    }

    /// Has its stops at system calls differ from those by a breakpoint: [`Tracee::stands_at_system_call`].
    ///
    /// # Errors
    ///
    /// It doesn't stand.
    pub fn tell_system_calls(self) -> io::Result<()> {
        request::set_options(self.id(), libc::PTRACE_O_TRACESYSGOOD)
    }

    /// Is this the signal of a stop where a system call begins or ends?
    #[must_use]
    pub fn stands_at_system_call(signal: i32) -> bool {
        signal == request::SYSTEM_CALL_STOP
    }

    /// Lets it run on, and traces it no more.
    pub fn let_go(self) {
        let _ = request::detach(self.id());
    }

    /// Lets it stay stopped, as a stop signal asks for, until it's continued.
    pub fn listen(self) {
        let _ = request::listen(self.id());
    }

    /// What came with the event that stopped it: the new process, or the thread that called exec.
    #[must_use]
    pub fn event_message(self) -> Option<i32> {
        ptrace::getevent(self.0).ok().and_then(|message| i32::try_from(message).ok())
    }

    /// Waits until it stops; the signal that stopped it. `None` if it ends instead.
    ///
    /// # Errors
    ///
    /// It isn't traced by this process.
    pub fn wait(self) -> io::Result<Option<i32>> {
        Ok(request::wait(self.id())?.map(|status| libc::WSTOPSIG(status)))
    }

    /// Lets it run until it stops by a signal that `is_end` takes for the end. Signals for the program are kept in `signals`.
    pub(crate) fn run(
        self,
        until: Until,
        signals: &mut Vec<i32>,
        is_end: impl Fn(i32) -> bool,
    ) -> io::Result<()> {
        loop {
            match until {
                Until::SystemCall => request::resume_to_system_call(self.id(), 0)?,
                Until::Signal => request::resume(self.id(), 0)?,
            }
            let status = request::wait(self.id())?;
            let status = status.ok_or_else(|| io::Error::other("the program ended"))?;
            let signal = libc::WSTOPSIG(status);
            // Events stop it as well.
            if status >> 16 != 0 {
                continue;
            }
            if is_end(signal) {
                return Ok(());
            }
            if [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE].contains(&signal) {
                return Err(io::Error::other(format!("signal {signal} in the program")));
            }
            if signal != request::SYSTEM_CALL_STOP {
                signals.push(signal);
            }
        }
    }

    /// Lets it run to where a system call begins or ends.
    pub(crate) fn run_to_system_call(self, signals: &mut Vec<i32>) -> io::Result<()> {
        self.run(Until::SystemCall, signals, |signal| signal == request::SYSTEM_CALL_STOP)
    }

    /// The signals that it has blocked.
    pub(crate) fn blocked(self) -> io::Result<u64> {
        request::blocked(self.id())
    }

    /// Blocks these signals and no others.
    pub fn set_blocked(self, set: u64) {
        // It may have been killed meanwhile; then `wait` tells.
        let _ = request::set_blocked(self.id(), set);
    }

    /// Lets `signal` come; what was blocked before, if `signal` was.
    ///
    /// # Errors
    ///
    /// It doesn't stand.
    pub fn unblock(self, signal: i32) -> io::Result<Option<u64>> {
        let before = self.blocked()?;
        let bit = 1 << (signal - 1);
        if before & bit == 0 {
            return Ok(None);
        }
        self.set_blocked(before & !bit);
        Ok(Some(before))
    }

    /// Its number as it knows it itself, in its own namespace.
    ///
    /// # Errors
    ///
    /// It's gone.
    pub fn inner_id(self) -> io::Result<i32> {
        let status = proc_text(&format!("/proc/{}/status", self.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let last = line.and_then(|line| line.split_whitespace().last()?.parse().ok());
        Ok(last.unwrap_or(self.id()))
    }

    /// When it began, in ticks since the system did: with its number, that's unique. `None` if it has ended.
    #[must_use]
    pub fn start(self) -> Option<u64> {
        let text = proc_text(&format!("/proc/{}/stat", self.id())).ok()?;
        // The name may have spaces and parentheses in it.
        let rest = text.rsplit_once(") ")?.1;
        if rest.starts_with(['Z', 'X']) {
            return None;
        }
        rest.split(' ').nth(19)?.parse().ok()
    }

    /// Why it got the signal that has stopped it (`si_code`).
    #[must_use]
    pub fn signal_code(self) -> Option<i32> {
        ptrace::getsiginfo(self.0).ok().map(|signal| signal.si_code)
    }

    /// Does it stand at the address `asked`, stopped by a signal that it has sent itself?
    #[must_use]
    pub fn has_asked(self, asked: u64) -> bool {
        const SI_TKILL: i32 = -6;
        if !self.registers().is_ok_and(|registers| registers.instruction() == asked) {
            return false;
        }
        let Ok(signal) = ptrace::getsiginfo(self.0) else { return false };
        // Beyond RLIMIT_SIGPENDING, the kernel delivers the signal without saying who sent it: all is zero then.
        // SAFETY: it's a signal that was sent, or nothing is known of it; both have this field.
        let is_lost = signal.si_code == libc::SI_USER && unsafe { signal.si_pid() } == 0;
        signal.si_code == SI_TKILL || is_lost
    }

    /// Waits until it stands at the address `asked`, stopped by SIGURG from itself. Whatever ends it meanwhile is left for the next
    /// `wait` to see.
    ///
    /// # Errors
    ///
    /// It ends instead.
    pub fn wait_until_asked(self, asked: u64) -> io::Result<()> {
        let flags = WaitPidFlag::__WALL | WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED;
        let mut wait = request::Wait::of(self.id());
        loop {
            match waitid(Id::Pid(self.0), flags | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG) {
                Ok(WaitStatus::StillAlive) if wait.goes_on() => {}
                // `waitid` has it that way for all stops of a traced thread; 0 is no event.
                Ok(WaitStatus::PtraceEvent(_, Signal::SIGURG, 0)) if self.has_asked(asked) => {
                    waitid(Id::Pid(self.0), flags)?;
                    return Ok(());
                }
                Ok(WaitStatus::PtraceEvent(..)) => {
                    waitid(Id::Pid(self.0), flags)?;
                    request::resume(self.id(), 0)?;
                }
                Ok(_) => return Err(io::Error::other("the program ended")),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The result of a system call.
///
/// # Errors
///
/// It failed.
pub fn to_result(value: u64) -> io::Result<u64> {
    match value.cast_signed() {
        error @ -4095..0 => Err(io::Error::from_raw_os_error(i32::try_from(-error).unwrap_or(0))),
        _ => Ok(value),
    }
}

/// Attaches to the child `process`, which doesn't stop by that. It stops when it, or what it makes, executes a program, or makes a
/// process or thread. It doesn't stop when it ends: a process that's killed would stay until its tracer lets it go.
///
/// # Errors
///
/// It isn't allowed.
pub fn seize(process: Pid) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACESYSGOOD;
    request::seize(process.as_raw(), options)
}
