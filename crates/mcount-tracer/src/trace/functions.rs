//! Where the functions of an executable or a shared library begin and end.
//!
//! The library's survey ([`mcount::functions`]) says much more of each function, and takes three times as long as
//! finding the hooks. A program waits for this before it runs.

use super::function_names::{Aliases, aliases};
use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection};
use object::read::elf::{ElfFile64, Sym};
use object::{Endianness, Object, ObjectSection, elf};
use std::cell::OnceCell;
use std::collections::HashMap;

/// The code of one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Function {
    /// Where it begins, before the load bias.
    pub(super) address: u64,
    /// Bytes; the most that one of its symbols has.
    pub(super) size: u64,
}

impl Function {
    /// Is `address`, which is not before it, in this function?
    fn covers(&self, address: u64) -> bool {
        address == self.address || address - self.address < self.size
    }
}

/// All functions of a file.
pub(super) struct Functions<'f, 'd> {
    file: &'f ElfFile64<'d, Endianness>,
    /// Those that have a symbol, in order of address.
    named: Vec<Function>,
    /// The names of those that have several, by their addresses.
    aliases: HashMap<u64, Aliases>,
    /// Those that have unwind information, if they were asked for.
    unwound: OnceCell<Vec<Function>>,
}

impl<'f, 'd> Functions<'f, 'd> {
    /// Those that symbols tell of; in a stripped file, dynamic ones.
    pub(super) fn of(file: &'f ElfFile64<'d, Endianness>) -> Self {
        let endian = file.endian();
        let all = file.elf_symbol_table();
        let symbols = if all.is_empty() { file.elf_dynamic_symbol_table() } else { all };
        let mut functions = Vec::with_capacity(symbols.len());
        for symbol in symbols.iter() {
            let is_function = matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC);
            if is_function && !symbol.is_undefined(endian) {
                let (address, size) = (symbol.st_value(endian), symbol.st_size(endian));
                functions.push((Function { address, size }, symbol.st_name(endian)));
            }
        }
        functions.sort_unstable_by_key(|(function, _)| function.address);
        let text = |offset: u32| std::str::from_utf8(symbols.strings().get(offset).ok()?).ok();
        let same = functions.chunk_by(|(one, _), (other, _)| one.address == other.address);
        let several = same.filter(|one| one.len() > 1).filter_map(|one| {
            let mut names: Vec<&str> = one.iter().filter_map(|(_, name)| text(*name)).collect();
            names.sort_unstable();
            names.dedup();
            Some((one.first()?.0.address, aliases(&names)))
        });
        let aliases = several.filter(|(_, names)| !names.is_empty()).collect();
        let named = in_order(functions.into_iter().map(|(function, _)| function).collect());
        Self { file, named, aliases, unwound: OnceCell::new() }
    }

    /// The names of the function that begins at `address`, if it has several.
    pub(super) fn aliases(&self, address: u64) -> Aliases {
        self.aliases.get(&address).cloned().unwrap_or_default()
    }

    /// How many have a symbol.
    pub(super) fn len(&self) -> usize {
        self.named.len()
    }

    /// The function that `address` is in, if it has a symbol.
    pub(super) fn at(&self, address: u64) -> Option<Function> {
        find(&self.named, address)
    }

    /// The function that `address` is in, as unwind information has it: what a stripped file still tells.
    pub(super) fn without_symbol(&self, address: u64) -> Option<Function> {
        find(self.unwound(), address)
    }

    /// The first one that begins behind `address`, as unwind information has it.
    pub(super) fn next_without_symbol(&self, address: u64) -> Option<Function> {
        let functions = self.unwound();
        let after = functions.partition_point(|function| function.address <= address);
        functions.get(after).copied()
    }

    /// The one that begins at `address`.
    pub(super) fn beginning_at(&self, address: u64) -> Option<Function> {
        let found = self.at(address).or_else(|| self.without_symbol(address));
        found.filter(|function| function.address == address)
    }

    fn unwound(&self) -> &[Function] {
        self.unwound.get_or_init(|| in_order(unwound(self.file)))
    }
}

fn in_order(mut functions: Vec<Function>) -> Vec<Function> {
    functions.sort_unstable_by_key(|function| (function.address, u64::MAX - function.size));
    functions.dedup_by_key(|function| function.address);
    functions
}

fn find(functions: &[Function], address: u64) -> Option<Function> {
    let after = functions.partition_point(|function| function.address <= address);
    let before = after.checked_sub(1).and_then(|index| functions.get(index));
    before.copied().filter(|function| function.covers(address))
}

/// The functions of `.eh_frame`: each has an entry of its own there (x86-64 psABI, 3.7).
fn unwound(file: &ElfFile64<'_, Endianness>) -> Vec<Function> {
    let mut functions = Vec::new();
    let Some(section) = file.section_by_name(".eh_frame") else { return functions };
    let Ok(bytes) = section.data() else { return functions };
    let mut frames = EhFrame::new(bytes, LittleEndian);
    frames.set_address_size(8);
    let bases = BaseAddresses::default().set_eh_frame(section.address());
    let mut entries = frames.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        if let CieOrFde::Fde(partial) = entry
            && let Ok(entry) = partial.parse(EhFrame::cie_from_offset)
        {
            functions.push(Function { address: entry.initial_address(), size: entry.len() });
        }
    }
    functions
}
