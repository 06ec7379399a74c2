//! The tables of a build's objects: ours against those that the original recorder gave copies of the
//! same objects.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

use super::objects::copies;
use crate::modules::{explained, table_of};
use crate::{Result, files};

/// What comparing came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tables {
    objects: usize,
    entries: usize,
    theirs: usize,
    /// What only one of two tables has, and why.
    differences: Vec<String>,
    /// Objects whose tables differ.
    differing: usize,
    /// Differences without a known cause.
    pub(super) unexplained: usize,
}

impl Tables {
    pub(super) fn print(&self) {
        println!(
            "{} objects with {} entries, {} by the original; {} with another table than the original's",
            self.objects, self.entries, self.theirs, self.differing
        );
        for difference in &self.differences {
            println!("  {difference}");
        }
    }

    /// The entries that our kernel must have if the original's has so many.
    pub(super) fn ours_for(&self, theirs: usize) -> Option<usize> {
        let count = |number: usize| isize::try_from(number).ok();
        theirs.checked_add_signed(count(self.entries)? - count(self.theirs)?)
    }

    /// Columns of docs/kernels-evidence.md.
    pub(super) fn columns(&self) -> String {
        format!("{} | {} | {}", self.objects, self.entries, self.differing)
    }

    fn add(
        &mut self,
        name: &str,
        object: &[u8],
        ours: &BTreeSet<Place>,
        theirs: &BTreeSet<Place>,
    ) -> Result<()> {
        self.objects += usize::from(!ours.is_empty() || !theirs.is_empty());
        self.entries += ours.len();
        self.theirs += theirs.len();
        if ours == theirs {
            return Ok(());
        }
        self.differing += 1;
        for (text, is_known) in explained(object, theirs, ours)? {
            self.unexplained += usize::from(!is_known);
            self.differences.push(format!("{name}: {text}"));
        }
        Ok(())
    }
}

/// Section and offset.
type Place = (usize, u64);

/// Compares each object below `build` with the copy that the original recorded.
pub(super) fn tables(build: &Path) -> Result<Tables> {
    let mut tables = Tables::default();
    for copy in copies(build)? {
        let object = copy.with_extension("");
        let bytes = files::read(&object)?;
        let ours = table_of(&bytes)?;
        let copy = files::read(&copy)?;
        let theirs = renumbered(&table_of(&copy)?, &copy, &bytes)?;
        let name = object.strip_prefix(build).unwrap_or(&object).display().to_string();
        tables.add(&name, &bytes, &ours, &theirs)?;
    }
    Ok(tables)
}

/// Places of the object `from` as those of `to`, which has the same sections. The numbers of these change when `objcopy` takes
/// out what the compiler recorded.
fn renumbered(places: &BTreeSet<Place>, from: &[u8], to: &[u8]) -> Result<BTreeSet<Place>> {
    let (from, to) = (sections(from)?, sections(to)?);
    let place = |&(section, offset): &Place| {
        let name = from.iter().find(|(_, number)| **number == section).map(|(name, _)| name);
        let number = name.and_then(|name| to.get(name)).copied();
        Ok((number.ok_or_else(|| format!("section {section} isn't in the other object"))?, offset))
    };
    places.iter().map(place).collect()
}

/// The number of each section, by its name and how many of that name come before.
fn sections(object: &[u8]) -> Result<BTreeMap<(String, usize), usize>> {
    let object = object::File::parse(object)?;
    let mut seen = BTreeMap::<String, usize>::new();
    let mut sections = BTreeMap::new();
    for section in object.sections() {
        let name = section.name()?.to_owned();
        let before = seen.entry(name.clone()).or_default();
        sections.insert((name, *before), section.index().0);
        *before += 1;
    }
    Ok(sections)
}

