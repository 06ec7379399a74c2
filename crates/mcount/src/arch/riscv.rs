//! RISC-V: `call`, an `auipc` and a `jalr` that the linker may relax to one `jal` or `c.jal`.
//!
//! Relaxation deletes bytes after the table was made, so each entry is a label of its own.
//! Instructions are little endian. Source: RISC-V ELF psABI, "Relocations", "Linker Relaxation".

use super::{Arch, CALL, CodeOrder, DEFAULT, Form, Instruction, Nop, Pattern};

const R_RISCV_32: u32 = 1;
const R_RISCV_64: u32 = 2;
const R_RISCV_CALL: u32 = 18;
const R_RISCV_CALL_PLT: u32 = 19;

const NOP: Instruction = Instruction::words(&[0x0000_0013]);
const C_NOP: Instruction = Instruction::halves(&[0x0001]);

const AUIPC: Pattern = Pattern::word(0, 0x7f, 0x17);
/// `jalr` that links in `ra`, and in `t0`, the alternate link register.
const JALR_RA: Pattern = Pattern::word(4, 0x7fff, 0x00e7);
const JALR_T0: Pattern = Pattern::word(4, 0x7fff, 0x02e7);

const PAIR: Form = Form {
    relocations: &[R_RISCV_CALL, R_RISCV_CALL_PLT],
    size: 8,
    nop: Nop::Write(&[(0, NOP), (4, NOP)]),
    ..CALL
};

pub(super) static ARCH: Arch = Arch {
    name: "riscv",
    machine: 243,
    hooks: &["_mcount", "mcount"],
    forms: &[
        Form { opcode: &[AUIPC, JALR_RA], ..PAIR },
        Form { opcode: &[AUIPC, JALR_T0], ..PAIR },
    ],
    address_32: Some(R_RISCV_32),
    address_64: Some(R_RISCV_64),
    code: CodeOrder::Little,
    relaxes: true,
    nops: &[NOP, C_NOP],
    ..DEFAULT
};
