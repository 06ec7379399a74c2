//! The table of functions: calls and times of each.

use mcount_trace::Trace;

/// Facts about a function. Times are nanoseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    pub(super) calls: u64,
    /// With what it called; of calls within calls of the same function, the outermost.
    pub(super) total: u64,
    /// Without what it called.
    pub(super) own: u64,
    pub(super) longest: u64,
    /// How many calls enclose the present one.
    open: u32,
}

/// Of each function of a trace, in its order; the last is of those that it doesn't name.
pub(super) struct Functions {
    pub(super) rows: Vec<Row>,
}

impl Functions {
    pub(super) fn new(trace: &Trace<'_>) -> Self {
        Self { rows: vec![Row::default(); trace.functions.len() + 1] }
    }

    fn row(&mut self, function: Option<usize>) -> Option<&mut Row> {
        let at = function.unwrap_or(self.rows.len().saturating_sub(1));
        self.rows.get_mut(at)
    }

    pub(super) fn enter(&mut self, function: Option<usize>) {
        if let Some(row) = self.row(function) {
            row.calls += 1;
            row.open += 1;
        }
    }

    pub(super) fn leave(&mut self, function: Option<usize>, duration: u64, own: u64) {
        let Some(row) = self.row(function) else { return };
        row.open = row.open.saturating_sub(1);
        if row.open == 0 {
            row.total = row.total.saturating_add(duration);
        }
        row.own = row.own.saturating_add(own);
        row.longest = row.longest.max(duration);
    }
}
