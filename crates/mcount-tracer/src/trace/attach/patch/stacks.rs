//! Threads in the way: those that are in a function that's to be replaced, or will return there.

use super::super::maps::Mapping;
use super::frames::{Frame, Unwinder, words};
use mcount_ptrace::resume::ResumePoint;
use mcount_ptrace::{Standing, Thread, proc_text};

/// Code that no thread may be in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) function: String,
    pub(super) start: u64,
    pub(super) end: u64,
    /// A thread that is exactly here, or before it, has not begun yet.
    pub(super) body: u64,
}

impl Range {
    fn has(&self, frame: Frame) -> bool {
        let at = if frame.is_exact { frame.address } else { frame.address.wrapping_sub(1) };
        (self.start..self.end).contains(&at) && !(frame.is_exact && frame.address < self.body)
    }
}

/// The first thread that is in one of `ranges`, and how that's reported.
pub(super) fn in_the_way(
    standing: &Standing,
    places: &[Vec<ResumePoint>],
    unwinder: &Unwinder<'_>,
    maps: &[Mapping],
    ranges: &[Range],
) -> Option<String> {
    for (thread, places) in standing.threads.iter().zip(places) {
        if !may_be_in(thread, places, unwinder, maps, ranges) {
            continue;
        }
        let frames = unwinder.frames(&thread.registers, maps);
        let found = frames.iter().find_map(|frame| {
            ranges.iter().find(|range| range.has(*frame)).map(|range| (*frame, range))
        });
        if let Some((frame, range)) = found {
            return Some(describe(thread.tracee.id(), frame, range));
        }
    }
    None
}

/// Is there anything on a thread's stack that leads there? Most threads are soon done with.
fn may_be_in(
    thread: &Thread,
    places: &[ResumePoint],
    unwinder: &Unwinder<'_>,
    maps: &[Mapping],
    ranges: &[Range],
) -> bool {
    // Frames of signals may lead to other stacks.
    if places.len() > 1 {
        return true;
    }
    let is_in = |address: &u64| ranges.iter().any(|one| (one.start..=one.end).contains(address));
    is_in(&thread.registers.instruction())
        || words(unwinder.memory, thread.registers.stack(), maps).iter().any(is_in)
}

fn describe(thread: i32, frame: Frame, range: &Range) -> String {
    let name = proc_text(&format!("/proc/{thread}/comm")).unwrap_or_default();
    let how = match frame {
        Frame { is_guess: true, .. } => "may return to",
        Frame { is_exact: true, .. } => "is in",
        Frame { .. } => "will return to",
    };
    let offset = frame.address.wrapping_sub(range.start);
    let function = &range.function;
    format!("thread {thread} ({}) {how} {function}+{offset:#x}", name.trim_end())
}
