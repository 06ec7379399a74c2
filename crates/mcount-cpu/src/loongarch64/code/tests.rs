//! Hooks of LoongArch: what compilers leave, and both states.

use super::{
    ALL_STAND, AT_ONCE, Area, BREAKPOINT, BY_BREAKPOINT, Frame, NOP, Position, REACH, SITE,
    STUB_RECORD, Unusable, armed, behind_trap, idle, is_one_instruction, kernel_armed, position,
    record_stub,
};
use crate::engine::{Change, Code, change};
use std::vec::Vec;

const NOP_WORD: u32 = 0x0340_0000;
/// bl with a distance that a linker fills in; ret
const CALL: u32 = 0x5400_0000;
const RETURN: u32 = 0x4c00_0020;

fn code(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn areas_of_all_compilers() {
    let area = |is_call| Ok(Area { start: 0, length: 4, is_call });
    let table: &[(&[u32], _)] = &[
        (&[NOP_WORD, NOP_WORD, 0x02ff_c063], area(false)),
        (&[NOP_WORD, RETURN], area(false)),
        (&[CALL, NOP_WORD], area(true)),
        // bl -8
        (&[0x57ff_fbff], area(true)),
        // b, jirl $ra, $t0, 0; andi $t0, $zero, 0
        (&[0x5000_0800], Err(Unusable::NotAHook)),
        (&[0x4c00_0181], Err(Unusable::NotAHook)),
        (&[0x0340_000c], Err(Unusable::NotAHook)),
        (&[], Err(Unusable::NotAHook)),
    ];
    for (words, expected) in table {
        assert_eq!(Area::find(&code(words)), *expected, "{words:08x?}");
    }
    assert_eq!(Area::find(&NOP[..3]), Err(Unusable::NotAHook));
    let call = Area::find(&code(&[CALL])).unwrap();
    assert_eq!(call.idle()[..SITE], NOP);
    assert!(is_one_instruction(&NOP, call.length));
}

/// The distances of objdump: b 4096, b -4096, and the ends of its reach.
#[test]
fn branches_reach_128_mebibytes_and_no_further() {
    let word = |from, to| armed(from, to).map(u32::from_le_bytes);
    assert_eq!(word(0x1000, 0x2000), Some(0x5010_0000));
    assert_eq!(word(0x2000, 0x1000), Some(0x53f0_03ff));
    assert_eq!(word(0, 0x0400_0000), Some(0x5000_0100));
    assert_eq!(word(REACH, 0), Some(0x5000_0200));
    assert_eq!(word(0, REACH - 4), Some(0x53ff_fdff));
    assert_eq!(word(0, REACH), None);
    assert_eq!(word(REACH + 4, 0), None);
    assert_eq!(word(0, 2), None, "not a place for an instruction");
    assert_eq!(idle(0, 2), Some(NOP));
    assert_eq!(kernel_armed(0x1000, 0x2000), Some(0x5410_0000_u32.to_le_bytes()));
}

#[test]
fn a_stub_loads_and_jumps() {
    let stub = record_stub(0x1122_3344_5566_7788, 8);
    let expected = code(&[0x1800_000d, 0x28c0_41ad, 0x28c0_21af, 0x4c00_01e0]);
    assert_eq!(stub[..16], expected[..]);
    assert_eq!(stub[STUB_RECORD as usize..], 0x1122_3344_5566_7788_u64.to_le_bytes());
}

/// Every instruction here is what clang 19 compiled, or `llvm-mc` assembled.
#[test]
fn prologues_of_clang() {
    let frame = |depth, link| Some(Frame { by_pointer: false, depth, link });
    let table: &[(&[u32], _)] = &[
        // addi.d $sp, $sp, -16; st.d $ra, $sp, 8; st.d $fp, $sp, 0; addi.d $fp, $sp, 16; move $fp, $a0; move $a0, $ra
        (
            &[0x02ff_c063, 0x29c0_2061, 0x29c0_0076, 0x02c0_4076, 0x0015_0096, 0x0015_0024],
            frame(16, 8),
        ),
        // addi.d $sp, $sp, -2032; st.d $ra, $sp, 2024; lu12i.w $a1, 1; ori $a1, $a1, 3888; sub.d $sp, $sp, $a1
        (
            &[0x02e0_4063, 0x29df_a061, 0x1400_0025, 0x03bc_c0a5, 0x0011_9463],
            frame(2032 + 0x1f30, 2024 + 0x1f30),
        ),
        // lu12i.w $t0, -2; ori $t0, $t0, 208; add.d $sp, $sp, $t0
        (
            &[0x02e0_4063, 0x29df_a061, 0x15ff_ffcc, 0x0383_418c, 0x0010_b063],
            frame(2032 + 0x1f30, 2024 + 0x1f30),
        ),
        // addi.d $sp, $sp, -32; stptr.d $ra, $sp, 24
        (&[0x02ff_8063, 0x2700_1861], frame(32, 24)),
        // addi.d $sp, $sp, -64; st.d $ra, $sp, 56; st.d $fp, $sp, 48; addi.d $fp, $sp, 64; bstrins.d $sp, $zero, 5, 0
        (
            &[0x02ff_0063, 0x29c0_e061, 0x29c0_c076, 0x02c1_0076, 0x0085_0003],
            Some(Frame { by_pointer: true, depth: 0, link: -8 }),
        ),
        // Nothing is stored; nobody knows by how much the stack is moved; there's a jump.
        (&[0x02ff_c063], None),
        (&[0x02ff_c063, 0x29c0_2061, 0x0011_9463], None),
        (&[0x02ff_c063, 0x29c0_2061, 0x5000_0800], None),
        // move $sp, $fp; the frame pointer is another's when the stack is aligned.
        (&[0x02ff_c063, 0x29c0_2061, 0x0015_02c3], None),
        (&[0x02ff_c063, 0x29c0_2061, 0x0085_0003], None),
        (&[0x02ff_c063, 0x29c0_2061, 0x02c0_4076, 0x0015_0096, 0x0085_0003], None),
    ];
    for (words, expected) in table {
        assert_eq!(super::frame(&code(words)), *expected, "{words:08x?}");
    }
}

/// A register that an instruction changes has no known number any more, and one that's changed by none has.
#[test]
fn what_changes_no_register_is_known() {
    let frame = Some(Frame { by_pointer: false, depth: 16 + 4096, link: 8 + 4096 });
    let (start, end) = ([0x02ff_c063, 0x29c0_2061, 0x1400_002c], 0x0011_b063);
    let with = |word: u32| {
        let words: Vec<u32> = start.into_iter().chain([word, end]).collect();
        super::frame(&code(&words))
    };
    // fst.d $ft4, $sp, 0; vst $vr12, $sp, 0; st.b $t0, $sp, 0; movgr2fr.d $ft4, $t0; fadd.d $ft4, $ft4, $ft4; stptr.w $t0, $sp, 0
    for word in [0x2bc0_006c, 0x2c40_006c, 0x2900_006c, 0x0114_a98c, 0x0101_318c, 0x2500_006c] {
        assert_eq!(with(word), frame, "{word:08x}");
    }
    // ld.d $t0, $sp, 0; movfr2gr.d $t0, $ft4; movfr2gr.s; movfcsr2gr $t0, $fcsr0; movcf2gr $t0, $fcc0; pcaddu12i $t0, 0
    for word in [0x28c0_006c, 0x0114_b98c, 0x0114_b58c, 0x0114_c80c, 0x0114_dc0c, 0x1c00_000c] {
        assert_eq!(with(word), None, "{word:08x}");
    }
}

#[test]
fn hooks_are_at_the_entry_or_behind_a_prologue() {
    let standard = code(&[0x02ff_c063, 0x29c0_2061, CALL]);
    assert_eq!(position(&standard, 0), Some(Position::Entry));
    assert_eq!(position(&standard, 8), Some(Position::AfterPrologue));
    assert_eq!(position(&standard, 4), None);
    assert_eq!(position(&standard, 1 << 40), None);
}

/// The memory after each write, and how often all processors were told.
struct Memory {
    bytes: [u8; 12],
    seen: Vec<[u8; 12]>,
    rounds: usize,
}

impl Code for Memory {
    type Error = ();

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), ()> {
        // A word that's aligned is stored at once, and nothing else is.
        assert!(address.is_multiple_of(4) && bytes.len() == SITE, "{address:x}: {bytes:02x?}");
        let at = usize::try_from(address).unwrap();
        self.bytes[at..at + SITE].copy_from_slice(bytes);
        self.seen.push(self.bytes);
        Ok(())
    }

    fn synchronize(&mut self) -> Result<(), ()> {
        self.rounds += 1;
        Ok(())
    }
}

#[test]
fn no_thread_sees_a_mixture() {
    let branch = armed(4, 0x2000).unwrap();
    let call = CALL.to_le_bytes();
    let table = [
        (ALL_STAND, NOP, branch, 1),
        (ALL_STAND, call, branch, 1),
        (AT_ONCE, branch, NOP, 1),
        (BY_BREAKPOINT, NOP, branch, 2),
    ];
    for (steps, from, to, rounds) in table {
        let mut bytes = [0xee; 12];
        bytes[4..8].copy_from_slice(&from);
        let mut memory = Memory { bytes, seen: Vec::new(), rounds: 0 };
        change(&mut memory, steps, &[Change::whole(4, from, to)]).unwrap();
        assert_eq!((&memory.bytes[4..8], memory.rounds), (&to[..], rounds));
        for seen in memory.seen {
            let site = &seen[4..8];
            assert!(site == from || site == to || site == BREAKPOINT, "{site:02x?}");
            assert_eq!((&seen[..4], &seen[8..]), (&[0xee; 4][..], &[0xee; 4][..]));
        }
    }
    assert_eq!(behind_trap(4, SITE), 8);
}
