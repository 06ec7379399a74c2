//! The parts of the page of a trace: text of the template, and the data for its script.

use super::flame::{Field, What};
use super::timeline::{Lane, STRETCHES};
use super::{Collector, timeline};
use crate::replay::{Names, program_name};
use crate::report::escape;
use crate::report::page::{Frame, counted, fill, grouped};
use crate::words::printable;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write as _;

const TEMPLATE: &str = include_str!("template.html");
const OWN_STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Sentences about what is missing; a trace can have very many notes.
const MOST_NOTES: usize = 50;

pub(super) fn page(
    title: &str,
    names: &Names<'_, '_>,
    mut collector: Collector<'_, '_>,
    missing: &[String],
) -> String {
    collector.timeline.shorten();
    let has_times = !collector.counts;
    let (fields, others) = std::mem::take(&mut collector.flame).largest();
    let flame_note = match others {
        0 => String::new(),
        some => format!(" {} with less are left out.", counted(some, "chain", "chains")),
    };
    let parts = [
        ("missing", list(missing)),
        ("weight", if has_times { "time" } else { "number of calls" }.to_owned()),
        ("flame_note", flame_note),
        ("timeline_note", timeline_note(&collector)),
    ];
    Frame {
        title,
        subject: "trace",
        heading: "Calls in",
        about: "Made".to_owned(),
        cards: cards(&collector),
        content: fill(TEMPLATE, &parts),
        style: OWN_STYLE,
        script: SCRIPT,
        data: data(names, &collector, &fields, has_times),
    }
    .page()
}

