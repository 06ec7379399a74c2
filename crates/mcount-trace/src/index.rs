//! The first pass over a trace: which pieces of which chunks hold the calls of a thread.
//!
//! Records are in the order of ends. Nearly every call that ends in a piece also starts in the time
//! that the piece covers. So one piece at a time can be brought into the order of starts
//! ([`crate::order`]), if the few calls that started before their piece are known in advance.
//! Those, the *extras*, are what this pass collects, besides calls that have something special.

use crate::bytes::Bytes;
use crate::error::Damage;
use crate::file::File;
use crate::layout::{call, chunk, directory, open, special};
use crate::record::{Raw, Record, address_slot, record, unwrap_slot};
use std::collections::HashMap;

/// The most records in a piece.
pub(crate) const PIECE: usize = WINDOW / call::SIZE;

/// Call records of one thread, one after the other, with one base.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    /// Where in the file it begins.
    pub(crate) offset: usize,
    /// How many bytes it has.
    pub(crate) size: usize,
    /// The base of its ticks.
    pub(crate) base: u64,
    /// The latest end in the thread's pieces before it. Calls that started then or earlier are extras.
    pub(crate) floor: Option<u64>,
    /// A special record before the piece says something of its first call.
    pub(crate) is_first_modified: bool,
    /// Special records say something of calls in it.
    pub(crate) has_modifiers: bool,
}

/// The data of a thread that made calls.
#[derive(Debug, Default)]
pub(crate) struct ThreadIndex {
    pub(crate) number: u32,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) pieces: Vec<Piece>,
    /// Calls that are not found in their piece, as they come; ordered once all are there.
    pub(crate) extras: Vec<Raw>,
    /// What slots of this thread are compared with.
    pub(crate) reference: Option<u32>,
    /// The latest end of a call in a piece.
    pub(crate) latest: Option<u64>,
    /// Some records aren't in the order of ends, as a signal handler can leave them.
    pub(crate) is_disordered: bool,
    /// The earliest start.
    pub(crate) first: u64,
    /// How many calls there are.
    pub(crate) calls: u64,
}

impl ThreadIndex {
    /// The latest time that its calls tell of.
    pub(crate) fn latest(&self) -> u64 {
        let known = |raw: &Raw| if raw.end == u64::MAX { raw.start } else { raw.end };
        let extras = self.extras.iter().map(known).max();
        self.latest.unwrap_or(0).max(extras.unwrap_or(0))
    }

    /// When calls of each piece but the first begin, at the earliest; and how many there are, about.
    pub(crate) fn boundaries(&self) -> impl Iterator<Item = (u64, u64)> {
        let start = |piece: &Piece| Some(piece.floor?.saturating_add(1));
        let calls = |piece: &Piece| (piece.size / call::SIZE) as u64;
        self.pieces.iter().filter_map(move |piece| Some((start(piece)?, calls(piece))))
    }

    /// Takes in what is known of a piece; `false` if it has no calls.
    fn count(&mut self, of: &Tally) -> bool {
        if of.calls + of.early == 0 {
            return false;
        }
        self.is_disordered |= of.is_disordered;
        self.latest = Some(of.latest);
        self.first = self.first.min(of.first);
        self.calls += of.calls;
        true
    }

    /// Takes in what isn't a call of the thread's own.
    pub(crate) fn add_beneath(&mut self, raw: Raw) {
        self.first = self.first.min(raw.start);
        self.calls += 1;
        self.extras.push(raw);
    }

    /// Takes in a call that isn't to be found in its piece.
    fn add_extra(&mut self, mut raw: Raw) {
        let reference = *self.reference.get_or_insert(raw.slot);
        raw.slot = unwrap_slot(raw.slot, reference);
        self.first = self.first.min(raw.start);
        self.calls += 1;
        self.extras.push(raw);
    }
}

/// The calls of a piece that can be found in it.
struct Tally {
    /// The earliest start.
    first: u64,
    /// The latest end, also of the pieces before.
    latest: u64,
    calls: u64,
    /// How many calls are extras although they are in it.
    early: u64,
    is_disordered: bool,
}

