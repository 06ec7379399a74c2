//! Pages of the kernel's trace buffers, as `trace_pipe_raw` hands them out: records of functions that begin and end.
//!
//! What pages and records look like is in tracefs (`events/header_page`, `events/header_event`, and the file `format` of each kind of
//! record). Nothing else is assumed, other than what `header_event` says in words: a record begins with a word that has its kind or length
//! in five bits, and the time since the one before in the others. Of pages that aren't like that, what can be read is.

use super::format::{Field, Format};

/// Bits of the word that a page counts its bytes with: some are missing before the page; their number is behind its records.
const MISSED: u64 = 1 << 31;
const MISSED_COUNT: u64 = 1 << 30;
const BYTES: u64 = (1 << 27) - 1;

/// Where things are in pages and records.
#[derive(Debug)]
pub(super) struct Layout {
    time: Field,
    used: Field,
    data: Field,
    kind: Field,
    thread: Field,
    /// What records say, by their kind: the function is in this field.
    kinds: Vec<(u64, What, Field)>,
}

/// What a record says of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// It begins.
    Enter,
    /// It ends.
    Leave,
    /// It begins, and nothing will be said of its end.
    Call,
}

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    /// In nanoseconds.
    pub(super) time: u64,
    pub(super) thread: u32,
    pub(super) what: What,
    pub(super) address: u64,
}

impl Layout {
    /// By the text of `header_page`, and of the files `format` of `funcgraph_entry`, `funcgraph_exit` and `function`.
    pub(super) fn new(page: &str, records: [&str; 3]) -> Option<Self> {
        let page = Format::parse(page);
        let [begin, end, call] = records.map(Format::parse);
        let kind = |format: &Format, what: What, name: &str| {
            Some((u64::from(format.id?), what, format.field(name)?))
        };
        let kinds = [
            kind(&begin, What::Enter, "func"),
            kind(&end, What::Leave, "func"),
            kind(&call, What::Call, "ip"),
        ];
        Some(Self {
            time: page.field("timestamp")?,
            used: page.field("commit")?,
            data: page.field("data")?,
            // All records begin alike.
            kind: call.field("common_type")?,
            thread: call.field("common_pid")?,
            kinds: kinds.into_iter().flatten().collect(),
        })
    }

    /// How many bytes a page has.
    pub(super) fn size(&self) -> usize {
        self.data.offset.saturating_add(self.data.size)
    }

    /// Shows `each` what the records of a page say. If some are missing before it: their number, which is 0 if it isn't known, and when
    /// the page begins.
    pub(super) fn read(&self, page: &[u8], mut each: impl FnMut(Record)) -> Option<(u64, u64)> {
        let (begin, used) = (self.time.number(page)?, self.used.number(page)?);
        let data = page.get(self.data.offset..)?;
        let bytes = usize::try_from(used & BYTES).ok()?;
        let records = data.get(..bytes.min(data.len())).unwrap_or_default();
        let mut at = Cursor { records, at: 0, time: begin };
        while let Some((time, record)) = at.next() {
            if let Some(record) = self.record(time, record) {
                each(record);
            }
        }
        let count = Field { offset: bytes, size: size_of::<usize>() };
        let count = count.number(data).filter(|_| used & MISSED_COUNT != 0);
        (used & (MISSED | MISSED_COUNT) != 0).then(|| (count.unwrap_or(0), begin))
    }

    fn record(&self, time: u64, record: &[u8]) -> Option<Record> {
        let kind = self.kind.number(record)?;
        let (_, what, function) = self.kinds.iter().find(|(known, ..)| *known == kind)?;
        let thread = u32::try_from(self.thread.number(record)?).ok()?;
        Some(Record { time, thread, what: *what, address: function.number(record)? })
    }
}

/// A place among the records of a page.
struct Cursor<'p> {
    records: &'p [u8],
    at: usize,
    time: u64,
}

