//! AArch64, little endian: other functions in place of those of a running program. `x16` and `x17` are free at the entry of a function (AAPCS64, 6.1.1).
//!
//! In a page that's guarded (BTI), an indirect branch has to end at a landing pad, and there's none after a hook. So a gate
//! has a direct branch to the old function's body, and that's where the slot leads as long as the function is
//! the old one. The mapping here isn't guarded, so the branch by the slot can end anywhere in it.
//!
//! A thread that has loaded where the slot leads, and not yet gone there, has it begin its gate once more.
#![expect(clippy::must_use_candidate, reason = "names say which of them are questions")]

use super::code;
use crate::outside::patch::{Restorer, Wants};
use alloc::vec::Vec;

/// Relocations (ELF for the Arm 64-bit Architecture, 5.7.14); one that does nothing has two numbers.
pub const NONE: u32 = 0;
const NOTHING: u32 = 256;
const ABSOLUTE: u32 = 257;
const COPY: u32 = 1024;
const GLOB_DAT: u32 = 1025;
const JUMP_SLOT: u32 = 1026;
/// A word is to have the load bias and its addend.
pub const RELATIVE: u32 = 1027;
const DTPMOD: u32 = 1028;
const DTPREL: u32 = 1029;
const TPREL: u32 = 1030;
const TLSDESC: u32 = 1031;
const IRELATIVE: u32 = 1032;

/// Why a relocation can't be done.
pub fn refusal(kind: u32) -> Option<&'static str> {
    match kind {
        COPY => Some("it has a copy relocation, which only programs have"),
        IRELATIVE => Some("it has functions that are chosen when it's loaded (ifunc)"),
        NONE | NOTHING | ABSOLUTE | GLOB_DAT | JUMP_SLOT | RELATIVE | DTPMOD | DTPREL | TPREL
        | TLSDESC => None,
        _ => Some("it has a relocation of an unknown kind"),
    }
}

/// What a relocation wants.
pub fn wants(kind: u32) -> Wants {
    match kind {
        ABSOLUTE | GLOB_DAT | JUMP_SLOT => Wants::Address,
        RELATIVE => Wants::Bias,
        DTPMOD => Wants::Module,
        DTPREL | TPREL => Wants::FromThreadPointer,
        TLSDESC => Wants::Descriptor,
        _ => Wants::Nothing,
    }
}

/// Where the thread-local storage of the program itself begins, from the thread pointer on: behind two words (ELF Handling for
/// Thread-Local Storage, variant I).
pub fn program_storage(_size: u64, align: u64) -> u64 {
    16_u64.next_multiple_of(align.clamp(1, 1 << 30))
}

/// What to compile with for hooks before the prologue.
pub const HOOKED: &str = super::outside::PATCHABLE;

/// Bytes of a gate.
pub const GATE: usize = 24;

/// What fills up code: `udf #0`.
pub const FILLING: u8 = 0;

/// The gate of the function whose slot is at this address, but for the way back.
pub fn gate(slot: u64) -> [u8; GATE] {
    let mut bytes = [0; GATE];
    let words = [
        0x5800_0090, // ldr x16, slot
        0xf940_0211, // ldr x17, [x16]
        0xd61f_0220, // br x17
        u32::from_le_bytes(code::BREAKPOINT),
    ];
    let words = words.into_iter().flat_map(u32::to_le_bytes);
    for (room, byte) in bytes.iter_mut().zip(words.chain(slot.to_le_bytes())) {
        *room = byte;
    }
    bytes
}

/// Where in a gate the way back to the old function is, if it has one of its own.
pub const WAY_BACK: Option<u64> = Some(12);

/// The way back to `body`, at `at`.
pub fn way_back(at: u64, body: u64) -> Option<[u8; 4]> {
    code::armed(at, body)
}

/// Makes a system call. Should the recorder be gone by then, the thread goes back to what it did, by the frame of a signal
/// that it finds on its stack.
pub const CALL: &[u8] = &[
    0x01, 0x00, 0x00, 0xd4, // svc #0
    0x68, 0x11, 0x80, 0xd2, // mov x8, #rt_sigreturn
    0x01, 0x00, 0x00, 0xd4, // svc #0
    0, 0, 0, 0, // udf #0
];

/// Where functions return to that a thread is made to call: the result is kept in `x19`, and the recorder hears of it by
/// SIGURG.
pub const DONE: &[u8] = &[
    0xf3, 0x03, 0x00, 0xaa, // mov x19, x0
    0x88, 0x15, 0x80, 0xd2, // mov x8, #getpid
    0x01, 0x00, 0x00, 0xd4, // svc #0
    0xf4, 0x03, 0x00, 0xaa, // mov x20, x0
    0x48, 0x16, 0x80, 0xd2, // mov x8, #gettid
    0x01, 0x00, 0x00, 0xd4, // svc #0
    0xe1, 0x03, 0x00, 0xaa, // mov x1, x0
    0xe0, 0x03, 0x14, 0xaa, // mov x0, x20
    0xe2, 0x02, 0x80, 0xd2, // mov x2, #SIGURG
    0x68, 0x10, 0x80, 0xd2, // mov x8, #tgkill
    0x01, 0x00, 0x00, 0xd4, // svc #0
    0x68, 0x11, 0x80, 0xd2, // mov x8, #rt_sigreturn
    0x01, 0x00, 0x00, 0xd4, // svc #0
    0, 0, 0, 0, // udf #0
];

