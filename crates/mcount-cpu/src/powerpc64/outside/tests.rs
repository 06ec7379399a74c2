//! Traced programs of 64-bit PowerPC: jumps, stubs, what is moved, and the dynamic linker's function for debuggers.

use super::{
    Area, BLR, BODY, LOAD_R2, OFF, ON, RECORD, armed, jump_length, question, room_in, stub, switch,
    target, thunk, watched,
};
use crate::outside::{Routines, words};
use crate::powerpc64::code::{NOP, Position};
use alloc::vec::Vec;

fn code_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn jumps_lead_where_they_say() {
    let site = 0x1000_5554_0000_u64;
    for distance in [-0x200_0000_i64, -4, 4, 0x100_0000, 0x1ff_fffc] {
        let to = site.wrapping_add_signed(distance);
        assert_eq!(target(site, &armed(site, to).unwrap()), Some(to), "{distance:x}");
    }
    assert_eq!(target(site, &NOP), None);
    // bl
    assert_eq!(target(site, &0x4800_0029_u32.to_le_bytes()), None);
}

#[test]
fn stubs_are_switched_by_a_word() {
    let routines = Routines { entry: 0x1111_2222_3333_4444, late_entry: 0x2222, exit: 0 };
    let made = stub(None, 0x1_0000, routines, 0x2_0004, 7).unwrap();
    let site = 0x2_0000;
    let (at, on, off) = switch(site, armed(site, 0x1_0000).unwrap()).unwrap();
    assert_eq!((at, on.as_slice()), (0x1_0000, &made[..4]));
    // Switched off, it's a jump to the way back.
    assert_eq!(target(0x1_0000, &off), Some(0x1_0000 + BODY as u64));
    assert_eq!(target(0x1_0000 + BODY as u64, &made[BODY..]), Some(0x2_0004));
    let words: Vec<u64> = made.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    assert_eq!(words[RECORD / 8..RECORD / 8 + 2], [0x2_0004, 0x1111_2222_3333_4444]);
    assert_eq!(made[60..], 7_u32.to_le_bytes());
    let late = stub(Some(Position::AfterPrologue), 0x1_0000, routines, 0x2_0004, 7).unwrap();
    assert_eq!(late[40..48], 0x2222_u64.to_le_bytes());
    // mflr r0; bcl 20,31,.+4; mflr r12; mtlr r0; ld r0,28(r12); mtctr r0; bctr, by GNU as.
    let expected =
        [0x7c08_02a6, 0x429f_0005, 0x7d88_02a6, 0x7c08_03a6, 0xe80c_001c, 0x7c09_03a6, 0x4e80_0420];
    assert_eq!(made[4..32], code_of(&expected));
    assert_eq!([ON, OFF], [0x6000_0000_u32, 0x4800_0030].map(u32::to_le_bytes));
    assert!(stub(None, 0x1_0000, routines, 0x1_0000_0000, 7).is_none(), "out of reach");
}

#[test]
fn a_load_behind_a_call_is_left_out() {
    let area = |words: &[u32]| Area::find(&code_of(words)).unwrap();
    // bl; ld r2,24(r1): and over both.
    let linked = area(&[0x4800_0029, LOAD_R2]);
    assert_eq!((linked.length, jump_length(&linked, false)), (4, 8));
    assert_eq!(linked.idle()[..4], 0x4800_0008_u32.to_le_bytes());
    for words in [[0x4800_0029, 0x6000_0000], [0x6000_0000, LOAD_R2]] {
        let plain = area(&words);
        assert_eq!((plain.length, jump_length(&plain, false)), (4, 4), "{words:x?}");
        assert_eq!(plain.idle()[..4], NOP);
    }
}

#[test]
fn a_jump_to_anywhere_has_the_address_in_its_instructions() {
    // lis; ori; sldi; oris; ori; mtctr; bctr, by GNU as.
    let expected =
        [0x3d80_1122, 0x618c_3344, 0x798c_07c6, 0x658c_5566, 0x618c_7788, 0x7d89_03a6, 0x4e80_0420];
    assert_eq!(thunk(0x1122_3344_5566_7788)[..], code_of(&expected));
}

#[test]
fn functions_that_only_return_have_room() {
    // Behind glibc's are three words for debuggers.
    assert_eq!(room_in(&code_of(&[BLR, 0, 0x0100_0000])), 4);
    assert_eq!(room_in(&code_of(&[BLR, 0x6000_0000, 0x6000_0000, 0])), 12);
    assert_eq!(room_in(&code_of(&[0x6000_0000, BLR])), 0);
    assert_eq!(room_in(&[]), 0);
}

#[test]
fn a_thread_asks_by_its_number() {
    // lis r3,1; ori r3,r3,0xe240; li r4,23; li r0,208; sc; blr, by GNU as.
    let expected = [0x3c60_0001, 0x6063_e240, 0x3880_0017, 0x3800_00d0, 0x4400_0002, BLR];
    assert_eq!(question(123_456), code_of(&expected));
}

#[test]
fn beginnings_of_functions_are_moved() {
    // glibc's prctl: addis r2,r12,16; addi r2,r2,-100.
    let bytes = code_of(&[0x3c4c_0010, 0x3842_ff9c]);
    let (function, at) = (0xb_83d8, 0x10_0000);
    let made = watched(function, &bytes, at, 0x1234_5678).unwrap();
    assert_eq!((made.place, target(function, &made.jump)), (function, Some(at)));
    assert_eq!(made.stub[40..44], bytes[..4]);
    assert_eq!(target(at + 44, &made.stub[44..]), Some(function + 4));
    assert_eq!(made.stub[32..40], 0x1234_5678_u64.to_le_bytes());
    // ld r0,24(r11); mtctr r0; addi r11,r11,32; bctr, by GNU as.
    let found: Vec<u32> = words(&made.stub[16..32]).collect();
    assert_eq!(found, [0xe80b_0018, 0x7c09_03a6, 0x396b_0020, 0x4e80_0420]);
    // b, beq, blr, bctr and sc stay.
    for word in [0x4800_0010, 0x4182_0010, BLR, 0x4e80_0420, 0x4400_0002] {
        assert!(watched(function, &code_of(&[word, 0]), at, 0).is_none(), "{word:08x}");
    }
}
