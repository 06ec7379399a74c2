//! A second reader of the trace format, written from its description, for what the tests ask: how often each
//! function was called in each process, and whether the calls of a thread are nested.

use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Bytes of the header block, and of a chunk.
const BLOCK: usize = 65_536;
/// Every so many chunks, one is a directory.
const SPAN: usize = 1024;

/// A call without its end: thread number, function number, start, and the 22 bits of its slot that records have. Starts alone
/// don't do: an emulator's clock may give a function and the one of the same name that it calls the same.
type Begun = (u32, u32, u64, u64);

/// What a trace says.
#[derive(Debug, Default)]
pub struct Trace {
    /// Functions by number, as in the symbol table.
    functions: HashMap<u32, String>,
    /// The names of these that `__func__` has in them.
    plain: HashMap<u32, String>,
    /// The processes, in the order in which they began.
    pub processes: Vec<u32>,
    /// What happened: lost records, conditions that ended the trace.
    pub notes: Vec<String>,
    /// The process of each thread number.
    owners: HashMap<u32, u32>,
    /// How often each function was called, by thread number.
    counts: HashMap<(u32, u32), u64>,
    /// Start and end of the calls that returned, by thread number.
    returned: HashMap<u32, Vec<(u64, u64)>>,
    /// Calls that ended, so that those are not taken for open as well.
    ended: HashSet<Begun>,
    /// Calls that were left behind or didn't end.
    pub open: u64,
    /// Calls that there was no room for.
    pub dropped: u64,
    /// The writer ended it.
    pub finished: bool,
}

/// Where one chunk is described and what it holds.
struct Chunk<'d> {
    kind: u64,
    base: u64,
    process: u64,
    used: u64,
    bytes: &'d [u8],
    order: Order,
}

/// How numbers are read: is the highest byte the first one?
#[derive(Debug, Clone, Copy)]
struct Order {
    is_big: bool,
}

impl Order {
    /// The four bytes at `offset`, as far as they are there.
    fn half(self, bytes: &[u8], offset: usize) -> u64 {
        let word = self.word(bytes, offset);
        if self.is_big { word >> 32 } else { word & 0xffff_ffff }
    }

    /// The eight bytes at `offset`.
    fn word(self, bytes: &[u8], offset: usize) -> u64 {
        let word = word(bytes, offset);
        if self.is_big { word.swap_bytes() } else { word }
    }
}

impl Trace {
    /// Reads the trace at `path`.
    ///
    /// # Errors
    ///
    /// It can't be read, or isn't a trace.
    pub fn read(path: &Path) -> Result<Self, String> {
        let bytes = crate::files::read(path)?;
        if bytes.get(..8) != Some(b"\x89MCOUNT\n") {
            return Err("it doesn't begin as a trace".to_owned());
        }
        let order = Order { is_big: bytes.get(8) == Some(&1) };
        let mut trace = Self {
            dropped: order.word(&bytes, 256),
            finished: order.word(&bytes, 64) & 1 != 0,
            ..Self::default()
        };
        let chunks = index(order.word(&bytes, 128));
        let all: Vec<Chunk<'_>> =
            (0..chunks).filter_map(|number| Chunk::at(&bytes, number, order)).collect();
        for chunk in &all {
            match chunk.kind {
                1 => trace.calls(chunk),
                4 => trace.metadata(chunk),
                _ => {}
            }
        }
        trace.open_calls(&all);
        Ok(trace)
    }

    /// How often `function` was called in `process`; 0: in any. Clones that the compiler makes count as it.
    #[must_use]
    pub fn count(&self, process: u32, function: &str) -> u64 {
        let is_it = |id: &u32| self.plain.get(id).is_some_and(|name| name == function);
        let calls = self.of(process).filter(|(id, _)| is_it(id));
        calls.map(|(_, count)| count).sum()
    }

    /// The functions that each thread of `process` called, and how often; 0: of any process.
    pub fn called(&self, process: u32) -> impl Iterator<Item = (&str, u64)> {
        self.of(process).filter_map(|(id, count)| Some((self.functions.get(&id)?.as_str(), count)))
    }

    /// The same by number.
    fn of(&self, process: u32) -> impl Iterator<Item = (u32, u64)> {
        let is_its = move |thread: &u32| process == 0 || self.owners.get(thread) == Some(&process);
        let all = self.counts.iter().filter(move |((thread, _), _)| is_its(thread));
        all.map(|((_, id), count)| (*id, *count))
    }

    /// How many calls there are.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Of two calls of a thread, one is inside the other or they don't overlap.
    ///
    /// # Errors
    ///
    /// The first two that do overlap.
    pub fn check_nesting(&mut self) -> Result<(), String> {
        for (thread, calls) in &mut self.returned {
            calls.sort_unstable_by_key(|(start, end)| (*start, u64::MAX - end));
            let mut around: Vec<(u64, u64)> = Vec::new();
            for (start, end) in calls {
                if end < start {
                    return Err(format!("thread {thread}: a call ends before it begins"));
                }
                while around.last().is_some_and(|(_, last)| last <= start) {
                    around.pop();
                }
                if let Some(outer) = around.last().filter(|(_, last)| *last < *end) {
                    return Err(format!("thread {thread}: {outer:?} and {start}, {end} overlap"));
                }
                around.push((*start, *end));
            }
        }
        Ok(())
    }

