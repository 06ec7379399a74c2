//! Calls that took long, with what they called: kept while a process is sampled, and written as a trace.
//!
//! Calls come when they have ended, those of a thread in the order of their ends. So what a call called came before it, and began after
//! it did. The newest calls of each thread wait here until it's known whether they were part of a slow one.

use foldhash::{HashMap, HashSet};
use mcount_trace::layout::header;
use mcount_trace::{End, Ended, ThreadId, Trace, Writer};
use std::collections::VecDeque;

/// Slow calls, and the calls of which it isn't known yet.
#[derive(Debug, Default)]
pub struct Slow {
    /// Ticks that a slow call takes, or more.
    least: u64,
    threads: HashMap<u32, Waiting>,
    /// Calls that wait, of all threads.
    waiting: usize,
    kept: Vec<Ended>,
    /// Slow calls, those inside of others, too.
    found: u64,
    /// Slow calls that lack some of what they called, and calls that were given up for want of room.
    cut: u64,
    lost: u64,
    /// Of threads that are no longer known: ticks when the newest call ended that is forgotten.
    forgotten: u64,
    /// How many threads are known before those are forgotten of which no call waits.
    most: usize,
}

/// The newest calls of a thread.
#[derive(Debug, Default)]
struct Waiting {
    calls: VecDeque<Ended>,
    /// Ticks when the newest call ended that is forgotten.
    forgotten: u64,
}

impl Slow {
    /// Calls that wait, of one thread and of all.
    const OF_THREAD: usize = 1 << 16;
    const OF_ALL: usize = 1 << 20;
    /// Calls that are kept.
    const KEPT: usize = 1 << 20;
    /// Threads that are known at least.
    const THREADS: usize = 1 << 10;
    /// Calls that an empty queue has room for.
    const ROOM: usize = 64;

    /// Keeps calls that take this many ticks or more.
    #[must_use]
    pub fn new(least: u64) -> Self {
        Self { least, most: Self::THREADS, ..Self::default() }
    }

    /// How many slow calls there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.found
    }

    /// How many of them may lack some of what they called.
    #[must_use]
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// How many calls aren't kept for want of room.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Until this time, in ticks, not all functions were watched: calls that began before may lack some of what they called.
    pub fn begin(&mut self, since: u64) {
        self.cut = self.found;
        self.forgotten = self.forgotten.max(since);
        for thread in self.threads.values_mut() {
            thread.forgotten = thread.forgotten.max(since);
        }
    }

    /// A call has ended.
    pub fn add(&mut self, call: &Ended) {
        if self.threads.len() > self.most {
            self.forget_threads();
            self.most = (self.threads.len() * 2).max(Self::THREADS);
        }
        let Self { threads, waiting, kept, forgotten, .. } = self;
        let new = || Waiting { forgotten: *forgotten, ..Waiting::default() };
        let thread = threads.entry(call.thread).or_insert_with(new);
        if call.end.saturating_sub(call.start) < self.least {
            thread.calls.push_back(*call);
            *waiting += 1;
            if thread.calls.len() > Self::OF_THREAD {
                *waiting -= thread.forget_one();
            }
            if *waiting > Self::OF_ALL {
                self.forget();
            }
            return;
        }
        self.found += 1;
        self.cut += u64::from(call.start < thread.forgotten);
        let inside = thread.calls.partition_point(|other| other.start < call.start);
        // Calls of one thread are nested: none of those behind began before it.
        let inside = inside.min(thread.calls.len());
        *waiting -= thread.calls.len() - inside;
        for call in thread.calls.drain(inside..).chain([*call]) {
            if kept.len() < Self::KEPT {
                kept.push(call);
            } else {
                self.lost += 1;
            }
        }
        // A thread that never has another call doesn't keep what thousands took.
        if thread.calls.capacity() > Self::ROOM && thread.calls.is_empty() {
            thread.calls = VecDeque::new();
        }
    }

    /// Forgets the older half of what waits: threads that have ended don't wait for anything.
    fn forget(&mut self) {
        let mut newest: Vec<u64> = self.threads.values().filter_map(Waiting::newest).collect();
        newest.sort_unstable();
        let middle = newest.get(newest.len() / 2).copied().unwrap_or(0);
        for thread in self.threads.values_mut() {
            let few = if thread.newest().is_some_and(|newest| newest < middle) { 0 } else { 2 };
            let left = thread.calls.len().checked_div(few).unwrap_or(0);
            while thread.calls.len() > left {
                self.waiting -= thread.forget_one();
            }
        }
        self.forget_threads();
    }

    /// Forgets threads of which no call waits: numbers of threads that have ended don't come again.
    fn forget_threads(&mut self) {
        let Self { threads, forgotten, .. } = self;
        threads.retain(|_, thread| {
            let is_left = !thread.calls.is_empty();
            if !is_left {
                *forgotten = (*forgotten).max(thread.forgotten);
            }
            is_left
        });
    }

    /// Counts anew. What waits goes on waiting.
    pub fn reset(&mut self) {
        self.forget_threads();
        self.kept.clear();
        (self.found, self.cut, self.lost) = (0, 0, 0);
    }

    /// Takes the slow calls, as a trace; `trace` has the names, `start` are the ticks when the sample began, and `realtime` the
    /// nanoseconds since 1970 at that time.
    #[must_use]
    pub fn take(
        &mut self,
        trace: &Trace<'_>,
        (start, realtime): (u64, u64),
        notes: &[String],
    ) -> Vec<u8> {
        let mut kept = std::mem::take(&mut self.kept);
        // What calls those lacks them in the next trace.
        for call in &kept {
            if let Some(thread) = self.threads.get_mut(&call.thread) {
                thread.forgotten = thread.forgotten.max(call.end);
            }
        }
        // Some may have begun before, and times aren't negative.
        let rate = u128::from(trace.header.ticks_per_second.max(1));
        let earliest = kept.iter().map(|call| call.start).min().unwrap_or(start).min(start);
        let before = u128::from(start - earliest) * 1_000_000_000 / rate;
        let realtime = realtime.saturating_sub(u64::try_from(before).unwrap_or(u64::MAX));
        let start = earliest;
        // A stable order: calls of a thread are in that of their ends already.
        kept.sort_by_key(|call| call.thread);
        let mut writer = Writer::new();
        writer
            .header(header::TICKS_PER_SECOND, trace.header.ticks_per_second)
            .header(header::CLOCK, trace.header.clock)
            .header(header::START_TICKS, start)
            .header(header::START_REALTIME, realtime);
        describe(&mut writer, trace, start, &kept);
        for note in notes {
            writer.note(note);
        }
        for calls in kept.chunk_by(|one, other| one.thread == other.thread) {
            write(&mut writer, calls);
        }
        writer.finish()
    }
}

