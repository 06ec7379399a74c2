//! A call graph as a tree of lines.

use super::tree::{Node, Tree};
use super::{Graph, short_names};
use crate::pattern::Pattern;
use crate::replay::chains::Last;
use crate::replay::program_name;
use crate::replay::short::{ShortNames, cut};
use crate::replay::time::Duration;
use crate::words::{counted, printable};
use std::io::{self, Write};

/// A name is never cut to fewer characters.
const NAME: usize = 16;

struct Printer<'p, 'g, 't, 'a, W> {
    out: &'p mut W,
    graph: &'p Graph<'g, 't, 'a>,
    short: ShortNames,
    /// Functions were put together.
    has_left_out: bool,
}

pub(super) fn print(out: &mut impl Write, graph: &Graph<'_, '_, '_>) -> io::Result<()> {
    let short = short_names(graph.names, graph.whole, graph.manner.has_full_names);
    let mut printer = Printer { out, graph, short, has_left_out: false };
    if let Some(paths) = &graph.paths {
        printer.paths(paths)?;
    }
    printer.tree()?;
    printer.rest()
}

impl<W: Write> Printer<'_, '_, '_, '_, W> {
    /// The columns before a name.
    fn numbers(&mut self, node: &Node, whole: u64) -> io::Result<usize> {
        let text = if self.graph.has_times {
            let share = share(node.total(), whole);
            format!(
                "{} {share:>6} {} {:>10}  ",
                Duration(node.total()),
                Duration(node.own()),
                node.calls
            )
        } else {
            format!("{:>10}  ", node.calls)
        };
        self.out.write_all(text.as_bytes())?;
        Ok(text.len())
    }

    fn heading(&mut self, last: &str) -> io::Result<usize> {
        let text = if self.graph.has_times {
            format!("{:>10} {:>6} {:>10} {:>10}  ", "TOTAL", "SHARE", "SELF", "CALLS")
        } else {
            format!("{:>10}  ", "CALLS")
        };
        writeln!(self.out, "{text}{last}")?;
        Ok(text.len())
    }

    fn name(&self, last: Last) -> String {
        match last {
            Last::Function(number) => printable(self.short.get(number)).into_owned(),
            Last::Process(at, _) => program_name(self.graph.names.trace, at),
        }
    }

    /// Ends a line of which so many characters are there.
    fn end(&mut self, used: usize, prefix: &str, name: &str) -> io::Result<()> {
        let used = used + prefix.chars().count();
        let room = self.graph.manner.width.map(|width| width.saturating_sub(used).max(NAME));
        writeln!(self.out, "{prefix}{}", cut(name, room.unwrap_or(usize::MAX)))
    }

    /// The ways to the functions that are meant.
    fn paths(&mut self, paths: &[usize]) -> io::Result<()> {
        let graph = self.graph;
        let whole = graph.shown.whole();
        let pattern = graph.manner.function.as_ref().map_or("", Pattern::text);
        let pattern = printable(pattern).into_owned();
        writeln!(self.out, "{} to {pattern}:\n", counted(paths.len(), "call path", "call paths"))?;
        let width = self.heading("PATH")?;
        let nodes = paths.iter().filter_map(|at| Some((*at, graph.whole.nodes.get(*at)?)));
        let (shown, others): (Vec<_>, Vec<_>) =
            nodes.partition(|(_, node)| graph.is_worth(node.total(), whole));
        for (at, node) in shown {
            let used = self.numbers(node, whole)?;
            for (depth, step) in graph.whole.path(at).into_iter().enumerate() {
                let Some(step) = graph.whole.nodes.get(step) else { continue };
                let indentation = if depth == 0 { 0 } else { used };
                let before = if depth == 0 {
                    String::new()
                } else {
                    format!("{:indentation$}{:depth$}└ ", "", "")
                };
                let used = if depth == 0 { used } else { 0 };
                self.end(used, &before, &self.name(step.last))?;
            }
        }
        if !others.is_empty() {
            self.has_left_out = true;
            let sum = others.iter().map(|(_, node)| node.total()).fold(0, u64::saturating_add);
            writeln!(self.out, "{:width$}({})", "", self.left_out(others.len(), "path", sum))?;
        }
        writeln!(self.out, "\nCalls beneath {pattern}:\n")
    }

