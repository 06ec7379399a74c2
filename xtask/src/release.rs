//! `cargo xtask release --dry-run`: goes through the list of `docs/release.md`, and says of each item whether it holds.
//!
//! Nothing leaves this machine: publishing is done by hand, with the commands that the document has.

use std::path::{Path, PathBuf};
use std::process::Command;

use lexopt::ValueExt as _;

use crate::{Result, deb, files};

/// The packages that go to crates.io, in the order in which they need each other.
const CRATES: [&str; 14] = [
    "mcount",
    "mcount-cpu",
    "mcount-hooks",
    "mcount-ptrace",
    "mcount-layout",
    "mcount-trace",
    "mcount-recorder",
    "mcount-agent",
    "mcount-inside",
    "mcount-store",
    "mcount-symbols",
    "mcount-tracer",
    "mcount-view",
    "mcount-cli",
];
/// The target of the program that needs no C library.
const STATIC: &str = "x86_64-unknown-linux-musl";

/// An item of the list: what must hold, and what finds out.
type Item = (&'static str, fn(&Path) -> Result<bool>);

const ITEMS: [Item; 7] = [
    ("the tree has no changes that aren't committed", is_committed),
    ("the changelog knows the version", knows_version),
    ("each crate packs, and builds from its package", packs),
    ("two builds have the same bytes", is_reproducible),
    ("packages of Debian: lintian has nothing to say", is_clean),
    ("packages of Debian: they install, run and go away", installs),
    ("the static program runs", is_static),
];

/// Runs the chore.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    match parser.next()? {
        Some(lexopt::Arg::Long("dry-run")) => {}
        Some(other) => return Err(other.unexpected().into()),
        None => return Err("only --dry-run: docs/release.md says how to publish".into()),
    }
    let only: Vec<usize> = match parser.next()? {
        Some(lexopt::Arg::Long("only")) => vec![parser.value()?.parse()?],
        Some(other) => return Err(other.unexpected().into()),
        None => (1..=ITEMS.len()).collect(),
    };
    let folder = files::target().join("release-check");
    files::make_folder(&folder)?;
    let mut all = true;
    for (number, (what, holds)) in (1..).zip(ITEMS).filter(|(number, _)| only.contains(number)) {
        println!("== {number}. {what}");
        let answer = match holds(&folder) {
            Ok(true) => "yes".to_owned(),
            Ok(false) => "NO".to_owned(),
            Err(error) => format!("NO: {error}"),
        };
        all &= answer == "yes";
        println!("== {number}. {what}: {answer}");
    }
    Ok(all)
}

fn is_committed(_: &Path) -> Result<bool> {
    let changes = Command::new("git").args(["status", "--porcelain"]).output()?;
    print!("{}", String::from_utf8_lossy(&changes.stdout));
    Ok(changes.status.success() && changes.stdout.is_empty())
}

fn knows_version(_: &Path) -> Result<bool> {
    let text = String::from_utf8(files::read(&files::workspace().join("CHANGELOG.md"))?)?;
    let heading = format!("## {}", env!("CARGO_PKG_VERSION"));
    let is_there = |wanted: &str| text.lines().any(|line| line.starts_with(wanted));
    if !is_there(&heading) && is_there("## Unreleased") {
        println!("the top section becomes \"{heading}\" with the release");
        return Ok(true);
    }
    Ok(is_there(&heading))
}

fn packs(_: &Path) -> Result<bool> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["package", "--quiet", "--locked"]);
    cargo.args(CRATES.iter().flat_map(|name| ["-p", name]));
    Ok(cargo.current_dir(files::workspace()).status()?.success())
}

/// Where the programs of the first and of the second build are.
fn builds(folder: &Path) -> [PathBuf; 2] {
    ["first", "second"].map(|name| folder.join(name))
}

fn is_reproducible(folder: &Path) -> Result<bool> {
    let mut packages = Vec::new();
    for build in builds(folder) {
        let target = build.with_extension("target");
        let mut chore = Command::new(std::env::current_exe()?);
        chore.arg("dist").arg(&build).env("CARGO_TARGET_DIR", &target);
        if !chore.current_dir(files::workspace()).status()?.success() {
            return Ok(false);
        }
        packages.push(deb::build(&build)?);
    }
    let mut is_same = true;
    let second = packages.pop().unwrap_or_default();
    let first = packages.pop().unwrap_or_default();
    for (first, second) in first.iter().zip(&second) {
        let same = files::read(first)? == files::read(second)?;
        println!("{}: {}", first.display(), if same { "the same" } else { "DIFFERENT" });
        is_same &= same;
    }
    Ok(is_same)
}

/// The packages of the first build.
fn packages(folder: &Path) -> Result<Vec<PathBuf>> {
    let [first, _] = builds(folder);
    if !first.join("bin").is_dir() {
        return Err("there is no build: item 4 makes it".into());
    }
    deb::build(&first)
}

fn is_clean(folder: &Path) -> Result<bool> {
    deb::lint(&packages(folder)?)
}

fn installs(folder: &Path) -> Result<bool> {
    deb::install(&packages(folder)?)
}

fn is_static(_: &Path) -> Result<bool> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--profile", "dist", "--target", STATIC]);
    cargo.args(["-p", "mcount-cli", "--bins"]);
    if !cargo.current_dir(files::workspace()).status()?.success() {
        return Ok(false);
    }
    let program = files::target().join(STATIC).join("dist/mcount");
    let headers = Command::new("readelf").arg("-lW").arg(&program).output()?;
    let has_loader = String::from_utf8_lossy(&headers.stdout).contains("INTERP");
    Ok(!has_loader && Command::new(program).arg("demo").output()?.status.success())
}
