//! x86-64: the general registers of a thread (`struct user_regs_struct`).

use super::SYSTEM_CALL;
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
        self.0.rip
    }

    /// It goes on at `address`.
    pub fn set_instruction(&mut self, address: u64) {
        self.0.rip = address;
    }

    /// The stack pointer.
    #[must_use]
    pub fn stack(&self) -> u64 {
        self.0.rsp
    }

    /// Changes the stack pointer.
    pub fn set_stack(&mut self, address: u64) {
        self.0.rsp = address;
    }

    /// The result of a system call or a function.
    #[must_use]
    pub fn result(&self) -> u64 {
        self.0.rax
    }

    /// The result of a function that came to the agent's `mcount_done`.
    #[must_use]
    pub fn kept_result(&self) -> u64 {
        self.0.rbx
    }

    /// The second argument of the function or the system call that it's in.
    #[must_use]
    pub fn second_argument(&self) -> u64 {
        self.0.rsi
    }

    /// It isn't in a system call that is to be restarted.
    pub fn forget_call(&mut self) {
        self.0.orig_rax = u64::MAX;
    }

    /// It's going to make a system call, by the instruction at `gate`.
    pub fn set_call(&mut self, gate: u64, number: i64, arguments: &[u64]) {
        let argument = |index: usize| arguments.get(index).copied().unwrap_or(0);
        self.0.rip = gate;
        self.0.rax = number.cast_unsigned();
        self.0.orig_rax = u64::MAX;
        self.0.rdi = argument(0);
        self.0.rsi = argument(1);
        self.0.rdx = argument(2);
        self.0.r10 = argument(3);
        self.0.r8 = argument(4);
        self.0.r9 = argument(5);
    }

    /// It's going to call a function. The bytes to write on its stack for that.
    #[must_use]
    pub fn set_function(&mut self, call: FunctionCall) -> Option<StackWord> {
        const DIRECTION: u64 = 1 << 10;
        let at = call.stack - 8;
        self.0.rip = call.function;
        self.0.rsp = at;
        [self.0.rdi, self.0.rsi] = call.arguments;
        self.0.rax = 0;
        self.0.orig_rax = u64::MAX;
        self.0.eflags &= !DIRECTION;
        Some(StackWord { at, value: call.back })
    }

    /// Where a function returns to isn't in a register.
    pub fn set_return(&mut self, _address: u64) {}

    /// It returns from a function that has done nothing yet; `word` is what its stack pointer leads to.
    pub fn leave_function(&mut self, word: u64) {
        self.0.rip = word;
        self.0.rsp += 8;
    }

    /// It hasn't: it begins with a function instead, of the same caller.
    pub fn enter_instead(&mut self, function: u64, has_left: bool) {
        if has_left {
            self.0.rsp -= 8;
        }
        self.0.rip = function;
    }

    /// It has a thread pointer.
    #[must_use]
    pub fn has_thread_pointer(&self) -> bool {
        self.0.fs_base != 0
    }

    /// It has one that leads to itself, until the program sets its own.
    pub fn set_thread_pointer(&mut self, address: u64) {
        self.0.fs_base = address;
    }

    /// The thread finds that it has no block, `nobody`.
    pub fn begin_thread(&mut self, nobody: u64) {
        self.0.gs_base = nobody;
    }

    /// Where its block would be.
    #[must_use]
    pub fn block(&self) -> Option<u64> {
        Some(self.0.gs_base)
    }

    /// Is it in a system call that the kernel wouldn't start again, and that has returned EINTR because its thread was stopped? Its number.
    #[must_use]
    pub fn interrupted_call(&self) -> Option<i64> {
        let number = self.0.orig_rax.cast_signed();
        let is_interrupted = self.0.rax.cast_signed() == -i64::from(libc::EINTR);
        (number >= 0 && is_interrupted).then_some(number)
    }

    /// It makes that system call again.
    pub fn call_again(&mut self) {
        self.0.rax = self.0.orig_rax;
        self.0.rip -= SYSTEM_CALL.len() as u64;
        self.0.orig_rax = u64::MAX;
    }

    /// The registers with which a thread that the kernel would have start a system call again does that by itself.
    #[must_use]
    pub fn restarted(&self) -> Self {
        const ERESTARTSYS: i64 = -512;
        const ERESTARTNOHAND: i64 = -514;
        const ERESTART_RESTARTBLOCK: i64 = -516;
        let mut now = *self;
        let registers = &mut now.0;
        if registers.orig_rax.cast_signed() < 0 {
            return now;
        }
        match registers.rax.cast_signed() {
            ERESTARTNOHAND..=ERESTARTSYS => registers.rax = registers.orig_rax,
            ERESTART_RESTARTBLOCK => registers.rax = libc::SYS_restart_syscall.cast_unsigned(),
            _ => return now,
        }
        registers.rip -= SYSTEM_CALL.len() as u64;
        registers.orig_rax = u64::MAX;
        now
    }

    /// As the kernel has them.
    #[must_use]
    pub fn raw(&self) -> &libc::user_regs_struct {
        &self.0
    }

    /// The processor may not read its clock, and was about to, by the instruction with these bytes: it's given the time. `false`
    /// if it wasn't.
    pub fn give_time(&mut self, bytes: [u8; 2], now: u64) -> bool {
        /// `rdtsc`.
        const READ_CLOCK: [u8; 2] = [0x0f, 0x31];
        if bytes != READ_CLOCK {
            return false;
        }
        self.0.rax = now & 0xffff_ffff;
        self.0.rdx = now >> 32;
        self.0.rip += READ_CLOCK.len() as u64;
        true
    }
}
