//! Arguments and results of calls, where they were recorded.
//!
//! Arguments are recorded when a call begins, and the call is when it ends. They belong together by function and start. Both
//! calls and arguments of a thread are read in the order of starts, so a place for each thread, which moves on, is all that
//! it takes to find them. A result is right before its call.

mod shape;

use self::shape::{Payload, Shape, Source};
use crate::bytes::Bytes;
use crate::calls::Call;
use crate::file::File;
use crate::index::{Piece, ThreadIndex};
use crate::layout::{call, kind, special, told, value};
use crate::record::{End, Record, record};
use crate::told::values_in;
use std::collections::{HashMap, VecDeque};

/// An argument or a result.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// It was not recorded: its type isn't understood, or there was no room.
    Missing,
    /// A signed integer.
    Signed(i128),
    /// An unsigned integer.
    Unsigned(u128),
    /// A truth value.
    Boolean(bool),
    /// A character, by its number.
    Character(u32),
    /// A floating-point number. Those of 80 bits are rounded.
    Float(f64),
    /// A floating-point number of 4 bytes.
    Single(f32),
    /// An address.
    Pointer(u64),
    /// A text.
    Text {
        /// Where it was; 0: nowhere.
        address: u64,
        /// As much of it as was recorded.
        bytes: Vec<u8>,
        /// It has more.
        is_cut: bool,
        /// The memory there, or behind these bytes, could not be read.
        is_bad: bool,
    },
    /// One of an enumeration: its name, if it has one, and its number.
    Enumerator(Option<String>, u64),
    /// The fields of a structure. If it has more than were recorded, the last one's name is [`MORE`], and its value is missing.
    Structure(Vec<Field>),
    /// A pointer, and what it leads to.
    Leads {
        /// Where; 0: nowhere.
        address: u64,
        /// The memory there could not be read.
        is_bad: bool,
        /// What is there. `None`: it was not recorded.
        to: Option<Box<Value>>,
    },
    /// Elements of a list or an array.
    List {
        /// Those that were recorded: the first ones.
        elements: Vec<Value>,
        /// How many there are.
        count: u64,
        /// The memory where they are, or behind the last one here, could not be read.
        is_bad: bool,
        /// They are pairs of keys and values.
        is_map: bool,
    },
    /// The text in an array of characters.
    Characters {
        /// As much of it as was recorded.
        bytes: Vec<u8>,
        /// It has more.
        is_cut: bool,
    },
    /// One of several cases, as enumerations of Rust have them, and what it has with it.
    Case(String, Option<Box<Value>>),
}

/// The name of the last field of a structure that has more of them than were recorded.
pub const MORE: &str = "...";

/// A field of a structure.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Its name; may be empty.
    pub name: String,
    /// Its value.
    pub value: Value,
}

/// The name that conditions have for what a call returns.
pub const NAME_OF_RESULT: &str = "result";

/// Which argument `arg1` is, from 0 on.
#[must_use]
pub fn place_of(name: &str) -> Option<usize> {
    name.strip_prefix("arg")?.parse::<usize>().ok()?.checked_sub(1)
}

/// An argument with its name.
pub type Named = Field;

/// How many arguments are looked at that seem to be of later calls: a signal handler's may come first.
const AHEAD: usize = 64;
/// How far a result may be from its call, in records.
const NEAR: usize = 64;

/// The role of a value in a description.
const ARGUMENT: u8 = 1;
const RESULT: u8 = 2;
const MARK: u8 = 3;
/// Those of calls into the system, whose values follow their records.
const TOLD_ARGUMENT: u8 = 4;
const TOLD_RESULT: u8 = 5;
/// A record of what the system told is an event: its name says what it is.
const TOLD_MARK: u8 = 6;
/// A counter, eight bytes, before the arguments and before the result. Counters come first in a description.
const COUNTER: u8 = 7;
/// What a counter has that couldn't be read.
const UNKNOWN: u64 = u64::MAX;

/// A trace's data about the values of its functions.
#[derive(Debug, Default)]
pub(crate) struct Signatures<'a> {
    /// By function.
    functions: HashMap<u32, &'a [u8]>,
    enumerations: HashMap<u32, &'a [u8]>,
}

