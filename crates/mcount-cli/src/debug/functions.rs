//! What debug information says of functions: where they are defined, what compiled them with which
//! flags, and where they were inlined, which no symbol tells.
//!
//! DWARF 5, 3.3: a function is a `DW_TAG_subprogram`; an inlined one has an abstract instance, and its
//! copies refer to that by `DW_AT_abstract_origin`. Units are looked at in parallel, and most of them
//! only once: what refers to a function is in the unit of its abstract instance, unless the linker
//! optimized.

use super::lines::relative;
use super::{Sections, Slice};
use gimli::{
    AttributeValue, DebugInfoOffset, DebuggingInformationEntry, Dwarf, Unit, UnitHeader,
    UnitOffset, UnitSectionOffset,
};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What debug information says of the functions of one name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Where it is defined, in the source, and what compiled it.
    pub definitions: BTreeSet<Definition>,
    /// Where it was inlined.
    pub inlined: BTreeSet<Inlined>,
    /// It is declared somewhere.
    pub is_declared: bool,
}

/// A definition of a function.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Definition {
    /// Where its code begins, if it has code of its own: as [`Sections::address`] has it.
    pub address: Option<u64>,
    /// The source file, and the line; 0 if it is not known.
    pub place: (String, u32),
    /// The source file that was compiled.
    pub unit: String,
    /// Whether that was compiled so that functions get hooks.
    pub hooks: Hooks,
}

/// Whether a compiler was told to leave hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hooks {
    /// `-pg` or `-fpatchable-function-entry` is among the flags.
    Wanted,
    /// The flags are known, and neither is among them.
    NotWanted,
    /// An assembler leaves none.
    Assembly,
    /// The flags are not known.
    Unknown,
}

/// A place where a function was inlined.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Inlined {
    /// The source file of the call, and the line; 0 if it is not known.
    pub place: (String, u32),
    /// The function that has the code now.
    pub into: String,
    /// The function that has the call in the source, if that was inlined too.
    pub by: Option<String>,
}

impl Hooks {
    /// What `DW_AT_producer` says. GCC writes its flags there, `-pg` as `-p`; clang only with
    /// `-grecord-command-line`.
    #[must_use]
    pub fn of(producer: &str) -> Self {
        if producer.starts_with("GNU AS") {
            return Self::Assembly;
        }
        let mut flags = producer.split_whitespace().filter(|word| word.starts_with('-')).peekable();
        if flags.peek().is_none() {
            return Self::Unknown;
        }
        let is_wanted = flags.any(|flag| flag == "-p" || flag == "-pg" || is_patchable(flag));
        if is_wanted { Self::Wanted } else { Self::NotWanted }
    }
}

/// `-fpatchable-function-entry=N[,M]` with an area that is not empty.
fn is_patchable(flag: &str) -> bool {
    let size = flag.strip_prefix("-fpatchable-function-entry=");
    size.is_some_and(|size| size.split(',').next() != Some("0"))
}

type Entry<'s> = DebuggingInformationEntry<Slice<'s>>;

/// A unit, and what was found in it at the first look.
struct Found<'s> {
    unit: Unit<Slice<'s>>,
    /// The functions of the names that are wanted: where, and the name.
    wanted: Vec<(DebugInfoOffset, String)>,
    /// It refers to functions of other units.
    refers_out: bool,
}

/// What `sections` say of the functions whose name `is_wanted`, by name.
#[must_use]
pub fn facts(
    sections: &Sections<'_>,
    is_wanted: impl Fn(&str) -> bool + Sync,
) -> BTreeMap<String, Facts> {
    let dwarf = sections.dwarf();
    let headers = headers(&dwarf);
    // A malformed unit says nothing; the others do.
    let units: Vec<Found<'_>> =
        headers.par_iter().filter_map(|header| look(&dwarf, *header, &is_wanted).ok()).collect();
    let wanted = units.iter().flat_map(|found| found.wanted.iter().cloned());
    let wanted: HashMap<usize, String> = wanted.map(|(at, name)| (at.0, name)).collect();
    let mut facts: BTreeMap<String, Facts> = BTreeMap::new();
    let worth = |found: &&Found<'_>| !found.wanted.is_empty() || found.refers_out;
    let of_unit = |found: &Found<'_>| Reading::new(&dwarf, &found.unit, &wanted).facts();
    let partial: Vec<_> = if wanted.is_empty() {
        Vec::new()
    } else {
        units.par_iter().filter(worth).filter_map(|found| of_unit(found).ok()).collect()
    };
    for (name, more) in partial.into_iter().flatten() {
        let all = facts.entry(name).or_default();
        all.definitions.extend(more.definitions);
        all.inlined.extend(more.inlined);
        all.is_declared |= more.is_declared;
    }
    facts
}

