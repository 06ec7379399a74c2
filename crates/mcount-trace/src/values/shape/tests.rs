//! Values with parts elsewhere, damaged descriptions, and numbers that this processor may not have.

use super::{Field, MORE, Payload, Shape, Signatures, Source, Value, extended, quad};
use crate::layout::{kind, target};

fn read(types: &[u8], bytes: &[u8], big_endian: bool) -> Option<Value> {
    let mut payload = Payload { bytes, big_endian };
    Shape::new(types, big_endian).read(Source::new(&mut payload, &Signatures::default()))
}

/// A list at an address, behind it a text, and two pointers to numbers: values with parts elsewhere.
const TYPES: &[u8] = &[
    kind::OBJECT,
    32,
    0,
    1,
    4, //
    0,
    0,
    1,
    b'l',
    kind::LIST,
    16,
    0,
    8,
    0,
    0,
    0,
    0,
    kind::LEADS,
    kind::SIGNED,
    1, //
    16,
    0,
    1,
    b't',
    kind::TEXT, //
    24,
    0,
    1,
    b'p',
    kind::LEADS,
    kind::CHARACTER,
    1, //
    24,
    0,
    1,
    b'q',
    kind::VARIANT,
    8,
    0,
    0,
    0,
    1,
    2, //
    0,
    7,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    4,
    b'S',
    b'o',
    b'm',
    b'e',
    kind::UNSIGNED,
    2, //
    1,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    4,
    b'N',
    b'o',
    b'n',
    b'e',
    kind::NONE,
];

#[test]
fn parts_elsewhere() {
    let types = TYPES;
    let word = |value: u64| value.to_le_bytes();
    let structure = [word(0x1000), word(0x2000), word(0x3000), word(7)].concat();
    let list = [&word(5)[..], &[2, 0], &word(0), &word(0x4000)].concat();
    let parts = [&[0][..], &[target::READ, 0xff], &[3, 0x40], b"abc", &[target::BAD]].concat();
    let bytes = [structure, list, parts].concat();
    let field = |name: &str, value| Field { name: name.to_owned(), value };
    let leads =
        |address, is_bad, to: Option<Value>| Value::Leads { address, is_bad, to: to.map(Box::new) };
    let elements = vec![leads(0, false, None), leads(0x4000, false, Some(Value::Signed(-1)))];
    let text = Value::Text { address: 0x3000, bytes: b"abc".to_vec(), is_cut: true, is_bad: false };
    let expected = Value::Structure(vec![
        field("l", Value::List { elements, count: 5, is_bad: false, is_map: false }),
        field("t", text),
        field("p", leads(7, true, None)),
        field("q", Value::Case("Some".to_owned(), Some(Box::new(Value::Unsigned(7))))),
        field(MORE, Value::Missing),
    ]);
    assert_eq!(read(types, &bytes, false), Some(expected));
    // Cut off anywhere.
    for end in 0..bytes.len() {
        assert!(read(types, &bytes[..end], false).is_some(), "{end}");
    }
    for end in 0..types.len() {
        assert_eq!(read(&types[..end], &bytes, false), None, "{end}");
    }
}

#[test]
fn damaged_descriptions_end() {
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let codes: Vec<u8> = (0..=kind::VARIANT + 1).collect();
    let bytes: Vec<u8> = (0..3060).map(|at| u8::from(at % 7 == 0)).collect();
    for round in 0..4000 {
        let mut types = if round % 2 == 0 { TYPES.to_vec() } else { vec![0; 200] };
        for _ in 0..=random(if round % 2 == 0 { 6 } else { 400 }) {
            let at = usize::try_from(random(types.len() as u64)).unwrap();
            let code = codes[usize::try_from(random(codes.len() as u64)).unwrap()];
            types[at] = if random(3) == 0 { u8::try_from(random(256)).unwrap() } else { code };
        }
        let _ = read(&types, &bytes, round % 3 == 0);
        let _ = read(&types, &[], round % 3 == 0);
    }
    // Each of these would take longer than anyone waits, or more memory than there is.
    let array = |count: u16, size: u32| {
        let head = [&[kind::ARRAY][..], &[0xff; 8], &count.to_le_bytes()].concat();
        [head, size.to_le_bytes().to_vec()].concat()
    };
    let arrays: Vec<u8> = (0..20).flat_map(|_| array(u16::MAX, 0)).collect();
    let large = array(u16::MAX, u32::MAX);
    let pointers = vec![kind::LEADS; 60_000];
    let fields = [kind::OBJECT, 0, 0, 0, 255, 0, 0, 0].repeat(7000);
    let cases = [&[kind::VARIANT, 0, 0, 0, 0, 0, 255][..], &[1; 9], &[0]].concat().repeat(3000);
    for types in [arrays, large, pointers, fields, cases] {
        let _ = read(&types, &bytes, false);
        let _ = read(&types, &[1; 3060], false);
    }
}

#[test]
fn long_doubles() {
    // gcc's bytes of each, for x86-64 and for AArch64.
    let table: [(f64, u128, u128); 6] = [
        (1.0, 0x3fff_8000_0000_0000_0000, 0x3fff << 112),
        (-2.5, 0xc000_a000_0000_0000_0000, 0xc000_4000 << 96),
        (0.0, 0, 0),
        (1e300, 0x43e3_bf21_e440_03ac_e000, 0x43e3_7e43_c880_0759_c000_0000_0000_0000),
        (f64::NEG_INFINITY, 0xffff_8000_0000_0000_0000, 0xffff << 112),
        (2_f64.powi(-1000), 0x3c17_8000_0000_0000_0000, 0x3c17 << 112),
    ];
    for (value, x87, ieee) in table {
        assert_eq!([extended(x87), quad(ieee)].map(f64::to_bits), [value.to_bits(); 2], "{value}");
    }
    assert!(quad(0x7fff << 112 | 1).is_nan());
    assert!(quad(0x7ffe << 112).is_infinite());
    assert_eq!(quad(1).to_bits(), 0);
}
