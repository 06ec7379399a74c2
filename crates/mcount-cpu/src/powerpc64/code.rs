//! 64-bit PowerPC with the ABI of little-endian Linux (ELFv2): the hook is one word, a NOP or a call, and an armed one is one `b`,
//! which reaches ±32 MiB.
//!
//! | option | there |
//! |---|---|
//! | `-pg -mprofile-kernel` (gcc) | `mflr r0`, `bl _mcount` at the entry, behind what sets `r2` up |
//! | `-pg` | `bl _mcount` after the prologue |
//! | `-fpatchable-function-entry=N` (gcc) | `nop` |
//!
//! A function has two entries: the *global* one, where `r12` has its address and from that `r2` is made, and behind these two
//! instructions the *local* one, for callers who have the same `r2`. gcc 12 puts NOPs before the global one, where local calls
//! don't come by; such functions can't be armed, and others, which don't need `r2` and have one entry, can.
//!
//! **While threads run.** Power ISA 3.0, book II, 1.9 ("Concurrent Modification and Execution of Instructions"): a program may
//! exchange a *patch class* instruction for another one while others execute it, which find either of them. The class has I-form
//! branches (`b`, `bl`) and the preferred NOP (`ori 0,0,0`). So `bl` and `nop` become `b` and back by one store of an
//! aligned word, and no thread stops. That others see it at last needs, of [`Code`]: `dcbst`, `sync`, `icbi`, `sync`, and
//! then a context synchronizing operation on every other processor, such as the return from an interrupt.
//!
//! Linux exchanges `nop` and `bl`, and finds the caller in `r0`. Here each site has a stub that knows it, so the
//! link register stays what it is, and `mflr r0` isn't needed.
//!
//! [`Code`]: crate::engine::Code

use crate::engine::Step;
pub use crate::hook::{Position, Unusable};
pub use crate::one_word::{ALL_STAND, AT_ONCE, SITE, behind_trap, is_one_instruction};

/// Why a site with NOPs can't be armed, for people.
pub const TOO_SMALL: &str = "the NOPs are before the global entry, where calls in the module don't come by; \
    -mprofile-kernel makes hooks where they do";

/// How far a `b` reaches, in bytes, forwards and backwards.
pub const REACH: u64 = 1 << 25;

/// The preferred `nop`.
pub const NOP: [u8; SITE] = NOP_WORD.to_le_bytes();
const NOP_WORD: u32 = 0x6000_0000;

/// `trap`.
pub const BREAKPOINT: [u8; SITE] = 0x7fe0_0008_u32.to_le_bytes();

/// Between an idle site and an armed one: `trap` isn't of the patch class, so a breakpoint would be worse.
pub const BY_BREAKPOINT: &[Step] = AT_ONCE;

/// Bytes of a stub of [`record_stub`].
pub const RECORD_STUB: usize = 48;

const MFLR_R0: u32 = 0x7c08_02a6;

crate::area::area!("always 0.", "[`SITE`], however many NOPs follow.");

impl Area {
    /// The area at the start of `code`, which is the code from the hook on.
    ///
    /// # Errors
    ///
    /// [`Unusable`] if there's neither, or if local calls don't come by.
    pub fn find(code: &[u8]) -> Result<Self, Unusable> {
        let is_nop = |word: &[u8; SITE]| *word == NOP;
        let words = code.as_chunks::<SITE>().0;
        let nops = words.iter().take_while(|word| is_nop(word)).count();
        if nops != 0 {
            let rest = words.get(nops..).unwrap_or_default();
            if global_entry(rest) != 0 {
                return Err(Unusable::TooSmall(nops * SITE));
            }
            return Ok(Self { start: 0, length: SITE, is_call: false });
        }
        match words.first().map(|word| u32::from_le_bytes(*word)) {
            Some(word) if word & 0xfc00_0003 == 0x4800_0001 => {
                Ok(Self { start: 0, length: SITE, is_call: true })
            }
            _ => Err(Unusable::NotAHook),
        }
    }

    /// The bytes that make the area idle; the result has `length` bytes in use.
    #[must_use]
    pub fn idle(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        put(&mut bytes, 0, &NOP);
        bytes
    }
}

/// How many of the first words make `r2` from `r12`: two, or none.
fn global_entry(words: &[[u8; SITE]]) -> usize {
    let word = |at: usize| words.get(at).map_or(0, |word| u32::from_le_bytes(*word));
    // addis r2,r12,N or, when linked at a fixed address, lis r2,N; addi r2,r2,N
    let is_high = matches!(word(0) >> 16, 0x3c4c | 0x3c40);
    if is_high && word(1) >> 16 == 0x3842 { 2 } else { 0 }
}