    /// How many things are put together, and what they took.
    fn left_out(&self, count: usize, what: &str, sum: u64) -> String {
        let many = counted(count, &format!("more {what}"), &format!("more {what}s"));
        if self.graph.has_times {
            let text = Duration(sum).to_string();
            format!("{many}: {}", text.split_whitespace().collect::<Vec<_>>().join(" "))
        } else {
            format!("{many}: {}", counted(sum, "call", "calls"))
        }
    }

    /// The tree.
    fn tree(&mut self) -> io::Result<()> {
        let graph = self.graph;
        let (tree, whole) = (graph.shown, graph.shown.whole());
        let width = self.heading("FUNCTION")?;
        let mut rest = Vec::new();
        self.push(&mut rest, tree, (&tree.roots, None), whole);
        while let Some(line) = rest.pop() {
            let branch = match (line.depth, line.is_last) {
                (0, _) => "",
                (_, true) => "└─ ",
                (_, false) => "├─ ",
            };
            let prefix = format!("{}{branch}", line.before);
            match line.what {
                What::Node(at) => {
                    let Some(node) = tree.nodes.get(at) else { continue };
                    let used = self.numbers(node, whole)?;
                    self.end(used, &prefix, &self.name(node.last))?;
                    self.push(&mut rest, tree, (&node.children, Some(&line)), whole);
                }
                What::LeftOut(count, sum) => {
                    self.has_left_out = true;
                    let text = self.left_out(count, "function", sum);
                    writeln!(self.out, "{:width$}{prefix}({text})", "")?;
                }
            }
        }
        Ok(())
    }

    /// Adds the lines of some nodes, the last one first.
    fn push(
        &self,
        rest: &mut Vec<Line>,
        tree: &Tree,
        (nodes, above): (&[usize], Option<&Line>),
        whole: u64,
    ) {
        let depth = above.map_or(0, |above| above.depth + 1);
        let before = above.map_or_else(String::new, |above| match (above.depth, above.is_last) {
            (0, _) => String::new(),
            (_, true) => format!("{}   ", above.before),
            (_, false) => format!("{}│  ", above.before),
        });
        let total = |at: &usize| tree.nodes.get(*at).map_or(0, Node::total);
        // A process is no function.
        let is_process = |at: &usize| {
            tree.nodes.get(*at).is_some_and(|node| matches!(node.last, Last::Process(..)))
        };
        let starts_with_process = tree.roots.first().is_some_and(is_process);
        let is_too_deep = depth >= self.graph.manner.depth + usize::from(starts_with_process);
        let (shown, others): (Vec<usize>, Vec<usize>) =
            nodes.iter().partition(|at| !is_too_deep && self.graph.is_worth(total(at), whole));
        let begin = rest.len();
        if !others.is_empty() {
            let sum = others.iter().map(total).fold(0, u64::saturating_add);
            let what = What::LeftOut(others.len(), sum);
            rest.push(Line { what, before: before.clone(), depth, is_last: false });
        }
        rest.extend(shown.into_iter().rev().map(|at| {
            let what = What::Node(at);
            Line { what, before: before.clone(), depth, is_last: false }
        }));
        if let Some(last) = rest.get_mut(begin) {
            last.is_last = true;
        }
    }

    /// What isn't in it.
    fn rest(&mut self) -> io::Result<()> {
        if self.graph.names.trace.header.has_only_entries {
            writeln!(
                self.out,
                "\nOnly entries were recorded: the trace doesn't say what called what."
            )?;
        }
        if self.has_left_out {
            writeln!(
                self.out,
                "\nIn parentheses: functions with less than {} % of the time, or more than {} deep; --min-share 0 and --depth change that.",
                self.graph.manner.min_share, self.graph.manner.depth
            )?;
        }
        match self.graph.shown.deeper {
            0 => Ok(()),
            deeper => writeln!(
                self.out,
                "\n{} on too many or too long paths: their time is that of their callers.",
                counted(deeper, "call is", "calls are")
            ),
        }
    }
}

/// A line that is still to be printed.
struct Line {
    what: What,
    /// What the lines beneath begin with.
    before: String,
    depth: usize,
    /// No other line of the same caller follows.
    is_last: bool,
}

enum What {
    Node(usize),
    /// So many nodes, and what they took together.
    LeftOut(usize, u64),
}

/// `12.3 %`
fn share(part: u64, whole: u64) -> String {
    let thousandths = u128::from(part) * 1000 / u128::from(whole.max(1));
    format!("{}.{}%", thousandths / 10, thousandths % 10)
}
