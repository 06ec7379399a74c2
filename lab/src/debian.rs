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

/// The same for the releases after Debian 12, and for newer kernels of it. Only the latter have mips64el, and only the former
/// loong64 and riscv64.
const NEWER_FLAVOURS: &[(&str, &[&str])] = &[
    ("amd64", &["amd64"]),
    ("arm64", &["arm64"]),
    ("armhf", &["armmp"]),
    ("loong64", &["loong64"]),
    ("mips64el", &["5kc-malta"]),
    ("ppc64el", &["powerpc64le"]),
    ("riscv64", &["riscv64"]),
    ("s390x", &["s390x"]),
];

/// A release of Debian, such as `trixie` or `sid`; without a name, that of this machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Suite(pub(crate) Option<String>);

impl Suite {
    fn table(&self) -> &'static [(&'static str, &'static [&'static str])] {
        if self.0.is_some() { NEWER_FLAVOURS } else { FLAVOURS }
    }

    /// Every architecture that has a flavour here.
    pub(crate) fn architectures(&self) -> Vec<String> {
        let names = self.table().iter().map(|(name, _)| *name);
        names.filter(|name| self.has(name)).map(str::to_owned).collect()
    }

    /// Does this release have kernels for the architecture?
    fn has(&self, architecture: &str) -> bool {
        match &self.0 {
            Some(name) if name.ends_with("-backports") => {
                !["loong64", "riscv64"].contains(&architecture)
            }
            Some(_) => architecture != "mips64el",
            None => true,
        }
    }

    /// The flavours of one architecture.
    pub(crate) fn flavours(&self, architecture: &str) -> Result<&'static [&'static str]> {
        let found = self.table().iter().find(|(name, _)| *name == architecture);
        let found = found.map(|(_, flavours)| *flavours);
        found.ok_or_else(|| format!("no kernel of Debian is known for {architecture}").into())
    }

    /// What names of packages with modules may begin with. Since Linux 7, the modules have a package of their own.
    fn starts(&self) -> &'static [&'static str] {
        if self.0.is_some() { &["linux-modules-", "linux-image-"] } else { &["linux-image-6.1.0-"] }
    }
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

/// The flavours of this machine's Debian for one architecture.
pub(crate) fn flavours(architecture: &str) -> Result<&'static [&'static str]> {
    Suite::default().flavours(architecture)
}

/// Gets, unpacks and lists one kernel of this machine's Debian, as [`obtain_of`] does.
pub(crate) fn obtain(architecture: &str, flavour: &str, update: bool) -> Result<Package> {
    obtain_of(&Suite::default(), architecture, flavour, update)
}

