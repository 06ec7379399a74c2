//! Frames that share slots, while other frames are in their places: slots, frames and pads, and which belong together.

use super::{OF_PAD, STUB, Taken, is_proven, trace_of};
use crate::chunks::{drop_call, new_chunk};
use crate::host::Host;
use crate::layout as trace;
use crate::pad_table::{PADS, is_pad};
use crate::places::{SHIFT, store};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Slots that more than one frame has had, at most. Calls in further ones aren't recorded. Memory that isn't needed isn't used.
const SLOTS: usize = if cfg!(target_pointer_width = "64") { 1 << 20 } else { 1 << 16 };
/// Frames that are kept, at most.
const FRAMES: usize = SLOTS;
/// Heads of lists of pads, by the caller's address.
const CALLERS: usize = 1 << 10;
/// Heads of lists of frames, by their slots and pads.
const BUCKETS: usize = 1 << 16;
/// Pads that are left for callers that have none yet. More frames of other callers share the pads that there are.
const SPARE: u32 = PADS / 4;
/// How many frames of a slot are kept as long as none has come back: a `longjmp` may leave the same ones again and again.
const UNPROVEN: usize = 16;
/// How many are kept then: more of one caller couldn't be told apart.
const MOST: usize = PADS as usize;

/// A slot that several frames have had.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) address: u64,
    /// The pad that TIM and OPN belong to if [`OF_PAD`] is set.
    pub(super) owner: u32,
    /// The first of its frames, the newest, and the last; 0: there's none.
    pub(super) frames: u32,
    pub(super) oldest: u32,
    /// How many frames these are.
    pub(super) count: u32,
}

/// A frame that isn't on the stack now: its call, or nothing if that's recorded.
#[derive(Clone, Copy)]
pub(super) struct Frame<W> {
    /// Its pad, or [`STUB`].
    pub(super) of: u32,
    /// The next older frame of its slot, and the next newer one.
    pub(super) next: u32,
    pub(super) newer: u32,
    pub(super) slot: u64,
    pub(super) open: u64,
    pub(super) start: u64,
    pub(super) words: W,
    /// The trace that the call is in; see [`trace_of`].
    pub(super) trace: u64,
    /// It was taken for left.
    pub(super) is_recorded: bool,
    /// It's in a list by slot and pad. Frames that were kept before one came back aren't: these are few, and their slot's oldest.
    pub(super) is_hashed: bool,
    /// The next frame in that list.
    pub(super) chain: u32,
}

/// Words of a chunk, one for each frame.
const IN_MIRROR: usize = (trace::CHUNK_SIZE / 8) as usize;

/// Where the trace has the calls of some frames that are kept: their starts, and which they are.
#[derive(Clone, Copy)]
struct Mirror {
    starts: u64,
    open: u64,
    /// The trace that these are in.
    trace: u64,
}

/// All that is known, in memory that forked children inherit, as they do frames.
pub(super) struct Known<H: Host> {
    slots: [Slot; SLOTS],
    frames: [Frame<H::Words>; FRAMES],
    mirrors: [Mirror; FRAMES / IN_MIRROR],
    /// Frames in use so far, and the first of those that are free again.
    used: u32,
    free: u32,
    /// Pads by their callers' addresses: lists, which are read without the lock.
    callers: [AtomicU32; CALLERS],
    next: [AtomicU32; PADS as usize],
    /// Where the search for a pad goes on in each of these lists.
    cursors: [u32; CALLERS],
    /// Frames by their slots and pads, for those that the list of a slot is too long for.
    buckets: [u32; BUCKETS],
    /// Pads in use.
    pads: u32,
    /// When a pad was last seen in a list.
    seen: [u32; PADS as usize],
    searches: u32,
}

