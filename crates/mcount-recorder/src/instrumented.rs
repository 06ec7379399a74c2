//! Calls that functions tell of themselves (`-finstrument-functions`): their code says when it's entered and when it's left. Functions that
//! were inlined do so, too. So several calls can have one frame, and none has the slot of a return address.
//!
//! Where a frame's code tells, the stack pointer is at a multiple of 16, and slots of return addresses are 8 bytes from those. So the word at
//! the stack pointer is the *base* of a frame: it's the slot of the outermost of its calls, and the next ones have slots 16 bytes below each
//! other, from the base on. Nothing of the stack itself is touched: it's the shadows of these words that are used, as those of other slots are.
//! One more shadow, TOLD, has two words for each call: who it is, and where its frame returns to.
//!
//! A call in a slot is gone if another frame has the same base, or if the same code tells in the same frame once more. Otherwise nobody
//! knows when `longjmp` or an exception has left it, until the end of a call above it, or a reader who sees what comes later.

use crate::abi::flags::{ENTRIES, LIMITED};
use crate::block::Block;
use crate::calls::finish;
use crate::chunks::drop_call;
use crate::host::Host;
use crate::limit::{self, Nesting};
use crate::numbers::{RETURN, UNWOUND, has};
use crate::places::{PIECE, nest_of, store, told_of};
use crate::{records, shadow, thread};

/// Bytes from the slot of a call to that of the next one in its frame.
const STEP: u64 = 16;

/// How many slots below its base a call can be.
const MOST: u64 = 255;

/// Between its entry and its end, what a frame has pushed for others may change by so much.
const PUSHED: u64 = 128;

/// A frame that's gone had no more bytes.
const FRAME: u64 = 1 << 20;

/// What a function tells.
#[derive(Debug, Clone, Copy)]
pub struct Told {
    /// Its number, and above it what it is for what is recorded.
    pub word: u32,
    /// Where its frame returns to.
    pub site: u64,
    /// The stack pointer before it told.
    pub stack: u64,
    /// Where in its code it tells.
    pub place: u64,
}

/// The first word in TOLD: where code told of the entry, the number of its function, and how many slots it is below its base.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Who(u64);

impl Who {
    fn new(told: &Told, below: u64) -> Self {
        Self(told.place << 32 | u64::from(told.word & 0xff_ffff) << 8 | below)
    }

    fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The base of its frame; it has this slot.
    fn base(self, slot: u64) -> u64 {
        slot + STEP * (self.0 & 0xff)
    }

    /// Is it a call of this function?
    fn is_of(self, told: &Told) -> bool {
        self.0 as u32 >> 8 == told.word & 0xff_ffff
    }

    /// Was it told at this place?
    fn is_told_at(self, place: u64) -> bool {
        self.0 >> 32 == place & 0xffff_ffff
    }
}

/// The words of a slot in TOLD.
struct Words(*mut u64);

impl Words {
    fn of(slot: u64) -> Self {
        Self(told_of(slot) as *mut u64)
    }

    /// Who has the slot.
    ///
    /// # Safety
    ///
    /// The shadow is mapped.
    unsafe fn who(&self) -> Who {
        // SAFETY: the caller promises that it's mapped.
        Who(unsafe { self.0.read_volatile() })
    }

    /// Where its frame returns to.
    ///
    /// # Safety
    ///
    /// As above.
    unsafe fn site(&self) -> u64 {
        // SAFETY: as above; slots are 16 bytes apart, so the next word is there, and nobody's.
        unsafe { self.0.add(1).read_volatile() }
    }

    /// # Safety
    ///
    /// As above.
    unsafe fn put(&self, who: Who, site: u64) {
        // SAFETY: as above. A signal handler that comes in between finds the slot free.
        unsafe {
            self.0.add(1).write_volatile(site);
            self.0.write_volatile(who.0);
        }
    }
}

