//! What `mcount sample` shows: estimates as a table, or as JSON.

mod again;
mod cells;
mod json;
mod left_out;
mod output;
mod parquet;
mod slow;
mod text;

pub use self::again::{Again, sample_again};
pub use self::output::Output;
pub use self::slow::SlowCalls;

use self::left_out::LeftOut;
use crate::trace::attach::{self, Caller, IDLE_PROBE, Named, Observer, Opened, Progress, Sampled};
use crate::words::{counted, printable};
use clap::ValueEnum;
use mcount_trace::{Ended, Trace};
use mcount_view::sample::{Chance, Load, Quiet, Row, Sample, Thinned, Window};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// How it's printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned text.
    Text,
    /// One JSON object a function.
    Jsonl,
}

/// What rows are sorted by: the one with most comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Time with what they called.
    Total,
    /// Time without that.
    #[value(name = "self")]
    Own,
    /// How often they're called.
    Calls,
    /// How long a call takes.
    Mean,
    /// Name, in alphabetical order.
    Name,
}

/// Estimates what calls say, and prints it.
pub struct Table {
    sort: Sort,
    format: Format,
    /// How often it's refreshed, on a terminal.
    interval: Option<Duration>,
    output: Option<Output>,
    /// A file was written.
    has_written: bool,
    slow: Option<SlowCalls>,
    functions: BTreeMap<u32, Named>,
    /// The paths of modules.
    modules: Vec<String>,
    has_callers: bool,
    /// Functions that are armed all the time.
    always: BTreeSet<u32>,
    /// Callers are printed as well.
    shows_callers: bool,
    cost: f64,
    sample: Sample,
    /// Calls that hadn't ended, by function.
    unfinished: BTreeMap<u32, u64>,
    /// Lines that are on the terminal.
    shown: usize,
    /// The part of the program's time that probes take between windows.
    idle: f64,
    left_out: LeftOut,
}

/// Why there's no file.
const ENDED_BEFORE: &str = "ended before there was a sample: nothing is written";

/// The part of the program's time that is worth saying.
const WORTH_SAYING: f64 = 0.001;

impl Table {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(
        sort: Sort,
        format: Format,
        interval: Option<Duration>,
        output: Option<Output>,
        slow: Option<SlowCalls>,
    ) -> Self {
        Self {
            sort,
            format,
            interval,
            output,
            has_written: false,
            slow,
            functions: BTreeMap::new(),
            modules: Vec::new(),
            has_callers: false,
            always: BTreeSet::new(),
            shows_callers: false,
            cost: 0.0,
            sample: Sample::new(1, 0.0),
            unfinished: BTreeMap::new(),
            shown: 0,
            idle: 0.0,
            left_out: LeftOut::default(),
        }
    }

    /// Says in this way which functions are left out.
    #[must_use]
    pub fn with_say(mut self, say: fn(&str)) -> Self {
        self.left_out.say = Some(say);
        self
    }

    /// Prints who calls each function, too.
    #[must_use]
    pub fn with_callers(self, shows_callers: bool) -> Self {
        Self { shows_callers, ..self }
    }

    /// The rows in their order.
    fn rows(&mut self, progress: &Progress) -> Vec<(Row, Named)> {
        let (used, elapsed) = progress.outside;
        let rows = self.sample.rows(Load { used, elapsed }).into_iter();
        // The times in which these weren't armed aren't known.
        let rows = rows.filter(|row| !self.left_out.has(row.function));
        let named = |row: Row| Some((row, self.functions.get(&row.function)?.clone()));
        let mut rows: Vec<(Row, Named)> = rows.filter_map(named).collect();
        let of_probes = rows.iter().filter(|(_, named)| named.is_probe);
        let calls: f64 = of_probes.map(|(row, _)| row.per_second.value).sum();
        self.idle = calls * IDLE_PROBE / (used / elapsed).max(1e-3);
        let key = |row: &Row| match self.sort {
            Sort::Total => row.share.value,
            Sort::Own => row.own.map_or(0.0, |own| own.value),
            Sort::Calls => row.per_second.value,
            Sort::Mean => row.mean.value,
            Sort::Name => 0.0,
        };
        rows.sort_by(|(one, name), (other, other_name)| {
            let more = key(other).total_cmp(&key(one));
            more.then_with(|| name.function.cmp(&other_name.function))
        });
        rows
    }