impl Tally {
    fn new(floor: Option<u64>) -> Self {
        let latest = floor.unwrap_or(0);
        Self { first: u64::MAX, latest, calls: 0, early: 0, is_disordered: false }
    }

    /// Counts a call, or makes it an extra of `thread` if its piece won't have it: it's still open, or
    /// it started no later than `floor`.
    fn add(&mut self, raw: Raw, floor: Option<u64>, thread: &mut ThreadIndex) {
        self.is_disordered |= raw.end < self.latest;
        self.latest = self.latest.max(raw.end);
        if raw.is_pending() || floor.is_some_and(|floor| raw.start <= floor) {
            self.early += 1;
            thread.add_extra(raw);
        } else {
            thread.reference.get_or_insert(raw.slot);
            self.first = self.first.min(raw.start);
            self.calls += 1;
        }
    }
}

/// What special records say of the next call.
#[derive(Debug, Default, Clone, Copy)]
struct Modifiers {
    start: Option<u64>,
    slot: Option<u64>,
    owner: Option<u32>,
}

/// A directory's entry of a chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Descriptor {
    pub(crate) number: u64,
    pub(crate) kind: u32,
    pub(crate) thread: u32,
    pub(crate) base: u64,
    pub(crate) pid: u32,
    pub(crate) used: u64,
    pub(crate) shared: u64,
}

/// Reads what a directory says of chunk `number`, at `offset` of the file.
pub(crate) fn descriptor(file: Bytes<'_>, offset: usize, number: u64) -> Option<Descriptor> {
    Some(Descriptor {
        number,
        kind: file.u32(offset + directory::KIND)?,
        thread: file.u32(offset + directory::THREAD)?,
        base: file.u64(offset + directory::BASE)?,
        pid: u32::try_from(file.u64(offset + directory::PID)?).unwrap_or(0),
        used: file.u64(offset + directory::USED)?,
        shared: file.u64(offset + directory::SHARED)?,
    })
}

/// All threads that made calls.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) threads: Vec<ThreadIndex>,
    numbers: HashMap<u32, usize>,
    /// How many more things may be kept: pieces and extras; a thread counts as some.
    room: u64,
    left_out: u64,
}

/// The room that a thread takes for pieces and extras.
const THREAD: u64 = 8;

impl Index {
    /// Without threads yet, and with room for that many pieces and extras.
    pub(crate) fn new(room: u64) -> Self {
        Self { threads: Vec::new(), numbers: HashMap::new(), room, left_out: 0 }
    }

    /// How many things were left out because there was no room for them.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Whether there is room for one more extra, which is taken then.
    pub(crate) fn take_room(&mut self) -> bool {
        let is_there = self.room > 0;
        self.room = self.room.saturating_sub(1);
        self.left_out += u64::from(!is_there);
        is_there
    }

    /// Adds a thread without a number in the file; its place.
    pub(crate) fn add_thread(&mut self, (pid, tid): (u32, u32)) -> usize {
        // Those of the file count from 1 on.
        let most = u32::MAX - u32::try_from(self.threads.len()).unwrap_or(0);
        let is_free = |number: &u32| !self.numbers.contains_key(number);
        let number = (1..=most).rev().find(is_free).unwrap_or(0);
        self.thread(number, pid, tid)
    }

    /// The thread with this number, new if there was none.
    fn thread(&mut self, number: u32, pid: u32, tid: u32) -> usize {
        let next = self.threads.len();
        let at = *self.numbers.entry(number).or_insert(next);
        if at == next {
            self.room = self.room.saturating_sub(THREAD);
            self.threads.push(ThreadIndex {
                number,
                pid,
                tid,
                first: u64::MAX,
                ..ThreadIndex::default()
            });
        } else if let Some(thread) = self.threads.get_mut(at)
            && thread.tid == 0
        {
            (thread.pid, thread.tid) = (pid, tid);
        }
        at
    }

