//! What a table looks like in an object: its section and its relocation section field by field, what
//! its entries are relocated against, and what the policy puts in it.
//!
//! Specification: gABI, 4 ("Sections"); Linux's section policy: docs/arches.md.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use mcount::{
    Base, Glob, GlobSet, GlobSetBuilder, Options, Policy, RecordOptions, read_table, record, scan,
};
use testkit::reader::{self, relocations, sections, symbols};
use testkit::test;
use testkit::tiny_elf::{Object, Relocation, Section, Symbol};

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

const SHF_WRITE: u64 = 1;
const SHF_ALLOC: u64 = 2;
const SHF_INFO_LINK: u64 = 0x40;
const SHF_LINK_ORDER: u64 = 0x80;
const SHF_GROUP: u64 = 0x200;

/// `call hook`, then `ret` and padding: 8 bytes.
const CALL: [u8; 8] = [0xe8, 0, 0, 0, 0, 0xc3, 0x90, 0x90];
const NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0, 0];

fn globs(patterns: &[&str]) -> GlobSet {
    let mut builder = GlobSetBuilder::new();
    for pattern in patterns {
        builder.add(Glob::new(pattern).unwrap());
    }
    builder.build().unwrap()
}

/// An x86-64 object with two functions in each of `sections`, each of which calls `hook`.
fn object(hook: &str, names: &[&str]) -> Object {
    let mut object = Object::new(62, true, false, true);
    object.symbols.push(Symbol::undefined(hook));
    for (index, name) in (1..).zip(names) {
        for at in [0, 8] {
            let function = format!("{}_{at}", name.trim_start_matches('.'));
            object.symbols.push(Symbol::function(&function, 1, index, at, 8));
        }
        let call = |at: u64| Relocation { offset: at + 1, symbol: 1, kind: 4, addend: -4 };
        let code = Section::code(name, &CALL.repeat(2));
        object.sections.push(Section { relocations: vec![call(0), call(8)], ..code });
    }
    object
}

/// The object after recording; as it was, if it did not change.
fn recorded(object: &Object, options: &Options) -> Vec<u8> {
    recorded_as(object, options, &RecordOptions::default())
}

fn recorded_as(object: &Object, options: &Options, how: &RecordOptions) -> Vec<u8> {
    let file = object.build();
    let recording = record(&file, options, how).unwrap();
    recording.change.map_or(file.clone(), |change| change.apply(&file))
}

/// Section name and offset of each entry.
fn entries(file: &[u8]) -> Vec<(String, u64)> {
    let table = reader::table(file, "__mcount_loc").unwrap();
    table.into_iter().map(|place| (place.section, place.offset)).collect()
}

#[test]
fn the_sections_of_a_table() {
    let call = [0x0c, 0, 0, 0, 0, 0, 0, 0];
    for bits in 0..8 {
        let (is_64, rela, writable) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
        let mut object = Object::new(8, is_64, true, rela);
        object.symbols = vec![Symbol::of_section(1), Symbol::undefined("_mcount")];
        let hook = Relocation { offset: 0, symbol: 2, kind: 4, addend: 0 };
        let text = Section::code(".text", &call);
        object.sections.push(Section { relocations: vec![hook], ..text });
        let how = RecordOptions::default().writable(writable);
        let found = sections(&recorded_as(&object, &Options::default(), &how)).unwrap();
        let [.., table, list] = &found[..] else { unreachable!("two sections are added") };
        let word = if is_64 { 8 } else { 4 };
        let flags = SHF_ALLOC | if writable { SHF_WRITE } else { 0 };
        let fields = [table.kind, table.flags, table.link, table.info];
        assert_eq!((table.name.as_str(), fields), ("__mcount_loc", [1, flags, 0, 0]));
        assert_eq!([table.alignment, table.entry_size, table.data.len() as u64], [word; 3]);
        let symtab = found.iter().find(|section| section.kind == 2).unwrap().index;
        let fields = [list.kind, list.flags, list.link, list.info, list.alignment];
        let kind = if rela { 4 } else { 9 };
        let expected = [kind, SHF_INFO_LINK, symtab.into(), table.index.into(), word];
        assert_eq!(fields, expected, "{}", list.name);
        assert_eq!(list.name, if rela { ".rela__mcount_loc" } else { ".rel__mcount_loc" });
        assert_eq!(list.entry_size, word * if rela { 3 } else { 2 });
        assert_eq!(list.data.len() as u64, list.entry_size);
    }
}

