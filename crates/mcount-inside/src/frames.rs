//! What is kept of a call while it's under way: three shadows of the stack, each at a constant distance.
//!
//! A call is known by its *slot*, the place of its return address. So there is no list of frames to keep in step,
//! and `longjmp`, fibres and signal stacks need nothing.
//!
//! The shadows are private memory: a forked child has its own. They're mapped in pieces, when a stack is seen first,
//! and never unmapped, because stacks come back.

use crate::arch::{Thread, thread};
use crate::processor::{ADDRESS_BITS, SHADOW_BITS};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const RET: u64 = 1 << SHADOW_BITS[0];
const WHO: u64 = 1 << SHADOW_BITS[0] | 1 << SHADOW_BITS[2];
/// Not with the first bit: `AddressSanitizer` has its own shadow of stacks there, on x86-64.
const DATA: u64 = 1 << SHADOW_BITS[1] | 1 << SHADOW_BITS[2];

/// Bytes of stack whose shadows are mapped at a time.
const PIECE: u64 = 1 << 16;
const BYTES: usize = 1 << 16;
/// How many pieces there can be: 2 GiB of stacks.
const PIECES: usize = 1 << 15;

/// A piece's number * 4, and one of these; 0: an empty place.
static ALL: [AtomicU64; PIECES] = [const { AtomicU64::new(0) }; PIECES];
const COMING: u64 = 1;
const READY: u64 = 2;
const REFUSED: u64 = 3;

/// The words that belong to a slot.
pub(crate) struct Frame {
    /// The caller's address; 0: this slot isn't watched.
    pub(crate) ret: *mut u64,
    /// Function and handlers, as the highest level packs them; 0: nobody sees the call.
    pub(crate) who: *mut u64,
    /// The handlers' own.
    pub(crate) data: *mut u64,
}

/// The words of the slot at this address. They're there if [`cover`] says so.
pub(crate) fn of(slot: u64) -> Frame {
    Frame {
        ret: (slot ^ RET) as *mut u64,
        who: (slot ^ WHO) as *mut u64,
        data: (slot ^ DATA) as *mut u64,
    }
}

/// Sees to it that the shadows of `slot` are mapped. `false` if they can't be.
pub(crate) fn cover(slot: u64) -> bool {
    let thread = thread();
    // SAFETY: this thread's own memory. A signal handler may change it in between; it leaves a range that is mapped.
    unsafe {
        let Thread { low, size, .. } = *thread;
        if slot.wrapping_sub(low) < size {
            return true;
        }
        let piece = slot / PIECE;
        if slot >> ADDRESS_BITS != 0 || piece == 0 || !cover_piece(piece) {
            return false;
        }
        (*thread).size = 0;
        (*thread).low = piece * PIECE;
        (*thread).size = PIECE;
    }
    true
}

/// Maps the shadows of the piece with this number, if they aren't. `false` if they can't be.
pub(crate) fn cover_piece(piece: u64) -> bool {
    /// Looks at a piece that another thread is mapping. A forked child may look in vain.
    const PATIENCE: usize = 10_000;
    let start = usize::try_from(piece.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).unwrap_or(0);
    let places = (0..PIECES).filter_map(|step| ALL.get((start + step) % PIECES));
    for place in places {
        let mut found = place.load(SeqCst);
        if found == 0 {
            found = claim(place, piece);
        }
        for _ in 0..PATIENCE {
            if found >> 2 != piece || found & 3 != COMING {
                break;
            }
            // SAFETY: takes nothing.
            unsafe { libc::sched_yield() };
            found = place.load(SeqCst);
        }
        if found >> 2 == piece {
            return found & 3 == READY;
        }
    }
    false
}

/// Takes an empty place for a piece, and maps its shadows; what the place has then, perhaps for another piece.
fn claim(place: &AtomicU64, piece: u64) -> u64 {
    let before = block_signals();
    let result = place.compare_exchange(0, piece << 2 | COMING, SeqCst, SeqCst);
    if result.is_ok() {
        let state = if map(piece * PIECE) { READY } else { REFUSED };
        place.store(piece << 2 | state, SeqCst);
    }
    restore_signals(&before);
    result.err().unwrap_or_else(|| place.load(SeqCst))
}

/// Maps the shadows of the piece of stack that begins here.
fn map(stack: u64) -> bool {
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

fn block_signals() -> libc::sigset_t {
    // SAFETY: a set is plain data, and both are ours.
    unsafe {
        let (mut all, mut before) = std::mem::zeroed::<(libc::sigset_t, libc::sigset_t)>();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
        before
    }
}

fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: a set of ours.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
}
