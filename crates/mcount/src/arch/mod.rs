//! What a call site looks like, on each processor: data first, one file a processor.
//!
//! An [`Arch`] says "relocation type 4 on byte `e8` is a call, recorded one byte before it" without
//! knowing what a file is. To add a processor: write its file, name it in [`ALL`], add a prebuilt
//! object and a row in `docs/arches.md` (CONTRIBUTING.md walks through one).

mod aarch64;
mod arm;
mod csky;
pub(crate) mod decode;
mod i386;
mod loongarch;
mod microblaze;
mod micromips;
mod mips;
mod nds32;
mod parisc;
mod powerpc;
mod powerpc64;
mod riscv;
mod s390;
mod sh;
mod sparc;
mod x86_64;

use self::decode::{Branch, Decode};
use crate::site::Kind;

/// Every processor, in the order of ARCHES.md.
pub(crate) static ALL: &[&Arch] = &[
    &x86_64::ARCH,
    &i386::ARCH,
    &arm::ARCH,
    &aarch64::ARCH,
    &aarch64::ILP32,
    &riscv::ARCH,
    &powerpc::ARCH,
    &powerpc64::ARCH,
    &s390::ARCH,
    &mips::ARCH,
    &sparc::ARCH64,
    &sparc::ARCH32,
    &sparc::ARCH32PLUS,
    &sh::ARCH,
    &loongarch::ARCH,
    &microblaze::ARCH,
    &csky::ARCH,
    &parisc::ARCH,
    &nds32::ARCH,
];

/// The processor of `e_machine` `machine` with addresses of `word` bytes.
///
/// # Errors
///
/// `Err(Some(name))` where the processor is known but not in this class, `Err(None)` otherwise.
pub(crate) fn find(machine: u16, word: u64) -> Result<&'static Arch, Option<&'static str>> {
    let mut known = None;
    for arch in ALL.iter().filter(|arch| arch.machine == machine) {
        if arch.address(word).is_some() {
            return Ok(arch);
        }
        known = Some(arch.name);
    }
    Err(known)
}

/// One processor.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Arch {
    /// Name, as GNU triplets spell it.
    pub(crate) name: &'static str,
    /// `e_machine`.
    pub(crate) machine: u16,
    /// The names of the hook symbols that compilers call.
    pub(crate) hooks: &'static [&'static str],
    /// What a call looks like; the first form that fits a relocation decides.
    pub(crate) forms: &'static [Form],
    /// The relocation of a table entry in ELFCLASS32 and in ELFCLASS64.
    pub(crate) address_32: Option<u32>,
    pub(crate) address_64: Option<u32>,
    /// Other relocations that store an address: of data that need not be aligned.
    pub(crate) unaligned_addresses: &'static [u32],
    /// The bits of a relocation's type that are the type.
    pub(crate) type_mask: u32,
    /// The byte order of instructions.
    pub(crate) code: CodeOrder,
    /// An `e_flags` bit that says: instructions are little endian, whatever the data is.
    pub(crate) little_endian_code_flag: u32,
    /// The linker deletes bytes of code: a table entry must be a label.
    pub(crate) relaxes: bool,
    /// Relocations without which it deletes nothing from a section; empty if nothing says so.
    pub(crate) relax_marks: &'static [u32],
    /// Instructions begin at multiples of this many bytes.
    pub(crate) code_step: u64,
    /// An address in data may be at any address.
    pub(crate) reads_unaligned: bool,
    /// Objects of ELFCLASS32 keep addends in the section (REL).
    pub(crate) rel_32: bool,
    /// What code addresses data by: the first of these symbols or sections that an image has, and
    /// bytes from there.
    pub(crate) data_bases: &'static [(&'static str, u64)],
    /// The tag of the dynamic section that has what code addresses data by, with or without symbols.
    pub(crate) data_base_tag: Option<u64>,
    /// Tags of the dynamic section: the number of local GOT entries, and the first symbol with a
    /// global one. Those have no relocations.
    pub(crate) got_tags: Option<(u64, u64)>,
    /// A function symbol's `st_other` says how far its local entry is from the global one.
    pub(crate) local_entry: bool,
    /// Symbols called `$a`, `$t`, `$x` and `$d` say what is code and what is data.
    pub(crate) mapping_symbols: bool,
    /// An `e_flags` bit that says: the code is of the second instruction set.
    pub(crate) alternate_code_flag: u32,
    /// Bit 0 of a function symbol's value chooses an instruction set.
    pub(crate) isa_bit: bool,
    /// The linker takes the addend of an address from the section, even where the relocation has
    /// a field for it.
    pub(crate) addend_in_section: bool,
    /// Relocations that compute in a field, as debug sections have them where the linker relaxes.
    pub(crate) arithmetic: &'static [Arithmetic],
    /// Function symbols may stand for descriptors in a section of this name, whose first word is
    /// the address of the code.
    pub(crate) descriptors: Option<&'static [u8]>,
    /// The instructions that do nothing, longest first.
    pub(crate) nops: &'static [Instruction],
    /// Landing pads that may stand at the start of a function, before or inside a patchable area.
    pub(crate) pads: &'static [Instruction],
    /// Bytes of NOPs that a call becomes at least.
    pub(crate) call_size: u64,
    /// The size of what stands at a recorded address whose call became NOPs, where no NOP stands at
    /// the address itself.
    pub(crate) disarmed: Option<fn(Code<'_>, u64) -> Option<u64>>,
    /// The NOP that the compiler emits in place of the call (`-mnop-mcount`), where it does.
    pub(crate) hook_nop: Option<HookNop>,
    /// Several short NOPs and one long one are different things.
    pub(crate) joins_nops: bool,
    /// How its linked code is read; `None` where that is not known.
    pub(crate) decode: Option<Decode>,
}

