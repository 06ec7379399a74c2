//! A picture as lines of text.

use super::order::{Sort, mean, sorted};
use crate::replay::short_name;
use crate::trace::attach::{Holder, Picture, Row};
use crate::words::{counted, printable};
use std::path::Path;

/// The columns, with what they're sorted by.
const COLUMNS: [(&str, usize, Sort); 6] = [
    ("CALLS/S", 9, Sort::Calls),
    ("TOTAL", 7, Sort::Total),
    ("SELF", 7, Sort::Own),
    ("MEAN", 9, Sort::Mean),
    ("MAX", 9, Sort::Max),
    ("FUNCTION", 0, Sort::Name),
];

/// The first line: what is looked at.
pub(super) fn title(picture: &Picture) -> String {
    let armed = picture.rows.iter().filter(|row| row.is_armed).count();
    let name = Path::new(&picture.program).file_name().unwrap_or_default().display();
    let given_up = match picture.rows.len() - armed {
        0 => String::new(),
        count => format!(", {count} given up"),
    };
    let missed = match picture.missed {
        0 => String::new(),
        missed => format!(", {} missed", counted(missed, "call", "calls")),
    };
    let calls: u64 = picture.rows.iter().map(|row| row.calls).sum();
    format!(
        "{} (process {}): {}/s of {}{given_up}{missed}",
        printable(&name.to_string()),
        picture.process,
        count(per_second(calls, picture)),
        counted(armed, "function", "functions"),
    )
}

/// What has a lock for which threads wait, if that's known.
pub(super) fn holder(picture: &Picture) -> Option<String> {
    let Holder { lock, function, caller } = picture.holder.as_ref()?;
    let caller = caller.as_ref().map(|caller| format!(", called by {}", said(caller)));
    let caller = caller.unwrap_or_default();
    Some(format!("while threads wait in {}, another is in {}{caller}", said(lock), said(function)))
}

/// A name as people say it.
fn said(name: &str) -> String {
    printable(&short_name(name)).into_owned()
}

/// The names of the columns; that which rows are sorted by has a mark.
pub(super) fn heading(sort: Sort) -> String {
    let cells = COLUMNS.iter().map(|(name, width, by)| {
        let name = if *by == sort { format!("*{name}") } else { (*name).to_owned() };
        format!("{name:>width$}")
    });
    cells.collect::<Vec<_>>().join(" ")
}

/// The rows that are shown.
pub(super) fn rows(picture: &Picture, sort: Sort, filter: &str) -> Vec<String> {
    let shown = sorted(&picture.rows, sort, filter);
    shown.into_iter().map(|row| line(picture, row)).collect()
}

fn line(picture: &Picture, row: &Row) -> String {
    let elapsed = u64::try_from(picture.elapsed.as_nanos()).unwrap_or(u64::MAX).max(1);
    let module = Path::new(&*row.module).file_name().unwrap_or_default().display().to_string();
    let is_program = *row.module == *picture.program;
    let module = if is_program { String::new() } else { format!(" @{}", printable(&module)) };
    let caller = row.caller.as_ref().map(|caller| format!(", called by {}", said(caller)));
    let given_up = if row.is_armed { "" } else { " (given up: called too often)" };
    let cells = [
        format!("{:>9}", count(per_second(row.calls, picture))),
        format!("{:>7}", part(row.total, elapsed)),
        format!("{:>7}", part(row.own, elapsed)),
        format!("{:>9}", time(mean(row))),
        format!("{:>9}", time(row.longest)),
        format!("{}{module}{}{given_up}", said(&row.function), caller.unwrap_or_default()),
    ];
    cells.join(" ")
}

/// How many that is in a second.
pub(super) fn per_second(calls: u64, picture: &Picture) -> u64 {
    let micros = picture.elapsed.as_micros().max(1);
    u64::try_from(u128::from(calls) * 1_000_000 / micros).unwrap_or(u64::MAX)
}

/// `12.3%`
fn part(time: u64, elapsed: u64) -> String {
    let thousandths = u128::from(time) * 1000 / u128::from(elapsed);
    format!("{}.{}%", thousandths / 10, thousandths % 10)
}

/// A number in at most seven characters: `1234567`, `12.3M`.
fn count(number: u64) -> String {
    match number {
        0..10_000_000 => number.to_string(),
        _ => format!("{}.{}M", number / 1_000_000, number / 100_000 % 10),
    }
}

/// A time in at most eight characters.
fn time(nanoseconds: u64) -> String {
    for (unit, size) in [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000)] {
        if nanoseconds >= size {
            return format!("{}.{:02}{unit}", nanoseconds / size, nanoseconds % size * 100 / size);
        }
    }
    format!("{nanoseconds}ns")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn a_picture_in_words() {
        let row = |function: &str, module: &str, is_armed: bool| Row {
            function: Arc::from(function),
            module: Arc::from(module),
            calls: 1000,
            total_calls: 5000,
            total: 50_000_000,
            own: 1_500_000,
            longest: 2_340_000,
            is_armed,
            caller: (function == "work").then(|| Arc::from("shop::serve(int)")),
        };
        let picture = Picture {
            program: "/bin/pro\ngram".to_owned(),
            process: 7,
            running: Duration::from_secs(3),
            elapsed: Duration::from_millis(500),
            missed: 1,
            rows: vec![row("work", "/bin/pro\ngram", true), row("a\x1bb", "/lib/libz.so", false)],
            holder: Some(Holder {
                lock: Arc::from("pthread_mutex_lock"),
                function: Arc::from("shop::write(std::string)"),
                caller: Some(Arc::from("shop::note()")),
            }),
        };
        let expected = "pro\\ngram (process 7): 4000/s of 1 function, 1 given up, 1 call missed";
        assert_eq!(title(&picture), expected);
        let lines = rows(&picture, Sort::Name, "");
        let expected = "     2000   10.0%    0.3%   50.00us    2.34ms";
        assert_eq!(
            lines[0],
            format!("{expected} a\\u{{1b}}b @libz.so (given up: called too often)")
        );
        assert_eq!(lines[1], format!("{expected} work, called by shop::serve"));
        let expected = "while threads wait in pthread_mutex_lock, another is in shop::write, called by shop::note";
        assert_eq!(holder(&picture).unwrap(), expected);
        assert_eq!(heading(Sort::Own), "  CALLS/S   TOTAL   *SELF      MEAN       MAX FUNCTION");
        assert_eq!(count(u64::MAX).len(), 17);
        assert_eq!([time(7), time(1999), time(60_000_000_000)], ["7ns", "1.99us", "60.00s"]);
    }
}
