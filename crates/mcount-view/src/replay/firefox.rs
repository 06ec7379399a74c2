//! A profile for the Firefox Profiler (<https://profiler.firefox.com>), which also shows what samply records: JSON of its "processed
//! profile format", version 59. `docs-developer/CHANGELOG-formats.md` and `src/types/profile.ts` in its sources describe it.
//!
//! A sample is a stretch of time between two beginnings or ends of calls. Its weight is that time, so that the call tree adds up to what
//! `mcount stats` says, and its stack chart shows each call. The columns of a thread's samples follow each other, so they're kept in
//! nameless files until the thread is complete.

mod tables;

use super::digits::{Times, milliseconds, number};
use super::lanes::{Step, walk};
use super::parallel::PrintJob;
use super::values::Recorded;
use super::{Names, SourceLines, json_string, printable, program_name};
use mcount_trace::Call;
use rayon::prelude::*;
use std::io::{self, Read, Seek, SeekFrom, Write};
use tables::{Known, Tables};
use tempfile::{SpooledTempFile, spooled_tempfile};

/// The most bytes of a column that stay in memory.
const KEPT: usize = 1 << 20;

/// Bytes that are put into a column at a time.
const PART: usize = 1 << 14;

pub(super) fn print(
    out: &mut impl Write,
    work: &PrintJob<'_, '_, '_>,
    lines: Option<&SourceLines>,
) -> io::Result<()> {
    let known = Known::of(work.names, lines);
    write!(
        out,
        "{{\"meta\":{},\n\"libs\":{},\n\"threads\":[",
        meta(work.names),
        known.libraries()
    )?;
    let trace = work.names.trace;
    let has_calls = |at: &usize| work.filter.has_thread(*at) && trace.count(*at) > 0;
    let threads: Vec<usize> = (0..trace.threads.len()).filter(has_calls).collect();
    let mut separator = "\n";
    for batch in threads.chunks(2 * rayon::current_num_threads()) {
        let tracks = batch.par_iter().map(|thread| tracks(work, &known, *thread));
        for tracks in tracks.collect::<Vec<_>>() {
            for (number, track) in tracks?.into_iter().enumerate() {
                out.write_all(separator.as_bytes())?;
                track.write(out, number)?;
                separator = ",\n";
            }
        }
    }
    writeln!(out, "\n],\n\"pages\":[],\"counters\":[],\n\"shared\":{}}}", known.shared())
}

/// What is said about the whole profile.
fn meta(names: &Names<'_, '_>) -> String {
    let trace = names.trace;
    let product = json_string(&program_name(trace, Some(0)));
    let mut times = Vec::new();
    // Times count from here.
    milliseconds(&mut times, trace.header.start_realtime.saturating_sub(names.start));
    times.extend_from_slice(b",\"profilingStartTime\":");
    milliseconds(&mut times, names.start);
    times.extend_from_slice(b",\"profilingEndTime\":");
    milliseconds(&mut times, names.start.saturating_add(trace.nanoseconds(trace.latest())));
    let times = String::from_utf8_lossy(&times);
    let notes = trace.notes.iter().map(|note| {
        let note = json_string(&String::from_utf8_lossy(note));
        format!("{{\"label\":\"Note\",\"format\":\"string\",\"value\":{note}}}")
    });
    let notes: Vec<String> = notes.collect();
    format!(
        "{{\"preprocessedProfileVersion\":59,\"version\":30,\"product\":{product},\"importedFrom\":\"mcount\",\
         \"startTime\":{times},\"interval\":0.001,\"processType\":0,\"stackwalk\":1,\"debug\":false,\
         \"symbolicated\":true,\"usesOnlyOneStackType\":true,\"sourceCodeIsNotOnSearchfox\":true,\
         \"keepProfileThreadOrder\":true,\"extensions\":{{\"baseURL\":[],\"id\":[],\"length\":0,\"name\":[]}},\
         \"sampleUnits\":{{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"µs\"}},\
         \"categories\":{},\"markerSchema\":[{MARKER}],\"extra\":[{{\"label\":\"Trace\",\"entries\":[{}]}}]}}",
        tables::CATEGORIES,
        notes.join(",")
    )
}

/// The markers of a program.
const MARKER: &str = "{\"name\":\"mark\",\"display\":[\"marker-chart\",\"marker-table\",\"timeline-overview\"],\
                      \"tooltipLabel\":\"{marker.data.text}\",\"tableLabel\":\"{marker.data.text}\",\
                      \"chartLabel\":\"{marker.data.text}\",\
                      \"fields\":[{\"key\":\"text\",\"label\":\"Text\",\"format\":\"string\"}]}";

