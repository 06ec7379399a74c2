//! What a file may cost, by its size: inputs that make a careless reader do work, or take memory, that
//! grows with the square of the file. Time and memory have a budget for each byte of input.
//!
//! Its own program, because it counts what the whole process allocates.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use mcount::{
    Base, CheckOptions, Functions, Glob, GlobSetBuilder, LateOptions, Options, Policy,
    RecordOptions, SortOptions,
};
use peak_alloc::PeakAlloc;
use std::time::Duration;
use testkit::budget::{on_this_host, thread_time};
use testkit::test;
use testkit::tiny_elf::{Object, Relocation, Section, Symbol, get, put, section_fields};

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Of this thread on a processor, for each byte of the file, in the dev profile.
const TIME: Duration = Duration::from_micros(2);
/// Bytes for each byte of the file.
const ROOM: usize = 100;
/// For any file.
const LEAST_TIME: Duration = Duration::from_secs(1);
const LEAST_ROOM: usize = 16 << 20;

const EM_X86_64: u16 = 62;
const EM_AARCH64: u16 = 183;
const R_X86_64_64: u32 = 1;
const R_X86_64_PLT32: u32 = 4;
const R_X86_64_RELATIVE: u32 = 8;
const ET_EXEC: u16 = 2;

/// How files are looked at, and how they are recorded.
type Both = (Options, RecordOptions);

/// Options that between them go through all the code that changes an object.
fn variants() -> [Both; 3] {
    let every = GlobSetBuilder::new().add(Glob::new("*").unwrap()).build().unwrap();
    let policy = Policy::of(Base::All);
    let all = Options::default().policy(policy);
    let ordered = RecordOptions::default().writable(true).link_order(true);
    let policy = Policy::default().exclude_symbols(every.clone()).exclude_file_symbols(every);
    let nops = RecordOptions::default().nop_all(true);
    [Default::default(), (all, ordered), (Options::default().policy(policy), nops)]
}