    /// Takes in a chunk of calls.
    pub(crate) fn calls(&mut self, file: File<'_>, offset: usize, size: usize, of: &Descriptor) {
        let big_endian = file.is_big_endian();
        let mut at = offset;
        let mut thread = None;
        let mut base = of.base;
        let mut modifiers = Modifiers::default();
        for window in (0..size).step_by(WINDOW) {
            let part = file.load(offset + window, (size - window).min(WINDOW));
            let mut rest = part.as_chunks::<{ call::SIZE }>().0;
            at = at.max(offset + window);
            if rest.is_empty() {
                // Its frame is damaged: whose calls follow isn't known.
                break;
            }
            if self.room == 0 {
                let is_call = |bytes: &&[u8; call::SIZE]| {
                    matches!(record(bytes, big_endian), Record::Call(..))
                };
                self.left_out += rest.iter().filter(is_call).count() as u64;
                continue;
            }
            while !rest.is_empty() {
                let thread_at = *thread.get_or_insert_with(|| {
                    // A chunk whose first record was interrupted.
                    let is_special = rest.first().is_some_and(|first| is_thread(first, big_endian));
                    if is_special { usize::MAX } else { self.thread(of.thread, of.pid, 0) }
                });
                let (used, stop) =
                    self.piece(thread_at, rest, at, base, big_endian, &mut modifiers);
                at += used * call::SIZE;
                rest = rest.get(used..).unwrap_or_default();
                match stop {
                    Some((special::THREAD, number, ids)) => {
                        let (pid, tid) = (ids >> 32, ids & 0xffff_ffff);
                        let id = |id: u64| u32::try_from(id).unwrap_or(0);
                        // What a thread has said of its next call is nothing of another's.
                        modifiers = Modifiers::default();
                        thread = Some(self.thread(number, id(pid), id(tid)));
                    }
                    Some((special::BASE, _, ticks)) => base = ticks,
                    _ => {}
                }
            }
        }
    }

    /// Takes in `records`, or as many of them as are of one piece: how many that are, and the
    /// special record that ended it.
    fn piece(
        &mut self,
        thread_at: usize,
        records: &[[u8; call::SIZE]],
        offset: usize,
        base: u64,
        big_endian: bool,
        modifiers: &mut Modifiers,
    ) -> (usize, Option<(u64, u32, u64)>) {
        let mut nobody = ThreadIndex::default();
        let mut foreign = Vec::new();
        let thread = self.threads.get_mut(thread_at).unwrap_or(&mut nobody);
        let before = thread.extras.len();
        let floor = thread.latest;
        let is_first_modified = !modifiers.is_none();
        let mut own = Tally::new(floor);
        let mut has_modifiers = is_first_modified;
        let (mut used, mut stop, mut has_values) = (0, None, false);
        for bytes in records {
            let ordinal = (offset + used * call::SIZE) as u64;
            used += 1;
            match record(bytes, big_endian) {
                Record::Call(w0, w1) => {
                    let mut raw = Raw::new(w0, w1, base, ordinal);
                    if modifiers.is_none() {
                        own.add(raw, floor, thread);
                        continue;
                    }
                    has_modifiers = true;
                    raw.set_apart();
                    if let Some(owner) = modifiers.apply(&mut raw) {
                        foreign.push((owner, raw));
                    } else {
                        thread.add_extra(raw);
                    }
                }
                Record::Special(kind @ (special::THREAD | special::BASE), value, word) => {
                    stop = Some((kind, value, word));
                    break;
                }
                Record::Special(special::ARGUMENTS, ..) => has_values = true,
                Record::Special(kind, value, word) => modifiers.learn(kind, value, word),
                Record::Empty => {}
            }
        }
        if thread.count(&own) || has_values {
            let size = used * call::SIZE;
            let piece = Piece { offset, size, base, floor, is_first_modified, has_modifiers };
            thread.pieces.push(piece);
        }
        let added = (thread.extras.len() - before + foreign.len() + 1) as u64;
        self.room = self.room.saturating_sub(added);
        self.give(foreign);
        (used, stop)
    }

