//! Hooks of x86-64: NOPs and calls, and both states.

use super::{
    Area, ENDBR64, IDLE, Pointer, Position, Unusable, armed, idle, is_one_instruction, nop_length,
    position, record_stub,
};

#[test]
fn nops_of_every_form() {
    let table: &[(&[u8], Option<usize>)] = &[
        (&[0x90], Some(1)),
        (&[0x66, 0x90], Some(2)),
        (&[0x0f, 0x1f, 0x00], Some(3)),
        (&[0x0f, 0x1f, 0x40, 0x08], Some(4)),
        (&[0x0f, 0x1f, 0x44, 0x00, 0x08], Some(5)),
        (&[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00], Some(6)),
        (&[0x0f, 0x1f, 0x80, 0, 0, 0, 0], Some(7)),
        (&[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0], Some(10)),
        (&[0x0f, 0x1f, 0x44], None),
        (&[0x0f, 0x1f, 0x48, 0x00], None),
        (&[0xc3], None),
        (&[0x66], None),
        (&[], None),
    ];
    for (code, length) in table {
        assert_eq!(nop_length(code), *length, "{code:02x?}");
    }
}

#[test]
fn areas_are_found_and_filled() {
    let gcc = [0xf3, 0x0f, 0x1e, 0xfa, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3];
    let area = Area::find(&gcc).unwrap();
    assert_eq!(area, Area { start: 4, length: 5, is_call: false });
    assert_eq!(&area.idle()[..5], &IDLE);
    let mut long = [0x66_u8; 16];
    long[5..15].copy_from_slice(&[0x2e, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0, 0x90]);
    long[..5].fill(0x66);
    let area = Area::find(&long).unwrap();
    let idle = area.idle();
    let mut at = 0;
    while at < area.length {
        at += nop_length(&idle[at..area.length]).unwrap();
    }
    assert_eq!(Area::find(&[0x90, 0x90, 0xc3]), Err(Unusable::TooSmall(2)));
    assert_eq!(Area::find(&[0x55]), Err(Unusable::NotAHook));
}

/// What clang 14 and 19 emit, and LLVM's runtime writes.
#[test]
fn sleds_are_areas_as_long_as_nobody_has_patched_them() {
    const SLED: [u8; 11] = [0xeb, 0x09, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0];
    let area = |start| Ok(Area { start, length: 11, is_call: false });
    assert_eq!(Area::find(&SLED), area(0));
    assert_eq!(Area::find(&[&ENDBR64[..], &SLED, &[0xc3]].concat()), area(4));
    assert!(is_one_instruction(&SLED, 11));
    assert!(!is_one_instruction(&SLED, 5));
    let others: [&[u8]; 5] = [
        &SLED[..10],
        // mov $1, %r10d; call …
        &[0x41, 0xba, 1, 0, 0, 0, 0xe8, 0, 0, 0, 0],
        // The same, disarmed by the runtime.
        &[0xeb, 0x09, 1, 0, 0, 0, 0xe8, 0, 0, 0, 0],
        &[0xeb, 0x08, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0],
        &[0xeb, 0x09, 0x0f, 0x1f, 0x44, 0, 0, 0x90, 0x90, 0x90, 0x55],
    ];
    for code in others {
        assert_eq!(Area::find(code), Err(Unusable::NotAHook), "{code:02x?}");
        assert!(!is_one_instruction(code, 11), "{code:02x?}");
    }
}

#[test]
fn far_calls_are_found() {
    let load = [0x49, 0xba, 1, 2, 3, 4, 5, 6, 7, 8];
    let found = |code: &[&[u8]]| Area::find(&code.concat());
    let area = |start, length| Ok(Area { start, length, is_call: true });
    assert_eq!(found(&[&load, &[0x41, 0xff, 0xd2]]), area(0, 13));
    assert_eq!(found(&[&load, &[0xff, 0xd0]]), area(0, 12));
    assert_eq!(found(&[&ENDBR64, &load, &[0xff, 0x14, 0x01]]), area(4, 13));
    let middle = [0x4c, 0x8d, 0x15, 0xef, 0xff, 0xff, 0xff, 0x4d, 0x01, 0xda];
    let end = [0x4d, 0x01, 0xda, 0x41, 0xff, 0xd2];
    assert_eq!(found(&[&load, &middle, &load, &end]), area(30, 6));
    for code in [&load[..], &[load, middle].concat(), &[&load[..], &middle, &load].concat()] {
        assert_eq!(Area::find(code), Err(Unusable::NotAHook), "{code:02x?}");
    }
}