/// A verb that may refuse its file.
type Verb = (&'static str, fn(&[u8], &Both) -> bool);

const VERBS: [Verb; 11] = [
    ("scan", |file, (options, _)| mcount::scan(file, options).is_ok()),
    ("read_table", |file, (options, _)| mcount::read_table(file, options).is_ok()),
    ("record", |file, (options, how)| mcount::record(file, options, how).is_ok()),
    ("check", |file, (options, _)| mcount::check(file, options, &CheckOptions::default()).is_ok()),
    ("functions", |file, (options, _)| {
        mcount::functions(file, options).map(|found| mcount::coverage(&found)).is_ok()
    }),
    ("diff", |file, (options, _)| {
        mcount::functions(file, options).map(|all| differs(&all)).is_ok()
    }),
    ("make_nops", |file, (options, _)| mcount::make_nops(file, options, &|_| true).is_ok()),
    ("late_table", |file, (options, _)| {
        mcount::late_table(file, options, &LateOptions::default()).is_ok()
    }),
    ("sort_table", |file, (options, _)| {
        mcount::sort_table(file, options, &SortOptions::default()).is_ok()
    }),
    ("sort_table, dropping", |file, (options, _)| {
        mcount::sort_table(file, options, &SortOptions::default().drop_stale(true)).is_ok()
    }),
    ("with_symbols", |file, _| mcount::with_symbols(file, file).is_ok()),
];

/// Compares the functions with themselves, and with the same ones in the reverse order, of other files
/// and without sites.
fn differs(all: &Functions) -> usize {
    let mut other = all.clone();
    other.functions.reverse();
    for function in &mut other.functions {
        function.sites.clear();
        function.file = function.file.take().map(|file| format!("other/{file}"));
    }
    let exact = mcount::diff(all, all, true).len() + mcount::diff(all, &other, true).len();
    exact + mcount::diff(&other, all, false).len()
}

/// 50,000 static functions called `f` of one source file, each with a site and an alias `g`.
fn functions_of_one_name() -> Vec<u8> {
    let mut object = Object::of_calls(50_000);
    let file = Symbol { kind: 4, section: 0xfff1, ..Symbol::function("a.c", 0, 1, 0, 0) };
    let function = |at: u64| {
        let f = Symbol::function("f", 0, 1, 5 * at, 5);
        [f.clone(), Symbol { name: "g".to_owned(), ..f }]
    };
    let functions = (0..50_000).flat_map(function);
    object.symbols.splice(0..0, std::iter::once(file).chain(functions));
    for call in &mut object.sections[0].relocations {
        call.symbol += 100_001;
    }
    object.build()
}

/// Files of a few megabytes that make a careless reader do work that grows with their square.
fn costly() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("the hook's name, many times", {
            let mut object = Object::of_calls(1);
            object.symbols.extend((0..60_000).map(|_| Symbol::undefined("mcount")));
            object.build()
        }),
        ("many hooks, many calls", {
            let mut object = Object::of_calls(100_000);
            object.symbols.extend((0..40_000).map(|_| Symbol::undefined("mcount")));
            let hook = |at: usize| u32::try_from(at % 40_000).unwrap() + 2;
            let relocations = &mut object.sections[0].relocations;
            relocations.iter_mut().enumerate().for_each(|(at, entry)| entry.symbol = hook(at));
            object.build()
        }),
        ("one call in each of many sections", many_sections(1)),
        ("a list of areas for each of many sections", many_lists()),
        ("a table for each of many sections", many_tables()),
        ("functions at one place", {
            let mut object = Object::of_calls(20_000);
            let function = Symbol::function("f", 1, 1, 0, 1 << 20);
            object.symbols.extend(std::iter::repeat_n(function, 50_000));
            object.build()
        }),
        ("functions of one name", functions_of_one_name()),
        ("calls that are none, of literals", {
            let mut object = Object::new(42, false, false, true);
            let mut text = Section::code(".text", &[0xff, 0xd0].repeat(200_000));
            let entry = |at: u64| Relocation { offset: at * 4, symbol: 1, kind: 1, addend: 0 };
            text.relocations = (0..100_000).map(entry).collect();
            object.sections.push(text);
            object.symbols.push(Symbol::undefined("mcount"));
            object.build()
        }),
    ]
}

/// `Object::of_calls(1)`, with 20,000 sections like its one.
fn many_sections(calls_each: u64) -> Vec<u8> {
    let mut object = Object::of_calls(calls_each);
    object.symbols.remove(0);
    object.sections[0].relocations[0].symbol = 1;
    let text = object.sections[0].clone();
    object.sections.extend(std::iter::repeat_n(text, 20_000));
    object.build()
}

/// As `clang -ffunction-sections -fpatchable-function-entry=5`: a list for each function.
fn many_lists() -> Vec<u8> {
    let mut object = Object::new(EM_X86_64, true, false, true);
    for index in 0..10_000 {
        let text = 2 * index + 1;
        object.sections.push(Section::code(".text.f", &[0x90; 5]));
        let entry = Relocation { offset: 0, symbol: index + 1, kind: R_X86_64_64, addend: 0 };
        object.sections.push(Section {
            name: "__patchable_function_entries".to_owned(),
            kind: 1,
            flags: 0x83,
            data: vec![0; 8],
            link: text,
            relocations: vec![entry],
            ..Section::default()
        });
        object.symbols.push(Symbol::function("f", 0, text, 0, 5));
    }
    object.build()
}

/// Every section's name begins at the start of a megabyte without a NUL.
fn endless_names() -> Vec<u8> {
    let mut object = Object::of_calls(1);
    object.sections.extend(std::iter::repeat_n(Section::default(), 15_000));
    object.sections[14_999].name = "x".repeat(1 << 20);
    let mut file = object.build();
    let table = usize::try_from(get(&file, 0x28, 8, false)).unwrap();
    let name = get(&file, table + 15_000 * 64, 4, false);
    for index in 2..15_000 {
        put(&mut file, table + index * 64, 4, false, name);
    }
    file
}

