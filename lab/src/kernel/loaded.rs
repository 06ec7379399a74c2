//! `cargo lab kernel --debian`: a kernel as Debian installs it, with two of its modules. Their tables are taken out and made
//! anew by `mcount record`. The kernel boots twice, with these modules and with Debian's own, and has to trace the same calls.

use std::path::Path;
use std::process::Command;

use super::boot;
use super::console::{DONE, Seen};
use super::options::{OURS, Options, THEIRS};
use super::process::execute;
use crate::debian::{self, Package};
use crate::programs::{self, Profile};
use crate::{Result, files};

/// The user space.
const PROGRAM: &str = include_str!("loaded.c");

/// Modules that need no other one and no device.
const MODULES: [&str; 2] = ["loop", "dummy"];

/// The kernels that QEMU's machines boot: the name of the machine, and Debian's of processor and flavour.
pub(super) const KERNELS: &[(&str, &str, &str)] = &[
    ("s390x", "s390x", "s390x"),
    ("mipsel", "mipsel", "4kc-malta"),
    ("mips64el", "mips64el", "5kc-malta"),
];

/// Boots both: `false` if they don't show the same.
pub(super) fn run(options: &Options) -> Result<bool> {
    let known = KERNELS.iter().find(|(machine, ..)| *machine == options.machine.name);
    let (_, architecture, flavour) = known.ok_or("Debian has no kernel for this machine")?;
    let package = debian::obtain(architecture, flavour, false)?;
    let mcount = programs::build("mcount-cli", Profile::Dist)?.join("mcount");
    let [ours, theirs] =
        [Some(mcount.as_path()), None].map(|recorder| boot_with(options, &package, recorder));
    let (ours, theirs) = (ours?, theirs?);
    ours.print();
    ours.print_beside(&theirs);
    let is_well = is_as_well_as(&ours, &theirs);
    let calls = ours.program.iter().filter(|line| line.contains(" <-")).count();
    let functions = ours.program.iter().filter(|line| line.contains(" [")).count();
    let state = if is_well { "ok" } else { "does not trace" };
    println!("| {} | {} | {functions} | {calls} | {state} |", options.machine.name, package.name);
    Ok(is_well)
}

/// Boots with modules that are recorded by `recorder`, or as they are.
fn boot_with(options: &Options, package: &Package, recorder: Option<&Path>) -> Result<Seen> {
    let folder = options.folder().join(if recorder.is_some() { OURS } else { THEIRS });
    let root = folder.join("root");
    files::make_folder(&root)?;
    let images = files::list(&package.folder.join("boot"))?;
    let image = images.iter().find(|path| path.to_string_lossy().contains("/vmlinu"));
    files::write(&folder.join("image"), &files::read(image.ok_or("no kernel in the package")?)?)?;
    let mut names = Vec::new();
    for name in MODULES {
        let file = format!("{name}.ko");
        let module = package.modules.iter().find(|path| path.ends_with(&file));
        let bytes = debian::read_module(module.ok_or_else(|| format!("no {file}"))?)?;
        files::write(&root.join(&file), &bytes)?;
        if let Some(recorder) = recorder {
            record(options, recorder, &root.join(&file), &folder.join("record.log"))?;
        }
        names.push(file);
    }
    boot::make_initramfs(options.machine, &folder, PROGRAM, &names)?;
    Ok(Seen::on(&boot::boot(options.machine, &folder, DONE)?))
}

/// Takes the table out, and makes it anew.
fn record(options: &Options, recorder: &Path, module: &Path, log: &Path) -> Result<()> {
    let mut objcopy = Command::new(format!("{}objcopy", options.machine.cross));
    execute(objcopy.arg("--remove-section=__mcount_loc").arg(module), log)?;
    let nops: &[&str] = if options.machine.has_nops { &["--nops"] } else { &[] };
    execute(Command::new(recorder).arg("record").args(nops).arg(module), log)
}

/// Both come to the end, all modules are traced, and the program saw the same functions and calls.
fn is_as_well_as(ours: &Seen, theirs: &Seen) -> bool {
    ours.is_done
        && ours.wrong.is_empty()
        && MODULES.iter().all(|name| is_traced(ours, name))
        && ours.program == theirs.program
}

fn is_traced(seen: &Seen, module: &str) -> bool {
    let start = format!("{module}, ");
    seen.program.iter().any(|line| line.trim().starts_with(&start) && line.ends_with(": ok"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
mcount-test:   loop_add [loop]
mcount-test:   loop_add <-loop_init
mcount-test: loop, 1 functions, 1 calls: ok
mcount-test: dummy, 9 functions, 4 calls: ok
MCOUNT-TEST-DONE
";

    #[test]
    fn both_kernels_have_to_show_the_same() {
        let good = Seen::on(GOOD);
        assert!(is_as_well_as(&good, &good));
        for (from, to) in [
            ("loop_add <-", "loop_del <-"),
            ("loop, 1 functions, 1 calls: ok", "loop, 0 functions, 1 calls: FAILED"),
            ("mcount-test: dummy, 9 functions, 4 calls: ok\n", ""),
            ("MCOUNT-TEST-DONE", ""),
        ] {
            let other = Seen::on(&GOOD.replace(from, to));
            assert!(!is_as_well_as(&other, &good), "{to}");
        }
        assert!(!is_as_well_as(&Seen::on(""), &Seen::on("")));
    }

    #[test]
    fn each_kernel_has_a_machine() {
        for (name, ..) in KERNELS {
            assert!(super::super::machines::MACHINES.iter().any(|machine| machine.name == *name));
        }
    }
}
