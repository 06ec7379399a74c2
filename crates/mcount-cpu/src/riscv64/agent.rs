//! RISC-V: what the agent has to know of the processor besides its assembly.
#![expect(unsafe_code, reason = "memory is read and written whose place is in registers")]

use crate::counters::Counters;
use crate::linked::{self, NoRegister, Plain};
pub use crate::linked::{marker, saved};
pub use crate::newer_calls::{
    GET_ROBUST_LIST, PRCTL as SYS_PRCTL, PROCESS_VM_READV as READ_MEMORY, SECCOMP as SYS_SECCOMP,
};
use core::arch::asm;

const _: () = assert!(linked::is_as_in(super::CALL));

/// The numbers in DWARF of the registers that a landing finds data in.
pub const DATA_REGISTERS: [i32; 2] = [10, 11];
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
        asm!("beqz {count}, 3f", "2: lbu {byte}, 0({from})", "sb {byte}, 0({to})", "addi {from}, {from}, 1",
            "addi {to}, {to}, 1", "addi {count}, {count}, -1", "bnez {count}, 2b", "3:",
            count = inout(reg) count => _, from = inout(reg) from => _, to = inout(reg) to => _, byte = out(reg) _,
            options(nostack));
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
        asm!("beqz {count}, 3f", "2: addi {from}, {from}, -1", "addi {to}, {to}, -1", "lbu {byte}, 0({from})",
            "sb {byte}, 0({to})", "addi {count}, {count}, -1", "bnez {count}, 2b", "3:",
            count = inout(reg) count => _, from = inout(reg) from.wrapping_add(count) => _,
            to = inout(reg) to.wrapping_add(count) => _, byte = out(reg) _, options(nostack));
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
        asm!("beqz {count}, 3f", "2: sb {value}, 0({to})", "addi {to}, {to}, 1", "addi {count}, {count}, -1",
            "bnez {count}, 2b", "3:", count = inout(reg) count => _, to = inout(reg) to => _,
            value = in(reg) u64::from(value), options(nostack));
    }
}
