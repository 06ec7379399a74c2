//! What leads to the first bytes of functions, or to those of markers: branches, pointers, tables, exception handlers, symbols.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// How many bytes from the start of a function, or from a marker, on matter. Before a jump there can be a landing pad of an indirect branch (4 bytes);
/// what moves has 4 bytes at most, and one instruction (15); padding may have to hold a jump.
const ZONE: u64 = 32;

/// How something leads to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A direct call.
    Call,
    /// A direct jump, or falling from one function into the next.
    Jump,
    /// A word that's relocated, or has such a value in a file that isn't position-independent.
    Pointer,
    /// A word that, relative to an address that code takes, leads there.
    Table,
    /// An instruction that has the address.
    Address,
    /// An exception handler is there.
    LandingPad,
    /// A range of an exception table begins or ends there.
    CallSite,
    /// A symbol is there, or unwind information begins.
    Label,
}

/// That something leads to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// The address.
    pub target: u64,
    /// Where the instruction or the word is that does; the target itself, if there's none.
    pub source: u64,
    /// How.
    pub kind: Kind,
}

/// All references that lead to the first bytes of functions, or to those of markers.
#[derive(Debug)]
pub struct References {
    zones: Arc<Zones>,
    /// By target, when all are there.
    all: Vec<Reference>,
    /// Addresses that code takes, and where: the bases of tables, perhaps.
    pub bases: Vec<Base>,
}

/// An address that an instruction takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Base {
    /// Where the instruction is.
    pub source: u64,
    /// What it takes.
    pub address: u64,
}

impl References {
    /// None yet. Functions and markers start at `starts`, in `code`, which ascends.
    #[must_use]
    pub fn new(code: &[(u64, &[u8])], starts: impl Iterator<Item = u64>) -> Self {
        Self { zones: Arc::new(Zones::new(code, starts)), all: Vec::new(), bases: Vec::new() }
    }

    /// None, for the same functions and markers.
    #[must_use]
    pub fn part(&self) -> Self {
        Self { zones: Arc::clone(&self.zones), all: Vec::new(), bases: Vec::new() }
    }

    /// Adds those of a part.
    pub fn append(&mut self, mut part: Self) {
        self.all.append(&mut part.all);
        self.bases.append(&mut part.bases);
    }

    /// Adds one, if it leads to such bytes.
    pub fn add(&mut self, target: u64, source: u64, kind: Kind) {
        if self.zones.contain(target) {
            self.all.push(Reference { target, source, kind });
        }
    }

    /// Says that all have been added.
    pub fn finish(&mut self) {
        self.all.sort_unstable();
        self.all.dedup();
        self.bases.sort_unstable();
        self.bases.dedup();
    }

    /// Those that lead between two addresses, by target.
    #[must_use]
    pub fn between(&self, range: Range<u64>) -> &[Reference] {
        let first = self.all.partition_point(|one| one.target < range.start);
        let rest = self.all.get(first..).unwrap_or_default();
        let count = rest.partition_point(|one| one.target < range.end);
        rest.get(..count).unwrap_or_default()
    }

    /// The addresses that the code between two addresses takes.
    #[must_use]
    pub fn bases_of(&self, range: &Range<u64>) -> &[Base] {
        let first = self.bases.partition_point(|one| one.source < range.start);
        let rest = self.bases.get(first..).unwrap_or_default();
        let count = rest.partition_point(|one| one.source < range.end);
        rest.get(..count).unwrap_or_default()
    }
}

/// A set of the addresses that matter: a bit for each byte of code.
#[derive(Debug)]
struct Zones {
    ranges: Vec<(u64, Vec<u64>)>,
}

impl Zones {
    fn new(code: &[(u64, &[u8])], starts: impl Iterator<Item = u64>) -> Self {
        let empty = |(start, bytes): &(u64, &[u8])| (*start, vec![0; bytes.len().div_ceil(64)]);
        let mut zones = Self { ranges: code.iter().map(empty).collect() };
        for start in starts {
            for address in start..start.saturating_add(ZONE) {
                if let Some((word, bit)) = zones.find(address) {
                    *word |= 1 << bit;
                }
            }
        }
        zones
    }

    fn find(&mut self, address: u64) -> Option<(&mut u64, u64)> {
        let after = self.ranges.partition_point(|(start, _)| *start <= address);
        let (start, bits) = self.ranges.get_mut(after.checked_sub(1)?)?;
        let offset = address - *start;
        Some((bits.get_mut(usize::try_from(offset / 64).ok()?)?, offset % 64))
    }

    fn contain(&self, address: u64) -> bool {
        let after = self.ranges.partition_point(|(start, _)| *start <= address);
        let range = after.checked_sub(1).and_then(|before| self.ranges.get(before));
        range.is_some_and(|(start, bits)| {
            let offset = address - start;
            let word = usize::try_from(offset / 64).ok().and_then(|at| bits.get(at));
            word.is_some_and(|word| word >> (offset % 64) & 1 == 1)
        })
    }
}
