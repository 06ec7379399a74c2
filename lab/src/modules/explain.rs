//! Why two tables of one module differ: known causes, each proven from the bytes of that module.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::elf::{Object, Place, Table};
use super::sites::{Form, is_recorded_section};

/// Whose table ours is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reference {
    /// The table that the module came with.
    Build,
    /// What the kernel's own recordmcount makes of the same input.
    Original,
    /// What [`super::sites`] reads.
    Bytes,
}

impl Reference {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Original => "original",
            Self::Bytes => "bytes",
        }
    }
}

/// What makes a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// A compiler that makes the table itself knows no section policy; a recorder excludes the
    /// section.
    Policy,
    /// The hook is a NOP without relocation already: nothing says that it is a hook.
    NopWithoutRelocation,
    /// A patchable entry: recordmcount knows calls only.
    Patchable,
    /// The original takes a MIPS site for a part of the last one of the section before.
    MipsPreviousSection,
    /// The same in an object that was linked into the module, where its offsets were others.
    MipsPreviousSectionOfObject,
    /// None of these: look at it.
    Unexplained,
}

impl Cause {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::NopWithoutRelocation => "nop-without-relocation",
            Self::Patchable => "patchable",
            Self::MipsPreviousSection => "mips-previous-section",
            Self::MipsPreviousSectionOfObject => "mips-previous-section-of-object",
            Self::Unexplained => "unexplained",
        }
    }
}

/// One entry that one table has and the other has not.
#[derive(Debug)]
pub(crate) struct Difference {
    pub(crate) reference: Reference,
    /// Ours has it and the reference has not; or the other way round.
    pub(crate) ours_has_it: bool,
    pub(crate) place: Place,
    pub(crate) cause: Cause,
    /// Section, function, bytes and relocations there, for a person to read.
    pub(crate) detail: String,
}

/// One module and what is known of its call sites.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    pub(crate) object: &'a Object<'a>,
    pub(crate) sites: &'a BTreeMap<Place, Form>,
}

