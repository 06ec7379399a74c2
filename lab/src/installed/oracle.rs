//! What other programs say of a `vmlinux` with debug information: nm of its names, bpftool of its BTF, and the `object`
//! crate of the words between the bounds of its table.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

use crate::{Result, files};

/// How far behind its name a function may have its entry, in bytes.
const FARTHEST: u64 = 32;
/// On arm64, `CALL_OPS` has two NOPs before each function, where its entry leads.
const NOPS_BEFORE: u64 = 8;

/// The names of code.
pub(super) struct Names {
    by_address: BTreeMap<u64, Vec<String>>,
    addresses: BTreeMap<String, Vec<u64>>,
    /// Those of functions. The others are labels, which kallsyms can't tell from functions.
    functions: BTreeSet<String>,
    /// The sizes of functions, by start.
    sizes: BTreeMap<u64, u64>,
    /// How many bytes before its function an entry may be.
    before: u64,
}

impl Names {
    /// What nm prints of `file`.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let mut names = Self::parse(&said("nm", &[file])?);
        let table = said("readelf", &["--wide".as_ref(), "--symbols".as_ref(), file])?;
        names.read_sizes(&table);
        let is_arm64 = object::File::parse(files::read(file)?.as_slice())?.architecture()
            == object::Architecture::Aarch64;
        names.before = if is_arm64 { NOPS_BEFORE } else { 0 };
        Ok(names)
    }

    /// Reads the functions in the symbol table that readelf prints.
    fn read_sizes(&mut self, table: &str) {
        let lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        for (name, start, size) in lines.filter_map(|words| function(&words)) {
            self.functions.insert(name);
            let longest = self.sizes.entry(start).or_insert(size);
            *longest = size.max(*longest);
        }
    }

    fn parse(text: &str) -> Self {
        let mut names = Self {
            by_address: BTreeMap::new(),
            addresses: BTreeMap::new(),
            functions: BTreeSet::new(),
            sizes: BTreeMap::new(),
            before: 0,
        };
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some(address), Some(kind), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let Ok(address) = u64::from_str_radix(address, 16) else { continue };
            if matches!(kind, "t" | "T" | "w" | "W") && !name.starts_with('$') {
                names.by_address.entry(address).or_default().push(name.to_owned());
                names.addresses.entry(name.to_owned()).or_default().push(address);
            }
        }
        names
    }

    /// The names of the function that has an entry at `address`: those of the nearest start before, if it is near, and if
    /// the function reaches that far. Before those, the function that is as many bytes behind the entry as NOPs may be
    /// before it; an entry inside of a function has its own NOPs there.
    pub(super) fn at(&self, address: u64) -> &[String] {
        let behind = address.checked_add(self.before).filter(|_| self.before != 0);
        if let Some(names) = behind.and_then(|start| self.by_address.get(&start)) {
            return names;
        }
        let nearest = self.by_address.range(address.saturating_sub(FARTHEST)..=address).next_back();
        let Some((start, names)) = nearest else { return &[] };
        let is_over =
            self.sizes.get(start).is_some_and(|size| *size != 0 && address - start >= *size);
        if is_over { &[] } else { names }
    }

    /// Whether the kernel frees what is at `address` after boot.
    pub(super) fn is_freed(&self, address: u64) -> bool {
        let at = |name: &str| self.addresses.get(name).and_then(|all| all.first()).copied();
        let range = at("_sinittext").zip(at("_einittext"));
        range.is_some_and(|(start, end)| (start..end).contains(&address))
    }

    /// Whether some address has both names.
    pub(super) fn are_of_one(&self, one: &str, other: &str) -> bool {
        let of = |name| self.addresses.get(name).map_or(&[][..], Vec::as_slice);
        of(one).iter().any(|address| of(other).contains(address))
    }

    /// The functions whose name one address has, and that has no other name.
    pub(super) fn unique(&self) -> impl Iterator<Item = &str> {
        let alone =
            |address: &u64| self.by_address.get(address).is_some_and(|names| names.len() == 1);
        let unique = self.addresses.iter().filter(
            move |(_, addresses)| matches!(addresses.as_slice(), [address] if alone(address)),
        );
        let unique = unique.map(|(name, _)| name.as_str());
        unique.filter(|name| self.functions.contains(*name))
    }
}

