//! Records of the kernel's about threads, as their bytes say (`perf_event_open(2)`).

use super::instants::What;
use super::tracepoints::{Tracepoints, Waking};

/// The contents of a record of the kernel's about a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// It's taken off the processor.
    Off { is_preempted: bool },
    /// It's on a processor again.
    On,
    /// It's new; the process that made it.
    New { maker: u32 },
    /// It has ended.
    Ended,
    /// This number of records is missing.
    Lost(u64),
    /// It enters a system call.
    Enter(Entry),
    /// It leaves the system call with this number.
    Exit { number: i64, result: i64 },
    /// It executes another program.
    Executed,
    /// It wakes this thread with this name, or an interrupt does that comes while it runs.
    Wakes { thread: u32, name: [u8; 16], is_interrupt: bool },
    /// An event that was chosen, and where the thread was in the program, if that is known.
    Event(What, Option<u64>),
    /// A function of the kernel begins, at this address. Of these, only the thread is known.
    Into(u64),
    /// It ends.
    OutOf(u64),
    /// It begins, and nothing will be said of its end.
    Through(u64),
    /// This number of records of functions is missing before this time, of whatever threads.
    Missed(u64),
}

impl Said {
    /// Does a system call or a function begin or end?
    pub(super) fn is_border(&self) -> bool {
        let is_call = matches!(self, Self::Enter(_) | Self::Exit { .. });
        is_call || matches!(self, Self::Into(_) | Self::OutOf(_) | Self::Through(_))
    }
}

/// The beginning of a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) number: i64,
    pub(super) arguments: [u64; 6],
    /// Where the thread goes on after it, if that is known.
    pub(super) instruction: Option<u64>,
    /// The program is one of 32 bits.
    pub(super) is_32_bit: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    /// In nanoseconds.
    pub(super) time: u64,
    /// Process and thread.
    pub(super) ids: (u32, u32),
    pub(super) said: Said,
}

impl Event {
    /// Is it of that time, in nanoseconds, or does it say before that which threads there are?
    pub(super) fn is_in(&self, from: u64, until: u64) -> bool {
        let is_of_threads = matches!(self.said, Said::New { .. } | Said::Ended | Said::Executed);
        self.time <= until && (self.time >= from || is_of_threads)
    }

    /// Its place among others. Those of one kind are in order; of one time, a system call encloses what it does.
    pub(super) fn place(&self) -> (u64, u8) {
        let place = match self.said {
            Said::Enter(_) | Said::Missed(_) => 0,
            Said::Exit { .. } => 2,
            _ => 1,
        };
        (self.time, place)
    }
}

/// What records have besides process, thread and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// Nothing. There are no samples.
    Narrow,
    /// Which counter it is.
    Wide,
}

/// The kind of records of tracepoints and of page faults.
pub(super) const SAMPLE: u32 = 9;
/// Of those that say how many are missing.
const LOST: u32 = 2;

/// The contents of a record of the kernel's that isn't a sample: after its own fields are process, thread and time.
pub(super) fn event(kind: u32, misc: u16, bytes: &[u8], width: Width) -> Option<Event> {
    const COMM: u32 = 3;
    const EXIT: u32 = 4;
    const FORK: u32 = 7;
    const SWITCH: u32 = 14;
    const OUT: u16 = 1 << 13;
    const EXEC: u16 = 1 << 13;
    const PREEMPT: u16 = 1 << 14;
    let behind = if width == Width::Wide { 24 } else { 16 };
    let last = bytes.len().checked_sub(behind)?;
    let (time, mut ids) = (long(bytes, last + 8)?, (word(bytes, last)?, word(bytes, last + 4)?));
    let said = match kind {
        SWITCH if misc & OUT != 0 => Said::Off { is_preempted: misc & PREEMPT != 0 },
        SWITCH => Said::On,
        COMM if misc & EXEC != 0 => Said::Executed,
        FORK => {
            ids = (word(bytes, 0)?, word(bytes, 8)?);
            Said::New { maker: word(bytes, 4)? }
        }
        EXIT => {
            ids = (word(bytes, 0)?, word(bytes, 8)?);
            Said::Ended
        }
        LOST => Said::Lost(long(bytes, 8)?),
        _ => return None,
    };
    Some(Event { time, ids, said })
}

