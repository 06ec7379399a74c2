//! Functions of the kernel that threads call, one in the other, within their system calls and outside of these.
//!
//! The kernel names them by addresses, and threads by their numbers alone. What is handed on lies inside the system call that made it:
//! calls that would begin on one side of its border and end on the other are counted, and left out.

use super::chunks::{Chunks, encoded};
use super::symbols::Symbols;
use crate::words::counted;
use foldhash::HashMap;
use mcount_trace::Function;
use mcount_trace::layout::{end, told};

/// The first number of these functions in the trace, and how many there can be.
const FIRST: u32 = 0xfd_0000;
const MOST: usize = 1 << 16;

/// A call of a function of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Inner {
    address: u64,
    /// In ticks.
    pub(super) start: u64,
    pub(super) end: u64,
    /// As records have it.
    pub(super) how: u32,
}

/// One that has begun.
#[derive(Debug, Clone, Copy)]
struct Begun {
    address: u64,
    start: u64,
    /// It may be in the trace.
    is_wanted: bool,
}

/// What a thread is in.
#[derive(Debug, Default)]
struct Stack {
    begun: Vec<Begun>,
    /// How many of these began before the last border of a system call.
    outside: usize,
    /// When the last one began or ended, or the last system call did, in ticks.
    last: u64,
}

/// What all threads are in.
pub(super) struct Functions {
    /// How many calls, one in the other, are wanted.
    depth: usize,
    stacks: HashMap<u32, Stack>,
    /// How many calls were left out because they cross a border.
    crossing: u64,
}

impl Functions {
    /// None yet.
    pub(super) fn new(depth: u32) -> Self {
        let depth = usize::try_from(depth).unwrap_or(usize::MAX);
        Self { depth, stacks: HashMap::default(), crossing: 0 }
    }

    /// What is said of calls that began before the system call that they ended in, or ended after the one that they began in.
    pub(super) fn note(&self) -> Option<String> {
        let count = counted(
            self.crossing,
            "call of a kernel function crosses",
            "calls of kernel functions cross",
        );
        (self.crossing > 0)
            .then(|| format!("{count} the border of a system call: the trace lacks these"))
    }

    /// A thread is new. It may have the number of one that has ended.
    pub(super) fn begun(&mut self, thread: u32) {
        self.stacks.remove(&thread);
    }

    /// When something of this thread's begins or ends that is reported at that time, in ticks: later than what came before it. Of times that
    /// are equal, as those of coarse clocks are, it couldn't be told which call lies in which.
    pub(super) fn distinct(&mut self, thread: u32, ticks: u64) -> u64 {
        let last = &mut self.stacks.entry(thread).or_default().last;
        *last = ticks.max(last.saturating_add(1));
        *last
    }

    /// A function begins, in ticks. While its thread is off the processor, what is done is the kernel's own affair.
    pub(super) fn enter(&mut self, thread: u32, address: u64, ticks: u64, is_away: bool) {
        let stack = self.stacks.entry(thread).or_default();
        let depth = stack.begun.len() - stack.outside;
        let is_wanted = depth < self.depth && !is_away;
        stack.begun.push(Begun { address, start: ticks, is_wanted });
    }

    /// A function ends: its call, if that is wanted.
    pub(super) fn leave(
        &mut self,
        thread: u32,
        address: u64,
        ticks: u64,
        is_away: bool,
    ) -> Option<Inner> {
        let stack = self.stacks.get_mut(&thread)?;
        // If it isn't the last one, something is missing.
        let at = stack.begun.iter().rposition(|begun| begun.address == address)?;
        let Begun { start, is_wanted, .. } = *stack.begun.get(at)?;
        stack.begun.truncate(at);
        stack.outside = stack.outside.min(at);
        let inner = Inner { address, start, end: ticks, how: 0 };
        (is_wanted && !is_away).then_some(inner)
    }

    /// A function of which nothing but its beginning is known.
    pub(super) fn through(address: u64, ticks: u64) -> Inner {
        Inner { address, start: ticks, end: ticks, how: 0 }
    }

    /// The thread enters or leaves a system call.
    pub(super) fn cross(&mut self, thread: u32) {
        let Some(stack) = self.stacks.get_mut(&thread) else { return };
        for begun in &mut stack.begun {
            self.crossing += u64::from(std::mem::take(&mut begun.is_wanted));
        }
        stack.outside = stack.begun.len();
    }

    /// A thread has ended at that time or later, and nothing more is heard of it: what it was in doesn't return.
    pub(super) fn ended(&mut self, thread: u32, ticks: u64) -> Vec<Inner> {
        let how = u32::try_from(end::EXIT).unwrap_or(0);
        let Some(stack) = self.stacks.remove(&thread) else { return Vec::new() };
        let end = stack.last.max(ticks);
        stack.unfinished(end, how)
    }

    /// What threads were in isn't known any more.
    pub(super) fn lose(&mut self) {
        self.stacks.clear();
    }

    /// What hasn't ended, by thread.
    pub(super) fn rest(&mut self) -> Vec<(u32, Vec<Inner>)> {
        let stacks = std::mem::take(&mut self.stacks).into_iter();
        stacks.map(|(thread, stack)| (thread, stack.unfinished(0, told::OPEN))).collect()
    }
}

