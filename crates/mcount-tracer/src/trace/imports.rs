//! A module's calls of others, and the functions that it offers them: its relocations and its dynamic symbols.
//!
//! A call leaves a module by a word that the dynamic linker fills in. Those of `JUMP_SLOT` are for calls only: an
//! entry of the procedure linkage table (PLT) jumps by each. Those of `GLOB_DAT` hold an address that code may do
//! anything with: call it (`-fno-plt`), or compare it. So the code is looked through for what it does with them.
//!
//! Source: System V psABI for x86-64, 5.2 ("Dynamic Linking"); gABI, "Dynamic Section".

use super::gates;
use mcount_cpu::outside::{ImportedWords, Taken, Uses};
use mcount_hooks::code::is_left_out;
use object::read::elf::{Dyn, ElfFile64, ProgramHeader, Sym};
use object::{Endianness, Object, ObjectSection, SymbolIndex, elf};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Bytes of an entry of a table of relocations.
const RELOCATION: usize = 24;

/// A function that's called by a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Import {
    /// As the symbol table has it.
    pub(super) name: Arc<str>,
    /// Where the word is, before the load bias.
    pub(super) word: u64,
    /// Where the relocation is that says so, before the load bias.
    pub(super) relocation: u64,
    /// How many relocations are before that one in its table.
    pub(super) index: u32,
    pub(super) way: Way,
    /// Calls may also go by a register, which code has loaded from the word: it's compiled without a PLT, and some of it loads the word.
    pub(super) may_be_loaded: bool,
}

/// The use of a word in the module's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    /// It calls what the word leads to, and nothing else.
    Calls,
    /// It takes the address that is in it, too. These instructions call or jump by it; before the load bias.
    Sites(Vec<u64>),
    /// It takes the address, and nothing else.
    Address,
}

/// A symbol that others may mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Export {
    /// Before the load bias.
    pub(super) address: u64,
    pub(super) size: u64,
    /// It may be called.
    pub(super) is_function: bool,
}

/// The symbols of a file that others may mean. Of several versions it's the one that new programs get.
pub(super) fn exports(file: &ElfFile64<'_, Endianness>) -> HashMap<Arc<str>, Export> {
    const HIDDEN_VERSION: u16 = 1 << 15;
    let endian = file.endian();
    let symbols = file.elf_dynamic_symbol_table();
    let version = file.section_by_name(".gnu.version").and_then(|section| section.data().ok());
    let is_old = |at: usize| {
        let bytes = version.and_then(|bytes| bytes.get(2 * at..)).and_then(|all| all.first_chunk());
        bytes.is_some_and(|bytes| u16::from_le_bytes(*bytes) & HIDDEN_VERSION != 0)
    };
    let mut found = HashMap::with_capacity(symbols.len());
    let mut left = name_bytes(file);
    for (at, symbol) in symbols.iter().enumerate() {
        let is_local = symbol.st_bind() == elf::STB_LOCAL;
        let is_data = matches!(symbol.st_type(), elf::STT_OBJECT | elf::STT_TLS | elf::STT_COMMON);
        if symbol.is_undefined(endian) || is_local {
            continue;
        }
        let Ok(name) = symbol.name(endian, symbols.strings()) else { continue };
        let Some(rest) = left.checked_sub(name.len()) else { break };
        left = rest;
        let name = Arc::from(String::from_utf8_lossy(name));
        let (address, size) = (symbol.st_value(endian), symbol.st_size(endian));
        let export = Export { address, size, is_function: !is_data };
        if is_old(at) {
            found.entry(name).or_insert(export);
        } else {
            found.insert(name, export);
        }
    }
    found
}

/// How many bytes the names of a file may have together. Names can overlap, so they could be many times the file's.
fn name_bytes(file: &ElfFile64<'_, Endianness>) -> usize {
    file.data().len().saturating_mul(64).saturating_add(1 << 20)
}

/// A file's calls of other files, as far as they may be watched.
pub(super) fn imports(file: &ElfFile64<'_, Endianness>) -> Vec<Import> {
    imports_if(file, |name| !is_left_out(name))
}

/// A file's calls of these functions of other files.
pub(super) fn imports_of(file: &ElfFile64<'_, Endianness>, names: &[&str]) -> Vec<Import> {
    imports_if(file, |name| names.contains(&name))
}

