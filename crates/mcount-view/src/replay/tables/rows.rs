//! Rows of calls, a piece of the table at a time.

use super::{CALLS, Subject};
use crate::parquet::Column;
use crate::replay::Selection;
use crate::replay::progress::Progress;
use crate::replay::select::Filter;
use crate::replay::values::{self, Recorded};
use mcount_trace::Call;

/// Some rows of calls of a build.
pub struct Piece {
    /// The place of the build.
    pub build: usize,
    /// The columns of [`CALLS`].
    pub columns: Vec<Column>,
    /// How many rows they have.
    pub rows: u64,
}

/// Nobody wants more pieces.
#[derive(Debug, Clone, Copy)]
pub struct Gone;

/// Which pieces there are, and how long they get.
#[derive(Debug, Clone, Copy)]
pub struct Pieces<'p> {
    /// The threads whose calls have rows, by their places in the trace.
    pub threads: &'p [usize],
    /// Which columns of [`CALLS`] are filled.
    pub columns: &'p [bool],
    /// Rows of a piece.
    pub rows: u64,
    /// Rows of pieces that aren't full, of all builds.
    pub waiting: u64,
}

impl Pieces<'_> {
    /// Hands all calls of these threads to `take`.
    ///
    /// # Errors
    ///
    /// `take` wants no more.
    pub fn all(
        &self,
        subject: &Subject<'_>,
        progress: &Progress<'_>,
        take: impl FnMut(Piece) -> Result<(), Gone>,
    ) -> Result<(), Gone> {
        let selection = Selection::default();
        self.selected(subject, &selection.filter(subject.names.trace), progress, take)
    }

    /// The same with those that `filter` selects.
    pub(in crate::replay) fn selected(
        &self,
        subject: &Subject<'_>,
        filter: &Filter<'_>,
        progress: &Progress<'_>,
        take: impl FnMut(Piece) -> Result<(), Gone>,
    ) -> Result<(), Gone> {
        let trace = subject.names.trace;
        let mut rows = Rows {
            pieces: self,
            subject,
            filter,
            take,
            values: Recorded::of(trace),
            has_arguments: is_wanted(self.columns, "arguments"),
            filling: subject.builds.iter().map(|_| None).collect(),
            waiting: 0,
            open: Vec::new(),
            latest: trace.nanoseconds(trace.latest()),
        };
        rows.all(progress)
    }
}

/// A call that encloses others, or may.
struct Open {
    call: Call,
    is_wanted: bool,
    /// Nanoseconds in what it called.
    children: u64,
    /// If they were recorded, and are asked for.
    arguments: Option<String>,
}

/// Makes rows of calls.
struct Rows<'r, 't, Take> {
    pieces: &'r Pieces<'r>,
    subject: &'r Subject<'r>,
    filter: &'r Filter<'r>,
    take: Take,
    values: Recorded<'t>,
    has_arguments: bool,
    /// By build.
    filling: Vec<Option<Piece>>,
    waiting: u64,
    open: Vec<Open>,
    latest: u64,
}

impl<Take: FnMut(Piece) -> Result<(), Gone>> Rows<'_, '_, Take> {
    fn all(&mut self, progress: &Progress<'_>) -> Result<(), Gone> {
        let trace = self.subject.names.trace;
        for thread in self.pieces.threads.iter().copied() {
            let calls = trace.thread_calls(thread).filter(|_| self.filter.has_thread(thread));
            for call in progress.over(calls.into_iter().flatten()) {
                let (start, end) = self.filter.times(&call);
                if self.filter.is_too_late(start) {
                    break;
                }
                self.leave(call.depth)?;
                let is_wanted = self.filter.is_wanted(&call, start, end);
                let arguments = self.arguments(&call);
                self.open.push(Open { call, is_wanted, children: 0, arguments });
            }
            self.leave(0)?;
        }
        for build in 0..self.filling.len() {
            self.hand_out(build)?;
        }
        Ok(())
    }

    /// Those of a call. Calls of a thread are asked by start.
    fn arguments(&mut self, call: &Call) -> Option<String> {
        let arguments = self.has_arguments.then(|| self.values.arguments(call)).flatten()?;
        Some(values::named(&arguments))
    }

    /// Ends all calls but the first `depth`.
    fn leave(&mut self, depth: usize) -> Result<(), Gone> {
        while self.open.len() > depth
            && let Some(mut over) = self.open.pop()
        {
            let (start, end) = self.filter.times(&over.call);
            let length = end.unwrap_or(self.latest).saturating_sub(start);
            if let Some(caller) = self.open.last_mut() {
                caller.children = caller.children.saturating_add(length);
            }
            if over.is_wanted {
                self.add(&mut over)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, over: &mut Open) -> Result<(), Gone> {
        let build = self.subject.build_of(over.call.process);
        let Some(piece) = self.filling.get_mut(build) else { return Ok(()) };
        let Pieces { columns, rows, .. } = *self.pieces;
        // If there are many builds, most may have few rows.
        let room = usize::try_from(rows).unwrap_or(0) / self.subject.builds.len().max(1);
        let new = || Piece { build, columns: empty(columns, room), rows: 0 };
        let piece = piece.get_or_insert_with(new);
        self.subject.call(&mut piece.columns, &over.call, over.children);
        if let [.., arguments, result] = &mut *piece.columns {
            arguments.maybe_own(|| over.arguments.take());
            result.maybe_own(|| self.values.result(&over.call).map(|value| values::text(&value)));
        }
        piece.rows += 1;
        self.waiting += 1;
        if piece.rows >= self.pieces.rows {
            return self.hand_out(build);
        }
        if self.waiting > self.pieces.waiting {
            let rows = |build: &usize| {
                self.filling.get(*build).and_then(Option::as_ref).map_or(0, |piece| piece.rows)
            };
            let most = (0..self.filling.len()).max_by_key(rows);
            return most.map_or(Ok(()), |build| self.hand_out(build));
        }
        Ok(())
    }

    /// The piece of a build is as long as it gets.
    fn hand_out(&mut self, build: usize) -> Result<(), Gone> {
        let Some(piece) = self.filling.get_mut(build).and_then(Option::take) else { return Ok(()) };
        self.waiting -= piece.rows;
        (self.take)(piece)
    }
}

fn is_wanted(columns: &[bool], name: &str) -> bool {
    CALLS.iter().zip(columns).any(|(field, wanted)| *wanted && field.name == name)
}

/// Columns without rows, of which those that nobody asks for stay so.
fn empty(wanted: &[bool], room: usize) -> Vec<Column> {
    let column = |(field, wanted): (_, &bool)| {
        if *wanted { Column::with_room(field, room) } else { Column::unwanted() }
    };
    CALLS.iter().zip(wanted).map(column).collect()
}
