//! Jumps that differ from the code that they replace in one byte.
//!
//! The bytes behind the first one of an instruction are read as the distance of a jump. Where that leads to is free memory more often than not,
//! so what the jump needs can be put there. One byte switches it, while threads run, and the function is as its compiler left it in
//! between. That's instruction punning (Chamith, Svensson, Dalessandro, Newton, PLDI 2017; `E9Patch`, Duck, Gao, Roychoudhury, PLDI 2020).
//!
//! A function that only calls another one last begins with such a jump already. Then it's one byte of the distance that differs: the two high ones
//! lead out of the module.
//!
//! If the first instruction leads nowhere, the next one may. A thread that jumps there has executed what's before it. All of that
//! can be executed once more if it's undone first: pushed registers get their values back, and the stack pointer is raised.
//! Registers that were written and not pushed stay as they are, as they're written again, with the same value: nothing that was
//! executed takes them for what they were.

use super::JUMP;
use super::instruction::decoder;
use crate::probe::Pun;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Range, RangeInclusive};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// The first byte of a jump.
const OPCODE: u8 = 0xe9;
/// The bytes of its distance by which it leads far away: 64 KiB, and 16 MiB.
const DISTANCE: [usize; 2] = [3, 4];
/// Addresses that a process can have memory at, unless it asks for higher ones (`vm.mmap_min_addr`; x86-64 psABI, figure 3.10).
const PROCESS: Range<u64> = 1 << 16..(1 << 47) - 4096;
/// The high bits of prefixes that give an opcode registers of 64 bits, and more of them (Intel SDM, volume 2, 2.2.1).
const REX: u8 = 0x40;

/// Where a jump can replace one of the instructions in the first `moved` bytes of `code`, which is at `at`, by one byte. Nothing may lead to
/// these but from the first of them on.
pub(super) fn puns(code: &[u8], moved: usize, at: u64) -> Vec<Pun> {
    let mut decoder = decoder(code, at);
    let mut done = Done::default();
    let mut puns = Vec::new();
    while decoder.position() < moved && decoder.can_decode() {
        let start = decoder.position();
        if let Some(undo) = done.undo() {
            // Behind a REX prefix is the opcode. Of a jump, the prefix changes nothing.
            let has_prefix = code.get(start).is_some_and(|first| first & 0xf0 == REX);
            for offset in start..=start + usize::from(has_prefix) {
                let Some(jump) = code.get(offset..).and_then(|rest| rest.first_chunk().copied())
                else {
                    continue;
                };
                let end = at.wrapping_add((offset + JUMP) as u64);
                let found = ways(jump, end).into_iter();
                puns.extend(
                    found.filter(|(_, targets)| !targets.is_empty()).map(|(place, targets)| Pun {
                        offset,
                        place,
                        targets,
                        undo: undo.clone(),
                    }),
                );
            }
        }
        if done.execute(&decoder.decode()).is_none() {
            break;
        }
    }
    puns
}

/// Where these bytes, which end there, lead to as a jump if one of them is another: which one, and what it can be.
fn ways(jump: [u8; JUMP], end: u64) -> Vec<(usize, Vec<(u8, u64)>)> {
    if jump.first() == Some(&OPCODE) {
        return DISTANCE.map(|place| (place, targets(jump, end, place, 0..=u8::MAX))).to_vec();
    }
    vec![(0, targets(jump, end, 0, OPCODE..=OPCODE))]
}

/// Where it leads to with one of these as the byte at `place`, unless that's there already.
fn targets(jump: [u8; JUMP], end: u64, place: usize, values: RangeInclusive<u8>) -> Vec<(u8, u64)> {
    let target = |value: u8| {
        let mut changed = jump;
        let byte = changed.get_mut(place).filter(|byte| **byte != value)?;
        *byte = value;
        let [_, distance @ ..] = changed;
        let target = end.wrapping_add_signed(i32::from_le_bytes(distance).into());
        PROCESS.contains(&target).then_some((value, target))
    };
    let mut found: Vec<(u8, u64)> = values.filter_map(target).collect();
    found.sort_unstable_by_key(|(_, target)| *target);
    found
}

