//! Single instructions. Their words are from an assembler.

use super::instruction::{Access, Uses, access, uses};
use super::relocate::relocate;
use super::scan::scan;
use super::{beginning, entry, jumps_by, stub};
use crate::outside::words;
use crate::probe::{Base, Beginning, Entry, Kind, Piece, References, Rules, Stub, Unmovable};
use std::vec::Vec;

fn code(words: &[u32]) -> Vec<u8> {
    crate::outside::code(words.iter().copied()).collect()
}

#[test]
fn landing_pads_stay() {
    const ADD: u32 = 0x1100_0400;
    let entry_at = |at, is_signed| Entry { at, is_signed };
    let rows: [(&[u32], Entry); 7] = [
        (&[ADD], entry_at(0x1000, false)),
        (&[0xd503_245f, ADD], entry_at(0x1004, false)),
        (&[0xd503_24df, ADD], entry_at(0x1004, false)),
        (&[0xd503_233f, ADD], entry_at(0x1004, true)),
        (&[0xd503_237f, ADD], entry_at(0x1004, true)),
        (&[0xd503_245f, 0xd503_233f, ADD], entry_at(0x1008, true)),
        (&[], entry_at(0x1000, false)),
    ];
    for (words, expected) in rows {
        assert_eq!(entry(&code(words), 0x1000), expected, "{words:08x?}");
    }
}

#[test]
fn first_instructions() {
    let moves = |goes_on| Ok(Beginning { moved: 4, goes_on });
    let no = Err(Unmovable::Instruction(0x1000));
    let rows = [
        (0xa9bf_7bfd, moves(true)),  // stp x29, x30, [sp, #-16]!
        (0x1000_0000, moves(true)),  // adr x0, .
        (0x5400_0041, moves(true)),  // b.ne .+8
        (0x5400_0051, moves(true)),  // bc.ne .+8
        (0x1400_0002, moves(false)), // b .+8
        (0x9400_0002, moves(true)),  // bl .+8
        (0xd65f_03c0, moves(false)), // ret
        (0xd65f_0bff, moves(false)), // retaa
        (0xd61f_0220, moves(false)), // br x17
        (0x88a1_7c01, moves(true)),  // cas w1, w1, [x0]
        (0x0820_7c82, moves(true)),  // casp w0, w1, w2, w3, [x4]
        (0xc8df_fc00, moves(true)),  // ldar x0, [x0]
        (0xd53b_d040, moves(true)),  // mrs x0, tpidr_el0
        (0xd503_23bf, moves(true)),  // autiasp
        (0xd63f_0000, no),           // blr x0
        (0xd400_0001, no),           // svc #0
        (0xd420_0020, no),           // brk #1
        (0x0000_0000, no),           // udf #0
        (0xd503_249f, no),           // bti j
        (0xd503_233f, no),           // paciasp
        (0xc85f_fc01, no),           // ldaxr x1, [x0]
        (0xc87f_0801, no),           // ldxp x1, x2, [x0]
        (0x8800_7c41, no),           // stxr w0, w1, [x2]
        (0x0200_0000, Err(Unmovable::NotDecoded(0x1000))),
    ];
    for (word, expected) in rows {
        assert_eq!(beginning(&code(&[word]), 0x1000), expected, "{word:08x}");
        let elsewhere = relocate(&code(&[word]), 0x1000, 0x20_0000);
        assert_eq!(elsewhere.is_ok(), expected.is_ok(), "{word:08x}: {elsewhere:?}");
    }
    assert_eq!(beginning(&[0; 3], 0x1000), Ok(Beginning { moved: 0, goes_on: true }), "cut off");
    assert_eq!(beginning(&code(&[0xd65f_03c0]), 0x1002), Err(Unmovable::NotDecoded(0x1002)));
}

/// `bc.cond`, which the emulator of the tests doesn't know.
#[test]
fn hinted_branches_move() {
    let moved = relocate(&code(&[0x5400_0051]), 0x1000, 0x20_0000).unwrap();
    let words: Vec<u32> = words(&moved.code).collect();
    // bc.ne .+8; b .+8; b 0x1008; b 0x1004
    assert_eq!(words, [0x5400_0051, 0x1400_0002, 0x17f8_0400, 0x17f8_03fe]);
}

#[test]
fn general_registers() {
    let of = |reads: &[u32], writes: &[u32]| {
        let bits = |all: &[u32]| all.iter().fold(0, |bits, one| bits | 1 << one);
        Uses { reads: bits(reads), writes: bits(writes) }
    };
    let rows = [
        (0xaa1e_03e0, of(&[30], &[0])),       // mov x0, x30
        (0x8b01_001e, of(&[0, 1], &[30])),    // add x30, x0, x1
        (0x9b1e_0820, of(&[1, 30, 2], &[0])), // madd x0, x1, x30, x2
        (0xd280_001e, of(&[], &[30])),        // mov x30, #0
        (0xf280_001e, of(&[30], &[30])),      // movk x30, #0
        (0x9a9e_0020, of(&[1, 30], &[0])),    // csel x0, x1, x30, eq
        (0xfa5e_0020, of(&[1, 30], &[])),     // ccmp x1, x30, #0, eq
        (0xfa5e_0820, of(&[1], &[])),         // ccmp x1, #30, #0, eq
        (0xdac0_13c0, of(&[30], &[0])),       // clz x0, x30
        (0xb400_005e, of(&[30], &[])),        // cbz x30, .+8
        (0xd51b_d05e, of(&[30], &[])),        // msr tpidr_el0, x30
        (0xd53b_d05e, of(&[], &[30])),        // mrs x30, tpidr_el0
        (0x9e67_03c0, of(&[30], &[])),        // fmov d0, x30
        (0x9e66_001e, of(&[], &[30])),        // fmov x30, d0
        (0x4e08_0fc0, of(&[30], &[])),        // dup v0.2d, x30
        (0x4e08_3c1e, of(&[], &[30])),        // mov x30, v0.d[0]
        (0xf87e_6820, of(&[1, 30], &[0])),    // ldr x0, [x1, x30]
        (0xf83e_6820, of(&[0, 1, 30], &[])),  // str x0, [x1, x30]
        (0xf83e_0020, of(&[1, 30], &[0])),    // ldadd x30, x0, [x1]
        (0x5800_001e, of(&[], &[30])),        // ldr x30, .
        (0xd503_201f, of(&[], &[])),          // nop
    ];
    for (word, expected) in rows {
        assert_eq!(uses(word), expected, "{word:08x}");
    }
}

