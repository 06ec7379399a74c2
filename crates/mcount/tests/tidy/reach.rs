//! Every source is one that cargo sees, once: so rustfmt, clippy and the compiler reach it.
//!
//! Its own file because it asks cargo and git, not the sources.

use crate::{files_in, none, offences, prebuilt, sources, tracked};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::{test, trial};

/// The manifests of the workspaces in the repository: each has a lock file beside it.
fn workspaces() -> Vec<PathBuf> {
    let tracked = tracked().unwrap_or_default();
    let locks = tracked.iter().filter(|path| path.ends_with("Cargo.lock"));
    let mut found: Vec<_> = locks.map(|lock| lock.with_file_name("Cargo.toml")).collect();
    found.sort();
    found
}

/// The sources that `cargo fmt` formats of the workspace with this manifest: those of all targets of all its packages, and the
/// modules that they declare. `None`: there's no rustfmt.
fn formatted(manifest: &Path) -> Option<BTreeSet<PathBuf>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.args(["fmt", "--all", "--manifest-path"]).arg(manifest);
    let output = command.args(["--", "--check", "--verbose"]).output().ok()?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = told.lines().filter_map(|line| line.strip_prefix("Formatting "));
    let found: BTreeSet<_> = names.filter_map(|name| Path::new(name).canonicalize().ok()).collect();
    (!found.is_empty()).then_some(found)
}

/// Programs under `tests` are what tests compile and run.
fn is_for_cargo(name: &str) -> bool {
    name.ends_with(".rs") && !name.starts_with("tests/")
}

#[test]
fn cargo_sees_every_source() {
    let Some(files) = tracked() else { trial::ignore("not a git work tree") };
    let mut seen = BTreeSet::new();
    let all = workspaces();
    assert!(all.len() > 2, "{all:?}");
    for manifest in &all {
        let Some(found) = formatted(manifest) else { trial::ignore("there's no rustfmt") };
        seen.extend(found);
    }
    let root = prebuilt::root();
    let mut lost = Vec::new();
    for path in files {
        let name = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
        if is_for_cargo(&name) && !path.canonicalize().is_ok_and(|path| seen.contains(&path)) {
            lost.push(name);
        }
    }
    none(&lost, "no target of cargo has these files as its modules");
}

/// Cargo's packages follow links to the licenses, and to the objects that `mcount demo` shows.
#[test]
fn no_source_is_a_link() {
    let Some(files) = tracked() else { trial::ignore("not a git work tree") };
    let is_link = |path: &&PathBuf| path.symlink_metadata().is_ok_and(|it| it.is_symlink());
    let is_source = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !name.starts_with("LICENSE-") && path.extension().is_none_or(|extension| extension != "o")
    };
    let links = files.iter().filter(is_link).filter(is_source);
    none(&links.map(|path| path.display().to_string()).collect::<Vec<_>>(), "links to sources");
}

#[test]
fn nothing_unused_is_kept() {
    // Put together here, so that this file doesn't say it itself.
    let wrong = ["allow(", "dead_code"].concat();
    let manifests = files_in("", |path| path.ends_with("Cargo.toml"));
    let is_wrong = |_: &str, line: &str| {
        line.contains(&wrong) || line.replace(' ', "").starts_with("dead_code=")
    };
    none(&offences(&sources(""), is_wrong), "code that nothing uses");
    none(&offences(&manifests, is_wrong), "code that nothing uses");
}
