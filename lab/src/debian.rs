//! Gets the kernel packages of Debian and unpacks them. Nothing is ever installed.
//!
//! `apt-get` runs on a root of its own, one for each architecture: it needs no privilege, leaves
//! the machine's list of architectures alone, and sees packages of that architecture only. Mirrors
//! and keys are the machine's. Packages and what they unpack to stay in `target/modules` and are
//! used again.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, files};

/// Where Debian's `linux-kbuild-6.1` has the kernel's own recorder.
pub(crate) const ORIGINAL: &str = "/usr/lib/linux-kbuild-6.1/scripts/recordmcount";

/// The kernel flavours to take, for each architecture of Debian.
const FLAVOURS: &[(&str, &[&str])] = &[
    ("amd64", &["amd64"]),
    ("arm64", &["arm64"]),
    ("armel", &["rpi"]),
    ("armhf", &["armmp"]),
    ("i386", &["686"]),
    ("mips64el", &["5kc-malta"]),
    ("mipsel", &["4kc-malta", "loongson-3"]),
    ("ppc64el", &["powerpc64le"]),
    ("s390x", &["s390x"]),
];

/// Every architecture that has a flavour here.
pub(crate) fn architectures() -> Vec<String> {
    FLAVOURS.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// The flavours of one architecture.
pub(crate) fn flavours(architecture: &str) -> Result<&'static [&'static str]> {
    FLAVOURS
        .iter()
        .find(|(name, _)| *name == architecture)
        .map(|(_, flavours)| *flavours)
        .ok_or_else(|| format!("no kernel of Debian 12 is known for {architecture}").into())
}

/// An unpacked kernel package.
#[derive(Debug)]
pub(crate) struct Package {
    /// Name and version, as in the name of the package file.
    pub(crate) name: String,
    /// Where it is unpacked.
    pub(crate) folder: PathBuf,
    /// The modules, sorted by path.
    pub(crate) modules: Vec<PathBuf>,
}

/// Gets, unpacks and lists one kernel. With `update`, asks the mirror even when one is in the
/// cache.
pub(crate) fn obtain(architecture: &str, flavour: &str, update: bool) -> Result<Package> {
    let folder = files::workspace().join("target/modules").join(architecture);
    let downloads = folder.join("deb");
    files::make_folder(&downloads)?;
    let cached = newest(&downloads, flavour)?;
    let package = match cached {
        Some(package) if !update => package,
        _ => {
            download(architecture, flavour, &folder)?;
            newest(&downloads, flavour)?.ok_or("apt-get downloaded nothing")?
        }
    };
    let name = unpacked_name(&package)?;
    let unpacked = folder.join(&name);
    if !unpacked.is_dir() {
        unpack(&package, &unpacked)?;
    }
    let mut modules = Vec::new();
    find_modules(&unpacked, &mut modules)?;
    Ok(Package { name, folder: unpacked, modules })
}

/// `linux-image-6.1.0-50-armmp_6.1.176-1` of `…/linux-image-6.1.0-50-armmp_6.1.176-1_armhf.deb`.
fn unpacked_name(package: &Path) -> Result<String> {
    let name =
        package.file_stem().and_then(|name| name.to_str()).ok_or("a package without name")?;
    Ok(name.rsplit_once('_').map_or(name, |(name, _)| name).to_owned())
}

/// The newest package of that flavour in a folder: its name without `_version_architecture.deb`.
fn newest(downloads: &Path, flavour: &str) -> Result<Option<PathBuf>> {
    let packages = files::list(downloads)?;
    let named = packages.into_iter().filter_map(|path| {
        let file = path.file_name()?.to_str()?.strip_suffix(".deb")?;
        let rank = rank(file.split('_').next()?, flavour)?;
        Some((rank, path))
    });
    Ok(named.max().map(|(_, path)| path))
}

