//! What a call site looks like, on each processor: data first, one file a processor.
//!
//! An [`Arch`] says "relocation type 4 on byte `e8` is a call, recorded one byte before it" without
//! knowing what a file is. To add a processor: write its file, name it in [`ALL`], add a prebuilt
//! object and a row in `docs/arches.md` (CONTRIBUTING.md walks through one).

mod aarch64;
mod arithmetic;
mod arm;
mod code;
mod csky;
pub(crate) mod decode;
mod form;
mod i386;
mod loongarch;
mod microblaze;
mod micromips;
mod mips;
mod nds32;
mod nops;
mod parisc;
mod powerpc;
mod powerpc64;
mod riscv;
mod s390;
mod sh;
mod sparc;
mod x86_64;

pub(crate) use self::arithmetic::of_debug;
pub use self::arithmetic::{Arithmetic, Step};
use self::arithmetic::{add, set, subtract};
pub(crate) use self::code::{Code, CodeMut};
use self::code::{CodeOrder, Instruction, Pattern, Unit};
use self::decode::{Branch, Decode};
pub(crate) use self::form::Call;
use self::form::{CALL, Computed, Form, Nop, RELAXED};
use self::nops::HookNop;

/// Every processor, in the order of docs/arches.md.
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
    /// What the loader knows an address of a symbol by, besides these.
    pub(crate) loaded_addresses: &'static [u32],
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
    /// An entry may have that bit: the tracer clears it.
    pub(crate) entries_have_isa_bit: bool,
    /// The linker takes the addend of an address from the section, even where the relocation has
    /// a field for it.
    pub(crate) addend_in_section: bool,
    /// Relocations that compute in a field, as debug sections have them where the linker relaxes.
    pub(crate) arithmetic: &'static [Arithmetic],
    /// Function symbols may stand for descriptors in a section of this name, whose first word is
    /// the address of the code.
    pub(crate) descriptors: Option<&'static [u8]>,
    /// The instructions that do nothing, longest first: all of them, or where `decode_nop` knows
    /// those that exist, the ones to write.
    pub(crate) nops: &'static [Instruction],
    /// Bytes of the NOP at an offset, on a processor whose NOPs have operands.
    pub(crate) decode_nop: Option<fn(Code<'_>, u64) -> Option<u64>>,
    /// Landing pads that may stand at the start of a function, before or inside a patchable area.
    pub(crate) pads: &'static [Instruction],
    /// Bytes of NOPs that a call becomes at least.
    pub(crate) call_size: u64,
    /// What linkers put behind a call that goes through a stub: it undoes something that the stub did,
    /// so it belongs to the call.
    pub(crate) restores: &'static [Instruction],
    /// The NOP that the compiler emits in place of the call (`-mnop-mcount`), where it does.
    pub(crate) hook_nop: Option<HookNop>,
    /// Several short NOPs and one long one are different things.
    pub(crate) joins_nops: bool,
    /// How its linked code is read; `None` where that is not known.
    pub(crate) decode: Option<Decode>,
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
    loaded_addresses: &[],
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
    entries_have_isa_bit: false,
    addend_in_section: false,
    arithmetic: &[],
    descriptors: None,
    nops: &[],
    decode_nop: None,
    pads: &[],
    call_size: 4,
    restores: &[],
    hook_nop: None,
    joins_nops: false,
    decode: None,
};

impl Arch {
    /// The relocation type that stores an address of `word` bytes.
    pub(crate) fn address(&self, word: u64) -> Option<u32> {
        if word == 8 { self.address_64 } else { self.address_32 }
    }

    /// The place that an entry of a table leads to: an address, or bytes from the start of a section.
    pub(crate) fn entry(&self, value: u64) -> u64 {
        value & !u64::from(self.entries_have_isa_bit)
    }

    /// The place that an entry of the compiler's own list of patchable entries leads to. Its labels may
    /// have the bit that chooses an instruction set, whatever a tracer makes of that: those of
    /// microMIPS do.
    pub(crate) fn listed(&self, value: u64) -> u64 {
        value & !u64::from(self.isa_bit)
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
}
