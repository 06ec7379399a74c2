//! The report of an image: one page that needs nothing else, made of what `functions` and `check` say. That
//! of a trace is in `trace`.
//!
//! Its own room because most of it is text for browsers. Text from the file goes into the page
//! through `escape` or as JSON without a `<`, so that no name is markup.

mod page;
mod trace;
mod treemap;

pub use trace::trace_html;

use crate::debug::Sections;
use crate::debug::units::Units;
use mcount::{Finding, Function, Functions, Gap};
use std::collections::{BTreeMap, HashMap};

/// The parts of a report.
#[derive(Debug)]
pub struct Report<'a> {
    /// The subject of the page: the name of the file.
    pub title: &'a str,
    /// Its functions.
    pub functions: &'a Functions,
    /// The findings about its table.
    pub findings: &'a [Finding],
}

/// The page.
#[must_use]
pub fn html(report: &Report<'_>) -> String {
    page::page(report, &Model::new(report.functions))
}

/// Gives each of `functions` the source file that `debug` has for it: with its directories, and also
/// where the order of symbols does not tell.
pub fn with_sources(functions: &mut Functions, debug: &Sections<'_>) {
    let units = Units::of(debug);
    for function in &mut functions.functions {
        let section = Some((function.section_index, function.section.as_str()));
        let address = debug.address(section, Some(function.offset), function.address);
        if let Some(name) = address.and_then(|address| units.find(address)) {
            function.file = Some(name.to_owned());
        }
    }
}

/// The functions as the page has them: sources and groups by number.
struct Model {
    /// Source files, or what means them.
    sources: Vec<String>,
    /// The group of each source.
    group_of: Vec<usize>,
    groups: Vec<Group>,
    sections: Vec<Group>,
    rows: Vec<Row>,
    grouping: Grouping,
    states: Vec<State>,
}

/// The grouping of the first treemap.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grouping {
    Directory,
    SourceFile,
    Section,
}

/// Functions that are in one field.
#[derive(Default)]
struct Group {
    name: String,
    functions: usize,
    with_hook: usize,
}

struct Row {
    source: usize,
    section: usize,
    state: usize,
}

/// The state of a function, in a word; the mark says the same without colour.
#[derive(Clone, PartialEq, Eq)]
struct State {
    kind: &'static str,
    mark: &'static str,
    text: String,
}

impl Model {
    fn new(functions: &Functions) -> Self {
        let sources = functions.functions.iter().map(|f| f.file.clone().unwrap_or_default());
        let sources: Vec<String> = sources.collect();
        let grouping = grouping(&sources);
        let states = states(functions);
        let (mut source_names, mut group_names, mut section_names) =
            (Numbered::default(), Numbered::default(), Numbered::default());
        let (mut groups, mut sections) = (Vec::new(), Vec::new());
        let (mut group_of, mut rows) = (Vec::new(), Vec::new());
        let mut known_states: Vec<State> = Vec::new();
        for ((function, source), state) in functions.functions.iter().zip(sources).zip(states) {
            let section = section_names.number(&function.section);
            let group = group_names.number(&grouping.name(&source));
            let source = source_names.number(&source);
            if group_of.len() <= source {
                group_of.push(group);
            }
            let of = group_of.get(source).copied().unwrap_or(group);
            count(&mut groups, of, &group_names.0, function);
            count(&mut sections, section, &section_names.0, function);
            let state =
                known_states.iter().position(|known| *known == state).unwrap_or_else(|| {
                    known_states.push(state);
                    known_states.len() - 1
                });
            rows.push(Row { source, section, state });
        }
        let sources = source_names.0;
        Self { sources, group_of, groups, sections, rows, grouping, states: known_states }
    }
}

/// Names, numbered in the order in which they came up.
#[derive(Default)]
struct Numbered(Vec<String>, HashMap<String, usize>);

impl Numbered {
    fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.1.get(name) {
            return *number;
        }
        self.0.push(name.to_owned());
        self.1.insert(name.to_owned(), self.0.len() - 1);
        self.0.len() - 1
    }
}

