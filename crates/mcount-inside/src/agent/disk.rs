//! The file of a trace, asked about by system calls, where words have 64 bits.

use mcount_recorder::sys;
use std::mem::MaybeUninit;

const FALLOCATE: u64 = libc::SYS_fallocate.cast_unsigned();

/// The device and the number of the file after a descriptor.
#[cfg(not(target_arch = "loongarch64"))]
pub(super) fn identity(descriptor: i32) -> Option<(u64, u64)> {
    const FSTAT: u64 = libc::SYS_fstat.cast_unsigned();
    let mut status = [0_u64; 18];
    let file = u64::from(descriptor.cast_unsigned());
    // SAFETY: `struct stat` has 144 bytes; it begins with device and inode.
    let result = unsafe { sys::call(FSTAT, [file, status.as_mut_ptr() as u64, 0, 0, 0, 0]) };
    let [device, inode, ..] = status;
    (result == 0).then_some((device, inode))
}

/// The same where kernels have `statx` and, up to Linux 6.10, nothing else.
#[cfg(target_arch = "loongarch64")]
pub(super) fn identity(descriptor: i32) -> Option<(u64, u64)> {
    const STATX: u64 = libc::SYS_statx.cast_unsigned();
    let mut status = MaybeUninit::<libc::statx>::zeroed();
    let file = u64::from(descriptor.cast_unsigned());
    let flags = u64::from(libc::AT_EMPTY_PATH.cast_unsigned());
    let wanted = u64::from(libc::STATX_INO);
    let (name, place) = (c"".as_ptr() as u64, status.as_mut_ptr() as u64);
    // SAFETY: it's as big as the kernel's, and zeroes are one.
    let (result, status) = unsafe {
        let result = sys::call(STATX, [file, name, flags, wanted, place, 0]);
        (result, status.assume_init())
    };
    let device = libc::makedev(status.stx_dev_major, status.stx_dev_minor);
    (result == 0).then_some((device, status.stx_ino))
}

/// Makes room for `size` bytes from `start` on; 0 or `-errno`.
pub(super) fn allocate(descriptor: i32, start: u64, size: u64) -> i64 {
    let file = u64::from(descriptor.cast_unsigned());
    // SAFETY: takes numbers.
    unsafe { sys::call(FALLOCATE, [file, 0, start, size, 0, 0]) }
}

/// Bytes that are free where the file is.
pub(super) fn free(descriptor: i32) -> u64 {
    const FSTATFS: u64 = libc::SYS_fstatfs.cast_unsigned();
    let mut status = MaybeUninit::<libc::statfs>::zeroed();
    let file = u64::from(descriptor.cast_unsigned());
    // SAFETY: it's as big as the kernel's, and zeroes are one.
    let (result, status) = unsafe {
        let result = sys::call(FSTATFS, [file, status.as_mut_ptr() as u64, 0, 0, 0, 0]);
        (result, status.assume_init())
    };
    let size = u64::try_from(status.f_bsize).unwrap_or(0);
    if result == 0 { size.saturating_mul(status.f_bavail) } else { 0 }
}
