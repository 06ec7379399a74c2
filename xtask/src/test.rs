//! `cargo xtask test`: installs what the tests need, then runs every check that CI runs.
//!
//! On Debian, as root, missing packages are installed. A test whose tools are still missing is ignored, and the end of
//! the run says which and why. If all packages are there, `MCOUNT_REQUIRE_TOOLS=1` makes a missing tool a failure.

mod run;

use std::process::Command;
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use lexopt::{Arg, ValueExt as _};

use crate::{Result, apt, bare, counts, files, foreign, lab, query};

/// The Debian packages of all programs and libraries that the tests use.
const PACKAGES: &[&str] = &[
    "binutils-hppa64-linux-gnu",
    "bpftool",
    "bzip2",
    "ccache",
    "chromium",
    "clang",
    "clang-19",
    "cpio",
    "g++",
    "g++-aarch64-linux-gnu",
    "g++-arm-linux-gnueabihf",
    "g++-i686-linux-gnu",
    "g++-riscv64-linux-gnu",
    "g++-powerpc64le-linux-gnu",
    "g++-s390x-linux-gnu",
    "gcc-aarch64-linux-gnu",
    "gcc-arm-linux-gnueabi",
    "gcc-arm-linux-gnueabihf",
    "gcc-hppa-linux-gnu",
    "gcc-i686-linux-gnu",
    "gcc-mips-linux-gnu",
    "gcc-mips64-linux-gnuabi64",
    "gcc-mips64el-linux-gnuabi64",
    "gcc-mipsel-linux-gnu",
    "gcc-powerpc-linux-gnu",
    "gcc-powerpc64-linux-gnu",
    "gcc-powerpc64le-linux-gnu",
    "gcc-riscv64-linux-gnu",
    "gcc-s390x-linux-gnu",
    "gcc-sh4-linux-gnu",
    "gcc-sparc64-linux-gnu",
    "gcc-x86-64-linux-gnux32",
    "gdb",
    "gfortran",
    // `go tool pprof`.
    "golang-go",
    "libc6-dev-arm64-cross",
    "libc6-dev-armel-cross",
    "libc6-dev-armhf-cross",
    "libc6-dev-hppa-cross",
    "libc6-dev-i386-cross",
    "libc6-dev-mips-cross",
    "libc6-dev-mips64-cross",
    "libc6-dev-mips64el-cross",
    "libc6-dev-mipsel-cross",
    "libc6-dev-powerpc-cross",
    "libc6-dev-ppc64-cross",
    "libc6-dev-ppc64el-cross",
    "libc6-dev-riscv64-cross",
    "libc6-dev-s390x-cross",
    "libc6-dev-sh4-cross",
    "libc6-dev-sparc64-cross",
    "libc6-dev-x32-cross",
    "libclang-rt-14-dev",
    "libunwind-dev",
    "linux-kbuild-6.1",
    "lld",
    "lld-19",
    "llvm",
    "llvm-19",
    "lz4",
    "make",
    "mold",
    "musl-tools",
    "pahole",
    "pkg-config",
    "protobuf-compiler",
    "python3",
    "qemu-system-arm",
    "qemu-system-misc",
    "qemu-user",
    "strace",
    "tmux",
    "uftrace",
    "util-linux",
    "valgrind",
    "xz-utils",
    "zstd",
];

/// The checks before the tests; the quickest first.
const BEFORE: &[&[&str]] = &[
    &["fmt", "--all", "--check"],
    // The workspaces beside this one. Nothing else looks at how they're formatted.
    &["fmt", "--manifest-path", lab::MANIFEST, "--check"],
    &["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"],
    // Its other checks are `cargo xtask query`: DataFusion takes longer to build than all else.
    &["fmt", "--manifest-path", query::MANIFEST, "--check"],
    &["fmt", "--manifest-path", "examples/bare/hooks/Cargo.toml", "--check"],
];

/// The checks after the tests, and after those of the examples in the documentation.
const AFTER: &[&[&str]] = &[
    &["doc", "--workspace", "--no-deps"],
    // For those who change the library.
    &["doc", "-p", "mcount", "--no-deps", "--document-private-items"],
];

const USAGE: &str = "\
usage: cargo xtask test [OPTION…]

Of many alike tests, only a part runs, another one each time, on some of the processors that QEMU emulates.
The seed that chooses is printed.

  --seed N  run that part: the seed of a run that failed
  --all     run all of them
";

/// Runs the chore; `false` if a check failed.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let mut seed = Some(seconds());
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("seed") => seed = Some(parser.value()?.parse()?),
            Arg::Long("all") => seed = None,
            Arg::Short('h') | Arg::Long("help") => {
                print!("{USAGE}");
                return Ok(true);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let begin = Instant::now();
    // Packages are unpacked one after the other, and nothing here needs them until the tests run.
    let (prepared, built) = thread::scope(|scope| {
        let beside = scope.spawn(move || prepare(seed));
        let built = if cargo_all(BEFORE)? { run::build()? } else { None };
        let prepared = beside.join().map_err(|_| "installing packages ended too early")??;
        Result::Ok((prepared, built))
    })?;
    println!("== {} s until the tests", begin.elapsed().as_secs());
    let Some(programs) = built.filter(|_| prepared.is_well) else { return Ok(false) };
    let is_well = run::all(programs, prepared.is_complete, seed)?
        // Linting, or what is documented would be compiled again.
        && cargo(&["test", "--workspace", "--doc", "--quiet"], run::linting)?
        && cargo_all(AFTER)?
        && oldest_rust()?
        && compare_counts()?;
    println!("== {} s", begin.elapsed().as_secs());
    Ok(is_well)
}

