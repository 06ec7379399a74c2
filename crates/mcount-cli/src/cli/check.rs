//! `mcount check`: the findings of the checker with a level for each rule, and which functions have no
//! hook at all.

use super::many::over;
use super::options::{InputArgs, JobArgs, OptionArgs, globs};
use super::{ERROR, FOUND, SUCCESS, complain};
use crate::archive;
use crate::debug::separate::Subject;
use crate::inputs::{Label, Take};
use crate::jobs::Threads;
use crate::output::{printable, stdout};
use anstyle::{AnsiColor, Style};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum, ValueHint};
use mcount::{Finding, Function, Functions, Gap, GlobSet, Level, Options, Rule};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What `--help` says below the options.
pub(super) const HELP: &str = "\
A rule is denied (printed, exit code 1), warned of (printed) or allowed (not mentioned); \
--explain all lists them. Of several options for one rule, the one that names it wins over `all`, \
and deny over warn over allow.

Examples: mcount check vmlinux
          mcount check --allow all --deny missing-site --policy all program
          mcount check --coverage='net_*' vmlinux";

/// All rules, where a rule is asked for.
const ALL: &str = "all";

#[derive(Args)]
pub(super) struct CheckArgs {
    /// Objects, modules and linked images, compressed or not, archives of objects, or folders with
    /// objects in them
    #[arg(value_name = "FILE", required_unless_present = "explain", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// Say what a rule means, and what to do; `all` lists the rules
    #[arg(long, value_name = "RULE", value_parser = rules(), conflicts_with = "files", hide_possible_values = true)]
    explain: Option<String>,
    /// Exit with 1 if this rule finds something; may be given again, `all` is every rule
    #[arg(long, value_name = "RULE", value_parser = rules(), hide_possible_values = true, help_heading = "Rules")]
    deny: Vec<String>,
    /// Only print what this rule finds
    #[arg(long, value_name = "RULE", value_parser = rules(), hide_possible_values = true, help_heading = "Rules")]
    warn: Vec<String>,
    /// Do not ask this rule
    #[arg(long, value_name = "RULE", value_parser = rules(), hide_possible_values = true, help_heading = "Rules")]
    allow: Vec<String>,
    /// Bytes of NOPs that the tracer needs [default: those of a call]
    #[arg(long, value_name = "BYTES", help_heading = "Rules")]
    min_bytes: Option<u64>,
    /// List the functions without a hook too, by cause; with a GLOB, only those of these names
    #[arg(long, value_name = "GLOB", num_args = 0..=1, default_missing_value = "*", require_equals = true)]
    coverage: Option<String>,
    /// How to print: text, or one JSON object a line
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    #[command(flatten)]
    options: OptionArgs,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    jobs: JobArgs,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Format {
    Text,
    Jsonl,
}

fn rules() -> PossibleValuesParser {
    PossibleValuesParser::new(Rule::all().map(Rule::name).chain([ALL]))
}

/// What was found out about a file.
struct Checked {
    findings: Vec<Finding>,
    /// Where coverage is asked for.
    functions: Option<Functions>,
}

/// What was printed.
#[derive(Default)]
struct Totals {
    files: usize,
    denied: usize,
    warned: usize,
    failed: bool,
}

/// Checks each file, then prints all in the order given.
pub(super) fn check(arguments: &CheckArgs) -> io::Result<u8> {
    if let Some(name) = &arguments.explain {
        return explain(name).map(|()| SUCCESS);
    }
    let options = arguments
        .options
        .options()
        .map(|options| Options { min_area: arguments.min_bytes, ..options });
    let patterns = globs(arguments.coverage.as_slice());
    let (options, names) = match (options, patterns) {
        (Ok(options), Ok(names)) => (options, names),
        (Err(error), _) | (_, Err(error)) => return Ok(complain(&error.to_string())),
    };
    let wants_coverage = arguments.coverage.is_some();
    let one = |file: &mcount::File<'_>| {
        let findings = file.check()?;
        let functions = if wants_coverage { Some(file.functions()?) } else { None };
        Ok(Checked { findings, functions })
    };
    let search = arguments.inputs.search();
    let file = |path: &Path, is_one| {
        let subject = Subject::open(path, &search, false)?;
        let size = if is_one { subject.bytes().len() } else { 0 };
        let threads = Threads::for_one(size, arguments.jobs.jobs);
        let options = Options { helpers: threads.helpers(), ..options.clone() };
        let file = mcount::File::parse(subject.bytes())?.with_options(options);
        let checked = one(&file)?;
        // Without symbols nothing was checked, and we say so.
        if let Some(why) = subject.is_nameless()
            && file.table()?.sites.is_empty()
        {
            return Err(io::Error::other(why).into());
        }
        Ok(checked)
    };
    let archive = |path: &Path| {
        let one = |object: &[u8]| one(&mcount::File::parse(object)?.with_options(options.clone()));
        archive::read_all(path, one)
    };
    let results = over(&arguments.files, &arguments.jobs, Take::Compressed, file, archive)?;
    let mut printer = Printer { arguments, names, totals: Totals::default() };
    let mut out = io::BufWriter::new(stdout(arguments.format == Format::Text));
    let mut is_read = true;
    for (label, result) in results {
        match result {
            Ok(checked) if is_read => is_read = wanted(printer.file(&mut out, &label, &checked))?,
            // What is not read counts all the same.
            Ok(checked) => printer.file(&mut io::sink(), &label, &checked)?,
            Err(failure) => {
                complain(&format!("{label}: {failure}"));
                printer.totals.failed = true;
            }
        }
    }
    wanted(out.flush())?;
    Ok(printer.end())
}

