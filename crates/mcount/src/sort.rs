//! Sorting the table of a linked image, and dropping the entries of functions that were discarded.
//!
//! In an image with fixed addresses, that is sorting words. In a position-independent image an entry is
//! more than its word: a dynamic relocation tells the loader which value to store there. Take a
//! program with four entries. One of them leads to 0x1040, where no function is any more, because the
//! linker chose another definition of a weak function.
//!
//! ```text
//! before                                    after `mcount sort --drop-weak`
//!   0x3000: R_X86_64_RELATIVE 0x1050          0x3000: 0
//!   0x3008: R_X86_64_RELATIVE 0x1000          0x3008: R_X86_64_RELATIVE 0x1000
//!   0x3010: R_X86_64_RELATIVE 0x1040          0x3010: R_X86_64_RELATIVE 0x1030
//!   0x3018: R_X86_64_RELATIVE 0x1030          0x3018: R_X86_64_RELATIVE 0x1050
//! ```
//!
//! 1. [`ImageTable::read`] reads the values as the loader leaves them, and which relocation is over which
//!    word.
//! 2. No function covers 0x1040, so this entry is stale ([`is_covered`]). Its value becomes zero, and
//!    zeros come first.
//! 3. `R_X86_64_RELATIVE` adds the load address to its addend, so it can hold any value. The relocations
//!    at 0x3008 to 0x3018 stay where they are, and only their addends change. The zero must stay zero, so
//!    the relocation at 0x3000 becomes `R_X86_64_NONE` ([`ImageTable::move_dynamic`]).
//! 4. The loader handles the first `DT_RELACOUNT` relocations without looking at their types. So the
//!    removed relocation must leave that run: it goes after the others, and the count becomes 3.
//!
//! Three more kinds of relocation can be over an entry:
//!
//! - In a shared library, the entry of an exported function has `R_X86_64_64 go`. The loader may find
//!   `go` in another file, so the value is still unknown. The relocation moves as a whole, together with
//!   its word.
//! - RELR packs the places of relative relocations in bitmaps; the values are in the words. The bitmaps
//!   are made again ([`ImageTable::repack`]).
//! - Relocations that the linker kept for other tools (`--emit-relocs`) move to where their values go
//!   ([`ImageTable::move_kept`]).

use crate::elf::dynamic::{RelocationEdit, Write};
use crate::elf::loaded::{self, Loader};
use crate::elf::{Relocations, Section, Verb, View};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Options, SortOptions};
use crate::scan::functions::FunctionIndex;
use crate::scan::{Target, patchable};
use ::object::elf;
use std::collections::{BTreeMap, BTreeSet};

/// What [`crate::sort_table`] found and what to write.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sorted {
    /// Bytes to write, at offsets in the file. Empty if the table is right already.
    pub writes: Vec<Write>,
    /// The number of entries, including zeros.
    pub entries: usize,
    /// How many entries were zero already.
    pub zeroes: usize,
    /// The entries at addresses that no function covers. They are dropped if that was asked for.
    pub stale: Vec<u64>,
    /// Which of the functions with entries have symbols.
    pub named: Named,
}

/// Which functions have symbols. If static functions have none, their entries look stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Named {
    /// At most the functions that other files may refer to (`strip`).
    Dynamic,
    /// No function that is local to its source file (`strip -x`, `ld -x`, or there is no such function).
    Global,
    /// Local functions too.
    Local,
}

/// [`crate::sort_table`], for each class and byte order.
pub(crate) struct Sort<'o> {
    pub(crate) options: &'o Options,
    pub(crate) how: &'o SortOptions,
}

