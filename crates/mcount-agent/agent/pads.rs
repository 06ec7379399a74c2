//! Calls whose slot another frame has, too: programs that copy stacks.
//!
//! Some coroutines share a stack (greenlet, gevent, libco): what one has on it is copied away, another one runs at the same
//! addresses, and the copy comes back later. So an entry may find its slot taken, with a word in RET that isn't its own. Whoever
//! left that word may be gone, by `longjmp`, or may come back. Nobody can tell.
//!
//! So a slot's shadow belongs to the frame that returns to a stub, until it does. Later frames of the slot return to *pads*:
//! each pad has one caller's address, and so a slot that leads to a pad says itself where to go on, wherever it's copied.
//! Two frames of a slot with the same caller have two pads, so a pad also says which frame it is.
//!
//! What's recorded of a call is in TIM and OPN of the slot while its frame is there. When another takes its place, it's kept here,
//! as `Frame`, until it comes back. [`OF_PAD`] in OPN says that these belong to the frame of a pad; it sends all
//! exits of the slot here.
//!
//! Until a frame has come back for the first time, those that lose their place are taken for left by `longjmp`, and
//! recorded so, as they may be lost otherwise. Those of them that do come back are counted in the trace.

use super::chunks::drop_call;
use super::host::{self, header};
use super::numbers::{LIMITED, has};
use super::routines::{PADS, is_pad, pad, pad_number};
use super::places::store;
use super::{layout as trace, shadow, sys, thread};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// Slots that several frames have are told apart.
pub(crate) const HAS_PADS: bool = PADS != 0;

/// Has the function of `slot` return to a pad.
///
/// # Safety
///
/// The slot is the word that holds the caller's address.
pub(crate) unsafe fn return_to(slot: *mut u64, pad: u64) {
    // SAFETY: the caller's.
    unsafe { slot.write_volatile(pad) };
}

/// Bits of OPN: the call is that of a pad. The upper one sends exits to the slow path.
pub(crate) const OF_PAD: u64 = 3 << 30;

/// Slots that more than one frame has had, at most. Calls in further ones aren't recorded. Memory that isn't needed isn't used.
const SLOTS: usize = 1 << 20;
/// Frames that are kept, at most.
const FRAMES: usize = 1 << 20;
/// Heads of lists of pads, by the caller's address.
const CALLERS: usize = 1 << 10;
/// How many frames of a slot are kept as long as none has come back: a `longjmp` may leave the same ones again and again.
const UNPROVEN: usize = 16;

/// The frame that returns to a stub.
const STUB: u32 = 0;

/// A slot that several frames have had.
#[derive(Clone, Copy)]
struct Slot {
    address: u64,
    /// The pad that TIM and OPN belong to if [`OF_PAD`] is set.
    owner: u32,
    /// The first of its frames, the newest; 0: there's none.
    frames: u32,
    /// How many frames these are.
    count: u32,
}

/// A frame that isn't on the stack now: its call, or nothing if that's recorded.
#[derive(Clone, Copy)]
struct Frame {
    /// Its pad, or [`STUB`].
    of: u32,
    next: u32,
    open: u64,
    start: u64,
    nest: u64,
    /// It was taken for left.
    is_recorded: bool,
}

/// All that is known, in memory that forked children inherit, as they do frames.
struct Known {
    slots: [Slot; SLOTS],
    frames: [Frame; FRAMES],
    /// Frames in use so far, and the first of those that are free again.
    used: u32,
    free: u32,
    /// Pads by their callers' addresses: lists.
    callers: [u32; CALLERS],
    next: [u32; PADS as usize],
    /// Pads in use.
    pads: u32,
    /// When a pad was last seen in a list.
    seen: [u32; PADS as usize],
    searches: u32,
}

static KNOWN: AtomicU64 = AtomicU64::new(0);

/// A frame has come back.
static IS_PROVEN: AtomicU64 = AtomicU64::new(0);

fn known() -> Option<&'static mut Known> {
    let known = KNOWN.load(SeqCst) as *mut Known;
    // SAFETY: it stays mapped; `Known::slot` says who may change what.
    unsafe { known.as_mut() }
}