impl Case<'_> {
    /// All differences between our entries and those of one reference.
    pub(crate) fn differences(
        &self,
        reference: Reference,
        theirs: &BTreeSet<Place>,
        ours: &BTreeSet<Place>,
    ) -> Vec<Difference> {
        theirs
            .symmetric_difference(ours)
            .map(|place| {
                let ours_has_it = ours.contains(place);
                let cause = if ours_has_it {
                    self.why_only_ours(reference, *place)
                } else {
                    self.why_only_theirs(*place)
                };
                let detail = self.describe(*place);
                Difference { reference, ours_has_it, place: *place, cause, detail }
            })
            .collect()
    }

    fn why_only_theirs(&self, place: Place) -> Cause {
        if !is_recorded_section(self.object.section_name(place.0)) {
            return Cause::Policy;
        }
        match self.sites.get(&place) {
            Some(Form::Nop) => Cause::NopWithoutRelocation,
            Some(Form::Patchable) => Cause::Patchable,
            Some(Form::Call) | None => Cause::Unexplained,
        }
    }

    fn why_only_ours(&self, reference: Reference, place: Place) -> Cause {
        match (self.sites.get(&place), reference) {
            (Some(Form::Call), Reference::Original) if self.follows_previous_section(place) => {
                Cause::MipsPreviousSection
            }
            (Some(Form::Call), Reference::Build) if self.follows_other_section(place) => {
                Cause::MipsPreviousSection
            }
            (Some(Form::Call), Reference::Build) if self.followed_in_its_object(place) => {
                Cause::MipsPreviousSectionOfObject
            }
            (Some(Form::Nop), Reference::Original) => Cause::NopWithoutRelocation,
            (Some(Form::Patchable), Reference::Original) => Cause::Patchable,
            _ => Cause::Unexplained,
        }
    }

    /// MIPS: the hook relocation before this one in the file is in another section, 4 bytes lower.
    fn follows_previous_section(&self, place: Place) -> bool {
        let hooks = &self.object.hooks;
        let Some(index) = hooks.iter().position(|hook| hook.place == place) else { return false };
        let before = index.checked_sub(1).and_then(|index| hooks.get(index));
        self.object.machine == 8
            && before.is_some_and(|hook| {
                hook.place.0 != place.0 && hook.place.1.checked_add(4) == Some(place.1)
            })
    }

    /// MIPS: the first hook relocation of its section, 4 bytes above the last one of some other
    /// section.
    ///
    /// The order of the sections in the object before `ld -r` is not known, hence any other
    /// section.
    fn follows_other_section(&self, place: Place) -> bool {
        let hooks = &self.object.hooks;
        let first = hooks.iter().find(|hook| hook.place.0 == place.0);
        let last: BTreeMap<usize, u64> = hooks.iter().map(|hook| hook.place).collect();
        self.object.machine == 8
            && first.is_some_and(|hook| hook.place == place)
            && last.iter().any(|(section, offset)| {
                *section != place.0 && offset.checked_add(4) == Some(place.1)
            })
    }

    /// MIPS: as [`Self::follows_other_section`], counted from the functions' starts, since the
    /// module's objects each began at zero. The other site must stand, in the table, between our
    /// neighbours of the same section: `ld -r` keeps the tables of the objects in one piece.
    fn followed_in_its_object(&self, place: Place) -> bool {
        let Some(table) = self.object.table.as_ref().filter(|_| self.object.machine == 8) else {
            return false;
        };
        let Some(distance) = self.distance(place) else { return false };
        between_neighbours(table, place).iter().any(|entry| {
            // HI16 stands 4 bytes before the LO16 that the original compares with, 4 bytes above
            // it.
            entry.0 != place.0 && self.distance(*entry).map(|other| other + 8) == Some(distance)
        })
    }

    /// From the start of the function to the place.
    fn distance(&self, place: Place) -> Option<u64> {
        Some(place.1 - self.object.function_before(place)?.place.1)
    }

    /// Section, function, bytes and hook relocations at a place, for a person.
    pub(crate) fn describe(&self, place: Place) -> String {
        let mut text = format!("{}+{:#x}", self.object.section_name(place.0), place.1);
        let function = self.object.function_before(place);
        match function {
            Some(function) => {
                let _ = write!(text, " {}+{:#x}", function.name, place.1 - function.place.1);
            }
            None => text.push_str(" (no function symbol)"),
        }
        text.push_str(", bytes");
        for byte in self.object.bytes::<8>(place).unwrap_or_default() {
            let _ = write!(text, " {byte:02x}");
        }
        let near = |hook: &&super::elf::HookRelocation| {
            hook.place.0 == place.0 && hook.place.1.abs_diff(place.1) <= 8
        };
        for hook in self.object.hooks.iter().filter(near) {
            let distance = hook.place.1.cast_signed() - place.1.cast_signed();
            let _ = write!(text, ", hook relocation type {} at {distance:+}", hook.kind);
        }
        if !self.sites.contains_key(&place) {
            text.push_str(", not a call site by this chore's reading");
        }
        text
    }
}

