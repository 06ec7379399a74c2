//! Debian packages that a chore needs: which are missing, and installing them.

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
#[must_use]
pub fn missing<'p>(packages: &[&'p str]) -> Option<Vec<&'p str>> {
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
pub fn install<'p>(packages: &[&'p str]) -> Result<Vec<&'p str>> {
    if packages.is_empty() || !has_apt() || !is_root()? {
        return Ok(packages.to_vec());
    }
    println!("== installing {}", packages.join(" "));
    Apt { words: &["apt-get"], pause: PAUSE }.install(packages)?;
    Ok(missing(packages).unwrap_or_else(|| packages.to_vec()))
}

/// How to run apt-get.
struct Apt<'a> {
    /// The program, and its first arguments.
    words: &'a [&'a str],
    /// The pause between two attempts.
    pause: Duration,
}

impl Apt<'_> {
    /// Installs as many of `packages` as can be installed.
    fn install(&self, packages: &[&str]) -> Result<()> {
        if !self.update()? {
            println!("== the package lists can't be updated: going on with those that are here");
        }
        if !self.get(packages)? {
            // One that can't be installed shouldn't keep the others away.
            for package in packages {
                self.get(&[package])?;
            }
        }
        Ok(())
    }

    /// Asks for the package lists, again after a pause if that fails.
    fn update(&self) -> Result<bool> {
        for attempt in 1..=ATTEMPTS {
            if self.run(&["update"])? {
                return Ok(true);
            }
            if attempt < ATTEMPTS {
                println!("== apt-get update failed: trying again in {} s", self.pause.as_secs());
                std::thread::sleep(self.pause);
            }
        }
        Ok(false)
    }

    fn get(&self, packages: &[&str]) -> Result<bool> {
        self.run(&[["install", "-y", "--no-install-recommends"].as_slice(), packages].concat())
    }

    fn run(&self, arguments: &[&str]) -> Result<bool> {
        let (program, first) = self.words.split_first().ok_or("no program")?;
        let mut command = Command::new(program);
        command.args(first).env("DEBIAN_FRONTEND", "noninteractive").arg("-qq").args(arguments);
        // A failed download is an error, not a warning.
        command.args(["-o", "APT::Update::Error-Mode=any"]);
        Ok(command.status()?.success())
    }
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
    use crate::files;

    #[test]
    fn only_installed_packages_count() {
        let said = "gcc-s390x-linux-gnu installed\nlibc6-dev-s390x-cross not-installed\ng++ installed\n\
                    make config-files\n";
        let found: Vec<String> = installed(said).into_iter().collect();
        assert_eq!(found, ["g++", "gcc-s390x-linux-gnu"]);
    }

    /// Stands in for apt-get: notes what it is asked for. As many updates fail as there are files `fail*`
    /// in its folder, and no package called `gone` is there.
    const STAND_IN: &str = r#"
cd "$(dirname "$0")"
shift # -qq
case $1 in
update)
    echo update >>asked
    for fail in fail*; do [ ! -e "$fail" ] || { rm "$fail"; exit 100; }; done ;;
install)
    shift 3 # install -y --no-install-recommends
    packages=${*%-o*}
    packages=${packages%APT::*}
    echo "install" $packages >>asked
    case " $packages " in *" gone "*) exit 100 ;; esac ;;
esac
"#;

    /// What apt-get is asked for if that many updates fail.
    fn asked_for(failures: usize, packages: &[&str]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("apt-get");
        files::write(&script, STAND_IN.as_bytes()).unwrap();
        for failure in 0..failures {
            files::write(&folder.path().join(format!("fail{failure}")), b"").unwrap();
        }
        let words = ["sh", script.to_str().unwrap()];
        Apt { words: &words, pause: Duration::from_millis(1) }.install(packages).unwrap();
        let asked = files::read(&folder.path().join("asked")).unwrap();
        String::from_utf8(asked).unwrap().lines().map(|line| line.trim_end().to_owned()).collect()
    }

    #[test]
    fn a_mirror_in_the_middle_of_an_update_is_asked_again() {
        assert_eq!(asked_for(0, &["a", "b"]), ["update", "install a b"]);
        assert_eq!(asked_for(2, &["a"]), ["update", "update", "update", "install a"]);
    }

    #[test]
    fn what_can_be_installed_is_installed() {
        // With the package lists that are here.
        assert_eq!(asked_for(9, &["a"]), ["update", "update", "update", "install a"]);
        // One package is in no list.
        let expected = ["update", "install a gone b", "install a", "install gone", "install b"];
        assert_eq!(asked_for(0, &["a", "gone", "b"]), expected);
    }
}
