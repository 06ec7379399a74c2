//! Hooks of 32-bit Arm: what compilers leave, both states, and what prologues do to the stack.

use super::{
    ALL_STAND, Area, Frame, Kind, Position, REACH, Unusable, branch, frame, is_one_instruction,
    position, record_stub, short_branch, skip,
};
use crate::engine::{Change, Code, change};
use std::vec::Vec;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn halves(halves: &[u16]) -> Vec<u8> {
    halves.iter().flat_map(|half| half.to_le_bytes()).collect()
}

fn area(before: usize, length: usize, kind: Kind) -> Area {
    let is_call = matches!(kind, Kind::Call | Kind::ShortCall);
    Area { start: 0, before, length, kind, is_call }
}

const PUSH: u32 = 0xe52d_e004;

#[test]
fn areas_of_all_compilers() {
    const NONE: &[u8] = &[];
    let nops = halves(&[0xbf00, 0xbf00]);
    let table: &[(&[u8], &[u8], _)] = &[
        (NONE, &words(&[0xe320_f000, 0xe320_f000, 0xe92d_4800]), Ok(area(0, 4, Kind::Word))),
        (&words(&[0xe320_f000]), &words(&[0xe320_f000, 0xe12f_ff1e]), Ok(area(0, 4, Kind::Word))),
        (NONE, &halves(&[0xbf00, 0xbf00, 0xb480]), Ok(area(0, 4, Kind::Halves))),
        (NONE, &halves(&[0xf3af, 0x8000]), Ok(area(0, 4, Kind::Halves))),
        (NONE, &halves(&[0xbf00, 0xf3af, 0x8000]), Ok(area(0, 4, Kind::Halves))),
        (NONE, &halves(&[0xbf00, 0x4770]), Err(Unusable::TooSmall(2))),
        (&nops, &halves(&[0xbf00, 0x4770]), Ok(area(4, 6, Kind::Before))),
        (&halves(&[0xf3af, 0x8000]), &halves(&[0xbf00, 0x4770]), Ok(area(4, 6, Kind::Before))),
        (&words(&[0xe320_f000; 2]), &halves(&[0xbf00, 0x4770]), Ok(area(4, 6, Kind::Before))),
        (&nops, &halves(&[0xf3af, 0x8000]), Ok(area(0, 4, Kind::Halves))),
        (&halves(&[0xbf00]), &halves(&[0xbf00, 0x4770]), Err(Unusable::TooSmall(2))),
        // pop before the entry: not what the compiler left for this.
        (&halves(&[0xbc10, 0x4770]), &halves(&[0xbf00, 0x4770]), Err(Unusable::TooSmall(2))),
        (&words(&[0xe28d_b000, PUSH]), &words(&[0xebff_fffe]), Ok(area(4, 8, Kind::Call))),
        (&words(&[0xe92d_4000]), &words(&[0xfaff_fffe]), Ok(area(4, 8, Kind::Call))),
        (&halves(&[0xb500]), &halves(&[0xf7ff, 0xfffe]), Ok(area(2, 6, Kind::ShortCall))),
        (&halves(&[0xb083, 0xb500]), &halves(&[0xf7ff, 0xeffe]), Ok(area(2, 6, Kind::ShortCall))),
        // Calls that begin, or end, like NOPs: of Thumb code, of older processors, of ARM code.
        (&words(&[PUSH]), &words(&[0xebff_bf00]), Ok(area(4, 8, Kind::Call))),
        (&words(&[PUSH]), &words(&[0xeb00_46c0]), Ok(area(4, 8, Kind::Call))),
        (&words(&[0xe92d_4000]), &words(&[0xfaff_bf00]), Ok(area(4, 8, Kind::Call))),
        (&halves(&[0xb500]), &halves(&[0xf000, 0xe320]), Ok(area(2, 6, Kind::ShortCall))),
        // Calls of `mcount`, which pops nothing.
        (&words(&[0xe24d_d010]), &words(&[0xebff_fffe]), Err(Unusable::NotAHook)),
        (&halves(&[0xb084]), &halves(&[0xf7ff, 0xfffe]), Err(Unusable::NotAHook)),
        (&words(&[PUSH]), &words(&[0xeaff_fffe]), Err(Unusable::NotAHook)),
        (NONE, &words(&[0xe1a0_0000, 0xe1a0_0000]), Err(Unusable::TooSmall(0))),
        (NONE, &halves(&[0x46c0, 0x46c0]), Err(Unusable::TooSmall(0))),
        (NONE, &words(&[0xe1a0_0001]), Err(Unusable::NotAHook)),
        (NONE, NONE, Err(Unusable::NotAHook)),
    ];
    for (before, code, expected) in table {
        assert_eq!(Area::find(before, code), *expected, "{before:02x?} {code:02x?}");
    }
}

