//! The compiler's list of sleds, damaged in each way.

use super::{TEXT, findings};
use testkit::test;
use testkit::tiny_elf::{Object, Relocation, Section, Symbol};

const R_X86_64_PC64: u32 = 24;
const SLED: [u8; 12] = [0xeb, 0x09, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0, 0xc3];

/// A change to an object, and what it makes of the list.
type Row = (fn(&mut Object), &'static str);

const ROWS: &[Row] = &[
    (
        |o| o.sections[1].relocations[0].addend = 2,
        "entry 0: no sled of kind 0 is there, but 66 0f 1f 84 00 00",
    ),
    (|o| o.sections[1].data[16] = 1, "entry 0: no sled of kind 1 is there, but eb 09 66 0f 1f 84"),
    (|o| o.sections[1].data[16] = 9, "entry 0: no sled of kind 9 is there, but eb 09 66 0f 1f 84"),
    (
        |o| o.sections[1].data.truncate(31),
        "31 bytes are behind the last entry, and entries have 32",
    ),
    (|o| leave(o, 0), "entry 0: it leads to nothing in this file"),
    (|o| leave(o, 1), "entry 0: its function isn't in the code"),
    (|o| o.sections[0].flags = 2, "entry 0: it leads to .text, which has no code"),
    (patch, "entry 0: no sled of kind 0 is there, but 41 ba 01 00 00 00"),
    (repeat, "entries 0 and 1 both lead there"),
];

fn leave(object: &mut Object, relocation: usize) {
    object.sections[1].relocations.remove(relocation);
}

/// As LLVM's runtime does.
fn patch(object: &mut Object) {
    let code = [0x41, 0xba, 1, 0, 0, 0, 0xe8, 0, 0, 0, 0];
    object.sections[0].data[..11].copy_from_slice(&code);
}

fn repeat(object: &mut Object) {
    let list = &mut object.sections[1];
    list.data = list.data.repeat(2);
    let more: Vec<_> = list.relocations.iter().map(|one| behind(one, 32)).collect();
    list.relocations.extend(more);
}

fn behind(one: &Relocation, distance: u64) -> Relocation {
    Relocation { offset: one.offset + distance, ..*one }
}

/// A function with a sled, and the list of it.
fn object() -> Object {
    let mut object = Object::new(62, true, false, true);
    object.symbols = vec![Symbol::of_section(TEXT), Symbol::function("one", 1, TEXT, 0, 12)];
    let mut data = vec![0; 32];
    data[18] = 2;
    let to_text = |offset| Relocation { offset, symbol: 1, kind: R_X86_64_PC64, addend: 0 };
    let relocations = vec![to_text(0), to_text(8)];
    let name = "xray_instr_map".to_owned();
    let list = Section { name, kind: 1, flags: 2, data, relocations, ..Section::default() };
    object.sections = vec![Section::code(".text", &SLED), list];
    object
}

#[test]
fn sled_map() {
    assert_eq!(findings(&object().build()), []);
    for (change, detail) in ROWS {
        let mut object = object();
        change(&mut object);
        let found = findings(&object.build());
        let found: Vec<_> = found.iter().map(|f| (f.rule.name(), f.detail.as_str())).collect();
        assert_eq!(found, [("sled-map", *detail)]);
    }
}