fn headers<'s>(dwarf: &Dwarf<Slice<'s>>) -> Vec<UnitHeader<Slice<'s>>> {
    let mut headers = Vec::new();
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        headers.push(header);
    }
    headers
}

/// Looks for the functions that are wanted in one unit.
fn look<'s>(
    dwarf: &Dwarf<Slice<'s>>,
    header: UnitHeader<Slice<'s>>,
    is_wanted: impl Fn(&str) -> bool,
) -> gimli::Result<Found<'s>> {
    let unit = dwarf.unit(header)?;
    let mut found = Found { wanted: Vec::new(), refers_out: false, unit };
    let unit = &found.unit;
    let mut entries = unit.entries_raw(None)?;
    let (mut wanted, mut refers_out) = (Vec::new(), false);
    while !entries.is_empty() {
        let offset = entries.next_offset();
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        let is_function = abbreviation.tag() == gimli::DW_TAG_subprogram;
        if !is_function && abbreviation.tag() != gimli::DW_TAG_inlined_subroutine {
            entries.skip_attributes(abbreviation.attributes())?;
            continue;
        }
        for spec in abbreviation.attributes() {
            let attribute = entries.read_attribute(*spec)?;
            match attribute.name() {
                gimli::DW_AT_name | gimli::DW_AT_linkage_name if is_function => {
                    let name = dwarf.attr_string(unit, attribute.value())?;
                    let name = name.to_string_lossy();
                    if is_wanted(&name)
                        && let Some(at) = offset.to_debug_info_offset(&unit.header)
                    {
                        wanted.push((at, name.into_owned()));
                    }
                }
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                    refers_out |= matches!(attribute.value(), AttributeValue::DebugInfoRef(_));
                }
                _ => {}
            }
        }
    }
    found.wanted = wanted;
    found.refers_out = refers_out;
    Ok(found)
}

/// Reads all that one unit says of some functions.
struct Reading<'r, 's> {
    dwarf: &'r Dwarf<Slice<'s>>,
    unit: &'r Unit<Slice<'s>>,
    /// Names of the functions that are wanted, by where they are in `.debug_info`.
    wanted: &'r HashMap<usize, String>,
    /// The same of what refers to one of them, in this unit.
    instances: HashMap<usize, String>,
    folder: Vec<String>,
    name: String,
    hooks: Hooks,
}

/// Function in function in function: what encloses an entry.
struct Frame {
    depth: isize,
    name: Option<String>,
    is_inlined: bool,
}

impl<'r, 's> Reading<'r, 's> {
    fn new(
        dwarf: &'r Dwarf<Slice<'s>>,
        unit: &'r Unit<Slice<'s>>,
        wanted: &'r HashMap<usize, String>,
    ) -> Self {
        let text = |slice: &Slice<'s>| slice.to_string_lossy().into_owned();
        let folder: Vec<String> = unit.comp_dir.iter().map(text).collect();
        let name = unit.name.as_ref().map(text).unwrap_or_default();
        let name = relative(&name, &folder);
        let instances = HashMap::new();
        Self { dwarf, unit, wanted, instances, folder, name, hooks: Hooks::Unknown }
    }

