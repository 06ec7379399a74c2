//! Objects that hold a whole program: more sections than 16 bits count, code of many source files,
//! and tables that follow their code through garbage collection.
//!
//! Its own file because these objects come from an assembler and go to linkers; what the library
//! makes of small ones is tested beside it. Specification: gABI, 4 ("Sections", `SHN_XINDEX`).
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use mcount::{Base, Glob, GlobSetBuilder, Helpers, Options, Policy};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use testkit::room::Room;
use testkit::tiny_elf::{self, Relocation, Section, Symbol};
use testkit::tools::are_here;
use testkit::{files, process};

const LINKERS: [&str; 2] = ["ld.bfd", "ld.lld"];

/// What every program here needs: the hook and an entry point that is live.
const OUTSIDE: &str = ".globl mcount\n.text\nmcount: ret\n";

fn all() -> Options {
    let policy = Policy { base: Base::All, ..Policy::default() };
    Options { policy, writable: true, ..Options::default() }
}

fn run(room: &Room, program: &str, arguments: &[&str]) {
    process::run(&mut room.command(Path::new(program), arguments)).unwrap();
}

/// Assembles `source` to `name`.o.
fn assemble(room: &Room, name: &str, source: &str) -> Vec<u8> {
    let (source_name, object) = (format!("{name}.s"), format!("{name}.o"));
    room.put(&source_name, source.as_bytes()).unwrap();
    run(room, "as", &["--64", "-o", &object, &source_name]);
    room.get(&object).unwrap()
}

/// The object after recording; with a second run, which must find it right.
fn recorded(object: &[u8], options: &Options) -> Vec<u8> {
    let new = mcount::record(object, options).unwrap().change.unwrap().apply(object);
    assert_eq!(mcount::record(&new, options).unwrap().change, None, "twice is once");
    new
}

/// The addresses in the table of a linked image, and the names of the functions there.
fn entries(image: &[u8]) -> Vec<String> {
    let file = object::File::parse(image).unwrap();
    let functions = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
    let names: std::collections::HashMap<u64, String> =
        functions.map(|s| (s.address(), s.name().unwrap().to_owned())).collect();
    let table = file.section_by_name("__mcount_loc").unwrap();
    let words = table.data().unwrap().chunks(8);
    let addresses = words.map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    addresses.map(|address| names[&address].clone()).collect()
}

const MANY: usize = 70_000;

/// So many functions, each in a section of its own that calls the hook first; `before` comes first
/// and shifts the section indices by one.
fn many(before: &str) -> String {
    let mut source = before.to_owned();
    for number in 0..MANY {
        let _ = write!(
            source,
            ".section .text.f{number},\"ax\"\n.globl f{number}\n.type f{number},@function\n\
             f{number}: call mcount\nret\n"
        );
    }
    source
}

/// Sections at 0xff00 to 0xffff, whose indices mean something else in 16 bits, and above.
#[test]
fn more_sections_than_sixteen_bits_count() {
    if !are_here(["as", "ld.bfd", "ld.lld", "readelf"]) {
        return;
    }
    let mut reserved = BTreeSet::new();
    // An assembler puts a relocation section behind each: every other index is of code.
    for before in ["", ".section .first,\"a\"\n.byte 0\n"] {
        let room = Room::new().unwrap();
        let object = assemble(&room, "a", &many(before));
        let new = recorded(&object, &Options::default());
        let sites = mcount::read_table(&new, &Options::default()).unwrap().sites;
        assert_eq!(sites.len(), MANY);
        for (number, site) in sites.iter().enumerate() {
            assert_eq!(site.section.as_deref(), Some(&*format!(".text.f{number}")));
            assert_eq!(site.symbol.as_deref(), Some(&*format!("f{number}")));
        }
        reserved.extend(sites.iter().filter_map(|site| site.section_index));
        if before.is_empty() {
            links_many(&room, &new);
        }
    }
    assert!((0xff00..=0xffff).all(|index| reserved.contains(&index)));
}

fn links_many(room: &Room, new: &[u8]) {
    room.put("new.o", new).unwrap();
    assemble(room, "outside", OUTSIDE);
    assert_eq!(room.run(Path::new("readelf"), &["-SW", "new.o"]).unwrap().stderr, "");
    for linker in LINKERS {
        let arguments = ["-m", "elf_x86_64", "-e", "f0", "-o", "image", "new.o", "outside.o"];
        run(room, linker, &arguments);
        let names = entries(&room.get("image").unwrap());
        let expected: Vec<_> = (0..MANY).map(|number| format!("f{number}")).collect();
        assert!(names == expected, "{linker}: {} entries", names.len());
    }
}

