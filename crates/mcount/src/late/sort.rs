//! Sorting the table of a linked image, and dropping what it has of discarded functions.
//!
//! An entry of a position-independent image is not the word alone: a dynamic relocation puts the
//! value there. So a value moves together with its relocation, a zero has none, and the relocations
//! that the linker kept for other tools move along too. Loaders do the first `DT_RELCOUNT` relocations
//! without a look at their types, so one that goes leaves that run, which is shortened.

use super::fill::Write;
use crate::Options;
use crate::elf::dynamic::Entries;
use crate::elf::loaded::{self, Loader};
use crate::elf::{Encoder, Relocations, Section, Verb, View};
use crate::error::{Error, ErrorKind, Result};
use crate::scan::functions::Functions;
use crate::scan::{Target, patchable};
use ::object::elf;
use ::object::read::elf::FileHeader;
use std::collections::{BTreeMap, BTreeSet};

/// What sorting a table comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sorted {
    /// Bytes to write at offsets of the file; none if the table is right as it is.
    pub writes: Vec<Write>,
    /// The number of entries, zeroes counted.
    pub entries: usize,
    /// Those of them that are zero already.
    pub zeroes: usize,
    /// Addresses that no function covers: dropped, if that was asked for.
    pub stale: Vec<u64>,
    /// Which functions that have entries the symbols name.
    pub named: Named,
}

/// What symbols name; without those of static functions, these look like discarded ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// No function, or only those that other files may refer to (`strip`).
    Dynamic,
    /// No function that is local to its source file (`strip -x`, `ld -x`), or there is none.
    Global,
    /// Local functions too.
    Local,
}

/// [`crate::sort_table`], for each class and byte order.
pub(crate) struct Sort<'o> {
    pub(crate) options: &'o Options,
    pub(crate) drop_stale: bool,
}

impl<'d> Verb<'d> for Sort<'_> {
    type Output = Sorted;

    fn run<Elf: FileHeader>(self, view: &View<'d, Elf>) -> Result<Sorted> {
        let target = Target::image(view)?;
        let Some(table) = Table::read(&target, self.options.table_section.as_bytes())? else {
            return Err(Error::new(ErrorKind::Unsupported("the image has no table")));
        };
        let functions = Functions::new(&target)?;
        let is_stale = |value: &u64| *value != 0 && !is_covered(&target, &functions, *value);
        let stale: Vec<u64> = table.values.iter().copied().filter(|v| is_stale(v)).collect();
        let dropped =
            if self.drop_stale { stale.iter().copied().collect() } else { BTreeSet::new() };
        let writes = table.sorted(view, &dropped)?;
        let zeroes = table.values.iter().filter(|value| **value == 0).count();
        let named = named(&target, &functions, &table.values);
        Ok(Sorted { writes, entries: table.values.len(), zeroes, stale, named })
    }
}

/// Which functions at the addresses `entries` have symbols.
fn named<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    functions: &Functions<'_>,
    entries: &[u64],
) -> Named {
    let view = target.view;
    if !view.sections().any(|section| section.kind == elf::SHT_SYMTAB.0) {
        return Named::Dynamic;
    }
    let is_local = |address: &u64| {
        let place = view.section_at(*address).filter(|(_, s)| *address != 0 && s.is_code());
        let Some((index, section)) = place else { return false };
        let offset = address - section.address;
        let area = area(target, functions, index, offset);
        [0, area].iter().any(|before| functions.is_local(index, offset.saturating_add(*before)))
    };
    if entries.iter().any(is_local) { Named::Local } else { Named::Global }
}

/// Bytes of NOPs before a function that are taken for an area: compilers are asked for a few dozen.
const LONGEST_AREA: u64 = 1024;

/// Whether a function, or the area before one, has a site at `address`.
fn is_covered<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    functions: &Functions<'_>,
    address: u64,
) -> bool {
    let Some((index, section)) = target.view.section_at(address) else { return false };
    if !section.is_code() {
        return false;
    }
    let offset = address - section.address;
    // The area may begin before its function.
    let area = area(target, functions, index, offset);
    functions.covers(index, offset, area)
}

