//! The tables with which a kernel prints the names of its functions, inside its image.
//!
//! Names are compressed: each byte of a name means a token of one or more characters. Together they
//! are, in Linux 4.20 and later:
//!
//! - names: for each symbol the count of its bytes, and the bytes; a count of 128 or more has two bytes. The
//!   first character of a name is the letter that nm prints.
//! - markers: where every 256th name begins, 4 bytes each.
//! - tokens: 256 strings, each with a zero after it. Digits mean themselves, so that is what we look for.
//! - index: where each token begins, 2 bytes each.
//! - addresses: as words, or as numbers of 4 bytes that are differences from something.
//!
//! Until Linux 6.3, addresses, base and count are before the names. From 6.4 on, the count is there, and
//! addresses and base are after the index. Later kernels of 6.1 also have the order of names between markers
//! and tokens. From 7.0 on there is no base: on 64-bit processors, each number counts from its own place in
//! memory, and on 32-bit ones it is the address. Nothing names these tables, but each is checked by the others.

use super::Name;
use super::words::{Order, word};
use memchr::memmem;

/// The tokens of the digits.
const DIGITS: &[u8] = b"0\x001\x002\x003\x004\x005\x006\x007\x008\x009\x00";
const TOKENS: usize = 256;
/// How many names each marker is for.
const STEP: usize = 256;
/// The longest name that a kernel accepts, in bytes.
const LONGEST: usize = 512;
/// How many symbols a kernel has at most.
const MOST_SYMBOLS: usize = 2 << 20;
/// How many places to try that look like tokens.
const CANDIDATES: usize = 64;

/// The tables of an image.
pub(super) struct Tables<'d> {
    bytes: &'d [u8],
    tokens: Tokens<'d>,
    /// Where each name begins, and how many bytes it has.
    names: Vec<(usize, usize)>,
    addresses: Addresses,
    pub(super) base: Base,
}

/// The base of the numbers in the table of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// Nothing: they are addresses.
    Zero,
    /// The word at this offset, and its value in the file. If that is 0, it's written when the kernel is loaded.
    Word { at: usize, value: u64 },
    /// The address of the first byte of the image or section that the tables are in.
    Image,
}

/// Why there are no names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// There are no tables.
    Tables,
    /// There are tokens and their index, but the tables around them aren't as in any kernel known here.
    UnknownForm,
}

struct Tokens<'d> {
    order: Order,
    /// Where they begin.
    start: usize,
    /// Where their index ends.
    end: usize,
    strings: Vec<&'d [u8]>,
}

enum Addresses {
    /// Addresses themselves.
    Words(Vec<u64>),
    /// Differences from the base, or from the address of the first byte.
    Differences(Vec<u64>),
    /// Addresses if positive (of each processor's own data), otherwise differences from below the base.
    Signed(Vec<u32>),
}

/// The tables in `bytes`, of a kernel with words of `size` bytes.
pub(super) fn find(bytes: &[u8], size: usize) -> Result<Tables<'_>, Missing> {
    let mut missing = Missing::Tables;
    for digits in memmem::find_iter(bytes, DIGITS).take(CANDIDATES) {
        let Some(tokens) = Tokens::around(bytes, digits) else { continue };
        match tables(bytes, tokens, size) {
            Some(tables) => return Ok(tables),
            None => missing = Missing::UnknownForm,
        }
    }
    Err(missing)
}

impl<'d> Tokens<'d> {
    /// The tokens of which those of the digits are at `digits`.
    fn around(bytes: &'d [u8], digits: usize) -> Option<Self> {
        let mut end = digits;
        for _ in usize::from(b'0')..TOKENS {
            let rest = bytes.get(end..)?;
            end += memchr::memchr(0, rest.get(..LONGEST.min(rest.len()))?)? + 1;
        }
        for alignment in [2, 4, 8] {
            let index = end.next_multiple_of(alignment);
            for order in [Order::Little, Order::Big] {
                if let Some(found) = Self::by_index(bytes, digits, index, order) {
                    return Some(found);
                }
            }
        }
        None
    }

    /// The same, if their index is at `index`.
    fn by_index(bytes: &'d [u8], digits: usize, index: usize, order: Order) -> Option<Self> {
        let end = index.checked_add(TOKENS * 2)?;
        let offsets = bytes.get(index..end)?.chunks_exact(2).map(|pair| order.pair(pair));
        let offsets = offsets.collect::<Option<Vec<usize>>>()?;
        let start = digits.checked_sub(*offsets.get(usize::from(b'0'))?)?;
        let mut next = 0;
        let mut strings = Vec::with_capacity(TOKENS);
        for offset in offsets {
            if offset != next {
                return None;
            }
            let rest = bytes.get(start + offset..index)?;
            let string = rest.get(..memchr::memchr(0, rest)?)?;
            next = offset + string.len() + 1;
            strings.push(string);
        }
        Some(Self { order, start, end, strings })
    }
}

