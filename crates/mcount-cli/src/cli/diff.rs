//! `mcount diff`: which functions gained or lost a site between two builds. It compares two files, or two
//! folders file by file. Traces and samples are for [`super::diff_traces`].

use super::diff_traces::{TraceDiffArgs, diff_sides, sides};
use super::many::over;
use super::options::{InputArgs, ManyArgs, OptionArgs};
use super::{ERROR, FOUND, SUCCESS, complain};
use crate::commit::Failure;
use crate::compare;
use crate::debug::separate::{FEW_NAMES, Search, Subject};
use crate::files::is_standard;
use crate::inputs::{Take, is_folder};
use crate::output::stdout;
use crate::unpack::unpacked_name;
use crate::words::{counted, printable};
use anstyle::{AnsiColor, Style};
use clap::{Args, ValueEnum, ValueHint};
use mcount::{Difference, Functions, Instance, Kind, Options};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What `--help` says below the options.
pub(super) const HELP: &str = "\
Functions are matched by name; a clone counts as the function it was made from. Two folders are \
compared file by file, by the paths inside them. The exit code is 1 if there is a difference.

Of traces, several should be given on each side, split by commas: what lies within their spread is no \
difference. Record them in turns, old and new. A time is a mean of the fastest calls, because other work \
on the machine makes some calls slow. NOISE is what chance doesn't pass: a difference is printed if it is \
greater than that and the threshold, and if all traces of one side are beyond all of the other. The odds \
that equal builds differ are about 1 in 100. Samples of mcount sample -o know their noise, so one on each \
side is enough; times have what was called in them.

Examples: mcount diff /lib/modules/6.1.0-47-amd64 /lib/modules/6.1.0-50-amd64
          mcount diff old1.mcount,old2.mcount,old3.mcount new1.mcount,new2.mcount,new3.mcount
          mcount diff --worse --threshold 5% old1.mcount,old2.mcount new1.mcount,new2.mcount
          mcount diff redis-20261126-080000.jsonl redis-20261127-080000.jsonl";