impl<'p> Cursor<'p> {
    /// The next record, and its time.
    fn next(&mut self) -> Option<(u64, &'p [u8])> {
        const LONGEST: u32 = 28;
        const PADDING: u32 = 29;
        const LATER: u32 = 30;
        const TIME: u32 = 31;
        /// Bits of a time that has a record of its own.
        const TIME_BITS: u64 = (1 << 59) - 1;
        loop {
            let at = self.at;
            let head = self.word(at)?;
            let (kind, since) = if cfg!(target_endian = "little") {
                (head & 31, u64::from(head >> 5))
            } else {
                (head >> 27, u64::from(head & ((1 << 27) - 1)))
            };
            // A word behind it, which the longer kinds have.
            let second = self.word(at + 4);
            let size = match kind {
                PADDING if since == 0 => return None,
                1..=LONGEST => 4 * usize::try_from(kind).ok()?,
                LATER | TIME => 4,
                _ => usize::try_from(second?).ok()?,
            };
            self.at = at.checked_add(size)?.checked_add(4)?.next_multiple_of(4);
            match kind {
                TIME => {
                    let time = u64::from(second?) << 27 | since;
                    self.time = self.time & !TIME_BITS | time & TIME_BITS;
                }
                LATER => self.time = self.time.wrapping_add(u64::from(second?) << 27 | since),
                _ => self.time = self.time.wrapping_add(since),
            }
            // The length of a long one counts itself.
            let begin = if kind == 0 { at + 8 } else { at + 4 };
            if kind <= LONGEST {
                return Some((self.time, self.records.get(begin..at + 4 + size)?));
            }
        }
    }

