//! Inputs that nobody should make: cut short, with fields that lie, with bits that fell over. None
//! makes a verb panic, hang or read outside the file, and what `record` lets pass parses again.
//!
//! Names of fields: gABI, 4.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use mcount::{
    Base, CheckOptions, Glob, GlobSet, GlobSetBuilder, Options, Policy, RecordOptions, read_table,
    record, scan,
};
use object::read::{Object as _, ObjectSection as _, ObjectSymbol as _};
use std::time::Duration;
use testkit::budget::{on_this_host, thread_time};
use testkit::prebuilt::{self, Prebuilt};
use testkit::sample::one_in;
use testkit::test;
use testkit::tiny_elf::{
    Object, Relocation, Section, Symbol, get, header_fields, put, section_fields,
};

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

/// Far more than any file of these tests takes, even on a loaded machine in the dev profile.
const BUDGET: Duration = Duration::from_secs(3);

const EM_X86_64: u16 = 62;
const R_X86_64_64: u32 = 1;
const R_X86_64_PLT32: u32 = 4;

fn every_section() -> GlobSet {
    GlobSetBuilder::new().add(Glob::new("*").unwrap()).build().unwrap()
}

/// How files are looked at, and how they are recorded.
type Both = (Options, RecordOptions);

/// Options that between them go through all the code that changes an object.
fn variants() -> [Both; 3] {
    let policy = Policy::of(Base::All);
    let all = Options::default().policy(policy);
    let ordered = RecordOptions::default().writable(true).link_order(true).split_lists(true);
    let policy = Policy::default().exclude_sections(every_section());
    let exclude = Options::default().policy(policy);
    [Default::default(), (all, ordered), (exclude, RecordOptions::default())]
}

/// What went wrong in a test: one line each, so that one run shows all of it.
#[derive(Default)]
struct Failures(Vec<String>);

impl Failures {
    /// All verbs on `file`, which they may refuse.
    fn survive(&mut self, file: &[u8], what: &dyn Fn() -> String) {
        let begin = thread_time();
        let result =
            std::panic::catch_unwind(|| variants().iter().try_for_each(|o| try_all(file, o)));
        match result {
            Ok(Ok(())) => {}
            Ok(Err(reason)) => self.0.push(format!("{}: {reason}", what())),
            Err(_) => self.0.push(format!("{}: panic", what())),
        }
        let took = thread_time().saturating_sub(begin);
        if took > on_this_host(BUDGET) {
            self.0.push(format!("{}: took {took:?}", what()));
        }
    }

    fn expect(&mut self, is_right: bool, what: &dyn Fn() -> String) {
        if !is_right {
            self.0.push(what());
        }
    }
}

impl Drop for Failures {
    fn drop(&mut self) {
        let shown: Vec<_> = self.0.iter().take(60).map(String::as_str).collect();
        let count = self.0.len();
        assert!(shown.is_empty() || std::thread::panicking(), "{count}:\n{}", shown.join("\n"));
    }
}

fn try_all(file: &[u8], (options, how): &Both) -> Result<(), String> {
    let _ = scan(file, options);
    let _ = read_table(file, options);
    let _ = mcount::check(file, options, &CheckOptions::default());
    let _ = mcount::functions(file, options).map(|found| mcount::coverage(&found));
    let Ok(recording) = record(file, options, how) else { return Ok(()) };
    match recording.change {
        // What the other reader refuses from the start says nothing.
        Some(change) if reads_again(file, None).is_ok() => {
            reads_again(&change.apply(file), Some(recording.recorded))
        }
        _ => Ok(()),
    }
}

/// A recorded file is one that another reader understands.
fn reads_again(file: &[u8], entries: Option<usize>) -> Result<(), String> {
    let parsed = object::File::parse(file).map_err(|error| error.to_string())?;
    // A name without its NUL at the end of its table isn't one to this reader.
    if parsed.sections().any(|section| section.name().is_err()) {
        return if entries.is_some() { Ok(()) } else { Err("a section without a name".to_owned()) };
    }
    let word = if parsed.is_64() { 8 } else { 4 };
    let tables = parsed.sections().filter(|section| section.name() == Ok("__mcount_loc"));
    let size: u64 = tables.map(|table| table.size()).sum();
    if entries.is_some_and(|entries| size != entries as u64 * word) {
        return Err(format!("the table has {size} bytes, but {entries:?} entries"));
    }
    if parsed.symbols().any(|symbol| symbol.index().0 == 0) {
        return Err("the null symbol is gone".to_owned());
    }
    Ok(())
}