/// The base of a frame whose code tells with this stack pointer.
fn base_of(stack: u64) -> u64 {
    (stack + 8) & !(STEP - 1)
}

/// A function tells that it's entered.
///
/// # Safety
///
/// Its code has called the caller, on the stack of this thread.
pub unsafe fn enter<H: Host>(told: &Told) {
    let (id, class) = (told.word & 0xff_ffff, told.word >> 24);
    let base = base_of(told.stack);
    // SAFETY: `prepare` and `cover` map the shadows of the slots that are used.
    unsafe {
        if has::<H>(ENTRIES) {
            if let Some(block) = thread::prepare::<H>(base) {
                records::record_entry::<H>(block, base, id);
            }
            return;
        }
        let Some((block, slot)) = free_slot::<H>(told, base) else { return };
        Words::of(slot).put(Who::new(told, (base - slot) / STEP), told.site);
        let is_recorded =
            !has::<H>(LIMITED) || limit::enter::<H>(block, slot, class) == Nesting::Recorded;
        if is_recorded {
            let shadow = shadow::of::<H>(slot);
            shadow.start.write_volatile(thread::now::<H>(block));
            store(shadow.open, (*block).tag | u64::from(id));
        }
    }
}

/// Maps TOLD for the stack from `low` to `high`, as far as there is room.
pub fn cover_stack<H: Host>(low: u64, high: u64) {
    thread::alone::<H, _>(|| {
        let all = (low / PIECE..=high / PIECE).rev();
        all.take_while(|piece| shadow::cover_told(piece * PIECE, true).is_some()).count()
    });
}

/// The slot for a call in the frame with this base, and the thread's block.
///
/// # Safety
///
/// As of [`enter`].
unsafe fn free_slot<H: Host>(told: &Told, base: u64) -> Option<(*mut Block, u64)> {
    for below in 0..=MOST {
        let slot = base.checked_sub(STEP * below)?;
        // SAFETY: it's on the stack of this thread, or below; `cover` maps its shadow.
        unsafe {
            let block = thread::prepare::<H>(slot)?;
            if !cover::<H>(block, slot) {
                break;
            }
            let words = Words::of(slot);
            let who = words.who();
            if who.is_none() {
                return Some((block, slot));
            }
            let is_of_frame = who.base(slot) == base && words.site() == told.site;
            // What frames above have goes on.
            if who.base(slot) > base || is_of_frame && !who.is_told_at(told.place) {
                continue;
            }
            end::<H>(block, slot, UNWOUND);
            if has::<H>(LIMITED) {
                (nest_of(slot) as *mut u64).write_volatile(0);
            }
            return Some((block, slot));
        }
    }
    drop_call::<H>();
    None
}

/// A function tells that it's left.
///
/// # Safety
///
/// As of [`enter`].
pub unsafe fn leave<H: Host>(told: &Told) {
    if has::<H>(ENTRIES) {
        return;
    }
    let base = base_of(told.stack);
    // SAFETY: as above; no slot is used whose shadows aren't mapped.
    unsafe {
        let Some(block) = thread::prepare::<H>(base).filter(|block| cover::<H>(*block, base))
        else {
            return;
        };
        let stack = Stack::of(block);
        let Some(slot) = stack.find::<H>(told, base) else { return };
        // These are within it, and haven't told that they were left. What frames above have goes on.
        let of_frame = Words::of(slot).who().base(slot);
        let below = (1..).map(|count| slot.min(base) - STEP * count);
        let below = below.take_while(|slot| stack.has(*slot) && !Words::of(*slot).who().is_none());
        for within in (base..slot).step_by(STEP as usize).chain(below) {
            let who = Words::of(within).who();
            if !who.is_none() && who.base(within) <= of_frame {
                end::<H>(block, within, UNWOUND);
            }
        }
        Words::of(slot).put(Who(0), 0);
        finish::<H>(slot as *mut u64, RETURN);
    }
}