#[test]
fn branches_are_as_an_assembler_has_them() {
    assert_eq!(branch(0x1000, 0x1008), Some(0xea00_0000_u32.to_le_bytes()));
    assert_eq!(branch(0x1000, 0x1000), Some(0xeaff_fffe_u32.to_le_bytes()));
    assert_eq!(branch(0, (1 << 25) + 8), None);
    assert_eq!(branch(0, 2), None, "not a place for an instruction");
    assert_eq!(short_branch(0x26, 0x1026), Some([0x00, 0xf0, 0xfe, 0xbf]));
    assert_eq!(short_branch(0x102a, 0x2a), Some([0xfe, 0xf7, 0xfe, 0xbf]));
    assert_eq!(short_branch(0x2e, 0x00c0_0032), Some([0x00, 0xf0, 0x00, 0x90]));
    assert_eq!(short_branch(REACH, 4), Some([0x00, 0xf4, 0x00, 0x90]));
    assert_eq!(short_branch(REACH, 2), None);
    assert_eq!(short_branch(0, REACH + 4), None);
    assert_eq!([skip(4), skip(6), skip(-4)], [[0x00, 0xe0], [0x01, 0xe0], [0xfc, 0xe7]]);
}

#[test]
fn states_differ_in_one_aligned_part() {
    let all = [Kind::Word, Kind::Call, Kind::Halves, Kind::Before, Kind::ShortCall];
    for kind in all {
        let area = area(0, if kind == Kind::Call { 8 } else { 6 }, kind);
        // Thumb code may be anywhere.
        let site = if area.is_thumb() { 0x1002 } else { 0x1004 };
        let (idle, armed) = area.states(site, 0x2000).unwrap();
        let (first, end) = area.changed();
        assert_eq!(idle[..first], armed[..first], "{kind:?}");
        assert_eq!(idle[end..], armed[end..], "{kind:?}");
        assert_ne!(idle[first..end], armed[first..end], "{kind:?}");
        assert_eq!((site + first as u64) % (end - first) as u64, 0, "{kind:?}");
        assert!(area.states(site, site + REACH + 0x1000).is_none() || !area.is_thumb());
    }
}

#[test]
fn what_is_at_a_site() {
    let states = |kind, site| area(0, 0, kind).states(site, 0x2000).unwrap();
    let (idle, armed) = states(Kind::Word, 0x1000);
    assert_eq!(idle[..4], words(&[0xe320_f000]));
    assert_eq!(armed[..4], words(&[0xea00_03fe]));
    let (idle, armed) = states(Kind::Call, 0x1000);
    assert_eq!(idle[..8], words(&[0xea00_0000, 0xea00_03fd]));
    assert_eq!(armed[..8], words(&[0xe320_f000, 0xea00_03fd]));
    let (idle, armed) = states(Kind::Halves, 0x1000);
    assert_eq!(idle[..4], halves(&[0xe000, 0xbffe]));
    assert_eq!(armed[..4], halves(&[0xf000, 0xbffe]));
    let (idle, armed) = states(Kind::Before, 0x1000);
    assert_eq!(idle[..6], halves(&[0xf000, 0xbffe, 0xbf00]));
    assert_eq!(armed[..6], halves(&[0xf000, 0xbffe, 0xe7fc]));
    let (idle, armed) = states(Kind::ShortCall, 0x0ffe);
    assert_eq!(idle[..6], halves(&[0xe001, 0xf000, 0xbffe]));
    assert_eq!(armed[..6], halves(&[0xbf00, 0xf000, 0xbffe]));
}

