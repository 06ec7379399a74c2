//! The source line of an address: a thin layer over `addr2line`.

use super::{Sections, Slice};
use addr2line::Context;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A place in the source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line {
    /// The file, relative to the folder where it was compiled if it is in that folder.
    pub file: Arc<str>,
    /// The line, from 1 on; 0 if there is none.
    pub line: u32,
}

/// Finds lines.
pub struct Lines<'s> {
    sections: &'s Sections<'s>,
    context: Context<Slice<'s>>,
    /// The folders in which units were compiled.
    folders: Vec<String>,
    names: HashMap<String, Arc<str>>,
}

impl<'s> Lines<'s> {
    /// Finds lines in `sections`. `None` if they are malformed.
    #[must_use]
    pub fn new(sections: &'s Sections<'s>) -> Option<Self> {
        let dwarf = sections.dwarf();
        let folders = folders(&dwarf);
        let context = Context::from_dwarf(dwarf).ok()?;
        Some(Self { sections, context, folders, names: HashMap::new() })
    }

    /// The line of byte `offset` of `section`, which is its index and name, or of `address` in an image.
    pub fn find(
        &mut self,
        section: Option<(u32, &str)>,
        offset: Option<u64>,
        address: Option<u64>,
    ) -> Option<Line> {
        let address = self.sections.address(section, offset, address)?;
        let location = self.context.find_location(address).ok()??;
        let (file, line) = (location.file?, location.line.unwrap_or(0));
        if let Some(file) = self.names.get(file) {
            return Some(Line { file: Arc::clone(file), line });
        }
        let short: Arc<str> = Arc::from(relative(file, &self.folders));
        self.names.insert(file.to_owned(), Arc::clone(&short));
        Some(Line { file: short, line })
    }
}

impl Lines<'_> {
    /// Where the file of a line may be: as it's said, or in a folder in which something was compiled.
    pub fn places(&self, file: &str) -> impl Iterator<Item = PathBuf> {
        let folders = self.folders.iter().map(|folder| Path::new(folder).join(file));
        std::iter::once(PathBuf::from(file)).chain(folders).collect::<Vec<_>>().into_iter()
    }
}

/// The folders in which the units of `dwarf` were compiled, the longest first.
fn folders(dwarf: &gimli::Dwarf<Slice<'_>>) -> Vec<String> {
    let mut folders = Vec::new();
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let Ok(unit) = dwarf.unit(header) else { continue };
        let Some(folder) = unit.comp_dir.map(|folder| folder.to_string_lossy()) else { continue };
        if !folders.iter().any(|known| *known == folder) {
            folders.push(folder.into_owned());
        }
    }
    folders.sort_by_key(|folder| std::cmp::Reverse(folder.len()));
    folders
}

/// `path`, relative to the first of `folders` that it is in, without `..`.
pub(super) fn relative(path: &str, folders: &[String]) -> String {
    let mut below =
        folders.iter().filter_map(|folder| path.strip_prefix(folder.as_str())?.strip_prefix('/'));
    let path = below.next().unwrap_or(path);
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match (part, parts.last()) {
            ("..", Some(last)) if !last.is_empty() && *last != ".." => {
                parts.pop();
            }
            (".", _) => {}
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_where_they_were_compiled() {
        let folders = ["/build/linux/out".to_owned(), "/build".to_owned()];
        let rows = [
            ("/build/linux/out/kernel/fork.c", "kernel/fork.c"),
            ("/build/linux/out/../kernel/fork.c", "../kernel/fork.c"),
            ("/build/./a/../b.c", "b.c"),
            ("/usr/include/stdio.h", "/usr/include/stdio.h"),
            ("/../x.c", "/../x.c"),
            ("include/linux/list.h", "include/linux/list.h"),
        ];
        for (path, expected) in rows {
            assert_eq!(relative(path, &folders), expected);
        }
    }
}
