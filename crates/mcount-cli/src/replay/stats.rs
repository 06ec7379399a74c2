//! How often each function of a trace was called, and how long it took.

use super::select::Filter;
use super::{Name, Names, Selection};
use mcount_trace::{Call, Trace};
use serde_json::json;
use std::collections::HashMap;
use std::io::{self, Write};

/// What rows are sorted by; see the fields of [`Row`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[expect(missing_docs, reason = "the names of columns")]
pub enum Column {
    Calls,
    Total,
    #[value(name = "self")]
    Own,
    Mean,
    Min,
    Median,
    P99,
    Max,
    Function,
}

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Aligned columns.
    Text,
    /// One JSON object a function and line.
    Jsonl,
    /// Comma-separated values; the first line names them.
    Csv,
}

/// What is known of a function. Times are nanoseconds.
#[derive(Debug, Clone, Default)]
struct Row {
    function: u32,
    calls: u64,
    /// In it and in what it called; of recursive calls, the outermost.
    total: u64,
    /// In it alone. What it called can be counted before it.
    own: i64,
    sum: u64,
    min: u64,
    max: u64,
    durations: Histogram,
}

impl Row {
    fn add(&mut self, duration: u64, is_outermost: bool) {
        self.min = if self.calls == 0 { duration } else { self.min.min(duration) };
        self.max = self.max.max(duration);
        self.calls += 1;
        self.sum = self.sum.saturating_add(duration);
        self.own = self.own.saturating_add_unsigned(duration);
        if is_outermost {
            self.total = self.total.saturating_add(duration);
        }
        self.durations.add(duration);
    }

    /// The times, in the order of columns.
    fn times(&self) -> [u64; 7] {
        let mean = self.sum.checked_div(self.calls).unwrap_or(0);
        let quantile =
            |hundredths| self.durations.quantile(self.calls, hundredths).clamp(self.min, self.max);
        let own = u64::try_from(self.own).unwrap_or(0);
        [self.total, own, mean, self.min, quantile(50), quantile(99), self.max]
    }
}

/// The names of the times, in the order of columns.
const TIMES: [&str; 7] =
    ["total_ns", "self_ns", "mean_ns", "min_ns", "median_ns", "p99_ns", "max_ns"];

/// Bits of a duration that a histogram keeps: the error is 1 in 64 at most.
const BITS: u32 = 5;

/// How many durations there are of each size, in buckets that get wider as durations get longer.
#[derive(Debug, Clone, Default)]
struct Histogram {
    first: usize,
    counts: Vec<u64>,
}

impl Histogram {
    fn add(&mut self, duration: u64) {
        let bucket = bucket(duration);
        if self.counts.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            let missing = self.first - bucket;
            self.counts.splice(0..0, std::iter::repeat_n(0, missing));
            self.first = bucket;
        }
        let at = bucket - self.first;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(at) {
            *count += 1;
        }
    }

    /// The duration that so many hundredths of `all` are not longer than.
    fn quantile(&self, all: u64, hundredths: u64) -> u64 {
        let rank = (u128::from(all) * u128::from(hundredths)).div_ceil(100).max(1);
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= rank {
                return middle(self.first + at);
            }
        }
        0
    }
}

fn bucket(duration: u64) -> usize {
    let length = u64::BITS - duration.leading_zeros();
    let shift = length.saturating_sub(BITS + 1);
    let high = usize::try_from(duration >> shift).unwrap_or(0);
    high + (shift as usize) * (1 << BITS)
}

/// The duration in the middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let shift = (bucket >> BITS).saturating_sub(1);
    let high = (bucket - shift * (1 << BITS)) as u64;
    (high << shift) + (1_u64 << shift) / 2
}

/// Prints a row for each function of which `selection` has calls.
///
/// # Errors
///
/// Those of `out`.
pub fn print(
    out: &mut dyn Write,
    trace: &Trace<'_>,
    selection: &Selection,
    (sort, format): (Column, Format),
) -> io::Result<()> {
    let names = Names::new(trace);
    let rows = Collector::new(&names, &selection.filter(trace)).rows;
    let mut rows: Vec<Printed<'_>> = rows
        .into_iter()
        .filter(|row| row.calls > 0)
        .map(|row| Printed {
            calls: row.calls,
            times: row.times(),
            name: names.function(row.function),
        })
        .collect();
    rows.sort_by(|a, b| {
        let by_name = (&a.name.text, &a.name.module).cmp(&(&b.name.text, &b.name.module));
        b.value(sort).cmp(&a.value(sort)).then(by_name)
    });
    let mut out = io::BufWriter::new(out);
    match format {
        Format::Text => text(&mut out, &rows)?,
        Format::Jsonl => {
            for row in &rows {
                jsonl(&mut out, row)?;
            }
        }
        Format::Csv => csv(&mut out, &rows)?,
    }
    out.flush()
}

/// A row as it is printed.
struct Printed<'n> {
    calls: u64,
    times: [u64; 7],
    name: &'n Name,
}

impl Printed<'_> {
    /// What rows with more of it come first by.
    fn value(&self, column: Column) -> u64 {
        let [total, own, mean, min, median, p99, max] = self.times;
        match column {
            Column::Calls => self.calls,
            Column::Total => total,
            Column::Own => own,
            Column::Mean => mean,
            Column::Min => min,
            Column::Median => median,
            Column::P99 => p99,
            Column::Max => max,
            Column::Function => 0,
        }
    }
}

/// A call that encloses the next one of its thread.
struct Enclosing {
    depth: usize,
    function: u32,
    is_wanted: bool,
}

