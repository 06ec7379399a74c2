//! x86-64: what the agent has to know of the processor besides its assembly. `%gs` leads to a thread's block.
#![expect(clippy::cast_possible_truncation, reason = "there are few registers")]
#![expect(unsafe_code, reason = "memory is read and written whose place is in registers")]

use crate::counters::Counters;
use crate::marker::{Marker, NOTED, UNIT};
use crate::recipe::{RAX, RDX, VECTOR, X87};
use core::arch::asm;

/// System calls with which a program forbids itself others.
pub const SYS_PRCTL: u64 = 157;
/// The other one.
pub const SYS_SECCOMP: u64 = 317;
/// `get_robust_list`.
pub const GET_ROBUST_LIST: u64 = 274;
/// `process_vm_readv`.
pub const READ_MEMORY: u64 = 310;

/// The numbers in DWARF of the registers that a landing finds data in.
pub const DATA_REGISTERS: [i32; 2] = [0, 1];
/// Where in a stub functions return to.
pub const RETURN_IN_STUB: Option<u64> = Some(super::code::STUB_RETURN as u64);
/// Functions return where a result in memory is.
pub const PLACE_OF_RESULT: Option<unsafe fn(*const u8) -> u64> = None;

/// Programs read counters by an instruction.
pub const COUNTERS: Option<Counters> = Some(Counters { read, config1: &[0], open: 298 });

unsafe fn read(number: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the caller promises that the kernel lets this thread read it.
    unsafe {
        asm!("rdpmc", in("ecx") number, out("eax") low, out("edx") high, options(nomem, nostack));
    };
    u64::from(high) << 32 | u64::from(low)
}

/// What leads to a thread's block.
pub const BLOCK_REGISTER: Option<BlockRegister> = Some(BlockRegister);

/// `%gs`.
#[derive(Debug, Clone, Copy)]
pub struct BlockRegister;

impl BlockRegister {
    /// The word of the block that's so many bytes behind its start.
    ///
    /// # Safety
    ///
    /// It leads to a block.
    #[inline]
    #[must_use]
    pub unsafe fn word<const OFFSET: usize>(self) -> u64 {
        let found: u64;
        // SAFETY: the caller promises that it leads to a block.
        unsafe {
            asm!("mov {}, gs:[{offset}]", out(reg) found, offset = const OFFSET,
                options(nostack, readonly));
        }
        found
    }

    /// Makes it lead to `block`. The kernel lets programs do that themselves, or else it's asked.
    ///
    /// # Safety
    ///
    /// The block lives as long as the thread.
    #[inline]
    pub unsafe fn set(self, block: u64, is_allowed: bool) {
        const ARCH_PRCTL: u64 = 158;
        const ARCH_SET_GS: u64 = 0x1001;
        if is_allowed {
            // SAFETY: the caller promises that the kernel allows it.
            unsafe { asm!("wrgsbase {}", in(reg) block, options(nostack)) };
        } else {
            // SAFETY: the caller promises that it lives as long as the thread.
            unsafe { super::syscalls::call(ARCH_PRCTL, [ARCH_SET_GS, block, 0, 0, 0, 0]) };
        }
    }
}

/// A call whose hook is behind its function's prologue.
#[derive(Debug)]
pub struct LateCall {
    /// The slot.
    pub slot: *mut u64,
    /// Where its function returns to.
    pub caller: u64,
    /// Its function's number, and above it what it is for what is recorded.
    pub word: u32,
}

impl LateCall {
    /// That of a slot.
    ///
    /// # Safety
    ///
    /// The routine of such entries has called with these arguments.
    #[inline]
    #[must_use]
    pub unsafe fn of(slot: *mut u64, word: u32) -> Self {
        // SAFETY: the caller promises that it's a slot of this thread's.
        Self { slot, caller: unsafe { slot.read_volatile() }, word }
    }

    /// The function returns to `address`.
    ///
    /// # Safety
    ///
    /// The call is under way.
    #[inline]
    pub unsafe fn return_to(&self, address: u64) {
        // SAFETY: the caller promises that the slot is there.
        unsafe { self.slot.write_volatile(address) };
    }
}

/// Where the value of a source of recipes was saved, and how many bytes that are: general registers below the slot, the others by FXSAVE
/// at `state`.
///
/// # Safety
///
/// A routine has saved them.
#[must_use]
pub unsafe fn saved(slot: u64, state: *const u8, source: u64) -> (*const u8, usize) {
    /// Where in what FXSAVE keeps the registers are.
    const OF_X87: usize = 32;
    const OF_VECTORS: usize = 160;
    /// How many bytes below the slot the entry of a call saves %rdi, %rsi, %rdx, %rcx, %r8 and %r9; its exit %rax and
    /// %rdx. See `ENTER`, `SLOW`, `KEPT` and `EXIT_BODY` in `call.s`.
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

/// The marker that a thread passes, by what `mcount_marker` has saved at `frame`, and FXSAVE at `state`.
///
/// # Safety
///
/// That routine calls, from the unit of a marker.
#[must_use]
pub unsafe fn marker(frame: *const u64, state: *const u8) -> Option<Marker> {
    /// Sixteen registers and the flags are before the return address.
    const RETURN: usize = 17;
    const OF_VECTORS: usize = 160;
    /// The unit's code leaves the bytes below the stack pointer alone.
    const RED_ZONE: usize = 128;
    // SAFETY: the caller promises that the routine has saved all that, and that a unit has called it.
    unsafe {
        let unit = *frame.add(RETURN) & !(UNIT - 1);
        let noted = (unit + NOTED) as *const u64;
        Some(Marker {
            site: *noted,
            id: *noted.add(1) as u32,
            stack: frame.add(RETURN + 1) as u64 + RED_ZONE as u64,
            general: frame,
            vectors: state.add(OF_VECTORS),
        })
    }
}

/// Copies as `memcpy` does.
///
/// # Safety
///
/// As of that.
pub unsafe fn copy(to: *mut u8, from: *const u8, count: usize) {
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
pub unsafe fn copy_backwards(to: *mut u8, from: *const u8, count: usize) {
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
pub unsafe fn fill(to: *mut u8, value: u8, count: usize) {
    // SAFETY: the caller promises that `to` has that many bytes, which may be written.
    unsafe {
        asm!("rep stosb", inout("rcx") count => _, inout("rdi") to => _, in("al") value,
            options(nostack, preserves_flags));
    }
}
