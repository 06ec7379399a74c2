//! The shadows of stacks at a constant distance.

use super::Frame;
use mcount_cpu::here::abi::SHADOWS;
use std::ffi::c_void;

const RET: u64 = SHADOWS[0];
const WHO: u64 = SHADOWS[0] | SHADOWS[2];
/// Not with the first bit: `AddressSanitizer` has its own shadow of stacks there, on x86-64.
const DATA: u64 = SHADOWS[1] | SHADOWS[2];

/// Bytes of address space that a trace takes while it's recorded: the most that it can grow to. The kernel maps that near
/// the stack, so where shadows aren't far from stacks, it mustn't reach as far.
pub(crate) const LIMIT: u64 = if SHADOWS[0] < 1 << 40 { 1 << 33 } else { 1 << 36 };
/// The least that it makes do with.
pub(crate) const LEAST: u64 = LIMIT;

const BYTES: usize = 1 << 16;
const _: () = assert!(super::PIECE == BYTES as u64);

/// The words of the slot at this address. They're there if [`cover`](super::cover) says so.
pub(crate) fn of(slot: u64) -> Frame {
    Frame {
        ret: (slot ^ RET) as *mut u64,
        who: (slot ^ WHO) as *mut u64,
        data: (slot ^ DATA) as *mut u64,
    }
}

/// Maps the shadows of the piece of stack that begins here.
pub(super) fn map(stack: u64) -> bool {
    let wanted = [RET, WHO, DATA].map(|distance| stack ^ distance);
    let done = wanted.iter().take_while(|start| map_at(**start)).count();
    if done < wanted.len() {
        for start in wanted.iter().take(done) {
            // SAFETY: it was mapped just now.
            unsafe { libc::munmap(*start as *mut c_void, BYTES) };
        }
    }
    done == wanted.len()
}

fn map_at(start: u64) -> bool {
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: nothing that is mapped is replaced.
    unsafe {
        let found = libc::mmap(start as *mut c_void, BYTES, protection, flags, -1, 0);
        if found == libc::MAP_FAILED {
            return false;
        }
        if found as u64 != start {
            // A kernel before 4.17 takes the address for a hint.
            libc::munmap(found, BYTES);
            return false;
        }
        // Two megabytes for each thread would be a lot.
        libc::madvise(found, BYTES, libc::MADV_NOHUGEPAGE);
    }
    true
}
