//! A sample as people read it.

use super::cells::{cell, part, rate, rounded, time};
use super::{MODULES, Table};
use crate::replay::short_name;
use crate::trace::attach::{Named, Progress};
use crate::words::{counted, printable};
use mcount_view::sample::{Called, Estimate, Load, Row};
use std::path::Path;

/// Those of a function, of all in the order of functions.
pub(super) fn of_function(called: &[Called], function: u32) -> impl Iterator<Item = &Called> {
    let from = called.partition_point(|one| one.function < function);
    called.iter().skip(from).take_while(move |one| one.function == function)
}

/// What is in the columns behind the name.
type Cells = [String; 4];

impl Table {
    pub(super) fn text(&mut self, progress: &Progress, is_last: bool) -> Vec<String> {
        let rows = self.rows(progress);
        let called = if self.shows_callers { self.called(progress) } else { Vec::new() };
        let mut lines = vec![self.title(progress)];
        let head: Cells = ["CALLS/s", "TIME/CALL", "SHARE", "SELF"].map(str::to_owned);
        let mut table = vec![("FUNCTION".to_owned(), head)];
        for (row, named) in &rows {
            let name = shown_name(&named.function, &named.module, progress);
            table.push((name, cells(row)));
            let of = of_function(&called, row.function);
            table.extend(of.map(|one| (self.shown_caller(one.caller, progress), cells_of(one))));
        }
        let count = |text: &String| text.chars().count();
        let width = |texts: &mut dyn Iterator<Item = &String>| texts.map(count).max().unwrap_or(0);
        let first = width(&mut table.iter().map(|(name, _)| name));
        let widths: [usize; 4] = std::array::from_fn(|at| {
            width(&mut table.iter().filter_map(|(_, cells)| cells.get(at)))
        });
        lines.extend(table.iter().map(|(name, cells)| {
            let cells = cells.iter().zip(widths).map(|(cell, width)| format!("  {cell:width$}"));
            let line = format!("{name:first$}{}", cells.collect::<String>());
            line.trim_end().to_owned()
        }));
        if is_last {
            lines.extend(rows.is_empty().then(|| self.nothing(progress)));
            lines.extend(self.notes(progress));
        }
        lines
    }

    /// Who calls whom: of each function, those come first who call it most often.
    pub(super) fn called(&mut self, progress: &Progress) -> Vec<Called> {
        let (used, elapsed) = progress.outside;
        let mut called = self.sample.called(Load { used, elapsed });
        called.sort_by(|one, other| {
            let more = other.per_second.value.total_cmp(&one.per_second.value);
            one.function.cmp(&other.function).then(more)
        });
        called
    }

    /// The name of a caller, if it's sampled, and the path of its module.
    pub(super) fn caller_names(&self, caller: u32) -> (Option<&str>, &str) {
        if let Some(Named { function, module, .. }) = self.functions.get(&caller) {
            return (Some(function), module);
        }
        let at = caller.checked_sub(MODULES).and_then(|at| usize::try_from(at).ok());
        (None, at.and_then(|at| self.modules.get(at)).map_or("", |path| path))
    }

    fn shown_caller(&self, caller: u32, progress: &Progress) -> String {
        match self.caller_names(caller) {
            (Some(function), module) => {
                format!("  by {}", shown_name(function, module, progress))
            }
            (None, module) => {
                let name = Path::new(module).file_name().unwrap_or_default().display();
                format!("  by other code of {}", printable(&name.to_string()))
            }
        }
    }

    /// Why there is no row.
    fn nothing(&self, progress: &Progress) -> String {
        let windows = counted(self.sample.windows(), "window", "windows");
        let (used, elapsed) = progress.outside;
        let part = used / elapsed.max(f64::MIN_POSITIVE) * 100.0;
        format!(
            "no call of these functions began in {windows}, and the program used {part:.1} % of a CPU: sample for longer, or with a \
             higher --cost"
        )
    }

