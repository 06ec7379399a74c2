//! Instructions for AArch64 that depend on where they are, with any numbers in them: does each leave all registers as it did where it
//! was? An emulated processor runs both.

use super::machines::AARCH64;
use mcount_cpu::probe::{ProbeStubs, Stub, Unmovable};
use std::fs::OpenOptions;
use std::path::Path;
use std::process::Command;
use testkit::damage::Random;
use testkit::{files, prebuilt, test};

/// What's at the address that an instruction leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// Nothing that is used.
    Nothing,
    /// A breakpoint.
    Branch,
    /// Data.
    Literal,
}

/// A form of instruction.
#[derive(Debug, Clone, Copy)]
struct Form {
    word: u32,
    /// Its bits that may be anything.
    any: u32,
    target: Target,
    /// Where the distance begins, how many bits it has, and what it counts.
    distance: (u32, u32, i64),
}

const fn form(word: u32, any: u32, target: Target, distance: (u32, u32, i64)) -> Form {
    Form { word, any, target, distance }
}

const NEAR: (u32, u32, i64) = (5, 19, 4);
const FORMS: [Form; 20] = [
    form(0x1000_0000, 0x60ff_ffff, Target::Nothing, (5, 19, 4)), // adr
    form(0x9000_0000, 0x60ff_ffff, Target::Nothing, (5, 19, 1 << 14)), // adrp
    form(0x1800_0000, 0x00ff_ffff, Target::Literal, NEAR),       // ldr w
    form(0x5800_0000, 0x00ff_ffff, Target::Literal, NEAR),       // ldr x
    form(0x9800_0000, 0x00ff_ffff, Target::Literal, NEAR),       // ldrsw
    form(0xd800_0000, 0x00ff_ffff, Target::Literal, NEAR),       // prfm
    form(0x1c00_0000, 0x00ff_ffff, Target::Literal, NEAR),       // ldr s
    form(0x5c00_0000, 0x00ff_ffff, Target::Literal, NEAR),       // ldr d
    form(0x9c00_0000, 0x00ff_ffff, Target::Literal, NEAR),       // ldr q
    form(0x1400_0000, 0x03ff_ffff, Target::Branch, (0, 26, 4)),  // b
    form(0x9400_0000, 0x03ff_ffff, Target::Branch, (0, 26, 4)),  // bl
    form(0x5400_0000, 0x00ff_ffef, Target::Branch, NEAR),        // b.cond
    form(0x3400_0000, 0x00ff_ffff, Target::Branch, NEAR),        // cbz w
    form(0xb400_0000, 0x00ff_ffff, Target::Branch, NEAR),        // cbz x
    form(0x3500_0000, 0x00ff_ffff, Target::Branch, NEAR),        // cbnz w
    form(0xb500_0000, 0x00ff_ffff, Target::Branch, NEAR),        // cbnz x
    form(0x3600_0000, 0x00ff_ffff, Target::Branch, (5, 14, 4)),  // tbz, of the low bits
    form(0xb600_0000, 0x00ff_ffff, Target::Branch, (5, 14, 4)),  // tbz
    form(0x3700_0000, 0x00ff_ffff, Target::Branch, (5, 14, 4)),  // tbnz, of the low bits
    form(0xb700_0000, 0x00ff_ffff, Target::Branch, (5, 14, 4)),  // tbnz
];

/// Memory of the program that runs them.
const ARENA: u64 = 0x10_0000_0000;
const ARENA_SIZE: u64 = 1 << 29;
/// A routine there that goes on with the function.
const ROUTINE: u64 = ARENA + 0x1000;
/// How many instructions of each form.
const COUNT: usize = 100;

fn number(random: &mut Random, below: u64) -> u64 {
    random.below(usize::try_from(below).unwrap()) as u64
}

fn any_word(random: &mut Random) -> u32 {
    u32::try_from(number(random, 1 << 16) << 16 | number(random, 1 << 16)).unwrap()
}

