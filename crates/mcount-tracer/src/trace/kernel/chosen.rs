//! The tracepoints that a user chose (`--events`): which of them the kernel has, and what their records are like.

use super::fields::{self, Field};
use super::format::Format;
use super::tracefs::Tracefs;
use crate::commit::Failure;
use crate::names::alike;
use crate::pattern::{Language, Pattern};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// What all messages about them begin with.
pub(super) const CANNOT: &str = "events can't be recorded";

/// What page faults are called. The kernel counts them on every processor, and needs no tracepoint for it.
pub(super) const PAGE_FAULTS: &str = "page-faults";

/// The file with the numbers of all tracepoints' records is beneath this folder.
const FOLDER: &str = "events";

/// A tracepoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Point {
    /// Its subsystem and its own name.
    pub(super) name: String,
    pub(super) fields: Vec<Field>,
}

/// Those that are chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::trace) struct Chosen {
    /// By the number of their records.
    pub(super) points: BTreeMap<u16, Point>,
    pub(super) has_page_faults: bool,
}

impl Chosen {
    /// Those that these patterns mean, if there are patterns.
    ///
    /// # Errors
    ///
    /// A pattern means none, or it can't be known which there are. The text says what to do.
    pub(in crate::trace) fn find(patterns: &[Pattern]) -> io::Result<Option<Self>> {
        if patterns.is_empty() {
            return Ok(None);
        }
        Self::of(patterns).map(Some).map_err(|error| io::Error::other(format!("{CANNOT}: {error}")))
    }

    fn of(patterns: &[Pattern]) -> io::Result<Self> {
        let mut chosen = Self::default();
        let has_page_faults = |pattern: &&Pattern| means(pattern, PAGE_FAULTS);
        chosen.has_page_faults = patterns.iter().any(|pattern| has_page_faults(&pattern));
        let others: Vec<&Pattern> = patterns.iter().filter(|one| !has_page_faults(one)).collect();
        if others.is_empty() {
            return Ok(chosen);
        }
        let tracefs = Tracefs::find()?;
        let all = names(&tracefs)?;
        if let Some(pattern) =
            others.iter().find(|pattern| !all.iter().any(|name| means(pattern, name)))
        {
            return Err(io::Error::other(unknown(pattern, &all)));
        }
        for name in all.iter().filter(|name| others.iter().any(|pattern| means(pattern, name))) {
            let (id, point) = read(&tracefs, name)?;
            chosen.points.insert(id, point);
        }
        Ok(chosen)
    }

    /// Does it have the tracepoint with this number, or page faults, if that's 0?
    pub(super) fn has(&self, id: u16) -> bool {
        if id == 0 { self.has_page_faults } else { self.points.contains_key(&id) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.points.is_empty() && !self.has_page_faults
    }
}

/// Does a pattern mean this event? One without a subsystem means those of all that have it.
fn means(pattern: &Pattern, name: &str) -> bool {
    let is_whole = pattern.language() == Language::Regex || pattern.text().contains(':');
    let short = name.split_once(':').map_or(name, |(_, name)| name);
    let name = if is_whole { name } else { short };
    pattern.is_match(name, name, "")
}

/// The message if a pattern means nothing.
fn unknown(pattern: &Pattern, all: &[String]) -> String {
    let text = format!("the kernel has no tracepoint '{}'", pattern.text());
    let is_whole = pattern.text().contains(':');
    let short = |name: &String| name.split_once(':').map(|(_, name)| name.to_owned());
    let shorts: Vec<String> =
        if is_whole { Vec::new() } else { all.iter().filter_map(short).collect() };
    let names = if is_whole { all } else { &shorts };
    let near = alike(pattern.text(), names.iter().map(String::as_str));
    if near.is_empty() {
        return format!("{text}; perf list tracepoint prints those that it has");
    }
    format!("{text}; did you mean {}?", near.join(", "))
}

/// The names of all tracepoints that can be recorded.
fn names(tracefs: &Tracefs) -> io::Result<Vec<String>> {
    let mut all = Vec::new();
    for subsystem in folders(tracefs, Path::new(FOLDER))? {
        for name in folders(tracefs, &Path::new(FOLDER).join(&subsystem))? {
            // Those without this file are the kernel's own.
            let file = Path::new(FOLDER).join(&subsystem).join(&name).join("enable");
            if tracefs.path(file).exists() {
                all.push(format!("{subsystem}:{name}"));
            }
        }
    }
    all.sort_unstable();
    Ok(all)
}

/// The names of the folders in one of tracefs.
fn folders(tracefs: &Tracefs, folder: &Path) -> io::Result<Vec<String>> {
    let about = |error| unreadable(tracefs, folder, error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(tracefs.path(folder)).map_err(about)? {
        let entry = entry.map_err(about)?;
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        names.extend(entry.file_name().into_string().ok().filter(|_| is_folder));
    }
    Ok(names)
}

/// Reads what the records of a tracepoint are like, and their number.
pub(super) fn read(tracefs: &Tracefs, name: &str) -> io::Result<(u16, Point)> {
    let file = Path::new(FOLDER).join(name.replacen(':', "/", 1)).join("format");
    let text = std::fs::read_to_string(tracefs.path(&file))
        .map_err(|error| unreadable(tracefs, &file, error))?;
    let format = Format::parse(&text);
    let id = format.id.ok_or_else(|| {
        io::Error::other(format!("{}: unknown format", tracefs.name(&file).display()))
    })?;
    Ok((id, Point { name: name.to_owned(), fields: fields::all(&format) }))
}

/// The message if something in tracefs can't be read.
fn unreadable(tracefs: &Tracefs, file: &Path, error: io::Error) -> io::Error {
    let path = tracefs.name(file);
    let path = path.display();
    io::Error::other(match error.kind() {
        io::ErrorKind::NotFound => format!("{path} doesn't exist"),
        io::ErrorKind::PermissionDenied => format!("{path}: permission denied: run mcount as root"),
        _ => format!("{path}: {}", Failure::from(error)),
    })
}
