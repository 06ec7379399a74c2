//! The source of a function, by the debug information of its module.

use crate::debug::Sections;
use crate::debug::lines::Lines;
use crate::files::Input;
use crate::replay::Names;
use crate::replay::subject::{NO_DEBUG, subject};
use crate::words::printable;
use std::path::Path;

/// A longer file isn't shown, in bytes.
const MOST: u64 = 16 << 20;

/// What is known of a function's source.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) function: Option<u32>,
    /// What it is, or why there's nothing, in a line.
    pub(super) title: String,
    pub(super) lines: Vec<String>,
    /// The line of the function, from 0 on.
    pub(super) line: usize,
    /// How many lines are above the first one that's shown; at first, that's to be found.
    pub(super) above: Option<usize>,
}

impl Source {
    /// Finds the source of a function.
    pub(super) fn of(names: &Names<'_, '_>, function: u32) -> Self {
        let name = &names.function(function).text;
        let mut source = match find(names, function) {
            Ok(source) => source,
            Err(why) => Self { title: why, ..Self::default() },
        };
        source.function = Some(function);
        source.title = format!("{name}: {}", source.title);
        source
    }
}

fn find(names: &Names<'_, '_>, function: u32) -> Result<Source, String> {
    let trace = names.trace;
    let unknown = || "nothing is known of it but its name".to_owned();
    let function = trace.function(function).ok_or_else(unknown)?;
    let module = trace.module(function.module).ok_or_else(unknown)?;
    let of_module =
        |why: &str| format!("{}: {why}", printable(&String::from_utf8_lossy(module.path)));
    let subject = subject(module).map_err(|why| of_module(&why))?;
    let sections = Sections::load(subject.debug());
    let lines = sections.as_ref().and_then(Lines::new);
    let mut lines = lines.ok_or_else(|| of_module(NO_DEBUG))?;
    let line = lines.find(None, None, Some(function.address));
    let line = line.ok_or_else(|| of_module("has no debug information of this function"))?;
    let title = format!("{}:{}", printable(&line.file), line.line);
    let path = lines.places(&line.file).find(|path| is_readable(path));
    let Some(input) = path.and_then(|path| Input::open(&path).ok()) else {
        return Ok(Source { title: format!("{title}: the file isn't here"), ..Source::default() });
    };
    let text = String::from_utf8_lossy(input.bytes()).into_owned();
    let shown = text.lines().map(|line| printable(&line.replace('\t', "    ")).into_owned());
    let line = usize::try_from(line.line).unwrap_or(0).saturating_sub(1);
    Ok(Source { title, lines: shown.collect(), line, ..Source::default() })
}

fn is_readable(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.len() <= MOST)
}
