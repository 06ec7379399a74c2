//! The effect of a prologue of Arm code on the stack, in both instruction sets.
//!
//! With `-pg` the hook is after the prologue. The caller's address is in `lr` then, because that's what the hook is called
//! with; and the prologue may have stored it besides, which is where the function will return by.

use super::{PUSHES, SHORT_PUSH};

const SP: u32 = 13;
const LR: u32 = 14;

/// The frame that a prologue has made, as far as it's about the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// How many bytes higher the stack pointer was when the function was entered.
    pub depth: u32,
    /// How many bytes above the stack pointer the caller's address was stored; `None`: it wasn't.
    pub link: Option<u32>,
}

/// What the instructions of a prologue do to the stack, of which the last one pushes `lr` for the hook: that one doesn't count.
/// `None` if it doesn't, or if something happens to the stack that isn't known.
#[must_use]
pub fn frame(prologue: &[u8]) -> Option<Frame> {
    let mut state = Prologue { depth: 0, stored: None };
    if let Some(rest) = PUSHES.iter().find_map(|push| prologue.strip_suffix(push)) {
        for bytes in rest.as_chunks::<4>().0 {
            state.word(u32::from_le_bytes(*bytes))?;
        }
    } else {
        let mut rest = prologue.strip_suffix(&SHORT_PUSH)?;
        while let Some((first, behind)) = half(rest) {
            rest = behind;
            if first < 0xe800 {
                state.short(first)?;
            } else {
                let (second, behind) = half(rest)?;
                rest = behind;
                state.long(first, second)?;
            }
        }
    }
    let depth = u32::try_from(state.depth).ok()?;
    let link = match state.stored {
        Some(stored) => Some(u32::try_from(state.depth.checked_sub(stored)?).ok()?),
        None => None,
    };
    Some(Frame { depth, link })
}

fn half(code: &[u8]) -> Option<(u32, &[u8])> {
    let (bytes, rest) = code.split_first_chunk::<2>()?;
    Some((u32::from(u16::from_le_bytes(*bytes)), rest))
}

/// The frame after some instructions of a prologue.
struct Prologue {
    /// Bytes that the stack has grown by.
    depth: i64,
    /// The depth at which `lr` was stored.
    stored: Option<i64>,
}

impl Prologue {
    fn grow(&mut self, bytes: u32) {
        self.depth += i64::from(bytes);
    }

    /// `push` of the registers that are bits of this list.
    fn push(&mut self, list: u32) {
        self.grow(4 * list.count_ones());
        if list >> LR & 1 != 0 {
            let below = list & ((1 << LR) - 1);
            self.store(LR, 4 * below.count_ones());
        }
    }

    /// A register is stored that many bytes above the stack pointer.
    fn store(&mut self, register: u32, offset: u32) {
        if register == LR && self.stored.is_none() {
            self.stored = Some(self.depth - i64::from(offset));
        }
    }

    /// An instruction of ARM code.
    fn word(&mut self, word: u32) -> Option<()> {
        let (from, to) = (word >> 16 & 15, word >> 12 & 15);
        // What's done only sometimes, and instructions without a condition.
        if word >> 28 != 0xe {
            return None;
        }
        match word {
            // push {…}
            _ if word >> 16 == 0xe92d => self.push(word & 0xffff),
            // str r, [sp, #-n]!
            _ if word >> 16 == 0xe52d => {
                self.grow(word & 0xfff);
                self.store(to, 0);
            }
            // strd r, r+1, [sp, #-n]!
            _ if word & 0xffff_00f0 == 0xe16d_00f0 => {
                self.grow(word >> 4 & 0xf0 | word & 15);
                self.store(to, 0);
                self.store(to + 1, 4);
            }
            // vpush {…}
            _ if word & 0xffbf_0e00 == 0xed2d_0a00 => self.grow(4 * (word & 0xff)),
            // sub sp, sp, #n
            _ if word & 0xffff_f000 == 0xe24d_d000 => {
                self.grow((word & 0xff).rotate_right(word >> 7 & 0x1e));
            }
            // str r, [sp, #n]
            _ if word & 0xffff_0000 == 0xe58d_0000 => self.store(to, word & 0xfff),
            // Branches, and stores and loads that move the stack pointer or load it.
            _ if word >> 25 & 7 == 0b101 => return None,
            _ if word >> 26 & 3 == 0b01 || word >> 25 & 7 == 0b110 || word >> 25 & 7 == 0b100 => {
                let is_load = word >> 20 & 1 != 0;
                let moves = word >> 21 & 1 != 0 || word >> 26 & 3 == 0b01 && word >> 24 & 1 == 0;
                let has = |register| match word >> 25 & 7 {
                    0b100 => word >> register & 1 != 0,
                    0b110 => false,
                    _ => to == register,
                };
                // Nor is it known where else the caller's address is.
                if from == SP && moves || is_load && has(SP) || has(LR) {
                    return None;
                }
            }
            // Data processing, and what is among it; comparisons have no result.
            _ if word & 0x0c00_0000 == 0 => {
                let is_compare = word >> 23 & 3 == 0b10 && word >> 20 & 1 != 0;
                // Stores and loads of half a word, or two.
                let moves = word >> 21 & 1 != 0 || word >> 24 & 1 == 0;
                let moves = word & 0x0e00_0090 == 0x90 && from == SP && moves;
                if to == SP && !is_compare || moves || word & 0x0fff_fff0 == 0x012f_ff10 {
                    return None;
                }
            }
            _ => {}
        }
        Some(())
    }