/// The words of the table in an image whose linker fills them in, ascending.
pub(super) fn image_table(path: &Path) -> Result<Vec<u64>> {
    let data = files::read(path)?;
    let image = object::File::parse(data.as_slice())?;
    let bound = |name: &str| {
        let symbol = image.symbols().find(|symbol| symbol.name() == Ok(name));
        symbol.map(|symbol| symbol.address()).ok_or_else(|| format!("no symbol {name}"))
    };
    let (start, stop) = (bound("__start_mcount_loc")?, bound("__stop_mcount_loc")?);
    let size = stop.checked_sub(start).ok_or("the table ends before it starts")?;
    let mut sections = image.sections();
    let bytes = sections.find_map(|section| section.data_range(start, size).ok().flatten());
    let bytes = bytes.ok_or("the table is in no section")?;
    let width = if image.is_64() { 8 } else { 4 };
    let mut words: Vec<u64> =
        bytes.chunks_exact(width).map(|word| number(word, image.is_little_endian())).collect();
    if words.iter().all(|word| *word == 0) {
        return Err("the linker left the table to relocations".into());
    }
    words.sort_unstable();
    Ok(words)
}

/// How many entries of the original's table are zero in ours; none if they differ in another way.
pub(super) fn dropped(ours: &[u64], theirs: &[u64]) -> Option<usize> {
    let filled: BTreeSet<_> = ours.iter().filter(|word| **word != 0).collect();
    let is_part = ours.len() == theirs.len() && filled.is_subset(&theirs.iter().collect());
    let zeroes = |table: &[u64]| table.iter().filter(|word| **word == 0).count();
    is_part.then(|| zeroes(ours).checked_sub(zeroes(theirs)))?
}

fn number(word: &[u8], is_little_endian: bool) -> u64 {
    let add = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    if is_little_endian { word.iter().rev().fold(0, add) } else { word.iter().fold(0, add) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_both_byte_orders() {
        assert_eq!(number(&[1, 2, 3, 4], true), 0x0403_0201);
        assert_eq!(number(&[1, 2, 3, 4], false), 0x0102_0304);
    }

    #[test]
    fn dropped_entries_are_zeroes_and_nothing_else() {
        assert_eq!(dropped(&[1, 2, 3], &[1, 2, 3]), Some(0));
        assert_eq!(dropped(&[0, 0, 3], &[1, 2, 3]), Some(2));
        for (ours, theirs) in [([0, 2, 4], [1, 2, 3]), ([1, 2, 3], [0, 1, 2]), ([0, 0, 0], [0; 3])]
        {
            assert_ne!(dropped(&ours, &theirs), Some(1), "{ours:?}");
        }
        assert_eq!(dropped(&[2, 3], &[1, 2, 3]), None);
    }

    #[test]
    fn sections_are_found_by_their_names() {
        let read = |name: &str| files::read(&files::workspace().join("tests/prebuilt").join(name));
        let (from, to) = (read("x86_64-fentry.o").unwrap(), read("x86_64-clang-fentry.o").unwrap());
        let number = |object: &[u8], name: &str| sections(object).unwrap()[&(name.to_owned(), 0)];
        let names = [".text", ".exit.text"];
        let places = |object: &[u8]| names.map(|name| (number(object, name), 7)).into();
        assert_ne!(places(&from), places(&to), "sections of other numbers");
        assert_eq!(renumbered(&places(&from), &from, &to).unwrap(), places(&to));
        assert!(renumbered(&BTreeSet::from([(999, 0)]), &from, &to).is_err());
    }

    #[test]
    fn a_difference_is_named() {
        let object =
            files::read(&files::workspace().join("tests/prebuilt/x86_64-fentry.o")).unwrap();
        let (one, two) = (BTreeSet::from([(1, 0), (1, 16)]), BTreeSet::from([(1, 0)]));
        let mut tables = Tables::default();
        tables.add("a.o", &object, &one, &one).unwrap();
        tables.add("empty.o", &object, &BTreeSet::new(), &BTreeSet::new()).unwrap();
        assert_eq!((tables.objects, tables.entries, tables.differing), (1, 2, 0));
        tables.add("b.o", &object, &one, &two).unwrap();
        assert!(tables.differences[0].starts_with("b.o: only ours: unexplained"), "{tables:?}");
        assert_eq!((tables.columns().as_str(), tables.unexplained), ("2 | 4 | 1", 1));
        assert_eq!(tables.ours_for(10), Some(11));
    }
}
