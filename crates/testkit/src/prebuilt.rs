//! The prebuilt objects of `tests/prebuilt`: one or more of every processor, from compilers.

use crate::files;
use std::path::{Path, PathBuf};

/// A prebuilt object.
#[derive(Debug, Clone)]
pub struct Prebuilt {
    /// The file's name without `.o`; the processor comes first.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The root of the repository.
#[must_use]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// All prebuilt objects, in order of their names.
///
/// # Errors
///
/// They are not there or cannot be read.
pub fn all() -> Result<Vec<Prebuilt>, String> {
    let folder = root().join("tests/prebuilt");
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.extension().is_some_and(|extension| extension == "o") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            found.push(Prebuilt { name, bytes: files::read(&path)? });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    if found.len() < 100 { Err("prebuilt objects are missing".to_owned()) } else { Ok(found) }
}

/// The first object of each processor, class and byte order.
///
/// # Errors
///
/// As [`all`].
pub fn one_of_each() -> Result<Vec<Prebuilt>, String> {
    let mut found: Vec<Prebuilt> = Vec::new();
    let target =
        |bytes: &[u8]| (bytes.get(4..6).map(<[u8]>::to_vec), bytes.get(18..20).map(<[u8]>::to_vec));
    for object in all()? {
        if found.iter().all(|other| target(&other.bytes) != target(&object.bytes)) {
            found.push(object);
        }
    }
    Ok(found)
}
