//! Calls whose slot another frame has, too: programs that copy stacks.
//!
//! Some coroutines share a stack (greenlet, gevent, libco): what one has on it is copied away, another one runs at the same
//! addresses, and the copy comes back later. So an entry may find its slot taken, with a word in RET that isn't
//! its own. The frame that left that word may be gone, by `longjmp`, or may come back. The agent can't
//! know.
//!
//! So a slot's shadow belongs to the frame that returns to a stub, until it does. Later frames of the slot return to *pads*:
//! each pad has one caller's address, and so a slot that leads to a pad says itself where to go on, wherever it's copied.
//! Two frames of a slot with the same caller have two pads, so a pad also says which frame it is.
//!
//! What's recorded of a call is in TIM and OPN of the slot while its frame is there. When another takes its place, it's kept here,
//! as `Frame` (`pads/known.rs`), until it comes back. [`OF_PAD`] in OPN says that these belong to the frame of a pad; it sends all
//! exits of the slot here. What else is kept of a call, `host.rs` knows: [`Words`].
//!
//! A reader of the trace has to find these calls as well: they may be open when it ends. So the trace has
//! chunks of open calls that shadow no stack, with a word for each frame that's kept (`Mirror`).
//!
//! Until a frame has come back for the first time, those that lose their place are taken for left by `longjmp`, and
//! recorded so, as they may be lost otherwise. Those of them that do come back are counted in the trace.

mod known;

use crate::block::Block;
use crate::chunks::drop_call;
use crate::host::{Host, Words};
use crate::numbers::UNWOUND;
use crate::places::store;
use crate::{layout as trace, records, shadow, sys, thread};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicU64};
use known::{Frame, Known};

pub use crate::shadow::OF_PAD;

/// The frame that returns to a stub.
const STUB: u32 = 0;

static KNOWN: AtomicU64 = AtomicU64::new(0);

/// A frame has come back.
static IS_PROVEN: AtomicU64 = AtomicU64::new(0);

/// The number of the trace: a process may have several, one after the other.
static TRACE: AtomicU32 = AtomicU32::new(0);

/// Another trace begins. Calls of the last one aren't open in it.
pub fn begin_trace() {
    TRACE.fetch_add(1, SeqCst);
}

/// What tells this trace of this process from others: a forked child inherits frames, but their calls are its parent's. 0: there's none.
///
/// # Safety
///
/// The block is this thread's.
unsafe fn trace_of(block: Option<*mut Block>) -> u64 {
    // SAFETY: the caller promises that the block is this thread's, and that the slot's shadows are mapped if there's one.
    let process = block.map_or(0, |block| unsafe { (*block).process });
    u64::from(process) << 32 | u64::from(TRACE.load(Relaxed))
}

/// Has a slot been another frame's, too?
#[inline]
pub fn are_used() -> bool {
    KNOWN.load(Relaxed) != 0
}

fn known<H: Host>() -> Option<&'static mut Known<H>> {
    let known = KNOWN.load(SeqCst) as *mut Known<H>;
    // SAFETY: it stays mapped; `Known::slot` says who may change what.
    unsafe { known.as_mut() }
}

/// Memory of zeroes, which is what everything begins with.
fn make<H: Host>() -> Option<&'static mut Known<H>> {
    if KNOWN.load(SeqCst) == 0 && !H::is_confined() {
        let size = (size_of::<Known<H>>() as u64).next_multiple_of(4096);
        KNOWN.store(sys::map(0, size, sys::PROT_READ_WRITE)?, SeqCst);
    }
    known::<H>()
}

/// A slot that another frame has, and what is called there.
pub struct Taken<H: Host> {
    /// The address of the slot.
    pub slot: u64,
    /// Where the function is to return to.
    pub caller: u64,
    /// The block of this thread, if anything is recorded.
    pub block: Option<*mut Block>,
    /// What `host.rs` had of the other frame.
    pub words: H::Words,
}

impl<H: Host> Taken<H> {
    /// The frame that what is kept for the slot belongs to, if there's anything.
    ///
    /// # Safety
    ///
    /// The shadows of the slot are mapped if there's a block.
    unsafe fn present(&self, owner: u32) -> Option<Frame<H::Words>> {
        let (mut open, mut start) = (0, 0);
        if self.block.is_some() {
            let shadow = shadow::of::<H>(self.slot);
            // SAFETY: the caller promises that the block is this thread's, and that the slot's shadows are mapped if there's one.
            (open, start) = unsafe { (shadow.open.read_volatile(), shadow.start.read_volatile()) };
        }
        if open == 0 && self.words.is_none() {
            return None;
        }
        let is_pad = if open == 0 { self.words.is_of_pad() } else { open & OF_PAD == OF_PAD };
        let of = if is_pad { owner } else { STUB };
        // SAFETY: the caller promises that the block is this thread's, and that the slot's shadows are mapped if there's one.
        let trace = unsafe { trace_of(self.block) };
        Some(Frame {
            of,
            next: 0,
            newer: 0,
            slot: self.slot,
            open,
            start,
            words: self.words,
            trace,
            is_recorded: false,
            is_hashed: false,
            chain: 0,
        })
    }
}

