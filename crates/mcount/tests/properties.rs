//! What holds for whatever is recorded: bytes are only appended, recording twice is recording once,
//! every symbol, relocation, group and section of the old object is still there and means the same,
//! and an append that was interrupted is taken up.
//!
//! Tested on every prebuilt object and on random small ones. The judge is `object`, with the half
//! of it that the library does not use, and the fields that the gABI names.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use mcount::{
    Base, Change, CheckOptions, Finding, Glob, GlobSetBuilder, NopChange, Options, Policy,
    RecordOptions, Rule, make_nops, record,
};
use object::read::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget};
use object::{File, RelocationFlags, SymbolIndex};
use proptest::prelude::*;
use std::collections::BTreeMap;
use testkit::prebuilt;
use testkit::reader;
use testkit::test;
use testkit::tiny_elf::{Object, Relocation, Section, Symbol, get, header_fields, section_fields};

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

const SHT_SYMTAB: u64 = 2;
const SHT_STRTAB: u64 = 3;
const SHT_RELA: u64 = 4;
const SHT_REL: u64 = 9;
const SHT_GROUP: u64 = 17;
const SHT_SYMTAB_SHNDX: u64 = 18;
const SHT_LLVM_ADDRSIG: u64 = 0x6fff_4c03;

/// How files are looked at, and how they are recorded.
type Both = (Options, RecordOptions);

fn every_section() -> Options {
    Options::default().policy(Policy::of(Base::All))
}

fn all() -> Both {
    (every_section(), RecordOptions::default().writable(true))
}

/// Options that between them go through all the code that changes an object.
fn variants() -> Vec<(&'static str, Both)> {
    let every = GlobSetBuilder::new().add(Glob::new("*").unwrap()).build().unwrap();
    let exclude = Policy::default().exclude_sections(every);
    vec![
        ("linux", Default::default()),
        ("all", all()),
        ("link order", (every_section(), all().1.link_order(true))),
        ("split lists", (every_section(), all().1.split_lists(true))),
        ("other table", (every_section().table_section(".other_table".to_owned()), all().1)),
        ("all NOPs", (Options::default().policy(exclude), RecordOptions::default())),
    ]
}

/// A file, and the section headers that it has, field by field.
struct Parsed<'d> {
    bytes: &'d [u8],
    file: File<'d>,
    headers: Vec<BTreeMap<&'static str, u64>>,
}

impl<'d> Parsed<'d> {
    fn new(bytes: &'d [u8]) -> Self {
        let file = File::parse(bytes).unwrap();
        let big_endian = !file.is_little_endian();
        let field = |name: &str| {
            let field = header_fields(file.is_64()).into_iter().find(|f| f.name == name).unwrap();
            usize::try_from(get(bytes, field.offset, field.size, big_endian)).unwrap()
        };
        let (table, size) = (field("e_shoff"), field("e_shentsize"));
        let count = match field("e_shnum") {
            0 => usize::try_from(get(bytes, table + 0x20, 8, big_endian)).unwrap(),
            count => count,
        };
        let header = |index: usize| {
            let fields = section_fields(file.is_64()).into_iter();
            let at = |field: &testkit::tiny_elf::Field| table + index * size + field.offset;
            fields
                .map(|field| (field.name, get(bytes, at(&field), field.size, big_endian)))
                .collect()
        };
        let headers = (0..count).map(header).collect();
        Self { bytes, file, headers }
    }

