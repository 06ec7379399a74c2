//! A trace for Perfetto (<https://ui.perfetto.dev>): the protocol buffers of its `Trace` message, written by hand because
//! they are few. The numbers of fields are those of `protos/perfetto/trace` in Perfetto's sources.
//!
//! Each thread is a sequence of packets with a table of names of its own, so that an event names its function by
//! a number.

use super::lanes::{Lane, Step, walk};
use super::protobuf::{bytes, fixed64, number, varint};
use super::values::{self, Recorded};
use super::{Names, end_name, program_name};
use mcount_trace::{Call, End};
use std::collections::HashSet;
use std::io::{self, Write};

/// Fields of messages.
mod field {
    /// Of `Trace`.
    pub(super) const PACKET: u32 = 1;

    /// Of `TracePacket`.
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED: u32 = 12;
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    pub(super) const DEFAULTS: u32 = 59;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;

    /// Of `TracePacketDefaults`.
    pub(super) const TRACK_EVENT_DEFAULTS: u32 = 11;

    /// Of `TrackDescriptor`.
    pub(super) const UUID: u32 = 1;
    pub(super) const NAME: u32 = 2;
    pub(super) const PROCESS: u32 = 3;
    pub(super) const THREAD: u32 = 4;
    pub(super) const PARENT: u32 = 5;

    /// Of `ProcessDescriptor` and `ThreadDescriptor`.
    pub(super) const PID: u32 = 1;
    pub(super) const TID: u32 = 2;
    pub(super) const THREAD_NAME: u32 = 5;
    pub(super) const PROCESS_NAME: u32 = 6;

    /// Of `TrackEvent`.
    pub(super) const CATEGORY: u32 = 3;
    pub(super) const ANNOTATION: u32 = 4;
    pub(super) const TYPE: u32 = 9;
    pub(super) const NAME_NUMBER: u32 = 10;
    pub(super) const TRACK: u32 = 11;
    pub(super) const EVENT_NAME: u32 = 23;
    pub(super) const FLOW: u32 = 47;
    pub(super) const FLOW_END: u32 = 48;

    /// Of `DebugAnnotation`.
    pub(super) const STRING: u32 = 6;
    pub(super) const KEY: u32 = 10;

    /// Of `InternedData`.
    pub(super) const CATEGORIES: u32 = 1;
    pub(super) const EVENT_NAMES: u32 = 2;

    /// Of `EventCategory` and `EventName`.
    pub(super) const NUMBER: u32 = 1;
    pub(super) const TEXT: u32 = 2;
}

/// Values of `TracePacket.sequence_flags`: names begin anew; names are needed.
const CLEARED: u64 = 1;
const NEEDS_NAMES: u64 = 2;

/// Values of `TrackEvent.type`.
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;

pub(super) fn print(
    out: &mut impl Write,
    names: &Names<'_, '_>,
    calls: impl Iterator<Item = Call>,
) -> io::Result<()> {
    let mut file = File {
        out,
        names,
        values: Recorded::of(names.trace),
        known: HashSet::default(),
        packet: Vec::new(),
        part: Vec::new(),
        event: Vec::new(),
        arrows: 0,
    };
    file.processes()?;
    file.threads()?;
    walk(names.trace.threads.len(), calls, |lane, step, call| file.event(lane, step, call))
}

struct File<'f, 't, 'a, W> {
    out: &'f mut W,
    names: &'f Names<'t, 'a>,
    values: Recorded<'t>,
    /// The parts that were written already.
    known: HashSet<Known, foldhash::fast::RandomState>,
    packet: Vec<u8>,
    part: Vec<u8>,
    event: Vec<u8>,
    /// How many arrows there are; the number of the last one.
    arrows: u64,
}

#[derive(PartialEq, Eq, Hash)]
enum Known {
    /// The name of a function, in a thread.
    Function(usize, u32),
    /// The name of a module, in a thread.
    Module(usize, u32),
    /// A lane that isn't the first of its thread.
    Lane(Lane),
}

/// The track of a lane.
fn track(lane: Lane) -> u64 {
    (lane.number as u64 + 1) << 40 | (lane.thread as u64 + 1)
}