    fn facts(mut self) -> gimli::Result<BTreeMap<String, Facts>> {
        let mut facts: BTreeMap<String, Facts> = BTreeMap::new();
        self.add_instances()?;
        let mut entries = self.unit.entries_raw(None)?;
        let mut entry = Entry::null();
        let mut frames: Vec<Frame> = Vec::new();
        while !entries.is_empty() {
            let depth = entries.next_depth();
            if !entries.read_entry(&mut entry)? {
                continue;
            }
            if entry.tag() == gimli::DW_TAG_compile_unit {
                let producer = self.string(&entry, gimli::DW_AT_producer);
                self.hooks = Hooks::of(&producer.unwrap_or_default());
            }
            let is_inlined = entry.tag() == gimli::DW_TAG_inlined_subroutine;
            if !is_inlined && entry.tag() != gimli::DW_TAG_subprogram {
                continue;
            }
            while frames.last().is_some_and(|frame| frame.depth >= depth) {
                frames.pop();
            }
            let name = self.wanted_name(&entry).map(str::to_owned);
            if let Some(name) = name {
                let facts = facts.entry(name).or_default();
                if is_inlined {
                    facts.inlined.insert(self.inlined(&entry, &frames));
                } else {
                    self.define(&entry, facts)?;
                }
            }
            frames.push(Frame { depth, name: self.name_of(&entry, 0), is_inlined });
        }
        Ok(facts)
    }

    /// Adds the functions that refer to one that is wanted, twice: a concrete instance refers to
    /// an abstract one, and that to its declaration.
    fn add_instances(&mut self) -> gimli::Result<()> {
        for _ in 0..2 {
            let mut entries = self.unit.entries_raw(None)?;
            let mut entry = Entry::null();
            while !entries.is_empty() {
                if !entries.read_entry(&mut entry)? || entry.tag() != gimli::DW_TAG_subprogram {
                    continue;
                }
                let name = self.wanted_name(&entry).map(str::to_owned);
                if let (Some(name), Some(at)) =
                    (name, entry.offset().to_debug_info_offset(&self.unit.header))
                {
                    self.instances.insert(at.0, name);
                }
            }
        }
        Ok(())
    }

    /// The name by which the function that `entry` is, or is a copy of, is wanted.
    fn wanted_name(&self, entry: &Entry<'s>) -> Option<&str> {
        let own = entry.offset().to_debug_info_offset(&self.unit.header)?;
        let get = |at: usize| self.wanted.get(&at).or_else(|| self.instances.get(&at));
        let found = get(own.0).or_else(|| get(self.origin(entry)?));
        found.map(String::as_str)
    }

    /// What `entry` refers to, in `.debug_info`.
    fn origin(&self, entry: &Entry<'s>) -> Option<usize> {
        let attributes = [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification];
        let value = attributes.into_iter().find_map(|name| entry.attr_value(name))?;
        match value {
            AttributeValue::UnitRef(at) => Some(at.to_debug_info_offset(&self.unit.header)?.0),
            AttributeValue::DebugInfoRef(at) => Some(at.0),
            _ => None,
        }
    }

    /// The name of the function that `entry` is, or is a copy of.
    fn name_of(&self, entry: &Entry<'s>, depth: usize) -> Option<String> {
        if let Some(name) = self.string(entry, gimli::DW_AT_name) {
            return Some(name);
        }
        let origin = self.origin(entry).filter(|_| depth < 4)?;
        let offset = UnitSectionOffset(origin).to_unit_offset(&self.unit.header);
        match offset {
            Some(offset) => self.name_of(&self.unit.entry(UnitOffset(offset.0)).ok()?, depth + 1),
            None => self.name_elsewhere(DebugInfoOffset(origin)),
        }
    }

    /// The name of a function of another unit.
    fn name_elsewhere(&self, at: DebugInfoOffset) -> Option<String> {
        let mut units = self.dwarf.units();
        while let Ok(Some(header)) = units.next() {
            let Some(offset) = UnitSectionOffset(at.0).to_unit_offset(&header) else { continue };
            let unit = self.dwarf.unit(header).ok()?;
            let entry = unit.entry(offset).ok()?;
            let name = entry.attr_value(gimli::DW_AT_name)?;
            let name = self.dwarf.attr_string(&unit, name).ok()?;
            return Some(name.to_string_lossy().into_owned());
        }
        None
    }

    fn string(&self, entry: &Entry<'s>, name: gimli::DwAt) -> Option<String> {
        let value = self.dwarf.attr_string(self.unit, entry.attr_value(name)?).ok()?;
        Some(value.to_string_lossy().into_owned())
    }

