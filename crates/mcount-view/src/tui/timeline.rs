//! The timeline: what each thread is in at the moment of each column. However much time a column stands for, only the calls around its
//! middle are read.

use super::search::Search;
use mcount_trace::{Call, Trace};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Deeper calls aren't shown.
pub(super) const DEEPEST: usize = 24;

/// How long may be read before something has to be shown.
const BUDGET: Duration = Duration::from_millis(60);

/// How many calls a search reads.
const SEARCHED: usize = 4_000_000;

/// Where the view is. Times are nanoseconds since the start of the trace.
pub(super) struct Timeline {
    pub(super) from: u64,
    pub(super) to: u64,
    /// When the trace ends.
    end: u64,
    /// Threads with calls, by their places in the trace, the one that began first is first.
    pub(super) threads: Vec<usize>,
    /// The thread of the cursor, its place in these.
    pub(super) thread: usize,
    /// The depth of the cursor.
    pub(super) depth: usize,
    /// The column of the cursor.
    pub(super) column: usize,
    /// Columns on the screen.
    width: usize,
    /// What was read, by thread: a stack for each column.
    known: HashMap<usize, Vec<Option<Vec<Call>>>>,
}

impl Timeline {
    pub(super) fn new(trace: &Trace<'_>) -> Self {
        let threads = (0..trace.threads.len()).filter(|at| trace.count(*at) > 0).collect();
        let end = trace.nanoseconds(trace.latest()).max(1);
        Self {
            from: 0,
            to: end,
            end,
            threads,
            thread: 0,
            depth: 0,
            column: 0,
            width: 1,
            known: HashMap::new(),
        }
    }

    /// There are so many columns.
    pub(super) fn resize(&mut self, width: usize) {
        if self.width != width.max(1) {
            self.width = width.max(1);
            self.column = self.column.min(self.width - 1);
            self.known.clear();
        }
    }

    /// The time in the middle of a column.
    pub(super) fn time(&self, column: usize) -> u64 {
        let span = u128::from(self.to - self.from);
        let (twice, width) = (2 * column as u128 + 1, 2 * self.width as u128);
        self.from.saturating_add(u64::try_from(span * twice / width).unwrap_or(u64::MAX))
    }

    /// Reads what's missing of these threads, for a while; whether that's all.
    pub(super) fn read(&mut self, trace: &Trace<'_>, threads: &[usize]) -> bool {
        let begin = Instant::now();
        let (width, times) = (self.width, (0..self.width).map(|column| self.time(column)));
        let times: Vec<u64> = times.collect();
        for thread in threads {
            let stacks = self.known.entry(*thread).or_insert_with(|| vec![None; width]);
            for (stack, time) in stacks.iter_mut().zip(&times).filter(|(stack, _)| stack.is_none())
            {
                if begin.elapsed() > BUDGET {
                    return false;
                }
                let mut calls = trace.stack_at(*thread, *time);
                calls.truncate(DEEPEST);
                *stack = Some(calls);
            }
        }
        true
    }

    /// What a thread is in in a column, as far as it was read.
    pub(super) fn stack(&self, thread: usize, column: usize) -> &[Call] {
        let stacks = self.known.get(&thread).and_then(|stacks| stacks.get(column));
        stacks.and_then(Option::as_ref).map_or(&[], Vec::as_slice)
    }

    /// How deep a thread is in all columns.
    pub(super) fn depth_of(&self, thread: usize) -> usize {
        let stacks = self.known.get(&thread).into_iter().flatten().flatten();
        stacks.map(Vec::len).max().unwrap_or(0)
    }

    /// The call under the cursor.
    pub(super) fn call(&self) -> Option<&Call> {
        let thread = self.threads.get(self.thread)?;
        let stack = self.stack(*thread, self.column);
        stack.get(self.depth.min(stack.len().checked_sub(1)?))
    }

