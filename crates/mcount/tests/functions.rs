//! Every function of a file with its sites, in objects made for the purpose and in all prebuilt ones.
#![expect(clippy::unwrap_used, reason = "a test")]

use mcount::{Binding, Exclusion, Functions, Options, RecordOptions, functions, record, scan};
use testkit::prebuilt;
use testkit::test;
use testkit::tiny_elf::{Object, Relocation, Section, Symbol};

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

/// `call hook`, then `ret` and padding; the same without the call: 8 bytes each.
const CALL: [u8; 8] = [0xe8, 0, 0, 0, 0, 0xc3, 0x90, 0x90];
const NONE: [u8; 8] = [0xc3, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc];

fn object() -> Object {
    let mut object = Object::new(62, true, false, true);
    let file = |name: &str| Symbol { name: name.to_owned(), kind: 4, ..Symbol::default() };
    let function = Symbol::function;
    object.symbols = vec![
        file("one.c"),
        function("local", 0, 1, 0, 8),
        file("two.c"),
        function("bare", 0, 1, 24, 8),
        Symbol::undefined("__fentry__"),
        function("weak", 2, 1, 8, 8),
        function("alias", 1, 1, 8, 8),
        function("between", 1, 1, 16, 8),
        function("leaving", 1, 2, 0, 8),
    ];
    let call = |at: u64| Relocation { offset: at + 1, symbol: 5, kind: 4, addend: -4 };
    let text = Section::code(".text", &[CALL, CALL, CALL, NONE].concat());
    let exit = Section::code(".exit.text", &CALL);
    object.sections = vec![
        Section { relocations: vec![call(0), call(8), call(16)], ..text },
        Section { relocations: vec![call(0)], ..exit },
    ];
    object
}

fn of(file: &[u8]) -> Functions {
    functions(file, &Options::default()).unwrap()
}

#[test]
fn functions_with_and_without_a_site() {
    let found = of(&object().build());
    let lines = found.functions.iter().map(|f| {
        let file = f.file.as_deref().unwrap_or("-");
        format!("{} {}+{} {} {file} {}", f.name, f.section, f.offset, f.size, f.sites.len())
    });
    let lines: Vec<_> = lines.collect();
    let expected = [
        "local .text+0 8 one.c 1",
        "alias .text+8 8 - 1",
        "between .text+16 8 - 1",
        "bare .text+24 8 two.c 0",
        "leaving .exit.text+0 8 - 1",
    ];
    assert_eq!(lines, expected);
    assert_eq!(found.functions[1].aliases, ["weak"]);
    assert_eq!(found.functions[1].binding, Binding::Global);
    assert_eq!(found.functions[4].excluded, Some(Exclusion::Section));
    assert!(found.functions[..4].iter().all(|function| function.excluded.is_none()));
    assert_eq!(found.undefined, ["__fentry__"]);
    assert_eq!((found.entries.len(), found.strays.len()), (0, 0));
}

/// With `-fpatchable-function-entry=3,2`, two NOPs are before the function. `before` ends where they begin, even if no
/// symbol tells its size, as in a kernel's list of names.
#[test]
fn nops_before_a_function_are_its_own() {
    for size in [0, 1] {
        let mut object = Object::new(62, true, false, true);
        let function = |name: &str, at: u64| Symbol::function(name, 1, 1, at, size);
        object.symbols = vec![function("before", 0), function("after", 10)];
        let code = [NONE, [0x90, 0x90, 0x90, 0xc3, 0xcc, 0xcc, 0xcc, 0xcc]].concat();
        let place = Relocation { offset: 0, symbol: 1, kind: 1, addend: 8 };
        let list = Section {
            name: "__patchable_function_entries".to_owned(),
            relocations: vec![place],
            ..Section::code("", &[0; 8])
        };
        object.sections = vec![Section::code(".text", &code), list];
        let found = of(&object.build());
        let lines = found.functions.iter().map(|f| format!("{} {}", f.name, f.sites.len()));
        assert_eq!(lines.collect::<Vec<_>>(), ["before 0", "after 1"], "size {size}");
    }
}

#[test]
fn what_is_recorded_is_said_of_the_function() {
    let file = object().build();
    let change =
        record(&file, &Options::default(), &RecordOptions::default()).unwrap().change.unwrap();
    let found = of(&change.apply(&file));
    let recorded: Vec<_> = found.functions.iter().map(mcount::Function::is_recorded).collect();
    assert_eq!(recorded, [true, true, true, false, false]);
    assert_eq!(found.entries.len(), 3);
}

#[test]
fn every_site_of_a_prebuilt_object_is_in_the_function_that_scan_names() {
    let mut count = 0;
    for object in prebuilt::all().unwrap() {
        let Ok(sites) = scan(&object.bytes, &Options::default()) else { continue };
        let found = of(&object.bytes);
        let mut own: Vec<_> = found.functions.iter().flat_map(|f| f.sites.clone()).collect();
        own.extend(found.strays.iter().cloned());
        own.sort_by_key(|site| (site.section_index, site.offset));
        assert_eq!(own, sites.sites, "{}", object.name);
        for function in &found.functions {
            for site in &function.sites {
                let name = site.symbol.as_deref().unwrap();
                assert!(function.names().any(|own| own == name), "{}: {name}", object.name);
                count += 1;
            }
        }
    }
    assert!(count > 500, "only {count} sites");
}
