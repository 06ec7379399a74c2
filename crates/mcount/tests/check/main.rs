//! The rules of `check`: a good object and a good image of several processors, damaged in one way at a
//! time. Exactly the rule that names the damage fires.
//!
//! Numbers of relocations and instructions: the psABI of each processor.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod image;
mod sleds;

use mcount::{CheckOptions, Finding, Level, Options, RecordOptions, check, record};
use std::collections::BTreeSet;
use testkit::prebuilt;
use testkit::reader::sections;
use testkit::test;
use testkit::tiny_elf::{Object, Relocation, Section, Symbol, put, section_fields};

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

/// A processor, and a function of it that calls the hook.
struct Sample {
    machine: u16,
    is_64: bool,
    big_endian: bool,
    rela: bool,
    hook: &'static str,
    /// What begins with the call, and returns.
    code: &'static [u8],
    /// Offset and type of the call's relocation.
    call: (u64, u32),
    /// The relocation that stores an address.
    address: u32,
}

const X86_64: Sample = Sample {
    machine: 62,
    is_64: true,
    big_endian: false,
    rela: true,
    hook: "__fentry__",
    code: &[0xe8, 0, 0, 0, 0, 0x31, 0xc0, 0xc3],
    call: (1, 4),
    address: 1,
};
const AARCH64: Sample = Sample {
    machine: 183,
    hook: "_mcount",
    code: &[0, 0, 0, 0x94, 0xc0, 0x03, 0x5f, 0xd6],
    call: (0, 283),
    address: 257,
    ..X86_64
};
const RISCV64: Sample = Sample {
    machine: 243,
    hook: "_mcount",
    code: &[0x97, 0, 0, 0, 0xe7, 0x80, 0, 0, 0x67, 0x80, 0, 0, 0x67, 0x80, 0, 0],
    call: (0, 19),
    address: 2,
    ..X86_64
};
const SPARC64: Sample = Sample {
    machine: 43,
    big_endian: true,
    hook: "_mcount",
    code: &[0x40, 0, 0, 0, 0x81, 0xc3, 0xe0, 0x08],
    call: (0, 7),
    address: 32,
    ..X86_64
};
const ARM: Sample = Sample {
    machine: 40,
    is_64: false,
    rela: false,
    hook: "__gnu_mcount_nc",
    code: &[0xfe, 0xff, 0xff, 0xeb, 0x1e, 0xff, 0x2f, 0xe1],
    call: (0, 28),
    address: 2,
    ..X86_64
};
const SAMPLES: [&Sample; 5] = [&X86_64, &AARCH64, &RISCV64, &SPARC64, &ARM];

/// Sections and symbols of [`object`].
const TEXT: u32 = 1;
const TABLE: usize = 1;
const OF_TEXT: u32 = 1;
const HOOK: u32 = 4;

impl Sample {
    fn length(&self) -> u64 {
        self.code.len() as u64
    }

    fn word(&self) -> u64 {
        if self.is_64 { 8 } else { 4 }
    }

    /// A call of the hook in the function at `start`.
    fn calls(&self, start: u64) -> Relocation {
        let (offset, kind) = self.call;
        Relocation { offset: start + offset, symbol: HOOK, kind, addend: 0 }
    }

    /// Three functions that call the hook, and a table of their sites.
    fn object(&self) -> Object {
        let mut object = Object::new(self.machine, self.is_64, self.big_endian, self.rela);
        let size = self.length();
        object.symbols = vec![
            Symbol::of_section(TEXT),
            Symbol::function("one", 0, TEXT, 0, size),
            Symbol::function("two", 0, TEXT, size, size),
            Symbol::undefined(self.hook),
            Symbol::function("three", 1, TEXT, 2 * size, size),
        ];
        let starts = [0, size, 2 * size];
        let text = Section::code(".text", &self.code.repeat(3));
        let calls = starts.map(|start| self.calls(start)).to_vec();
        let table = Section {
            name: "__mcount_loc".to_owned(),
            kind: 1,
            flags: 2,
            alignment: self.word(),
            ..Section::default()
        };
        object.sections = vec![Section { relocations: calls, ..text }, table];
        for start in starts {
            self.add(&mut object, OF_TEXT, start);
        }
        object
    }

