//! Objects that hold a whole program: more sections than 16 bits count, code of many source files,
//! and tables that follow their code through garbage collection.
//!
//! Specification: gABI, 4 ("Sections", `SHN_XINDEX`).
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use mcount::{
    Base, CheckOptions, Glob, GlobSetBuilder, Helpers, LateOptions, Options, Policy, RecordOptions,
};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use testkit::room::Room;
use testkit::tiny_elf::{self, Relocation, Section, Symbol, put};
use testkit::tools::need;
use testkit::{files, process, test};

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

const LINKERS: [&str; 2] = ["ld.bfd", "ld.lld"];

/// What every program here needs: the hook and an entry point that is live.
const OUTSIDE: &str = ".globl mcount\n.text\nmcount: ret\n";

fn all() -> Options {
    let policy = Policy::of(Base::All);
    Options::default().policy(policy)
}

fn writable() -> RecordOptions {
    RecordOptions::default().writable(true)
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
fn recorded(object: &[u8], options: &Options, how: &RecordOptions) -> Vec<u8> {
    let new = mcount::record(object, options, how).unwrap().change.unwrap().apply(object);
    assert_eq!(mcount::record(&new, options, how).unwrap().change, None, "twice is once");
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
    need(["as", "ld.bfd", "ld.lld", "readelf"]);
    let mut reserved = BTreeSet::new();
    // An assembler puts a relocation section behind each: every other index is of code.
    for before in ["", ".section .first,\"a\"\n.byte 0\n"] {
        let room = Room::new().unwrap();
        let object = assemble(&room, "a", &many(before));
        let new = recorded(&object, &Options::default(), &RecordOptions::default());
        let sites = mcount::read_table(&new, &Options::default()).unwrap().sites;
        assert_eq!(sites.len(), MANY);
        for (number, site) in sites.iter().enumerate() {
            assert_eq!(site.section.as_deref(), Some(&*format!(".text.f{number}")));
            assert_eq!(site.symbol.as_deref(), Some(&*format!("f{number}")));
        }
        reserved.extend(sites.iter().filter_map(|site| site.section_index));
        if before.is_empty() {
            in_an_archive(&room, &new);
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
        is_read(room, &expected, linker);
    }
}

/// `a.o` as a member of an archive, whose other member stays as it is.
fn in_an_archive(room: &Room, new: &[u8]) {
    need(["ar"]);
    assemble(room, "outside", OUTSIDE);
    run(room, "ar", &["crD", "lib.a", "outside.o", "a.o"]);
    run(room, env!("CARGO_BIN_EXE_mcount"), &["record", "lib.a"]);
    run(room, "ar", &["x", "--output", ".", "lib.a", "a.o"]);
    assert!(room.get("a.o").unwrap() == new);
    let archive = room.get("lib.a").unwrap();
    let outside = room.get("outside.o").unwrap();
    assert!(archive.windows(outside.len()).any(|bytes| bytes == outside));
}

/// What `list` and `table` say of `image`: the functions `expected`, in order.
fn is_read(room: &Room, expected: &[String], linker: &str) {
    let mcount = Path::new(env!("CARGO_BIN_EXE_mcount"));
    for arguments in [
        ["list", "--policy", "all", "--format", "jsonl", "image"],
        ["table", "--policy", "all", "--format", "jsonl", "image"],
    ] {
        let outcome = room.run(mcount, &arguments).unwrap();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{linker}");
        let function = |line: &str| {
            let site: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(site["symbol_offset"], 0);
            site["symbol"].as_str().unwrap().to_owned()
        };
        let found: Vec<_> = outcome.stdout.lines().map(function).collect();
        assert!(found == expected, "{linker} {}: {}", arguments[0], found.len());
    }
    // Raw words are the same wherever they go.
    let raw = ["table", "--policy", "all", "--format", "raw", "image"];
    let printed = room.command(mcount, &raw).output().unwrap().stdout;
    run(room, env!("CARGO_BIN_EXE_mcount"), &[raw.as_slice(), &["-o", "raw"]].concat());
    let file = object::File::parse(room.get("image").unwrap().as_slice())
        .map(|file| file.section_by_name("__mcount_loc").unwrap().data().unwrap().to_vec());
    assert!(printed == room.get("raw").unwrap() && printed == file.unwrap(), "{linker}");
}

/// More local symbols than 16 bits count, before the hook and behind it.
#[test]
fn more_local_symbols_than_sixteen_bits_count() {
    need(["as", "ld.bfd", "ld.lld"]);
    let mut source = ".text\n".to_owned();
    for number in 0..MANY {
        let _ = writeln!(source, ".type f{number},@function\nf{number}: call mcount\nret");
    }
    source.push_str(".globl start\n.type start,@function\nstart: call mcount\nret\n");
    let room = Room::new().unwrap();
    let new = recorded(&assemble(&room, "a", &source), &all(), &writable());
    room.put("new.o", &new).unwrap();
    assemble(&room, "outside", OUTSIDE);
    for linker in LINKERS {
        let arguments = ["-m", "elf_x86_64", "-e", "start", "-o", "image", "new.o", "outside.o"];
        run(&room, linker, &arguments);
        let names = entries(&room.get("image").unwrap());
        let expected = (0..MANY).map(|number| format!("f{number}"));
        assert!(names.into_iter().eq(expected.chain(["start".to_owned()])), "{linker}");
    }
}

/// A symbol index has 24 bits in a relocation of ELFCLASS32.
const SYMBOLS_32: usize = 1 << 24;

/// An i386 object with a call of a hook, local or global, and so many local symbols of no name in all.
fn with_symbols(is_local: bool, locals: usize) -> Vec<u8> {
    const ENTRY: usize = 16;
    let mut object = tiny_elf::Object::new(3, false, false, false);
    let hook = Symbol::undefined("mcount");
    object.symbols = vec![if is_local { Symbol { binding: 0, ..hook } } else { hook }];
    let call = Relocation { offset: 1, symbol: 1, kind: 2, addend: -4 };
    let code = Section::code(".text", &[0xe8, 0xfc, 0xff, 0xff, 0xff, 0xc3]);
    object.sections = vec![Section { relocations: vec![call], ..code }];
    let mut file = object.build();
    let number =
        |file: &[u8], at: usize| usize::try_from(tiny_elf::get(file, at, 4, false)).unwrap();
    let headers = number(&file, 0x20);
    let header = headers + 40 * object.symbol_table() as usize;
    let (old, size) = (number(&file, header + 16), number(&file, header + 20));
    let first = if is_local { size } else { ENTRY };
    let added = locals - first / ENTRY;
    let symbols = file[old..old + size].to_vec();
    file.resize(file.len().next_multiple_of(4), 0);
    let new = file.len();
    file.extend(&symbols[..first]);
    file.resize(file.len() + added * ENTRY, 0);
    file.extend(&symbols[first..]);
    for (at, value) in [(16, new), (20, size + added * ENTRY), (28, locals)] {
        put(&mut file, header + at, 4, false, value as u64);
    }
    if !is_local {
        let list = number(&file, headers + 40 * 2 + 16);
        put(&mut file, list + 4, 4, false, (locals << 8 | 2) as u64);
    }
    file
}

/// What recording an object comes to that has so many local symbols.
fn record_with(is_local: bool, locals: usize) -> Result<(), String> {
    let object = with_symbols(is_local, locals);
    let options = Options::default();
    assert_eq!(mcount::scan(&object, &options).unwrap().sites.len(), 1);
    let recording = mcount::record(&object, &options, &RecordOptions::default())
        .map_err(|error| error.to_string())?;
    let sites = mcount::read_table(&recording.change.unwrap().apply(&object), &options);
    let offsets: Vec<_> = sites.unwrap().sites.iter().map(|site| site.offset).collect();
    assert_eq!(offsets, [Some(0)]);
    Ok(())
}

/// The section symbol that an entry needs, or the hook behind it, would have an index of 25 bits.
#[test]
fn more_symbols_than_a_relocation_can_name_are_refused() {
    for (is_local, locals) in [(true, SYMBOLS_32), (false, SYMBOLS_32 - 1)] {
        let said = record_with(is_local, locals).unwrap_err();
        assert!(said.ends_with(": too many symbols"), "{is_local}: {said}");
    }
}

/// Needs 1 GB of memory.
#[test]
fn as_many_symbols_as_a_relocation_can_name_are_recorded() {
    for (is_local, locals) in [(true, SYMBOLS_32 - 1), (false, SYMBOLS_32 - 2)] {
        assert_eq!(record_with(is_local, locals), Ok(()), "{is_local}");
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
    let new = recorded(&file, &Options::default(), &RecordOptions::default());
    let places = |file: &[u8]| -> Vec<_> {
        let sites = mcount::read_table(file, &Options::default()).unwrap().sites;
        sites.iter().map(|site| site.offset.unwrap()).collect()
    };
    assert_eq!(places(&new), [0, 8, 16]);
    let nop = recorded(&file, &Options::default(), &RecordOptions::default().nop_all(true));
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
    need(["as", "ld.bfd"]);
    let room = Room::new().unwrap();
    for name in ["one", "ftrace", "two"] {
        assemble(&room, name, &of_file(name));
    }
    let inputs = ["one.o", "ftrace.o", "two.o"];
    run(&room, "ld.bfd", &[["-r", "-o", "whole.o"].as_slice(), &inputs].concat());
    let excluding = |pattern: &str| {
        let globs = GlobSetBuilder::new().add(Glob::new(pattern).unwrap()).build().unwrap();
        let policy = Policy::default().exclude_file_symbols(globs);
        Options::default().policy(policy)
    };
    let names = |file: &str, pattern: &str| -> String {
        let options = excluding(pattern);
        let old = room.get(file).unwrap();
        let new = mcount::record(&old, &options, &RecordOptions::default())
            .unwrap()
            .change
            .map_or(old.clone(), |c| c.apply(&old));
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
    need(["as", "ld.bfd", "ld.lld"]);
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
    room.put("new.o", &recorded(&object, &all(), &writable().link_order(true))).unwrap();
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

/// C++ in two files: functions of templates and inline ones are in groups of their own in both.
const CXX: [(&str, &str); 2] = [
    (
        "a.cc",
        "template <int n> __attribute__((noinline)) int shared(int x) { asm(\"\"); return x + n; }
        template <int n> __attribute__((noinline)) int dead(int x) { asm(\"\"); return x * n; }
        __attribute__((noinline)) inline int common(int x) { asm(\"\"); return shared<2>(x); }
        int other(int x);
        int unused(int x) { return dead<3>(x) + common(x); }
        extern \"C\" int start(int x) { return shared<1>(x) + common(x) + other(x); }",
    ),
    (
        "b.cc",
        "template <int n> __attribute__((noinline)) int shared(int x) { asm(\"\"); return x + n; }
        template <int n> __attribute__((noinline)) int dead(int x) { asm(\"\"); return x * n; }
        __attribute__((noinline)) inline int common(int x) { asm(\"\"); return shared<2>(x); }
        int never(int x) { return dead<3>(x) + dead<4>(x); }
        int other(int x) { return shared<1>(x) * common(x); }",
    ),
];

/// What of it is live.
const LIVE: [&str; 5] =
    ["_Z5otheri", "_Z6commoni", "_Z6sharedILi1EEii", "_Z6sharedILi2EEii", "start"];

/// The compiler's own lists of patchable entries, which recording leaves alone: after garbage collection
/// the words are those of the live functions, each once, and `list` says the same.
#[test(each = [("aarch64", 4), ("riscv64", 2)])]
fn lists_of_patchable_entries_follow_their_groups((processor, nop): (&str, u64)) {
    let bfd = format!("{processor}-linux-gnu-ld.bfd");
    need(["clang++", "ld.lld", &bfd]);
    // NOPs in all, and before the function.
    for (flag, before) in [("2", 0), ("4,2", 2)] {
        let room = Room::new().unwrap();
        for (name, source) in CXX {
            room.put(name, source.as_bytes()).unwrap();
            let target = format!("--target={processor}-linux-gnu");
            let area = format!("-fpatchable-function-entry={flag}");
            let plain = ["-O2", "-fno-exceptions", "-fno-rtti", "-ffunction-sections", "-c", name];
            run(&room, "clang++", &[[target.as_str(), &area].as_slice(), &plain].concat());
        }
        run(&room, env!("CARGO_BIN_EXE_mcount"), &["record", "--policy", "all", "a.o", "b.o"]);
        for linker in [bfd.as_str(), "ld.lld"] {
            let arguments = ["--gc-sections", "-e", "start", "-o", "image", "a.o", "b.o"];
            run(&room, linker, &arguments);
            let image = room.get("image").unwrap();
            let label = format!("{processor} {flag} {linker}");
            let names = names_of_list(&image, before * nop);
            assert_eq!(names, LIVE, "{label}");
            let sites = mcount::read_table(&image, &all()).unwrap().sites;
            let mut listed: Vec<_> =
                sites.iter().map(|s| s.symbol.clone().unwrap().to_string()).collect();
            listed.sort_unstable();
            assert_eq!(listed, LIVE, "{label}");
            assert_eq!(
                mcount::check(&image, &all(), &CheckOptions::default()).unwrap(),
                [],
                "{label}"
            );
        }
    }
}

/// The functions that the words of the list in `image` lead to, so many bytes before each.
fn names_of_list(image: &[u8], before: u64) -> Vec<String> {
    let file = object::File::parse(image).unwrap();
    let list = file.section_by_name("__patchable_function_entries").unwrap();
    let words = list.data().unwrap().chunks(8);
    let named = |word: &[u8]| {
        let address = u64::from_le_bytes(word.try_into().unwrap()) + before;
        let is_it = |s: &object::Symbol<'_, '_>| s.address() == address && s.is_global();
        file.symbols().filter(|s| s.kind() == SymbolKind::Text).find(is_it)
    };
    let mut found: Vec<String> =
        words.map(|word| named(word).unwrap().name().unwrap().to_owned()).collect();
    found.sort_unstable();
    found
}

/// Threads share the code of an image by pieces that begin where functions do, wherever calls and what
/// only looks like one stand in them.
#[test]
fn threads_find_what_one_finds() {
    const FUNCTIONS: u64 = 3000;
    need(["as", "ld.bfd"]);
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
        let options = all().helpers(helpers);
        mcount::late_table(&image, &options, &LateOptions::default()).unwrap().sites
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