/// Where in a function the hook is that begins `distance` bytes behind its start; `code` is the function from its
/// start on. `None`: neither, so the place of the caller's address is unknown.
///
/// Before the prologue, the caller's address is in the link register. After it, it's stored, and the first word of the
/// frame leads to the caller's.
#[must_use]
pub fn position(code: &[u8], distance: u64) -> Option<Position> {
    const STORE: u32 = 0xf801_0010; // std r0,16(r1)
    let before = code.get(..usize::try_from(distance).ok()?)?.as_chunks::<SITE>().0;
    let words = before.get(global_entry(before)..).unwrap_or_default();
    let words = || words.iter().map(|word| u32::from_le_bytes(*word));
    if words().eq([]) || words().eq([MFLR_R0]) || words().eq([MFLR_R0, STORE]) {
        return Some(Position::Entry);
    }
    has_frame(words()).then_some(Position::AfterPrologue)
}

/// Has this prologue stored the link register where it belongs, and made a frame of a known size?
fn has_frame(prologue: impl Iterator<Item = u32>) -> bool {
    // Bytes that the stack pointer is below what it was; whether r0 has the caller's address, and whether that's stored.
    let (mut depth, mut is_loaded, mut is_stored) = (0_i32, false, false);
    for word in prologue {
        // The lower half, with its sign.
        let low = word.cast_signed() << 16 >> 16;
        match word {
            MFLR_R0 => is_loaded = true,
            // stdu r1,-N(r1)
            _ if word & 0xffff_0003 == 0xf821_0001 => {
                if depth != 0 {
                    return false;
                }
                depth = -(low & !3);
            }
            // std r0,N(r1)
            _ if word & 0xffff_0003 == 0xf801_0000 => {
                is_stored |= is_loaded && low == depth + 16;
            }
            // stdux r1,r1,rN: a frame of many pages, or one that's aligned.
            _ if word & 0xffff_07ff == 0x7c21_016a => return false,
            // What linkers make of `addis rN,r2,0`, for one.
            NOP_WORD => {}
            // Whatever else writes to r0: li, lis, ori.
            _ if matches!(word >> 16, 0x3800 | 0x3c00) || word & 0xfc1f_0000 == 0x6000_0000 => {
                is_loaded = false;
            }
            _ => {}
        }
    }
    depth > 0 && is_stored
}

/// The armed site at `site`: a jump to `target`. `None` if that's out of reach.
#[must_use]
pub fn armed(site: u64, target: u64) -> Option<[u8; SITE]> {
    let distance = target.wrapping_sub(site).cast_signed();
    let bytes = i32::try_from(distance).ok()?;
    let is_near = (-(1 << 25)..1 << 25).contains(&bytes) && bytes % 4 == 0;
    is_near.then(|| (0x4800_0000 | bytes.cast_unsigned() & 0x03ff_fffc).to_le_bytes())
}

/// The idle site: the same wherever it is.
#[must_use]
pub fn idle(_site: u64, _target: u64) -> Option<[u8; SITE]> {
    Some(NOP)
}

