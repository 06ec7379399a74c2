//! Does code use its return address in another way than to return by it?
//!
//! While a call is traced, the return address is the tracer's. Most code doesn't notice: it stores the register, loads it again, and
//! returns. What takes the value does: `__builtin_return_address(0)`, `setjmp`. So does what goes to another stack, and returns there by a
//! word of that. Unwind information says at each instruction whether the address is in its register, or where on the stack. From
//! there we follow copies of the stack pointer from one instruction to the next, as compilers make them. That finds the code of
//! compilers. It doesn't find code that hides what it does.

use super::instruction::{Access, FRAME, Flow, LINK, STACK, access, flow, rd, rm, rn, uses};
use crate::probe::{Returns, Rules};

/// The registers that a function needn't preserve.
const SCRATCH: u32 = 0x0007_ffff;
/// Bytes of an address.
const WORD: i64 = 8;
/// `xpaclri`: the register without a signature.
const WITHOUT_SIGNATURE: u32 = 0xd503_20ff;

/// The return address and the stack at an instruction, as far as they're known.
#[derive(Debug)]
pub(super) struct Link<'r> {
    /// What holds from here on.
    rules: &'r [Rules],
    /// The register has the return address, perhaps.
    is_in_register: bool,
    /// Where it has been stored, from the canonical frame address (CFA).
    slot: Option<i64>,
    /// How far from the CFA registers point.
    aliases: [Option<i64>; 32],
    /// A bit for each register that once pointed somewhere into the frame, or was loaded from there. Blocks don't follow each other as
    /// they're executed, so it isn't forgotten.
    copies: u32,
}

impl<'r> Link<'r> {
    /// At the beginning of code; `rules` are its rows of unwind information.
    pub(super) fn new(rules: &'r [Rules]) -> Self {
        let (is_in_register, slot, aliases) = (rules.is_empty(), None, [None; 32]);
        let copies = 1 << STACK | 1 << FRAME;
        let mut link = Self { rules, is_in_register, slot, aliases, copies };
        if rules.is_empty() {
            // What has just been called begins so.
            link.set(STACK, Some(0));
        }
        link
    }

    /// Does the instruction `word` at `address`, which is the next one, use the return address, or leave the stack?
    pub(super) fn is_used_by(&mut self, word: u32, address: u64) -> bool {
        self.follow_rules(address);
        let access = access(word);
        let uses = self.takes_register(word, access.as_ref())
            || access.as_ref().is_some_and(|access| self.takes_slot(access))
            || self.leaves_stack(word);
        self.step(word, address, access.as_ref());
        uses
    }

    /// Notes what unwind information says of an instruction.
    fn follow_rules(&mut self, address: u64) {
        if self.rules.is_empty() {
            return;
        }
        while let [first, rest @ ..] = self.rules
            && first.end <= address
            && !rest.is_empty()
        {
            self.rules = rest;
        }
        let Some(row) = self.rules.first().filter(|row| (row.start..row.end).contains(&address))
        else {
            return;
        };
        self.set(STACK, None);
        if let Some((register, distance)) = row.cfa {
            self.set(u32::from(register), distance.checked_neg());
        }
        match row.returns {
            Returns::InRegister => (self.is_in_register, self.slot) = (true, None),
            Returns::At(slot) => self.slot = Some(slot),
            Returns::Nowhere | Returns::Elsewhere => {
                (self.is_in_register, self.slot) = (false, None);
            }
        }
    }

    fn alias(&self, register: u32) -> Option<i64> {
        self.aliases.get(register as usize).copied().flatten()
    }

    fn set(&mut self, register: u32, alias: Option<i64>) {
        if let Some(place) = self.aliases.get_mut(register as usize) {
            *place = alias;
        }
    }

    fn is_copy(&self, register: u32) -> bool {
        self.copies >> register & 1 == 1
    }

    /// Does it read the register, other than to store it in the frame or to return?
    fn takes_register(&self, word: u32, access: Option<&Access>) -> bool {
        if !self.is_in_register {
            return false;
        }
        let Some(access) = access else {
            let reads = uses(word).reads >> LINK & 1 == 1;
            return reads && flow(word, 0) != Flow::Return || word == WITHOUT_SIGNATURE;
        };
        let is_stored = !access.is_load && access.registers.contains(&Some(LINK));
        access.base == LINK || is_stored && !self.is_copy(access.base)
    }

    /// Does it load the address from the frame into another register, or store something else there?
    fn takes_slot(&self, access: &Access) -> bool {
        let Some((slot, base)) = self.slot.zip(self.alias(access.base)) else { return false };
        let Some(first) = base.checked_add(access.offset) else { return false };
        (0..).zip(access.registers).any(|(number, register)| {
            let at = first.saturating_add(number * access.size);
            let is_there = at < slot.saturating_add(WORD) && slot < at.saturating_add(access.size);
            is_there && register.is_some_and(|register| register != LINK)
        })
    }

