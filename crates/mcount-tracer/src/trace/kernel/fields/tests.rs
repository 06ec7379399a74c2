//! Records of tracepoints, on their way into a trace and out of it again.

use super::super::tracefs::Tracefs;
use super::{Form, LONG, Number, Place, all, description, values};
use crate::trace::kernel::format::Format;
use mcount_trace::{Function, Named, Signature, Trace, Value};

/// A record in a trace, as readers find it.
fn read_back(text: &str, record: &[u8]) -> Vec<Named> {
    let fields = all(&Format::parse(text));
    let (description, values) = (description(&fields), values(&fields, record));
    let mut writer = mcount_trace::Writer::new();
    writer.process(1, 0, 0, "/bin/program");
    writer.entry(Function { number: 5, module: 0, address: 5, size: 1, name: b"a:b" });
    writer.entry(Signature { function: 5, values: &description });
    writer.told((1, 1), 5, (12, Some(12)), &values);
    let bytes = writer.finish();
    let trace = Trace::parse(&bytes).unwrap();
    let mut reader = trace.values();
    let calls: Vec<_> = trace.calls().collect();
    assert_eq!(calls.len(), 1);
    assert!(reader.is_event(5) && reader.is_named_mark(5));
    // Nothing, if the record ends before its first field.
    reader.arguments(&calls[0]).unwrap_or_default()
}

/// A field as a line of a format says: name, type with the counts, offset, size, sign.
fn lines(text: &str) -> Vec<(String, String, usize, usize, bool)> {
    let mut found = Vec::new();
    for line in text.lines().filter_map(|line| line.trim().strip_prefix("field:")) {
        let parts: Vec<&str> = line.split(';').map(str::trim).collect();
        let after = |at: usize| parts[at].split(':').nth(1).unwrap().parse::<usize>().unwrap();
        let (kind, name) = parts[0].rsplit_once(' ').unwrap();
        let (name, counts) = name.find('[').map_or((name, ""), |at| name.split_at(at));
        let kind = format!("{kind} {counts}");
        found.push((name.to_owned(), kind, after(1), after(2), after(3) == 1));
    }
    found
}

/// A number as its bytes say, without what the code under test does.
fn number_in(bytes: &[u8], is_signed: bool) -> i128 {
    let mut value = 0_i128;
    for byte in bytes.iter().rev() {
        value = value << 8 | i128::from(*byte);
    }
    let bits = 8 * bytes.len();
    if is_signed && value >> (bits - 1) == 1 { value - (1 << bits) } else { value }
}

