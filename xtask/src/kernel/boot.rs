//! The user space of the kernel, and running both in QEMU.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::machines::Machine;
use super::process::execute;
use crate::{Result, files};

/// How long a kernel may take to boot and trace, under emulation.
const PATIENCE: Duration = Duration::from_secs(600);

/// The program that is the user space.
const INIT: &str = include_str!("init.c");

/// Compiles the user space of the kernel in `folder` and packs it with the module that is in its
/// root.
pub(super) fn make_initramfs(machine: &Machine, folder: &Path) -> Result<()> {
    let root = folder.join("root");
    let log = folder.join("init.log");
    files::write(&folder.join("init.c"), INIT.as_bytes())?;
    let mut compiler = Command::new(machine.user_compiler());
    compiler.args(["-static", "-O2", "-o"]).arg(root.join("init")).arg(folder.join("init.c"));
    execute(&mut compiler, &log)?;
    let pack = "printf 'init\\nmcount_test.ko\\n' | cpio --quiet -o -H newc -R 0:0 >../initramfs";
    execute(Command::new("sh").args(["-c", pack]).current_dir(&root), &log)
}

/// What the serial console prints until a line has `last`, or the kernel or patience ends.
pub(super) fn boot(machine: &Machine, folder: &Path, last: &str) -> Result<String> {
    let log = folder.join("console.log");
    let program = machine.emulator();
    let mut qemu = Command::new(&program);
    qemu.args(machine.qemu).args(["-nographic", "-no-reboot", "-nic", "none", "-m", "512"]);
    qemu.arg("-kernel").arg(folder.join("image")).arg("-initrd").arg(folder.join("initramfs"));
    qemu.arg("-append").arg(format!("{} panic=-1 rdinit=/init", machine.arguments));
    files::write(&log, b"")?;
    let output = files::append(&log)?;
    qemu.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    let mut child = qemu.spawn().map_err(|error| format!("{program}: {error}"))?;
    let begin = Instant::now();
    loop {
        let console = String::from_utf8_lossy(&files::read(&log)?).into_owned();
        // The whole line must be there.
        let is_over = console.split_once(last).is_some_and(|(_, rest)| rest.contains('\n'));
        if is_over || child.try_wait()?.is_some() || begin.elapsed() > PATIENCE {
            let _ = child.kill();
            child.wait()?;
            return Ok(String::from_utf8_lossy(&files::read(&log)?).into_owned());
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}
