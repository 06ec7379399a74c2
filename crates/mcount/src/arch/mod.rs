//! Call sites on each processor: mostly data, a file for each processor.
//!
//! An [`Arch`] says "relocation type 4 on byte `e8` is a call, recorded one byte before it" and doesn't
//! know what a file is. To add a processor, write its file, name it in [`ALL`], and add a prebuilt object
//! and a row in `docs/arches.md`. CONTRIBUTING.md shows how, with SPARC as the example.

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
pub(crate) mod sleds;
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
use self::sleds::{SledKind, Sleds};

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

/// The processor whose `e_machine` is `machine`, with addresses of `word` bytes.
///
/// # Errors
///
/// `Err(Some(name))` if the processor is known but not in this class, otherwise `Err(None)`.
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
    /// Its name, as GNU triplets spell it.
    pub(crate) name: &'static str,
    /// `e_machine`.
    pub(crate) machine: u16,
    /// The names of the hook symbols that compilers call.
    pub(crate) hooks: &'static [&'static str],
    /// The forms of calls. The first one that fits a relocation decides.
    pub(crate) forms: &'static [Form],
    /// The relocation of a table entry in ELFCLASS32 and in ELFCLASS64.
    pub(crate) address_32: Option<u32>,
    pub(crate) address_64: Option<u32>,
    /// Other relocations that store an address, for data that may be unaligned.
    pub(crate) unaligned_addresses: &'static [u32],
    /// More relocations with which the loader stores the address of a symbol.
    pub(crate) loaded_addresses: &'static [u32],
    /// The bits of a relocation's type that are really its type.
    pub(crate) type_mask: u32,
    /// The byte order of instructions.
    pub(crate) code: CodeOrder,
    /// The `e_flags` bit that says that instructions are little endian even if data is big endian.
    pub(crate) little_endian_code_flag: u32,
    /// Whether the linker deletes bytes of code, so that a table entry must refer to a label.
    pub(crate) relaxes: bool,
    /// The relocations of which a section must have one for the linker to delete code there. Empty if
    /// there is no such rule.
    pub(crate) relax_marks: &'static [u32],
    /// Instructions begin at multiples of this many bytes.
    pub(crate) code_step: u64,
    /// Whether addresses in data may be unaligned.
    pub(crate) reads_unaligned: bool,
    /// Whether objects of ELFCLASS32 have their addends in the section (REL).
    pub(crate) rel_32: bool,
    /// What code finds its data by: the first of these symbols or sections that an image has, plus a
    /// number of bytes.
    pub(crate) data_bases: &'static [(&'static str, u64)],
    /// The tag of the dynamic section that has the address that code finds its data by. It is there even
    /// without symbols.
    pub(crate) data_base_tag: Option<u64>,
    /// The tags of the dynamic section for the number of local GOT entries, and for the first symbol with
    /// a global GOT entry. Such entries have no relocations.
    pub(crate) got_tags: Option<(u64, u64)>,
    /// Whether a function symbol's `st_other` says how far the local entry is after the global one.
    pub(crate) local_entry: bool,
    /// Whether symbols called `$a`, `$t`, `$x` and `$d` say what is code and what is data.
    pub(crate) mapping_symbols: bool,
    /// The `e_flags` bit that says that the code is of the second instruction set.
    pub(crate) alternate_code_flag: u32,
    /// Whether bit 0 of a function symbol's value says which instruction set the code is of.
    pub(crate) isa_bit: bool,
    /// Whether a table entry may have that bit, because the tracer clears it.
    pub(crate) entries_have_isa_bit: bool,
    /// Whether the linker takes the addend of an address from the section even if the relocation has a
    /// field for it.
    pub(crate) addend_in_section: bool,
    /// The relocations that compute, which debug sections have if the linker deletes code.
    pub(crate) arithmetic: &'static [Arithmetic],
    /// The name of the section of function descriptors, if function symbols may lead there. The first
    /// word of a descriptor is the address of the code.
    pub(crate) descriptors: Option<&'static [u8]>,
    /// All NOPs, the longest first. If there is a `decode_nop`, only those that we write.
    pub(crate) nops: &'static [Instruction],
    /// The size in bytes of the NOP at an offset, for a processor whose NOPs have operands.
    pub(crate) decode_nop: Option<fn(Code<'_>, u64) -> Option<u64>>,
    /// Landing pads, which may be at the start of a function, before or inside a patchable area.
    pub(crate) pads: &'static [Instruction],
    /// The size in bytes of the instructions at an offset that a function begins with if calls from other modules enter
    /// it there, and calls from its own module behind them; 0 if there are none.
    pub(crate) global_entry: Option<fn(Code<'_>, u64) -> u64>,
    /// The least number of bytes of NOPs that a call becomes.
    pub(crate) call_size: u64,
    /// What linkers put after a call that goes through a stub. It undoes what the stub did, so it
    /// belongs to the call.
    pub(crate) restores: &'static [Instruction],
    /// The NOP that compilers emit in place of the call (`-mnop-mcount`), if they do.
    pub(crate) hook_nop: Option<HookNop>,
    /// Whether a tracer wants one long NOP and not several short ones.
    pub(crate) joins_nops: bool,
    /// Compilers put all patchable areas before their functions, so where one ends says nothing.
    pub(crate) areas_are_before: bool,
    /// Are hooks that are NOPs in a table always patchable entries, of one or more NOPs?
    pub(crate) lists_nops: bool,
    /// The sleds that clang leaves for XRay; `None` if we don't know them.
    pub(crate) sleds: Option<Sleds>,
    /// How to decode its code; `None` if we can't.
    pub(crate) decode: Option<Decode>,
}

/// The defaults, from which a processor differs.
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
    global_entry: None,
    call_size: 4,
    restores: &[],
    hook_nop: None,
    joins_nops: false,
    areas_are_before: false,
    lists_nops: false,
    sleds: None,
    decode: None,
};

