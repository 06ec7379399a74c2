//! i386: the routines in `i386.s`, what they need to know of the processor, and each thread's own memory.
//!
//! A *slot* is the place of a return address, as on x86-64.

mod stop;

pub(crate) use super::usual::{fetch_anew_everywhere, late_return};
use crate::error::Result;
use crate::record::{Call, Record};
use iced_x86::{Code, Decoder, DecoderOptions};
use mcount_cpu::here::syscalls::call;
pub(crate) use mcount_cpu::i386::code;
use std::arch::asm;
use std::ffi::{c_int, c_long, c_void};
use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

unsafe extern "C" {
    fn mcount_inside_memory() -> *mut c_void;
    fn mcount_inside_block_word() -> *mut *mut c_void;
}

/// Which vector registers there are, as `i386.s` numbers it: `%xmm`, `%ymm`, `%zmm`.
pub(crate) static VECTORS: AtomicU32 = AtomicU32::new(0);
/// Bytes that XSAVE needs for the state of `i386.s`; 0: it can't be used.
pub(crate) static AREA: AtomicU32 = AtomicU32::new(0);
/// How many vector registers calls of handlers show: `%xmm0` to this.
pub(super) const SHOWN: usize = 8;

/// Between an idle site and an armed one, while threads run.
pub(crate) use code::BY_ONE_BYTE as AT_ONCE;

/// Code is written as bytes, many at once.
pub(crate) const STORE: usize = 0;
/// The kernel may write it as it likes.
pub(crate) const IS_STORED_BY_KERNEL: bool = true;
/// The numbers in DWARF of the registers that a landing finds data in.
pub(crate) const DATA_REGISTERS: [c_int; 2] = [0, 2];
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

/// Finds out what the processor has. Called before anything is armed.
pub(crate) fn prepare() {
    const OSXSAVE: u32 = 1 << 27;
    const COMPONENTS: [u32; 4] = [2, 5, 6, 7];
    let [_, _, features] = processor_leaf(1, 0);
    if features & OSXSAVE == 0 {
        return;
    }
    let end = |part: &u32| {
        let [size, offset, _] = processor_leaf(13, *part);
        size + offset
    };
    let size = COMPONENTS.iter().map(end).max().unwrap_or(0).max(576).next_multiple_of(64);
    AREA.store(size, Relaxed);
    let has_masks = is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512f");
    VECTORS.store(if has_masks { 2 } else { u32::from(is_x86_feature_detected!("avx")) }, Relaxed);
}

/// What CPUID says: `eax`, `ebx`, `ecx`.
fn processor_leaf(leaf: u32, part: u32) -> [u32; 3] {
    let (low, high, third): (u32, u32, u32);
    // SAFETY: every processor that Rust compiles for has this instruction. The compiler may keep %ebx for itself.
    unsafe {
        asm!("push ebx", "cpuid", "mov edi, ebx", "pop ebx", out("edi") high, inout("eax") leaf => low,
            inout("ecx") part => third, out("edx") _, options(nomem, preserves_flags));
    }
    [low, high, third]
}

/// The state that the system lets XSAVE save.
pub(super) fn processor_state() -> usize {
    let low: u32;
    // SAFETY: XSAVE is there, so XGETBV is.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") _, options(nomem, nostack)) };
    low as usize
}

/// How many bytes of its arguments a function takes off the stack, and one; 0 if its code doesn't say: it may end with a jump.
pub(crate) fn popped(code: &[u8]) -> u64 {
    let mut decoder = Decoder::new(32, code, DecoderOptions::NONE);
    let bytes = decoder.iter().find_map(|one| match one.code() {
        Code::Retnd => Some(0),
        Code::Retnd_imm16 => Some(one.immediate16()),
        _ => None,
    });
    bytes.map_or(0, |bytes| 1 + u64::from(bytes))
}

/// Facts about a function whose hook is after its prologue: its slot is above `%ebp`.
pub(crate) fn frame(_: &[u8], _: u64) -> u64 {
    0
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
    let rest = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfb]).unwrap_or(&code);
    let [0xff, 0x25, a, b, c, d, ..] = rest else { return None };
    let cell = u32::from_le_bytes([*a, *b, *c, *d]);
    // SAFETY: such an instruction reads its cell.
    Some(u64::from(unsafe { (cell as *const u32).read_volatile() }))
}

