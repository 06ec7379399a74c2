//! Moves functions of a file into room that it has for stubs, so that the file itself shows whether that was right.

use mcount_cpu::probe::Probes;
use object::{Object, ObjectSegment, ObjectSymbol};

/// Bytes of a stub.
const STUB: u64 = 96;

/// A program with room for stubs.
pub(crate) struct Program {
    probes: &'static Probes,
    pub(crate) bytes: Vec<u8>,
    /// Whether stubs count calls, and have functions return to the tracer.
    pub(crate) is_traced: bool,
    stubs: u64,
    enter: u64,
    used: u64,
    /// Address, size and place in the file of each segment.
    segments: Vec<(u64, u64, u64)>,
}

/// The address of a symbol.
pub(crate) fn address(file: &[u8], name: &str) -> Option<u64> {
    let file = object::File::parse(file).unwrap();
    let mut symbols = file.symbols();
    symbols.find(|symbol| symbol.name() == Ok(name)).map(|symbol| symbol.address())
}

impl Program {
    pub(crate) fn new(probes: &'static Probes, bytes: Vec<u8>, is_traced: bool) -> Self {
        let file = object::File::parse(&*bytes).unwrap();
        let segments = file.segments().map(|one| {
            let (offset, size) = one.file_range();
            (one.address(), size, offset)
        });
        let segments = segments.collect();
        let [stubs, enter] =
            ["probe_stubs", "probe_enter"].map(|name| address(&bytes, name).unwrap());
        Self { probes, is_traced, stubs, enter, used: 0, segments, bytes }
    }

    fn place(&mut self, address: u64, length: usize) -> &mut [u8] {
        let is_in = |(start, size, _): &&(u64, u64, u64)| (*start..start + size).contains(&address);
        let (start, _, offset) = *self.segments.iter().find(is_in).unwrap();
        let from = usize::try_from(offset + address - start).unwrap();
        &mut self.bytes[from..from + length]
    }

    /// Where the function at `start` has its probe.
    pub(crate) fn entry(&mut self, start: u64) -> u64 {
        let entry = self.probes.entry;
        entry(self.place(start, 8), start).at
    }

    /// Moves `moved` bytes at `entry` into a stub, and has a jump and traps in their place.
    pub(crate) fn probe(&mut self, entry: u64, moved: usize, replaced: usize) -> bool {
        let stub = self.stubs + self.used;
        self.used += STUB;
        let head = match (self.is_traced, self.probes.jump) {
            (false, _) => Vec::new(),
            (true, 4) => self.call_of_words(entry, stub),
            (true, _) => [&[0xe8][..], &distance(stub + 5, self.enter)].concat(),
        };
        let old = self.place(entry, moved).to_vec();
        let relocate = self.probes.relocate;
        let Ok(new) = relocate(&old, entry, stub + head.len() as u64) else { return false };
        let code = [head, new.code].concat();
        assert!(code.len() as u64 <= STUB);
        self.place(stub, code.len()).copy_from_slice(&code);
        let jump = if self.probes.jump == 4 {
            branch(0x1400_0000, entry, stub).to_vec()
        } else {
            let mut jump = vec![0xcc; replaced];
            jump[0] = 0xe9;
            jump[1..5].copy_from_slice(&distance(entry + 5, stub));
            jump
        };
        self.place(entry, replaced).copy_from_slice(&jump);
        true
    }

    /// The call of the tracer in a stub for AArch64: the return address without a signature, and then with one again.
    fn call_of_words(&mut self, entry: u64, stub: u64) -> Vec<u8> {
        let before: [u8; 4] = self.place(entry - 4, 4).try_into().unwrap();
        let (check, sign) = match u32::from_le_bytes(before) {
            sign @ 0xd503_233f => (Some(0xd503_23bf_u32), Some(sign)),
            sign @ 0xd503_237f => (Some(0xd503_23ff), Some(sign)),
            _ => (None, None),
        };
        let mut code: Vec<u8> = check.into_iter().flat_map(u32::to_le_bytes).collect();
        code.extend(0xa9bf_7bf0_u32.to_le_bytes()); // stp x16, x30, [sp, #-16]!
        code.extend(branch(0x9400_0000, stub + code.len() as u64, self.enter));
        code.extend(0xa8c1_7bf0_u32.to_le_bytes()); // ldp x16, x30, [sp], #16
        code.extend(sign.into_iter().flat_map(u32::to_le_bytes));
        code
    }
}

fn distance(from: u64, to: u64) -> [u8; 4] {
    i32::try_from(to.wrapping_sub(from).cast_signed()).unwrap().to_le_bytes()
}

/// `b` or `bl`.
fn branch(opcode: u32, from: u64, to: u64) -> [u8; 4] {
    let words = i32::from_le_bytes(distance(from, to)) / 4;
    (opcode | words.cast_unsigned() & 0x03ff_ffff).to_le_bytes()
}
