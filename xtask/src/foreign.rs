//! Builds `libmcount-live.a` for other processors. Its tests compile programs for them, link them with it, and run them by
//! QEMU's user-mode emulation.
//!
//! Rust's standard library for them is Debian's, with the compiler that it was built by: both are fetched, not
//! installed. They and what is built stay in `target/hosts` and are used again.

use std::path::{Path, PathBuf};
use std::process::Command;

use lexopt::Arg;

use crate::{Result, files};

const USAGE: &str = "\
usage: cargo xtask foreign

Builds target/hosts/libraries/PROCESSOR/libmcount-live.a for aarch64. The tests `live` of mcount-inside-c use it:

  cargo test -p mcount-inside-c --test live aarch64
";

/// A processor that there is a library for.
struct Foreign {
    name: &'static str,
    target: &'static str,
    linker: &'static str,
}

const ALL: &[Foreign] = &[Foreign {
    name: "aarch64",
    target: "aarch64-unknown-linux-gnu",
    linker: "aarch64-linux-gnu-gcc",
}];

/// The compiler for this machine, and standard libraries for this one and the others. The lists of packages are those
/// of apt's own sources, in a folder of their own, because those of this machine are for one processor.
const FETCH: &str = r#"
mkdir -p lists/partial cache
cat >apt.conf <<END
APT::Architectures { "amd64"; "arm64"; };
APT::Sandbox::User "root";
Dir::State::lists "$PWD/lists";
Dir::Cache "$PWD/cache";
END
export APT_CONFIG=$PWD/apt.conf
apt-get -qq update
std=$(apt-cache depends libstd-rust-web-dev | sed -n 's/^ *Depends: //p')
llvm=$(apt-cache depends $std | sed -n 's/^ *Depends: \(libllvm.*\)/\1/p')
apt-get -qq download rustc-web libstd-rust-web-dev libstd-rust-web-dev:arm64 $std $llvm
for package in *.deb; do dpkg-deb -x "$package" unpacked; rm "$package"; done
rm -rf lists cache apt.conf
echo '#!/bin/sh
here=${0%/*}/unpacked/usr
LD_LIBRARY_PATH=$here/lib/x86_64-linux-gnu exec "$here/bin/rustc" "$@"' >rustc
chmod +x rustc
"#;

/// Runs the chore.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    match parser.next()? {
        None => build().map(|()| true),
        Some(Arg::Short('h') | Arg::Long("help")) => {
            print!("{USAGE}");
            Ok(true)
        }
        Some(other) => Err(other.unexpected().into()),
    }
}

fn room() -> PathBuf {
    files::workspace().join("target/hosts")
}

/// Builds the libraries.
pub(crate) fn build() -> Result<()> {
    for foreign in ALL {
        foreign.build()?;
    }
    Ok(())
}

impl Foreign {
    fn build(&self) -> Result<()> {
        let compiler = compiler()?;
        let build = room().join("build");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "-p", "mcount-inside-c", "--target", self.target]);
        cargo
            .current_dir(files::workspace())
            .env("CARGO_TARGET_DIR", &build)
            .env("RUSTC", compiler);
        // Debug information isn't linked into the programs of the tests, and takes half of the time.
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "false").env_remove("RUSTFLAGS");
        let linker = self.target.replace('-', "_").to_uppercase();
        cargo.env(format!("CARGO_TARGET_{linker}_LINKER"), self.linker);
        let status = cargo.status()?;
        if !status.success() {
            return Err(format!("libmcount-live for {}: {status}", self.name).into());
        }
        let folder = room().join("libraries").join(self.name);
        files::make_folder(&folder)?;
        let library = build.join(self.target).join("debug/libmcount_live_c.a");
        files::write(&folder.join("libmcount-live.a"), &files::read(&library)?)
    }
}

/// A compiler with standard libraries.
fn compiler() -> Result<PathBuf> {
    let folder = room().join("foreign-compiler");
    if !folder.is_dir() {
        files::make_folder(&room())?;
        let partial = tempfile::Builder::new().prefix("fetch-").tempdir_in(room())?;
        fetch(partial.path())?;
        files::rename(&partial.keep(), &folder)?;
    }
    Ok(folder.join("rustc"))
}

fn fetch(folder: &Path) -> Result<()> {
    let mut shell = Command::new("sh");
    let status = shell.args(["-ec", FETCH]).current_dir(folder).status()?;
    if status.success() { Ok(()) } else { Err(format!("the compiler of Debian: {status}").into()) }
}
