//! Units of debug information that say less than is needed: why values of functions in them aren't known.

use crate::debug::Sections;
use gimli::DW_AT_producer;
use std::ops::Range;

/// How a unit lacks what it should say of its functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lack {
    /// It's in another file (`-gsplit-dwarf`).
    Split,
    /// It has no parameters (gcc's `-g1`).
    LinesOnly,
}

/// The code of units that lack something.
pub(super) struct PoorUnits(Vec<(Range<u64>, Lack)>);

impl PoorUnits {
    pub(super) fn of(sections: &Sections<'_>) -> Self {
        let dwarf = sections.dwarf();
        let mut all = Vec::new();
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let Ok(unit) = dwarf.unit(header) else { continue };
            let lack = if unit.dwo_name().is_ok_and(|name| name.is_some()) {
                Lack::Split
            } else {
                let root = unit.entry(unit.header.root_offset());
                let producer = root.ok().and_then(|root| root.attr_value(DW_AT_producer));
                let producer = producer.and_then(|value| dwarf.attr_string(&unit, value).ok());
                if !producer.is_some_and(|text| has_lines_only(&text.to_string_lossy())) {
                    continue;
                }
                Lack::LinesOnly
            };
            let Ok(mut ranges) = dwarf.unit_ranges(&unit) else { continue };
            while let Ok(Some(range)) = ranges.next() {
                all.push((range.begin..range.end, lack));
            }
        }
        Self(all)
    }

    /// What the unit of this address lacks.
    pub(super) fn lack(&self, address: u64) -> Option<Lack> {
        self.0.iter().find(|(range, _)| range.contains(&address)).map(|(_, lack)| *lack)
    }
}

/// Is the last option about debug information, of those that gcc notes, `-g1`?
fn has_lines_only(producer: &str) -> bool {
    let levels = producer.split_ascii_whitespace().filter_map(|word| word.strip_prefix("-g"));
    let mut levels = levels.map(|level| level.trim_start_matches("gdb"));
    levels.rfind(|level| matches!(*level, "" | "0" | "1" | "2" | "3")) == Some("1")
}

#[cfg(test)]
mod tests {
    use super::has_lines_only;

    #[test]
    fn the_last_level_counts() {
        let rows = [
            ("GNU C17 12.2.0 -mtune=generic -march=x86-64 -g1 -O2", true),
            ("GNU C17 12.2.0 -g -O2", false),
            ("GNU C17 12.2.0 -g1 -g", false),
            ("GNU C17 12.2.0 -g -ggdb1 -gdwarf-4", true),
            ("clang version 14", false),
        ];
        for (producer, expected) in rows {
            assert_eq!(has_lines_only(producer), expected, "{producer}");
        }
    }
}
