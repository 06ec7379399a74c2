//! Programs that were compiled elsewhere, for a machine that has no compilers: one that `cargo lab outside` boots.
//!
//! `MCOUNT_PROGRAMS` names a folder with them, by what they're compiled of. What isn't there is written to a list of what's wanted, so
//! the tests are run once elsewhere to find that out. A word of that list which begins with `@` is a source: one of `tests`, or one
//! that a test has written, of which the folder has a copy. A test that asks for a program only once it has used another one isn't heard
//! then, as it has failed before: so tests ask for all at their start. Where a file `complete` is in the folder, what isn't there is
//! an error that says so.

use crate::files;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Of a folder that gets no more programs.
const COMPLETE: &str = "complete";

/// The folder, if programs are compiled elsewhere.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    std::env::var_os("MCOUNT_PROGRAMS").map(PathBuf::from)
}

/// Which of the programs that a test wants are wanted here: compilers are where programs are compiled.
#[must_use]
pub fn wanted(mut programs: Vec<&'static str>) -> Vec<&'static str> {
    const COMPILERS: [&str; 6] = ["gcc", "g++", "clang", "clang++", "musl-gcc", "rustc"];
    if folder().is_some() {
        programs.retain(|program| !COMPILERS.contains(program));
    }
    programs
}

/// Puts the program at `output` that a compiler with these flags makes of these sources, each of which is in the folder `tests`, or has
/// a whole path. Where it's only asked for, nothing is there.
///
/// # Errors
///
/// It can't be written, or asked for.
pub fn copy(
    folder: &Path,
    compiler: &[&str],
    sources: &[&str],
    output: &Path,
) -> Result<(), String> {
    if compiler.iter().any(|word| word.starts_with('/')) {
        ignore("it's linked with a library that the test makes");
    }
    let mut words: Vec<String> = compiler.iter().map(|word| (*word).to_owned()).collect();
    for source in sources {
        words.push(word_of(folder, source)?);
    }
    let words = words.join(" ");
    // What's asked for isn't what was there before.
    let _ = std::fs::remove_file(output);
    let name = format!("{:016x}", hash(words.as_bytes()));
    let program = folder.join(&name);
    if folder.join(format!("{name}.failed")).exists() {
        ignore("it doesn't compile for this processor");
    }
    if program.exists() {
        return files::copy_program(&program, output);
    }
    if folder.join(COMPLETE).exists() {
        return Err(format!("it wasn't asked for when programs were compiled: {words}"));
    }
    let wanted = OpenOptions::new().append(true).create(true).open(folder.join("wanted"));
    let line = format!("{name} {words}\n");
    let written = wanted.and_then(|mut file| file.write_all(line.as_bytes()));
    written.map_err(|error| error.to_string())
}

#[cfg(feature = "harness")]
fn ignore(why: &str) {
    crate::trial::ignore(why.to_owned());
}

#[cfg(not(feature = "harness"))]
fn ignore(_why: &str) {}

/// A source as the list has it. One that a test has written is named by what it says.
fn word_of(folder: &Path, source: &str) -> Result<String, String> {
    let path = Path::new(source);
    if !path.is_absolute() {
        return Ok(format!("@{source}"));
    }
    let bytes = files::read(path)?;
    let kind = path.extension().unwrap_or_default().to_string_lossy();
    let name = format!("{:016x}.{kind}", hash(&bytes));
    let copy = folder.join(&name);
    if !copy.exists() {
        files::write(&copy, &bytes)?;
    }
    Ok(format!("@{name}"))
}

/// FNV-1a, which is the same everywhere.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}