    /// Shows this stretch of time, as far as there is one.
    fn show(&mut self, from: u64, span: u64) {
        let span = span.clamp(self.width as u64, self.end.max(self.width as u64));
        self.from = from.min(self.end.saturating_sub(span));
        self.to = self.from + span;
        self.known.clear();
    }

    /// Shows all of it.
    pub(super) fn show_all(&mut self) {
        self.show(0, self.end);
    }

    /// Shows half as much around the cursor, or twice as much.
    pub(super) fn zoom(&mut self, is_in: bool) {
        let (time, span) = (self.time(self.column), self.to - self.from);
        let new = if is_in { span / 2 } else { span.saturating_mul(2) };
        let part = u128::from(time - self.from) * u128::from(new) / u128::from(span.max(1));
        self.show(time.saturating_sub(u64::try_from(part).unwrap_or(0)), new);
        self.go_to(time);
    }

    /// The cursor goes to the column of a time.
    fn go_to(&mut self, time: u64) {
        let (since, span) = (time.saturating_sub(self.from), (self.to - self.from).max(1));
        let column = u128::from(since) * self.width as u128 / u128::from(span);
        self.column = usize::try_from(column).unwrap_or(0).min(self.width - 1);
    }

    /// Shows what's earlier or later, by a part of what's shown: an eighth as often as `eighths` says.
    pub(super) fn pan(&mut self, eighths: i64) {
        let span = self.to - self.from;
        let by = i64::try_from(span / 8).unwrap_or(i64::MAX).max(1).saturating_mul(eighths);
        self.show(self.from.saturating_add_signed(by), span);
    }

    /// Moves the cursor by a column; at the edge, what's shown.
    pub(super) fn step(&mut self, is_right: bool) {
        if is_right && self.column + 1 < self.width {
            self.column += 1;
        } else if !is_right && self.column > 0 {
            self.column -= 1;
        } else {
            let time = self.time(self.column);
            self.pan(if is_right { 1 } else { -1 });
            self.go_to(time);
        }
    }

    /// Moves the cursor to another depth, or to another thread.
    pub(super) fn move_down(&mut self, is_down: bool) {
        let depth = self.threads.get(self.thread).map_or(0, |thread| self.depth_of(*thread));
        if is_down && self.depth + 1 < depth {
            self.depth += 1;
        } else if is_down && self.thread + 1 < self.threads.len() {
            (self.thread, self.depth) = (self.thread + 1, 0);
        } else if !is_down && self.depth > 0 {
            self.depth -= 1;
        } else if !is_down && self.thread > 0 {
            self.thread -= 1;
            let depth = self.threads.get(self.thread).map_or(0, |thread| self.depth_of(*thread));
            self.depth = depth.saturating_sub(1);
        }
    }

    /// Shows the call under the cursor from its start to its end.
    pub(super) fn zoom_to_call(&mut self, trace: &Trace<'_>) {
        if let Some(call) = self.call() {
            let start = trace.nanoseconds(call.start);
            let end = call.end.map_or(self.end, |end| trace.nanoseconds(end));
            let span = end.saturating_sub(start);
            self.show(start.saturating_sub(span / 16), span.saturating_add(span / 8));
            self.go_to(start.saturating_add(span / 2));
        }
    }

    /// Goes to the next call that is searched for, of the cursor's thread: whether there is one not too far away.
    pub(super) fn find(&mut self, trace: &Trace<'_>, search: &Search) -> bool {
        let Some(thread) = self.threads.get(self.thread).copied() else { return false };
        let now = self.time(self.column);
        let calls = trace.calls_from(now, |at| at == thread).take(SEARCHED);
        let mut later = calls.filter(|call| trace.nanoseconds(call.start) > now);
        let Some(call) = later.find(|call| search.is_match(call.function)) else { return false };
        let start = trace.nanoseconds(call.start);
        let span = self.to - self.from;
        if start >= self.to {
            self.show(start.saturating_sub(span / 2), span);
        }
        // The column whose middle is in the call, if one is.
        self.go_to(start);
        self.depth = call.depth.min(DEEPEST - 1);
        true
    }
}