/// Memory of zeroes, which is what everything begins with.
fn make() -> Option<&'static mut Known> {
    if KNOWN.load(SeqCst) == 0 && !host::is_confined() {
        let size = (size_of::<Known>() as u64).next_multiple_of(4096);
        KNOWN.store(sys::map(0, size, sys::PROT_READ_WRITE)?, SeqCst);
    }
    known()
}

fn hash(word: u64) -> usize {
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

impl Known {
    /// The slot at this address, which is added if there's none. Only the thread whose stack it's on changes a slot that is there,
    /// and the list of its frames.
    fn slot(&mut self, address: u64, is_added: bool) -> Option<&mut Slot> {
        /// Places that are looked at.
        const LOOKS: usize = 256;
        let first = hash(address);
        let found = (0..LOOKS).map(|step| (first + step) % SLOTS).find(|at| {
            self.slots.get(*at).is_none_or(|slot| [0, address].contains(&slot.address))
        })?;
        let slot = self.slots.get_mut(found)?;
        if slot.address == 0 {
            if !is_added {
                return None;
            }
            slot.address = address;
        }
        Some(slot)
    }

    /// Takes the frame with this pad out of the list of a slot.
    fn take(&mut self, address: u64, of: u32) -> Option<Frame> {
        let (mut before, mut at) = (0, self.slot(address, false)?.frames);
        while let Some(frame) = self.frames.get(at as usize).copied().filter(|_| at != 0) {
            if frame.of == of {
                self.unlink(address, before, frame.next);
                self.slot(address, false)?.count -= 1;
                self.release(at);
                return Some(frame);
            }
            (before, at) = (at, frame.next);
        }
        None
    }

    /// Frame `before`, or the slot if that's 0, is followed by `next`.
    fn unlink(&mut self, address: u64, before: u32, next: u32) {
        if before == 0 {
            if let Some(slot) = self.slot(address, false) {
                slot.frames = next;
            }
        } else if let Some(frame) = self.frames.get_mut(before as usize) {
            frame.next = next;
        }
    }

    fn release(&mut self, at: u32) {
        if let Some(frame) = self.frames.get_mut(at as usize) {
            frame.next = self.free;
            self.free = at;
        }
    }

    /// Keeps a frame of a slot; `false` if there's no room.
    fn keep(&mut self, address: u64, mut frame: Frame) -> bool {
        let at = if self.free != 0 {
            self.free
        } else if (self.used as usize) < FRAMES - 1 {
            self.used += 1;
            self.used
        } else {
            return false;
        };
        let free = self.frames.get(at as usize).map_or(0, |frame| frame.next);
        let Some(slot) = self.slot(address, true) else { return false };
        frame.next = slot.frames;
        slot.frames = at;
        slot.count += 1;
        if at == self.free {
            self.free = free;
        }
        if let Some(room) = self.frames.get_mut(at as usize) {
            *room = frame;
        }
        true
    }

    /// The list of a slot's frames, the newest first.
    fn list(&self, first: u32) -> impl Iterator<Item = (u32, &Frame)> {
        let frame = |at: u32| self.frames.get(at as usize).filter(|_| at != 0).map(|it| (at, it));
        core::iter::successors(frame(first), move |(_, it)| frame(it.next))
    }

    /// Takes the oldest frame that has a pad out of the list of a slot: it's likely to be gone.
    fn forget_oldest(&mut self, address: u64) -> Option<u32> {
        let first = self.slot(address, false)?.frames;
        let (mut before, mut found) = (0, None);
        for (at, frame) in self.list(first) {
            if frame.of != STUB {
                found = Some((before, at, frame.next));
            }
            before = at;
        }
        let (before, at, next) = found?;
        self.unlink(address, before, next);
        self.slot(address, false)?.count -= 1;
        Some(at)
    }

    /// A pad for this caller that isn't one of these, if it's found soon.
    fn known_pad(&self, caller: u64, taken: &[u32]) -> Option<u32> {
        /// How many are looked at.
        const LOOKS: usize = 32;
        let next = |at: &u32| self.next.get(*at as usize).copied().filter(|at| *at != 0);
        let first = self.callers.get(hash(caller) % CALLERS).copied().filter(|at| *at != 0);
        let mut all = core::iter::successors(first, next).take(LOOKS);
        // SAFETY: a pad's word is there.
        all.find(|at| !taken.contains(at) && unsafe { pad(*at).caller.read_volatile() } == caller)
    }

    /// What [`displace`] does, where nothing that threads have in common has to change: without the lock.
    ///
    /// # Safety
    ///
    /// The shadows of the slot are mapped.
    unsafe fn displace(
        &mut self,
        address: u64,
        caller: u64,
        nest: u64,
        is_recorded: bool,
    ) -> Option<u64> {
        let slot = *self.slot(address, false)?;
        if slot.count as usize > UNPROVEN {
            return None;
        }
        // SAFETY: the caller's.
        let before = unsafe { present(address, slot.owner, nest) };
        let is_full = slot.count as usize == UNPROVEN && !is_proven();
        if before.is_some() && !(is_full && is_recorded) {
            return None;
        }
        let mut taken = [STUB; UNPROVEN + 1];
        let frames = self.list(slot.frames).map(|(_, frame)| frame.of);
        for (room, of) in taken.iter_mut().zip(frames.chain(before.map(|frame| frame.of))) {
            *room = of;
        }
        let new = self.known_pad(caller, &taken)?;
        if let Some(before) = before {
            let at = self.forget_oldest(address)?;
            let slot = self.slot(address, false)?;
            let next = core::mem::replace(&mut slot.frames, at);
            slot.count += 1;
            *self.frames.get_mut(at as usize)? =
                Frame { next, open: 0, is_recorded: true, ..before };
        }
        self.slot(address, false)?.owner = new;
        // SAFETY: the caller's.
        unsafe { store(shadow::of(address).open, 0) };
        Some(pad(new).address)
    }

    /// A pad for this caller that no frame of the slot has.
    fn pad_for(&mut self, address: u64, caller: u64) -> Option<u32> {
        self.searches = self.searches.wrapping_add(1);
        let search = self.searches;
        let slot = *self.slot(address, true)?;
        let mut at = slot.frames;
        while let Some(frame) = self.frames.get(at as usize).filter(|_| at != 0) {
            if let Some(seen) = self.seen.get_mut(frame.of as usize) {
                *seen = search;
            }
            at = frame.next;
        }
        let head = hash(caller) % CALLERS;
        let (mut at, mut shared) = (*self.callers.get(head)?, None);
        while at != 0 {
            // SAFETY: a pad's word is there.
            if unsafe { pad(at).caller.read() } == caller {
                if self.seen.get(at as usize) != Some(&search) {
                    return Some(at);
                }
                shared = Some(at);
            }
            at = *self.next.get(at as usize)?;
        }
        // Some numbers are no pads.
        let Some(new) = (self.pads + 1..PADS).find(|number| is_pad(*number)) else {
            // The program is right with it; of two such calls, one's times are the other's.
            return shared;
        };
        self.pads = new;
        // SAFETY: as above, and it's nobody's yet.
        unsafe { pad(new).caller.write_volatile(caller) };
        *self.next.get_mut(new as usize)? = *self.callers.get(head)?;
        *self.callers.get_mut(head)? = new;
        Some(new)
    }
}

/// The call that TIM and OPN of a slot have, if they have one; and the word of `limit.rs`.
///
/// # Safety
///
/// The shadows of `slot` are mapped.
unsafe fn present(slot: u64, owner: u32, nest: u64) -> Option<Frame> {
    let shadow = shadow::of(slot);
    // SAFETY: the caller's.
    let (open, start) = unsafe { (shadow.open.read_volatile(), shadow.start.read_volatile()) };
    let of = if open & OF_PAD == OF_PAD { owner } else { STUB };
    (open != 0).then_some(Frame { of, next: 0, open, start, nest, is_recorded: false })
}

/// The word of `limit.rs` that a slot has.
///
/// # Safety
///
/// The shadows of `slot` are mapped.
pub(crate) unsafe fn nest(slot: u64) -> u64 {
    // SAFETY: the caller's; it's mapped where it's needed.
    if has(LIMITED) { unsafe { shadow::nest_of(slot).read_volatile() } } else { 0 }
}

/// Have frames come back in this process, so that a call whose place is taken may go on?
pub(crate) fn is_proven() -> bool {
    IS_PROVEN.load(Relaxed) != 0
}

/// A function is called from `caller`, and its slot is that of another frame, which has this word of `limit.rs`. Takes OPN away from
/// that frame, whose call `is_recorded` if it was open. The address that the function is to return to; `None`: it can't be watched, and
/// nothing has changed.
///
/// # Safety
///
/// The shadows of `slot` are mapped.
pub(crate) unsafe fn displace(slot: u64, caller: u64, nest: u64, is_recorded: bool) -> Option<u64> {
    // SAFETY: the caller's.
    let found = known().and_then(|known| unsafe { known.displace(slot, caller, nest, is_recorded) });
    if found.is_some() {
        return found;
    }
    let act = || {
        let known = make()?;
        let owner = known.slot(slot, true)?.owner;
        let new = known.pad_for(slot, caller)?;
        // SAFETY: the caller's.
        let before = unsafe { present(slot, owner, nest) };
        if let Some(mut before) = before {
            if is_recorded {
                (before.open, before.is_recorded) = (0, true);
            }
            if !known.keep(slot, before) && !is_recorded {
                drop_call();
            }
        }
        let is_long = known.slot(slot, true)?.count as usize > UNPROVEN;
        if is_long && !is_proven() && let Some(oldest) = known.forget_oldest(slot) {
            known.release(oldest);
        }
        known.slot(slot, true)?.owner = new;
        // SAFETY: the caller's.
        unsafe { store(shadow::of(slot).open, 0) };
        Some(pad(new).address)
    };
    thread::alone(act).flatten()
}

/// The frame that returns to `address`, a stub or a pad, is on the stack again, or still: what's recorded of it is put into TIM
/// and OPN.
///
/// # Safety
///
/// The shadows of `slot` are mapped if there's a block for it.
pub(crate) unsafe fn claim(slot: u64, address: u64) {
    let of = pad_number(address).unwrap_or(STUB);
    let Some(owner) = known().and_then(|known| known.slot(slot, false)).map(|slot| slot.owner) else {
        return;
    };
    // SAFETY: the caller's. The blocks of others are only read.
    unsafe {
        if thread::prepare(slot).is_none() {
            return;
        }
        let shadow = shadow::of(slot);
        let open = shadow.open.read_volatile();
        let is_present = if of == STUB {
            open != 0 && open & OF_PAD != OF_PAD
        } else {
            of == owner && open & OF_PAD == OF_PAD
        };
        if is_present {
            return;
        }
        thread::alone(|| {
            let known = known()?;
            let found = known.take(slot, of);
            if found.is_some() {
                IS_PROVEN.store(1, Relaxed);
            }
            if let Some(before) = present(slot, owner, nest(slot))
                && !known.keep(slot, before)
            {
                drop_call();
            }
            store(shadow.open, 0);
            if of != STUB {
                known.slot(slot, false)?.owner = of;
            }
            let found = found?;
            if found.is_recorded
                && let Some(early) = header(trace::header::EARLY)
            {
                early.fetch_add(1, Relaxed);
            }
            shadow.start.write_volatile(found.start);
            if has(LIMITED) {
                shadow::nest_of(slot).write_volatile(found.nest);
            }
            store(shadow.open, found.open);
            Some(())
        });
    }
}

/// The caller's address of a frame that returns to the pad with this address.
pub(crate) fn caller_of(address: u64) -> Option<u64> {
    // SAFETY: a pad's word is there.
    pad_number(address).map(|number| unsafe { pad(number).caller.read_volatile() })
}
