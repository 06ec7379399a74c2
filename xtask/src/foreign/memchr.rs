//! A copy of the crate memchr that finds things on big-endian AArch64.
//!
//! memchr 2.8.3 turns vectors around there, because compilers once had their lanes in memory's order reversed. They've been right since
//! the middle of 2026 (<https://github.com/rust-lang/miri/issues/5056>), so now memchr finds nothing, or a place that mirrors the right
//! one. It's changed upstream (<https://github.com/BurntSushi/memchr/pull/222>), but no release has that. What needs it: names, patterns,
//! and the search for `_mcount`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sources::shell;
use crate::{Result, files};

/// A line of `src/vector.rs`, and what it's to be.
const CHANGES: [(&str, &str); 2] = [
    ("#[cfg(target_endian = \"little\")]\n        unsafe fn movemask", "unsafe fn movemask"),
    (
        "#[cfg(target_endian = \"big\")]\n        unsafe fn movemask",
        "#[cfg(any())]\n        unsafe fn movemask",
    ),
];

/// Makes the copy; what cargo's `--config` is to be so that it takes this one. Cargo.lock doesn't change by that.
pub(super) fn mended() -> Result<String> {
    let source = source()?;
    let version = source.file_name().ok_or("memchr is nowhere")?.to_owned();
    let copies = files::workspace().join("target/hosts/mended");
    let copy = copies.join(version);
    if !copy.is_dir() {
        files::make_folder(&copies)?;
        let partial = tempfile::Builder::new().prefix("copy-").tempdir_in(&copies)?;
        shell(partial.path(), &format!("cp -r '{}/.' .", source.display()))?;
        change(&partial.path().join("src/vector.rs"))?;
        files::rename(&partial.keep(), &copy)?;
    }
    Ok(format!("paths=[{:?}]", copy.display().to_string()))
}

/// Where cargo has the crate that Cargo.lock says.
fn source() -> Result<PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version", "1", "--locked"]).current_dir(files::workspace());
    let output = cargo.output()?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata.get("packages").and_then(serde_json::Value::as_array);
    let packages = packages.ok_or("cargo lists no packages")?;
    let found =
        packages.iter().find(|package| package.get("name").is_some_and(|name| name == "memchr"));
    let manifest = found.and_then(|package| package.get("manifest_path")?.as_str());
    let folder = manifest.and_then(|path| Path::new(path).parent());
    Ok(folder.ok_or("nothing needs memchr any more")?.to_owned())
}

fn change(path: &Path) -> Result<()> {
    // What isn't used any more is no reason for warnings.
    let mut text = format!("#![expect(dead_code)]\n{}", String::from_utf8(files::read(path)?)?);
    for (from, to) in CHANGES {
        if !text.contains(from) {
            return Err(
                "memchr has changed: see whether xtask/src/foreign/memchr.rs is needed".into()
            );
        }
        text = text.replace(from, to);
    }
    files::write(path, text.as_bytes())
}