    /// An instruction of two bytes.
    fn short(&mut self, code: u32) -> Option<()> {
        match code {
            // push {…}
            _ if code & 0xfe00 == 0xb400 => self.push(code & 0xff | (code >> 8 & 1) << LR),
            // sub sp, #n; add sp, #n
            _ if code & 0xff80 == 0xb080 => self.grow(4 * (code & 0x7f)),
            _ if code & 0xff80 == 0xb000 => self.depth -= i64::from(4 * (code & 0x7f)),
            // str r, [sp, #n] has no way to name lr.
            // add sp, r; mov sp, r; pop
            _ if code & 0xff87 == 0x4485 || code & 0xff87 == 0x4685 || code & 0xfe00 == 0xbc00 => {
                return None;
            }
            // bx, blx; b, conditional or not; cbz, cbnz; it
            _ if code & 0xff00 == 0x4700
                || (0xd000..0xe800).contains(&code)
                || code & 0xf500 == 0xb100
                || code & 0xff00 == 0xbf00 && code & 15 != 0 =>
            {
                return None;
            }
            _ => {}
        }
        Some(())
    }

    /// An instruction of four bytes.
    fn long(&mut self, first: u32, second: u32) -> Option<()> {
        let (to, other) = (second >> 12 & 15, second >> 8 & 15);
        match first {
            // push {…}
            0xe92d => self.push(second),
            // str r, [sp, #-n]!
            0xf84d if second & 0x0f00 == 0x0d00 => {
                self.grow(second & 0xff);
                self.store(to, 0);
            }
            // str r, [sp, #n]
            0xf8cd => self.store(to, second & 0xfff),
            // strd r, s, [sp, #-n]! and strd r, s, [sp, #n]
            0xe96d | 0xe9cd => {
                let bytes = 4 * (second & 0xff);
                let offset = if first == 0xe96d { 0 } else { bytes };
                self.grow(bytes - offset);
                self.store(to, offset);
                self.store(other, offset + 4);
            }
            // vpush {…}
            _ if first & 0xffbf == 0xed2d && second & 0x0e00 == 0x0a00 => {
                self.grow(4 * (second & 0xff));
            }
            // sub.w sp, sp, #n; subw sp, sp, #n
            _ if first & 0xfbef == 0xf1ad && second & 0x8f00 == 0x0d00 => {
                self.grow(expanded(first, second));
            }
            _ if first & 0xfbff == 0xf2ad && second & 0x8f00 == 0x0d00 => {
                self.grow(immediate(first, second));
            }
            // Branches.
            _ if first & 0xf800 == 0xf000 && second & 0x8000 != 0 => return None,
            // Data processing.
            _ if (first & 0xf800 == 0xf000 || first & 0xfe00 == 0xea00) && other == SP => {
                return None;
            }
            // Stores and loads by the stack pointer that move it, and loads of it. Nor is it known where else the caller's address is.
            _ if first & 0xfe2f == 0xe82d || first & 0xfe2f == 0xec2d => return None,
            _ if first & 0xfe50 == 0xe800 && second >> LR & 1 != 0 => return None,
            _ if first & 0xfe8f == 0xf80d && second & 0x0900 == 0x0900 => return None,
            _ if first & 0xff50 == 0xe940 && (to == LR || other == LR) => return None,
            _ if first & 0xff70 == 0xf840 && to == LR => return None,
            _ if first & 0xfe70 == 0xf850 && to == SP => return None,
            _ => {}
        }
        Some(())
    }
}

/// The twelve bits of a long instruction's number.
fn immediate(first: u32, second: u32) -> u32 {
    (first >> 10 & 1) << 11 | (second >> 12 & 7) << 8 | second & 0xff
}

/// The number that they mean (`ThumbExpandImm`).
fn expanded(first: u32, second: u32) -> u32 {
    let bits = immediate(first, second);
    let low = bits & 0xff;
    match bits >> 8 {
        0 => low,
        1 => low << 16 | low,
        2 => low << 24 | low << 8,
        3 => low << 24 | low << 16 | low << 8 | low,
        _ => (0x80 | bits & 0x7f).rotate_right(bits >> 7),
    }
}