    fn data(&self, index: usize) -> &'d [u8] {
        let field = |name| usize::try_from(self.headers[index][name]).unwrap();
        match field("sh_type") {
            0 | 8 => &[],
            _ => &self.bytes[field("sh_offset")..][..field("sh_size")],
        }
    }

    /// What tells symbol `index` from the others: name, value, size, section and flags.
    fn symbol(&self, index: u64) -> String {
        let Ok(symbol) = self.file.symbol_by_index(SymbolIndex(index.try_into().unwrap())) else {
            return format!("symbol {index}");
        };
        let name = String::from_utf8_lossy(symbol.name_bytes().unwrap());
        let (value, size) = (symbol.address(), symbol.size());
        format!("{name} {value:#x} {size} {:?} {:?}", symbol.section(), symbol.flags())
    }

    fn symbols(&self) -> Vec<String> {
        self.file.symbols().map(|symbol| self.symbol(symbol.index().0 as u64)).collect()
    }

    /// The relocations that apply to section `index`.
    fn relocations(&self, index: usize) -> Vec<String> {
        let section = self.file.section_by_index(object::SectionIndex(index)).unwrap();
        let text = |(offset, relocation): (u64, object::Relocation)| {
            let kind = match relocation.flags() {
                RelocationFlags::Elf { r_type } => r_type.0,
                other => panic!("{other:?}"),
            };
            let symbol = match relocation.target() {
                RelocationTarget::Symbol(index) => self.symbol(index.0 as u64),
                other => format!("{other:?}"),
            };
            format!("{offset:#x} {kind} {:#x} {symbol}", relocation.addend())
        };
        section.relocations().map(text).collect()
    }

    /// The symbols of an address significance table.
    fn significant(&self, index: usize) -> Vec<String> {
        let mut symbols = Vec::new();
        let (mut value, mut shift) = (0, 0);
        for byte in self.data(index) {
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                symbols.push(self.symbol(value));
                (value, shift) = (0, 0);
            }
        }
        symbols
    }
}

/// Everything that must hold of `old` recorded with `options`, the second result of which is the
/// new object if there is one.
fn check(old: &[u8], both: &Both) -> Option<(Vec<u8>, Change)> {
    let (options, how) = both;
    let recording = record(old, options, how).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(recording, record(old, options, how).unwrap(), "the same input, the same output");
    let Some(change) = recording.change else {
        nothing_is_left_to_mend(old, both);
        return None;
    };
    let new = change.apply(old);
    only_appends(old, &new, &change);
    let again = record(&new, options, how).unwrap_or_else(|error| panic!("again: {error}"));
    assert_eq!(again.change, None, "recording twice is not recording once");
    assert_eq!(again.recorded, recording.recorded);
    let entries = reader::table(&new, &options.table_section).unwrap();
    assert_eq!(entries.len(), recording.recorded, "entries");
    let nops = recording.excluded.iter().any(|section| section.made_nops != 0);
    means_the_same(&Parsed::new(old), &Parsed::new(&new), both, nops);
    nothing_is_left_to_mend(&new, both);
    Some((new, change))
}

/// The checker finds nothing in `file`, which was recorded with `options`, that recording could mend.
fn nothing_is_left_to_mend(file: &[u8], (options, how): &Both) {
    let found = mcount::check(file, options, &CheckOptions::default()).unwrap();
    let list = "__patchable_function_entries".to_owned();
    let lists = options.clone().table_section(list);
    let of_lists = mcount::check(file, &lists, &CheckOptions::default()).unwrap();
    let can_be_mended = |finding: &Finding| match finding.rule {
        // One table for all sections is what was asked for, or the compiler made its list so.
        Rule::GcUnsafe => how.link_order && !of_lists.contains(finding),
        // Of the compiler's own list, which is not touched.
        Rule::ShortArea => false,
        _ => true,
    };
    let left: Vec<_> = found.iter().filter(|finding| can_be_mended(finding)).collect();
    assert!(left.is_empty(), "recording left this: {left:#?}");
}

/// Nothing but `e_shoff` and `e_shnum` differs in what the old file had.
fn only_appends(old: &[u8], new: &[u8], change: &Change) {
    let (is_64, big_endian) = (old[4] == 2, old[5] == 2);
    let size = if is_64 { 64 } else { 52 };
    assert_eq!(change.header.len(), size);
    assert_eq!(change.at, old.len() as u64, "nothing of the old file is dropped");
    assert_eq!(new[size..old.len()], old[size..], "bytes of the old file changed");
    assert_eq!(new[old.len()..], change.appended[..]);
    for field in header_fields(is_64) {
        let value = |file: &[u8]| get(file, field.offset, field.size, big_endian);
        if !["e_shoff", "e_shnum"].contains(&field.name) {
            assert_eq!(value(old), value(new), "{}", field.name);
        }
    }
    assert!(get(new, if is_64 { 0x28 } else { 0x20 }, size / 16 * 2, big_endian) > 0);
}

