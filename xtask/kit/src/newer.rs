//! Packages of the next Debian, or of the newest, for what this one doesn't have. `apt-get` runs on a root of its own, and nothing is installed:
//! packages are unpacked into folders of `target/hosts/roots`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, files};

/// The next Debian.
const NEXT: &str = "trixie";
/// Where packages come first.
const NEWEST: &str = "sid";

/// What every script begins with: apt-get sees the packages of `$SUITE`, and none that's installed.
const APT: &str = r#"
mkdir -p apt/lists/partial apt/cache/archives/partial deb
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
echo "deb ${mirror:?apt-get knows no address of Debian} $SUITE main" >apt/sources.list
: >apt/status
cat >apt/apt.conf <<END
APT::Sandbox::User "";
Acquire::Languages "none";
Debug::NoLocking "true";
Dir::State::Lists "$PWD/apt/lists";
Dir::State::status "$PWD/apt/status";
Dir::Cache "$PWD/apt/cache";
Dir::Etc::sourcelist "$PWD/apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
END
export APT_CONFIG=$PWD/apt/apt.conf
apt-get -qq update
"#;

/// Makes the folder `name`, unless it's there, by lines of sh that get packages and unpack them in it; `finish` may change
/// what they unpacked.
pub fn make(name: &str, script: &str, finish: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    make_of(NEXT, name, script, finish)
}

/// The source `package` of a kernel of the newest Debian: the archive in it.
pub fn source(package: &str) -> Result<PathBuf> {
    let script = format!(
        "(cd deb && apt-get -qq download {package})\n\
         dpkg-deb --fsys-tarfile deb/*.deb | tar x --strip-components=3 ./usr/src/{package}.tar.xz\n"
    );
    Ok(make_of(NEWEST, package, &script, |_| Ok(()))?.join(format!("{package}.tar.xz")))
}

fn make_of(
    suite: &str,
    name: &str,
    script: &str,
    finish: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let roots = files::workspace().join("target/hosts/roots");
    let root = roots.join(name);
    if root.is_dir() {
        return Ok(root);
    }
    files::make_folder(&roots)?;
    let partial = tempfile::Builder::new().prefix("fetch-").tempdir_in(&roots)?;
    let lines = format!("{APT}{script}rm -r apt deb\n");
    let mut sh = Command::new("sh");
    let status =
        sh.args(["-ec", &lines]).env("SUITE", suite).current_dir(partial.path()).status()?;
    if !status.success() {
        return Err(format!("packages of Debian {suite} for {name}: {status}").into());
    }
    finish(partial.path())?;
    files::rename(&partial.keep(), &root)?;
    Ok(root)
}
