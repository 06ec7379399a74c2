//! Moves functions of a file into room that it has for stubs, so that the file itself shows whether that was right.

use mcount_hooks::probe::{JUMP, relocate};
use object::{Object, ObjectSegment, ObjectSymbol};

/// Bytes of a stub.
const STUB: u64 = 96;

/// A program with room for stubs.
pub(crate) struct Program {
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
    pub(crate) fn new(bytes: Vec<u8>, is_traced: bool) -> Self {
        let file = object::File::parse(&*bytes).unwrap();
        let segments = file.segments().map(|one| {
            let (offset, size) = one.file_range();
            (one.address(), size, offset)
        });
        let segments = segments.collect();
        let [stubs, enter] =
            ["probe_stubs", "probe_enter"].map(|name| address(&bytes, name).unwrap());
        Self { is_traced, stubs, enter, used: 0, segments, bytes }
    }

    fn place(&mut self, address: u64, length: usize) -> &mut [u8] {
        let is_in = |(start, size, _): &&(u64, u64, u64)| (*start..start + size).contains(&address);
        let (start, _, offset) = *self.segments.iter().find(is_in).unwrap();
        let from = usize::try_from(offset + address - start).unwrap();
        &mut self.bytes[from..from + length]
    }

    /// Moves `moved` bytes at `entry` into a stub, and has a jump and traps in their place.
    pub(crate) fn probe(&mut self, entry: u64, moved: usize, replaced: usize) -> bool {
        let stub = self.stubs + self.used;
        self.used += STUB;
        let call = if self.is_traced { JUMP as u64 } else { 0 };
        let old = self.place(entry, moved).to_vec();
        let Ok(new) = relocate(&old, entry, stub + call) else { return false };
        let mut code = Vec::new();
        if self.is_traced {
            code.push(0xe8);
            code.extend(distance(stub + 5, self.enter));
        }
        code.extend(&new.code);
        assert!(code.len() as u64 <= STUB);
        self.place(stub, code.len()).copy_from_slice(&code);
        let mut jump = vec![0xcc; replaced];
        jump[0] = 0xe9;
        jump[1..JUMP].copy_from_slice(&distance(entry + 5, stub));
        self.place(entry, replaced).copy_from_slice(&jump);
        true
    }
}

fn distance(from: u64, to: u64) -> [u8; 4] {
    i32::try_from(to.wrapping_sub(from).cast_signed()).unwrap().to_le_bytes()
}
