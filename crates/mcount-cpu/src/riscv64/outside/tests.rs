//! Traced programs of RISC-V: jumps, stubs, what is moved, and the dynamic linker's calls.

use super::{
    Area, BACK, BODY, RA, RECORD, SITE, STAY, T1, add, armed, here, jump, jump_before, jump_length,
    linker_calls, near_distance, near_jump, nops, room_in, stub, switch, target, watched, word_at,
};
use crate::outside::{LinkerCode, Routines};
use alloc::vec::Vec;

fn code_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn jumps_lead_where_they_say() {
    let far = Area { start: 0, length: SITE, is_call: false };
    let near = Area { start: 0, length: 4, is_call: true };
    let site = 0x5555_5555_0002_u64;
    for distance in [-0x7fff_0000_i64, -0x800, -2, 2, 0x7fe, 0x800, 0x1234_5678] {
        let to = site.wrapping_add_signed(distance);
        assert_eq!(target(site, &jump(&far, site, to).unwrap()), Some(to), "{distance:x}");
    }
    for distance in [-0xf_fffe_i64, -0x800, -2, 2, 0x800, 0xf_fffe] {
        let to = site.wrapping_add_signed(distance);
        let mut bytes = jump(&near, site, to).unwrap();
        assert_eq!(bytes.len(), jump_length(&near, false));
        bytes.extend([1, 0, 1, 0]);
        assert_eq!(target(site, &bytes), Some(to), "{distance:x}");
    }
    assert_eq!(jump(&near, site, site + 0x10_0000), None);
    assert_eq!(target(site, &nops()[..8]), None);
    // c.j -8, by GNU as.
    assert_eq!(jump_before(0x1008, 0x1000), Some([0xe5, 0xbf]));
}

#[test]
fn stubs_are_switched_by_a_halfword() {
    let routines = Routines { entry: 0x1111, late_entry: 0x2222, exit: 0 };
    let made = stub(None, 0x1_0000, routines, 0x2_0008, 7).unwrap();
    let site = 0x2_0000;
    let (at, on, off) = switch(site, armed(site, 0x1_0000).unwrap()).unwrap();
    assert_eq!((at, on.as_slice()), (0x1_0000, &made[..2]));
    // Switched off, it's a jump to the way back.
    let word = u32::from_le_bytes([off[0], off[1], made[2], made[3]]);
    assert_eq!(near_distance(word, 0), i64::try_from(BODY).ok());
    assert_eq!(target(0x1_0000 + BODY as u64, &made[BODY..]), Some(0x2_0008));
    let words: Vec<u64> = made.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    assert_eq!(words[RECORD / 8..], [0x2_0008, 0x1111, 0, 7 << 32]);
    // auipc t0, 0; addi t0, t0, 28; ld t1, 8(t0); jr t1, by GNU as.
    assert_eq!(made[4..20], code_of(&[0x297, 0x01c2_8293, 0x0082_b303, 0x0003_0067]));
    assert_eq!(switch(site, [0xe5, 0xbf, 1, 0, 1, 0, 1, 0]), Some((site, BACK, STAY)));
}

#[test]
fn functions_that_only_return_have_room() {
    assert_eq!(room_in(&[0x82, 0x80, 0x2a, 0x87]), 2);
    assert_eq!(room_in(&[0x82, 0x80, 1, 0, 0x13, 0, 0, 0, 0x2a]), 8);
    assert_eq!(room_in(&[0x67, 0x80, 0, 0]), 4);
    assert_eq!(room_in(&[0x1d, 0x71]), 0);
}

#[test]
fn beginnings_of_functions_are_moved() {
    // glibc's prctl: addi sp, sp, -96; auipc t1, 0x6e; ld t1, 702(t1).
    let bytes = [0x1d, 0x71, 0x17, 0xe3, 0x06, 0x00, 0x03, 0x33, 0xe3, 0x2b];
    let (function, at) = (0xb_83d8, 0x10_0000);
    let made = watched(function, &bytes, at, 0x1234_5678).unwrap();
    assert_eq!(target(function, &made.jump), Some(at));
    // It goes on with the stack pointer, the same address in t1, and the load.
    let moved = &made.stub[24..];
    assert_eq!(moved[..2], bytes[..2]);
    let [upper, lower] = [word_at(moved, 2).unwrap(), word_at(moved, 6).unwrap()];
    assert_eq!((upper & 0xfff, lower & 0xf_ffff), (here(T1), add(T1, T1, 0)));
    let found = (at + 26)
        .wrapping_add_signed(i64::from((upper & !0xfff).cast_signed()))
        .wrapping_add_signed(i64::from(lower.cast_signed() >> 20));
    assert_eq!(found, function + 2 + 0x6_e000);
    assert_eq!(moved[10..14], bytes[6..10]);
    assert_eq!(target(at + 38, &moved[14..]), Some(function + 10));
    // Branches, jumps and returns stay.
    for code in [[0x63_u8, 0, 0, 0], [0x6f, 0, 0, 0], [0x67, 0x80, 0, 0], [0x82, 0x80, 1, 0]] {
        let bytes = [code, [1, 0, 1, 0], [1, 0, 1, 0]].concat();
        assert!(watched(function, &bytes, at, 0).is_none(), "{code:02x?}");
    }
}

#[test]
fn calls_in_a_linker_are_found() {
    // ret; mv a0, sp; jal ra, 0x20 (the first function); c.nop; jal ra, 0 (the function for debuggers); then that first function.
    let mut bytes = alloc::vec![0x82, 0x80, 0x0a, 0x85];
    bytes.extend(near_jump(RA, 0x7c).unwrap());
    bytes.extend([1, 0]);
    bytes.extend(near_jump(RA, 0_u64.wrapping_sub(10)).unwrap());
    bytes.resize(0x100, 0);
    let linker = LinkerCode { bytes: &bytes, start: 0x1000, entry: 0x1002, function: 0x1000 };
    let found = linker_calls(linker).unwrap();
    assert_eq!((found.sites, found.spare), (alloc::vec![0x100a], 0x1080));
    assert_eq!(near_distance(u32::from_le_bytes(near_jump(RA, 0x7c).unwrap()), RA), Some(0x7c));
}
