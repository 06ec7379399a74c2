//! What debug information says about functions: where they are defined, with which flags they were
//! compiled, and where they were inlined. No symbol tells that.
//!
//! A function is a `DW_TAG_subprogram`. An inlined function has an abstract instance, and its copies
//! refer to that by `DW_AT_abstract_origin`. Without link-time optimization, they are in the same unit.
//! So we read all units in parallel, and most of them only once.
//!
//! Source: DWARF 5, 3.3.

use super::lines::relative;
use super::{Sections, Slice};
use gimli::{
    AttributeValue, DebugInfoOffset, DebuggingInformationEntry, Dwarf, Unit, UnitHeader,
    UnitOffset, UnitSectionOffset,
};
use rayon::prelude::*;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What debug information says about the functions of one name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Where it is defined in the source, and how it was compiled.
    pub definitions: BTreeSet<Definition>,
    /// Where it was inlined.
    pub inlined: BTreeSet<Inlined>,
    /// Whether it is declared somewhere.
    pub is_declared: bool,
}

/// A definition of a function.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Definition {
    /// Where its code begins, if it has code of its own, as [`Sections::address`] returns it.
    pub address: Option<u64>,
    /// The source file and the line; 0 if the line isn't known.
    pub place: (String, u32),
    /// The source file that was compiled.
    pub unit: String,
    /// Whether that was compiled with hooks.
    pub hooks: Hooks,
}

/// Whether a compiler was told to leave hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hooks {
    /// `-pg` or `-fpatchable-function-entry` is among the flags.
    Wanted,
    /// Neither is among the flags.
    NotWanted,
    /// It was assembled, and an assembler leaves no hooks.
    Assembly,
    /// We don't know the flags.
    Unknown,
}

/// A place where a function was inlined.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Inlined {
    /// The source file and the line of the call; 0 if the line isn't known.
    pub place: (String, u32),
    /// The function that has the code now.
    pub into: String,
    /// The function that has the call in the source, if it was inlined too.
    pub by: Option<String>,
}

impl Hooks {
    /// What `DW_AT_producer` says. gcc writes its flags there, and `-pg` as `-p`. clang only does so with
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

/// Whether `flag` is `-fpatchable-function-entry=N[,M]` and makes an area that isn't empty.
fn is_patchable(flag: &str) -> bool {
    let size = flag.strip_prefix("-fpatchable-function-entry=");
    size.is_some_and(|size| size.split(',').next() != Some("0"))
}

type Entry<'s> = DebuggingInformationEntry<Slice<'s>>;

/// The results of the first reading of a unit.
struct Found<'s> {
    unit: Unit<Slice<'s>>,
    /// The place and the name of each function that is wanted.
    wanted: Vec<(DebugInfoOffset, String)>,
    /// Whether it refers to functions of other units.
    refers_out: bool,
}

/// What `sections` say about the functions whose name `is_wanted`, by name.
#[must_use]
pub fn facts(
    sections: &Sections<'_>,
    is_wanted: impl Fn(&str) -> bool + Sync,
) -> BTreeMap<String, Facts> {
    let dwarf = sections.dwarf();
    let headers = headers(&dwarf);
    // Ignore malformed units. The others may tell something.
    let units: Vec<Found<'_>> =
        headers.par_iter().filter_map(|header| look(&dwarf, *header, &is_wanted).ok()).collect();
    let wanted = units.iter().flat_map(|found| found.wanted.iter().cloned());
    let wanted: HashMap<usize, String> = wanted.map(|(at, name)| (at.0, name)).collect();
    let mut facts: BTreeMap<String, Facts> = BTreeMap::new();
    let units = units
        .par_iter()
        .filter(|found| !wanted.is_empty() && (!found.wanted.is_empty() || found.refers_out));
    let partial: Vec<_> =
        units.filter_map(|found| Reading::new(&dwarf, &found.unit, &wanted).facts().ok()).collect();
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

/// Finds the functions that are wanted in a unit.
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

/// Reads everything that a unit says about some functions.
struct Reading<'r, 's> {
    dwarf: &'r Dwarf<Slice<'s>>,
    unit: &'r Unit<Slice<'s>>,
    /// The names of the functions that are wanted, by their offset in `.debug_info`.
    wanted: &'r HashMap<usize, String>,
    /// The same for entries of this unit that refer to one of them.
    instances: HashMap<usize, String>,
    folder: Vec<String>,
    name: String,
    hooks: Hooks,
}

/// A function around an entry.
struct Frame {
    depth: isize,
    name: Option<String>,
    is_inlined: bool,
}

impl Frame {
    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("?")
    }
}

impl<'r, 's> Reading<'r, 's> {
    fn new(
        dwarf: &'r Dwarf<Slice<'s>>,
        unit: &'r Unit<Slice<'s>>,
        wanted: &'r HashMap<usize, String>,
    ) -> Self {
        let [folder, name] =
            [unit.comp_dir, unit.name].map(|text| text.map(|text| text.to_string_lossy()));
        let folder: Vec<String> = folder.into_iter().map(Cow::into_owned).collect();
        let name = relative(&name.unwrap_or_default(), &folder);
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

    /// Adds the functions that refer to one that is wanted. It does so twice, because a concrete instance
    /// refers to an abstract one, which refers to its declaration.
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

    /// The wanted name of the function that `entry` is, or is a copy of.
    fn wanted_name(&self, entry: &Entry<'s>) -> Option<&str> {
        let own = entry.offset().to_debug_info_offset(&self.unit.header)?;
        self.wanted_at(own.0).or_else(|| self.wanted_at(self.origin(entry)?))
    }

    /// The wanted name of the function at this offset in `.debug_info`.
    fn wanted_at(&self, at: usize) -> Option<&str> {
        self.wanted.get(&at).or_else(|| self.instances.get(&at)).map(String::as_str)
    }

    /// The offset in `.debug_info` of what `entry` refers to.
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

    /// The name of a function in another unit.
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
        self.text(entry.attr_value(name)?)
    }

    fn text(&self, value: AttributeValue<Slice<'s>>) -> Option<String> {
        let value = self.dwarf.attr_string(self.unit, value).ok()?;
        Some(value.to_string_lossy().into_owned())
    }

    fn inlined(&self, entry: &Entry<'s>, frames: &[Frame]) -> Inlined {
        let outer = frames.iter().rfind(|frame| !frame.is_inlined);
        let by = frames.last().filter(|frame| frame.is_inlined);
        Inlined {
            place: self.place(entry, gimli::DW_AT_call_file, gimli::DW_AT_call_line),
            into: outer.map_or("?", Frame::name).to_owned(),
            by: by.map(|frame| frame.name().to_owned()),
        }
    }

    /// Adds what the function `entry` says. If a part of the function is elsewhere (`.cold`), it has
    /// several ranges, and the first one counts.
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

    /// Where `entry`, or what it is a copy of, is in the source.
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
        let path = self.text(file.path_name())?;
        let folder = file.directory(header).and_then(|folder| self.text(folder));
        let folder = folder.unwrap_or_default();
        if path.starts_with('/') || folder.is_empty() {
            return Some(relative(&path, &self.folder));
        }
        Some(relative(&format!("{folder}/{path}"), &self.folder))
    }
}

/// The names of all functions in `sections`.
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
