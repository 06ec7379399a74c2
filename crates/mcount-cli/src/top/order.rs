//! Which functions come first, and which are shown at all.

use crate::pattern::{Language, Pattern};
use crate::trace::attach::Row;
use clap::ValueEnum;

/// What rows are sorted by: the one with most comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Time without what they called.
    #[value(name = "self")]
    Own,
    /// Time with what they called.
    Total,
    /// How often they're called.
    Calls,
    /// How long a call takes, on average.
    Mean,
    /// How long the longest call took.
    Max,
    /// Name, in alphabetical order.
    Name,
}

impl Sort {
    /// What's pressed for it.
    pub(super) fn of_key(key: char) -> Option<Self> {
        Some(match key {
            's' => Self::Own,
            't' => Self::Total,
            'c' => Self::Calls,
            'm' => Self::Mean,
            'x' => Self::Max,
            'n' => Self::Name,
            _ => return None,
        })
    }
}

/// How long a call took on average, in nanoseconds.
pub(super) fn mean(row: &Row) -> u64 {
    row.total / row.calls.max(1)
}

/// Is the function of `row` meant? By a pattern, if `filter` has something that only patterns have; or by a
/// part of its name, as people type it.
fn is_meant(row: &Row, filter: &str, pattern: Option<&Pattern>) -> bool {
    match pattern {
        Some(pattern) => pattern.is_match(&row.function, &row.function, &row.module),
        None => row.function.contains(filter),
    }
}

/// The rows that have something to say and whose functions `filter` means, in their order.
pub(super) fn sorted<'r>(rows: &'r [Row], sort: Sort, filter: &str) -> Vec<&'r Row> {
    let has_pattern = filter.contains(['*', '?', '[', '@']);
    let pattern = has_pattern.then(|| Pattern::new(filter, Language::Glob).ok()).flatten();
    let is_shown = |row: &&Row| row.total_calls != 0 && is_meant(row, filter, pattern.as_ref());
    let mut shown: Vec<&Row> = rows.iter().filter(is_shown).collect();
    let key = |row: &Row| match sort {
        Sort::Own => row.own,
        Sort::Total => row.total,
        Sort::Calls => row.calls,
        Sort::Mean => mean(row),
        Sort::Max => row.longest,
        Sort::Name => 0,
    };
    shown.sort_by(|one, other| {
        let more = key(other).cmp(&key(one)).then(other.total_calls.cmp(&one.total_calls));
        let by_name = one.function.cmp(&other.function);
        if sort == Sort::Name { by_name } else { more.then(by_name) }
    });
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn row(function: &str, numbers: [u64; 5]) -> Row {
        let [calls, total_calls, total, own, longest] = numbers;
        let (function, module) = (Arc::from(function), Arc::from("/bin/program"));
        Row {
            function,
            module,
            calls,
            total_calls,
            total,
            own,
            longest,
            is_armed: true,
            caller: None,
        }
    }

    #[test]
    fn each_key_has_its_order() {
        let rows = [
            row("parse", [10, 10, 1000, 100, 300]),
            row("parse_line", [100, 100, 900, 900, 20]),
            row("main", [1, 1, 2000, 10, 2000]),
            row("never", [0; 5]),
            row("before", [0, 7, 0, 0, 0]),
        ];
        for (key, expected) in [
            ('s', ["parse_line", "parse", "main", "before"]),
            ('t', ["main", "parse", "parse_line", "before"]),
            ('c', ["parse_line", "parse", "main", "before"]),
            ('m', ["main", "parse", "parse_line", "before"]),
            ('x', ["main", "parse", "parse_line", "before"]),
            ('n', ["before", "main", "parse", "parse_line"]),
        ] {
            let found = sorted(&rows, Sort::of_key(key).unwrap(), "");
            let names: Vec<&str> = found.iter().map(|row| &*row.function).collect();
            assert_eq!(names, expected, "{key}");
        }
        for (filter, count) in [
            ("parse", 2),
            ("parse*", 2),
            ("*line", 1),
            ("p?rse", 1),
            ("@program", 4),
            ("m[", 0),
            ("x*", 0),
        ] {
            assert_eq!(sorted(&rows, Sort::Own, filter).len(), count, "{filter}");
        }
        assert_eq!(Sort::of_key('q'), None);
    }
}