impl Arch {
    /// The relocation type that stores an address of `word` bytes.
    pub(crate) fn address(&self, word: u64) -> Option<u32> {
        if word == 8 { self.address_64 } else { self.address_32 }
    }

    /// Where a table entry with this value leads: an address, or an offset in a section.
    pub(crate) fn entry(&self, value: u64) -> u64 {
        value & !u64::from(self.entries_have_isa_bit)
    }

    /// Where an entry of the compiler's list of patchable entries leads. It may have the bit that says
    /// which instruction set the code is of, even if entries of the table may not; it has on microMIPS.
    pub(crate) fn listed(&self, value: u64) -> u64 {
        value & !u64::from(self.isa_bit)
    }

    /// Whether objects of this processor with addresses of `word` bytes have their addends in the
    /// section.
    pub(crate) fn is_rel(&self, word: u64) -> bool {
        self.rel_32 && word == 4
    }

    /// `bytes` as instructions, in a file with these properties.
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

    /// The call that begins with a relocation of type `kind` at `offset`, if there is one.
    pub(crate) fn call(&self, code: Code<'_>, kind: u32, offset: u64) -> Option<Call> {
        let kind = kind & self.type_mask;
        self.forms.iter().find_map(|form| form.at(code, kind, offset))
    }

    /// The call `branch`, which was found by decoding. Its form is the first one that fits and is
    /// recorded at the start of the call or before it.
    pub(crate) fn decoded(&self, code: Code<'_>, branch: &Branch) -> Call {
        for form in self.forms {
            let recorded = branch.reference.checked_add_signed(form.recorded.into());
            if let Some(recorded) = recorded.filter(|recorded| *recorded <= branch.start)
                && form.has_opcode(code, branch.reference)
            {
                return Call { recorded, end: branch.end, form };
            }
        }
        Call { recorded: branch.start, end: branch.end, form: &RELAXED }
    }
}
