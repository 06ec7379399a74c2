//! The calls that `mcount sample --slow` keeps, and the traces that they go to.

use super::output::{Output, write_private};
use crate::files::is_standard;
use crate::replay::short_name;
use crate::trace::attach::{Named, Progress};
use crate::words::{counted, printable, shell_path};
use mcount_trace::{Ended, Trace};
use mcount_view::sample::Slow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What is kept of slow calls.
pub struct SlowCalls {
    /// How long a call takes to be one.
    least: Duration,
    /// As the user wrote it.
    text: String,
    /// Where samples go, which traces are beside.
    output: Option<Output>,
    say: fn(&str),
    calls: Option<Slow>,
    /// Functions that are watched, and since when, in ticks.
    watched: BTreeMap<u32, u64>,
    /// Those that are called too often for that.
    busy: BTreeSet<u32>,
    /// Those that aren't sampled at all.
    left_out: BTreeSet<u32>,
    /// What the next trace is.
    trace: Option<Vec<u8>>,
    notes: Vec<String>,
}

impl SlowCalls {
    /// Keeps calls of this time, written as `text`, or more. Traces are beside the sample in `output`, or in the current folder.
    #[must_use]
    pub fn new((least, text): (Duration, String), output: Option<&Output>, say: fn(&str)) -> Self {
        let output = output.filter(|output| output.is_rotated || is_file(&output.path));
        let beside = |output: &Output| Output {
            path: output.path.with_extension("slow.mcount"),
            is_rotated: output.is_rotated,
            keep: output.keep,
            is_private: true,
            say: output.say,
        };
        let (output, watched) = (output.map(beside), BTreeMap::new());
        let (busy, left_out, calls, trace, notes) = Default::default();
        Self { least, text, output, say, calls, watched, busy, left_out, trace, notes }
    }

    /// There are so many ticks in a second.
    pub(super) fn set_rate(&mut self, rate: u64) {
        let ticks = self.least.as_nanos() * u128::from(rate) / 1_000_000_000;
        let least = u64::try_from(ticks).unwrap_or(u64::MAX).max(1);
        self.calls.get_or_insert_with(|| Slow::new(least));
    }

    /// Every call of these functions that begins from then on comes; or, as they're called too often, not every one.
    pub(super) fn watch(&mut self, functions: &BTreeSet<u32>, since: Option<u64>) {
        if let Some(since) = since {
            self.busy.retain(|function| !functions.contains(function));
            self.watched.extend(functions.iter().map(|function| (*function, since)));
            if let Some(calls) = &mut self.calls {
                calls.begin(since);
            }
        } else {
            self.watched.retain(|function, _| !functions.contains(function));
            self.busy.extend(functions);
        }
    }

    /// These functions aren't sampled any more.
    pub(super) fn leave_out(&mut self, functions: &[u32]) {
        self.left_out.extend(functions);
        self.busy.retain(|function| !functions.contains(function));
    }

    /// A call has ended. What called others before these were watched would lack them.
    pub(super) fn add(&mut self, call: &Ended) {
        let is_known = self.watched.get(&call.function).is_some_and(|since| call.start >= *since);
        // Of what another thread has recorded, nobody knows how long it took.
        if let Some(calls) = self.calls.as_mut().filter(|_| is_known && call.tid != 0) {
            calls.add(call);
        }
    }

    /// Makes the trace of what was kept.
    pub(super) fn describe(
        &mut self,
        functions: &BTreeMap<u32, Named>,
        trace: &Trace<'_>,
        progress: &Progress,
    ) {
        self.notes = self.missing(functions, progress.missed);
        let Some(calls) = self.calls.as_mut() else { return };
        let began = progress.began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let realtime = u64::try_from(began.as_nanos()).unwrap_or(0);
        let (start, _) = progress.ticks;
        self.trace =
            (calls.count() != 0).then(|| calls.take(trace, (start, realtime), &self.notes));
    }

    /// Writes the trace; what there is to say of it.
    pub(super) fn write(&mut self, progress: &Progress) -> io::Result<()> {
        let count = self.calls.as_ref().map_or(0, Slow::count);
        if let Some(calls) = &mut self.calls {
            calls.reset();
        }
        let what = format!("{} of {} or more", counted(count, "call", "calls"), self.text);
        let trace = match self.trace.take() {
            Some(trace) => trace,
            None if count == 0 => {
                self.tell(&format!("no call of {} or more", self.text));
                return Ok(());
            }
            None => return Err(io::Error::other(format!("{what} can't be described"))),
        };
        let path = if let Some(output) = &self.output {
            output.put(progress.began, &trace)?
        } else {
            let path = free_path(&progress.program);
            write_private(&path, &trace).map_err(|error| crate::commit::about(&path, error))?;
            path
        };
        let name = printable(&path.display().to_string()).into_owned();
        self.tell(&format!("{what} in {name}; see them: mcount replay {}", shell_path(&path)));
        Ok(())
    }

    /// Says this, and what the trace lacks.
    fn tell(&self, text: &str) {
        (self.say)(text);
        self.notes.iter().for_each(|note| (self.say)(note));
    }

    /// What the trace lacks.
    fn missing(&self, functions: &BTreeMap<u32, Named>, missed: u64) -> Vec<String> {
        const NAMES: usize = 3;
        const WHY_CUT: &str = "too much, in the trace before, or not watched yet";
        let mut notes = Vec::new();
        let busy: Vec<&Named> =
            functions.values().filter(|named| self.busy.contains(&named.number)).collect();
        if !busy.is_empty() {
            let names =
                busy.iter().map(|named| printable(&short_name(&named.function)).into_owned());
            let mut names: Vec<String> = names.take(NAMES).collect();
            if busy.len() > NAMES {
                names.push("…".to_owned());
            }
            let count = counted(busy.len(), "function", "functions");
            let names = names.join(", ");
            notes.push(format!("{count} called too often to be watched at this cost: {names}"));
        }
        let is_known = |one: &u32| {
            let is_out = self.left_out.contains(one) || self.busy.contains(one);
            is_out || self.watched.contains_key(one)
        };
        let unknown = functions.keys().filter(|one| !is_known(one)).count();
        if unknown != 0 {
            let count = counted(unknown, "function", "functions");
            notes.push(format!(
                "{count} not watched so far: it takes more time, or --filter, to learn how often"
            ));
        }
        let Some(calls) = &self.calls else { return notes };
        if calls.cut() != 0 {
            let calls = counted(calls.cut(), "call", "calls");
            notes.push(format!("of what {calls} called, some may be missing: {WHY_CUT}"));
        }
        for (count, what) in [
            (calls.lost(), "not kept: there were too many"),
            (missed, "written over before it was read, so slow ones may be missing"),
        ] {
            if count != 0 {
                notes.push(format!("{} {what}", counted(count, "call", "calls")));
            }
        }
        notes
    }
}

/// Can a name beside this one be a file's?
fn is_file(path: &Path) -> bool {
    !is_standard(path) && path.metadata().map_or(true, |there| there.is_file())
}

/// `PROGRAM.slow.mcount` in the current folder, with a number if that's there.
fn free_path(program: &str) -> PathBuf {
    let name = Path::new(program).file_name().unwrap_or_default().display();
    let paths = (1_u64..).map(|number| match number {
        1 => PathBuf::from(format!("{name}.slow.mcount")),
        _ => PathBuf::from(format!("{name}.slow-{number}.mcount")),
    });
    let mut free = paths.filter(|path| path.symlink_metadata().is_err());
    free.next().unwrap_or_default()
}
