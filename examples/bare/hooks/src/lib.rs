//! Function tracing for a system of your own: this crate and a file of assembly, to copy and to change.
//!
//! It has the hooks of the program (`hooks_idle`, `hooks_change`), what armed ones lead to (`calls.rs`), and
//! the calls that were seen, for whoever prints them (`hooks_next`). `hooks.h` declares all that, and the four
//! functions that the system has to provide. Which bytes a hook consists of, and in which order they're written, is
//! `mcount-cpu`'s business.
#![no_std]

mod calls;
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv64.rs")]
mod processor;
mod table;

use core::ffi::{CStr, c_char, c_int, c_void};
use mcount_cpu::engine::{self, Change, Code};
use processor::SITE;
use table::Hook;

unsafe extern "C" {
    fn hooks_write(address: u64, bytes: *const c_void, length: usize) -> c_int;
    fn hooks_synchronize() -> c_int;
}

/// How many hooks change between two synchronizations.
const BATCH: usize = 64;

/// The code of the program. The system writes it.
struct Memory;

impl Code for Memory {
    type Error = c_int;

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), c_int> {
        // SAFETY: the bytes are there, and the address is that of a hook.
        result(unsafe { hooks_write(address, bytes.as_ptr().cast(), bytes.len()) })
    }

    fn synchronize(&mut self) -> Result<(), c_int> {
        // SAFETY: the function has no conditions.
        result(unsafe { hooks_synchronize() })
    }
}

fn result(code: c_int) -> Result<(), c_int> {
    if code == 0 { Ok(()) } else { Err(code) }
}

/// Makes all hooks idle; how many there are. One that isn't what compilers leave stays as it is, and isn't counted.
/// No other processor may run code with hooks yet.
#[unsafe(no_mangle)]
pub extern "C" fn hooks_idle() -> c_int {
    let mut count = 0;
    for change in table::hooks().filter_map(Hook::first_change) {
        if engine::change(&mut Memory, processor::START, &[change]).is_ok() {
            count += 1;
        }
    }
    count
}

/// Arms the hooks of all functions that `glob` matches, or makes them idle; how many match, or a negative number if
/// they couldn't be written. Other processors may execute these functions meanwhile.
///
/// # Safety
///
/// `glob` is a string, and one processor at a time calls this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hooks_change(glob: *const c_char, is_armed: bool) -> c_int {
    // SAFETY: the caller's.
    let glob = unsafe { CStr::from_ptr(glob) }.to_bytes();
    let matching = table::hooks().filter(|hook| hook.matches(glob));
    let mut changes = matching.filter_map(|hook| hook.change(is_armed));
    let mut count = 0;
    loop {
        let mut batch = [Change::whole(0, [0; SITE], [0; SITE]); BATCH];
        let filled =
            batch.iter_mut().zip(&mut changes).map(|(room, change)| *room = change).count();
        if filled == 0 {
            return count;
        }
        if let Err(error) = write(batch.get(..filled).unwrap_or_default()) {
            return error;
        }
        count += c_int::try_from(filled).unwrap_or(0);
    }
}

/// Writes all of them, and then has all processors see them at once.
fn write(changes: &[Change<SITE>]) -> Result<(), c_int> {
    let result = engine::change(&mut Memory, processor::AT_ONCE, changes);
    result.map_err(|failure| if failure.error < 0 { failure.error } else { -1 })
}

/// The name of the function that has a hook there; null if it has none.
#[unsafe(no_mangle)]
pub extern "C" fn hooks_name(hook: u64) -> *const c_char {
    Hook(hook).name().map_or(core::ptr::null(), CStr::as_ptr)
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