/// Every section, symbol and relocation of `old` is in `new`, with the same meaning.
fn means_the_same(old: &Parsed<'_>, new: &Parsed<'_>, (options, how): &Both, nops: bool) {
    let (before, after) = (old.symbols(), new.symbols());
    let added = after.len() - before.len();
    let first = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
    assert_eq!(before[first..], after[first + added..], "symbols");
    for index in 1..old.headers.len() {
        let (a, b) = (&old.headers[index], &new.headers[index]);
        let name = new.file.section_by_index(object::SectionIndex(index)).unwrap();
        let name = name.name().unwrap_or_default().to_owned();
        // Entries of a list that is split move to others.
        let is_list = how.split_lists && name.ends_with("__patchable_function_entries");
        let is_table = name == options.table_section || is_list;
        for field in ["sh_name", "sh_type", "sh_addr", "sh_addralign", "sh_entsize"] {
            assert_eq!(a[field], b[field], "{name}: {field}");
        }
        // A table, and its relocations, may move into a group, and be ordered by another section.
        let may_change = if name.ends_with(&options.table_section) || is_list { 0x281 } else { 0 };
        assert_eq!(a["sh_flags"] & !may_change, b["sh_flags"] & !may_change, "{name}: sh_flags");
        assert!(a["sh_link"] == b["sh_link"] || is_table, "{name}: sh_link");
        section_means_the_same(old, new, index, (&name, is_table, nops));
        if !(is_table || nops && a["sh_flags"] & 4 != 0) {
            assert_eq!(old.relocations(index), new.relocations(index), "{name}: relocations");
        }
    }
}

/// The contents of section `index`, and `sh_info`.
fn section_means_the_same(
    old: &Parsed<'_>,
    new: &Parsed<'_>,
    index: usize,
    (name, is_table, nops): (&str, bool, bool),
) {
    let (a, b) = (&old.headers[index], &new.headers[index]);
    let (data, grown) = (old.data(index), new.data(index));
    let kind = a["sh_type"];
    match kind {
        SHT_SYMTAB => {
            let added = (grown.len() - data.len()) as u64 / a["sh_entsize"];
            assert_eq!(b["sh_info"], a["sh_info"] + added, "{name}: sh_info");
            return;
        }
        SHT_GROUP => {
            assert_eq!(old.symbol(a["sh_info"]), new.symbol(b["sh_info"]), "{name}: signature");
            assert!(grown.starts_with(data), "{name}: members");
            return;
        }
        _ => assert_eq!(a["sh_info"], b["sh_info"], "{name}: sh_info"),
    }
    match kind {
        SHT_STRTAB => assert!(grown.starts_with(data), "{name}: strings"),
        SHT_LLVM_ADDRSIG => assert_eq!(old.significant(index), new.significant(index), "{name}"),
        SHT_REL | SHT_RELA | SHT_SYMTAB_SHNDX => {}
        _ if is_table || nops && a["sh_flags"] & 4 != 0 => {}
        _ => assert_eq!(data, grown, "{name}: contents"),
    }
}

#[test]
fn prebuilt_objects_keep_their_meaning() {
    let mut changed = 0;
    for object in prebuilt::all().unwrap() {
        for (variant, options) in variants() {
            println!("{} with {variant}", object.name);
            changed += usize::from(check(&object.bytes, &options).is_some());
        }
    }
    assert!(changed > 500, "only {changed} of the recordings changed an object");
}

/// `old` with some of what is to be appended behind it, as a killed process leaves it.
fn interrupted(old: &[u8], new: &[u8], change: &Change, written: usize, both: &Both) {
    let file = [old, &change.appended[..written]].concat();
    let taken_up = record(&file, &both.0, &both.1).unwrap().change.unwrap();
    assert!(taken_up.apply(&file) == new, "interrupted after {written} bytes");
}

/// Whatever an object was recorded with before, recording makes of it what the options ask for.
#[test]
fn recording_again_with_other_options() {
    let mut changed = 0;
    for object in prebuilt::all().unwrap() {
        for (before, first) in variants() {
            for (then, second) in variants() {
                println!("{} with {before}, then {then}", object.name);
                let file = check(&object.bytes, &first).map(|(new, _)| new);
                let file = file.as_deref().unwrap_or(&object.bytes);
                changed += usize::from(check(file, &second).is_some());
            }
        }
    }
    assert!(changed > 500, "only {changed} of the recordings changed an object");
}