/// Makes a system call, and leaves `errno` alone. An error is `-errno`.
///
/// # Safety
///
/// As of that call.
unsafe fn system_call(number: c_long, arguments: [u64; 6]) -> i64 {
    // SAFETY: the caller promises that this system call may be made with these arguments.
    unsafe { call(super::system_call_number(number), arguments) }
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

/// The stub at an address of a site with this record, and where the function is called behind its hook.
pub(crate) fn stub(_: u64, record: u64, body: u64) -> Option<([u8; code::RECORD_STUB], u64)> {
    let enter = u8::try_from(offset_of!(Record, enter)).ok()?;
    Some((code::record_stub(record, enter)?, body))
}

/// Has the function that's entered return to `address`.
///
/// # Safety
///
/// The call is one of the assembly's.
pub(crate) unsafe fn return_to(call: &Call, address: u64) {
    // SAFETY: the caller's: the slot is on its stack.
    unsafe { (call.stack as *mut u32).write_volatile(address as u32) };
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
struct Stopped([u32; 17]);

impl Stopped {
    const PLACE: usize = 12;
    const STACK: usize = 15;

    /// Reads them.
    ///
    /// # Safety
    ///
    /// The caller is the thread's tracer, and it stands.
    unsafe fn of(thread: u64) -> Option<Self> {
        const PTRACE_GETREGS: u64 = 12;
        let mut registers = [0; 17];
        let place = registers.as_mut_ptr() as u64;
        // SAFETY: the kernel writes 17 words (`struct user_regs_struct`).
        let result =
            unsafe { system_call(libc::SYS_ptrace, [PTRACE_GETREGS, thread, 0, place, 0, 0]) };
        (result == 0).then_some(Self(registers))
    }

    /// The next instruction.
    fn place(&self) -> u64 {
        self.0.get(Self::PLACE).copied().map_or(0, u64::from)
    }

    /// The stack pointer.
    fn stack(&self) -> u64 {
        self.0.get(Self::STACK).copied().map_or(0, u64::from)
    }

    /// Makes the thread go on at `address`.
    ///
    /// # Safety
    ///
    /// As above.
    unsafe fn go_on_at(&mut self, thread: u64, address: u64) {
        const PTRACE_SETREGS: u64 = 13;
        if let Some(place) = self.0.get_mut(Self::PLACE) {
            *place = address as u32;
        }
        let place = self.0.as_ptr() as u64;
        // SAFETY: the kernel reads 17 words.
        unsafe { system_call(libc::SYS_ptrace, [PTRACE_SETREGS, thread, 0, place, 0, 0]) };
    }
}

/// Bytes of the longer frame of a signal, up to the registers of the code that it has interrupted.
const SIGNAL_FRAME: u64 = 224;

/// `mov $173, %eax; int $0x80`, which is `rt_sigreturn`; and with a `pop` before, `sigreturn`, whose frame is shorter.
const LONG_RETURN: [u8; 7] = [0xb8, 0xad, 0, 0, 0, 0xcd, 0x80];
const SHORT_RETURN: [u8; 8] = [0x58, 0xb8, 0x77, 0, 0, 0, 0xcd, 0x80];

/// Does the code begin with these bytes?
///
/// # Safety
///
/// It can be read.
unsafe fn is(code: u64, bytes: &[u8]) -> bool {
    (code..).zip(bytes).all(|(at, byte)| {
        // SAFETY: the caller's. The first byte that differs ends it.
        *byte == unsafe { (at as *const u8).read_volatile() }
    })
}

/// Does a signal handler return to this code?
///
/// # Safety
///
/// The code can be read.
unsafe fn is_signal_return(code: u64) -> bool {
    // SAFETY: the caller promises that the code can be read.
    unsafe { is(code, &LONG_RETURN) || is(code, &SHORT_RETURN) }
}

/// Where the frame of a signal at `frame` has the next instruction of the code that was interrupted, and that code's
/// stack pointer.
///
/// # Safety
///
/// There is such a frame.
unsafe fn interrupted(frame: u64) -> (*mut usize, u64) {
    /// `struct sigcontext`, in both kinds of frames; and what it has.
    const IN_LONG: u64 = 164;
    const IN_SHORT: u64 = 8;
    const STACK: u64 = 28;
    const PLACE: u64 = 56;
    // SAFETY: the caller promises that there is such a frame.
    unsafe {
        let code = u64::from((frame as *const u32).read_volatile());
        let context = frame + if is(code, &LONG_RETURN) { IN_LONG } else { IN_SHORT };
        let stack = ((context + STACK) as *const u32).read_volatile();
        ((context + PLACE) as *mut usize, u64::from(stack))
    }
}

/// Where the breakpoint is that a thread has run into, by the context of its signal.
///
/// # Safety
///
/// It's the context of a signal handler.
pub(crate) unsafe fn place_of_trap(context: *mut c_void) -> u64 {
    // SAFETY: the caller promises that it's the context of a signal handler.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    let place = context.uc_mcontext.gregs.get(libc::REG_EIP as usize).copied().unwrap_or(0);
    u64::from(place.cast_unsigned()).wrapping_sub(1)
}

/// Makes the thread go on at `address` when the handler returns.
///
/// # Safety
///
/// As above.
pub(crate) unsafe fn go_on(context: *mut c_void, address: u64) {
    // SAFETY: the caller promises that it's the context of a signal handler.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    if let Some(place) = context.uc_mcontext.gregs.get_mut(libc::REG_EIP as usize) {
        *place = (address as u32).cast_signed();
    }
}
