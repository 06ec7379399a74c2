//! Which threads are just recording a call in one of the rarer ways, so that a trace isn't taken from under them.
//!
//! A signal handler may jump out of that without notice. So threads aren't counted: each has a place, in which
//! it says with one store how far up its stack it came in. If it's seen further up later, it has left.

use crate::arch;
use mcount_recorder::{sys, thread};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// Threads that may have a place at a time.
const PLACES: usize = 2048;

/// How many places are looked at whose threads may have ended.
const LOOK_AT: usize = 16;

#[derive(Debug)]
struct Place {
    /// Process and thread; 0: it's free.
    owner: AtomicU64,
    /// How far up its stack the thread is busy; 0: it isn't.
    since: AtomicU64,
}

static ALL: [Place; PLACES] =
    [const { Place { owner: AtomicU64::new(0), since: AtomicU64::new(0) } }; PLACES];

/// How many threads are busy without a place.
static OTHERS: AtomicU64 = AtomicU64::new(0);

/// Has the thread counted as busy while it does this. If there's too little stack for it, that's noticed before.
pub(super) fn busy<T>(act: impl FnOnce() -> T) -> T {
    thread::need_stack();
    let here = here();
    let Some(place) = own().or_else(take) else {
        OTHERS.fetch_add(1, SeqCst);
        let result = act();
        OTHERS.fetch_sub(1, SeqCst);
        return result;
    };
    let before = place.since.load(Relaxed);
    if before != 0 && !has_left(before, here) {
        // A signal handler has interrupted it in here, and calls functions, too.
        return act();
    }
    place.since.store(here, SeqCst);
    let result = act();
    place.since.store(0, SeqCst);
    result
}

/// Is a thread of this process busy?
pub(super) fn is_anybody() -> bool {
    if let Some(place) = own() {
        let before = place.since.load(Relaxed);
        if before != 0 && has_left(before, here()) {
            place.since.store(0, SeqCst);
        }
    }
    let process = sys::process_id();
    let is_busy = |place: &Place| {
        let (of, thread) = halves(place.owner.load(SeqCst));
        of == process && place.since.load(SeqCst) != 0 && !sys::is_gone(of, thread)
    };
    OTHERS.load(SeqCst) != 0 || ALL.iter().any(is_busy)
}

/// In a forked child: other threads don't exist here. Where this one is, it still is.
pub(super) fn forget_others() {
    OTHERS.store(0, SeqCst);
    if let Some(place) = own() {
        place.owner.store(who(), SeqCst);
    }
}

/// This thread's place.
fn own() -> Option<&'static Place> {
    // SAFETY: this thread's own memory, which lives as long as it does.
    let number = unsafe { (&raw const (*arch::thread()).place).read_volatile() };
    ALL.get(usize::try_from(number).ok()?.checked_sub(1)?)
}

/// A new place for this thread, or that of one that has ended.
fn take() -> Option<&'static Place> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let who = who();
    for _ in 0..LOOK_AT {
        let at = usize::try_from(NEXT.fetch_add(1, SeqCst)).unwrap_or(0) % PLACES;
        let place = ALL.get(at)?;
        let owner = place.owner.load(SeqCst);
        let (process, thread) = halves(owner);
        let is_free = owner == 0 || sys::is_gone(process, thread);
        if is_free && place.owner.compare_exchange(owner, who, SeqCst, SeqCst).is_ok() {
            place.since.store(0, SeqCst);
            // SAFETY: this thread's own memory.
            unsafe { (&raw mut (*arch::thread()).place).write_volatile(at as u64 + 1) };
            return Some(place);
        }
    }
    None
}

fn who() -> u64 {
    u64::from(sys::process_id()) << 32 | u64::from(sys::thread_id())
}

fn halves(owner: u64) -> (u32, u32) {
    ((owner >> 32) as u32, (owner & 0xffff_ffff) as u32)
}

/// It came in at `before`, and is at `here` now: has it left meanwhile? Callees of that code are further down
/// the stack, but for signal handlers with a stack of their own.
fn has_left(before: u64, here: u64) -> bool {
    here > before && !is_on_signal_stack()
}

/// Where this thread is on its stack, in the function that asks.
#[inline]
fn here() -> u64 {
    let mark = 0_u8;
    std::hint::black_box(&raw const mark) as u64
}

fn is_on_signal_stack() -> bool {
    let number = arch::system_call_number(libc::SYS_sigaltstack);
    let mut stack = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: no stack is set, and the old one goes to a value of ours.
    unsafe { sys::call(number, [0, (&raw mut stack) as u64, 0, 0, 0, 0]) };
    stack.ss_flags & libc::SS_ONSTACK != 0
}
