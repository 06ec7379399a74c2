//! Counters of the processor's events, as they stand when calls begin and end (`--counters`).
//!
//! Each thread opens its events before its first call, maps a page of each, and closes what it opened: the mapping keeps them. From then on
//! counters are read without any system call. A forked child has none of this, as its block is wiped, and opens its own.
//!
//! What the agent does is counted, too. So it reads counters whenever it begins and ends its work, adds up the difference, and leaves it out. What
//! it does before and after these readings is measured once for each thread, and left out as well. What is recorded is thus as if nobody
//! traced, except for some instructions of stubs and routines.

use crate::{blocks, config};
use core::mem::size_of;
use mcount_cpu::counters::{Attributes, Page};
use mcount_cpu::here::agent::COUNTERS as READING;
use mcount_cpu::here::syscalls::number;
use mcount_recorder::abi::Counter;
use mcount_recorder::abi::config::COUNTERS_COUNT as MOST;
use mcount_recorder::abi::flags::COUNTERS;
use mcount_recorder::block::Block;
use mcount_recorder::numbers::has;
use mcount_recorder::payload::Values;
use mcount_recorder::{Host, sys, thread};

/// Bytes from what is a thread's own to the page of its first event, and from each page to the next: at least a page of any kernel.
const SPACE: u64 = 64 << 10;
/// Bytes of all of it.
const SIZE: u64 = SPACE * (1 + MOST as u64);
/// What [`Block::kept`] has if nothing can be counted.
const NOTHING: u64 = 1;
/// A number that no counter reaches: it isn't known.
const UNKNOWN: u64 = u64::MAX;

/// A number for each counter.
type Numbers = [u64; MOST];

/// What a thread knows of its counters. The pages of its events follow.
#[derive(Debug)]
#[repr(C)]
struct Own {
    /// What the program had counted when the agent began its work.
    seen: Numbers,
    /// What the agent has counted so far.
    work: Numbers,
    /// What is counted of the end of its work and of the next beginning.
    around: Numbers,
    /// Not 0: the agent is at work.
    is_busy: u64,
}

const _: () = assert!(size_of::<Own>() <= 4096);

impl Own {
    /// What is kept with this block, which is this thread's. `None`: nothing can be counted.
    unsafe fn of<H: Host>(block: *mut Block) -> Option<*mut Self> {
        // SAFETY: the caller promises that the block is this thread's.
        unsafe {
            if (*block).kept == 0 {
                open::<H>(block);
            }
            let kept = (*block).kept;
            (kept != NOTHING).then_some(kept as *mut Self)
        }
    }

    /// What counters say.
    unsafe fn read(own: *mut Self) -> Numbers {
        let mut found = [UNKNOWN; MOST];
        let Some(reading) = READING else { return found };
        let mut page = own as u64;
        for (number, counter) in found.iter_mut().zip(&config().counters) {
            page += SPACE;
            if counter.kind != 0 {
                // SAFETY: the memory of this thread's events, or zeroes, by which there's no counter.
                let read = unsafe { Page::read(page as *const Page, reading.read) };
                *number = read.unwrap_or(UNKNOWN);
            }
        }
        found
    }

    /// What the program has counted, if counters say this.
    unsafe fn of_program(own: *mut Self, counted: &Numbers) -> Numbers {
        let mut found = [UNKNOWN; MOST];
        // SAFETY: the caller promises that it's this thread's.
        let work = unsafe { (&raw const (*own).work).read_volatile() };
        for ((number, counted), work) in found.iter_mut().zip(counted).zip(work) {
            if *counted != UNKNOWN {
                *number = counted.wrapping_sub(work);
            }
        }
        found
    }
}

/// What the agent does when a hook is reached.
pub(crate) struct Work {
    own: *mut Own,
    /// When it began: what counters said, what the agent had counted before, and the program.
    began: Numbers,
    before: Numbers,
    seen: Numbers,
    is_busy: u64,
}

impl Work {
    const NONE: Self = Self {
        own: core::ptr::null_mut(),
        began: [UNKNOWN; MOST],
        before: [0; MOST],
        seen: [UNKNOWN; MOST],
        is_busy: 0,
    };

    /// It begins.
    ///
    /// # Safety
    ///
    /// `slot` is an address on the stack of this thread.
    #[inline(never)]
    pub(crate) unsafe fn begin<H: Host>(slot: u64) -> Self {
        if !has::<H>(COUNTERS) {
            return Self::NONE;
        }
        // SAFETY: the caller's; what is kept with the block is this thread's.
        unsafe {
            let own = thread::prepare::<H>(slot).and_then(|block| Own::of::<H>(block));
            let Some(own) = own else { return Self::NONE };
            let began = Own::read(own);
            for (work, around) in (*own).work.iter_mut().zip((*own).around) {
                *work = work.wrapping_add(around);
            }
            let seen = (&raw mut (*own).seen).replace(Own::of_program(own, &began));
            let is_busy = (&raw mut (*own).is_busy).replace(1);
            Self { own, began, before: (*own).work, seen, is_busy }
        }
    }

