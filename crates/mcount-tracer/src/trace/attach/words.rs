//! Calls of library functions in a process that runs: while they're recorded, the words by which a module calls functions of others
//! lead to gates (`gates.rs`).
//!
//! The module's relocation of such a word is one of a word of the agent's meanwhile, as in a program that is started. So
//! the dynamic linker finds functions as it always does, also when they are called first. Whoever leaves the process, or finds it left by
//! a recorder that was killed, sees by the relocation which word calls go on by: nobody has to keep that.
//!
//! A relocation is changed before its word, and changed back after it. If the recorder is killed in between, and the process goes on, the
//! word is as it was before: functions are looked for whenever they are called, if none was found before.

use super::sites::Change;
use crate::trace::gates::{self, Unbound};
use crate::trace::imports::{Import, Way, imports, imports_of};
use crate::trace::instrumented::NAMES;
use crate::trace::library::Plan;
use crate::trace::processor::{Routines, SITE, STUB, armed, thunk};
use crate::trace::stubs::StubWriter;
use mcount_hooks::code::Code;
use mcount_ptrace::Memory;
use object::Endianness;
use object::read::elf::ElfFile64;
use std::io;

/// A word of a module by which it calls a function, and what is changed while such calls are recorded.
#[derive(Debug, Clone, Copy)]
pub(super) struct GatedWord {
    /// Where it is.
    word: u64,
    /// Where its relocation is, and what that says: as in the file, and meanwhile.
    relocation: u64,
    idle: u64,
    armed: u64,
    /// Where it leads to meanwhile, and the word by which calls go on from there.
    gate: u64,
    by: u64,
    /// What it has as long as nobody has looked for the function, and what `by` has then.
    unbound: Option<(u64, u64)>,
    /// First and last address of the module.
    extent: (u64, u64),
}

/// What is known of a module whose words are to be changed.
pub(super) struct Owner<'m> {
    pub(super) bias: u64,
    pub(super) extent: (u64, u64),
    pub(super) bytes: &'m [u8],
}

/// What is to be changed for one import.
#[derive(Debug, Clone, Default)]
pub(super) struct Gated {
    pub(super) word: Option<GatedWord>,
    /// The gate's site; and calls, where code does something else by the word, too.
    pub(super) changes: Vec<Change>,
}

impl Gated {
    /// What is to be changed for an import of the module `of`, whose gate calls these routines, and goes on by the word at `by`, if it's not the
    /// module's. `None` if that can't be done.
    pub(super) fn plan(
        of: &Owner<'_>,
        Plan { import, number, leads_to, .. }: &Plan,
        stubs: &mut StubWriter,
        (routines, by): (Routines, u64),
    ) -> Option<Self> {
        const GATE: usize = STUB;
        let (word, by) = match &import.way {
            Way::Calls => (Some(GatedWord::plan(of, import, stubs, by)?), by),
            Way::Sites(_) => (None, of.bias.wrapping_add(import.word)),
            Way::Address => return None,
        };
        if let Some(target) = leads_to {
            let mut code = [0; STUB];
            let jump = thunk(*target);
            code.get_mut(..jump.len())?.copy_from_slice(&jump);
            return Self::through(of, (import, word), stubs.add_code(code)?);
        }
        let pair = gates::pair(stubs.stubs.next(), routines, by, *number)?;
        let site = GATE + usize::try_from(pair.site - pair.gate).ok()?;
        let on = pair.code.get(site..site + SITE)?;
        let off = armed(pair.site, pair.body)?;
        let change = Change::new((pair.site, *number & 0xff_ffff), &off, on)?;
        let mut planned = Self::through(of, (import, word), pair.gate)?;
        planned.changes.insert(0, change);
        stubs.add_pair(&pair.code)?;
        Some(planned)
    }

    /// What is to be changed so that calls of an import go to `gate`.
    fn through(
        of: &Owner<'_>,
        (import, word): (&Import, Option<GatedWord>),
        gate: u64,
    ) -> Option<Self> {
        let mut changes = Vec::new();
        if let Way::Sites(sites) = &import.way {
            for site in sites {
                let (now, at) = (code_at(of, *site)?, of.bias.wrapping_add(*site));
                let now = now.get(..gates::room_by_word().len())?;
                changes.push(Change::new((at, 0), now, &gates::direct(now, at, gate)?)?);
            }
        }
        Some(Self { word: word.map(|word| GatedWord { gate, ..word }), changes })
    }
}

impl GatedWord {
    /// What is to be changed for an import of the module `of` of which there are only calls, if they go on by the word at `by`.
    fn plan(of: &Owner<'_>, import: &Import, stubs: &mut StubWriter, by: u64) -> Option<Self> {
        let known = Self::new(of, import, by);
        let Some((place, _)) = known.unbound else { return Some(known) };
        let code = code_at(of, place.wrapping_sub(of.bias))?;
        let later = gates::unbound(code, (import.index, known.word), place)?;
        let goes_on = match later {
            Unbound::Same => place,
            Unbound::Slot(code) => stubs.add_code(code)?,
        };
        Some(Self { unbound: Some((place, goes_on)), ..known })
    }

