//! Runs an experiment of `lab/`, a workspace of its own so that chores compile quickly.

use std::ffi::OsString;
use std::process::Command;

use crate::{Result, files};

/// Where the experiments are, seen from the workspace.
pub(crate) const MANIFEST: &str = "lab/Cargo.toml";

/// Cargo with `subcommand` of it. What is built is where all else is, so both have the same dependencies.
pub(crate) fn cargo(subcommand: &str) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.arg(subcommand).arg("--manifest-path").arg(files::workspace().join(MANIFEST));
    cargo.arg("--target-dir").arg(files::target());
    cargo
}

/// Runs the experiment that the first of `arguments` names; `false` if it says that something is wrong.
pub(crate) fn run(arguments: Vec<OsString>) -> Result<bool> {
    let status = cargo("run").arg("--quiet").arg("--").args(arguments).status()?;
    match status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(format!("the experiment ended with {status}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query;

    /// The lines of a lint table of `manifest`, whatever it's called there.
    fn lints(manifest: &str, begin: &str) -> Vec<String> {
        let text = String::from_utf8(files::read(&files::workspace().join(manifest)).unwrap());
        let text = text.unwrap();
        let table = text.split_once(begin).unwrap().1.split("\n[").next().unwrap();
        table
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn other_workspaces_have_the_lints_of_the_workspace() {
        for tool in ["rust", "clippy"] {
            let ours = lints("Cargo.toml", &format!("[workspace.lints.{tool}]\n"));
            assert!(ours.len() > 2);
            for manifest in [MANIFEST, query::MANIFEST] {
                let theirs = lints(manifest, &format!("[lints.{tool}]\n"));
                assert!(ours.iter().all(|line| theirs.contains(line)), "{manifest}");
            }
        }
    }
}
