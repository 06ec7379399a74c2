//! The table of functions.

use super::load::Loading;
use super::search::Search;
use crate::replay::stats::FunctionRow;
use std::cmp::Reverse;

/// What rows are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Calls,
    Total,
    Own,
    Waiting,
    Mean,
    Max,
    Name,
}

/// The orders, with their keys and what stands above the columns.
pub(super) const ORDERS: [(Order, char, &str); 7] = [
    (Order::Calls, 'c', "CALLS"),
    (Order::Total, 't', "TOTAL"),
    (Order::Own, 'r', "RUNNING"),
    (Order::Waiting, 'w', "WAITING"),
    (Order::Mean, 'm', "MEAN"),
    (Order::Max, 'x', "MAX"),
    (Order::Name, 'a', "FUNCTION"),
];

impl Order {
    /// What a row has in the column.
    pub(super) fn value(self, row: &FunctionRow) -> Option<u64> {
        match self {
            Self::Calls => Some(row.calls),
            Self::Total => row.total,
            Self::Own => row.split.map(|[running, _]| running).or(row.own),
            Self::Waiting => row.split.map(|[_, waiting]| waiting),
            Self::Mean => row.mean,
            Self::Max => row.max,
            Self::Name => None,
        }
    }
}

/// The table.
pub(super) struct FunctionsView {
    pub(super) order: Order,
    /// The rows in their order.
    pub(super) rows: Vec<FunctionRow>,
    pub(super) selected: usize,
    pub(super) above: usize,
}

impl Default for FunctionsView {
    fn default() -> Self {
        Self { order: Order::Own, rows: Vec::new(), selected: 0, above: 0 }
    }
}

impl FunctionsView {
    /// Takes the rows when they're there.
    pub(super) fn begin(&mut self, loading: &Loading<'_>) {
        if let Some(rows) = loading.rows().filter(|_| self.rows.is_empty()) {
            self.rows = rows.to_vec();
            self.sort(loading, self.order);
        }
    }

    /// Sorts the rows.
    pub(super) fn sort(&mut self, loading: &Loading<'_>, order: Order) {
        self.order = order;
        if order == Order::Name {
            self.rows.sort_by_cached_key(|row| loading.name(row.function));
        } else {
            let key =
                |row: &FunctionRow| (Reverse(order.value(row)), Reverse(row.calls), row.function);
            self.rows.sort_by_key(key);
        }
        (self.selected, self.above) = (0, 0);
    }

    /// Moves up or down by so many rows.
    pub(super) fn step(&mut self, by: isize) {
        let last = self.rows.len().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(by).min(last);
    }

    /// The function that's selected.
    pub(super) fn function(&self) -> Option<u32> {
        self.rows.get(self.selected).map(|row| row.function)
    }

    /// Goes to the next row that is searched for, or to the one before; whether there is one.
    pub(super) fn find(&mut self, search: &Search, is_forward: bool) -> bool {
        let count = self.rows.len();
        let here = self.selected;
        let mut places = (1..=count).map(|step| {
            if is_forward { (here + step) % count } else { (here + count - step) % count }
        });
        let is_meant =
            |at: &usize| self.rows.get(*at).is_some_and(|row| search.is_match(row.function));
        let found = places.find(is_meant);
        self.selected = found.unwrap_or(self.selected);
        found.is_some()
    }
}
