//! Does code use its return address in another way than to return by it?
//!
//! While a call is traced, the word on the stack has the tracer's address. Most code doesn't notice. What reads the word does:
//! `__builtin_return_address(0)`, `setjmp`. So does what goes to another stack, and returns there by a word of that. Unwind
//! information says at each instruction where the word is. From there we follow copies of the stack pointer from one instruction to
//! the next, as compilers make them. That finds the code of compilers. It
//! doesn't find code that hides what it does.

use super::instruction::{Flow, flow};
use crate::probe::{Returns, Rules};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// Where the return address is, from the canonical frame address.
const SLOT: i64 = -8;

/// The registers that a function needn't preserve, as a bit for each by its number in DWARF.
const SCRATCH: u16 = 0b1111_0011_0111;

/// The stack at an instruction, as far as it's known.
#[derive(Debug)]
pub(super) struct Stack<'r> {
    /// What holds from here on.
    rules: &'r [Rules],
    /// How far from the canonical frame address registers point, by their numbers in DWARF.
    aliases: [Option<i64>; 16],
    /// A bit for each register that once pointed somewhere into the frame. Blocks don't follow each other as they're executed, so
    /// it isn't forgotten.
    copies: u16,
}

impl<'r> Stack<'r> {
    /// At the beginning of code; `rules` are its rows of unwind information.
    pub(super) fn new(rules: &'r [Rules]) -> Self {
        let mut aliases = [None; 16];
        if rules.is_empty() {
            // What has just been called begins so.
            aliases[7] = Some(SLOT);
        }
        Self { rules, aliases, copies: 0 }
    }

    /// Does the next instruction use the return address, or leave the stack?
    pub(super) fn is_used_by(&mut self, one: &Instruction) -> bool {
        let has_rules = !self.rules.is_empty();
        while let [first, rest @ ..] = self.rules
            && first.end <= one.ip()
        {
            self.rules = rest;
        }
        let row = self.rules.first().filter(|row| row.start <= one.ip());
        if has_rules {
            self.set(Register::RSP, None);
        }
        let usual = row.is_some_and(|row| row.returns == Returns::At(SLOT));
        if let Some((register, distance)) = row.and_then(|row| row.cfa).filter(|_| usual)
            && let Some(alias) = self.aliases.get_mut(usize::from(register))
        {
            *alias = distance.checked_neg();
        }
        let is_usual = usual || !has_rules;
        let uses = is_usual && self.uses_slot(one) || self.leaves_stack(one);
        self.step(one);
        uses
    }

    fn alias(&self, register: Register) -> Option<i64> {
        *self.aliases.get(usize::from(dwarf(register)?))?
    }

    fn set(&mut self, register: Register, alias: Option<i64>) {
        let place = dwarf(register).and_then(|number| self.aliases.get_mut(usize::from(number)));
        if let Some(place) = place {
            *place = alias;
        }
    }

    /// Where the operand in memory is, from the canonical frame address.
    fn operand(&self, one: &Instruction) -> Option<i64> {
        let has_one = (0..one.op_count()).any(|operand| one.op_kind(operand) == OpKind::Memory);
        if !has_one || one.memory_index() != Register::None {
            return None;
        }
        self.alias(one.memory_base())?.checked_add(one.memory_displacement64().cast_signed())
    }

    fn uses_slot(&self, one: &Instruction) -> bool {
        let top = self.alias(Register::RSP);
        if matches!(one.mnemonic(), Mnemonic::Pop | Mnemonic::Popfq) && top == Some(SLOT) {
            return true;
        }
        if register(one, 0) == Some(Register::RSP) {
            return self.new_top(one).is_some_and(|top| top > SLOT);
        }
        // Compilers copy the return address to where they align the stack.
        let is_copy = one.mnemonic() == Mnemonic::Push && one.memory_base() != Register::RSP;
        let is_other =
            is_copy || one.mnemonic() == Mnemonic::Lea || one.mnemonic() == Mnemonic::Nop;
        !is_other && self.operand(one) == Some(SLOT)
    }

    /// Where the top of the stack is then, if the instruction moves it by a known distance.
    fn new_top(&self, one: &Instruction) -> Option<i64> {
        let top = self.alias(Register::RSP);
        let amount = || one.try_immediate(1).ok().map(u64::cast_signed);
        match one.mnemonic() {
            Mnemonic::Add => top?.checked_add(amount()?),
            Mnemonic::Sub => top?.checked_sub(amount()?),
            Mnemonic::Lea => self.operand(one),
            Mnemonic::Mov => self.alias(register(one, 1)?),
            _ => None,
        }
    }

