//! Builds `examples/bare` and runs it in QEMU: a program without an operating system, which traces itself.
//!
//! The compiler is Debian's, because `core` for such targets has to be built from source. What is built stays in
//! `target/hosts`.

use std::path::{Path, PathBuf};
use std::process::Command;

use lexopt::Arg;

use crate::{Result, files, rust};

const USAGE: &str = "\
usage: cargo xtask bare [--build] [PROCESSOR]

Builds examples/bare for PROCESSOR, aarch64 or riscv64 [default: aarch64], and runs it in QEMU: the terminal is its serial line,
and `quit` ends it.

  --build   build only what is in Rust, for all processors: the tests `bare` of mcount-cli do the rest
";

/// A processor, and what Rust calls it without an operating system.
struct Bare {
    name: &'static str,
    target: &'static str,
}

const ALL: &[Bare] = &[
    Bare { name: "aarch64", target: "aarch64-unknown-none-softfloat" },
    Bare { name: "riscv64", target: "riscv64imac-unknown-none-elf" },
];

/// Runs the chore; `false` if the program can't be built, or QEMU fails.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let mut chosen = ALL.first();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Value(name) => chosen = ALL.iter().find(|bare| *bare.name == *name),
            Arg::Long("build") => return build().map(|()| true),
            Arg::Short('h') | Arg::Long("help") => {
                print!("{USAGE}");
                return Ok(true);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    chosen.ok_or(USAGE)?.start()
}

/// Builds the libraries that the tests link.
pub(crate) fn build() -> Result<()> {
    ALL.iter().try_for_each(|bare| bare.build().map(drop))
}

fn room() -> PathBuf {
    files::workspace().join("target/hosts")
}

fn sources() -> PathBuf {
    files::workspace().join("examples/bare")
}

impl Bare {
    /// The library, built.
    fn build(&self) -> Result<PathBuf> {
        let build = room().join("bare-build");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--target", self.target, "-Zbuild-std=core"]);
        cargo.arg("--target-dir").arg(&build).current_dir(sources().join("hooks"));
        cargo.env("RUSTC", rust::compiler(&[rust::SOURCE.to_owned()])?).env("RUSTC_BOOTSTRAP", "1");
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "false").env_remove("RUSTFLAGS");
        let status = cargo.status()?;
        if !status.success() {
            return Err(format!("examples/bare/hooks for {}: {status}", self.name).into());
        }
        let folder = room().join("libraries").join(format!("bare-{}", self.name));
        files::make_folder(&folder)?;
        let library = folder.join("libhooks.a");
        let made = build.join(self.target).join("debug/libhooks.a");
        files::write(&library, &files::read(&made)?)?;
        Ok(library)
    }

    /// Builds the rest, and runs it.
    fn start(&self) -> Result<bool> {
        let library = self.build()?;
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--bin", "mcount"]).current_dir(files::workspace());
        if !cargo.status()?.success() {
            return Ok(false);
        }
        let mcount = files::workspace().join("target/debug/mcount");
        let assign = |name: &str, value: &Path| format!("{name}={}", value.display());
        let mut make = Command::new("make");
        make.arg("run").arg(format!("ARCH={}", self.name)).current_dir(sources());
        make.arg(assign("OUT", &room().join("bare").join(self.name)));
        make.arg(assign("LIBRARY", &library)).arg(assign("MCOUNT", &mcount));
        Ok(make.status()?.success())
    }
}