/// The entries between the last one before a place and the first one after it, of the place's own
/// section.
fn between_neighbours(table: &Table, place: Place) -> &[Place] {
    let entries = &table.entries;
    let same = |entry: &Place| entry.0 == place.0;
    let start = entries
        .iter()
        .rposition(|entry| same(entry) && *entry < place)
        .map_or(0, |index| index + 1);
    let end =
        entries.iter().position(|entry| same(entry) && *entry > place).unwrap_or(entries.len());
    entries.get(start..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::elf::{Function, HookRelocation, Section};

    /// A MIPS object with sections 0 (none), 1 `.text`, 2 `.init.text` and 3 `.exit.text`.
    fn object(hooks: &[(Place, u32)], table: Option<&[Place]>) -> Object<'static> {
        let section = |name: &str| Section {
            name: name.to_owned(),
            kind: 1,
            flags: 4,
            link: 0,
            info: 0,
            align: 4,
            entry_size: 0,
            range: (0, 0),
        };
        let function = |place| Function { place, name: "f".to_owned() };
        Object {
            data: &[],
            machine: 8,
            is_64: false,
            endian: object::Endianness::Little,
            sections: ["", ".text", ".init.text", ".exit.text"].map(section).to_vec(),
            functions: [(1, 0), (1, 0x100), (2, 0), (2, 0x40)].map(function).to_vec(),
            hooks: hooks
                .iter()
                .map(|(place, kind)| HookRelocation { place: *place, kind: *kind })
                .collect(),
            relocated: Vec::new(),
            table: table.map(|entries| Table { entries: entries.to_vec(), ..Table::default() }),
            patchable: None,
            headers: (0, 0),
        }
    }

    /// The causes of what only one of `theirs` and `ours` has.
    fn causes(
        object: &Object<'_>,
        reference: Reference,
        sites: &[(Place, Form)],
        theirs: &[Place],
        ours: &[Place],
    ) -> Vec<Cause> {
        let sites = sites.iter().copied().collect();
        let case = Case { object, sites: &sites };
        let set = |places: &[Place]| places.iter().copied().collect();
        let differences = case.differences(reference, &set(theirs), &set(ours));
        differences.into_iter().map(|difference| difference.cause).collect()
    }

    #[test]
    fn entries_that_ours_lacks() {
        let object = object(&[], None);
        let nop = [((1, 0), Form::Nop)];
        let patchable = [((1, 0), Form::Patchable)];
        let call = [((1, 0), Form::Call)];
        let build = |sites, place| causes(&object, Reference::Build, sites, &[place], &[]);
        assert_eq!(build(&[], (3, 0)), [Cause::Policy]);
        assert_eq!(build(&nop, (1, 0)), [Cause::NopWithoutRelocation]);
        assert_eq!(build(&patchable, (1, 0)), [Cause::Patchable]);
        assert_eq!(build(&call, (1, 0)), [Cause::Unexplained]);
        assert_eq!(build(&[], (1, 0)), [Cause::Unexplained]);
    }

    #[test]
    fn sites_that_the_original_loses_on_mips() {
        let previous = object(&[((1, 0), 5), ((1, 4), 6), ((2, 8), 5), ((2, 12), 6)], None);
        let farther = object(&[((1, 0), 5), ((1, 4), 6), ((2, 16), 5), ((2, 20), 6)], None);
        let only_ours = |object, reference, place| {
            causes(object, reference, &[(place, Form::Call)], &[], &[place])
        };
        for reference in [Reference::Original, Reference::Build] {
            assert_eq!(only_ours(&previous, reference, (2, 8)), [Cause::MipsPreviousSection]);
            assert_eq!(only_ours(&farther, reference, (2, 16)), [Cause::Unexplained]);
        }
        assert_eq!(only_ours(&previous, Reference::Bytes, (2, 8)), [Cause::Unexplained]);
        assert_eq!(causes(&previous, Reference::Build, &[], &[], &[(2, 8)]), [Cause::Unexplained]);
    }

    #[test]
    fn sites_that_the_original_lost_before_the_module_was_linked() {
        let hooks = [((1, 0x100), 5), ((1, 0x104), 6), ((2, 0), 5), ((2, 4), 6), ((2, 0x48), 5)];
        let site = [((2, 0x48), Form::Call)];
        let lost = |table: &[Place]| {
            let object = object(&hooks, Some(table));
            causes(&object, Reference::Build, &site, &[], &[(2, 0x48)])
        };
        // The entry of the same object stands behind that of `.init.text` before.
        assert_eq!(lost(&[(2, 0), (1, 0x100)]), [Cause::MipsPreviousSectionOfObject]);
        assert_eq!(lost(&[(1, 0x100), (2, 0)]), [Cause::Unexplained]);
    }
}