#[test]
fn entries_are_in_section_order_then_offset_order() {
    let mut object = object("mcount", &[".text.z", ".text.a"]);
    // The assembler may list them in any order.
    object.sections[0].relocations.reverse();
    object.sections.swap(0, 1);
    let expected = [(".text.a", 0), (".text.a", 8), (".text.z", 0), (".text.z", 8)];
    let expected = expected.map(|(section, offset)| (section.to_owned(), offset));
    assert_eq!(entries(&recorded(&object, &Options::default())), expected);
}

#[test]
fn the_table_has_the_name_it_is_given() {
    let table_section = "my_table".to_owned();
    let options = Options::default().table_section(table_section);
    let file = recorded(&object("mcount", &[".text"]), &options);
    assert_eq!(reader::table(&file, "my_table").unwrap().len(), 2);
    assert_eq!(entries(&file), []);
}

#[test]
fn link_order_makes_a_table_for_each_section_of_code() {
    let how = RecordOptions::default().link_order(true);
    let object = object("mcount", &[".text.a", ".text.b"]);
    let file = recorded_as(&object, &Options::default(), &how);
    let tables = sections(&file).unwrap().into_iter();
    let tables = tables.filter(|section| section.name == "__mcount_loc");
    let shapes: Vec<_> = tables.map(|table| (table.flags, table.link, table.data.len())).collect();
    let flags = SHF_ALLOC | SHF_LINK_ORDER;
    assert_eq!(shapes, [(flags, 1, 16), (flags, 2, 16)]);
    assert_eq!(entries(&file).len(), 4);
}

/// A group section with these members and signature.
fn group(members: &[u32], signature: u32, symbol_table: u32) -> Section {
    let words = [&[1], members].concat();
    Section {
        name: ".group".to_owned(),
        kind: 17,
        data: words.into_iter().flat_map(u32::to_le_bytes).collect(),
        link: symbol_table,
        info: signature,
        alignment: 4,
        entry_size: 4,
        ..Section::default()
    }
}

#[test]
fn entries_of_a_group_are_members_of_the_group() {
    let mut object = object("mcount", &[".text", ".text.a", ".text.b"]);
    object.sections[1].flags |= SHF_GROUP;
    object.sections.push(Section::default());
    let symbol_table = object.symbol_table();
    object.sections[3] = group(&[2], 4, symbol_table);
    let signature = object.symbols[3].name.clone();
    let file = recorded(&object, &Options::default());
    let found = sections(&file).unwrap();
    let tables = found.iter().filter(|section| section.name == "__mcount_loc");
    let flags: Vec<_> = tables.map(|table| (table.flags, table.data.len())).collect();
    assert_eq!(flags, [(SHF_ALLOC, 32), (SHF_ALLOC | SHF_GROUP, 16)]);
    let group = found.iter().find(|section| section.name == ".group").unwrap();
    let word = |word: &[u8]| u32::from_le_bytes(word.try_into().unwrap());
    let members: Vec<u32> = group.data.chunks_exact(4).map(word).collect();
    let last = u32::try_from(found.len()).unwrap();
    assert_eq!(members, [1, 2, last - 1, last]);
    assert_eq!(found.last().unwrap().flags, SHF_INFO_LINK | SHF_GROUP);
    let index = usize::try_from(group.info).unwrap() - 1;
    assert_eq!(symbols(&file).unwrap()[index].name, signature);
}

/// What becomes of the calls of a section.
#[derive(Debug, PartialEq, Clone, Copy)]
enum Fate {
    Recorded,
    MadeNops,
    Left,
}
use Fate::{Left, MadeNops, Recorded};