/// A number that's another one each time.
fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// What the tests need besides their own programs.
struct Prepared {
    /// All packages are there.
    is_complete: bool,
    /// What is built for other processors compiles.
    is_well: bool,
}

/// Installs packages, and builds what other processors need.
fn prepare(seed: Option<u64>) -> Result<Prepared> {
    let is_complete = install()?;
    if let Err(error) = foreign::build(seed) {
        println!("== libmcount-live isn't tested on other processors: {error}");
    }
    if let Err(error) = bare::build() {
        println!("== examples/bare isn't tested: {error}");
    }
    Ok(Prepared { is_complete, is_well: foreign::check_program()? })
}

/// Installs what is missing; whether everything is there then.
fn install() -> Result<bool> {
    let Some(missing) = apt::missing(PACKAGES) else {
        println!("== not Debian: tests whose tools are missing are ignored");
        return Ok(false);
    };
    let missing = apt::install(&missing)?;
    if !missing.is_empty() {
        println!("== not installed, so that some tests are ignored: {}", missing.join(" "));
    }
    Ok(missing.is_empty())
}

fn cargo_all(checks: &[&[&str]]) -> Result<bool> {
    for arguments in checks {
        if !cargo(arguments, |cargo| cargo)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Runs cargo as `with` has it, and says so.
fn cargo(arguments: &[&str], with: impl Fn(&mut Command) -> &mut Command) -> Result<bool> {
    println!("== cargo {}", arguments.join(" "));
    let mut cargo = Command::new("cargo");
    // A toolchain argument, such as +1.88, is for the cargo that rustup put into PATH.
    cargo.args(arguments).current_dir(files::workspace()).env("RUSTDOCFLAGS", "-D warnings");
    let is_well = with(&mut cargo).status()?.success();
    if !is_well {
        println!("== failed: cargo {}", arguments.join(" "));
    }
    Ok(is_well)
}

/// Checks the workspace with the Rust that `rust-version` declares, if there is a toolchain of it.
fn oldest_rust() -> Result<bool> {
    let version = env!("CARGO_PKG_RUST_VERSION");
    let listed = Command::new("rustup").args(["toolchain", "list"]).output();
    let listed = listed.map(|output| output.stdout).unwrap_or_default();
    let Some(toolchain) = toolchain(&String::from_utf8_lossy(&listed), version) else {
        println!(
            "== no toolchain of Rust {version}: only clippy's incompatible_msrv has looked for what is newer"
        );
        return Ok(true);
    };
    let check = ["check", "--workspace", "--target-dir", "target/msrv"];
    cargo(&[&[&*format!("+{toolchain}")], &check[..]].concat(), |cargo| cargo)
}

/// The toolchain of `version` in a list of rustup.
fn toolchain(listed: &str, version: &str) -> Option<String> {
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    let mut names = names.filter(|name| {
        let rest = name.strip_prefix(version);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']))
    });
    names.next().map(str::to_owned)
}

fn compare_counts() -> Result<bool> {
    if !counts::is_possible() {
        println!("== instruction counts are not compared: valgrind isn't here");
        return Ok(true);
    }
    println!("== cargo xtask bench --check");
    counts::check(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toolchain_is_found_by_its_version() {
        let listed = "stable-x86_64-unknown-linux-gnu (active, default)\n1.8.0-x\n1.88-x86_64-unknown-linux-gnu\n";
        assert_eq!(toolchain(listed, "1.88").as_deref(), Some("1.88-x86_64-unknown-linux-gnu"));
        assert_eq!(toolchain("1.88.0\n", "1.88").as_deref(), Some("1.88.0"));
        assert_eq!(toolchain("1.880\nstable\n", "1.88"), None);
    }

    #[test]
    fn a_cross_compiler_comes_with_its_c_library() {
        let library = |compiler: &str| {
            let processor = compiler.strip_prefix("gcc-")?.split("-linux").next()?;
            let end = match processor {
                "aarch64" => "arm64",
                "arm" if compiler.ends_with("gnueabihf") => "armhf",
                "arm" => "armel",
                "i686" => "i386",
                "powerpc64" => "ppc64",
                "powerpc64le" => "ppc64el",
                "x86-64" => "x32",
                other => other,
            };
            Some(format!("libc6-dev-{end}-cross"))
        };
        let libraries: Vec<String> = PACKAGES.iter().filter_map(|name| library(name)).collect();
        assert!(libraries.len() > 15);
        for library in libraries {
            assert!(PACKAGES.contains(&library.as_str()), "{library}");
        }
    }
}