/// A stack, as far as its shadows are mapped.
struct Stack {
    /// From these addresses on, so many bytes.
    ranges: [(u64, u64); 2],
    tag: u64,
}

impl Stack {
    /// The one that a thread has last been seen on.
    ///
    /// # Safety
    ///
    /// The block is this thread's.
    unsafe fn of(block: *mut Block) -> Self {
        // SAFETY: the caller promises it.
        unsafe {
            let ranges = [((*block).low, (*block).size), ((*block).told_low, (*block).told_size)];
            Self { ranges, tag: (*block).tag }
        }
    }

    /// Are all shadows of this slot mapped?
    fn has(&self, slot: u64) -> bool {
        self.ranges.iter().all(|(low, size)| slot.wrapping_sub(*low) < *size)
    }

    /// The slot of the call that `told` is the end of, in a frame whose base seems to be this.
    ///
    /// # Safety
    ///
    /// As of [`enter`].
    unsafe fn find<H: Host>(&self, told: &Told, base: u64) -> Option<u64> {
        // SAFETY: no further than shadows are mapped.
        let who = |slot: u64| unsafe { Words::of(slot).who() };
        // SAFETY: as above.
        let site = |slot: u64| unsafe { Words::of(slot).site() };
        let is_it = |slot: &u64| who(*slot).is_of(told) && site(*slot) == told.site;
        let down = || (0..).map(|count| base.wrapping_sub(STEP * count));
        let lower = |most: u64| {
            let slots = down().skip(1).take((most / STEP) as usize);
            let mut slots = slots.take_while(|slot| self.has(*slot));
            slots.find(|slot| who(*slot).base(*slot) < base && is_it(slot))
        };
        // The function has jumped there as the last thing that it did: its frame is gone.
        if told.place == told.site {
            return lower(FRAME);
        }
        let chain = down().take_while(|slot| self.has(*slot) && !who(*slot).is_none());
        let of_frame = chain.filter(|slot| who(*slot).base(*slot) == base && is_it(slot));
        // What the frame has pushed may not be what it was.
        if let Some(slot) = of_frame.last().or_else(|| lower(PUSHED)) {
            return Some(slot);
        }
        let is_own = |slot: &u64| {
            // SAFETY: as above.
            let open = unsafe { shadow::of::<H>(*slot).open.read_volatile() };
            open == 0 || open >> 32 == self.tag >> 32
        };
        let above = (base + STEP..).step_by(STEP as usize);
        let mut above = above.take_while(|slot| self.has(*slot));
        above.find(|slot| is_it(slot) && is_own(slot))
    }
}

/// The call of `slot` has ended in this way. What `limit.rs` knows of it is looked through when the next one is entered.
///
/// # Safety
///
/// The shadows of the slot are mapped, and the block is this thread's.
unsafe fn end<H: Host>(block: *mut Block, slot: u64, how: u64) {
    // SAFETY: the caller promises it.
    unsafe {
        Words::of(slot).put(Who(0), 0);
        let open = shadow::of::<H>(slot).open;
        if open.read_volatile() != 0 {
            records::record::<H>(block, slot, how, thread::now::<H>(block));
            store(open, 0);
        }
    }
}

/// Sees to it that TOLD is mapped for `slot`; `false` if it can't be had.
///
/// # Safety
///
/// The block is this thread's.
unsafe fn cover<H: Host>(block: *mut Block, slot: u64) -> bool {
    // SAFETY: the caller promises that the block is this thread's.
    unsafe {
        if slot.wrapping_sub((*block).told_low) < (*block).told_size {
            return true;
        }
        let may_map = !H::is_confined();
        let Some((low, size)) =
            thread::alone::<H, _>(|| shadow::cover_told(slot, may_map)).flatten()
        else {
            return false;
        };
        (&raw mut (*block).told_size).write_volatile(0);
        (&raw mut (*block).told_low).write_volatile(low);
        (&raw mut (*block).told_size).write_volatile(size);
    }
    true
}
