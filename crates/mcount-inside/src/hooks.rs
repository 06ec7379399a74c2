//! The hooks of an executable or a shared library, as its file has them: the library `mcount` says where they are,
//! and the bytes there say how each is armed.

use crate::arch::code::{Area, Position, Unusable, position};
use crate::arch::{self, frame};
use crate::error::{Error, ErrorKind, Result};
use crate::unwinders;
use mcount::{Base, CallSite, Function, Kind, Options, Policy};
use mcount_hooks::code::{self, Code};
#[cfg(target_pointer_width = "32")]
use object::read::elf::ElfFile32 as ElfFile;
#[cfg(target_pointer_width = "64")]
use object::read::elf::ElfFile64 as ElfFile;
use object::{Endianness, Object};
use std::collections::BTreeMap;
use std::fmt::Display;

/// Do linkers make NOPs of instructions at entries? They do of those that add 0 to `r2`. Then only those NOPs are hooks that
/// a compiler lists.
const HAS_OTHER_NOPS: bool = cfg!(target_arch = "powerpc64");

/// Bytes that a prologue may have.
const PROLOGUE: usize = 1024;
/// Bytes of the longest area: four of which three were too few, and the longest NOP.
pub(crate) const AREA: usize = 24;

/// The hooks of one file. Addresses are as it's linked.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    /// In the order of their addresses.
    pub(crate) all: Vec<Hook>,
    /// Functions whose area of NOPs is none for a jump: [`code::TOO_SMALL`](crate::arch::code::TOO_SMALL).
    pub(crate) too_small: usize,
    /// Functions whose hook is neither at the entry nor after a prologue that sets up a frame, as gcc's nested
    /// functions have it with `-mfentry`; and those of which no symbol says where they begin.
    pub(crate) odd: usize,
    /// Its build ID.
    pub(crate) build_id: Vec<u8>,
    /// The functions of an unwinder, if it has all of them, in the order of `unwinders::NAMES`.
    pub(crate) unwinder: Option<unwinders::Functions>,
}

/// One function that can be armed.
#[derive(Debug, Clone)]
pub(crate) struct Hook {
    /// Where the function is.
    pub(crate) function: u64,
    /// Its bytes; 0 if no symbol says it.
    pub(crate) size: u64,
    /// Its names as the symbol table has them, the best first; none if no symbol says it.
    pub(crate) names: Vec<String>,
    /// Where its area begins.
    pub(crate) site: u64,
    /// Where the hook is, which is what's executed of it first.
    pub(crate) entry: u64,
    /// The code that is there.
    pub(crate) area: Area,
    /// The bytes of the area in the file.
    pub(crate) bytes: [u8; AREA],
    /// The function has begun when the hook is reached: its frame is set up.
    pub(crate) is_after_prologue: bool,
    /// The processor's own data about that frame.
    pub(crate) frame: u64,
}

/// Reads an ELF file.
pub(crate) fn read(bytes: &[u8]) -> Result<Hooks> {
    let file = ElfFile::<Endianness>::parse(bytes).map_err(malformed)?;
    let options = Options::default().policy(Policy::of(Base::All)).nops(true);
    let survey = mcount::functions(bytes, &options).map_err(malformed)?;
    let code = Code::of(&file, PROLOGUE);
    let all = survey.functions.iter();
    let functions: BTreeMap<u64, &Function> =
        all.filter_map(|function| Some((function.address?, function))).collect();
    let mut found = Hooks::default();
    let sites = survey.functions.iter().flat_map(|function| &function.sites);
    for site in sites.chain(&survey.strays) {
        found.add(&code, site, &functions);
    }
    found.all.sort_by_key(|hook| hook.site);
    found.all.dedup_by_key(|hook| hook.site);
    found.unwinder = unwinder(&file);
    found.build_id = file.build_id().ok().flatten().unwrap_or_default().to_vec();
    Ok(found)
}

fn malformed(error: impl Display) -> Error {
    Error::new(ErrorKind::File, error.to_string())
}

impl Hooks {
    fn add(&mut self, code: &Code<'_>, site: &CallSite, functions: &BTreeMap<u64, &Function>) {
        let Some(recorded) = site.address else { return };
        let entry = code::entry_of(site, recorded);
        let preceding = functions.range(..=entry).next_back().map(|(_, function)| *function);
        let function = preceding.filter(|function| covers(function, entry));
        let start = function.and_then(|function| function.address);
        // What's before the entry, or before a call: that may have begun with another instruction.
        let ahead = start.filter(|_| site.kind == Some(Kind::Call)).unwrap_or(recorded);
        let area = match arch::area(code.between(ahead, entry), code.at(entry)) {
            Ok(area) => area,
            Err(Unusable::TooSmall(_)) => return self.too_small += 1,
            Err(Unusable::NotAHook) => return,
        };
        if !is_hook(&area, site) {
            return;
        }
        let address = start.unwrap_or(entry);
        let place = match (start, site.kind) {
            // The area may begin before the function, and nobody knows how far.
            (None, _) => None,
            // The compiler lists entries only.
            (Some(_), Some(Kind::Patchable)) => Some(Position::Entry),
            (Some(start), _) => position(code.at(start), entry.wrapping_sub(start)),
        };
        let Some(place) = place else { return self.odd += 1 };
        let names: Option<Vec<String>> =
            function.map(|one| one.names().map(str::to_owned).collect());
        // Markers go to the trace by another way, and a stub is ready for one return.
        if names.iter().flatten().any(|name| code::is_mark(name) || code::returns_twice(name)) {
            return;
        }
        let mut copy = [0; AREA];
        let hook = entry + area.start as u64;
        let start = hook - arch::before(&area);
        let there = code.at(start).get(..area.length).unwrap_or_default();
        for (room, byte) in copy.iter_mut().zip(there) {
            *room = *byte;
        }
        self.all.push(Hook {
            function: address,
            size: function.map_or(0, |function| function.size),
            names: names.unwrap_or_default(),
            site: start,
            entry: hook,
            area,
            bytes: copy,
            is_after_prologue: place != Position::Entry,
            frame: if place == Position::Entry {
                arch::popped(
                    function.map_or(&[], |function| code.of_function(address, function.size)),
                )
            } else {
                frame(code.at(address), entry - address)
            },
        });
    }
}

/// Only what the library says is a call of a hook is one.
fn is_hook(area: &Area, site: &CallSite) -> bool {
    if area.is_call { site.kind == Some(Kind::Call) } else { site.recorded || !HAS_OTHER_NOPS }
}

fn covers(function: &Function, entry: u64) -> bool {
    let start = function.address.unwrap_or(0);
    entry == start || entry - start < function.size
}

fn unwinder(file: &ElfFile<'_, Endianness>) -> Option<unwinders::Functions> {
    let found = code::definitions(file, unwinders::NAMES);
    let (_, needed) = found.split_last()?;
    (!needed.contains(&0)).then_some(found)
}
