//! `cargo lab timeline`: in machines that QEMU emulates, under kernels of Debian, programs are recorded by `mcount`, by `strace` and by
//! `trace-cmd`. The same system calls and the same kernel functions have to be in all, one in the other in the same way. Then `mcount` is
//! killed again and again, and nothing may stay behind in the kernel.
//!
//! `trace-cmd` records the very run that `mcount` records, so that even servers can be compared. All that stays in `target/timeline` and is
//! used again.

mod compare;
mod perfetto;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lexopt::{Arg, ValueExt as _};

use crate::programs::Profile;
use crate::{Result, apt, debian, files, outside, programs};

const USAGE: &str = "\
usage: cargo lab timeline [OPTION…]

Records lua, sqlite and redis with mcount, strace and trace-cmd under Debian's kernels 6.1 and 6.12, in machines that QEMU emulates, and
compares system calls and kernel functions. Then kills mcount 50 times. It takes ten minutes for each kernel on two processors that
do nothing else, and five more to build mcount for AArch64.

  --machine NAME  x86_64 or aarch64 (default: both)
  --kernel NAME   6.1 or 6.12 (default: both)
  --compare       only compare what the machines left behind
  --redis         instead, on this machine: how much of redis's throughput recording its system calls takes
  --perfetto PATH instead, under 6.12 on x86-64: record a program with hooks, its system calls and what the kernel does for them, and
                  ask PATH, Perfetto's trace_processor_shell, about all of that
";

/// What the machine has besides `mcount`.
const PROGRAMS: [&str; 22] = [
    "bash",
    "coreutils",
    "dash",
    "diffutils",
    "e2fsprogs",
    "gawk",
    "grep",
    "iproute2",
    "kmod",
    "libc-bin",
    "lua5.4",
    "mount",
    "procps",
    "redis-server",
    "redis-tools",
    "sed",
    "sqlite3",
    "strace",
    "tar",
    "trace-cmd",
    "util-linux",
    "libgcc-s1",
];

/// The modules that it takes to mount a disk.
const MODULES: [&str; 5] = ["virtio_pci", "virtio_blk", "crc32c_generic", "crc32c", "ext4"];

/// Minutes that a machine may run.
const PATIENCE: &str = "90m";

struct Machine {
    name: &'static str,
    /// As Debian calls it.
    architecture: &'static str,
    compiler: &'static str,
    packages: &'static [&'static str],
    qemu: &'static [&'static str],
    console: &'static str,
}

const MACHINES: [Machine; 2] = [
    Machine {
        name: "x86_64",
        architecture: "amd64",
        compiler: "gcc",
        packages: &["qemu-system-x86"],
        // Processors by turns: by QEMU's threads, one may run an instruction that another one has changed, and Linux panics.
        qemu: &["-cpu", "max", "-accel", "tcg,thread=single"],
        console: "ttyS0",
    },
    Machine {
        name: "aarch64",
        architecture: "arm64",
        compiler: "aarch64-linux-gnu-gcc",
        packages: &["qemu-system-arm", "g++-aarch64-linux-gnu"],
        qemu: &["-M", "virt", "-cpu", "max,pauth-impdef=on", "-accel", "tcg,thread=multi"],
        console: "ttyAMA0",
    },
];

/// What a machine does: with all programs, or with one that has hooks.
const JOB: &str = include_str!("timeline/job.sh");
const SAVE_JOB: &str = include_str!("timeline/save.sh");
const SAVE: &str = include_str!("timeline/save.c");
const INIT: &str = include_str!("timeline/init.c");
const HOOKS: &str = "-fpatchable-function-entry=5";

/// What the chore itself needs.
const TOOLS: [&str; 5] = ["cpio", "e2fsprogs", "kmod", "trace-cmd", "xz-utils"];

/// The kernels, and the release of Debian that has them, if it isn't this machine's.
const KERNELS: [(&str, Option<&str>); 2] = [("6.1", None), ("6.12", Some("trixie"))];

