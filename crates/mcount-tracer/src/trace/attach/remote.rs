//! What one stopped thread is made to do: system calls, and functions of the agent's and of the program's unwinder.
//!
//! No breakpoint and no single step is used: their SIGTRAP would be forced upon a program that ignores it. The thread
//! stops at system calls.

use super::stop::Thread;
use crate::trace::processor::{Registers, VECTORS};
use crate::trace::tracee::{Asked, Memory, Tracee, to_result};
use nix::errno::Errno;
use nix::libc;
use std::io;

const PTRACE_SETSIGMASK: Asked = 0x420b;
/// Bytes that the state of vector registers may have.
const STATE: usize = 1 << 15;

/// Vector registers: the kernel's name for them, and what they have.
pub(super) type State = (libc::c_int, Vec<u8>);

/// A thread that does what it's told, until it gets its own registers back.
pub(super) struct Remote<'m> {
    pub(super) thread: Tracee,
    pub(super) memory: &'m Memory,
    pub(super) before: Registers,
    pub(super) blocked: u64,
    pub(super) state: State,
    /// Where there is a system call.
    pub(super) gate: u64,
    /// Signals that came meanwhile.
    signals: Vec<i32>,
    /// Its stack pointer if it finds there how to go on when nobody puts it back.
    pub(super) stack: Option<u64>,
    /// Where a system call's gate returns to then, if a register says that.
    pub(super) back: Option<u64>,
}

/// Where a function returns to, and where its thread stands when the recorder hears of that.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    pub(super) done: u64,
    pub(super) is_done: u64,
    /// The end of the stack that it has.
    pub(super) stack: u64,
}

impl<'m> Remote<'m> {
    pub(super) fn of(thread: &mut Thread, memory: &'m Memory, gate: u64) -> io::Result<Self> {
        let remote = Self::begin(thread, memory, gate)?;
        remote.block()?;
        Ok(remote)
    }

    pub(super) fn begin(thread: &mut Thread, memory: &'m Memory, gate: u64) -> io::Result<Self> {
        let before = thread.registers.restarted();
        *thread.change() = before;
        let tracee = thread.tracee;
        let mut blocked = 0;
        ptrace(0x420a, tracee, 8, (&raw mut blocked).cast())?;
        let (state, signals) = (state(tracee)?, Vec::new());
        Ok(Self {
            thread: tracee,
            memory,
            before,
            blocked,
            state,
            gate,
            signals,
            stack: None,
            back: None,
        })
    }

    /// Blocks all signals but SIGURG, by which the end of a function is told.
    pub(super) fn block(&self) -> io::Result<()> {
        let all = !(1_u64 << (libc::SIGURG - 1));
        ptrace(PTRACE_SETSIGMASK, self.thread, 8, (&raw const all).cast_mut().cast())
    }

    /// Makes a system call.
    pub(super) fn call(&mut self, number: i64, arguments: &[u64]) -> io::Result<u64> {
        let mut registers = self.before;
        registers.set_stack(self.stack.unwrap_or(self.before.stack()));
        registers.set_call(self.gate, number, arguments);
        if let Some(back) = self.back {
            registers.set_return(back);
        }
        self.thread.set_registers(&registers)?;
        for _ in 0..2 {
            self.run(libc::PTRACE_SYSCALL, |signal, _| signal == libc::SIGTRAP | 0x80)?;
        }
        to_result(self.thread.registers()?.result())
    }

    /// Calls a function; what it returns.
    pub(super) fn function(
        &mut self,
        function: u64,
        arguments: [u64; 2],
        end: End,
    ) -> io::Result<u64> {
        let mut registers = self.before;
        let on_stack = registers.set_function(function, arguments, (end.stack & !63, end.done));
        if let Some((place, word)) = on_stack {
            self.memory.write(place, &word.to_le_bytes())?;
        }
        self.thread.set_registers(&registers)?;
        self.run(libc::PTRACE_CONT, |signal, thread| {
            signal == libc::SIGURG && thread.has_asked(end.is_done)
        })?;
        Ok(self.thread.registers()?.kept_result())
    }

    /// Lets it run until it stops by what `is_end` says.
    fn run(&mut self, how: Asked, is_end: impl Fn(i32, Tracee) -> bool) -> io::Result<()> {
        loop {
            ptrace(how, self.thread, 0, std::ptr::null_mut())?;
            let status = self.wait()?;
            let signal = libc::WSTOPSIG(status);
            if status >> 16 == 0 && is_end(signal, self.thread) {
                return Ok(());
            }
            if status >> 16 == 0 && signal != libc::SIGTRAP | 0x80 {
                if [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE].contains(&signal) {
                    return Err(io::Error::other(format!("signal {signal} in the program")));
                }
                self.signals.push(signal);
            }
        }
    }

    fn wait(&self) -> io::Result<i32> {
        let mut status = 0;
        loop {
            // SAFETY: the status is a number of ours.
            let found = unsafe { libc::waitpid(self.thread.id(), &raw mut status, libc::__WALL) };
            match found {
                _ if found < 0 && Errno::last() == Errno::EINTR => {}
                _ if found < 0 => return Err(io::Error::last_os_error()),
                _ if libc::WIFSTOPPED(status) => return Ok(status),
                _ => return Err(io::Error::other("the program ended")),
            }
        }
    }
}

impl Drop for Remote<'_> {
    /// It's as it was.
    fn drop(&mut self) {
        // It may have been killed meanwhile; then there's nothing to put back. Registers come last: until then it'd do that
        // by itself.
        let blocked = (&raw const self.blocked).cast_mut().cast();
        let _ = ptrace(PTRACE_SETSIGMASK, self.thread, 8, blocked);
        let state =
            libc::iovec { iov_base: self.state.1.as_mut_ptr().cast(), iov_len: self.state.1.len() };
        // SAFETY: the state lives during the call.
        unsafe {
            let kind = libc::c_long::from(self.state.0);
            libc::ptrace(libc::PTRACE_SETREGSET, self.thread.id(), kind, &raw const state);
        }
        let _ = self.thread.set_registers(&self.before);
        for signal in self.signals.drain(..) {
            // SAFETY: no pointer is passed.
            unsafe { libc::syscall(libc::SYS_tkill, self.thread.id(), signal) };
        }
    }
}

/// The vector registers and all that goes with them: those of the first kind that there is.
fn state(thread: Tracee) -> io::Result<State> {
    let mut bytes = vec![0; STATE];
    for kind in VECTORS {
        let mut room = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: STATE };
        let request = (libc::PTRACE_GETREGSET, libc::c_long::from(kind));
        // SAFETY: the kernel writes at most as much as there's room for, and says how much.
        let got = unsafe { libc::ptrace(request.0, thread.id(), request.1, &raw mut room) };
        if got == 0 {
            bytes.truncate(room.iov_len);
            return Ok((kind, bytes));
        }
    }
    Err(io::Error::last_os_error())
}

fn ptrace(request: Asked, thread: Tracee, address: u64, data: *mut libc::c_void) -> io::Result<()> {
    // SAFETY: the callers': `data` is what the request wants.
    match unsafe { libc::ptrace(request, thread.id(), address, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
