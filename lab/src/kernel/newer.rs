//! Machines of which this Debian has neither a C library nor a QEMU that can boot them: both are the next Debian's.
//!
//! QEMU is started by the dynamic loader that belongs to its libraries, so that they needn't be those of this machine.

use std::path::Path;
use std::process::Command;

use super::process::execute;
use crate::loongarch::fetch;
use crate::{Result, files, newer};

/// QEMU for LoongArch since 9.1 makes the tables of EFI that Linux reads. All libraries that it needs come with it.
const FETCH: &str = r#"
apt-get -qq -y --no-install-recommends --download-only install qemu-system-misc
for package in apt/cache/archives/lib*.deb apt/cache/archives/zlib*.deb; do
	dpkg-deb --fsys-tarfile "$package" | tar x --exclude=./usr/share --exclude=./usr/bin --exclude=./etc
done
dpkg-deb --fsys-tarfile apt/cache/archives/qemu-system-misc_*.deb | tar x ./usr/bin/qemu-system-loongarch64
"#;

/// The libraries of a program that's linked dynamically, in the initial file system's only folder.
const LIBRARIES: &[&str] = &["ld-linux-loongarch-lp64d.so.1", "libc.so.6"];

/// The QEMU that boots LoongArch.
pub(super) fn emulator() -> Result<Command> {
    let root = newer::make("qemu-system-loongarch64", FETCH, |_| Ok(()))?;
    let libraries = root.join("usr/lib");
    let mut loader = None;
    for folder in files::list(&libraries)?.iter().filter(|path| path.is_dir()) {
        loader = loader.or(files::list(folder)?.into_iter().find(|path| is_loader(path)));
    }
    let loader = loader.ok_or_else(|| format!("no loader in {}", libraries.display()))?;
    let mut qemu = Command::new(&loader);
    qemu.arg("--library-path").arg(loader.parent().unwrap_or(&libraries));
    // Without this it looks for modules that play sounds, and finds those of this machine's QEMU.
    qemu.arg(root.join("usr/bin/qemu-system-loongarch64")).args(["-audio", "none"]);
    Ok(qemu)
}

fn is_loader(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux"))
}

/// Compiles `program`, and puts it and its libraries into `root`; the names of the libraries.
///
/// It isn't static: lld 19 starts the resolvers of a static program's indirect functions four bytes too late, as it has their
/// addresses from before relaxation dropped the NOPs that align them.
pub(super) fn compile(program: &Path, root: &Path, log: &Path) -> Result<Vec<String>> {
    let newer = fetch()?;
    let mut compiler = Command::new("clang-19");
    compiler.args(["--target=loongarch64-linux-gnu", "-fuse-ld=lld-19", "-O2"]);
    compiler.arg(option("--sysroot=", &newer)).arg(option("--gcc-toolchain=", &newer.join("usr")));
    compiler.args(["-Wl,-rpath,/", "-Wl,--dynamic-linker=/ld-linux-loongarch-lp64d.so.1", "-o"]);
    execute(compiler.arg(root.join("init")).arg(program), log)?;
    for name in LIBRARIES {
        let library = newer.join("usr/loongarch64-linux-gnu/lib").join(name);
        execute(Command::new("cp").args([library, root.join(name)]), log)?;
    }
    Ok(LIBRARIES.iter().map(|name| (*name).to_owned()).collect())
}

fn option(name: &str, path: &Path) -> String {
    format!("{name}{}", path.display())
}