/// A relocation that changes a number by the value of a symbol: two of them make a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arithmetic {
    /// The relocation type.
    pub kind: u32,
    /// The low bits of the field that hold the number; `None` for a ULEB128 of any length.
    pub bits: Option<u8>,
    /// What is done.
    pub step: Step,
}

/// What an [`Arithmetic`] relocation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Stores the value.
    Set,
    /// Adds it.
    Add,
    /// Subtracts it.
    Subtract,
}

const fn set(kind: u32, bits: u8) -> Arithmetic {
    Arithmetic { kind, bits: Some(bits), step: Step::Set }
}

const fn add(kind: u32, bits: u8) -> Arithmetic {
    Arithmetic { kind, bits: Some(bits), step: Step::Add }
}

const fn subtract(kind: u32, bits: u8) -> Arithmetic {
    Arithmetic { kind, bits: Some(bits), step: Step::Subtract }
}

/// What the relocations of the processor `machine` (`e_machine`) do that compute; and whether all
/// others take the addend from the section, whatever the relocation says.
pub(crate) fn of_debug(machine: u16) -> (&'static [Arithmetic], bool) {
    let arch = ALL.iter().find(|arch| arch.machine == machine);
    arch.map_or((&[], false), |arch| (arch.arithmetic, arch.addend_in_section))
}

/// A NOP in place of a call of the hook.
#[derive(Clone, Copy)]
pub(crate) struct HookNop {
    instruction: Instruction,
    /// Instructions begin at multiples of this many bytes.
    step: u64,
    /// Nothing else ever has these bits, so that it is known wherever it stands. Otherwise it is
    /// known at the start of a function only.
    anywhere: bool,
}

/// Values that a processor's file overrides where they differ.
const DEFAULT: Arch = Arch {
    name: "",
    machine: 0,
    hooks: &[],
    forms: &[],
    address_32: None,
    address_64: None,
    unaligned_addresses: &[],
    type_mask: u32::MAX,
    code: CodeOrder::Data,
    little_endian_code_flag: 0,
    relaxes: false,
    relax_marks: &[],
    code_step: 4,
    reads_unaligned: false,
    rel_32: false,
    data_bases: &[],
    data_base_tag: None,
    got_tags: None,
    local_entry: false,
    mapping_symbols: false,
    alternate_code_flag: 0,
    isa_bit: false,
    addend_in_section: false,
    arithmetic: &[],
    descriptors: None,
    nops: &[],
    pads: &[],
    call_size: 4,
    disarmed: None,
    hook_nop: None,
    joins_nops: false,
    decode: None,
};

impl Arch {
    /// The relocation type that stores an address of `word` bytes.
    pub(crate) fn address(&self, word: u64) -> Option<u32> {
        if word == 8 { self.address_64 } else { self.address_32 }
    }

    /// Relocations of this processor's objects keep their addends in the section.
    pub(crate) fn is_rel(&self, word: u64) -> bool {
        self.rel_32 && word == 4
    }