/// What instructions have done. Registers have the numbers that instructions have for them.
#[derive(Default)]
struct Done {
    /// By how many bytes they have lowered the stack pointer.
    lowered: u32,
    /// Registers that they have pushed with the values that these had, and how low the stack pointer was then.
    pushed: Vec<(u8, u32)>,
    written: Vec<u8>,
    /// Registers whose values at the beginning they have used.
    used: Vec<u8>,
}

impl Done {
    /// Adds an instruction. `None` if it's none that can be undone.
    fn execute(&mut self, one: &Instruction) -> Option<()> {
        if one.is_invalid() || one.has_rep_prefix() || one.has_repne_prefix() {
            return None;
        }
        let is_register = one.op0_kind() == OpKind::Register;
        let (first, second) = (one.op0_register(), one.op1_register());
        let (quad, whole) = (of_64_bits(first), whole(first));
        match one.mnemonic() {
            Mnemonic::Push if is_register => self.push(quad?),
            Mnemonic::Sub if first == Register::RSP => {
                let bytes = u32::try_from(immediate(one)?).ok()?;
                self.lowered = self.lowered.checked_add(bytes)?;
                i32::try_from(self.lowered).ok().map(|_| ())
            }
            // Flags mean nothing where a function begins.
            Mnemonic::Test | Mnemonic::Cmp => self.read_operands(one, 0),
            Mnemonic::Nop => Some(()),
            // It's 0, whatever it was.
            Mnemonic::Xor | Mnemonic::Sub if is_register && first == second => self.write(whole?),
            Mnemonic::Mov
            | Mnemonic::Lea
            | Mnemonic::Movzx
            | Mnemonic::Movsx
            | Mnemonic::Movsxd
                if is_register =>
            {
                self.read_operands(one, 1)?;
                self.write(whole?)
            }
            _ => None,
        }
    }

    fn push(&mut self, register: u8) -> Option<()> {
        if register == RSP {
            return None;
        }
        self.lowered = self.lowered.checked_add(8)?;
        if !self.written.contains(&register) {
            self.pushed.push((register, self.lowered));
        }
        self.read(register);
        Some(())
    }

    /// Notes that the operands from this one on are read.
    fn read_operands(&mut self, one: &Instruction, from: u32) -> Option<()> {
        for operand in from..one.op_count() {
            match one.op_kind(operand) {
                OpKind::Register => self.read(number(one.op_register(operand))?),
                OpKind::Memory => {
                    let registers = [one.memory_base(), one.memory_index()];
                    let no_addresses = [Register::None, Register::RIP];
                    for register in registers.into_iter().filter(|one| !no_addresses.contains(one))
                    {
                        self.read(number(register)?);
                    }
                }
                _ => {}
            }
        }
        Some(())
    }

    fn read(&mut self, register: u8) {
        if register != RSP && !self.written.contains(&register) {
            self.used.push(register);
        }
    }

    fn write(&mut self, register: u8) -> Option<()> {
        self.written.push(register);
        (register != RSP).then_some(())
    }

    /// Instructions that undo it. `None` if it can't be.
    fn undo(&self) -> Option<Vec<u8>> {
        let mut code = Vec::new();
        for register in &self.written {
            match self.pushed.iter().find(|(pushed, _)| pushed == register) {
                // mov distance(%rsp), register
                Some((_, lowered)) => put(&mut code, (0x8b, *register), self.lowered - lowered),
                None if self.used.contains(register) => return None,
                None => {}
            }
        }
        if self.lowered != 0 {
            // lea distance(%rsp), %rsp
            put(&mut code, (0x8d, RSP), self.lowered);
        }
        Some(code)
    }
}

/// The number of the stack pointer.
const RSP: u8 = 4;

