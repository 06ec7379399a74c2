//! 64-bit PowerPC: what the agent has to know of the processor besides its assembly.
#![expect(unsafe_code, reason = "memory is read and written whose place is in registers")]

use crate::counters::Counters;
use crate::linked::{self, NoRegister, Plain};
pub use crate::linked::{marker, saved};
use core::arch::asm;

const _: () = assert!(linked::is_as_in(super::CALL));

/// System calls with which a program forbids itself others.
pub const SYS_PRCTL: u64 = 171;
/// The other one.
pub const SYS_SECCOMP: u64 = 358;
/// `process_vm_readv`.
pub const READ_MEMORY: u64 = 351;
/// `get_robust_list`.
pub const GET_ROBUST_LIST: u64 = 299;

/// The numbers in DWARF of the registers that a landing finds data in.
pub const DATA_REGISTERS: [i32; 2] = [3, 4];
/// Functions return to routines.
pub const RETURN_IN_STUB: Option<u64> = None;
/// Where a result in memory goes is the first argument.
pub const PLACE_OF_RESULT: Option<unsafe fn(*const u8) -> u64> = None;
/// Programs can't tell whose events a counter has.
pub const COUNTERS: Option<Counters> = None;
/// No register is left for a thread's block.
pub const BLOCK_REGISTER: Option<NoRegister> = None;

/// A call whose hook is behind its function's prologue.
pub type LateCall = linked::LateCall<Plain>;

/// Copies as `memcpy` does.
///
/// # Safety
///
/// As of that.
pub unsafe fn copy(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: the caller promises that both have that many bytes, and that they don't overlap. Not in Rust, of which the compiler would make a call of `memcpy`.
    unsafe {
        asm!("cmpldi {count}, 0", "beq 3f", "2: lbz {byte}, 0({from})", "stb {byte}, 0({to})", "addi {from}, {from}, 1",
            "addi {to}, {to}, 1", "addi {count}, {count}, -1", "cmpldi {count}, 0", "bne 2b", "3:",
            count = inout(reg_nonzero) count => _, from = inout(reg_nonzero) from => _, to = inout(reg_nonzero) to => _,
            byte = out(reg) _, out("cr0") _, options(nostack));
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
        asm!("cmpldi {count}, 0", "beq 3f", "2: addi {from}, {from}, -1", "addi {to}, {to}, -1", "lbz {byte}, 0({from})",
            "stb {byte}, 0({to})", "addi {count}, {count}, -1", "cmpldi {count}, 0", "bne 2b", "3:",
            count = inout(reg_nonzero) count => _, from = inout(reg_nonzero) from.wrapping_add(count) => _,
            to = inout(reg_nonzero) to.wrapping_add(count) => _, byte = out(reg) _, out("cr0") _, options(nostack));
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
        asm!("cmpldi {count}, 0", "beq 3f", "2: stb {value}, 0({to})", "addi {to}, {to}, 1", "addi {count}, {count}, -1",
            "cmpldi {count}, 0", "bne 2b", "3:", count = inout(reg_nonzero) count => _, to = inout(reg_nonzero) to => _,
            value = in(reg) u64::from(value), out("cr0") _, options(nostack));
    }
}