/// Two relocation sections for the same code, each with a call; and the one that makes NOPs.
#[test]
fn several_relocation_sections_for_one_section() {
    let call = [0xe8, 0, 0, 0, 0, 0xc3, 0x90, 0x90];
    let mut object = tiny_elf::Object::new(62, true, false, true);
    object.symbols.push(Symbol::undefined("mcount"));
    let at = |offset: u64| Relocation { offset, symbol: 1, kind: 4, addend: -4 };
    let code = Section::code(".text", &call.repeat(3));
    object.sections.push(Section { relocations: vec![at(1)], ..code });
    let mut second = Vec::new();
    for offset in [9u64, 17] {
        second.extend(offset.to_le_bytes());
        second.extend((1u64 << 32 | 4).to_le_bytes());
        second.extend((-4i64).to_le_bytes());
    }
    object.sections.push(Section {
        name: ".rela.text.more".to_owned(),
        kind: 4,
        flags: 0x40,
        info: 1,
        link: object.symbol_table() + 1,
        entry_size: 24,
        alignment: 8,
        data: second,
        ..Section::default()
    });
    let file = object.build();
    let new = recorded(&file, &Options::default());
    let places = |file: &[u8]| -> Vec<_> {
        let sites = mcount::read_table(file, &Options::default()).unwrap().sites;
        sites.iter().map(|site| site.offset.unwrap()).collect()
    };
    assert_eq!(places(&new), [0, 8, 16]);
    let nop = recorded(&file, &Options { nop_all: true, ..Options::default() });
    assert_eq!(places(&nop), [0, 8, 16]);
    let sections = testkit::reader::sections(&nop).unwrap();
    assert!(sections[0].data.chunks(8).all(|code| code.starts_with(&[0x0f, 0x1f, 0x44, 0, 0])));
    for list in sections.iter().filter(|section| section.info == 1 && section.kind == 4) {
        assert!(list.data.chunks(24).all(|entry| entry[8..16] == [0; 8]), "{}", list.name);
    }
}

/// Three files, each with functions `x_a`, global, then `x_b`, local, `x_c`, global, `x_d`, local,
/// and `x_e`, global.
fn of_file(name: &str) -> String {
    let mut source = format!(".file \"{name}.c\"\n");
    for (letter, is_global) in [("a", true), ("b", false), ("c", true), ("d", false), ("e", true)] {
        let function = format!("{name}_{letter}");
        let global = if is_global { format!(".globl {function}\n") } else { String::new() };
        let _ =
            write!(source, ".text\n{global}.type {function},@function\n{function}: call mcount\n");
        let _ = write!(source, "ret\n.size {function}, . - {function}\n");
    }
    // An address that is taken, as ftrace's own file does.
    let _ = write!(source, "lea mcount(%rip), %rax\nmov mcount@GOTPCREL(%rip), %rax\n");
    let _ = write!(source, ".section .text..nomcount,\"ax\"\n{name}_n: call mcount\nret\n");
    source
}

#[test]
fn functions_of_a_source_file_are_left_alone() {
    if !are_here(["as", "ld.bfd"]) {
        return;
    }
    let room = Room::new().unwrap();
    for name in ["one", "ftrace", "two"] {
        assemble(&room, name, &of_file(name));
    }
    let inputs = ["one.o", "ftrace.o", "two.o"];
    run(&room, "ld.bfd", &[["-r", "-o", "whole.o"].as_slice(), &inputs].concat());
    let excluding = |pattern: &str| {
        let globs = GlobSetBuilder::new().add(Glob::new(pattern).unwrap()).build().unwrap();
        let policy = Policy { exclude_file_symbols: globs, ..Policy::default() };
        Options { policy, ..Options::default() }
    };
    let names = |file: &str, pattern: &str| -> String {
        let options = excluding(pattern);
        let old = room.get(file).unwrap();
        let new =
            mcount::record(&old, &options).unwrap().change.map_or(old.clone(), |c| c.apply(&old));
        let sites = mcount::read_table(&new, &options).unwrap().sites;
        let listed: Vec<_> = sites.iter().map(|site| site.symbol.clone().unwrap()).collect();
        let scanned = mcount::scan(&old, &options).unwrap().sites;
        let scanned = scanned.iter().filter(|site| !site.excluded);
        assert_eq!(listed, scanned.map(|s| s.symbol.clone().unwrap()).collect::<Vec<_>>());
        listed.join(" ")
    };
    let one = "one_a one_b one_c one_d one_e";
    let two = "two_a two_b two_c two_d two_e";
    for (file, pattern, expected) in [
        ("whole.o", "other.c", format!("{one} ftrace_a ftrace_b ftrace_c ftrace_d ftrace_e {two}")),
        // Nothing says of which file the first and the last are.
        ("whole.o", "ftrace.c", format!("{one} ftrace_a ftrace_e {two}")),
        ("whole.o", "f*.c", format!("{one} ftrace_a ftrace_e {two}")),
        ("ftrace.o", "ftrace.c", String::new()),
        ("one.o", "ftrace.c", one.to_owned()),
    ] {
        assert_eq!(names(file, pattern), expected, "{file} without {pattern}");
    }
}