/// The number of a general-purpose register of 64 bits.
fn of_64_bits(register: Register) -> Option<u8> {
    place(register, Register::RAX).filter(|number| *number < 16)
}

/// The number of a register of which no earlier value shows once it's written.
fn whole(register: Register) -> Option<u8> {
    of_64_bits(register).or_else(|| place(register, Register::EAX).filter(|number| *number < 16))
}

/// The number of a general-purpose register of any size.
fn number(register: Register) -> Option<u8> {
    let of_16_bits = || place(register, Register::AX).filter(|number| *number < 16);
    // Behind the first four are the second bytes of these.
    let of_8_bits = || place(register, Register::AL).filter(|number| *number < 20);
    let of_8_bits = || of_8_bits().map(|place| if place < 4 { place } else { place - 4 });
    whole(register).or_else(of_16_bits).or_else(of_8_bits)
}

/// How many registers are between this one and the first of its kind.
fn place(register: Register, first: Register) -> Option<u8> {
    u8::try_from((register as usize).checked_sub(first as usize)?).ok()
}

/// A number that an instruction has as its second operand.
fn immediate(one: &Instruction) -> Option<u64> {
    let is_number = matches!(one.op1_kind(), OpKind::Immediate8to64 | OpKind::Immediate32to64);
    is_number.then(|| one.immediate(1))
}

