//! The tables of a build's objects: ours against those that the original recorder gave copies of the
//! same objects.

use std::path::Path;

use crate::modules::table_of;
use crate::{Result, files};

/// What comparing came to.
pub(super) struct Tables {
    objects: usize,
    entries: usize,
    /// Objects whose tables differ, with the entries of both.
    differences: Vec<String>,
    pub(super) differing: usize,
}

impl Tables {
    pub(super) fn print(&self) {
        println!(
            "{} objects with {} entries, {} with another table than the original's",
            self.objects, self.entries, self.differing
        );
        for difference in &self.differences {
            println!("  {difference}");
        }
    }
}

/// Compares each object below `build` with the copy that the original recorded.
pub(super) fn tables(build: &Path) -> Result<Tables> {
    let mut tables = Tables { objects: 0, entries: 0, differences: Vec::new(), differing: 0 };
    visit(build, &mut tables)?;
    Ok(tables)
}

fn visit(folder: &Path, tables: &mut Tables) -> Result<()> {
    for path in files::list(folder)? {
        if path.is_dir() && !path.is_symlink() {
            visit(&path, tables)?;
            continue;
        }
        let Some(object) = path.to_str().and_then(|name| name.strip_suffix(".theirs")) else {
            continue;
        };
        let ours = table_of(&files::read(Path::new(object))?)?;
        let theirs = table_of(&files::read(&path)?)?;
        tables.objects += usize::from(!ours.is_empty());
        tables.entries += ours.len();
        if ours != theirs {
            tables.differing += 1;
            let counts = format!("{object}: ours {}, theirs {}", ours.len(), theirs.len());
            tables.differences.push(counts);
        }
    }
    Ok(())
}
