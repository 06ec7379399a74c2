//! Finding compilers, linkers and emulators. A test that wants one skips where it is missing, and
//! says so; with `MCOUNT_REQUIRE_TOOLS=1`, as in CI, it fails instead, so that no test is lost
//! without anybody noticing.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// Whether a test can run here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    /// All tools are here.
    Here,
    /// Some are not, which is no failure; the reason names them.
    Skip(String),
    /// Some are not, and that is a failure.
    Fail(String),
}

/// Looks `programs` up in `PATH`, and applies the rule of `MCOUNT_REQUIRE_TOOLS`.
pub fn availability<'a>(programs: impl IntoIterator<Item = &'a str>) -> Availability {
    let missing: Vec<&str> =
        programs.into_iter().filter(|program| find(program).is_none()).collect();
    judge(&missing, required())
}

/// Whether a test that wants `programs` can run, for those that only return otherwise.
///
/// # Panics
///
/// If one is missing that must be here.
#[expect(clippy::print_stdout, clippy::panic, reason = "a test is told why it skips or fails")]
pub fn are_here<'a>(programs: impl IntoIterator<Item = &'a str>) -> bool {
    match availability(programs) {
        Availability::Here => true,
        Availability::Skip(reason) => {
            println!("skipped: {reason}");
            false
        }
        Availability::Fail(reason) => panic!("{reason}"),
    }
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

fn judge(missing: &[&str], required: bool) -> Availability {
    if missing.is_empty() {
        return Availability::Here;
    }
    let reason = format!("not installed: {}", missing.join(", "));
    if required { Availability::Fail(reason) } else { Availability::Skip(reason) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tools_skip_or_fail() {
        assert_eq!(judge(&[], true), Availability::Here);
        assert_eq!(judge(&["a", "b"], false), Availability::Skip("not installed: a, b".into()));
        assert_eq!(judge(&["a"], true), Availability::Fail("not installed: a".into()));
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
