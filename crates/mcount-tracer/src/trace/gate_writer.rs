//! What calls of other modules go by is written into the memory of a program (`library.rs`, `instrumented_calls.rs`): gates, the module's words
//! that lead there, and words by which calls go on.

use super::gates::{self, Unbound};
use super::imports::{Import, Way};
use super::pages::Pages;
use super::processor::{Routines, STUB, thunk};
use super::recipe::Recipe;
use super::space::{Placed, Room};
use mcount_agent::class;
use mcount_ptrace::Memory;
use std::io;

/// Bytes of code near a module for an import of which calls are replaced.
pub(super) const NEAR: u64 = 2 * STUB as u64;

/// Writes what calls of one module go by.
pub(super) struct Writer<'s> {
    pub(super) memory: &'s Memory,
    pub(super) placed: &'s mut Placed,
    pub(super) bias: u64,
    /// First address of the module, and the one behind its last.
    pub(super) extent: (u64, u64),
    /// What stubs call at entries and exits; and what those of functions that may wait do.
    pub(super) routines: [Routines; 2],
    /// What stubs of functions call at entries whose arguments or results are recorded.
    pub(super) values_entry: u64,
    /// Room for words that the dynamic linker fills in.
    pub(super) words: &'s mut Room,
    /// Room for code that the module reaches, and that reaches it, if that of stubs is too far away.
    pub(super) thunks: Option<Room>,
    pub(super) pages: Pages,
}

impl Writer<'_> {
    /// Has calls of an import go by a gate; where that one's site is. `None`: they can't.
    pub(super) fn import(
        &mut self,
        import: &Import,
        number: u32,
        has_recipe: bool,
    ) -> io::Result<Option<u64>> {
        const PAIR: usize = 2 * STUB;
        let no_room = || io::Error::other("no room for more stubs");
        let stub = self.placed.stubs.take(PAIR as u64).ok_or_else(no_room)?;
        let gate = stub + STUB as u64;
        let by = self.words.take(8).ok_or_else(no_room)?;
        let [plain, of_waits] = self.routines;
        let routines = if may_wait(number >> 24) { of_waits } else { plain };
        let entry = if has_recipe { self.values_entry } else { routines.entry };
        let routines = Routines { entry, ..routines };
        let made = gates::pair(stub, routines, by, number);
        let site = made.as_ref().map(|pair| pair.site);
        let made = made.map(|pair| pair.code);
        let is_done = match &import.way {
            _ if made.is_none() => false,
            Way::Calls => self.redirect(import, gate, by)?,
            Way::Sites(sites) => self.replace((import, sites), gate, by)?,
            Way::Address => false,
        };
        let made = made.filter(|_| is_done);
        self.memory.write(stub, made.as_deref().unwrap_or(&[0; PAIR]))?;
        Ok(site.filter(|_| is_done))
    }

    /// Writes the recipe of the function with this number, in the place of stubs, and its address into the table that ends at `recipes`.
    pub(super) fn recipe(&mut self, number: u32, recipe: &Recipe, recipes: u64) -> io::Result<()> {
        let no_room = || io::Error::other("no room for more stubs");
        let entry = recipes - 8 * u64::from(number);
        self.placed.stubs.limit(entry).ok_or_else(no_room)?;
        let bytes = recipe.bytes();
        let size = bytes.len().next_multiple_of(STUB) as u64;
        let at = self.placed.stubs.take(size).ok_or_else(no_room)?;
        self.memory.write(at, &bytes)?;
        self.memory.write(entry, &at.to_le_bytes())
    }

    /// Has calls of an import lead to `target`, and nothing come back from there. `false`: they can't.
    pub(super) fn lead(&mut self, import: &Import, target: u64) -> io::Result<bool> {
        let no_room = || io::Error::other("no room for more stubs");
        let gate = self.placed.stubs.take(STUB as u64).ok_or_else(no_room)?;
        let by = self.words.take(8).ok_or_else(no_room)?;
        self.memory.write(gate, &thunk(target))?;
        match &import.way {
            Way::Calls => self.redirect(import, gate, by),
            Way::Sites(sites) => self.replace((import, sites), gate, by),
            Way::Address => Ok(false),
        }
    }

    /// Makes the word of an import lead to `gate`, and its relocation one of `by`. `false` if that isn't the relocation.
    fn redirect(&mut self, import: &Import, gate: u64, by: u64) -> io::Result<bool> {
        let [word, relocation] =
            [import.word, import.relocation].map(|address| self.bias.wrapping_add(address));
        if self.memory.word(relocation)? != import.word {
            return Ok(false);
        }
        let Some(value) = self.first_value(import, self.memory.word(word)?)? else {
            return Ok(false);
        };
        self.memory.write(by, &value.to_le_bytes())?;
        let distance = by.wrapping_sub(self.bias);
        self.pages.patch(self.memory, relocation, &distance.to_le_bytes())?;
        self.pages.patch(self.memory, word, &gate.to_le_bytes())?;
        Ok(true)
    }

    /// The first value of a new word, if that of the module has `value`: the same, or the address of code that
    /// goes there with all that the module's PLT expects. `None` if its effect is unknown.
    fn first_value(&mut self, import: &Import, value: u64) -> io::Result<Option<u64>> {
        // What isn't relocated yet will be.
        let is_own = |value: u64| (self.extent.0..self.extent.1).contains(&value);
        let missing = [0, self.bias].into_iter().find(|bias| is_own(value.wrapping_add(*bias)));
        let Some(missing) = missing.filter(|_| value != 0) else { return Ok(Some(value)) };
        let place = value.wrapping_add(missing);
        let mut code = [0; 8];
        self.memory.read(place, &mut code)?;
        let word = self.bias.wrapping_add(import.word);
        let code = match gates::unbound(code, (import.index, word), place) {
            Some(Unbound::Same) => return Ok(Some(value)),
            None => return Ok(None),
            Some(Unbound::Slot(code)) => code,
        };
        let Some(slot) = self.placed.stubs.take(STUB as u64) else { return Ok(None) };
        self.memory.write(slot, &code)?;
        Ok(Some(slot.wrapping_sub(missing)))
    }

    /// Makes calls and jumps by the word of an import those of `gate`, which comes back by the word `by`. `false` if one of them isn't
    /// what it was in the file, or too far away.
    fn replace(
        &mut self,
        (import, sites): (&Import, &[u64]),
        gate: u64,
        by: u64,
    ) -> io::Result<bool> {
        let room = self.thunks.as_mut().unwrap_or(&mut self.placed.stubs);
        let Some(there) = room.take(NEAR) else { return Ok(false) };
        let back = there + STUB as u64;
        let word = self.bias.wrapping_add(import.word);
        let Some(jump_back) = gates::jump_by(back, word) else { return Ok(false) };
        let mut all = Vec::new();
        for site in sites {
            let place = self.bias.wrapping_add(*site);
            let mut now = gates::room_by_word();
            self.memory.read(place, &mut now)?;
            let Some(direct) = gates::direct(&now, place, there) else { return Ok(false) };
            all.push((place, direct));
        }
        self.memory.write(there, &thunk(gate))?;
        self.memory.write(back, &jump_back)?;
        self.memory.write(by, &back.to_le_bytes())?;
        for (place, direct) in all {
            self.pages.patch(self.memory, place, &direct)?;
        }
        Ok(true)
    }
}

/// Is it the class of a function that may wait?
pub(super) fn may_wait(class: u32) -> bool {
    class & class::WAITS != 0
}
