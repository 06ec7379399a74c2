//! The user space of the kernel, and running both in QEMU.

use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::machines::Machine;
use super::newer;
use super::process::execute;
use crate::{Error, Result, files};

/// How long a kernel may take to boot and trace, under emulation.
const PATIENCE: Duration = Duration::from_secs(600);

/// The pause between two looks at the console.
const POLL: Duration = Duration::from_millis(200);

/// How files begin that a QEMU wants, and the Debian packages that have them.
const FIRMWARE: &[(&str, &str)] = &[
    ("bios", "seabios"),
    ("vgabios", "seabios"),
    ("efi-", "ipxe-qemu"),
    ("pxe-", "ipxe-qemu"),
    ("openbios-ppc", "openbios-ppc"),
    ("openbios-sparc", "openbios-sparc"),
    ("slof", "qemu-slof"),
    ("kvmvapic", "qemu-system-data"),
    ("linuxboot", "qemu-system-data"),
    ("opensbi", "opensbi"),
    ("multiboot", "qemu-system-data"),
    ("qemu_vga", "qemu-system-data"),
    ("vof", "qemu-system-data"),
];

/// Compiles `program`, the user space of the kernel in `folder`, and packs it with the modules that are in its root.
pub(super) fn make_initramfs(
    machine: &Machine,
    folder: &Path,
    program: &str,
    modules: &[String],
) -> Result<()> {
    let root = folder.join("root");
    let log = folder.join("init.log");
    files::write(&folder.join("init.c"), program.as_bytes())?;
    let libraries = compile(machine, folder, &log)?;
    let pack = "printf '%s\\n' init \"$@\" | cpio --quiet -o -H newc -R 0:0 >../initramfs";
    let mut pack_all = Command::new("sh");
    execute(
        pack_all.args(["-c", pack, "sh"]).args(modules).args(libraries).current_dir(&root),
        &log,
    )
}

/// Compiles `init.c` of `folder` into its root; the libraries that it needs beside itself.
fn compile(machine: &Machine, folder: &Path, log: &Path) -> Result<Vec<String>> {
    let (program, root) = (folder.join("init.c"), folder.join("root"));
    if machine.is_newer {
        return newer::compile(&program, &root, log);
    }
    let mut compiler = Command::new(machine.user_compiler());
    compiler.args(["-static", "-O2", "-o"]).arg(root.join("init")).arg(program);
    execute(&mut compiler, log)?;
    Ok(Vec::new())
}

/// What the serial console prints until a line has `last`, or the kernel or patience ends.
///
/// It is an error if QEMU itself fails: then no kernel ran, and nothing can be said about it.
pub(super) fn boot(machine: &Machine, folder: &Path, last: &str) -> Result<String> {
    let mut qemu =
        if machine.is_newer { newer::emulator()? } else { Command::new(machine.emulator()) };
    qemu.args(machine.qemu).args(["-nographic", "-no-reboot", "-nic", "none", "-m", "512"]);
    qemu.arg("-kernel").arg(folder.join("image")).arg("-initrd").arg(folder.join("initramfs"));
    qemu.arg("-append").arg(format!("{} panic=-1 rdinit=/init", machine.arguments));
    watch(&mut qemu, folder, last)
}

/// Runs `qemu` as [`boot`] says, with its console and what it says itself in `folder`.
fn watch(qemu: &mut Command, folder: &Path, last: &str) -> Result<String> {
    let (console, errors) = (folder.join("console.log"), folder.join("qemu.log"));
    let program = qemu.get_program().to_string_lossy().into_owned();
    qemu.stdin(Stdio::null()).stdout(files::create(&console)?).stderr(files::create(&errors)?);
    let mut child = qemu.spawn().map_err(|error| missing(&program, &error))?;
    let begin = Instant::now();
    loop {
        let ended = child.try_wait()?;
        let shown = String::from_utf8_lossy(&files::read(&console)?).into_owned();
        if let Some(status) = ended {
            let said = String::from_utf8_lossy(&files::read(&errors)?).into_owned();
            return if status.success() {
                Ok(shown)
            } else {
                Err(failure(&program, status, &said))
            };
        }
        // The whole line must be there.
        let is_over = shown.split_once(last).is_some_and(|(_, rest)| rest.contains('\n'));
        if is_over || begin.elapsed() > PATIENCE {
            let _ = child.kill();
            child.wait()?;
            return Ok(String::from_utf8_lossy(&files::read(&console)?).into_owned());
        }
        std::thread::sleep(POLL);
    }
}

/// The error for a QEMU that can't be started.
fn missing(program: &str, error: &std::io::Error) -> Error {
    let processor = program.strip_prefix("qemu-system-").unwrap_or_default();
    let packages = ["arm", "mips", "misc", "ppc", "sparc", "x86"];
    // Before its processors of other word sizes and byte orders.
    let package = match processor {
        "i386" => "x86",
        "riscv64" => "misc",
        _ => processor,
    };
    let package = packages.into_iter().find(|name| package.starts_with(name));
    let hint = package.map(|name| format!(" (Debian package qemu-system-{name})"));
    format!("{program}: {error}{}", hint.unwrap_or_default()).into()
}

/// The error for a QEMU that ended by itself, with what it said and the packages of the files it names.
fn failure(program: &str, status: ExitStatus, said: &str) -> Error {
    let said = said.trim();
    let owner = |(start, package): &(&'static str, &'static str)| {
        let names_it = |before: char| said.contains(&format!("{before}{start}"));
        ['\'', '"', ' ', '/'].into_iter().any(names_it).then_some(*package)
    };
    let owner = FIRMWARE.iter().find_map(owner);
    let hint =
        owner.map(|package| format!("\nThe missing file is in the Debian package {package}."));
    format!(
        "QEMU failed, so no kernel ran: {program}: {status}: {said}{}",
        hint.unwrap_or_default()
    )
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What came of a QEMU that does `script`.
    fn watched(script: &str) -> Result<String> {
        let folder = tempfile::tempdir()?;
        watch(Command::new("sh").args(["-c", script]), folder.path(), "END")
    }

    #[test]
    fn a_kernel_that_ends_shows_its_console() {
        assert_eq!(watched("echo Kernel panic; echo a warning >&2").unwrap(), "Kernel panic\n");
        assert_eq!(watched("echo END; sleep 60").unwrap(), "END\n");
    }

    #[test]
    fn a_qemu_that_cannot_start_is_an_error_that_names_the_package() {
        for (said, package) in [
            ("qemu: could not load PC BIOS 'bios-256k.bin'", Some("seabios")),
            ("failed to find romfile \"efi-virtio.rom\"", Some("ipxe-qemu")),
            ("Could not find /usr/share/openbios/openbios-ppc", Some("openbios-ppc")),
            ("unsupported machine type", None),
        ] {
            let script = format!("cat >&2 <<'X'\n{said}\nX\nexit 1");
            let error = watched(&script).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("no kernel ran"), "{error}");
            let expected = package.map(|package| format!("Debian package {package}."));
            match expected {
                Some(expected) => assert!(error.ends_with(&expected), "{error}"),
                None => assert!(!error.contains("Debian"), "{error}"),
            }
        }
        let not_found = std::io::Error::from(std::io::ErrorKind::NotFound);
        for (program, package) in [
            ("qemu-system-i386", "x86"),
            ("qemu-system-ppc64", "ppc"),
            ("qemu-system-mipsel", "mips"),
            ("qemu-system-riscv64", "misc"),
        ] {
            let error = missing(program, &not_found).to_string();
            assert!(error.ends_with(&format!("(Debian package qemu-system-{package})")), "{error}");
        }
    }
}
