//! x86-64: the routines in `x86_64.s`, what they need to know of the processor, and each thread's own memory.
//!
//! That memory is ELF thread-local storage in the initial-exec model: one instruction finds it, and nothing is
//! allocated when a thread comes first. The price is that `libmcount-live.so`, if it's opened by `dlopen`, takes 64 bytes
//! of what the C library keeps for such libraries.

mod stop;

pub(crate) use super::usual::{fetch_anew_everywhere, stub};
use crate::error::Result;
use crate::record::Call;
use mcount_cpu::here::syscalls::call;
pub(crate) use mcount_cpu::x86_64::code;
use std::arch::asm;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

unsafe extern "C" {
    static mcount_pg_return: u8;
}

/// Which vector registers there are, as `x86_64.s` numbers it: `%xmm`, `%ymm`, `%zmm`.
pub(crate) static VECTORS: AtomicU32 = AtomicU32::new(0);
/// Bytes that XSAVE needs for the state of `x86_64.s`; 0: it can't be used.
pub(crate) static AREA: AtomicU64 = AtomicU64::new(0);
/// How many vector registers calls of handlers show: `%xmm0` to this.
pub(super) const SHOWN: usize = 16;

/// Between an idle site and an armed one, while threads run.
pub(crate) use code::BY_ONE_BYTE as AT_ONCE;

/// Code is written as bytes, many at once.
pub(crate) const STORE: usize = 0;
/// The kernel may write it as it likes.
pub(crate) const IS_STORED_BY_KERNEL: bool = true;
/// The numbers in DWARF of the registers that a landing finds data in.
pub(crate) const DATA_REGISTERS: [c_int; 2] = [0, 1];
/// Memory is asked for in multiples of this.
pub(crate) const PAGE: u64 = 4096;
/// How far a jump reaches.
pub(crate) const REACH: u64 = 1 << 31;

/// This thread's memory.
pub(super) fn memory() -> *mut c_void {
    let found: u64;
    // SAFETY: reads the address of thread-local storage as its psABI has it ("initial exec").
    unsafe {
        asm!("mov {0}, qword ptr [rip + mcount_inside_thread@GOTTPOFF]", "add {0}, qword ptr fs:[0]",
            out(reg) found, options(nostack, pure, readonly));
    }
    found as *mut c_void
}

/// Where a traced function returns to that has its hook after the prologue.
pub(crate) fn late_return() -> u64 {
    (&raw const mcount_pg_return) as u64
}

/// Where this thread keeps which block of the trace is its own.
pub(super) fn block_word() -> *mut *mut c_void {
    let found: u64;
    // SAFETY: as of `thread`.
    unsafe {
        asm!("mov {0}, qword ptr [rip + mcount_inside_block@GOTTPOFF]", "add {0}, qword ptr fs:[0]",
            out(reg) found, options(nostack, pure, readonly));
    }
    found as *mut *mut c_void
}

/// Finds out what the processor has. Called before anything is armed.
pub(crate) fn prepare() {
    const OSXSAVE: u32 = 1 << 27;
    const COMPONENTS: [u32; 4] = [2, 5, 6, 7];
    let [_, _, features, _] = processor_leaf(1, 0);
    if features & OSXSAVE == 0 {
        return;
    }
    let end = |part: &u32| {
        let [size, offset, _, _] = processor_leaf(13, *part);
        size + offset
    };
    let size = COMPONENTS.iter().map(end).max().unwrap_or(0).max(576).next_multiple_of(64);
    AREA.store(u64::from(size), Relaxed);
    let has_masks = is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512f");
    VECTORS.store(if has_masks { 2 } else { u32::from(is_x86_feature_detected!("avx")) }, Relaxed);
}

/// What CPUID says: `eax`, `ebx`, `ecx`, `edx`.
fn processor_leaf(leaf: u32, part: u32) -> [u32; 4] {
    let (low, high, third, fourth): (u32, u64, u32, u32);
    // SAFETY: every x86-64 processor has this instruction. The compiler keeps %rbx for itself.
    unsafe {
        asm!("mov {0}, rbx", "cpuid", "xchg {0}, rbx", out(reg) high, inout("eax") leaf => low,
            inout("ecx") part => third, out("edx") fourth, options(nomem, nostack, preserves_flags));
    }
    [low, u32::try_from(high & 0xffff_ffff).unwrap_or(0), third, fourth]
}

/// The state that the system lets XSAVE save.
pub(super) fn processor_state() -> usize {
    let (low, high): (u32, u32);
    // SAFETY: XSAVE is there, so XGETBV is.
    unsafe {
        asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack));
    };
    (high as usize) << 32 | low as usize
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

/// Makes a system call, and leaves `errno` alone. An error is `-errno`.
///
/// # Safety
///
/// As of that call.
unsafe fn system_call(number: i64, arguments: [u64; 6]) -> i64 {
    // SAFETY: the caller promises that this system call may be made with these arguments.
    unsafe { call(number.cast_unsigned(), arguments) }
}

