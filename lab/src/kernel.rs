//! `cargo lab kernel`: builds Debian's kernel source with our recorder, boots it in QEMU, and
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
mod loaded;
mod machines;
mod newer;
mod objects;
mod options;
mod patched;
mod process;

use self::build::Build;
use self::console::Seen;
use self::options::{Mode, OURS, Options, THEIRS, USAGE};
use crate::{Result, files};

/// The user space of a kernel that was built.
const PROGRAM: &str = include_str!("kernel/init.c");

/// Runs the chore: `false` if the kernel does not trace as the original's does, or a table differs.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let Some(options) = options::parse(&mut parser)? else {
        print!("{USAGE}");
        return Ok(true);
    };
    if options.is_debians {
        return loaded::run(&options);
    }
    if options.patches {
        return patched::run(&options);
    }
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
    println!("{}", verdict(is_well, is_same));
    Ok(is_well && is_same)
}

/// Boots one of the two kernels whole.
fn boot(options: &Options, kernel: &str) -> Result<Seen> {
    let folder = options.folder().join(kernel);
    boot::make_initramfs(options.machine, &folder, PROGRAM, &["mcount_test.ko".to_owned()])?;
    Ok(Seen::on(&boot::boot(options.machine, &folder, console::DONE)?))
}

/// Compares the tables of all objects, and of the images where objects do not show what was done, and
/// the numbers of entries that the kernels found: whether they are the same, and for docs/kernels-evidence.md how
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

/// The line of docs/kernels-evidence.md about this kernel; `seconds` is how long its build took.
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
        state(ours, theirs),
    ))
}

/// The last line: whether our kernel is as well as the original's, and whether their tables agree.
fn verdict(is_well: bool, is_same: bool) -> &'static str {
    match (is_well, is_same) {
        (true, true) => "boots and traces",
        (true, false) => "boots and traces, but A TABLE DIFFERS",
        (false, _) => "DOES NOT TRACE",
    }
}

/// What docs/kernels-evidence.md says of how our kernel traces.
fn state(ours: &Seen, theirs: &Seen) -> &'static str {
    match (ours.is_as_well_as(theirs), ours.wrong.is_empty()) {
        (false, _) => "does not trace",
        (true, true) => "ok",
        (true, false) => "ok but for the kernel's own",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_shows_nothing_is_not_ok() {
        let nothing = Seen::on("");
        assert_eq!(state(&nothing, &nothing), "does not trace");
        assert_eq!(verdict(false, true), "DOES NOT TRACE");
        assert!(verdict(true, false).contains("DIFFERS"));
    }
}