    /// `code` as this processor reads it, in a file with these properties.
    pub(crate) fn code<'a>(&self, bytes: &'a [u8], big_endian: bool, flags: u32) -> Code<'a> {
        Code { bytes, big_endian: self.big_endian_code(big_endian, flags) }
    }

    fn big_endian_code(&self, big_endian_data: bool, flags: u32) -> bool {
        match self.code {
            CodeOrder::Big => true,
            CodeOrder::Little => false,
            CodeOrder::Data => big_endian_data && flags & self.little_endian_code_flag == 0,
        }
    }

    /// The call that a relocation of type `kind` at `offset` is part of, if it begins one.
    pub(crate) fn call(&self, code: Code<'_>, kind: u32, offset: u64) -> Option<Call> {
        let kind = kind & self.type_mask;
        self.forms.iter().find_map(|form| form.at(code, kind, offset))
    }

    /// The call that `branch`, found by decoding, is: the first form whose opcode fits and that is
    /// recorded at the start of the call, or before it.
    pub(crate) fn decoded(&self, code: Code<'_>, branch: &Branch) -> Call {
        let offset = branch.reference;
        let fits = |form: &&Form| match form.opcode {
            [] => form.follow.is_some_and(|follow| follow(code, offset).is_some()),
            opcode => opcode.iter().all(|pattern| pattern.fits(code, offset)),
        };
        let forms = self.forms.iter().filter(fits);
        let found = forms.filter_map(|form| {
            let recorded = offset.checked_add_signed(form.recorded.into())?;
            (recorded <= branch.start).then_some((recorded, form))
        });
        let (recorded, form) = { found }.next().unwrap_or((branch.start, &RELAXED));
        Call { recorded, end: branch.end, form }
    }

    /// Bytes of the NOPs at `offset` that a call of this processor became: the first that are as
    /// long as one; 0 if there are none.
    pub(crate) fn nops_of_call(&self, code: Code<'_>, offset: u64) -> u64 {
        let mut size = 0;
        while size < self.call_size {
            let Some(nop) =
                self.nops.iter().find(|nop| nop.is_at(code, offset.saturating_add(size)))
            else {
                return 0;
            };
            size += nop.size();
        }
        size
    }

    /// Fills `size` bytes from `offset` with NOPs, the longest first.
    ///
    /// `None`, with the code changed in part, where they do not fit.
    pub(crate) fn fill_with_nops(
        &self,
        code: &mut CodeMut<'_>,
        offset: u64,
        size: u64,
    ) -> Option<()> {
        let end = offset.checked_add(size)?;
        let mut at = offset;
        while at < end {
            let fits = |nop: &&Instruction| nop.size() <= end - at;
            let nop = self.nops.iter().filter(fits).max_by_key(|nop| nop.size())?;
            code.put(at, nop)?;
            at += nop.size();
        }
        Some(())
    }

    /// Whether the `size` bytes at `offset` are as [`Arch::fill_with_nops`] leaves them.
    pub(crate) fn is_filled(&self, code: Code<'_>, offset: u64, size: u64) -> bool {
        let bytes = usize::try_from(size).ok().and_then(|size| code.from(offset).get(..size));
        let mut copy = bytes.unwrap_or_default().to_vec();
        let mut filled = CodeMut { bytes: &mut copy, big_endian: code.big_endian };
        self.fill_with_nops(&mut filled, 0, size).is_some() && Some(copy.as_slice()) == bytes
    }

    /// Bytes of NOPs from `offset`, counted up to `limit` (an offset); 0 if there is no NOP.
    pub(crate) fn nop_run(&self, code: Code<'_>, offset: u64, limit: u64) -> u64 {
        let mut at = offset;
        while let Some(nop) = self.nops.iter().find(|nop| nop.is_at(code, at)) {
            // It ends inside the code, so this cannot overflow.
            if at + nop.size() > limit {
                break;
            }
            at += nop.size();
        }
        at - offset
    }

    /// The places in `code` where the compiler left a NOP in place of the call.
    pub(crate) fn hook_nops(
        &self,
        code: Code<'_>,
        functions: impl Iterator<Item = u64>,
    ) -> Vec<u64> {
        let Some(nop) = self.hook_nop else { return Vec::new() };
        if nop.anywhere {
            let places = (0..code.len()).step_by(usize::try_from(nop.step).unwrap_or(1));
            return places.filter(|at| nop.instruction.is_at(code, *at)).collect();
        }
        let entry = functions.map(|start| start + self.pad(code, start));
        entry.filter(|at| nop.instruction.is_at(code, *at)).collect()
    }

    /// Bytes of the landing pad at `offset`; 0 if there is none.
    pub(crate) fn pad(&self, code: Code<'_>, offset: u64) -> u64 {
        self.pads.iter().find(|pad| pad.is_at(code, offset)).map_or(0, Instruction::size)
    }
}

