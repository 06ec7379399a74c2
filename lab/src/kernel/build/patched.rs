//! The kernel with the patches of `contrib/linux`: recorded after its link, and, as that one's measure, with the
//! compiler's table and without relaxation.
//!
//! Both come of one compile. What differs is how `vmlinux` is linked.

use std::path::PathBuf;
use std::process::Command;

use super::{Build, unpack_into};
use crate::kernel::options::{OURS, THEIRS};
use crate::kernel::process::{Clock, execute};
use crate::{Result, files};

/// The option that the patches add.
pub(super) const LATE: &str = "CONFIG_FTRACE_MCOUNT_LATE=y\n";
const NOT_LATE: &str = "# CONFIG_FTRACE_MCOUNT_LATE is not set\n";

impl Build<'_> {
    /// Makes both kernels, with a module each.
    pub(in crate::kernel) fn with_patches(&self) -> Result<()> {
        let mut clock = Clock::new()?;
        self.configure()?;
        for (kernel, option, step) in [
            (OURS, LATE, "compile, link and record"),
            (THEIRS, NOT_LATE, "the link with the compiler's table"),
        ] {
            self.choose(option)?;
            self.remove_image()?;
            for target in ["vmlinux", "modules", self.options.machine.target()] {
                self.make_late(target)?;
            }
            clock.lap(step)?;
            self.keep(kernel)?;
            let folder = self.module_source(kernel)?;
            self.make_late(&format!("M={}", folder.display()))?;
            self.keep_module(kernel, &folder.join("mcount_test.ko"))?;
        }
        Ok(())
    }

    /// Switches late recording on or off.
    fn choose(&self, option: &str) -> Result<()> {
        let path = self.output.join(".config");
        let config = String::from_utf8(files::read(&path)?)?;
        let changed = config.replace(LATE, option).replace(NOT_LATE, option);
        if changed != config {
            files::write(&path, changed.as_bytes())?;
            self.make_late("olddefconfig")?;
        }
        Ok(())
    }

    fn make_late(&self, target: &str) -> Result<()> {
        let recorder = format!("MCOUNT={}", self.mcount.display());
        let mut targets = vec![target];
        if target.starts_with("M=") {
            targets.push("modules");
        }
        self.make_by(&targets, &[&recorder], None)
    }
}

/// The folder with the source, patched.
pub(super) fn unpack(package: &str) -> Result<PathBuf> {
    let folder = files::workspace().join("target/kernel").join(format!("{package}-patched"));
    let stamp = folder.join(".patched");
    if stamp.exists() {
        return Ok(folder);
    }
    unpack_into(package, &folder)?;
    for patch in patches(package)? {
        let mut apply = Command::new("patch");
        // git am takes them no other way.
        apply.args(["-p1", "--forward", "--fuzz=0", "-i"]).arg(&patch).current_dir(&folder);
        execute(&mut apply, &folder.join("patch.log"))?;
    }
    files::write(&stamp, b"")?;
    Ok(folder)
}

/// The patches for a source, in order. Those for another version than 6.12 are in a folder of its own.
fn patches(package: &str) -> Result<Vec<PathBuf>> {
    let newest = files::workspace().join("contrib/linux");
    let own = newest.join(package.trim_start_matches("linux-source-"));
    let mut patches = files::list(if own.is_dir() { &own } else { &newest })?;
    patches.retain(|path| path.extension().is_some_and(|extension| extension == "patch"));
    patches.sort();
    Ok(patches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_patches_of_its_own() {
        let names = |package| {
            let patches = patches(package).unwrap();
            patches.iter().map(|path| path.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        let (usual, old) = (names("linux-source-6.12"), names("linux-source-6.1"));
        // 7.2 has no calls in ftrace_caller that must not be relaxed.
        let new = names("linux-source-7.2");
        assert_eq!((usual.len(), old.len(), new.len()), (4, 4, 3));
        assert!(new.iter().all(|path| path.contains("contrib/linux/7.2/000")), "{new:?}");
        assert!(usual.iter().all(|path| path.contains("contrib/linux/000")), "{usual:?}");
        assert!(old.iter().all(|path| path.contains("contrib/linux/6.1/000")), "{old:?}");
    }

    /// The calls in `ftrace_caller` and `ftrace_regs_caller`, which Linux calls `ftrace_call` and so on.
    #[test]
    fn calls_that_ftrace_changes_are_no_call_sites() {
        for package in ["linux-source-7.2", "linux-source-6.12", "linux-source-6.1"] {
            let late = &patches(package).unwrap()[1];
            let text = String::from_utf8(files::read(late).unwrap()).unwrap();
            for part in ["", "graph_", "regs_", "graph_regs_"] {
                let option = format!("--exclude-symbol ftrace_{part}call");
                assert!(
                    text.contains(&format!("{option}\t")) || text.contains(&format!("{option} ")),
                    "{option}"
                );
            }
        }
    }
}
