//! Debian packages that a chore needs: which are missing, and installing them.
//!
//! Its own file because several chores need packages, and because asking for a package is more than looking for a
//! program: a cross compiler is of little use without its C library, which is a package of its own.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::Result;

/// How often the package lists are asked for: a mirror may be in the middle of an update.
const ATTEMPTS: u32 = 3;

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_secs(20);

/// Which of `packages` aren't installed; `None` where there is no dpkg.
pub(crate) fn missing<'p>(packages: &[&'p str]) -> Option<Vec<&'p str>> {
    let mut query = Command::new("dpkg-query");
    // Its exit code is 1 if it doesn't know one of them.
    let output = query.args(["-W", "-f", "${Package} ${db:Status-Status}\n"]).args(packages);
    let output = output.output().ok()?;
    let installed = installed(&String::from_utf8_lossy(&output.stdout));
    Some(packages.iter().copied().filter(|package| !installed.contains(*package)).collect())
}

/// The packages that dpkg-query says are installed.
fn installed(said: &str) -> BTreeSet<String> {
    let packages = said.lines().filter_map(|line| line.strip_suffix(" installed"));
    packages.map(str::to_owned).collect()
}

/// Installs `packages` if this is Debian and we are root. Returns those that are still missing.
pub(crate) fn install<'p>(packages: &[&'p str]) -> Result<Vec<&'p str>> {
    if packages.is_empty() || !has_apt() || !is_root()? {
        return Ok(packages.to_vec());
    }
    println!("== installing {}", packages.join(" "));
    if !update()? {
        println!("== the package lists can't be updated: going on with those that are here");
    }
    if !get(packages)? {
        // One that can't be installed shouldn't keep the others away.
        for package in packages {
            get(&[package])?;
        }
    }
    Ok(missing(packages).unwrap_or_else(|| packages.to_vec()))
}

/// Asks for the package lists, again after a pause if that fails.
fn update() -> Result<bool> {
    for attempt in 1..=ATTEMPTS {
        if apt_get(&["update"])? {
            return Ok(true);
        }
        if attempt < ATTEMPTS {
            println!("== apt-get update failed: trying again in {} s", PAUSE.as_secs());
            std::thread::sleep(PAUSE);
        }
    }
    Ok(false)
}

fn get(packages: &[&str]) -> Result<bool> {
    apt_get(&[["install", "-y", "--no-install-recommends"].as_slice(), packages].concat())
}

fn apt_get(arguments: &[&str]) -> Result<bool> {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").arg("-qq").args(arguments);
    // A failed download is an error, not a warning.
    command.args(["-o", "APT::Update::Error-Mode=any"]);
    Ok(command.status()?.success())
}

fn has_apt() -> bool {
    Path::new("/usr/bin/apt-get").is_file()
}

fn is_root() -> Result<bool> {
    let id = Command::new("id").arg("-u").output()?;
    Ok(id.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_installed_packages_count() {
        let said = "gcc-s390x-linux-gnu installed\nlibc6-dev-s390x-cross not-installed\ng++ installed\n\
                    make config-files\n";
        let found: Vec<String> = installed(said).into_iter().collect();
        assert_eq!(found, ["g++", "gcc-s390x-linux-gnu"]);
    }
}
