//! `cargo lab installed --alone`: kernels of newer Debians as they're installed, for every processor that has one, without their
//! debug packages: whether `mcount` finds their names and tables, and what `check` says.
//!
//! The rows that it prints are those of docs/why.md.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, files};

/// The releases, and each processor with the flavour of its kernel. A release that has no kernel for one is passed over.
const RELEASES: [&str; 2] = ["trixie", "sid"];
const FLAVOURS: [(&str, &str); 8] = [
    ("amd64", "cloud-amd64"),
    ("arm64", "cloud-arm64"),
    ("armhf", "armmp"),
    ("loong64", "loong64"),
    ("mips64el", "5kc-malta"),
    ("ppc64el", "powerpc64le"),
    ("riscv64", "riscv64"),
    ("s390x", "s390x"),
];

/// Fetches the newest kernel of a flavour, and unpacks the image. `$1`: the architecture, `$2`: the flavour, `$3`: the release. From
/// Linux 7 on, the image is in a package of its own.
const FETCH: &str = r#"
mkdir -p apt/lists/partial apt/cache/archives/partial deb tree
: >apt/status
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
echo "deb ${mirror:?apt-get knows no address of Debian} $3 main" >apt/sources.list
cat >apt/apt.conf <<END
#clear APT::Architectures;
APT::Architecture "$1";
APT::Architectures { "$1"; };
APT::Sandbox::User "";
Acquire::Languages "none";
Dir::State::Lists "$PWD/apt/lists";
Dir::State::status "$PWD/apt/status";
Dir::Cache "$PWD/apt/cache";
Dir::Etc::sourcelist "$PWD/apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
END
export APT_CONFIG=$PWD/apt/apt.conf
apt-get -qq update 2>apt/log || true
image=$(apt-cache pkgnames linux-image- | grep -E "^linux-image-[0-9.]+(-[0-9]+|\+deb[0-9]+)-$2\$" | sort -V | tail -n 1)
if [ -n "$image" ]; then
	binary=$(apt-cache depends "$image" | sed -n 's/.*Depends: \(linux-binary-.*\)/\1/p')
	(cd deb && apt-get -qq download "$image" $binary)
	for package in deb/*.deb; do dpkg-deb --fsys-tarfile "$package" | tar x -C tree --wildcards '*/vmlinu*' 2>/dev/null || true; done
	touch fetched
fi
"#;

/// Runs the chore: `false` if a kernel has no names or no table.
pub(super) fn run(mcount: &Path) -> Result<bool> {
    println!("| kernel | entries | `check` | `list --attachable` | `why vfs_read` |");
    println!("|---|--:|---|--:|---|");
    let mut is_well = true;
    for release in RELEASES {
        for (architecture, flavour) in FLAVOURS {
            match obtain(architecture, flavour, release)? {
                Some(image) => is_well &= row(mcount, architecture, &image)?,
                None => println!(
                    "| no package lists, or none in them: {release} {architecture} | | | | |"
                ),
            }
        }
    }
    Ok(is_well)
}

/// The image, fetched if it isn't here yet. `None` if there is none.
fn obtain(architecture: &str, flavour: &str, release: &str) -> Result<Option<PathBuf>> {
    let folder = format!("target/installed/alone/{release}-{architecture}");
    let folder = files::workspace().join(folder);
    files::make_folder(&folder)?;
    if !folder.join("fetched").exists() {
        let mut fetch = Command::new("sh");
        fetch.args(["-ec", FETCH, "sh", architecture, flavour, release]).current_dir(&folder);
        if !fetch.status()?.success() {
            return Err(format!("{release} for {architecture} can't be fetched").into());
        }
    }
    image_in(&folder.join("tree"))
}

/// The file in `folder` or below it that is called `vmlinuz` or `vmlinux`, with or without a version.
fn image_in(folder: &Path) -> Result<Option<PathBuf>> {
    for path in files::list(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if let Some(found) = image_in(&path)? {
                return Ok(Some(found));
            }
        } else if name.starts_with("vmlinu") {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Prints what `mcount` says of a kernel: `false` if that is an error.
fn row(mcount: &Path, architecture: &str, image: &Path) -> Result<bool> {
    let ask = |arguments: &[&str], more: &[&str]| -> Result<(bool, String, String)> {
        let output = Command::new(mcount).args(arguments).arg(image).args(more).output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        let is_found = output.status.code() == Some(0);
        Ok((is_found, text(&output.stdout), text(&output.stderr)))
    };
    let (has_table, count, why_not) = ask(&["list", "--count"], &[])?;
    let (_, _, checked) = ask(&["check"], &[])?;
    let (has_btf, attachable, _) = ask(&["list", "--attachable", "--count"], &[])?;
    let (has_names, why, _) = ask(&["why"], &["vfs_read"])?;
    let first = |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
    let summary = checked.lines().find_map(|line| line.split_once(" checked, "));
    let why = why.lines().next().and_then(|line| line.split_once("): "));
    println!(
        "| `{}` | {} | {} | {} | {} |",
        version(image, architecture),
        if has_table { first(&count) } else { why_not },
        summary.map_or(checked.as_str(), |(_, said)| said),
        if has_btf { first(&attachable) } else { "no BTF".to_owned() },
        why.map_or("no answer", |(_, said)| said),
    );
    Ok(has_table && has_names)
}

/// What a kernel is called: by its file, or by the folder of its modules if the file has no version.
fn version(image: &Path, architecture: &str) -> String {
    let name = |path: &Path| {
        path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let own = name(image);
    let folder = image.parent().map(name).unwrap_or_default();
    match own.as_str() {
        "vmlinuz" | "vmlinux" => format!("{own}-{folder}"),
        _ if own.contains(architecture) => own,
        _ => format!("{own} ({architecture})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_called_by_its_version() {
        let rows = [
            ("boot/vmlinuz-6.12.1-cloud-arm64", "arm64", "vmlinuz-6.12.1-cloud-arm64"),
            ("boot/vmlinuz-6.12.1-armmp", "armhf", "vmlinuz-6.12.1-armmp (armhf)"),
            ("modules/7.2.13-s390x/vmlinuz", "s390x", "vmlinuz-7.2.13-s390x"),
        ];
        for (path, architecture, expected) in rows {
            assert_eq!(version(Path::new(path), architecture), expected);
        }
    }
}
