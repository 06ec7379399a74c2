//! A call graph, as ftrace and uftrace print it: a line where a call begins and one where it ends, or
//! one for both if nothing comes between.

use super::fields::{Columns, Event};
use super::values::{self, Recorded};
use super::{Manner, Names, SourceLines, end_name};
use crate::words::printable;
use mcount_trace::{Call, End};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};

/// Deeper calls are not moved further to the right.
const INDENTATION: usize = 100;

pub(super) fn print(
    out: &mut impl Write,
    names: &Names<'_, '_>,
    calls: impl Iterator<Item = Call>,
    manner: &Manner,
) -> io::Result<()> {
    let threads = names.trace.threads.len();
    let columns = Columns::new(&manner.fields, manner.has_colour, threads);
    columns.head(out)?;
    let (levels, open) = (vec![0; threads], BinaryHeap::new());
    let mut graph = Graph {
        out,
        names,
        values: Recorded::of(names.trace),
        columns,
        levels,
        held: None,
        lines: manner.lines.as_ref(),
        open,
        count: 0,
    };
    for call in calls {
        graph.ends_before(&call)?;
        graph.begin(call)?;
    }
    while let Some(Reverse(Ending { call, counted, .. })) = graph.open.pop() {
        graph.end(&call, &counted)?;
    }
    graph.release()
}

/// A call whose end is still to be printed; the earliest end comes first, callees before callers.
struct Ending {
    end: u64,
    /// How many calls were printed before it.
    count: u64,
    call: Call,
    /// What was counted in it, as it's printed.
    counted: String,
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
    values: Recorded<'t>,
    columns: Columns,
    /// How many calls of each thread have begun and not ended.
    levels: Vec<usize>,
    /// The call that began last, if its line isn't written yet.
    held: Option<(Call, Option<String>)>,
    /// Where functions begin in their source, if that's printed.
    lines: Option<&'g SourceLines>,
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
            let Some(Reverse(Ending { call, counted, .. })) = self.open.pop() else {
                return Ok(());
            };
            self.end(&call, &counted)?;
        }
        Ok(())
    }

    fn begin(&mut self, call: Call) -> io::Result<()> {
        self.release()?;
        let arguments = self.values.arguments(&call);
        if let Some(end) = call.end {
            let counted = values::counters(self.values.counted(&call));
            self.open.push(Reverse(Ending { end, count: self.count, call, counted }));
        }
        self.count += 1;
        let name = &self.names.function(call.function).text;
        let mark = self.values.whole_mark(&call, arguments.as_deref(), name);
        let arguments = mark.or_else(|| arguments.map(|all| values::arguments(&all)));
        self.held = Some((call, arguments));
        Ok(())
    }

    /// Prints the line of the call that began last, if it isn't there yet.
    fn release(&mut self) -> io::Result<()> {
        let Some((call, arguments)) = self.held.take() else { return Ok(()) };
        let at = self.names.times(&call).0;
        self.prefix(&Event { call: &call, at, duration: None })?;
        if self.values.is_mark(&call) {
            return writeln!(self.out, "/* {} */", arguments.unwrap_or_default());
        }
        let has_only_entries = self.has_only_entries();
        if let Some(level) = self.levels.get_mut(call.thread).filter(|_| !has_only_entries) {
            *level += 1;
        }
        let name = called(&self.names.function(call.function).text, arguments);
        // Of a call of which only the entry is known, nobody knows what it encloses.
        let rest = if self.has_only_entries() { ";" } else { " {" };
        writeln!(self.out, "{name}{rest}{}", self.source(&call))
    }

    fn has_only_entries(&self) -> bool {
        self.names.trace.header.has_only_entries
    }

    /// Prints the end of a call.
    fn end(&mut self, call: &Call, counted: &str) -> io::Result<()> {
        if self.values.is_mark(call) {
            // It's a line, if there isn't one already, and encloses nothing.
            let is_held = self.held.as_ref().is_some_and(|(held, _)| held == call);
            return if is_held { self.release() } else { Ok(()) };
        }
        let (start, end) = self.names.times(call);
        let duration = end.map(|end| end.saturating_sub(start));
        let name = &self.names.function(call.function).text;
        let how = call.how.filter(|how| *how != End::Return).map(end_name);
        let result = self.values.result(call).map(|value| values::text(&value));
        let result = result.map_or_else(String::new, |value| format!(" = {value};"));
        if let Some((_, arguments)) = self.held.take_if(|(held, _)| held == call) {
            self.prefix(&Event { call, at: start, duration })?;
            let end = if result.is_empty() { ";" } else { &result };
            write!(self.out, "{}{end}", called(name, arguments))?;
            if let Some(how) = how {
                write!(self.out, " /* {how} */")?;
            }
            return writeln!(self.out, "{counted}{}", self.source(call));
        }
        self.release()?;
        if let Some(level) = self.levels.get_mut(call.thread) {
            *level = level.saturating_sub(1);
        }
        self.prefix(&Event { call, at: end.unwrap_or(start), duration })?;
        match how {
            Some(how) => writeln!(self.out, "}}{result} /* {name}: {how} */{counted}"),
            None => writeln!(self.out, "}}{result} /* {name} */{counted}"),
        }
    }

    /// What stands behind a call: where its function begins in its source, if that's wanted and known.
    fn source(&self, call: &Call) -> String {
        let line = self.lines.and_then(|lines| lines.get(call.function));
        line.map_or_else(String::new, |at| format!(" /* {}:{} */", printable(&at.file), at.line))
    }

    /// Prints what stands before the name: columns and nesting.
    fn prefix(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.columns.print(self.out, self.names, event)?;
        let level = self.levels.get(event.call.thread).copied().unwrap_or(0);
        let indentation = 2 * level.min(INDENTATION);
        write!(self.out, "{:indentation$}", "")
    }
}

/// A name as a call: names of C++ have the types of their arguments, unless these are known.
fn called(name: &str, arguments: Option<String>) -> String {
    match arguments {
        Some(arguments) => format!("{}({arguments})", mcount::without_arguments(name)),
        None if name.ends_with(')') => name.to_owned(),
        None => format!("{name}()"),
    }
}
