//! Packages of the next Debian, for what this one doesn't have. `apt-get` runs on a root of its own, and nothing is installed:
//! packages are unpacked into folders of `target/hosts/roots`.
//!
//! Its own file because programs are tested and kernels are booted with such packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, files};

/// What every script begins with: apt-get sees the packages of the next Debian, and none that's installed.
const APT: &str = r#"
mkdir -p apt/lists/partial apt/cache/archives/partial deb
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
echo "deb ${mirror:?apt-get knows no address of Debian} trixie main" >apt/sources.list
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
    let roots = files::workspace().join("target/hosts/roots");
    let root = roots.join(name);
    if root.is_dir() {
        return Ok(root);
    }
    files::make_folder(&roots)?;
    let partial = tempfile::Builder::new().prefix("fetch-").tempdir_in(&roots)?;
    let lines = format!("{APT}{script}rm -r apt deb\n");
    let status = Command::new("sh").args(["-ec", &lines]).current_dir(partial.path()).status()?;
    if !status.success() {
        return Err(format!("packages of the next Debian for {name}: {status}").into());
    }
    finish(partial.path())?;
    files::rename(&partial.keep(), &root)?;
    Ok(root)
}
