//! `mcount check`: what the checker finds, with a level for each rule, and which functions have no hook
//! at all.

use super::many::over;
use super::options::{InputArgs, ManyArgs, OptionArgs, globs, number};
use super::{ERROR, FOUND, SUCCESS, complain};
use crate::archive;
use crate::commit::Failure;
use crate::debug::separate::{Search, Subject};
use crate::inputs::{Label, Take};
use crate::jobs::Threads;
use crate::output::stdout;
use crate::words::{counted, functions_have, printable};
use anstyle::{AnsiColor, Style};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum, ValueHint};
use mcount::{
    CheckOptions, File, Finding, Function, Functions, Gap, GlobSet, Level, Options, Rule,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What `--help` says below the options.
pub(super) const HELP: &str = "\
What a rule finds is an error (exit code 1) or a warning, or the rule is off. --explain all lists \
the rules with their levels. An option that names a rule wins over `all`; --deny wins over --warn, \
and --warn over --allow.

Examples: mcount check vmlinux
          mcount check --allow all --deny missing-site --policy all program
          mcount check --coverage='net_*' vmlinux";

/// All rules, where a rule is asked for.
const ALL: &str = "all";

#[derive(Args)]
pub(super) struct CheckArgs {
    /// Objects, modules and linked images, compressed or not; archives of objects; folders to search for
    /// objects; - for standard input
    #[arg(value_name = "FILE", required_unless_present = "explain", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// Explain a rule, and what to do about its findings; `all` lists the rules
    #[arg(long, value_name = "RULE", value_parser = rules(), conflicts_with = "files", hide_possible_values = true)]
    explain: Option<String>,
    /// Make what this rule finds an error; may be given again, `all` is every rule
    #[arg(long, value_name = "RULE", value_parser = rules(), hide_possible_values = true, help_heading = "Rules")]
    deny: Vec<String>,
    /// Make what this rule finds a warning
    #[arg(long, value_name = "RULE", value_parser = rules(), hide_possible_values = true, help_heading = "Rules")]
    warn: Vec<String>,
    /// Ignore what this rule finds
    #[arg(long, value_name = "RULE", value_parser = rules(), hide_possible_values = true, help_heading = "Rules")]
    allow: Vec<String>,
    /// How many bytes of NOPs the tracer needs [default: as many as a call has]
    #[arg(long, value_name = "BYTES", value_parser = number::<u64>, help_heading = "Rules")]
    min_bytes: Option<u64>,
    /// Also list the functions without a hook, by cause; with a GLOB, only those with such a name
    #[arg(long, value_name = "GLOB", num_args = 0..=1, default_missing_value = "*", require_equals = true)]
    coverage: Option<String>,
    /// How to print: text, or a JSON object per line
    #[arg(long, value_enum, default_value = "text")]
    format: CheckFormat,
    #[command(flatten)]
    options: OptionArgs,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    many: ManyArgs,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum CheckFormat {
    Text,
    Jsonl,
}

fn rules() -> PossibleValuesParser {
    PossibleValuesParser::new(Rule::all().map(Rule::name).chain([ALL]))
}

/// The findings in a file.
struct Checked {
    findings: Vec<Finding>,
    /// Set where `--coverage` was given.
    functions: Option<Functions>,
}

/// The text that was printed.
#[derive(Default)]
struct Totals {
    files: usize,
    errors: usize,
    warnings: usize,
    /// Notes, by rule.
    notes: BTreeMap<Rule, usize>,
    failed: bool,
}

/// Checks each file, then prints all in the order given.
pub(super) fn check(arguments: &CheckArgs) -> io::Result<u8> {
    if let Some(name) = &arguments.explain {
        return explain(name).map(|()| SUCCESS);
    }
    let options = arguments.options.options();
    let patterns = globs(arguments.coverage.as_slice());
    let (options, names) = match (options, patterns) {
        (Ok(options), Ok(names)) => (options, names),
        (Err(error), _) | (_, Err(error)) => return Ok(complain(&error.to_string())),
    };
    let checking = Checking { arguments, search: arguments.inputs.search(), options };
    let results = over(
        &arguments.files,
        &arguments.many,
        Take::Compressed,
        |path, is_one| checking.file(path, is_one),
        |path| archive::read_all(path, |object| checking.member(object)),
    )?;
    let mut printer = Printer { arguments, names, totals: Totals::default() };
    // Archives may be empty, but not all that there is.
    if results.is_empty() && !arguments.many.allow_empty {
        complain("nothing to check: no objects; --allow-empty accepts that");
        printer.totals.failed = true;
    }
    let mut out = io::BufWriter::new(stdout(arguments.format == CheckFormat::Text));
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

/// What files are checked with.
struct Checking<'a> {
    arguments: &'a CheckArgs,
    search: Search,
    options: Options,
}

impl Checking<'_> {
    /// Checks the file at `path`, which may be the only one.
    fn file(&self, path: &Path, is_one: bool) -> Result<Checked, Failure> {
        let subject = Subject::open(path, &self.search, false)?;
        let size = if is_one { subject.bytes().len() } else { 0 };
        let threads = Threads::for_one(size, self.arguments.many.jobs);
        let options = self.options.clone().helpers(threads.helpers());
        let file = File::parse(subject.bytes())?.with_options(options);
        let checked = self.parsed(&file)?;
        // Without symbols nothing was checked, and we say so.
        if let Some(why) = subject.is_nameless()
            && file.table()?.sites.is_empty()
        {
            return Err(io::Error::other(why).into());
        }
        Ok(checked)
    }

    /// Checks an object in an archive.
    fn member(&self, object: &[u8]) -> mcount::Result<Checked> {
        self.parsed(&File::parse(object)?.with_options(&self.options))
    }

    fn parsed(&self, file: &File<'_>) -> mcount::Result<Checked> {
        let expected = CheckOptions::default().min_area(self.arguments.min_bytes);
        let findings = file.check(&expected)?;
        let wants_coverage = self.arguments.coverage.is_some();
        let functions = wants_coverage.then(|| file.functions()).transpose()?;
        Ok(Checked { findings, functions })
    }
}

/// Whether the output still has a reader.
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
        writeln!(out, "{bold}{rule}{bold:#} ({} by default)\n", word(rule.default_level()))?;
        return writeln!(out, "{}", rule.explanation());
    }
    for rule in Rule::all() {
        let first = rule.explanation().split(". ").next().unwrap_or_default().replace('\n', " ");
        let level = word(rule.default_level());
        writeln!(out, "{bold}{:18}{bold:#} {level:7} {first}.", rule.name())?;
    }
    Ok(())
}

