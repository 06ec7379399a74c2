//! Processes that the traced one makes by `fork` while it's traced: they have the trace, and no event tells of them.

use super::block::processes_with;
use super::worker::{Worker, describe_process, inner_id, left};
use crate::trace::thread_names::inner_threads;
use mcount_trace::layout::metadata::UNKNOWN_STATUS;
use mcount_trace::{Follower, ProcessEnd, ThreadEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

impl Worker {
    /// Leaves the processes that were made by `fork` meanwhile. `false` if one of them keeps the trace.
    pub(super) fn leave_forked(&self) -> io::Result<bool> {
        // Those may make others as long as they run.
        const ROUNDS: u32 = 100;
        let file = self.trace.file().metadata()?;
        for _ in 0..ROUNDS {
            let mut is_done = true;
            for process in processes_with(&file)? {
                let Some(mut session) = self.session.forked(process)? else { continue };
                is_done = false;
                if !left(&mut session)? {
                    return Ok(false);
                }
            }
            if is_done {
                return Ok(processes_with(&file)?.is_empty());
            }
        }
        Ok(false)
    }

    /// Puts into the trace the data about processes that no event announced. Those that aren't `alive`, and threads that are gone, ended
    /// when they had recorded their last call, as far as that's known.
    pub(super) fn describe_forked(&self, alive: &[i32]) {
        let own = inner_id(self.request.process);
        let forked = self.trace.processes().into_iter().map(u32::cast_signed);
        for process in forked.filter(|process| *process != own) {
            // If there's no more room, that's reported anyway.
            let _ = describe_process(&self.trace, &self.program, (process, own));
        }
        let alive: BTreeSet<i32> = alive.iter().map(|process| inner_id(*process)).collect();
        let threads = inner_threads(self.request.process);
        let mut processes: BTreeMap<u32, u64> = BTreeMap::new();
        for ((pid, tid), ticks) in self.last_ends() {
            let (process, thread) = (pid.cast_signed(), tid.cast_signed());
            if process == own && !threads.is_empty() && !threads.contains(&thread) {
                let _ = self.trace.add(ThreadEnd { pid, tid, ticks });
            } else if process != own && !alive.contains(&process) {
                let last = processes.entry(pid).or_default();
                *last = ticks.max(*last);
            }
        }
        for (pid, ticks) in processes {
            let _ = self.trace.add(ProcessEnd { pid, status: UNKNOWN_STATUS, ticks });
        }
    }

    /// When the last call of each thread ended that it recorded itself, in ticks, by the numbers of process and thread. Nothing of a trace
    /// that takes long to read.
    fn last_ends(&self) -> BTreeMap<(u32, u32), u64> {
        const AT_ONCE: usize = 1024;
        /// A gigabyte.
        const MOST: u64 = 1 << 14;
        /// Looks at it. A whole trace takes a few; one that the program has written over may never have been read.
        const LOOKS: u64 = 2 * MOST / AT_ONCE as u64;
        let mut ends: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        // Nobody reads a hidden one.
        if self.is_hidden || self.trace.chunks() > MOST || !self.trace.is_whole() {
            return ends;
        }
        let mut follower = Follower::new();
        let mut pieces = Pieces::NONE;
        let file = self.trace.file();
        let mut read = |offset: u64, bytes: &mut [u8]| pieces.read(file, offset, bytes);
        for _ in 0..LOOKS {
            let look = follower.look(&mut read, AT_ONCE, |call| {
                if call.tid != 0 {
                    let end = ends.entry((call.process, call.tid)).or_default();
                    *end = call.end.max(*end);
                }
            });
            if look.left == 0 {
                return ends;
            }
        }
        BTreeMap::new()
    }
}

/// Pieces of a file that were read: the last two, so that no chunk is read for itself.
struct Pieces([(u64, Vec<u8>); 2]);

impl Pieces {
    const SIZE: u64 = 4 << 20;

    /// Nothing was read yet.
    const NONE: Self = Self([(u64::MAX, Vec::new()), (u64::MAX, Vec::new())]);

    /// Reads so many bytes; `false` if they aren't there. They're in one piece: chunks and directories are.
    fn read(&mut self, file: &File, offset: u64, bytes: &mut [u8]) -> bool {
        let start = offset / Self::SIZE * Self::SIZE;
        let [first, second] = &mut self.0;
        if first.0 != start {
            std::mem::swap(first, second);
        }
        if first.0 != start {
            first.1.resize(usize::try_from(Self::SIZE).unwrap_or(0), 0);
            let count = file.read_at(&mut first.1, start).unwrap_or(0);
            first.1.truncate(count);
            first.0 = start;
        }
        let at = usize::try_from(offset - start).unwrap_or(usize::MAX);
        let found = first.1.get(at..).and_then(|rest| rest.get(..bytes.len()));
        if let Some(found) = found {
            bytes.copy_from_slice(found);
            return true;
        }
        file.read_exact_at(bytes, offset).is_ok()
    }
}
