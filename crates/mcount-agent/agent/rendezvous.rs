//! How the agent and the recorder meet: the agent asks, the recorder answers with system calls to make.
//!
//! The agent asks by sending its own thread SIGURG. The recorder, being the tracer, sees the thread stop, and takes
//! the signal away. If there is no recorder any more, even if it was killed while the thread was stopped there, the signal
//! means nothing: by default it's ignored. A breakpoint would end the program then.
//!
//! For the same reason the recorder never lets the thread run code of the program's or a breakpoint. It
//! leaves what is to be done in [`mcount_request`], and the agent does it.

use super::host::Agent;
use super::{blocks, config, mcount_config};
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use mcount_cpu::here::syscalls::number;
use mcount_recorder::abi::Request;
use mcount_recorder::abi::request::NOTHING;
use mcount_recorder::{Host, sys, thread};

const SIGURG: u64 = 23;

#[unsafe(no_mangle)]
static mut mcount_request: Request = Request { number: NOTHING, arguments: [0; 6], result: 0 };

/// Two names of the trace file, one after the other, each ended by a zero byte.
#[unsafe(no_mangle)]
static mut mcount_names: [u8; 8192] = [0; 8192];

unsafe extern "C" {
    static mcount_stubs: u8;
    /// The end of stubs, and of moved instructions where these have a room of their own behind them.
    static mcount_rooms_end: u8;
    safe fn mcount_ask(process: u32, thread: u32, signal: u64);
}

/// Takes the place of the dynamic linker's function for debuggers, which it calls when it has loaded or unloaded
/// something. The assembly's `mcount_rendezvous` leads here: the linker knows nothing of another module.
#[unsafe(no_mangle)]
extern "C" fn mcount_rendezvous_of() {
    static HAS_STARTED: AtomicU32 = AtomicU32::new(0);
    if HAS_STARTED.swap(1, SeqCst) == 0 {
        let result = mcount_start();
        // SAFETY: nobody else runs yet.
        unsafe { (&raw mut mcount_request.result).write_volatile(result) };
    } else if Agent::is_confined() {
        // Whatever was loaded stays idle.
        return;
    }
    ask();
}

/// Opens the trace, and makes everything ready for the first call. 0, or `-errno`, and then nothing may be armed.
/// Called once, before the program runs.
#[unsafe(no_mangle)]
extern "C" fn mcount_start() -> i64 {
    const ENOMEM: i64 = 12;
    let names = &raw const mcount_names;
    // SAFETY: the recorder has put the names there; no other thread runs yet.
    unsafe {
        let names = &*names;
        let first = names.iter().position(|byte| *byte == 0).unwrap_or(0);
        let stubs = (&raw const mcount_stubs) as u64;
        let size = (&raw const mcount_rooms_end) as u64 - stubs;
        if !map_rooms(stubs, size) || !thread::start() || !blocks::start() {
            return -ENOMEM;
        }
        let length = config().length;
        let mut file = map_file(names.as_ptr(), length);
        if file < 0 {
            file = map_file(names.as_ptr().wrapping_add(first + 1), length);
        }
        if file > 0 {
            (&raw mut mcount_config.file).write_volatile(file as *mut u8);
        }
        file.min(0)
    }
}

/// Asks the recorder, as long as it wants something.
fn ask() {
    let before = sys::set_signals(!(1 << (SIGURG - 1)));
    let request = &raw mut mcount_request;
    // SAFETY: the dynamic linker holds its lock; the recorder writes while this thread stands.
    unsafe {
        loop {
            (&raw mut (*request).number).write_volatile(NOTHING);
            mcount_ask(sys::process_id(), sys::thread_id(), SIGURG);
            let number = (&raw const (*request).number).read_volatile();
            if number == NOTHING {
                break;
            }
            let result = sys::call(number, (&raw const (*request).arguments).read_volatile());
            (&raw mut (*request).result).write_volatile(result);
        }
    }
    sys::set_signals(before);
}

/// Makes the rooms readable and executable memory that costs nothing until it's written to. glibc does that; musl maps the agent's file there, beyond its end.
///
/// # Safety
///
/// They must be the agent's rooms.
unsafe fn map_rooms(address: u64, size: u64) -> bool {
    const PROT_READ_EXECUTE: u64 = 5;
    let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE | sys::MAP_FIXED;
    // SAFETY: the caller promises that they are the agent's rooms.
    let result =
        unsafe { sys::call(number::MMAP, [address, size, PROT_READ_EXECUTE, flags, u64::MAX, 0]) };
    u64::try_from(result).ok() == Some(address)
}

/// Maps the first `length` bytes of the file with this name, shared and writable; where, or `-errno`.
///
/// # Safety
///
/// `name` must end with a zero byte.
unsafe fn map_file(name: *const u8, length: u64) -> i64 {
    const MAP_SHARED: u64 = 1;
    const AT_FDCWD: u64 = (-100_i64).cast_unsigned();
    const O_RDWR_CLOEXEC: u64 = 0x8_0002;
    // SAFETY: the caller promises that the name ends with a zero byte; the descriptor is closed here.
    unsafe {
        let opened = sys::call(number::OPENAT, [AT_FDCWD, name as u64, O_RDWR_CLOEXEC, 0, 0, 0]);
        let Ok(file) = u64::try_from(opened) else { return opened };
        let flags = MAP_SHARED | sys::MAP_NORESERVE;
        let found = sys::call(number::MMAP, [0, length, sys::PROT_READ_WRITE, flags, file, 0]);
        sys::call(number::CLOSE, [file, 0, 0, 0, 0, 0]);
        found
    }
}
