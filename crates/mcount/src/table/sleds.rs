//! The compiler's list of sleds for LLVM's XRay (`-fxray-instrument`): `xray_instr_map`.
//!
//! An entry has two words, the address of the sled and that of its function, three bytes, and zeros up to the size of four
//! words. Since version 2, each word is the distance from itself:
//!
//! ```text
//!   0: address     8: function     16: kind     17: always     18: version     19: zeros, up to 32
//! ```
//!
//! In an object, relocations say where words lead, and there is a list for each section of code. Nothing else tells of sleds.
//!
//! Sources: LLVM, "XRay Instrumentation"; what clang 14 and 19 emit.

use super::{Part, place};
use crate::arch::sleds::SledKind;
use crate::elf::loaded::{self, Changes};
use crate::elf::{Relocations, Section, addresses};
use crate::error::Result;
use crate::scan::Target;
use crate::site::Kind;
use std::collections::HashMap;

/// The name of the list.
pub(crate) const SECTION: &str = "xray_instr_map";

/// The first version whose words are distances.
const DISTANCES: u8 = 2;

/// An entry of the list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SledEntry {
    /// Where it is: a section, and bytes from its start.
    pub(crate) slot: (u32, u64),
    /// Where its sled is; `None` if that's in no section of this file.
    pub(crate) place: Option<(u32, u64)>,
    /// Where its function is; `None` if that's in no section of this file.
    pub(crate) function: Option<(u32, u64)>,
    /// The address of its sled in an image.
    pub(crate) address: u64,
    /// The kind of its sled as a number.
    pub(crate) kind: u8,
}

/// The sled at the place that an entry has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sled {
    pub(crate) kind: Kind,
    /// In bytes.
    pub(crate) size: u64,
}

/// The sections that have the list of `target`; none if we don't know the processor's sleds.
pub(crate) fn parts(target: &Target<'_, '_>) -> Vec<Part> {
    if target.arch.sleds.is_none() {
        return Vec::new();
    }
    super::parts(target, SECTION.as_bytes())
}

/// The size of an entry in bytes.
pub(crate) fn entry_size(target: &Target<'_, '_>) -> u64 {
    4 * target.view.word()
}

/// The entries of the list of `target`, in the order of its sections. A part of an entry at the end of a section doesn't
/// count.
///
/// # Errors
///
/// Relocations of the list are malformed.
pub(crate) fn entries(target: &Target<'_, '_>) -> Result<Vec<SledEntry>> {
    let mut found = Vec::new();
    let parts = parts(target);
    // Read once, however many sections there are.
    let is_loaded = target.is_image && !parts.is_empty();
    let changes = is_loaded.then(|| Changes::read(target.view, &target.loader));
    for part in parts {
        let words = Words::of(target, &part, changes.as_ref())?;
        let size = entry_size(target);
        let bytes = target.view.bytes_of(&part.header);
        let entries = usize::try_from(size).map_or(0, |size| bytes.len() / size);
        for number in 0..entries as u64 {
            let at = number * size;
            let tail = usize::try_from(at + size / 2).ok().and_then(|tail| bytes.get(tail..));
            let Some([kind, _, version, ..]) = tail else { break };
            let (address, place) = words.lead(target, at, *version);
            let (_, function) = words.lead(target, at + target.view.word(), *version);
            found.push(SledEntry { slot: (part.index, at), place, function, address, kind: *kind });
        }
    }
    Ok(found)
}

/// The sled that an entry leads to; `None` if there is none of its kind.
pub(crate) fn sled(target: &Target<'_, '_>, entry: &SledEntry) -> Option<Sled> {
    let (section, offset) = entry.place?;
    if !target.view.section(section).ok()?.is_code() {
        return None;
    }
    let number = SledKind::of(entry.kind)?;
    let size = target.arch.sled(target.code(section).ok()?, offset, number)?;
    let kind = match number {
        SledKind::Entry => Kind::Sled,
        SledKind::Exit | SledKind::TailCall => Kind::ExitSled,
        SledKind::Event | SledKind::TypedEvent => Kind::EventSled,
    };
    Some(Sled { kind, size })
}

/// Where the words of a section of the list lead.
enum Words {
    /// In an object: what the relocations say, by where they are.
    Relocated(HashMap<u64, (u32, u64)>),
    /// In an image: the address of the section, and its words after loading.
    Loaded(u64, Vec<u64>),
}

impl Words {
    /// Those of `part`; `changes` are what loading does to an image.
    fn of(target: &Target<'_, '_>, part: &Part, changes: Option<&Changes>) -> Result<Self> {
        let Section { address, size, .. } = part.header;
        if let Some(changes) = changes {
            let word = target.view.word();
            let words = loaded::in_file(target.view, address, size / word);
            let places = addresses(address, word).zip(words);
            let words = places.filter_map(|(at, word)| changes.word(at, || Some(word)));
            return Ok(Self::Loaded(address, words.collect()));
        }
        let mut places = HashMap::new();
        for (index, list) in &part.lists {
            relocated(target, &target.relocations(*index, list)?, &mut places);
        }
        Ok(Self::Relocated(places))
    }

    /// Where the word leads that is `at` bytes from the start of the section, and its address in an image.
    fn lead(&self, target: &Target<'_, '_>, at: u64, version: u8) -> (u64, Option<(u32, u64)>) {
        match self {
            Self::Relocated(places) => (0, places.get(&at).copied()),
            Self::Loaded(start, words) => {
                let number = usize::try_from(at / target.view.word()).ok();
                let word = number.and_then(|number| words.get(number)).copied().unwrap_or(0);
                let address = if version < DISTANCES {
                    word
                } else if target.view.is_64() {
                    start.wrapping_add(at).wrapping_add(word)
                } else {
                    start.wrapping_add(at).wrapping_add(word) & u64::from(u32::MAX)
                };
                let section = target.view.section_at(address);
                (address, section.map(|(index, section)| (index, address - section.address)))
            }
        }
    }
}

/// Adds where each relocation of a section of the list leads. That of a distance from the word has the place of the word's
/// target as its symbol and addend, as that of an address has.
fn relocated(
    target: &Target<'_, '_>,
    relocations: &Relocations<'_>,
    places: &mut HashMap<u64, (u32, u64)>,
) {
    let Some(sleds) = target.arch.sleds else { return };
    for relocation in relocations.iter() {
        let kind = relocation.kind & target.arch.type_mask;
        let symbols = target.symbols.as_ref();
        let symbol = symbols.and_then(|symbols| symbols.get(relocation.symbol));
        if let (true, Some(symbol), Some(addend)) =
            (sleds.relocations.contains(&kind), symbol, relocation.addend)
            && let Some(found) = place(target, &symbol, addend)
        {
            places.insert(relocation.offset, found);
        }
    }
}
