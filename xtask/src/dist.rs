//! `cargo xtask dist [DIR]`: the two programs, man pages and completions, in one folder (`dist/`).

use crate::Result;
use crate::programs::{self, Profile};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs the chore.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let folder = match parser.next()? {
        Some(lexopt::Arg::Value(folder)) => PathBuf::from(folder),
        Some(other) => return Err(other.unexpected().into()),
        None => PathBuf::from("dist"),
    };
    let programs = programs::build("mcount-cli", Profile::Dist)?;
    let (bin, man, completions) =
        (folder.join("bin"), folder.join("man/man1"), folder.join("completions"));
    for folder in [&bin, &man, &completions] {
        crate::files::make_folder(folder)?;
    }
    for program in ["mcount", "recordmcount"] {
        fs::copy(programs.join(program), bin.join(program))?;
    }
    let mcount = bin.join("mcount");
    output(&mcount, &["man", &man.to_string_lossy()])?;
    for (shell, file) in [("bash", "mcount"), ("zsh", "_mcount"), ("fish", "mcount.fish")] {
        let script = output(&mcount, &["completions", shell])?;
        crate::files::write(&completions.join(file), &script)?;
    }
    println!("{}: bin, man, completions", folder.display());
    Ok(true)
}

fn output(program: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new(program).args(arguments).output()?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(format!("{} {}: {}", program.display(), arguments.join(" "), output.status).into())
}
