//! `mcount graph`: which functions call which, as a tree with times. What takes memory is a way to a function, however often it's
//! taken.

mod json;
mod text;
pub(crate) mod tree;

use super::chains::{Last, Scope, collect};
use super::progress::Progress;
use super::select::is_function;
use super::short::ShortNames;
use super::{Names, Selection};
use crate::names::alike;
use crate::pattern::Pattern;
use mcount_trace::Trace;
use std::io::{self, Write};
use tree::Tree;

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum GraphFormat {
    /// A tree.
    Text,
    /// One JSON object.
    Json,
}

/// What is printed, and how.
#[derive(Debug, Clone)]
pub struct GraphManner {
    /// Only what calls these functions, and what they call.
    pub function: Option<Pattern>,
    /// So many functions beneath each other.
    pub depth: usize,
    /// Functions with a smaller part of all time are put together; in hundredths.
    pub min_share: f64,
    /// The format.
    pub format: GraphFormat,
    /// Text has whole names, not short ones.
    pub has_full_names: bool,
    /// How wide text may be, in characters; without it, no name is cut.
    pub width: Option<usize>,
}

/// Ways to functions that there can be. What goes beyond counts with the callers.
pub(crate) const MOST: usize = 400_000;

/// What is printed.
struct Graph<'g, 't, 'a> {
    names: &'g Names<'t, 'a>,
    manner: &'g GraphManner,
    /// Of all calls.
    whole: &'g Tree,
    /// The ways to the functions that are meant, if some are.
    paths: Option<Vec<usize>>,
    /// What is shown, which is the whole, or what is beneath these functions.
    shown: &'g Tree,
    /// Trees have times, not numbers of calls.
    has_times: bool,
}

impl Graph<'_, '_, '_> {
    /// Whether a part of a whole is shown on its own.
    fn is_worth(&self, part: u64, whole: u64) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "a rough share is enough")]
        let (part, whole) = (part as f64, whole as f64);
        part * 100.0 >= whole * self.manner.min_share
    }
}

/// Prints the graph of the calls that `selection` has.
///
/// # Errors
///
/// Those of `out`; or no call is meant.
pub fn print(
    out: &mut dyn Write,
    trace: &Trace<'_>,
    selection: &Selection,
    manner: &GraphManner,
    progress: &Progress<'_>,
) -> io::Result<()> {
    let names = Names::new(trace);
    let filter = selection.filter(trace);
    let has_times = trace.has_times() && !trace.header.has_only_entries;
    let scope = Scope { most: MOST, ..Scope::of(trace, &filter, has_times) };
    let whole = Tree::of(&collect(&scope, progress), has_times);
    let paths = manner
        .function
        .as_ref()
        .map(|pattern| whole.outermost(|number| is_function(pattern, &names, number)));
    if let (Some([]), Some(pattern)) = (paths.as_deref(), &manner.function) {
        return Err(io::Error::other(unknown(&names, pattern)));
    }
    let beneath = paths.as_ref().map(|paths| whole.beneath(paths));
    let shown = beneath.as_ref().unwrap_or(&whole);
    let graph = Graph { names: &names, manner, whole: &whole, paths, shown, has_times };
    let mut out = io::BufWriter::new(out);
    match manner.format {
        GraphFormat::Text => text::print(&mut out, &graph)?,
        GraphFormat::Json => json::print(&mut out, &graph)?,
    }
    out.flush()
}

/// What is said if no call is of a function that `pattern` means.
fn unknown(names: &Names<'_, '_>, pattern: &Pattern) -> String {
    let functions = &names.trace.functions;
    if functions.iter().any(|function| is_function(pattern, names, function.number)) {
        return format!(
            "no call of '{}' is in the trace, or in the part that's wanted",
            pattern.text()
        );
    }
    let symbols: Vec<_> =
        functions.iter().map(|function| String::from_utf8_lossy(function.name)).collect();
    let similar = alike(pattern.text(), symbols.iter().map(AsRef::as_ref));
    match similar.as_slice() {
        [] => format!("no function in the trace matches '{}'", pattern.text()),
        [first, ..] => {
            format!(
                "no function in the trace matches '{}'; did you mean '{first}'?",
                pattern.text()
            )
        }
    }
}

/// Short names of all functions of a tree.
pub(crate) fn short_names(names: &Names<'_, '_>, tree: &Tree, is_full: bool) -> ShortNames {
    let functions = tree.nodes.iter().filter_map(|node| match node.last {
        Last::Function(number) => Some(number),
        Last::Process(..) => None,
    });
    ShortNames::new(names, functions, is_full)
}
