//! Writes instructions so that they mean the same elsewhere.

use super::JUMP;
use super::instruction::{Flow, can_move, decoder, flow};
use crate::probe::{Lowered, Relocated, Unmovable};
use alloc::vec::Vec;
use iced_x86::Instruction;

/// The instructions `moved`, which were at `from`, for execution at `to`, and behind them a jump to what followed. Addresses are those
/// of the process. Uses no more than [`MOVED_MOST`] bytes.
///
/// # Errors
///
/// An instruction can't move, or refers to what is too far from `to`.
pub(super) fn relocate(moved: &[u8], from: u64, to: u64) -> Result<Relocated, Unmovable> {
    let mut new = Relocated { code: Vec::new(), places: Vec::new(), lowered: None };
    let mut decoder = decoder(moved, from);
    let mut goes_on = true;
    while decoder.can_decode() {
        let start = decoder.position();
        let one = decoder.decode();
        let Some(bytes) = moved.get(start..decoder.position()).filter(|_| !one.is_invalid()) else {
            return Err(Unmovable::NotDecoded(one.ip()));
        };
        if new.lowered.is_some() {
            return Err(Unmovable::Call(one.ip()));
        }
        if !can_move(&one) {
            return Err(Unmovable::Instruction(one.ip()));
        }
        new.places.push((start, new.code.len()));
        let distance = decoder.get_constant_offsets(&one);
        let operand = one.is_ip_rel_memory_operand().then(|| distance.displacement_offset());
        let at = Moving { one, bytes, operand, to };
        goes_on = at.write(&mut new)?;
    }
    let length = new.code.len();
    if let Some(lowered) = &mut new.lowered {
        lowered.code.end = length;
    }
    if goes_on {
        let end = from.wrapping_add(moved.len() as u64);
        jump(&mut new.code, to, end, from)?;
    }
    Ok(new)
}

/// The bytes that [`relocate`] uses at most: 4 bytes of instructions that are jumps (two of 2 bytes, which grow to 9), one of 15 bytes, a call
/// and a jump.
pub(super) const MOVED_MOST: usize = 64;

/// An instruction that moves.
struct Moving<'m> {
    one: Instruction,
    bytes: &'m [u8],
    /// Where its distance to an operand is.
    operand: Option<usize>,
    /// Where all of the code will be.
    to: u64,
}

impl Moving<'_> {
    /// Writes the instruction. Whether execution can reach the next one.
    fn write(&self, new: &mut Relocated) -> Result<bool, Unmovable> {
        let from = self.one.ip();
        match flow(&self.one) {
            Flow::Jump(target) => jump(&mut new.code, self.to, target, from).map(|()| false),
            Flow::Branch(target) => self.branch(&mut new.code, target).map(|()| true),
            Flow::Call(target) => {
                push(new, JUMP);
                jump(&mut new.code, self.to, target, from)?;
                new.code.extend(self.one.next_ip().to_le_bytes());
                Ok(false)
            }
            Flow::IndirectCall => {
                push(new, self.bytes.len());
                let start = new.code.len();
                self.copy(&mut new.code)?;
                // Of an indirect call and an indirect jump, the middle bits of the second byte differ: 2 and 4.
                let opcode = self.opcode().ok_or(Unmovable::Instruction(from))?;
                let second = new.code.get_mut(start + opcode + 1);
                let second = second.ok_or(Unmovable::Instruction(from))?;
                *second = *second & !0x38 | 4 << 3;
                new.code.extend(self.one.next_ip().to_le_bytes());
                Ok(false)
            }
            Flow::Next => self.copy(&mut new.code).map(|()| true),
            Flow::IndirectJump | Flow::End => self.copy(&mut new.code).map(|()| false),
        }
    }

    /// Where the byte `ff` of an indirect call is, behind its prefixes.
    fn opcode(&self) -> Option<usize> {
        self.bytes.iter().position(|byte| *byte == 0xff)
    }

    /// Copies it, with another distance to its operand.
    fn copy(&self, code: &mut Vec<u8>) -> Result<(), Unmovable> {
        let start = code.len();
        code.extend(self.bytes);
        let Some(operand) = self.operand else { return Ok(()) };
        let end = self.to.wrapping_add(code.len() as u64);
        let from = self.one.ip();
        let distance = distance(end, self.one.ip_rel_memory_address(), from)?;
        let field = code.get_mut(start + operand..start + operand + 4);
        field.ok_or(Unmovable::Instruction(from))?.copy_from_slice(&distance);
        Ok(())
    }

    /// Writes a conditional branch in its long form. Those that have none jump around a jump.
    fn branch(&self, code: &mut Vec<u8>, target: u64) -> Result<(), Unmovable> {
        let from = self.one.ip();
        // Both forms have the condition in the low bits of the opcode.
        let condition = match self.bytes {
            [.., 0x0f, opcode @ 0x80..=0x8f, _, _, _, _] | [.., opcode @ 0x70..=0x7f, _] => {
                Some(opcode & 0xf)
            }
            _ => None,
        };
        if let Some(condition) = condition {
            let end = self.to.wrapping_add(code.len() as u64 + 6);
            let distance = distance(end, target, from)?;
            code.extend([0x0f, 0x80 | condition]);
            code.extend(distance);
            return Ok(());
        }
        let Some((_, opcode)) = self.bytes.split_last() else {
            return Err(Unmovable::Instruction(from));
        };
        code.extend(opcode);
        code.extend([2, 0xeb, 5]);
        jump(code, self.to, target, from)
    }
}

/// Pushes the word that follows the next instruction, which has `next` bytes: the return address of a call.
fn push(new: &mut Relocated, next: usize) {
    new.code.extend([0xff, 0x35]);
    // An instruction has at most 15 bytes.
    new.code.extend(u32::try_from(next).unwrap_or(0).to_le_bytes());
    // It's the last instruction but for a jump.
    new.lowered = Some(Lowered { code: new.code.len()..new.code.len(), bytes: 8 });
}

/// Appends a jump to `target`. The code is at `to`.
fn jump(code: &mut Vec<u8>, to: u64, target: u64, from: u64) -> Result<(), Unmovable> {
    let end = to.wrapping_add((code.len() + JUMP) as u64);
    let distance = distance(end, target, from)?;
    code.push(0xe9);
    code.extend(distance);
    Ok(())
}

/// How far `target` is from `end`, for an instruction that was at `from`.
fn distance(end: u64, target: u64, from: u64) -> Result<[u8; 4], Unmovable> {
    let distance = i32::try_from(target.wrapping_sub(end).cast_signed());
    distance.map(i32::to_le_bytes).map_err(|_| Unmovable::TooFar(from))
}
