//! x86-64: the assembly, and how a thread finds its block: `%gs` leads to it.

use crate::host::Agent;
use crate::{confine, host};
use core::arch::{asm, global_asm};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use mcount_recorder::abi::flags::FSGSBASE;
use mcount_recorder::abi::recipe::{RAX, RDX, VECTOR, X87};
use mcount_recorder::block::Block;
use mcount_recorder::numbers::has;
use mcount_recorder::{calls, pad_table, sys};

#[path = "../values.rs"]
pub(crate) mod values;

use values::{mcount_entry_with, mcount_exit_with};

global_asm!(
    ".set INSIDE, 0",
    include_str!(concat!(env!("MCOUNT_CPU"), "/x86_64/call.s")),
    include_str!("x86_64.s"),
    slow_entry = sym mcount_entry_with,
    slow_exit = sym mcount_exit_with,
    slow_pg = sym late_entry_with,
    confine = sym confine::mcount_confine,
    options(att_syntax)
);

/// System calls with which a program forbids itself others.
pub(crate) const SYS_PRCTL: u64 = 157;
pub(crate) const SYS_SECCOMP: u64 = 317;

/// `process_vm_readv`.
const READ_MEMORY: u64 = 310;

/// The entry of a function whose hook is behind its prologue.
unsafe extern "C" fn late_entry_with(slot: *mut u64, word: u32) {
    // SAFETY: the caller is the entry trampoline.
    unsafe {
        calls::mcount_slow_pg::<Agent>(slot, word);
        values::late_entry(slot, word);
    }
}

/// Functions return where a result in memory is.
unsafe fn keep_place(_slot: u64, _state: *const u8) {}

/// Where the value of a source of recipes was saved, and how many bytes that are: general registers below the slot, the others by FXSAVE.
unsafe fn saved(slot: u64, state: *const u8, source: u64) -> (*const u8, usize) {
    /// Where in what FXSAVE keeps the registers are.
    const OF_X87: usize = 32;
    const OF_VECTORS: usize = 160;
    /// How many bytes below the slot the entry of a call saves %rdi, %rsi, %rdx, %rcx, %r8 and %r9; its exit %rax and
    /// %rdx. See `ENTER`, `SLOW`, `KEPT` and `EXIT_BODY` in `x86_64.s`.
    const BELOW: [u64; 6] = [40, 48, 24, 32, 72, 80];
    let below = match source {
        RAX => 8,
        RDX => 16,
        // SAFETY: FXSAVE has kept 512 bytes, and each register has 16 of them.
        X87 => return (unsafe { state.add(OF_X87) }, 16),
        VECTOR.. => {
            let at = OF_VECTORS + 16 * (source - VECTOR) as usize;
            // SAFETY: as above.
            return (unsafe { state.add(at) }, 16);
        }
        general => BELOW.get(general as usize).copied().unwrap_or(8),
    };
    ((slot - below) as *const u8, 8)
}

unsafe extern "C" {
    static mcount_stubs: u8;
    static mcount_stubs_end: u8;
    static mcount_pg_return: u8;
    static mcount_landing: u8;
}

/// What `%gs` points to before a thread has a block: one without an owner.
#[unsafe(no_mangle)]
static mut mcount_nobody: Block = Block { is_none: 1, ..Block::EMPTY };

/// The same for a thread that begins with system calls forbidden that the agent needs.
#[unsafe(no_mangle)]
static mut mcount_confined: Block = Block { confined: 1, is_none: 1, ..Block::EMPTY };

/// A thread of this process has, or its parent had.
static IS_ANYBODY_CONFINED: AtomicU32 = AtomicU32::new(0);