    fn word(&self, at: usize) -> Option<u32> {
        self.records.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    /// The beginning of each record.
    const COMMON: &str = "format:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

    fn layout() -> Layout {
        let format = |id: u32, fields: &str| format!("name: x\nID: {id}\n{COMMON}{fields}");
        // As Linux 6.12 has them: the end has its own times, the newest has the depth in 4 bytes, others in 8.
        let begin = "\tfield:unsigned long func;\toffset:8;\tsize:8;\tsigned:0;\n\
            \tfield:int depth;\toffset:16;\tsize:4;\tsigned:1;\n";
        let end = "\tfield:unsigned long func;\toffset:8;\tsize:8;\tsigned:0;\n\
            \tfield:int depth;\toffset:16;\tsize:4;\tsigned:1;\n\
            \tfield:unsigned long long calltime;\toffset:24;\tsize:8;\tsigned:0;\n";
        let call = "\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n\
            \tfield:unsigned long parent_ip;\toffset:16;\tsize:8;\tsigned:0;\n";
        let texts = [format(11, begin), format(10, end), format(1, call)];
        Layout::new(PAGE, [&texts[0], &texts[1], &texts[2]]).unwrap()
    }

    /// A page as the kernel writes it.
    struct Page {
        time: u64,
        last: u64,
        data: Vec<u8>,
    }

    impl Page {
        fn new(time: u64) -> Self {
            Self { time, last: time, data: Vec::new() }
        }

        fn word(&mut self, word: u32) {
            self.data.extend(word.to_ne_bytes());
        }

        fn head(&mut self, kind: u32, since: u64) {
            let since = u32::try_from(since).unwrap();
            let big = cfg!(target_endian = "big");
            self.word(if big { kind << 27 | since } else { since << 5 | kind });
        }

        /// A record, with a time of its own before it if it's far from the last one.
        fn add(&mut self, time: u64, record: &[u8]) {
            let mut since = time - self.last;
            if since >> 27 != 0 {
                self.head(30, since & ((1 << 27) - 1));
                self.word(u32::try_from(since >> 27).unwrap());
                since = 0;
            }
            self.last = time;
            if record.len() > 4 * 28 {
                self.head(0, since);
                self.word(u32::try_from(record.len() + 4).unwrap());
            } else {
                self.head(u32::try_from(record.len().div_ceil(4)).unwrap(), since);
            }
            self.data.extend(record);
            self.data.resize(self.data.len().next_multiple_of(4), 0);
        }

        fn bytes(&self, flags: u64, behind: &[u8]) -> Vec<u8> {
            let used = self.data.len() as u64 | flags;
            let mut bytes = [self.time.to_ne_bytes(), used.to_ne_bytes()].concat();
            bytes.extend(&self.data);
            bytes.extend(behind);
            bytes.resize(4096, 0);
            bytes
        }
    }

    fn begun(kind: u16, thread: u32, address: u64, rest: usize) -> Vec<u8> {
        let mut bytes = [&kind.to_ne_bytes()[..], &[0, 0], &thread.to_ne_bytes()].concat();
        bytes.extend(address.to_ne_bytes());
        bytes.resize(bytes.len() + rest, 7);
        bytes
    }

    fn records(page: &[u8]) -> (Vec<Record>, Option<(u64, u64)>) {
        let mut found = Vec::new();
        let missed = layout().read(page, |record| found.push(record));
        (found, missed)
    }

    /// Random records come back as they were put in, whatever is between them, and whatever the page says is missing.
    #[test]
    fn records_come_back_as_they_were_written() {
        let mut random = testkit::damage::Random::new();
        let mut below = |count: u64| random.below(usize::try_from(count).unwrap()) as u64;
        for _ in 0..200 {
            let mut page = Page::new(1_000_000 + below(1 << 40));
            let mut expected = Vec::new();
            let mut time = page.time;
            while page.data.len() < 3_500 {
                time += if below(8) == 0 { below(1 << 34) } else { below(2_000) };
                let (thread, address) = (u32::try_from(below(1 << 22)).unwrap(), below(u64::MAX));
                let (kind, what, rest) = match below(3) {
                    0 => (11, What::Enter, 4),
                    1 => (10, What::Leave, 24),
                    _ => (1, What::Call, 8 * usize::try_from(below(20)).unwrap()),
                };
                match below(6) {
                    // A record that isn't about functions, one that was taken back, and a time that is whole.
                    0 => page.add(time, &begun(5, thread, address, 40)),
                    1 => {
                        let since = below(100) + 1;
                        page.head(29, since);
                        page.word(8);
                        page.word(0);
                        (time, page.last) = (time.max(page.last + since), page.last + since);
                    }
                    2 => {
                        page.head(31, time & ((1 << 27) - 1));
                        page.word(u32::try_from(time >> 27 & 0xffff_ffff).unwrap());
                        page.last = time;
                    }
                    _ => {
                        page.add(time, &begun(kind, thread, address, rest));
                        expected.push(Record { time, thread, what, address });
                    }
                }
            }
            assert_eq!(records(&page.bytes(0, &[])), (expected.clone(), None));
            let count = below(1 << 40);
            let bytes = page.bytes(MISSED | MISSED_COUNT, &count.to_ne_bytes());
            assert_eq!(records(&bytes), (expected.clone(), Some((count, page.time))));
            assert_eq!(records(&page.bytes(MISSED, &[1])), (expected, Some((0, page.time))));
        }
    }

    #[test]
    fn nothing_follows_the_end_of_a_page() {
        let mut page = Page::new(5);
        page.add(7, &begun(1, 8, 9, 8));
        let first = Record { time: 7, thread: 8, what: What::Call, address: 9 };
        page.head(29, 0);
        page.add(8, &begun(1, 8, 9, 8));
        assert_eq!(records(&page.bytes(0, &[])), (vec![first], None));
    }

    /// Whatever is in a page, reading it ends, and finds no more than the page has room for.
    #[test]
    fn hostile_pages_end() {
        let mut random = testkit::damage::Random::new();
        let mut page = Page::new(5);
        for time in 0..100 {
            page.add(7 + time, &begun(11, 8, 9, 4));
        }
        let whole = page.bytes(0, &[]);
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len());
                bytes[at] = u8::try_from(random.below(256)).unwrap();
            }
            bytes.truncate(random.below(bytes.len() + 1));
            assert!(records(&bytes).0.len() <= bytes.len() / 4);
        }
        let longest =
            [&u64::MAX.to_ne_bytes()[..], &u64::MAX.to_ne_bytes(), &[0xff; 4080]].concat();
        assert!(records(&longest).0.is_empty());
    }

    #[test]
    fn layouts_that_lack_something_are_none() {
        assert!(Layout::new("", [COMMON; 3]).is_none());
        assert!(Layout::new(PAGE, [""; 3]).is_none());
        assert!(Layout::new(PAGE, [COMMON; 3]).unwrap().kinds.is_empty());
        assert_eq!(layout().size(), 4096);
    }
}
