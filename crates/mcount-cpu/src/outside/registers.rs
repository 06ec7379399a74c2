//! The general registers of a thread, as the words that the kernel has (`struct user_regs_struct`). What they're for is said by a
//! processor's [`Roles`].

use alloc::vec::Vec;

/// Registers that a processor can have, at most.
const MOST: usize = 64;

/// Errors of system calls (`<errno.h>`, and what the kernel keeps for itself).
const EINTR: i64 = 4;
const ERESTARTSYS: i64 = -512;
const ERESTARTNOHAND: i64 = -514;
const ERESTART_RESTARTBLOCK: i64 = -516;

/// What the words are for, by their places.
#[derive(Debug)]
pub struct Roles {
    /// How many there are.
    pub count: usize,
    /// The next instruction.
    pub instruction: usize,
    /// The stack pointer.
    pub stack: usize,
    /// The result of a function or of a system call.
    pub result: usize,
    /// What functions keep: the result of one that came to the agent's `mcount_done` is there.
    pub kept_result: usize,
    /// The number of a system call.
    pub number: usize,
    /// Its arguments; those of functions begin with the same two.
    pub arguments: [usize; 6],
    /// The address that a function returns to; `None`: that's on the stack.
    pub link: Option<usize>,
    /// What has a function's own address when it begins. `None`: functions don't ask for that.
    pub function: Option<usize>,
    /// What says that a thread is in a system call. `None`: the kernel sees that by the address of the next instruction, and has changed the
    /// registers of one that starts a system call again before it stops.
    pub call: Option<SystemCallWord>,
    /// Bits of a word that functions expect to be clear.
    pub clear: Option<(usize, u64)>,
    /// What says how many arguments of a function are in vector registers.
    pub vectors: Option<usize>,
    /// A thread pointer that has to lead to itself. `None`: none is needed.
    pub thread: Option<usize>,
    /// The address of a thread's block. `None`: it's found by the thread pointer.
    pub block: Option<usize>,
    /// A program may forbid itself to read the clock.
    pub clock: Option<ClockTrap>,
}

impl Roles {
    /// No register is what only some processors have one for. The others have to be told.
    pub const NONE: Self = Self {
        count: 0,
        instruction: 0,
        stack: 0,
        result: 0,
        kept_result: 0,
        number: 0,
        arguments: [0; 6],
        link: None,
        function: None,
        call: None,
        clear: None,
        vectors: None,
        thread: None,
        block: None,
        clock: None,
    };
}

/// The word that says whether a thread is in a system call.
#[derive(Debug, Clone, Copy)]
pub struct SystemCallWord {
    /// Its place.
    pub place: usize,
    /// What it says then. Without any, it has the number of the system call, or a negative one.
    pub values: &'static [u64],
    /// What keeps the first argument, if the result takes its place.
    pub first_argument: Option<usize>,
    /// Bytes of the instruction that makes a system call.
    pub length: u64,
    /// The number of `restart_syscall`.
    pub restart: u64,
    /// The numbers of those that return `EINTR` when their thread was stopped, and which may be made once more then: nothing has been done yet.
    pub ended_by_stops: &'static [i64],
}

/// An instruction that reads the clock, and where the result goes.
#[derive(Debug, Clone, Copy)]
pub struct ClockTrap {
    /// Its bytes.
    pub code: [u8; 2],
    /// The lower 32 bits.
    pub low: usize,
    /// The upper ones.
    pub high: usize,
}

/// A call that a thread is going to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionCall {
    /// The address of the function.
    pub function: u64,
    /// Its arguments.
    pub arguments: [u64; 2],
    /// The end of the stack that it has, a multiple of 64.
    pub stack: u64,
    /// Where it returns to.
    pub back: u64,
}

/// A word that has to be on the stack of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackWord {
    /// Where.
    pub at: u64,
    /// The word.
    pub value: u64,
}

/// The registers of a thread.
#[derive(Debug, Clone, Copy)]
pub struct GeneralRegisters {
    words: [u64; MOST],
    roles: &'static Roles,
}

impl GeneralRegisters {
    /// Registers full of zeroes.
    #[must_use]
    pub fn zero(roles: &'static Roles) -> Self {
        Self { words: [0; MOST], roles }
    }

    /// Those that the kernel has written so; `None` if it's those of another processor.
    #[must_use]
    pub fn of(roles: &'static Roles, bytes: &[u8]) -> Option<Self> {
        let mut found = Self::zero(roles);
        for (room, word) in found.words.iter_mut().zip(bytes.as_chunks().0) {
            *room = u64::from_le_bytes(*word);
        }
        (bytes.len() == 8 * roles.count).then_some(found)
    }

