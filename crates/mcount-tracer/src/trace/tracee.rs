//! A stopped thread: its registers, its memory, and system calls made in its name.
//!
//! The one file that has `ptrace` in it. Memory is read and written through `/proc/PID/mem`, which also
//! writes code that is mapped without write permission, so no page is ever writable and executable.

use super::processor::Registers;
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// What `ptrace` is asked for, in glibc.
#[cfg(not(target_env = "musl"))]
pub(super) type Asked = libc::c_uint;
/// The same in musl.
#[cfg(target_env = "musl")]
pub(super) type Asked = libc::c_int;

/// Requests that the C library's header has in newer versions only (`ptrace(2)`).
const PTRACE_GETSIGMASK: Asked = 0x420a;
const PTRACE_SETSIGMASK: Asked = 0x420b;

/// A traced thread that stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Tracee(pub(super) Pid);

/// What the recorder wants to be told of.
pub(super) fn options() -> ptrace::Options {
    use ptrace::Options;
    Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEEXIT
}

impl Tracee {
    pub(super) fn new(id: i32) -> Self {
        Self(Pid::from_raw(id))
    }

    pub(super) fn id(self) -> i32 {
        self.0.as_raw()
    }

    pub(super) fn registers(self) -> io::Result<Registers> {
        let mut registers = Registers::zero();
        self.register_set(libc::PTRACE_GETREGSET, &raw mut registers)?;
        Ok(registers)
    }

    pub(super) fn set_registers(self, registers: &Registers) -> io::Result<()> {
        self.register_set(libc::PTRACE_SETREGSET, (&raw const *registers).cast_mut())
    }

    /// Reads or writes the general registers.
    fn register_set(self, request: Asked, registers: *mut Registers) -> io::Result<()> {
        const NT_PRSTATUS: libc::c_long = 1;
        let mut set = libc::iovec { iov_base: registers.cast(), iov_len: size_of::<Registers>() };
        // SAFETY: the kernel reads or writes as much as that is.
        match unsafe { libc::ptrace(request, self.id(), NT_PRSTATUS, &raw mut set) } {
            -1 => Err(io::Error::last_os_error()),
            _ if set.iov_len != size_of::<Registers>() => {
                Err(io::Error::other("it runs code of another processor"))
            }
            _ => Ok(()),
        }
    }

    /// Lets it run on, with this signal.
    pub(super) fn resume(self, signal: Option<Signal>) {
        // It may have been killed meanwhile; then `wait` tells.
        let _ = ptrace::cont(self.0, signal);
    }

    /// The same with a signal that has no name, as real-time signals have none.
    pub(super) fn resume_with(self, signal: i32) {
        // SAFETY: no pointer is passed.
        unsafe { libc::ptrace(libc::PTRACE_CONT, self.id(), 0, libc::c_long::from(signal)) };
    }

    /// Lets it run on, and traces it no more.
    pub(super) fn let_go(self) {
        let _ = ptrace::detach(self.0, None);
    }

    /// Lets it stay stopped, as a stop signal asks for, until it's continued.
    pub(super) fn listen(self) {
        // SAFETY: no pointer is passed.
        unsafe { libc::ptrace(libc::PTRACE_LISTEN, self.id(), 0, 0) };
    }

    /// What came with the event that stopped it: the new process, or the thread that called exec.
    pub(super) fn event_message(self) -> Option<i32> {
        ptrace::getevent(self.0).ok().and_then(|message| i32::try_from(message).ok())
    }

