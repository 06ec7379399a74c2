//! `cargo xtask kernel`: builds Debian's kernel source with our `recordmcount` in its place, boots it
//! in QEMU, and reports: does the tracer find as many sites, and does it trace?
//!
//! The build is Kbuild's own, unmodified. Behind `scripts/recordmcount` stands a script that keeps
//! each object from before recording and records the copy with the original, so that one compile
//! serves both. A small static program is the whole user space: it switches tracers on and prints.
//! Everything is kept in `target/kernel/ARCH`, and a build that was interrupted goes on.

mod compare;
mod machines;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lexopt::{Arg, ValueExt as _};

use self::machines::{MACHINES, Machine};
use crate::{Result, files};

const USAGE: &str = "\
usage: cargo xtask kernel --arch ARCH [OPTION…]

  --arch ARCH       arm, ppc64, ppc64le, mips, mipsel, mips64el
  --source PACKAGE  Debian's source package (default: linux-source-6.1)
  --config FILE     more configuration, one option a line
  --jobs N          for make (default: 2)
  --boot-only       boot what was built

Debian packages: the source package, the cross compiler, qemu-system-arm/-ppc/-mips, flex, bison, bc,
libelf-dev, libssl-dev, cpio, make, xz-utils.
";

/// How long a kernel may take to boot and trace, under emulation.
const PATIENCE: Duration = Duration::from_secs(600);

/// What the program in the initial file system prints last.
const DONE: &str = "MCOUNT-TEST-DONE";

/// Configuration of every machine: the tracer, its self tests, and a user space.
const CONFIG: &str = "\
CONFIG_PRINTK=y
CONFIG_TTY=y
CONFIG_BLK_DEV_INITRD=y
CONFIG_BINFMT_ELF=y
CONFIG_PROC_FS=y
CONFIG_SYSFS=y
CONFIG_DEBUG_FS=y
CONFIG_FTRACE=y
CONFIG_FUNCTION_TRACER=y
CONFIG_FUNCTION_GRAPH_TRACER=y
CONFIG_DYNAMIC_FTRACE=y
CONFIG_FTRACE_SELFTEST=y
CONFIG_FTRACE_STARTUP_TEST=y
CONFIG_KALLSYMS=y
CONFIG_MULTIUSER=y
CONFIG_FUTEX=y
CONFIG_POSIX_TIMERS=y
CONFIG_DEBUG_KERNEL=y
CONFIG_MODULES=y
";

/// The program that is the user space. It writes to files of the tracer and shows what they hold.
const INIT: &str = include_str!("kernel/init.c");

struct Options {
    machine: &'static Machine,
    source: String,
    config: Option<PathBuf>,
    jobs: u32,
    boot_only: bool,
}

/// Runs the chore: `false` if the kernel does not trace, or a table differs.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let Some(options) = parse(&mut parser)? else {
        print!("{USAGE}");
        return Ok(true);
    };
    let folder = files::workspace().join("target/kernel").join(options.machine.name);
    files::make_folder(&folder)?;
    let begin = Instant::now();
    if !options.boot_only {
        build(&options, &folder)?;
    }
    let built = begin.elapsed();
    let tables = compare::tables(&folder.join("build"))?;
    tables.print();
    let console = boot(&options, &folder)?;
    let seen = Seen::on(&console);
    seen.print();
    println!("{}: built in {} s", options.machine.name, built.as_secs());
    Ok(tables.differing == 0 && seen.is_well())
}

fn parse(parser: &mut lexopt::Parser) -> Result<Option<Options>> {
    let (mut arch, mut source) = (None, "linux-source-6.1".to_owned());
    let (mut config, mut jobs, mut boot_only) = (None, 2, false);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("arch") => arch = Some(parser.value()?.string()?),
            Arg::Long("source") => source = parser.value()?.string()?,
            Arg::Long("config") => config = Some(PathBuf::from(parser.value()?)),
            Arg::Long("jobs") => jobs = parser.value()?.parse()?,
            Arg::Long("boot-only") => boot_only = true,
            Arg::Short('h') | Arg::Long("help") => return Ok(None),
            other => return Err(other.unexpected().into()),
        }
    }
    let arch = arch.ok_or("give --arch")?;
    let machine = MACHINES.iter().find(|machine| machine.name == arch);
    let machine = machine.ok_or_else(|| format!("no machine for {arch}"))?;
    Ok(Some(Options { machine, source, config, jobs, boot_only }))
}

fn build(options: &Options, folder: &Path) -> Result<()> {
    let ours = build_recorder()?;
    let source = unpack(&options.source)?;
    let output = folder.join("build");
    files::make_folder(&output)?;
    let make = |targets: &[&str]| {
        let mut make = Command::new("make");
        make.arg("-C").arg(&source).arg(format!("O={}", output.display()));
        make.arg(format!("ARCH={}", options.machine.arch));
        make.arg(format!("CROSS_COMPILE={}", options.machine.cross));
        make.arg(format!("-j{}", options.jobs)).args(targets);
        execute(&mut make, &folder.join("build.log"))
    };
    make_initramfs(options.machine, folder)?;
    if !output.join(".config").exists() {
        make(&["allnoconfig"])?;
        let mut config = String::from_utf8(files::read(&output.join(".config"))?)?;
        config.push_str(CONFIG);
        config.extend(options.machine.config.iter().copied());
        if let Some(more) = &options.config {
            config.push_str(&String::from_utf8(files::read(more)?)?);
        }
        files::write(&output.join(".config"), config.as_bytes())?;
        make(&["olddefconfig"])?;
    }
    make(&["prepare"])?;
    take_its_place(&output.join("scripts"), &ours)?;
    make(&[options.machine.target])
}