    /// Adds an entry for `symbol` + `addend` to the table.
    fn add(&self, object: &mut Object, symbol: u32, addend: u64) {
        let offset = object.sections[TABLE].data.len() as u64;
        let addend = addend.cast_signed();
        let entry = Relocation { offset, symbol, kind: self.address, addend };
        object.sections[TABLE].relocations.push(entry);
        let mut word = vec![0; self.word().try_into().unwrap()];
        if !self.rela {
            let size = word.len();
            put(&mut word, 0, size, self.big_endian, addend.cast_unsigned());
        }
        object.sections[TABLE].data.extend(word);
    }

    /// Changes the distance of entry `at`.
    fn aim(&self, object: &mut Object, at: usize, addend: u64) {
        let table = &mut object.sections[TABLE];
        table.relocations[at].addend = addend.cast_signed();
        if !self.rela {
            let word = usize::try_from(self.word()).unwrap();
            put(&mut table.data, at * word, word, self.big_endian, addend);
        }
    }

    /// Removes the last entry.
    fn pop(&self, object: &mut Object) {
        let table = &mut object.sections[TABLE];
        table.relocations.pop();
        let length = table.data.len() - usize::try_from(self.word()).unwrap();
        table.data.truncate(length);
    }
}

fn findings(file: &[u8]) -> Vec<Finding> {
    let found = check(file, &Options::default(), &CheckOptions::default()).unwrap();
    found.into_iter().filter(|found| found.rule.default_level() != Level::Allow).collect()
}

/// The findings, a line each, without the details.
fn lines(file: &[u8]) -> Vec<String> {
    let line = |f: &Finding| {
        let section = f.section.as_deref().unwrap_or("-");
        format!("{} {section}+{:#x}", f.rule, f.offset.unwrap_or(0))
    };
    findings(file).iter().map(line).collect()
}

#[test]
fn a_right_table_of_each_processor_has_no_finding() {
    for sample in SAMPLES {
        assert_eq!(lines(&sample.object().build()), [""; 0], "machine {}", sample.machine);
    }
}

#[test]
fn not_a_call_site() {
    for sample in SAMPLES {
        let mut object = sample.object();
        sample.add(&mut object, OF_TEXT, 4);
        if sample.code.len() == 16 {
            sample.aim(&mut object, 3, 8);
        }
        let found = findings(&object.build());
        let rules: Vec<_> = found.iter().map(|found| found.rule.name()).collect();
        assert_eq!(rules, ["not-a-call-site"], "machine {}", sample.machine);
        assert_eq!(found[0].symbol.as_deref(), Some("one"));
    }
}

#[test]
fn an_entry_for_data_is_no_call_site() {
    let mut object = X86_64.object();
    object.sections.push(Section {
        name: ".data".to_owned(),
        kind: 1,
        flags: 3,
        data: vec![0xe8; 8],
        ..Section::default()
    });
    object.symbols.insert(3, Symbol { kind: 1, ..Symbol::function("object", 0, 3, 0, 8) });
    for relocation in &mut object.sections[0].relocations {
        relocation.symbol += 1;
    }
    X86_64.add(&mut object, 4, 0);
    assert_eq!(lines(&object.build()), ["not-a-call-site .data+0x0"]);
}

#[test]
fn wrong_offset() {
    for sample in [&X86_64, &RISCV64, &ARM] {
        let mut object = sample.object();
        let beside = sample.length() + if sample.machine == 62 { 1 } else { 2 };
        sample.aim(&mut object, 1, beside);
        let expected = format!("wrong-offset .text+{beside:#x}");
        assert_eq!(lines(&object.build()), [expected], "machine {}", sample.machine);
    }
}

#[test]
fn an_entry_before_its_hook_is_a_wrong_offset() {
    let mut object = X86_64.object();
    X86_64.aim(&mut object, 1, 7);
    let found = findings(&object.build());
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].detail, "the hook is at 0x8, 1 byte further on");
}