    /// Waits until it stops by SIGTRAP, which code that the recorder has it run ends with.
    fn wait_for_trap(self) -> io::Result<()> {
        loop {
            match waitpid(self.0, Some(WaitPidFlag::__WALL)) {
                Ok(WaitStatus::Stopped(_, Signal::SIGTRAP)) => return Ok(()),
                // Signals for the program come when it runs on its own again.
                Ok(WaitStatus::Stopped(_, signal)) if is_fault(signal) => {
                    return Err(io::Error::other(format!("{signal} in the program")));
                }
                Ok(WaitStatus::Stopped(_, signal)) => {
                    requeue(self.0, signal);
                    ptrace::cont(self.0, None)?;
                }
                Ok(WaitStatus::PtraceEvent(..)) => ptrace::cont(self.0, None)?,
                Ok(_) => return Err(io::Error::other("the program ended")),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Has it execute from `address` on until the next breakpoint, with these registers; those at the end.
    /// Its own are as before afterwards.
    fn run(self, change: impl FnOnce(&mut Registers)) -> io::Result<u64> {
        let before = self.registers()?;
        let mut registers = before;
        registers.forget_call();
        // Below the red zone, and aligned.
        registers.set_stack((before.stack() - 512) & !63);
        change(&mut registers);
        self.set_registers(&registers)?;
        let blocked = self.blocked();
        self.set_blocked(u64::MAX);
        ptrace::cont(self.0, None)?;
        let ended = self.wait_for_trap();
        if let Some(blocked) = blocked {
            self.set_blocked(blocked);
        }
        let result = self.registers().map(|registers| registers.result());
        self.set_registers(&before)?;
        ended?;
        result
    }

    /// The signals that it has blocked, if that can be told.
    fn blocked(self) -> Option<u64> {
        let mut set = 0_u64;
        // SAFETY: the word lives during the call; 8 is the size of the kernel's signal set.
        let got = unsafe { libc::ptrace(PTRACE_GETSIGMASK, self.id(), 8, &raw mut set) };
        (got == 0).then_some(set)
    }

    /// Blocks these signals and no others.
    pub(super) fn set_blocked(self, set: u64) {
        // SAFETY: as above.
        unsafe { libc::ptrace(PTRACE_SETSIGMASK, self.id(), 8, &raw const set) };
    }

    /// Lets `signal` come; what was blocked before, if `signal` was.
    pub(super) fn unblock(self, signal: i32) -> io::Result<Option<u64>> {
        let cannot = || io::Error::other("its signal mask can't be read");
        let before = self.blocked().ok_or_else(cannot)?;
        let bit = 1 << (signal - 1);
        if before & bit == 0 {
            return Ok(None);
        }
        self.set_blocked(before & !bit);
        Ok(Some(before))
    }

    /// Its number as it knows it itself, in its own namespace.
    pub(super) fn inner_id(self) -> io::Result<i32> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let last = line.and_then(|line| line.split_whitespace().last()?.parse().ok());
        Ok(last.unwrap_or(self.id()))
    }

    /// Makes a system call; `gate` is the address of a system call ([`super::processor::GATE`]).
    pub(super) fn system_call(self, gate: u64, number: i64, arguments: &[u64]) -> io::Result<u64> {
        let result = self.run(|registers| registers.set_call(gate, number, arguments))?;
        to_result(result)
    }

    /// Has the agent make a system call, in a thread that stands there because it asked.
    pub(super) fn request(
        self,
        memory: &Memory,
        desk: Desk,
        number: i64,
        arguments: [u64; 6],
    ) -> io::Result<u64> {
        let words = std::iter::once(number.cast_unsigned()).chain(arguments);
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        memory.write(desk.request, &bytes)?;
        ptrace::cont(self.0, None)?;
        self.wait_until_asked(desk)?;
        to_result(memory.word(desk.request + mcount_agent::request::RESULT)?)
    }

    /// Why it got the signal that has stopped it.
    pub(super) fn signal_code(self) -> Option<i32> {
        ptrace::getsiginfo(self.0).ok().map(|signal| signal.si_code)
    }

    /// Does it stand at `desk`, stopped by a signal of its own?
    pub(super) fn has_asked(self, asked: u64) -> bool {
        const SI_TKILL: i32 = -6;
        self.registers().is_ok_and(|registers| registers.instruction() == asked)
            && ptrace::getsiginfo(self.0).is_ok_and(|signal| signal.si_code == SI_TKILL)
    }

    /// Waits until it asks again. Whatever ends it meanwhile is left for the recorder to see.
    fn wait_until_asked(self, desk: Desk) -> io::Result<()> {
        use nix::sys::wait::{Id, waitid};
        let flags = WaitPidFlag::__WALL | WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED;
        loop {
            match waitid(Id::Pid(self.0), flags | WaitPidFlag::WNOWAIT) {
                // `waitid` has it that way for all stops of a traced thread; 0 is no event.
                Ok(WaitStatus::PtraceEvent(_, Signal::SIGURG, 0)) if self.has_asked(desk.asked) => {
                    waitid(Id::Pid(self.0), flags)?;
                    return Ok(());
                }
                Ok(WaitStatus::PtraceEvent(..)) => {
                    waitid(Id::Pid(self.0), flags)?;
                    ptrace::cont(self.0, None)?;
                }
                Ok(_) => return Err(io::Error::other("the program ended")),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Has a thread that stands inside `exec` come out of it, to the breakpoint at `trap`: until then the
    /// kernel would take what's in its registers for the result.
    pub(super) fn leave_exec(self, trap: u64) -> io::Result<()> {
        self.run(|registers| registers.set_instruction(trap)).map(|_| ())
    }

    /// Calls a function of the agent without arguments; `trap` is the address of a breakpoint.
    pub(super) fn call(self, memory: &Memory, function: u64, trap: u64) -> io::Result<u64> {
        let mut registers = self.registers()?;
        let top = (registers.stack() - 512) & !63;
        if let Some((place, word)) = registers.set_function(function, [0; 2], (top, trap)) {
            memory.write(place, &word.to_le_bytes())?;
        }
        self.run(|now| *now = registers)
    }
}

/// What a system call returned.
pub(super) fn to_result(value: u64) -> io::Result<u64> {
    match value.cast_signed() {
        error @ -4095..0 => Err(io::Error::from_raw_os_error(i32::try_from(-error).unwrap_or(0))),
        _ => Ok(value),
    }
}

fn is_fault(signal: Signal) -> bool {
    matches!(signal, Signal::SIGSEGV | Signal::SIGBUS | Signal::SIGILL | Signal::SIGFPE)
}

/// Sends a signal again that came at a bad time.
fn requeue(thread: Pid, signal: Signal) {
    // SAFETY: no pointer is passed.
    unsafe { libc::syscall(libc::SYS_tkill, thread.as_raw(), signal as libc::c_int) };
}

/// Attaches to the child `process`, which doesn't stop by that.
pub(super) fn seize(process: Pid) -> io::Result<()> {
    Ok(ptrace::seize(process, options())?)
}

/// The memory of a process.
pub(super) struct Memory(File);

/// A process that something is done to.
#[derive(Clone, Copy)]
pub(super) struct Target<'m> {
    /// The process ID.
    pub(super) process: i32,
    pub(super) memory: &'m Memory,
}

/// Where an agent asks the recorder, in one address space.
#[derive(Debug, Clone, Copy)]
pub(super) struct Desk {
    /// Where a thread stands that asks.
    pub(super) asked: u64,
    /// What is wanted of it.
    pub(super) request: u64,
}

/// Of a process that has ended, nothing is read or written, which `std` takes for the end of a file.
fn ended(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WriteZero | io::ErrorKind::UnexpectedEof => {
            io::Error::from_raw_os_error(libc::ESRCH)
        }
        _ => error,
    }
}

impl Memory {
    /// That of process `process`.
    pub(super) fn open(process: i32) -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).open(format!("/proc/{process}/mem")).map(Self)
    }

    pub(super) fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, address).map_err(ended)
    }

    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, address).map_err(ended)
    }

    pub(super) fn word(&self, address: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// `count` words from `address` on.
    pub(super) fn words(&self, address: u64, count: usize) -> io::Result<Vec<u64>> {
        let mut bytes = vec![0; count * 8];
        self.read(address, &mut bytes)?;
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes);
        bytes.chunks_exact(8).map(word).collect::<Result<_, _>>().map_err(io::Error::other)
    }

    /// The string at `address`, at most a page of it.
    pub(super) fn string(&self, address: u64) -> io::Result<Vec<u8>> {
        let mut found = Vec::new();
        let mut at = address;
        while found.len() < 4096 {
            // A piece never crosses a page, so that it's mapped if its first byte is.
            let mut piece = vec![0; usize::try_from(256 - at % 256).unwrap_or(1)];
            self.read(at, &mut piece)?;
            if let Some(end) = piece.iter().position(|byte| *byte == 0) {
                found.extend_from_slice(piece.get(..end).unwrap_or_default());
                return Ok(found);
            }
            at += piece.len() as u64;
            found.append(&mut piece);
        }
        Ok(found)
    }
}

/// The number in a line of `/proc/PROCESS/status`.
pub(super) fn status(process: i32, field: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(field))?.trim().parse().ok()
}
