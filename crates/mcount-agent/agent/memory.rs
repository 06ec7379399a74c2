//! `memcpy` and its siblings, which the compiler may call and no C library is there to have.

use core::arch::asm;

#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: the caller's; `rep movsb` copies as memcpy does.
    unsafe {
        asm!("rep movsb", inout("rcx") count => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, value: i32, count: usize) -> *mut u8 {
    // SAFETY: the caller's.
    unsafe {
        asm!("rep stosb", inout("rcx") count => _, inout("rdi") to => _, in("eax") value,
            options(nostack, preserves_flags));
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= count {
        // SAFETY: the caller's; they don't overlap in a way that matters.
        return unsafe { memcpy(to, from, count) };
    }
    // SAFETY: the caller's. Backwards, since `to` is behind the start of `from`.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rcx") count => _,
            inout("rdi") to.wrapping_add(count).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(count).wrapping_sub(1) => _, options(nostack));
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, count: usize) -> i32 {
    let mut at = 0;
    while at < count {
        // SAFETY: the caller's: both have `count` bytes.
        let (x, y) = unsafe { (a.add(at).read_volatile(), b.add(at).read_volatile()) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
        at += 1;
    }
    0
}
