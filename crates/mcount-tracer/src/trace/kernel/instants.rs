//! Events that the user chose (`--events`), on their way into the trace.

use super::chosen::{Chosen, PAGE_FAULTS, Point};
use super::chunks::{Chunks, KERNEL, chunks_of, encoded, record};
use super::fields;
use crate::trace::room::Shared;
use mcount_trace::layout::{chunk, kind};
use mcount_trace::{Function, Signature};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The first numbers of events as functions of the trace; tracepoints have their own numbers behind it. No function with a hook has such a
/// number, and no tracepoint has 0.
const FIRST: u32 = 0xfc_0000;
const OF_FAULTS: u32 = FIRST;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    /// The record of a tracepoint, which begins with its number.
    Point(Box<[u8]>),
    /// A page fault: the address that wasn't there.
    Fault(u64),
}

/// An event.
#[derive(Debug)]
pub(super) struct Instant {
    /// In ticks.
    pub(super) time: u64,
    /// Process and thread.
    pub(super) ids: (u32, u32),
    /// Where the thread was in the program, if that is known.
    pub(super) instruction: Option<u64>,
    pub(super) what: What,
}

/// The events of a program.
pub(super) struct Instants {
    chosen: Chosen,
    described: BTreeSet<u32>,
    metadata: Chunks,
    records: Chunks,
    count: u64,
}

impl Instants {
    pub(super) fn new(trace: &Arc<Shared>, ring: u64, chosen: Chosen) -> Self {
        Self {
            chosen,
            described: BTreeSet::new(),
            metadata: Chunks::new(trace, chunk::METADATA, usize::MAX, false),
            records: Chunks::new(trace, chunk::TOLD, chunks_of(ring), ring != 0),
            count: 0,
        }
    }

    /// How many there are in the trace, and how many of them were dropped for newer ones.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.count - self.records.dropped.min(self.count), self.records.dropped)
    }

    /// Why later ones aren't in the trace, if there was no room.
    pub(super) fn missing(&self) -> Option<&'static str> {
        self.records.missing("a gigabyte")
    }

    /// Writes events.
    pub(super) fn write(&mut self, all: &[Instant]) {
        for instant in all {
            let (function, point) = self.meant(&instant.what);
            if self.described.contains(&function) {
                continue;
            }
            let name = point.map_or(PAGE_FAULTS, |point| &point.name);
            let values = point.map_or_else(of_fault, |point| fields::description(&point.fields));
            let about = [
                encoded(Function {
                    number: function,
                    module: KERNEL,
                    // They have no address, but each its own.
                    address: function.into(),
                    size: 1,
                    name: name.as_bytes(),
                }),
                encoded(Signature { function, values: &values }),
            ];
            self.metadata.write(about);
            self.described.insert(function);
        }
        let records = all.iter().map(|instant| {
            let (function, point) = self.meant(&instant.what);
            let values = match (&instant.what, point) {
                (What::Point(bytes), Some(point)) => fields::values(&point.fields, bytes),
                (What::Point(_), None) => Vec::new(),
                (What::Fault(address), _) => {
                    let instruction = instant.instruction.unwrap_or(0);
                    [address.to_ne_bytes(), instruction.to_ne_bytes()].concat()
                }
            };
            record((instant.time, instant.time), instant.ids, function, &values)
        });
        let records: Vec<Vec<u8>> = records.collect();
        self.count += self.records.write(records);
    }

    /// The number of the function of such events, and the tracepoint.
    fn meant(&self, what: &What) -> (u32, Option<&Point>) {
        let What::Point(bytes) = what else { return (OF_FAULTS, None) };
        let id = bytes.first_chunk().map_or(0, |bytes| u16::from_ne_bytes(*bytes));
        (FIRST | u32::from(id), self.chosen.points.get(&id))
    }
}

/// The values of a page fault, as the metadata of a trace describes them.
fn of_fault() -> Vec<u8> {
    let mut bytes = fields::description(&[]);
    for name in ["address", "instruction"] {
        bytes.extend([fields::FIELD, u8::try_from(name.len()).unwrap_or(0)]);
        bytes.extend(name.bytes());
        bytes.push(kind::POINTER);
    }
    bytes
}