impl<'a> Signatures<'a> {
    pub(crate) fn new(functions: Vec<(u32, &'a [u8])>, enumerations: Vec<(u32, &'a [u8])>) -> Self {
        Self {
            functions: functions.into_iter().collect(),
            enumerations: enumerations.into_iter().collect(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The names of counters. All functions that have some have these.
    pub(crate) fn counters(&self, big_endian: bool) -> Vec<String> {
        let functions = self.functions.values();
        let mut all = functions.map(|bytes| Shape::new(bytes, big_endian).counters());
        all.find(|names| !names.is_empty()).unwrap_or_default()
    }

    /// Does it describe a result of a function?
    pub(crate) fn has_results(&self, big_endian: bool) -> bool {
        self.functions
            .values()
            .any(|bytes| Shape::new(bytes, big_endian).skip_to_result(self).is_some())
    }

    /// Does it describe a value of this name of a function, or one that this is a field of?
    pub(crate) fn has_value(&self, name: &str, big_endian: bool) -> bool {
        let name = name.split('.').next().unwrap_or(name);
        let place = place_of(name);
        self.functions.values().any(|bytes| {
            let mut shape = Shape::new(bytes, big_endian);
            shape.counters();
            let mut nothing = Payload { bytes: &[], big_endian };
            let mut at = 0;
            while let Some((role, own)) = shape.next_value() {
                let is_it = match role {
                    RESULT | TOLD_RESULT => name == NAME_OF_RESULT,
                    _ => own == name || place == Some(at),
                };
                if is_it {
                    return true;
                }
                at += 1;
                if shape.read(Source::new(&mut nothing, self)).is_none() {
                    return false;
                }
            }
            false
        })
    }

    /// Are the calls of this function markers, and the text that they are called with what they say?
    fn is_mark(&self, function: u32) -> bool {
        let first = self.functions.get(&function).and_then(|description| description.first());
        matches!(first, Some(&(MARK | TOLD_MARK)))
    }

    /// Are they events of the system?
    fn is_event(&self, function: u32) -> bool {
        let first = self.functions.get(&function).and_then(|description| description.first());
        first == Some(&TOLD_MARK)
    }

    /// Are they, and is their name what they say?
    fn is_named_mark(&self, function: u32) -> bool {
        // A role, an empty name, and a type of which nothing is recorded.
        let description = self.functions.get(&function).copied().unwrap_or_default();
        self.is_mark(function) && description.get(1..3) == Some(&[0, kind::NONE])
    }
}

/// Arguments that were found, and whose call wasn't asked for yet.
#[derive(Debug, Clone, Copy)]
struct Recorded {
    start: u64,
    function: u32,
    /// Where the first record is.
    place: usize,
}

/// Where the arguments of a thread are being read.
#[derive(Debug, Default)]
struct Cursor {
    piece: usize,
    /// How many records of it were read.
    at: usize,
    /// In the order of the file.
    found: VecDeque<Recorded>,
}

/// Finds arguments and results of calls.
#[derive(Debug)]
pub struct Values<'t> {
    file: File<'t>,
    signatures: &'t Signatures<'t>,
    threads: &'t [ThreadIndex],
    cursors: HashMap<usize, Cursor>,
    /// The call whose arguments were asked for last, and what its counters said when it began.
    newest: Option<(Began, Vec<u64>)>,
}

/// Which call: its thread, its function, and when it began.
type Began = (usize, u32, u64);

impl<'t> Values<'t> {
    pub(crate) fn new(
        file: File<'t>,
        signatures: &'t Signatures<'t>,
        threads: &'t [ThreadIndex],
    ) -> Self {
        Self { file, signatures, threads, cursors: HashMap::new(), newest: None }
    }

    /// The arguments of a call, if they were recorded. Calls of a thread must be asked for in the order of their
    /// starts.
    pub fn arguments(&mut self, call: &Call) -> Option<Vec<Named>> {
        let description = self.signatures.functions.get(&call.function)?;
        let mut shape = Shape::new(description, self.file.is_big_endian());
        if let Some(&(TOLD_ARGUMENT | TOLD_RESULT | TOLD_MARK)) = description.first() {
            return self.told(shape, call).map(|(arguments, _)| arguments);
        }
        let thread = self.threads.get(call.thread)?;
        let cursor = self.cursors.entry(call.thread).or_default();
        let recorded = cursor.find(self.file, thread, call)?;
        let payload = payload(self.file, recorded)?;
        let mut payload = Payload { bytes: &payload, big_endian: self.file.is_big_endian() };
        let mut found = Vec::new();
        let counters = shape.counters();
        if !counters.is_empty() {
            let counted = counters.iter().map(|_| payload.counter()).collect();
            self.newest = Some(((call.thread, call.function, call.start), counted));
            if !matches!(shape.first(), Some(ARGUMENT | MARK)) {
                return None;
            }
        }
        while let Some((role, name)) = shape.next_value() {
            let value = shape.read(Source::new(&mut payload, self.signatures))?;
            if role == MARK && self.signatures.is_named_mark(call.function) {
                continue;
            }
            if role == ARGUMENT || role == MARK {
                found.push(Named { name, value });
            } else {
                break;
            }
        }
        Some(found)
    }

    /// The names of counters that calls have; most traces have none.
    #[must_use]
    pub fn counters(&self) -> Vec<String> {
        self.signatures.counters(self.file.is_big_endian())
    }

    /// What the program had counted from the beginning of a call to its end, in the order of [`Self::counters`]:
    /// `None` where it isn't known, and if nothing was counted. Calls of a thread must be asked for in the order of their
    /// starts, each after its arguments, or instead of these.
    pub fn counted(&mut self, call: &Call) -> Option<Vec<Option<u64>>> {
        let began = (call.thread, call.function, call.start);
        let is_newest = |newest: &(Began, _)| newest.0 == began;
        if !self.newest.as_ref().is_some_and(is_newest) {
            let _ = self.arguments(call);
        }
        let (_, first) = self.newest.take_if(|newest| is_newest(newest))?;
        let description = self.signatures.functions.get(&call.function)?;
        let big_endian = self.file.is_big_endian();
        let count = Shape::new(description, big_endian).counters().len();
        let bytes = self.payload_of_result(call)?;
        let mut payload = Payload { bytes: &bytes, big_endian };
        let difference = |first: &u64| {
            let last = payload.counter();
            (*first != UNKNOWN && last != UNKNOWN).then(|| last.saturating_sub(*first))
        };
        Some(first.iter().take(count).map(difference).collect())
    }

    /// Whether the calls of this function are markers: the program says by them where it is. What it says is the first argument, or the name
    /// ([`Self::is_named_mark`]).
    #[must_use]
    pub fn is_mark(&self, function: u32) -> bool {
        self.signatures.is_mark(function)
    }

    /// Whether the calls of this function are markers that say their name, and may have arguments.
    #[must_use]
    pub fn is_named_mark(&self, function: u32) -> bool {
        self.signatures.is_named_mark(function)
    }

    /// Whether the calls of this function are events of the system: markers that say their name, and have named fields.
    #[must_use]
    pub fn is_event(&self, function: u32) -> bool {
        self.signatures.is_event(function)
    }

    /// Whether the calls of this function are times off the processor that may say what ended them: their only argument is a structure
    /// `woken` with the fields `process`, `thread`, `late_ns` and `by`.
    #[must_use]
    pub fn is_wait(&self, function: u32) -> bool {
        let description = self.signatures.functions.get(&function).copied().unwrap_or_default();
        description.starts_with(&[TOLD_ARGUMENT, 5, b'w', b'o', b'k', b'e', b'n', kind::STRUCTURE])
    }

    /// The result of a call, if it was recorded.
    #[must_use]
    pub fn result(&self, call: &Call) -> Option<Value> {
        let description = self.signatures.functions.get(&call.function)?;
        let mut shape = Shape::new(description, self.file.is_big_endian());
        if let Some(&(TOLD_ARGUMENT | TOLD_RESULT | TOLD_MARK)) = description.first() {
            return self
                .told(shape, call)
                .and_then(|(_, result)| result)
                .filter(|_| call.how.is_some());
        }
        let counters = shape.counters().len();
        if counters != 0 && call.how != Some(End::Return) {
            // Its counters were recorded, and nothing was returned.
            return None;
        }
        shape.skip_to_result(self.signatures)?;
        let bytes = self.payload_of_result(call)?;
        let mut payload = Payload { bytes: &bytes, big_endian: self.file.is_big_endian() };
        for _ in 0..counters {
            let _ = payload.counter();
        }
        shape.read(Source::new(&mut payload, self.signatures))
    }
}

impl Values<'_> {
    /// What was recorded when a call ended.
    fn payload_of_result(&self, call: &Call) -> Option<Vec<u8>> {
        call.how?;
        let mut place = usize::try_from(call.place & !(1 << 63)).ok()?;
        for _ in 0..NEAR {
            place = place.checked_sub(call::SIZE)?;
            match read_record(self.file, place)? {
                Record::Special(special::RESULT, value, start)
                    if value & 0xff_ffff == call.function && start == call.start =>
                {
                    return payload(self.file, place);
                }
                Record::Special(..) => {}
                _ => return None,
            }
        }
        None
    }

    /// The arguments and the result that follow the record of a call into the system.
    fn told(&self, mut shape: Shape<'_>, call: &Call) -> Option<(Vec<Named>, Option<Value>)> {
        let big_endian = self.file.is_big_endian();
        let place = usize::try_from(call.place).ok()?;
        let head = self.file.load(place, told::HEAD);
        let size = values_in(Bytes { bytes: &head, big_endian })?;
        let bytes = self.file.load(place.checked_add(told::HEAD)?, size);
        let mut payload = Payload { bytes: &bytes, big_endian };
        let mut arguments = Vec::new();
        while let Some((role, name)) = shape.next_value() {
            if role == TOLD_ARGUMENT && size == 0 {
                // Time off the processor of which it isn't known how it ended.
                return None;
            }
            let value = shape.read(Source::new(&mut payload, self.signatures))?;
            match role {
                TOLD_ARGUMENT => arguments.push(Named { name, value }),
                TOLD_RESULT => return Some((arguments, Some(value))),
                TOLD_MARK => {}
                _ => return None,
            }
        }
        Some((arguments, None))
    }
}

fn read_record(file: File<'_>, place: usize) -> Option<Record> {
    let bytes = file.load(place, call::SIZE);
    Some(record(bytes.first_chunk()?, file.is_big_endian()))
}

/// The bytes of the values whose first record is at `place`.
fn payload(file: File<'_>, place: usize) -> Option<Vec<u8>> {
    let Record::Special(_, head, _) = read_record(file, place)? else { return None };
    let count = usize::try_from(head >> 24).ok()?;
    let mut bytes = Vec::with_capacity(count * value::IN_RECORD);
    for number in 1..=count {
        match read_record(file, place + number * call::SIZE)? {
            Record::Special(special::BYTES, low, high) => {
                // They were stored as words.
                bytes.extend(low.to_le_bytes());
                bytes.extend(high.to_le_bytes());
            }
            _ => return None,
        }
    }
    Some(bytes)
}

impl Cursor {
    /// Where the arguments of `call` are.
    fn find(&mut self, file: File<'_>, thread: &ThreadIndex, call: &Call) -> Option<usize> {
        while self.found.front().is_some_and(|first| first.start < call.start) {
            self.found.pop_front();
        }
        self.skip(thread, call.start);
        let mut ahead = 0;
        let mut looked = 0;
        loop {
            while let Some(one) = self.found.get(looked) {
                if one.start == call.start && one.function == call.function {
                    let place = one.place;
                    self.found.remove(looked);
                    return Some(place);
                }
                ahead += usize::from(one.start > call.start);
                looked += 1;
            }
            if ahead > AHEAD || !self.read(file, thread, call.start) {
                return None;
            }
        }
    }

