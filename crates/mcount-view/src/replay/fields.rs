//! What stands before the name of a function in a call graph: the columns of `--fields`.

use super::Names;
use super::time::Duration;
use crate::words::printable;
use anstyle::{AnsiColor, Style};
use mcount_trace::Call;
use std::io::{self, Write};

/// Durations from this on are coloured, in nanoseconds, the longest first.
const COLOURS: [(u64, AnsiColor); 3] =
    [(1_000_000_000, AnsiColor::Red), (1_000_000, AnsiColor::Yellow), (100_000, AnsiColor::Green)];

/// A column. The names are those of uftrace, where it has the column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Field {
    /// How long the call took
    Duration,
    /// The thread ID
    Tid,
    /// The process ID
    Pid,
    /// The name of the thread
    Task,
    /// The time of day, in seconds since 1970
    Time,
    /// The time since the trace began, in seconds
    Elapsed,
    /// The time since the line before of the same thread
    Delta,
    /// The file that the function is in
    Module,
    /// The function's address in that file
    #[value(alias = "addr")]
    Address,
    /// No column
    None,
}

impl Field {
    /// The default columns.
    pub const USUAL: [Self; 2] = [Self::Duration, Self::Tid];

    /// The heading, as wide as the column.
    fn heading(self) -> &'static str {
        match self {
            Self::Duration => "  DURATION",
            Self::Tid => "    TID  ",
            Self::Pid => "    PID  ",
            Self::Task => "           TASK",
            Self::Time => "                TIME",
            Self::Elapsed => "        ELAPSED",
            Self::Delta => "     DELTA",
            Self::Module => "          MODULE",
            Self::Address => "           ADDRESS",
            Self::None => "",
        }
    }

    fn width(self) -> usize {
        self.heading().len()
    }
}

/// A line of the call graph, as columns show it.
pub(super) struct Event<'c> {
    pub(super) call: &'c Call,
    /// When it happened, in nanoseconds since the start of the trace.
    pub(super) at: u64,
    /// How long the call took, if the line says so.
    pub(super) duration: Option<u64>,
}

/// The columns of a call graph.
pub(super) struct Columns {
    fields: Vec<Field>,
    has_colour: bool,
    /// When each thread had its last line.
    last: Vec<Option<u64>>,
}

impl Columns {
    pub(super) fn new(fields: &[Field], has_colour: bool, threads: usize) -> Self {
        let fields = fields.iter().copied().filter(|field| *field != Field::None).collect();
        Self { fields, has_colour, last: vec![None; threads] }
    }

    /// The first line.
    pub(super) fn head(&self, out: &mut impl Write) -> io::Result<()> {
        let mut line: String =
            self.fields.iter().map(|field| field.heading().to_owned() + " ").collect();
        line.push_str("  FUNCTION");
        writeln!(out, "#{}", line.get(1..).unwrap_or_default())
    }

    /// What stands before the function in a line.
    pub(super) fn print(
        &mut self,
        out: &mut impl Write,
        names: &Names<'_, '_>,
        event: &Event<'_>,
    ) -> io::Result<()> {
        let last = self.last.get_mut(event.call.thread);
        let last = last.and_then(|last| last.replace(event.at));
        for field in &self.fields {
            self.column(*field, out, names, (event, last))?;
            write!(out, " ")?;
        }
        if self.fields.is_empty() { Ok(()) } else { write!(out, "| ") }
    }

    fn column(
        &self,
        field: Field,
        out: &mut impl Write,
        names: &Names<'_, '_>,
        (event, last): (&Event<'_>, Option<u64>),
    ) -> io::Result<()> {
        let (width, has_times) = (field.width(), names.trace.has_times());
        let (pid, tid) = names.ids(event.call);
        match field {
            Field::Duration => match event.duration.filter(|_| has_times) {
                Some(duration) => coloured(out, duration, self.has_colour),
                None => write!(out, "{:width$}", ""),
            },
            Field::Delta => match last.filter(|_| has_times) {
                Some(last) => write!(out, "{}", Duration(event.at.saturating_sub(last))),
                None => write!(out, "{:width$}", ""),
            },
            Field::Tid => write!(out, "[{tid:>7}]"),
            Field::Pid => write!(out, "[{pid:>7}]"),
            Field::Task => {
                let thread = names.trace.threads.get(event.call.thread);
                let name = thread.map_or(&b""[..], |thread| thread.name);
                write!(out, "{:>width$}", printable(&String::from_utf8_lossy(name)))
            }
            Field::Time => {
                let time = names
                    .trace
                    .header
                    .start_realtime
                    .saturating_add(event.at.saturating_sub(names.start));
                write!(out, "{:>width$}", seconds(time))
            }
            Field::Elapsed => write!(out, "{:>width$}", seconds(event.at)),
            Field::Module => {
                let path = &names.function(event.call.function).module;
                write!(out, "{:>width$}", path.rsplit('/').next().unwrap_or_default())
            }
            Field::Address => match names.function(event.call.function).address {
                Some(address) => write!(out, "{:>width$}", format!("{address:#x}")),
                None => write!(out, "{:width$}", ""),
            },
            Field::None => Ok(()),
        }
    }
}

fn seconds(nanoseconds: u64) -> String {
    format!("{}.{:09}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000)
}

/// Prints a duration, in colour if it is a long one.
fn coloured(out: &mut impl Write, duration: u64, has_colour: bool) -> io::Result<()> {
    let style = if has_colour { style(duration) } else { Style::new() };
    write!(out, "{style}{}{style:#}", Duration(duration))
}

fn style(duration: u64) -> Style {
    let colour = COLOURS.into_iter().find(|(from, _)| duration >= *from);
    colour.map_or_else(Style::new, |(_, colour)| colour.on_default())
}