impl Waiting {
    fn newest(&self) -> Option<u64> {
        self.calls.back().map(|call| call.end)
    }

    /// Forgets the oldest call; how many that is.
    fn forget_one(&mut self) -> usize {
        let oldest = self.calls.pop_front();
        self.forgotten = oldest.map_or(self.forgotten, |call| self.forgotten.max(call.end));
        usize::from(oldest.is_some())
    }
}

/// Writes what these calls need to have names.
fn describe(writer: &mut Writer, trace: &Trace<'_>, start: u64, calls: &[Ended]) {
    let processes: HashSet<u32> = calls.iter().map(|call| call.process).collect();
    for process in trace.processes.iter().filter(|one| processes.contains(&one.pid)) {
        let name = String::from_utf8_lossy(process.name);
        writer.process(process.pid, process.parent, process.start.max(start), &name);
    }
    for thread in trace.threads.iter().filter(|one| processes.contains(&one.pid)) {
        let name = String::from_utf8_lossy(thread.name);
        match thread.start.filter(|began| *began >= start) {
            Some(began) => writer.thread_name(thread.pid, thread.tid, began, &name),
            None => writer.thread_called(thread.pid, thread.tid, start, &name),
        };
    }
    for module in &trace.modules {
        writer.entry(*module);
    }
    let called: HashSet<u32> = calls.iter().map(|call| call.function).collect();
    for function in trace.functions.iter().filter(|one| called.contains(&one.number)) {
        writer.entry(*function);
    }
    for mapping in &trace.mappings {
        writer.entry(*mapping);
    }
}

