//! Calls of library functions: the words that they go by, and the code that is put in their way.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// What a module's code does with a word that the dynamic linker fills in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uses {
    /// The instructions that call or jump by the word, and can be replaced.
    pub sites: Vec<u64>,
    /// Some call what the word leads to, and don't just jump there.
    pub has_calls: bool,
    /// How many do something else with it.
    pub others: usize,
}

/// The words that are looked for.
#[derive(Clone, Copy)]
pub struct ImportedWords<'w> {
    /// The address of the first one.
    pub first: u64,
    /// That of the last one.
    pub last: u64,
    /// Is this the address of one?
    pub is_one: &'w dyn Fn(u64) -> bool,
}

/// The changes to the code of a module that finds a function when it's called first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// It's gone to as it is.
    Same,
    /// A register has to have what the PLT loads into it, which a gate doesn't keep.
    Loads,
    /// It isn't understood.
    Unknown,
}

/// A word of a module that leads to the module's own code, as long as nobody has looked for its function.
#[derive(Debug, Clone, Copy)]
pub struct Unbound {
    /// How many relocations are before its own.
    pub index: u32,
    /// Its address.
    pub word: u64,
    /// Where it leads.
    pub place: u64,
}

/// An address that code takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Taken {
    /// This one.
    Here(u64),
    /// The one that the word there has.
    In(u64),
}

/// How calls of library functions can be recorded.
#[derive(Debug)]
pub struct LibraryCalls {
    /// Relocations of words that are for calls.
    pub jump_slot: u32,
    /// Those of words for addresses.
    pub glob_dat: u32,
    /// Adds what the code at an address does with words.
    pub add_uses: fn(u64, &[u8], ImportedWords<'_>, &mut BTreeMap<u64, Uses>),
    /// Where in a gate its site is.
    pub site: u64,
    /// Where in a gate the function goes on.
    pub body: u64,
    /// The stub at this address, which goes to the routines of an entry and an exit, and the gate after it, which goes on by the word at
    /// that address; and the function's number. `None` if something is out of reach.
    pub pair: fn(u64, super::Routines, u64, u32) -> Option<Vec<u8>>,
    /// The changes to this code, which a word leads to as long as nobody has looked for the function.
    pub first: fn([u8; 8]) -> First,
    /// Code for a slot that goes there as the PLT does.
    pub load_and_jump: fn(Unbound) -> Vec<u8>,
    /// Tells of the addresses that the code at an address takes, and perhaps of others: bytes may look alike.
    pub taken: fn(u64, &[u8], &mut dyn FnMut(Taken)),
    /// Calls and jumps by a word that can be replaced.
    pub by_word: Option<ByWord>,
}

/// Calls and jumps by a word, of one instruction.
#[derive(Debug)]
pub struct ByWord {
    /// Their bytes.
    pub length: usize,
    /// A jump at an address by the word at another. `None` if the word is out of reach.
    pub jump: fn(u64, u64) -> Option<Vec<u8>>,
    /// What takes the place of this code at an address: a call or jump to a target. `None` if it's something else, or out of reach.
    pub direct: fn(&[u8], u64, u64) -> Option<Vec<u8>>,
    /// Where a call or a jump leads to that `direct` has made, at an address. `None` if it's none.
    pub target: fn(&[u8], u64) -> Option<u64>,
}

impl core::fmt::Debug for ImportedWords<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#x}..={:#x}", self.first, self.last)
    }
}
