//! What `.eh_frame` says: where functions begin and end, where the return address is, and which exceptions are caught where.
//!
//! Source: LSB Core 5.0, 10.6 ("Exception Frames"); Itanium C++ ABI, "Exception Handling Tables" for `.gcc_except_table`;
//! DWARF for the Arm 64-bit Architecture, 4.1, for `RA_SIGN_STATE`.

use super::image::Image;
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameOffset, EndianSlice, LittleEndian, Register,
    RegisterRule, UnwindContext, UnwindContextStorage, UnwindSection, UnwindTableRow, Vendor,
};
use mcount_cpu::probe::{Probes, Returns, Rules};

type Slice<'d> = EndianSlice<'d, LittleEndian>;
/// Bit 0 of it says whether the return address is signed.
const SIGN_STATE: Register = gimli::AArch64::RA_SIGN_STATE;

type Entry<'d> = gimli::FrameDescriptionEntry<Slice<'d>>;

/// Where rows are kept while they're computed. What gimli takes has room for the rules of 192 registers, and is copied for each row. A row
/// with more than 64 can't be read.
#[derive(Debug)]
pub(super) struct Small;

impl UnwindContextStorage<usize> for Small {
    type Rules = [(Register, RegisterRule<usize>); 64];
    type Stack = Box<[UnwindTableRow<usize, Self>; 4]>;
}

/// What computing rows takes. To make one takes as long as some functions' rows.
pub(super) type Context = UnwindContext<usize, Small>;

/// An entry of `.eh_frame`: what is known of a range of code.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Where its table of exceptions is.
    pub(super) exceptions: Option<u64>,
    /// A signal handler returns there.
    pub(super) is_signal: bool,
    /// Where the entry is in its section.
    offset: usize,
}

impl Frame {
    /// What no other entry has.
    pub(super) fn id(&self) -> usize {
        self.offset
    }
}

/// A row of the unwind information: how to find the caller's frame from an address on.
///
/// Registers have the numbers of DWARF. Those that aren't in `saved` still have the caller's value, or it is lost, and the caller
/// doesn't need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Where it begins: bytes from the probe's entry.
    pub offset: usize,
    /// The canonical frame address (CFA) is this register plus this number of bytes.
    pub cfa: (u16, i64),
    /// Where callers' registers are saved: bytes from the CFA. That of the return address is among them, unless it's still where
    /// the call has put it.
    pub saved: Vec<(u16, i64)>,
    /// The return address is signed (AArch64).
    pub is_signed: bool,
}

/// `.eh_frame`.
#[derive(Debug)]
pub(super) struct Unwind<'d> {
    processor: &'static Probes,
    section: EhFrame<Slice<'d>>,
    bases: BaseAddresses,
    /// By start.
    pub(super) frames: Vec<Frame>,
    /// The rest of the section couldn't be read.
    pub(super) is_damaged: bool,
}

impl<'d> Unwind<'d> {
    pub(super) fn read(image: &Image<'d>) -> Self {
        let (address, bytes) = image.frames;
        let mut section = EhFrame::new(bytes, LittleEndian);
        section.set_address_size(8);
        section.set_vendor(Vendor::AArch64);
        let bases = BaseAddresses::default().set_eh_frame(address);
        let processor = image.processor;
        let mut unwind = Self { processor, section, bases, frames: Vec::new(), is_damaged: false };
        unwind.read_frames(image);
        unwind.frames.sort_by_key(|frame| (frame.start, std::cmp::Reverse(frame.end)));
        unwind
    }

    fn read_frames(&mut self, image: &Image<'d>) {
        let (section, bases) = (self.section, self.bases.clone());
        let mut entries = section.entries(&bases);
        loop {
            match entries.next() {
                Ok(Some(CieOrFde::Fde(partial))) => {
                    let Ok(entry) = partial.parse(EhFrame::cie_from_offset) else {
                        self.is_damaged = true;
                        continue;
                    };
                    self.add(image, &entry);
                }
                Ok(Some(CieOrFde::Cie(_))) => {}
                Ok(None) => return,
                Err(_) => {
                    self.is_damaged = true;
                    return;
                }
            }
        }
    }

    fn add(&mut self, image: &Image<'d>, entry: &Entry<'d>) {
        let start = entry.initial_address();
        let Some(end) = start.checked_add(entry.len()) else {
            self.is_damaged = true;
            return;
        };
        // An entry of a function that the linker dropped begins nowhere.
        if entry.len() == 0 || !image.is_code(start) {
            return;
        }
        let exceptions = entry.lsda().map(|pointer| match pointer {
            gimli::Pointer::Direct(at) => at,
            gimli::Pointer::Indirect(at) => super::image::word(image.at(at), 0),
        });
        let (is_signal, offset) = (entry.is_signal_trampoline(), entry.offset());
        self.frames.push(Frame { start, end, exceptions, is_signal, offset });
    }

    /// The rows of `frame`, as far as they concern the stack. `None` if they can't be read.
    pub(super) fn rules(&self, frame: &Frame, context: &mut Context) -> Option<Vec<Rules>> {
        let calls = self.processor.calls;
        let mut found: Vec<Rules> = Vec::new();
        self.walk(frame, context, |row| {
            let cfa = match row.cfa() {
                CfaRule::RegisterAndOffset { register, offset } => Some((register.0, *offset)),
                CfaRule::Expression(_) => None,
            };
            let returns = match row.register(Register(calls.return_address)) {
                Some(RegisterRule::Offset(offset)) => Returns::At(offset),
                Some(RegisterRule::Undefined) => Returns::Nowhere,
                None | Some(RegisterRule::SameValue) if calls.returns == Returns::InRegister => {
                    Returns::InRegister
                }
                _ => Returns::Elsewhere,
            };
            found.push(Rules { start: row.start_address(), end: row.end_address(), cfa, returns });
            Some(())
        })?;
        Some(found)
    }

