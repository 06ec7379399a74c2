//! The rules of `check` on a linked image: a good one, damaged in one way at a time.

use testkit::test;
use testkit::tiny_elf::{Object, Section, Symbol, put};

use crate::lines;

/// A linked x86-64 image: the hook, then `one`, `two` and `three`, which call it, and the table.
struct Image {
    object: Object,
    words: Vec<u64>,
    big_endian: bool,
}

const BASE: u64 = 0x1000;
const SIZE: u64 = 8;

fn image() -> Image {
    let mut object = Object::new(62, true, false, true);
    object.kind = 3;
    let mut code = vec![0xc3, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc];
    for number in 1..=3u8 {
        let back = (-i32::from(number) * 8 - 5).to_le_bytes();
        code.extend([0xe8, back[0], back[1], back[2], back[3], 0x31, 0xc0, 0xc3]);
    }
    let text = Section { address: BASE, ..Section::code(".text", &code) };
    object.sections = vec![text];
    object.symbols = vec![
        Symbol::function("__fentry__", 1, 1, BASE, SIZE),
        Symbol::function("one", 1, 1, BASE + SIZE, SIZE),
        Symbol::function("two", 1, 1, BASE + 2 * SIZE, SIZE),
        Symbol::function("three", 1, 1, BASE + 3 * SIZE, SIZE),
    ];
    let words = (1..=3).map(|number| BASE + number * SIZE).collect();
    Image { object, words, big_endian: false }
}

impl Image {
    fn build(&self) -> Vec<u8> {
        let mut object = self.object.clone();
        let order =
            |word: &u64| if self.big_endian { word.to_be_bytes() } else { word.to_le_bytes() };
        object.sections.push(Section {
            name: "__mcount_loc".to_owned(),
            kind: 1,
            flags: 2,
            address: 0x2000,
            data: self.words.iter().flat_map(order).collect(),
            alignment: 8,
            ..Section::default()
        });
        object.build()
    }

    fn lines(&self) -> Vec<String> {
        lines(&self.build())
    }
}

#[test]
fn damage_to_an_image() {
    type Damage = fn(&mut Image);
    let cases: &[(&str, Damage, &[&str])] = &[
        ("none", |_| {}, &[]),
        ("no hook", |i| i.words.insert(1, BASE + SIZE + 5), &["not-a-call-site .text+0xd"]),
        ("beside", |i| i.words[1] += 1, &["wrong-offset .text+0x11"]),
        ("before", |i| i.words[1] -= 1, &["wrong-offset .text+0xf"]),
        ("nowhere", |i| i.words.push(0x0123_4567), &["stale-entry __mcount_loc+0x18"]),
        ("zero", |i| i.words.insert(0, 0), &[]),
        ("lost", |i| i.words.truncate(2), &["missing-site .text+0x18"]),
        ("twice", |i| i.words.insert(1, BASE + SIZE), &["duplicate .text+0x8"]),
        ("order", |i| i.words.swap(1, 2), &["unsorted __mcount_loc+0x10"]),
        ("overridden", |i| drop(i.object.symbols.remove(2)), &["overridden-entry .text+0x10"]),
        ("zeroes", |i| i.words.fill(0), &["zero-table __mcount_loc+0x0"]),
        (
            "overridden and dropped",
            |i| {
                i.object.symbols.remove(2);
                i.words.remove(1);
            },
            &[],
        ),
        ("bytes", |i| i.words[2] = i.words[2].swap_bytes(), &["foreign-endian __mcount_loc+0x10"]),
        (
            "excluded",
            |i| ".noinstr.text".clone_into(&mut i.object.sections[0].name),
            &["excluded-section .noinstr.text+0x8"; 3],
        ),
    ];
    for (name, damage, expected) in cases {
        let mut image = image();
        damage(&mut image);
        let mut expected: Vec<_> = expected.iter().map(|line| (*line).to_owned()).collect();
        if *name == "excluded" {
            let places = ["0x8", "0x10", "0x18"];
            expected = places.map(|at| format!("excluded-section .noinstr.text+{at}")).to_vec();
        }
        assert_eq!(image.lines(), expected, "{name}");
    }
}

#[test]
fn a_foreign_table_of_an_image() {
    let foreign = Image { big_endian: true, ..image() };
    let found = foreign.lines();
    assert_eq!(found.len(), 3);
    assert!(found.iter().all(|line| line.starts_with("foreign-endian")), "{found:?}");
}

#[test]
fn text_relocation() {
    let mut image = image();
    let relative = |at: u64| [0x2000 + at * 8, 8, BASE + SIZE + at * SIZE];
    image.object.sections.push(Section {
        name: ".rela.dyn".to_owned(),
        kind: 4,
        flags: 2,
        address: 0x3000,
        data: (0..3).flat_map(relative).flat_map(u64::to_le_bytes).collect(),
        alignment: 8,
        entry_size: 24,
        ..Section::default()
    });
    // The values are in the relocations.
    image.words = vec![0; 3];
    assert_eq!(image.lines(), ["text-relocation __mcount_loc+0x0"]);
    // Not over the table.
    image.object.sections[1].address = 0x3000;
    image.words = (1..=3).map(|number| BASE + number * SIZE).collect();
    for at in 0..3 {
        put(&mut image.object.sections[1].data, at * 24, 8, false, 0x9000);
    }
    assert_eq!(image.lines(), [""; 0]);
}

#[test]
fn a_misaligned_entry_of_an_image() {
    // bl _mcount; ret, with _mcount 8 bytes before.
    let mut image = image();
    image.object.machine = 183;
    let ret = [0xc0, 0x03, 0x5f, 0xd6];
    let mut code = [ret, ret].concat();
    for number in 1..=3u8 {
        code.extend([(0xfe_u8).wrapping_sub(2 * (number - 1)), 0xff, 0xff, 0x97]);
        code.extend(ret);
    }
    image.object.sections[0].data = code;
    "_mcount".clone_into(&mut image.object.symbols[0].name);
    assert_eq!(image.lines(), [""; 0]);
    image.words[1] += 2;
    assert_eq!(image.lines(), ["misaligned .text+0x12"]);
}