/// Whether somebody still reads the output.
fn wanted(printed: io::Result<()>) -> io::Result<bool> {
    match printed {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        other => other.map(|()| true),
    }
}

/// Says what the rule `name` means, or lists all.
fn explain(name: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    let bold = Style::new().bold();
    if let Some(rule) = Rule::of_name(name) {
        writeln!(out, "{bold}{rule}{bold:#} ({} by default)\n", past(rule.default_level()))?;
        return writeln!(out, "{}", rule.explanation());
    }
    for rule in Rule::all() {
        let first = rule.explanation().split(". ").next().unwrap_or_default().replace('\n', " ");
        writeln!(
            out,
            "{bold}{:18}{bold:#} {:7} {first}.",
            rule.name(),
            past(rule.default_level())
        )?;
    }
    Ok(())
}

/// The level as a word for what was done.
fn past(level: Level) -> &'static str {
    match level {
        Level::Deny => "denied",
        Level::Warn => "warned",
        Level::Allow => "allowed",
    }
}

impl CheckArgs {
    fn level(&self, rule: Rule) -> Level {
        let lists =
            [(&self.deny, Level::Deny), (&self.warn, Level::Warn), (&self.allow, Level::Allow)];
        let of = |wanted: &str| {
            let mut with =
                lists.iter().filter(|(names, _)| names.iter().any(|name| name == wanted));
            with.next().map(|(_, level)| *level)
        };
        of(rule.name()).or_else(|| of(ALL)).unwrap_or_else(|| rule.default_level())
    }
}

/// Prints results and counts them.
struct Printer<'a> {
    arguments: &'a CheckArgs,
    /// The functions whose coverage is of interest.
    names: GlobSet,
    totals: Totals,
}

