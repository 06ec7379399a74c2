//! `memcpy` and its siblings, which the compiler may call and no C library is there to have.

use mcount_cpu::here::agent::{copy, copy_backwards, fill};

#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: the compiler's promise to `memcpy`: there are that many bytes at both, and they don't overlap.
    unsafe { copy(to, from, count) };
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, value: i32, count: usize) -> *mut u8 {
    // SAFETY: the compiler's promise to `memset`: there are so many bytes.
    unsafe { fill(to, value.to_le_bytes()[0], count) };
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: the compiler's promise to `memmove`: there are that many bytes at both. Backwards, where `to` is after the start of `from` and they overlap.
    unsafe {
        if (to as usize).wrapping_sub(from as usize) >= count {
            copy(to, from, count);
        } else {
            copy_backwards(to, from, count);
        }
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, count: usize) -> i32 {
    let mut at = 0;
    while at < count {
        // SAFETY: the compiler's promise to `memcmp`: both have `count` bytes.
        let (x, y) = unsafe { (a.add(at).read_volatile(), b.add(at).read_volatile()) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
        at += 1;
    }
    0
}