/// The stub of a site with its record at `record`. It loads the record's address into `r0` and jumps to the address that the
/// record has `enter` bytes behind its start, by `r12`, as routines expect. Both registers mean nothing at a hook.
#[must_use]
pub fn record_stub(record: u64, enter: u8) -> [u8; RECORD_STUB] {
    let part = |shift: u32| (record >> shift & 0xffff) as u32;
    let trap = u32::from_le_bytes(BREAKPOINT);
    let words = [
        0x3d80_0000 | part(48),         // lis r12
        0x618c_0000 | part(32),         // ori r12,r12
        0x798c_07c6,                    // sldi r12,r12,32
        0x658c_0000 | part(16),         // oris r12,r12
        0x618c_0000 | part(0),          // ori r12,r12
        0x7d80_6378,                    // mr r0,r12
        0xe98c_0000 | u32::from(enter), // ld r12,enter(r12)
        0x7d89_03a6,                    // mtctr r12
        0x4e80_0420,                    // bctr
        trap,
        trap,
        trap,
    ];
    let mut bytes = [0; RECORD_STUB];
    for (place, word) in words.into_iter().enumerate() {
        put(&mut bytes, 4 * place, &word.to_le_bytes());
    }
    bytes
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(room) = bytes.get_mut(at..at + value.len()) {
        room.copy_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Value;
    use std::vec::Vec;

    const TOC: [u32; 2] = [0x3c4c_0002, 0x3842_7670];

    fn code(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn areas_of_all_compilers() {
        let area = |is_call| Ok(Area { start: 0, length: 4, is_call });
        let table: &[(&[u32], _)] = &[
            (&[0x4800_0029, NOP_WORD], area(true)),
            (&[0x4bff_ff79], area(true)),
            (&[NOP_WORD, NOP_WORD, 0x7c08_02a6], area(false)),
            (&[NOP_WORD, 0x4e80_0020], area(false)),
            // Local calls go behind what makes r2.
            (&[NOP_WORD, NOP_WORD, TOC[0], TOC[1], MFLR_R0], Err(Unusable::TooSmall(8))),
            (&[NOP_WORD, 0x3c40_1002, TOC[1]], Err(Unusable::TooSmall(4))),
            // b, bctrl
            (&[0x4800_0028], Err(Unusable::NotAHook)),
            (&[0x4e80_0421], Err(Unusable::NotAHook)),
            (&[], Err(Unusable::NotAHook)),
        ];
        for (words, expected) in table {
            assert_eq!(Area::find(&code(words)), *expected, "{words:08x?}");
        }
    }

    #[test]
    fn prologues_of_gcc_and_clang() {
        let (entry, after) = (Some(Position::Entry), Some(Position::AfterPrologue));
        let table: &[(&[u32], _)] = &[
            (&[], entry),
            (&TOC, entry),
            (&[MFLR_R0], entry),
            (&[TOC[0], TOC[1], MFLR_R0], entry),
            (&[TOC[0], TOC[1], MFLR_R0, 0xf801_0010], entry),
            // gcc: mflr r0; std r0,16(r1); stdu r1,-32(r1)
            (&[TOC[0], TOC[1], MFLR_R0, 0xf801_0010, 0xf821_ffe1], after),
            // clang: mflr r0; std r31,-8(r1); stdu r1,-48(r1); std r0,64(r1); mr r31,r1
            (&[MFLR_R0, 0xfbe1_fff8, 0xf821_ffd1, 0xf801_0040, 0x783f_0b78], after),
            // gcc: mflr r0; std r31,-8(r1); addis r31,r2,0, which the linker has made a NOP; std r0,16(r1); stdu r1,-80(r1)
            (&[TOC[0], TOC[1], MFLR_R0, 0xfbe1_fff8, NOP_WORD, 0xf801_0010, 0xf821_ffb1], after),
            // The link register elsewhere, not at all, or overwritten.
            (&[MFLR_R0, 0xf821_ffd1, 0xf801_0010], None),
            (&[MFLR_R0, 0xf821_ffd1], None),
            (&[MFLR_R0, 0x3800_0001, 0xf801_0010, 0xf821_ffe1], None),
            (&[MFLR_R0, 0xf801_0010], entry),
            // lis r0; ori r0,r0; stdux r1,r1,r0
            (&[MFLR_R0, 0xf801_0010, 0x3c00_fffe, 0x6000_7fa0, 0x7c21_016a], None),
        ];
        for (words, expected) in table {
            let bytes = code(words);
            assert_eq!(position(&bytes, bytes.len() as u64), *expected, "{words:08x?}");
        }
        assert_eq!(position(&[], 4), None);
    }

    #[test]
    fn branches_reach_32_mebibytes_and_no_further() {
        assert_eq!(armed(0x1000, 0x2000), Some(0x4800_1000_u32.to_le_bytes()));
        assert_eq!(armed(0x2000, 0x1000), Some(0x4bff_f000_u32.to_le_bytes()));
        assert_eq!(armed(REACH, 0), Some(0x4a00_0000_u32.to_le_bytes()));
        assert_eq!(armed(0, REACH - 4), Some(0x49ff_fffc_u32.to_le_bytes()));
        assert_eq!(armed(0, REACH), None);
        assert_eq!(armed(REACH + 4, 0), None);
        assert_eq!(armed(0, 2), None, "not a place for an instruction");
    }

    #[test]
    fn a_stub_has_the_address_in_its_instructions() {
        let stub = record_stub(0x1122_3344_5566_7788, 8);
        let expected = code(&[0x3d80_1122, 0x618c_3344, 0x798c_07c6, 0x658c_5566, 0x618c_7788]);
        assert_eq!(stub[..20], expected[..]);
        assert_eq!(stub[24..28], 0xe98c_0008_u32.to_le_bytes());
    }

    /// The patch class of the Power ISA.
    #[test]
    fn every_state_may_be_exchanged_for_every_other() {
        let call = 0x4800_0029_u32.to_le_bytes();
        for state in [NOP, call, armed(8, 0x2000).unwrap()] {
            let word = u32::from_le_bytes(state);
            assert!(word == NOP_WORD || word >> 26 == 18, "{word:08x}");
        }
        assert!(BY_BREAKPOINT.iter().all(|step| step.value == Value::New));
    }
}