/// The tables that belong to `tokens`.
fn tables<'d>(bytes: &'d [u8], tokens: Tokens<'d>, size: usize) -> Option<Tables<'d>> {
    let (markers_at, markers) = markers(bytes, &tokens)?;
    let last = usize::try_from(*markers.last()?).ok()?;
    // The names end at the markers, and the last marker has at most 256 of them after it.
    let latest = markers_at.checked_sub(last)?;
    let earliest = latest.saturating_sub(STEP * (LONGEST + 2)).next_multiple_of(4);
    for start in (earliest..=latest & !3).rev().step_by(4) {
        for count_at in [start.checked_sub(4), start.checked_sub(8)].into_iter().flatten() {
            let count = tokens.order.number(bytes, count_at)? as usize;
            if count.div_ceil(STEP) != markers.len() {
                continue;
            }
            let Some(names) = names(bytes, start, count, &markers, markers_at) else { continue };
            return addresses(bytes, tokens, names, count_at, size);
        }
    }
    None
}

/// The markers before `tokens`, and where they begin.
fn markers(bytes: &[u8], tokens: &Tokens<'_>) -> Option<(usize, Vec<u32>)> {
    let last = tokens.start & !3;
    // Zeroes may be behind them, for alignment.
    for zeroes in 0..3 {
        if let Some(found) = markers_before(bytes, last.checked_sub(zeroes * 4)?, tokens.order) {
            return Some(found);
        }
    }
    // Some kernels have the order of names here, with three bytes for each name.
    let first = last.saturating_sub(MOST_SYMBOLS * 3) & !3;
    for end in (first..last).step_by(4).rev() {
        let Some((at, markers)) = markers_before(bytes, end, tokens.order) else { continue };
        let size = markers.len() * STEP * 3;
        if (size - STEP * 3..size + 16).contains(&(tokens.start - end)) {
            return Some((at, markers));
        }
    }
    None
}

/// The markers that end at `end`, and where they begin. They ascend from 0, in steps of 256 names.
fn markers_before(bytes: &[u8], end: usize, order: Order) -> Option<(usize, Vec<u32>)> {
    const STEPS: std::ops::Range<u32> = 512..132_000;
    let mut at = end;
    let mut found: Vec<u32> = Vec::new();
    loop {
        at = at.checked_sub(4)?;
        let marker = order.number(bytes, at)?;
        if let Some(next) = found.last()
            && !next.checked_sub(marker).is_some_and(|step| STEPS.contains(&step))
        {
            return None;
        }
        found.push(marker);
        if marker == 0 {
            break;
        }
    }
    found.reverse();
    (found.len() > 1).then_some((at, found))
}

/// Where each of `count` names is, if the first is at `start`, and if `markers` agree.
fn names(
    bytes: &[u8],
    start: usize,
    count: usize,
    markers: &[u32],
    markers_at: usize,
) -> Option<Vec<(usize, usize)>> {
    let mut names = Vec::new();
    let mut at = start;
    for number in 0..count {
        if number % STEP == 0
            && usize::try_from(*markers.get(number / STEP)?).ok() != Some(at - start)
        {
            return None;
        }
        let (mut length, mut head) = (usize::from(*bytes.get(at)?), 1);
        if length >= 0x80 {
            length = length & 0x7f | usize::from(*bytes.get(at + 1)?) << 7;
            head = 2;
        }
        names.push((at + head, length));
        at = at.checked_add(head + length).filter(|end| *end <= markers_at)?;
        if length == 0 {
            return None;
        }
    }
    (markers_at - at < 16).then_some(names)
}

/// The tables with the addresses, wherever these are. `count_at` is where the count of names is.
fn addresses<'d>(
    bytes: &'d [u8],
    tokens: Tokens<'d>,
    names: Vec<(usize, usize)>,
    count_at: usize,
    size: usize,
) -> Option<Tables<'d>> {
    let places = Places { bytes, order: tokens.order, count: names.len(), size };
    let behind = tokens.end.next_multiple_of(4);
    let (addresses, base) = places
        .based(behind)
        .or_else(|| places.based(behind.next_multiple_of(8)))
        .or_else(|| places.before(count_at))
        .or_else(|| places.without_base(behind))?;
    Some(Tables { bytes, tokens, names, addresses, base })
}

/// The places that a table of addresses may have.
#[derive(Clone, Copy)]
struct Places<'d> {
    bytes: &'d [u8],
    order: Order,
    /// How many addresses there are.
    count: usize,
    /// The size of a word in bytes.
    size: usize,
}