/// Has this thread forbidden itself system calls that the agent needs? A forked child's block is wiped, as if
/// no thread had it before.
pub(crate) fn is_confined() -> bool {
    let (confined, is_none, this): (u64, u64, u64);
    // SAFETY: `%gs` points to a block, or to what has the same layout.
    unsafe {
        asm!("mov {}, gs:[{confined}]", "mov {}, gs:[{is_none}]", "mov {}, gs:[{this}]",
            out(reg) confined, out(reg) is_none, out(reg) this, confined = const offset_of!(Block, confined),
            is_none = const offset_of!(Block, is_none), this = const offset_of!(Block, this),
            options(nostack, readonly));
    }
    confined != 0 || (is_none == 0 && this == 0 && IS_ANYBODY_CONFINED.load(Relaxed) != 0)
}

/// This thread, which has this block or none, is going to forbid itself system calls.
pub(crate) fn confine(block: *mut Block) {
    IS_ANYBODY_CONFINED.store(1, SeqCst);
    if block.is_null() {
        // SAFETY: it stays mapped.
        unsafe { set_current(&raw mut mcount_confined) };
    } else {
        host::confine_other(block);
    }
}

/// So are all those that have no block yet.
pub(crate) fn confine_new_ones() {
    host::confine_other(&raw mut mcount_nobody);
}

/// There's nothing to be made for threads to find their blocks.
pub(crate) fn start() -> bool {
    true
}

/// Is `address` one that a traced function returns to?
pub(crate) fn is_return(address: u64) -> bool {
    let stubs = (&raw const mcount_stubs) as u64..(&raw const mcount_stubs_end) as u64;
    (stubs.contains(&address) && address & 31 == 16)
        || address == late_return()
        || host::pads().number_of(address).is_some()
}

/// Where exceptions go that pass through the frame that returns to `address`.
pub(crate) fn landing(address: u64) -> u64 {
    match host::pads().number_of(address) {
        Some(_) => pad_table::landing(address),
        None => (&raw const mcount_landing) as u64,
    }
}

/// Where functions return to whose hook is after the prologue.
pub(crate) fn late_return() -> u64 {
    (&raw const mcount_pg_return) as u64
}

/// The block that this thread has, or that the one had which made it; null: none.
pub(crate) fn current() -> *mut Block {
    let found: u64;
    // SAFETY: `%gs` points to a block, or to `mcount_nobody`, which has 0 there.
    unsafe {
        asm!("mov {}, gs:[{this}]", out(reg) found, this = const offset_of!(Block, this),
            options(nostack, readonly));
    }
    found as *mut Block
}

/// Makes `block` this thread's.
///
/// # Safety
///
/// It must live as long as the thread.
pub(crate) unsafe fn set_current(block: *mut Block) {
    if has::<Agent>(FSGSBASE) {
        // SAFETY: the recorder has seen that the kernel allows it.
        unsafe { asm!("wrgsbase {}", in(reg) block, options(nostack)) };
    } else {
        const ARCH_SET_GS: u64 = 0x1001;
        // SAFETY: the caller promises that it lives as long as the thread.
        unsafe { sys::call(158, [ARCH_SET_GS, block as u64, 0, 0, 0, 0]) };
    }
}

/// Copies as `memcpy` does.
///
/// # Safety
///
/// As of that.
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: the caller promises that both have that many bytes, and that they don't overlap.
    unsafe {
        asm!("rep movsb", inout("rcx") count => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
}

/// The same, the last byte first.
///
/// # Safety
///
/// As above.
pub(crate) unsafe fn copy_backwards(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: the caller promises that both have that many bytes.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rcx") count => _,
            inout("rdi") to.wrapping_add(count).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(count).wrapping_sub(1) => _, options(nostack));
    }
}

/// Fills memory as `memset` does.
///
/// # Safety
///
/// As of that.
pub(crate) unsafe fn fill(to: *mut u8, value: u8, count: usize) {
    // SAFETY: the caller promises that `to` has that many bytes, which may be written.
    unsafe {
        asm!("rep stosb", inout("rcx") count => _, inout("rdi") to => _, in("al") value,
            options(nostack, preserves_flags));
    }
}
