//! The packages: the newest kernel of a flavour that has both an image and a debug package.
//!
//! `apt-get` runs on a root of its own, as for `cargo lab modules`: it needs no privilege and leaves the machine's lists
//! alone. Of the debug package, which is up to 6 GB unpacked, only `vmlinux` and `System.map` are kept.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, files};

/// A kernel of Debian.
pub(super) struct Kernel {
    pub(super) architecture: &'static str,
    flavour: &'static str,
    /// The release, if it isn't that of this machine.
    release: Option<&'static str>,
}

pub(super) const KERNELS: &[Kernel] = &[
    Kernel { architecture: "amd64", flavour: "cloud-amd64", release: None },
    Kernel { architecture: "arm64", flavour: "cloud-arm64", release: None },
    // With DYNAMIC_FTRACE_WITH_CALL_OPS.
    Kernel { architecture: "arm64", flavour: "cloud-arm64", release: Some("trixie") },
    Kernel { architecture: "armhf", flavour: "armmp", release: None },
    Kernel { architecture: "ppc64el", flavour: "powerpc64le", release: None },
    Kernel { architecture: "s390x", flavour: "s390x", release: None },
    Kernel { architecture: "riscv64", flavour: "riscv64", release: Some("trixie") },
];

/// The files of a kernel.
pub(super) struct Files {
    /// What is booted.
    pub(super) image: PathBuf,
    /// `vmlinux` with debug information.
    pub(super) debug: PathBuf,
    pub(super) system_map: PathBuf,
}

/// Fetches and unpacks. `$1`: the architecture, `$2`: the flavour, `$3`: the release, if it is another one.
const FETCH: &str = r#"
mkdir -p apt/lists/partial apt/cache/archives/partial deb
: >apt/status
cat >apt/apt.conf <<END
#clear APT::Architectures;
APT::Architecture "$1";
APT::Architectures { "$1"; };
APT::Sandbox::User "";
Acquire::Languages "none";
Dir::State::Lists "$PWD/apt/lists";
Dir::State::status "$PWD/apt/status";
Dir::Cache "$PWD/apt/cache";
END
if [ -n "$3" ]; then
	echo "deb http://deb.debian.org/debian $3 main" >apt/sources.list
	echo "Dir::Etc::sourcelist \"$PWD/apt/sources.list\"; Dir::Etc::sourceparts \"/dev/null\";" >>apt/apt.conf
fi
export APT_CONFIG=$PWD/apt/apt.conf
if ! ls deb/*-dbg_*.deb >/dev/null 2>&1; then
	# One list out of date at a mirror fails the whole update; what matters is whether packages are found.
	apt-get -qq update 2>apt/log || true
	for package in $(apt-cache pkgnames linux-image- | grep -E "^linux-image-[0-9.]+(-[0-9]+|\+deb[0-9]+)-$2-dbg$" | sort -rV); do
		if apt-cache show "${package%-dbg}" >/dev/null 2>&1; then break; fi
	done
	(cd deb && apt-get -qq download "${package%-dbg}" "$package")
fi
mkdir tree
dpkg-deb --fsys-tarfile deb/*-dbg_*.deb 2>/dev/null | tar x -C tree --wildcards --occurrence=1 \
	'./usr/lib/debug/boot/vmlinux-*' './usr/lib/debug/boot/System.map-*'
dpkg-deb --fsys-tarfile $(ls deb/*.deb | grep -v -e -dbg_) | tar x -C tree ./boot
touch unpacked
"#;

impl Kernel {
    /// The files, fetched if they aren't here yet.
    pub(super) fn obtain(&self) -> Result<Files> {
        let release = self.release.map(|name| format!("-{name}")).unwrap_or_default();
        let folder = format!("{}{release}", self.architecture);
        let folder = files::workspace().join("target/installed").join(folder);
        files::make_folder(&folder)?;
        if !folder.join("unpacked").exists() {
            let script = format!("rm -rf tree\n{FETCH}");
            let mut fetch = Command::new("sh");
            fetch.args(["-ec", &script, "sh", self.architecture, self.flavour]);
            fetch.arg(self.release.unwrap_or_default()).current_dir(&folder);
            if !fetch.status()?.success() {
                return Err(format!("no kernel for {}", self.architecture).into());
            }
        }
        let (boot, debug) = (folder.join("tree/boot"), folder.join("tree/usr/lib/debug/boot"));
        Ok(Files {
            image: find(&boot, "vmlinu")?,
            debug: find(&debug, "vmlinux")?,
            system_map: find(&debug, "System.map")?,
        })
    }
}

impl Files {
    pub(super) fn name(&self) -> String {
        self.image.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// The file in `folder` whose name begins with `start`.
fn find(folder: &Path, start: &str) -> Result<PathBuf> {
    let is_called = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(start))
    };
    let found = files::list(folder)?.into_iter().find(is_called);
    found.ok_or_else(|| format!("no {start}* in {}", folder.display()).into())
}
