//! Installs packages in a clean Debian root, runs the programs, and purges the packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, files};

/// What runs in the root. It prints a line for each step, and fails with the first that does.
const STEPS: &str = r#"
set -eu
files() { find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /var/log \
	-o -path /var/cache -o -path /var/lib/dpkg \) -prune -o -print | LC_ALL=C sort; }
cd /tmp/packages
files >/tmp/before
dpkg --install ./*.deb
echo "installed: $(dpkg-query -W -f '${Package} ' 'mcount*' 'libmcount*')"
mcount --version
recordmcount --version
mcount demo >/tmp/demo
echo "demo: $(grep -c entries /tmp/demo) objects"
ldconfig -p | grep -q 'libmcount.so.0 '
ldconfig -p | grep -q 'libmcount-live.so.0 '
test -e /usr/share/man/man3/mcount_file_open.3.gz -a -e /usr/share/man/man1/mcount-record.1.gz
dpkg --verify mcount libmcount0 libmcount-live0 libmcount-dev
dpkg --purge mcount libmcount-dev libmcount0 libmcount-live0
files >/tmp/after
diff /tmp/before /tmp/after
echo "purged: nothing is left"
"#;

/// Whether `packages` install, run and go away on Debian 12.
pub(super) fn check(packages: &[PathBuf]) -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let inside = folder.path().join("packages");
    files::make_folder(&inside)?;
    for package in packages {
        let name = package.file_name().ok_or("a package without name")?;
        files::write(&inside.join(name), &files::read(package)?)?;
    }
    files::write(&inside.join("steps"), STEPS.as_bytes())?;
    let copy = format!("--customize-hook=copy-in {} /tmp", inside.display());
    let run = "--customize-hook=chroot \"$1\" sh /tmp/packages/steps";
    let mut make = Command::new("mmdebstrap");
    make.args(["--quiet", "--variant=minbase", "--include=libgcc-s1"]).arg(copy).arg(run);
    make.args(["bookworm", "/dev/null", "http://deb.debian.org/debian"]);
    Ok(make.current_dir(Path::new("/")).status()?.success())
}
