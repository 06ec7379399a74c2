//! Changing many sites while other threads execute them.
//!
//! Which bytes are written in which order differs by processor, so it is data: a list of [`Step`]s, which the
//! file of the processor has. Each step is made for all sites before the next one begins, because between two steps
//! all processors have to see the first one, and that is what takes time.
//!
//! Memory is after a trait, [`Code`]. If writing fails half-way, the same steps are made backwards, and no site is
//! left between two states. The last of several steps is different: threads go through the new code then, and may
//! stand in it where the old one has no instruction. So it's made once more, and nothing leads back from there.

/// The code of the program, as the engine needs it.
pub trait Code {
    /// Why it can't be written.
    type Error;

    /// Writes `bytes` at `address`, now or at the next [`synchronize`](Self::synchronize).
    ///
    /// The addresses of one step ascend. A byte may be written again with the value that it has.
    ///
    /// # Errors
    ///
    /// It can't be written. Some of the bytes may have been.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Writes what is still to be written, and sees to it that no processor goes on with what was there before.
    ///
    /// # Errors
    ///
    /// It can't be written, or the processors can't be told.
    fn synchronize(&mut self) -> Result<(), Self::Error>;
}

/// One site, and what it becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<const N: usize> {
    /// Where it is.
    pub address: u64,
    /// How many of the bytes count.
    pub length: usize,
    /// The bytes that are there.
    pub from: [u8; N],
    /// The bytes that are wanted.
    pub to: [u8; N],
}

impl<const N: usize> Change<N> {
    /// A change of all `N` bytes.
    #[must_use]
    pub fn whole(address: u64, from: [u8; N], to: [u8; N]) -> Self {
        Self { address, length: N, from, to }
    }

    /// The bytes that are there before.
    #[must_use]
    pub fn before(&self) -> &[u8] {
        self.from.get(..self.length).unwrap_or(&self.from)
    }

    /// The bytes that are there afterwards.
    #[must_use]
    pub fn after(&self) -> &[u8] {
        self.to.get(..self.length).unwrap_or(&self.to)
    }
}

/// The bytes that one step writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The first byte, counted from the start of the site.
    pub first: usize,
    /// The byte after the last one; a site that is shorter ends before.
    pub end: usize,
    /// The bytes to write.
    pub value: Value,
}

/// Where the bytes of a step come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// The new state of the site.
    New,
    /// An instruction that traps.
    Trap(&'static [u8]),
}

/// Why the sites could not be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure<E> {
    /// What went wrong.
    pub error: E,
    /// All sites are as they were. If not, each executes its trap, or is in one of its two states.
    pub is_undone: bool,
}

/// Takes all sites of `changes`, which are in order of their addresses, through `steps`.
///
/// # Errors
///
/// [`Failure`] if the code can't be written.
pub fn change<const N: usize, C: Code>(
    code: &mut C,
    steps: &[Step],
    changes: &[Change<N>],
) -> Result<(), Failure<C::Error>> {
    let (head, last) =
        if steps.len() > 1 { steps.split_at(steps.len() - 1) } else { (steps, &[][..]) };
    // The steps lead from any mixture of both states to either of them.
    if let Err(error) = run(code, head, changes, Change::after) {
        let is_undone = run(code, steps, changes, Change::before).is_ok();
        return Err(Failure { error, is_undone });
    }
    run(code, last, changes, Change::after)
        .or_else(|_| run(code, last, changes, Change::after))
        .map_err(|error| Failure { error, is_undone: false })
}