/// The instructions that differ are of the manual's list (DDI 0406C, A3.5.4), or the area says that it can't be changed then.
#[test]
fn what_is_exchanged_while_threads_run_is_of_the_manuals_list() {
    let is_listed = |bytes: &[u8]| match *bytes {
        // B, BL, NOP of ARM code.
        [a, b, c, d] => d & 0xf == 0xa || d & 0xf == 0xb || [a, b, c, d] == [0, 0xf0, 0x20, 0xe3],
        // The 16-bit B and NOP of Thumb code.
        [a, b] => b & 0xf8 == 0xe0 || [a, b] == [0, 0xbf],
        _ => false,
    };
    for kind in [Kind::Word, Kind::Call, Kind::Halves, Kind::Before, Kind::ShortCall] {
        let area = area(0, 0, kind);
        let (first, end) = area.changed();
        let (idle, armed) = area.states(0x1000, 0x2000).unwrap();
        let are_listed = is_listed(&idle[first..end]) && is_listed(&armed[first..end]);
        assert_eq!(are_listed, area.is_exchangeable(), "{kind:?}");
    }
}

#[test]
fn what_threads_may_run_through_meanwhile() {
    assert!(is_one_instruction(&words(&[0xe320_f000]), 4));
    assert!(is_one_instruction(&halves(&[0xbf00, 0xbf00, 0xbf00]), 6), "before the entry");
    assert!(is_one_instruction(&words(&[0xe320_f000]), 6), "before the entry");
    assert!(!is_one_instruction(&words(&[0xe320_f000]), 8));
    assert!(!is_one_instruction(&halves(&[0xbf00, 0xbf00]), 4));
    assert!(!is_one_instruction(&words(&[PUSH, 0xebff_fffe]), 8));
    assert!(!is_one_instruction(&halves(&[0xb500, 0xf7ff, 0xfffe]), 6));
}

#[test]
fn stubs_load_and_jump() {
    let stub = record_stub(0x1122_3344, 8, 0x1000).unwrap();
    assert_eq!(stub[..], words(&[0xe52d_c004, 0xe59f_c000, 0xe59c_f008, 0x1122_3344]));
    let stub = record_stub(0x1122_3344, 8, 0x1001).unwrap();
    assert_eq!(stub[..12], halves(&[0xf84d, 0xcd04, 0xf8df, 0xc004, 0xf8dc, 0xf008]));
    assert_eq!(stub[12..], words(&[0x1122_3344]));
    assert_eq!(record_stub(1 << 32, 8, 0), None);
}

#[test]
fn prologues_of_arm_code() {
    let table: &[(&[u32], _)] = &[
        // gcc -O2: a leaf; push {r4, lr}; a large frame; variable arguments
        (&[PUSH], Some((0, None))),
        (&[0xe92d_4010, PUSH], Some((8, Some(4)))),
        (&[0xe92d_4010, 0xe24d_dc23, 0xe24d_d028, PUSH], Some((9008, Some(9004)))),
        (&[0xe92d_000f, 0xe52d_e004, 0xe24d_d00c, PUSH], Some((32, Some(12)))),
        // gcc -O0: push {fp}; add fp, sp, #0; sub sp, sp, #12
        (&[0xe52d_b004, 0xe28d_b000, 0xe24d_d00c, PUSH], Some((16, None))),
        // clang: push {r4, sl, fp, lr}; add fp, sp, #8; mov r4, r0; stmfd sp!, {lr}
        (&[0xe92d_4c10, 0xe28d_b008, 0xe1a0_4000, 0xe92d_4000], Some((16, Some(12)))),
        // vpush {d8-d9}; strd r4, r5, [sp, #-16]!; str lr, [sp, #12]; cmp sp, r3
        (&[0xed2d_8b04, 0xe16d_41f0, 0xe58d_e00c, 0xe15d_0003, PUSH], Some((32, Some(12)))),
        // bic sp, sp, #7; sub sp, fp, #8; ldr r3, [sp], #4; bl
        (&[0xe3cd_d007, PUSH], None),
        (&[0xe24b_d008, PUSH], None),
        (&[0xe49d_3004, PUSH], None),
        // pop {r4, lr}; vpop {d8}; ldrd r4, r5, [sp], #8; stm sp, {r0, lr}; str lr, [fp, #-4]
        (&[0xe8bd_4010, PUSH], None),
        (&[0xecbd_8b02, PUSH], None),
        (&[0xe0cd_40d8, PUSH], None),
        (&[0xe88d_4001, PUSH], None),
        (&[0xe50b_e004, PUSH], None),
        // strd r0, r1, [sp, #8]; stm sp, {r0, r1}; vstr d8, [sp]; strh r0, [sp, #2]
        (&[0xe1cd_00f8, 0xe88d_0003, 0xed8d_8b00, 0xe1cd_00b2, PUSH], Some((0, None))),
        (&[0xebff_fffe, PUSH], None),
        (&[0xe92d_4010], None),
    ];
    for (code, expected) in table {
        let expected = expected.map(|(depth, link)| Frame { depth, link });
        assert_eq!(frame(&words(code)), expected, "{code:08x?}");
    }
}