#[test]
fn loads_and_stores_by_a_base() {
    let (general, vectors) = ([Some(29), Some(30)], [None, None]);
    let access_of = |offset, moves, registers, size, is_load| {
        Some(Access { base: 31, offset, moves, registers, size, is_load })
    };
    let rows = [
        (0xa9bf_7bfd, access_of(-16, -16, general, 8, false)), // stp x29, x30, [sp, #-16]!
        (0xa8c1_7bfd, access_of(0, 16, general, 8, true)),     // ldp x29, x30, [sp], #16
        (0xa901_7bfd, access_of(16, 0, general, 8, false)),    // stp x29, x30, [sp, #16]
        (0x6dbf_23e9, access_of(-16, -16, vectors, 8, false)), // stp d9, d8, [sp, #-16]!
        (0xf940_07fe, access_of(8, 0, [Some(30), None], 8, true)), // ldr x30, [sp, #8]
        (0xf81f_0ffe, access_of(-16, -16, [Some(30), None], 8, false)), // str x30, [sp, #-16]!
        (0xb840_83fe, access_of(8, 0, [Some(30), None], 4, true)), // ldur w30, [sp, #8]
        (0x3dc0_07e0, access_of(16, 0, vectors, 16, true)),    // ldr q0, [sp, #16]
        (0xf980_0fe0, access_of(24, 0, vectors, 8, true)),     // prfm pldl1keep, [sp, #24]
        (0xaa1e_03e0, None),                                   // mov x0, x30
    ];
    for (word, expected) in rows {
        assert_eq!(access(word), expected, "{word:08x}");
    }
}

/// The word that each of the C library's entries jumps by.
#[test]
fn linkage_is_known_by_its_code() {
    // adrp x16, 0x20000; ldr x17, [x16, #8]; add x16, x16, #8; br x17
    let entry = [0xf000_0090, 0xf940_0611, 0x9100_2210, 0xd61f_0220];
    assert_eq!(jumps_by(&code(&entry), 0x1000 + 0xc000), Some(0x2_0008));
    assert_eq!(jumps_by(&code(&entry[..3]), 0x1000), None);
}

/// Addresses that are made of a page and a distance, also where the page was some instructions before.
#[test]
fn addresses_are_found() {
    // adrp x0, 0x1000; adrp x1, 0x2000; add x2, x0, #16; ldr x3, [x1, #8]; adr x4, .; ret
    let words = [0x9000_0000, 0xb000_0001, 0x9100_4002, 0xf940_0423, 0x1000_0004, 0xd65f_03c0];
    let bytes = code(&words);
    let piece = Piece { bytes: &bytes, start: 0x1000, is_fixed: false };
    let mut references = References::new(&[(0x1000, &bytes)], [0x1000].into_iter());
    let rules: &[Rules] = &[];
    let found = scan(piece, rules, &mut references);
    references.finish();
    assert_eq!((found.undecoded, found.falls_from, found.uses_return), (None, None, None));
    let base = |source, address| Base { source, address };
    assert_eq!(references.bases, [base(0x1008, 0x1010), base(0x1010, 0x1010)]);
    let leads: Vec<_> = references.between(0x1010..0x1014).iter().map(|one| one.kind).collect();
    assert_eq!(leads, [Kind::Address, Kind::Address]);
}

/// What is signed is checked before the recorder is told, and signed again before the instruction that has moved.
#[test]
fn stubs_keep_signatures() {
    let of = |before: u32| {
        stub::stub(Stub {
            at: 0x10_0000,
            routine: 0x1234_5678,
            number: 9,
            moved: &0xa9bf_7bfd_u32.to_le_bytes(),
            from: 0x1004,
            before: Some(before.to_le_bytes()),
        })
    };
    for (sign, check) in [(0xd503_233f, 0xd503_23bf), (0xd503_237f, 0xd503_23ff)] {
        let bytes = of(sign).unwrap();
        assert_eq!(bytes.len(), stub::SIZE);
        let words: Vec<u32> = words(&bytes).collect();
        // nop; b told; …; stp x29, x30, [sp, #-16]!; b 0x1008
        assert_eq!(words[..2], [0xd503_201f, 0x1400_000a]);
        assert_eq!(words[5], 0xa9bf_7bfd);
        assert_eq!((words[11], words[17]), (check, sign));
        assert_eq!(bytes[96..112], [0x10_0040_u64, 0x1234_5678].map(u64::to_le_bytes).concat());
        assert_eq!(words[31], 9);
        let number = super::super::code::switch(false);
        assert_eq!(number, 0x1400_0005_u32.to_le_bytes(), "where the way on is");
    }
    assert_eq!(of(0xd503_201f), None);
}
