//! Records the kernel modules of Debian again, and compares with the tables that they came with.
//!
//! The largest test there is: 32,000 modules of ten kernels and seven processors, whose tables were
//! made by other programs. For each: take the table out, record, and compare the entries with those
//! of the build, with those of the kernel's own recordmcount, and with what the bytes say
//! ([`sites`]). A difference must have a known cause ([`explain`]), or the chore fails.

mod batch;
mod check;
mod elf;
mod explain;
mod list;
mod outcome;
mod report;
mod scan;
mod sites;
mod whole;

use std::path::{Path, PathBuf};

use lexopt::{Arg, ValueExt as _};
use rayon::prelude::*;

use self::batch::Setting;
use self::report::Report;
use crate::programs::{self, Profile};
use crate::{Result, debian, files};

/// Modules for each run of a recorder: enough to amortize a process, few enough to share out.
const BATCH: usize = 64;

const USAGE: &str = "\
usage: cargo lab modules [OPTION…]

  --arch NAME[,NAME…]   architectures of Debian (default: all that Debian 12 has kernels for)
  --suite NAME          the kernel of a newer release (trixie, sid, bookworm-backports); there, --list is
                        what can be compared
  --flavour NAME        another kernel than the default one of that architecture
  --update              ask the mirror for a newer package, even if one is in the cache
  --limit N             no more than N modules of each kernel
  --sample N            only every Nth module
  --against WHICH       original, build or both (default: both)
  --ours PATH           the recorder to test (default: target/release/recordmcount, built now)
  --original PATH       the recorder to compare with (default: that of linux-kbuild-6.1)
  --check PATH          an mcount, whose check of the modules as they are is to be confirmed, and only
                        that
  --scan PATH           an mcount, whose scan is to find the sites of modules without table; with
                        --list, the mcount to test (default: target/release/mcount, built now)
  --show                disassemble around each difference
  --list                compare what mcount list says of the tables with what a script over
                        pyelftools (pip install pyelftools) reads; nothing is recorded
  --whole               compare all modules in one object (ld -r) with the modules one by one
  --json FILE           write what was found as JSON
";

/// The command line.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
struct Options {
    architectures: Vec<String>,
    suite: debian::Suite,
    flavour: Option<String>,
    update: bool,
    limit: usize,
    sample: usize,
    build: bool,
    original: Option<PathBuf>,
    ours: Option<PathBuf>,
    scan: Option<PathBuf>,
    check: Option<PathBuf>,
    show: bool,
    whole: bool,
    list: bool,
    json: Option<PathBuf>,
}

/// The places that the table of `object` leads to, in order, by section and offset.
pub(crate) fn table_of(object: &[u8]) -> Result<std::collections::BTreeSet<(usize, u64)>> {
    let object = elf::Object::parse(object)?;
    let table = object.table.as_ref();
    Ok(table.map(|table| table.entries.iter().copied().collect()).unwrap_or_default())
}

/// What one of two tables of `object` has and the other has not: each with its cause, and whether that
/// is a known one.
pub(crate) fn explained(
    object: &[u8],
    theirs: &std::collections::BTreeSet<(usize, u64)>,
    ours: &std::collections::BTreeSet<(usize, u64)>,
) -> Result<Vec<(String, bool)>> {
    let object = elf::Object::parse(object)?;
    let case = explain::Case { object: &object, sites: &sites::find(&object) };
    let differences = case.differences(explain::Reference::Original, theirs, ours);
    let say = |difference: explain::Difference| {
        let who = if difference.ours_has_it { "only ours" } else { "only theirs" };
        let text = format!("{who}: {}: {}", difference.cause.name(), difference.detail);
        (text, difference.cause != explain::Cause::Unexplained)
    };
    Ok(differences.into_iter().map(say).collect())
}

/// Runs the chore: `false` when a difference is unexplained.
pub(crate) fn run(parser: lexopt::Parser) -> Result<bool> {
    let Some(options) = parse(parser)? else {
        print!("{USAGE}");
        return Ok(true);
    };
    if options.list {
        return list(&options);
    }
    let scratch = files::workspace().join("target/modules/scratch");
    files::make_folder(&scratch)?;
    let original = options.original.clone().filter(|path| path.is_file());
    if options.original.is_some() && original.is_none() {
        eprintln!(
            "lab: no original recorder here (package linux-kbuild-6.1): not compared with it"
        );
    }
    let setting = Setting {
        ours: match &options.ours {
            Some(path) => std::path::absolute(path)?,
            None => programs::build("mcount-cli", Profile::Release)?.join("recordmcount"),
        },
        original,
        scan: options.scan.as_ref().map(std::path::absolute).transpose()?,
        against_build: options.build,
        scratch,
        show: options.show,
    };
    let mut explained = true;
    let mut reports = Vec::new();
    for architecture in &options.architectures {
        let flavours = match &options.flavour {
            Some(flavour) => vec![flavour.as_str()],
            None => options.suite.flavours(architecture)?.to_vec(),
        };
        for flavour in flavours {
            if let Some(program) = &options.check {
                explained &= checked(&options, program, architecture, flavour)?;
                continue;
            }
            if options.whole {
                explained &= whole(&options, &setting, architecture, flavour)?;
                continue;
            }
            let report = kernel(&options, &setting, architecture, flavour)?;
            report.print();
            explained &= report.is_explained();
            reports.push(report.json());
        }
    }
    if let Some(path) = &options.json {
        files::write(path, serde_json::to_string_pretty(&reports)?.as_bytes())?;
    }
    Ok(explained)
}