/// Name, start and size, if that is a function.
fn function(words: &[&str]) -> Option<(String, u64, u64)> {
    let [_, start, size, "FUNC", .., name] = words else { return None };
    let size = match size.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => size.parse().ok()?,
    };
    Some(((*name).to_owned(), u64::from_str_radix(start, 16).ok()?, size))
}

/// The names of functions in the BTF of `file`; none if it has no BTF.
pub(super) fn btf(file: &Path) -> Result<BTreeSet<String>> {
    let data = files::read(file)?;
    if object::File::parse(data.as_slice())?.section_by_name(".BTF").is_none() {
        return Ok(BTreeSet::new());
    }
    let text = said("bpftool", &["btf".as_ref(), "dump".as_ref(), "file".as_ref(), file])?;
    let names = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once("] FUNC '")?;
        Some(rest.split_once('\'')?.0.to_owned())
    });
    Ok(names.collect())
}

/// The addresses in the table of `file`, which the linker filled in, or left to relocations.
pub(super) fn table(file: &Path) -> Result<BTreeSet<u64>> {
    let data = files::read(file)?;
    let image = object::File::parse(data.as_slice())?;
    let bound = |name: &str| {
        let symbol = image.symbols().find(|symbol| symbol.name() == Ok(name));
        symbol.map(|symbol| symbol.address()).ok_or_else(|| format!("no symbol {name}"))
    };
    let (start, stop) = (bound("__start_mcount_loc")?, bound("__stop_mcount_loc")?);
    let width = if image.is_64() { 8 } else { 4 };
    let number = |bytes: &[u8]| {
        let add = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        if image.is_little_endian() {
            bytes.iter().rev().fold(0, add)
        } else {
            bytes.iter().fold(0, add)
        }
    };
    let size = stop.checked_sub(start).ok_or("the table ends before it starts")?;
    let bytes = image.sections().find_map(|section| section.data_range(start, size).ok().flatten());
    let mut words: BTreeMap<u64, u64> = (start..)
        .step_by(width)
        .zip(bytes.ok_or("the table is in no section")?.chunks_exact(width).map(number))
        .collect();
    // All of these have addends: r_offset, r_info, r_addend.
    for section in image
        .sections()
        .filter(|section| section.name().is_ok_and(|name| name.starts_with(".rela")))
    {
        for relocation in section.data()?.chunks_exact(3 * width) {
            let mut fields = relocation.chunks_exact(width).map(number);
            if let (Some(place), Some(_), Some(addend)) =
                (fields.next(), fields.next(), fields.next())
                && let Some(word) = words.get_mut(&place)
                && *word == 0
            {
                *word = addend;
            }
        }
    }
    Ok(words.into_values().collect())
}

fn said(program: &str, arguments: &[&Path]) -> Result<String> {
    let output = Command::new(program).args(arguments).output()?;
    if !output.status.success() {
        return Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_an_address() {
        let mut names = Names::parse(
            "0000000000000010 T one\n0000000000000010 t $x\n0000000000000010 t alias\n0000000000000040 W far\n\
             0000000000000050 D data\n                 U nothing\n",
        );
        assert_eq!(names.at(0x18), ["one", "alias"]);
        assert_eq!(names.at(0x3f), [] as [&str; 0]);
        assert!(names.are_of_one("one", "alias") && !names.are_of_one("one", "far"));
        let line = "    9: 0000000000000040     8 FUNC    WEAK   DEFAULT    1 far\n";
        names.read_sizes(&line.replace("FUNC", "NOTYPE"));
        assert_eq!(names.unique().count(), 0);
        names.read_sizes(line);
        assert_eq!(names.unique().collect::<Vec<_>>(), ["far"]);
        assert_eq!((names.at(0x47), names.at(0x48)), (&["far".to_owned()][..], &[][..]));
        assert_eq!(names.at(0x38), [] as [&str; 0]);
        names.before = 8;
        assert_eq!(
            (names.at(0x38), names.at(0x40)),
            (&["far".to_owned()][..], &["far".to_owned()][..])
        );
    }
}
