//! What linkers make of tables that were put right: sources that compilers are known to leave a wrong
//! table in, or none, go through `record` and then through every linker.
//!
//! Its own file because the judge is the linked program: its symbols and the words of its table.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

use mcount::{CheckOptions, Options, RecordOptions, check, record};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};
use std::collections::HashMap;
use std::path::Path;
use testkit::process;
use testkit::room::Room;
use testkit::test;
use testkit::tiny_elf::{Object, Relocation, Section, Symbol};
use testkit::tools::need;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

const LINKERS: [&str; 4] = ["ld.bfd", "ld.gold", "ld.lld", "mold"];
/// gold does not let an ordered section live as long as its code, mold keeps the code of all.
const LINKERS_THAT_ORDER: [&str; 2] = ["ld.bfd", "ld.lld"];

fn run(room: &Room, program: &str, arguments: &[&str]) {
    process::run(&mut room.command(Path::new(program), arguments)).unwrap();
}

/// Compiles `source` to the object `name`.
fn compile(room: &Room, compiler: &str, flags: &[&str], name: &str, source: &str) -> Vec<u8> {
    let extension = if compiler == "g++" { "cc" } else { "c" };
    let source_name = format!("{name}.{extension}");
    room.put(&source_name, source.as_bytes()).unwrap();
    run(room, compiler, &[flags, &["-O1", "-c", "-o", name, &source_name]].concat());
    room.get(name).unwrap()
}

/// The object `name` after recording, which recording again leaves alone.
fn recorded(room: &Room, name: &str, options: &Options, how: &RecordOptions) {
    let object = room.get(name).unwrap();
    let change = record(&object, options, how).unwrap().change;
    let new = change.unwrap_or_else(|| panic!("{name} is unchanged")).apply(&object);
    assert_eq!(record(&new, options, how).unwrap().change, None, "{name}: twice is once");
    room.put(name, &new).unwrap();
}

/// The names of the functions that the table of the program `name` leads to, in alphabetical order.
fn entries(room: &Room, name: &str) -> Vec<String> {
    let image = room.get(name).unwrap();
    let file = object::File::parse(&*image).unwrap();
    let functions = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
    let names: HashMap<u64, String> =
        functions.map(|s| (s.address(), s.name().unwrap().to_owned())).collect();
    let table = file.section_by_name("__mcount_loc").unwrap();
    let words = table.data().unwrap().chunks(if file.is_64() { 8 } else { 4 });
    let value = |word: &[u8]| word.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let name_of = |at: u64| names.get(&at).cloned().unwrap_or_else(|| format!("{at:#x}"));
    let mut found: Vec<_> = words.map(|word| name_of(value(word))).collect();
    found.sort();
    found
}

/// i386 keeps addends in the section. An object whose only hooks are NOPs may have no relocation that
/// would show it.
#[test(each = LINKERS)]
fn a_table_of_an_object_without_relocations_has_the_form_of_its_processor(linker: &str) {
    need(["gcc", linker]);
    let source = "int f(int a) { return a + 1; }\nint g(int a) { return a + 2; }\n";
    let flags = ["-pg", "-mfentry", "-mnop-mcount", "-fno-pie", "-fno-asynchronous-unwind-tables"];
    let nops = Options::default().nops(true);
    for (bits, emulation) in [("-m32", "elf_i386"), ("-m64", "elf_x86_64")] {
        let room = Room::new().unwrap();
        let object = compile(&room, "gcc", &[&flags[..], &[bits]].concat(), "n.o", source);
        let file = object::File::parse(&*object).unwrap();
        assert!(file.sections().all(|section| section.relocations().next().is_none()));
        recorded(&room, "n.o", &nops, &RecordOptions::default());
        run(&room, linker, &["-m", emulation, "-e", "f", "-o", "program", "n.o"]);
        assert_eq!(entries(&room, "program"), ["f", "g"], "{bits} {linker}");
    }
}

