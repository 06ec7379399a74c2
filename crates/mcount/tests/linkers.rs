//! What linkers make of tables that were put right: sources that compilers are known to leave a wrong
//! table in, or none, go through `record` and then through every linker.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

use mcount::{CheckOptions, Options, RecordOptions, check, record};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SymbolKind};
use std::collections::HashMap;
use std::path::Path;
use testkit::damage::Random;
use testkit::process;
use testkit::room::Room;
use testkit::test;
use testkit::tiny_elf::{Object, Relocation, Section, Symbol};
use testkit::tools::{need, programs};

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

/// Both files have templates and inline functions. The second one is compiled otherwise, so that its copies have other sizes,
/// and one of its groups comes before its `.text`.
const GROUPS: [(&str, &str, &str); 2] = [
    (
        "a.o",
        "-O1",
        "int unused(int a) { return a + 7; }\n\
         int other(int a, Shape &shape);\n\
         extern \"C\" int begin(int a) {\n\
             Shape shape;\n\
             return twice(a) + shared(a) + Chain<3>::sum(a) + other(a, shape);\n\
         }\n",
    ),
    (
        "b.o",
        "-O0",
        "struct Square : Shape { int area(int a) { return a * a; } };\n\
         int other(int a, Shape &shape) {\n\
             Square square;\n\
             Shape *one = a ? &shape : &square;\n\
             return twice(a) + twice(2L * a) + shared(a) + Chain<2>::sum(a) + one->area(a) + one->edge();\n\
         }\n",
    ),
];
const IN_BOTH: &str = "#define APART __attribute__((noinline))\n\
     inline APART int shared(int a) { return a * 3; }\n\
     template <class T> APART T twice(T x) { return x + x; }\n\
     struct Shape { virtual int area(int a) { return a; } virtual int edge() { return 1; } };\n\
     template <int N> struct Chain { static APART int sum(int a) { return Chain<N - 1>::sum(a) + N; } };\n\
     template <> struct Chain<0> { static int sum(int a) { return a; } };\n";
const ENTRY_FLAGS: [&str; 5] = [
    "-fpatchable-function-entry=2",
    "-fno-rtti",
    "-fno-exceptions",
    "-fno-asynchronous-unwind-tables",
    "-fno-pie",
];

/// What the list of patchable entries in `object` refers to: symbols and addends.
fn references(object: &[u8]) -> Vec<(String, i64)> {
    let file = object::File::parse(object).unwrap();
    let lists =
        file.sections().filter(|section| section.name() == Ok("__patchable_function_entries"));
    let relocations = lists.flat_map(|list| list.relocations());
    let mut found: Vec<_> = relocations
        .filter_map(|(_, relocation)| {
            let RelocationTarget::Symbol(index) = relocation.target() else { return None };
            let symbol = file.symbol_by_index(index).unwrap();
            let section = symbol.section_index().map(|at| file.section_by_index(at).unwrap());
            let section = section.map_or("", |section| section.name().unwrap_or_default());
            Some((format!("{} in {section}", symbol.name().unwrap()), relocation.addend()))
        })
        .collect();
    found.sort();
    found
}

/// Calls are recorded, which adds symbols on RISC-V, and the list is split: it refers to what it referred to before.
#[test(each = ["g++", "riscv64-linux-gnu-g++"])]
fn a_split_list_refers_to_the_same_symbols(compiler: &str) {
    need([compiler]);
    let room = Room::new().unwrap();
    let (name, level, source) = GROUPS[1];
    room.put("b.cc", format!("{IN_BOTH}{source}").as_bytes()).unwrap();
    run(&room, compiler, &[&ENTRY_FLAGS[..], &["-pg", level, "-c", "-o", name, "b.cc"]].concat());
    let object = room.get(name).unwrap();
    let how = RecordOptions::default().split_lists(true);
    let recording = record(&object, &Options::default(), &how).unwrap();
    assert!(recording.recorded > 8);
    let new = recording.change.unwrap().apply(&object);
    assert!(references(&object).len() > 8);
    assert_eq!(references(&new), references(&object));
}

/// g++ 12's objects with damage: they're refused, or split by appending.
#[test(each = ["g++", "arm-linux-gnueabihf-g++"])]
fn damaged_lists_do_no_harm(compiler: &str) {
    need([compiler]);
    let room = Room::new().unwrap();
    let (name, level, source) = GROUPS[1];
    room.put("b.cc", format!("{IN_BOTH}{source}").as_bytes()).unwrap();
    run(&room, compiler, &[&ENTRY_FLAGS[..], &[level, "-c", "-o", name, "b.cc"]].concat());
    let whole = room.get(name).unwrap();
    let file = object::File::parse(&*whole).unwrap();
    // The list and its relocations, groups, symbols and names, and the headers of sections behind them.
    let ranges: Vec<(u64, u64)> = file
        .sections()
        .filter(|section| !section.name().unwrap_or_default().starts_with(".text"))
        .filter_map(|section| section.file_range())
        .chain([(0, 64), (whole.len() as u64 - 2_560, 2_560)])
        .filter(|(_, size)| *size > 0)
        .collect();
    let how = RecordOptions::default().split_lists(true);
    let (mut random, mut split) = (Random::new(), 0);
    for _ in 0..4_000 {
        let mut object = whole.clone();
        for _ in 0..=random.below(3) {
            let (start, size) = ranges[random.below(ranges.len())];
            let at = usize::try_from(start).unwrap() + random.below(usize::try_from(size).unwrap());
            object[at] = [0, 1, 0x7f, 0x80, 0xff, object[at] ^ 1, object[at] ^ 8][random.below(7)];
        }
        let Ok(recording) = record(&object, &Options::default(), &how) else { continue };
        if let Some(change) = recording.change {
            split += 1;
            let new = change.apply(&object);
            assert_eq!(new.get(64..object.len()), object.get(64..), "nothing is overwritten");
            if object::File::parse(&*object).is_ok() {
                object::File::parse(&*new).unwrap();
            }
        }
    }
    assert!(split > 100, "only {split} were split");
}