/// A section of data that is loaded.
fn data(name: &str, data: Vec<u8>) -> Section {
    Section { name: name.to_owned(), kind: 1, flags: 2, data, alignment: 8, ..Section::default() }
}

/// `Object::of_calls(2)` with 20,000 more sections like `section`, whose bytes are all the same ones.
fn overlapping(section: &Section) -> Vec<u8> {
    const COUNT: usize = 20_000;
    let mut object = Object::of_calls(2);
    object.sections.push(section.clone());
    let empty = Section { data: Vec::new(), relocations: Vec::new(), ..section.clone() };
    object.sections.extend(std::iter::repeat_n(empty, COUNT));
    let mut file = object.build();
    let table = usize::try_from(get(&file, 0x28, 8, false)).unwrap();
    for name in ["sh_offset", "sh_size"] {
        let field = section_fields(true).into_iter().find(|field| field.name == name).unwrap();
        let value = get(&file, table + 2 * 64 + field.offset, field.size, false);
        for index in 3..3 + COUNT {
            put(&mut file, table + index * 64 + field.offset, field.size, false, value);
        }
    }
    file
}

/// Relocation sections for the code, with the same 20,000 calls in them.
fn overlapping_relocations() -> Vec<u8> {
    let mut list = Vec::new();
    for _ in 0..20_000 {
        list.extend(1u64.to_le_bytes());
        list.extend((2u64 << 32 | 4).to_le_bytes());
        list.extend((-4i64).to_le_bytes());
    }
    // Behind them, and the relocation section of `calls`, comes the symbol table.
    let (kind, link) = (4, 1 + 20_002 + 1);
    let section =
        Section { kind, flags: 0x40, info: 1, link, entry_size: 24, ..data(".rela.text", list) };
    overlapping(&section)
}

/// Groups with the same 250,000 members.
fn overlapping_groups() -> Vec<u8> {
    let members = [1u32.to_le_bytes()].repeat(250_000).concat();
    overlapping(&Section { kind: 17, flags: 0, entry_size: 4, ..data(".group", members) })
}

/// 10,000 calls in a function, or a section, whose name has a megabyte.
fn endless_name_of(function: bool) -> Vec<u8> {
    let mut object = Object::of_calls(10_000);
    let name = "f".repeat(1 << 20);
    if function {
        object.symbols.push(Symbol::function(&name, 1, 1, 0, 50_000));
    } else {
        object.sections[0].name = format!(".text{name}");
    }
    object.build()
}

/// 20,000 functions whose names are the ends of one name of a megabyte, with a call in each.
fn names_that_share_their_end(kind: u8) -> Vec<u8> {
    let mut object = Object::of_calls(20_000);
    let function = |at: u64| Symbol { kind, ..Symbol::function("", 1, 1, 5 * at, 5) };
    object.symbols.extend((0..20_000).map(function));
    object.symbols.push(Symbol::function(&"f".repeat(1 << 20), 1, 1, 0, 5));
    let symbol_table = object.symbol_table() as usize;
    let mut file = object.build();
    let sections = usize::try_from(get(&file, 0x28, 8, false)).unwrap();
    let symbols =
        usize::try_from(get(&file, sections + symbol_table * 64 + 0x18, 8, false)).unwrap();
    for index in 0..20_000 {
        let name = u64::try_from(8 + index).unwrap();
        put(&mut file, symbols + (index + 3) * 24, 4, false, name);
    }
    file
}

/// A table for each of 20,000 sections, as `record --link-order` makes them.
fn many_tables() -> Vec<u8> {
    let file = many_sections(1);
    let ordered = RecordOptions::default().link_order(true);
    mcount::record(&file, &Options::default(), &ordered).unwrap().change.unwrap().apply(&file)
}

/// An x86-64 image with `code` at 0x10000, and what else `sections` are; the hook is at its end.
fn image(code: &[u8], sections: impl IntoIterator<Item = Section>) -> Object {
    let mut object = Object::new(EM_X86_64, true, false, true);
    object.kind = ET_EXEC;
    let hook = code.len() as u64;
    let code = [code, &[0xc3]].concat();
    object.sections.push(Section { address: 0x1_0000, ..Section::code(".text", &code) });
    object.sections.extend(sections);
    object.symbols.push(Symbol::function("mcount", 1, 1, 0x1_0000 + hook, 1));
    object
}

