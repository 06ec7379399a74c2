//! What to do next if a program or process can't be traced as it was asked for: the command to run, as it's typed into a shell.

use super::processor;
use crate::commit::Failure;
use crate::files::Input;
use crate::words::shell_word;
use nix::libc;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

/// Why nothing is traced of the program at `path`, which has no hooks, and which was started by this command.
pub(super) fn no_hooks(path: &Path, command: &[OsString]) -> String {
    let compile = processor::PATCHABLE;
    let next = if processor::PROBES.is_some() {
        let words = shell_words(command);
        format!("make hooks: mcount trace --probe '*' -- {words}; or {compile}")
    } else {
        compile.to_owned()
    };
    let path = path.display();
    format!("{path}: no function has a hook; {next}; to trace only what it starts: --children")
}

/// The same of a process for which `words` were given on the command line, after the options.
pub(super) fn no_hooks_in_process(path: &Path, words: &str) -> String {
    let compile = processor::PATCHABLE;
    let next = if processor::PROBES.is_some() {
        format!("make hooks: mcount {words}; or {compile}")
    } else {
        compile.to_owned()
    };
    format!("no function of {} has a hook; {next}", path.display())
}

/// Why the program that `name` stands for wasn't executed, if the kernel says `error`.
pub(super) fn not_executed(name: &OsStr, error: io::Error) -> String {
    let path = Path::new(name);
    let said = path.display();
    let is_searched = !said.to_string().contains('/');
    match error.raw_os_error() {
        Some(libc::ENOENT) if is_searched && path.is_file() => {
            format!("{said}: it isn't in $PATH; for the one in this folder, write ./{said}")
        }
        Some(libc::ENOENT) if !is_searched && path.is_file() => {
            let interpreter = interpreter(path).unwrap_or_default();
            format!("{said}: its interpreter {interpreter} doesn't exist")
        }
        Some(libc::EACCES) if path.is_dir() => format!("{said}: is a folder"),
        Some(libc::EACCES) if !is_searched && path.is_file() => {
            let word = shell_word(name);
            format!("{said}: it isn't executable; if it's a program: chmod +x {word}")
        }
        Some(libc::ENOEXEC) => format!("{said}: {}", processor::FOREIGN),
        _ => format!("{said}: {}", Failure::from(error)),
    }
}

/// What a script names after `#!`, or a program as its dynamic linker.
fn interpreter(path: &Path) -> Option<String> {
    use object::read::elf::{ElfFile64, ProgramHeader as _};
    let input = Input::open(path).ok()?;
    let bytes = input.bytes();
    if let Some(script) = bytes.strip_prefix(b"#!") {
        let line = script.split(|byte| *byte == b'\n').next()?;
        return String::from_utf8_lossy(line).split_whitespace().next().map(str::to_owned);
    }
    let file = ElfFile64::<object::Endianness>::parse(bytes).ok()?;
    let endian = file.endian();
    let mut headers = file.elf_program_headers().iter();
    let name = headers.find_map(|one| one.interpreter(endian, bytes).ok()?)?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// A command line, as a shell takes it.
pub(super) fn shell_words(command: &[OsString]) -> String {
    command.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_program_was_not_executed() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        crate::files::append(&script, b"#!/nowhere/python -x\n").unwrap();
        let why = |path: &Path, error: i32| {
            let text = not_executed(path.as_os_str(), io::Error::from_raw_os_error(error));
            text.rsplit_once('/').map_or(text.clone(), |(_, end)| end.to_owned())
        };
        assert_eq!(why(&script, libc::ENOENT), "python doesn't exist");
        assert!(why(&script, libc::EACCES).ends_with("script"));
        assert!(why(folder.path(), libc::EACCES).ends_with(": is a folder"));
        assert!(why(&script, libc::ENOEXEC).ends_with(processor::FOREIGN));
    }
}