impl Printer<'_> {
    fn file(&mut self, out: &mut impl Write, label: &Label, checked: &Checked) -> io::Result<()> {
        self.totals.files += 1;
        for finding in &checked.findings {
            let level = self.arguments.level(finding.rule);
            match level {
                Level::Allow => continue,
                Level::Warn => self.totals.warned += 1,
                Level::Deny => self.totals.denied += 1,
            }
            match self.arguments.format {
                Format::Text => text(out, label, finding, level)?,
                Format::Jsonl => writeln!(out, "{}", json_line(label, finding, level))?,
            }
        }
        let Some(functions) = &checked.functions else { return Ok(()) };
        match self.arguments.format {
            Format::Text => self.coverage(out, label, functions),
            Format::Jsonl => self.coverage_lines(out, label, functions),
        }
    }

    /// The functions without a hook that are of interest, by cause.
    fn gaps<'f>(&self, functions: &'f Functions) -> Vec<(Gap, Vec<&'f Function>)> {
        let is_wanted =
            |function: &&Function| function.names().any(|name| self.names.is_match(name));
        let found = mcount::coverage(functions).gaps.into_iter().map(|(gap, positions)| {
            let own = positions.iter().filter_map(|at| functions.functions.get(*at));
            (gap, own.filter(is_wanted).collect::<Vec<_>>())
        });
        let mut gaps: Vec<_> = found.filter(|(_, own)| !own.is_empty()).collect();
        // What explains most comes first.
        gaps.sort_by_key(|(_, own)| std::cmp::Reverse(own.len()));
        gaps
    }

    fn coverage(
        &self,
        out: &mut impl Write,
        label: &Label,
        functions: &Functions,
    ) -> io::Result<()> {
        let gaps = self.gaps(functions);
        let wanted =
            functions.functions.iter().filter(|f| f.names().any(|n| self.names.is_match(n)));
        let without: usize = gaps.iter().map(|(_, own)| own.len()).sum();
        let bold = Style::new().bold();
        let label = label.to_string();
        let label = printable(&label);
        let total = wanted.count();
        writeln!(out, "{bold}{label}{bold:#}: {without} of {total} functions have no hook")?;
        for (gap, own) in &gaps {
            writeln!(out, "  {} {}:", own.len(), because(gap))?;
            for function in own {
                let place = function.address.unwrap_or(function.offset);
                let section = printable(&function.section);
                writeln!(out, "    {} {section} {place:#x}", printable(&function.name))?;
            }
        }
        Ok(())
    }

    fn coverage_lines(
        &self,
        out: &mut impl Write,
        label: &Label,
        functions: &Functions,
    ) -> io::Result<()> {
        for (gap, own) in self.gaps(functions) {
            for function in own {
                let line = json!({
                    "file": label.file.to_string_lossy(),
                    "member": label.member,
                    "section": function.section,
                    "offset": function.offset,
                    "address": function.address,
                    "symbol": function.name,
                    "source_file": function.file,
                    "no_hook": gap.name(),
                });
                writeln!(out, "{line}")?;
            }
        }
        Ok(())
    }

    /// Says how much was found; the exit code.
    fn end(&self) -> u8 {
        let Totals { files, denied, warned, failed } = self.totals;
        if self.arguments.format == Format::Text {
            let noun = if files == 1 { "file" } else { "files" };
            let found = match (denied, warned) {
                (0, 0) => "nothing found".to_owned(),
                _ => format!("{denied} denied, {warned} warned of"),
            };
            let _ = writeln!(anstream::stderr(), "mcount: {files} {noun} checked, {found}");
        }
        match (failed, denied) {
            (true, _) => ERROR,
            (false, 0) => SUCCESS,
            (false, _) => FOUND,
        }
    }
}

/// Why functions have no hook, after their number.
fn because(gap: &Gap) -> String {
    match gap {
        Gap::File => "in a file without any hook, built without -pg or the like".to_owned(),
        Gap::SourceFile(file) => {
            format!("of {}, which has no hook: built without, or assembly", printable(file))
        }
        Gap::Excluded(section) => format!("left out by the policy, in {}", printable(section)),
        Gap::ColdPart => "cold parts of other functions, which have the entry".to_owned(),
        Gap::Prefix => "names of the padding before functions".to_owned(),
        Gap::NoSize => "without a size, assembly as a rule".to_owned(),
        _ => "for reasons that symbols do not tell: notrace, or assembly".to_owned(),
    }
}

/// One line: file, place, function, rule, detail.
fn text(out: &mut impl Write, label: &Label, finding: &Finding, level: Level) -> io::Result<()> {
    let color = if level == Level::Deny { AnsiColor::Red } else { AnsiColor::Yellow };
    let style = color.on_default().bold();
    write!(out, "{}: ", printable(&label.to_string()))?;
    if let Some(section) = &finding.section {
        match finding.address {
            Some(address) => write!(out, "{address:#x}: ")?,
            None => {
                write!(out, "{}+{:#x}: ", printable(section), finding.offset.unwrap_or(0))?;
            }
        }
    }
    if let Some(symbol) = &finding.symbol {
        let distance = finding.symbol_offset.unwrap_or(0);
        let sign = if distance < 0 { '-' } else { '+' };
        write!(out, "{}{sign}{:#x}: ", printable(symbol), distance.unsigned_abs())?;
    }
    writeln!(out, "{style}{}{style:#}: {}", finding.rule, printable(&finding.detail))
}

fn json_line(label: &Label, finding: &Finding, level: Level) -> Value {
    json!({
        "file": label.file.to_string_lossy(),
        "member": label.member,
        "section": finding.section,
        "offset": finding.offset,
        "address": finding.address,
        "symbol": finding.symbol,
        "symbol_offset": finding.symbol_offset,
        "rule": finding.rule.name(),
        "level": match level { Level::Deny => "deny", Level::Warn => "warn", Level::Allow => "allow" },
        "detail": finding.detail,
    })
}
