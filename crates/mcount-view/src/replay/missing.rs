//! What a trace lacks, as commands warn of it.

use super::waits::is_of_system;
use crate::words::counted;
use mcount_trace::Trace;

/// The parts that are missing from a trace.
#[must_use]
pub fn missing(trace: &Trace<'_>) -> Vec<String> {
    let notes = trace.notes.iter().map(|note| String::from_utf8_lossy(note).into_owned());
    let mut found: Vec<String> = notes.collect();
    drop_ended_pauses(&mut found);
    let damage = trace.damage;
    let dropped = if trace.header.is_ring {
        ["older call was dropped for newer ones", "older calls were dropped for newer ones"]
    } else {
        ["call could not be recorded", "calls could not be recorded"]
    };
    let counts = [
        (trace.header.dropped, dropped),
        (
            trace.header.early,
            [
                "call or more went on after it was recorded as left: the program copies stacks",
                "calls or more went on after they were recorded as left: the program copies stacks",
            ],
        ),
        (
            damage.missing_chunks,
            [
                "piece of the file is missing: it was cut off",
                "pieces of the file are missing: it was cut off",
            ],
        ),
        (damage.unknown_chunks, ["piece is of an unknown kind", "pieces are of an unknown kind"]),
        (damage.bad_metadata, ["name or event is damaged", "names or events are damaged"]),
        (
            damage.open_without_start,
            ["call that had not ended has no start", "calls that had not ended have no start"],
        ),
        (trace.bad_frames(), ["piece of the file is damaged", "pieces of the file are damaged"]),
        (
            damage.left_out,
            [
                "call was left out: the file unfolds to far more than such a file should",
                "calls were left out: the file unfolds to far more than such a file should",
            ],
        ),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    found.extend(counts.map(|(count, [one, many])| counted(count, one, many)));
    if !trace.header.is_finished && trace.functions.iter().any(|one| is_told(one.name)) {
        let what = "mcount didn't end as usual: time off the CPU and system calls are missing from then on";
        found.push(what.to_owned());
    }
    if !trace.has_times() {
        let what = "it has no clock, or one of unknown speed: times only give an order";
        found.push(what.to_owned());
    }
    found
}

/// Does mcount record the calls of this function, and not the program?
fn is_told(name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(is_of_system)
}

/// A pause that has ended has two notes.
fn drop_ended_pauses(notes: &mut Vec<String>) {
    const PAUSE: &str = " paused the recording from ";
    let began = |note: &String| Some(format!("{} to ", note.strip_suffix(" on")?));
    let is_ended = |note: &String| {
        let began = began(note).filter(|began| began.contains(PAUSE));
        began.is_some_and(|began| notes.iter().any(|other| other.starts_with(&began)))
    };
    let ended: Vec<String> = notes.iter().filter(|note| is_ended(note)).cloned().collect();
    notes.retain(|note| !ended.contains(note));
}