/// `false` if something differs.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let (mut machine, mut kernel, mut is_done) = (None, None, false);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("machine") => machine = Some(parser.value()?.string()?),
            Arg::Long("kernel") => kernel = Some(parser.value()?.string()?),
            Arg::Long("compare") => is_done = true,
            Arg::Long("redis") => return redis(),
            Arg::Long("perfetto") => return perfetto(&std::path::absolute(parser.value()?)?),
            Arg::Short('h') | Arg::Long("help") => {
                print!("{USAGE}");
                return Ok(true);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let is_wanted =
        |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|one| one == name);
    let machines: Vec<&Machine> =
        MACHINES.iter().filter(|one| is_wanted(&machine, one.name)).collect();
    let kernels: Vec<_> = KERNELS.iter().filter(|one| is_wanted(&kernel, one.0)).collect();
    if machines.is_empty() || kernels.is_empty() {
        return Err(format!("no such machine or kernel\n\n{USAGE}").into());
    }
    apt::install(&apt::missing(&TOOLS).unwrap_or_default())?;
    let ours = programs::build("mcount-cli", Profile::Release)?.join("mcount");
    let mut rows = Vec::new();
    let mut is_well = true;
    for machine in machines {
        apt::install(&apt::missing(machine.packages).unwrap_or_default())?;
        let storage = files::target().join("timeline").join(machine.name);
        for (version, release) in &kernels {
            let place = storage.join(version);
            if !is_done {
                machine.record(&storage, &place, *release, JOB)?;
            }
            let found = compare::compare(&ours, &place.join("out"))?;
            is_well &= found.is_well;
            rows.extend(
                found.rows.iter().map(|row| format!("| {}, {version} {row}", machine.name)),
            );
        }
    }
    println!(
        "\n| machine, kernel | program | system calls | kernel functions | calls of these | differ |"
    );
    println!("|---|---|--:|--:|--:|--:|");
    println!("{}", rows.join("\n"));
    Ok(is_well)
}

/// Measures redis; is the loss at most a fifth of what `strace` takes, and less than what `perf trace` does?
fn redis() -> Result<bool> {
    apt::install(&apt::missing(&["linux-perf", "redis-server", "strace"]).unwrap_or_default())?;
    let mcount = programs::build("mcount-cli", Profile::Release)?.join("mcount");
    let scratch = tempfile::tempdir()?;
    let mut script = Command::new("sh");
    script.args(["-c", include_str!("timeline/redis.sh"), "sh"]).arg(mcount);
    let output = script.current_dir(&scratch).output()?;
    let text = String::from_utf8(output.stdout)?;
    let median = |how: &str| -> Result<f64> {
        let of = |line: &str| line.strip_prefix(how)?.trim().parse().ok();
        let mut rates: Vec<f64> = text.lines().filter_map(of).collect();
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied().ok_or_else(|| format!("no rates: {text}").into())
    };
    let plain = median("plain")?;
    println!("| | requests a second | lost |\n|---|--:|--:|\n| alone | {plain:.0} | |");
    let mut lost = Vec::new();
    for how in ["mcount", "perf", "strace"] {
        let rate = median(how)?;
        lost.push((plain - rate) / plain);
        println!("| {how} | {rate:.0} | {:.1} % |", 100.0 * (plain - rate) / plain);
    }
    let [mcount, perf, strace] = lost[..] else { return Ok(false) };
    Ok(mcount < perf && mcount * 5.0 <= strace)
}

/// Holds what Perfetto's program says of a trace with both halves against `mcount`.
fn perfetto(processor: &Path) -> Result<bool> {
    let [machine, _] = &MACHINES;
    apt::install(&apt::missing(&TOOLS).unwrap_or_default())?;
    apt::install(&apt::missing(machine.packages).unwrap_or_default())?;
    let mcount = programs::build("mcount-cli", Profile::Release)?.join("mcount");
    let storage = files::target().join("timeline").join(machine.name);
    let place = storage.join("save");
    machine.record(&storage, &place, Some("trixie"), SAVE_JOB)?;
    perfetto::compare(&mcount, processor, &place.join("out/save.mcount"))
}

impl Machine {
    /// Runs the job under a kernel. What it wrote is in the folder `out` of `place`.
    fn record(&self, storage: &Path, place: &Path, release: Option<&str>, job: &str) -> Result<()> {
        files::make_folder(place)?;
        let root = self.root(storage)?;
        files::write(&root.join("job.sh"), job.as_bytes())?;
        let suite = debian::Suite(release.map(str::to_owned));
        let flavour = suite.flavours(self.architecture)?.first().ok_or("no flavour")?;
        let kernel = debian::obtain_of(&suite, self.architecture, flavour, false)?;
        let start = place.join("initramfs");
        self.first(&kernel.folder, place, &start)?;
        let disk = place.join("disk");
        let _ = std::fs::remove_file(&disk);
        succeed(
            Command::new("/sbin/mke2fs")
                .args(["-q", "-t", "ext4", "-d"])
                .arg(&root)
                .arg(&disk)
                .arg("3G"),
        )?;
        self.boot(place, &image(&kernel.folder)?, &start, &disk)?;
        shell(place, "rm -rf out && /sbin/debugfs -R 'rdump /out .' disk 2>/dev/null && rm disk")
    }

