//! What armed hooks do: write down that a function was entered or left, and when.
//!
//! Each processor writes into a ring of its own, so none waits for another. Whoever prints may read all of them.
//! The caller's address lies in a stack beside the stack while the function has another one (`hooks_exit`). There's one for each
//! processor, because here each has one thread. *A system with threads has one for each thread instead*, in its control
//! block; and interrupt handlers that have hooks need to be told from what they interrupt. Here they have none.

use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

unsafe extern "C" {
    fn hooks_processor() -> usize;
    fn hooks_clock() -> u64;
    fn hooks_exit();
}

const PROCESSORS: usize = 4;
/// Events in a ring.
const EVENTS: usize = 4096;
/// Calls that may be under way.
const DEPTH: usize = 64;

/// A function was entered or left. `struct hooks_event` of `hooks.h`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Event {
    hook: u64,
    /// Where it was called; 0: it was left.
    caller: u64,
    time: u64,
    /// How long it took, if it was left.
    took: u64,
    depth: u64,
}

const NONE: Event = Event { hook: 0, caller: 0, time: 0, took: 0, depth: 0 };

/// A call that's under way.
#[derive(Debug, Clone, Copy)]
struct Frame {
    hook: u64,
    caller: u64,
    time: u64,
    /// The stack pointer, which is the same when the function is left.
    stack: u64,
}

/// What belongs to a processor.
struct Processor {
    /// Only this processor uses these two.
    frames: UnsafeCell<[Frame; DEPTH]>,
    depth: UnsafeCell<usize>,
    events: UnsafeCell<[Event; EVENTS]>,
    /// How many events were ever written, and read.
    written: AtomicUsize,
    read: AtomicUsize,
    /// How many had no room.
    lost: AtomicUsize,
    /// How many calls there were, with those that had no room.
    seen: AtomicUsize,
}

// SAFETY: what isn't atomic is used by one processor only, or lies between `read` and `written`.
unsafe impl Sync for Processor {}

static ALL: [Processor; PROCESSORS] = [const {
    Processor {
        frames: UnsafeCell::new([Frame { hook: 0, caller: 0, time: 0, stack: 0 }; DEPTH]),
        depth: UnsafeCell::new(0),
        events: UnsafeCell::new([NONE; EVENTS]),
        written: AtomicUsize::new(0),
        read: AtomicUsize::new(0),
        lost: AtomicUsize::new(0),
        seen: AtomicUsize::new(0),
    }
}; PROCESSORS];

impl Processor {
    fn write(&self, event: Event) {
        let written = self.written.load(Relaxed);
        if written.wrapping_sub(self.read.load(Acquire)) == EVENTS {
            self.lost.fetch_add(1, Relaxed);
            return;
        }
        // SAFETY: only this processor writes, and nobody reads what isn't between `read` and `written`.
        if let Some(room) = unsafe { &mut *self.events.get() }.get_mut(written % EVENTS) {
            *room = event;
        }
        self.written.store(written.wrapping_add(1), Release);
    }

    fn next(&self) -> Option<Event> {
        let read = self.read.load(Relaxed);
        if self.written.load(Acquire) == read {
            return None;
        }
        // SAFETY: nobody writes it any more.
        let event = unsafe { &*self.events.get() }.get(read % EVENTS).copied();
        self.read.store(read.wrapping_add(1), Release);
        event
    }
}

/// Called by `hooks_enter`: the function with the hook `hook` was called and would return to `caller`. Where it's to return to.
#[unsafe(no_mangle)]
extern "C" fn hooks_entered(hook: u64, caller: u64, stack: u64) -> u64 {
    // SAFETY: the functions have no conditions.
    let (number, time) = unsafe { (hooks_processor(), hooks_clock()) };
    let Some(own) = ALL.get(number) else { return caller };
    // SAFETY: no other processor uses these.
    let (frames, depth) = unsafe { (&mut *own.frames.get(), &mut *own.depth.get()) };
    let now = *depth;
    own.seen.fetch_add(1, Release);
    own.write(Event { hook, caller, time, took: 0, depth: now as u64 });
    // Too deep: its return isn't seen.
    let Some(frame) = frames.get_mut(now) else { return caller };
    *frame = Frame { hook, caller, time, stack };
    *depth = now + 1;
    hooks_exit as *const () as u64
}

/// Called by `hooks_exit`: a function has returned, and the stack is as it was. Where it was called.
#[unsafe(no_mangle)]
extern "C" fn hooks_left(stack: u64) -> u64 {
    // SAFETY: the functions have no conditions.
    let (number, time) = unsafe { (hooks_processor(), hooks_clock()) };
    let Some(own) = ALL.get(number) else { return 0 };
    // SAFETY: no other processor uses these.
    let (frames, depth) = unsafe { (&mut *own.frames.get(), &mut *own.depth.get()) };
    loop {
        let Some(frame) = depth.checked_sub(1).and_then(|last| frames.get(last)) else { return 0 };
        *depth -= 1;
        let took = time.wrapping_sub(frame.time);
        own.write(Event { hook: frame.hook, caller: 0, time, took, depth: *depth as u64 });
        // Frames further down were left without a return, by `longjmp`.
        if frame.stack >= stack {
            return frame.caller;
        }
    }
}

/// The next event of `processor`, in `event`; false if there's none.
///
/// # Safety
///
/// There's room for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hooks_next(processor: usize, event: *mut Event) -> bool {
    let Some(next) = ALL.get(processor).and_then(Processor::next) else { return false };
    // SAFETY: the caller's.
    unsafe { event.write(next) };
    true
}

/// How many events of `processor` were lost, since this was last asked, because nobody read the others.
#[unsafe(no_mangle)]
pub extern "C" fn hooks_lost(processor: usize) -> usize {
    ALL.get(processor).map_or(0, |own| own.lost.swap(0, Relaxed))
}

/// How many calls `processor` has seen, those that were lost among them.
#[unsafe(no_mangle)]
pub extern "C" fn hooks_seen(processor: usize) -> usize {
    ALL.get(processor).map_or(0, |own| own.seen.load(Acquire))
}
