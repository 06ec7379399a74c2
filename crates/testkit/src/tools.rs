//! Finds compilers, linkers and emulators. A test that needs one that is missing is ignored, with the reason.
//! With `MCOUNT_REQUIRE_TOOLS=1`, as in CI, it fails instead, so that no test is lost unnoticed.

use crate::ignored::ignore;
use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// A compiler for one processor, and what runs its programs.
#[derive(Debug, Clone, Copy)]
pub struct Toolchain {
    /// What tests call it, such as `aarch64`.
    pub name: &'static str,
    /// The program, looked up in `PATH`; it links as well.
    pub compiler: &'static str,
    /// Flags of every run of the compiler.
    pub flags: &'static [&'static str],
    /// The user-mode emulator, or none where this machine runs the programs itself.
    pub qemu: Option<&'static str>,
    /// Where the dynamic linker and the C library are, for the emulator.
    pub sysroot: Option<&'static str>,
}

impl Toolchain {
    /// The compiler with its flags.
    #[must_use]
    pub fn compile(&self) -> Command {
        let mut command = Command::new(self.compiler);
        command.args(self.flags);
        command
    }

    /// The command that runs `program`.
    #[must_use]
    pub fn execute(&self, program: &Path) -> Command {
        let Some(qemu) = self.qemu else { return Command::new(program) };
        let mut command = Command::new(qemu);
        if let Some(sysroot) = self.sysroot {
            command.args(["-L", sysroot]);
        }
        command.arg(program);
        command
    }

    /// The binary utility `name` (`objcopy`, `strip`, `ar`) that goes with the compiler:
    /// `PREFIX-objcopy` with `PREFIX-gcc`, `llvm-objcopy-19` with `clang-19`.
    #[must_use]
    pub fn utility(&self, name: &str) -> String {
        match (self.compiler.strip_suffix("gcc"), self.compiler.strip_prefix("clang")) {
            (Some(prefix), _) => format!("{prefix}{name}"),
            (None, version) => format!("llvm-{name}{}", version.unwrap_or_default()),
        }
    }

    /// The programs without which it is no use.
    pub fn programs(&self) -> impl Iterator<Item = &'static str> {
        [self.compiler].into_iter().chain(self.qemu)
    }
}

/// Ends the test that runs here if one of `programs` is missing, or a compiler's C library: the test is reported as
/// ignored.
///
/// # Panics
///
/// `MCOUNT_REQUIRE_TOOLS` says that nothing may be missing.
pub fn need<'a>(programs: impl IntoIterator<Item = &'a str>) {
    let missing: Vec<String> = programs.into_iter().filter_map(missing).collect();
    if missing.is_empty() {
        return;
    }
    let reason = format!("not installed: {}", missing.join(", "));
    assert!(!required(), "{reason}");
    ignore(reason);
}

/// The missing part of `program`: itself, or the C library of a compiler.
fn missing(program: &str) -> Option<String> {
    if find(program).is_none() {
        return Some(program.to_owned());
    }
    let is_cross = program.ends_with("-gcc") || program.ends_with("-g++");
    (is_cross && !has_c_library(program)).then(|| format!("the C library of {program}"))
}

/// Whether `compiler` finds the file that every program of the C library begins with. On Debian, compilers for other
/// processors and their C libraries are separate packages.
fn has_c_library(compiler: &str) -> bool {
    static ANSWERS: Mutex<BTreeMap<String, bool>> = Mutex::new(BTreeMap::new());
    let mut answers = ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(answer) = answers.get(compiler) {
        return *answer;
    }
    let mut ask = Command::new(compiler);
    let asked = ask.arg("-print-file-name=crt1.o").stdin(Stdio::null()).output();
    let said = asked.map(|output| output.stdout).unwrap_or_default();
    // A file that isn't found is named without a folder.
    let answer = Path::new(String::from_utf8_lossy(&said).trim()).is_absolute();
    answers.insert(compiler.to_owned(), answer);
    answer
}

/// The file that `program` names in `PATH`.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The names of the programs in `PATH` that `is_wanted` takes, sorted.
#[must_use]
pub fn programs(is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).filter_map(|folder| folder.read_dir().ok());
    let names = folders.flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> = names.filter(|name| is_wanted(name)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Whether a missing tool is a failure.
fn required() -> bool {
    env::var_os("MCOUNT_REQUIRE_TOOLS").is_some_and(|value| value == "1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files;

    #[test]
    fn a_compiler_is_missing_without_its_c_library() {
        let folder = tempfile::tempdir().unwrap();
        let script = |name: &str, said: &str| {
            let path = folder.path().join(name);
            files::write_program(&path, format!("#!/bin/sh\necho {said}\n").as_bytes()).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let complete = script("complete-gcc", "/usr/lib/crt1.o");
        let bare = script("bare-gcc", "crt1.o");
        assert_eq!(missing(&complete), None);
        assert_eq!(missing(&bare), Some(format!("the C library of {bare}")));
        assert_eq!(missing("no-such-gcc"), Some("no-such-gcc".to_owned()));
    }

    #[test]
    fn tools_are_found_in_path() {
        assert!(find("sh").is_some());
        assert!(find("no-such-tool").is_none());
    }

    #[test]
    fn the_emulator_is_told_where_the_libraries_are() {
        let toolchain = Toolchain {
            name: "arm",
            compiler: "arm-linux-gnueabi-gcc",
            flags: &["-marm"],
            qemu: Some("qemu-arm"),
            sysroot: Some("/usr/arm-linux-gnueabi"),
        };
        let command = toolchain.execute(Path::new("/p"));
        let arguments: Vec<_> = command.get_args().collect();
        assert_eq!(command.get_program(), "qemu-arm");
        assert_eq!(arguments, ["-L", "/usr/arm-linux-gnueabi", "/p"]);
        assert_eq!(toolchain.utility("objcopy"), "arm-linux-gnueabi-objcopy");
        let clang = Toolchain { compiler: "clang-19", ..toolchain };
        assert_eq!(clang.utility("ar"), "llvm-ar-19");
    }
}
