//! Puts a table in an object: into existing sections, if they have the right shape or can get it, and
//! into new ones.
//!
//! An object is only changed by appending, so no section can be removed. A section that isn't needed any
//! more becomes empty, such as the second of two tables that become one.

use super::Part;
use super::encode::{Entries, bodies};
use crate::elf::Section;
use crate::elf::edit::{Edit, Encoded, new_section};
use crate::error::Result;
use crate::scan::Target;
use object::elf;
use std::collections::{BTreeMap, HashMap};

/// The common parts of a table's sections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape<'a> {
    pub(crate) name: &'a str,
    /// Whether relocations carry their addends (RELA).
    pub(crate) rela: bool,
    pub(crate) writable: bool,
    /// Whether each section of code has its own table section, linked to it.
    pub(crate) link_order: bool,
}

/// Where a table section belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Home {
    /// The section group that it is a member of.
    pub(crate) group: Option<u32>,
    /// The section of code that it is linked to.
    pub(crate) link: Option<u32>,
}

/// The entries of each table section. None of them is empty.
pub(crate) type Tables = BTreeMap<Home, Entries>;

/// The work on the table of one object.
pub(crate) struct Writer<'a, 'v, 'd> {
    pub(crate) target: &'a Target<'v, 'd>,
    pub(crate) edit: &'a mut Edit<'v, 'd>,
    pub(crate) shape: Shape<'a>,
    /// The group of each section that is in one.
    pub(crate) groups: &'a HashMap<u32, u32>,
}

impl Writer<'_, '_, '_> {
    /// Makes `tables` the table of the object, which has `parts` now.
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
        // A section can't leave its group, but it may join one.
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

    /// Gives `part` these entries, and moves it to `home`.
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

    /// Removes all entries of `part`. Linkers refuse to join sections that are linked to others with
    /// sections that aren't. So if the others are linked, this one is linked to `some_link`.
    fn empty(&mut self, part: &Part, some_link: Option<u32>) -> Result<()> {
        if part.header.size != 0 {
            self.edit.set_body(part.index, Encoded::nothing());
        }
        self.clear(&part.lists);
        let link = if self.shape.link_order { part.link().or(some_link) } else { None };
        self.reshape(part, link)
    }

    /// Removes all relocations in `lists`.
    fn clear(&mut self, lists: &[(u32, Section)]) {
        for (list, _) in lists.iter().filter(|(_, header)| header.size != 0) {
            self.edit.set_body(*list, Encoded::nothing());
        }
    }

    /// Makes `part` writable, if the shape asks for it, and links it to `link`.
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

    /// Makes the relocation section `list` REL or RELA, as the shape asks.
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

    /// Adds the names of a relocation section and of its table. The second is the tail of the first.
    fn add_names(&mut self) -> Result<(u32, u32)> {
        let prefix = if self.shape.rela { ".rela" } else { ".rel" };
        let name = format!("{prefix}{}", self.shape.name);
        let at = self.edit.add_string(self.target.view.section_names_index(), name.as_bytes())?;
        Ok((at, at + if self.shape.rela { 5 } else { 4 }))
    }

    /// Adds those of `members` that are in no group to the section group `group`.
    fn join(&mut self, group: u32, members: [u32; 2]) -> Result<()> {
        let mut words = self.target.view.encoder();
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

    /// Adds a relocation section for `entries`, which are in section `table`. Returns its index.
    fn add_list(&mut self, table: u32, entries: &Entries) -> Result<u32> {
        let (name, _) = self.add_names()?;
        let bodies = bodies(self.target, self.shape.rela, entries);
        let list = self.list(name, table, entries, &bodies.relocations);
        Ok(self.edit.add_encoded(list, bodies.relocations))
    }

    /// The header of a relocation section with `body`, which has the relocations of `entries`.
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
