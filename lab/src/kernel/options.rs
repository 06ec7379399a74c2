//! The command line of `cargo lab kernel`, and where each kernel is built.

use std::path::PathBuf;

use lexopt::{Arg, ValueExt as _};

use super::machines::{MACHINES, Machine};
use crate::{Result, files};

pub(super) const USAGE: &str = "\
usage: cargo lab kernel --arch ARCH [OPTION…]

  --arch ARCH       arm, i386, x86_64, mips, mipsel, mips64, mips64el, ppc, ppc64, ppc64le, sparc64,
                    riscv64, arm64, arm64-lto, loongarch64 (these only with --patches), s390x (only with
                    --mode archive)
  --mode MODE       when the table is made (default: object)
                      object   of each object, by the recordmcount that Kbuild calls
                      archive  of all objects before the link, by one mcount record
                      late     of the image, by mcount link around the linker
  --patches         with the patches of contrib/linux and FTRACE_MCOUNT_LATE, beside the same kernel without
                    it, which has the compiler's table; linux-source-6.12 unless --source says otherwise, as for s390x
  --debian          no kernel is built: one as Debian installs it boots with two of its modules, recorded anew, and
                    again with them as they are (s390x, mipsel, mips64el)
  --drop-weak       mcount sort --drop-weak on vmlinux
  --source PACKAGE  Debian's source package (default: linux-source-6.1)
  --config FILE     more configuration, one option a line
  --jobs N          for make (default: 2)
  --boot-only       boot the two kernels that were built, with the present program in them, and
                    compare their tables

Two kernels are linked of one compile: of objects with our tables, and of objects with those of the
original recorder. Both boot. What goes wrong in both alike is the kernel's own and no failure: the exit
code is 1 if only ours does it, if a table differs without a known cause, or if our kernel does not boot.

Debian packages: the source package, the cross compiler (for i386 clang), the QEMU of the processor
(qemu-system-arm, -mips, -misc and opensbi, -ppc, -sparc, -x86), linux-kbuild-6.1, flex, bison, bc, libelf-dev, libssl-dev,
cpio, make, xz-utils; for loongarch64 clang-19, lld-19, llvm-19, and its QEMU and C library are fetched from the next Debian
and not installed. Made to be read: build.log, ours/console.log and theirs/console.log in
target/kernel/ARCH (ARCH-archive, ARCH-late, ARCH-patches, ARCH-debian).
";

/// The folders of the two kernels, below that of the build.
pub(super) const OURS: &str = "ours";
pub(super) const THEIRS: &str = "theirs";

/// When the table is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    Object,
    Archive,
    Late,
}

#[expect(clippy::struct_excessive_bools, reason = "they are switches of the command line")]
pub(super) struct Options {
    pub(super) machine: &'static Machine,
    pub(super) mode: Mode,
    pub(super) drop_weak: bool,
    /// With the patches that are ready to send.
    pub(super) patches: bool,
    /// As Debian installs it, with modules that are recorded anew.
    pub(super) is_debians: bool,
    pub(super) source: String,
    pub(super) config: Option<PathBuf>,
    pub(super) jobs: u32,
    pub(super) boot_only: bool,
}

impl Options {
    /// Where everything of this kernel is.
    pub(super) fn folder(&self) -> PathBuf {
        let name = match self.mode {
            _ if self.is_debians => format!("{}-debian", self.machine.name),
            _ if self.patches && self.version() != "6.12" => {
                format!("{}-{}-patches", self.machine.name, self.version())
            }
            _ if self.patches => format!("{}-patches", self.machine.name),
            Mode::Object => self.machine.name.to_owned(),
            Mode::Archive => format!("{}-archive", self.machine.name),
            Mode::Late => format!("{}-late", self.machine.name),
        };
        files::workspace().join("target/kernel").join(name)
    }

    /// The version of the source, such as `6.12`.
    pub(super) fn version(&self) -> &str {
        self.source.trim_start_matches("linux-source-")
    }