/// Nothing but the table tells that such a NOP was a call, in whatever form it was.
#[test]
fn what_becomes_a_nop_stays_in_the_table() {
    let (options, how) = all();
    let mut changed = 0;
    for object in prebuilt::all().unwrap() {
        println!("{}", object.name);
        let recorded = check(&object.bytes, &(options.clone(), how.clone()));
        let recorded = recorded.map_or_else(|| object.bytes.clone(), |(new, _)| new);
        let Ok(nops) = make_nops(&recorded, &options, &|_| true) else { continue };
        let NopChange::Object(Some(change)) = nops.change else { continue };
        let without_calls = change.apply(&recorded);
        let again = record(&without_calls, &options, &how).unwrap().change;
        assert_eq!(again, None, "the table of NOPs isn't right any more");
        let entries = |file: &[u8]| reader::table(file, &options.table_section).unwrap();
        assert_eq!(entries(&without_calls), entries(&recorded));
        changed += 1;
    }
    assert!(changed > 80, "only {changed} objects have calls");
}

#[test]
fn an_interrupted_append_is_taken_up() {
    for object in prebuilt::all().unwrap() {
        println!("{}", object.name);
        let Some((new, change)) = check(&object.bytes, &all()) else { continue };
        let length = change.appended.len();
        for written in (0..length).step_by(97).chain([1, length - 1, length]) {
            interrupted(&object.bytes, &new, &change, written, &all());
        }
    }
}

#[test]
fn other_bytes_behind_the_object_are_kept() {
    for object in prebuilt::one_of_each().unwrap() {
        let file = [&object.bytes[..], b"a signature, or so"].concat();
        let Some((new, change)) = check(&file, &all()) else { continue };
        assert!(new.starts_with(&[&change.header, &file[change.header.len()..]].concat()));
    }
}

