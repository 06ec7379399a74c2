//! Tables by which the agent knows the functions that tell of their calls themselves (`mcount_agent::instrumented`).

use mcount_agent::instrumented::{HEAD, IDLE, PLACE, place};
use mcount_ptrace::Memory;
use std::collections::BTreeMap;
use std::io;

/// A table of functions for the agent.
pub(super) struct Table {
    pub(super) bytes: Vec<u8>,
    /// The numbers of functions, and where in it is what the agent is to know of each.
    words: Vec<(u32, u64)>,
}

impl Table {
    /// The one after that at `before` (0: there's none).
    pub(super) fn new(before: u64, functions: &BTreeMap<u64, u32>) -> Self {
        let bits = (2 * functions.len().max(1)).next_power_of_two().trailing_zeros();
        let mut places = vec![[0_u64; 2]; 1 << bits];
        let mut words = Vec::new();
        let count = places.len();
        for (address, word) in functions.iter().filter(|(address, _)| **address != 0) {
            let first = usize::try_from(place(*address, u64::from(bits))).unwrap_or(0);
            let mut from = (0..count).map(|step| (first + step) % count);
            let free = from.find(|at| places.get(*at).is_some_and(|[taken, _]| *taken == 0));
            let Some((at, room)) = free.and_then(|at| Some((at, places.get_mut(at)?))) else {
                break;
            };
            *room = [*address, u64::from(*word)];
            words.push((word & 0xff_ffff, HEAD + PLACE * at as u64 + 8));
        }
        let head = [[before, u64::from(bits)]];
        let all = head.iter().chain(&places).flatten();
        Self { bytes: all.flat_map(|word| word.to_le_bytes()).collect(), words }
    }

    /// Where what the agent is to know of the functions is, if the table is there: by their numbers.
    pub(super) fn words(&self, at: u64) -> impl Iterator<Item = (u32, u64)> {
        self.words.iter().map(move |(number, offset)| (*number, at + offset))
    }
}

/// Has the agent record the calls of these functions, or not, while all threads run.
pub(super) fn switch(
    memory: &Memory,
    words: impl Iterator<Item = u64>,
    is_on: bool,
) -> io::Result<()> {
    for at in words {
        let now = memory.word(at)?;
        let then = if is_on { now & !IDLE } else { now | IDLE };
        if now != then {
            memory.write(at, &then.to_le_bytes())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_all_functions() {
        for count in [0_u32, 1, 2, 3, 100, 5000] {
            let functions: BTreeMap<u64, u32> =
                (1..=count).map(|at| (0x5555_0000_1000 + 16 * u64::from(at).pow(2), at)).collect();
            let table = Table::new(7, &functions);
            let word = |at: u64| {
                let at = usize::try_from(at).unwrap();
                u64::from_le_bytes(table.bytes.get(at..at + 8).unwrap().try_into().unwrap())
            };
            assert_eq!(word(0), 7);
            let bits = word(8);
            assert_eq!(table.bytes.len() as u64, HEAD + (PLACE << bits));
            for (address, number) in &functions {
                let mut at = place(*address, bits);
                while word(HEAD + PLACE * at) != *address {
                    assert_ne!(word(HEAD + PLACE * at), 0);
                    at = (at + 1) % (1 << bits);
                }
                assert_eq!(word(HEAD + PLACE * at + 8), u64::from(*number));
                assert!(table.words(0).any(|one| one == (*number, HEAD + PLACE * at + 8)));
            }
            let free = (0..1 << bits).filter(|at| word(HEAD + PLACE * at) == 0).count();
            assert!(free > 0);
        }
    }
}
