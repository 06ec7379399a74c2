//! `cargo lab installed`: kernels of Debian as they're installed in `/boot`, without symbols, against their `vmlinux` with
//! debug information; and what BPF can attach to, against bpftool.
//!
//! The rows that it prints are those of docs/why.md. Packages are fetched, unpacked to `target/installed`, used again, and
//! never installed.

mod alone;
mod fetch;
mod oracle;
mod ours;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use lexopt::Arg;

use self::fetch::Kernel;
use self::oracle::Names;
use crate::programs::{self, Profile};
use crate::{Result, apt};

const USAGE: &str = "\
usage: cargo lab installed [--mcount PATH] [--alone | ARCH…]

Without ARCH, all of: amd64, arm64, armhf, ppc64el, s390x, riscv64. Their packages are 3.8 GB, and 2.5 GB unpacked.
With --alone, kernels of newer Debians for every processor, without their debug packages: 200 MB, and nothing is compared.
With --mcount, that program is asked, and none is built. Debian packages: bpftool, binutils.
";

/// Every Nth function is asked about.
const STEP: usize = 97;

/// Runs the chore: `false` if a kernel without symbols gives another answer without a known cause.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let (mut kernels, mut mcount): (Vec<&Kernel>, _) = (Vec::new(), None);
    let mut is_alone = false;
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Value(name) => {
                let before = kernels.len();
                kernels
                    .extend(fetch::KERNELS.iter().filter(|kernel| *kernel.architecture == *name));
                if kernels.len() == before {
                    return Err(format!("{}\n\n{USAGE}", name.display()).into());
                }
            }
            Arg::Long("alone") => is_alone = true,
            Arg::Long("mcount") => mcount = Some(PathBuf::from(parser.value()?)),
            Arg::Short('h') | Arg::Long("help") => {
                print!("{USAGE}");
                return Ok(true);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if kernels.is_empty() {
        kernels.extend(fetch::KERNELS);
    }
    let mcount = match mcount {
        Some(mcount) => mcount,
        None => programs::build("mcount-cli", Profile::Release)?.join("mcount"),
    };
    if is_alone {
        return alone::run(&mcount);
    }
    apt::install(&apt::missing(&["bpftool", "binutils"]).unwrap_or_default())?;
    let mut rows = Vec::new();
    let mut is_well = true;
    for kernel in kernels {
        let found = compare(kernel, &mcount)?;
        is_well &= found.is_well();
        println!("{}: {}", found.name, if found.is_well() { "the same" } else { "NOT THE SAME" });
        rows.push(found);
    }
    print(&rows);
    Ok(is_well)
}

fn print(rows: &[Row]) {
    println!("\n| kernel | entries | other names | errors of `check` | `why` | `diff` |");
    println!("|---|--:|---|---|---|---|");
    for row in rows {
        println!("{}", row.of_names());
    }
    println!("\n| kernel | functions in BTF | in both | `mcount list --attachable` |");
    println!("|---|--:|--:|---|");
    for row in rows {
        println!("{}", row.of_btf());
    }
}

/// What is known of a kernel: `whole` says what of it without symbols, `map` by `System.map`.
#[derive(Default)]
struct Row {
    name: String,
    entries: usize,
    /// Are the addresses those of `vmlinux` with debug information, by `System.map` and not, and those of the oracle?
    has_same_addresses: bool,
    /// Entries named otherwise, by another name of the same address.
    aliases: usize,
    /// Entries with a name that the address doesn't have.
    misnamed: Vec<String>,
    /// How many errors `check` finds in `vmlinux` with debug information, and how many of either side alone.
    errors: usize,
    other_errors: usize,
    asked: usize,
    /// Functions of which `why` says something else.
    other_answers: Vec<String>,
    /// What `diff` prints.
    differences: Vec<String>,
    in_btf: usize,
    in_both: usize,
    /// What only bpftool and nm say can be attached to, and what only ours does.
    only_theirs: Vec<String>,
    only_ours: Vec<String>,
}

impl Row {
    fn is_well(&self) -> bool {
        let is_same = self.has_same_addresses && self.misnamed.is_empty();
        is_same && self.only_theirs.is_empty() && self.only_ours.is_empty()
    }