fn imports_if(file: &ElfFile64<'_, Endianness>, is_wanted: impl Fn(&str) -> bool) -> Vec<Import> {
    let Some(here) = gates::here() else { return Vec::new() };
    let (jump_slot, glob_dat) = (here.jump_slot, here.glob_dat);
    let image = Image::of(file);
    let mut found = BTreeMap::new();
    let mut addresses = BTreeMap::new();
    let mut left = name_bytes(file);
    for (at, entry) in image.relocations() {
        if ![jump_slot, glob_dat].contains(&entry.kind) {
            continue;
        }
        let Some(name) = image.function(entry).filter(|name| is_wanted(name)) else { continue };
        let Some(rest) = left.checked_sub(name.len()) else { break };
        left = rest;
        let Entry { word, index, .. } = entry;
        let (way, may_be_loaded) = (Way::Calls, false);
        let import = Import { name, word, relocation: at, index, way, may_be_loaded };
        let words = if entry.kind == jump_slot { &mut found } else { &mut addresses };
        words.insert(entry.word, import);
    }
    addresses.retain(|word, _| !image.at(*word).is_empty());
    let uses = image.uses(&addresses, here.add_uses);
    let has_plt = !uses.values().any(|uses| uses.has_calls);
    for (word, import) in addresses {
        let Some(uses) = uses.get(&word) else { continue };
        let (way, may_be_loaded) = (way(uses), uses.others != 0 && !has_plt);
        if may_be_loaded || way != Way::Address {
            found.insert(word, Import { way, may_be_loaded, ..import });
        }
    }
    found.into_values().collect()
}

/// The addresses of its own code that a file's code takes, and perhaps more of them.
pub(super) fn taken(file: &ElfFile64<'_, Endianness>) -> BTreeSet<u64> {
    /// Linkers make no more; each is looked through for each address.
    const SEGMENTS: usize = 64;
    let (image, mut found) = (Image::of(file), BTreeSet::new());
    let Some(here) = gates::here().filter(|_| image.segments.len() <= SEGMENTS) else {
        return found;
    };
    let words = image.words();
    let is_code = |address: u64| {
        let segments = image.segments.iter().filter(|(.., is_code)| *is_code);
        let lies = |(start, bytes, _): &(u64, &[u8], bool)| {
            address.checked_sub(*start).is_some_and(|offset| offset < bytes.len() as u64)
        };
        segments.into_iter().any(lies)
    };
    for (start, bytes) in image.code() {
        (here.taken)(start, bytes, &mut |one| {
            let address = match one {
                Taken::Here(address) => address,
                // Without a relocation, it has what the linker has put there.
                Taken::In(word) => {
                    words.get(&word).copied().unwrap_or_else(|| word_at(image.at(word), 0))
                }
            };
            if is_code(address) {
                found.insert(address);
            }
        });
    }
    found
}

/// A relocation.
#[derive(Debug, Clone, Copy)]
struct Entry {
    word: u64,
    kind: u32,
    symbol: usize,
    index: u32,
    addend: u64,
}

/// How the code uses the word.
fn way(uses: &Uses) -> Way {
    match (uses.others, uses.sites.as_slice()) {
        (_, []) => Way::Address,
        (0, _) => Way::Calls,
        (_, sites) => Way::Sites(sites.to_vec()),
    }
}

/// A file as it's loaded.
struct Image<'f, 'd> {
    file: &'f ElfFile64<'d, Endianness>,
    /// Address and bytes of each segment, and whether it's executed.
    segments: Vec<(u64, &'d [u8], bool)>,
}

impl<'f, 'd> Image<'f, 'd> {
    fn of(file: &'f ElfFile64<'d, Endianness>) -> Self {
        let endian = file.endian();
        let loaded =
            |header: &&elf::ProgramHeader64<Endianness>| header.p_type(endian) == elf::PT_LOAD;
        let segments = file.elf_program_headers().iter().filter(loaded).filter_map(|header| {
            let bytes = header.data(endian, file.data()).ok()?;
            let is_code = header.p_flags(endian).0 & elf::PF_X.0 != 0;
            Some((header.p_vaddr(endian), bytes, is_code))
        });
        Self { file, segments: segments.collect() }
    }

    /// The bytes from an address on.
    fn at(&self, address: u64) -> &'d [u8] {
        let from = |(start, bytes, _): &(u64, &'d [u8], bool)| {
            bytes.get(usize::try_from(address.checked_sub(*start)?).ok()?..)
        };
        self.segments.iter().find_map(from).unwrap_or_default()
    }

