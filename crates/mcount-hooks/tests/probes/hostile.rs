//! Files that are damaged, or lie: no panic, no hang, and nothing that's out of bounds.

use super::machines::{AARCH64, Machine, X86_64};
use mcount_hooks::probe::Planner;
use mcount_hooks::usdt;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection};
use std::time::{Duration, Instant};
use testkit::damage::{Random, damaged};
use testkit::{files, test};

/// Sections that the planner reads.
const SECTIONS: [&str; 10] = [
    ".note.stapsdt",
    ".eh_frame",
    ".eh_frame_hdr",
    ".gcc_except_table",
    ".dynsym",
    ".dynamic",
    ".rela.dyn",
    ".rodata",
    ".text",
    "",
];

/// A file for a machine with all of these.
fn library(machine: &Machine) -> Option<Vec<u8>> {
    let names = ["libgcc_s.so.1", "libz.so.1", "libstdc++.so.6"];
    names.iter().find_map(|name| files::read(&machine.libraries().join(name)).ok())
}

const MACHINES: [(&str, &Machine); 2] = [("x86-64", &X86_64), ("aarch64", &AARCH64)];

/// Plans all functions. What's planned lies within the function, and in code of the file.
fn plan_all(bytes: &[u8]) {
    let start = Instant::now();
    let Ok(planner) = Planner::new(bytes) else { return };
    for function in planner.functions() {
        if let Ok(plan) = planner.plan(&function) {
            let end = plan.entry + plan.moved as u64;
            assert!(function.range.contains(&plan.entry) && end <= function.range.end);
            let jump = planner.processor().jump;
            assert!((1..=24).contains(&plan.moved) && (jump..=24).contains(&plan.replaced));
        }
    }
    let markers = ElfFile64::<Endianness>::parse(bytes).map(|file| sites(&file));
    for site in markers.unwrap_or_default() {
        if let Ok(plan) = planner.plan_marker(site) {
            assert!(plan.entry == site && plan.function.contains(&site));
            assert!(plan.entry + plan.moved as u64 <= plan.function.end);
        }
    }
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

/// Where the notes say that markers are. A damaged one may lead anywhere.
fn sites(file: &ElfFile64<'_, Endianness>) -> Vec<u64> {
    usdt::markers(file).iter().map(|marker| marker.site).collect()
}

#[test(each = SECTIONS)]
fn damage(section: &'static str) {
    let mut random = Random::new();
    for library in MACHINES.iter().filter_map(|(_, machine)| library(machine)) {
        for _ in 0..40 {
            let Some(bytes) = damaged(&library, section, &mut random) else { break };
            plan_all(&bytes);
        }
    }
}

#[test(each = MACHINES)]
fn truncation((_, machine): (&'static str, &'static Machine)) {
    let Some(library) = library(machine) else { return };
    for share in 0..64 {
        plan_all(&library[..library.len() * share / 64]);
    }
}

/// Address and size of a symbol, by the address of the code and its own number.
type Lie = fn(u64, u64) -> [u64; 2];

/// Functions that overlap, have silly sizes, or begin everywhere.
#[test(each = MACHINES)]
fn silly_symbols((_, machine): (&'static str, &'static Machine)) {
    let Some(library) = library(machine) else { return };
    let file = object::File::parse(&*library).unwrap();
    let (offset, size) = file.section_by_name(".dynsym").unwrap().file_range().unwrap();
    let (offset, size) = (usize::try_from(offset).unwrap(), usize::try_from(size).unwrap());
    let text = file.section_by_name(".text").unwrap().address();
    let lies: [Lie; 5] = [
        |text, _| [text, u64::MAX],
        |text, at| [text + at, u64::MAX - text - at],
        |text, at| [text + at, 1 << 20],
        |text, at| [text + at, at % 3],
        |_, at| [u64::MAX - at, 5],
    ];
    for lie in lies {
        let mut bytes = library.clone();
        for (number, symbol) in (0..).zip(bytes[offset..offset + size].chunks_exact_mut(24)) {
            symbol[4] = 0x12;
            symbol[6..8].copy_from_slice(&12u16.to_le_bytes());
            let [address, size] = lie(text, number);
            symbol[8..16].copy_from_slice(&address.to_le_bytes());
            symbol[16..24].copy_from_slice(&size.to_le_bytes());
        }
        plan_all(&bytes);
    }
}
