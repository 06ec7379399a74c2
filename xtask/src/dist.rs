//! `cargo xtask dist [DIR]`: the two programs, man pages, completions and the libraries for C, in one folder (`dist/`).

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
    libraries(&folder)?;
    println!("{}: bin, man, completions, include, lib", folder.display());
    Ok(true)
}

/// `libmcount-live`, its header, and what pkg-config knows of it. The folder may be moved.
fn libraries(folder: &Path) -> Result<()> {
    let (include, lib) = (folder.join("include/mcount"), folder.join("lib"));
    let known = lib.join("pkgconfig");
    for folder in [&include, &known] {
        crate::files::make_folder(folder)?;
    }
    let workspace = crate::files::workspace();
    for header in ["live.h", "mark.h"] {
        fs::copy(workspace.join("include/mcount").join(header), include.join(header))?;
    }
    let built = programs::build_libraries("mcount-inside-c", Profile::Dist)?;
    let (archive, shared) = (lib.join("libmcount-live.a"), lib.join("libmcount-live.so.0"));
    fs::copy(built.join("libmcount_live_c.a"), &archive)?;
    fs::copy(built.join("libmcount_live_c.so"), &shared)?;
    // Programs that are linked with the archive would get all its debug information.
    output(Path::new("strip"), &["--strip-debug", &archive.to_string_lossy()])?;
    let link = lib.join("libmcount-live.so");
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink("libmcount-live.so.0", link)?;
    let text = crate::files::read(&workspace.join("crates/mcount-inside-c/mcount-live.pc"))?;
    let text = String::from_utf8(text)?;
    let text = text.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    let text = text.replace("@REPOSITORY@", env!("CARGO_PKG_REPOSITORY"));
    crate::files::write(&known.join("mcount-live.pc"), text.as_bytes())
}

fn output(program: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new(program).args(arguments).output()?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(format!("{} {}: {}", program.display(), arguments.join(" "), output.status).into())
}