    /// Does it go to another stack?
    fn leaves_stack(&self, word: u32) -> bool {
        let sets = sets_stack(word);
        let by_register = word & 0x7fe0_0000 == 0x0b20_0000 || word & 0x7fe0_0000 == 0x4b20_0000;
        let is_frame = self.is_copy(rn(word)) || by_register && self.is_copy(rm(word));
        sets && !is_frame
    }

    /// Notes what is known after the instruction.
    fn step(&mut self, word: u32, address: u64, access: Option<&Access>) {
        match flow(word, address) {
            Flow::Call(_) | Flow::IndirectCall => {
                self.is_in_register = false;
                self.forget(SCRATCH | 1 << LINK);
            }
            // What follows is reached from elsewhere.
            Flow::Jump(_) | Flow::IndirectJump | Flow::Return | Flow::End => {
                self.is_in_register = self.rules.is_empty() && self.slot.is_none();
                self.forget(u32::MAX);
            }
            Flow::Branch(_) => {}
            Flow::Next => match access {
                Some(access) => self.step_access(access),
                None => self.step_plain(word),
            },
        }
    }

    fn forget(&mut self, registers: u32) {
        for (number, alias) in (0..).zip(&mut self.aliases) {
            if registers >> number & 1 == 1 {
                *alias = None;
            }
        }
    }

    /// Notes what a load or a store has changed.
    fn step_access(&mut self, access: &Access) {
        let base = self.alias(access.base);
        let stored = access.registers.iter().position(|one| *one == Some(LINK));
        if let Some(number) = stored
            && !access.is_load
            && self.rules.is_empty()
            && self.is_in_register
        {
            let at = base.and_then(|base| base.checked_add(access.offset));
            let number = i64::try_from(number).unwrap_or(0);
            self.slot = at.map(|at| at.saturating_add(number * access.size));
        }
        if access.is_load {
            let is_frame = self.is_copy(access.base);
            for register in access.registers.into_iter().flatten().filter(|one| *one != 31) {
                self.set(register, None);
                self.copies |= u32::from(is_frame) << register;
                self.is_in_register &= register != LINK;
            }
        }
        if access.moves != 0 {
            let moved = base.and_then(|base| base.checked_add(access.moves));
            self.set(access.base, moved);
        }
    }

    /// Notes what another instruction has changed.
    fn step_plain(&mut self, word: u32) {
        let (target, source) = (rd(word), rn(word));
        // add and sub of a number: 31 is the stack pointer.
        if word & 0xbf80_0000 == 0x9100_0000 || word & 0xbf80_0000 == 0xb100_0000 {
            let is_compare = word & 0x2000_0000 != 0;
            if is_compare && target == 31 {
                return;
            }
            let amount = i64::from(word >> 10 & 0xfff) << if word >> 22 & 1 == 1 { 12 } else { 0 };
            let amount = if word >> 30 & 1 == 1 { -amount } else { amount };
            let alias = self.alias(source).and_then(|alias| alias.checked_add(amount));
            self.wrote(target, alias, self.is_copy(source));
            return;
        }
        // mov of a register.
        if word & 0xffe0_ffe0 == 0xaa00_03e0 {
            let source = rm(word);
            if target != 31 {
                self.wrote(target, self.alias(source), source != 31 && self.is_copy(source));
            }
            return;
        }
        if sets_stack(word) {
            self.wrote(STACK, None, true);
            return;
        }
        // Sums with a copy of the stack pointer, and such a copy without its low bits, lead into the frame.
        let is_sum = word & 0x1f00_0000 == 0x0b00_0000 || word & 0x1f80_0000 == 0x1200_0000;
        let of_frame = is_sum && (self.is_copy(source) && source != 31 || is_of_stack(word));
        let writes = uses(word).writes;
        for register in (0..31).filter(|register| writes >> register & 1 == 1) {
            self.wrote(register, None, of_frame);
        }
    }

    fn wrote(&mut self, register: u32, alias: Option<i64>, is_copy: bool) {
        self.set(register, alias);
        self.copies |= u32::from(is_copy) << register;
        self.is_in_register &= register != LINK;
    }
}

/// Whether 31 means the stack pointer as the first source of a sum: that of an extended register.
fn is_of_stack(word: u32) -> bool {
    word & 0x1fe0_0000 == 0x0b20_0000 && rn(word) == STACK
}

/// Whether it sets the stack pointer by a sum, a difference or `and`: those that set no flags.
fn sets_stack(word: u32) -> bool {
    let of_number = word & 0x3f80_0000 == 0x1100_0000;
    let of_register = word & 0x3fe0_0000 == 0x0b20_0000;
    // and, orr and eor of a number; `ands` has both bits.
    let of_bits = word & 0x1f80_0000 == 0x1200_0000 && word >> 29 & 3 != 3;
    rd(word) == STACK && (of_number || of_register || of_bits) && word >> 31 == 1
}