    /// What numbers lack.
    fn notes(&self, progress: &Progress) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.unfinished.is_empty() {
            let each = self.unfinished.iter().filter_map(|(number, count)| {
                let name = &self.functions.get(number)?.function;
                Some(format!("{count} of {}", printable(&short_name(name))))
            });
            let each: Vec<String> = each.collect();
            notes.push(format!(
                "calls that hadn't ended, whose time isn't counted: {}",
                each.join(", ")
            ));
        }
        notes.extend(self.warnings(progress));
        notes
    }

    /// The calls that estimates lack, and whether the machine was too busy for them.
    pub(super) fn warnings(&self, progress: &Progress) -> Vec<String> {
        let rows = [
            (progress.missed, "written over before it was read"),
            (self.sample.forgotten(), "longer than windows are remembered"),
        ];
        let some = rows.into_iter().filter(|(count, _)| *count != 0);
        let some = some.map(|(count, what)| {
            format!("{} not counted: {what}", counted(count, "call", "calls"))
        });
        some.chain(busy(progress.waiting)).collect()
    }
}

/// Windows begin when `mcount` gets a processor, and calls in them are long that wait for one.
fn busy(waiting: f64) -> Option<String> {
    /// Programs wait a little on idle machines, too.
    const MOST: f64 = 0.1;
    (waiting > MOST).then(|| {
        let part = waiting * 100.0;
        format!(
            "the program waited for a processor in {part:.0} % of the time that it could have run: rates may be some percent too \
             high, and times farther off than intervals say"
        )
    })
}

/// A function's name, with that of its module if it's a library.
fn shown_name(function: &str, module: &str, progress: &Progress) -> String {
    let is_program = module == progress.program;
    let file = Path::new(module).file_name().unwrap_or_default().display();
    let file = if is_program { String::new() } else { format!(" @{file}") };
    printable(&format!("{}{file}", short_name(function))).into_owned()
}

/// The own time, between nothing and all of the function's. The estimate is a difference of two, so it may be outside; sums of many need
/// it as it is.
fn own(row: &Row) -> Option<Estimate> {
    let within = |value: f64| value.min(row.share.value).max(0.0);
    row.own.map(|own| Estimate { value: within(own.value), ..own })
}

fn cells(row: &Row) -> Cells {
    // Of no call it may be known how long it took.
    let is_known = row.percentiles != [None; 3];
    let timed = |cell: String| if is_known { cell } else { "?".to_owned() };
    let own = own(row).map_or_else(|| "?".to_owned(), |own| timed(cell(own, part)));
    [cell(row.per_second, rate), timed(cell(row.mean, time)), timed(cell(row.share, part)), own]
}

/// There's no interval for the quotient, which isn't known better than the share. Taking off what recording takes may leave less than nothing;
/// sums need the share as it is, but people don't.
fn cells_of(called: &Called) -> Cells {
    let Called { per_second, share, .. } = *called;
    let mean = share.value / per_second.value.max(f64::MIN_POSITIVE) * 1e9;
    let error = share.error.map(|error| mean * error / share.value);
    let mean = if share.value > 0.0 {
        rounded(Estimate { value: mean, error }, time)
    } else {
        "?".to_owned()
    };
    let share = Estimate { value: share.value.max(0.0), ..share };
    [cell(per_second, rate), mean, cell(share, part), String::new()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_time_is_part_of_all_time() {
        let estimate = |value| Estimate { value, error: Some(0.3) };
        let rows = [(-2.0, 0.0), (0.1, 0.1), (0.7, 0.5), (0.5, 0.5)];
        for (value, expected) in rows {
            let row = Row {
                function: 1,
                calls: 1,
                windows: 1,
                per_second: estimate(1.0),
                mean: estimate(1e9),
                share: estimate(0.5),
                own: Some(estimate(value)),
                percentiles: [None; 3],
            };
            assert_eq!(own(&row), Some(estimate(expected)), "{value}");
            assert_eq!(own(&Row { own: None, ..row }), None);
        }
    }

    #[test]
    fn callers_take_no_negative_time() {
        let rows = [
            (0.057_34, Some(0.03), ["57 ns", "5.7 % ± 3.0"]),
            (0.057_34, None, ["57.3 ns", "5.73 % ± ?"]),
            (0.02, Some(0.9), ["20 ns", "2 % ± 90"]),
            (-0.01, Some(0.03), ["?", "0.0 % ± 3.0"]),
            (0.0, None, ["?", "0 % ± ?"]),
        ];
        for (share, error, [mean, part]) in rows {
            let called = Called {
                function: 1,
                caller: 2,
                calls: 9,
                per_second: Estimate { value: 1e6, error: Some(1e3) },
                share: Estimate { value: share, error },
            };
            let [_, shown_mean, shown_part, own] = cells_of(&called);
            assert_eq!([shown_mean, shown_part, own], [mean, part, ""], "{share}");
        }
    }
}
