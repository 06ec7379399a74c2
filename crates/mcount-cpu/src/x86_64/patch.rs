//! x86-64: other functions in place of those of a running program. `%r11` is free at the entry of a function (psABI, 3.2.3). A gate decides by one instruction, which jumps by the
//! slot; the old function's body can be jumped to from anywhere.
#![expect(clippy::must_use_candidate, reason = "names say which of them are questions")]

use super::code;
use crate::outside::patch::{Restorer, Wants};
use alloc::vec::Vec;

/// Relocations (x86-64 psABI, 4.4.1).
pub const NONE: u32 = 0;
const ABSOLUTE: u32 = 1;
const COPY: u32 = 5;
const GLOB_DAT: u32 = 6;
const JUMP_SLOT: u32 = 7;
/// A word is to have the load bias and its addend.
pub const RELATIVE: u32 = 8;
const DTPMOD64: u32 = 16;
const DTPOFF64: u32 = 17;
const TPOFF64: u32 = 18;
const TLSDESC: u32 = 36;
const IRELATIVE: u32 = 37;

/// Why a relocation can't be done.
pub fn refusal(kind: u32) -> Option<&'static str> {
    match kind {
        COPY => Some("it has a copy relocation, which only programs have"),
        TLSDESC => {
            Some("it has descriptors of thread-local variables: compile with -mtls-dialect=gnu")
        }
        IRELATIVE => Some("it has functions that are chosen when it's loaded (ifunc)"),
        NONE | ABSOLUTE | GLOB_DAT | JUMP_SLOT | RELATIVE | DTPMOD64 | DTPOFF64 | TPOFF64 => None,
        _ => Some("it has a relocation of an unknown kind"),
    }
}

/// What a relocation wants.
pub fn wants(kind: u32) -> Wants {
    match kind {
        ABSOLUTE => Wants::Address,
        GLOB_DAT | JUMP_SLOT => Wants::Symbol,
        RELATIVE => Wants::Bias,
        DTPMOD64 => Wants::Module,
        DTPOFF64 | TPOFF64 => Wants::FromThreadPointer,
        _ => Wants::Nothing,
    }
}

/// Where the thread-local storage of the program itself begins, from the thread pointer on: just below it (ELF Handling
/// for Thread-Local Storage, variant II).
pub fn program_storage(size: u64, align: u64) -> u64 {
    size.next_multiple_of(align.clamp(1, 1 << 30)).wrapping_neg()
}

/// What to compile with for hooks before the prologue.
pub const HOOKED: &str = "compile with -pg -mfentry, or -fpatchable-function-entry=5";

/// Bytes of a gate.
pub const GATE: usize = code::RECORD_STUB;

/// What fills up code.
pub const FILLING: u8 = 0xcc;

/// The gate of the function whose slot is at this address.
pub fn gate(slot: u64) -> [u8; GATE] {
    code::record_stub(slot, 0)
}

/// Where in a gate the way back to the old function is, if it has one of its own.
pub const WAY_BACK: Option<u64> = None;

/// The way back to `body`.
pub fn way_back(_at: u64, _body: u64) -> Option<[u8; 4]> {
    None
}

/// Makes a system call. Should the recorder be gone by then, the thread goes back to what it did, by the frame of a signal
/// that it finds on its stack.
pub const CALL: &[u8] = &[
    0x0f, 0x05, // syscall
    0xb8, 0x0f, 0, 0, 0, // mov $rt_sigreturn, %eax
    0x0f, 0x05, // syscall
    0x0f, 0x0b, // ud2
];

/// Where functions return to that a thread is made to call: the result is kept in `%rbx`, and the recorder hears of it by
/// SIGURG.
pub const DONE: &[u8] = &[
    0x48, 0x89, 0xc3, // mov %rax, %rbx
    0xb8, 39, 0, 0, 0, // mov $getpid, %eax
    0x0f, 0x05, // syscall
    0x89, 0xc7, // mov %eax, %edi
    0xb8, 186, 0, 0, 0, // mov $gettid, %eax
    0x0f, 0x05, // syscall
    0x89, 0xc6, // mov %eax, %esi
    0xba, 23, 0, 0, 0, // mov $SIGURG, %edx
    0xb8, 234, 0, 0, 0, // mov $tgkill, %eax
    0x0f, 0x05, // syscall
    0xb8, 0x0f, 0, 0, 0, // mov $rt_sigreturn, %eax
    0x0f, 0x05, // syscall
    0x0f, 0x0b, // ud2
];