/// The contents of a record of a ring of system calls: process and thread, if they're there, time, then the tracepoint's own bytes behind their
/// size, then, at the entry, registers behind what kind they are. Where process and thread aren't there, the process is 0.
pub(super) fn of_calls(kind: u32, bytes: &[u8], calls: &Tracepoints) -> Option<Event> {
    let first = if calls.has_ids { 8 } else { 0 };
    if kind == LOST {
        // Process and thread are those of whoever finds room again.
        let time = long(bytes, 16 + first)?;
        return Some(Event { time, ids: (0, 0), said: Said::Lost(long(bytes, 8)?) });
    }
    let time = long(bytes, first)?;
    let (own, registers) = own(bytes, first + 8).filter(|_| kind == SAMPLE)?;
    let id = id_of(own)?;
    let is_entry = id == calls.enter.id;
    let point = if is_entry { &calls.enter } else { &calls.exit };
    if id != point.id {
        return None;
    }
    let number = long(own, point.number)?.cast_signed();
    let said = if is_entry {
        let mut arguments = [0; 6];
        for (at, argument) in arguments.iter_mut().enumerate() {
            *argument = long(own, point.values + 8 * at)?;
        }
        let (instruction, is_32_bit) = instruction(registers);
        Said::Enter(Entry { number, arguments, instruction, is_32_bit })
    } else {
        Said::Exit { number, result: long(own, point.values)?.cast_signed() }
    };
    let ids = if calls.has_ids {
        (word(bytes, 0)?, word(bytes, 4)?)
    } else {
        (0, word(own, point.thread)?)
    };
    Some(Event { time, ids, said })
}

/// The tracepoint's own bytes behind their size, which is there in a sample, and what is behind them: registers.
fn own(bytes: &[u8], size: usize) -> Option<(&[u8], &[u8])> {
    let count = usize::try_from(word(bytes, size)?).ok()?;
    bytes.get(size + 4..)?.split_at_checked(count)
}

/// The number of the tracepoint.
fn id_of(own: &[u8]) -> Option<u16> {
    own.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

/// Where the thread goes on in the program, if that is known, and whether that has 32 bits.
fn instruction(registers: &[u8]) -> (Option<u64>, bool) {
    const ABI_32: u64 = 1;
    let abi = long(registers, 0).unwrap_or(0);
    (long(registers, 8).filter(|_| abi != 0), abi == ABI_32)
}

/// A record of a tracepoint or of a page fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample<'r> {
    pub(super) ids: (u32, u32),
    pub(super) time: u64,
    /// What page faults are about.
    address: u64,
    /// The counter that it is from: each thread has its own.
    pub(super) counter: u64,
    /// The tracepoint's own bytes.
    pub(super) own: &'r [u8],
    /// Where the thread goes on in the program, if that is known.
    instruction: Option<u64>,
}

impl<'r> Sample<'r> {
    /// The instruction, process, thread, time, the address, which counter it is, then its own bytes behind their size, then registers behind
    /// what kind they are.
    pub(super) fn read(bytes: &'r [u8]) -> Option<Self> {
        let (own, registers) = own(bytes, 40)?;
        Some(Self {
            ids: (word(bytes, 8)?, word(bytes, 12)?),
            time: long(bytes, 16)?,
            address: long(bytes, 24)?,
            counter: long(bytes, 32)?,
            own,
            instruction: instruction(registers).0,
        })
    }

    /// The number of the tracepoint; 0 if it's a page fault.
    pub(super) fn id(&self) -> Option<u16> {
        id_of(self.own)
    }

    /// Whom it wakes, if it's of this tracepoint.
    pub(super) fn waking(&self, of: &Waking) -> Option<Said> {
        /// The thread runs an interrupt: one of the devices, or what follows these, or one that can't be masked.
        const INTERRUPT: u64 = 0x08 | 0x10 | 0x40;
        if self.id()? != of.id {
            return None;
        }
        let thread = u32::try_from(of.thread.number(self.own)?).ok()?;
        let is_interrupt = of.flags.number(self.own)? & INTERRUPT != 0;
        let name = self.own.get(of.name.offset..).and_then(<[u8]>::first_chunk);
        Some(Said::Wakes { thread, name: name.copied().unwrap_or_default(), is_interrupt })
    }

