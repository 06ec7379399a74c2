//! `mcount scan` and `mcount list`: reading, and printing what was found.

use super::btf::{BtfArgs, BtfReader};
use super::many::{FileResult, over, report};
use super::options::{InputArgs, ManyArgs, OptionArgs};
use super::{SUCCESS, complain};
use crate::archive::{self, Members};
use crate::commit::Failure;
use crate::debug::Sections;
use crate::debug::lines::{Line, Lines};
use crate::debug::separate::{Search, Subject};
use crate::fentry;
use crate::inputs::Take;
use crate::jobs::Threads;
use crate::output::{self, Listing, Named, SiteFormat};
use crate::words::counted;
use clap::{Args, ValueEnum, ValueHint};
use mcount::{CallSite, Options};
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(super) struct ReadArgs {
    /// Objects, modules and images, compressed or not; archives of objects; folders to search for
    /// objects; - for standard input
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// How to print: aligned text, a JSON object per line, comma-separated values, or a table for DuckDB and Spark
    #[arg(long, value_enum, default_value = "text")]
    format: SiteFormat,
    /// Print the names of Rust and C++ functions as their source has them
    #[arg(long)]
    demangle: bool,
    /// Say which source line each comes from, using debug information
    #[arg(long)]
    lines: bool,
    /// Say of each function whether BTF has it, too: BPF programs (fentry, fexit) attach to functions
    /// that are in the table and in BTF
    #[arg(long, help_heading = "BPF")]
    btf: bool,
    /// Only those in the table whose function BTF has
    #[arg(long, help_heading = "BPF")]
    attachable: bool,
    /// Print only how many there are, for each input or as --by says
    #[arg(long)]
    count: bool,
    /// Count by section, function, source file or folder of source files; the last two need debug
    /// information
    #[arg(long, value_enum, requires = "count")]
    by: Option<By>,
    #[command(flatten)]
    btf_files: BtfArgs,
    #[command(flatten)]
    options: OptionArgs,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    many: ManyArgs,
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
    let search = arguments.inputs.search();
    let files = match arguments.btf_files.open(search.limits) {
        Ok(files) => files,
        Err(code) => return Ok(code),
    };
    let btf = match arguments.btf_files.reader(&files) {
        Ok(btf) => Some(btf).filter(|_| arguments.wants_btf()),
        Err(code) => return Ok(code),
    };
    let wants_lines = arguments.wants_lines();
    let is_attachable = arguments.attachable;
    let reading = Reading { what, wants_lines, search, options, btf, is_attachable };
    let results = over(
        &arguments.files,
        &arguments.many,
        Take::Compressed,
        |path, is_one| reading.file(path, is_one, arguments.many.jobs),
        |path| reading.archive(path),
    )?;
    if arguments.count { print_counts(arguments, results) } else { print(arguments, results) }
}

/// How files are read.
struct Reading<'b> {
    what: What,
    wants_lines: bool,
    search: Search,
    options: Options,
    /// What reads BTF, if that is wanted.
    btf: Option<BtfReader<'b>>,
    /// Whether only attachable ones are wanted.
    is_attachable: bool,
}

impl Reading<'_> {
    /// The listing of the file at `path`, which may be the only one.
    fn file(&self, path: &Path, is_one: bool, jobs: Option<usize>) -> Result<Listing, Failure> {
        let subject = Subject::open(path, &self.search, self.wants_lines)?;
        let size = if is_one { subject.bytes().len() } else { 0 };
        let threads = Threads::for_one(size, jobs);
        let options = self.options.clone().helpers(threads.helpers());
        let debug = self.wants_lines.then(|| subject.debug());
        let listing = self.listing(subject.bytes(), debug, &options)?;
        match subject.is_nameless().filter(|_| listing.sites.sites.is_empty()) {
            Some(why) => Err(io::Error::other(why).into()),
            None => Ok(listing),
        }
    }

    /// The listings of the members of the archive at `path`.
    fn archive(&self, path: &Path) -> Result<Members<Listing>, Failure> {
        archive::read_all(path, |object| {
            let debug = self.wants_lines.then_some(object);
            self.listing(object, debug, &self.options)
        })
    }

    /// The sites or entries of `file`, with source lines if the debug information is `debug`.
    fn listing(
        &self,
        file: &[u8],
        debug: Option<&[u8]>,
        options: &Options,
    ) -> Result<Listing, Failure> {
        let parsed = mcount::File::parse(file)?.with_options(options);
        let mut listing = Listing::new(match self.what {
            What::Sites => parsed.sites()?,
            What::Entries => parsed.table()?,
        });
        if let Some(btf) = &self.btf {
            let known = btf.functions(file)?;
            let functions = parsed.functions()?;
            if self.is_attachable {
                fentry::keep_attachable(&mut listing.sites, &functions, &known);
            }
            listing.btf = Some(fentry::mark(&mut listing.sites, &functions, &known));
        }
        listing.lines = debug.map(|debug| lines(debug, &listing.sites.sites));
        #[cfg(can_trace)]
        if self.what == What::Sites {
            listing.instrumented = crate::trace::instrumented(file).len();
        }
        Ok(listing)
    }
}

