//! NDS32: `jal _mcount`.
//!
//! The linker shortens code wherever it can. For example, an `la` of two words becomes one `movi`, and
//! all code after it moves. So each table entry refers to a label of its own. Instructions have two or
//! four bytes and are big endian, even if data is little endian.
//!
//! Sources: Andes ELF ABI; relocation numbers as in the GNU assembler's output.

use super::decode::{Branch, Decode, Place, no_stub, signed};
use super::{Arch, CALL, CodeOrder, DEFAULT, Form, Instruction, Nop, Pattern};

const R_NDS32_32_RELA: u32 = 20;
const R_NDS32_25_PCREL_RELA: u32 = 25;

const NOP: Instruction = Instruction::words(&[0x4000_0009]);

pub(super) static ARCH: Arch = Arch {
    name: "nds32",
    machine: 167,
    code_step: 2,
    hooks: &["_mcount"],
    forms: &[Form {
        relocations: &[R_NDS32_25_PCREL_RELA],
        opcode: &[Pattern::word(0, 0xff00_0000, 0x4900_0000)],
        nop: Nop::Write(&[(0, NOP)]),
        ..CALL
    }],
    address_32: Some(R_NDS32_32_RELA),
    code: CodeOrder::Big,
    relaxes: true,
    nops: &[NOP, Instruction::halves(&[0x9200])],
    decode: Some(Decode { length, call, stub: no_stub, anchors: &[], relative: &[] }),
    ..DEFAULT
};

fn length(place: &Place<'_>) -> u64 {
    if place.half(0).unwrap_or(0) & 0x8000 == 0 { 4 } else { 2 }
}

fn call(place: &Place<'_>) -> Option<Branch> {
    let word = place.word(0)?;
    if word >> 24 == 0x49 { place.near(signed(word, 24) * 2) } else { None }
}