fn words(values: impl Iterator<Item = u64>) -> Vec<u8> {
    values.flat_map(u64::to_le_bytes).collect()
}

fn list(entries: impl Iterator<Item = u64>) -> Section {
    Section { address: 0x4000_0000, ..data("__patchable_function_entries", words(entries)) }
}

/// 20,000 calls in one function, with the relocations that the linker kept.
fn one_long_function() -> Vec<u8> {
    const COUNT: u32 = 20_000;
    let code: Vec<u8> = (0..COUNT)
        .flat_map(|at| {
            let [a, b, c, d] = (5 * (COUNT - at - 1)).to_le_bytes();
            [0xe8, a, b, c, d]
        })
        .collect();
    let mut image = image(&code, []);
    let relocation = |at: u32| Relocation {
        offset: u64::from(5 * at + 1) + 0x1_0000,
        symbol: 1,
        kind: R_X86_64_PLT32,
        addend: -4,
    };
    image.sections[0].relocations = (0..COUNT).map(relocation).collect();
    image.build()
}

/// Areas at each of the first 20,000 bytes of so many NOPs.
fn long_area() -> Vec<u8> {
    image(&vec![0x90; 1 << 18], [list((0..20_000).map(|at| 0x1_0000 + at))]).build()
}

/// The same, with a table of those places.
fn long_area_in_a_table() -> Vec<u8> {
    let places = words((0..20_000).rev().map(|at| 0x1_0000 + at));
    let table = Section { address: 0x5000_0000, ..data("__mcount_loc", places) };
    image(&vec![0x90; 1 << 18], [table]).build()
}

/// Areas of a thousand sizes, and 50,000 functions.
fn many_forms() -> Vec<u8> {
    let mut code = Vec::new();
    let mut places = Vec::new();
    for size in 1..1000 {
        places.push(0x1_0000 + code.len() as u64);
        code.extend(vec![0x90; size]);
        code.push(0xc3);
    }
    let mut image = image(&code, [list(places.iter().copied())]);
    image.symbols.extend(places.iter().map(|at| Symbol::function("f", 1, 1, *at, 1)));
    let others = (0..50_000).map(|at| Symbol::function("g", 1, 1, 0x1_0000 + 9 * at, 1));
    image.symbols.extend(others);
    image.build()
}

/// 5,000 sections of code, and 50,000 symbols that say what is code.
fn many_marks() -> Vec<u8> {
    let mut image = Object::new(EM_AARCH64, true, false, true);
    image.kind = ET_EXEC;
    for at in 0..5_000 {
        let section = Section::code(".text", &0xd503_201f_u32.to_le_bytes());
        image.sections.push(Section { address: 0x1_0000 + 4 * at, ..section });
    }
    let mark = Symbol { name: "$x".to_owned(), section: 1, value: 0x1_0000, ..Symbol::default() };
    image.symbols.extend(std::iter::repeat_n(mark, 50_000));
    image.symbols.push(Symbol::function("_mcount", 1, 1, 0x1_0000, 4));
    image.build()
}

/// 20,000 sections of code, and a table of 100,000 places in the last.
fn many_sections_of_code() -> Vec<u8> {
    let code = |at: u64| {
        let section = Section::code(".text", &[0x0f, 0x1f, 0x44, 0, 0, 0xc3]);
        Section { address: 0x2_0000 + 8 * at, ..section }
    };
    let last = 0x2_0000 + 8 * 19_999;
    let places = words((0..100_000).map(|at| last + at % 6));
    let table = Section { address: 0x5000_0000, ..data("__mcount_loc", places) };
    image(&[0xc3], (0..20_000).map(code).chain([table])).build()
}

