//! LoongArch: the routines in `loongarch64.s`, what they need to know of the processor, and each thread's own memory.
//!
//! That memory is ELF thread-local storage in the initial-exec model, and a *slot* is the word below the stack pointer at the
//! entry, as on AArch64.

pub(crate) use super::usual::{fetch_anew_everywhere, late_return, return_to, show_vectors, stub};
use crate::error::Result;
pub(crate) use mcount_cpu::loongarch64::code;
use std::arch::asm;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Between an idle site and an armed one, while threads run.
pub(crate) use code::AT_ONCE;

/// Code is written word by word, each by one store.
pub(crate) const STORE: usize = 4;
/// On processors that can't load words from anywhere, the kernel copies byte by byte.
pub(crate) const IS_STORED_BY_KERNEL: bool = false;
/// The numbers in DWARF of the registers that a landing finds data in.
pub(crate) const DATA_REGISTERS: [c_int; 2] = [4, 5];
/// Memory is asked for in multiples of this: pages have 4, 16 or 64 KiB.
pub(crate) const PAGE: u64 = 1 << 16;
/// How far a jump reaches.
pub(crate) use code::REACH;

/// The processor's vector registers, for the assembly: 0: floating-point registers only, 1: 128 bits (LSX), 2:
/// 256 bits (LASX).
pub(crate) static VECTORS: AtomicU32 = AtomicU32::new(0);

/// This thread's memory.
pub(super) fn memory() -> *mut c_void {
    let found: u64;
    // SAFETY: reads the address of thread-local storage as its ABI has it ("initial exec").
    unsafe {
        asm!("la.tls.ie {0}, mcount_inside_thread", "add.d {0}, {0}, $tp", out(reg) found,
            options(nostack, pure, readonly));
    }
    found as *mut c_void
}

/// Where this thread keeps which block of the trace is its own.
pub(super) fn block_word() -> *mut *mut c_void {
    let found: u64;
    // SAFETY: as of `memory`.
    unsafe {
        asm!("la.tls.ie {0}, mcount_inside_block", "add.d {0}, {0}, $tp", out(reg) found,
            options(nostack, pure, readonly));
    }
    found as *mut *mut c_void
}

/// Finds out what the processor has. Called before anything is armed.
pub(crate) fn prepare() {
    // SAFETY: takes a number.
    let has = unsafe { libc::getauxval(libc::AT_HWCAP) };
    let kind = if has & libc::HWCAP_LOONGARCH_LASX != 0 {
        2
    } else {
        u32::from(has & libc::HWCAP_LOONGARCH_LSX != 0)
    };
    VECTORS.store(kind, Relaxed);
}

/// Where the code at `address` leads to if it is an entry of a procedure linkage table, as a pointer to a function
/// of a library is in a program that's linked at a fixed address.
///
/// # Safety
///
/// There is code at `address`.
pub(crate) unsafe fn through_linkage(address: u64) -> Option<u64> {
    // SAFETY: the caller's; entries have 16 bytes.
    let word = |index: u64| unsafe { ((address + 4 * index) as *const u32).read_volatile() };
    let (upper, load) = (word(0), word(1));
    // pcaddu12i $t3, upper; ld.d $t3, $t3, lower
    if upper & 0xfe00_001f != 0x1c00_000f || load & 0xffc0_03ff != 0x28c0_01ef {
        return None;
    }
    let distance = i64::from((upper << 7).cast_signed() >> 12 << 12)
        + i64::from((load << 10).cast_signed() >> 20);
    let cell = address.wrapping_add_signed(distance);
    // SAFETY: such an instruction reads its cell.
    Some(unsafe { (cell as *const u64).read_volatile() })
}

/// Has `act` done. A site is one instruction, and what it becomes may take its place while it's executed (`code`); so no
/// thread has to stand.
///
/// # Errors
///
/// None.
#[expect(clippy::unnecessary_wraps, reason = "elsewhere it's otherwise")]
pub(crate) fn while_none_is_inside<T>(_: &[(u64, u64)], act: impl FnOnce() -> T) -> Result<T> {
    Ok(act())
}

/// Of [`Record::frame`]: distances are from the frame pointer.
const BY_POINTER: u64 = 1;

/// What has to be known of the frame of a function whose hook is behind its prologue, `distance` bytes after the start
/// of `code`: how far below its place at the entry the stack pointer is, or the frame pointer, and how far above that the caller's
/// address.
pub(crate) fn frame(code: &[u8], distance: u64) -> u64 {
    let before = usize::try_from(distance).ok().and_then(|distance| code.get(..distance));
    let frame = before.and_then(code::frame);
    frame.map_or(0, |frame| {
        let (depth, link) = (frame.depth.cast_unsigned(), frame.link.cast_unsigned());
        // Both are multiples of eight.
        u64::from(depth) << 32 | u64::from(link) | if frame.by_pointer { BY_POINTER } else { 0 }
    })
}

/// Has this processor fetch anew what was written as code. Caches are kept coherent by hardware (LoongArch Reference Manual, volume 1,
/// 2.1.7). Others have to be interrupted besides.
pub(crate) fn fetch_anew(_: u64, _: u64) {
    // SAFETY: waits for stores, and forgets what was fetched.
    unsafe { asm!("dbar 0", "ibar 0", options(nostack)) };
}

/// So much was stored there, to be executed.
pub(crate) fn stored(address: u64, size: u64) {
    fetch_anew(address, size);
}

/// A function, `li.w $a0, number; ret`.
pub(crate) fn answer(number: u8) -> [u8; 8] {
    (0x4c00_0020_u64 << 32 | u64::from(number) << 10 | 0x0380_0004).to_le_bytes()
}

/// Where the breakpoint is that a thread has run into, by the context of its signal.
///
/// # Safety
///
/// It's the context of a signal handler.
pub(crate) unsafe fn place_of_trap(context: *mut c_void) -> u64 {
    // SAFETY: the caller promises that it's the context of a signal handler.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.__pc }
}

/// Makes the thread go on at `address` when the handler returns.
///
/// # Safety
///
/// As above.
pub(crate) unsafe fn go_on(context: *mut c_void, address: u64) {
    // SAFETY: the caller promises that it's the context of a signal handler.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.__pc = address };
}