/// Adds an instruction with this opcode, one of a register and memory so far above the stack pointer.
fn put(code: &mut Vec<u8>, (opcode, register): (u8, u8), distance: u32) {
    code.extend([0x48 | register >> 3 << 2, opcode, 0x84 | (register & 7) << 3, 0x24]);
    code.extend(distance.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that instructions lead to from here is a process's.
    const AT: u64 = 0x5555_5555_4000;

    /// Offsets and targets of what is found that turns something else into a jump, and what undoes it.
    fn found(code: &[u8], moved: usize) -> Vec<(usize, u64, Vec<u8>)> {
        let puns = puns(code, moved, AT).into_iter().filter(|pun| pun.place == 0);
        puns.map(|pun| (pun.offset, pun.targets[0].1, pun.undo)).collect()
    }

    #[test]
    fn each_instruction_that_can_be_undone_is_one() {
        // push %rbp; mov %rsp, %rbp; push %r15; then whatever.
        let code = [0x55, 0x48, 0x89, 0xe5, 0x41, 0x57, 0x11, 0x22, 0x33, 0x44];
        let raised = |by: u8| vec![0x48, 0x8d, 0xa4, 0x24, by, 0, 0, 0];
        let restored = [vec![0x48, 0x8b, 0xac, 0x24, 0, 0, 0, 0], raised(8)].concat();
        let expected = vec![
            (0, AT + 5 + 0x41e5_8948, vec![]),
            (1, AT + 6 + 0x5741_e589, raised(8)),
            (2, AT + 7 + 0x1157_41e5, raised(8)),
            (4, AT + 9 + 0x3322_1157, restored.clone()),
            (5, AT + 10 + 0x4433_2211, restored),
        ];
        assert_eq!(found(&code, 6), expected);
        assert_eq!(found(&code, 1), expected[..1]);
        // Not all of the bytes are there.
        assert_eq!(found(&code[..8], 6), expected[..3]);
    }

    /// In jumps, it's one of two bytes of the distance, and its targets are apart by what that counts.
    #[test]
    fn a_jump_leads_elsewhere_by_one_byte_of_its_distance() {
        // push %rax; lea -8(%rsi), %rdi; jmp; then whatever.
        let code = [0x50, 0x48, 0x8d, 0x7e, 0xf8, 0xe9, 0xab, 0x1d, 0xf8, 0xff, 0xe9, 1, 2, 3, 4];
        let there = AT + 10 - 0x7e255;
        let jumps = [(0, 5, AT + 5 - 0x7e255), (5, 10, there)];
        for (offset, moved, there) in jumps {
            let found = puns(&code[5 - offset..], moved, AT);
            let found: Vec<Pun> = found.into_iter().filter(|pun| pun.place != 0).collect();
            let places: Vec<_> = found.iter().map(|pun| (pun.offset, pun.place)).collect();
            assert_eq!(places, [(offset, 3), (offset, 4)]);
            for (pun, unit) in found.iter().zip([1 << 16, 1 << 24]) {
                assert_eq!(pun.targets.len(), 255);
                let was = code[5 + pun.place];
                for (value, target) in &pun.targets {
                    let distance = i64::from(*value) - i64::from(was);
                    // The highest byte has a sign.
                    let wrong = if pun.place == 4 && *value < 0x80 { 256 } else { 0 };
                    assert_eq!(*target, there.wrapping_add_signed((distance + wrong) * unit));
                }
                assert!(pun.targets.is_sorted_by_key(|(_, target)| *target));
                assert_eq!(pun.undo.is_empty(), offset == 0);
            }
        }
    }

    #[test]
    fn no_jump_leads_out_of_the_process() {
        // jmp, at the lowest addresses of a program that isn't position-independent.
        let found = puns(&[0xe9, 0, 0, 0, 0], 5, 0x40_1000);
        let counts: Vec<usize> = found.iter().map(|pun| pun.targets.len()).collect();
        assert_eq!(counts, [255, 127]);
    }

    /// Code, and how many of its instructions are one.
    #[test]
    fn what_is_executed_twice_gives_the_same() {
        let cases: &[(&str, &[u8], usize)] = &[
            ("xor %edx, %edx; mov %rdi, %rax", &[0x31, 0xd2, 0x48, 0x89, 0xf8], 2),
            ("mov %rdi, %rax; mov %rsi, %rdi", &[0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7], 2),
            ("mov %rdi, %rax; mov %rsi, %rdi; nop", &[0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0x90], 2),
            ("push %rdi; mov %rsi, %rdi; nop", &[0x57, 0x48, 0x89, 0xf7, 0x90], 3),
            ("mov %rsi, %rbx; push %rbx; nop", &[0x48, 0x89, 0xf3, 0x53, 0x90], 3),
            (
                "mov %rbx, %rax; mov %rsi, %rbx; push %rbx; nop",
                &[0x48, 0x89, 0xd8, 0x48, 0x89, 0xf3, 0x53, 0x90],
                2,
            ),
            ("add $1, %rdi; nop", &[0x48, 0x83, 0xc7, 1, 0x90], 1),
            ("mov (%rdi), %rdi; nop", &[0x48, 0x8b, 0x3f, 0x90], 1),
            ("mov (%rdi), %rax; nop", &[0x48, 0x8b, 0x07, 0x90], 2),
            ("mov %dil, %al; nop", &[0x40, 0x88, 0xf8, 0x90], 1),
            ("mov %rdi, (%rsi); nop", &[0x48, 0x89, 0x3e, 0x90], 1),
            ("mov %rdi, %rsp; nop", &[0x48, 0x89, 0xfc, 0x90], 1),
            ("push %rsp; nop", &[0x54, 0x90], 1),
            ("sub %rdi, %rsp; nop", &[0x48, 0x29, 0xfc, 0x90], 1),
            ("sub $-8, %rsp; nop", &[0x48, 0x83, 0xec, 0xf8, 0x90], 1),
            ("call; nop", &[0xe8, 0, 0, 0, 0, 0x90], 1),
            ("jmp; nop", &[0xe9, 0, 0, 0, 0, 0x90], 0),
        ];
        for (name, code, expected) in cases {
            let padded = [code, &[0; 8][..]].concat();
            let found = found(&padded, code.len());
            let has_prefix = |(offset, ..): &&(usize, u64, Vec<u8>)| {
                offset.checked_sub(1).is_some_and(|at| code[at] & 0xf0 == REX)
            };
            let second = found.iter().filter(has_prefix).count();
            assert_eq!(found.len() - second, *expected, "{name}");
        }
    }
}