    /// Takes in calls with the numbers of the threads that made them.
    fn give(&mut self, calls: Vec<(u32, Raw)>) {
        for (owner, raw) in calls {
            let owner = self.thread(owner, 0, 0);
            if let Some(owner) = self.threads.get_mut(owner) {
                owner.add_extra(raw);
            }
        }
    }

    /// Takes in a chunk of open calls, whose starts are in the chunk at `starts`.
    pub(crate) fn open(
        &mut self,
        file: File<'_>,
        (starts, offset): (Option<usize>, usize),
        size: usize,
        of: &Descriptor,
        damage: &mut Damage,
    ) {
        for window in (0..size).step_by(WINDOW) {
            let there = (size - window).min(WINDOW);
            let words = file.load(offset + window, there);
            let words = in_order(&words, file);
            let starts = starts.map(|starts| file.load(starts + window, there));
            let starts = starts.as_deref().map(|starts| in_order(starts, file));
            for at in (0..words.bytes.len()).step_by(8) {
                let Some(word @ 1..) = words.u64(at) else { continue };
                let Some(start) = starts.and_then(|starts| starts.u64(at)) else {
                    damage.open_without_start += 1;
                    continue;
                };
                let at = window + at;
                let number = u32::try_from(word >> open::THREAD_SHIFT).unwrap_or(0);
                let address = of.base.wrapping_add(at as u64);
                let (function, ordinal) = (word & open::FUNCTION_MASK, (offset + at) as u64);
                let raw = Raw::open(function, start, address, ordinal);
                if self.room == 0 {
                    self.left_out += 1;
                    continue;
                }
                self.room = self.room.saturating_sub(1);
                let thread = self.thread(number, of.pid, 0);
                if let Some(thread) = self.threads.get_mut(thread) {
                    thread.add_extra(raw);
                }
            }
        }
    }
}

/// How much of a chunk is looked at at a time.
const WINDOW: usize = 65_536;

/// `bytes` with the byte order of `file`.
fn in_order<'b>(bytes: &'b [u8], file: File<'_>) -> Bytes<'b> {
    Bytes { bytes, big_endian: file.is_big_endian() }
}

fn is_thread(bytes: &[u8; call::SIZE], big_endian: bool) -> bool {
    matches!(record(bytes, big_endian), Record::Special(special::THREAD, ..))
}

impl Modifiers {
    fn is_none(&self) -> bool {
        self.start.is_none() && self.slot.is_none() && self.owner.is_none()
    }

    /// Takes in a special record that is about the next call; others are skipped.
    fn learn(&mut self, kind: u64, value: u32, word: u64) {
        match kind {
            special::START => self.start = Some(word),
            special::SLOT => self.slot = Some(word),
            special::OWNER => self.owner = Some(value),
            _ => {}
        }
    }

    /// Changes the call as they say, and are used up then; the thread that it belongs to, if that is
    /// another one.
    fn apply(&mut self, raw: &mut Raw) -> Option<u32> {
        let Self { start, slot, owner } = std::mem::take(self);
        if let Some(start) = start {
            raw.start = start.min(raw.end);
        }
        if let Some(address) = slot {
            raw.slot = address_slot(address);
        }
        owner
    }
}

/// The chunks with the starts of open calls, by what they shadow.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    chunks: HashMap<(u32, u64), Vec<u64>>,
}

impl Starts {
    /// Takes in a descriptor; in the order of numbers.
    pub(crate) fn add(&mut self, of: &Descriptor) {
        if of.kind == chunk::STARTS {
            self.chunks.entry((of.pid, of.base)).or_default().push(of.number);
        }
    }

    /// The number of the chunk that belongs to a chunk of open calls.
    pub(crate) fn of(&self, open: &Descriptor) -> Option<u64> {
        let numbers = self.chunks.get(&(open.pid, open.base))?;
        let later = numbers.partition_point(|number| *number < open.number);
        numbers.get(later.checked_sub(1)?).copied()
    }
}