/// Have frames come back in this process, so that a call whose place is taken may go on?
pub fn is_proven() -> bool {
    IS_PROVEN.load(Relaxed) != 0
}

/// A function is called whose slot is that of another frame. Takes OPN away from that frame, whose call `is_recorded` if it was
/// open. The address that the function is to return to; `None`: it can't be watched, and nothing has changed.
///
/// # Safety
///
/// The block is this thread's, and if there's one, the shadows of the slot are mapped.
pub unsafe fn displace<H: Host>(of: &Taken<H>, is_recorded: bool) -> Option<u64> {
    // SAFETY: the caller promises that the block is this thread's, and that the slot's shadows are mapped if there's one.
    let found = known::<H>().and_then(|known| unsafe { known.displace(of, is_recorded) });
    let (pad, forgotten) = match found {
        Some(pad) => (pad, None),
        // SAFETY: the caller promises that the block is this thread's, and that the slot's shadows are mapped if there's one.
        None => thread::alone::<H, _>(|| unsafe { make::<H>()?.displace_alone(of, is_recorded) })
            .flatten()?,
    };
    let Some(block) = of.block else { return Some(pad) };
    let shadow = shadow::of::<H>(of.slot);
    // SAFETY: the caller promises that the block is this thread's, and that the slot's shadows are mapped if there's one.
    unsafe {
        store(shadow.open, 0);
        if let Some(forgotten) =
            forgotten.filter(|it| it.open != 0 && it.trace == trace_of(of.block))
        {
            shadow.start.write_volatile(forgotten.start);
            store(shadow.open, forgotten.open & !OF_PAD);
            records::record::<H>(block, of.slot, UNWOUND, thread::now::<H>(block));
            store(shadow.open, 0);
        }
    }
    Some(pad)
}

/// The frame that returns to `address`, a stub or a pad, is on the stack again, or still: what's recorded of it is put into TIM
/// and OPN, and what `host.rs` has of it where that belongs.
///
/// # Safety
///
/// The shadows of `slot` are mapped if there's a block for it.
pub unsafe fn claim<H: Host>(slot: u64, address: u64) {
    let of = H::pads().number_of(address).unwrap_or(STUB);
    let Some(owner) = known::<H>().and_then(|known| known.slot(slot, false)).map(|slot| slot.owner)
    else {
        return;
    };
    // SAFETY: the caller promises that the slot's shadows are mapped if there's a block. The blocks of others are only read.
    unsafe {
        let block = thread::prepare::<H>(slot);
        if block.is_none() && !H::has_words(slot) {
            return;
        }
        let words = H::words(slot);
        let before = Taken::<H> { slot, caller: 0, block, words }.present(owner);
        if before.is_some_and(|frame| frame.of == of) {
            return;
        }
        thread::alone::<H, _>(|| {
            let known = known::<H>()?;
            let found = known.take(slot, of, trace_of(block));
            if found.is_some() {
                IS_PROVEN.store(1, Relaxed);
            }
            if let Some(before) = before
                && !known.keep(slot, before)
                && before.open != 0
            {
                drop_call::<H>();
            }
            if of != STUB {
                known.slot(slot, false)?.owner = of;
            }
            put_back::<H>(slot, block, found, of != STUB);
            Some(())
        });
    }
}

/// The kept data of a frame, if there is any, becomes that of the slot.
///
/// # Safety
///
/// As of [`claim`].
unsafe fn put_back<H: Host>(
    slot: u64,
    block: Option<*mut Block>,
    found: Option<Frame<H::Words>>,
    is_pad: bool,
) {
    // SAFETY: the caller promises that the block is this thread's, and that the slot's shadows are mapped if there's one.
    unsafe {
        if block.is_some() {
            store(shadow::of::<H>(slot).open, 0);
        }
        H::put_words(slot, found.map(|found| found.words), is_pad);
        let Some(found) = found.filter(|it| block.is_some() && it.trace == trace_of(block)) else {
            return;
        };
        if found.is_recorded
            && let Some(early) = H::header(trace::header::EARLY)
        {
            early.fetch_add(1, Relaxed);
        }
        let shadow = shadow::of::<H>(slot);
        shadow.start.write_volatile(found.start);
        store(shadow.open, found.open);
    }
}

/// The caller's address of a frame that returns to the pad with this address.
#[inline]
pub fn caller_of<H: Host>(address: u64) -> Option<u64> {
    if !are_used() {
        return None;
    }
    // SAFETY: a pad's word is there.
    H::pads()
        .number_of(address)
        .map(|number| unsafe { H::pads().pad(number).caller.read_volatile() })
}
