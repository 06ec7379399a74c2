//! The programs that `cargo test` builds, for chores that run them themselves.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::Result;

/// A program with tests in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestProgram {
    /// Package and program, such as `mcount: costs`.
    pub name: String,
    /// Where it expects to run.
    pub folder: PathBuf,
    /// The file to run.
    pub program: PathBuf,
}

/// Builds what `cargo`, a `cargo test` with its packages, would run. `None` if it doesn't build.
pub fn build(cargo: &mut Command) -> Result<Option<Vec<TestProgram>>> {
    cargo.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let output = cargo.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Ok(None);
    }
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let programs = lines.map(|line| Ok(program(&serde_json::from_slice(line)?)));
    programs.filter_map(Result::transpose).collect::<Result<_>>().map(Some)
}

/// The test program that a message of cargo is about.
fn program(message: &Value) -> Option<TestProgram> {
    let text = |place: &str| message.pointer(place)?.as_str();
    let program = PathBuf::from(text("/executable")?);
    if message.pointer("/profile/test")? != true {
        return None;
    }
    let folder = Path::new(text("/manifest_path")?).parent()?.to_owned();
    let package = folder.file_name()?.to_str()?;
    let name = match (text("/target/kind/0")?, text("/target/name")?) {
        ("test", name) => format!("{package}: {name}"),
        ("lib", _) => format!("{package}: unit"),
        ("bin", name) => format!("{package}: unit of {name}"),
        _ => return None,
    };
    Some(TestProgram { name, folder, program })
}

/// What a test program says at its end, such as `3 passed, 0 failed, 1 ignored`.
#[must_use]
pub fn counts(said: &str) -> Option<String> {
    let result = said.lines().rev().find_map(|line| line.strip_prefix("test result: "))?;
    let (_, counts) = result.split_once(". ")?;
    Some(counts.split("; ").take(3).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_named_by_package() {
        let message = |kind: &str, is_test: bool| {
            serde_json::json!({
                "executable": "/t/costs-1", "profile": {"test": is_test}, "manifest_path": "/w/mcount/Cargo.toml",
                "target": {"kind": [kind], "name": "costs"},
            })
        };
        let found = program(&message("test", true)).unwrap();
        assert_eq!(
            (found.name.as_str(), found.folder),
            ("mcount: costs", PathBuf::from("/w/mcount"))
        );
        assert_eq!(program(&message("lib", true)).unwrap().name, "mcount: unit");
        assert_eq!(program(&message("bin", false)), None);
    }

    #[test]
    fn counts_are_those_of_the_last_line() {
        let said = "test a ... ok\n\ntest result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(counts(said).unwrap(), "3 passed, 1 failed, 2 ignored");
        assert_eq!(counts("killed"), None);
    }
}
