//! AArch64: the routines in `aarch64.s`, what they need to know of the processor, and each thread's own memory.
//!
//! That memory is ELF thread-local storage in the initial-exec model, as on x86-64.
//!
//! The *slot* of a call is the word below the stack pointer at the entry. Nothing of the program's is there yet, and when
//! the function has returned, nothing is there any more. While a routine runs that word is in its frame, and has the caller's
//! address.

pub(crate) use super::usual::{fetch_anew_everywhere, late_return, show_vectors};
use crate::error::Result;
use crate::record::{Call, Record};
pub(crate) use mcount_cpu::aarch64::code;
use std::arch::asm;
use std::ffi::{c_int, c_void};
use std::mem::offset_of;

/// Between an idle site and an armed one, while threads run.
pub(crate) use code::AT_ONCE;

/// Code is written word by word, each by one store.
pub(crate) const STORE: usize = 4;
/// So does the kernel write it.
pub(crate) const IS_STORED_BY_KERNEL: bool = true;
/// The numbers in DWARF of the registers that a landing finds data in.
pub(crate) const DATA_REGISTERS: [c_int; 2] = [0, 1];
/// Memory is asked for in multiples of this: pages have 4, 16 or 64 KiB.
pub(crate) const PAGE: u64 = 1 << 16;
/// How far a jump reaches.
pub(crate) use code::REACH;

/// Of [`Record::frame`]: the caller's address was signed.
const IS_SIGNED: u64 = 1 << 63;

/// This thread's memory.
pub(super) fn memory() -> *mut c_void {
    let found: u64;
    // SAFETY: reads the address of thread-local storage as its ABI has it ("initial exec").
    unsafe {
        asm!("adrp {0}, :gottprel:mcount_inside_thread",
            "ldr {0}, [{0}, :gottprel_lo12:mcount_inside_thread]", "mrs {1}, tpidr_el0",
            "add {0}, {0}, {1}", out(reg) found, out(reg) _, options(nostack, pure, readonly));
    }
    found as *mut c_void
}

/// Where this thread keeps which block of the trace is its own.
pub(super) fn block_word() -> *mut *mut c_void {
    let found: u64;
    // SAFETY: as of `thread`.
    unsafe {
        asm!("adrp {0}, :gottprel:mcount_inside_block",
            "ldr {0}, [{0}, :gottprel_lo12:mcount_inside_block]", "mrs {1}, tpidr_el0",
            "add {0}, {0}, {1}", out(reg) found, out(reg) _, options(nostack, pure, readonly));
    }
    found as *mut *mut c_void
}

/// There's nothing to find out about the processor.
pub(crate) fn prepare() {}

/// Where the code at `address` leads to if it is an entry of a procedure linkage table, as a pointer to a function
/// of a library is in a program that's linked at a fixed address.
///
/// # Safety
///
/// There is code at `address`.
pub(crate) unsafe fn through_linkage(address: u64) -> Option<u64> {
    const PAD: u32 = 0xd503_245f;
    // SAFETY: the caller's; entries have 16 bytes or more.
    let word = |index: u64| unsafe { ((address + 4 * index) as *const u32).read_volatile() };
    let word = |index: u64| u32::from_le(word(index));
    let first = u64::from(word(0) == PAD);
    let (page, load) = (word(first), word(first + 1));
    // adrp x16, page; ldr x17, [x16, #low]
    if page & 0x9f00_001f != 0x9000_0010 || load & 0xffc0_03ff != 0xf940_0211 {
        return None;
    }
    let pages = (page >> 5 & 0x7_ffff) << 2 | page >> 29 & 3;
    let pages = i64::from((pages << 11).cast_signed() >> 11);
    let here = (address + 4 * first) & !0xfff;
    let cell = here.wrapping_add_signed(pages << 12) + u64::from(load >> 10 & 0xfff) * 8;
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

/// The stub at an address of a site with this record, and where the function is called behind its hook: in the stub,
/// since the code after the hook has no landing pad.
pub(crate) fn stub(place: u64, record: u64, body: u64) -> Option<([u8; code::RECORD_STUB], u64)> {
    let enter = u8::try_from(offset_of!(Record, enter)).ok()?;
    let bytes = code::record_stub(place, record.to_ne_bytes(), enter, body)?;
    Some((bytes, place + code::STUB_BODY as u64))
}

/// What has to be known of the frame of a function whose hook is behind its prologue, `distance` bytes after the start
/// of `code`: how far above the frame pointer the stack was, and whether the caller's address is signed.
pub(crate) fn frame(code: &[u8], distance: u64) -> u64 {
    let before = usize::try_from(distance).ok().and_then(|distance| code.get(..distance));
    let frame = before.and_then(code::frame);
    frame.map_or(0, |frame| frame.above | if frame.is_signed { IS_SIGNED } else { 0 })
}

/// Has the function that's entered return to `address`.
///
/// # Safety
///
/// The call is one of the assembly's.
pub(crate) unsafe fn return_to(call: &Call, address: u64) {
    let mut address = address;
    // SAFETY: the caller's: records are never freed, and the link is in a frame of this thread's.
    unsafe {
        if (*call.record).frame & IS_SIGNED != 0 {
            // pacia1716, which does nothing on older processors: as the function's own prologue has signed it.
            asm!("hint #8", inout("x17") address, in("x16") call.registers.sp, options(nomem, nostack));
        }
        call.link.write_volatile(address);
    }
}

/// Makes processors fetch anew what was written as code at `start`, `size` bytes of it. Others have to go through a context
/// synchronization event besides.
///
/// Arm ARM, B2.4.4: the data is cleaned to where both kinds of caches meet, and only when that's done the instruction
/// cache is told. On processors whose caches do that themselves (`CTR_EL0.IDC`, `.DIC`) the instructions do nothing.
pub(crate) fn fetch_anew(start: u64, size: u64) {
    let kind: u64;
    // SAFETY: Linux lets programs read this register and do this to caches; the memory is mapped.
    unsafe {
        asm!("mrs {}, ctr_el0", out(reg) kind, options(nomem, nostack));
        let (data, code) = (4_u64 << (kind >> 16 & 15), 4_u64 << (kind & 15));
        let mut line = start & !(data - 1);
        while line < start + size {
            asm!("dc cvau, {}", in(reg) line, options(nostack));
            line += data;
        }
        asm!("dsb ish", options(nostack));
        line = start & !(code - 1);
        while line < start + size {
            asm!("ic ivau, {}", in(reg) line, options(nostack));
            line += code;
        }
        asm!("dsb ish", "isb", options(nostack));
    }
}

/// So much was stored there, to be executed.
pub(crate) fn stored(address: u64, size: u64) {
    fetch_anew(address, size);
}

/// A function, `mov w0, #number; ret`.
pub(crate) fn answer(number: u8) -> [u8; 8] {
    (0xd65f_03c0_u64 << 32 | 0x5280_0000 | u64::from(number) << 5).to_le_bytes()
}

/// Where the breakpoint is that a thread has run into, by the context of its signal.
///
/// # Safety
///
/// It's the context of a signal handler.
pub(crate) unsafe fn place_of_trap(context: *mut c_void) -> u64 {
    // SAFETY: the caller promises that it's the context of a signal handler.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.pc }
}

/// Makes the thread go on at `address` when the handler returns.
///
/// # Safety
///
/// As above.
pub(crate) unsafe fn go_on(context: *mut c_void, address: u64) {
    // SAFETY: the caller promises that it's the context of a signal handler.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.pc = address };
}