    fn title(&self, progress: &Progress) -> String {
        let name = Path::new(&progress.program).file_name().unwrap_or_default().display();
        let percent = |part: f64| format!("{:.2} %", part * 100.0);
        let idle = if self.idle < WORTH_SAYING {
            String::new()
        } else {
            format!(", some {:.1} % by probes between windows", self.idle * 100.0)
        };
        format!(
            "{} (process {}): {} in {:.1} s; cost: {} in the program, {} of a CPU in mcount{idle}",
            printable(&name.to_string()),
            progress.process,
            counted(self.sample.windows(), "window", "windows"),
            progress.running.as_secs_f64(),
            percent(progress.recording),
            percent(progress.own),
        )
    }

    /// Writes the file.
    fn write(&mut self, progress: &Progress, is_parquet: bool) -> io::Result<()> {
        let bytes = if is_parquet {
            self.parquet(progress)?
        } else {
            let lines = self.json(progress).into_iter();
            lines.map(|line| line + "\n").collect::<String>().into_bytes()
        };
        let functions = counted(self.rows(progress).len(), "function", "functions");
        let what = format!("{}; {functions}", self.title(progress));
        let Some(output) = &self.output else { return Ok(()) };
        output.write(progress.began, &bytes, &what)?;
        self.has_written = true;
        self.warnings(progress).iter().for_each(|text| (output.say)(text));
        Ok(())
    }

    /// There has been no window in this period.
    fn write_nothing(&self, progress: &Progress) -> io::Result<()> {
        match &self.output {
            // A sample of an earlier time isn't replaced by nothing.
            Some(output) if !output.is_rotated => {
                Err(io::Error::other(format!("sampling {ENDED_BEFORE}; let it take longer")))
            }
            // One of many processes of a program, which is sampled again.
            Some(output) if !self.has_written => {
                (output.say)(&format!("sampling process {} {ENDED_BEFORE}", progress.process));
                Ok(())
            }
            // A period that has just begun.
            _ => Ok(()),
        }
    }

    /// Nothing of this period was seen yet.
    fn reset(&mut self) {
        self.sample.begin_again(self.cost);
        self.set_groups();
        if !self.has_callers {
            self.sample.without_callers();
        }
        self.unfinished.clear();
    }

    fn set_groups(&mut self) {
        self.sample.set_groups(self.functions.values().map(|named| (named.number, named.group)));
        self.sample.set_always(&self.always, true);
    }

    /// Prints the table, over the last one if that isn't the last.
    fn print(&mut self, progress: &Progress, is_last: bool) -> io::Result<()> {
        let mut lines = match self.format {
            Format::Text => self.text(progress, is_last),
            Format::Jsonl => self.json(progress),
        };
        let mut out = io::stdout().lock();
        if self.interval.is_some() {
            // Over the last table: up by its lines, and what is there is gone (ECMA-48's CUU and ED).
            if self.shown != 0 {
                write!(out, "\x1b[{}A\r\x1b[J", self.shown)?;
            }
            if !is_last {
                let size = rustix::termios::tcgetwinsize(io::stdout())?;
                lines.truncate(usize::from(size.ws_row.max(4)) - 2);
                let width = usize::from(size.ws_col.max(20));
                for line in &mut lines {
                    *line = line.chars().take(width - 1).collect();
                }
            }
            self.shown = if is_last { 0 } else { lines.len() };
        }
        let result = lines.iter().try_for_each(|line| writeln!(out, "{line}"));
        match result.and_then(|()| out.flush()) {
            // Whoever read the output has enough of it.
            Err(error) if is_last && error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }

    /// As a file of Parquet.
    fn parquet(&mut self, progress: &Progress) -> io::Result<Vec<u8>> {
        let rows = self.rows(progress);
        let unfinished = |function: u32| self.unfinished.get(&function).copied().unwrap_or(0);
        parquet::file(&rows, progress, unfinished)
    }
}

/// Modules have the numbers behind those of functions (see the trace format).
const MODULES: u32 = 1 << 24;

/// The same, as estimates know it.
fn quiet(quiet: attach::Quiet) -> Quiet {
    let attach::Quiet { start, end, witnesses } = quiet;
    Quiet { start, end, witnesses }
}

/// The same, as estimates know it.
fn thinned(window: attach::Thinned) -> Thinned {
    let attach::Thinned { seed, halvings } = window;
    let has = |seed, halvings, function| attach::Thinned { seed, halvings }.has(function);
    Thinned { seed, halvings, has }
}

/// What stands for a caller in a sample.
fn number_of(caller: Caller) -> u32 {
    match caller {
        Caller::Function(number) => number,
        Caller::Module(place) => MODULES.saturating_add(place),
    }
}

/// What this machine is called.
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

impl Observer for Table {
    fn begin(&mut self, sampled: Sampled) {
        (self.cost, self.has_callers) = (sampled.cost, sampled.has_callers);
        self.modules = sampled.modules;
        self.functions = sampled.functions.into_iter().map(|named| (named.number, named)).collect();
        self.reset();
    }

