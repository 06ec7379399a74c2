//! Makes calls of a trace from the beginnings and ends of system calls that the kernel reports, and from what it calls in them.

use super::chunks::{Chunks, KERNEL, append, chunks_of, encoded, record};
use super::events::Entry;
use super::functions::{Described as Functions, Inner};
use super::symbols::Symbols;
use super::{names, signatures};
use crate::trace::live::Tally;
use crate::trace::room::Shared;
use foldhash::HashMap;
use mcount_cpu::here::outside::SYSTEM_CALLS;
use mcount_trace::layout::{chunk, end, told};
use mcount_trace::{Function, Signature};
use std::sync::Arc;

/// The first numbers of system calls as functions of the trace, for 64-bit programs and for others. No function with a hook has such
/// a number.
const FUNCTIONS: u32 = 0xff_0000;
const FUNCTIONS_32: u32 = 0xfe_0000;

/// Numbers that are so large are no system call's.
const MOST: i64 = 0xf000;

/// As many functions of the kernel wait for the end of the system call that they're called in.
const INSIDE: usize = 4096;

/// A system call that has begun.
#[derive(Debug)]
struct Open {
    process: u32,
    /// In ticks.
    start: u64,
    entry: Entry,
    is_ours: bool,
    inside: Vec<Inner>,
}

/// A system call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) ids: (u32, u32),
    start: u64,
    end: u64,
    /// As records have it.
    how: u32,
    pub(super) entry: Entry,
    pub(super) result: Option<i64>,
    /// What the kernel called in it.
    inside: Vec<Inner>,
}

/// How the calls of a number are recorded, and how many there were.
struct Described {
    name: Arc<str>,
    function: u32,
    tally: Tally,
    all: u64,
    /// Bytes of its arguments.
    sizes: Vec<usize>,
}

/// The system calls of a program.
pub(super) struct Calls {
    /// By thread.
    open: HashMap<u32, Open>,
    /// The thread that is about to execute the program: what it did before isn't the program's.
    before: Option<u32>,
    /// By number, and whether the program has 32 bits.
    described: HashMap<(i64, bool), Described>,
    /// The functions of the kernel, if they're wanted.
    functions: Option<Functions>,
    metadata: Chunks,
    records: Chunks,
    count: u64,
}

impl Calls {
    pub(super) fn new(
        trace: &Arc<Shared>,
        ring: u64,
        before: Option<u32>,
        symbols: Option<Symbols>,
    ) -> Self {
        let mut metadata = Chunks::new(trace, chunk::METADATA, usize::MAX, false);
        names::describe(|entry| _ = metadata.write([encoded(entry)]));
        Self {
            open: HashMap::default(),
            before,
            described: HashMap::default(),
            functions: symbols.map(|symbols| Functions::new(symbols, KERNEL)),
            metadata,
            records: Chunks::new(trace, chunk::TOLD, chunks_of(ring), ring != 0),
            count: 0,
        }
    }

