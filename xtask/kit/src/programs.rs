//! Builds this project's programs for a chore that runs them: with [`Profile::Release`] for chores that ask whether the
//! results are right, with [`Profile::Dist`] for those that measure or install.

use std::path::PathBuf;
use std::process::Command;

use crate::{Result, files};

/// A profile of the workspace's `Cargo.toml`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// Quick to build.
    Release,
    /// What people install.
    Dist,
}

impl Profile {
    /// What cargo calls it, and its folder.
    fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Dist => "dist",
        }
    }
}

/// Builds the programs of `package`, and returns the folder that holds them.
pub fn build(package: &str, profile: Profile) -> Result<PathBuf> {
    build_those("--bins", package, profile)
}

/// The `mcount` that was given, or the one of this checkout, which is built.
pub fn mcount(given: Option<PathBuf>) -> Result<PathBuf> {
    match given {
        Some(path) => Ok(std::path::absolute(path)?),
        None => Ok(build("mcount-cli", Profile::Release)?.join("mcount")),
    }
}

/// Builds the libraries of `package`, and returns the folder that holds them.
pub fn build_libraries(package: &str, profile: Profile) -> Result<PathBuf> {
    build_those("--lib", package, profile)
}

fn build_those(what: &str, package: &str, profile: Profile) -> Result<PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", what, "--profile", profile.name(), "-p", package]);
    if !cargo.current_dir(files::workspace()).status()?.success() {
        return Err(format!("{package} does not build").into());
    }
    Ok(files::target().join(profile.name()))
}