/// The linker adds 1 to the address of a function of the second instruction set, as its symbol has it.
/// Linux clears that bit on arm, and does not on MIPS.
#[test]
fn the_instruction_set_bit_is_a_wrong_offset_unless_the_tracer_clears_it() {
    let thumb =
        Sample { code: &[0xff, 0xf7, 0xfe, 0xff, 0x70, 0x47, 0x00, 0xbf], call: (0, 10), ..ARM };
    let micromips = Sample {
        machine: 8,
        big_endian: true,
        hook: "_mcount",
        code: &[0xf4, 0, 0, 0, 0, 0, 0, 0],
        call: (0, 133),
        address: 2,
        ..ARM
    };
    for (sample, expected) in [(thumb, &[][..]), (micromips, &["wrong-offset .text+0x8"])] {
        let mut object = sample.object();
        for symbol in [1, 2, 4] {
            object.symbols[symbol].value |= 1;
        }
        assert_eq!(lines(&object.build()), [""; 0], "machine {}", sample.machine);
        object.sections[TABLE].relocations[1].symbol = 3;
        sample.aim(&mut object, 1, 0);
        assert_eq!(lines(&object.build()), expected, "machine {}", sample.machine);
        // What is recorded needs no tracer to clear anything.
        let recorded =
            record(&object.build(), &Options::default(), &RecordOptions::default()).unwrap();
        assert!(recorded.changed, "machine {}", sample.machine);
    }
}

#[test]
fn an_entry_of_an_arm_object_may_have_bit_0() {
    let mut object = ARM.object();
    ARM.aim(&mut object, 1, ARM.length() + 1);
    assert_eq!(lines(&object.build()), [""; 0]);
    assert!(
        record(&object.build(), &Options::default(), &RecordOptions::default()).unwrap().changed
    );
}

#[test]
fn stale_entry() {
    for sample in SAMPLES {
        let mut object = sample.object();
        sample.add(&mut object, OF_TEXT, 0);
        object.sections[TABLE].relocations.pop();
        let expected = format!("stale-entry __mcount_loc+{:#x}", 3 * sample.word());
        assert_eq!(lines(&object.build()), [expected], "machine {}", sample.machine);
    }
}

#[test]
fn missing_site() {
    for sample in SAMPLES {
        let mut object = sample.object();
        sample.pop(&mut object);
        let expected = format!("missing-site .text+{:#x}", 2 * sample.length());
        assert_eq!(lines(&object.build()), [expected], "machine {}", sample.machine);
        object.sections.remove(TABLE);
        let found = findings(&object.build());
        assert_eq!(found.len(), 1, "one finding for a file without table");
        assert_eq!(
            (found[0].section.as_deref(), found[0].detail.as_str()),
            (None, "3 hooks and no table")
        );
    }
}

#[test]
fn duplicate() {
    for sample in SAMPLES {
        let mut object = sample.object();
        sample.add(&mut object, OF_TEXT, sample.length());
        let expected = format!("duplicate .text+{:#x}", sample.length());
        assert_eq!(lines(&object.build()), [expected], "machine {}", sample.machine);
    }
}

#[test]
fn misaligned() {
    let mut object = AARCH64.object();
    AARCH64.aim(&mut object, 1, 10);
    assert_eq!(lines(&object.build()), ["misaligned .text+0xa"]);
    let mut object = SPARC64.object();
    object.sections[TABLE].alignment = 1;
    assert_eq!(lines(&object.build()), ["misaligned __mcount_loc+0x0"]);
    // gcc -mrecord-mcount says nothing of alignment.
    let mut object = X86_64.object();
    object.sections[TABLE].alignment = 1;
    assert_eq!(lines(&object.build()), [""; 0]);
}

#[test]
fn excluded_section() {
    for sample in SAMPLES {
        let mut object = sample.object();
        let exit = Section::code(".exit.text", sample.code);
        object.sections.push(Section { relocations: vec![sample.calls(0)], ..exit });
        object.symbols.push(Symbol::function("leave", 1, 3, 0, sample.length()));
        assert_eq!(lines(&object.build()), [""; 0], "left out, as it must be");
        sample.add(&mut object, 6, 0);
        assert_eq!(lines(&object.build()), ["excluded-section .exit.text+0x0"]);
    }
}

