//! Gets the newest Rust of Debian: a compiler, standard libraries for other processors where Debian has them, and their source
//! where it hasn't. Packages are unpacked into `target/hosts/compiler`, not installed, and used again.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, files};

/// The package that has the source of the standard library.
pub const SOURCE: &str = "rust-web-src";

/// Fetches the packages `$@` of architectures `$ARCHITECTURES`. The lists of packages are those of apt's own sources, in a folder
/// of their own, because those of this machine are for one processor. All are of one version.
const FETCH: &str = r#"
mkdir -p lists/partial cache
cat >apt.conf <<END
APT::Architectures { $ARCHITECTURES };
APT::Sandbox::User "root";
Dir::State::lists "$PWD/lists";
Dir::Cache "$PWD/cache";
END
export APT_CONFIG=$PWD/apt.conf
apt-get -qq update
if ! [ -f version ]; then
    std=$(apt-cache depends libstd-rust-web-dev | sed -n 's/^ *Depends: //p')
    llvm=$(apt-cache depends $std | sed -n 's/^ *Depends: \(libllvm.*\)/\1/p')
    apt-cache show --no-all-versions rustc-web | sed -n 's/^Version: //p' >new-version
    apt-get -qq download rustc-web libstd-rust-web-dev $std $llvm
fi
version=$(cat version 2>/dev/null || cat new-version)
for package; do apt-get -qq download "$package=$version"; done
mkdir -p unpacked
# Of the source only the standard library: the tools' are five times as large.
for package in *.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar x -C unpacked --anchored --no-wildcards-match-slash \
        --exclude './usr/src/rustc-*/src' --exclude './usr/src/rustc-*/compiler' --exclude './usr/src/rustc-*/tests'
    rm "$package"
done
rm -rf lists cache apt.conf
if [ -f new-version ]; then mv new-version version; fi
echo '#!/bin/sh
here=${0%/*}/unpacked/usr
LD_LIBRARY_PATH=$here/lib/x86_64-linux-gnu exec "$here/bin/rustc" "$@"' >rustc
chmod +x rustc
for package; do touch "has-$package"; done
"#;

/// A compiler for this machine, with these packages besides, such as `libstd-rust-web-dev:arm64`.
pub fn compiler(packages: &[String]) -> Result<PathBuf> {
    let room = files::workspace().join("target/hosts");
    let folder = room.join("compiler");
    let has = |package: &&String| folder.join(format!("has-{package}")).is_file();
    let missing: Vec<&String> = packages.iter().filter(|package| !has(package)).collect();
    if !folder.is_dir() {
        files::make_folder(&room)?;
        let partial = tempfile::Builder::new().prefix("fetch-").tempdir_in(&room)?;
        fetch(partial.path(), &missing)?;
        files::rename(&partial.keep(), &folder)?;
    } else if !missing.is_empty() {
        fetch(&folder, &missing).map_err(|error| {
            format!("{error}; if Debian has a newer compiler by now, remove {}", folder.display())
        })?;
    }
    Ok(folder.join("rustc"))
}

fn fetch(folder: &Path, packages: &[&String]) -> Result<()> {
    let architectures = packages.iter().filter_map(|package| package.split_once(':'));
    let all = ["amd64"].into_iter().chain(architectures.map(|(_, architecture)| architecture));
    let list = all.map(|architecture| format!("\"{architecture}\";")).collect::<Vec<_>>().join(" ");
    let mut shell = Command::new("sh");
    shell.args(["-ec", FETCH, "fetch"]).args(packages).current_dir(folder);
    let status = shell.env("ARCHITECTURES", list).status()?;
    if status.success() { Ok(()) } else { Err(format!("the compiler of Debian: {status}").into()) }
}
