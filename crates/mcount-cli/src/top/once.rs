//! One picture, for scripts.

use super::lines::{heading, holder, per_second, rows, title};
use super::order::{Sort, mean, sorted};
use crate::trace::attach::{Picture, View, Wish};
use crate::words::printable;
use clap::ValueEnum;
use serde_json::json;
use std::io::{self, Write};
use std::time::Duration;

/// How it's printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned text.
    Text,
    /// One JSON object a function.
    Jsonl,
}

/// Prints what was called in a time.
pub struct Once {
    /// The time.
    pub interval: Duration,
    /// The first rows.
    pub sort: Sort,
    /// How it's printed.
    pub format: Format,
    /// It has been done.
    pub is_done: bool,
}

impl View for Once {
    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    fn input(&self) -> Option<i32> {
        None
    }

    fn typed(&mut self) -> Wish {
        Wish::Nothing
    }

    fn show(&mut self, picture: Picture) -> io::Result<Wish> {
        self.is_done = true;
        let mut out = io::stdout().lock();
        if self.format == Format::Text {
            writeln!(out, "{}", title(&picture))?;
            if let Some(line) = holder(&picture) {
                writeln!(out, "{line}")?;
            }
            writeln!(out, "{}", heading(self.sort))?;
            for line in rows(&picture, self.sort, "") {
                writeln!(out, "{line}")?;
            }
        } else {
            for row in sorted(&picture.rows, self.sort, "") {
                let line = json!({
                    "process": picture.process,
                    "function": &*row.function,
                    "module": &*row.module,
                    "calls": row.calls,
                    "calls_per_second": per_second(row.calls, &picture),
                    "total_ns": row.total,
                    "self_ns": row.own,
                    "mean_ns": mean(row),
                    "max_ns": row.longest,
                    "armed": row.is_armed,
                    "caller": row.caller.as_deref(),
                });
                writeln!(out, "{line}")?;
            }
        }
        out.flush()?;
        Ok(Wish::End)
    }

    fn end(&mut self, picture: Picture) {
        if !self.is_done {
            // Who doesn't read it doesn't want it.
            let _ = self.show(picture);
        }
    }

    fn say(&mut self, text: &str) {
        let _ = writeln!(anstream::stderr(), "mcount: {}", printable(text));
    }
}
