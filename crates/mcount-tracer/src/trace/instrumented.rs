//! Functions that tell themselves when they're entered and left (`-finstrument-functions`): they pass their addresses to two functions, which the
//! C library has, and which do nothing. Where a function was inlined, its caller passes its address.
//!
//! Which these are is known by the addresses that the code of the file takes. That some other function may be among them does no harm: nothing
//! is told of it.

use super::function_names::Aliases;
use super::functions::{Function, Functions};
use super::imports;
use super::processor;
use object::read::elf::{ElfFile64, ElfSymbol64, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, elf};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Only the C library has this.
const OF_C_LIBRARY: &str = "gnu_get_libc_version";

/// What they call, at the entry and at the exit.
pub(super) const NAMES: [&str; 2] = ["__cyg_profile_func_enter", "__cyg_profile_func_exit"];

/// A function whose address may be told.
pub(super) struct Instrumented {
    pub(super) function: Function,
    pub(super) name: Arc<str>,
    /// All its names, if there are several.
    pub(super) aliases: Aliases,
}

/// The functions of `file` that may tell of their calls, in the order of addresses.
pub(super) fn functions(
    file: &ElfFile64<'_, Endianness>,
    functions: &Functions<'_, '_>,
) -> Vec<Instrumented> {
    let mut undefined = file.dynamic_symbols().filter(ObjectSymbol::is_undefined);
    if !undefined.any(|symbol| symbol.name().is_ok_and(|name| NAMES.contains(&name))) {
        return Vec::new();
    }
    let found = imports::taken(file).into_iter();
    let found: BTreeMap<u64, Function> =
        found.filter_map(|address| Some((address, functions.beginning_at(address)?))).collect();
    let names = names(file, &found);
    let with_name = |function: Function| {
        let name = names.get(&function.address).copied().unwrap_or_default();
        let aliases = functions.aliases(function.address);
        Instrumented { function, name: Arc::from(name), aliases }
    };
    found.into_values().map(with_name).collect()
}

/// The names of these functions by their addresses; if there are several, a global one.
fn names<'d>(
    file: &ElfFile64<'d, Endianness>,
    functions: &BTreeMap<u64, Function>,
) -> BTreeMap<u64, &'d str> {
    let mut names = BTreeMap::new();
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let address = symbol.address();
        let is_function = symbol.kind() == object::SymbolKind::Text && symbol.is_definition();
        if is_function
            && functions.contains_key(&address)
            && let Ok(name) = symbol.name()
            && (symbol.is_global() || !names.contains_key(&address))
        {
            names.insert(address, name);
        }
    }
    names
}

/// Which functions of a program or library tell of their calls themselves, and that to the C library: where each begins, as in the file. Others
/// may be among them whose address the code takes. Empty if it's no such file.
#[must_use]
pub fn instrumented(bytes: &[u8]) -> BTreeSet<u64> {
    let Ok(file) = ElfFile64::<Endianness>::parse(bytes) else { return BTreeSet::new() };
    if file.elf_header().e_machine.get(file.endian()).0 != processor::MACHINE {
        return BTreeSet::new();
    }
    functions(&file, &Functions::of(&file)).iter().map(|one| one.function.address).collect()
}

/// Why nothing is recorded of what the functions of a program tell: it has what they tell in itself.
pub(super) fn untold(file: &ElfFile64<'_, Endianness>) -> Option<&'static str> {
    const STATIC: &str = "its functions tell of their calls (-finstrument-functions), but to a C library that's a \
                          part of it, where mcount can't hear them: link it without -static";
    const OWN: &str =
        "it has its own __cyg_profile_func_enter, so mcount doesn't hear what its functions tell";
    // Most files don't name them, and have many symbols.
    memchr::memmem::find(file.data(), NAMES[0].as_bytes())?;
    let is_it = |symbol: ElfSymbol64<'_, '_, Endianness>| {
        symbol.is_definition() && symbol.name().is_ok_and(|name| name == NAMES[0])
    };
    let is_program = file.entry() != 0 && !defines(file, OF_C_LIBRARY);
    let endian = file.endian();
    let mut headers = file.elf_program_headers().iter();
    let is_static = headers.all(|one| one.p_type(endian) != elf::PT_INTERP);
    (is_program && file.symbols().any(is_it)).then_some(if is_static { STATIC } else { OWN })
}

/// Does a module have functions of its own to tell calls to? The C library's do nothing.
pub(super) fn owner(file: &ElfFile64<'_, Endianness>) -> bool {
    NAMES.iter().any(|name| defines(file, name)) && !defines(file, OF_C_LIBRARY)
}

/// Does a module have this function for others?
fn defines(file: &ElfFile64<'_, Endianness>, wanted: &str) -> bool {
    let mut defined = file.dynamic_symbols().filter(ObjectSymbol::is_definition);
    defined.any(|symbol| symbol.name().is_ok_and(|name| name == wanted))
}
