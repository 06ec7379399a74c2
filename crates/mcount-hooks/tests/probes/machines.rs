//! The processors of the programs: compilers, binary utilities, and what runs a program.

use mcount_cpu::probe::Probes;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testkit::{prebuilt, tools};

/// A processor.
pub(crate) struct Machine {
    pub(crate) probes: &'static Probes,
    /// Where its programs are.
    folder: &'static str,
    /// What the names of its binary utilities begin with.
    prefix: &'static str,
    flags: &'static [&'static str],
    /// What runs its programs, if this machine doesn't.
    emulator: &'static [&'static str],
    /// Where there are libraries for it, and a variable that says where others are.
    libraries: (&'static str, &'static str),
    /// How `objdump` is told to decode bare code.
    pub(crate) bare: &'static str,
}

pub(crate) static X86_64: Machine = Machine {
    probes: &mcount_cpu::x86_64::probe::PROBES,
    folder: "tests/probes",
    prefix: "",
    flags: &["-fcf-protection=none"],
    emulator: &[],
    libraries: ("/usr/lib/x86_64-linux-gnu", "MCOUNT_LIBRARIES_X86_64"),
    bare: "i386:x86-64",
};

pub(crate) static AARCH64: Machine = Machine {
    probes: &mcount_cpu::aarch64::probe::PROBES,
    folder: "tests/probes/aarch64",
    prefix: "aarch64-linux-gnu-",
    flags: &[],
    emulator: &["qemu-aarch64", "-cpu", "max,sve=off", "-L", "/usr/aarch64-linux-gnu"],
    libraries: ("/usr/aarch64-linux-gnu/lib", "MCOUNT_LIBRARIES_AARCH64"),
    bare: "aarch64",
};

impl Machine {
    /// Where its programs are.
    pub(crate) fn folder(&self) -> PathBuf {
        prebuilt::root().join(self.folder)
    }

    /// Where there are libraries for it.
    pub(crate) fn libraries(&self) -> PathBuf {
        let (folder, variable) = self.libraries;
        std::env::var_os(variable).map_or_else(|| PathBuf::from(folder), PathBuf::from)
    }

    /// The binary utility, or compiler, with this name.
    pub(crate) fn utility(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Ends the test as ignored if one of these, or the emulator, is missing.
    pub(crate) fn need(&self, names: &[&str]) {
        let names: Vec<String> = names.iter().map(|name| self.utility(name)).collect();
        tools::need(names.iter().map(String::as_str).chain(self.emulator.first().copied()));
    }

    /// Compiles and links a program of [`Machine::folder`].
    pub(crate) fn compile(&self, name: &str, flags: &[String], program: &Path) {
        let is_cpp = Path::new(name).extension().is_some_and(|kind| kind == "cc");
        let mut command = Command::new(self.utility(if is_cpp { "g++" } else { "gcc" }));
        command.args(["-O1", "-g0", "-z", "noexecstack"]).args(self.flags).args(flags);
        command.arg(self.folder().join(name)).arg("-o").arg(program);
        command.args(["-x", "c"]).arg(self.folder().join("support.c"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// What runs a program that may hang.
    pub(crate) fn execute(&self, program: &Path) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "20"]).args(self.emulator).arg(program).stdin(Stdio::null());
        command
    }
}
