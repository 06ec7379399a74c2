//! Hooks of RISC-V: what compilers leave, and both states.

use super::{
    ALL_STAND, Area, C_NOP, Frame, Kind, PAIR, Position, REACH, Unusable, is_one_instruction,
    position, record_stub, word,
};
use crate::engine::{Change, Code, change};
use std::vec::Vec;

const SHORT: [u8; 8] = [1, 0, 1, 0, 1, 0, 1, 0];
const WIDE: [u8; 8] = [0x13, 0, 0, 0, 0x13, 0, 0, 0];

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn halves(halves: &[u16]) -> Vec<u8> {
    halves.iter().flat_map(|half| half.to_le_bytes()).collect()
}

#[test]
fn areas_of_all_compilers() {
    let area =
        |start, before, length, kind, is_call| Ok(Area { start, before, length, kind, is_call });
    let table: &[(&[u8], &[u8], _)] = &[
        (&[], &SHORT, area(0, 0, 8, Kind::Long, false)),
        (&[], &WIDE, area(0, 0, 8, Kind::Long, false)),
        (&SHORT, &SHORT, area(0, 8, 10, Kind::Before(2), false)),
        (&SHORT, &[1, 0, 0x82, 0x80], area(0, 8, 10, Kind::Before(2), false)),
        (&WIDE, &[0x13, 0, 0, 0, 0x67, 0x80, 0, 0], area(0, 8, 12, Kind::Before(4), false)),
        (&SHORT[..6], &[1, 0, 0x82, 0x80], Err(Unusable::TooSmall(2))),
        (&[], &SHORT[..6], Err(Unusable::TooSmall(6))),
        (&[], &[0x82, 0x80, 0, 0, 0, 0, 0, 0], Err(Unusable::NotAHook)),
        (&[], &[], Err(Unusable::NotAHook)),
    ];
    for (before, code, expected) in table {
        assert_eq!(Area::find(before, code), *expected, "{before:02x?} {code:02x?}");
    }
    let find = |code: &[u32]| Area::find(&[], &words(code));
    // auipc ra; jalr ra, (ra), and what the linker makes of it.
    assert_eq!(find(&[0x0000_0097, 0x0000_80e7]), area(0, 0, 8, Kind::Long, true));
    assert_eq!(find(&[0xff9f_f0ef, 0]), area(0, 0, 4, Kind::Near, true));
    assert_eq!(find(&[0x0000_0017, 0x13, 0x13]), area(4, 0, 8, Kind::Long, false), "lpad");
    // auipc a0; jalr ra, (a1): a pair of something else.
    assert_eq!(find(&[0x0000_0517, 0x0005_80e7]), Err(Unusable::NotAHook));
    assert_eq!(find(&[0x0000_006f, 0]), Err(Unusable::NotAHook), "j");
}

fn all_kinds() -> [Area; 4] {
    let new = |before, length, kind| Area { start: 0, before, length, kind, is_call: false };
    [
        new(PAIR, 10, Kind::Before(2)),
        new(PAIR, 12, Kind::Before(4)),
        new(0, PAIR, Kind::Long),
        new(0, 4, Kind::Near),
    ]
}

/// What objdump says: auipc t1,0x1; jalr zero,-16(t1) and so on.
#[test]
fn states_are_what_they_say() {
    let states = |kind: usize, target| all_kinds()[kind].states(0x1000, target).unwrap();
    let (idle, armed) = states(2, 0x1ff0);
    assert_eq!(armed[..8], words(&[0x0000_1317, 0xff03_0067])[..]);
    assert_eq!(idle[..8], words(&[0x0000_1317, 0xff03_0013])[..]);
    let (idle, armed) = states(0, 0x1ff0);
    assert_eq!(armed[..10], [words(&[0x0000_1317, 0xff03_0067]), halves(&[0xbfe5])].concat()[..]);
    assert_eq!(idle[8..10], [1, 0]);
    let (idle, armed) = states(1, 0x1ff0);
    assert_eq!(armed[8..12], words(&[0xff9f_f06f])[..]);
    assert_eq!(idle[8..12], words(&[0xff9f_0013])[..]);
    let (idle, armed) = states(3, 0x1ff0);
    assert_eq!(armed[..4], words(&[0x7f10_006f])[..]);
    assert_eq!(idle[..4], words(&[0x7f10_0013])[..]);
    let reach = |kind: usize, target| all_kinds()[kind].states(0x8000_0000, target).is_some();
    assert!(reach(3, 0x8000_0000 - (1 << 20)) && !reach(3, 0x8000_0000 + (1 << 20)));
    assert!(reach(2, 0x8000_0000 + REACH) && reach(2, 0x8000_0000 - REACH));
    assert!(!reach(2, 1 << 40) && !reach(2, 0x8000_0001));
}

struct Memory(u64, Vec<u8>, Vec<Vec<u8>>);