    /// The rows of `frame` that hold between two addresses, with offsets from the first. `None` if that's more than registers that
    /// are saved in the frame.
    pub(super) fn rows(
        &self,
        frame: &Frame,
        (start, end): (u64, u64),
        context: &mut Context,
    ) -> Result<Vec<Row>, u64> {
        let mut found = Vec::new();
        let mut failed = start;
        let walked = self.walk(frame, context, |row| {
            let from = row.start_address().max(start);
            if row.end_address() <= start || from >= end {
                return Some(());
            }
            failed = from;
            let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
            let cfa = (register.0, *offset);
            let offset = usize::try_from(from - start).ok()?;
            let (mut saved, mut is_signed) = (Vec::new(), false);
            for (register, rule) in row.registers() {
                match rule {
                    RegisterRule::Constant(state) if *register == SIGN_STATE => {
                        is_signed = *state & 1 == 1;
                    }
                    RegisterRule::Offset(offset) => saved.push((register.0, *offset)),
                    RegisterRule::Undefined | RegisterRule::SameValue => {}
                    _ => return None,
                }
            }
            saved.sort_unstable();
            found.push(Row { offset, cfa, saved, is_signed });
            Some(())
        });
        // Equal neighbours are one.
        found.dedup_by(|next, row| {
            (next.cfa, &next.saved, next.is_signed) == (row.cfa, &row.saved, row.is_signed)
        });
        walked.map(|()| found).ok_or(failed)
    }

    /// Shows `look` the rows of `frame`, until it returns `None`. `None` if it does, or if they can't be read.
    fn walk(
        &self,
        frame: &Frame,
        context: &mut Context,
        mut look: impl FnMut(&UnwindTableRow<usize, Small>) -> Option<()>,
    ) -> Option<()> {
        let offset = EhFrameOffset(frame.offset);
        let cie = EhFrame::cie_from_offset;
        let entry = self.section.fde_from_offset(&self.bases, offset, cie).ok()?;
        let mut rows = entry.rows(&self.section, &self.bases, context).ok()?;
        while let Some(row) = rows.next_row().ok()? {
            look(row)?;
        }
        Some(())
    }

    /// The last frame that begins at or before `address`, if it also covers that.
    pub(super) fn frame_at(&self, address: u64) -> Option<&Frame> {
        let after = self.frames.partition_point(|frame| frame.start <= address);
        let frame = self.frames.get(after.checked_sub(1)?)?;
        (address < frame.end).then_some(frame)
    }
}

/// A range of code whose exceptions are looked up together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallSite {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Where they are caught.
    pub(super) pad: Option<u64>,
}

/// The call sites of the exception table of `frame`. `None` if it can't be read.
pub(super) fn call_sites(image: &Image<'_>, frame: &Frame) -> Option<Vec<CallSite>> {
    let Some(at) = frame.exceptions.filter(|at| *at != 0) else { return Some(Vec::new()) };
    let mut table = Reader { rest: image.at(at), at };
    let base = match table.byte()? {
        OMITTED => frame.start,
        encoding => table.pointer(encoding)?,
    };
    if table.byte()? != OMITTED {
        table.uleb128()?;
    }
    let encoding = table.byte()?;
    let size = usize::try_from(table.uleb128()?).ok()?;
    let mut sites = Reader { rest: table.rest.get(..size)?, at: table.at };
    let mut found = Vec::new();
    while !sites.rest.is_empty() {
        let [start, length, pad] = [(); 3].map(|()| sites.number(encoding));
        sites.uleb128()?;
        let start = frame.start.checked_add(start?)?;
        let pad = Some(pad?).filter(|pad| *pad != 0).map(|pad| base.wrapping_add(pad));
        found.push(CallSite { start, end: start.checked_add(length?)?, pad });
    }
    Some(found)
}

/// `DW_EH_PE_omit`.
const OMITTED: u8 = 0xff;

/// Bytes of a table, read one after the other.
struct Reader<'d> {
    rest: &'d [u8],
    at: u64,
}

impl Reader<'_> {
    fn take<const SIZE: usize>(&mut self) -> Option<[u8; SIZE]> {
        let (first, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        self.at = self.at.wrapping_add(SIZE as u64);
        Some(*first)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    fn uleb128(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A number in a form (`DW_EH_PE_*`) that has no sign.
    fn number(&mut self, encoding: u8) -> Option<u64> {
        match encoding & 0xf {
            1 => self.uleb128(),
            2 => self.take().map(|bytes| u64::from(u16::from_le_bytes(bytes))),
            3 => self.take().map(|bytes| u64::from(u32::from_le_bytes(bytes))),
            0 | 4 => self.take().map(u64::from_le_bytes),
            _ => None,
        }
    }

    /// An address: from here, or absolute.
    fn pointer(&mut self, encoding: u8) -> Option<u64> {
        let here = self.at;
        let value = match encoding & 0xf {
            0xb => self.take().map(|bytes| i64::from(i32::from_le_bytes(bytes)).cast_unsigned())?,
            0xc => self.take().map(u64::from_le_bytes)?,
            _ => self.number(encoding)?,
        };
        match encoding & 0xf0 {
            0 => Some(value),
            0x10 => Some(here.wrapping_add(value)),
            _ => None,
        }
    }
}
