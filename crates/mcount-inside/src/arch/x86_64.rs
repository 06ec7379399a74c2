//! x86-64: the routines in `x86_64.s`, what they need to know of the processor, and each thread's own memory.
//!
//! That memory is ELF thread-local storage in the initial-exec model: one instruction finds it, and nothing is
//! allocated when a thread comes first. The price is that `libmcount-live.so`, if it's opened by `dlopen`, takes 64 bytes
//! of what the C library keeps for such libraries.

use crate::record::{Call, Vector, flags};
use std::arch::{asm, x86_64 as processor};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

unsafe extern "C" {
    fn mcount_inside_pass();
    fn mcount_inside_enter();
    fn mcount_inside_enter_late();
    fn mcount_inside_landing();
    static mcount_inside_return: u8;
}

/// Which vector registers there are, as `x86_64.s` numbers it: `%xmm`, `%ymm`, `%zmm`.
pub(crate) static VECTORS: AtomicU32 = AtomicU32::new(0);
/// Bytes that XSAVE needs for the state of `x86_64.s`; 0: it can't be used.
pub(crate) static AREA: AtomicU64 = AtomicU64::new(0);
/// How `x86_64.s` says that it has used XSAVE.
const BY_XSAVE: u64 = 3;
const BY_FXSAVE: u64 = 4;

/// A thread's own memory; all zeroes at first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Thread {
    /// A handler runs.
    pub(crate) is_busy: u64,
    /// The range of stack whose shadows are known to be mapped: lowest address, and bytes.
    pub(crate) low: u64,
    pub(crate) size: u64,
}

/// This thread's memory.
pub(crate) fn thread() -> *mut Thread {
    let found: u64;
    // SAFETY: reads the address of thread-local storage as its psABI has it ("initial exec").
    unsafe {
        asm!("mov {0}, qword ptr [rip + mcount_inside_thread@GOTTPOFF]", "add {0}, qword ptr fs:[0]",
            out(reg) found, options(nostack, pure, readonly));
    }
    found as *mut Thread
}

/// The routine of sites that only lead elsewhere.
pub(crate) fn pass() -> u64 {
    mcount_inside_pass as *const () as u64
}

/// The routine of watched functions.
pub(crate) fn enter() -> u64 {
    mcount_inside_enter as *const () as u64
}

/// The routine of those with their hook behind the prologue.
pub(crate) fn enter_late() -> u64 {
    mcount_inside_enter_late as *const () as u64
}

/// Where exceptions go that pass through a watched call.
pub(crate) fn landing() -> u64 {
    mcount_inside_landing as *const () as u64
}

/// Where a watched function returns to.
pub(crate) fn return_address() -> u64 {
    (&raw const mcount_inside_return) as u64
}

/// Is it an address that a watched function returns to?
pub(crate) fn is_return(address: u64) -> bool {
    address == return_address()
}

/// Finds out what the processor has. Called before anything is armed.
pub(crate) fn prepare() {
    const OSXSAVE: u32 = 1 << 27;
    const COMPONENTS: [u32; 4] = [2, 5, 6, 7];
    // Reading features is safe from some version of Rust on; before, it's unsafe.
    let leaf = |leaf, part| {
        #[allow(unused_unsafe, reason = "safe in newer versions of Rust")]
        // SAFETY: every x86-64 processor has this instruction.
        unsafe {
            processor::__cpuid_count(leaf, part)
        }
    };
    if leaf(1, 0).ecx & OSXSAVE == 0 {
        return;
    }
    let size = COMPONENTS.iter().map(|part| leaf(13, *part)).map(|part| part.eax + part.ebx);
    let size = size.max().unwrap_or(0).max(576).next_multiple_of(64);
    AREA.store(u64::from(size), Relaxed);
    let has_masks = is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512f");
    VECTORS.store(if has_masks { 2 } else { u32::from(is_x86_feature_detected!("avx")) }, Relaxed);
}

/// Lets handlers see vector registers, if they have asked for them.
///
/// # Safety
///
/// `call` is one of the assembly's.
pub(crate) unsafe fn show_vectors(call: &mut Call, wanted: u32) {
    /// In the area of FXSAVE and XSAVE: where `%xmm0` is, what is in use, and the upper halves of `%ymm`.
    const LOW: usize = 160;
    const IN_USE: usize = 512;
    const HIGH: usize = 576;
    const BOTH: u64 = 6;
    call.vectors = std::ptr::null_mut();
    call.vectors_high = std::ptr::null_mut();
    let saved = call.saved & 0xffff_ffff;
    if wanted & flags::VECTORS == 0 || ![BY_XSAVE, BY_FXSAVE].contains(&saved) {
        return;
    }
    // SAFETY: the caller's: the area has these parts.
    unsafe {
        call.vectors = call.area.add(LOW).cast::<Vector>();
        if saved == BY_XSAVE {
            // What isn't in use is zero, and used from now on.
            let in_use = call.area.add(IN_USE).cast::<u64>();
            let enabled = processor_state();
            if *in_use & 2 == 0 {
                call.vectors.write_bytes(0, 16);
            }
            if enabled & 4 != 0 {
                call.vectors_high = call.area.add(HIGH).cast::<Vector>();
                if *in_use & 4 == 0 {
                    call.vectors_high.write_bytes(0, 16);
                }
            }
            *in_use |= BOTH & enabled;
        }
    }
}

/// The state that the system lets XSAVE save.
fn processor_state() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: XSAVE is there, so XGETBV is.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack)) };
    u64::from(high) << 32 | u64::from(low)
}

/// Where the code at `address` leads to if it is an entry of a procedure linkage table, as a pointer to a function
/// of a library is in a program that's linked at a fixed address.
///
/// # Safety
///
/// There is code at `address`.
pub(crate) unsafe fn through_linkage(address: u64) -> Option<u64> {
    let mut code = [0_u8; 16];
    // SAFETY: the caller's; entries have 16 bytes.
    unsafe { (address as *const u8).copy_to_nonoverlapping(code.as_mut_ptr(), 16) };
    let rest = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(&code);
    let rest = rest.strip_prefix(&[0xf2]).unwrap_or(rest);
    let [0xff, 0x25, a, b, c, d, ..] = rest else { return None };
    let behind = address + (code.len() - rest.len()) as u64 + 6;
    let cell = behind.wrapping_add_signed(i64::from(i32::from_le_bytes([*a, *b, *c, *d])));
    // SAFETY: such an instruction reads its cell.
    Some(unsafe { (cell as *const u64).read_volatile() })
}
