//! Where the call sites of a module really are, by the bytes: the comparison's own opinion.
//!
//! Deliberately not the code of `crates/mcount`, and deliberately narrow: it knows the forms that
//! the kernels of Debian have, each measured over all their modules, and nothing else. A form that
//! it does not know shows up as an unexplained difference, to be looked at by a person.

use std::collections::BTreeMap;

use super::elf::{HookRelocation, Object, Place};

/// In what form a call site is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A call with its relocation to the hook symbol.
    Call,
    /// A NOP that the compiler put in place of the call: no relocation.
    Nop,
    /// NOPs that `__patchable_function_entries` lists.
    Patchable,
}

/// `brcl 0,0`, which `-mnop-mcount -mfentry` makes on s390. Jump labels are `brcl 0,label`: never
/// these bytes.
const S390_NOP: [u8; 6] = [0xc0, 0x04, 0, 0, 0, 0];

/// Section names that begin with `.text` but are kept for functions that a recorder must leave
/// alone.
const RESERVED: &[&str] = &[".text..nomcount", ".text..ftrace"];

/// Section names that Linux records, besides those that begin with `.text`.
const RECORDED: &[&str] = &[
    ".init.text",
    ".ref.text",
    ".sched.text",
    ".spinlock.text",
    ".irqentry.text",
    ".softirqentry.text",
    ".kprobes.text",
    ".cpuidle.text",
];

/// Does Linux's section policy record this section?
pub(crate) fn is_recorded_section(name: &str) -> bool {
    RECORDED.contains(&name) || name.starts_with(".text") && !RESERVED.contains(&name)
}

/// Every call site, with its recorded place.
pub(crate) fn find(object: &Object<'_>) -> BTreeMap<Place, Form> {
    let mut sites: BTreeMap<Place, Form> =
        object.hooks.iter().filter_map(|hook| Some((call(object, *hook)?, Form::Call))).collect();
    if object.machine == 22 {
        sites.extend(s390_nops(object).into_iter().map(|place| (place, Form::Nop)));
    }
    if let Some(table) = &object.patchable {
        sites.extend(table.entries.iter().map(|place| (*place, Form::Patchable)));
    }
    sites
}

/// The recorded place, if the relocation is that of a call.
fn call(object: &Object<'_>, hook: HookRelocation) -> Option<Place> {
    let (section, offset) = hook.place;
    match (object.machine, hook.kind) {
        // x86: PC32 or PLT32 behind the opcode of a call.
        (3 | 62, 2 | 4) => {
            let opcode = (section, offset.checked_sub(1)?);
            (object.bytes(opcode)? == [0xe8]).then_some(opcode)
        }
        // ARM: PC24 or CALL on a `bl`.
        (40, 1 | 28) => {
            (object.word(hook.place)? & 0xff00_0000 == 0xeb00_0000).then_some(hook.place)
        }
        // PowerPC 64: REL24 on a `bl`.
        (21, 10) => (object.word(hook.place)? & 0xfc00_0003 == 0x4800_0001).then_some(hook.place),
        // MIPS: 26 on a `jal`; HI16 on the first instruction of a long call.
        (8, 4) => (object.word(hook.place)? >> 26 == 3).then_some(hook.place),
        (8, 5) => is_mips_long_call(object, hook.place).then_some(hook.place),
        _ => None,
    }
}

/// `lui $v1` with HI16, `addiu` or `daddiu` of the same register with LO16, and `jalr $v1` soon
/// after.
fn is_mips_long_call(object: &Object<'_>, place: Place) -> bool {
    const LUI_V1: u32 = 0x3c03;
    const ADDIU_V1: u32 = 0x2463;
    const DADDIU_V1: u32 = 0x6463;
    const JALR_V1: u32 = 0x0060_f809;
    let word = |distance: u64| object.word((place.0, place.1 + distance)).unwrap_or_default();
    let low = (place.0, place.1 + 4);
    word(0) >> 16 == LUI_V1
        && matches!(word(4) >> 16, ADDIU_V1 | DADDIU_V1)
        && object.hooks.iter().any(|hook| hook.place == low && hook.kind == 6)
        && (8..32).step_by(4).any(|distance| word(distance) == JALR_V1)
}

fn s390_nops(object: &Object<'_>) -> Vec<Place> {
    let mut places = Vec::new();
    for (index, _) in object.sections.iter().enumerate().filter(|(_, section)| section.is_code()) {
        for (offset, bytes) in (0_u64..).zip(object.contents(index).windows(S390_NOP.len())) {
            let relocated = (index, offset + 2);
            if offset % 2 == 0
                && bytes == S390_NOP
                && object.relocated.binary_search(&relocated).is_err()
            {
                places.push((index, offset));
            }
        }
    }
    places
}