/// Gets, unpacks and lists one kernel. With `update`, asks the mirror even when one is in the
/// cache.
pub(crate) fn obtain_of(
    suite: &Suite,
    architecture: &str,
    flavour: &str,
    update: bool,
) -> Result<Package> {
    let release = suite.0.as_ref().map(|name| format!("-{name}")).unwrap_or_default();
    let folder = format!("{architecture}{release}");
    let folder = files::workspace().join("target/modules").join(folder);
    let downloads = folder.join("deb");
    files::make_folder(&downloads)?;
    let cached = newest(suite, &downloads, flavour)?;
    let package = match cached {
        Some(package) if !update => package,
        _ => {
            download(suite, architecture, flavour, &folder)?;
            newest(suite, &downloads, flavour)?.ok_or("apt-get downloaded nothing")?
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
fn newest(suite: &Suite, downloads: &Path, flavour: &str) -> Result<Option<PathBuf>> {
    let packages = files::list(downloads)?;
    let named = packages.into_iter().filter_map(|path| {
        let file = path.file_name()?.to_str()?.strip_suffix(".deb")?;
        let rank = suite.rank(file.split('_').next()?, flavour)?;
        Some((rank, path))
    });
    Ok(named.max().map(|(_, path)| path))
}

/// The numbers in a package's version, and whether it's unsigned.
type Rank = (Vec<u32>, bool);

impl Suite {
    /// Orders package names of one flavour: by the numbers in their version, then unsigned before signed.
    ///
    /// The signed package has the same modules with a signature behind each.
    fn rank(&self, package: &str, flavour: &str) -> Option<Rank> {
        let rest = self.starts().iter().find_map(|start| package.strip_prefix(start))?;
        let unsigned = rest.strip_suffix("-unsigned");
        let version = unsigned.unwrap_or(rest).strip_suffix(flavour)?.strip_suffix('-');
        // Another flavour may end with this one's name: `cloud-amd64`. A meta package has no version.
        let is_version =
            |text: &&str| text.chars().all(|c| c.is_ascii_digit() || "+.deb".contains(c));
        let version = version.filter(is_version).filter(|version| !version.is_empty())?;
        let numbers = version.split(|c: char| !c.is_ascii_digit());
        Some((numbers.filter_map(|number| number.parse().ok()).collect(), unsigned.is_some()))
    }
}

fn download(suite: &Suite, architecture: &str, flavour: &str, folder: &Path) -> Result<()> {
    let configuration = private_apt(suite, architecture, folder)?;
    let apt = |program: &str| {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", &configuration).current_dir(folder.join("deb"));
        command
    };
    // One list out of date at a mirror fails the whole update; what matters is whether the package
    // is found.
    let update = apt("apt-get").args(["-qq", "update"]).output()?;
    let names = apt("apt-cache").args(["pkgnames", "linux-"]).output()?;
    let names = String::from_utf8(names.stdout)?;
    let names = names.lines().map(|name| name.split(':').next().unwrap_or(name));
    let ranked: Vec<_> =
        names.filter_map(|name| Some((suite.rank(name, flavour)?, name))).collect();
    // The image's package has none where there's one for modules.
    let has_modules = |name: &str| name.starts_with("linux-modules-");
    let is_apart = ranked.iter().any(|(_, name)| has_modules(name));
    let newest = ranked.into_iter().filter(|(_, name)| !is_apart || has_modules(name)).max();
    let Some((_, name)) = newest else {
        let why = String::from_utf8_lossy(&update.stderr).into_owned();
        return Err(format!("no kernel of flavour {flavour} for {architecture}\n{why}").into());
    };
    let download = apt("apt-get").args(["-qq", "download", name]).output()?;
    if !download.status.success() {
        let why = String::from_utf8_lossy(&download.stderr).into_owned();
        return Err(format!("apt-get download {name}: {why}").into());
    }
    Ok(())
}

/// Unpacks these packages of this machine's Debian, and all that they depend on, into a folder. What is fetched for it is in `room`.
pub(crate) fn unpack_all(
    architecture: &str,
    names: &[&str],
    room: &Path,
    folder: &Path,
) -> Result<()> {
    files::make_folder(folder)?;
    let configuration = private_apt(&Suite::default(), architecture, room)?;
    let apt = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("APT_CONFIG", &configuration).args(words);
        command
    };
    // One list out of date at a mirror fails the whole update; what matters is whether the packages are found.
    apt(&["-qq", "update"]).output()?;
    let words = ["-qq", "-y", "--no-install-recommends", "--download-only", "install"];
    let output = apt(&words).args(names).output()?;
    if !output.status.success() {
        return Err(format!("apt-get install: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    for package in files::list(&room.join("apt/cache/archives"))? {
        if package.extension().is_some_and(|extension| extension == "deb") {
            let status = Command::new("dpkg-deb").arg("-x").arg(&package).arg(folder).status()?;
            if !status.success() {
                return Err(format!("dpkg-deb -x {}: {status}", package.display()).into());
            }
        }
    }
    Ok(())
}

/// Makes the folders of a private apt root, and returns its configuration file.
fn private_apt(suite: &Suite, architecture: &str, folder: &Path) -> Result<PathBuf> {
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
    let sources = match &suite.0 {
        Some(name) => {
            let list = format!("deb http://deb.debian.org/debian {name} main\n");
            files::write(&root.join("sources.list"), list.as_bytes())?;
            format!(
                "Dir::Etc::sourcelist \"{path}/sources.list\";\nDir::Etc::sourceparts \"/dev/null\";\n"
            )
        }
        None => String::new(),
    };
    let text = text + &sources;
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