/// The static release build of our recorder.
fn build_recorder() -> Result<PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--release", "--bin", "recordmcount"]);
    if !cargo.current_dir(files::workspace()).status()?.success() {
        return Err("recordmcount does not build".into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    Ok(files::workspace().join(target).join("release/recordmcount"))
}

/// The folder with the source, unpacked from what the Debian package installs.
fn unpack(package: &str) -> Result<PathBuf> {
    let folder = files::workspace().join("target/kernel").join(package);
    if !folder.join("Makefile").exists() {
        let archive = format!("/usr/src/{package}.tar.xz");
        let mut tar = Command::new("tar");
        tar.args(["xf", &archive, "-C"]).arg(files::workspace().join("target/kernel"));
        if !tar.status()?.success() {
            return Err(format!("{archive}: install the package {package}").into());
        }
    }
    Ok(folder)
}

/// Puts the script in the place of `recordmcount`; the original stays beside it.
fn take_its_place(scripts: &Path, ours: &Path) -> Result<()> {
    let (place, original) = (scripts.join("recordmcount"), scripts.join("recordmcount.original"));
    if !original.exists() {
        files::rename(&place, &original)?;
    }
    let script = format!(
        "#!/bin/sh\nfor file; do\n  case $file in -*) continue;; esac\n  \
         cp -p \"$file\" \"$file.theirs\" && '{}' \"$file.theirs\" 2>/dev/null\ndone\n\
         exec '{}' \"$@\"\n",
        original.display(),
        ours.display()
    );
    files::write(&place, script.as_bytes())?;
    execute(Command::new("chmod").arg("755").arg(&place), Path::new("/dev/null"))
}

/// Compiles the user space and packs it.
fn make_initramfs(machine: &Machine, folder: &Path) -> Result<()> {
    let root = folder.join("root");
    files::make_folder(&root)?;
    files::write(&folder.join("init.c"), INIT.as_bytes())?;
    let mut compiler = Command::new(format!("{}gcc", machine.cross));
    compiler.args(["-static", "-O2", "-o"]).arg(root.join("init")).arg(folder.join("init.c"));
    compiler.args(machine.user_flags);
    execute(&mut compiler, &folder.join("init.log"))?;
    let pack = "echo init | cpio --quiet -o -H newc -R 0:0 >../initramfs";
    execute(Command::new("sh").args(["-c", pack]).current_dir(&root), &folder.join("init.log"))
}

/// Runs a command with its output in `log`.
fn execute(command: &mut Command, log: &Path) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    if log.starts_with("/dev") || output.status.success() {
        return if output.status.success() { Ok(()) } else { Err("chmod failed".into()) };
    }
    files::write(log, &text)?;
    Err(format!("failed, see {}", log.display()).into())
}

/// What the serial console prints until the test is done, or patience ends.
fn boot(options: &Options, folder: &Path) -> Result<String> {
    let machine = options.machine;
    let log = folder.join("console.log");
    let (program, arguments) = machine.qemu.split_first().ok_or("no emulator")?;
    let mut qemu = Command::new(program);
    qemu.args(arguments).args(["-nographic", "-no-reboot", "-nic", "none", "-m", "512"]);
    qemu.arg("-kernel").arg(folder.join("build").join(machine.image));
    qemu.arg("-initrd").arg(folder.join("initramfs"));
    qemu.arg("-append").arg(format!("{} panic=-1 rdinit=/init", machine.arguments));
    files::write(&log, b"")?;
    let output = files::append(&log)?;
    qemu.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    let mut child = qemu.spawn().map_err(|error| format!("{program}: {error}"))?;
    let begin = Instant::now();
    loop {
        let console = String::from_utf8_lossy(&files::read(&log)?).into_owned();
        let is_over = console.contains(DONE) || child.try_wait()?.is_some();
        if is_over || begin.elapsed() > PATIENCE {
            let _ = child.kill();
            child.wait()?;
            return Ok(String::from_utf8_lossy(&files::read(&log)?).into_owned());
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// What the console shows of the tracer.
struct Seen {
    allocated: Option<String>,
    passed: Vec<String>,
    failed: Vec<String>,
    program: Vec<String>,
    is_done: bool,
}

impl Seen {
    fn on(console: &str) -> Self {
        let lines = || console.lines().map(str::trim_end);
        let with = |text: &str| -> Vec<String> {
            lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
        };
        let mut failed = with("FAILED");
        failed.extend(with("Kernel panic"));
        failed.extend(with("WARNING:"));
        failed.extend(with("ftrace failed"));
        Self {
            allocated: with("ftrace: allocating").pop(),
            passed: with("PASSED"),
            failed,
            program: with("mcount-test:"),
            is_done: console.contains(DONE),
        }
    }

    fn print(&self) {
        println!("{}", self.allocated.as_deref().unwrap_or("ftrace allocated nothing"));
        for line in self.passed.iter().chain(&self.failed).chain(&self.program) {
            println!("  {line}");
        }
        println!("{}", if self.is_well() { "boots and traces" } else { "DOES NOT TRACE" });
    }

    fn is_well(&self) -> bool {
        self.is_done
            && self.allocated.is_some()
            && self.failed.is_empty()
            && !self.passed.is_empty()
    }
}
