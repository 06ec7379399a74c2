//! Which functions a thread that stands is in, and will return to: its stack, by unwind information (`.eh_frame`; Linux
//! Standard Base, "Exception Frames"), read from the modules' files, since the process may say anything.
//!
//! Code without unwind information ends that. Then each word above on that stack that may be a return address counts as
//! one: better wait for nothing than change a function that a thread is in.

use super::super::maps::{self, Mapping};
use super::arch::{COUNT, PLACE, RESTORER, RETURN, STACK, VENDOR, plain, registers};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EhFrameOffset, Encoding, EndianSlice, Evaluation,
    EvaluationResult, Expression, Format, FrameDescriptionEntry, LittleEndian, Location, Register,
    RegisterRule, UnwindContext, UnwindSection, Value,
};
use mcount_ptrace::{GeneralRegisters, Memory};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection};

type Slice<'d> = EndianSlice<'d, LittleEndian>;

/// Frames of one stack that are looked at.
const MOST_FRAMES: usize = 20_000;
/// Bytes of one stack that are searched.
const MOST_BYTES: u64 = 64 << 20;

/// A place that a thread is at, or will come back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) address: u64,
    /// Exactly there; else it returns there, and the call is before it.
    pub(super) is_exact: bool,
    /// It's only a word on the stack that looks like it.
    pub(super) is_guess: bool,
}

/// The unwind information of one module.
pub(super) struct Tables<'d> {
    /// Its first address, and that behind its last.
    extent: (u64, u64),
    bias: u64,
    frames: EhFrame<Slice<'d>>,
    /// And how many bytes it has.
    index: Option<(EhFrameHdr<Slice<'d>>, usize)>,
    bases: BaseAddresses,
}

impl<'d> Tables<'d> {
    /// That of a file whose load bias is `bias`.
    pub(super) fn of(bytes: &'d [u8], bias: u64, extent: (u64, u64)) -> Option<Self> {
        let file = ElfFile64::<Endianness, &'d [u8]>::parse(bytes).ok()?;
        let section = file.section_by_name(".eh_frame")?;
        let mut frames = EhFrame::new(section.data().ok()?, LittleEndian);
        frames.set_address_size(8);
        frames.set_vendor(VENDOR);
        let mut bases = BaseAddresses::default().set_eh_frame(section.address());
        if let Some(text) = file.section_by_name(".text") {
            bases = bases.set_text(text.address());
        }
        let header = file.section_by_name(".eh_frame_hdr");
        let index = header.and_then(|header| {
            bases = std::mem::take(&mut bases).set_eh_frame_hdr(header.address());
            let data = header.data().ok()?;
            Some((EhFrameHdr::new(data, LittleEndian), data.len()))
        });
        Some(Self { extent, bias, frames, index, bases })
    }

    /// Unwind information that's at `address`, without a file.
    pub(super) fn alone(bytes: &'d [u8], address: u64, extent: (u64, u64)) -> Self {
        let mut frames = EhFrame::new(bytes, LittleEndian);
        frames.set_address_size(8);
        frames.set_vendor(VENDOR);
        let bases = BaseAddresses::default().set_eh_frame(address);
        Self { extent, bias: 0, frames, index: None, bases }
    }

    fn entry(&self, address: u64) -> Option<FrameDescriptionEntry<Slice<'d>>> {
        self.entry_by_index(address).or_else(|| {
            self.frames.fde_for_address(&self.bases, address, EhFrame::cie_from_offset).ok()
        })
    }

    /// By the sorted table of the file, which may say anything: the crate counts with what it reads there.
    fn entry_by_index(&self, address: u64) -> Option<FrameDescriptionEntry<Slice<'d>>> {
        let (header, size) = self.index.as_ref()?;
        let header = header.parse(&self.bases, 8).ok()?;
        let table = header.table()?;
        if table.iter(&self.bases).size_hint().0 > *size {
            return None;
        }
        let place = table.lookup(address, &self.bases).ok()?.direct().ok()?;
        let start = header.eh_frame_ptr().direct().ok()?;
        let offset = usize::try_from(place.checked_sub(start)?).ok()?;
        let offset = EhFrameOffset(offset);
        let entry = self.frames.fde_from_offset(&self.bases, offset, EhFrame::cie_from_offset);
        entry.ok().filter(|entry| entry.contains(address))
    }
}