/// The same object as an earlier version recorded it.
#[test(each = LINKERS)]
fn a_table_in_the_form_of_another_processor_is_put_right(linker: &str) {
    need([linker]);
    let mut object = Object::new(3, false, false, true);
    let code = [0x0f, 0x1f, 0x44, 0, 0, 0xc3, 0x90, 0x90].repeat(2);
    object.sections.push(Section::code(".text", &code));
    object.symbols = vec![
        Symbol::of_section(1),
        Symbol::function("f", 1, 1, 0, 6),
        Symbol::function("g", 1, 1, 8, 6),
    ];
    let entry =
        |at: i64| Relocation { offset: at.cast_unsigned() / 2, symbol: 1, kind: 1, addend: at };
    object.sections.push(Section {
        name: "__mcount_loc".to_owned(),
        kind: 1,
        flags: 2,
        data: vec![0; 8],
        alignment: 4,
        relocations: vec![entry(0), entry(8)],
        ..Section::default()
    });
    let room = Room::new().unwrap();
    room.put("n.o", &object.build()).unwrap();
    let rules = || {
        let found = check(&room.get("n.o").unwrap(), &Options::default(), &CheckOptions::default())
            .unwrap();
        found.iter().map(|finding| finding.rule.name()).collect::<Vec<_>>()
    };
    assert_eq!(rules(), ["gc-unsafe", "wrong-offset"]);
    recorded(&room, "n.o", &Options::default(), &RecordOptions::default());
    assert_eq!(rules(), ["gc-unsafe"]);
    run(&room, linker, &["-m", "elf_i386", "-e", "f", "-o", "program", "n.o"]);
    assert_eq!(entries(&room, "program"), ["f", "g"], "{linker}");
}

/// Two objects share `shared`, and the second has one that nothing calls.
const SOURCES: [(&str, &str); 2] = [
    (
        "a.o",
        "inline __attribute__((noinline)) int shared(int a) { return a * 3; }\n\
             extern \"C\" void __fentry__() {}\n\
             int other(int a);\n\
             extern \"C\" int _start(int a) { return shared(a) + other(a); }\n",
    ),
    (
        "b.o",
        "inline __attribute__((noinline)) int shared(int a) { return a * 3; }\n\
             int other(int a) { return shared(a) + 1; }\n\
             int unused(int a) { return a; }\n",
    ),
];
const FLAGS: [&str; 5] =
    ["-pg", "-mfentry", "-fno-pie", "-ffunction-sections", "-fno-asynchronous-unwind-tables"];

/// What gcc makes of C++: one table beside groups of which the linker drops all but one.
#[test(each = LINKERS)]
fn a_compilers_table_of_groups_is_put_right(linker: &str) {
    need(["g++", linker]);
    let room = Room::new().unwrap();
    for (name, source) in SOURCES {
        compile(&room, "g++", &[&FLAGS[..], &["-mrecord-mcount"]].concat(), name, source);
        recorded(&room, name, &Options::default(), &RecordOptions::default());
        let found =
            check(&room.get(name).unwrap(), &Options::default(), &CheckOptions::default()).unwrap();
        assert!(found.iter().all(|finding| finding.rule.name() == "gc-unsafe"), "{found:#?}");
    }
    run(&room, linker, &["-o", "program", "a.o", "b.o"]);
    let expected = ["_Z5otheri", "_Z6sharedi", "_Z6unusedi", "__fentry__", "_start"];
    assert_eq!(entries(&room, "program"), expected, "{linker}");
}

/// One table for everything, made one for each section: garbage collection keeps what is live.
#[test(each = LINKERS_THAT_ORDER)]
fn a_plain_table_becomes_an_ordered_one(linker: &str) {
    need(["g++", linker]);
    let room = Room::new().unwrap();
    let ordered = RecordOptions::default().link_order(true);
    for (name, source) in SOURCES {
        compile(&room, "g++", &FLAGS, name, source);
        recorded(&room, name, &Options::default(), &RecordOptions::default());
        recorded(&room, name, &Options::default(), &ordered);
        assert_eq!(
            check(&room.get(name).unwrap(), &Options::default(), &CheckOptions::default()).unwrap(),
            []
        );
    }
    run(&room, linker, &["--gc-sections", "-o", "program", "a.o", "b.o"]);
    let expected = ["_Z5otheri", "_Z6sharedi", "_start"];
    let found = entries(&room, "program");
    let found: Vec<_> = found.iter().filter(|name| *name != "__fentry__").collect();
    assert_eq!(found, expected, "{linker}");
}