#[test]
fn no_base_symbol() {
    for sample in SAMPLES {
        let mut object = sample.object();
        let relocation = &mut object.sections[TABLE].relocations[2];
        relocation.symbol = 5;
        sample.aim(&mut object, 2, 0);
        assert_eq!(lines(&object.build()), [""; 0], "a global symbol is one");
        object.symbols[4].binding = 2;
        let expected = format!("no-base-symbol .text+{:#x}", 2 * sample.length());
        assert_eq!(lines(&object.build()), [expected], "machine {}", sample.machine);
        object.symbols[4].section = 0;
        let found = findings(&object.build());
        assert!(found.iter().any(|f| f.detail.contains("three, which is defined elsewhere")));
    }
}

#[test]
fn relaxation_unsafe() {
    let mut object = RISCV64.object();
    let relax = Relocation { offset: 0, symbol: 0, kind: 51, addend: 0 };
    object.sections[0].relocations.push(relax);
    let found = lines(&object.build());
    assert_eq!(found, ["relaxation-unsafe .text+0x10", "relaxation-unsafe .text+0x20"]);
    // The same entries as labels.
    for (at, symbol) in [(1, 3), (2, 5)] {
        object.sections[TABLE].relocations[at].symbol = symbol;
        RISCV64.aim(&mut object, at, 0);
    }
    assert_eq!(lines(&object.build()), [""; 0]);
}

#[test]
fn gc_unsafe() {
    let rules = |object: &Object| {
        let found = check(&object.build(), &Options::default(), &CheckOptions::default()).unwrap();
        found.iter().map(|found| found.rule.name()).collect::<Vec<_>>()
    };
    let mut object = X86_64.object();
    assert_eq!(rules(&object), ["gc-unsafe"]);
    object.sections[TABLE].flags |= 0x80;
    object.sections[TABLE].link = TEXT;
    assert_eq!(rules(&object), [""; 0]);
}

#[test]
fn comdat_unsafe() {
    let group = |flags: u8, members: &[u8]| {
        let words = std::iter::once(&flags).chain(members);
        Section {
            name: ".group".to_owned(),
            kind: 17,
            data: words.flat_map(|word| [*word, 0, 0, 0]).collect(),
            info: 5,
            alignment: 4,
            entry_size: 4,
            ..Section::default()
        }
    };
    let with = |group: Section| {
        let mut object = X86_64.object();
        object.sections.push(group);
        object.sections[2].link = object.symbol_table();
        object.build()
    };
    let found = findings(&with(group(1, &[1])));
    assert_eq!(found.len(), 3);
    assert!(found.iter().all(|found| found.rule.name() == "comdat-unsafe"));
    assert!(found[0].detail.contains("group three"), "{}", found[0].detail);
    assert_eq!(lines(&with(group(1, &[1, 2]))), [""; 0], "the table is in the group");
    assert_eq!(lines(&with(group(0, &[1]))), [""; 0], "a group that is not discarded");
}

/// An object whose function begins with `nops` one-byte NOPs, listed.
fn patchable(nops: usize) -> Object {
    let code: Vec<u8> = [vec![0x90; nops], vec![0xc3]].concat();
    let sample = Sample { code: &[0xc3], ..X86_64 };
    let mut object = sample.object();
    object.sections[0] = Section::code(".text", &code);
    object.symbols.retain(|symbol| symbol.name.is_empty() || symbol.name == "one");
    object.symbols[1].size = code.len() as u64;
    let list = &mut object.sections[TABLE];
    "__patchable_function_entries".clone_into(&mut list.name);
    list.relocations.truncate(1);
    list.data.truncate(8);
    object
}

#[test]
fn short_area() {
    assert_eq!(lines(&patchable(5).build()), [""; 0]);
    assert_eq!(lines(&patchable(2).build()), ["short-area .text+0x0"]);
    assert_eq!(lines(&patchable(0).build()), ["not-a-call-site .text+0x0"]);
    let file = patchable(5).build();
    let rules = |min_area| {
        let found =
            check(&file, &Options::default(), &CheckOptions::default().min_area(min_area)).unwrap();
        found.iter().filter(|found| found.rule.name() == "short-area").count()
    };
    assert_eq!([rules(Some(5)), rules(Some(6)), rules(Some(0))], [0, 1, 0]);
}

