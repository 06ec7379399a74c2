//! Builds `libmcount-live.a` for other processors. Its tests compile programs for them, link them with it, and run them by
//! QEMU's user-mode emulation.
//!
//! Rust's standard library for them is Debian's where Debian has one, with the compiler that it was built by. Otherwise it's
//! built from source. For big-endian AArch64 Debian has nothing at all, so a C library is built as well; that of LoongArch is
//! fetched from the next Debian. All that stays in `target/hosts` and is used again.

mod memchr;
mod root;

use std::path::{Path, PathBuf};
use std::process::Command;

use lexopt::Arg;

use crate::{Result, files, lab, loongarch, rust};

const USAGE: &str = "\
usage: cargo xtask foreign [OPTION…] [PROCESSOR…]

Builds target/hosts/libraries/PROCESSOR/libmcount-live.a for each PROCESSOR, or for all of:
";

const REST: &str = "
The tests `live` of mcount-inside-c use it:

  cargo test -p mcount-inside-c --test live aarch64

  --test     run these, and besides every program with every compiler
  --machine  run programs in a whole machine that QEMU emulates, with several processors and
             a kernel of Debian: arm only
";

/// The processor of which `cargo lab machine` has a whole machine.
const MACHINE: &str = "arm";

/// The other processor that `mcount` itself traces programs on.
const PROGRAM: &str = "aarch64";

/// Dependencies, and the standard library where it's built from source, aren't optimized: that takes longer than it saves in the tests,
/// which read symbols once per program.
const QUICK: &str = "profile.dev.package.'*'.opt-level=0";

/// A processor that there is a library for.
struct Foreign {
    name: &'static str,
    target: &'static str,
    /// What Debian calls it, if it has a standard library of Rust for it.
    debian: Option<&'static str>,
    /// It's big-endian AArch64, of which Debian has nothing: a C library is built as well, and a crate is mended.
    is_big_arm: bool,
    /// Its C library is of a newer Debian.
    is_newer: bool,
    /// `cargo xtask test` builds the library, too, or one of those that it draws lots for.
    is_usual: bool,
}

const ALL: &[Foreign] = &[
    Foreign {
        name: "aarch64",
        target: "aarch64-unknown-linux-gnu",
        debian: Some("arm64"),
        is_big_arm: false,
        is_newer: false,
        is_usual: true,
    },
    Foreign {
        name: "aarch64_be",
        target: "aarch64_be-unknown-linux-musl",
        debian: None,
        is_big_arm: true,
        is_newer: false,
        is_usual: false,
    },
    Foreign {
        name: "arm",
        target: "armv7-unknown-linux-gnueabihf",
        debian: None,
        is_big_arm: false,
        is_newer: false,
        is_usual: false,
    },
    Foreign {
        name: "i386",
        target: "i686-unknown-linux-gnu",
        debian: None,
        is_big_arm: false,
        is_newer: false,
        is_usual: true,
    },
    Foreign {
        name: "loongarch64",
        target: "loongarch64-unknown-linux-gnu",
        debian: None,
        is_big_arm: false,
        is_newer: true,
        is_usual: false,
    },
    Foreign {
        name: "powerpc64le",
        target: "powerpc64le-unknown-linux-gnu",
        debian: None,
        is_big_arm: false,
        is_newer: false,
        is_usual: false,
    },
    Foreign {
        name: "riscv64",
        target: "riscv64gc-unknown-linux-gnu",
        debian: None,
        is_big_arm: false,
        is_newer: false,
        is_usual: false,
    },
    Foreign {
        name: "s390x",
        target: "s390x-unknown-linux-gnu",
        debian: None,
        is_big_arm: false,
        is_newer: false,
        is_usual: true,
    },
];

/// Runs the chore: `false` when a test failed.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let (mut chosen, mut tests, mut is_machine) = (Vec::<&Foreign>::new(), false, false);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Value(name) => {
                let found = ALL.iter().find(|one| *one.name == *name);
                chosen.push(found.ok_or_else(|| format!("{}\n\n{}", name.display(), usage()))?);
            }
            Arg::Long("test") => tests = true,
            Arg::Long("machine") => is_machine = true,
            Arg::Short('h') | Arg::Long("help") => {
                print!("{}", usage());
                return Ok(true);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if chosen.is_empty() {
        chosen.extend(ALL);
    }
    if is_machine && chosen.iter().any(|one| one.name != MACHINE) {
        return Err(format!("--machine is for {} only\n\n{}", MACHINE, usage()).into());
    }
    build_each(&chosen)?;
    let is_well = !is_machine || lab::run(vec!["machine".into()])?;
    Ok(if tests { test(&chosen)? && is_well } else { is_well })
}

/// What is built for a processor.
fn library(name: &str) -> PathBuf {
    files::workspace().join("target/hosts/libraries").join(name).join("libmcount-live.a")
}

fn usage() -> String {
    let names: Vec<&str> = ALL.iter().map(|one| one.name).collect();
    format!("{USAGE}  {}\n{REST}", names.join(", "))
}

/// Builds the libraries that `cargo xtask test` tests: all of the usual ones, or the one that `seed` chooses.
/// Those of an earlier run are built again, or what is tested would be old.
pub(crate) fn build(seed: Option<u64>) -> Result<()> {
    let chosen: Vec<&Foreign> = usual(seed, |name| library(name).is_file());
    let names: Vec<&str> = chosen.iter().map(|one| one.name).collect();
    println!("== libmcount-live is tested on {}", names.join(", "));
    build_each(&chosen)
}