#[test]
fn cut_short_anywhere_is_an_error() {
    for Prebuilt { name, bytes } in prebuilt::one_of_each().unwrap() {
        for length in 0..bytes.len() {
            let cut = &bytes[..length];
            let what = || format!("{name} cut to {length} bytes");
            assert!(scan(cut, &Options::default()).is_err(), "{}", what());
            assert!(
                record(cut, &Options::default(), &RecordOptions::default()).is_err(),
                "{}",
                what()
            );
            assert!(read_table(cut, &Options::default()).is_err(), "{}", what());
        }
    }
}

#[test]
fn cut_short_somewhere_is_an_error_in_every_object() {
    for Prebuilt { name, bytes } in prebuilt::all().unwrap() {
        for length in (0..bytes.len()).step_by(61) {
            let cut = &bytes[..length];
            assert!(
                record(cut, &Options::default(), &RecordOptions::default()).is_err(),
                "{name} cut to {length} bytes"
            );
        }
    }
}

/// Values that a field of `size` bytes with `value` in it is set to.
fn lies(value: u64, size: usize) -> impl Iterator<Item = u64> {
    let top = u64::MAX >> (64 - 8 * size);
    let mut values = vec![0, 1, 2, 3, 7, top, top - 1, top / 2, top / 2 + 1];
    values.extend([value.wrapping_add(1) & top, value.wrapping_sub(1) & top, value ^ 8]);
    values.sort_unstable();
    values.dedup();
    values.into_iter().filter(move |lie| *lie != value && *lie <= top)
}

/// Every lie in the `size` bytes at `offset` of `bytes`.
fn lie_at(failures: &mut Failures, bytes: &[u8], (offset, size): (usize, usize), what: &str) {
    let big_endian = bytes[5] == 2;
    for lie in lies(get(bytes, offset, size, big_endian), size) {
        let mut file = bytes.to_vec();
        put(&mut file, offset, size, big_endian, lie);
        failures.survive(&file, &|| format!("{what} set to {lie:#x}"));
    }
}

#[test]
fn fields_that_lie() {
    let mut failures = Failures::default();
    for Prebuilt { name, bytes } in one_in(4, prebuilt::one_of_each().unwrap()) {
        let (is_64, big_endian) = (bytes[4] == 2, bytes[5] == 2);
        for field in header_fields(is_64) {
            let what = format!("{name}: {}", field.name);
            lie_at(&mut failures, &bytes, (field.offset, field.size), &what);
        }
        let value = |name: &str| {
            let field = header_fields(is_64).into_iter().find(|f| f.name == name).unwrap();
            usize::try_from(get(&bytes, field.offset, field.size, big_endian)).unwrap()
        };
        for index in 0..value("e_shnum") {
            for field in section_fields(is_64) {
                let at = value("e_shoff") + index * value("e_shentsize") + field.offset;
                let what = format!("{name}: section {index}: {}", field.name);
                lie_at(&mut failures, &bytes, (at, field.size), &what);
            }
        }
    }
}

#[test]
fn bytes_that_fell_over() {
    let mut failures = Failures::default();
    // Numerical Recipes' generator: the same bytes on every machine.
    let mut state = 1u64;
    let mut random = move |limit: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % limit
    };
    for Prebuilt { name, bytes } in prebuilt::all().unwrap() {
        for round in 0..40 {
            let mut file = bytes.clone();
            let mut changes = Vec::new();
            for _ in 0..=round % 4 {
                let (at, bit) = (random(file.len()), random(8));
                file[at] ^= 1 << bit;
                changes.push((at, bit));
            }
            failures.survive(&file, &|| format!("{name}: (byte, bit) {changes:?} turned"));
        }
    }
}