    /// Options that the machine needs in this version only.
    pub(super) fn config_of_version(&self) -> &'static str {
        let mut versions = self.machine.config_of.iter();
        versions.find(|(version, _)| *version == self.version()).map_or("", |(_, config)| config)
    }
}

/// Reads the command line; `None` if it asks for help.
pub(super) fn parse(parser: &mut lexopt::Parser) -> Result<Option<Options>> {
    let (mut arch, mut source) = (None, None);
    let (mut config, mut jobs, mut boot_only) = (None, 2, false);
    let (mut mode, mut drop_weak, mut patches) = (Mode::Object, false, false);
    let mut is_debians = false;
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("arch") => arch = Some(parser.value()?.string()?),
            Arg::Long("mode") => mode = mode_of(&parser.value()?.string()?)?,
            Arg::Long("drop-weak") => drop_weak = true,
            Arg::Long("patches") => patches = true,
            Arg::Long("debian") => is_debians = true,
            Arg::Long("source") => source = Some(parser.value()?.string()?),
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
    if (patches || is_debians) && (mode != Mode::Object || drop_weak) || patches && is_debians {
        return Err(
            "--patches and --debian go with neither each other, --mode nor --drop-weak".into()
        );
    }
    if machine.is_patchable && !patches && !is_debians {
        return Err(format!("the compiler makes the table of {arch}: give --patches").into());
    }
    if machine.has_nops && mode != Mode::Archive && !is_debians {
        return Err(format!("the compiler makes the table of {arch}: give --mode archive").into());
    }
    let is_new = patches || machine.has_nops;
    let usual = if is_new { "linux-source-6.12" } else { "linux-source-6.1" };
    let source = source.unwrap_or_else(|| usual.to_owned());
    Ok(Some(Options {
        machine,
        mode,
        drop_weak,
        patches,
        is_debians,
        source,
        config,
        jobs,
        boot_only,
    }))
}

fn mode_of(name: &str) -> Result<Mode> {
    match name {
        "object" => Ok(Mode::Object),
        "archive" => Ok(Mode::Archive),
        "late" => Ok(Mode::Late),
        _ => Err(format!("no mode is called {name}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Option<Options>> {
        parse(&mut lexopt::Parser::from_args(line.split_whitespace()))
    }

    #[test]
    fn a_kernel_has_a_folder_for_each_mode() {
        let options = parsed("--arch x86_64 --mode late --drop-weak").unwrap().unwrap();
        assert!(options.drop_weak && options.folder().ends_with("target/kernel/x86_64-late"));
        let options = parsed("--arch arm").unwrap().unwrap();
        assert!(options.folder().ends_with("target/kernel/arm"));
        assert!(parsed("--help").unwrap().is_none());
        let options = parsed("--arch riscv64 --patches").unwrap().unwrap();
        assert!(options.folder().ends_with("target/kernel/riscv64-patches"));
        assert_eq!(options.config_of_version(), "CONFIG_RISCV_ISA_C=y\n");
        assert_eq!(options.source, "linux-source-6.12");
        let options =
            parsed("--arch riscv64 --patches --source linux-source-6.1").unwrap().unwrap();
        assert!(options.folder().ends_with("target/kernel/riscv64-6.1-patches"));
        assert!(options.config_of_version().contains("CONFIG_SOC_VIRT=y\n"));
        let options = parsed("--arch s390x --mode archive").unwrap().unwrap();
        assert_eq!(options.version(), "6.12");
        let options = parsed("--arch s390x --debian").unwrap().unwrap();
        assert!(options.folder().ends_with("target/kernel/s390x-debian"));
        for line in ["--arch arm --debian --mode late", "--arch arm --debian --patches"] {
            assert!(parsed(line).is_err(), "{line}");
        }
        for line in ["--arch riscv64", "--arch arm --patches --mode late", "--arch s390x"] {
            assert!(parsed(line).is_err(), "{line}");
        }
        for line in ["", "--arch vax", "--arch arm --mode early", "--arch arm --jobs many"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn every_machine_is_in_the_usage() {
        for machine in MACHINES {
            assert!(USAGE.contains(machine.name), "{}", machine.name);
        }
    }
}