fn usual(seed: Option<u64>, is_there: impl Fn(&str) -> bool) -> Vec<&'static Foreign> {
    let mut usual = ALL.iter().filter(|one| one.is_usual);
    let count = u64::try_from(usual.clone().count()).unwrap_or(u64::MAX).max(1);
    // Its last digits choose the part of the tests: each processor is to have all parts.
    let lot = seed.and_then(|seed| usual.nth(usize::try_from(seed / 1000 % count).ok()?));
    let is_drawn = |name: &str| lot.is_none_or(|lot| lot.name == name);
    let usual = ALL.iter().filter(|one| one.is_usual);
    usual.filter(|one| is_drawn(one.name) || is_there(one.name)).collect()
}

/// Does the tracer compile for the other processor that `mcount` traces programs on, if there's a compiler of Debian? Nothing above
/// it depends on the processor.
pub(crate) fn check_program() -> Result<bool> {
    let Some(foreign) = ALL.iter().find(|one| one.name == PROGRAM) else { return Ok(true) };
    let compiler = match rust::compiler(&[foreign.package()]) {
        Ok(compiler) => compiler,
        Err(error) => {
            println!("== the tracer isn't compiled for {PROGRAM}: {error}");
            return Ok(true);
        }
    };
    let arguments = ["check", "-p", "mcount-tracer", "--target", foreign.target];
    println!("== cargo {}", arguments.join(" "));
    let mut cargo = foreign.cargo(&compiler);
    // The agent is linked.
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
    let is_well = cargo.args(arguments).status()?.success();
    if !is_well {
        println!("== failed: cargo {}", arguments.join(" "));
    }
    Ok(is_well)
}

fn build_each(chosen: &[&Foreign]) -> Result<()> {
    let mut packages: Vec<String> = chosen.iter().map(|one| one.package()).collect();
    packages.sort();
    packages.dedup();
    let compiler = rust::compiler(&packages)?;
    // The largest part of a build takes one processor.
    std::thread::scope(|scope| {
        let build = |one: &Foreign| one.build(&compiler).map_err(|error| error.to_string());
        let builds: Vec<_> = chosen.iter().map(|one| scope.spawn(move || build(one))).collect();
        for build in builds {
            build.join().map_err(|_| "a build ended too early")??;
        }
        Ok(())
    })
}

impl Foreign {
    /// The package that its standard library is in, or the source of it.
    fn package(&self) -> String {
        self.debian.map_or_else(
            || rust::SOURCE.to_owned(),
            |architecture| format!("libstd-rust-web-dev:{architecture}"),
        )
    }

    /// Cargo, which is to build something for it into [`Self::room`].
    fn cargo(&self, compiler: &Path) -> Command {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(files::workspace());
        cargo.env("CARGO_TARGET_DIR", self.room()).env("RUSTC", compiler);
        // Debug information isn't linked into the programs of the tests, and takes half of the time.
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "false").env_remove("RUSTFLAGS");
        cargo
    }

    /// The folder that it's built into. It has its own, because cargo lets only one build into one.
    fn room(&self) -> PathBuf {
        files::workspace().join("target/hosts/build").join(self.name)
    }

    fn build(&self, compiler: &Path) -> Result<()> {
        let build = self.room();
        let mut cargo = self.cargo(compiler);
        // A static library alone takes no linker.
        cargo.args(["rustc", "--quiet", "-p", "mcount-inside-c", "--lib"]);
        cargo.args(["--crate-type", "staticlib", "--target", self.target]);
        cargo.args(["--config", QUICK]);
        if self.debian.is_none() {
            cargo.arg("-Zbuild-std=std,panic_unwind").env("RUSTC_BOOTSTRAP", "1");
        }
        if self.is_newer {
            loongarch::fetch()?;
        }
        if self.is_big_arm {
            root::build(self.name, self.target)?;
            cargo.args(["--config", &memchr::mended()?]);
        }
        let status = cargo.status()?;
        if !status.success() {
            return Err(format!("libmcount-live for {}: {status}", self.name).into());
        }
        let place = library(self.name);
        files::make_folder(place.parent().unwrap_or(&build))?;
        let made = build.join(self.target).join("debug/libmcount_live_c.a");
        files::write(&place, &files::read(&made)?)
    }
}

/// Runs the tests of these processors, all of them.
fn test(chosen: &[&Foreign]) -> Result<bool> {
    let mut is_well = true;
    for foreign in chosen {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["test", "-p", "mcount-inside-c", "--test", "live", "--"]);
        cargo.arg(format!("{}/", foreign.name));
        cargo.current_dir(files::workspace()).env("MCOUNT_EVERY_PROGRAM", "1");
        is_well &= cargo.status()?.success();
    }
    Ok(is_well)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_usual_processor_has_a_seed() {
        let names = |seed, is_there: fn(&str) -> bool| -> Vec<&str> {
            usual(seed, is_there).iter().map(|one| one.name).collect()
        };
        assert_eq!(names(Some(3000), |_| false), ["aarch64"]);
        assert_eq!(names(Some(7000), |_| false), ["i386"]);
        assert_eq!(names(Some(8999), |_| false), ["s390x"]);
        assert_eq!(names(Some(7000), |_| true), ["aarch64", "i386", "s390x"]);
        assert_eq!(names(None, |_| false), ["aarch64", "i386", "s390x"]);
    }
}