impl Places<'_> {
    /// The numbers at `at`, with the base behind them.
    fn based(self, at: usize) -> Option<(Addresses, Base)> {
        let end = at.checked_add(self.count.checked_mul(4)?)?;
        self.numbers(at, end.next_multiple_of(self.size))
    }

    /// Words before the count at `count_at`, or numbers with a base behind them.
    fn before(self, count_at: usize) -> Option<(Addresses, Base)> {
        let base = count_at.checked_sub(self.size)?;
        let differences = self.count.checked_mul(4)?.next_multiple_of(self.size);
        base.checked_sub(differences)
            .and_then(|at| self.numbers(at, base))
            .or_else(|| self.words(count_at.checked_sub(self.count.checked_mul(self.size)?)?))
    }

    /// Numbers that count from the base at `base_at`. The least address is the base, so that the first number is
    /// 0 unless some of them are signed.
    fn numbers(self, at: usize, base_at: usize) -> Option<(Addresses, Base)> {
        let found = numbers(self.bytes, at, self.count, self.order)?;
        let value = word(self.bytes, base_at, self.size, self.order == Order::Big)?;
        let base = Base::Word { at: base_at, value };
        if found.first() == Some(&0) && ascend(found.iter().map(|number| u64::from(*number))) {
            let found = found.into_iter().map(u64::from).collect();
            return Some((Addresses::Differences(found), base));
        }
        let ascends = ascend(found.iter().map(|number| signed(*number, 1 << 40)));
        ascends.then_some((Addresses::Signed(found), base))
    }

    /// Words from `at` on.
    fn words(self, at: usize) -> Option<(Addresses, Base)> {
        let is_big = self.order == Order::Big;
        let words = (0..self.count)
            .map(|number| word(self.bytes, at + number * self.size, self.size, is_big));
        let words = words.collect::<Option<Vec<u64>>>()?;
        ascend(words.iter().copied()).then_some((Addresses::Words(words), Base::Zero))
    }

    /// Numbers at `at` that count from their own places, or words of 4 bytes.
    fn without_base(self, at: usize) -> Option<(Addresses, Base)> {
        if self.size == 4 {
            return self.words(at);
        }
        let found = numbers(self.bytes, at, self.count, self.order)?;
        let from_first = found
            .iter()
            .zip((at as u64..).step_by(4))
            .map(|(number, place)| place.wrapping_add_signed(i64::from(number.cast_signed())));
        let from_first: Vec<u64> = from_first.collect();
        // What is before the first byte has a great number here.
        let ascends = ascend(from_first.iter().map(|address| address.wrapping_add(1 << 40)));
        ascends.then_some((Addresses::Differences(from_first), Base::Image))
    }
}

/// The `count` numbers from `at` on.
fn numbers(bytes: &[u8], at: usize, count: usize, order: Order) -> Option<Vec<u32>> {
    let bytes = bytes.get(at..at.checked_add(count.checked_mul(4)?)?)?;
    (0..count).map(|number| order.number(bytes, number * 4)).collect()
}

/// The address that `number` means: itself if it is positive, otherwise one from `base` on.
fn signed(number: u32, base: u64) -> u64 {
    if number.cast_signed() >= 0 {
        u64::from(number)
    } else {
        base.wrapping_add(u64::from(!number))
    }
}

/// Whether `addresses` are those of symbols: they never descend, and few are the same.
fn ascend(addresses: impl Iterator<Item = u64>) -> bool {
    let (mut last, mut steps, mut count) = (0, 0_usize, 0_usize);
    for address in addresses {
        if address < last {
            return false;
        }
        steps += usize::from(address != last);
        count += 1;
        last = address;
    }
    steps > count / 4
}

impl Tables<'_> {
    /// The names, if addresses count from `base`: see [`Base`].
    pub(super) fn names(&self, base: u64) -> Vec<Name> {
        let mut names = Vec::with_capacity(self.names.len());
        for (number, (at, length)) in self.names.iter().enumerate() {
            let codes = self.bytes.get(*at..at + length).unwrap_or_default();
            let mut text = Vec::new();
            for code in codes {
                text.extend_from_slice(
                    self.tokens.strings.get(usize::from(*code)).unwrap_or(&&[][..]),
                );
                if text.len() > LONGEST {
                    break;
                }
            }
            let Some((letter, text)) = text.split_first() else { continue };
            let Some(address) = self.address(number, base) else { continue };
            let text = String::from_utf8_lossy(text).into_owned();
            names.push(Name { text, address, letter: *letter, size: 0 });
        }
        names
    }

    /// The address of the symbol `number`.
    fn address(&self, number: usize, base: u64) -> Option<u64> {
        Some(match &self.addresses {
            Addresses::Words(words) => *words.get(number)?,
            Addresses::Differences(found) => base.wrapping_add(*found.get(number)?),
            Addresses::Signed(found) => signed(*found.get(number)?, base),
        })
    }
}
