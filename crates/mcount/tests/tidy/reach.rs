//! Rules about the files that git has: rustfmt, clippy and the compiler reach every source, and each processor has one folder.

use crate::{files_in, none, offences, sources, text};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::{prebuilt, test, trial};

/// The names of the files that git has.
fn tracked() -> Option<Vec<PathBuf>> {
    let root = prebuilt::root();
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(&root).output().ok()?;
    let names = String::from_utf8(output.stdout).unwrap();
    let files = names.split('\0').filter(|name| !name.is_empty()).map(|name| root.join(name));
    let files: Vec<_> = files.filter(|path| path.is_file()).collect();
    (output.status.success() && !files.is_empty()).then_some(files)
}

#[test]
fn no_path_of_a_machine() {
    let Some(files) = tracked() else {
        trial::ignore("not a git work tree");
    };
    // Put together here, so that this file has none itself.
    let paths = [["/wo", "rk/"].concat(), ["/ho", "me/"].concat(), ["/ro", "ot/"].concat()];
    for path in files {
        let text = text(&path);
        for wrong in &paths {
            assert!(!text.contains(wrong.as_str()), "{}: {wrong}", path.display());
        }
    }
}

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
fn is_for_cargo(name: &Path) -> bool {
    name.extension().is_some_and(|extension| extension == "rs") && !name.starts_with("tests")
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
        let name = path.strip_prefix(&root).unwrap_or(&path);
        if is_for_cargo(name) && !path.canonicalize().is_ok_and(|path| seen.contains(&path)) {
            lost.push(name.display().to_string());
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

/// Where a processor may have a file or a folder of its own.
const PROCESSORS: [&str; 3] =
    ["crates/mcount-cpu/src", "crates/mcount/src/arch", "crates/mcount-symbols/src/arch"];

/// Where processors have some besides that belong into their folders of `mcount-cpu`.
const STRAYS: [&str; 3] = [
    "crates/mcount-inside/src/arch",
    "crates/mcount-inside/src/registers",
    "crates/mcount-inside/src/routines",
];

#[test]
fn a_processor_has_one_folder() {
    let Some(files) = tracked() else { trial::ignore("not a git work tree") };
    let root = prebuilt::root();
    let is_source = |path: &&Path| {
        let is_code = path.extension().is_some_and(|it| it == "rs" || it == "s");
        path.starts_with("crates") && is_code && path.iter().all(|part| part != "tests")
    };
    let names = files.iter().filter_map(|path| path.strip_prefix(&root).ok());
    let names: Vec<&Path> = names.filter(is_source).collect();
    let folders = names
        .iter()
        .filter_map(|path| path.strip_prefix(PROCESSORS[0]).ok()?.parent()?.iter().next());
    let processors: BTreeSet<_> = folders.collect();
    assert!(processors.len() > 7, "{processors:?}");
    let is_named =
        |path: &Path| path.iter().chain(path.file_stem()).any(|part| processors.contains(part));
    let of_one: Vec<_> = names.iter().copied().filter(|path| is_named(path)).collect();
    let is_in = |path: &Path, places: &[&str]| places.iter().any(|place| path.starts_with(place));
    let is_wrong = |path: &&&Path| !is_in(path, &PROCESSORS) && !is_in(path, &STRAYS);
    let wrong: Vec<_> =
        of_one.iter().filter(is_wrong).map(|path| path.display().to_string()).collect();
    none(&wrong, "a processor's files belong into its folder of mcount-cpu");
    for place in STRAYS {
        let is_left = of_one.iter().any(|path| path.starts_with(place));
        assert!(
            is_left,
            "{place}: no processor has files there any more, so it needs no exception"
        );
    }
}