#[test]
fn prologues_of_thumb_code() {
    let table: &[(&[u16], _)] = &[
        (&[0xb500], Some((0, None))),
        // gcc -O0: push {r7}; sub sp, #12; add r7, sp, #0
        (&[0xb480, 0xb083, 0xaf00, 0xb500], Some((16, None))),
        (&[0xb580, 0xb082, 0xaf00, 0xb500], Some((16, Some(12)))),
        // push {r4, lr}; sub.w sp, sp, #8960; sub sp, #40
        (&[0xb510, 0xf5ad, 0x5d0c, 0xb08a, 0xb500], Some((9008, Some(9004)))),
        // variable arguments; a nested function
        (&[0xb40f, 0xb500, 0xb083, 0xb500], Some((32, Some(12)))),
        (&[0xf84d, 0xcd04, 0xb500], Some((4, None))),
        // push {r4-r11, lr}; vpush {d8-d9}; subw sp, sp, #4095; strd r3, lr, [sp, #-16]!
        (&[0xe92d, 0x4ff0, 0xed2d, 0x8b04, 0xb500], Some((52, Some(48)))),
        (&[0xf6ad, 0x7dff, 0xe96d, 0x3e04, 0xb500], Some((4111, Some(4)))),
        // str.w lr, [sp, #12]; cmp sp, r3; sub.w r4, sp, #8
        (&[0xb084, 0xf8cd, 0xe00c, 0x459d, 0xf1ad, 0x0408, 0xb500], Some((16, Some(12)))),
        // mov sp, r4; add.w sp, sp, r3; bl; push.w
        (&[0x46a5, 0xb500], None),
        (&[0xeb0d, 0x0d03, 0xb500], None),
        // pop.w {r4, lr}; vpop {d8}; ldrd r4, r5, [sp], #8; stm.w sp, {r0, lr}; str lr, [r7, #4]; strd r4, lr, [r7, #8]; ldrsb r0, [sp], #4
        (&[0xe8bd, 0x4010, 0xb500], None),
        (&[0xecbd, 0x8b02, 0xb500], None),
        (&[0xe8fd, 0x4502, 0xb500], None),
        (&[0xe88d, 0x4001, 0xb500], None),
        (&[0xf8c7, 0xe004, 0xb500], None),
        (&[0xe9c7, 0x4e02, 0xb500], None),
        (&[0xf91d, 0x0b04, 0xb500], None),
        // stm.w sp, {r0, r1}; vstr d8, [sp]; strh.w r0, [sp, #2]; tst.w r0, #1
        (
            &[0xe88d, 0x0003, 0xed8d, 0x8b00, 0xf8ad, 0x0002, 0xf010, 0x0f01, 0xb500],
            Some((0, None)),
        ),
        (&[0xf7ff, 0xfffe, 0xb500], None),
        (&[0xb510], None),
    ];
    for (code, expected) in table {
        let expected = expected.map(|(depth, link)| Frame { depth, link });
        assert_eq!(frame(&halves(code)), expected, "{code:04x?}");
    }
    assert_eq!(position(&halves(&[0xb580, 0xb500]), 4), Some(Position::AfterPrologue));
    assert_eq!(position(&[], 0), Some(Position::Entry));
    assert_eq!(position(&halves(&[0x46a5, 0xb500]), 4), None);
    assert_eq!(position(&[], 4), None);
}

/// The code that a thread finds at each time, when a site is changed.
struct Seen(Vec<(u64, Vec<u8>)>);

impl Code for Seen {
    type Error = ();

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), ()> {
        self.0.push((address, bytes.to_vec()));
        Ok(())
    }

    fn synchronize(&mut self) -> Result<(), ()> {
        Ok(())
    }
}

#[test]
fn the_entry_is_written_last() {
    let (_, armed) = area(4, 6, Kind::Before).states(0x1002, 0x2000).unwrap();
    let change_of = |to| Change { address: 0x1002, length: 6, from: [0; 24], to };
    let mut seen = Seen(Vec::new());
    change(&mut seen, ALL_STAND, &[change_of(armed)]).unwrap();
    assert_eq!(seen.0.first().unwrap(), &(0x1002, armed[..4].to_vec()));
    assert_eq!(seen.0.last().unwrap(), &(0x1006, armed[4..6].to_vec()));
}
