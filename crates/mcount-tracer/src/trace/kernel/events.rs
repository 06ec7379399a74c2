//! Records of the kernel's about threads, as their bytes say (`perf_event_open(2)`).

use super::tracepoints::Tracepoints;

/// The contents of a record of the kernel's about a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// A function of the kernel begins, at this address. Of these, only the thread is known.
    Into(u64),
    /// It ends.
    OutOf(u64),
    /// It begins, and nothing will be said of its end.
    Through(u64),
    /// This number of records of functions is missing before this time, of whatever threads.
    Missed(u64),
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// The contents of a record of the kernel's: after its own fields are process, thread and time. Records of tracepoints begin with these.
pub(super) fn event(
    kind: u32,
    misc: u16,
    bytes: &[u8],
    calls: Option<&Tracepoints>,
) -> Option<Event> {
    const LOST: u32 = 2;
    const EXIT: u32 = 4;
    const FORK: u32 = 7;
    const SAMPLE: u32 = 9;
    const SWITCH: u32 = 14;
    const OUT: u16 = 1 << 13;
    const PREEMPT: u16 = 1 << 14;
    const LAST: usize = 16;
    if kind == SAMPLE {
        return calls.and_then(|calls| sample(bytes, calls));
    }
    let last = bytes.len().checked_sub(LAST)?;
    let (time, mut ids) = (long(bytes, last + 8)?, (word(bytes, last)?, word(bytes, last + 4)?));
    let said = match kind {
        SWITCH if misc & OUT != 0 => Said::Off { is_preempted: misc & PREEMPT != 0 },
        SWITCH => Said::On,
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

/// The record of a tracepoint: process, thread, time, then its own bytes behind their size, then registers behind what kind they are.
fn sample(bytes: &[u8], calls: &Tracepoints) -> Option<Event> {
    const HEAD: usize = 20;
    const ABI_32: u64 = 1;
    let (ids, time) = ((word(bytes, 0)?, word(bytes, 4)?), long(bytes, 8)?);
    let size = usize::try_from(word(bytes, HEAD - 4)?).ok()?;
    let own = bytes.get(HEAD..)?.get(..size)?;
    let registers = bytes.get(HEAD + size..)?;
    let id = u16::from_ne_bytes(*own.first_chunk()?);
    let number = |at: usize| long(own, at).map(u64::cast_signed);
    let said = if id == calls.enter.id {
        let mut arguments = [0; 6];
        for (at, argument) in arguments.iter_mut().enumerate() {
            *argument = long(own, calls.enter.values + 8 * at)?;
        }
        let abi = long(registers, 0).unwrap_or(0);
        let instruction = long(registers, 8).filter(|_| abi != 0);
        let is_32_bit = abi == ABI_32;
        let number = number(calls.enter.number)?;
        Said::Enter(Entry { number, arguments, instruction, is_32_bit })
    } else if id == calls.exit.id {
        Said::Exit { number: number(calls.exit.number)?, result: number(calls.exit.values)? }
    } else {
        return None;
    };
    Some(Event { time, ids, said })
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
            let found = event(kind, misc, &bytes, None);
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
        let said = |bytes: &[u8]| event(9, 0, bytes, Some(&calls)).map(|event| event.said);
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