/// The samples of a thread: in several tracks if calls overlap, which those of fibres do.
fn tracks<'w>(
    work: &'w PrintJob<'w, 'w, 'w>,
    known: &'w Known<'w>,
    thread: usize,
) -> io::Result<Vec<Track<'w>>> {
    let (names, trace) = (work.names, work.names.trace);
    let values = Recorded::of(trace);
    let mut tracks = Tracks { names, known, thread, values, all: Vec::new() };
    let calls = work.progress.over(work.filter.calls_of_thread(thread));
    if trace.header.has_only_entries {
        for call in calls {
            let (start, _) = names.times(&call);
            tracks.get(0).map_or(Ok(()), |track| track.count(start, call.function))?;
        }
    } else {
        // Other threads don't matter here.
        let calls = calls.map(|call| of_thread(0, &call));
        walk(1, calls, |lane, step, call| {
            tracks.tell(lane.number, step, &of_thread(thread, call))
        })?;
    }
    let latest = names.start.saturating_add(trace.nanoseconds(trace.latest()));
    tracks.all.iter_mut().try_for_each(|track| track.finish(latest))?;
    Ok(tracks.all)
}

/// `call`, as if that thread had made it.
fn of_thread(thread: usize, call: &Call) -> Call {
    let mut call = *call;
    call.thread = thread;
    call
}

/// The tracks of a thread.
struct Tracks<'w> {
    names: &'w Names<'w, 'w>,
    known: &'w Known<'w>,
    thread: usize,
    values: Recorded<'w>,
    all: Vec<Track<'w>>,
}

impl<'w> Tracks<'w> {
    /// A track, and those before it, are made when first asked for.
    fn get(&mut self, number: usize) -> Option<&mut Track<'w>> {
        while self.all.len() <= number {
            self.all.push(Track::new(self.names, self.known, self.thread));
        }
        self.all.get_mut(number)
    }

    fn tell(&mut self, number: usize, step: Step, call: &Call) -> io::Result<()> {
        let (start, end) = self.names.times(call);
        if self.values.is_mark(call) {
            if step == Step::End {
                return Ok(());
            }
            let arguments = self.values.arguments(call);
            let name = &self.names.function(call.function).text;
            let text = self.values.whole_mark(call, arguments.as_deref(), name);
            let text = text.unwrap_or_default();
            return self.get(number).map_or(Ok(()), |track| track.mark(start, &text));
        }
        let Some(track) = self.get(number) else { return Ok(()) };
        match step {
            Step::Begin => track.begin(start, call.function),
            Step::End => track.end(end.unwrap_or(start)),
        }
    }
}

/// A column of JSON values, with commas before all but the first.
struct Column {
    part: Vec<u8>,
    file: SpooledTempFile,
}

impl Column {
    fn new() -> Self {
        Self { part: Vec::new(), file: spooled_tempfile(KEPT) }
    }

    /// Where the next value goes, after what parts it from the one before.
    #[inline]
    fn next(&mut self, is_first: bool) -> io::Result<&mut Vec<u8>> {
        if self.part.len() >= PART {
            self.file.write_all(&self.part)?;
            self.part.clear();
        }
        if !is_first {
            self.part.push(b',');
        }
        Ok(&mut self.part)
    }

    /// Writes all of it as an array.
    fn write(mut self, out: &mut impl Write, name: &str) -> io::Result<()> {
        write!(out, ",\"{name}\":[")?;
        self.file.seek(SeekFrom::Start(0))?;
        let mut part = vec![0; PART];
        loop {
            let count = self.file.read(&mut part)?;
            if count == 0 {
                break;
            }
            out.write_all(part.get(..count).unwrap_or_default())?;
        }
        out.write_all(&self.part)?;
        out.write_all(b"]")
    }
}

/// A call that hasn't ended.
struct Open {
    stack: u32,
    /// A sample has it.
    is_seen: bool,
}

/// The samples of a thread, or of those calls of it that overlap others.
struct Track<'w> {
    names: &'w Names<'w, 'w>,
    thread: usize,
    tables: Tables<'w>,
    stack: Column,
    time: Column,
    weight: Column,
    samples: u64,
    texts: Column,
    moments: Column,
    marks: u64,
    times: Times,
    open: Vec<Open>,
    /// Until when there are samples.
    since: u64,
}

impl<'w> Track<'w> {
    fn new(names: &'w Names<'w, 'w>, known: &'w Known<'w>, thread: usize) -> Self {
        Self {
            names,
            thread,
            tables: Tables::new(known),
            stack: Column::new(),
            time: Column::new(),
            weight: Column::new(),
            samples: 0,
            texts: Column::new(),
            moments: Column::new(),
            marks: 0,
            times: Times::default(),
            open: Vec::new(),
            since: 0,
        }
    }

    /// Adds a sample; none for `stack` is a time without calls.
    fn sample(&mut self, stack: Option<u32>, time: u64, weight: u64) -> io::Result<()> {
        let is_first = self.samples == 0;
        self.samples += 1;
        let out = self.stack.next(is_first)?;
        match stack {
            Some(stack) => number(out, u64::from(stack)),
            None => out.extend_from_slice(b"null"),
        }
        self.times.milliseconds(self.time.next(is_first)?, time);
        milliseconds(self.weight.next(is_first)?, weight);
        Ok(())
    }