/// Writes the calls of a thread, which are in the order of their ends.
fn write(writer: &mut Writer, calls: &[Ended]) {
    /// Where a thread's stack would begin, and what a call would take of it.
    const STACK: u64 = 1 << 40;
    const FRAME: u64 = 16;
    let Some(first) = calls.first() else { return };
    let thread: ThreadId = writer.thread(first.process, first.tid);
    // Callers come behind those they called: from there on, their depth is known.
    let mut depths = vec![0_u64; calls.len()];
    let mut open: Vec<&Ended> = Vec::new();
    for (call, depth) in calls.iter().zip(&mut depths).rev() {
        while open.pop_if(|caller| caller.start > call.start || caller.start >= call.end).is_some()
        {
        }
        *depth = open.len() as u64;
        open.push(call);
    }
    for (call, depth) in calls.iter().zip(depths) {
        let slot = STACK - depth * FRAME;
        let new = writer.call(thread, call.function).from(call.start).to(call.end).slot(slot);
        new.end(call.how.unwrap_or(End::Return));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREADS: [u32; 2] = [1, 2];

    fn call(thread: u32, function: u32, start: u64, end: u64) -> Ended {
        let how = Some(End::Return);
        Ended { thread, process: 7, tid: 70 + thread, function, start, end, how, caller: None }
    }

    /// A trace whose only use is its names.
    fn names() -> Vec<u8> {
        let mut writer = Writer::new();
        writer.process(7, 1, 5, "/bin/serve").process(8, 7, 50, "/bin/other");
        for thread in THREADS {
            writer.thread_name(7, 70 + thread, 5, "worker");
        }
        for name in ["one", "two", "three"] {
            writer.function("/bin/serve", name);
        }
        writer.finish()
    }

    /// The function, depth, start and end of each call, by start.
    fn written(slow: &mut Slow) -> Vec<(u32, usize, u64, u64)> {
        let names = names();
        let bytes = slow.take(&Trace::parse(&names).unwrap(), (3, 0), &[]);
        let trace = Trace::parse(&bytes).unwrap();
        assert!(!trace.damage.is_any());
        assert_eq!(trace.header.start, 3);
        let calls = trace.calls().map(|call| (call.function, call.depth, call.start, call.end));
        let mut calls: Vec<_> = calls
            .map(|(function, depth, start, end)| (function, depth, start, end.unwrap_or(0)))
            .collect();
        calls.sort_by_key(|call| (call.2, call.1));
        calls
    }

    #[test]
    fn threads_that_have_ended_take_no_room() {
        let mut slow = Slow::new(100);
        for thread in 1..=50_000 {
            let start = u64::from(thread) * 1000;
            for call_of in 0..100 {
                slow.add(&call(thread, 1, start + call_of, start + call_of + 1));
            }
            slow.add(&call(thread, 2, start, start + 200));
            assert!(slow.threads.len() <= Slow::THREADS + 1);
        }
        assert_eq!((slow.count(), slow.cut(), slow.waiting), (50_000, 0, 0));
        assert!(slow.threads.values().all(|thread| thread.calls.capacity() <= Slow::ROOM));
        // Of a thread that was forgotten it's not known what it lacks.
        slow.reset();
        slow.kept.clear();
        slow.forgotten = 60_000_000;
        slow.add(&call(3, 2, 59_000_000, 61_000_000));
        assert_eq!((slow.count(), slow.cut()), (1, 1));
    }

    #[test]
    fn what_began_before_all_were_watched_lacks_some() {
        let mut slow = Slow::new(100);
        slow.add(&call(2, 1, 15, 120));
        slow.begin(50);
        for (thread, start) in [(1, 10), (2, 49), (1, 120), (2, 150)] {
            slow.add(&call(thread, 1, start, start + 100));
        }
        assert_eq!((slow.count(), slow.cut()), (5, 3));
    }

    #[test]
    fn slow_calls_are_kept_with_what_they_called() {
        let mut slow = Slow::new(100);
        let calls = [
            call(1, 3, 1, 2),
            call(2, 3, 12, 13),
            call(1, 3, 12, 13),
            call(1, 2, 11, 14),
            call(1, 3, 15, 20),
            call(1, 1, 10, 110),
            call(1, 2, 120, 219),
            call(2, 1, 10, 109),
        ];
        for call in &calls {
            slow.add(call);
        }
        assert_eq!((slow.count(), slow.cut(), slow.lost()), (1, 0, 0));
        let expected = [(1, 0, 10, 110), (2, 1, 11, 14), (3, 2, 12, 13), (3, 1, 15, 20)];
        assert_eq!(written(&mut slow), expected);
        // A slow one around those that were written before has what is new.
        slow.reset();
        slow.add(&call(1, 1, 5, 300));
        assert_eq!((slow.count(), slow.cut()), (1, 1));
        assert_eq!(written(&mut slow), [(1, 0, 5, 300), (2, 1, 120, 219)]);
    }

    #[test]
    fn slow_calls_inside_of_slow_calls_are_kept_once() {
        let mut slow = Slow::new(100);
        for call in
            [call(1, 3, 30, 31), call(1, 2, 20, 130), call(1, 3, 140, 141), call(1, 1, 10, 150)]
        {
            slow.add(&call);
        }
        let expected = [(1, 0, 10, 150), (2, 1, 20, 130), (3, 2, 30, 31), (3, 1, 140, 141)];
        assert_eq!(written(&mut slow), expected);
    }

    #[test]
    fn memory_is_bounded_and_what_lacks_says_so() {
        let mut slow = Slow::new(1 << 40);
        let many = Slow::OF_THREAD as u64 * 40;
        for number in 0..many {
            let thread = u32::try_from(number % 1000).unwrap();
            slow.add(&call(thread, 3, number * 2 + 1, number * 2 + 2));
            assert!(slow.waiting <= Slow::OF_ALL);
        }
        let waiting: usize = slow.threads.values().map(|thread| thread.calls.len()).sum();
        assert_eq!(waiting, slow.waiting);
        slow.add(&call(1, 1, 0, 1 << 41));
        assert_eq!((slow.count(), slow.cut()), (1, 1));
        let mut slow = Slow::new(1);
        for number in 0..Slow::KEPT as u64 + 5 {
            slow.add(&call(1, 3, number * 2 + 1, number * 2 + 2));
        }
        assert_eq!((slow.kept.len(), slow.lost()), (Slow::KEPT, 5));
    }
}
