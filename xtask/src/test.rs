//! `cargo xtask test`: installs what the tests need, then runs every check that CI runs.
//!
//! On a Debian machine, as root, missing packages are installed. Elsewhere the cases whose
//! compiler is missing are skipped, and say so, unless `MCOUNT_REQUIRE_TOOLS=1` is set.

use crate::Result;
use crate::bench::counts;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// A program that the tests run, and the Debian package that has it.
const PACKAGES: &[(&str, &str)] = &[
    ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"),
    ("arm-linux-gnueabi-gcc", "gcc-arm-linux-gnueabi libc6-dev-armel-cross"),
    ("arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf libc6-dev-armhf-cross"),
    ("hppa-linux-gnu-gcc", "gcc-hppa-linux-gnu libc6-dev-hppa-cross"),
    ("hppa64-linux-gnu-objdump", "binutils-hppa64-linux-gnu"),
    ("i686-linux-gnu-gcc", "gcc-i686-linux-gnu libc6-dev-i386-cross"),
    ("mips-linux-gnu-gcc", "gcc-mips-linux-gnu libc6-dev-mips-cross"),
    ("mipsel-linux-gnu-gcc", "gcc-mipsel-linux-gnu libc6-dev-mipsel-cross"),
    ("mips64-linux-gnuabi64-gcc", "gcc-mips64-linux-gnuabi64 libc6-dev-mips64-cross"),
    ("mips64el-linux-gnuabi64-gcc", "gcc-mips64el-linux-gnuabi64 libc6-dev-mips64el-cross"),
    ("powerpc-linux-gnu-gcc", "gcc-powerpc-linux-gnu libc6-dev-powerpc-cross"),
    ("powerpc64-linux-gnu-gcc", "gcc-powerpc64-linux-gnu libc6-dev-ppc64-cross"),
    ("powerpc64le-linux-gnu-gcc", "gcc-powerpc64le-linux-gnu libc6-dev-ppc64el-cross"),
    ("riscv64-linux-gnu-gcc", "gcc-riscv64-linux-gnu libc6-dev-riscv64-cross"),
    ("s390x-linux-gnu-gcc", "gcc-s390x-linux-gnu libc6-dev-s390x-cross"),
    ("sh4-linux-gnu-gcc", "gcc-sh4-linux-gnu libc6-dev-sh4-cross"),
    ("sparc64-linux-gnu-gcc", "gcc-sparc64-linux-gnu libc6-dev-sparc64-cross"),
    ("x86_64-linux-gnux32-gcc", "gcc-x86-64-linux-gnux32 libc6-dev-x32-cross"),
    ("bzip2", "bzip2"),
    ("ccache", "ccache"),
    ("g++", "g++"),
    ("chromium", "chromium"),
    ("clang", "clang"),
    ("clang-19", "clang-19"),
    ("ld.lld", "lld"),
    ("ld.lld-19", "lld-19"),
    ("llvm-objcopy", "llvm"),
    ("llvm-objdump-19", "llvm-19"),
    ("make", "make"),
    ("lz4", "lz4"),
    ("mold", "mold"),
    ("prlimit", "util-linux"),
    ("qemu-arm", "qemu-user"),
    ("strace", "strace"),
    ("valgrind", "valgrind"),
    ("xz", "xz-utils"),
    ("zstd", "zstd"),
    ("/usr/lib/linux-kbuild-6.1/scripts/recordmcount", "linux-kbuild-6.1"),
];

/// What CI runs, in order; the quickest first.
const CHECKS: &[&[&str]] = &[
    &["fmt", "--all", "--check"],
    &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
    &["test", "--workspace", "--no-fail-fast"],
    &["doc", "--workspace", "--no-deps"],
    // What one who changes the library reads.
    &["doc", "-p", "mcount", "--no-deps", "--document-private-items"],
];

/// Runs the chore; `false` if a check failed.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    if let Some(argument) = parser.next()? {
        return Err(argument.unexpected().into());
    }
    let missing = missing();
    let is_complete = missing.is_empty() || install(&missing)?;
    for arguments in CHECKS {
        println!("== cargo {}", arguments.join(" "));
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(*arguments).env("RUSTDOCFLAGS", "-D warnings");
        if is_complete {
            cargo.env("MCOUNT_REQUIRE_TOOLS", "1");
        }
        if !cargo.status()?.success() {
            println!("== failed: cargo {}", arguments.join(" "));
            return Ok(false);
        }
    }
    if !counts::is_possible() {
        println!("== instruction counts are not compared: valgrind is not here");
        return Ok(true);
    }
    println!("== cargo xtask bench --check");
    counts::check(false)
}

/// The packages whose program is not on this machine.
fn missing() -> Vec<&'static str> {
    let absent = PACKAGES.iter().filter(|(program, _)| !is_there(program));
    absent.flat_map(|(_, packages)| packages.split(' ')).collect()
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    Path::new(program).is_file()
        || std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Installs `packages`; `false` where that cannot be done, which is no error.
fn install(packages: &[&str]) -> Result<bool> {
    if !is_there("apt-get") || !is_root()? {
        println!("== missing, so that some tests are skipped: {}", packages.join(" "));
        return Ok(false);
    }
    println!("== installing {}", packages.join(" "));
    let apt = |arguments: &[&str]| -> Result<bool> {
        let mut command = Command::new("apt-get");
        command
            .env("DEBIAN_FRONTEND", "noninteractive")
            .arg("-qq")
            .args(arguments.iter().map(OsStr::new));
        Ok(command.status()?.success())
    };
    let fetch = [["install", "-y", "--no-install-recommends"].as_slice(), packages].concat();
    if apt(&["update"])? && apt(&fetch)? {
        return Ok(true);
    }
    Err("apt-get could not install what the tests need".into())
}

fn is_root() -> Result<bool> {
    let id = Command::new("id").arg("-u").output()?;
    Ok(id.stdout.trim_ascii() == b"0")
}