    /// What is known by the file.
    fn new(of: &Owner<'_>, import: &Import, by: u64) -> Self {
        let at = |address: u64| of.bias.wrapping_add(address);
        let unbound = code_at(of, import.word).map(u64::from_le_bytes).filter(|first| *first != 0);
        Self {
            word: at(import.word),
            relocation: at(import.relocation),
            idle: import.word,
            armed: by.wrapping_sub(of.bias),
            gate: 0,
            by,
            unbound: unbound.map(|first| (at(first), at(first))),
            extent: of.extent,
        }
    }

    /// As a recorder has left it that was killed.
    fn left_behind(
        of: &Owner<'_>,
        memory: &Memory,
        import: &Import,
        ((first, end), is_ours): ((u64, u64), &impl Fn(u64) -> bool),
    ) -> Option<Self> {
        let now = memory.word(of.bias.wrapping_add(import.relocation)).ok()?;
        let by = of.bias.wrapping_add(now);
        if now == import.word || !(first..end).contains(&by) {
            return None;
        }
        let word = Self::new(of, import, by);
        let gate = memory.word(word.word).ok().filter(|gate| is_ours(*gate)).unwrap_or(0);
        // Where it went on by code of ours, nobody had looked for the function.
        let goes_on = memory.word(by).ok().filter(|value| is_ours(*value));
        let unbound = word.unbound.map(|(first, same)| (first, goes_on.unwrap_or(same)));
        Some(Self { gate, unbound, ..word })
    }

    /// Has calls go by the gate, which has been written. `false` if the word or its relocation isn't as it should be.
    pub(super) fn arm(&self, memory: &Memory) -> io::Result<bool> {
        if memory.word(self.relocation)? != self.idle {
            return Ok(false);
        }
        let value = memory.word(self.word)?;
        let value = match self.unbound {
            Some((unbound, goes_on)) if value == unbound => goes_on,
            _ if value == 0 || (self.extent.0..self.extent.1).contains(&value) => return Ok(false),
            _ => value,
        };
        for (at, value) in [(self.by, value), (self.relocation, self.armed), (self.word, self.gate)]
        {
            memory.write(at, &value.to_le_bytes())?;
        }
        Ok(true)
    }

    /// Puts back what was there, or what the dynamic linker would have put there meanwhile.
    fn restore(&self, memory: &Memory) -> io::Result<()> {
        if memory.word(self.word)? == self.gate {
            let value = memory.word(self.by)?;
            let value = match self.unbound {
                Some((unbound, goes_on)) if value == goes_on => unbound,
                _ => value,
            };
            memory.write(self.word, &value.to_le_bytes())?;
        }
        if memory.word(self.relocation)? == self.armed {
            memory.write(self.relocation, &self.idle.to_le_bytes())?;
        }
        Ok(())
    }
}

/// Puts back what there was; modules that are gone need nothing.
pub(super) fn restore(words: &[GatedWord], memory: &Memory) {
    for word in words {
        let _ = word.restore(memory);
    }
}

/// What a recorder has changed in a module which was killed: relocations are those of the agent's words, which are from the first of these
/// addresses to the last, and words and calls lead into one of `rooms`.
pub(super) fn left_behind(
    of: &Owner<'_>,
    memory: &Memory,
    words: (u64, u64),
    rooms: &[(u64, u64)],
) -> Vec<Gated> {
    let Ok(file) = ElfFile64::<Endianness>::parse(of.bytes) else { return Vec::new() };
    let is_ours = |at: u64| rooms.iter().any(|(from, to)| (*from..*to).contains(&at));
    let all = imports(&file).into_iter().chain(imports_of(&file, &NAMES));
    let found = all.filter_map(|import| {
        if let Way::Sites(sites) = &import.way {
            let changes = sites.iter().filter_map(|site| replaced(of, memory, *site, is_ours));
            return Some(Gated { word: None, changes: changes.collect() });
        }
        let word = GatedWord::left_behind(of, memory, &import, (words, &is_ours))?;
        Some(Gated { word: Some(word), changes: Vec::new() })
    });
    found.collect()
}

/// A call by a word that leads into code of ours instead.
fn replaced(
    of: &Owner<'_>,
    memory: &Memory,
    site: u64,
    is_ours: impl Fn(u64) -> bool,
) -> Option<Change> {
    let (idle, at) = (code_at(of, site)?, of.bias.wrapping_add(site));
    let mut now = gates::room_by_word();
    memory.read(at, &mut now).ok()?;
    gates::direct_target(&now, at).filter(|target| is_ours(*target))?;
    Change::new((at, 0), idle.get(..now.len())?, &now)
}

/// What a file has at an address.
fn code_at(of: &Owner<'_>, address: u64) -> Option<[u8; 8]> {
    let file = ElfFile64::<Endianness>::parse(of.bytes).ok()?;
    Code::of(&file, 8).at(address).first_chunk().copied()
}
