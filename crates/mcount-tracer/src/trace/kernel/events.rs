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

/// What samples have besides process, thread and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// Bytes of the tracepoint, and registers.
    Narrow,
    /// The instruction, the address, and which counter it is, too. Other records have the latter.
    Wide,
}

/// The kind of records of tracepoints and of page faults.
pub(super) const SAMPLE: u32 = 9;

/// The contents of a record of the kernel's that isn't a sample: after its own fields are process, thread and time.
pub(super) fn event(kind: u32, misc: u16, bytes: &[u8], width: Width) -> Option<Event> {
    const LOST: u32 = 2;
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

/// A record of a tracepoint or of a page fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample<'r> {
    pub(super) ids: (u32, u32),
    pub(super) time: u64,
    /// What page faults are about.
    address: u64,
    /// The counter that it is from, if that's said: each thread has its own.
    pub(super) counter: u64,
    /// The tracepoint's own bytes.
    pub(super) own: &'r [u8],
    /// Where the thread goes on in the program, if that is known.
    instruction: Option<u64>,
    is_32_bit: bool,
}

impl<'r> Sample<'r> {
    /// Process, thread, time, then its own bytes behind their size, then registers behind what kind they are.
    pub(super) fn read(bytes: &'r [u8], width: Width) -> Option<Self> {
        const ABI_32: u64 = 1;
        let is_wide = width == Width::Wide;
        let first = if is_wide { 8 } else { 0 };
        let head = if is_wide { first + 36 } else { 20 };
        let ids = (word(bytes, first)?, word(bytes, first + 4)?);
        let time = long(bytes, first + 8)?;
        let known = |at: usize| if is_wide { long(bytes, at) } else { Some(0) };
        let (address, counter) = (known(first + 16)?, known(first + 24)?);
        let size = usize::try_from(word(bytes, head - 4)?).ok()?;
        let own = bytes.get(head..)?.get(..size)?;
        let registers = bytes.get(head + size..)?;
        let abi = long(registers, 0).unwrap_or(0);
        let instruction = long(registers, 8).filter(|_| abi != 0);
        let is_32_bit = abi == ABI_32;
        Some(Self { ids, time, address, counter, own, instruction, is_32_bit })
    }

    /// The number of the tracepoint; 0 if it's a page fault.
    pub(super) fn id(&self) -> Option<u16> {
        self.own.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
    }

    /// What it says of a system call, if it's of these tracepoints.
    pub(super) fn call(&self, calls: &Tracepoints) -> Option<Said> {
        let id = self.id()?;
        let number = |at: usize| long(self.own, at).map(u64::cast_signed);
        if id == calls.enter.id {
            let mut arguments = [0; 6];
            for (at, argument) in arguments.iter_mut().enumerate() {
                *argument = long(self.own, calls.enter.values + 8 * at)?;
            }
            let Self { instruction, is_32_bit, .. } = *self;
            let number = number(calls.enter.number)?;
            Some(Said::Enter(Entry { number, arguments, instruction, is_32_bit }))
        } else if id == calls.exit.id {
            let (number, result) = (number(calls.exit.number)?, number(calls.exit.values)?);
            Some(Said::Exit { number, result })
        } else {
            None
        }
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
    fn records_of_tracepoints() {
        let enter = Tracepoint { id: 443, number: 8, values: 16 };
        let calls = Tracepoints { enter, exit: Tracepoint { id: 442, ..enter } };
        let head = |size: u32| words(&[7, 8, 9, 0, size]);
        let own = |id: u32, values: &[u64]| -> Vec<u8> {
            let bytes = values.iter().flat_map(|value| value.to_ne_bytes());
            [words(&[id, 0]), bytes.collect()].concat()
        };
        let registers = |abi: u64| [abi.to_ne_bytes(), 77_u64.to_ne_bytes()].concat();
        let said = |bytes: &[u8]| Sample::read(bytes, Width::Narrow)?.call(&calls);
        let values = [1, 11, 12, 13, 14, 15, 16];
        let whole = [head(64), own(443, &values), registers(2)].concat();
        let entry = Entry {
            number: 1,
            arguments: [11, 12, 13, 14, 15, 16],
            instruction: Some(77),
            is_32_bit: false,
        };
        assert_eq!(said(&whole), Some(Said::Enter(entry)));
        let narrow = [head(64), own(443, &values), registers(1)].concat();
        assert_eq!(said(&narrow), Some(Said::Enter(Entry { is_32_bit: true, ..entry })));
        let unknown = [head(64), own(443, &values), 0_u64.to_ne_bytes().to_vec()].concat();
        assert_eq!(said(&unknown), Some(Said::Enter(Entry { instruction: None, ..entry })));
        let exit = [head(24), own(442, &[1, 2_u64.wrapping_neg()]), registers(2)].concat();
        assert_eq!(said(&exit), Some(Said::Exit { number: 1, result: -2 }));
        // Others, and what is cut anywhere.
        assert_eq!(said(&[head(64), own(441, &values), registers(2)].concat()), None);
        for size in 0..84 {
            assert_eq!(said(&whole[..size]), None, "{size} bytes");
        }
    }
}