/// Goes through all calls of the threads that are wanted: what a function called is not its own time,
/// whether that is wanted or not.
struct Collector {
    rows: Vec<Row>,
    places: HashMap<u32, usize>,
    /// How many calls of a function are open in a thread.
    open: HashMap<(usize, u32), u32>,
}

impl Collector {
    fn new(names: &Names<'_, '_>, filter: &Filter<'_>) -> Self {
        let mut all = Self { rows: Vec::new(), places: HashMap::new(), open: HashMap::new() };
        let mut stacks: Vec<Vec<Enclosing>> = Vec::new();
        stacks.resize_with(names.trace.threads.len(), Vec::new);
        let mut latest = names.trace.header.end.map_or(0, |end| names.trace.nanoseconds(end));
        let mut unfinished = Vec::new();
        for call in filter.of_threads() {
            if filter.is_too_late(&call) {
                break;
            }
            let Some(stack) = stacks.get_mut(call.thread) else { continue };
            all.leave(call.thread, stack, call.depth);
            let (start, end) = names.times(&call);
            latest = latest.max(end.unwrap_or(start));
            let wanted = filter.is_wanted(&call);
            let caller = stack.last().filter(|caller| caller.is_wanted).map(|c| c.function);
            let is_outermost = all.enter(&call, stack, wanted);
            match end {
                Some(end) => {
                    let duration = end.saturating_sub(start);
                    all.add(&call, duration, wanted.then_some(is_outermost), caller);
                }
                None => unfinished.push((call, start, wanted.then_some(is_outermost), caller)),
            }
        }
        for (call, start, outermost, caller) in unfinished {
            all.add(&call, latest.saturating_sub(start), outermost, caller);
        }
        all
    }

    /// Takes out the calls that don't enclose one at this depth.
    fn leave(&mut self, thread: usize, stack: &mut Vec<Enclosing>, depth: usize) {
        while let Some(last) = stack.pop_if(|last| last.depth >= depth) {
            if let Some(open) = self.open.get_mut(&(thread, last.function)) {
                *open = open.saturating_sub(1);
            }
        }
    }

    /// Puts a call on the stack; whether no other call of its function is there.
    fn enter(&mut self, call: &Call, stack: &mut Vec<Enclosing>, is_wanted: bool) -> bool {
        stack.push(Enclosing { depth: call.depth, function: call.function, is_wanted });
        let open = self.open.entry((call.thread, call.function)).or_default();
        *open += 1;
        *open == 1
    }

    fn row(&mut self, function: u32) -> Option<&mut Row> {
        let next = self.rows.len();
        let at = *self.places.entry(function).or_insert(next);
        if at == next {
            self.rows.push(Row { function, ..Row::default() });
        }
        self.rows.get_mut(at)
    }

    /// Counts a call, if it is wanted; its time is not its caller's own.
    fn add(&mut self, call: &Call, duration: u64, outermost: Option<bool>, caller: Option<u32>) {
        if let Some(is_outermost) = outermost
            && let Some(row) = self.row(call.function)
        {
            row.add(duration, is_outermost);
        }
        if let Some(caller) = caller.and_then(|caller| self.row(caller)) {
            caller.own = caller.own.saturating_sub_unsigned(duration);
        }
    }
}

fn text(out: &mut impl Write, rows: &[Printed<'_>]) -> io::Result<()> {
    writeln!(
        out,
        "{:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} FUNCTION",
        "CALLS", "TOTAL", "SELF", "MEAN", "MIN", "MEDIAN", "P99", "MAX"
    )?;
    for row in rows {
        write!(out, "{:>10} ", row.calls)?;
        for time in row.times {
            write!(out, "{} ", super::time::Duration(time))?;
        }
        writeln!(out, "{}", row.name.text)?;
    }
    Ok(())
}

fn jsonl(out: &mut impl Write, row: &Printed<'_>) -> io::Result<()> {
    let Name { json, module_json, address, .. } = row.name;
    write!(out, "{{\"function\":{json},\"module\":{module_json},\"address\":{}", json!(address))?;
    write!(out, ",\"calls\":{}", row.calls)?;
    for (name, time) in TIMES.into_iter().zip(row.times) {
        write!(out, ",\"{name}\":{time}")?;
    }
    writeln!(out, "}}")
}

fn csv(out: &mut impl Write, rows: &[Printed<'_>]) -> io::Result<()> {
    let mut out = csv::Writer::from_writer(out);
    let headings = ["function", "module", "address", "calls"];
    out.write_record(headings.into_iter().chain(TIMES)).map_err(super::csv::io_error)?;
    for row in rows {
        let address = row.name.address.map(|address| address.to_string()).unwrap_or_default();
        let names = [row.name.text.clone(), row.name.module.clone(), address];
        let numbers = std::iter::once(row.calls).chain(row.times).map(|number| number.to_string());
        out.write_record(names.into_iter().chain(numbers)).map_err(super::csv::io_error)?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_is_near() {
        for duration in (0..2_000).chain([1 << 20, (1 << 33) + 12_345, u64::MAX / 3, u64::MAX]) {
            let middle = middle(bucket(duration));
            assert!(middle.abs_diff(duration) <= duration / 64 + 1, "{duration}: {middle}");
        }
    }

    #[test]
    fn quantiles() {
        let mut histogram = Histogram::default();
        for duration in (1..=100).rev() {
            histogram.add(duration * 1000);
        }
        for (hundredths, expected) in [(50, 50_000_u64), (99, 99_000), (100, 100_000), (1, 1_000)] {
            let found = histogram.quantile(100, hundredths);
            assert!(found.abs_diff(expected) <= expected / 64 + 1, "{hundredths}: {found}");
        }
    }
}