/// Compiles [`GROUPS`], and splits their lists. Returns whether there was something to split.
fn compile_groups(room: &Room, compiler: &str, flags: &[&str]) -> bool {
    let how = RecordOptions::default().split_lists(true);
    let mut has_split = false;
    for (name, level, source) in GROUPS {
        let source_name = format!("{name}.cc");
        room.put(&source_name, format!("{IN_BOTH}{source}").as_bytes()).unwrap();
        let files = [level, "-c", "-o", name, &source_name];
        run(room, compiler, &[flags, &ENTRY_FLAGS[..], &files].concat());
        let object = room.get(name).unwrap();
        let recording = record(&object, &Options::default(), &how).unwrap();
        has_split |= recording.split != 0;
        assert_eq!(recording.change.is_some(), recording.split != 0, "{compiler} {name}");
        if let Some(change) = recording.change {
            assert!(change.at >= object.len() as u64, "nothing is overwritten");
            let new = change.apply(&object);
            let again = record(&new, &Options::default(), &how).unwrap();
            assert_eq!(again.change, None, "{compiler} {name}: twice is once");
            room.put(name, &new).unwrap();
        }
    }
    has_split
}

/// The addresses that the list of patchable entries in the program `name` has, in order.
fn listed(room: &Room, name: &str) -> Vec<u64> {
    let image = room.get(name).unwrap();
    let file = object::File::parse(&*image).unwrap();
    let Some(list) = file.section_by_name("__patchable_function_entries") else {
        return Vec::new();
    };
    let append = |sum, byte: &u8| sum << 8 | u64::from(*byte);
    let value = |word: &[u8]| {
        if file.is_little_endian() {
            word.iter().rev().fold(0, append)
        } else {
            word.iter().fold(0, append)
        }
    };
    let mut found: Vec<_> =
        list.data().unwrap().chunks(if file.is_64() { 8 } else { 4 }).map(value).collect();
    found.sort_unstable();
    found
}

/// The addresses in the program `name` where `objdump` shows a symbol, and then two NOPs.
fn with_nops(room: &Room, objdump: &str, name: &str) -> Vec<u64> {
    let arguments = ["-d", "--no-show-raw-insn", name];
    let text = process::run(&mut room.command(Path::new(objdump), &arguments)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let is_nop = |line: Option<&&str>| {
        line.and_then(|line| line.split('\t').nth(1)).is_some_and(|code| code.starts_with("nop"))
    };
    let starts = lines.iter().enumerate().filter(|(at, line)| {
        line.ends_with(">:") && is_nop(lines.get(at + 1)) && is_nop(lines.get(at + 2))
    });
    let address = |line: &str| u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
    let mut found: Vec<_> = starts.map(|(_, line)| address(line)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// How C++ is compiled, and what the linker is told.
const WAYS: [(&[&str], &[&str]); 3] =
    [(&[], &[]), (&["-ffunction-sections"], &[]), (&["-ffunction-sections"], &["--gc-sections"])];
/// The functions with a hook in the program, and those of them that the program calls.
const HOOKED: usize = 13;
const LIVE: usize = 11;

/// What g++ 12 makes of C++: one list for all groups, linked to the first of them. The linkers refuse it, or drop entries of
/// functions that they keep.
#[test(each = LINKERS)]
fn a_compilers_list_of_groups_is_split(linker: &str) {
    need(["g++", "objdump", linker]);
    for (flags, linker_flags) in WAYS {
        let collects = linker_flags.contains(&"--gc-sections");
        if collects && linker == "ld.gold" {
            // It drops every section that nothing refers to, and so every list, whoever wrote it.
            continue;
        }
        let room = Room::new().unwrap();
        compile_groups(&room, "g++", flags);
        let files = ["-e", "begin", "-o", "program", "a.o", "b.o"];
        run(&room, linker, &[linker_flags, &files].concat());
        let functions = with_nops(&room, "objdump", "program");
        assert_eq!(listed(&room, "program"), functions, "{linker} {flags:?} {linker_flags:?}");
        let count = if collects && linker != "mold" { LIVE } else { HOOKED };
        assert_eq!(functions.len(), count, "{linker} {flags:?} {linker_flags:?}");
    }
}

/// The same for each processor that a C++ compiler is installed for.
#[test]
fn lists_are_split_for_each_processor() {
    let compilers = programs(|name| name.ends_with("-linux-gnu-g++") || name.ends_with("hf-g++"));
    for compiler in compilers {
        need([compiler.as_str()]);
        let objdump = compiler.replace("g++", "objdump");
        for (flags, linker_flags) in WAYS {
            let room = Room::new().unwrap();
            compile_groups(&room, &compiler, flags);
            let linker_flags: Vec<_> =
                linker_flags.iter().map(|flag| format!("-Wl,{flag}")).collect();
            let mut arguments: Vec<&str> = linker_flags.iter().map(String::as_str).collect();
            arguments.extend(["-nostdlib", "-static", "-no-pie", "-Wl,-e,begin", "-o", "program"]);
            run(&room, &compiler, &[&arguments[..], &["a.o", "b.o"]].concat());
            let functions = with_nops(&room, &objdump, "program");
            assert_eq!(listed(&room, "program"), functions, "{compiler} {flags:?}");
            let count = if linker_flags.is_empty() { HOOKED } else { LIVE };
            assert_eq!(functions.len(), count, "{compiler} {flags:?}");
        }
    }
}