/// Orders package names of one flavour: by kernel ABI number, then unsigned before signed.
///
/// The signed package has the same modules with a signature behind each.
fn rank(package: &str, flavour: &str) -> Option<(u32, bool)> {
    let rest = package.strip_prefix("linux-image-6.1.0-")?;
    let (abi, name) = rest.split_once('-')?;
    let unsigned = name.strip_suffix("-unsigned");
    (unsigned.unwrap_or(name) == flavour).then_some((abi.parse().ok()?, unsigned.is_some()))
}

fn download(architecture: &str, flavour: &str, folder: &Path) -> Result<()> {
    let configuration = private_apt(architecture, folder)?;
    let apt = |program: &str| {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", &configuration).current_dir(folder.join("deb"));
        command
    };
    // One list out of date at a mirror fails the whole update; what matters is whether the package
    // is found.
    let update = apt("apt-get").args(["-qq", "update"]).output()?;
    let names = apt("apt-cache").args(["pkgnames", "linux-image-6.1.0-"]).output()?;
    let names = String::from_utf8(names.stdout)?;
    let newest = names
        .lines()
        .map(|name| name.split(':').next().unwrap_or(name))
        .filter_map(|name| Some((rank(name, flavour)?, name)))
        .max();
    let Some((_, name)) = newest else {
        let why = String::from_utf8_lossy(&update.stderr).into_owned();
        return Err(format!("no linux-image-6.1.0-*-{flavour} for {architecture}\n{why}").into());
    };
    let download = apt("apt-get").args(["-qq", "download", name]).output()?;
    if !download.status.success() {
        let why = String::from_utf8_lossy(&download.stderr).into_owned();
        return Err(format!("apt-get download {name}: {why}").into());
    }
    Ok(())
}

/// Makes the folders of a private apt root, and returns its configuration file.
fn private_apt(architecture: &str, folder: &Path) -> Result<PathBuf> {
    let root = folder.join("apt");
    files::make_folder(&root.join("lists/partial"))?;
    files::make_folder(&root.join("cache/archives/partial"))?;
    files::write(&root.join("status"), b"")?;
    let path = root.display();
    let text = format!(
        "#clear APT::Architectures;\n\
         APT::Architecture \"{architecture}\";\n\
         APT::Architectures {{ \"{architecture}\"; }};\n\
         APT::Sandbox::User \"\";\n\
         Acquire::Languages \"none\";\n\
         Dir::State::Lists \"{path}/lists\";\n\
         Dir::State::status \"{path}/status\";\n\
         Dir::Cache \"{path}/cache\";\n"
    );
    let configuration = root.join("apt.conf");
    files::write(&configuration, text.as_bytes())?;
    Ok(configuration)
}

/// Unpacks beside the destination and renames, so that a folder that exists is whole.
fn unpack(package: &Path, destination: &Path) -> Result<()> {
    let parent = destination.parent().ok_or("a package without folder")?;
    let partial = tempfile::Builder::new().prefix("unpack-").tempdir_in(parent)?;
    let status = Command::new("dpkg-deb").arg("-x").arg(package).arg(partial.path()).status()?;
    if !status.success() {
        return Err(format!("dpkg-deb -x {}: {status}", package.display()).into());
    }
    files::rename(&partial.keep(), destination)
}

fn find_modules(folder: &Path, modules: &mut Vec<PathBuf>) -> Result<()> {
    for path in files::list(folder)? {
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            find_modules(&path, modules)?;
        } else if is_module(&path) {
            modules.push(path);
        }
    }
    Ok(())
}

fn is_module(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.split_once(".ko").is_some_and(|(_, rest)| matches!(rest, "" | ".xz"))
}

/// The bytes of a module, decompressed.
pub(crate) fn read_module(path: &Path) -> Result<Vec<u8>> {
    if path.extension().is_none_or(|extension| extension != "xz") {
        return files::read(path);
    }
    let output = Command::new("xz").args(["--decompress", "--stdout"]).arg(path).output()?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(format!("{}: xz: {}", path.display(), output.status).into())
    }
}
