//! Putting a table in an object: into the sections that are there, as far as they have the shape that
//! is wanted or can be given it, and into new ones.
//!
//! An object is changed by appending only, so no section of it goes away. One that is left over, such
//! as the second of two tables that become one, is empty afterwards.

use super::Part;
use super::encode::{Entries, bodies};
use crate::elf::edit::{Edit, Encoded, new_section};
use crate::elf::{Encoder, Section};
use crate::error::Result;
use crate::scan::Target;
use object::elf;
use object::read::elf::FileHeader;
use std::collections::{BTreeMap, HashMap};

/// What the sections of a table have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape<'a> {
    pub(crate) name: &'a str,
    /// Relocations carry their addends (RELA).
    pub(crate) rela: bool,
    pub(crate) writable: bool,
    /// Each section of code has a table of its own, which lives and dies with it.
    pub(crate) link_order: bool,
}

/// What one section of a table belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Home {
    /// The section group that it is a member of.
    pub(crate) group: Option<u32>,
    /// The section of code that it is ordered by.
    pub(crate) link: Option<u32>,
}

/// The entries of each section of a table; none is without.
pub(crate) type Tables = BTreeMap<Home, Entries>;

/// The work on the table of one object.
pub(crate) struct Writer<'a, 'v, 'd, Elf: FileHeader> {
    pub(crate) target: &'a Target<'v, 'd, Elf>,
    pub(crate) edit: &'a mut Edit<'v, 'd, Elf>,
    pub(crate) shape: Shape<'a>,
    /// The group of each section that is in one.
    pub(crate) groups: &'a HashMap<u32, u32>,
}

