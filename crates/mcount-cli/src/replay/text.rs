//! A call graph, as ftrace and uftrace print it: a line where a call begins and one where it ends, or
//! one for both if nothing comes between.

use super::time::Duration;
use super::{Names, end_name};
use anstyle::{AnsiColor, Style};
use mcount_trace::{Call, End};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};

/// Deeper calls are not moved further to the right.
const INDENTATION: usize = 100;

/// Durations from this on are coloured, in nanoseconds, the longest first.
const COLOURS: [(u64, AnsiColor); 3] =
    [(1_000_000_000, AnsiColor::Red), (1_000_000, AnsiColor::Yellow), (100_000, AnsiColor::Green)];

pub(super) fn print(
    out: &mut impl Write,
    names: &Names<'_, '_>,
    calls: impl Iterator<Item = Call>,
    has_colour: bool,
) -> io::Result<()> {
    let levels = vec![0; names.trace.threads.len()];
    let mut graph =
        Graph { out, names, has_colour, levels, held: None, open: BinaryHeap::new(), count: 0 };
    writeln!(graph.out, "# DURATION     TID     FUNCTION")?;
    for call in calls {
        graph.ends_before(&call)?;
        graph.begin(call)?;
    }
    while let Some(Reverse(Ending { call, .. })) = graph.open.pop() {
        graph.end(&call)?;
    }
    graph.release()
}

/// A call whose end is still to be printed; the earliest end comes first, callees before callers.
struct Ending {
    end: u64,
    /// How many calls were printed before it.
    count: u64,
    call: Call,
}

impl Ending {
    fn key(&self) -> (u64, Reverse<u64>) {
        (self.end, Reverse(self.count))
    }
}

impl Ord for Ending {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Ending {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Ending {}

impl PartialEq for Ending {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

struct Graph<'g, 't, 'a, W> {
    out: &'g mut W,
    names: &'g Names<'t, 'a>,
    has_colour: bool,
    /// How many calls of each thread have begun and not ended.
    levels: Vec<usize>,
    /// The call that began last, if its line isn't written yet.
    held: Option<Call>,
    open: BinaryHeap<Reverse<Ending>>,
    /// How many calls began.
    count: u64,
}

impl<W: Write> Graph<'_, '_, '_, W> {
    /// Prints the ends of all calls that end before `next` begins.
    fn ends_before(&mut self, next: &Call) -> io::Result<()> {
        while let Some(Reverse(first)) = self.open.peek() {
            let is_within = first.call.thread == next.thread && first.call.depth < next.depth;
            if first.end > next.start || first.end == next.start && is_within {
                return Ok(());
            }
            let Some(Reverse(Ending { call, .. })) = self.open.pop() else { return Ok(()) };
            self.end(&call)?;
        }
        Ok(())
    }

    fn begin(&mut self, call: Call) -> io::Result<()> {
        self.release()?;
        if let Some(end) = call.end {
            self.open.push(Reverse(Ending { end, count: self.count, call }));
        }
        self.count += 1;
        self.held = Some(call);
        Ok(())
    }

    /// Prints the line of the call that began last, if it isn't there yet.
    fn release(&mut self) -> io::Result<()> {
        let Some(call) = self.held.take() else { return Ok(()) };
        self.prefix(&call, None)?;
        let has_only_entries = self.has_only_entries();
        if let Some(level) = self.levels.get_mut(call.thread).filter(|_| !has_only_entries) {
            *level += 1;
        }
        let name = &self.names.function(call.function).text;
        // Of a call of which only the entry is known, nobody knows what it encloses.
        let rest = if self.has_only_entries() { ";" } else { " {" };
        writeln!(self.out, "{name}{}{rest}", parentheses(name))
    }

    fn has_only_entries(&self) -> bool {
        self.names.trace.header.has_only_entries
    }

    /// Prints the end of a call.
    fn end(&mut self, call: &Call) -> io::Result<()> {
        let (start, end) = self.names.times(call);
        let duration = end.map(|end| end.saturating_sub(start));
        let name = &self.names.function(call.function).text;
        let how = call.how.filter(|how| *how != End::Return).map(end_name);
        if self.held == Some(*call) {
            self.held = None;
            self.prefix(call, duration)?;
            write!(self.out, "{name}{};", parentheses(name))?;
            return match how {
                Some(how) => writeln!(self.out, " /* {how} */"),
                None => writeln!(self.out),
            };
        }
        self.release()?;
        if let Some(level) = self.levels.get_mut(call.thread) {
            *level = level.saturating_sub(1);
        }
        self.prefix(call, duration)?;
        match how {
            Some(how) => writeln!(self.out, "}} /* {name}: {how} */"),
            None => writeln!(self.out, "}} /* {name} */"),
        }
    }

    /// Prints what stands before the name: duration, thread and nesting.
    fn prefix(&mut self, call: &Call, duration: Option<u64>) -> io::Result<()> {
        let (_, tid) = self.names.ids(call);
        match duration.filter(|_| self.names.trace.has_times()) {
            Some(duration) => {
                let style = if self.has_colour { style(duration) } else { Style::new() };
                write!(self.out, "{style}{}{style:#}", Duration(duration))?;
            }
            None => write!(self.out, "{:10}", "")?,
        }
        let level = self.levels.get(call.thread).copied().unwrap_or(0);
        let indentation = 2 * level.min(INDENTATION);
        write!(self.out, " [{tid:>7}] | {:indentation$}", "")
    }
}

fn style(duration: u64) -> Style {
    let colour = COLOURS.into_iter().find(|(from, _)| duration >= *from);
    colour.map_or_else(Style::new, |(_, colour)| colour.on_default())
}

/// What a name needs to look like a call: names of C++ have their arguments.
fn parentheses(name: &str) -> &'static str {
    if name.ends_with(')') { "" } else { "()" }
}
