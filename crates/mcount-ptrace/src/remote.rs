//! The work of one stopped thread: system calls, and functions of the agent's and of the program's unwinder.
//!
//! No breakpoint and no single step is used: their SIGTRAP would be forced upon a program that ignores it. The thread
//! stops at system calls, and by a signal that it sends itself.

use crate::memory::Memory;
use crate::request;
use crate::stop::Thread;
use crate::tracee::{Tracee, Until, to_result};
use mcount_cpu::outside::{FunctionCall, GeneralRegisters, VectorState};
use nix::libc;
use std::io;

/// A thread that does what it's told, until it gets its own registers back when this is dropped.
#[derive(Debug)]
pub struct Remote<'m> {
    pub(crate) thread: Tracee,
    pub(crate) memory: &'m Memory,
    /// Its state when it goes on.
    pub(crate) before: GeneralRegisters,
    pub(crate) blocked: u64,
    pub(crate) state: VectorState,
    /// Where there is a system call.
    pub(crate) gate: u64,
    /// Signals that came meanwhile.
    pub(crate) signals: Vec<i32>,
    /// Its stack pointer if it finds there how to go on without us.
    pub(crate) stack: Option<u64>,
    /// Where a system call's gate returns to then, if a register says that.
    pub(crate) back: Option<u64>,
}

/// How a function ends that a thread is made to call.
#[derive(Debug, Clone, Copy)]
pub struct CallEnd {
    /// Where it returns to. The code there keeps the result, and sends its thread SIGURG.
    pub done: u64,
    /// Where its thread stands then.
    pub is_done: u64,
    /// The end of the stack that it has.
    pub stack: u64,
}

impl<'m> Remote<'m> {
    /// A thread that makes system calls at `gate`.
    pub(crate) fn of(thread: &mut Thread, memory: &'m Memory, gate: u64) -> io::Result<Self> {
        let remote = Self::begin(thread, memory, gate)?;
        remote.block()?;
        Ok(remote)
    }

    /// The same, but signals still come.
    pub(crate) fn begin(thread: &mut Thread, memory: &'m Memory, gate: u64) -> io::Result<Self> {
        let before = thread.registers.restarted();
        *thread.change() = before;
        let tracee = thread.tracee;
        Ok(Self {
            thread: tracee,
            memory,
            before,
            blocked: tracee.blocked()?,
            state: tracee.vectors()?,
            gate,
            signals: Vec::new(),
            stack: None,
            back: None,
        })
    }

    /// Blocks all signals but SIGURG, with which the end of a function is told.
    pub(crate) fn block(&self) -> io::Result<()> {
        request::set_blocked(self.thread.id(), !(1_u64 << (libc::SIGURG - 1)))
    }

    /// The registers that it goes on with, to be changed.
    pub fn registers(&mut self) -> &mut GeneralRegisters {
        &mut self.before
    }

    /// Makes a system call.
    ///
    /// # Errors
    ///
    /// The system call fails, or the process ends.
    pub fn call(&mut self, number: i64, arguments: &[u64]) -> io::Result<u64> {
        let mut registers = self.before;
        registers.set_stack(self.stack.unwrap_or(self.before.stack()));
        registers.set_call(self.gate, number, arguments);
        if let Some(back) = self.back {
            registers.set_return(back);
        }
        self.thread.set_registers(&registers)?;
        // Where it begins, and where it ends.
        for _ in 0..2 {
            self.thread.run_to_system_call(&mut self.signals)?;
        }
        to_result(self.thread.registers()?.result())
    }

    /// Calls a function; what it returns.
    ///
    /// # Errors
    ///
    /// It does something that's forbidden, or the process ends.
    pub fn function(
        &mut self,
        function: u64,
        arguments: [u64; 2],
        end: CallEnd,
    ) -> io::Result<u64> {
        let mut registers = self.before;
        let (stack, back) = (end.stack & !63, end.done);
        let word = registers.set_function(FunctionCall { function, arguments, stack, back });
        if let Some(word) = word {
            self.memory.write(word.at, &word.value.to_le_bytes())?;
        }
        self.thread.set_registers(&registers)?;
        let thread = self.thread;
        thread.run(Until::Signal, &mut self.signals, |signal| {
            signal == libc::SIGURG && thread.has_asked(end.is_done)
        })?;
        Ok(thread.registers()?.kept_result())
    }
}

impl Drop for Remote<'_> {
    /// It's as it was.
    fn drop(&mut self) {
        // It may have been killed meanwhile; then there's nothing to put back. Registers come last: until then it'd do that
        // by itself.
        self.thread.set_blocked(self.blocked);
        let _ = self.thread.set_vectors(&self.state);
        let _ = self.thread.set_registers(&self.before);
        for signal in self.signals.drain(..) {
            request::send_again(self.thread.id(), signal);
        }
    }
}