#[test]
fn foreign_endian() {
    for sample in SAMPLES {
        let mut object = sample.object();
        let length = sample.length();
        let narrow = u32::try_from(length).unwrap().swap_bytes().into();
        let reversed = if sample.is_64 { length.swap_bytes() } else { narrow };
        sample.aim(&mut object, 1, reversed);
        let found = lines(&object.build());
        assert_eq!(found.len(), 1, "machine {}: {found:?}", sample.machine);
        assert!(found[0].starts_with("foreign-endian "), "machine {}: {found:?}", sample.machine);
    }
}

/// The hook names that an object was compiled with, besides the processor's.
fn options(name: &str) -> Options {
    let mut options = Options::default();
    if name == "x86_64-fentry-names" {
        options.hooks.push("my_fentry".to_owned());
        "my_table".clone_into(&mut options.table_section);
    }
    options
}

fn denied(file: &[u8], options: &Options) -> Vec<Finding> {
    let found = check(file, options, &CheckOptions::default()).unwrap();
    found.into_iter().filter(|found| found.rule.default_level() != Level::Allow).collect()
}

#[test]
fn what_record_makes_has_no_finding() {
    for object in prebuilt::all().unwrap() {
        let options = options(&object.name);
        let recording = record(&object.bytes, &options, &RecordOptions::default()).unwrap();
        let new = recording.change.map_or(object.bytes.clone(), |c| c.apply(&object.bytes));
        let mut found = denied(&new, &options);
        // Of the compiler's own list, under a name of its own: its areas are what `-fpatchable-function-entry=3,1` asked for.
        found.retain(|one| {
            one.rule != mcount::Rule::ShortArea || !object.name.ends_with("-own-list")
        });
        assert_eq!(found, [], "{}", object.name);
    }
}

/// What compilers made, as they made it: nothing but entries in sections that no policy of theirs
/// leaves out.
#[test]
fn tables_of_compilers_have_no_false_finding() {
    let mut count = 0;
    for object in prebuilt::all().unwrap() {
        let is_listed = object.name.contains("patchable") || object.name.ends_with("-table");
        if !is_listed {
            continue;
        }
        for found in denied(&object.bytes, &Options::default()) {
            assert_eq!(found.rule.name(), "excluded-section", "{}: {found:?}", object.name);
            assert_eq!(found.section.as_deref(), Some(".exit.text"), "{}", object.name);
        }
        count += 1;
    }
    assert!(count > 15, "only {count} objects");
}

#[test]
fn an_entry_that_is_cut_off_is_missed_on_every_processor() {
    let mut machines = BTreeSet::new();
    for object in prebuilt::one_of_each().unwrap() {
        let options = options(&object.name);
        let Some(change) =
            record(&object.bytes, &options, &RecordOptions::default()).unwrap().change
        else {
            continue;
        };
        let mut new = change.apply(&object.bytes);
        let is_64 = new[4] == 2;
        let big_endian = new[5] == 2;
        let word = if is_64 { 8 } else { 4 };
        let headers = usize::try_from(header(&new, is_64, big_endian)).unwrap();
        let size = section_fields(is_64).into_iter().find(|field| field.name == "sh_size").unwrap();
        let table = sections(&new).unwrap().into_iter().find(|s| s.name == "__mcount_loc").unwrap();
        let lists = sections(&new).unwrap().into_iter().filter(|s| {
            s.index == table.index
                || s.name.ends_with("__mcount_loc") && s.info == table.index.into()
        });
        for list in lists.collect::<Vec<_>>() {
            let entry = if list.index == table.index { word } else { list.entry_size };
            let at = headers + list.index as usize * if is_64 { 64 } else { 40 } + size.offset;
            let less = list.data.len() as u64 - entry;
            put(&mut new, at, size.size, big_endian, less);
        }
        let found = denied(&new, &options);
        let rules: Vec<_> = found.iter().map(|found| found.rule.name()).collect();
        assert_eq!(rules, ["missing-site"], "{}", object.name);
        machines.insert(object.name);
    }
    assert!(machines.len() > 25, "only {machines:?}");
}

/// `e_shoff`.
fn header(file: &[u8], is_64: bool, big_endian: bool) -> u64 {
    let (offset, size) = if is_64 { (40, 8) } else { (32, 4) };
    testkit::tiny_elf::get(file, offset, size, big_endian)
}
