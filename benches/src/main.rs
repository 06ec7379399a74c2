//! `benches CASE`: one piece of work of the library, for callgrind to count its instructions.
//!
//! The count does not depend on what else the machine does, so a change of some percent is one of
//! the code. What is prepared is not counted: only [`counted`] is. Without an argument it prints the
//! names of the cases. `cargo xtask bench --check` runs them all.
#![expect(clippy::print_stdout, reason = "a program of the project's own")]

use mcount::{LateOptions, Options, RecordOptions, late_table, read_table, record, scan};
use std::hint::black_box;
use testkit::tiny_elf::{Object, Relocation, Section, Symbol};
use testkit::{files, prebuilt};

/// `e_machine` of the generated files, and `e_type` of an image.
const X86_64: u16 = 62;
const AARCH64: u16 = 183;
const ET_EXEC: u16 = 2;

/// Functions of a generated image, and their size in bytes.
const FUNCTIONS: u64 = 5000;
const SIZE: u64 = 64;

/// A piece of work; it returns how many sites it found.
type Case = (&'static str, fn() -> Result<Work, String>);
type Work = Box<dyn FnOnce() -> usize>;

const CASES: &[Case] = &[
    ("scan a small object", || on_prebuilt("x86_64-fentry", |object| sites(scan(object, &all())))),
    ("record a small object", || on_prebuilt("x86_64-fentry", recorded)),
    ("record a small object of arm", || on_prebuilt("arm-arm", recorded)),
    ("record a small object of mips64", || on_prebuilt("mips64-n64", recorded)),
    ("record labels, riscv64", || on_prebuilt("riscv64-pg", recorded)),
    ("record nothing", || Ok(on(large("elsewhere"), recorded))),
    ("scan 200,000 relocations", || {
        Ok(on(large("__fentry__"), |object| sites(scan(object, &all()))))
    }),
    ("record 200,000 relocations", || Ok(on(large("__fentry__"), recorded))),
    ("record again", || again().map(|object| on(object, recorded))),
    ("read a table", || {
        again().map(|object| on(object, |object| sites(read_table(object, &all()))))
    }),
    ("decode x86-64", || Ok(on(image(X86_64, &x86_64()), decoded))),
    ("decode aarch64", || Ok(on(image(AARCH64, &aarch64()), decoded))),
];

fn main() -> Result<(), String> {
    let Some(name) = std::env::args().nth(1) else {
        for (name, _) in CASES {
            println!("{name}");
        }
        return Ok(());
    };
    let case = CASES.iter().find(|(case, _)| *case == name);
    let (_, prepare) = case.ok_or_else(|| format!("no case is called {name}"))?;
    let found = counted(prepare()?);
    println!("{found} sites");
    Ok(())
}

/// What callgrind counts.
#[inline(never)]
fn counted(work: Work) -> usize {
    black_box(work())
}

fn on(object: Vec<u8>, work: fn(&[u8]) -> usize) -> Work {
    Box::new(move || work(&object))
}

fn on_prebuilt(name: &str, work: fn(&[u8]) -> usize) -> Result<Work, String> {
    let path = prebuilt::root().join(format!("tests/prebuilt/{name}.o"));
    files::read(&path).map(|object| on(object, work))
}

fn all() -> Options {
    Options::default()
}

fn sites(sites: mcount::Result<mcount::Sites>) -> usize {
    sites.map_or(0, |sites| sites.sites.len())
}

fn recorded(object: &[u8]) -> usize {
    record(object, &all(), &RecordOptions::default()).map_or(0, |recording| recording.recorded)
}

fn decoded(image: &[u8]) -> usize {
    late_table(image, &all(), &LateOptions::default()).map_or(0, |table| table.sites.len())
}

/// An object with 200,000 relocations, each fiftieth of them to `hook`.
fn large(hook: &str) -> Vec<u8> {
    let mut object = Object::new(X86_64, true, false, true);
    let mut text = Section::code(".text", &[0xe8, 0, 0, 0, 0].repeat(200_000));
    object.symbols = vec![Symbol::of_section(1), Symbol::undefined(hook)];
    for number in 0..5000 {
        let name = format!("a_function_of_a_driver_{number}");
        object.symbols.push(Symbol::function(&name, 1, 1, number * 200, 200));
    }
    let relocation = |number: u32| Relocation {
        offset: u64::from(number) * 5 + 1,
        // The null symbol is 0, the section 1, the hook 2.
        symbol: if number.is_multiple_of(50) { 2 } else { 3 + number % 5000 },
        kind: 4,
        addend: -4,
    };
    text.relocations = (0..200_000).map(relocation).collect();
    object.sections = vec![text];
    object.build()
}

/// The same with its table.
fn again() -> Result<Vec<u8>, String> {
    let object = large("__fentry__");
    let recording =
        record(&object, &all(), &RecordOptions::default()).map_err(|error| error.to_string())?;
    recording.change.map(|change| change.apply(&object)).ok_or("nothing is recorded".to_owned())
}

/// An image of functions, the first of which is the hook; `code` makes the one at an offset.
fn image(machine: u16, code: &dyn Fn(u64) -> Vec<u8>) -> Vec<u8> {
    let mut object = Object::new(machine, true, false, true);
    object.kind = ET_EXEC;
    let mut text = Vec::new();
    for number in 0..FUNCTIONS {
        let name = if number == 0 {
            if machine == X86_64 { "__fentry__" } else { "_mcount" }.to_owned()
        } else {
            format!("a_function_of_a_driver_{number}")
        };
        object.symbols.push(Symbol::function(&name, 1, 1, number * SIZE, SIZE));
        let mut body = code(number * SIZE);
        body.resize(64, 0x90);
        text.extend(body);
    }
    object.sections = vec![Section::code(".text", &text)];
    object.build()
}

/// `call` of offset 0, then what many functions consist of.
fn x86_64() -> impl Fn(u64) -> Vec<u8> {
    |at| {
        let distance = i32::try_from(at + 5).map_or(0, |end| -end);
        let mut code = vec![0xe8];
        code.extend(distance.to_le_bytes());
        // push %rbp; mov %rsp,%rbp; push %rbx; sub $0x18,%rsp; mov %rdi,%rbx; lea 0x10(%rbx),%rdi
        code.extend([0x55, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x83, 0xec, 0x18, 0x48, 0x89, 0xfb]);
        code.extend([0x48, 0x8d, 0x7b, 0x10]);
        // test %rdi,%rdi; je +2; xor %eax,%eax; add $0x18,%rsp; pop %rbx; pop %rbp; ret
        code.extend([0x48, 0x85, 0xff, 0x74, 0x02, 0x31, 0xc0, 0x48, 0x83, 0xc4, 0x18, 0x5b]);
        code.extend([0x5d, 0xc3]);
        code
    }
}

/// `mov x9, x30; bl` of offset 0, then moves.
fn aarch64() -> impl Fn(u64) -> Vec<u8> {
    |at| {
        let distance = u32::try_from(at / 4 + 1).unwrap_or(0).wrapping_neg() & 0x03ff_ffff;
        let mut words = vec![0xaa1e_03e9, 0x9400_0000 | distance];
        words.resize(15, 0xaa00_03e1);
        words.push(0xd65f_03c0);
        words.into_iter().flat_map(u32::to_le_bytes).collect()
    }
}
