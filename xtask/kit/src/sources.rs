//! Sources of Debian packages, and lines of sh.
//!
//! `apt-get` fetches the sources with lists of its own, so that the machine needs no `deb-src` lines; they stay in
//! `target/project` and are used again. Nothing is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, files};

/// The sources of `package` as upstream has them, downloaded if they aren't here yet.
pub fn archive(package: &str, root: &Path) -> Result<PathBuf> {
    let downloads = root.join("downloads");
    files::make_folder(&downloads)?;
    if let Some(archive) = find(package, &downloads)? {
        return Ok(archive);
    }
    download(package, root)?;
    let found = find(package, &downloads)?;
    found.ok_or_else(|| format!("apt-get downloaded nothing for {package}").into())
}

fn find(package: &str, downloads: &Path) -> Result<Option<PathBuf>> {
    let begin = format!("{package}_");
    let is_source = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(&begin) && name.contains(".orig.tar.") && !name.contains(".asc")
    };
    Ok(files::list(downloads)?.into_iter().find(is_source))
}

/// Unpacks the sources of `package` into `folder`, which is made anew.
pub fn unpack(package: &str, root: &Path, folder: &Path) -> Result<PathBuf> {
    let archive = archive(package, root)?;
    shell(root, &format!("rm -rf '{0}' && mkdir -p '{0}'", folder.display()))?;
    shell(folder, &format!("tar xf '{}' --strip-components=1", archive.display()))?;
    Ok(folder.to_owned())
}

fn download(package: &str, root: &Path) -> Result<()> {
    files::make_folder(&root.join("lists/partial"))?;
    files::make_folder(&root.join("sources"))?;
    let downloads = root.join("downloads");
    // The machine's own lists, asked for sources.
    let copy = "for list in /etc/apt/sources.list.d/*.sources; do [ -e \"$list\" ] && \
                sed 's/^Types:.*/Types: deb-src/' \"$list\" >../sources/\"${list##*/}\"; done; \
                cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | \
                sed -n 's/^deb /deb-src /p' >../sources/sources.list; true";
    shell(&downloads, copy)?;
    let options = format!(
        "-qq -o Dir::Etc::sourcelist='{0}/sources/sources.list' -o Dir::Etc::sourceparts='{0}/sources' \
         -o Dir::State::lists='{0}/lists' -o APT::Sandbox::User=root",
        root.display()
    );
    shell(&downloads, &format!("apt-get {options} update"))?;
    // A mirror may have lists of what it doesn't have itself, so older versions will do.
    let line = format!(
        "versions=$(apt-cache {options} showsrc {package} | sed -n 's/^Version: //p' | sort -Vr); \
         for version in $versions; do \
           apt-get {options} source --download-only {package}=$version && exit; done; exit 1"
    );
    shell(&downloads, &line)?;
    Ok(())
}

/// What a line of sh prints on standard output.
pub fn shell(folder: &Path, line: &str) -> Result<String> {
    let output = Command::new("sh").args(["-c", line]).current_dir(folder).output()?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("cd {} && {line}\n{why}", folder.display()).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