    /// Their bytes, as the kernel reads them.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.words().iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// All of them.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        self.words.get(..self.roles.count).unwrap_or_default()
    }

    fn at(&self, place: usize) -> u64 {
        self.words.get(place).copied().unwrap_or(0)
    }

    fn set(&mut self, place: usize, value: u64) {
        if let Some(room) = self.words.get_mut(place) {
            *room = value;
        }
    }

    /// The next instruction.
    #[must_use]
    pub fn instruction(&self) -> u64 {
        self.at(self.roles.instruction)
    }

    /// It goes on at `address`.
    pub fn set_instruction(&mut self, address: u64) {
        self.set(self.roles.instruction, address);
    }

    /// The stack pointer.
    #[must_use]
    pub fn stack(&self) -> u64 {
        self.at(self.roles.stack)
    }

    /// Changes the stack pointer.
    pub fn set_stack(&mut self, address: u64) {
        self.set(self.roles.stack, address);
    }

    /// The result of a system call or a function.
    #[must_use]
    pub fn result(&self) -> u64 {
        self.at(self.roles.result)
    }

    /// The result of a function that came to the agent's `mcount_done`.
    #[must_use]
    pub fn kept_result(&self) -> u64 {
        self.at(self.roles.kept_result)
    }

    /// The second argument of the function or the system call that it's in.
    #[must_use]
    pub fn second_argument(&self) -> u64 {
        let [_, second, ..] = self.roles.arguments;
        self.at(second)
    }

    /// It isn't in a system call that is to be restarted.
    pub fn forget_call(&mut self) {
        if let Some(call) = self.roles.call {
            self.set(call.place, u64::MAX);
        }
    }

    /// It's going to make a system call, by the instruction at `gate`.
    pub fn set_call(&mut self, gate: u64, number: i64, arguments: &[u64]) {
        self.set_instruction(gate);
        self.set(self.roles.number, number.cast_unsigned());
        self.forget_call();
        let all = arguments.iter().copied().chain(core::iter::repeat(0));
        for (place, argument) in self.roles.arguments.into_iter().zip(all) {
            self.set(place, argument);
        }
    }

    /// It's going to call a function. What is to be written on its stack for that.
    #[must_use]
    pub fn set_function(&mut self, call: FunctionCall) -> Option<StackWord> {
        self.set_function_address(call.function);
        for (place, argument) in self.roles.arguments.into_iter().zip(call.arguments) {
            self.set(place, argument);
        }
        if let Some(place) = self.roles.vectors {
            self.set(place, 0);
        }
        if let Some((place, bits)) = self.roles.clear {
            self.set(place, self.at(place) & !bits);
        }
        self.forget_call();
        if let Some(link) = self.roles.link {
            self.set_stack(call.stack);
            self.set(link, call.back);
            return None;
        }
        let at = call.stack - 8;
        self.set_stack(at);
        Some(StackWord { at, value: call.back })
    }

    /// It goes on with the function at this address.
    fn set_function_address(&mut self, address: u64) {
        self.set_instruction(address);
        if let Some(place) = self.roles.function {
            self.set(place, address);
        }
    }

    /// The function that it's in returns to `address`, if a register says that.
    pub fn set_return(&mut self, address: u64) {
        if let Some(link) = self.roles.link {
            self.set(link, address);
        }
    }

    /// It returns from a function that has done nothing yet; `word` is what its stack pointer leads to.
    pub fn leave_function(&mut self, word: u64) {
        if let Some(link) = self.roles.link {
            self.set_instruction(self.at(link));
        } else {
            self.set_instruction(word);
            self.set_stack(self.stack() + 8);
        }
    }

    /// It hasn't: it begins with a function instead, of the same caller.
    pub fn enter_instead(&mut self, function: u64, has_left: bool) {
        if has_left && self.roles.link.is_none() {
            self.set_stack(self.stack() - 8);
        }
        self.set_function_address(function);
    }

    /// Does it have a thread pointer, or need none?
    #[must_use]
    pub fn has_thread_pointer(&self) -> bool {
        self.roles.thread.is_none_or(|place| self.at(place) != 0)
    }

    /// It has one that leads to itself, until the program sets its own.
    pub fn set_thread_pointer(&mut self, address: u64) {
        if let Some(place) = self.roles.thread {
            self.set(place, address);
        }
    }

    /// The thread finds that it has no block, `nobody`.
    pub fn begin_thread(&mut self, nobody: u64) {
        if let Some(place) = self.roles.block {
            self.set(place, nobody);
        }
    }

    /// Where its block would be, if a register leads to it.
    #[must_use]
    pub fn block(&self) -> Option<u64> {
        self.roles.block.map(|place| self.at(place))
    }

    /// Is it in a system call that the kernel wouldn't start again, that has returned `EINTR` because its thread was stopped, and that may be made
    /// once more?
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.system_call().is_some_and(|(call, number)| {
            self.result().cast_signed() == -EINTR
                && call.ended_by_stops.contains(&number.cast_signed())
        })
    }

    /// It makes that system call again.
    pub fn call_again(&mut self) {
        if let Some((call, number)) = self.system_call() {
            self.start_again(call, number);
        }
    }

    /// The system call that it's in, and its number.
    fn system_call(&self) -> Option<(SystemCallWord, u64)> {
        let call = self.roles.call?;
        let word = self.at(call.place);
        if call.values.is_empty() {
            return (word.cast_signed() >= 0).then_some((call, word));
        }
        call.values.contains(&word).then(|| (call, self.at(self.roles.number)))
    }

    fn start_again(&mut self, call: SystemCallWord, number: u64) {
        self.set(self.roles.number, number);
        if let Some(kept) = call.first_argument {
            let [first, ..] = self.roles.arguments;
            self.set(first, self.at(kept));
        }
        self.set_instruction(self.instruction().wrapping_sub(call.length));
        self.forget_call();
    }

    /// The registers with which a thread that the kernel would have start a system call again does that by itself.
    #[must_use]
    pub fn restarted(&self) -> Self {
        let mut now = *self;
        let Some((call, number)) = self.system_call() else { return now };
        match self.result().cast_signed() {
            ERESTARTNOHAND..=ERESTARTSYS => now.start_again(call, number),
            ERESTART_RESTARTBLOCK => now.start_again(call, call.restart),
            _ => {}
        }
        now
    }

    /// The processor may not read its clock, and was about to, by the instruction with these bytes: it's given the time. `false`
    /// if it wasn't.
    pub fn give_time(&mut self, bytes: [u8; 2], now: u64) -> bool {
        let Some(clock) = self.roles.clock.filter(|clock| clock.code == bytes) else {
            return false;
        };
        self.set(clock.low, now & 0xffff_ffff);
        self.set(clock.high, now >> 32);
        self.set_instruction(self.instruction() + clock.code.len() as u64);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two arguments, of which the result takes the first one's place, the number, the instruction, the stack pointer, what says that it's a
    /// system call, and the first argument.
    static ROLES: Roles = Roles {
        count: 8,
        instruction: 3,
        stack: 4,
        result: 0,
        kept_result: 0,
        number: 2,
        arguments: [0, 1, 1, 1, 1, 1],
        link: Some(1),
        function: Some(7),
        call: Some(SystemCallWord {
            place: 5,
            values: &[0xc00],
            first_argument: Some(6),
            length: 4,
            restart: 0,
            ended_by_stops: &[],
        }),
        clear: None,
        vectors: None,
        thread: None,
        block: None,
        clock: None,
    };

    #[test]
    fn a_system_call_starts_again_with_its_first_argument() {
        let words = |result: i64, said| [result.cast_unsigned(), 8, 33, 0x1004, 0x7000, said, 7, 0];
        let of = |words: [u64; 8]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            GeneralRegisters::of(&ROLES, &bytes).unwrap()
        };
        let restarted = |words| of(words).restarted().words().to_vec();
        let again = [7, 8, 33, 0x1000, 0x7000, u64::MAX, 7, 0];
        assert_eq!(restarted(words(ERESTARTSYS, 0xc00)), again);
        assert_eq!(restarted(words(ERESTART_RESTARTBLOCK, 0xc00))[2..4], [0, 0x1000]);
        // It has ended, or was none.
        for (result, said) in [(-EINTR, 0xc00), (ERESTARTSYS, 0x900)] {
            assert_eq!(restarted(words(result, said)), words(result, said));
        }
        let mut registers = of(words(0, 0xc00));
        let call = FunctionCall { function: 0x5000, arguments: [1, 2], stack: 0x40, back: 0x60 };
        assert_eq!(registers.set_function(call), None);
        assert_eq!(registers.words()[7], 0x5000);
    }
}