/// `Object::of_calls(1)` with a field of section `section` set.
fn with_section_field(section: usize, field: &str, value: u64) -> Vec<u8> {
    let mut file = Object::of_calls(1).build();
    let table = usize::try_from(get(&file, 0x28, 8, false)).unwrap();
    let field = section_fields(true).into_iter().find(|f| f.name == field).unwrap();
    put(&mut file, table + section * 64 + field.offset, field.size, false, value);
    file
}

fn with_header_field(field: &str, value: u64) -> Vec<u8> {
    let mut file = Object::of_calls(1).build();
    let field = header_fields(true).into_iter().find(|f| f.name == field).unwrap();
    put(&mut file, field.offset, field.size, false, value);
    file
}

fn with_relocation(relocation: Relocation) -> Vec<u8> {
    let mut object = Object::of_calls(1);
    object.sections[0].relocations.push(relocation);
    object.build()
}

/// The object has no section symbol, so that one must be added and all relocations renumbered.
fn to_renumber(change: impl FnOnce(&mut Object)) -> Vec<u8> {
    let mut object = Object::of_calls(1);
    object.symbols.remove(0);
    object.sections[0].relocations[0].symbol = 1;
    change(&mut object);
    object.build()
}

fn slim_lto() -> Vec<u8> {
    let mut object = Object::new(EM_X86_64, true, false, true);
    object.sections.push(Section::code(".text", &[]));
    object.symbols.push(Symbol::undefined("__gnu_lto_slim"));
    object.build()
}

/// Sections of `Object::of_calls(1)`: 1 `.text`, 2 `.rela.text`, 3 `.symtab`, 4 `.strtab`, 5 `.shstrtab`.
fn refused() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let far = Relocation { offset: 5, symbol: 2, kind: R_X86_64_PLT32, addend: 0 };
    let nobody = Relocation { offset: 1, symbol: 99, kind: R_X86_64_PLT32, addend: 0 };
    let data = |relocations: Vec<Relocation>| Section {
        name: ".data".to_owned(),
        kind: 1,
        flags: 3,
        data: vec![0; 8],
        alignment: 8,
        relocations,
        ..Section::default()
    };
    let nobody_in_data = Relocation { offset: 0, symbol: 99, kind: R_X86_64_64, addend: 0 };
    vec![
        ("empty", vec![], "not an ELF file"),
        ("text", b"int main;\n".to_vec(), "not an ELF file"),
        ("archive", b"!<arch>\n".to_vec(), "an archive, not an ELF file"),
        ("bitcode", b"BC\xc0\xde5\x14".to_vec(), "LLVM bitcode, not machine code"),
        ("wrapped bitcode", b"\xde\xc0\x17\x0b\0\0\0\0".to_vec(), "LLVM bitcode, not machine code"),
        ("slim LTO", slim_lto(), "LTO bytecode"),
        ("only the magic", b"\x7fELF".to_vec(), "truncated"),
        ("executable", with_header_field("e_type", 2), "e_type is 2"),
        ("shared object", with_header_field("e_type", 3), "e_type is 3"),
        ("machine 0", with_header_field("e_machine", 0), "e_machine is 0"),
        ("machine 2457", with_header_field("e_machine", 2457), "e_machine is 2457"),
        ("not in this class", with_header_field("e_machine", 189), "microblaze has no 64-bit"),
        ("class 0", with_header_field("ei_class", 0), "EI_CLASS is 0"),
        ("class 7", with_header_field("ei_class", 7), "EI_CLASS is 7"),
        ("byte order 7", with_header_field("ei_data", 7), "EI_DATA is 7"),
        ("section size", with_header_field("e_shentsize", 40), "e_shentsize"),
        ("section table", with_header_field("e_shoff", 1 << 40), "truncated"),
        ("section count", with_header_field("e_shnum", 60000), "truncated"),
        ("names", with_header_field("e_shstrndx", 77), "e_shstrndx"),
        ("names in code", with_header_field("e_shstrndx", 1), "string table"),
        ("offset", with_section_field(1, "sh_offset", u64::MAX), "section 1"),
        ("size", with_section_field(1, "sh_size", 1 << 32), "section 1"),
        ("relocations of nothing", with_section_field(2, "sh_info", 77), "section 2 (.rela.text)"),
        ("other symbols", with_section_field(2, "sh_link", 4), "section 2 (.rela.text)"),
        ("no entry size", with_section_field(2, "sh_entsize", 0), "sh_entsize"),
        ("odd entry size", with_section_field(2, "sh_entsize", 23), "sh_entsize"),
        ("part of an entry", with_section_field(2, "sh_size", 23), "section 2 (.rela.text)"),
        ("no symbol size", with_section_field(3, "sh_entsize", 0), "section 3 (.symtab)"),
        ("part of a symbol", with_section_field(3, "sh_size", 71), "section 3 (.symtab)"),
        ("no strings", with_section_field(3, "sh_link", 77), "section index out of range"),
        ("strings in code", with_section_field(3, "sh_link", 1), "string table"),
        ("locals past the end", with_section_field(3, "sh_info", 4), "section 3 (.symtab)"),
        ("no null symbol", with_section_field(3, "sh_info", 0), "section 3 (.symtab)"),
        ("outside", with_relocation(far), "section 2 (.rela.text): offset 0x5"),
        ("no such symbol", with_relocation(nobody), "symbol index out of range"),
        (
            "no such symbol, in data, renumbered",
            to_renumber(|object| object.sections.push(data(vec![nobody_in_data]))),
            "symbol index out of range",
        ),
    ]
}