    /// All relocations, by where they are.
    fn relocations(&self) -> Vec<(u64, Entry)> {
        let mut found = Vec::new();
        for (table, size) in self.tables() {
            let bytes = self.at(table);
            let size = usize::try_from(size).unwrap_or(usize::MAX).min(bytes.len());
            let entries = bytes.get(..size).unwrap_or_default().chunks_exact(RELOCATION);
            for (index, entry) in (0..).zip(entries) {
                let at = table.wrapping_add(u64::from(index) * RELOCATION as u64);
                let [word, info, addend] = [0, 8, 16].map(|from| word_at(entry, from));
                let kind = low(info);
                let symbol = usize::try_from(info >> 32).unwrap_or(0);
                found.push((at, Entry { word, kind, symbol, index, addend }));
            }
        }
        found
    }

    /// The tables of relocations: address and bytes.
    fn tables(&self) -> [(u64, u64); 2] {
        let endian = self.file.endian();
        let headers = self.file.elf_program_headers();
        let dynamic = headers
            .iter()
            .find_map(|header| header.dynamic(endian, self.file.data()).ok().flatten());
        let value = |tag: elf::DynamicTag| {
            let mut all = dynamic.unwrap_or_default().iter();
            let found = all.find(|one| one.tag(endian) == tag);
            found.map_or(0, |one| one.val(endian))
        };
        [
            (value(elf::DT_RELA), value(elf::DT_RELASZ)),
            (value(elf::DT_JMPREL), value(elf::DT_PLTRELSZ)),
        ]
    }

    /// The name of the symbol that a relocation is against, unless that's data.
    fn function(&self, entry: Entry) -> Option<Arc<str>> {
        let endian = self.file.endian();
        let symbols = self.file.elf_dynamic_symbol_table();
        let symbol = symbols.symbol(SymbolIndex(entry.symbol)).ok()?;
        if matches!(symbol.st_type(), elf::STT_OBJECT | elf::STT_TLS | elf::STT_COMMON) {
            return None;
        }
        let name = String::from_utf8_lossy(symbol.name(endian, symbols.strings()).ok()?);
        (!name.is_empty()).then(|| name.into())
    }

    /// The words that have addresses of the file's own code once it's loaded, and these.
    fn words(&self) -> HashMap<u64, u64> {
        let endian = self.file.endian();
        let symbols = self.file.elf_dynamic_symbol_table();
        let value = |entry: &Entry| match entry.symbol {
            0 => Some(entry.addend),
            at => {
                let symbol = symbols.symbol(SymbolIndex(at)).ok()?;
                let address = symbol.st_value(endian).wrapping_add(entry.addend);
                (!symbol.is_undefined(endian)).then_some(address)
            }
        };
        let all = self.relocations().into_iter();
        all.filter_map(|(_, entry)| Some((entry.word, value(&entry)?))).collect()
    }

    /// Its code, and where that is. Segments can overlap; together they have no more bytes than the file.
    fn code(&self) -> impl Iterator<Item = (u64, &'d [u8])> {
        let mut left = self.file.data().len();
        let segments = self.segments.iter().filter(|(.., is_code)| *is_code);
        segments.map(move |(start, bytes, _)| {
            let bytes = bytes.get(..left.min(bytes.len())).unwrap_or_default();
            left -= bytes.len();
            (*start, bytes)
        })
    }

    /// What code does with these words.
    fn uses<T>(&self, words: &BTreeMap<u64, T>, add: AddUses) -> BTreeMap<u64, Uses> {
        let mut uses = BTreeMap::new();
        let (Some((first, _)), Some((last, _))) = (words.first_key_value(), words.last_key_value())
        else {
            return uses;
        };
        let is_one = |word| words.contains_key(&word);
        let words = ImportedWords { first: *first, last: *last, is_one: &is_one };
        for (start, bytes) in self.code() {
            add(start, bytes, words, &mut uses);
        }
        uses
    }
}

/// What a processor's code does with words.
type AddUses = fn(u64, &[u8], ImportedWords<'_>, &mut BTreeMap<u64, Uses>);

fn word_at(bytes: &[u8], offset: usize) -> u64 {
    let bytes = bytes.get(offset..).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn low(word: u64) -> u32 {
    u32::try_from(word & 0xffff_ffff).unwrap_or(0)
}
