//! `cargo xtask kernel`: builds Debian's kernel source with our recorder, boots it in QEMU, and
//! reports: are the tables those of the original recorder, and does the kernel trace?
//!
//! The build is Kbuild's own, unmodified; who records is said on the command line of make. One
//! compile serves both recorders: each object is kept as it was before recording, and the original
//! records the copy. Both kernels are linked and booted. A small static program is the whole user
//! space: it switches tracers on, loads a module, and prints. Everything is in `target/kernel/ARCH`,
//! and a build that was interrupted goes on.

mod boot;
mod build;
mod compare;
mod configuration;
mod console;
mod machines;
mod objects;
mod process;

use std::path::PathBuf;

use lexopt::{Arg, ValueExt as _};

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
  --boot-only       boot the two kernels that were built, with the present program in them, and
                    compare their tables

Two kernels are linked of one compile: of objects with our tables, and of objects with those of the
original recorder. Both boot. What goes wrong in both alike is the kernel's own and no failure: the exit
code is 1 if only ours does it, if a table differs without a known cause, or if our kernel does not boot.

Debian packages: the source package, the cross compiler (for i386 clang), the QEMU of the processor
(qemu-system-arm, -mips, -ppc, -sparc, -x86), linux-kbuild-6.1, flex, bison, bc, libelf-dev, libssl-dev,
cpio, make, xz-utils. Made to be read: build.log, ours/console.log and theirs/console.log in
target/kernel/ARCH (ARCH-archive, ARCH-late).
";

/// The folders of the two kernels, below that of the build.
const OURS: &str = "ours";
const THEIRS: &str = "theirs";

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

/// Runs the chore: `false` if the kernel does not trace as the original's does, or a table differs.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let Some(options) = parse(&mut parser)? else {
        print!("{USAGE}");
        return Ok(true);
    };
    let mut seconds = None;
    if !options.boot_only {
        let build = Build::new(&options)?;
        seconds = build.ours()?;
        build.original()?;
    }
    let ours = boot(&options, OURS)?;
    ours.print();
    let theirs = boot(&options, THEIRS)?;
    ours.print_beside(&theirs);
    let is_well = ours.is_as_well_as(&theirs);
    let entries = [ours.entries, theirs.entries];
    let (is_same, tables) = compare(&options, entries)?;
    println!("{}", row(&options, &tables, [&ours, &theirs], seconds)?);
    println!("{}", if is_well && is_same { "boots and traces" } else { "DOES NOT TRACE" });
    Ok(is_well && is_same)
}

/// Boots one of the two kernels whole.
fn boot(options: &Options, kernel: &str) -> Result<Seen> {
    let folder = options.folder().join(kernel);
    boot::make_initramfs(options.machine, &folder)?;
    Ok(Seen::on(&boot::boot(options.machine, &folder, console::DONE)?))
}

/// Compares the tables of all objects, and of the images where objects do not show what was done, and
/// the numbers of entries that the kernels found: whether they are the same, and for docs/kernels.md how
/// many objects and entries there are, and how many tables differ.
fn compare(options: &Options, [ours, theirs]: [Option<usize>; 2]) -> Result<(bool, String)> {
    let folder = options.folder();
    let mut is_same = true;
    let mut columns = None;
    if options.mode != Mode::Late {
        let tables = compare::tables(&folder.join("build"))?;
        tables.print();
        is_same = tables.unexplained == 0 && ours == theirs.and_then(|n| tables.ours_for(n));
        columns = Some(tables.columns());
    }
    if options.mode == Mode::Late || options.drop_weak {
        let (same_images, said) = compare_images(options)?;
        is_same &= same_images && ours == theirs;
        columns = Some(said);
    }
    Ok((is_same, columns.unwrap_or_default()))
}

/// Compares the tables that the linker filled in.
fn compare_images(options: &Options) -> Result<(bool, String)> {
    let folder = options.folder();
    let table = |kernel: &str| compare::image_table(&folder.join(kernel).join("vmlinux"));
    let originals = table(THEIRS)?;
    let dropped = compare::dropped(&table(OURS)?, &originals);
    let said = match dropped {
        Some(0) => "0".to_owned(),
        Some(dropped) => format!("{dropped} dropped"),
        None => "the image's".to_owned(),
    };
    println!("tables of {} entries in both images, differences: {said}", originals.len());
    let is_same = dropped.is_some_and(|dropped| options.drop_weak || dropped == 0);
    Ok((is_same, format!(" | {} | {said}", originals.len())))
}

/// The line of docs/kernels.md about this kernel; `seconds` is how long its build took.
fn row(
    options: &Options,
    tables: &str,
    [ours, theirs]: [&Seen; 2],
    seconds: Option<f64>,
) -> Result<String> {
    let config = options.folder().join("build/.config");
    let compiler = configuration::compiler(&String::from_utf8(files::read(&config)?)?);
    let when = match options.mode {
        Mode::Object => "each object",
        Mode::Archive => "all at once",
        Mode::Late => "late",
    };
    let weak = if options.drop_weak { ", `--drop-weak`" } else { "" };
    let seconds = seconds.map_or_else(|| "–".to_owned(), |seconds| format!("{seconds:.0}"));
    Ok(format!(
        "| {} | {compiler} | {when}{weak} | {tables} | {} / {} | {} | {} | {seconds} |",
        options.machine.name,
        ours.entries.unwrap_or(0),
        theirs.entries.unwrap_or(0),
        ours.passed.len(),
        if ours.wrong.is_empty() { "ok" } else { "ok but for the kernel's own" },
    ))
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