/// What people call a level.
fn word(level: Level) -> &'static str {
    match level {
        Level::Deny => "error",
        Level::Warn => "warning",
        Level::Note => "note",
        Level::Allow => "off",
    }
}

/// The name of a level, as the options have it.
fn name_of(level: Level) -> &'static str {
    match level {
        Level::Deny => "deny",
        Level::Warn => "warn",
        Level::Note => "note",
        Level::Allow => "allow",
    }
}

impl CheckArgs {
    /// The level of `rule`: by its name, by `all`, or by default.
    fn level(&self, rule: Rule) -> Level {
        let named = self.level_of(rule.name()).or_else(|| self.level_of(ALL));
        named.unwrap_or_else(|| rule.default_level())
    }

    /// The strictest level that an option gives to `name`.
    fn level_of(&self, name: &str) -> Option<Level> {
        let lists =
            [(&self.deny, Level::Deny), (&self.warn, Level::Warn), (&self.allow, Level::Allow)];
        let (_, level) = lists.iter().find(|(names, _)| names.iter().any(|named| named == name))?;
        Some(*level)
    }
}

/// Prints results and counts them.
struct Printer<'a> {
    arguments: &'a CheckArgs,
    /// What functions are called that `--coverage` is about.
    names: GlobSet,
    totals: Totals,
}

