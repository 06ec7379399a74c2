//! What one stopped thread is made to do: system calls, and functions of the agent's and of the program's unwinder.
//!
//! No breakpoint and no single step is used: their SIGTRAP would be forced upon a program that ignores it. The thread
//! stops at system calls.

use super::rescue::Shelter;
use super::stop::{Thread, restarted};
use crate::trace::tracee::{Asked, Memory, Registers, Tracee, to_result};
use nix::errno::Errno;
use nix::libc;
use std::io;

const PTRACE_SETSIGMASK: Asked = 0x420b;
const NT_X86_XSTATE: libc::c_long = 0x202;
/// Bytes that the state of vector registers may have.
const STATE: usize = 1 << 15;

/// A thread that does what it's told, until it gets its own registers back.
pub(super) struct Remote<'m> {
    thread: Tracee,
    memory: &'m Memory,
    before: Registers,
    blocked: u64,
    state: Vec<u8>,
    /// Where there is a `syscall` instruction.
    gate: u64,
    /// Signals that came meanwhile.
    signals: Vec<i32>,
    /// Its stack pointer if it finds there how to go on when nobody puts it back.
    stack: Option<u64>,
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

    /// The same for a `gate` behind which is `rt_sigreturn`: it goes on by itself if nobody puts it back, by what is written
    /// at `frame`, 8 below a multiple of 64.
    pub(super) fn rescued(
        thread: &mut Thread,
        memory: &'m Memory,
        (gate, frame): (u64, u64),
    ) -> io::Result<Self> {
        let mut remote = Self::begin(thread, memory, gate)?;
        remote.rescue(gate, frame)?;
        remote.block()?;
        Ok(remote)
    }

    /// The same with code of the program: a frame of a signal on the thread's own stack, as the kernel would write one.
    pub(super) fn sheltered(
        thread: &mut Thread,
        memory: &'m Memory,
        shelter: &Shelter,
    ) -> io::Result<Self> {
        let mut remote = Self::begin(thread, memory, shelter.gate)?;
        remote.prepare(shelter.gate, shelter.frame, shelter.frame)?;
        memory.write(shelter.frame, &shelter.restorer.to_le_bytes())?;
        remote.enter()?;
        remote.block()?;
        Ok(remote)
    }

    fn begin(thread: &mut Thread, memory: &'m Memory, gate: u64) -> io::Result<Self> {
        let before = restarted(&thread.registers);
        *thread.change() = before;
        let tracee = thread.tracee;
        let mut blocked = 0;
        ptrace(0x420a, tracee, 8, (&raw mut blocked).cast())?;
        let (state, signals) = (state(tracee)?, Vec::new());
        Ok(Self { thread: tracee, memory, before, blocked, state, gate, signals, stack: None })
    }

    /// Blocks all signals but SIGURG, by which the end of a function is told.
    fn block(&self) -> io::Result<()> {
        let all = !(1_u64 << (libc::SIGURG - 1));
        ptrace(PTRACE_SETSIGMASK, self.thread, 8, (&raw const all).cast_mut().cast())
    }

    /// From now on it goes on by itself if nobody puts it back, as for [`Remote::rescued`].
    pub(super) fn rescue(&mut self, gate: u64, frame: u64) -> io::Result<()> {
        self.prepare(gate, frame, frame + 8)?;
        self.enter()
    }

    /// Writes the frame.
    fn prepare(&mut self, gate: u64, frame: u64, stack: u64) -> io::Result<()> {
        let bytes = super::rescue::frame(frame, &self.before, self.blocked, &self.state);
        self.memory.write(frame, &bytes)?;
        (self.gate, self.stack) = (gate, Some(stack));
        Ok(())
    }

    /// Has it stand where it'd take the frame.
    fn enter(&self) -> io::Result<()> {
        const SYSCALL: u64 = 2;
        let (rip, rsp) = (self.gate + SYSCALL, self.stack.unwrap_or(self.before.rsp));
        self.thread.set_registers(&Registers { rip, rsp, orig_rax: u64::MAX, ..self.before })
    }

    /// Another `syscall` instruction is to be used from now on.
    pub(super) fn set_gate(&mut self, gate: u64) {
        self.gate = gate;
    }

    /// Makes a system call.
    pub(super) fn call(&mut self, number: i64, arguments: &[u64]) -> io::Result<u64> {
        let argument = |index: usize| arguments.get(index).copied().unwrap_or(0);
        let registers = Registers {
            rip: self.gate,
            rsp: self.stack.unwrap_or(self.before.rsp),
            rax: number.cast_unsigned(),
            orig_rax: u64::MAX,
            rdi: argument(0),
            rsi: argument(1),
            rdx: argument(2),
            r10: argument(3),
            r8: argument(4),
            r9: argument(5),
            ..self.before
        };
        self.thread.set_registers(&registers)?;
        for _ in 0..2 {
            self.run(libc::PTRACE_SYSCALL, |signal, _| signal == libc::SIGTRAP | 0x80)?;
        }
        to_result(self.thread.registers()?.rax)
    }

    /// Calls a function; what it returns.
    pub(super) fn function(
        &mut self,
        function: u64,
        arguments: [u64; 2],
        end: End,
    ) -> io::Result<u64> {
        let stack = (end.stack & !63) - 8;
        self.memory.write(stack, &end.done.to_le_bytes())?;
        let [rdi, rsi] = arguments;
        let direction = 1 << 10;
        let registers = Registers {
            rip: function,
            rsp: stack,
            rdi,
            rsi,
            rax: 0,
            orig_rax: u64::MAX,
            eflags: self.before.eflags & !direction,
            ..self.before
        };
        self.thread.set_registers(&registers)?;
        self.run(libc::PTRACE_CONT, |signal, thread| {
            signal == libc::SIGURG && thread.has_asked(end.is_done)
        })?;
        Ok(self.thread.registers()?.rbx)
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
            libc::iovec { iov_base: self.state.as_mut_ptr().cast(), iov_len: self.state.len() };
        // SAFETY: the state lives during the call.
        unsafe {
            libc::ptrace(libc::PTRACE_SETREGSET, self.thread.id(), NT_X86_XSTATE, &raw const state);
        }
        let _ = self.thread.set_registers(&self.before);
        for signal in self.signals.drain(..) {
            // SAFETY: no pointer is passed.
            unsafe { libc::syscall(libc::SYS_tkill, self.thread.id(), signal) };
        }
    }
}

/// The vector registers and all that goes with them.
fn state(thread: Tracee) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; STATE];
    let mut room = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: STATE };
    // SAFETY: the kernel writes at most as much as there's room for, and says how much.
    let got =
        unsafe { libc::ptrace(libc::PTRACE_GETREGSET, thread.id(), NT_X86_XSTATE, &raw mut room) };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    bytes.truncate(room.iov_len);
    Ok(bytes)
}

fn ptrace(request: Asked, thread: Tracee, address: u64, data: *mut libc::c_void) -> io::Result<()> {
    // SAFETY: the callers': `data` is what the request wants.
    match unsafe { libc::ptrace(request, thread.id(), address, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
