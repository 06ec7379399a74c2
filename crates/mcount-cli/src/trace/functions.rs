//! Where the functions of an executable or a shared library begin and end.
//!
//! The library's survey ([`mcount::functions`]) says much more of each function, and takes three times as long as
//! finding the hooks. A program waits for this before it runs.

use object::read::elf::{ElfFile64, Sym};
use object::{Endianness, elf};

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

/// All functions of a file, in order of address.
pub(super) struct Functions(Vec<Function>);

impl Functions {
    /// Those that symbols tell of; in a stripped file, dynamic ones.
    pub(super) fn of(file: &ElfFile64<'_, Endianness>) -> Self {
        let endian = file.endian();
        let all = file.elf_symbol_table();
        let symbols = if all.is_empty() { file.elf_dynamic_symbol_table() } else { all };
        let mut functions = Vec::with_capacity(symbols.len());
        for symbol in symbols.iter() {
            let is_function = matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC);
            if is_function && !symbol.is_undefined(endian) {
                let (address, size) = (symbol.st_value(endian), symbol.st_size(endian));
                functions.push(Function { address, size });
            }
        }
        functions.sort_unstable_by_key(|function| (function.address, u64::MAX - function.size));
        functions.dedup_by_key(|function| function.address);
        Self(functions)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The function that `address` is in.
    pub(super) fn at(&self, address: u64) -> Option<&Function> {
        let after = self.0.partition_point(|function| function.address <= address);
        let before = after.checked_sub(1).and_then(|index| self.0.get(index));
        before.filter(|function| function.covers(address))
    }
}
