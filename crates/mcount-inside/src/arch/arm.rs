//! Arm with 32 bits: the routines in `arm.s`, what they need to know of the processor, and each thread's own memory.
//!
//! The *slot* of a call is the word below the stack pointer at the entry. Nothing of the program's is there yet, and when
//! the function has returned, nothing is there any more.

pub(crate) use super::usual::{fetch_anew_everywhere, late_return, show_vectors};
use crate::error::{Error, ErrorKind, Result};
use crate::record::{Call, Record};
use code::{Area, THUMB, Unusable};
pub(crate) use mcount_cpu::arm::code;
use std::ffi::c_void;
use std::mem::offset_of;
use std::ops::Range;

unsafe extern "C" {
    fn mcount_inside_memory() -> *mut c_void;
    fn mcount_inside_block_word() -> *mut *mut c_void;
}

/// Between an idle site and an armed one, while threads run.
pub(crate) use code::AT_ONCE;

/// Code is written by stores of words and halfwords.
pub(crate) const STORE: usize = 4;
/// The kernel may copy a halfword as two bytes.
pub(crate) const IS_STORED_BY_KERNEL: bool = false;
/// Memory is asked for in multiples of this.
pub(crate) const PAGE: u64 = 4096;
/// How far a jump reaches.
pub(crate) use code::REACH;

/// This thread's memory.
pub(super) fn memory() -> *mut c_void {
    // SAFETY: it only says where that is.
    unsafe { mcount_inside_memory() }
}

/// Where this thread keeps which block of the trace is its own.
pub(super) fn block_word() -> *mut *mut c_void {
    // SAFETY: as above.
    unsafe { mcount_inside_block_word() }
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
    /// `bx pc; nop` in Thumb code, before such an entry.
    const CHANGE: u32 = 0x46c0_4778;
    let is_thumb = address & THUMB != 0;
    let start = address & !THUMB;
    // SAFETY: the caller's; it may be aligned to two bytes.
    let word = |at: u64| unsafe { (at as *const u32).read_unaligned() };
    if is_thumb && word(start) != CHANGE {
        return None;
    }
    let entry = if is_thumb { start + 4 } else { start };
    let [first, second, load] = [0, 4, 8].map(|at| word(entry + at));
    // add ip, pc, #n; add ip, ip, #n; ldr pc, [ip, #n]!
    let is_entry = first >> 12 == 0xe28fc && second >> 12 == 0xe28cc && load >> 12 == 0xe5bcf;
    let number = |word: u32| u64::from((word & 0xff).rotate_right(word >> 7 & 0x1e));
    let cell = entry + 8 + number(first) + number(second) + u64::from(load & 0xfff);
    // SAFETY: such an instruction reads its cell.
    is_entry.then(|| u64::from(unsafe { ((cell & 0xffff_ffff) as *const u32).read_volatile() }))
}

/// Has `act` done, if all areas can be changed while other threads run.
///
/// # Errors
///
/// A thread may be between two instructions of one. `act` wasn't called then.
pub(crate) fn while_none_is_inside<T>(areas: &[(u64, u64)], act: impl FnOnce() -> T) -> Result<T> {
    let is_one = |(start, end): &(u64, u64)| {
        // SAFETY: a site is there.
        let first = unsafe { (*start as *const [u8; 4]).read_unaligned() };
        code::is_one_instruction(&first, usize::try_from(end - start).unwrap_or(0))
    };
    if areas.iter().all(is_one) {
        return Ok(act());
    }
    let text = "other threads run, and may be inside a hook: call mcount_prepare before there are any, or compile with \
        -fpatchable-function-entry=3,2, or with -marm -fpatchable-function-entry=1";
    Err(Error::new(ErrorKind::Threads, text))
}

/// The compiler's code at the start of `code`, and in `before`.
pub(crate) fn area(before: &[u8], code: &[u8]) -> std::result::Result<Area, Unusable> {
    Area::find(before, code)
}

/// Bytes of the area before the hook.
pub(crate) fn before(area: &Area) -> u64 {
    area.before as u64
}

/// Why this area can be armed, and made idle again, only while the program has one thread.
pub(crate) fn wants_one_thread(area: &Area) -> Option<&'static str> {
    let text = "other threads run, and may execute half of a hook that's four bytes of Thumb code: compile with \
        -fpatchable-function-entry=3,2";
    (!area.is_exchangeable()).then_some(text)
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

/// The address of code of this area, as a pointer to a function has it.
pub(crate) fn pointer(area: &Area, address: u64) -> u64 {
    if area.is_thumb() { address | THUMB } else { address }
}

/// The stub of a site with this record, and where the function is called behind its hook.
pub(crate) fn stub(_: u64, record: u64, body: u64) -> Option<([u8; code::RECORD_STUB], u64)> {
    let enter = u8::try_from(offset_of!(Record, enter)).ok()?;
    Some((code::record_stub(record, enter, body)?, body))
}

/// What has to be known of the frame of a function whose hook is behind its prologue, `distance` bytes after the start
/// of `code`: how far below its place at the entry the stack pointer is, and how far above it the caller's address, and
/// one; 0: it's in `lr` only.
pub(crate) fn frame(code: &[u8], distance: u64) -> u64 {
    let before = usize::try_from(distance).ok().and_then(|distance| code.get(..distance));
    let frame = before.and_then(code::frame);
    frame.map_or(0, |frame| {
        u64::from(frame.depth) << 32 | frame.link.map_or(0, |link| u64::from(link) + 1)
    })
}

/// Has the function that's entered return to `address`: by `lr`, and by where its prologue has stored it.
///
/// # Safety
///
/// The call is one of the assembly's.
#[expect(clippy::cast_possible_truncation, reason = "addresses have 32 bits")]
pub(crate) unsafe fn return_to(call: &Call, address: u64) {
    // SAFETY: the caller's: both are in frames of this thread's.
    unsafe {
        call.link.cast::<u32>().write_volatile(address as u32);
        if call.saved != 0 {
            (call.saved as *mut u32).write_volatile(address as u32);
        }
    }
}

/// Makes processors fetch anew what was written as code at `start`, `size` bytes of it. Others have to go through a context
/// synchronization event besides.
pub(crate) fn fetch_anew(start: u64, size: u64) {
    /// Linux's `cacheflush`: only the kernel may.
    const CACHE_FLUSH: u64 = 0xf_0002;
    // SAFETY: only caches are concerned.
    unsafe { mcount_cpu::here::syscalls::call(CACHE_FLUSH, [start, start + size, 0, 0, 0, 0]) };
}

/// So much was stored there, to be executed.
pub(crate) fn stored(address: u64, size: u64) {
    fetch_anew(address, size);
}

/// A function, `mov r0, #number; bx lr`.
pub(crate) fn answer(number: u8) -> [u8; 8] {
    (0xe12f_ff1e_u64 << 32 | 0xe3a0_0000 | u64::from(number)).to_le_bytes()
}

/// Where the breakpoint is that a thread has run into, by the context of its signal.
///
/// # Safety
///
/// It's the context of a signal handler.
pub(crate) unsafe fn place_of_trap(context: *mut c_void) -> u64 {
    // SAFETY: the caller promises that it's the context of a signal handler.
    u64::from(unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.arm_pc })
}

/// Makes the thread go on at `address` when the handler returns.
///
/// # Safety
///
/// As above.
#[expect(clippy::cast_possible_truncation, reason = "addresses have 32 bits")]
pub(crate) unsafe fn go_on(context: *mut c_void, address: u64) {
    // SAFETY: the caller promises that it's the context of a signal handler.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.arm_pc = address as u32 };
}