/// The track of a process.
fn process_track(pid: u32) -> u64 {
    1 << 60 | u64::from(pid)
}

impl<W: Write> File<'_, '_, '_, W> {
    /// Describes the processes. Of several programs of one, the last gives the name.
    fn processes(&mut self) -> io::Result<()> {
        let mut seen = HashSet::new();
        for (at, process) in self.names.trace.processes.iter().enumerate().rev() {
            if !seen.insert(process.pid) {
                continue;
            }
            let name = program_name(self.names.trace, Some(at));
            let mut inner = Vec::new();
            number(&mut inner, field::PID, u64::from(process.pid));
            bytes(&mut inner, field::PROCESS_NAME, name.as_bytes());
            let mut descriptor = Vec::new();
            number(&mut descriptor, field::UUID, process_track(process.pid));
            bytes(&mut descriptor, field::PROCESS, &inner);
            self.descriptor(&descriptor)?;
        }
        Ok(())
    }

    /// Describes the threads, and begins the sequence of each.
    fn threads(&mut self) -> io::Result<()> {
        for (at, thread) in self.names.trace.threads.iter().enumerate() {
            let mut inner = Vec::new();
            number(&mut inner, field::PID, u64::from(thread.pid));
            number(&mut inner, field::TID, u64::from(thread.tid));
            if !thread.name.is_empty() {
                let name = String::from_utf8_lossy(thread.name);
                bytes(&mut inner, field::THREAD_NAME, name.as_bytes());
            }
            let first = track(Lane { thread: at, number: 0 });
            let mut descriptor = Vec::new();
            number(&mut descriptor, field::UUID, first);
            number(&mut descriptor, field::PARENT, process_track(thread.pid));
            bytes(&mut descriptor, field::THREAD, &inner);
            self.descriptor(&descriptor)?;
            let (mut event, mut defaults) = (Vec::new(), Vec::new());
            number(&mut event, field::TRACK, first);
            bytes(&mut defaults, field::TRACK_EVENT_DEFAULTS, &event);
            self.begin_packet(at, CLEARED);
            bytes(&mut self.packet, field::DEFAULTS, &defaults);
            self.end_packet()?;
        }
        Ok(())
    }

    fn descriptor(&mut self, descriptor: &[u8]) -> io::Result<()> {
        self.packet.clear();
        bytes(&mut self.packet, field::TRACK_DESCRIPTOR, descriptor);
        self.end_packet()
    }

    fn begin_packet(&mut self, thread: usize, flags: u64) {
        self.packet.clear();
        number(&mut self.packet, field::SEQUENCE, thread as u64 + 1);
        number(&mut self.packet, field::SEQUENCE_FLAGS, flags);
    }

    fn end_packet(&mut self) -> io::Result<()> {
        self.part.clear();
        varint(&mut self.part, u64::from(field::PACKET) << 3 | 2);
        varint(&mut self.part, self.packet.len() as u64);
        self.out.write_all(&self.part)?;
        self.out.write_all(&self.packet)
    }

    fn event(&mut self, lane: Lane, step: Step, call: &Call) -> io::Result<()> {
        if lane.number > 0 && self.known.insert(Known::Lane(lane)) {
            let mut descriptor = Vec::new();
            number(&mut descriptor, field::UUID, track(lane));
            number(&mut descriptor, field::PARENT, track(Lane { number: 0, ..lane }));
            bytes(&mut descriptor, field::NAME, format!("overlapping {}", lane.number).as_bytes());
            self.descriptor(&descriptor)?;
        }
        let is_instant = self.names.trace.header.has_only_entries || self.values.is_mark(call);
        let (start, end) = self.names.times(call);
        let (kind, time) = match step {
            Step::End if is_instant => return Ok(()),
            Step::Begin if is_instant => (INSTANT, start),
            Step::Begin => (BEGIN, start),
            Step::End => (END, end.unwrap_or(start)),
        };
        let mut event = std::mem::take(&mut self.event);
        event.clear();
        number(&mut event, field::TYPE, kind);
        if lane.number > 0 {
            number(&mut event, field::TRACK, track(lane));
        }
        self.begin_packet(lane.thread, NEEDS_NAMES);
        number(&mut self.packet, field::TIMESTAMP, time);
        let arguments = if step == Step::Begin { self.values.arguments(call) } else { None };
        let name = &self.names.function(call.function).text;
        if let Some(mark) = self.values.mark(call, arguments.as_deref(), name) {
            bytes(&mut event, field::EVENT_NAME, mark.as_bytes());
            let named = arguments.filter(|_| self.values.is_named_mark(call));
            let is_event = self.values.is_event(call);
            for (at, one) in named.iter().flatten().enumerate() {
                let name = if is_event { one.name.clone() } else { at.to_string() };
                annotate(&mut event, &name, &values::text(&one.value));
            }
        } else if step == Step::Begin {
            self.name(lane.thread, call.function, &mut event);
            for (at, one) in arguments.iter().flatten().enumerate() {
                let name = if one.name.is_empty() { format!("{at}") } else { one.name.clone() };
                annotate(&mut event, &name, &values::text(&one.value));
            }
            for (name, counted) in self.values.known_counts(call) {
                annotate(&mut event, &name, &counted);
            }
        } else {
            if let Some(how) = call.how.filter(|how| *how != End::Return) {
                annotate(&mut event, "end", end_name(how));
            }
            if let Some(value) = self.values.result(call) {
                annotate(&mut event, "result", &values::text(&value));
            }
        }
        bytes(&mut self.packet, field::TRACK_EVENT, &event);
        self.event = event;
        self.end_packet()?;
        match end.filter(|_| step == Step::End) {
            Some(end) => self.arrow(lane, end, call),
            None => Ok(()),
        }
    }

    /// Adds an arrow from the thread that woke this one to the end of its time off the processor.
    fn arrow(&mut self, lane: Lane, end: u64, call: &Call) -> io::Result<()> {
        let Some(waker) = self.values.waker(call) else { return Ok(()) };
        self.arrows += 1;
        let ends = [
            (waker.thread, end.saturating_sub(waker.late), "wakes", field::FLOW),
            (lane.thread, end, "woken", field::FLOW_END),
        ];
        for (thread, time, name, kind) in ends {
            let mut event = Vec::new();
            number(&mut event, field::TYPE, INSTANT);
            bytes(&mut event, field::EVENT_NAME, name.as_bytes());
            fixed64(&mut event, kind, self.arrows);
            self.begin_packet(thread, NEEDS_NAMES);
            number(&mut self.packet, field::TIMESTAMP, time);
            bytes(&mut self.packet, field::TRACK_EVENT, &event);
            self.end_packet()?;
        }
        Ok(())
    }

    /// Names function and module by their numbers, and says what those are the first time.
    fn name(&mut self, thread: usize, function: u32, event: &mut Vec<u8>) {
        number(event, field::NAME_NUMBER, u64::from(function));
        let mut interned = Vec::new();
        let module = self.names.trace.function(function).map(|function| function.module);
        if let Some(module) = module.filter(|module| *module != 0) {
            number(event, field::CATEGORY, u64::from(module));
            if self.known.insert(Known::Module(thread, module)) {
                let path = &self.names.function(function).module;
                let file = path.rsplit('/').next().unwrap_or_default();
                bytes(&mut interned, field::CATEGORIES, &entry(module, file));
            }
        }
        if self.known.insert(Known::Function(thread, function)) {
            let text = &self.names.function(function).text;
            bytes(&mut interned, field::EVENT_NAMES, &entry(function, text));
        }
        if !interned.is_empty() {
            bytes(&mut self.packet, field::INTERNED, &interned);
        }
    }
}

/// Adds a `DebugAnnotation`.
fn annotate(event: &mut Vec<u8>, key: &str, text: &str) {
    let mut annotation = Vec::new();
    bytes(&mut annotation, field::KEY, key.as_bytes());
    bytes(&mut annotation, field::STRING, text.as_bytes());
    bytes(event, field::ANNOTATION, &annotation);
}

/// An `EventName` or `EventCategory`.
fn entry(index: u32, text: &str) -> Vec<u8> {
    let mut entry = Vec::new();
    number(&mut entry, field::NUMBER, u64::from(index));
    bytes(&mut entry, field::TEXT, text.as_bytes());
    entry
}