fn cards(collector: &Collector<'_, '_>) -> String {
    let trace = collector.trace;
    let called = collector.functions.rows.iter().filter(|row| row.calls > 0).count();
    let calls: u64 = collector.functions.rows.iter().map(|row| row.calls).sum();
    let number = |count: u64| grouped(usize::try_from(count).unwrap_or(usize::MAX));
    let rows = [
        ("Calls", number(calls)),
        ("Functions called", grouped(called)),
        ("Threads", grouped(collector.trace.threads.len())),
        ("Programs", grouped(trace.processes.len())),
        ("Duration", seconds(if trace.has_times() { collector.latest } else { 0 })),
        ("Calls dropped", number(trace.header.dropped)),
    ];
    let mut out = String::new();
    for (name, value) in rows {
        let _ = writeln!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    out
}

fn seconds(nanoseconds: u64) -> String {
    let (whole, part, unit) = match nanoseconds {
        0 => return "not known".to_owned(),
        1..1_000_000 => (nanoseconds / 1_000, nanoseconds % 1_000, "µs"),
        1_000_000..1_000_000_000 => (nanoseconds / 1_000_000, nanoseconds / 1_000 % 1_000, "ms"),
        _ => (nanoseconds / 1_000_000_000, nanoseconds / 1_000_000 % 1_000, "s"),
    };
    format!("{whole}.{part:03} {unit}")
}

/// The parts that the trace lacks.
fn list(missing: &[String]) -> String {
    if missing.is_empty() {
        return "<p>Nothing that the trace knows of.</p>".to_owned();
    }
    let mut out = "<ul>\n".to_owned();
    for what in missing.iter().take(MOST_NOTES) {
        let _ = writeln!(out, "<li>{}</li>", escape(&printable(what)));
    }
    if let Some(more) = missing.len().checked_sub(MOST_NOTES).filter(|more| *more > 0) {
        let _ = writeln!(out, "<li>and {more} more: <code>mcount replay</code></li>");
    }
    out.push_str("</ul>");
    out
}

/// That the page begins that many nanoseconds after the trace is reported.
const SAID: u64 = 1_000_000;

/// The calls that the timeline leaves out.
fn timeline_note(collector: &Collector<'_, '_>) -> String {
    let timeline = &collector.timeline;
    let mut out = String::new();
    let begin = begin(collector);
    if begin >= SAID {
        let _ = write!(
            out,
            " The first call begins {} after the start of the trace, and the page begins there; times are those of the trace.",
            seconds(begin)
        );
    }
    if let Some(limit) = timeline.limit {
        let _ = write!(
            out,
            " The page has the {} longest calls. Those of up to {limit} ns are only counted: hatched.",
            grouped(timeline::MOST)
        );
    }
    if timeline.left_out > 0 {
        let _ = write!(
            out,
            " {} calls are too deep, or of threads with few calls, and aren't shown.",
            timeline.left_out
        );
    }
    if timeline.marks_left_out > 0 {
        let left_out = counted(timeline.marks_left_out, "marker isn't", "markers aren't");
        let _ = write!(out, " {left_out} shown.");
    }
    if !timeline.arrows.is_empty() {
        out += " An arrow leads from the thread that woke another one to where that goes on, if few of them are in view.";
    }
    if timeline.arrows_left_out > 0 {
        let left_out = counted(timeline.arrows_left_out, "arrow isn't", "arrows aren't");
        let _ = write!(out, " {left_out} shown.");
    }
    out
}

/// Nanoseconds from the start of the trace to what the page has first: a call or a marker.
fn begin(collector: &Collector<'_, '_>) -> u64 {
    let marks = collector.timeline.lanes.values().filter_map(|lane| Some(lane.marks.first()?.0));
    let call = collector.busy.begin();
    marks.fold(call, u64::min).min(collector.timeline.end - 1)
}

/// Where on the page names are: by the functions' place in the trace.
struct Places(Vec<Option<usize>>);

impl Places {
    fn of(&self, collector: &Collector<'_, '_>, function: u32) -> Option<usize> {
        let last = self.0.len().saturating_sub(1);
        let at = collector.trace.function_index(function).unwrap_or(last);
        self.0.get(at).copied().flatten()
    }
}

/// All that the script shows, as JSON that a script element can hold.
fn data(
    names: &Names<'_, '_>,
    collector: &Collector<'_, '_>,
    fields: &[Field],
    has_times: bool,
) -> String {
    let trace = collector.trace;
    let rows = &collector.functions.rows;
    let mut places = Places(vec![None; rows.len()]);
    let (mut table, mut modules): (Vec<Value>, Vec<String>) = (Vec::new(), Vec::new());
    let mut known: HashMap<&str, usize> = HashMap::new();
    for (at, (row, place)) in rows.iter().zip(&mut places.0).enumerate() {
        if row.calls == 0 {
            continue;
        }
        *place = Some(table.len());
        let name = names.function(trace.functions.get(at).map_or(0, |function| function.number));
        let module = *known.entry(&name.module).or_insert_with(|| {
            modules.push(name.module.clone());
            modules.len() - 1
        });
        table.push(json!([name.text, module, row.calls, row.total, row.own, row.longest]));
    }
    let lanes = collector.timeline.lanes.iter();
    let lanes: Vec<Value> =
        lanes.map(|(thread, lane)| lane_data(collector, &places, *thread, lane)).collect();
    let timeline = &collector.timeline;
    let end = |(thread, time): (usize, u64)| json!([timeline.place(thread), time]);
    let arrows = timeline.arrows.iter().map(|arrow| json!([end(arrow.from), end(arrow.to)]));
    let arrows: Vec<Value> = arrows.collect();
    let data = json!({
        "hasTimes": has_times,
        "begin": begin(collector),
        "end": collector.timeline.end,
        "pauses": collector.busy.pauses(collector.timeline.end),
        "stretches": STRETCHES,
        "modules": modules,
        "functions": table,
        "flame": flame_data(names, collector, &places, fields),
        "threads": lanes,
        "arrows": arrows,
    });
    // Neither an end of the element nor a comment can begin.
    data.to_string().replace('<', "\\u003c")
}

/// Fields with their parent, the function or the name of a process, calls, and weight.
fn flame_data(
    names: &Names<'_, '_>,
    collector: &Collector<'_, '_>,
    places: &Places,
    fields: &[Field],
) -> Vec<Value> {
    let field = |field: &Field| {
        let what = match field.what {
            What::Process(process) => json!(program_name(names.trace, process)),
            What::Function(number) => json!(places.of(collector, number)),
        };
        json!([field.parent, what, field.calls, field.weight])
    };
    fields.iter().map(field).collect()
}

/// The name of the last program that a process ran.
fn program_of(collector: &Collector<'_, '_>, pid: u32) -> String {
    let of = collector.trace.processes.iter().rposition(|process| process.pid == pid);
    of.map(|at| program_name(collector.trace, Some(at))).unwrap_or_default()
}

/// A thread: each bar is the time since the start of the one before, its duration, depth and function.
fn lane_data(collector: &Collector<'_, '_>, places: &Places, thread: usize, lane: &Lane) -> Value {
    let known = collector.trace.threads.get(thread);
    let name = known.map(|known| String::from_utf8_lossy(known.name)).unwrap_or_default();
    let name = match known {
        // Older traces have no names of main threads.
        Some(main) if name.is_empty() && main.pid == main.tid => {
            program_of(collector, main.pid).into()
        }
        _ => name,
    };
    let mut before = 0;
    let mut bars: Vec<Value> = Vec::with_capacity(lane.bars.len() * 4);
    for bar in &lane.bars {
        let function = places.of(collector, bar.function);
        bars.extend([json!(bar.start.saturating_sub(before)), json!(bar.duration)]);
        bars.extend([json!(bar.depth), json!(function)]);
        before = bar.start;
    }
    let mut counts: Vec<Value> = Vec::with_capacity(lane.counts.len() * 5);
    for ((stretch, depth), count) in &lane.counts {
        let function = places.of(collector, count.function);
        counts.extend([json!(stretch), json!(depth), json!(count.calls), json!(count.time)]);
        counts.push(json!(function));
    }
    json!({
        "name": printable(&name),
        "pid": known.map(|known| known.pid),
        "tid": known.map(|known| known.tid),
        "calls": collector.trace.count(thread),
        "bars": bars,
        "counts": counts,
        "marks": lane.marks,
    })
}
