//! `mcount diff`: the functions that gained or lost a site between two builds, of two files or of two
//! folders of them.

use super::many::over;
use super::options::{InputArgs, JobArgs, OptionArgs};
use super::{ERROR, FOUND, SUCCESS, complain};
use crate::commit::Failure;
use crate::debug::separate::{FEW_NAMES, Subject};
use crate::inputs::Take;
use crate::output::{printable, stdout};
use crate::unpack::unpacked_name;
use anstyle::{AnsiColor, Style};
use clap::{Args, ValueEnum, ValueHint};
use mcount::{Difference, Functions, Instance, Kind};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct DiffArgs {
    /// The build before: an image, a module, an object, or a folder of modules or objects
    #[arg(value_name = "OLD", value_hint = ValueHint::AnyPath)]
    old: PathBuf,
    /// The build after
    #[arg(value_name = "NEW", value_hint = ValueHint::AnyPath)]
    new: PathBuf,
    /// How to print: text, one JSON object a line, or a table for a report
    #[arg(long, value_enum, default_value = "text")]
    format: DiffFormat,
    /// Take each clone of a function (.constprop.0, .isra.0, .part.0) for a function of its own
    #[arg(long)]
    exact: bool,
    #[command(flatten)]
    options: OptionArgs,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    jobs: JobArgs,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum DiffFormat {
    Text,
    Jsonl,
    Markdown,
}

/// The functions of the files of one side, by path in the folder; by an empty one of a file.
type Side = BTreeMap<PathBuf, Result<Functions, Failure>>;

/// What is not the same of one file.
enum Compared {
    /// It is in the first folder only, or in the second.
    OnlyOld,
    OnlyNew,
    Both(Vec<Difference>),
}

/// Runs the command; its exit code.
pub(super) fn diff(arguments: &DiffArgs) -> io::Result<u8> {
    if let Some(why) = cannot_be_compared([&arguments.old, &arguments.new]) {
        return Ok(complain(&why));
    }
    let sides = (side(arguments, &arguments.old)?, side(arguments, &arguments.new)?);
    let (Some(old), Some(new)) = sides else { return Ok(ERROR) };
    let mut failed = false;
    for (root, side) in [(&arguments.old, &old), (&arguments.new, &new)] {
        for (path, result) in side {
            if let Err(failure) = result {
                complain(&format!("{}: {failure}", shown(root, path).display()));
                failed = true;
            }
        }
    }
    let compared = compare(arguments, &old, &new);
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

/// What is wrong if one path only is a folder.
fn cannot_be_compared(paths: [&Path; 2]) -> Option<String> {
    let [old, new] = paths;
    let (folder, other) = if old.is_dir() { (old, new) } else { (new, old) };
    if !folder.is_dir() || other.is_dir() {
        return None;
    }
    Some(match other.metadata() {
        Err(error) => format!("{}: {}", other.display(), Failure::from(error)),
        Ok(_) => format!("{}: a folder, and {} is none", folder.display(), other.display()),
    })
}

fn print(arguments: &DiffArgs, compared: &[(PathBuf, Compared)]) -> io::Result<()> {
    let mut out = io::BufWriter::new(stdout(arguments.format == DiffFormat::Text));
    match arguments.format {
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

/// The functions of all files of `root`; nothing if the command line is wrong.
fn side(arguments: &DiffArgs, root: &PathBuf) -> io::Result<Option<Side>> {
    let options = match arguments.options.options() {
        Ok(options) => options,
        Err(error) => {
            complain(&error.to_string());
            return Ok(None);
        }
    };
    let search = arguments.inputs.search();
    let file = |path: &Path, is_one| {
        let subject = Subject::open(path, &search, false)?;
        if let Some(why) = subject.is_nameless() {
            return Err(io::Error::other(why).into());
        }
        if is_one && subject.is_stripped() {
            complain(&format!("warning: {}: {FEW_NAMES}", path.display()));
        }
        Ok(mcount::functions(subject.bytes(), &options)?)
    };
    let archive = |_: &Path| {
        Err(io::Error::other("an archive: compare its members, or what is linked of them").into())
    };
    let results =
        over(std::slice::from_ref(root), &arguments.jobs, Take::Compressed, file, archive)?;
    let keyed = results.into_iter().map(|(label, result)| {
        let path = label.file.strip_prefix(root).map_or_else(|_| PathBuf::new(), unpacked_name);
        (path, result)
    });
    Ok(Some(keyed.collect()))
}

/// What differs, by file. A file that could not be read is not compared.
fn compare(arguments: &DiffArgs, old: &Side, new: &Side) -> Vec<(PathBuf, Compared)> {
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
    for (path, one) in compared {
        let name = path.to_string_lossy();
        let name = printable(&name);
        let differences = match one {
            Compared::Both(differences) => differences,
            only => {
                let which = if matches!(only, Compared::OnlyOld) { "old" } else { "new" };
                writeln!(out, "{bold}{name}{bold:#}: only in the {which} folder")?;
                *counts.entry("files in one folder only").or_default() += 1;
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
    if counts.is_empty() {
        return Ok(());
    }
    let counts: Vec<_> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
    writeln!(out, "{}", counts.join(", "))
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
    let side = |instance: Option<&Instance>| match instance {
        None => Value::Null,
        Some(instance) => json!({
            "state": instance.state.name(),
            "kind": instance.state.kind().map(Kind::name),
            "symbol": instance.symbol,
            "section": instance.section,
        }),
    };
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
            "old": side(difference.old.as_ref()),
            "new": side(difference.new.as_ref()),
        });
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn markdown(
    out: &mut impl Write,
    arguments: &DiffArgs,
    compared: &[(PathBuf, Compared)],
) -> io::Result<()> {
    let code = |text: &str| format!("`{}`", printable(text).replace('`', "'").replace('|', "\\|"));
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
