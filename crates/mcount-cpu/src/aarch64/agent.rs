//! AArch64: what the agent has to know of the processor besides its assembly.
#![expect(unsafe_code, reason = "memory is read and written whose place is in registers")]

use crate::counters::Counters;
use crate::linked::{self, Call, Link, NoRegister};
pub use crate::linked::{marker, saved};
pub use crate::newer_calls::{
    GET_ROBUST_LIST, PERF_EVENT_OPEN, PRCTL as SYS_PRCTL, PROCESS_VM_READV as READ_MEMORY,
    SECCOMP as SYS_SECCOMP,
};
use core::arch::asm;

const _: () = assert!(linked::is_as_in(super::CALL));

/// The numbers in DWARF of the registers that a landing finds data in.
pub const DATA_REGISTERS: [i32; 2] = [0, 1];
/// Functions return to routines.
pub const RETURN_IN_STUB: Option<u64> = None;
/// Where a result in memory goes is said by `x8`, which functions don't keep.
pub const PLACE_OF_RESULT: Option<unsafe fn(*const u8) -> u64> = Some(place_of_result);
/// No register is left for a thread's block.
pub const BLOCK_REGISTER: Option<NoRegister> = None;

/// Programs may read counters if the kernel lets them (`kernel.perf_user_access`). It takes 64 bits of them, or else 32, as the processor
/// has them (`Documentation/arch/arm64/perf.rst`, "Perf Userspace PMU Hardware Counter Access").
pub const COUNTERS: Option<Counters> =
    Some(Counters { read, config1: &[3, 2], open: PERF_EVENT_OPEN });

/// `PMCCNTR_EL0` is number 31, `PMEVCNTR<n>_EL0` the others.
unsafe fn read(number: u32) -> u64 {
    macro_rules! registers {
        ($($number:literal)*) => {
            match number {
                $($number => {
                    let found: u64;
                    // SAFETY: the caller promises that the kernel lets this thread read it.
                    unsafe {
                        asm!(concat!("mrs {}, pmevcntr", $number, "_el0"), out(reg) found,
                            options(nomem, nostack));
                    }
                    found
                })*
                _ => {
                    let found: u64;
                    // SAFETY: as above.
                    unsafe { asm!("mrs {}, pmccntr_el0", out(reg) found, options(nomem, nostack)) };
                    found
                }
            }
        };
    }
    registers!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30)
}

#[expect(clippy::cast_ptr_alignment, reason = "the routine has aligned the call")]
unsafe fn place_of_result(state: *const u8) -> u64 {
    const PLACE: usize = 8;
    // SAFETY: the caller promises that the routine has made the call.
    unsafe { (*state.cast::<Call>()).registers[PLACE] }
}

/// A call whose hook is behind its function's prologue.
pub type LateCall = linked::LateCall<Signed>;

/// Functions may sign it.
#[derive(Debug)]
pub enum Signed {}

impl Link for Signed {
    #[inline]
    fn kept(call: &Call, mut address: u64) -> u64 {
        /// Of the record's frame: the caller's address was signed.
        const IS_SIGNED: u64 = 1 << 63;
        // SAFETY: the record is in a stub.
        if unsafe { (*call.record).frame } & IS_SIGNED != 0 {
            // SAFETY: pacia1716, which does nothing on older processors: as the function's own prologue has signed it.
            unsafe {
                asm!("hint #8", inout("x17") address, in("x16") call.stack, options(nomem, nostack));
            }
        }
        address
    }
}

/// Copies as `memcpy` does.
///
/// # Safety
///
/// As of that.
pub unsafe fn copy(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: the caller promises that both have that many bytes, and that they don't overlap. Not in Rust, of which the compiler would make a call of `memcpy`.
    unsafe {
        asm!("cbz {count}, 3f", "2: ldrb {byte:w}, [{from}], #1", "strb {byte:w}, [{to}], #1",
            "sub {count}, {count}, #1", "cbnz {count}, 2b", "3:", count = inout(reg) count => _,
            from = inout(reg) from => _, to = inout(reg) to => _, byte = out(reg) _,
            options(nostack, preserves_flags));
    }
}

/// The same, the last byte first.
///
/// # Safety
///
/// As above.
pub unsafe fn copy_backwards(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: the caller promises that both have that many bytes.
    unsafe {
        asm!("cbz {count}, 3f", "2: ldrb {byte:w}, [{from}, #-1]!", "strb {byte:w}, [{to}, #-1]!",
            "sub {count}, {count}, #1", "cbnz {count}, 2b", "3:", count = inout(reg) count => _,
            from = inout(reg) from.wrapping_add(count) => _, to = inout(reg) to.wrapping_add(count) => _,
            byte = out(reg) _, options(nostack, preserves_flags));
    }
}

/// Fills memory as `memset` does.
///
/// # Safety
///
/// As of that.
pub unsafe fn fill(to: *mut u8, value: u8, count: usize) {
    // SAFETY: the caller promises that `to` has that many bytes, which may be written.
    unsafe {
        asm!("cbz {count}, 3f", "2: strb {value:w}, [{to}], #1", "sub {count}, {count}, #1",
            "cbnz {count}, 2b", "3:", count = inout(reg) count => _, to = inout(reg) to => _,
            value = in(reg) u32::from(value), options(nostack, preserves_flags));
    }
}
