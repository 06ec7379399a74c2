//! What differs by processor: relocations of an object that's patched in, and the code that leads to it. So far x86-64.
//!
//! An armed site jumps to its function's *gate*, which loads the address of the function's slot and jumps to where that
//! points: to the body of the old function, or to a new one. So any number of functions change by the write of one page, and
//! an object may lie anywhere. `%r11` is free at the entry of a function (x86-64 psABI, 3.2.3).

use mcount_live::x86_64 as code;

pub(super) const MACHINE: u16 = 62;

/// Relocations (x86-64 psABI, 4.4.1).
pub(super) const NONE: u32 = 0;
const ABSOLUTE: u32 = 1;
const COPY: u32 = 5;
const GLOB_DAT: u32 = 6;
const JUMP_SLOT: u32 = 7;
pub(super) const RELATIVE: u32 = 8;
const DTPMOD64: u32 = 16;
const DTPOFF64: u32 = 17;
const TPOFF64: u32 = 18;
const TLSDESC: u32 = 36;
const IRELATIVE: u32 = 37;

/// What a relocation wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    Nothing,
    /// The load bias and the addend.
    Bias,
    /// The address of its symbol and the addend.
    Address,
    /// The address of its symbol.
    Symbol,
    /// The number of the module that has the thread-local variable.
    Module,
    /// Where it is from the thread pointer on, and the addend.
    FromThreadPointer,
}

/// Why a relocation can't be done.
pub(super) fn refusal(kind: u32) -> Option<&'static str> {
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

pub(super) fn wants(kind: u32) -> Wants {
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
pub(super) fn program_storage(size: u64, align: u64) -> u64 {
    size.next_multiple_of(align.clamp(1, 1 << 30)).wrapping_neg()
}

/// Bytes of a gate.
pub(super) const GATE: usize = code::RECORD_STUB;

/// The gate of the function whose slot is at this address.
pub(super) fn gate(slot: u64) -> [u8; GATE] {
    code::record_stub(slot, 0)
}

/// Makes a system call. Should the recorder be gone by then, the thread goes back to what it did, by the frame of a signal
/// that it finds on its stack.
pub(super) const CALL: &[u8] = &[
    0x0f, 0x05, // syscall
    0xb8, 0x0f, 0, 0, 0, // mov $rt_sigreturn, %eax
    0x0f, 0x05, // syscall
    0x0f, 0x0b, // ud2
];

/// Where functions return to that a thread is made to call: the result is kept in `%rbx`, and the recorder hears of it by
/// SIGURG.
pub(super) const DONE: &[u8] = &[
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
pub(super) const STORAGE_NAME: &str = "__tls_get_addr";
pub(super) const STORAGE: &[u8] = &[
    0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, // mov %fs:0, %rax
    0x48, 0x03, 0x47, 0x08, // add 8(%rdi), %rax
    0xc3, // ret
];

/// Where in [`DONE`] the thread stands then, in bytes.
pub(super) const IS_DONE: u64 = 33;