    /// A folder with all that is on the disk.
    fn root(&self, storage: &Path) -> Result<PathBuf> {
        let root = storage.join("root");
        if !root.join("ready").is_file() {
            debian::unpack_all(self.architecture, &PROGRAMS, storage, &root)?;
            files::write(&root.join("ready"), b"")?;
        }
        for folder in ["proc", "sys", "dev", "tmp", "run", "usr/local/bin"] {
            files::make_folder(&root.join(folder))?;
        }
        let mcount = match self.name {
            "x86_64" => programs::build("mcount-cli", Profile::Release)?.join("mcount"),
            name => outside::mcount(name)?,
        };
        succeed(Command::new("cp").arg(mcount).arg(root.join("usr/local/bin/mcount")))?;
        self.compile(SAVE, &root.join("usr/local/bin/save"), &["-pthread", HOOKS])?;
        files::write(&root.join("work.lua"), include_bytes!("timeline/work.lua"))?;
        files::write(&root.join("work.sql"), include_bytes!("timeline/work.sql"))?;
        Ok(root)
    }

    /// What the kernel begins with: modules, and a program that mounts the disk.
    fn first(&self, kernel: &Path, place: &Path, start: &Path) -> Result<()> {
        let folder = place.join("first");
        shell(place, "rm -rf first && mkdir -p first/modules first/dev first/disk")?;
        let line = format!(
            "[ -e lib ] || ln -s usr/lib lib; version=$(ls lib/modules); \
             [ -e lib/modules/$version/modules.dep ] || /sbin/depmod -b . $version; \
             for name in {}; do /sbin/modprobe -d . -S $version --show-depends $name 2>/dev/null; done | \
             sed -n 's/^insmod //p' | awk '!seen[$0]++' | while read -r path rest; do \
               name=$(basename $path .xz); \
               case $path in *.xz) xz -dc $path;; *) cat $path;; esac >'{1}'/modules/$name; \
               echo $name; done >'{1}'/modules/list",
            MODULES.join(" "),
            folder.display()
        );
        shell(kernel, &line)?;
        self.compile(INIT, &folder.join("init"), &[])?;
        shell(&folder, &format!("find . | cpio --quiet -o -H newc -R 0:0 >'{}'", start.display()))
    }

    /// Compiles a program that needs no library.
    fn compile(&self, source: &str, program: &Path, flags: &[&str]) -> Result<()> {
        let place = tempfile::tempdir()?;
        let path = place.path().join("source.c");
        files::write(&path, source.as_bytes())?;
        let mut compiler = Command::new(self.compiler);
        succeed(compiler.args(["-static", "-O2"]).args(flags).arg("-o").arg(program).arg(path))
    }

    fn boot(&self, place: &Path, kernel: &Path, start: &Path, disk: &Path) -> Result<()> {
        let log = place.join("console.log");
        println!("the machine's console is {}", log.display());
        let mut qemu = Command::new("timeout");
        qemu.arg(PATIENCE).arg(format!("qemu-system-{}", self.name)).args(self.qemu);
        qemu.args(["-smp", "2", "-m", "3072"]);
        qemu.args(["-nographic", "-no-reboot", "-nic", "none", "-kernel"]).arg(kernel);
        qemu.arg("-initrd")
            .arg(start)
            .arg("-append")
            .arg(format!("console={} loglevel=5 oops=panic panic=-1", self.console));
        qemu.arg("-drive").arg(format!("file={},format=raw,if=virtio", disk.display()));
        let status = qemu.stdin(Stdio::null()).stdout(files::create(&log)?).status()?;
        let shown = String::from_utf8_lossy(&files::read(&log)?).into_owned();
        let is_done = status.success()
            && shown.contains("timeline: END")
            && !shown.contains("timeline: FAILED");
        if is_done { Ok(()) } else { Err(format!("{}: {status}", log.display()).into()) }
    }
}

/// The kernel of an unpacked package.
fn image(package: &Path) -> Result<PathBuf> {
    let mut images = files::list(&package.join("boot"))?.into_iter();
    let is_image = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"))
    };
    images.find(is_image).ok_or_else(|| format!("{} has no kernel", package.display()).into())
}

fn shell(folder: &Path, line: &str) -> Result<()> {
    succeed(Command::new("sh").args(["-c", line]).current_dir(folder))
}

/// Runs a command that has to succeed.
fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}
