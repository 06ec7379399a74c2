//! The source file of an address, by the names and address ranges of the units of the debug information.
//! This doesn't need line tables.

use super::Sections;
use super::lines::relative;

/// The units of a file.
#[derive(Debug, Default)]
pub struct Units {
    names: Vec<String>,
    /// Start, end, and the position of the name, in order of start.
    ranges: Vec<(u64, u64, usize)>,
}

impl Units {
    /// The units in `sections`. Malformed ones are ignored.
    #[must_use]
    pub fn of(sections: &Sections<'_>) -> Self {
        let dwarf = sections.dwarf();
        let mut found = Self::default();
        let mut folders: Vec<String> = Vec::new();
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let Ok(unit) = dwarf.unit(header) else { continue };
            let Some(name) = unit.name.map(|name| name.to_string_lossy().into_owned()) else {
                continue;
            };
            if let Some(folder) = unit.comp_dir.map(|folder| folder.to_string_lossy())
                && !folders.iter().any(|known| *known == folder)
            {
                folders.push(folder.into_owned());
            }
            let Ok(mut ranges) = dwarf.unit_ranges(&unit) else { continue };
            while let Ok(Some(range)) = ranges.next() {
                if range.begin != 0 && range.begin < range.end {
                    found.ranges.push((range.begin, range.end, found.names.len()));
                }
            }
            found.names.push(name);
        }
        folders.sort_by_key(|folder| std::cmp::Reverse(folder.len()));
        for name in &mut found.names {
            *name = relative(name, &folders);
        }
        found.shorten(&folders);
        found.ranges.sort_unstable();
        found
    }

    /// Makes absolute names relative to the folder that contains all of them and all `folders`.
    fn shorten(&mut self, folders: &[String]) {
        // A build that hides where it was made has relative folders.
        let names = self.names.iter().chain(folders).filter(|name| name.starts_with('/'));
        let Some(root) = names.map(String::as_str).reduce(common) else {
            return;
        };
        let root = root.to_owned();
        for name in &mut self.names {
            let short = name.strip_prefix(&root).and_then(|name| name.strip_prefix('/'));
            if let (Some(short), false) = (short, root.is_empty()) {
                *name = short.to_owned();
            }
        }
    }

    /// The source file of `address`.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<&str> {
        let after = self.ranges.partition_point(|(start, ..)| *start <= address);
        let (_, end, name) = self.ranges.get(after.checked_sub(1)?)?;
        if address < *end { self.names.get(*name).map(String::as_str) } else { None }
    }
}

/// The longest path of folders that both begin with, without the last slash.
fn common<'p>(one: &'p str, other: &str) -> &'p str {
    let ends = one.match_indices('/').map(|(at, _)| at).chain([one.len()]);
    let mut starts = ends.rev().filter_map(|end| one.get(..end));
    let shared = starts.find(|start| {
        other.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    shared.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_in_common() {
        let rows = [
            ("/build/linux/arch/a.S", "/build/linux/debian/out", "/build/linux"),
            ("/build/linux", "/build/linux/debian", "/build/linux"),
            ("/build/linux", "/build/linux-2", "/build"),
            ("/a", "/b", ""),
        ];
        for (one, other, expected) in rows {
            assert_eq!(common(one, other), expected, "{one} {other}");
            assert_eq!(common(other, one), expected, "{other} {one}");
        }
    }
}