    /// How many there are in the trace, and how many of them were dropped for newer ones.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.count - self.records.dropped.min(self.count), self.records.dropped)
    }

    /// Why later ones aren't in the trace, if there was no room.
    pub(super) fn missing(&self) -> Option<&'static str> {
        self.records.missing("a gigabyte")
    }

    /// A thread begins one at that time, in ticks: one that isn't the program's, if it's ours.
    pub(super) fn enter(&mut self, ids: (u32, u32), ticks: u64, (entry, is_ours): (Entry, bool)) {
        let inside = Vec::new();
        self.open.insert(ids.1, Open { process: ids.0, start: ticks, entry, is_ours, inside });
    }

    /// A thread has called a function of the kernel. It waits for the end of the system call that the thread is in, or is handed back: if
    /// there's none, or many wait.
    pub(super) fn inside(&mut self, thread: u32, inner: Inner) -> Option<Inner> {
        match self.open.get_mut(&thread) {
            Some(open) if open.is_ours => return None,
            Some(open) if open.inside.len() < INSIDE => open.inside.push(inner),
            None if self.before == Some(thread) => return None,
            _ => return Some(inner),
        }
        None
    }

    /// A thread ends one.
    pub(super) fn exit(
        &mut self,
        ids: (u32, u32),
        ticks: u64,
        (number, result): (i64, i64),
    ) -> Option<Call> {
        let (thread, open) = match self.open.remove(&ids.1) {
            Some(open) => (ids.1, open),
            // It may have executed another program, and have the number of its process since then.
            None => self.executed(ids, number)?,
        };
        if let Some(before) = self.before {
            let is_start = before == ids.1 && is_exec(number) && result == 0;
            if before == ids.1 && !is_start {
                return None;
            }
            self.before = self.before.filter(|_| !is_start);
        }
        // `rt_sigreturn` leaves no number behind.
        let is_it = (open.entry.number == number || number < 0) && !open.is_ours;
        let call = Call {
            ids: (ids.0, thread),
            start: open.start,
            end: ticks,
            how: 0,
            entry: open.entry,
            result: Some(result),
            inside: open.inside,
        };
        is_it.then_some(call)
    }

    /// The call with which another thread of the process has executed a program, and that thread's number until then.
    fn executed(&mut self, (process, _): (u32, u32), number: i64) -> Option<(u32, Open)> {
        if !is_exec(number) {
            return None;
        }
        let is_it = |open: &Open| open.process == process && is_exec(open.entry.number);
        let thread = self.open.iter().find(|(_, open)| is_it(open)).map(|(thread, _)| *thread)?;
        Some((thread, self.open.remove(&thread)?))
    }

    /// A thread is new. It may have the number of one that has ended.
    pub(super) fn begun(&mut self, thread: u32) {
        self.open.remove(&thread);
    }

    /// A thread has ended. The call that it was in doesn't return.
    pub(super) fn ended(&mut self, ids: (u32, u32), ticks: u64) -> Option<Call> {
        let how = u32::try_from(end::EXIT).unwrap_or(0);
        self.open.remove(&ids.1).and_then(|open| unfinished(ids, open, ticks, how))
    }

    /// What threads were in isn't known any more; how many records that were read are of no use.
    pub(super) fn lose(&mut self) -> u64 {
        let of = |open: Open| 1 + open.inside.len() as u64;
        std::mem::take(&mut self.open).into_values().map(of).sum()
    }

    /// Those that haven't ended.
    pub(super) fn rest(&mut self) -> Vec<Call> {
        let rest = std::mem::take(&mut self.open).into_iter();
        let rest = rest.filter(|(thread, _)| Some(*thread) != self.before);
        let call =
            |(thread, open): (u32, Open)| unfinished((open.process, thread), open, 0, told::OPEN);
        rest.filter_map(call).collect()
    }

    /// Writes calls.
    pub(super) fn write(&mut self, calls: &[Call]) {
        for call in calls {
            let key = (call.entry.number, call.entry.is_32_bit);
            let metadata = &mut self.metadata;
            let described = self.described.entry(key).or_insert_with(|| describe(key, metadata));
            if call.result.is_some() {
                described.tally.add(call.end.saturating_sub(call.start), 0);
                described.all += 1;
            }
        }
        let described = &self.described;
        self.count += self.records.write_each(calls, |call, bytes| {
            if let Some(described) = described.get(&(call.entry.number, call.entry.is_32_bit)) {
                call.append_record(described, bytes);
            }
        });
        for call in calls {
            self.write_functions(call.inside.iter().map(|inner| (call.ids, inner)));
        }
    }

    /// Those that have ended: by name, how many since the last time, in ticks, and how many in all.
    pub(super) fn take(&mut self) -> Vec<(Arc<str>, Tally, u64)> {
        let take =
            |one: &mut Described| (Arc::clone(&one.name), std::mem::take(&mut one.tally), one.all);
        self.described.values_mut().map(take).collect()
    }

    /// Writes calls of functions of the kernel, with the numbers of process and thread.
    pub(super) fn write_functions<'i>(
        &mut self,
        all: impl Iterator<Item = ((u32, u32), &'i Inner)> + Clone,
    ) {
        let Some(functions) = &mut self.functions else { return };
        all.clone().for_each(|(_, inner)| functions.describe(inner, &mut self.metadata));
        let records = all.filter_map(|(ids, inner)| {
            let how = inner.how << 24 | functions.number(inner)?;
            Some(record((inner.start, inner.end), ids, how, &[]))
        });
        self.count += self.records.write(records);
    }
}