    /// What was open until now was so since the last change.
    fn advance(&mut self, now: u64) -> io::Result<()> {
        let (since, length) = (self.since, now.saturating_sub(self.since));
        if length == 0 {
            return Ok(());
        }
        self.since = now;
        match self.open.last_mut() {
            Some(open) => {
                open.is_seen = true;
                let stack = open.stack;
                self.sample(Some(stack), since, length)
            }
            None if self.samples > 0 => self.sample(None, since, 0),
            None => Ok(()),
        }
    }

    fn begin(&mut self, now: u64, function: u32) -> io::Result<()> {
        self.advance(now)?;
        let stack = self.tables.stack(self.open.last().map(|open| open.stack), function);
        self.open.push(Open { stack, is_seen: false });
        Ok(())
    }

    fn end(&mut self, now: u64) -> io::Result<()> {
        self.advance(now)?;
        let Some(over) = self.open.pop() else { return Ok(()) };
        if !over.is_seen {
            self.sample(Some(over.stack), now, 0)?;
        }
        if let Some(caller) = self.open.last_mut() {
            caller.is_seen = true;
        }
        Ok(())
    }

    /// Adds a call of which only the beginning is known: it counts as one.
    fn count(&mut self, now: u64, function: u32) -> io::Result<()> {
        let stack = self.tables.stack(None, function);
        self.since = now;
        self.sample(Some(stack), now, 1_000_000)
    }

    fn mark(&mut self, now: u64, text: &str) -> io::Result<()> {
        let is_first = self.marks == 0;
        self.marks += 1;
        let text = format!("{{\"type\":\"mark\",\"text\":{}}}", json_string(text));
        self.texts.next(is_first)?.extend_from_slice(text.as_bytes());
        milliseconds(self.moments.next(is_first)?, now);
        Ok(())
    }

    /// Ends what was open when the trace ended, and begins a time without calls.
    fn finish(&mut self, latest: u64) -> io::Result<()> {
        if self.open.is_empty() {
            return if self.samples == 0 { Ok(()) } else { self.sample(None, self.since, 0) };
        }
        while !self.open.is_empty() {
            self.end(latest.max(self.since))?;
        }
        self.sample(None, self.since, 0)
    }

    /// Writes all of it; `number` tells tracks of a thread apart.
    fn write(self, out: &mut impl Write, number: usize) -> io::Result<()> {
        let trace = self.names.trace;
        let Some(thread) = trace.threads.get(self.thread) else { return Ok(()) };
        let (pid, tid) = (thread.pid, thread.tid);
        let process_name = program_name(trace, self.tables.process(pid));
        let is_main = pid == tid && number == 0;
        let name = String::from_utf8_lossy(thread.name);
        let name = if name.is_empty() { process_name.clone().into() } else { printable(&name) };
        let name =
            if number == 0 { name.into_owned() } else { format!("{name} (overlapping {number})") };
        let tid = if number == 0 { tid.to_string() } else { format!("\"{tid}-{number}\"") };
        let (name, process_name) = (json_string(&name), json_string(&process_name));
        let mut times = Vec::new();
        let start = thread.start.map_or(0, |start| trace.nanoseconds(start));
        milliseconds(&mut times, self.names.start.saturating_add(start));
        times.extend_from_slice(b",\"unregisterTime\":");
        match thread.end {
            Some(end) => {
                let end = trace.nanoseconds(end);
                milliseconds(&mut times, self.names.start.saturating_add(end));
            }
            None => times.extend_from_slice(b"null"),
        }
        write!(
            out,
            "{{\"name\":{name},\"isMainThread\":{is_main},\"pid\":\"{pid}\",\"tid\":{tid},\
             \"processName\":{process_name},\"processType\":\"default\",\"processStartupTime\":0,\
             \"processShutdownTime\":null,\"pausedRanges\":[],\"registerTime\":{},{}",
            String::from_utf8_lossy(&times),
            self.tables.json()
        )?;
        let kind = if trace.header.has_only_entries { "samples" } else { "tracing-ms" };
        write!(out, ",\"samples\":{{\"length\":{},\"weightType\":\"{kind}\"", self.samples)?;
        self.stack.write(out, "stack")?;
        self.time.write(out, "time")?;
        self.weight.write(out, "weight")?;
        write!(out, "}},\"markers\":{{\"length\":{}", self.marks)?;
        self.texts.write(out, "data")?;
        self.moments.write(out, "startTime")?;
        let constants = [("category", "0"), ("endTime", "null"), ("phase", "0")];
        for (name, value) in constants {
            repeat(out, name, value, self.marks)?;
        }
        repeat(out, "name", &self.tables.mark().to_string(), self.marks)?;
        write!(out, "}}}}")
    }
}

/// Writes an array of so many equal values.
fn repeat(out: &mut impl Write, name: &str, value: &str, count: u64) -> io::Result<()> {
    write!(out, ",\"{name}\":[")?;
    for at in 0..count {
        out.write_all(if at == 0 { b"" } else { b"," })?;
        out.write_all(value.as_bytes())?;
    }
    out.write_all(b"]")
}