/// The bytes of an area at `offset` that leads to a function, as far as that.
fn area<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    functions: &Functions<'_>,
    section: u32,
    offset: u64,
) -> u64 {
    let next = functions.next_start(section, offset);
    let next = next.filter(|next| next - offset <= LONGEST_AREA);
    let size = next.map(|next| patchable::size(target, functions, section, offset, Some(next)));
    size.and_then(Result::ok).unwrap_or(0)
}

/// The table of an image.
struct Table {
    address: u64,
    /// Where its words are in the file.
    offset: u64,
    /// The words as the loader leaves them.
    values: Vec<u64>,
    /// Relocations over the words, dynamic ones and those kept for other tools.
    relocations: Vec<Over>,
    /// The section of packed relative relocations, if it has any over the words.
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
    /// What the addend counts from.
    base: u64,
}

impl Over {
    /// Where it is in the file.
    fn at(&self) -> u64 {
        // Its section lies inside the file.
        self.section.offset + u64::from(self.index) * self.section.entry_size
    }
}

impl Table {
    fn read<Elf: FileHeader>(target: &Target<'_, '_, Elf>, name: &[u8]) -> Result<Option<Self>> {
        let view = target.view;
        let Some((address, size)) = target.table_range(name) else { return Ok(None) };
        let Some((_, section)) = view.section_at(address).filter(|(_, s)| s.has_bytes()) else {
            return Ok(None);
        };
        loaded::check(view)?;
        let values = loaded::words(view, address, size / view.word(), &target.loader);
        let offset = section.offset + (address - section.address);
        let mut table = Self { address, offset, values, relocations: Vec::new(), packed: None };
        for (index, header) in (0u32..).zip(view.sections()) {
            if header.is_relocations() {
                table.add_relocations(view, index, &header, &target.loader)?;
            } else if header.kind == elf::SHT_RELR.0
                && loaded::packed(view, &header).iter().any(|at| table.slot(view, *at).is_some())
            {
                table.packed = Some(header);
            }
        }
        Ok(Some(table))
    }

    /// The position of the word at `address`.
    fn slot<Elf: FileHeader>(&self, view: &View<'_, Elf>, address: u64) -> Option<usize> {
        let slot = usize::try_from(address.checked_sub(self.address)? / view.word()).ok()?;
        (slot < self.values.len()).then_some(slot)
    }

    fn add_relocations<Elf: FileHeader>(
        &mut self,
        view: &View<'_, Elf>,
        index: u32,
        header: &Section,
        loader: &Loader<'_, Elf>,
    ) -> Result<()> {
        let dynamic = header.flags & elf::SHF_ALLOC.0 != 0;
        for relocation in Relocations::read(view, index, header)?.iter() {
            let Some(slot) = self.slot(view, relocation.offset) else { continue };
            if relocation.kind == 0 {
                continue;
            }
            let base = loader.base(&relocation, header.link);
            if dynamic && base.is_none() {
                let kind = ErrorKind::Unsupported("an entry is relocated by a symbol");
                return Err(view.offset_error(index, relocation.offset, kind));
            }
            self.relocations.push(Over {
                slot,
                section: *header,
                index: relocation.index,
                dynamic,
                has_addend: relocation.addend.is_some(),
                base: base.unwrap_or(0),
            });
        }
        Ok(())
    }

    /// The writes that sort the table, with `dropped` made zero. Zeroes come first.
    fn sorted<Elf: FileHeader>(
        &self,
        view: &View<'_, Elf>,
        dropped: &BTreeSet<u64>,
    ) -> Result<Vec<Write>> {
        let keep = |value: u64| if dropped.contains(&value) { 0 } else { value };
        let mut order: Vec<(u64, usize)> =
            self.values.iter().enumerate().map(|(slot, value)| (keep(*value), slot)).collect();
        order.sort_unstable();
        let values: Vec<u64> = order.iter().map(|(value, _)| *value).collect();
        if values == self.values {
            return Ok(Vec::new());
        }
        let zeroes = values.partition_point(|value| *value == 0);
        let (mut writes, has_addends) = self.move_dynamic(view, &values, zeroes);
        self.move_kept(view, &order, zeroes, &mut writes);
        if let Some(packed) = &self.packed {
            writes.push((packed.offset, self.repack(view, packed, zeroes)?));
        }
        let mut words = encoder(view);
        let old = loaded::in_file(view, self.address, values.len() as u64);
        for ((slot, value), old) in values.iter().enumerate().zip(old) {
            // Where a relocation has the value, the word stays 0 if the linker left it so.
            words.word(if has_addends.contains(&slot) && old == 0 { 0 } else { *value });
        }
        writes.push((self.offset, words.out));
        Ok(writes)
    }

