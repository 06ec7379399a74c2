//! What `make_nops` says of tables that are not right: the same of an object and of an image.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use mcount::{Change, NopChange, Nops, Options, make_nops};
use testkit::test;
use testkit::tiny_elf::{Object, Relocation, Section, Symbol};

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

const NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0, 0];

/// A table of these words, or of relocations against symbol 1.
fn table(words: &[u64], relocated: bool) -> Section {
    let entry = |(at, to): (usize, &u64)| Relocation {
        offset: 8 * at as u64,
        symbol: 1,
        kind: 1,
        addend: to.cast_signed(),
    };
    let relocations = words.iter().enumerate().map(entry).filter(|_| relocated).collect();
    let data = words.iter().flat_map(|word| if relocated { [0; 8] } else { word.to_le_bytes() });
    Section {
        name: "__mcount_loc".to_owned(),
        kind: 1,
        flags: 2,
        address: if relocated { 0 } else { 0x2000 },
        data: data.collect(),
        alignment: 8,
        relocations,
        ..Section::default()
    }
}

/// An object with three calls, and a table that leads to these places.
fn object(places: &[u64]) -> Vec<u8> {
    let mut object = Object::of_calls(3);
    object.sections.push(table(places, true));
    object.build()
}

/// The same as an image.
fn image(places: &[u64]) -> Vec<u8> {
    let mut object = Object::new(62, true, false, true);
    object.kind = 2;
    let calls = (0..3u8).flat_map(|at| [0xe8, 10 - 5 * at, 0, 0, 0]);
    let code: Vec<u8> = calls.chain([0xc3]).collect();
    object.sections.push(Section { address: 0x1000, ..Section::code(".text", &code) });
    let places: Vec<_> = places.iter().map(|place| place + 0x1000).collect();
    object.sections.push(table(&places, false));
    object.symbols.push(Symbol::function("f", 1, 1, 0x1000, 15));
    object.symbols.push(Symbol::function("mcount", 1, 1, 0x100f, 1));
    object.build()
}

fn nops(file: &[u8]) -> Nops {
    make_nops(file, &Options::default(), &|_| true).unwrap()
}

/// The bytes of the file after it was changed.
fn changed(file: &[u8], change: &NopChange) -> Vec<u8> {
    match change {
        NopChange::Object(change) => {
            change.as_ref().map_or_else(|| file.to_vec(), |c: &Change| c.apply(file))
        }
        NopChange::Image(writes) => {
            let mut file = file.to_vec();
            for (at, bytes) in writes {
                let at = usize::try_from(*at).unwrap();
                file[at..at + bytes.len()].copy_from_slice(bytes);
            }
            file
        }
    }
}

#[test]
fn an_entry_that_leads_to_no_hook_is_counted_once() {
    for file in [object(&[0, 2, 5]), image(&[0, 2, 5])] {
        let found = nops(&file);
        assert_eq!((found.made, found.unrecorded, found.strays), (2, 1, 1));
        assert!(found.without_nop.is_empty() && found.unjoined == 0);
        let new = changed(&file, &found.change);
        assert_eq!(new.windows(10).filter(|bytes| *bytes == [NOP, NOP].concat()).count(), 1);
        let again = nops(&new);
        assert_eq!((again.made, again.unrecorded, again.strays), (0, 1, 1));
    }
}

#[test]
fn an_entry_that_leads_to_a_nop_is_no_stray() {
    for file in [object(&[0, 5, 10]), image(&[0, 5, 10])] {
        let found = nops(&file);
        assert_eq!((found.made, found.strays), (3, 0));
        let again = nops(&changed(&file, &found.change));
        assert_eq!((again.made, again.strays, again.without_nop.len()), (0, 0, 0));
    }
}
