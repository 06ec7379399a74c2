//! Looks through code for what it leads to, and for what makes a function impossible to plan.

use super::instruction::{Flow, decoder, flow};
use super::stack::Stack;
use crate::probe::{Base, Kind, Piece, References, Rules, Scanned};
use alloc::vec;
use alloc::vec::Vec;
use iced_x86::{Instruction, Mnemonic, OpKind};

/// Looks through a piece of code: adds what its instructions lead to, and says what's odd. `rules` is what unwind information says of
/// it, if it does.
pub(super) fn scan(piece: Piece<'_>, rules: &[Rules], references: &mut References) -> Scanned {
    let mut scan = Scan {
        bytes: piece.bytes,
        start: piece.start,
        stack: Stack::new(rules),
        is_fixed: piece.is_fixed,
        references,
        boundaries: vec![0; piece.bytes.len().div_ceil(64)],
        inner: Vec::new(),
        found: Scanned::default(),
    };
    scan.run();
    scan.found
}

struct Scan<'s> {
    bytes: &'s [u8],
    start: u64,
    stack: Stack<'s>,
    is_fixed: bool,
    references: &'s mut References,
    /// A bit for each byte at which an instruction begins.
    boundaries: Vec<u64>,
    /// Where branches lead inside.
    inner: Vec<u64>,
    found: Scanned,
}

impl Scan<'_> {
    fn run(&mut self) {
        let mut decoder = decoder(self.bytes, self.start);
        let mut one = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut one);
            if one.is_invalid() {
                self.found.undecoded = Some(one.ip());
                break;
            }
            self.mark(one.ip());
            self.look(&one);
            if self.stack.is_used_by(&one) && self.found.uses_return.is_none() {
                self.found.uses_return = Some(one.ip());
            }
            let flow = flow(&one);
            let goes_on = matches!(flow, Flow::Next | Flow::Branch(_));
            self.found.falls_from = goes_on.then_some(one.ip());
        }
        if self.found.undecoded.is_none() {
            self.follow_odd();
        }
        if self.found.undecoded.is_some() {
            any(self.bytes, self.start, self.references);
        }
    }

    fn offset(&self, address: u64) -> Option<usize> {
        let offset = usize::try_from(address.checked_sub(self.start)?).ok()?;
        (offset < self.bytes.len()).then_some(offset)
    }

    /// Notes that an instruction begins at `address`.
    fn mark(&mut self, address: u64) {
        if let Some(offset) = self.offset(address)
            && let Some(word) = self.boundaries.get_mut(offset / 64)
        {
            *word |= 1 << (offset % 64);
        }
    }

    fn is_marked(&self, offset: usize) -> bool {
        self.boundaries.get(offset / 64).is_some_and(|word| word >> (offset % 64) & 1 == 1)
    }

    /// Adds what an instruction leads to.
    fn look(&mut self, one: &Instruction) {
        let source = one.ip();
        match flow(one) {
            Flow::Branch(target) | Flow::Jump(target) => {
                self.references.add(target, source, Kind::Jump);
                if self.offset(target).is_some() {
                    self.inner.push(target);
                }
            }
            Flow::Call(target) => self.references.add(target, source, Kind::Call),
            Flow::IndirectJump => {
                let by_word = one.op0_kind() == OpKind::Memory && one.is_ip_rel_memory_operand();
                self.found.jumps_by_register |= !by_word;
            }
            _ => {}
        }
        if one.is_ip_rel_memory_operand() {
            let address = one.ip_rel_memory_address();
            self.references.add(address, source, Kind::Address);
            if one.mnemonic() == Mnemonic::Lea {
                self.references.bases.push(Base { source, address });
            }
        }
        if self.is_fixed {
            self.look_at_numbers(one);
        }
    }

    /// In a file with fixed addresses, numbers can be addresses.
    fn look_at_numbers(&mut self, one: &Instruction) {
        for operand in 0..one.op_count() {
            let number = match one.op_kind(operand) {
                OpKind::Immediate32 => u64::from(one.immediate32()),
                OpKind::Immediate64 => one.immediate64(),
                OpKind::Immediate32to64 => one.immediate32to64().cast_unsigned(),
                OpKind::Memory if !one.is_ip_rel_memory_operand() => one.memory_displacement64(),
                _ => continue,
            };
            self.references.add(number, one.ip(), Kind::Address);
        }
    }

    /// Branches that lead inside an instruction, as around a `lock` prefix: decodes from there until both agree.
    fn follow_odd(&mut self) {
        let inner = core::mem::take(&mut self.inner);
        let mut left = 4 * self.bytes.len();
        for target in inner {
            let Some(mut offset) = self.offset(target) else { continue };
            while !self.is_marked(offset) {
                let Some(bytes) = self.bytes.get(offset..).filter(|rest| !rest.is_empty()) else {
                    break;
                };
                let one = decoder(bytes, self.start.wrapping_add(offset as u64)).decode();
                let (Some(rest), false) = (left.checked_sub(one.len().max(1)), one.is_invalid())
                else {
                    self.found.undecoded = Some(target);
                    return;
                };
                left = rest;
                self.look(&one);
                offset += one.len();
                if offset == self.bytes.len() {
                    break;
                }
            }
        }
        // What they lead to in turn can be odd as well, but no compiler does that.
        let odd = self
            .inner
            .iter()
            .copied()
            .find(|target| self.offset(*target).is_some_and(|offset| !self.is_marked(offset)));
        self.found.undecoded = odd;
    }
}

/// Adds whatever the bytes at any offset would lead to, if they were an instruction: for code of which we don't know where
/// instructions begin.
fn any(bytes: &[u8], start: u64, references: &mut References) {
    far(bytes, start, references);
    for (offset, pair) in bytes.windows(2).enumerate() {
        let &[0xeb | 0x70..=0x7f | 0xe0..=0xe3, distance] = pair else { continue };
        let source = start.wrapping_add(offset as u64);
        let target = source.wrapping_add(2).wrapping_add_signed(i64::from(distance.cast_signed()));
        references.add(target, source, Kind::Jump);
    }
}

/// The same, of instructions that lead farther than 128 bytes.
pub(super) fn far(bytes: &[u8], start: u64, references: &mut References) {
    for (offset, pair) in bytes.windows(2).enumerate() {
        let (length, kind) = match *pair {
            [0xe8, _] => (5, Kind::Call),
            [0xe9, _] => (5, Kind::Jump),
            // A conditional jump, and `xbegin`.
            [0x0f, 0x80..=0x8f] | [0xc7, 0xf8] => (6, Kind::Jump),
            [0x8d, modrm] if modrm & 0xc7 == 5 => (6, Kind::Address),
            _ => continue,
        };
        let distance = bytes.get(offset + length - 4..).and_then(|rest| rest.first_chunk());
        let Some(distance) = distance else { continue };
        let distance = i64::from(i32::from_le_bytes(*distance));
        let source = start.wrapping_add(offset as u64);
        let target = source.wrapping_add(length as u64).wrapping_add_signed(distance);
        references.add(target, source, kind);
        if kind == Kind::Address {
            references.bases.push(Base { source, address: target });
        }
    }
}