impl<'d> Verb<'d> for Sort<'_> {
    type Output = Sorted;

    fn run(self, view: &View<'d>) -> Result<Sorted> {
        let target = Target::image(view)?;
        let Some(table) = ImageTable::read(&target, self.options.table_section.as_bytes())? else {
            return Err(Error::new(ErrorKind::Unsupported("the image has no table")));
        };
        let functions = FunctionIndex::new(&target)?;
        let is_stale = |value: &u64| *value != 0 && !is_covered(&target, &functions, *value);
        let stale: Vec<u64> = table.values.iter().copied().filter(|v| is_stale(v)).collect();
        let dropped =
            if self.how.drop_stale { stale.iter().copied().collect() } else { BTreeSet::new() };
        let writes = table.sorted(view, &dropped)?;
        let zeroes = table.values.iter().filter(|value| **value == 0).count();
        let named = named(&target, &functions, &table.values);
        Ok(Sorted { writes, entries: table.values.len(), zeroes, stale, named })
    }
}

/// Which functions at the addresses `entries` have symbols.
fn named(target: &Target<'_, '_>, functions: &FunctionIndex<'_>, entries: &[u64]) -> Named {
    let view = target.view;
    if !view.sections().any(|section| section.kind == elf::SHT_SYMTAB.0) {
        return Named::Dynamic;
    }
    let is_local = |value: &u64| {
        let address = target.arch.entry(*value);
        let place = view.section_at(address).filter(|(_, s)| address != 0 && s.is_code());
        let Some((index, section)) = place else { return false };
        let offset = address - section.address;
        let area = area(target, functions, index, offset);
        [0, area].iter().any(|before| functions.is_local(index, offset.saturating_add(*before)))
    };
    if entries.iter().any(is_local) { Named::Local } else { Named::Global }
}

/// The most bytes of NOPs before a function that can be its area. People ask compilers for a few dozen.
const LONGEST_AREA: u64 = 1024;

/// Whether `address` is in a function, or in the area before one.
fn is_covered(target: &Target<'_, '_>, functions: &FunctionIndex<'_>, address: u64) -> bool {
    let address = target.arch.entry(address);
    let Some((index, section)) = target.view.section_at(address) else { return false };
    if !section.is_code() {
        return false;
    }
    let offset = address - section.address;
    // The area may begin before its function.
    let area = area(target, functions, index, offset);
    functions.covers(index, offset, area)
}

/// The size in bytes of the area at `offset`, up to the function that it belongs to. 0 if there is none.
fn area(target: &Target<'_, '_>, functions: &FunctionIndex<'_>, section: u32, offset: u64) -> u64 {
    let next = functions.next_start(section, offset);
    let next = next.filter(|next| next - offset <= LONGEST_AREA);
    let size = next.map(|next| patchable::size(target, functions, section, offset, Some(next)));
    size.and_then(Result::ok).unwrap_or(0)
}

/// The table of an image.
struct ImageTable {
    address: u64,
    /// The offset of its words in the file.
    offset: u64,
    /// The values of its words after loading.
    values: Vec<u64>,
    /// The relocations over its words: dynamic ones, and those kept for other tools.
    relocations: Vec<Over>,
    /// The section of packed relative relocations, if one of them is over a word.
    packed: Option<Section>,
}

/// A relocation over a word of the table.
#[derive(Clone, Copy)]
struct Over {
    slot: usize,
    /// Its section, and its position there.
    section: Section,
    index: u32,
    dynamic: bool,
    has_addend: bool,
    /// Whether it stores the address of a symbol.
    by_symbol: bool,
}

/// The value of a relocated word after sorting.
enum SortedWord {
    /// Nothing that matters: the relocation has the value.
    Addend,
    /// The value.
    Value,
    /// The value of this slot's word before.
    Moved(usize),
}

/// The dynamic relocations after sorting.
struct Moved {
    writes: Vec<Write>,
    /// The value of each relocated word, by slot.
    held: BTreeMap<usize, SortedWord>,
}

impl Over {
    /// Where it is in the file.
    fn at(&self) -> u64 {
        // Its section lies inside the file.
        self.section.offset + u64::from(self.index) * self.section.entry_size
    }
}