impl Code for Memory {
    type Error = ();

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), ()> {
        // As halfwords, and any of them may be seen before the next one.
        for (at, half) in (address..).step_by(2).zip(bytes.chunks(2)) {
            let at = usize::try_from(at - self.0).unwrap();
            self.1[at..at + 2].copy_from_slice(half);
            self.2.push(self.1.clone());
        }
        Ok(())
    }

    fn synchronize(&mut self) -> Result<(), ()> {
        Ok(())
    }
}

#[test]
fn one_halfword_changes_and_what_is_behind_it_does_not() {
    for area in all_kinds() {
        for site in [0x1000, 0x1002] {
            let (idle, armed) = area.states(site, 0x2ff0).unwrap();
            let (first, end) = area.changed();
            assert_eq!(end - first, 2);
            for at in (0..24).filter(|at| !(first..end).contains(at)) {
                assert_eq!(idle[at], armed[at], "{area:?}: {at}");
            }
            // An idle site is an instruction with the same length as the armed one, and does nothing.
            let (idle, armed) = (word(&idle, first), word(&armed, first));
            let (idle, armed) = (idle.unwrap(), armed.unwrap());
            let is_short = |word: u32| word & 3 != 3;
            assert_eq!(is_short(idle), is_short(armed));
            if is_short(idle) {
                assert_eq!(idle & 0xffff, 1);
            } else {
                assert_eq!(idle & 0x7fff, 0x13, "addi zero");
            }
        }
    }
}

/// Of what's before the entry, nothing is executed until all of it is there.
#[test]
fn an_area_before_the_entry_is_made_ready_under_threads() {
    let area = all_kinds()[0];
    assert!(is_one_instruction(&[], area.length));
    assert!(all_kinds()[2..].iter().all(|area| !is_one_instruction(&[], area.length)));
    let (_, armed) = area.states(0x1000, 0x2ff0).unwrap();
    let mut from = [0; 24];
    from[..8].copy_from_slice(&SHORT);
    from[8..10].copy_from_slice(&C_NOP);
    let mut memory = Memory(0x1000, from[..10].to_vec(), Vec::new());
    let changes = [Change { address: 0x1000, length: 10, from, to: armed }];
    change(&mut memory, ALL_STAND, &changes).unwrap();
    for seen in &memory.2 {
        assert!(seen[8..10] == C_NOP || seen[..] == armed[..10], "{seen:02x?}");
    }
    assert_eq!(memory.1, armed[..10]);
}

#[test]
fn a_stub_loads_and_jumps() {
    let stub = record_stub(0x1122_3344_5566_7788, 8);
    let expected = [0x0000_0297, 0x0102_b283, 0x0082_b303, 0x0003_0067];
    assert_eq!(stub[..16], words(&expected)[..]);
    assert_eq!(stub[16..], 0x1122_3344_5566_7788_u64.to_le_bytes());
}

#[test]
fn prologues_of_gcc_and_clang() {
    let frame = |depth, link| Some(Frame { depth, link });
    let table: &[(&[u16], _)] = &[
        // gcc: add sp,sp,-16; sd ra,8(sp); sd s0,0(sp); mv s0,a0; mv a0,ra
        (&[0x1141, 0xe406, 0xe022, 0x842a, 0x8506], frame(16, 8)),
        // gcc -O0: add sp,sp,-32; sd ra,24(sp); sd s0,16(sp); add s0,sp,32; mv a5,ra; mv a4,a0; sw a4,-20(s0)
        (&[0x1101, 0xec06, 0xe822, 0x1000, 0x8786, 0x872a, 0x2623, 0xfee4], frame(32, 24)),
        // clang: add sp,sp,-496; sd ra,488(sp); lui a1,0x2; addw a1,a1,-656; sub sp,sp,a1
        (&[0x7141, 0xf786, 0x6589, 0x859b, 0xd705, 0x0133, 0x40b1], frame(496 + 7536, 488 + 7536)),
        // gcc -march=rv64g: add sp,sp,-2032; lui t0,0xfffff; add t0,t0,-1904; sd ra,2024(sp); add sp,sp,t0
        (
            &[0x0113, 0x8101, 0xf2b7, 0xffff, 0x8293, 0x8902, 0x3423, 0x7e11, 0x0133, 0x0051],
            frame(2032 + 6000, 2024 + 6000),
        ),
        // Nothing is stored; the stack is moved by nobody knows what; there's a jump.
        (&[0x1141], None),
        (&[0x1141, 0xe406, 0x0133, 0x40b1], None),
        (&[0x1141, 0xe406, 0xa001], None),
        // mv sp, s0
        (&[0x1141, 0xe406, 0x8122], None),
        (&[0x1141, 0xe4], None),
    ];
    for (code, expected) in table {
        assert_eq!(super::frame(&halves(code)), *expected, "{code:04x?}");
    }
    let standard = halves(&[0x1141, 0xe406, 0x0097, 0x0000]);
    assert_eq!(position(&standard, 4), Some(Position::AfterPrologue));
    assert_eq!(position(&standard, 2), None);
    assert_eq!(position(&standard, 0), Some(Position::Entry));
    assert_eq!(position(&standard, 1 << 40), None);
}