fn fate(object: &Object, options: &Options) -> Fate {
    let file = recorded(object, options);
    let text = &sections(&file).unwrap()[0];
    let list = relocations(&file, &text.name).unwrap();
    let kinds: Vec<_> = list.iter().map(|relocation| (relocation.1, relocation.2)).collect();
    let has_entries = entries(&file).len() == 2;
    if kinds == [(0, 0); 2] && !has_entries {
        assert_eq!((&text.data[..5], &text.data[8..13]), (&NOP[..], &NOP[..]));
        return MadeNops;
    }
    assert_eq!(text.data, CALL.repeat(2));
    assert!(kinds.iter().all(|kind| *kind == (4, kinds[0].1)), "{kinds:?}");
    if has_entries { Recorded } else { Left }
}

#[test]
fn sections_by_policy() {
    let linux = Policy::default();
    let all = Policy::of(Base::All);
    let none = Policy::of(Base::None);
    let foo = Policy::default().sections(globs(&[".foo*"]));
    let not_hot = all.clone().exclude_sections(globs(&[".text.hot*"]));
    let only = none.clone().sections(globs(&[".text"]));
    let both = foo.clone().exclude_sections(globs(&["*"]));
    for (policy, name, expected) in [
        (&linux, ".text", Recorded),
        (&linux, ".text.unlikely", Recorded),
        (&linux, ".textfoo", Recorded),
        (&linux, ".init.text", Recorded),
        (&linux, ".ref.text", Recorded),
        (&linux, ".sched.text", Recorded),
        (&linux, ".spinlock.text", Recorded),
        (&linux, ".irqentry.text", Recorded),
        (&linux, ".softirqentry.text", Recorded),
        (&linux, ".kprobes.text", Recorded),
        (&linux, ".cpuidle.text", Recorded),
        (&linux, ".init.textfoo", MadeNops),
        (&linux, ".exit.text", MadeNops),
        (&linux, ".noinstr.text", MadeNops),
        (&linux, ".foo", MadeNops),
        (&linux, ".text..nomcount", Left),
        (&linux, ".text..ftrace", Left),
        (&all, ".exit.text", Recorded),
        (&all, ".text..nomcount", Recorded),
        (&none, ".text", Left),
        (&foo, ".foobar", Recorded),
        (&foo, ".text", Recorded),
        (&foo, ".bar", MadeNops),
        (&not_hot, ".text.hot.f", MadeNops),
        (&not_hot, ".text", Recorded),
        (&only, ".text", Recorded),
        (&only, ".text.f", Left),
        (&both, ".foo", MadeNops),
    ] {
        let options = Options::default().policy(policy.clone());
        assert_eq!(fate(&object("__fentry__", &[name]), &options), expected, "{name}: {policy:?}");
    }
}

#[test]
fn an_excluded_function_is_left_alone() {
    let policy = Policy::default().exclude_symbols(globs(&["text_8"]));
    let options = Options::default().policy(policy);
    let object = object("mcount", &[".text"]);
    let file = recorded(&object, &options);
    assert_eq!(entries(&file), [(".text".to_owned(), 0)]);
    assert_eq!(sections(&file).unwrap()[0].data, object.sections[0].data);
    let excluded = scan(&file, &options).unwrap().sites;
    assert_eq!(excluded.iter().map(|site| site.excluded).collect::<Vec<_>>(), [false, true]);
}

/// A table of the compiler's (`-mnop-mcount -mrecord-mcount`) with a function that is excluded.
#[test]
fn an_excluded_function_leaves_the_table() {
    let mut object = object("mcount", &[".text"]);
    object.sections[0].data = [&NOP[..], &CALL[5..], &NOP, &CALL[5..]].concat();
    object.sections[0].relocations.clear();
    object.symbols.insert(0, Symbol::of_section(1));
    let entry = |at: i64| Relocation { offset: at.cast_unsigned(), symbol: 1, kind: 1, addend: at };
    let table =
        Section { kind: 1, flags: 2, alignment: 8, data: vec![0; 16], ..Section::default() };
    let name = "__mcount_loc".to_owned();
    object.sections.push(Section { name, relocations: vec![entry(0), entry(8)], ..table });
    let policy = Policy::default().exclude_symbols(globs(&["text_8"]));
    for (policy, count) in [(Policy::default(), 2), (policy, 1)] {
        let options = Options::default().policy(policy);
        assert_eq!(entries(&recorded(&object, &options)).len(), count);
        let said = record(&object.build(), &options, &RecordOptions::default()).unwrap().excluded;
        assert_eq!(said.iter().map(|section| section.dropped).sum::<usize>(), 2 - count);
    }
}

