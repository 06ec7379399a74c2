//! `cargo xtask dist [--query] [DIR]`: the two programs, man pages, completions and the libraries for C, in one folder (`dist/`);
//! with `--query`, also `mcount-query`.

use crate::programs::{self, Profile};
use crate::{Result, query};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs the chore.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let (mut folder, mut has_query) = (PathBuf::from("dist"), false);
    while let Some(argument) = parser.next()? {
        match argument {
            lexopt::Arg::Value(given) => folder = PathBuf::from(given),
            lexopt::Arg::Long("query") => has_query = true,
            other => return Err(other.unexpected().into()),
        }
    }
    let programs = programs::build("mcount-cli", Profile::Dist)?;
    let (bin, man, completions) =
        (folder.join("bin"), folder.join("man/man1"), folder.join("completions"));
    for folder in [&bin, &man, &completions] {
        crate::files::make_folder(folder)?;
    }
    for program in ["mcount", "recordmcount"] {
        fs::copy(programs.join(program), bin.join(program))?;
    }
    if has_query {
        fs::copy(query::build()?, bin.join(query::PROGRAM))?;
    }
    let mcount = bin.join("mcount");
    output(&mcount, &["man", &man.to_string_lossy()])?;
    for (shell, file) in [("bash", "mcount"), ("zsh", "_mcount"), ("fish", "mcount.fish")] {
        let script = output(&mcount, &["completions", shell])?;
        crate::files::write(&completions.join(file), &script)?;
    }
    libraries(&folder)?;
    library_of_files(&folder)?;
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
    package_config(&known, "crates/mcount-inside-c/mcount-live.pc")
}

/// What pkg-config knows of a library, from the template `name` to the folder `known`.
fn package_config(known: &Path, name: &str) -> Result<()> {
    let template = crate::files::workspace().join(name);
    let text = String::from_utf8(crate::files::read(&template)?)?;
    let text = text.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    let text = text.replace("@REPOSITORY@", env!("CARGO_PKG_REPOSITORY"));
    crate::files::write(&known.join(template.file_name().unwrap_or_default()), text.as_bytes())
}

/// `libmcount`, its header and its manual. The compiler links the shared library, because rustc can't give
/// versions to symbols.
fn library_of_files(folder: &Path) -> Result<()> {
    let (include, lib, man) =
        (folder.join("include/mcount"), folder.join("lib"), folder.join("man/man3"));
    for folder in [&include, &lib, &man] {
        crate::files::make_folder(folder)?;
    }
    let workspace = crate::files::workspace();
    let sources = workspace.join("crates/mcount-c");
    fs::copy(workspace.join("include/mcount/file.h"), include.join("file.h"))?;
    let built = programs::build_libraries("mcount-c", Profile::Dist)?;
    let archive = lib.join("libmcount.a");
    fs::copy(built.join("libmcount_c.a"), &archive)?;
    output(Path::new("strip"), &["--strip-debug", &archive.to_string_lossy()])?;
    let shared = lib.join("libmcount.so.0");
    let map = format!("-Wl,--version-script={}", sources.join("libmcount.map").display());
    let (archive, shared) = (archive.to_string_lossy(), shared.to_string_lossy());
    let mut arguments = vec!["-shared", "-o", &*shared, "-Wl,-soname,libmcount.so.0", &*map];
    arguments.extend(["-Wl,--gc-sections", "-Wl,-z,relro,-z,now", "-Wl,--strip-all"]);
    arguments.extend(["-Wl,--build-id=sha1", "-Wl,--whole-archive", &*archive]);
    arguments.extend(["-Wl,--no-whole-archive", "-lpthread", "-ldl", "-lm"]);
    output(Path::new("cc"), &arguments)?;
    let link = lib.join("libmcount.so");
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink("libmcount.so.0", link)?;
    package_config(&lib.join("pkgconfig"), "crates/mcount-c/mcount.pc")?;
    let page = String::from_utf8(crate::files::read(&sources.join("mcount_file.3"))?)?;
    crate::files::write(&man.join("mcount_file.3"), page.as_bytes())?;
    // Each function leads to the page of all.
    for name in functions(&page).filter(|name| *name != "mcount_file") {
        crate::files::write(&man.join(format!("{name}.3")), b".so man3/mcount_file.3\n")?;
    }
    Ok(())
}

/// The functions in the section NAME of a manual page.
fn functions(page: &str) -> impl Iterator<Item = &str> {
    let names = page.split_once(".SH NAME\n").map_or("", |(_, rest)| rest);
    let names = names.split_once(" \\-").map_or("", |(names, _)| names);
    names.split([',', ' ', '\n']).filter(|name| !name.is_empty())
}

fn output(program: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new(program).args(arguments).output()?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(format!("{} {}: {}", program.display(), arguments.join(" "), output.status).into())
}