    /// It ends. Of what was done meanwhile, other work has counted its own: a signal handler may have called traced functions.
    #[inline(never)]
    pub(crate) fn end(self) {
        let own = self.own;
        if own.is_null() {
            return;
        }
        // SAFETY: it's this thread's.
        unsafe {
            if self.is_busy != 0 {
                (&raw mut (*own).seen).write_volatile(self.seen);
            }
            (&raw mut (*own).is_busy).write_volatile(self.is_busy);
            let ended = Own::read(own);
            let numbers = self.began.iter().zip(&self.before).zip(&ended);
            for (work, ((began, before), ended)) in (*own).work.iter_mut().zip(numbers) {
                if *began != UNKNOWN && *ended != UNKNOWN {
                    let within = work.wrapping_sub(*before);
                    *work = work.wrapping_add(ended.wrapping_sub(*began).wrapping_sub(within));
                }
            }
        }
    }
}

/// Adds what the program had counted when the agent began its work, in so many counters.
pub(crate) fn add(values: &mut Values, count: u64) {
    let block = blocks::current();
    let mut seen = [UNKNOWN; MOST];
    // SAFETY: the caller records a call of this thread, so it has a block.
    unsafe {
        if !block.is_null() && (*block).kept_size != 0 {
            let own = (*block).kept as *const Own;
            seen = (&raw const (*own).seen).read_volatile();
        }
    }
    for number in seen.iter().take(count as usize) {
        values.add(&number.to_le_bytes());
    }
}

/// What is recorded at the end of a call which didn't return.
///
/// # Safety
///
/// The block is this thread's.
pub(crate) unsafe fn at_end<H: Host>(block: *mut Block) -> Values {
    let mut values = Values::NONE;
    // SAFETY: the caller's.
    unsafe {
        if let Some(own) = Own::of::<H>(block)
            && (*own).is_busy == 0
        {
            let counted = Own::read(own);
            (&raw mut (*own).seen).write_volatile(Own::of_program(own, &counted));
        }
    }
    add(&mut values, config().counters.iter().filter(|counter| counter.kind != 0).count() as u64);
    values
}

/// Has the events of this thread counted, if that can be.
unsafe fn open<H: Host>(block: *mut Block) {
    let Some(reading) = READING.filter(|_| !H::is_confined()) else {
        // SAFETY: the block is this thread's.
        return unsafe { (*block).kept = NOTHING };
    };
    let before = sys::set_signals(u64::MAX);
    // SAFETY: the block is this thread's, and no signal handler gets in between.
    unsafe {
        if let Some(memory) = sys::map(0, SIZE, sys::PROT_READ_WRITE) {
            let mut page = memory;
            for counter in &config().counters {
                page += SPACE;
                if counter.kind != 0 {
                    open_one(counter, &reading, page);
                }
            }
            (*block).kept_size = SIZE;
            (*block).kept = memory;
            measure::<H>(memory as *mut Own);
        } else {
            (*block).kept = NOTHING;
        }
    }
    sys::set_signals(before);
}

/// Measures what is counted around the agent's work: it begins and ends some without doing any.
unsafe fn measure<H: Host>(own: *mut Own) {
    const TIMES: usize = 8;
    let mut least = [UNKNOWN; MOST];
    // SAFETY: the caller's; an address on the stack is one of this thread's.
    unsafe {
        let slot = (&raw const least) as u64 & !7;
        let mut before = Own::read(own);
        for time in 0..TIMES {
            let own_work = Work::begin::<H>(slot);
            let numbers = before.iter().zip(&own_work.began);
            for (least, (before, began)) in least.iter_mut().zip(numbers) {
                if time != 0 && *before != UNKNOWN && *began != UNKNOWN {
                    *least = (*least).min(began.wrapping_sub(*before));
                }
            }
            let (began, inner) = (own_work.began, own_work.before);
            own_work.end();
            // When it ended is what it began with, and what it has counted of itself since.
            let numbers = before.iter_mut().zip(began).zip(inner).zip((*own).work);
            for (((before, began), inner), work) in numbers {
                *before = if began == UNKNOWN { UNKNOWN } else { began + (work - inner) };
            }
        }
        for (around, least) in (*own).around.iter_mut().zip(least) {
            *around = if least == UNKNOWN { 0 } else { least };
        }
        (*own).work = [0; MOST];
    }
}

/// Maps the page of an event at `page`. If that can't be done, zeroes stay there.
unsafe fn open_one(counter: &Counter, reading: &mcount_cpu::counters::Counters, page: u64) {
    const PROT_READ: u64 = 1;
    const MAP_SHARED: u64 = 1;
    const CLOEXEC: u64 = 8;
    const ANY_PROCESSOR: u64 = u64::MAX;
    const NO_GROUP: u64 = u64::MAX;
    for config1 in reading.config1 {
        let attributes = Attributes::new(counter.kind as u32 - 1, counter.config, *config1);
        let arguments = [(&raw const attributes) as u64, 0, ANY_PROCESSOR, NO_GROUP, CLOEXEC, 0];
        // SAFETY: the structure is read; what is mapped there before is ours.
        unsafe {
            let opened = sys::call(reading.open, arguments);
            let Ok(file) = u64::try_from(opened) else { continue };
            let flags = MAP_SHARED | sys::MAP_FIXED;
            sys::call(number::MMAP, [page, 4096, PROT_READ, flags, file, 0]);
            sys::call(number::CLOSE, [file, 0, 0, 0, 0, 0]);
        }
        return;
    }
}