#[test]
fn hooks_with_other_names() {
    let none: Vec<(String, u64)> = Vec::new();
    let both = [(".text".to_owned(), 0), (".text".to_owned(), 8)];
    for (hook, given, expected) in [
        ("mcount", &[][..], &both[..]),
        ("__fentry__", &[], &both),
        ("_mcount", &[], &none),
        ("my_hook", &[], &none),
        ("my_hook", &["my_hook"], &both),
        ("my_hook", &["hook"], &none),
        ("hook", &["my_hook"], &none),
        ("mcount_loc", &["mcount"], &none),
        ("mcount", &["my_hook"], &both),
    ] {
        let hooks = given.iter().map(|name| (*name).to_owned()).collect();
        let options = Options::default().hooks(hooks);
        let file = recorded(&object(hook, &[".text"]), &options);
        assert_eq!(entries(&file), expected, "{hook} with {given:?}");
    }
}

/// Two calls 8 bytes apart, of a processor with this machine, hook, call relocation and bytes.
fn calls(machine: u16, is_64: bool, hook: (&str, u32), call: &[u8]) -> Object {
    let mut object = Object::new(machine, is_64, false, true);
    let text = Section::code(".text", &call.repeat(2));
    let call = |at| Relocation { offset: at, symbol: 1, kind: hook.1, addend: 0 };
    object.sections.push(Section { relocations: vec![call(0), call(8)], ..text });
    object.symbols.push(Symbol::undefined(hook.0));
    object
}

const THUMB_CALL: &[u8] = &[0xff, 0xf7, 0xfe, 0xff, 0, 0xbf, 0, 0xbf];

fn thumb() -> Object {
    calls(40, false, ("__gnu_mcount_nc", 10), THUMB_CALL)
}

/// The symbol and addend of each entry.
fn bases(file: &[u8]) -> Vec<(reader::Symbol, i64)> {
    let symbols = symbols(file).unwrap();
    let list = relocations(file, "__mcount_loc").unwrap();
    list.into_iter().map(|entry| (symbols[entry.2 - 1].clone(), entry.3)).collect()
}

#[test]
fn the_base_is_the_section_symbol() {
    let symbols_of_functions = [
        Symbol::function("weak", 2, 1, 0, 8),
        Symbol::function("global", 1, 1, 0, 8),
        Symbol::function("local", 0, 1, 0, 8),
        Symbol::function("thumb", 0, 1, 1, 8),
        Symbol { name: "data_in_code".to_owned(), kind: 1, section: 1, ..Symbol::default() },
    ];
    for function in symbols_of_functions {
        for has_section_symbol in [false, true] {
            let mut object = thumb();
            object.symbols.push(function.clone());
            if has_section_symbol {
                object.symbols.push(Symbol::of_section(1));
            }
            object.symbols.sort_by_key(|symbol| symbol.binding);
            let hook = object.symbols.iter().position(|symbol| symbol.section == 0).unwrap() + 1;
            for call in &mut object.sections[0].relocations {
                call.symbol = u32::try_from(hook).unwrap();
            }
            let file = recorded(&object, &Options::default());
            let found = bases(&file);
            assert_eq!((found[0].1, found[1].1), (0, 8));
            for (base, _) in found {
                assert_eq!((base.kind, base.binding, base.section, base.value), (3, 0, 1, 0));
            }
            let added = symbols(&file).unwrap().len() - object.symbols.len();
            assert_eq!(added, usize::from(!has_section_symbol), "{}", function.name);
        }
    }
}