/// All that's needed to look at stacks.
pub(super) struct Unwinder<'d> {
    pub(super) memory: &'d Memory,
    pub(super) tables: Vec<Tables<'d>>,
}

/// The registers of a frame, as far as they're known.
#[derive(Debug, Clone, Copy)]
struct State {
    registers: [Option<u64>; COUNT],
    /// The address is that of an instruction, not after a call.
    is_exact: bool,
}

impl State {
    fn of(registers: &GeneralRegisters) -> Self {
        Self { registers: self::registers(registers.words()).map(Some), is_exact: true }
    }

    fn get(&self, place: usize) -> Option<u64> {
        self.registers.get(place).copied().flatten()
    }

    fn set(&mut self, place: usize, value: u64) {
        if let Some(room) = self.registers.get_mut(place) {
            *room = Some(value);
        }
    }
}

/// How far one step led.
enum Step {
    Caller(Box<State>),
    /// That was the outermost frame.
    End,
    /// It's unknown.
    Unknown,
}

impl Unwinder<'_> {
    /// All places where a thread with these registers is, or comes back to.
    pub(super) fn frames(&self, registers: &GeneralRegisters, maps: &[Mapping]) -> Vec<Frame> {
        let mut state = State::of(registers);
        let mut found = Vec::new();
        loop {
            let Some(address) = state.get(PLACE) else { return found };
            found.push(Frame { address, is_exact: state.is_exact, is_guess: false });
            let before = state.get(STACK).unwrap_or(0);
            match self.step(&state) {
                Step::End => return found,
                // A stack only ends once; frames may be on several, when a signal came.
                Step::Caller(next)
                    if found.len() < MOST_FRAMES && next.get(STACK) != Some(before) =>
                {
                    state = *next;
                }
                _ => {
                    self.guess(before, maps, &mut found);
                    return found;
                }
            }
        }
    }

    /// All words from `start` to the end of the stack that may be addresses of code.
    fn guess(&self, start: u64, maps: &[Mapping], found: &mut Vec<Frame>) {
        let words = words(self.memory, start, maps);
        let is_code = |word: &u64| maps::find(maps, *word).is_some_and(Mapping::is_code);
        let guesses = words.into_iter().filter(is_code);
        found.extend(guesses.map(|address| Frame { address, is_exact: false, is_guess: true }));
    }

    /// The frame that called the one in `state`.
    fn step(&self, state: &State) -> Step {
        self.interrupted(state).or_else(|| self.caller(state)).unwrap_or(Step::Unknown)
    }

    /// The interrupted code of a signal handler that returns to `state`, where no unwind information names
    /// it.
    fn interrupted(&self, state: &State) -> Option<Step> {
        let restorer = RESTORER?;
        let mut found = restorer.code.map(|_| 0);
        self.memory.read(state.get(PLACE)?, &mut found).ok().filter(|()| found == restorer.code)?;
        let words =
            self.memory.words(state.get(STACK)?.checked_add(restorer.registers)?, COUNT).ok()?;
        let registers = <[u64; COUNT]>::try_from(words).ok()?.map(Some);
        Some(Step::Caller(Box::new(State { registers, is_exact: true })))
    }

    fn caller(&self, state: &State) -> Option<Step> {
        let at = state.get(PLACE)?;
        let within = if state.is_exact { at } else { at.checked_sub(1)? };
        let tables =
            self.tables.iter().find(|one| (one.extent.0..one.extent.1).contains(&within))?;
        let address = within.wrapping_sub(tables.bias);
        let entry = tables.entry(address)?;
        let mut context = UnwindContext::new();
        let row = entry
            .unwind_info_for_address(&tables.frames, &tables.bases, &mut context, address)
            .ok()?;
        let encoding = entry.cie().encoding();
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                state.get(usize::from(register.0))?.wrapping_add_signed(*offset)
            }
            CfaRule::Expression(expression) => {
                self.evaluate(expression.get(&tables.frames).ok()?, encoding, state, None)?
            }
        };
        let mut next = State { registers: [None; COUNT], is_exact: entry.is_signal_trampoline() };
        for (number, room) in next.registers.iter_mut().enumerate() {
            let register = Register(u16::try_from(number).ok()?);
            *room = match row.register(register) {
                Some(RegisterRule::Undefined) if number == RETURN => return Some(Step::End),
                Some(RegisterRule::Offset(offset)) => {
                    self.memory.word(cfa.wrapping_add_signed(offset)).ok()
                }
                Some(RegisterRule::ValOffset(offset)) => Some(cfa.wrapping_add_signed(offset)),
                Some(RegisterRule::Register(other)) => state.get(usize::from(other.0)),
                Some(RegisterRule::Expression(expression)) => {
                    let expression = expression.get(&tables.frames).ok()?;
                    let at = self.evaluate(expression, encoding, state, Some(cfa));
                    at.and_then(|at| self.memory.word(at).ok())
                }
                Some(RegisterRule::ValExpression(expression)) => {
                    let expression = expression.get(&tables.frames).ok()?;
                    self.evaluate(expression, encoding, state, Some(cfa))
                }
                None if number == STACK => Some(cfa),
                None | Some(RegisterRule::SameValue) if number != PLACE => state.get(number),
                _ => None,
            };
        }
        let back = plain(next.get(RETURN)?);
        for place in [RETURN, PLACE] {
            next.set(place, back);
        }
        match back {
            0 => Some(Step::End),
            _ => Some(Step::Caller(Box::new(next))),
        }
    }

    /// The value of an expression, begun with `first` on its stack.
    fn evaluate(
        &self,
        expression: Expression<Slice<'_>>,
        encoding: Encoding,
        state: &State,
        first: Option<u64>,
    ) -> Option<u64> {
        const STEPS: u32 = 1_000;
        let encoding = Encoding { format: Format::Dwarf32, ..encoding };
        let mut evaluation: Evaluation<Slice<'_>> = expression.evaluation(encoding);
        evaluation.set_max_iterations(STEPS);
        if let Some(first) = first {
            evaluation.set_initial_value(first);
        }
        let mut result = evaluation.evaluate().ok()?;
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresMemory { address, size, .. } => {
                    let mut bytes = [0; 8];
                    let room = bytes.get_mut(..usize::from(size))?;
                    self.memory.read(address, room).ok()?;
                    evaluation.resume_with_memory(Value::Generic(u64::from_le_bytes(bytes))).ok()?
                }
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = state.get(usize::from(register.0))?;
                    evaluation.resume_with_register(Value::Generic(value)).ok()?
                }
                _ => return None,
            };
        }
        match evaluation.result().first()?.location {
            Location::Address { address } => Some(address),
            Location::Value { value } => value.to_u64(u64::MAX).ok(),
            _ => None,
        }
    }
}

/// The words of a stack from `start` on.
pub(super) fn words(memory: &Memory, start: u64, maps: &[Mapping]) -> Vec<u64> {
    let start = start & !7;
    let Some(map) = maps::find(maps, start) else { return Vec::new() };
    let end = map.end.min(start.saturating_add(MOST_BYTES));
    let mut bytes = vec![0; usize::try_from(end - start).unwrap_or(0)];
    if memory.read(start, &mut bytes).is_err() {
        return Vec::new();
    }
    bytes.as_chunks().0.iter().map(|word| plain(u64::from_le_bytes(*word))).collect()
}