#[test]
fn refusals_are_one_clear_line() {
    let mut failures = Failures::default();
    for (name, file, expected) in refused() {
        failures.survive(&file, &|| name.to_owned());
        let found = match record(&file, &Options::default(), &RecordOptions::default()) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        };
        let is_right = found.contains(expected) && !found.contains('\n');
        failures.expect(is_right, &|| format!("{name}: expected '{expected}', found '{found}'"));
    }
}

/// A relocation section of data, with an `sh_entsize` that it does not have, is not renumbered
/// as if it had another.
#[test]
fn relocations_that_must_be_renumbered_are_checked_too() {
    let mut failures = Failures::default();
    for (field, value) in [("sh_entsize", 0), ("sh_entsize", 32), ("sh_size", 25)] {
        let mut file = to_renumber(|object| {
            let relocation = Relocation { offset: 0, symbol: 1, kind: R_X86_64_64, addend: 0 };
            let data = Section { kind: 1, flags: 3, data: vec![0; 16], ..Section::default() };
            object.sections.push(Section { relocations: vec![relocation; 2], ..data });
        });
        let table = usize::try_from(get(&file, 0x28, 8, false)).unwrap();
        let field_at = section_fields(true).into_iter().find(|f| f.name == field).unwrap();
        put(&mut file, table + 4 * 64 + field_at.offset, field_at.size, false, value);
        let is_refused = record(&file, &Options::default(), &RecordOptions::default()).is_err();
        failures.expect(is_refused, &|| format!("{field} of .rela.data, {value}, is accepted"));
    }
}

/// An entry of a table that is there may lead anywhere.
#[test]
fn tables_that_lead_outside() {
    let mut failures = Failures::default();
    for (machine, is_64, kind) in [(62, true, 1), (62, false, 10), (40, false, 2), (43, true, 32)] {
        for addend in [-1, i64::MIN, i64::MAX, 4, 5, 0x7fff_ffff, -0x8000_0000, 3] {
            for name in ["__mcount_loc", "__patchable_function_entries"] {
                let mut object = Object::new(machine, is_64, false, true);
                object.sections.push(Section::code(".text", &[0x90; 5]));
                let relocations = vec![Relocation { offset: 0, symbol: 1, kind, addend }];
                let table = Section { data: vec![0; 8], kind: 1, flags: 2, ..Section::default() };
                object.sections.push(Section { name: name.to_owned(), relocations, ..table });
                object.symbols.push(Symbol::of_section(1));
                let what = || format!("machine {machine}, {name}, addend {addend}");
                failures.survive(&object.build(), &what);
            }
        }
    }
}