/// Where in [`DONE`] the thread stands then, in bytes.
pub const IS_DONE: u64 = 44;

/// The function that code calls for the address of a thread-local variable, and what it does here: there are only variables of
/// the program itself, whose place from the thread pointer on is known.
pub const STORAGE_NAME: &str = "__tls_get_addr";
/// What it does.
pub const STORAGE: &[u8] = &[
    0x00, 0x04, 0x40, 0xf9, // ldr x0, [x0, #8]
    0x41, 0xd0, 0x3b, 0xd5, // mrs x1, tpidr_el0
    0x00, 0x00, 0x01, 0x8b, // add x0, x0, x1
    0xc0, 0x03, 0x5f, 0xd6, // ret
];

/// What descriptors of thread-local variables lead to. It may change nothing but `x0`.
pub const DESCRIPTOR: &[u8] = &[
    0x00, 0x04, 0x40, 0xf9, // ldr x0, [x0, #8]
    0xc0, 0x03, 0x5f, 0xd6, // ret
];

/// How many bytes below a multiple of 64 the frame of a signal is.
pub const FRAME_BELOW: u64 = 0;

/// Registers by their numbers in unwind information (DWARF for the Arm 64-bit Architecture, 4.1): the return address is in one that the
/// caller has, too, so where a frame goes on has a place of its own, behind them.
pub const COUNT: usize = 33;
/// The stack pointer.
pub const STACK: usize = 31;
/// The return address.
pub const RETURN: usize = 30;
/// Where a frame goes on.
pub const PLACE: usize = 32;

/// Unwind information tells of signed addresses.
pub const SIGNS_ADDRESSES: bool = true;

/// Those of a thread that stands, whose general registers these are (`struct user_regs_struct`).
#[must_use]
pub fn registers(found: &[u64]) -> [u64; COUNT] {
    let mut all = [0; COUNT];
    for (room, found) in all.iter_mut().zip(found) {
        *room = *found;
    }
    all
}

/// What signal handlers return to begins with this. No unwind information says where the interrupted registers are, which are that many bytes
/// above the stack pointer then, in the order above (`struct rt_sigframe`).
pub const RESTORER: Option<Restorer> =
    Some(Restorer { code: [0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4], registers: 312 });

/// An address as it's meant that's on the stack: without what signs it (`paciasp`).
pub fn plain(address: u64) -> u64 {
    const ADDRESS: u64 = (1 << 48) - 1;
    address & ADDRESS
}

/// The arguments of a function's resolver, and the target of the second (`<sys/ifunc.h>`): the
/// processor's abilities, as the auxiliary vector of the process has them.
#[must_use]
pub fn chooser_arguments(vector: &[u64], room: u64) -> ([u64; 2], Vec<u8>) {
    const HAS_MORE: u64 = 1 << 62;
    /// `AT_HWCAP`, `AT_HWCAP2`.
    const ABILITIES: [u64; 2] = [16, 26];
    let value = |kind: u64| {
        let pair = vector.as_chunks().0.iter().find(|[found, _]| *found == kind);
        pair.map_or(0, |[_, value]| *value)
    };
    let [can, can_too] = ABILITIES.map(value);
    let bytes = [24, can, can_too].into_iter().flat_map(u64::to_le_bytes).collect();
    ([can | HAS_MORE, room], bytes)
}

/// A jump over a hook in two pages: there's none, as an instruction is in one.
pub fn leap(_length: usize) -> Option<[u8; 2]> {
    None
}

/// Part of one that does nothing: the same.
pub fn one_byte(_from: &[u8], _to: &[u8]) -> Option<u8> {
    None
}

/// Is this the first byte of one? No.
pub fn is_test(_first: u8) -> bool {
    false
}

/// May a function that begins with this code be called by its address, of a file with these properties (`.note.gnu.property`)? Compilers
/// leave landing pads out of static functions whose address isn't taken, and a patch calls all by their addresses.
#[must_use]
pub fn is_callable(notes: &[u8], code: &[u8]) -> bool {
    /// `bti c`, `bti jc`, `paciasp`, `pacibsp`.
    const PADS: [u32; 4] = [0xd503_245f, 0xd503_24df, 0xd503_233f, 0xd503_237f];
    let first = code.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    PADS.contains(&first) || !is_guarded(notes)
}

/// Does the file say that its code has landing pads, so that the processor looks for them?
fn is_guarded(notes: &[u8]) -> bool {
    /// `GNU_PROPERTY_AARCH64_FEATURE_1_AND`, of four bytes.
    const FEATURES: [u8; 8] = [0, 0, 0, 0xc0, 4, 0, 0, 0];
    const BTI: u8 = 1;
    let features = notes.windows(FEATURES.len()).position(|bytes| bytes == FEATURES);
    let features = features.and_then(|at| notes.get(at + FEATURES.len()));
    features.is_some_and(|features| features & BTI != 0)
}