/// A number that isn't always far from zero.
fn any(random: &mut Random) -> u64 {
    match random.below(4) {
        0 => 0,
        1 => 1 << random.below(64),
        2 => !(1 << random.below(64)),
        _ => u64::from(any_word(random)) << 32 | u64::from(any_word(random)),
    }
}

/// A case as the program reads it; `None` if the instruction can't be run, or not be moved that far.
fn case(form: Form, random: &mut Random) -> Option<Vec<u8>> {
    let word = form.word | any_word(random) & form.any;
    let from = ARENA + ARENA_SIZE / 2 + 4 * number(random, 1 << 16);
    let way = (1 << 22) + 4 * number(random, 29 << 20);
    let to = if random.below(2) == 0 { from + way } else { from - way };
    let (first, bits, scale) = form.distance;
    let distance = i64::from((word << (32 - first - bits)).cast_signed() >> (32 - bits)) * scale;
    let target = from.wrapping_add_signed(distance);
    let is_in = (ARENA..ARENA + ARENA_SIZE - 64).contains(&target);
    let is_apart = target.abs_diff(from) > 64 && target.abs_diff(to) > 64;
    if form.target != Target::Nothing && !(is_in && is_apart) {
        return None;
    }
    let moved = match (AARCH64.probes.relocate)(&word.to_le_bytes(), from, to) {
        Ok(moved) => moved.code,
        Err(why) => {
            assert_eq!(why, Unmovable::TooFar(from), "{word:08x}");
            let most = if form.word == 0x9000_0000 { 0xfff0_0000 } else { (1 << 27) - 64 };
            assert!(target.abs_diff(to) > most, "{word:08x}: {target:x} isn't far from {to:x}");
            return None;
        }
    };
    assert!(moved.len() <= AARCH64.probes.moved_most, "{word:08x}");
    // In a stub it's no different, whatever the routine that is called first does.
    let mut code = if random.below(2) == 0 { moved } else { stub(word, from, to)? };
    let length = code.len() as u64;
    let numbers = [from, to, target, form.target as u64, length];
    let mut bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
    bytes.extend(word.to_le_bytes());
    code.resize(132, 0);
    bytes.extend(code);
    bytes.extend((0..31).flat_map(|_| any(random).to_le_bytes()));
    bytes.extend((number(random, 16) << 28).to_le_bytes());
    bytes.extend((0..2).flat_map(|_| any(random).to_le_bytes()));
    Some(bytes)
}

/// The stub of a probe; `None` if it's too far away.
fn stub(word: u32, from: u64, at: u64) -> Option<Vec<u8>> {
    let ProbeStubs { make, size } = AARCH64.probes.stub.unwrap();
    let moved = &word.to_le_bytes();
    let stub = make(Stub { at, routine: ROUTINE, number: 7, moved, from, before: None })?;
    assert_eq!(stub.len(), size);
    Some(stub)
}

#[test]
fn moved_instructions_do_what_they_did() {
    AARCH64.need(&["gcc"]);
    let scratch = tempfile::tempdir().unwrap();
    let [program, cases] = ["program", "cases"].map(|name| scratch.path().join(name));
    let source = prebuilt::root().join("tests/probes/aarch64/places/run.c");
    let mut command = Command::new(AARCH64.utility("gcc"));
    let status = command.args(["-O1", "-static", "-o"]).args([&program, &source]).status();
    assert!(status.unwrap().success());
    let mut random = Random::new();
    let (mut bytes, mut count) = (Vec::new(), 0);
    for form in FORMS {
        let mut left = COUNT;
        for _ in 0..20 * COUNT {
            let Some(case) = case(form, &mut random).filter(|_| left != 0) else { continue };
            bytes.extend(case);
            (left, count) = (left - 1, count + 1);
        }
        assert_eq!(left, 0, "{form:x?}");
    }
    files::write(&cases, &bytes).unwrap();
    assert_eq!(run(&program, &cases), format!("{count}\n"));
}

/// What the program prints of these cases.
fn run(program: &Path, cases: &Path) -> String {
    let input = OpenOptions::new().read(true).open(cases).unwrap();
    let output = AARCH64.execute(program).stdin(input).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}