    /// Does it go to another stack?
    fn leaves_stack(&self, one: &Instruction) -> bool {
        let is_frame = |base: Register| {
            base == Register::RBP
                || base == Register::RSP
                || self.copies & bit(base) != 0
                || self.alias(base).is_some()
        };
        let (target, source) = (register(one, 0), register(one, 1));
        if one.mnemonic() == Mnemonic::Xchg {
            let others = [(target, source), (source, target)];
            return others
                .iter()
                .any(|(one, other)| *one == Some(Register::RSP) && !other.is_some_and(is_frame));
        }
        if target != Some(Register::RSP) {
            return false;
        }
        match (one.mnemonic(), source) {
            (Mnemonic::Mov, Some(source)) => !is_frame(source),
            // A frame of variable size has the old stack pointer in it.
            (Mnemonic::Mov | Mnemonic::Lea, None) => !is_frame(one.memory_base()),
            (Mnemonic::Pop, _) | (Mnemonic::Add, Some(_)) => true,
            (Mnemonic::Add, None) => one.op1_kind() == OpKind::Memory,
            _ => false,
        }
    }

    /// Notes what is known after the instruction.
    fn step(&mut self, one: &Instruction) {
        match flow(one) {
            Flow::Call(_) | Flow::IndirectCall => {
                for (number, alias) in (0..).zip(&mut self.aliases) {
                    if SCRATCH >> number & 1 == 1 {
                        *alias = None;
                    }
                }
                return;
            }
            // What follows is reached from elsewhere.
            Flow::Jump(_) | Flow::IndirectJump | Flow::End => {
                self.aliases = [None; 16];
                return;
            }
            Flow::Branch(_) => return,
            Flow::Next => {}
        }
        if matches!(one.mnemonic(), Mnemonic::Push | Mnemonic::Pop) {
            self.set(Register::RSP, None);
        }
        let only_reads = matches!(
            one.mnemonic(),
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Push | Mnemonic::Bt
        );
        let Some(target) = register(one, 0).filter(|_| !only_reads) else { return };
        let source = register(one, 1);
        let (alias, is_copy) = match one.mnemonic() {
            Mnemonic::Mov => {
                let is_copy = source.is_some_and(|source| {
                    source == Register::RSP || self.copies & bit(source) != 0
                });
                (source.and_then(|source| self.alias(source)), is_copy)
            }
            Mnemonic::Lea => (self.operand(one), one.memory_base() == Register::RSP),
            Mnemonic::Add | Mnemonic::Sub if source.is_none() => {
                let amount = one.try_immediate(1).ok().map(u64::cast_signed);
                let amount = if one.mnemonic() == Mnemonic::Sub {
                    amount.and_then(i64::checked_neg)
                } else {
                    amount
                };
                let sum =
                    self.alias(target).zip(amount).and_then(|(alias, by)| alias.checked_add(by));
                (sum, self.copies & bit(target) != 0)
            }
            _ => (None, false),
        };
        let Some(number) = changed(target) else { return };
        if let Some(place) = self.aliases.get_mut(usize::from(number)) {
            *place = alias;
        }
        self.copies |= u16::from(is_copy) << number;
    }
}

/// The register that is operand `number`.
fn register(one: &Instruction, number: u32) -> Option<Register> {
    (one.op_count() > number && one.op_kind(number) == OpKind::Register)
        .then(|| one.op_register(number))
}

fn bit(register: Register) -> u16 {
    dwarf(register).map_or(0, |number| 1 << number)
}

/// The number that DWARF has for a register of 64 bits.
fn dwarf(register: Register) -> Option<u16> {
    number(register, Register::RAX)
}

/// The number that DWARF has for the register that an instruction changes as a whole: one of 32 bits sets the others to zero.
fn changed(register: Register) -> Option<u16> {
    dwarf(register).or_else(|| number(register, Register::EAX))
}

/// The same, of a register of as many bits as `first`, which is the first of its kind.
fn number(register: Register, first: Register) -> Option<u16> {
    /// By the numbers that instructions have for them (x86-64 psABI, figure 3.36).
    const NUMBERS: [u16; 16] = [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];
    NUMBERS.get((register as usize).checked_sub(first as usize)?).copied()
}