impl Stack {
    fn unfinished(self, end: u64, how: u32) -> Vec<Inner> {
        let wanted = self.begun.into_iter().filter(|begun| begun.is_wanted);
        let inner = |begun: Begun| Inner { address: begun.address, start: begun.start, end, how };
        wanted.map(inner).collect()
    }
}

/// What functions of the kernel are called in the trace.
pub(super) struct Described {
    symbols: Symbols,
    /// By address.
    numbers: HashMap<u64, u32>,
    module: u32,
}

impl Described {
    pub(super) fn new(symbols: Symbols, module: u32) -> Self {
        Self { symbols, numbers: HashMap::default(), module }
    }

    /// Puts what the function of a call is named into the metadata, if it isn't there. Of more functions than any kernel has, the first
    /// ones are there.
    pub(super) fn describe(&mut self, inner: &Inner, metadata: &mut Chunks) {
        let count = self.numbers.len();
        if count >= MOST || self.numbers.contains_key(&inner.address) {
            return;
        }
        let name = match self.symbols.at(inner.address) {
            Some(name) => format!("kernel:{name}"),
            None => format!("kernel:{:#x}", inner.address),
        };
        let number = FIRST | u32::try_from(count).unwrap_or(0);
        // Where the kernel is in memory isn't for those who get the trace.
        let (module, address, name) = (self.module, number.into(), name.as_bytes());
        metadata.write([encoded(Function { number, module, address, size: 1, name })]);
        self.numbers.insert(inner.address, number);
    }

    /// The number of a call's function.
    pub(super) fn number(&self, inner: &Inner) -> Option<u32> {
        self.numbers.get(&inner.address).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREAD: u32 = 8;

    fn functions(depth: u32) -> Functions {
        Functions::new(depth)
    }

    fn call(address: u64, start: u64, end: u64) -> Inner {
        Inner { address, start, end, how: 0 }
    }

    #[test]
    fn calls_end_from_within() {
        let mut all = functions(2);
        all.enter(THREAD, 1, 10, false);
        all.enter(THREAD, 2, 11, false);
        all.enter(THREAD, 3, 12, false);
        assert_eq!(all.leave(THREAD, 3, 13, false), None, "too deep");
        assert_eq!(all.leave(9, 2, 14, false), None, "another thread");
        assert_eq!(all.leave(THREAD, 2, 14, false), Some(call(2, 11, 14)));
        assert_eq!(all.leave(THREAD, 2, 14, false), None, "it has ended");
        all.enter(THREAD, 4, 15, false);
        // The end of 4 is missing.
        assert_eq!(all.leave(THREAD, 1, 16, false), Some(call(1, 10, 16)));
        assert_eq!((all.leave(THREAD, 4, 17, false), all.crossing), (None, 0));
    }

    #[test]
    fn borders_of_system_calls_are_not_crossed() {
        let mut all = functions(1);
        all.enter(THREAD, 1, 10, false);
        all.cross(THREAD);
        assert_eq!(all.crossing, 1);
        // What's outside has no part in how deep it is.
        all.enter(THREAD, 2, 11, false);
        assert_eq!(all.leave(THREAD, 2, 12, false), Some(call(2, 11, 12)));
        assert_eq!(all.leave(THREAD, 1, 13, false), None);
        all.enter(THREAD, 3, 14, false);
        all.cross(THREAD);
        assert_eq!((all.leave(THREAD, 3, 15, false), all.crossing), (None, 2));
        all.enter(THREAD, 4, 16, false);
        assert_eq!(all.leave(THREAD, 4, 17, false), Some(call(4, 16, 17)));
    }

    #[test]
    fn times_of_a_thread_are_distinct() {
        let mut all = functions(1);
        let times = [9, 9, 9, 20, 15].map(|ticks| all.distinct(THREAD, ticks));
        assert_eq!(times, [9, 10, 11, 20, 21]);
        assert_eq!(all.distinct(9, 9), 9, "another thread");
    }

    #[test]
    fn calls_that_do_not_end() {
        let mut all = functions(9);
        all.enter(THREAD, 1, 10, false);
        all.enter(THREAD, 2, 11, true);
        assert_eq!(all.leave(THREAD, 2, 12, true), None, "off the processor");
        all.enter(THREAD, 3, 13, false);
        let open = |address, start| Inner { address, start, end: 0, how: told::OPEN };
        assert_eq!(all.rest(), [(THREAD, vec![open(1, 10), open(3, 13)])]);
        all.enter(THREAD, 1, 20, false);
        let exit = Inner { address: 1, start: 20, end: 21, how: 3 };
        assert_eq!(all.ended(THREAD, 21), [exit]);
        // Since 2025, kernels tell of the end before they close files.
        all.enter(THREAD, 1, 30, false);
        assert_eq!(all.distinct(THREAD, 35), 35);
        assert_eq!(all.ended(THREAD, 22), [Inner { address: 1, start: 30, end: 35, how: 3 }]);
        assert_eq!(all.rest(), []);
        all.begun(THREAD);
        all.enter(THREAD, 1, 30, false);
        all.lose();
        assert_eq!(all.leave(THREAD, 1, 31, false), None);
    }
}
