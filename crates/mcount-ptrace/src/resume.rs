//! Where threads stand: inside an area that's to be changed, which they are moved out of, or inside the agent, which has
//! to be waited for. The same goes for code that a signal has interrupted, so stacks are searched for the frames of
//! signals.

use crate::memory::Memory;
use crate::stop::{Standing, Thread};
use mcount_cpu::here::outside::SIGNALS;
use mcount_hooks::maps::{self, Mapping};
use std::collections::HashMap;

/// Bytes of a frame that are looked at.
const FRAME: usize = SIGNALS.size;
/// Bytes of one stack that are searched at a time, and the most of all.
const PIECE: u64 = 1 << 13;
const MOST: u64 = 64 << 20;

/// A place where a thread goes on: in its registers, or in the frame of a signal at this address.
#[derive(Debug, Clone, Copy)]
pub struct ResumePoint {
    /// The instruction that is next there.
    pub address: u64,
    /// Where the frame of the signal has that address; `None` if it's the thread's own.
    pub frame: Option<u64>,
}

/// Where each of the threads goes on, now and when its signal handlers return.
#[must_use]
pub fn places(standing: &Standing, memory: &Memory, maps: &[Mapping]) -> Vec<Vec<ResumePoint>> {
    let mut returns = HashMap::new();
    standing.threads.iter().map(|one| places_of(one, memory, maps, &mut returns)).collect()
}

/// All places where `thread` goes on. `returns` keeps what is known of code that handlers return to.
fn places_of(
    thread: &Thread,
    memory: &Memory,
    maps: &[Mapping],
    returns: &mut HashMap<u64, bool>,
) -> Vec<ResumePoint> {
    let mut found = vec![ResumePoint { address: thread.registers.instruction(), frame: None }];
    let mut stack = thread.registers.stack();
    // Handlers may run on stacks of their own, one upon the other.
    for _ in 0..8 {
        match search(stack, memory, maps, returns, &mut found) {
            Some(next) => stack = next,
            None => break,
        }
    }
    found
}

/// Looks for frames of signals on a stack, from `start` on to its end; where the code that was interrupted has its own,
/// if that's another one.
fn search(
    start: u64,
    memory: &Memory,
    maps: &[Mapping],
    returns: &mut HashMap<u64, bool>,
    found: &mut Vec<ResumePoint>,
) -> Option<u64> {
    let map = maps::find(maps, start)?;
    let mut elsewhere = None;
    let (mut at, end) = (start & !7, map.end.min(start.saturating_add(MOST)));
    while at + (FRAME as u64) <= end {
        let size = (end - at).min(PIECE + FRAME as u64);
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        if memory.read(at, &mut bytes).is_err() {
            break;
        }
        let mut offset = 0;
        while let Some(frame) = bytes.get(offset..offset + FRAME) {
            if let Some(frame) = (SIGNALS.read)(frame)
                && frame.back.is_none_or(|back| is_return(back, memory, maps, returns))
            {
                let place = at + (offset + SIGNALS.place) as u64;
                found.push(ResumePoint { address: frame.place, frame: Some(place) });
                if !(start..map.end).contains(&frame.stack) {
                    elsewhere = Some(frame.stack);
                }
            }
            offset += 8;
        }
        at += offset as u64;
    }
    elsewhere
}

/// Does a signal handler return to this code? It makes the system call `rt_sigreturn`.
fn is_return(
    address: u64,
    memory: &Memory,
    maps: &[Mapping],
    known: &mut HashMap<u64, bool>,
) -> bool {
    *known.entry(address).or_insert_with(|| {
        let mut bytes = [0; 9];
        maps::find(maps, address).is_some_and(Mapping::is_code)
            && memory.read(address, &mut bytes).is_ok()
            && (SIGNALS.is_left_by)(&bytes)
    })
}
