//! The file of a trace, asked about by system calls, where words have 32 bits. Sizes of files take two.

use crate::arch::system_call_number as number;
use mcount_recorder::sys;
use std::mem::MaybeUninit;

/// The device and the number of the file after a descriptor.
pub(super) fn identity(descriptor: i32) -> Option<(u64, u64)> {
    let mut status = MaybeUninit::<libc::stat64>::zeroed();
    let file = u64::from(descriptor.cast_unsigned());
    let arguments = [file, status.as_mut_ptr() as u64, 0, 0, 0, 0];
    // SAFETY: it's as big as the kernel's, and zeroes are one.
    let (result, status) = unsafe {
        let result = sys::call(number(libc::SYS_fstat64), arguments);
        (result, status.assume_init())
    };
    (result == 0).then_some((status.st_dev, status.st_ino))
}

/// Makes room for `size` bytes from `start` on; 0 or `-errno`.
pub(super) fn allocate(descriptor: i32, start: u64, size: u64) -> i64 {
    let file = u64::from(descriptor.cast_unsigned());
    let low = |number: u64| number & 0xffff_ffff;
    let arguments = [file, 0, low(start), start >> 32, low(size), size >> 32];
    // SAFETY: takes numbers.
    unsafe { sys::call(number(libc::SYS_fallocate), arguments) }
}

/// Bytes that are free where the file is.
pub(super) fn free(descriptor: i32) -> u64 {
    let mut status = MaybeUninit::<libc::statfs64>::zeroed();
    let file = u64::from(descriptor.cast_unsigned());
    let size = size_of::<libc::statfs64>() as u64;
    let arguments = [file, size, status.as_mut_ptr() as u64, 0, 0, 0];
    // SAFETY: it's as big as the kernel's, and zeroes are one.
    let (result, status) = unsafe {
        let result = sys::call(number(libc::SYS_fstatfs64), arguments);
        (result, status.assume_init())
    };
    let size = u64::try_from(status.f_bsize).unwrap_or(0);
    if result == 0 { size.saturating_mul(status.f_bavail) } else { 0 }
}