impl ImageTable {
    fn read(target: &Target<'_, '_>, name: &[u8]) -> Result<Option<Self>> {
        let view = target.view;
        let Some((address, size)) = target.table_range(name) else { return Ok(None) };
        let Some((_, section)) = view.section_at(address).filter(|(_, s)| s.has_bytes()) else {
            return Ok(None);
        };
        loaded::check_writable(view)?;
        let values = loaded::words(view, address, size / view.word(), &target.loader);
        let offset = section.offset + (address - section.address);
        let mut table = Self { address, offset, values, relocations: Vec::new(), packed: None };
        for (index, header) in (0u32..).zip(view.sections()) {
            if header.is_relocations() {
                table.add_relocations(view, index, header, &target.loader)?;
            } else if header.kind == elf::SHT_RELR.0
                && loaded::packed(view, header).iter().any(|at| table.slot(view, *at).is_some())
            {
                table.packed = Some(*header);
            }
        }
        Ok(Some(table))
    }

    /// The position of the word at `address`.
    fn slot(&self, view: &View<'_>, address: u64) -> Option<usize> {
        let slot = usize::try_from(address.checked_sub(self.address)? / view.word()).ok()?;
        (slot < self.values.len()).then_some(slot)
    }

    fn add_relocations(
        &mut self,
        view: &View<'_>,
        index: u32,
        header: &Section,
        loader: &Loader<'_>,
    ) -> Result<()> {
        let dynamic = header.flags & elf::SHF_ALLOC.0 != 0;
        for relocation in Relocations::read(view, index, header)?.iter() {
            let Some(slot) = self.slot(view, relocation.offset) else { continue };
            if relocation.kind == 0 {
                continue;
            }
            if dynamic && loader.base(&relocation, header.link).is_none() {
                let kind =
                    ErrorKind::Unsupported("an entry's value is not known before it is loaded");
                return Err(view.offset_error(index, relocation.offset, kind));
            }
            self.relocations.push(Over {
                slot,
                section: *header,
                index: relocation.index,
                dynamic,
                has_addend: relocation.addend.is_some(),
                by_symbol: relocation.symbol != 0,
            });
        }
        Ok(())
    }

    /// The writes that sort the table, with `dropped` made zero. Zeroes come first.
    fn sorted(&self, view: &View<'_>, dropped: &BTreeSet<u64>) -> Result<Vec<Write>> {
        let keep = |value: u64| if dropped.contains(&value) { 0 } else { value };
        let mut order: Vec<(u64, usize)> =
            self.values.iter().enumerate().map(|(slot, value)| (keep(*value), slot)).collect();
        order.sort_unstable();
        let values: Vec<u64> = order.iter().map(|(value, _)| *value).collect();
        if values == self.values {
            return Ok(Vec::new());
        }
        let zeroes = values.partition_point(|value| *value == 0);
        // The new slot of each value that isn't zero, by its old slot.
        let places: BTreeMap<usize, usize> =
            order.iter().enumerate().skip(zeroes).map(|(new, (_, old))| (*old, new)).collect();
        let Moved { mut writes, held } = self.move_dynamic(view, &values, &places, zeroes);
        self.move_kept(view, &places, &mut writes);
        if let Some(packed) = &self.packed {
            let free = (zeroes..values.len()).filter(|slot| !held.contains_key(slot));
            writes.push((packed.offset, self.repack(view, packed, free.collect())?));
        }
        let mut words = view.encoder();
        let old = loaded::in_file(view, self.address, values.len() as u64);
        for (slot, value) in values.iter().enumerate() {
            let old = |slot: usize| old.get(slot).copied().unwrap_or(0);
            words.word(match held.get(&slot) {
                Some(SortedWord::Moved(from)) => old(*from),
                // If the linker left a 0 there, it stays.
                Some(SortedWord::Addend) if old(slot) == 0 => 0,
                _ => *value,
            });
        }
        writes.push((self.offset, words.out));
        Ok(writes)
    }