    fn of_names(&self) -> String {
        let errors = match self.other_errors {
            0 => format!("{}, the same", self.errors),
            other => format!("{}, {other} in one alone", self.errors),
        };
        let answers = match self.other_answers.len() {
            0 => format!("{}, the same", self.asked),
            other => format!("{}, {other} others", self.asked),
        };
        let (aliases, differences) = (self.aliases, self.differences.len());
        let names = format!("{aliases} aliases, {} wrong", self.misnamed.len());
        let Self { name, entries, .. } = self;
        format!("| `{name}` | {entries} | {names} | {errors} | {answers} | {differences} |")
    }

    fn of_btf(&self) -> String {
        let ours = match (self.only_theirs.len(), self.only_ours.len()) {
            _ if self.in_btf == 0 => "no BTF".to_owned(),
            (0, 0) => "the same".to_owned(),
            (less, more) => format!("{less} less, {more} more"),
        };
        format!("| `{}` | {} | {} | {ours} |", self.name, self.in_btf, self.in_both)
    }
}

/// Asks `mcount` about the kernel in each form, and tells the differences.
fn compare(kernel: &Kernel, mcount: &Path) -> Result<Row> {
    let files = kernel.obtain()?;
    let names = Names::read(&files.debug)?;
    let table = oracle::table(&files.debug)?;
    let (whole, bare) =
        (ours::list(mcount, &files.debug, &[])?, ours::list(mcount, &files.image, &[])?);
    let map = files.system_map.to_string_lossy().into_owned();
    let by_map = ours::list(mcount, &files.image, &["--system-map", &map])?;
    let mut row = Row { name: files.name(), entries: bare.len(), ..Row::default() };
    let addresses = |list: &BTreeMap<u64, String>| list.keys().copied().collect::<BTreeSet<_>>();
    row.has_same_addresses = [&whole, &bare, &by_map].iter().all(|list| addresses(list) == table);
    for (address, name) in bare.iter().chain(&by_map) {
        if whole.get(address) != Some(name) {
            let is_alias = whole.get(address).is_some_and(|other| names.are_of_one(other, name));
            row.aliases += usize::from(is_alias);
            if !is_alias {
                row.misnamed.push(format!("{address:#x} {name} {:?}", whole.get(address)));
            }
        }
    }
    let errors = [&files.debug, &files.image].map(|file| ours::check(mcount, file));
    let [whole_errors, bare_errors] = errors;
    let (whole_errors, bare_errors) = (whole_errors?, bare_errors?);
    row.errors = whole_errors.len();
    row.other_errors = whole_errors.symmetric_difference(&bare_errors).count();
    let some: Vec<&str> = names.unique().step_by(STEP).collect();
    row.asked = some.len();
    let answers = [&files.debug, &files.image].map(|file| ours::why(mcount, file, &some));
    let [with, without] = answers;
    row.other_answers = with?.symmetric_difference(&without?).cloned().collect();
    row.differences = ours::diff(mcount, &files.debug, &files.image)?;
    attachable(&mut row, &files, &names, mcount)?;
    for line in row.misnamed.iter().chain(&row.other_answers).chain(&row.differences) {
        println!("  {line}");
    }
    Ok(row)
}

/// Compares what BPF can attach to.
fn attachable(row: &mut Row, files: &fetch::Files, names: &Names, mcount: &Path) -> Result<()> {
    let btf = oracle::btf(&files.debug)?;
    if btf.is_empty() {
        return Ok(());
    }
    let table = oracle::table(&files.debug)?;
    let theirs: BTreeSet<u64> = table
        .into_iter()
        .filter(|address| names.at(*address).iter().any(|name| btf.contains(name)))
        .filter(|address| !names.is_freed(*address))
        .collect();
    let listed = ours::list(mcount, &files.image, &["--attachable"])?;
    let ours: BTreeSet<u64> = listed.keys().copied().collect();
    let said = |address: &u64| format!("{address:#x} {:?}", names.at(*address));
    row.in_btf = btf.len();
    row.in_both = theirs.len();
    row.only_theirs = theirs.difference(&ours).map(said).collect();
    row.only_ours = ours.difference(&theirs).map(said).collect();
    for (whose, lines) in [("theirs", &row.only_theirs), ("ours", &row.only_ours)] {
        for line in lines {
            println!("  attachable, only {whose}: {line}");
        }
    }
    Ok(())
}
