//! `cargo xtask kernel`: builds Debian's kernel source with our recorder, boots it in QEMU, and
//! reports: are the tables those of the original recorder, and does the kernel trace?
//!
//! The build is Kbuild's own, unmodified; who records is said on the command line of make. One
//! compile serves both recorders: each object is kept as it was before recording, and the original
//! records the copy. A small static program is the whole user space: it switches tracers on, loads
//! a module, and prints. Everything is in `target/kernel/ARCH`, and a build that was interrupted goes
//! on.

mod boot;
mod build;
mod compare;
mod configuration;
mod console;
mod machines;

use std::path::PathBuf;

use lexopt::{Arg, ValueExt as _};

use self::boot::boot;
use self::build::Build;
use self::console::Seen;
use self::machines::{MACHINES, Machine};
use crate::{Result, files};

const USAGE: &str = "\
usage: cargo xtask kernel --arch ARCH [OPTION…]

  --arch ARCH       arm, i386, x86_64, mips, mipsel, mips64, mips64el, ppc, ppc64, ppc64le, sparc64
  --mode MODE       when the table is made (default: object)
                      object   of each object, by the recordmcount that Kbuild calls
                      archive  of all objects before the link, by one mcount record
                      late     of the image, by mcount link around the linker
  --drop-weak       mcount sort --drop-weak on vmlinux
  --source PACKAGE  Debian's source package (default: linux-source-6.1)
  --config FILE     more configuration, one option a line
  --jobs N          for make (default: 2)
  --boot-only       boot what was built, and compare the objects

Debian packages: the source package, the cross compiler (for i386 clang), the QEMU of the processor
(qemu-system-arm, -mips, -ppc, -sparc, -x86), linux-kbuild-6.1, flex, bison, bc, libelf-dev, libssl-dev,
cpio, make, xz-utils. Made to be read: target/kernel/ARCH/console.log and build.log.
";

/// When the table is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Object,
    Archive,
    Late,
}

struct Options {
    machine: &'static Machine,
    mode: Mode,
    drop_weak: bool,
    source: String,
    config: Option<PathBuf>,
    jobs: u32,
    boot_only: bool,
}

impl Options {
    /// Where everything of this kernel is.
    fn folder(&self) -> PathBuf {
        let name = match self.mode {
            Mode::Object => self.machine.name.to_owned(),
            Mode::Archive => format!("{}-archive", self.machine.name),
            Mode::Late => format!("{}-late", self.machine.name),
        };
        files::workspace().join("target/kernel").join(name)
    }
}

/// Runs the chore: `false` if the kernel does not trace, or a table differs.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let Some(options) = parse(&mut parser)? else {
        print!("{USAGE}");
        return Ok(true);
    };
    let folder = options.folder();
    files::make_folder(&folder)?;
    if options.boot_only {
        let seen = Seen::on(&boot(options.machine, &folder, console::DONE)?);
        seen.print();
        let tables = compare::tables(&folder.join("build"))?;
        tables.print();
        return Ok(seen.is_well() && tables.unexplained == 0);
    }
    let build = Build::new(&options)?;
    let seconds = build.run()?;
    let is_same = compare(&options, &build)?;
    println!("{}: {seconds:.0} s of processor time for this build", options.machine.name);
    Ok(is_same)
}

/// Boots both kernels, ours whole, and compares the tables.
fn compare(options: &Options, build: &Build<'_>) -> Result<bool> {
    let (folder, machine) = (options.folder(), options.machine);
    let (output, is_late) = (folder.join("build"), options.mode == Mode::Late);
    let tables = compare::tables(&output)?;
    let seen = Seen::on(&boot(machine, &folder, console::DONE)?);
    seen.print();
    let table = || -> Result<_> {
        if is_late { compare::image_table(&output.join("vmlinux")) } else { Ok(Vec::new()) }
    };
    let ours = table()?;
    build.relink_originals()?;
    let theirs = table()?;
    let console = boot(machine, &folder, console::ALLOCATED)?;
    build.put_back()?;
    let entries = console::entries(&console);
    println!("entries with the original's tables: {}", entries.unwrap_or(0));
    let (is_same, more) = if is_late {
        let is_same = ours == theirs || options.drop_weak;
        println!("table of the image: {}", if is_same { "the original's" } else { "another" });
        (is_same, 0)
    } else {
        tables.print();
        (tables.unexplained == 0, tables.more())
    };
    let added = entries.and_then(|entries| entries.checked_add_signed(isize::try_from(more).ok()?));
    Ok(is_same && seen.is_well() && seen.entries == added)
}

fn parse(parser: &mut lexopt::Parser) -> Result<Option<Options>> {
    let (mut arch, mut source) = (None, "linux-source-6.1".to_owned());
    let (mut config, mut jobs, mut boot_only) = (None, 2, false);
    let (mut mode, mut drop_weak) = (Mode::Object, false);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("arch") => arch = Some(parser.value()?.string()?),
            Arg::Long("mode") => mode = mode_of(&parser.value()?.string()?)?,
            Arg::Long("drop-weak") => drop_weak = true,
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
    Ok(Some(Options { machine, mode, drop_weak, source, config, jobs, boot_only }))
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