/// 5,000 lists of patchable entries, and 50,000 relocations for the loader.
fn many_lists_of_an_image() -> Vec<u8> {
    let entry = |at: u64| {
        let fields = [0x4000_0000 + 8 * at, u64::from(R_X86_64_RELATIVE), 0x1_0000];
        words(fields.into_iter())
    };
    let entries: Vec<u8> = (0..50_000).flat_map(entry).collect();
    let dynamic = Section { kind: 4, entry_size: 24, ..data(".rela.dyn", entries) };
    let lists =
        (0..5_000).map(|at| Section { address: 0x4000_0000 + 8 * at, ..list([0].into_iter()) });
    image(&[0x90; 64], lists.chain([dynamic])).build()
}

/// Files with bytes or names that are shared so often that they are refused.
fn refused() -> Vec<(&'static str, Vec<u8>)> {
    let table = data("__mcount_loc", vec![0; 1 << 20]);
    let list = data("__patchable_function_entries", vec![0; 1 << 18]);
    vec![
        ("relocation sections that share their bytes", overlapping_relocations()),
        ("tables that share their bytes", overlapping(&table)),
        ("lists of areas that share their bytes", overlapping(&list)),
        ("code that shares its bytes", overlapping(&Section::code(".text", &[0x90; 1 << 20]))),
        ("groups that share their bytes", overlapping_groups()),
    ]
}

/// Files that some verbs refuse, because of their names, and some do not.
fn with_endless_names() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("calls in a function with an endless name", endless_name_of(true)),
        ("calls in a section with an endless name", endless_name_of(false)),
        ("functions whose names share their end", names_that_share_their_end(2)),
        ("source files whose names share their end", names_that_share_their_end(4)),
        ("section names without an end", endless_names()),
    ]
}

/// Images of that kind.
fn images() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("calls in one long function", one_long_function()),
        ("areas in one long area", long_area()),
        ("a table of one long area", long_area_in_a_table()),
        ("areas of many sizes", many_forms()),
        ("many sections and many marks", many_marks()),
        ("many sections and a long table", many_sections_of_code()),
        ("many lists and many relocations", many_lists_of_an_image()),
    ]
}

/// What is wrong with the cost of `verb` on `file`, and whether it takes the file.
fn measured((name, verb): Verb, file: &[u8], options: &Both) -> (bool, Option<String>) {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let begin = thread_time();
    let takes = verb(file, options);
    let elapsed = thread_time().saturating_sub(begin);
    let room = MEMORY.peak_usage().saturating_sub(before);
    let time = on_this_host(TIME * u32::try_from(file.len()).unwrap() + LEAST_TIME);
    let is_right = elapsed <= time && room <= ROOM * file.len() + LEAST_ROOM;
    let what =
        || format!("{name}: {elapsed:?} and {} KiB for {} KiB", room >> 10, file.len() >> 10);
    (takes, (!is_right).then(what))
}

#[test]
fn costs_do_not_grow_with_the_square() {
    let mut wrong = Vec::new();
    let mut all = |files: Vec<(&'static str, Vec<u8>)>, expected: &dyn Fn(&str) -> Option<bool>| {
        for (name, file) in files {
            for verb in VERBS {
                // Options change what is written, not how a file is read.
                let count = if ["record", "make_nops"].contains(&verb.0) { 3 } else { 1 };
                for options in variants().iter().take(count) {
                    let (takes, cost) = measured(verb, &file, options);
                    wrong.extend(cost.map(|cost| format!("{name}: {cost}")));
                    if expected(verb.0).is_some_and(|expected| expected != takes) {
                        wrong.push(format!("{name}: {}: taken: {takes}", verb.0));
                    }
                }
            }
        }
    };
    let of_objects = |verb: &str| ["scan", "read_table", "check"].contains(&verb).then_some(true);
    let of_images = |verb: &str| ["scan", "late_table", "check"].contains(&verb).then_some(true);
    all(costly(), &of_objects);
    all(images(), &of_images);
    all(with_endless_names(), &|_| None);
    all(refused(), &|_| Some(false));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