/// The byte order of a processor's instructions.
#[derive(Clone, Copy)]
pub(crate) enum CodeOrder {
    /// That of the data.
    Data,
    Little,
    Big,
}

/// The bytes of a section, read as instructions.
#[derive(Clone, Copy)]
pub(crate) struct Code<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl<'a> Code<'a> {
    /// The `unit` at `offset`, or `None` where the section ends.
    pub(crate) fn get(self, unit: Unit, offset: u64) -> Option<u32> {
        let start = usize::try_from(offset).ok()?;
        let bytes = self.bytes.get(start..start.checked_add(unit.size())?)?;
        let add = |value: u32, byte: &u8| value << 8 | u32::from(*byte);
        Some(if self.big_endian {
            bytes.iter().fold(0, add)
        } else {
            bytes.iter().rev().fold(0, add)
        })
    }

    /// The 32-bit instruction at `offset`.
    pub(crate) fn word(self, offset: u64) -> Option<u32> {
        self.get(Unit::Word, offset)
    }

    /// The 16-bit instruction, or half of one, at `offset`.
    pub(crate) fn half(self, offset: u64) -> Option<u32> {
        self.get(Unit::Half, offset)
    }

    /// The bytes from `offset` on.
    pub(crate) fn from(self, offset: u64) -> &'a [u8] {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        self.bytes.get(start..).unwrap_or_default()
    }

    /// The 32-bit number at `offset`, in the byte order of x86.
    pub(crate) fn little_word(self, offset: u64) -> Option<u32> {
        self.from(offset).first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    /// Instructions are big endian.
    pub(crate) fn is_big_endian(self) -> bool {
        self.big_endian
    }

    /// Bytes.
    pub(crate) fn len(self) -> u64 {
        self.bytes.len() as u64
    }
}

/// The bytes of a section, to write instructions in.
pub(crate) struct CodeMut<'a> {
    pub(crate) bytes: &'a mut [u8],
    pub(crate) big_endian: bool,
}

impl CodeMut<'_> {
    /// Writes `instruction` at `offset`; `None` (and nothing written) where the section ends.
    pub(crate) fn put(&mut self, offset: u64, instruction: &Instruction) -> Option<()> {
        self.put_units(offset, instruction.unit, instruction.values)
    }

    /// Writes the 16-bit instruction `value` at `offset`, as [`CodeMut::put`] does.
    pub(crate) fn put_half(&mut self, offset: u64, value: u32) -> Option<()> {
        self.put_units(offset, Unit::Half, &[value])
    }

    fn put_units(&mut self, offset: u64, unit: Unit, values: &[u32]) -> Option<()> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(unit.size() * values.len())?;
        let target = self.bytes.get_mut(start..end)?;
        for (place, value) in target.chunks_exact_mut(unit.size()).zip(values) {
            let bytes = value.to_be_bytes();
            let (_, low) = bytes.split_at_checked(bytes.len() - place.len())?;
            place.copy_from_slice(low);
            if !self.big_endian {
                place.reverse();
            }
        }
        Some(())
    }

    /// The same bytes, to read.
    pub(crate) fn as_code(&self) -> Code<'_> {
        Code { bytes: self.bytes, big_endian: self.big_endian }
    }
}

/// The unit that the byte order applies to.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Byte,
    Half,
    Word,
}

impl Unit {
    const fn size(self) -> usize {
        match self {
            Self::Byte => 1,
            Self::Half => 2,
            Self::Word => 4,
        }
    }
}

/// An instruction with all its bits.
#[derive(Clone, Copy)]
pub(crate) struct Instruction {
    unit: Unit,
    values: &'static [u32],
}

impl Instruction {
    const fn bytes(values: &'static [u32]) -> Self {
        Self { unit: Unit::Byte, values }
    }

    const fn halves(values: &'static [u32]) -> Self {
        Self { unit: Unit::Half, values }
    }

    const fn words(values: &'static [u32]) -> Self {
        Self { unit: Unit::Word, values }
    }

    fn size(&self) -> u64 {
        (self.unit.size() * self.values.len()) as u64
    }

    fn is_at(&self, code: Code<'_>, offset: u64) -> bool {
        let fits = offset.checked_add(self.size()).is_some_and(|end| end <= code.len());
        fits && (offset..)
            .step_by(self.unit.size())
            .zip(self.values)
            .all(|(at, value)| code.get(self.unit, at) == Some(*value))
    }
}