#[test]
fn behind_a_prologue_a_register_may_lead_to_the_slot() {
    use Position::{AfterAligning, AfterPrologue, Entry};
    // gcc 12: lea 8(%rsp),%r10; and $-64,%rsp; push -8(%r10); push %rbp; mov %rsp,%rbp; push %r12; sub $0x58,%rsp
    let first: &[u8] = &[
        0x4c, 0x8d, 0x54, 0x24, 0x08, 0x48, 0x83, 0xe4, 0xc0, 0x41, 0xff, 0x72, 0xf8, 0x55, 0x48,
        0x89, 0xe5, 0x41, 0x54, 0x48, 0x83, 0xec, 0x58,
    ];
    // The same with %r13, which is pushed first.
    let second: &[u8] = &[
        0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x55, 0x4c, 0x8d, 0x6c, 0x24, 0x10, 0x48, 0x83, 0xe4, 0xc0,
        0x41, 0xff, 0x75, 0xf8, 0x55, 0x48, 0x89, 0xe5, 0x41, 0x55,
    ];
    let usual: &[u8] = &[0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xc0];
    // xor %r10d,%r10d after it.
    let spoilt = [first, &[0x45, 0x31, 0xd2]].concat();
    let table: &[(&[u8], Option<Position>)] = &[
        (first, Some(AfterAligning(Pointer::R10))),
        (second, Some(AfterAligning(Pointer::R13))),
        (usual, Some(AfterPrologue)),
        (&spoilt, None),
        (&[0x41, 0x52], None),
        (&[], Some(Entry)),
    ];
    for (prologue, expected) in table {
        let code = [prologue, [0xe8, 0, 0, 0, 0].as_slice()].concat();
        assert_eq!(position(&code, prologue.len() as u64), *expected, "{prologue:02x?}");
    }
    // The hook isn't behind all of it.
    assert_eq!(position(first, 9), None);
}

#[test]
fn jumps_reach_two_gigabytes_and_no_further() {
    assert_eq!(armed(0x1000, 0x2000), Some([0xe9, 0xfb, 0x0f, 0, 0]));
    assert_eq!(armed(0, 0x8000_0004), Some([0xe9, 0xff, 0xff, 0xff, 0x7f]));
    assert_eq!(armed(0, 0x8000_0005), None);
}

#[test]
fn idle_and_armed_differ_in_one_byte() {
    let (idle, armed) = (idle(0x1000, 0x2000).unwrap(), armed(0x1000, 0x2000).unwrap());
    assert_eq!((idle[0], armed[0]), (0xa9, 0xe9));
    assert_eq!(idle[1..], armed[1..]);
    assert_eq!(super::idle(0, 0x8000_0005), None);
}

#[test]
fn a_thread_can_stand_between_instructions_only() {
    let table: &[(&[u8], bool)] = &[
        (&[0x90; 5], false),
        (&[0x0f, 0x1f, 0x44, 0x00, 0x08], true),
        (&[0x66, 0x90, 0x0f, 0x1f, 0x00], false),
        (&[0xe8, 1, 2, 3, 4], true),
        (&[0xff, 0x15, 1, 2, 3, 4], true),
        (&[0x67, 0xe8, 1, 2, 3, 4], true),
        (&[0xa9, 1, 2, 3, 4, 0x90], false),
    ];
    for (code, expected) in table {
        assert_eq!(is_one_instruction(code, code.len()), *expected, "{code:02x?}");
    }
}

#[test]
fn a_record_stub_loads_and_jumps() {
    let stub = record_stub(0x1122_3344_5566_7788, 8);
    let expected =
        [0x49, 0xbb, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x41, 0xff, 0x63, 8];
    assert_eq!(stub[..14], expected);
}