fn run<const N: usize, C: Code>(
    code: &mut C,
    steps: &[Step],
    changes: &[Change<N>],
    state: impl Fn(&Change<N>) -> &[u8],
) -> Result<(), C::Error> {
    for step in steps {
        for change in changes {
            let bytes = match step.value {
                Value::New => {
                    let state = state(change);
                    state.get(step.first..step.end.min(state.len())).unwrap_or_default()
                }
                Value::Trap(bytes) => bytes,
            };
            code.write(change.address.wrapping_add(step.first as u64), bytes)?;
        }
        code.synchronize()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Change, Code, Failure, change};
    use crate::x86_64::code::{
        ALL_STAND, BREAKPOINT, BY_BREAKPOINT, BY_ONE_BYTE, SITE, armed, idle,
    };
    use std::vec::Vec;

    const FIRST: u64 = 0x1000;

    /// Sixteen bytes of memory a site, and what was asked of it.
    struct Memory {
        bytes: Vec<u8>,
        /// Writes that still succeed.
        left: usize,
        /// The site and its bytes after each write; `None`: synchronized.
        seen: Vec<Option<(u64, Vec<u8>)>>,
    }

    impl Code for Memory {
        type Error = ();

        fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), ()> {
            if self.left == 0 {
                // The system fails once, and not for ever.
                self.left = usize::MAX;
                return Err(());
            }
            self.left -= 1;
            let at = usize::try_from(address - FIRST).unwrap();
            self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
            let site = at / 16 * 16;
            self.seen.push(Some((site as u64, self.bytes[site..site + 16].to_vec())));
            Ok(())
        }

        fn synchronize(&mut self) -> Result<(), ()> {
            self.seen.push(None);
            Ok(())
        }
    }

    impl Memory {
        fn has(&self, address: u64, bytes: &[u8]) -> bool {
            let at = usize::try_from(address - FIRST).unwrap();
            self.bytes[at..].starts_with(bytes)
        }
    }

    fn sites(count: u64) -> (Memory, Vec<Change<SITE>>) {
        let mut bytes = std::vec![0xc3; usize::try_from(count * 16).unwrap()];
        let mut changes = Vec::new();
        for number in 0..count {
            let address = FIRST + number * 16;
            let stub = 0x0070_1234 + number * 32;
            let from = idle(address, stub).unwrap();
            let at = usize::try_from(number * 16).unwrap();
            bytes[at..at + SITE].copy_from_slice(&from);
            changes.push(Change::whole(address, from, armed(address, stub).unwrap()));
        }
        (Memory { bytes, left: usize::MAX, seen: Vec::new() }, changes)
    }

    /// A thread that runs into the site at any time must find one of both states, or the trap.
    fn is_whole(change: &Change<SITE>, bytes: &[u8]) -> bool {
        bytes[..SITE] == change.from || bytes[..SITE] == change.to || bytes[0] == BREAKPOINT[0]
    }

    #[test]
    fn no_thread_sees_a_mixture() {
        for steps in [BY_BREAKPOINT, BY_ONE_BYTE] {
            let (mut memory, changes) = sites(10);
            change(&mut memory, steps, &changes).unwrap();
            for (site, bytes) in memory.seen.iter().flatten() {
                let change = &changes[usize::try_from(*site / 16).unwrap()];
                assert!(is_whole(change, bytes), "{bytes:02x?}");
                assert_eq!(bytes[SITE..], [0xc3; 11], "what is behind the site was changed");
            }
            let rounds = memory.seen.iter().filter(|one| one.is_none()).count();
            assert_eq!(rounds, steps.len(), "one synchronization a step, not a site");
            for (number, change) in changes.iter().enumerate() {
                assert_eq!(memory.bytes[number * 16..][..SITE], change.to);
            }
        }
    }

    #[test]
    fn a_trap_is_there_before_and_while_the_rest_changes() {
        let (mut memory, changes) = sites(3);
        change(&mut memory, BY_BREAKPOINT, &changes).unwrap();
        let rounds: Vec<_> = memory.seen.split(Option::is_none).collect();
        for (_, bytes) in rounds[0].iter().chain(rounds[1]).flatten() {
            assert_eq!(bytes[0], BREAKPOINT[0]);
        }
        for (site, bytes) in rounds[0].iter().flatten() {
            let change = &changes[usize::try_from(*site / 16).unwrap()];
            assert_eq!(bytes[1..SITE], change.from[1..], "too early");
        }
        for (site, bytes) in rounds[2].iter().flatten() {
            let change = &changes[usize::try_from(*site / 16).unwrap()];
            assert_eq!(bytes[..SITE], change.to, "too late");
        }
    }

    #[test]
    fn a_failure_anywhere_leaves_nothing_between() {
        for steps in [BY_BREAKPOINT, BY_ONE_BYTE, ALL_STAND] {
            let (memory, changes) = sites(4);
            for left in 0..steps.len() * changes.len() {
                let mut memory = Memory { bytes: memory.bytes.clone(), left, seen: Vec::new() };
                let before = memory.bytes.clone();
                let result = change(&mut memory, steps, &changes);
                if steps.len() > 1 && left >= (steps.len() - 1) * changes.len() {
                    // Too late to go back.
                    assert_eq!(result, Ok(()), "{left}");
                    assert!(changes.iter().all(|change| memory.has(change.address, &change.to)));
                } else {
                    assert_eq!(result, Err(Failure { error: (), is_undone: true }), "{left}");
                    assert_eq!(memory.bytes, before, "{left}");
                }
                if steps != ALL_STAND {
                    for (site, bytes) in memory.seen.iter().flatten() {
                        let change = &changes[usize::try_from(*site / 16).unwrap()];
                        assert!(is_whole(change, bytes), "{left}: {bytes:02x?}");
                    }
                }
            }
        }
    }

    #[test]
    fn only_the_bytes_that_count_are_written() {
        let (mut memory, _) = sites(1);
        let mut from = [0; 24];
        from[..16].copy_from_slice(&memory.bytes);
        let wide = Change { address: FIRST, length: 7, from, to: [0x90; 24] };
        for steps in [BY_BREAKPOINT, ALL_STAND] {
            memory.bytes.copy_from_slice(&from[..16]);
            change(&mut memory, steps, &[wide]).unwrap();
            assert_eq!(memory.bytes[..7], [0x90; 7]);
            assert_eq!(memory.bytes[7..], from[7..16]);
        }
    }
}