/// What a linker script says of the table, and the entries that are left.
const COLLECTED: &[(&str, &str, &str)] = &[
    ("ld.bfd", "*(__mcount_loc)", "start live"),
    ("ld.lld", "*(__mcount_loc)", "start live"),
    ("ld.bfd", "KEEP(*(__mcount_loc))", "start dead live"),
    ("ld.lld", "KEEP(*(__mcount_loc))", "start live"),
];

/// `--link-order`: the entries of live functions stay and those of dead ones go. With KEEP, GNU ld
/// keeps all entries and so their functions. Never is there an entry without its function.
#[test]
fn garbage_collection_keeps_entries_with_their_functions() {
    if !are_here(["as", "ld.bfd", "ld.lld"]) {
        return;
    }
    let room = Room::new().unwrap();
    let function = |name: &str, body: &str| {
        format!(
            ".section .text.{name},\"ax\"\n.globl {name}\n.type {name},@function\n\
             {name}: call mcount\n{body}ret\n"
        )
    };
    let source =
        [function("start", "call live\n"), function("dead", ""), function("live", "")].concat();
    let object = assemble(&room, "a", &source);
    assemble(&room, "outside", OUTSIDE);
    room.put("new.o", &recorded(&object, &Options { link_order: true, ..all() })).unwrap();
    for (linker, input, expected) in COLLECTED {
        let script = format!(
            "SECTIONS {{ . = 0x10000; .text : {{ *(.text .text.*) }}\n\
             __mcount_loc : {{ begin = .; {input} end = .; }} }}"
        );
        files::write(&room.path("script"), script.as_bytes()).unwrap();
        let arguments = "-m elf_x86_64 --gc-sections -e start -T script -o image new.o outside.o";
        run(&room, linker, &arguments.split(' ').collect::<Vec<_>>());
        let names = entries(&room.get("image").unwrap()).join(" ");
        assert_eq!(names, *expected, "{linker}, {input}");
    }
}

/// Threads share the code of an image by pieces that begin where functions do, wherever calls and what
/// only looks like one stand in them.
#[test]
fn threads_find_what_one_finds() {
    const FUNCTIONS: u64 = 3000;
    if !are_here(["as", "ld.bfd"]) {
        return;
    }
    let mut source = ".globl mcount\n.text\nmcount: ret\n".to_owned();
    for number in 0..FUNCTIONS {
        // The number of a move that has the bytes of a call, and code of many lengths.
        let filler = 200 + number % 13;
        let _ = write!(
            source,
            ".type f{number},@function\nf{number}: call mcount\n1: mov $0xe8e8e8e8, %eax\n\
             .fill {filler}, 8, 0x00841f0f2e66\n.byte 0xb8\n.long mcount-.-5\nret\n\
             .size f{number}, .-f{number}\n"
        );
    }
    let room = Room::new().unwrap();
    assemble(&room, "a", &source);
    run(&room, "ld.bfd", &["-m", "elf_x86_64", "-e", "f0", "-o", "image", "a.o"]);
    let image = room.get("image").unwrap();
    assert!(image.len() > 4 << 20, "so small that no thread is started");
    let sites = |helpers| {
        let options = Options { helpers, ..all() };
        mcount::late_table(&image, &options).unwrap().sites
    };
    let alone = sites(Helpers::default());
    assert_eq!(alone.len() as u64, FUNCTIONS);
    let three = Helpers::new(|work| {
        std::thread::scope(|scope| {
            scope.spawn(work);
            scope.spawn(work);
            work();
        });
    });
    assert_eq!(sites(three), alone);
    assert_eq!(sites(Helpers::new(|_| {})), alone, "those who help with nothing");
    let jsonl = |jobs| {
        let arguments = ["scan", jobs, "--format", "jsonl", "image"];
        room.run(Path::new(env!("CARGO_BIN_EXE_mcount")), &arguments).unwrap().stdout
    };
    assert_eq!(jsonl("-j1").lines().count() as u64, FUNCTIONS);
    assert_eq!(jsonl("-j4"), jsonl("-j1"));
}