/// Some bits of an instruction near a relocation.
pub(crate) struct Pattern {
    /// Bytes from `r_offset`.
    at: i8,
    unit: Unit,
    mask: u32,
    value: u32,
}

impl Pattern {
    const fn byte(at: i8, value: u32) -> Self {
        Self { at, unit: Unit::Byte, mask: 0xff, value }
    }

    const fn half(at: i8, mask: u32, value: u32) -> Self {
        Self { at, unit: Unit::Half, mask, value }
    }

    const fn word(at: i8, mask: u32, value: u32) -> Self {
        Self { at, unit: Unit::Word, mask, value }
    }

    fn fits(&self, code: Code<'_>, offset: u64) -> bool {
        let at = offset.checked_add_signed(self.at.into());
        let bits = at.and_then(|at| code.get(self.unit, at));
        bits.is_some_and(|bits| bits & self.mask == self.value)
    }
}

/// One way of calling the hook: the relocation and the opcode under it.
pub(crate) struct Form {
    /// The types that the (first) relocation to the hook symbol may have.
    relocations: &'static [u32],
    /// What must be there. All of it.
    opcode: &'static [Pattern],
    /// The recorded address minus `r_offset`.
    recorded: i8,
    /// The end of the call minus `r_offset`, where its length is fixed.
    size: i8,
    /// Follows a sequence whose length is not fixed: its end, or `None` if it is no call.
    follow: Option<Follow>,
    /// How it is turned into something that does nothing.
    nop: Nop,
    /// The kind of site that it is.
    kind: Kind,
}

/// Follows the instructions from the relocation at an offset to the end of the call.
type Follow = fn(Code<'_>, u64) -> Option<u64>;

/// Values that a form overrides where they differ.
const CALL: Form = Form {
    relocations: &[],
    opcode: &[],
    recorded: 0,
    size: 4,
    follow: None,
    nop: Nop::None,
    kind: Kind::Call,
};

/// A call whose form only the linker makes, by relaxation.
static RELAXED: Form = CALL;

/// Instructions at bytes from `r_offset`.
type Patch = &'static [(i8, Instruction)];

/// How a call becomes a NOP.
pub(crate) enum Nop {
    /// It cannot, in this form.
    None,
    /// By writing these instructions.
    Write(Patch),
    /// The same where it depends on the hook: the first of these names decides.
    ByHook(&'static [(&'static str, Patch)]),
    /// By a function of `r_offset` and the end of the call.
    Compute(fn(&mut CodeMut<'_>, u64, u64) -> Option<()>),
}

impl Form {
    fn at(&'static self, code: Code<'_>, kind: u32, offset: u64) -> Option<Call> {
        let fits = |pattern: &Pattern| pattern.fits(code, offset);
        if !self.relocations.contains(&kind) || !self.opcode.iter().all(fits) {
            return None;
        }
        let end = match self.follow {
            Some(follow) => follow(code, offset)?,
            None => offset.checked_add_signed(self.size.into())?,
        };
        let recorded = offset.checked_add_signed(self.recorded.into())?;
        (end <= code.len()).then_some(Call { recorded, end, form: self })
    }
}

/// A call of the hook that was found in code.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    /// Where the table must point: bytes from the start of the section.
    pub(crate) recorded: u64,
    /// Where the call ends: relocations to the hook before this are part of it.
    pub(crate) end: u64,
    form: &'static Form,
}

impl Call {
    /// The kind of site.
    pub(crate) fn kind(&self) -> Kind {
        self.form.kind
    }

    /// Only a linker makes this form.
    pub(crate) fn is_relaxed(&self) -> bool {
        std::ptr::eq(self.form, &raw const RELAXED)
    }

    /// Makes the call of `hook` at `offset` (its relocation's) do nothing.
    ///
    /// `None`, with the code unchanged, where that is not possible.
    pub(crate) fn make_nop(&self, code: &mut CodeMut<'_>, offset: u64, hook: &[u8]) -> Option<()> {
        let patch = match self.form.nop {
            Nop::None => return None,
            Nop::Write(patch) => patch,
            Nop::ByHook(list) => list.iter().find(|(name, _)| name.as_bytes() == hook)?.1,
            Nop::Compute(compute) => return compute(code, offset, self.end),
        };
        for (at, instruction) in patch {
            code.put(offset.checked_add_signed((*at).into())?, instruction)?;
        }
        Some(())
    }
}