/// Has `act` done while no other thread runs or is inside one of `areas`, which are in ascending order. It must not
/// allocate anything, or take a lock.
///
/// # Errors
///
/// The threads can't be stopped; `act` wasn't called then.
pub(crate) fn while_none_is_inside<T>(areas: &[(u64, u64)], act: impl FnOnce() -> T) -> Result<T> {
    stop::while_stopped(areas, act)
}

/// Nothing has to be known of a frame: its slot is above `%rbp`.
pub(crate) fn frame(_: &[u8], _: u64) -> u64 {
    0
}

/// Has the function that's entered return to `address`.
///
/// # Safety
///
/// The call is one of the assembly's.
pub(crate) unsafe fn return_to(call: &Call, address: u64) {
    // SAFETY: the caller's: the slot is on its stack.
    unsafe { (call.stack as *mut u64).write_volatile(address) };
}

/// A function, `mov $number, %eax; ret`.
pub(crate) fn answer(number: u8) -> [u8; 8] {
    [0xb8, number, 0, 0, 0, 0xc3, 0xcc, 0xcc]
}

/// Instructions are fetched from where they were written to.
pub(crate) fn fetch_anew(_: u64, _: u64) {}

/// So much was stored there, to be executed.
pub(crate) fn stored(_: u64, _: u64) {}

/// The registers of a thread that stands.
struct Stopped([u64; 27]);

impl Stopped {
    const PLACE: usize = 16;
    const STACK: usize = 19;

    /// Reads them.
    ///
    /// # Safety
    ///
    /// The caller is the thread's tracer, and it stands.
    unsafe fn of(thread: u64) -> Option<Self> {
        const PTRACE_GETREGS: u64 = 12;
        let mut registers = [0; 27];
        let place = registers.as_mut_ptr() as u64;
        // SAFETY: the kernel writes 27 words (`struct user_regs_struct`).
        let result =
            unsafe { system_call(libc::SYS_ptrace, [PTRACE_GETREGS, thread, 0, place, 0, 0]) };
        (result == 0).then_some(Self(registers))
    }

    /// The next instruction.
    fn place(&self) -> u64 {
        self.0.get(Self::PLACE).copied().unwrap_or(0)
    }

    /// The stack pointer.
    fn stack(&self) -> u64 {
        self.0.get(Self::STACK).copied().unwrap_or(0)
    }

    /// Makes the thread go on at `address`.
    ///
    /// # Safety
    ///
    /// As above.
    unsafe fn go_on_at(&mut self, thread: u64, address: u64) {
        const PTRACE_SETREGS: u64 = 13;
        if let Some(place) = self.0.get_mut(Self::PLACE) {
            *place = address;
        }
        let place = self.0.as_ptr() as u64;
        // SAFETY: the kernel reads 27 words.
        unsafe { system_call(libc::SYS_ptrace, [PTRACE_SETREGS, thread, 0, place, 0, 0]) };
    }
}

/// Bytes of the frame of a signal, up to the registers of the code that it has interrupted: the return address, and
/// the first part of `ucontext_t`.
const SIGNAL_FRAME: u64 = 184;

/// Does a signal handler return to this code? It makes the system call `rt_sigreturn`.
///
/// # Safety
///
/// The code can be read.
unsafe fn is_signal_return(code: u64) -> bool {
    const LONG: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
    const SHORT: [u8; 7] = [0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05];
    let is = |bytes: &[u8]| {
        (code..).zip(bytes).all(|(at, byte)| {
            // SAFETY: the caller's. The first byte that differs ends it.
            *byte == unsafe { (at as *const u8).read_volatile() }
        })
    };
    is(&LONG) || is(&SHORT)
}

/// Where the frame of a signal at `frame` has the next instruction of the code that was interrupted, and that code's
/// stack pointer.
///
/// # Safety
///
/// There is such a frame.
unsafe fn interrupted(frame: u64) -> (*mut usize, u64) {
    const STACK: u64 = 168;
    const PLACE: u64 = 176;
    // SAFETY: the caller promises that there is such a frame.
    ((frame + PLACE) as *mut usize, unsafe { ((frame + STACK) as *const u64).read_volatile() })
}

/// Where the breakpoint is that a thread has run into, by the context of its signal.
///
/// # Safety
///
/// It's the context of a signal handler.
pub(crate) unsafe fn place_of_trap(context: *mut c_void) -> u64 {
    // SAFETY: the caller promises that it's the context of a signal handler.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    let place = context.uc_mcontext.gregs.get(libc::REG_RIP as usize).copied().unwrap_or(0);
    place.cast_unsigned().wrapping_sub(1)
}

/// Makes the thread go on at `address` when the handler returns.
///
/// # Safety
///
/// As above.
pub(crate) unsafe fn go_on(context: *mut c_void, address: u64) {
    // SAFETY: the caller promises that it's the context of a signal handler.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    if let Some(place) = context.uc_mcontext.gregs.get_mut(libc::REG_RIP as usize) {
        *place = address.cast_signed();
    }
}
