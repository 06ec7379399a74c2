//! `mcount scan` and `mcount list`: reading, and printing what was found.

use super::complain;
use super::many::{over, report};
use super::options::{InputArgs, JobArgs, OptionArgs};
use crate::archive;
use crate::debug::Sections;
use crate::debug::lines::{Line, Lines};
use crate::debug::separate::Subject;
use crate::inputs::{Label, Take};
use crate::jobs::Threads;
use crate::output::{self, Format, Listing};
use clap::{Args, ValueEnum, ValueHint};
use mcount::{CallSite, Options, Sites};
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct ReadArgs {
    /// Objects, modules and images to read, compressed or not, archives of objects, or folders with
    /// objects in them
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// How to print: aligned text, one JSON object a line, or comma-separated values
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Print the names of Rust and C++ functions as in their source
    #[arg(long)]
    demangle: bool,
    /// Say which source line each is of, by the debug information
    #[arg(long)]
    lines: bool,
    /// Print only how many there are: of each input, or by what --by says
    #[arg(long)]
    count: bool,
    /// What to count by: section, function, source file or folder of source files; the last two need
    /// debug information
    #[arg(long, value_enum, requires = "count")]
    by: Option<By>,
    #[command(flatten)]
    options: OptionArgs,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    jobs: JobArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    Section,
    Function,
    File,
    Dir,
}

/// Which of the commands it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// `scan`.
    Sites,
    /// `list`.
    Entries,
}

/// `scan` and `list`: read each file, then print all in the order given.
pub(super) fn read(arguments: &ReadArgs, what: What) -> io::Result<u8> {
    let options = match arguments.options.options() {
        Ok(options) => options,
        Err(error) => return Ok(complain(&error.to_string())),
    };
    let lines = arguments.lines || matches!(arguments.by, Some(By::File | By::Dir));
    let search = arguments.inputs.search();
    let file = |path: &Path, is_one| {
        let subject = Subject::open(path, &search, lines)?;
        let size = if is_one { subject.bytes().len() } else { 0 };
        let threads = Threads::for_one(size, arguments.jobs.jobs);
        let options = Options { helpers: threads.helpers(), ..options.clone() };
        let debug = lines.then(|| subject.debug());
        let listing = listing(subject.bytes(), debug, what, &options)?;
        match subject.is_nameless().filter(|_| listing.sites.sites.is_empty()) {
            Some(why) => Err(io::Error::other(why).into()),
            None => Ok(listing),
        }
    };
    let archive = |path: &Path| {
        archive::read_all(path, |object| listing(object, lines.then_some(object), what, &options))
    };
    let results = over(&arguments.files, &arguments.jobs, Take::Compressed, file, archive)?;
    // One write for many lines; all that is said of a file comes before what is said of the next.
    let mut stdout =
        BufWriter::with_capacity(1 << 16, output::stdout(arguments.format == Format::Text));
    if arguments.count {
        let mut counts = BTreeMap::new();
        let code = report(results, |label, listing| {
            count(&mut counts, arguments, label, listing);
            Ok(())
        })?;
        let name = arguments.by.map_or("file", By::name);
        output::counts(&mut stdout, arguments.format, name, &in_order(counts, arguments.by))?;
        stdout.flush()?;
        return Ok(code);
    }
    output::print_head(&mut stdout, arguments.format)?;
    report(results, |label, listing| {
        output::print(&mut stdout, arguments.format, arguments.demangle, label, listing)?;
        stdout.flush()
    })
}

/// The sites or entries of `file`, with source lines if the debug information is `debug`.
fn listing(
    file: &[u8],
    debug: Option<&[u8]>,
    what: What,
    options: &Options,
) -> mcount::Result<Listing> {
    let mut listing = match what {
        What::Sites => Listing::new(mcount::scan(file, options)?),
        What::Entries => entries(mcount::read_table(file, options)?),
    };
    listing.lines = debug.map(|debug| lines(debug, &listing.sites.sites));
    Ok(listing)
}

/// The table of a file.
fn entries(table: Sites) -> Listing {
    let statuses = table.sites.iter().map(|site| site.entry_status(table.is_image)).collect();
    Listing { sites: table, statuses, lines: None, is_table: true }
}

/// The source lines of `sites`.
fn lines(debug: &[u8], sites: &[CallSite]) -> Vec<Option<Line>> {
    let sections = Sections::load(debug);
    let mut lines = sections.as_ref().and_then(Lines::new);
    let mut find = |site: &CallSite| {
        let section = site.section_index.zip(site.section.as_deref());
        lines.as_mut()?.find(section, site.offset, site.address)
    };
    sites.iter().map(&mut find).collect()
}

impl By {
    /// What machine output calls it.
    fn name(self) -> &'static str {
        match self {
            Self::Section => "section",
            Self::Function => "function",
            Self::File => "source_file",
            Self::Dir => "source_dir",
        }
    }
}

/// Counts `listing`.
fn count(
    counts: &mut BTreeMap<String, usize>,
    arguments: &ReadArgs,
    label: &Label,
    listing: &Listing,
) {
    let Some(by) = arguments.by else {
        *counts.entry(label.to_string()).or_default() += listing.sites.sites.len();
        return;
    };
    for (at, site) in listing.sites.sites.iter().enumerate() {
        let line = listing.lines.as_ref().and_then(|lines| lines.get(at)?.as_ref());
        let key = match by {
            By::Section => site.section.as_deref().map(str::to_owned),
            By::Function => {
                site.symbol.as_deref().map(|name| output::name_of(name, arguments.demangle).into())
            }
            By::File => line.map(|line| line.file.to_string()),
            By::Dir => line.map(|line| match line.file.rsplit_once('/') {
                Some((folder, _)) => folder.to_owned(),
                None => ".".to_owned(),
            }),
        };
        *counts.entry(key.unwrap_or_else(|| "?".to_owned())).or_default() += 1;
    }
}

/// The largest first, of inputs as they come.
fn in_order(counts: BTreeMap<String, usize>, by: Option<By>) -> Vec<(String, usize)> {
    let mut counts: Vec<_> = counts.into_iter().collect();
    if by.is_some() {
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    }
    counts
}