fn hash(word: u64) -> usize {
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

/// The list by slot and pad that a frame is in.
fn bucket(slot: u64, of: u32) -> usize {
    hash(slot ^ u64::from(of) << 16) % BUCKETS
}

impl<H: Host> Known<H> {
    /// The slot at this address, if it's there.
    fn slot_of(&self, address: u64) -> Option<&Slot> {
        let at = self.place_of(address)?;
        self.slots.get(at).filter(|slot| slot.address == address)
    }

    /// The place of the slot at this address, or the one where it would be added.
    fn place_of(&self, address: u64) -> Option<usize> {
        /// Places that are looked at.
        const LOOKS: usize = 256;
        let first = hash(address) % SLOTS;
        (0..LOOKS)
            .map(|step| (first + step) % SLOTS)
            .find(|at| self.slots.get(*at).is_none_or(|slot| [0, address].contains(&slot.address)))
    }

    /// The slot at this address, which is added if there's none. Only the thread whose stack it's on changes a slot that is there,
    /// and the list of its frames.
    pub(super) fn slot(&mut self, address: u64, is_added: bool) -> Option<&mut Slot> {
        let found = self.place_of(address)?;
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
    pub(super) fn take(&mut self, address: u64, of: u32, now: u64) -> Option<Frame<H::Words>> {
        let at = self.find(address, of)?;
        let frame = *self.frames.get(at as usize)?;
        self.unlink(at);
        self.release(at, now);
        if of != STUB {
            // SAFETY: a pad's word is there.
            let head = hash(unsafe { H::pads().pad(of).caller.read_volatile() }) % CALLERS;
            *self.cursors.get_mut(head)? = of;
        }
        Some(frame)
    }

    /// The frame of a slot with this pad.
    fn find(&self, address: u64, of: u32) -> Option<u32> {
        let oldest = self.slot_of(address)?.oldest;
        self.find_hashed(address, of)
            .or_else(|| self.unhashed(oldest).find(|(_, frame)| frame.of == of).map(|(at, _)| at))
    }

    fn find_hashed(&self, address: u64, of: u32) -> Option<u32> {
        let is_it = |frame: &Frame<H::Words>| (frame.slot, frame.of) == (address, of);
        let frame = |at: u32| self.frames.get(at as usize).filter(|_| at != 0).map(|it| (at, it));
        let first = *self.buckets.get(bucket(address, of))?;
        let mut chain = core::iter::successors(frame(first), |(_, it)| frame(it.chain)).take(MOST);
        chain.find(|(_, frame)| is_it(frame)).map(|(at, _)| at)
    }

    /// The frames of a slot, from its oldest on, that aren't in a list by slot and pad.
    fn unhashed(&self, oldest: u32) -> impl Iterator<Item = (u32, &Frame<H::Words>)> {
        let frame = |at: u32| self.frames.get(at as usize).filter(|_| at != 0).map(|it| (at, it));
        core::iter::successors(frame(oldest), move |(_, it)| frame(it.newer))
            .take_while(|(_, it)| !it.is_hashed)
            .take(UNPROVEN + 2)
    }

    /// Puts frame `at` before the others of its slot.
    fn link(&mut self, address: u64, at: u32) {
        let Some(slot) = self.slot(address, false) else { return };
        let next = core::mem::replace(&mut slot.frames, at);
        slot.count += 1;
        if next == 0 {
            slot.oldest = at;
        } else if let Some(frame) = self.frames.get_mut(next as usize) {
            frame.newer = at;
        }
        let Some(frame) = self.frames.get_mut(at as usize) else { return };
        (frame.slot, frame.next, frame.newer) = (address, next, 0);
        if frame.is_hashed
            && let Some(first) = self.buckets.get_mut(bucket(address, frame.of))
        {
            frame.chain = core::mem::replace(first, at);
        }
    }

    /// Takes frame `at` out of the lists that it's in.
    fn unlink(&mut self, at: u32) {
        let Some(frame) = self.frames.get(at as usize).copied() else { return };
        if let Some(newer) = self.frames.get_mut(frame.newer as usize).filter(|_| frame.newer != 0)
        {
            newer.next = frame.next;
        }
        if let Some(older) = self.frames.get_mut(frame.next as usize).filter(|_| frame.next != 0) {
            older.newer = frame.newer;
        }
        if let Some(slot) = self.slot(frame.slot, false) {
            slot.count = slot.count.saturating_sub(1);
            if frame.newer == 0 {
                slot.frames = frame.next;
            }
            if frame.next == 0 {
                slot.oldest = frame.newer;
            }
        }
        if frame.is_hashed {
            self.unchain(at, &frame);
        }
    }

    fn unchain(&mut self, at: u32, frame: &Frame<H::Words>) {
        let Some(first) = self.buckets.get_mut(bucket(frame.slot, frame.of)) else { return };
        if *first == at {
            *first = frame.chain;
            return;
        }
        let mut before = *first;
        for () in core::iter::repeat_n((), MOST) {
            let Some(other) = self.frames.get_mut(before as usize).filter(|_| before != 0) else {
                return;
            };
            if other.chain == at {
                other.chain = frame.chain;
                return;
            }
            before = other.chain;
        }
    }

    /// A frame is free again; what the trace that's recorded `now` has of it is no longer open.
    fn release(&mut self, at: u32, now: u64) {
        self.reflect(at, (0, 0), now);
        if let Some(frame) = self.frames.get_mut(at as usize) {
            frame.next = self.free;
            self.free = at;
        }
    }

    /// Keeps a frame of a slot; `false` if there's no room.
    pub(super) fn keep(&mut self, address: u64, mut frame: Frame<H::Words>) -> bool {
        if self.slot(address, true).is_none() {
            return false;
        }
        let at = if self.free != 0 {
            self.free
        } else if (self.used as usize) < FRAMES - 1 {
            self.used + 1
        } else {
            return false;
        };
        if at == self.free {
            self.free = self.frames.get(at as usize).map_or(0, |frame| frame.next);
        } else {
            self.used = at;
        }
        frame.is_hashed = is_proven();
        if let Some(room) = self.frames.get_mut(at as usize) {
            *room = frame;
        }
        self.link(address, at);
        if frame.open != 0 {
            self.make_mirror(address, at, frame.trace);
            self.reflect(at, (frame.open, frame.start), frame.trace);
        }
        true
    }

    /// Sees to it that there's a word of the trace for a frame, if there's room. Its address looks as if it were that of a stack which
    /// is far from this slot's, or readers would take the call for left as soon as the slot is used again.
    fn make_mirror(&mut self, address: u64, at: u32, of: u64) {
        const FAR: u64 = 1 << 24;
        const NOWHERE: u64 = 1 << 62;
        let number = at as usize / IN_MIRROR;
        let Some(mirror) = self.mirrors.get_mut(number).filter(|it| it.trace != of) else { return };
        let near = (address << SHIFT ^ FAR) & (2 * FAR - 1) & !(trace::CHUNK_SIZE - 1);
        let base = NOWHERE | (number as u64) << 32 | near;
        let process = (of >> 32) as u32;
        let chunk = |kind| new_chunk::<H>(kind, 0, base, process);
        let Some(starts) = chunk(trace::chunk::STARTS) else { return };
        let Some(open) = chunk(trace::chunk::OPEN) else { return };
        *mirror = Mirror { starts: starts.bytes as u64, open: open.bytes as u64, trace: of };
    }

    /// The trace that's recorded `now` has this call for a frame, if it has a word for it.
    fn reflect(&mut self, at: u32, (open, start): (u64, u64), now: u64) {
        let is_of_now = |frame: &&Frame<H::Words>| frame.trace == now;
        let is_there = |mirror: &&Mirror| mirror.trace == now && mirror.open != 0;
        let mirrors = self.mirrors.get(at as usize / IN_MIRROR).filter(is_there);
        let (Some(_), Some(mirror)) = (self.frames.get(at as usize).filter(is_of_now), mirrors)
        else {
            return;
        };
        let place = 8 * (at as usize % IN_MIRROR) as u64;
        // SAFETY: the chunks are mapped as long as the trace is recorded, and are this process's.
        unsafe {
            ((mirror.starts + place) as *mut u64).write_volatile(start);
            store((mirror.open + place) as *mut u64, open & !OF_PAD);
        }
    }

    /// The list of a slot's frames, the newest first. One that was caught in a change, when another thread forked, might not end.
    fn list(&self, first: u32) -> impl Iterator<Item = (u32, &Frame<H::Words>)> {
        let frame = |at: u32| self.frames.get(at as usize).filter(|_| at != 0).map(|it| (at, it));
        core::iter::successors(frame(first), move |(_, it)| frame(it.next)).take(MOST + 1)
    }

    /// Takes the oldest frame that has a pad out of the list of a slot: it's likely to be gone.
    fn forget_oldest(&mut self, address: u64) -> Option<u32> {
        let oldest = self.slot_of(address)?.oldest;
        let frame = |at: u32| self.frames.get(at as usize).filter(|_| at != 0).map(|it| (at, it));
        // One frame of a slot has the stub.
        let mut all = core::iter::successors(frame(oldest), |(_, it)| frame(it.newer)).take(3);
        let (at, _) = all.find(|(_, frame)| frame.of != STUB)?;
        self.unlink(at);
        Some(at)
    }

    /// The list of pads whose callers' addresses have this hash.
    fn pads_of(&self, head: usize) -> impl Iterator<Item = u32> {
        self.pads_from(self.callers.get(head).map(|it| it.load(Acquire)).filter(|at| *at != 0))
    }

    /// The part of such a list that begins with this pad.
    fn pads_from(&self, first: Option<u32>) -> impl Iterator<Item = u32> {
        let next =
            |at: &u32| self.next.get(*at as usize).map(|it| it.load(Acquire)).filter(|at| *at != 0);
        core::iter::successors(first, next)
    }

    /// A pad for this caller that isn't one of these, if it's found soon.
    fn known_pad(&self, caller: u64, taken: &[u32]) -> Option<u32> {
        /// How many are looked at.
        const LOOKS: usize = 32;
        let mut all = self.pads_of(hash(caller) % CALLERS).take(LOOKS);
        all.find(|at| {
            // SAFETY: a pad's word is there.
            let its = unsafe { H::pads().pad(*at).caller.read_volatile() };
            its == caller && !taken.contains(at)
        })
    }

    /// What [`displace`] does, where nothing that threads have in common has to change: without the lock.
    ///
    /// # Safety
    ///
    /// As of that.
    pub(super) unsafe fn displace(&mut self, of: &Taken<H>, is_recorded: bool) -> Option<u64> {
        let address = of.slot;
        let slot = *self.slot(address, false)?;
        if slot.count as usize > UNPROVEN {
            return None;
        }
        // SAFETY: the caller promises that the block is this thread's, and that the slot's shadows are mapped if there's one.
        let before = unsafe { of.present(slot.owner) };
        let is_full = slot.count as usize == UNPROVEN && !is_proven();
        if before.is_some() && !(is_full && is_recorded) {
            return None;
        }
        let mut taken = [STUB; UNPROVEN + 1];
        let frames = self.list(slot.frames).map(|(_, frame)| frame.of);
        for (room, of) in taken.iter_mut().zip(frames.chain(before.map(|frame| frame.of))) {
            *room = of;
        }
        let new = self.known_pad(of.caller, &taken)?;
        if let Some(before) = before {
            let at = self.forget_oldest(address)?;
            *self.frames.get_mut(at as usize)? = Frame { open: 0, is_recorded: true, ..before };
            self.link(address, at);
        }
        self.slot(address, false)?.owner = new;
        Some(H::pads().pad(new).address)
    }

    /// A pad for this caller that no frame of the slot has, if there's one or it's found soon.
    fn pad_for(&mut self, address: u64, caller: u64) -> Option<u32> {
        /// How many are looked at: programs may have thousands of frames in a slot.
        const LOOKS: usize = 64;
        self.mark(address)?;
        let head = hash(caller) % CALLERS;
        let (mut shared, mut found, mut last) = (None, None, 0);
        let cursor = self.cursors.get(head).copied().filter(|at| *at != 0);
        for at in self.pads_from(cursor).chain(self.pads_of(head)).take(LOOKS) {
            last = at;
            // SAFETY: a pad's word is there.
            if unsafe { H::pads().pad(at).caller.read_volatile() } == caller {
                shared = Some(at);
                let is_taken = self.seen.get(at as usize) == Some(&self.searches)
                    || self.find_hashed(address, at).is_some();
                if !is_taken {
                    found = shared;
                    break;
                }
            }
        }
        *self.cursors.get_mut(head)? = self.next.get(last as usize)?.load(Relaxed);
        if found.is_some() {
            return found;
        }
        // SAFETY: a pad's word is there.
        let is_of_caller =
            |at: &u32| unsafe { H::pads().pad(*at).caller.read_volatile() } == caller;
        let shared = shared.or_else(|| self.pads_of(head).find(is_of_caller));
        // The program is right with a shared one; of two such calls, one's times are the other's.
        if shared.is_some() && (0..=SPARE).contains(&PADS.saturating_sub(self.pads)) {
            return shared;
        }
        self.new_pad(head, caller).or(shared)
    }

    /// Marks the pads of a slot's frames that aren't in a list by slot and pad, and its owner, as seen by the next search.
    fn mark(&mut self, address: u64) -> Option<()> {
        self.searches = self.searches.wrapping_add(1);
        let search = self.searches;
        let slot = *self.slot(address, true)?;
        let mut marked = [STUB; UNPROVEN + 3];
        let unhashed = self.unhashed(slot.oldest).map(|(_, frame)| frame.of);
        for (room, of) in marked.iter_mut().zip(unhashed.chain([slot.owner])) {
            *room = of;
        }
        for of in marked {
            *self.seen.get_mut(of as usize)? = search;
        }
        Some(())
    }

    /// A pad that nobody has had, with this caller, if there's one left.
    fn new_pad(&mut self, head: usize, caller: u64) -> Option<u32> {
        // Some numbers are no pads.
        let new = (self.pads + 1..PADS).find(|number| is_pad(*number))?;
        self.pads = new;
        // SAFETY: a pad's word is there, and it's nobody's yet.
        unsafe { H::pads().pad(new).caller.write_volatile(caller) };
        let head = self.callers.get(head)?;
        self.next.get(new as usize)?.store(head.load(Relaxed), Relaxed);
        head.store(new, Release);
        Some(new)
    }

    /// What [`displace`] does, with the lock: the pad's address, and a frame that there's no room for any more.
    ///
    /// # Safety
    ///
    /// As of that.
    pub(super) unsafe fn displace_alone(
        &mut self,
        of: &Taken<H>,
        is_recorded: bool,
    ) -> Option<(u64, Option<Frame<H::Words>>)> {
        let slot = of.slot;
        let owner = self.slot(slot, true)?.owner;
        let new = self.pad_for(slot, of.caller)?;
        // SAFETY: the caller promises that the block is this thread's, and that the slot's shadows are mapped if there's one.
        let before = unsafe { of.present(owner) };
        if let Some(mut before) = before {
            if is_recorded {
                (before.open, before.is_recorded) = (0, true);
            }
            if !self.keep(slot, before) && before.open != 0 {
                drop_call::<H>();
            }
        }
        let most = if is_proven() { MOST } else { UNPROVEN };
        let mut forgotten = None;
        if self.slot(slot, true)?.count as usize > most
            && let Some(oldest) = self.forget_oldest(slot)
        {
            forgotten = self.frames.get(oldest as usize).copied();
            // SAFETY: the caller promises that the block is this thread's, and that the slot's shadows are mapped if there's one.
            self.release(oldest, unsafe { trace_of(of.block) });
        }
        self.slot(slot, true)?.owner = new;
        Some((H::pads().pad(new).address, forgotten))
    }
}
