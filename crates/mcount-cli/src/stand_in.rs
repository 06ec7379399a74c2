//! Takes the place of the linker that a compiler runs.
//!
//! `mcount link -- gcc -MMD main.c one.o -o program` compiles and links. We only want to repeat the link,
//! and it must not show in what gcc writes beside the program, which is `program-main.d` here. So gcc
//! runs once, as it was given, and finds this program where it looks for its linker:
//!
//! ```text
//! mcount link -- gcc -MMD main.c one.o -o program
//!   COMPILER_PATH=/tmp/mcount-link-1 gcc -MMD main.c one.o -o program
//!     cc1, as: compile main.c to /tmp/cc1.o
//!     collect2
//!       /tmp/mcount-link-1/ld -o program crt1.o /tmp/cc1.o one.o -lc    this program again
//!         /usr/bin/ld -o .program.mcount-link/program ...               as often as necessary
//! ```
//!
//! gcc and clang first look in the folders of `-B`, and then in `COMPILER_PATH`. If there is a `-B`, we
//! put one of ours before it.

use crate::arguments::{Argument, Meaning};
use crate::children;
use crate::commit::{about, write_new};
use crate::files::Input;
use crate::linker::Command;
use crate::response;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};

/// The environment variable that tells the stand-in its folder.
const FOLDER: &str = "MCOUNT_LINK_FOLDER";

/// The environment variable with which compilers find their programs.
const COMPILER_PATH: &str = "COMPILER_PATH";

/// The names with which compilers look for linkers.
const LINKERS: &[&str] = &["ld", "ld.bfd", "ld.gold", "ld.lld", "ld.mold"];

/// The file with the words of our own command, as a response file.
const OPTIONS: &str = "options";
/// The file with the words of the compiler's command up to its name.
const COMPILER: &str = "compiler";
/// The file with the words after it that say where its programs are.
const ARGUMENTS: &str = "arguments";
/// The file with the `COMPILER_PATH` that was set before.
const PATH: &str = "path";
/// The file with the path of the linker, if the command has it.
const LINKER: &str = "linker";
/// The file with what the stand-in says: see [`Said`].
const SAID: &str = "said";

/// How the link ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    /// The compiler ran no linker, or another one.
    Nothing,
    /// The linker ran, and ended in some way.
    Linked,
    /// We had an error, and printed it.
    Refused,
}

/// A folder of programs with the names of linkers. All of them are this program. It is removed when
/// dropped.
pub(crate) struct StandIn(PathBuf);

impl StandIn {
    /// A stand-in for the compiler that is the word `at` of `command`, with our own `options`.
    ///
    /// # Errors
    ///
    /// The folder can't be made.
    pub(crate) fn new(command: &Command, at: usize, options: &[OsString]) -> io::Result<Self> {
        let stand_in = Self(new_folder()?);
        stand_in.furnish(command, at, options).map_err(|error| about(&stand_in.0, error))?;
        Ok(stand_in)
    }