fn count(groups: &mut Vec<Group>, at: usize, names: &[String], function: &Function) {
    while groups.len() <= at {
        let name = names.get(groups.len()).cloned().unwrap_or_default();
        groups.push(Group { name, ..Group::default() });
    }
    if let Some(group) = groups.get_mut(at) {
        group.functions += 1;
        group.with_hook += usize::from(!function.sites.is_empty());
    }
}

/// Directories where there are some, source files where there are some of those.
fn grouping(sources: &[String]) -> Grouping {
    let mut folders: Vec<_> = sources.iter().filter_map(|source| folder(source)).collect();
    folders.sort_unstable();
    folders.dedup();
    if folders.len() > 1 {
        Grouping::Directory
    } else if sources.iter().any(|source| !source.is_empty()) {
        Grouping::SourceFile
    } else {
        Grouping::Section
    }
}

/// The first two directories of a path.
fn folder(source: &str) -> Option<&str> {
    let (path, _) = source.rsplit_once('/')?;
    let mut ends = path.match_indices('/').map(|(at, _)| at).filter(|at| *at != 0);
    let end = ends.nth(1).unwrap_or(path.len());
    path.get(..end)
}

impl Grouping {
    fn name(self, source: &str) -> String {
        match self {
            _ if source.is_empty() => "(no source known)".to_owned(),
            Self::Directory => folder(source).unwrap_or("(no directory)").to_owned(),
            Self::SourceFile | Self::Section => source.to_owned(),
        }
    }

    /// The heading, and what one is called.
    fn titles(self) -> (&'static str, &'static str) {
        match self {
            Self::Directory => ("Coverage by directory", "Directory"),
            Self::SourceFile => ("Coverage by source file", "Source file"),
            Self::Section => ("Coverage by section", "Section"),
        }
    }
}

/// The state of each function.
fn states(functions: &Functions) -> Vec<State> {
    let mut causes: BTreeMap<usize, Gap> = BTreeMap::new();
    for (gap, own) in mcount::coverage(functions).gaps {
        causes.extend(own.into_iter().map(|at| (at, gap.clone())));
    }
    let all = functions.functions.iter().enumerate();
    all.map(|(at, function)| state(function, causes.get(&at))).collect()
}

/// The state of a function. `gap` is why it has no hook.
fn state(function: &Function, gap: Option<&Gap>) -> State {
    match gap {
        Some(gap) => State { kind: "none", mark: "○", text: format!("no hook: {}", why(gap)) },
        None if function.is_recorded() => {
            State { kind: "recorded", mark: "●", text: "in the table".to_owned() }
        }
        None if function.excluded.is_some() => {
            State { kind: "excluded", mark: "–", text: "hook, excluded by the policy".to_owned() }
        }
        None => State { kind: "missing", mark: "✕", text: "hook, not in the table".to_owned() },
    }
}

/// The cause in a few words.
fn why(gap: &Gap) -> &'static str {
    match gap {
        Gap::File => "built without -pg",
        Gap::SourceFile(_) => "file without",
        Gap::Excluded(_) => "section excluded",
        Gap::ColdPart => "cold part",
        Gap::Prefix => "padding",
        Gap::NoSize => "assembly",
        _ => "not known",
    }
}

/// `text` as HTML: what has a meaning there, and what moves a cursor, does neither.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_directories() {
        let rows = [
            ("kernel/sched/core.c", Some("kernel/sched")),
            ("drivers/net/ethernet/intel/e1000/e1000.c", Some("drivers/net")),
            ("init/main.c", Some("init")),
            ("/usr/src/a/b.c", Some("/usr/src")),
            ("main.c", None),
            ("", None),
        ];
        for (path, expected) in rows {
            assert_eq!(folder(path), expected, "{path}");
        }
    }

    #[test]
    fn names_are_no_markup() {
        let name = "<script>alert('x')</script>\"&\u{7}";
        let expected = "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;\\u{7}";
        assert_eq!(escape(name), expected);
    }
}