    /// Moves each relocation by a symbol to where its value goes (`places`). The other relocations stay
    /// where they are, or go to a word that needs one and has none. Those over zeros are removed.
    fn move_dynamic(
        &self,
        view: &View<'_>,
        values: &[u64],
        places: &BTreeMap<usize, usize>,
        zeroes: usize,
    ) -> Moved {
        let dynamic = self.relocations.iter().filter(|over| over.dynamic);
        let (by_symbol, others): (Vec<&Over>, Vec<&Over>) =
            dynamic.partition(|over| over.by_symbol);
        let (mut entries, mut left_over) = (RelocationEdit::new(view), Vec::new());
        let mut held = BTreeMap::new();
        for over in by_symbol {
            let Some(slot) = places.get(&over.slot) else {
                left_over.push((over.section, over.index));
                continue;
            };
            entries.set(&over.section, over.index, self.place(view, *slot), None);
            held.insert(*slot, SortedWord::Moved(over.slot));
        }
        let free: BTreeSet<_> =
            (zeroes..values.len()).filter(|slot| !held.contains_key(slot)).collect();
        let taken: BTreeSet<_> = others.iter().map(|over| over.slot).collect();
        let mut lacking = free.difference(&taken);
        for over in others {
            let own = free.get(&over.slot);
            let Some(slot) = own.or_else(|| lacking.next()) else {
                left_over.push((over.section, over.index));
                continue;
            };
            let value = values.get(*slot).copied().filter(|_| over.has_addend);
            entries.set(&over.section, over.index, self.place(view, *slot), value);
            held.insert(
                *slot,
                if over.has_addend { SortedWord::Addend } else { SortedWord::Value },
            );
        }
        entries.remove(&left_over);
        Moved { writes: entries.writes(), held }
    }

    /// The address of the entry `slot`. It wraps around, as in the loader.
    fn place(&self, view: &View<'_>, slot: usize) -> u64 {
        self.address.wrapping_add(slot as u64 * view.word())
    }

    /// Moves each relocation that the linker kept to where its value goes.
    fn move_kept(&self, view: &View<'_>, places: &BTreeMap<usize, usize>, writes: &mut Vec<Write>) {
        for over in self.relocations.iter().filter(|over| !over.dynamic) {
            if let Some(slot) = places.get(&over.slot) {
                let mut place = view.encoder();
                place.word(self.place(view, *slot));
                writes.push((over.at(), place.out));
            } else {
                writes.push(none(view, over.at()));
            }
        }
    }

    /// Packs the relative relocations again, with those of the table over `slots`. They must fit into
    /// their old section.
    fn repack(&self, view: &View<'_>, section: &Section, slots: Vec<usize>) -> Result<Vec<u8>> {
        let mut addresses = loaded::packed(view, section);
        let before = addresses.len();
        addresses.retain(|at| self.slot(view, *at).is_none());
        if before - addresses.len() < slots.len() {
            let kind = ErrorKind::Unsupported("some entries are relocated and others are not");
            return Err(Error::new(kind));
        }
        addresses.extend(slots.into_iter().map(|slot| self.place(view, slot)));
        addresses.sort_unstable();
        let mut out = view.encoder();
        loaded::pack(&mut out, addresses.into_iter(), view.word());
        let room = usize::try_from(section.size).unwrap_or(0);
        if out.out.len() > room {
            return Err(Error::new(ErrorKind::Unsupported("no room for the packed relocations")));
        }
        // Fill up with bitmaps that have no bits set. The section may end with part of a word.
        while (room - out.out.len()) as u64 >= view.word() {
            out.word(1);
        }
        Ok(out.out)
    }
}

/// Makes the relocation at `at` of the file an `R_*_NONE`.
fn none(view: &View<'_>, at: u64) -> Write {
    let mut info = view.encoder();
    info.word(0);
    (at + view.word(), info.out)
}