/// All numbers in a value, one after the other.
fn numbers(value: &Value) -> Vec<i128> {
    match value {
        Value::Signed(value) => vec![*value],
        Value::Unsigned(value) => vec![i128::try_from(*value).unwrap()],
        Value::Boolean(value) => vec![i128::from(*value)],
        Value::Pointer(value) => vec![i128::from(*value)],
        Value::List { elements, count, .. } => {
            assert_eq!(*count, elements.len() as u64);
            elements.iter().flat_map(numbers).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// Every format that this kernel has: each field comes out of the trace as its bytes were.
#[test]
fn all_formats_of_this_kernel_are_understood() {
    let Ok(tracefs) = Tracefs::find() else { return };
    let Ok(subsystems) = std::fs::read_dir(tracefs.path("events")) else { return };
    let (mut formats, mut fields) = (0, 0);
    for subsystem in subsystems.flatten() {
        let Ok(events) = std::fs::read_dir(subsystem.path()) else { continue };
        for event in events.flatten() {
            let Ok(text) = std::fs::read_to_string(event.path().join("format")) else { continue };
            formats += 1;
            fields += check(&text);
        }
    }
    assert!(formats == 0 || formats > 100 && fields > 3 * formats / 2, "{fields} of {formats}");
}

/// Checks all fields of a format; how many there are.
fn check(text: &str) -> usize {
    let own = lines(text).into_iter().filter(|(name, ..)| !name.starts_with("common_"));
    let own: Vec<_> = own.collect();
    let size = own.iter().map(|(.., offset, size, _)| offset + size).max().unwrap_or(8);
    // Bytes of which many would be below 0, and at the end what is elsewhere.
    let mut record: Vec<u8> = (0..size).map(|at| at.to_le_bytes()[0] | 0x80).collect();
    let elsewhere = *b"\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8";
    for (_, kind, offset, ..) in own.iter().filter(|(_, kind, ..)| kind.contains("_loc ")) {
        let base = if kind.contains("__rel_loc") { offset + 4 } else { 0 };
        let word = 8_u32 << 16 | u32::try_from(record.len() - base).unwrap();
        record[*offset..offset + 4].copy_from_slice(&word.to_ne_bytes());
        record.extend(elsewhere);
    }
    let found = read_back(text, &record);
    let names = |all: &[Named]| all.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
    let expected: Vec<String> = own.iter().map(|(name, ..)| name.clone()).collect();
    assert_eq!(names(&found), expected, "{text}");
    for (one, (_, kind, offset, size, is_signed)) in found.iter().zip(&own) {
        let bytes = &record[*offset..offset + size];
        match &one.value {
            Value::Characters { bytes: text, .. } if kind.contains("_loc ") => {
                assert_eq!(text, &elsewhere, "{kind}");
            }
            Value::Characters { bytes: text, .. } => assert_eq!(text, bytes, "{kind}"),
            Value::Boolean(value) => assert!(*value && kind.trim() == "bool", "{kind}"),
            value => {
                let numbers = numbers(value);
                let bytes = if kind.contains("_loc ") { &elsewhere[..] } else { bytes };
                let width = bytes.len() / numbers.len().max(1);
                assert_eq!(width * numbers.len(), bytes.len(), "{kind}: {value:?}");
                let is_signed = *is_signed && !kind.contains("_loc ");
                let expected = bytes.chunks(width.max(1)).map(|part| number_in(part, is_signed));
                assert_eq!(numbers, expected.collect::<Vec<_>>(), "{kind}");
            }
        }
    }
    found.len()
}

/// Types that kernels have, and some that none has: what can't be understood is bytes.
#[test]
fn types_of_fields() {
    use Number::{Pointer, Signed, Truth, Unsigned};
    let long = LONG;
    let bytes = |size: usize| Form::Array(Unsigned(1), vec![size]);
    let table = [
        ("int a", 4, true, Form::Number(Signed(4))),
        ("unsigned long long a", 8, false, Form::Number(Unsigned(8))),
        ("bool a", 1, false, Form::Number(Truth)),
        ("const struct thing * a", long, false, Form::Number(Pointer(long))),
        ("void (*a)(struct thing *)", long, false, Form::Number(Pointer(long))),
        ("char a[16]", 16, true, Form::Characters(16)),
        ("char a[2][8]", 16, true, Form::Array(Signed(1), vec![2, 8])),
        ("u16 a[2][3]", 12, false, Form::Array(Unsigned(2), vec![2, 3])),
        ("void *a", long, false, Form::Number(Pointer(long))),
        ("void *a[2]", 2 * long, false, Form::Array(Pointer(long), vec![2])),
        ("int a[MOST]", 8, true, bytes(8)),
        ("int a[3]", 8, true, bytes(8)),
        ("int a[0]", 0, true, bytes(0)),
        ("struct thing a", 8, false, bytes(8)),
        ("union thing a[2]", 8, false, bytes(8)),
        ("double a", 8, false, bytes(8)),
        ("__int128 a", 16, true, bytes(16)),
        ("__data_loc char[] a", 4, true, Form::Text(Place::Record)),
        ("__rel_loc char[] a", 4, true, Form::Text(Place::Field)),
        ("__data_loc u64[] a", 4, false, Form::List(Unsigned(8), Place::Record)),
        ("__data_loc cpumask_t a", 4, false, Form::List(Unsigned(1), Place::Record)),
        ("__data_loc char[] a", 8, true, bytes(8)),
    ];
    for (declared, size, is_signed, expected) in table {
        let sign = u8::from(is_signed);
        let text = format!("\tfield:{declared};\toffset:8;\tsize:{size};\tsigned:{sign};\n");
        let found = all(&Format::parse(&text));
        assert_eq!(found.len(), 1, "{declared}");
        assert_eq!((&*found[0].name, &found[0].form), ("a", &expected), "{declared}");
    }
}

/// Records that lie about where their parts are, or that end early.
#[test]
fn damaged_records_have_less() {
    let text = "\tfield:__data_loc char[] a;\toffset:8;\tsize:4;\tsigned:1;\n\
        \tfield:__data_loc u64[] b;\toffset:12;\tsize:4;\tsigned:0;\n\
        \tfield:int c;\toffset:16;\tsize:4;\tsigned:1;\n";
    let record = |a: u32, b: u32| {
        let words = [0, 0, a, b, 7, 0x0064_6162];
        words.iter().flat_map(|word: &u32| word.to_ne_bytes()).collect::<Vec<u8>>()
    };
    // So many bytes, so far from the record's beginning.
    let place = |size: u32, from: u32| size << 16 | from;
    let values = |record: &[u8]| {
        read_back(text, record).into_iter().map(|one| one.value).collect::<Vec<_>>()
    };
    let text_of = |bytes: &[u8]| Value::Characters { bytes: bytes.to_vec(), is_cut: false };
    let nothing = Value::List { elements: Vec::new(), count: 0, is_bad: false, is_map: false };
    let whole = values(&record(place(4, 20), 0));
    assert_eq!(whole, [text_of(b"bad"), nothing.clone(), Value::Signed(7)]);
    for wrong in [u32::MAX, 0xffff, place(5, 20), place(1, 24), 0xffff_0000] {
        let found = values(&record(wrong, wrong));
        assert_eq!(found[2], Value::Signed(7), "{wrong:#x}");
    }
    // A text is cut where there's no more room for it.
    let mut long = record(place(2000, 24), 0);
    long.extend([b'x'; 2000]);
    let found = values(&long);
    assert!(matches!(&found[0], Value::Characters { bytes, is_cut: true } if bytes.len() > 900));
    assert_eq!(found[2], Value::Signed(7));
    for size in 0..20 {
        let found = values(&record(0, 0)[..size]);
        let is_short = size < 12;
        assert_eq!(found.get(2), Some(&Value::Missing).filter(|_| !is_short), "{size}");
    }
}
