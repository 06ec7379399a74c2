//! AArch64: the general registers of a thread (`struct user_regs_struct`).

use crate::state::{FunctionCall, StackWord};
use nix::libc;

/// The registers of a thread.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct GeneralRegisters(libc::user_regs_struct);

impl GeneralRegisters {
    /// Registers full of zeroes, to be read.
    #[must_use]
    pub fn zero() -> Self {
        // SAFETY: plain numbers.
        Self(unsafe { std::mem::zeroed() })
    }

    /// Their bytes, as the kernel reads them.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the structure is words without padding between them, and lives as long as the slice.
        unsafe { std::slice::from_raw_parts((&raw const self.0).cast(), size_of::<Self>()) }
    }

    /// The same, for the kernel to write them.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`, and any bytes are words.
        unsafe { std::slice::from_raw_parts_mut((&raw mut self.0).cast(), size_of::<Self>()) }
    }

    /// The next instruction.
    #[must_use]
    pub fn instruction(&self) -> u64 {
        self.0.pc
    }

    /// It goes on at `address`.
    pub fn set_instruction(&mut self, address: u64) {
        self.0.pc = address;
    }

    /// The stack pointer.
    #[must_use]
    pub fn stack(&self) -> u64 {
        self.0.sp
    }

    /// Changes the stack pointer.
    pub fn set_stack(&mut self, address: u64) {
        self.0.sp = address;
    }

    /// The result of a system call or a function.
    #[must_use]
    pub fn result(&self) -> u64 {
        let [first, ..] = self.0.regs;
        first
    }

    /// The result of a function that came to the agent's `mcount_done`.
    #[must_use]
    pub fn kept_result(&self) -> u64 {
        self.0.regs[19]
    }

    /// The second argument of the function or the system call that it's in.
    #[must_use]
    pub fn second_argument(&self) -> u64 {
        self.0.regs[1]
    }

    /// It isn't in a system call that is to be restarted: the kernel sees that by the address of the next instruction.
    pub fn forget_call(&mut self) {}

    /// It's going to make a system call, by the instruction at `gate`.
    pub fn set_call(&mut self, gate: u64, number: i64, arguments: &[u64]) {
        self.0.pc = gate;
        self.0.regs[8] = number.cast_unsigned();
        let all = arguments.iter().copied().chain(std::iter::repeat(0));
        for (room, argument) in self.0.regs.iter_mut().zip(all).take(6) {
            *room = argument;
        }
    }

    /// It's going to call a function. The bytes to write on its stack for that: none.
    #[must_use]
    pub fn set_function(&mut self, call: FunctionCall) -> Option<StackWord> {
        self.0.pc = call.function;
        self.0.sp = call.stack;
        [self.0.regs[0], self.0.regs[1]] = call.arguments;
        self.0.regs[30] = call.back;
        None
    }

    /// The function that it's in returns to `address`.
    pub fn set_return(&mut self, address: u64) {
        self.0.regs[30] = address;
    }

    /// As the kernel has them.
    #[must_use]
    pub fn raw(&self) -> &libc::user_regs_struct {
        &self.0
    }

    /// It returns from a function that has done nothing yet.
    pub fn leave_function(&mut self, _word: u64) {
        self.0.pc = self.0.regs[30];
    }

    /// It hasn't: it begins with a function instead, of the same caller.
    pub fn enter_instead(&mut self, function: u64, _has_left: bool) {
        self.0.pc = function;
    }

    /// Does it have a thread pointer? It needs none.
    #[must_use]
    pub fn has_thread_pointer(&self) -> bool {
        true
    }

    /// It needs none that leads to itself.
    pub fn set_thread_pointer(&mut self, _address: u64) {}

    /// The thread finds by itself that it has no block.
    pub fn begin_thread(&mut self, _nobody: u64) {}

    /// No register leads to its block.
    #[must_use]
    pub fn block(&self) -> Option<u64> {
        None
    }

    /// Is it in a system call that the kernel wouldn't start again, and that has returned EINTR because its
    /// thread was stopped? Its first argument is lost then, so the call can't be started again.
    #[must_use]
    pub fn interrupted_call(&self) -> Option<i64> {
        None
    }

    /// It makes that system call again.
    pub fn call_again(&mut self) {}

    /// The registers with which a thread that the kernel would have start a system call again does that by itself: those that it has, as
    /// the kernel has changed them before it stops.
    #[must_use]
    pub fn restarted(&self) -> Self {
        *self
    }

    /// Its clock can always be read.
    pub fn give_time(&mut self, _bytes: [u8; 2], _now: u64) -> bool {
        false
    }
}