/// Prints the sites of each file; the exit code.
fn print(arguments: &ReadArgs, results: Vec<FileResult<Listing>>) -> io::Result<u8> {
    let mut export = arguments.format.export();
    let mut out = buffered(arguments.format);
    export.head(&mut out)?;
    let code = report(results, |label, listing| {
        export.sites(&mut out, Named { label, demangle: arguments.demangle }, listing)?;
        // What we say about a file comes before what we say about the next, on both streams.
        out.flush()?;
        if listing.instrumented != 0 {
            let functions = counted(listing.instrumented, "function tells", "functions tell");
            let own = if listing.instrumented == 1 {
                "its calls itself"
            } else {
                "their calls themselves"
            };
            let how = "(-finstrument-functions); mcount trace records these";
            complain(&format!("{label}: {functions} of {own} {how}"));
        }
        Ok(())
    })?;
    match export.tail(&mut out) {
        // The reader has enough; a file failed before.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe && code != SUCCESS => Ok(code),
        done => done.map(|()| code),
    }
}

/// Prints how many sites there are; the exit code.
fn print_counts(arguments: &ReadArgs, results: Vec<FileResult<Listing>>) -> io::Result<u8> {
    let mut counts = Vec::new();
    let code = report(results, |label, listing| {
        match arguments.by {
            Some(by) => count(&mut counts, by, arguments.demangle, listing),
            None => counts.push((label.to_string(), listing.sites.sites.len())),
        }
        Ok(())
    })?;
    let what = arguments.by.map_or("file", By::name);
    let counts = if arguments.by.is_some() { largest_first(counts) } else { counts };
    let mut out = buffered(arguments.format);
    arguments.format.export().counts(&mut out, what, &counts)?;
    out.flush()?;
    Ok(code)
}

/// Standard output, with one write for many lines.
pub(super) fn buffered(format: SiteFormat) -> impl Write {
    BufWriter::with_capacity(1 << 16, output::stdout(format == SiteFormat::Text))
}

/// The source lines of `sites`.
fn lines(debug: &[u8], sites: &[CallSite]) -> Vec<Option<Line>> {
    let sections = Sections::load(debug);
    let mut lines = sections.as_ref().and_then(Lines::new);
    let mut found = Vec::with_capacity(sites.len());
    for site in sites {
        let section = site.section_index.zip(site.section.as_deref());
        found.push(lines.as_mut().and_then(|l| l.find(section, site.offset, site.address)));
    }
    found
}

impl ReadArgs {
    /// The file, if there's one only.
    pub(super) fn only_file(&self) -> Option<&Path> {
        let [path] = self.files.as_slice() else { return None };
        Some(path)
    }

    /// How to print.
    pub(super) fn format(&self) -> SiteFormat {
        self.format
    }

    /// Whether only a number is wanted.
    pub(super) fn is_count(&self) -> bool {
        self.count
    }

    /// Whether only functions are wanted that BTF has.
    pub(super) fn is_attachable(&self) -> bool {
        self.attachable
    }

    /// Where BTF is.
    pub(super) fn btf_arguments(&self) -> &BtfArgs {
        &self.btf_files
    }

    /// Whether debug information is needed.
    fn wants_lines(&self) -> bool {
        self.lines || matches!(self.by, Some(By::File | By::Dir))
    }

    /// Whether BTF is needed.
    pub(super) fn wants_btf(&self) -> bool {
        self.btf || self.attachable || self.btf_files.are_given()
    }
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

/// Adds what `by` says of each site of `listing` to `keys`, each time as one.
fn count(keys: &mut Vec<(String, usize)>, by: By, demangle: bool, listing: &Listing) {
    for (at, site) in listing.sites.sites.iter().enumerate() {
        let line = listing.lines.as_ref().and_then(|lines| lines.get(at)?.as_ref());
        let key = match by {
            By::Section => site.section.as_deref().map(str::to_owned),
            By::Function => {
                site.symbol.as_deref().map(|name| output::name_of(name, demangle).into())
            }
            By::File => line.map(|line| line.file.to_string()),
            By::Dir => line.map(|line| match line.file.rsplit_once('/') {
                Some((folder, _)) => folder.to_owned(),
                None => ".".to_owned(),
            }),
        };
        keys.push((key.unwrap_or_else(|| "?".to_owned()), 1));
    }
}

/// One count for each key, the largest first.
fn largest_first(counts: Vec<(String, usize)>) -> Vec<(String, usize)> {
    let mut sums: BTreeMap<String, usize> = BTreeMap::new();
    for (key, count) in counts {
        *sums.entry(key).or_default() += count;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    sums
}