    /// Passes over pieces that end before `start`. Arguments are recorded behind what ended before them, perhaps at the end
    /// of a piece, or in pieces without any call.
    fn skip(&mut self, thread: &ThreadIndex, start: u64) {
        let pieces = thread.pieces.get(self.piece..).unwrap_or_default();
        let is_before = |piece: &Piece| piece.floor.is_none_or(|floor| floor < start);
        // Mostly, it's the next one.
        if !pieces.get(2).is_some_and(is_before) {
            return;
        }
        let behind = pieces.partition_point(is_before);
        let floor = behind.checked_sub(1).and_then(|last| pieces.get(last)).map(|last| last.floor);
        let Some(floor) = floor else { return };
        let first = pieces.partition_point(|piece| piece.floor < floor);
        if let Some(target) = first.checked_sub(1).filter(|target| *target > 0) {
            self.piece += target;
            self.at = 0;
        }
    }

    /// Takes in the next arguments that start at `start` or later; `false` if there are none.
    fn read(&mut self, file: File<'_>, thread: &ThreadIndex, start: u64) -> bool {
        while let Some(piece) = thread.pieces.get(self.piece) {
            let part = file.load(piece.offset, piece.size);
            let records = part.as_chunks().0;
            while let Some(bytes) = records.get(self.at) {
                let place = piece.offset + self.at * call::SIZE;
                self.at += 1;
                if let Record::Special(special::ARGUMENTS, head, ticks) =
                    record(bytes, file.is_big_endian())
                    && ticks >= start
                {
                    let function = head & 0xff_ffff;
                    self.found.push_back(Recorded { start: ticks, function, place });
                    return true;
                }
            }
            self.piece += 1;
            self.at = 0;
        }
        false
    }
}