    fn calls(&mut self, chunk: &Chunk<'_>) {
        let (mut thread, mut owner, mut start) = (0, None, None);
        let mut base = chunk.base;
        for record in chunk.bytes.chunks_exact(16) {
            let (first, second) = (chunk.order.word(record, 0), chunk.order.word(record, 8));
            let (function, value) = (low(first & 0xff_ffff), low(first >> 32));
            if function == 0 {
                match (first >> 24) & 0xff {
                    1 => {
                        (owner, start) = (None, None);
                        thread = value;
                        self.owners.insert(value, low(second >> 32));
                    }
                    2 => start = Some(second),
                    4 => owner = Some(value),
                    5 => base = second,
                    _ => {}
                }
                continue;
            }
            let end = base + (first >> 24);
            let start = start.take().unwrap_or_else(|| end.wrapping_sub(second >> 24));
            let thread = owner.take().unwrap_or(thread);
            *self.counts.entry((thread, function)).or_default() += 1;
            if second & 3 > 1 {
                self.open += 1;
            } else {
                self.returned.entry(thread).or_default().push((start, end));
            }
            if self.ended.len() < 1 << 20 {
                self.ended.insert((thread, function, start, (second >> 2) & 0x3f_ffff));
            }
        }
    }

    fn open_calls(&mut self, chunks: &[Chunk<'_>]) {
        for chunk in chunks.iter().filter(|chunk| chunk.kind == 3) {
            let is_pair = |one: &&Chunk<'_>| {
                one.kind == 2 && (one.process, one.base) == (chunk.process, chunk.base)
            };
            let Some(starts) = chunks.iter().rfind(is_pair) else { continue };
            let words = chunk.bytes.chunks_exact(8).zip(starts.bytes.chunks_exact(8));
            for (slot, (open, start)) in (chunk.base / 8..).zip(words) {
                let open = chunk.order.word(open, 0);
                let (thread, function) = (low(open >> 32), low(open & 0xff_ffff));
                let begun = (thread, function, chunk.order.word(start, 0), slot & 0x3f_ffff);
                if open != 0 && !self.ended.contains(&begun) {
                    *self.counts.entry((thread, function)).or_default() += 1;
                    self.open += 1;
                }
            }
        }
    }

    fn metadata(&mut self, chunk: &Chunk<'_>) {
        let mut rest = chunk.bytes.get(..index(chunk.used)).unwrap_or_default();
        while rest.len() >= 8 {
            let (kind, length) = (chunk.order.half(rest, 0), index(chunk.order.half(rest, 4)));
            let payload = rest.get(8..8 + length).unwrap_or_default();
            let first = low(chunk.order.half(payload, 0));
            match kind {
                1 => self.processes.push(first),
                6 => {
                    let name = String::from_utf8_lossy(payload.get(24..).unwrap_or_default());
                    self.plain.insert(first, plain_name(&name));
                    self.functions.insert(first, name.into_owned());
                }
                7 => self.notes.push(String::from_utf8_lossy(payload).into_owned()),
                _ => {}
            }
            rest = rest.get(8 + length.next_multiple_of(8)..).unwrap_or_default();
        }
    }
}

impl<'d> Chunk<'d> {
    fn at(file: &'d [u8], number: usize, order: Order) -> Option<Self> {
        let place = number % SPAN;
        let descriptor = BLOCK + (number - place) * BLOCK + place * 64;
        let bytes = file.get(BLOCK + number * BLOCK..BLOCK + (number + 1) * BLOCK)?;
        (place != 0).then(|| Self {
            kind: order.half(file, descriptor),
            base: order.word(file, descriptor + 8),
            process: order.word(file, descriptor + 16),
            used: order.word(file, descriptor + 24),
            bytes,
            order,
        })
    }
}

/// The name that `__func__` has in it.
fn plain_name(symbol: &str) -> String {
    let mangled = Some(symbol).filter(|symbol| symbol.starts_with('_'));
    let demangled = mangled.and_then(|symbol| cpp_demangle::Symbol::new(symbol).ok());
    let demangled = demangled.and_then(|name| name.demangle().ok());
    let name = demangled.unwrap_or_else(|| symbol.to_owned());
    let name = name.split(['(', '.']).next().unwrap_or_default();
    name.rsplit("::").next().unwrap_or_default().to_owned()
}

/// The eight bytes at `offset`, the lowest first, as far as they are there.
#[must_use]
pub fn word(bytes: &[u8], offset: usize) -> u64 {
    let rest = bytes.get(offset..).unwrap_or_default();
    if let Some(whole) = rest.first_chunk() {
        return u64::from_le_bytes(*whole);
    }
    let shifted = |(place, byte): (usize, &u8)| u64::from(*byte) << (8 * place);
    rest.iter().take(8).enumerate().map(shifted).sum()
}

fn low(word: u64) -> u32 {
    u32::try_from(word & 0xffff_ffff).unwrap_or(0)
}

fn index(word: u64) -> usize {
    usize::try_from(word).unwrap_or(0)
}
