//! Calls as beginnings and ends that nest, as timelines want them.
//!
//! The calls of a thread nest, but for those of fibres, which can overlap. A thread has as many lanes as it takes
//! for calls to nest in each; nearly always that is one.

use mcount_trace::Call;
use std::io;

/// The most lanes of a thread. What overlaps even then ends when the call around it does.
const MOST: usize = 16;

/// Where a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    pub(super) thread: usize,
    /// 0 for the first of the thread.
    pub(super) number: usize,
}

/// What happens in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Begin,
    End,
}

/// Says what happens, in the order of time within each lane. A call that had not ended has no end here, either.
pub(super) fn walk(
    threads: usize,
    calls: impl Iterator<Item = Call>,
    mut tell: impl FnMut(Lane, Step, &Call) -> io::Result<()>,
) -> io::Result<()> {
    let mut open: Vec<Vec<Vec<Call>>> = vec![Vec::new(); threads];
    for mut call in calls {
        let thread = call.thread;
        let Some(lanes) = open.get_mut(thread) else { continue };
        for (number, lane) in lanes.iter_mut().enumerate() {
            while let Some(over) = lane.pop_if(|top| is_over(top, &call)) {
                tell(Lane { thread, number }, Step::End, &over)?;
            }
        }
        let number = lanes.iter().position(|lane| fits(lane, &call));
        let number = number.unwrap_or_else(|| {
            if lanes.len() < MOST {
                lanes.push(Vec::new());
            }
            lanes.len() - 1
        });
        let Some(lane) = lanes.get_mut(number) else { continue };
        if !fits(lane, &call)
            && let Some(top) = lane.last()
        {
            call.end = top.end;
        }
        tell(Lane { thread, number }, Step::Begin, &call)?;
        lane.push(call);
    }
    for (thread, lanes) in open.iter().enumerate() {
        for (number, lane) in lanes.iter().enumerate() {
            for call in lane.iter().rev().filter(|call| call.end.is_some()) {
                tell(Lane { thread, number }, Step::End, call)?;
            }
        }
    }
    Ok(())
}

/// Whether `top` ended before `next` began.
fn is_over(top: &Call, next: &Call) -> bool {
    top.end.is_some_and(|end| end < next.start || end == next.start && top.depth >= next.depth)
}

/// Whether `call` ends no later than what is open in `lane`.
fn fits(lane: &[Call], call: &Call) -> bool {
    let Some(end) = lane.last().and_then(|top| top.end) else { return true };
    call.end.is_some_and(|own| own <= end)
}
