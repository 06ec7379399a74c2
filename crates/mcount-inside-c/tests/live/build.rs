//! Compiling C programs, and linking them with the library as its users do.

use crate::machine::{HERE, Machine};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// How a compiler is asked for hooks.
#[derive(Clone, Copy)]
pub(crate) struct Hooks {
    pub(crate) name: &'static str,
    pub(crate) flags: &'static [&'static str],
    /// They're behind the prologue: such functions can't be left out or replaced.
    pub(crate) after_prologue: bool,
    /// Only gcc, and only in programs at a fixed address.
    pub(crate) gcc_fixed_only: bool,
}

const fn hooks(name: &'static str, flags: &'static [&'static str]) -> Hooks {
    Hooks { name, flags, after_prologue: false, gcc_fixed_only: false }
}

/// Five bytes of NOPs at the entry.
pub(crate) const PATCHABLE: Hooks = hooks("patchable-5", &["-fpatchable-function-entry=5"]);
/// A call at the entry.
pub(crate) const FENTRY: Hooks = hooks("fentry", &["-pg", "-mfentry"]);

/// A call behind the prologue.
pub(crate) const PG: Hooks = Hooks { after_prologue: true, ..hooks("pg", &["-pg"]) };

pub(crate) const HOOKS: &[Hooks] = &[
    PATCHABLE,
    hooks("patchable-16", &["-fpatchable-function-entry=16"]),
    hooks("patchable-7,2", &["-fpatchable-function-entry=7,2"]),
    hooks("patchable-5-cet", &["-fpatchable-function-entry=5", "-fcf-protection"]),
    FENTRY,
    PG,
    Hooks {
        gcc_fixed_only: true,
        ..hooks("nop-mcount", &["-pg", "-mfentry", "-mnop-mcount", "-mrecord-mcount"])
    },
];

/// How a program is linked.
#[derive(Clone, Copy)]
pub(crate) struct Link {
    pub(crate) name: &'static str,
    pub(crate) flags: &'static [&'static str],
    pub(crate) is_static: bool,
    pub(crate) is_fixed: bool,
}

pub(crate) const LINKS: &[Link] = &[
    Link { name: "pie", flags: &["-O2", "-pie", "-fPIE"], is_static: false, is_fixed: false },
    Link {
        name: "fixed",
        flags: &["-O1", "-no-pie", "-fno-pie"],
        is_static: false,
        is_fixed: true,
    },
    Link { name: "O0", flags: &["-O0", "-pie", "-fPIE"], is_static: false, is_fixed: false },
    Link {
        name: "static",
        flags: &["-O2", "-static", "-no-pie", "-fno-pie"],
        is_static: true,
        is_fixed: true,
    },
    Link {
        name: "static-pie",
        flags: &["-O2", "-static-pie", "-fPIE"],
        is_static: true,
        is_fixed: false,
    },
];

impl Hooks {
    /// Can this compiler make a program that's linked like this?
    pub(crate) fn can_be(&self, compiler: &str, link: &Link) -> bool {
        let is_clang = compiler.starts_with("clang");
        if self.gcc_fixed_only {
            return !is_clang && link.is_fixed;
        }
        // clang links the start files of a static program that isn't position-independent.
        !(is_clang && self.flags.contains(&"-pg") && link.name == "static-pie")
    }
}

/// Position-independent, optimized, and linked with the shared library.
pub(crate) const USUAL: Link =
    Link { name: "pie", flags: &["-O2", "-pie", "-fPIE"], is_static: false, is_fixed: false };

/// A folder for one test.
pub(crate) struct Room {
    folder: TempDir,
    pub(crate) machine: &'static Machine,
}

impl Room {
    pub(crate) fn new() -> Result<Self, String> {
        Self::on(&HERE)
    }

    /// One for programs of this machine.
    pub(crate) fn on(machine: &'static Machine) -> Result<Self, String> {
        let folder = env!("CARGO_TARGET_TMPDIR");
        let room = TempDir::new_in(folder).map_err(|error| format!("{folder}: {error}"))?;
        let kinds = [("so", "so"), ("so.0", "so"), ("a", "a")];
        for (name, kind) in kinds.into_iter().filter(|(_, kind)| machine.has(kind)) {
            let (name, built) = (format!("libmcount-live.{name}"), machine.library(kind));
            std::os::unix::fs::symlink(&built, room.path().join(name))
                .map_err(|error| format!("{}: {error}", built.display()))?;
        }
        Ok(Self { folder: room, machine })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The text of a file in it.
    pub(crate) fn text(&self, name: &str) -> Result<String, String> {
        let bytes = testkit::files::read(&self.path(name))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Compiles without linking.
    pub(crate) fn object(
        &self,
        compiler: &str,
        flags: &[&str],
        source: &str,
    ) -> Result<PathBuf, String> {
        let output = self.path(source).with_extension("o");
        let mut command = self.machine.compile(compiler);
        command.args(["-c", "-D_GNU_SOURCE", "-Wall"]).args(flags).arg(include());
        command.arg(sources("live").join(source)).arg("-o").arg(&output);
        testkit::process::run(&mut command).map(|_| output)
    }

    /// Makes a program of sources, and of objects, and links it with the library.
    pub(crate) fn program(
        &self,
        compiler: &str,
        flags: &[&str],
        link: Link,
        parts: &[PathBuf],
    ) -> Result<PathBuf, String> {
        let output = self.path("program");
        let mut command = self.machine.compile(compiler);
        command.args(["-D_GNU_SOURCE", "-w"]).args(link.flags).args(flags).arg(include());
        command.args(parts).arg("-L").arg(self.folder.path());
        if link.is_static || !self.machine.has("so") {
            // Its debug information makes up most of it.
            command.args(["-l:libmcount-live.a", "-Wl,--strip-debug"]);
            if !self.machine.has("so") {
                // An emulator takes seconds to read what isn't used.
                command.arg("-Wl,--gc-sections");
            }
        } else {
            command
                .arg("-lmcount-live")
                .arg(format!("-Wl,-rpath,{}", self.folder.path().display()));
        }
        command.args(["-lpthread", "-ldl", "-lm"]).arg("-o").arg(&output);
        testkit::process::run(&mut command).map(|_| output)
    }

    /// Makes a shared library.
    pub(crate) fn shared(
        &self,
        compiler: &str,
        flags: &[&str],
        source: &str,
    ) -> Result<PathBuf, String> {
        let output = self.path(source).with_extension("so");
        let mut command = self.machine.compile(compiler);
        command.args(["-w", "-O2", "-shared", "-fPIC"]).args(flags);
        command.arg(sources("live").join(source)).arg("-o").arg(&output);
        testkit::process::run(&mut command).map(|_| output)
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn include() -> String {
    format!("-I{}", root().join("include").display())
}

/// A folder of sources.
pub(crate) fn sources(folder: &str) -> PathBuf {
    root().join("tests").join(folder)
}