#[derive(Args)]
pub(super) struct DiffArgs {
    /// The build before: an image, a module, an object, or a folder of modules or objects; - for standard
    /// input; or traces or samples, split by commas
    #[arg(value_name = "OLD", value_hint = ValueHint::AnyPath)]
    old: PathBuf,
    /// The build after
    #[arg(value_name = "NEW", value_hint = ValueHint::AnyPath)]
    new: PathBuf,
    /// How to print: text, a JSON object per line, comma-separated values (of traces), or a Markdown table
    #[arg(long, value_enum, default_value = "text")]
    format: DiffFormat,
    /// Treat each clone of a function (.constprop.0, .isra.0, .part.0) as a function of its own
    #[arg(long)]
    exact: bool,
    #[command(flatten)]
    traces: TraceDiffArgs,
    #[command(flatten)]
    options: OptionArgs,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    many: ManyArgs,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum DiffFormat {
    Text,
    Jsonl,
    Csv,
    Markdown,
}

impl DiffFormat {
    /// The same of traces.
    fn of_traces(self) -> compare::ComparisonFormat {
        match self {
            Self::Text => compare::ComparisonFormat::Text,
            Self::Jsonl => compare::ComparisonFormat::Jsonl,
            Self::Csv => compare::ComparisonFormat::Csv,
            Self::Markdown => compare::ComparisonFormat::Markdown,
        }
    }
}

/// The functions of the files of one side, by path in the folder; by an empty one of a file.
type Side = BTreeMap<PathBuf, Result<Functions, Failure>>;

/// The differences of one file.
enum Compared {
    /// It is in the first folder only, or in the second.
    OnlyOld,
    OnlyNew,
    Both(Vec<Difference>),
}

/// Runs the command; its exit code.
pub(super) fn diff(arguments: &DiffArgs) -> io::Result<u8> {
    if let Some(sides) = sides(&arguments.old, &arguments.new) {
        let format = arguments.format.of_traces();
        return diff_sides(&arguments.traces, &sides, arguments.exact, format);
    }
    if arguments.format == DiffFormat::Csv {
        return Ok(complain("--format csv is for traces"));
    }
    if let Some(why) = cannot_be_compared([&arguments.old, &arguments.new]) {
        return Ok(complain(&why));
    }
    let options = match arguments.options.options() {
        Ok(options) => options,
        Err(error) => return Ok(complain(&error.to_string())),
    };
    let old = side(arguments, &options, &arguments.old)?;
    // A file that is compared with itself is read once, and complained about once.
    let is_other = arguments.new != arguments.old;
    let new = if is_other { Some(side(arguments, &options, &arguments.new)?) } else { None };
    let mut failed = complain_of(&arguments.old, &old);
    if let Some(new) = &new {
        failed |= complain_of(&arguments.new, new);
    }
    let compared = compare_sides(arguments, &old, new.as_ref().unwrap_or(&old));
    match print(arguments, &compared) {
        // Whoever read the output has enough of it; the exit code stays.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        other => other?,
    }
    Ok(match (failed, compared.is_empty()) {
        (true, _) => ERROR,
        (false, true) => SUCCESS,
        (false, false) => FOUND,
    })
}

/// Says which files of a side could not be read; whether there is anything to say.
fn complain_of(root: &Path, side: &Side) -> bool {
    let mut failed = false;
    for (path, result) in side {
        if let Err(failure) = result {
            complain(&format!("{}: {failure}", shown(root, path).display()));
            failed = true;
        }
    }
    failed
}

/// The error if only one path is a folder.
fn cannot_be_compared(paths: [&Path; 2]) -> Option<String> {
    let [old, new] = paths;
    let (folder, other) = if is_folder(old) { (old, new) } else { (new, old) };
    if !is_folder(folder) || is_folder(other) {
        return None;
    }
    Some(match other.metadata() {
        Err(error) if !is_standard(other) => {
            format!("{}: {}", other.display(), Failure::from(error))
        }
        _ => format!("{}: is a folder, but {} is not", folder.display(), other.display()),
    })
}

fn print(arguments: &DiffArgs, compared: &[(PathBuf, Compared)]) -> io::Result<()> {
    let mut out = io::BufWriter::new(stdout(arguments.format == DiffFormat::Text));
    match arguments.format {
        // Refused above.
        DiffFormat::Csv => {}
        DiffFormat::Text => text(&mut out, compared)?,
        DiffFormat::Jsonl => {
            compared.iter().try_for_each(|(path, one)| jsonl(&mut out, path, one))?;
        }
        DiffFormat::Markdown => markdown(&mut out, arguments, compared)?,
    }
    out.flush()
}

/// The file at `path` below `root`, or `root` itself.
fn shown(root: &Path, path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() { root.to_owned() } else { root.join(path) }
}

/// The functions of all files of `root`.
fn side(arguments: &DiffArgs, options: &Options, root: &PathBuf) -> io::Result<Side> {
    let search = arguments.inputs.search();
    let results = over(
        std::slice::from_ref(root),
        &arguments.many,
        Take::Compressed,
        |path, is_one| functions_of(path, is_one, &search, options),
        |_| {
            Err(io::Error::other(
                "is an archive: compare its members, or what they are linked into",
            )
            .into())
        },
    )?;
    let keyed = results.into_iter().map(|(label, result)| {
        let path = label.file.strip_prefix(root).map_or_else(|_| PathBuf::new(), unpacked_name);
        (path, result)
    });
    Ok(keyed.collect())
}

/// The functions of the file at `path`, which may be the only one.
fn functions_of(
    path: &Path,
    is_one: bool,
    search: &Search,
    options: &Options,
) -> Result<Functions, Failure> {
    let subject = Subject::open(path, search, false)?;
    if let Some(why) = subject.is_nameless() {
        return Err(io::Error::other(why).into());
    }
    if is_one && subject.is_stripped() {
        complain(&format!("warning: {}: {FEW_NAMES}", path.display()));
    }
    Ok(mcount::functions(subject.bytes(), options)?)
}

/// The differences, by file. A file that could not be read is not compared.
fn compare_sides(arguments: &DiffArgs, old: &Side, new: &Side) -> Vec<(PathBuf, Compared)> {
    let paths: BTreeSet<&PathBuf> = old.keys().chain(new.keys()).collect();
    let mut compared = Vec::new();
    for path in paths {
        let one = match (old.get(path), new.get(path)) {
            (Some(Ok(old)), Some(Ok(new))) => {
                Compared::Both(mcount::diff(old, new, arguments.exact))
            }
            (Some(Ok(_)), None) => Compared::OnlyOld,
            (None, Some(Ok(_))) => Compared::OnlyNew,
            _ => continue,
        };
        if !matches!(&one, Compared::Both(differences) if differences.is_empty()) {
            compared.push((path.clone(), one));
        }
    }
    compared
}

/// `recorded call`, `no site`; a dash for a function that is not there.
fn state(instance: Option<&Instance>) -> String {
    let Some(instance) = instance else { return "-".to_owned() };
    let name = instance.state.name().replace('-', " ");
    match instance.state.kind() {
        Some(kind) => format!("{name} {}", kind.name()),
        None => name,
    }
}

/// The source file, of whichever side tells it.
fn file_of(difference: &Difference) -> Option<&str> {
    [&difference.new, &difference.old].into_iter().flatten().find_map(|one| one.file.as_deref())
}

fn text(out: &mut impl Write, compared: &[(PathBuf, Compared)]) -> io::Result<()> {
    let bold = Style::new().bold();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut lone = 0_usize;
    for (path, one) in compared {
        let name = path.to_string_lossy();
        let name = printable(&name);
        let differences = match one {
            Compared::Both(differences) => differences,
            only => {
                let which = if matches!(only, Compared::OnlyOld) { "old" } else { "new" };
                writeln!(out, "{bold}{name}{bold:#}: only in the {which} folder")?;
                lone += 1;
                continue;
            }
        };
        if !name.is_empty() {
            writeln!(out, "{bold}{name}{bold:#}")?;
        }
        for difference in differences {
            *counts.entry(difference.change()).or_default() += 1;
            line(out, difference)?;
        }
    }
    let lone = (lone != 0).then(|| counted(lone, "file", "files") + " in one folder only");
    let changes = counts.iter().map(|(what, count)| format!("{count} {what}"));
    let words: Vec<_> = lone.into_iter().chain(changes).collect();
    if words.is_empty() { Ok(()) } else { writeln!(out, "{}", words.join(", ")) }
}

fn line(out: &mut impl Write, difference: &Difference) -> io::Result<()> {
    let change = difference.change();
    let style = match change {
        "lost" | "removed" | "unrecorded" | "excluded" => AnsiColor::Red.on_default(),
        "gained" | "added" | "recorded" | "included" => AnsiColor::Green.on_default(),
        _ => AnsiColor::Yellow.on_default(),
    };
    let name = printable(&difference.name);
    let file = file_of(difference).map(|file| format!(" ({})", printable(file)));
    let (old, new) = (state(difference.old.as_ref()), state(difference.new.as_ref()));
    let file = file.unwrap_or_default();
    writeln!(out, "  {style}{change:10}{style:#} {name}{file}: {old} -> {new}")
}

fn jsonl(out: &mut impl Write, path: &Path, compared: &Compared) -> io::Result<()> {
    let file = Some(path.to_string_lossy()).filter(|path| !path.is_empty());
    let differences = match compared {
        Compared::Both(differences) => differences,
        only => {
            let is_old = matches!(only, Compared::OnlyOld);
            let change = if is_old { "file-removed" } else { "file-added" };
            let line = json!({
                "file": file, "change": change, "function": null, "source_file": null,
                "old": null, "new": null,
            });
            return writeln!(out, "{line}");
        }
    };
    for difference in differences {
        let line = json!({
            "file": file,
            "change": difference.change(),
            "function": difference.name,
            "source_file": file_of(difference),
            "old": json_of(difference.old.as_ref()),
            "new": json_of(difference.new.as_ref()),
        });
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// A function in one of the files.
fn json_of(instance: Option<&Instance>) -> Value {
    let Some(instance) = instance else { return Value::Null };
    json!({
        "state": instance.state.name(),
        "kind": instance.state.kind().map(Kind::name),
        "symbol": instance.symbol,
        "section": instance.section,
    })
}

/// `text` as code in a cell of a table.
fn code(text: &str) -> String {
    format!("`{}`", printable(text).replace('`', "'").replace('|', "\\|"))
}

fn markdown(
    out: &mut impl Write,
    arguments: &DiffArgs,
    compared: &[(PathBuf, Compared)],
) -> io::Result<()> {
    let (old, new) = (arguments.old.to_string_lossy(), arguments.new.to_string_lossy());
    writeln!(out, "Sites of {} and {}\n", code(&old), code(&new))?;
    if compared.is_empty() {
        return writeln!(out, "No difference.");
    }
    writeln!(out, "| change | function | file | old | new |\n|---|---|---|---|---|")?;
    for (path, one) in compared {
        let path = path.to_string_lossy();
        let differences = match one {
            Compared::Both(differences) => differences,
            only => {
                let is_old = matches!(only, Compared::OnlyOld);
                let change = if is_old { "file removed" } else { "file added" };
                writeln!(out, "| {change} | | {} | | |", code(&path))?;
                continue;
            }
        };
        for difference in differences {
            let places = [Some(path.as_ref()).filter(|path| !path.is_empty()), file_of(difference)];
            let places: Vec<String> = places.into_iter().flatten().map(code).collect();
            writeln!(
                out,
                "| {} | {} | {} | {} | {} |",
                difference.change(),
                code(&difference.name),
                places.join(" "),
                state(difference.old.as_ref()),
                state(difference.new.as_ref())
            )?;
        }
    }
    Ok(())
}