/// Where the linker deletes bytes of code every entry is a label of its own, with no distance.
#[test]
fn labels_where_the_linker_relaxes() {
    let riscv = &[0x97, 0, 0, 0, 0xe7, 0x80, 0, 0];
    let loongarch = &[0, 0, 0, 0x54, 0, 0, 0x40, 0x03];
    let nds32 = &[0x49, 0, 0, 0, 0x40, 0, 0, 0x09];
    for (machine, is_64, hook, call) in [
        (243, true, ("_mcount", 19), riscv),
        (243, false, ("_mcount", 18), riscv),
        (258, true, ("_mcount", 66), loongarch),
        (258, false, ("_mcount", 66), loongarch),
        (167, false, ("_mcount", 25), nds32),
    ] {
        let mut object = calls(machine, is_64, hook, call);
        object.symbols.insert(0, Symbol::of_section(1));
        object.sections[0].relocations.iter_mut().for_each(|call| call.symbol = 2);
        let found = bases(&recorded(&object, &Options::default()));
        for ((label, addend), offset) in found.iter().zip([0, 8]) {
            assert_eq!((label.kind, label.binding, label.section), (0, 0, 1), "{label:?}");
            assert!(label.name.starts_with(".L"), "{label:?}");
            assert_eq!((label.value, *addend), (offset, 0), "machine {machine}");
        }
        assert_ne!(found[0].0.name, found[1].0.name);
    }
}

/// A table of such a processor that is relative to the section is wrong, and is put right.
#[test]
fn a_table_that_relaxation_would_break_is_replaced() {
    let riscv = &[0x97, 0, 0, 0, 0xe7, 0x80, 0, 0];
    let mut object = calls(243, true, ("_mcount", 19), riscv);
    object.symbols.insert(0, Symbol::of_section(1));
    object.sections[0].relocations.iter_mut().for_each(|call| call.symbol = 2);
    let entry = |at: i64| Relocation { offset: at.cast_unsigned(), symbol: 1, kind: 2, addend: at };
    let table =
        Section { kind: 1, flags: 2, alignment: 8, data: vec![0; 16], ..Section::default() };
    let name = "__mcount_loc".to_owned();
    object.sections.push(Section { name, relocations: vec![entry(0), entry(8)], ..table });
    let found = bases(&recorded(&object, &Options::default()));
    assert!(found.iter().all(|(label, addend)| label.name.starts_with(".L") && *addend == 0));
    let how = RecordOptions::default().keep_existing_table(true);
    assert_eq!(record(&object.build(), &Options::default(), &how).unwrap().change, None);
}

/// GNU ld ignores `r_addend` of an `R_SH_DIR32`, so the distance is in the table itself.
#[test]
fn distances_of_sh_are_in_the_section() {
    // mov.l @(8,PC),r1; nop; jsr @r1; nop; nop; nop; the literal
    let call = [0xd1, 0x02, 0, 0x09, 0x41, 0x0b, 0, 0x09, 0, 0x09, 0, 0x09, 0, 0, 0, 0];
    let mut object = Object::new(42, false, true, true);
    let literal = Relocation { offset: 12, symbol: 1, kind: 1, addend: 0 };
    object.sections.push(Section { relocations: vec![literal], ..Section::code(".text", &call) });
    object.symbols.push(Symbol::undefined("mcount"));
    let file = recorded(&object, &Options::default());
    let table = sections(&file).unwrap().into_iter().find(|s| s.name == "__mcount_loc").unwrap();
    assert_eq!((table.data, bases(&file)[0].1), (vec![0, 0, 0, 12], 0));
}

/// An x86-64 object with a table that has entries at `offsets` of its one section.
fn with_table(offsets: &[i64]) -> Object {
    let mut object = object("mcount", &[".text"]);
    object.symbols.insert(0, Symbol::of_section(1));
    object.sections[0].relocations.iter_mut().for_each(|call| call.symbol = 2);
    let entries = offsets.iter().zip(0..);
    let entries =
        entries.map(|(to, at)| Relocation { offset: 8 * at, symbol: 1, kind: 1, addend: *to });
    object.sections.push(Section {
        name: "__mcount_loc".to_owned(),
        kind: 1,
        flags: 2,
        data: vec![0; 8 * offsets.len()],
        alignment: 8,
        relocations: entries.collect(),
        ..Section::default()
    });
    object
}