    fn inlined(&self, entry: &Entry<'s>, frames: &[Frame]) -> Inlined {
        let name = |frame: &Frame| frame.name.clone().unwrap_or_else(|| "?".to_owned());
        let outer = frames.iter().rfind(|frame| !frame.is_inlined);
        let by = frames.last().filter(|frame| frame.is_inlined);
        Inlined {
            place: self.place(entry, gimli::DW_AT_call_file, gimli::DW_AT_call_line),
            into: outer.map_or_else(|| "?".to_owned(), name),
            by: by.map(name),
        }
    }

    /// Adds what the function `entry` says. A part of an inlined function (`.cold`) has several
    /// ranges, of which the first counts.
    fn define(&self, entry: &Entry<'s>, facts: &mut Facts) -> gimli::Result<()> {
        if entry.attr_value(gimli::DW_AT_declaration).is_some() {
            facts.is_declared = true;
            return Ok(());
        }
        let mut ranges = self.dwarf.die_ranges(self.unit, entry)?;
        let address = ranges.next()?.map(|range| range.begin);
        let place = self.declared_at(entry, 0);
        facts.definitions.insert(Definition {
            address,
            place,
            unit: self.name.clone(),
            hooks: self.hooks,
        });
        Ok(())
    }

    /// Where the source has `entry`, or what it is a copy of.
    fn declared_at(&self, entry: &Entry<'s>, depth: usize) -> (String, u32) {
        let own = self.place(entry, gimli::DW_AT_decl_file, gimli::DW_AT_decl_line);
        if !own.0.is_empty() || depth > 3 {
            return own;
        }
        let origin = self.origin(entry);
        let offset = origin.and_then(|at| UnitSectionOffset(at).to_unit_offset(&self.unit.header));
        let origin = offset.and_then(|offset| self.unit.entry(offset).ok());
        origin.map_or(own, |origin| self.declared_at(&origin, depth + 1))
    }

    fn place(&self, entry: &Entry<'s>, file: gimli::DwAt, line: gimli::DwAt) -> (String, u32) {
        let line = entry.attr_value(line).and_then(|value| value.udata_value());
        let line = line.and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
        (self.file(entry, file).unwrap_or_default(), line)
    }

    fn file(&self, entry: &Entry<'s>, name: gimli::DwAt) -> Option<String> {
        let index = match entry.attr_value(name)? {
            AttributeValue::FileIndex(index) => index,
            value => value.udata_value()?,
        };
        let header = self.unit.line_program.as_ref()?.header();
        let file = header.file(index)?;
        let text = |value| {
            let value = self.dwarf.attr_string(self.unit, value).ok()?;
            Some(value.to_string_lossy().into_owned())
        };
        let path = text(file.path_name())?;
        let folder = file.directory(header).and_then(text).unwrap_or_default();
        if path.starts_with('/') || folder.is_empty() {
            return Some(relative(&path, &self.folder));
        }
        Some(relative(&format!("{folder}/{path}"), &self.folder))
    }
}

/// The names of all functions, of `sections` that are to be searched for a name like another.
#[must_use]
pub fn names(sections: &Sections<'_>) -> HashSet<String> {
    let dwarf = sections.dwarf();
    let found: Vec<Vec<String>> = headers(&dwarf)
        .par_iter()
        .filter_map(|header| look(&dwarf, *header, |_| true).ok())
        .map(|found| found.wanted.into_iter().map(|(_, name)| name).collect())
        .collect();
    found.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn producers() {
        let rows = [
            ("GNU AS 2.40", Hooks::Assembly),
            ("GNU C11 12.2.0 -mtune=generic -O2 -p -fno-PIE", Hooks::Wanted),
            ("GNU C17 12.2.0 -O2 -pg", Hooks::Wanted),
            ("GNU C17 12.2.0 -mfentry -mrecord-mcount -O2", Hooks::NotWanted),
            ("GNU C17 12.2.0 -fpatchable-function-entry=2 -O2", Hooks::Wanted),
            ("GNU C17 12.2.0 -fpatchable-function-entry=0,0 -O2", Hooks::NotWanted),
            ("Debian clang version 14.0.6", Hooks::Unknown),
            ("clang 19 /usr/bin/clang -O2 -pg -c a.c", Hooks::Wanted),
            ("", Hooks::Unknown),
        ];
        for (producer, expected) in rows {
            assert_eq!(Hooks::of(producer), expected, "{producer}");
        }
    }
}
