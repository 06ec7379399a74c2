//! RISC-V: the routines in `riscv64.s`, what they need to know of the processor, and each thread's own memory.
//!
//! That memory is ELF thread-local storage in the initial-exec model, and a *slot* is the word below the stack pointer at the
//! entry, as on AArch64.

pub(crate) use super::usual::{late_return, return_to, show_vectors, stub};
use crate::error::{Error, ErrorKind, Result};
use code::{Area, Unusable};
pub(crate) use mcount_cpu::riscv64::code;
use std::arch::asm;
use std::ffi::{c_int, c_void};
use std::ops::Range;

/// Between an idle site and an armed one, while threads run.
pub(crate) use code::AT_ONCE;

/// Code is written by stores of halfwords.
pub(crate) const STORE: usize = 2;
/// The kernel copies so few bytes one by one.
pub(crate) const IS_STORED_BY_KERNEL: bool = false;
/// The numbers in DWARF of the registers that a landing finds data in.
pub(crate) const DATA_REGISTERS: [c_int; 2] = [10, 11];
/// Memory is asked for in multiples of this.
pub(crate) const PAGE: u64 = 4096;
/// How far a jump reaches.
pub(crate) use code::REACH;

/// This thread's memory.
pub(super) fn memory() -> *mut c_void {
    let found: u64;
    // SAFETY: reads the address of thread-local storage as its ABI has it ("initial exec").
    unsafe {
        asm!("la.tls.ie {0}, mcount_inside_thread", "add {0}, {0}, tp", out(reg) found,
            options(nostack, pure, readonly));
    }
    found as *mut c_void
}

/// Where this thread keeps which block of the trace is its own.
pub(super) fn block_word() -> *mut *mut c_void {
    let found: u64;
    // SAFETY: as of `memory`.
    unsafe {
        asm!("la.tls.ie {0}, mcount_inside_block", "add {0}, {0}, tp", out(reg) found,
            options(nostack, pure, readonly));
    }
    found as *mut *mut c_void
}

/// Every processor that Rust compiles for has what the assembly uses.
pub(crate) fn prepare() {}

/// Where the code at `address` leads to if it is an entry of a procedure linkage table, as a pointer to a function
/// of a library is in a program that's linked at a fixed address.
///
/// # Safety
///
/// There is code at `address`.
pub(crate) unsafe fn through_linkage(address: u64) -> Option<u64> {
    // SAFETY: the caller's; entries have 16 bytes.
    let half = |index: u64| unsafe { ((address + 2 * index) as *const u16).read_volatile() };
    let word = |index: u64| u32::from(half(2 * index)) | u32::from(half(2 * index + 1)) << 16;
    let upper = word(0);
    // auipc t3, upper; ld t3, lower(t3)
    if upper & 0xfff != 0xe17 {
        return None;
    }
    let load = word(1);
    if load & 0xf_ffff != 0xe_3e03 {
        return None;
    }
    let distance = i64::from((upper & !0xfff).cast_signed()) + i64::from(load.cast_signed() >> 20);
    let cell = address.wrapping_add_signed(distance);
    // SAFETY: such an instruction reads its cell.
    Some(unsafe { (cell as *const u64).read_volatile() })
}

/// Has `act` done, if all areas can be changed while other threads run.
///
/// # Errors
///
/// A thread may be between two instructions of one. `act` wasn't called then.
pub(crate) fn while_none_is_inside<T>(areas: &[(u64, u64)], act: impl FnOnce() -> T) -> Result<T> {
    let length = |(start, end): &(u64, u64)| usize::try_from(end - start).unwrap_or(0);
    if areas.iter().all(|area| code::is_one_instruction(&[], length(area))) {
        return Ok(act());
    }
    let text = "other threads run, and may be inside a hook: call mcount_prepare before there are any, or compile with \
        -fpatchable-function-entry=5,4";
    Err(Error::new(ErrorKind::Threads, text))
}

/// The compiler's code at the start of `code`, which is the code from the entry of a function on, and in
/// `before`.
pub(crate) fn area(before: &[u8], code: &[u8]) -> std::result::Result<Area, Unusable> {
    Area::find(before, code)
}

/// Bytes of the area before the hook.
pub(crate) fn before(area: &Area) -> u64 {
    area.before as u64
}

/// What of an area differs between its two states.
pub(crate) fn changed(area: &Area) -> Range<usize> {
    let (first, end) = area.changed();
    first..end
}

/// The two states of the area at `site`, idle and leading to `stub`; and how many of the bytes say which it is. `None` if the
/// stub is out of reach.
pub(crate) fn states(area: &Area, site: u64, stub: u64) -> Option<([u8; 24], [u8; 24], usize)> {
    let (idle, armed) = area.states(site, stub)?;
    Some((idle, armed, area.length))
}

/// What has to be known of the frame of a function whose hook is behind its prologue, `distance` bytes after the start
/// of `code`: how far below its place at the entry the stack pointer is, and how far above it the caller's address.
pub(crate) fn frame(code: &[u8], distance: u64) -> u64 {
    let before = usize::try_from(distance).ok().and_then(|distance| code.get(..distance));
    let frame = before.and_then(code::frame);
    frame.map_or(0, |frame| u64::from(frame.depth) << 32 | u64::from(frame.link))
}

/// Makes processors fetch anew what was written as code.
pub(crate) fn fetch_anew(_: u64, _: u64) {
    fetch_anew_everywhere();
}

/// So much was stored there, to be executed.
pub(crate) fn stored(_: u64, _: u64) {}

/// Has all processors fetch anew what was written. Linux has them execute `fence.i`: now, or before they run a thread of this
/// process again. Emulators may not know the call, and notice what's written.
pub(crate) fn fetch_anew_everywhere() -> bool {
    const RISCV_FLUSH_ICACHE: libc::c_long = 259;
    // SAFETY: takes numbers; 0: for all threads.
    unsafe {
        libc::syscall(RISCV_FLUSH_ICACHE, 0, u64::MAX, 0);
        asm!("fence.i", options(nostack));
    }
    true
}

/// A function, `li a0, number; ret`.
pub(crate) fn answer(number: u8) -> [u8; 8] {
    (0x0000_8067_u64 << 32 | u64::from(number) << 20 | 0x513).to_le_bytes()
}

/// Where the breakpoint is that a thread has run into, by the context of its signal.
///
/// # Safety
///
/// It's the context of a signal handler.
pub(crate) unsafe fn place_of_trap(context: *mut c_void) -> u64 {
    // SAFETY: the caller promises that it's the context of a signal handler.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    context.uc_mcontext.__gregs.first().copied().unwrap_or(0)
}

/// Makes the thread go on at `address` when the handler returns.
///
/// # Safety
///
/// As above.
pub(crate) unsafe fn go_on(context: *mut c_void, address: u64) {
    // SAFETY: the caller promises that it's the context of a signal handler.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    if let Some(place) = context.uc_mcontext.__gregs.first_mut() {
        *place = address;
    }
}