fn parse(mut parser: lexopt::Parser) -> Result<Option<Options>> {
    let mut options = Options {
        architectures: Vec::new(),
        suite: debian::Suite::default(),
        flavour: None,
        update: false,
        limit: usize::MAX,
        sample: 1,
        build: true,
        original: Some(PathBuf::from(debian::ORIGINAL)),
        ours: None,
        scan: None,
        check: None,
        show: false,
        whole: false,
        list: false,
        json: None,
    };
    let mut against_original = true;
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("arch") => {
                let names = parser.value()?.string()?;
                options.architectures.extend(names.split(',').map(str::to_owned));
            }
            Arg::Long("suite") => options.suite.0 = Some(parser.value()?.string()?),
            Arg::Long("flavour") => options.flavour = Some(parser.value()?.string()?),
            Arg::Long("update") => options.update = true,
            Arg::Long("limit") => options.limit = parser.value()?.parse()?,
            Arg::Long("sample") => options.sample = parser.value()?.parse::<usize>()?.max(1),
            Arg::Long("against") => {
                (against_original, options.build) = against(&parser.value()?.string()?)?;
            }
            Arg::Long("ours") => options.ours = Some(parser.value()?.into()),
            Arg::Long("original") => options.original = Some(parser.value()?.into()),
            Arg::Long("scan") => options.scan = Some(parser.value()?.into()),
            Arg::Long("check") => options.check = Some(parser.value()?.into()),
            Arg::Long("whole") => options.whole = true,
            Arg::Long("list") => options.list = true,
            Arg::Long("show") => options.show = true,
            Arg::Long("json") => options.json = Some(parser.value()?.into()),
            Arg::Short('h') | Arg::Long("help") => return Ok(None),
            other => return Err(other.unexpected().into()),
        }
    }
    if !against_original {
        options.original = None;
    }
    if options.architectures.is_empty() {
        options.architectures = options.suite.architectures();
    }
    Ok(Some(options))
}

/// Whether to compare with the original, and with the build.
fn against(which: &str) -> Result<(bool, bool)> {
    match which {
        "original" => Ok((true, false)),
        "build" => Ok((false, true)),
        "both" => Ok((true, true)),
        _ => Err(format!("--against {which}: not original, build or both").into()),
    }
}

/// What `mcount list` says of every table, compared with what a script reads.
fn list(options: &Options) -> Result<bool> {
    let mcount = match &options.scan {
        Some(path) => std::path::absolute(path)?,
        None => programs::build("mcount-cli", Profile::Release)?.join("mcount"),
    };
    let pick = |modules: Vec<PathBuf>| {
        modules.into_iter().step_by(options.sample).take(options.limit).collect()
    };
    let mut is_same = true;
    for architecture in &options.architectures {
        let all = options.suite.flavours(architecture)?;
        let flavours = options.flavour.as_deref().map_or_else(|| all.to_vec(), |one| vec![one]);
        for flavour in flavours {
            is_same &= list::kernel(
                &mcount,
                &options.suite,
                (architecture, flavour),
                options.update,
                pick,
            )?;
        }
    }
    Ok(is_same)
}

/// The binutils of the architectures whose modules can be linked to one object, and whose sites
/// are calls: those of arm64 are the compiler's list, and those of s390x only the table tells.
const LINKED: &[(&str, &str)] = &[
    ("amd64", "x86_64-linux-gnu-"),
    ("armhf", "arm-linux-gnueabi-"),
    ("i386", "i686-linux-gnu-"),
    ("ppc64el", "powerpc64le-linux-gnu-"),
];

/// What `mcount check` finds in the modules as they are.
fn checked(options: &Options, program: &Path, architecture: &str, flavour: &str) -> Result<bool> {
    let package = debian::obtain_of(&options.suite, architecture, flavour, options.update)?;
    let modules: Vec<PathBuf> =
        package.modules.into_iter().step_by(options.sample).take(options.limit).collect();
    let program = std::path::absolute(program)?;
    check::compare(&program, &format!("{architecture} {}", package.name), &modules)
}

/// All modules in one object, compared with the modules one by one.
fn whole(options: &Options, setting: &Setting, architecture: &str, flavour: &str) -> Result<bool> {
    let Some((_, prefix)) = LINKED.iter().find(|(name, _)| *name == architecture) else {
        println!("{architecture}: its modules are not linked to one object");
        return Ok(true);
    };
    let package = debian::obtain_of(&options.suite, architecture, flavour, options.update)?;
    let modules: Vec<PathBuf> =
        package.modules.into_iter().step_by(options.sample).take(options.limit).collect();
    print!("{architecture} {}: ", package.name);
    whole::compare(setting, prefix, &modules)
}

fn kernel(
    options: &Options,
    setting: &Setting,
    architecture: &str,
    flavour: &str,
) -> Result<Report> {
    let package = debian::obtain_of(&options.suite, architecture, flavour, options.update)?;
    let modules: Vec<PathBuf> =
        package.modules.into_iter().step_by(options.sample).take(options.limit).collect();
    let batches: Vec<batch::Batch> = modules
        .par_chunks(BATCH)
        .map(|modules| batch::compare(setting, modules).map_err(|error| first(modules, &*error)))
        .collect::<Result<_>>()?;
    let mut report = Report {
        architecture: architecture.to_owned(),
        package: package.name,
        ..Report::default()
    };
    for batch in batches {
        report.ours += batch.ours;
        report.original += batch.original;
        report.outcomes.extend(batch.outcomes);
    }
    Ok(report)
}

/// Says which batch an error is about.
fn first(
    modules: &[PathBuf],
    error: &(dyn std::error::Error + Send + Sync),
) -> Box<dyn std::error::Error + Send + Sync> {
    let name = modules.first().map_or(Path::new("?"), PathBuf::as_path);
    format!("the batch that begins with {}: {error}", name.display()).into()
}