/// The function that code calls for the address of a thread-local variable, and what it does here: there are only variables of
/// the program itself, whose place from the thread pointer on is known.
pub const STORAGE_NAME: &str = "__tls_get_addr";
/// What it does.
pub const STORAGE: &[u8] = &[
    0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, // mov %fs:0, %rax
    0x48, 0x03, 0x47, 0x08, // add 8(%rdi), %rax
    0xc3, // ret
];

/// What descriptors of thread-local variables lead to: there are none here.
pub const DESCRIPTOR: &[u8] = &[];

/// Where in [`DONE`] the thread stands then, in bytes.
pub const IS_DONE: u64 = 33;

/// How many bytes below a multiple of 64 the frame of a signal is: its return address, as a function's.
pub const FRAME_BELOW: u64 = 8;

/// Registers by their numbers in unwind information (psABI, 3.6.2); the last one is the return address.
pub const COUNT: usize = 17;
/// The stack pointer.
pub const STACK: usize = 7;
/// The return address.
pub const RETURN: usize = 16;
/// Where a frame goes on.
pub const PLACE: usize = RETURN;

/// Unwind information tells of signed addresses.
pub const SIGNS_ADDRESSES: bool = false;

/// Those of a thread that stands, whose general registers these are (`struct user_regs_struct`).
#[must_use]
pub fn registers(found: &[u64]) -> [u64; COUNT] {
    /// `%rax`, `%rdx`, `%rcx`, `%rbx`, `%rsi`, `%rdi`, `%rbp`, `%rsp`, `%r8` to `%r15`, `%rip`.
    const ORDER: [usize; COUNT] = [10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16];
    ORDER.map(|place| found.get(place).copied().unwrap_or(0))
}

/// An address as it's meant that's on the stack.
pub fn plain(address: u64) -> u64 {
    address
}

/// What signal handlers return to has unwind information.
pub const RESTORER: Option<Restorer> = None;

/// The arguments of a function's resolver: none.
pub fn chooser_arguments(_vector: &[u64], _room: u64) -> ([u64; 2], Vec<u8>) {
    ([0, 0], Vec::new())
}

/// A jump over a hook of `length` bytes.
pub fn leap(length: usize) -> Option<[u8; 2]> {
    let distance = length.checked_sub(code::SHORT_JUMP)?;
    Some([0xeb, u8::try_from(distance).ok().filter(|distance| *distance < 128)?])
}

/// The first byte of a `test`, if it may be put before the other bytes of `from` and of `to`: what's after it are NOPs.
pub fn one_byte(from: &[u8], to: &[u8]) -> Option<u8> {
    let test = [to, from].into_iter().find_map(|bytes| {
        let first = *bytes.first()?;
        code::switched_off(first).or(is_test(first).then_some(first))
    })?;
    let length = if test == 0xa8 { code::SHORT_JUMP } else { code::SITE };
    [from, to].into_iter().all(|bytes| bytes.get(length..).is_some_and(are_nops)).then_some(test)
}

fn are_nops(mut bytes: &[u8]) -> bool {
    while let Some(length) = code::nop_length(bytes).filter(|length| *length > 0) {
        bytes = bytes.get(length..).unwrap_or_default();
    }
    bytes.is_empty()
}

/// Is this the first byte of such a `test`?
pub fn is_test(first: u8) -> bool {
    matches!(first, 0xa8 | 0xa9)
}

/// May a function that begins with this code be called, of a file with these properties (`.note.gnu.property`),
/// by its address? With landing pads, compilers know which ones are.
pub fn is_callable(_notes: &[u8], _code: &[u8]) -> bool {
    true
}