impl<Elf: FileHeader> Writer<'_, '_, '_, Elf> {
    /// Makes `tables` the table, where `parts` are there.
    ///
    /// # Errors
    ///
    /// A group, or the table of names, is malformed.
    pub(crate) fn write(mut self, parts: Vec<Part>, tables: Tables) -> Result<()> {
        let some_link = tables.keys().find_map(|home| home.link);
        let mut free: BTreeMap<Home, Vec<Part>> = BTreeMap::new();
        for part in parts.into_iter().rev() {
            free.entry(self.home(&part)).or_default().push(part);
        }
        let mut others = Vec::new();
        for (home, entries) in tables {
            match free.get_mut(&home).and_then(Vec::pop) {
                Some(part) => self.refill(&part, home, &entries)?,
                None => others.push((home, entries)),
            }
        }
        // A section cannot leave its group, but may join one.
        let mut by_group: BTreeMap<Option<u32>, Vec<Part>> = BTreeMap::new();
        for (home, parts) in free.into_iter().rev() {
            by_group.entry(home.group).or_default().extend(parts);
        }
        for (home, entries) in others {
            let own = by_group.get_mut(&home.group).and_then(Vec::pop);
            match own.or_else(|| by_group.get_mut(&None)?.pop()) {
                Some(part) => self.refill(&part, home, &entries)?,
                None => self.add(home, &entries)?,
            }
        }
        for part in by_group.into_values().flatten() {
            self.empty(&part, some_link)?;
        }
        Ok(())
    }

    fn home(&self, part: &Part) -> Home {
        Home { group: self.groups.get(&part.index).copied(), link: part.link() }
    }

    /// Gives `part` these entries, and makes `home` its home.
    fn refill(&mut self, part: &Part, home: Home, entries: &Entries) -> Result<()> {
        let bodies = bodies(self.target, self.shape.rela, entries);
        self.edit.set_body(part.index, bodies.table);
        self.reshape(part, home.link)?;
        let word = self.target.view.word();
        let header = self.edit.header(part.index)?;
        if !self.target.arch.reads_unaligned {
            header.alignment = header.alignment.max(word);
        }
        let list = match part.lists.split_first() {
            Some(((list, header), others)) => {
                let entry_size = bodies.relocations.size as u64 / entries.count().max(1) as u64;
                self.edit.set_body(*list, bodies.relocations);
                self.reform(*list, header, entry_size)?;
                self.clear(others);
                *list
            }
            None => self.add_list(part.index, entries)?,
        };
        home.group.map_or(Ok(()), |group| self.join(group, [part.index, list]))
    }

    /// Takes all entries out of `part`. Linkers refuse to put ordered and unordered sections into one,
    /// so it is ordered by `some_link` where the others are ordered.
    fn empty(&mut self, part: &Part, some_link: Option<u32>) -> Result<()> {
        if part.header.size != 0 {
            self.edit.set_body(part.index, Encoded::nothing());
        }
        self.clear(&part.lists);
        let link = if self.shape.link_order { part.link().or(some_link) } else { None };
        self.reshape(part, link)
    }

    /// Takes all relocations out of `lists`.
    fn clear(&mut self, lists: &[(u32, Section)]) {
        for (list, _) in lists.iter().filter(|(_, header)| header.size != 0) {
            self.edit.set_body(*list, Encoded::nothing());
        }
    }

    /// Makes `part` writable, and ordered by `link`, as the shape has it.
    fn reshape(&mut self, part: &Part, link: Option<u32>) -> Result<()> {
        let header = self.edit.header(part.index)?;
        if self.shape.writable {
            header.flags |= elf::SHF_WRITE.0;
        }
        if link != part.link() {
            header.flags &= !elf::SHF_LINK_ORDER.0;
            header.flags |= if link.is_some() { elf::SHF_LINK_ORDER.0 } else { 0 };
            header.link = link.unwrap_or(0);
        }
        Ok(())
    }

    /// Makes the relocation section `list` one of the shape's form.
    fn reform(&mut self, list: u32, old: &Section, entry_size: u64) -> Result<()> {
        let kind = if self.shape.rela { elf::SHT_RELA.0 } else { elf::SHT_REL.0 };
        if old.kind == kind {
            return Ok(());
        }
        let (name, _) = self.add_names()?;
        let header = self.edit.header(list)?;
        *header = Section { name, kind, entry_size, ..*header };
        Ok(())
    }

    /// Adds the names of a relocation section and of its table, which is the tail of the other.
    fn add_names(&mut self) -> Result<(u32, u32)> {
        let prefix = if self.shape.rela { ".rela" } else { ".rel" };
        let name = format!("{prefix}{}", self.shape.name);
        let at = self.edit.add_string(self.target.view.section_names_index(), name.as_bytes())?;
        Ok((at, at + if self.shape.rela { 5 } else { 4 }))
    }

    /// Makes those of `members` that are in no group members of the section group `group`.
    fn join(&mut self, group: u32, members: [u32; 2]) -> Result<()> {
        let view = self.target.view;
        let mut words =
            Encoder { big_endian: view.is_big_endian(), is_64: view.is_64(), out: Vec::new() };
        for member in members.into_iter().filter(|member| !self.groups.contains_key(member)) {
            self.edit.header(member)?.flags |= elf::SHF_GROUP.0;
            words.u32(member);
        }
        if !words.out.is_empty() {
            self.edit.body(group)?.extend(words.out);
        }
        Ok(())
    }

    /// Adds a section with `entries`, and its relocation section.
    fn add(&mut self, home: Home, entries: &Entries) -> Result<()> {
        let word = self.target.view.word();
        let (list_name, name) = self.add_names()?;
        let bodies = bodies(self.target, self.shape.rela, entries);
        let writable = if self.shape.writable { elf::SHF_WRITE.0 } else { 0 };
        let ordered = if home.link.is_some() { elf::SHF_LINK_ORDER.0 } else { 0 };
        let table = Section {
            kind: elf::SHT_PROGBITS.0,
            flags: elf::SHF_ALLOC.0 | writable | ordered,
            link: home.link.unwrap_or(0),
            alignment: word,
            entry_size: word,
            ..new_section(name)
        };
        let table = self.edit.add_encoded(table, bodies.table);
        let list = self.list(list_name, table, entries, &bodies.relocations);
        let list = self.edit.add_encoded(list, bodies.relocations);
        home.group.map_or(Ok(()), |group| self.join(group, [table, list]))
    }

    /// Adds a relocation section with those of `entries` to the section `table`; its index.
    fn add_list(&mut self, table: u32, entries: &Entries) -> Result<u32> {
        let (name, _) = self.add_names()?;
        let bodies = bodies(self.target, self.shape.rela, entries);
        let list = self.list(name, table, entries, &bodies.relocations);
        Ok(self.edit.add_encoded(list, bodies.relocations))
    }

    /// The header of a relocation section with `body`, the relocations of `entries`.
    fn list(&self, name: u32, table: u32, entries: &Entries, body: &Encoded) -> Section {
        Section {
            kind: if self.shape.rela { elf::SHT_RELA.0 } else { elf::SHT_REL.0 },
            flags: elf::SHF_INFO_LINK.0,
            link: self.target.symbols.as_ref().map_or(0, |symbols| symbols.section),
            info: table,
            alignment: self.target.view.word(),
            entry_size: body.size as u64 / entries.count().max(1) as u64,
            ..new_section(name)
        }
    }
}