/// A call that doesn't return.
fn unfinished(ids: (u32, u32), open: Open, end: u64, how: u32) -> Option<Call> {
    let Open { start, entry, is_ours, inside, .. } = open;
    // What a thread that ends still called may be known to have ended later. What ends at the same time would lie beside it.
    let last = inside.iter().map(|inner| inner.end.saturating_add(1)).max().unwrap_or(0);
    let end = if how == told::OPEN { end } else { end.max(last) };
    (!is_ours).then_some(Call { ids, start, end, how, entry, result: None, inside })
}

/// Does the system call with this number execute a program?
fn is_exec(number: i64) -> bool {
    let name = u32::try_from(number).ok().and_then(|number| SYSTEM_CALLS.name(number, false));
    name.is_some_and(|name| matches!(name, "execve" | "execveat"))
}

impl Call {
    /// Is it one of 64 bits that's called this?
    pub(super) fn is(&self, name: &str) -> bool {
        let number = u32::try_from(self.entry.number).ok().filter(|_| !self.entry.is_32_bit);
        number.and_then(|number| SYSTEM_CALLS.name(number, false)) == Some(name)
    }

    fn append_record(&self, described: &Described, bytes: &mut Vec<u8>) {
        let how = self.how << 24 | described.function;
        append(bytes, (self.start, self.end), self.ids, how, |bytes| {
            let Entry { arguments, .. } = &self.entry;
            signatures::append_values(&described.sizes, arguments, self.result, bytes);
        });
    }
}

/// Puts into the trace what the system call with this number is called, and what it takes and returns.
fn describe((number, is_32_bit): (i64, bool), metadata: &mut Chunks) -> Described {
    let small = u32::try_from(number.clamp(-1, MOST)).unwrap_or(0xffff);
    let first = if is_32_bit { FUNCTIONS_32 } else { FUNCTIONS };
    let function = first | small;
    let known = SYSTEM_CALLS.name(small, is_32_bit);
    let bits = if is_32_bit { "32:" } else { "" };
    let name = match known {
        Some(name) => format!("linux:{bits}{name}"),
        // As strace has it.
        None => format!("linux:{bits}syscall_{number:#x}"),
    };
    // Arguments of 32-bit programs have other sizes.
    let known = known.filter(|_| !is_32_bit).unwrap_or_default();
    metadata.write([encoded(Function {
        number: function,
        module: KERNEL,
        // They have no address, but each its own.
        address: function.into(),
        size: 1,
        name: name.as_bytes(),
    })]);
    let values = signatures::description(known);
    metadata.write([encoded(Signature { function, values: &values })]);
    let sizes = signatures::sizes(known);
    Described { name: name.into(), function, tally: Tally::default(), all: 0, sizes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_calls_last_lies_in_its_last_call() {
        let entry = Entry { number: 60, arguments: [0; 6], instruction: None, is_32_bit: false };
        let mut functions = super::super::functions::Functions::new(9);
        functions.enter(8, 1, 30, false);
        let inside: Vec<Inner> = functions.leave(8, 1, 40, false).into_iter().collect();
        let open = |inside| Open { process: 7, start: 10, entry, is_ours: false, inside };
        let ends = [(20, 41), (90, 90)].map(|(end, expected)| {
            let call = unfinished((7, 8), open(inside.clone()), end, 3);
            (call.map(|call| call.end), Some(expected))
        });
        assert!(ends.iter().all(|(end, expected)| end == expected), "{ends:?}");
        let still = unfinished((7, 8), open(inside), 0, told::OPEN);
        assert_eq!(still.map(|call| call.end), Some(0));
    }

    #[test]
    fn programs_begin_with_exec() {
        assert!(is_exec(nix::libc::SYS_execve) && is_exec(nix::libc::SYS_execveat));
        assert!(!is_exec(nix::libc::SYS_write) && !is_exec(-1));
    }
}