    fn furnish(&self, command: &Command, at: usize, options: &[OsString]) -> io::Result<()> {
        let this = env::current_exe()?;
        for name in LINKERS {
            symlink(&this, self.0.join(name))?;
        }
        for argument in command.arguments() {
            let name = match &argument.meaning {
                Meaning::UseLinker(name) if is_path(name) => self.name_for(name)?,
                Meaning::UseLinker(kind) => joined([OsStr::new("ld."), kind]),
                Meaning::LinkerPath(path) => self.name_for(path)?,
                _ => continue,
            };
            match symlink(&this, self.0.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        let compiler = command.as_given().get(..=at).unwrap_or_default();
        let arguments: Vec<OsString> = command
            .arguments()
            .iter()
            .filter(|argument| {
                argument.meaning == Meaning::ProgramFolder
                    || command.words_of(argument).first().is_some_and(|word| is_about_place(word))
            })
            .flat_map(|argument| command.words_of(argument).iter().cloned())
            .collect();
        write_new(&self.0.join(OPTIONS), &response::text(options))?;
        write_new(&self.0.join(COMPILER), &response::text(compiler))?;
        write_new(&self.0.join(ARGUMENTS), &response::text(&arguments))?;
        match env::var_os(COMPILER_PATH) {
            Some(path) => write_new(&self.0.join(PATH), path.as_bytes()),
            None => Ok(()),
        }
    }

    /// Stores the path of the linker to run. Returns its name in the folder.
    fn name_for(&self, path: &OsStr) -> io::Result<OsString> {
        write_new(&self.0.join(LINKER), path.as_bytes())?;
        Ok(Path::new(path).file_name().unwrap_or(path).to_owned())
    }

    /// The compiler's command, changed so that it runs the stand-in.
    pub(crate) fn command(&self, command: &Command, at: usize) -> process::Command {
        let mut words = command.as_given().to_vec();
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        // The last one counts.
        words.splice(end..end, self.linker_options(command.arguments()));
        let mut meanings = command.arguments().iter().map(|argument| &argument.meaning);
        if meanings.any(|meaning| *meaning == Meaning::ProgramFolder) {
            words.insert(at + 1, joined([OsStr::new("-B"), self.0.as_os_str(), OsStr::new("/")]));
        }
        let mut compiler = process::Command::new(words.first().cloned().unwrap_or_default());
        let mut path = self.0.clone().into_os_string();
        if let Some(others) = env::var_os(COMPILER_PATH).filter(|others| !others.is_empty()) {
            path.push(":");
            path.push(others);
        }
        compiler.args(words.iter().skip(1)).env(COMPILER_PATH, path).env(FOLDER, &self.0);
        compiler
    }

    /// Options that name the stand-in, if the command names the path of a linker.
    fn linker_options(&self, arguments: &[Argument]) -> Vec<OsString> {
        let last = arguments.iter().rev().find_map(|argument| match &argument.meaning {
            Meaning::UseLinker(path) if is_path(path) => Some(self.option("-fuse-ld=", path)),
            Meaning::LinkerPath(path) => Some(self.option("--ld-path=", path)),
            _ => None,
        });
        last.into_iter().collect()
    }

    /// `option` with the path of the stand-in that has the name of the linker at `path`.
    fn option(&self, option: &str, path: &OsStr) -> OsString {
        let name = Path::new(path).file_name().unwrap_or(path);
        joined([OsStr::new(option), self.0.join(name).as_os_str()])
    }

    /// The messages of the stand-in.
    pub(crate) fn said(&self) -> Said {
        match Input::open(&self.0.join(SAID)) {
            Ok(input) if input.bytes() == b"linked" => Said::Linked,
            Ok(_) => Said::Refused,
            Err(_) => Said::Nothing,
        }
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        // It is in the folder for temporary files, so it doesn't matter if it can't be removed.
        let _ = fs::remove_dir_all(&self.0);
        children::finish(&self.0);
    }
}

/// A new folder for temporary files, which a signal removes.
fn new_folder() -> io::Result<PathBuf> {
    let mut number = 0;
    loop {
        let name = format!("mcount-link-{}-{number}", process::id());
        let folder = env::temp_dir().join(name);
        match children::begin(&folder, || DirBuilder::new().mode(0o700).create(&folder)) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(about(&folder, error)),
        }
    }
}

/// Whether this option changes where a compiler looks for its programs. We must not pass other options
/// when we ask: clang removes the file of `--serialize-diagnostics` as soon as it starts.
fn is_about_place(option: &OsStr) -> bool {
    const PLACES: &[&str] = &[
        "-m",
        "-target",
        "--target",
        "--sysroot",
        "-specs",
        "--specs",
        "-gcc-toolchain",
        "--gcc-toolchain",
        "--gcc-install-dir",
        "--gcc-triple",
        "-ccc-install-dir",
        "--driver-mode",
    ];
    PLACES.iter().any(|place| option.as_bytes().starts_with(place.as_bytes()))
}

/// Whether a linker is given as a path, not as the end of a name.
fn is_path(linker: &OsStr) -> bool {
    linker.as_bytes().contains(&b'/')
}

/// A name made of these parts.
fn joined<const COUNT: usize>(parts: [&OsStr; COUNT]) -> OsString {
    parts.into_iter().collect()
}

/// The folder, if the words of this process's own command, `called`, are those of a stand-in.
fn folder_of(called: &[OsString]) -> Option<PathBuf> {
    let folder = PathBuf::from(env::var_os(FOLDER)?);
    (Path::new(called.first()?).parent()? == folder).then_some(folder)
}

/// The arguments for `mcount`, if a compiler `called` it as its linker.
pub(crate) fn arguments(called: &[OsString]) -> Option<Vec<OsString>> {
    let folder = folder_of(called)?;
    let linker = linker(&folder, Path::new(called.first()?).file_name()?);
    let mut arguments = vec![OsString::from("mcount")];
    arguments.extend(words(&folder.join(OPTIONS)));
    arguments.extend(["--linker".into(), "--".into(), linker]);
    arguments.extend(called.iter().skip(1).cloned());
    Some(arguments)
}

/// The linker that the compiler would have run as `name`: a path, or a name to look up.
fn linker(folder: &Path, name: &OsStr) -> OsString {
    if let Ok(input) = Input::open(&folder.join(LINKER)) {
        return OsStr::from_bytes(input.bytes()).to_owned();
    }
    let compiler = words(&folder.join(COMPILER));
    let Some((program, launched)) = compiler.split_first() else { return name.to_owned() };
    let question = joined([OsStr::new("-print-prog-name="), name]);
    let mut command = process::Command::new(program);
    command.args(launched).arg(question).args(words(&folder.join(ARGUMENTS)));
    match Input::open(&folder.join(PATH)) {
        Ok(path) => command.env(COMPILER_PATH, OsStr::from_bytes(path.bytes())),
        Err(_) => command.env_remove(COMPILER_PATH),
    };
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
    let answer = output.ok().filter(|output| output.status.success());
    let answer = answer.map(|output| output.stdout.trim_ascii_end().to_vec());
    match answer.filter(|answer| !answer.is_empty() && !answer.contains(&b'\n')) {
        Some(answer) => OsStr::from_bytes(&answer).to_owned(),
        None => name.to_owned(),
    }
}

fn words(path: &Path) -> Vec<OsString> {
    Input::open(path).map(|input| response::words(input.bytes())).unwrap_or_default()
}

/// Tells the process that waits for the compiler how the link ended, if this is a stand-in.
pub(crate) fn say(said: Said) {
    let called: Vec<OsString> = env::args_os().take(1).collect();
    if let Some(folder) = folder_of(&called) {
        let text: &[u8] = if said == Said::Refused { b"refused" } else { b"linked" };
        // If this can't be written, that process says that no linker ran.
        let _ = write_new(&folder.join(SAID), text);
    }
}
