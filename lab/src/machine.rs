//! Runs programs that arm their hooks in a whole machine that QEMU emulates, with several processors and a kernel of Debian.
//! User-mode emulation has this machine's kernel instead, which knows of no other processor's caches, and lets programs do what others don't.
//!
//! The programs check themselves. They're static, so nothing else is in the machine. All that stays in `target/foreign` and is used again.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Result, debian, files};

const USAGE: &str = "\
usage: cargo lab machine

A machine of 32-bit ARM: `cargo xtask foreign --machine arm` also builds the library for it before.
";

/// What the machine is, as `cargo xtask foreign` calls it.
const PROCESSOR: &str = "arm";

/// A program: its sources, what compiles it, and its arguments.
struct Program {
    name: &'static str,
    sources: &'static [&'static str],
    flags: &'static [&'static str],
    arguments: &'static str,
}

const STRESS: &[&str] = &["stress.c", "many.c"];
const EDGES: &[&str] = &["edges.c", "many.c"];
const MIXED: &[&str] = &["mixed.c"];

/// Both instruction sets, and every kind of hook. With `-Os`, functions of Thumb code begin at any halfword.
const PROGRAMS: &[Program] = &[
    program("mixed", MIXED, &["-fpatchable-function-entry=3,2"], ""),
    program("mixed-2", MIXED, &["-fpatchable-function-entry=2"], ""),
    program("mixed-arm", MIXED, &["-marm", "-fpatchable-function-entry=2"], ""),
    program("mixed-pg", MIXED, &["-pg"], ""),
    program("mixed-pg-arm", MIXED, &["-marm", "-pg"], ""),
    program("edges", EDGES, &["-fpatchable-function-entry=3,2"], "-4 2"),
    program("edges-2", EDGES, &["-fpatchable-function-entry=2"], "0 4"),
    program("new", STRESS, &["-fpatchable-function-entry=3,2"], "20 0 new"),
    program("new-arm", STRESS, &["-marm", "-fpatchable-function-entry=1"], "20 0 new"),
    program("random", STRESS, &["-fpatchable-function-entry=3,2"], "20 0 random"),
    program("prepared-2", STRESS, &["-fpatchable-function-entry=2"], "20 0 prepared"),
    program("prepared-pg", STRESS, &["-pg"], "20 0 prepared"),
    program("prepared-pg-arm", STRESS, &["-marm", "-pg"], "20 0 prepared"),
];

const fn program(
    name: &'static str,
    sources: &'static [&'static str],
    flags: &'static [&'static str],
    arguments: &'static str,
) -> Program {
    Program { name, sources, flags, arguments }
}

/// The kernel, as Debian calls it, and the emulator with its machine.
const ARCHITECTURE: &str = "armhf";
const QEMU: &[&str] = &[
    "qemu-system-arm",
    "-M",
    "virt",
    "-cpu",
    "cortex-a15",
    "-accel",
    "tcg,thread=multi",
    "-smp",
    "4",
    "-m",
    "1024",
    "-nographic",
    "-no-reboot",
    "-nic",
    "none",
];
const COMPILER: &str = "arm-linux-gnueabihf-gcc";
/// Minutes that the machine may run.
const PATIENCE: &str = "60m";

/// Compiles the programs, and runs them there: `false` when one failed, or the machine didn't end.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    match parser.next()? {
        Some(lexopt::Arg::Short('h') | lexopt::Arg::Long("help")) => {
            print!("{USAGE}");
            return Ok(true);
        }
        Some(other) => return Err(other.unexpected().into()),
        None => {}
    }
    let libraries = files::workspace().join("target/hosts/libraries");
    let library = libraries.join(PROCESSOR).join("libmcount-live.a");
    if !library.is_file() {
        return Err(format!(
            "`cargo xtask foreign {PROCESSOR}` hasn't built {}",
            library.display()
        )
        .into());
    }
    let room = files::workspace().join("target/foreign");
    let whole = room.join("root");
    files::make_folder(&whole)?;
    for folder in ["proc", "dev", "tmp"] {
        files::make_folder(&whole.join(folder))?;
    }
    let init = room.join("init.c");
    files::write(&init, include_bytes!("machine/init.c"))?;
    let mut compiler = Command::new(COMPILER);
    succeed(compiler.args(["-static", "-O2", "-o"]).arg(whole.join("init")).arg(&init))?;
    PROGRAMS.iter().try_for_each(|program| program.compile(&whole, &library))?;
    let list: Vec<String> =
        PROGRAMS.iter().map(|one| format!("/{} {}\n", one.name, one.arguments)).collect();
    files::write(&whole.join("programs"), list.concat().as_bytes())?;
    let pack = "find . | cpio --quiet -o -H newc -R 0:0 >../initramfs";
    succeed(Command::new("sh").args(["-c", pack]).current_dir(&whole))?;
    boot(&room, &kernel()?)
}

impl Program {
    fn compile(&self, root: &Path, library: &Path) -> Result<()> {
        let workspace = files::workspace();
        let sources = self.sources.iter().map(|one| workspace.join("tests/live").join(one));
        let mut compiler = Command::new(COMPILER);
        compiler.args(["-D_GNU_SOURCE", "-w", "-Os", "-static"]).args(self.flags);
        compiler.arg("-I").arg(workspace.join("include")).args(sources).arg(library);
        // Functions in functions need a stack that's executable.
        compiler.arg("-Wl,--gc-sections,--strip-debug,--no-warn-execstack");
        succeed(compiler.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(root.join(self.name)))
    }
}

fn kernel() -> Result<PathBuf> {
    let flavour = debian::flavours(ARCHITECTURE)?.first().ok_or("no flavour")?;
    let package = debian::obtain(ARCHITECTURE, flavour, false)?;
    let mut images = files::list(&package.folder.join("boot"))?.into_iter();
    let is_image = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"))
    };
    images.find(is_image).ok_or_else(|| format!("{} has no kernel", package.name).into())
}

/// Runs the machine and shows its console; are all programs well?
fn boot(room: &Path, kernel: &Path) -> Result<bool> {
    let log = room.join("console.log");
    println!("the machine's console is {}", log.display());
    let mut qemu = Command::new("timeout");
    qemu.arg(PATIENCE).args(QEMU).arg("-kernel").arg(kernel);
    qemu.arg("-initrd").arg(room.join("initramfs"));
    qemu.args(["-append", "console=ttyAMA0 quiet panic=-1 rdinit=/init"]);
    let status = qemu.stdin(Stdio::null()).stdout(files::create(&log)?).status()?;
    let shown = String::from_utf8_lossy(&files::read(&log)?).into_owned();
    print!("{shown}");
    let is_well = |one: &Program| shown.contains(&format!("foreign: {}: 0\r\n", one.name));
    Ok(status.success() && PROGRAMS.iter().all(is_well))
}

/// Runs a command that has to succeed. What it says besides is nothing new: of a static program, a linker warns of the C library's.
fn succeed(command: &mut Command) -> Result<()> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {said}").into()) }
}