    fn regroup(&mut self, group_of: &dyn Fn(u32) -> u32) {
        for named in self.functions.values_mut() {
            named.group = group_of(named.number);
        }
        self.set_groups();
    }

    fn moved(&mut self, groups: &BTreeMap<u32, u32>) {
        for (function, group) in groups {
            if let Some(named) = self.functions.get_mut(function) {
                named.group = *group;
            }
        }
        self.sample.move_always(groups);
    }

    fn open(&mut self, window: Opened) {
        self.sample.set_rate(window.rate);
        if let Some(slow) = &mut self.slow {
            slow.set_rate(window.rate);
        }
        let chance = |lot: &attach::Lot| Chance {
            function: lot.function,
            chance: lot.chance,
            is_armed: lot.is_armed,
        };
        self.sample.open(Window {
            measured: window.measured,
            start: window.start,
            length: window.length,
            gap: window.gap,
            group: window.group,
            odds: window.odds,
            chances: window.lots.iter().map(chance).collect(),
            thinned: window.thinned.map(thinned),
            likely: window.likely,
            is_busy: window.is_busy,
            quiet: window.quiet.map(quiet),
            load: Load { used: window.used, elapsed: window.elapsed },
        });
    }

    fn call(&mut self, call: &Ended, caller: Option<Caller>) {
        self.sample.add(call, caller.map(number_of));
        if let Some(slow) = &mut self.slow {
            slow.add(call);
        }
    }

    fn cost(&self) -> f64 {
        self.sample.cost()
    }

    fn watch(&mut self, functions: &BTreeSet<u32>, since: Option<u64>) {
        self.sample.set_always(functions, since.is_some());
        if since.is_some() {
            self.always.extend(functions);
        } else {
            self.always.retain(|one| !functions.contains(one));
        }
        if let Some(slow) = &mut self.slow {
            slow.watch(functions, since);
        }
    }

    fn freed(&mut self, functions: &BTreeSet<u32>) {
        for function in functions {
            if let Some(named) = self.functions.get_mut(function) {
                named.is_probe = false;
            }
        }
    }

    fn left_out(&mut self, functions: &[u32], cost: f64) {
        self.left_out.add(functions, cost);
        self.sample.leave_out(functions);
        if let Some(slow) = &mut self.slow {
            slow.leave_out(functions);
        }
    }

    fn describe(&mut self, trace: &Trace<'_>, progress: &Progress) {
        if let Some(slow) = &mut self.slow {
            slow.describe(&self.functions, trace, progress);
        }
    }

    fn unfinished(&mut self, function: u32, start: u64) {
        if !self.left_out.has(function) && self.sample.add_open(function, start) {
            *self.unfinished.entry(function).or_default() += 1;
        }
    }

    fn interval(&self) -> Option<Duration> {
        self.interval
    }

    fn show(&mut self, progress: &Progress) -> io::Result<()> {
        self.print(progress, false)
    }

    fn complete(&mut self, progress: &Progress) -> io::Result<()> {
        let written = match self.output.as_ref().map(Output::is_parquet) {
            None => Ok(()),
            Some(_) if self.sample.windows() == 0 => self.write_nothing(progress),
            Some(is_parquet) => self.write(progress, is_parquet),
        };
        let is_printed = self.output.is_none() || self.interval.is_some();
        let printed = if is_printed { self.print(progress, true) } else { Ok(()) };
        let slow = self.slow.as_mut().map_or(Ok(()), |slow| slow.write(progress));
        self.reset();
        self.left_out.tell(&self.functions);
        written.and(printed).and(slow)
    }

    fn failed(&mut self, error: &io::Error) {
        if let Some(output) = &self.output {
            (output.say)(&format!("{error}: this period is lost, and the next one has begun"));
        }
    }
}
