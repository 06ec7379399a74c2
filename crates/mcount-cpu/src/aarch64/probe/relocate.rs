//! Writes an instruction so that it means the same elsewhere.
//!
//! No register is free: a caller may know that the function leaves `x16` alone, and assembly does as it likes. So an address is made in the
//! register that the instruction writes anyway. Where there's none (a literal for a vector register), the stack has room for one.

use super::instruction::{
    Flow, LINK, can_move, flow, is_address, is_allocated, is_literal, page, rd, signed,
};
use crate::outside::{code, words};
use crate::probe::{Lowered, Relocated, Unmovable};
use alloc::vec::Vec;

/// The bytes that [`relocate`] uses at most: five instructions for a literal in a vector register, and a jump.
pub(super) const MOVED_MOST: usize = 24;

/// `nop`.
const NOP: u32 = 0xd503_201f;

/// The instruction `moved`, which was at `from`, for execution at `to`, and behind it a jump to what followed. Addresses are those of the
/// process. Uses no more than [`MOVED_MOST`] bytes.
///
/// # Errors
///
/// It can't move, or refers to what is too far from `to`.
pub(super) fn relocate(moved: &[u8], from: u64, to: u64) -> Result<Relocated, Unmovable> {
    let mut moved = words(moved);
    let (Some(word), None) = (moved.next(), moved.next()) else {
        return Err(Unmovable::NotDecoded(from));
    };
    if !is_allocated(word) || !(from | to).is_multiple_of(4) {
        return Err(Unmovable::NotDecoded(from));
    }
    if !can_move(word) {
        return Err(Unmovable::Instruction(from));
    }
    let mut new = Writer { words: Vec::new(), from, to };
    let back = from.wrapping_add(4);
    let mut lowered = None;
    match flow(word, from) {
        Flow::Jump(target) => new.jump(target)?,
        Flow::Call(target) => new.call(target)?,
        Flow::Branch(target) => {
            new.branch(word, target)?;
            new.jump(back)?;
        }
        Flow::Next if is_literal(word) => {
            lowered = new.literal(word)?;
            new.jump(back)?;
        }
        Flow::Next => {
            match page(word, from).filter(|_| is_address(word)) {
                Some(target) => new.address(rd(word), target)?,
                None => new.words.push(word),
            }
            new.jump(back)?;
        }
        _ => new.words.push(word),
    }
    Ok(Relocated { code: code(new.words).collect(), places: Vec::from([(0, 0)]), lowered })
}

/// Instructions for a place.
struct Writer {
    words: Vec<u32>,
    /// Where the instruction was.
    from: u64,
    /// Where these begin.
    to: u64,
}

impl Writer {
    fn here(&self) -> u64 {
        self.to.wrapping_add(4 * self.words.len() as u64)
    }

    fn too_far(&self) -> Unmovable {
        Unmovable::TooFar(self.from)
    }

    /// Jumps to `target`.
    fn jump(&mut self, target: u64) -> Result<(), Unmovable> {
        let jump = super::super::code::armed(self.here(), target);
        self.words.push(u32::from_le_bytes(jump.ok_or_else(|| self.too_far())?));
        Ok(())
    }

    /// Jumps to `target` with the return address of the call that was.
    fn call(&mut self, target: u64) -> Result<(), Unmovable> {
        self.address(LINK, self.from.wrapping_add(4))?;
        self.jump(target)
    }

    /// A conditional branch, over a jump past another one. That needs no opposite condition, and some have none.
    fn branch(&mut self, word: u32, target: u64) -> Result<(), Unmovable> {
        // Bits of the distance: 19 from bit 5 on, or 14 where a single bit is tested.
        let mask = if word & 0x7e00_0000 == 0x3600_0000 { 0x0007_ffe0 } else { 0x00ff_ffe0 };
        self.words.push(word & !mask | 2 << 5);
        self.words.push(0x1400_0002);
        self.jump(target)
    }

    /// An address in `register`.
    fn address(&mut self, register: u32, target: u64) -> Result<(), Unmovable> {
        let low = u32::try_from(target & 0xfff).unwrap_or(0);
        if register == 31 {
            self.words.push(NOP);
            return Ok(());
        }
        self.page(register, target)?;
        if low != 0 {
            self.words.push(0x9100_0000 | low << 10 | register << 5 | register);
        }
        Ok(())
    }

    /// The page of an address in `register`.
    fn page(&mut self, register: u32, target: u64) -> Result<(), Unmovable> {
        let pages = (target >> 12).wrapping_sub(self.here() >> 12).cast_signed();
        let is_near = (-(1 << 20)..1 << 20).contains(&pages);
        let number = i32::try_from(pages).ok().filter(|_| is_near).ok_or_else(|| self.too_far())?;
        let number = number.cast_unsigned();
        self.words
            .push(0x9000_0000 | (number & 3) << 29 | (number >> 2 & 0x7_ffff) << 5 | register);
        Ok(())
    }

    /// A load of a literal; where it has lowered the stack pointer, if it has to.
    fn literal(&mut self, word: u32) -> Result<Option<Lowered>, Unmovable> {
        let target = self.from.wrapping_add_signed(signed(word, 5, 19) * 4);
        let (register, kind, is_vector) = (rd(word), word >> 30, word >> 26 & 1 == 1);
        if is_vector {
            return self.vector(register, kind, target).map(Some);
        }
        // A prefetch is a hint, and so is a load whose value nobody gets.
        if kind == 3 || register == 31 {
            self.words.push(NOP);
            return Ok(None);
        }
        self.address(register, target)?;
        // ldr of 4 bytes and of 8, ldrsw.
        let load = match kind {
            0 => 0xb940_0000,
            1 => 0xf940_0000,
            _ => 0xb980_0000,
        };
        self.words.push(load | register << 5 | register);
        Ok(None)
    }

    /// A literal for a vector register, by `x16`, which is kept on the stack meanwhile.
    fn vector(&mut self, register: u32, kind: u32, target: u64) -> Result<Lowered, Unmovable> {
        const BASE: u32 = 16;
        let load = match kind {
            0 => 0xbd40_0000,
            1 => 0xfd40_0000,
            2 => 0x3dc0_0000,
            _ => return Err(Unmovable::NotDecoded(self.from)),
        };
        self.words.push(0xf81f_0ff0); // str x16, [sp, #-16]!
        self.address(BASE, target)?;
        self.words.push(load | BASE << 5 | register);
        let lowered = Lowered { code: 4..4 * self.words.len() + 4, bytes: 16 };
        self.words.push(0xf841_07f0); // ldr x16, [sp], #16
        Ok(lowered)
    }
}