    /// Gives each word that is not zero one of the dynamic relocations, if there are any; those that
    /// are left over go. The words whose relocation holds the value.
    fn move_dynamic<Elf: FileHeader>(
        &self,
        view: &View<'_, Elf>,
        values: &[u64],
        zeroes: usize,
    ) -> (Vec<Write>, BTreeSet<usize>) {
        let dynamic: Vec<_> = self.relocations.iter().filter(|over| over.dynamic).collect();
        let taken: BTreeSet<_> = dynamic.iter().map(|over| over.slot).collect();
        let mut lacking = (zeroes..values.len()).filter(|slot| !taken.contains(slot));
        let mut with_addend = BTreeSet::new();
        let mut entries = Entries::new(view);
        let mut left_over = Vec::new();
        for over in dynamic {
            let slot = if over.slot >= zeroes { Some(over.slot) } else { lacking.next() };
            let Some(slot) = slot else {
                left_over.push((over.section, over.index));
                continue;
            };
            let place = self.place(view, slot);
            let value = values.get(slot).copied().unwrap_or(0);
            let addend = over.has_addend.then(|| value.wrapping_sub(over.base));
            entries.set(&over.section, over.index, place, addend);
            with_addend.extend(over.has_addend.then_some(slot));
        }
        entries.remove(&left_over);
        (entries.writes(), with_addend)
    }

    /// The address of an entry; where addresses end they begin again, as the loader counts.
    fn place<Elf: FileHeader>(&self, view: &View<'_, Elf>, slot: usize) -> u64 {
        self.address.wrapping_add(slot as u64 * view.word())
    }

    /// Relocations that were kept refer to a symbol: each goes where its value goes.
    fn move_kept<Elf: FileHeader>(
        &self,
        view: &View<'_, Elf>,
        order: &[(u64, usize)],
        zeroes: usize,
        writes: &mut Vec<Write>,
    ) {
        let moved: BTreeMap<usize, usize> =
            order.iter().enumerate().map(|(new, (_, old))| (*old, new)).collect();
        for over in self.relocations.iter().filter(|over| !over.dynamic) {
            match moved.get(&over.slot) {
                Some(slot) if *slot >= zeroes => {
                    let mut place = encoder(view);
                    place.word(self.place(view, *slot));
                    writes.push((over.at(), place.out));
                }
                _ => writes.push(none(view, over.at())),
            }
        }
    }

    /// The packed relocations without those over zeroes, in the room that they have.
    fn repack<Elf: FileHeader>(
        &self,
        view: &View<'_, Elf>,
        section: &Section,
        zeroes: usize,
    ) -> Result<Vec<u8>> {
        let addresses = loaded::packed(view, section).into_iter();
        let kept = addresses.filter(|at| self.slot(view, *at).is_none_or(|slot| slot >= zeroes));
        let mut out = encoder(view);
        loaded::pack(&mut out, kept, view.word());
        let room = usize::try_from(section.size).unwrap_or(0);
        if out.out.len() > room {
            return Err(Error::new(ErrorKind::Unsupported("no room for the packed relocations")));
        }
        // A bitmap of no bits. The section may end with part of a word.
        while (room - out.out.len()) as u64 >= view.word() {
            out.word(1);
        }
        Ok(out.out)
    }
}

fn encoder<Elf: FileHeader>(view: &View<'_, Elf>) -> Encoder {
    Encoder { big_endian: view.is_big_endian(), is_64: view.is_64(), out: Vec::new() }
}

/// Makes the relocation at `at` of the file an `R_*_NONE`.
fn none<Elf: FileHeader>(view: &View<'_, Elf>, at: u64) -> Write {
    let mut info = encoder(view);
    info.word(0);
    (at + view.word(), info.out)
}
