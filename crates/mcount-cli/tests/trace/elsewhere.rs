//! Programs that were compiled elsewhere, for a machine that has no compilers: one that `cargo xtask outside` boots.
//!
//! `MCOUNT_PROGRAMS` names a folder with them, by what they're compiled of. What isn't there is written to a list of what's wanted, so
//! the tests are run once elsewhere to find that out.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The folder, if programs are compiled elsewhere.
pub(crate) fn folder() -> Option<PathBuf> {
    std::env::var_os("MCOUNT_PROGRAMS").map(PathBuf::from)
}

/// Puts the program that these words say how to compile at `output`.
pub(crate) fn copy(folder: &Path, words: &[&str], output: &Path) -> Result<(), String> {
    let name = format!("{:016x}", hash(words.join(" ").as_bytes()));
    let program = folder.join(&name);
    if folder.join(format!("{name}.failed")).exists() {
        testkit::trial::ignore("it doesn't compile for this processor".to_owned());
    }
    if program.exists() {
        return testkit::files::write_program(output, &testkit::files::read(&program)?);
    }
    let wanted = OpenOptions::new().append(true).create(true).open(folder.join("wanted"));
    let written = wanted.and_then(|mut file| file.write_all(line(&name, words).as_bytes()));
    written.map_err(|error| error.to_string())
}

/// What the list says of one.
fn line(name: &str, words: &[&str]) -> String {
    format!("{name} {}\n", words.join(" "))
}

/// FNV-1a, which is the same everywhere.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}