/// A processor of each kind of address, relaxation and `r_info`: machine, is it 64 bits, order,
/// REL or RELA, call relocation, distance to it, bytes of the call.
type Target = (u16, bool, bool, bool, u32, u64, &'static [u8]);

const TARGETS: &[Target] = &[
    (62, true, false, true, 4, 1, &[0xe8, 0, 0, 0, 0, 0x90, 0x90, 0x90]),
    (62, false, false, true, 2, 1, &[0xe8, 0, 0, 0, 0, 0x90, 0x90, 0x90]),
    (3, false, false, false, 2, 1, &[0xe8, 0xfc, 0xff, 0xff, 0xff, 0x90, 0x90, 0x90]),
    (8, true, false, true, 4, 0, &[0, 0, 0, 0x0c, 0, 0, 0, 0]),
    (8, true, true, true, 4, 0, &[0x0c, 0, 0, 0, 0, 0, 0, 0]),
    (8, false, true, false, 4, 0, &[0x0c, 0, 0, 0, 0, 0, 0, 0]),
    (243, true, false, true, 19, 0, &[0x97, 0, 0, 0, 0xe7, 0x80, 0, 0]),
    (20, false, true, true, 10, 0, &[0x48, 0, 0, 1, 0x60, 0, 0, 0]),
];

/// One section of a random object: name, calls, whether it has a section symbol, whether its group
/// has it, its function's binding.
type RandomSection = (&'static str, u64, bool, bool, u8);

const NAMES: &[&str] =
    &[".text", ".text.a", ".init.text", ".exit.text", ".text..nomcount", ".sched.text"];

fn random_section() -> impl Strategy<Value = RandomSection> {
    (proptest::sample::select(NAMES), 0..4u64, any::<bool>(), any::<bool>(), 0..3u8)
}

/// An object with `sections`, a `.data` with pointers to every symbol, an address significance
/// table of every symbol, and a group of each section that wants one.
fn random_object(target: Target, sections: &[RandomSection]) -> Vec<u8> {
    let (machine, is_64, big_endian, rela, kind, distance, call) = target;
    let mut object = Object::new(machine, is_64, big_endian, rela);
    let mut globals = vec![Symbol::undefined("_mcount"), Symbol::undefined("mcount")];
    for (index, (name, _, has_symbol, _, binding)) in (1..).zip(sections.iter().copied()) {
        if has_symbol {
            object.symbols.push(Symbol::of_section(index));
        }
        let function = Symbol::function(&format!("f{index}{name}"), binding, index, 0, 8);
        if binding == 0 { object.symbols.push(function) } else { globals.push(function) }
    }
    let hook = u32::try_from(object.symbols.len()).unwrap()
        + if machine == 62 || machine == 3 { 2 } else { 1 };
    object.symbols.extend(globals);
    for (name, calls, ..) in sections.iter().copied() {
        let place =
            |at: u64| Relocation { offset: at * 8 + distance, symbol: hook, kind, addend: 0 };
        let code = call.repeat(usize::try_from(calls).unwrap().max(1));
        let relocations = (0..calls).map(place).collect();
        object.sections.push(Section { relocations, ..Section::code(name, &code) });
    }
    add_references(&mut object, sections);
    object.build()
}

fn add_references(object: &mut Object, sections: &[RandomSection]) {
    let count = u32::try_from(object.symbols.len()).unwrap();
    let kind = if object.is_64 { 1 } else { 2 };
    let place =
        |index: u32| Relocation { offset: u64::from(index) * 8, symbol: index, kind, addend: 4 };
    let data = vec![0; (count as usize + 1) * 8];
    let data = Section { name: ".data".to_owned(), kind: 1, flags: 3, data, ..Section::default() };
    object.sections.push(Section { relocations: (1..=count).map(place).collect(), ..data });
    let grouped = sections.iter().zip(1..).filter(|(section, _)| section.3);
    let groups: Vec<Section> = grouped
        .map(|(_, index)| {
            let words: [u32; 2] = [1, index];
            let bytes =
                |word: u32| if object.big_endian { word.to_be_bytes() } else { word.to_le_bytes() };
            Section {
                name: ".group".to_owned(),
                kind: 17,
                info: count - index % count,
                data: words.into_iter().flat_map(bytes).collect(),
                alignment: 4,
                entry_size: 4,
                ..Section::default()
            }
        })
        .collect();
    let first = object.sections.len();
    object.sections.extend(groups);
    object.sections.push(Section {
        name: ".llvm_addrsig".to_owned(),
        kind: 0x6fff_4c03,
        data: (1..=count).map(|index| u8::try_from(index).unwrap()).collect(),
        ..Section::default()
    });
    let table = object.symbol_table();
    object.sections[first..].iter_mut().for_each(|section| section.link = table);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn random_objects_keep_their_meaning(
        target in proptest::sample::select(TARGETS),
        sections in proptest::collection::vec(random_section(), 1..8),
        part in 0.0..=1.0f64,
    ) {
        let old = random_object(target, &sections);
        for (_, options) in variants() {
            if let Some((new, change)) = check(&old, &options) {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a part of a length")]
                let written = (part * change.appended.len() as f64) as usize;
                interrupted(&old, &new, &change, written, &options);
                for (_, other) in variants() {
                    check(&new, &other);
                }
            }
        }
    }
}

/// More sections than 16 bits count: new symbols need `SHT_SYMTAB_SHNDX`.
#[test]
fn more_than_65279_sections() {
    for extended_symbols in [false, true] {
        let mut object = Object::new(62, true, false, true);
        let empty = Section { kind: 1, ..Section::default() };
        object.sections = vec![empty; 0xff00];
        object.symbols.push(Symbol::undefined("mcount"));
        let relocations = vec![Relocation { offset: 1, symbol: 1, kind: 4, addend: -4 }];
        for name in [".text.a", ".text.b"] {
            let code = Section::code(name, &[0xe8, 0, 0, 0, 0]);
            object.sections.push(Section { relocations: relocations.clone(), ..code });
        }
        if extended_symbols {
            let last = u32::try_from(object.sections.len()).unwrap();
            object.symbols.push(Symbol::function("f", 1, last, 0, 5));
        }
        let (new, _) = check(&object.build(), &all()).unwrap();
        let entries = reader::table(&new, "__mcount_loc").unwrap();
        let sections: Vec<_> = entries.iter().map(|place| place.section.as_str()).collect();
        assert_eq!(sections, [".text.a", ".text.b"]);
    }
}

/// An object that has nearly as many sections as 16 bits count gets one more than that.
#[test]
fn the_table_is_section_65280() {
    for sections in 0xff00 - 9..0xff00 {
        let mut object = Object::new(62, true, false, true);
        object.sections = vec![Section { kind: 1, ..Section::default() }; sections - 6];
        object.symbols = vec![Symbol::of_section(1), Symbol::undefined("mcount")];
        let call = Relocation { offset: 1, symbol: 2, kind: 4, addend: -4 };
        let code = Section::code(".text", &[0xe8, 0, 0, 0, 0]);
        object.sections[0] = Section { relocations: vec![call], ..code };
        let (new, _) = check(&object.build(), &all()).unwrap();
        assert_eq!(reader::table(&new, "__mcount_loc").unwrap().len(), 1, "{sections}");
    }
}
