//! The encoder against the decoder, and both against bytes that were written by hand.

use super::{
    Entry, Enumeration, Function, MOST, Mapping, Module, Note, ProcessEnd, ProcessStart, Signature,
    ThreadEnd, ThreadName, ThreadStart,
};
use crate::bytes::Bytes;
use proptest::prelude::*;

fn text() -> impl Strategy<Value = Vec<u8>> {
    let size = prop_oneof![8 => 0..40_usize, 1 => MOST - 40..MOST + 40, 1 => 65_000..70_000_usize];
    (size, any::<u8>()).prop_map(|(size, byte)| vec![byte; size])
}

/// Calls `look` with an entry of each kind that has these fields.
fn each(
    numbers: (u32, u32),
    words: (u64, u64),
    texts: &[Vec<u8>; 2],
    mut look: impl FnMut(Entry<'_>),
) {
    let ((pid, second), (ticks, size), [name, build_id]) = (numbers, words, texts);
    look(ProcessStart { pid, parent: second, ticks, path: name }.into());
    look(ProcessEnd { pid, status: second, ticks }.into());
    look(ThreadStart { pid, tid: second, ticks, name }.into());
    look(ThreadEnd { pid, tid: second, ticks }.into());
    look(ThreadName { pid, tid: second, ticks, name }.into());
    look(Module { number: pid, build_id, path: name }.into());
    look(Function { number: pid, module: second, address: ticks, size, name }.into());
    look(Note { text: name }.into());
    for is_loaded in [false, true] {
        look(Mapping { module: pid, pid: second, bias: size, ticks, is_loaded }.into());
    }
    look(Signature { function: pid, values: name }.into());
    look(Enumeration { number: pid, enumerators: name }.into());
}

/// The records in `bytes`.
fn records(bytes: &[u8], big_endian: bool) -> Vec<Entry<'_>> {
    let all = Bytes { bytes, big_endian };
    let (mut at, mut found) = (0, Vec::new());
    while at < bytes.len() {
        let (kind, size) = (all.u32(at).unwrap(), all.u32(at + 4).unwrap() as usize);
        assert!(size <= MOST);
        let payload = Bytes { bytes: all.exactly(at + 8, size).unwrap(), big_endian };
        found.push(Entry::read(kind, payload).unwrap().unwrap());
        at = (at + 8 + size).next_multiple_of(8);
    }
    assert_eq!(at, bytes.len());
    found
}

/// `entry` without what may differ where a text was cut, and its texts.
fn without_texts(entry: Entry<'_>) -> (Entry<'_>, [&[u8]; 2]) {
    match entry {
        Entry::ProcessStart(one) => (ProcessStart { path: b"", ..one }.into(), [one.path, b""]),
        Entry::ThreadName(one) => (ThreadName { name: b"", ..one }.into(), [one.name, b""]),
        Entry::ThreadStart(one) => (ThreadStart { name: b"", ..one }.into(), [one.name, b""]),
        Entry::Module(one) => {
            (Module { build_id: b"", path: b"", ..one }.into(), [one.build_id, one.path])
        }
        Entry::Function(one) => (Function { name: b"", ..one }.into(), [one.name, b""]),
        Entry::Note(one) => (Note { text: b"" }.into(), [one.text, b""]),
        Entry::Signature(one) => (Signature { values: b"", ..one }.into(), [one.values, b""]),
        Entry::Enumeration(one) => {
            (Enumeration { enumerators: b"", ..one }.into(), [one.enumerators, b""])
        }
        Entry::ProcessEnd(_) | Entry::ThreadEnd(_) | Entry::Mapping(_) => (entry, [b"", b""]),
    }
}

proptest! {
    /// Written records are read again, after whatever there was before. Texts are cut only if they don't fit.
    #[test]
    fn what_is_written_is_read(
        numbers in any::<(u32, u32)>(),
        words in any::<(u64, u64)>(),
        texts in [text(), text()],
        big_endian in any::<bool>(),
    ) {
        each(numbers, words, &texts, |entry| {
            let mut bytes = Vec::new();
            Entry::from(Note { text: b"before" }).append_in(&mut bytes, big_endian);
            entry.append_in(&mut bytes, big_endian);
            let found = records(&bytes, big_endian);
            assert_eq!(found.len(), 2);
            let (found, found_texts) = without_texts(found[1]);
            let (same, same_texts) = without_texts(entry);
            assert_eq!(found, same);
            let is_cut = bytes.len() > MOST;
            for (found, same) in found_texts.into_iter().zip(same_texts) {
                assert!(if is_cut { same.starts_with(found) } else { same == found });
            }
        });
    }

    /// Each kind with any bytes: read or refused, and read whole if it's long enough.
    #[test]
    fn any_bytes_are_read_or_refused(
        kind in 0..20_u32,
        bytes in proptest::collection::vec(any::<u8>(), 0..80),
        big_endian in any::<bool>(),
    ) {
        if let Ok(Some(entry)) = Entry::read(kind, Bytes { bytes: &bytes, big_endian }) {
            let mut again = Vec::new();
            entry.append_in(&mut again, big_endian);
            prop_assert_eq!(records(&again, big_endian), [entry]);
        }
    }
}

/// Records as docs/trace-format.md describes them, by hand, little-endian.
#[test]
fn bytes_are_those_of_the_format() {
    let module = Module { number: 1, build_id: &[0xab, 0xcd], path: b"/x" };
    let function = Function { number: 7, module: 1, address: 0x10, size: 0x20, name: b"f" };
    let mapping = Mapping { module: 1, pid: 2, bias: 3, ticks: 4, is_loaded: false };
    let rows: [(Entry<'_>, &[u8]); 5] = [
        (Note { text: b"hello" }.into(), b"\x07\0\0\0\x05\0\0\0hello\0\0\0"),
        (
            ProcessStart { pid: 1, parent: 2, ticks: 3, path: b"12345678" }.into(),
            b"\x01\0\0\0\x18\0\0\0\x01\0\0\0\x02\0\0\0\x03\0\0\0\0\0\0\x0012345678",
        ),
        (
            module.into(),
            b"\x05\0\0\0\x14\0\0\0\x01\0\0\0\x02\0\0\0\x02\0\0\0\0\0\0\0\xab\xcd/x\0\0\0\0",
        ),
        (
            function.into(),
            b"\x06\0\0\0\x19\0\0\0\x07\0\0\0\x01\0\0\0\x10\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0f\0\0\0\0\0\0\0",
        ),
        (
            mapping.into(),
            b"\x09\0\0\0\x18\0\0\0\x01\0\0\0\x02\0\0\0\x03\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0",
        ),
    ];
    for (entry, expected) in rows {
        let mut bytes = Vec::new();
        entry.append_in(&mut bytes, false);
        assert_eq!(bytes, expected, "{entry:?}");
    }
}