#[test]
fn a_wrong_table_is_put_right() {
    for (offsets, is_right) in [
        (&[0, 8][..], true),
        (&[0, 9], false),
        (&[1, 8], false),
        (&[0], false),
        (&[8], false),
        (&[0, 8, 8], false),
        (&[0, 8, 13], false),
        (&[0, 0], false),
        (&[0, -8], false),
    ] {
        let object = with_table(offsets);
        let change =
            record(&object.build(), &Options::default(), &RecordOptions::default()).unwrap().change;
        assert_eq!(change.is_none(), is_right, "{offsets:?}");
        let found = entries(&recorded(&object, &Options::default()));
        assert_eq!(found, [(".text".to_owned(), 0), (".text".to_owned(), 8)], "{offsets:?}");
    }
}

/// The linker adds the Thumb bit to the address of a Thumb function: such an entry leads one byte
/// too far, though the function is the right one.
#[test]
fn a_table_relative_to_a_thumb_function_is_put_right() {
    let mut object = thumb();
    object.symbols.push(Symbol::function("f", 1, 1, 1, 16));
    let entry = |at| Relocation { offset: at, symbol: 2, kind: 2, addend: at.cast_signed() * 2 };
    object.sections.push(Section {
        name: "__mcount_loc".to_owned(),
        kind: 1,
        flags: 2,
        data: vec![0; 8],
        alignment: 4,
        relocations: vec![entry(0), entry(4)],
        ..Section::default()
    });
    let found = read_table(&object.build(), &Options::default()).unwrap().sites;
    let found: Vec<_> = found.iter().map(|site| (site.offset, site.symbol_offset)).collect();
    assert_eq!(found, [(Some(0), Some(0)), (Some(8), Some(8))]);
    let found = bases(&recorded(&object, &Options::default()));
    assert!(found.iter().all(|(base, _)| base.kind == 3), "{found:?}");
}

#[test]
fn a_right_table_becomes_writable() {
    let how = RecordOptions::default().writable(true);
    let file = recorded_as(&with_table(&[0, 8]), &Options::default(), &how);
    let table = sections(&file).unwrap().into_iter().find(|s| s.name == "__mcount_loc").unwrap();
    assert_eq!(table.flags, SHF_ALLOC | SHF_WRITE);
    assert_eq!(record(&file, &Options::default(), &how).unwrap().change, None);
    assert_eq!(record(&file, &Options::default(), &RecordOptions::default()).unwrap().change, None);
}

/// A section symbol that does not stand at the start of its section is no base.
#[test]
fn a_section_symbol_inside_the_section_is_no_base() {
    let mut object = object("mcount", &[".text"]);
    object.symbols.insert(0, Symbol { value: 4, ..Symbol::of_section(1) });
    object.sections[0].relocations.iter_mut().for_each(|call| call.symbol = 2);
    let found = bases(&recorded(&object, &Options::default()));
    let found: Vec<_> = found.iter().map(|(base, addend)| (base.value, *addend)).collect();
    assert_eq!(found, [(0, 0), (0, 8)]);
}

#[test]
fn what_a_recording_says() {
    let object = object("mcount", &[".text", ".exit.text", ".text..nomcount", ".noinstr.text"]);
    let file = object.build();
    let recording = record(&file, &Options::default(), &RecordOptions::default()).unwrap();
    assert_eq!((recording.recorded, recording.had_table), (2, false));
    let excluded = recording.excluded.iter().map(|s| (s.name.as_str(), s.made_nops, s.left));
    let expected = [(".exit.text", 2, 0), (".text..nomcount", 0, 2), (".noinstr.text", 2, 0)];
    assert_eq!(excluded.collect::<Vec<_>>(), expected);
    let new = recording.change.unwrap().apply(&file);
    let again = record(&new, &Options::default(), &RecordOptions::default()).unwrap();
    assert_eq!((again.recorded, again.had_table), (2, true));
}