impl Printer<'_> {
    fn file(&mut self, out: &mut impl Write, label: &Label, checked: &Checked) -> io::Result<()> {
        self.totals.files += 1;
        let level = |finding: &&Finding| self.arguments.level(finding.rule);
        let mut findings: Vec<&Finding> = checked.findings.iter().collect();
        // What matters comes first; those of one level stay in their order.
        findings.sort_by_key(|finding| std::cmp::Reverse(level(finding)));
        for finding in findings {
            let level = self.arguments.level(finding.rule);
            match level {
                Level::Allow => continue,
                Level::Note => {
                    *self.totals.notes.entry(finding.rule).or_default() += 1;
                    if self.arguments.format == CheckFormat::Text {
                        continue;
                    }
                }
                Level::Warn => self.totals.warnings += 1,
                Level::Deny => self.totals.errors += 1,
            }
            match self.arguments.format {
                CheckFormat::Text => text(out, label, finding, level)?,
                CheckFormat::Jsonl => writeln!(out, "{}", json_line(label, finding, level))?,
            }
        }
        let Some(functions) = &checked.functions else { return Ok(()) };
        match self.arguments.format {
            CheckFormat::Text => self.coverage(out, label, functions),
            CheckFormat::Jsonl => self.coverage_lines(out, label, functions),
        }
    }

    /// Whether `--coverage` is about `function`.
    fn is_wanted(&self, function: &Function) -> bool {
        function.names().any(|name| self.names.is_match(name))
    }

    /// The functions without a hook that `--coverage` is about, by cause.
    fn gaps<'f>(&self, functions: &'f Functions) -> Vec<(Gap, Vec<&'f Function>)> {
        let mut gaps = Vec::new();
        for (gap, positions) in mcount::coverage(functions).gaps {
            let own = positions.iter().filter_map(|at| functions.functions.get(*at));
            let own: Vec<_> = own.filter(|function| self.is_wanted(function)).collect();
            if !own.is_empty() {
                gaps.push((gap, own));
            }
        }
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
        let total = functions.functions.iter().filter(|function| self.is_wanted(function)).count();
        let without: usize = gaps.iter().map(|(_, own)| own.len()).sum();
        let bold = Style::new().bold();
        let label = label.to_string();
        let label = printable(&label);
        let have = functions_have(without, total, |number| number.to_string());
        writeln!(out, "{bold}{label}{bold:#}: {have} no hook")?;
        for (gap, own) in &gaps {
            writeln!(out, "  {}:", because(gap, own.len()))?;
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
        let Totals { files, errors, warnings, ref notes, failed } = self.totals;
        // Without a file, nothing is printed: it would look like a success.
        if self.arguments.format == CheckFormat::Text && (files != 0 || !failed) {
            let counts =
                [counted(errors, "error", "errors"), counted(warnings, "warning", "warnings")];
            let total: usize = notes.values().sum();
            let found = match (errors, warnings, total) {
                (0, 0, 0) => "nothing found".to_owned(),
                (_, _, 0) => counts.join(", "),
                _ => [counts.join(", "), counted(total, "note", "notes")].join(", "),
            };
            let files = counted(files, "file", "files");
            let _ = writeln!(anstream::stderr(), "mcount: {files} checked, {found}");
            for (rule, count) in notes {
                let notes = counted(*count, "note", "notes");
                let _ = writeln!(
                    anstream::stderr(),
                    "mcount: {notes} of {rule}: --explain {rule} says what that is, --warn {rule} prints them"
                );
            }
        }
        match (failed, errors) {
            (true, _) => ERROR,
            (false, 0) => SUCCESS,
            (false, _) => FOUND,
        }
    }
}

/// How many functions have no hook for this reason.
fn because(gap: &Gap, count: usize) -> String {
    match gap {
        Gap::File => format!("{count} in a file without any hook: built without -pg or the like"),
        Gap::SourceFile(file) => {
            let file = printable(file);
            format!("{count} from {file}, which has no hook: built without -pg, or assembly")
        }
        Gap::Excluded(section) => {
            format!("{count} excluded by the policy, in {}", printable(section))
        }
        Gap::ColdPart => {
            let parts = counted(count, "cold part of a function", "cold parts of functions");
            format!("{parts}, entered elsewhere")
        }
        Gap::Prefix => counted(
            count,
            "name of the padding before a function",
            "names of the padding before functions",
        ),
        Gap::NoSize => format!("{count} without a size, so probably assembly"),
        _ => format!("{count} for reasons that symbols don't tell: notrace, or assembly"),
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
        "level": name_of(level),
        "detail": finding.detail,
    })
}