    /// The same as an event that was chosen.
    pub(super) fn chosen(&self) -> Said {
        let what = match self.id() {
            Some(0) | None => What::Fault(self.address),
            Some(_) => What::Point(self.own.into()),
        };
        Said::Event(what, self.instruction)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::super::tracepoints::Tracepoint;
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn records_of_the_kernel() {
        let id = [7, 8, 9, 0];
        let at = |said| Some((9_u64, (7, 8), said));
        let task = words(&[&[21, 1, 22, 1, 3, 0], &id[..]].concat());
        let table = [
            (14, 0, words(&id), at(Said::On)),
            (14, 1 << 13, words(&id), at(Said::Off { is_preempted: false })),
            (14, 3 << 13, words(&id), at(Said::Off { is_preempted: true })),
            (2, 0, words(&[&[1, 0, 5, 0], &id[..]].concat()), at(Said::Lost(5))),
            (7, 0, task.clone(), Some((9, (21, 22), Said::New { maker: 1 }))),
            (4, 0, task.clone(), Some((9, (21, 22), Said::Ended))),
            (3, 0, task, None),
            (9, 0, words(&id), None),
            (14, 0, words(&id[..3]), None),
            (14, 0, Vec::new(), None),
        ];
        for (kind, misc, bytes, expected) in table {
            let found = event(kind, misc, &bytes, Width::Narrow);
            let found = found.map(|Event { time, ids, said }| (time, ids, said));
            assert_eq!(found, expected, "kind {kind}");
        }
    }

    #[test]
    fn records_of_system_calls() {
        let enter = Tracepoint { id: 443, thread: 4, number: 8, values: 16 };
        let exit = Tracepoint { id: 442, ..enter };
        let own = |id: u32, values: &[u64]| -> Vec<u8> {
            let bytes = values.iter().flat_map(|value| value.to_ne_bytes());
            [words(&[id, 8]), bytes.collect()].concat()
        };
        let registers = |abi: u64| [abi.to_ne_bytes(), 77_u64.to_ne_bytes()].concat();
        let values = [1, 11, 12, 13, 14, 15, 16];
        let entry = Entry {
            number: 1,
            arguments: [11, 12, 13, 14, 15, 16],
            instruction: Some(77),
            is_32_bit: false,
        };
        for (has_ids, ids) in [(false, (0, 8)), (true, (7, 9))] {
            let calls = Tracepoints { enter, exit, has_ids };
            let head = |size: u32| {
                let all = words(&[7, 9, 5, 0, size]);
                if has_ids { all } else { all[8..].to_vec() }
            };
            let said = |bytes: &[u8]| {
                let event = of_calls(SAMPLE, bytes, &calls)?;
                assert_eq!((event.time, event.ids), (5, ids));
                Some(event.said)
            };
            let whole = [head(64), own(443, &values), registers(2)].concat();
            assert_eq!(said(&whole), Some(Said::Enter(entry)));
            let narrow = [head(64), own(443, &values), registers(1)].concat();
            assert_eq!(said(&narrow), Some(Said::Enter(Entry { is_32_bit: true, ..entry })));
            let unknown = [head(64), own(443, &values), 0_u64.to_ne_bytes().to_vec()].concat();
            assert_eq!(said(&unknown), Some(Said::Enter(Entry { instruction: None, ..entry })));
            let exit = [head(24), own(442, &[1, 2_u64.wrapping_neg()])].concat();
            assert_eq!(said(&exit), Some(Said::Exit { number: 1, result: -2 }));
            // Others, and what is cut anywhere.
            assert_eq!(said(&[head(64), own(441, &values), registers(2)].concat()), None);
            for size in 0..head(0).len() + 64 {
                assert_eq!(said(&whole[..size]), None, "{size} bytes");
            }
            let id = words(&[7, 9, 5, 0]);
            let lost = [words(&[1, 0, 6, 0]), id[if has_ids { 0 } else { 8 }..].to_vec()].concat();
            let found = of_calls(LOST, &lost, &calls);
            assert_eq!(found, Some(Event { time: 5, ids: (0, 0), said: Said::Lost(6) }));
            assert_eq!(of_calls(LOST, &lost[..lost.len() - 1], &calls), None);
        }
    }
}
