//! 64-bit PowerPC: `bl`, in both ABIs.
//!
//! ELFv1 function symbols stand for descriptors in `.opd`; a symbol with a dot, where there is
//! one, is the code. `-mprofile-kernel` calls in the first instructions of the global entry.
//! Sources: 64-bit PowerPC ELF ABI Supplement 1.9, 3.2.5; Power ELFv2 ABI, 3.5.

use super::powerpc::{BL, NOP};
use super::{Arch, DEFAULT, Form};

const R_PPC64_REL24: u32 = 10;
const R_PPC64_ADDR64: u32 = 38;
const R_PPC64_REL24_NOTOC: u32 = 116;

pub(super) static ARCH: Arch = Arch {
    name: "powerpc64",
    machine: 21,
    hooks: &["_mcount", "._mcount"],
    forms: &[Form { relocations: &[R_PPC64_REL24, R_PPC64_REL24_NOTOC], ..BL }],
    address_64: Some(R_PPC64_ADDR64),
    descriptors: Some(b".opd"),
    nops: &[NOP],
    ..DEFAULT
};
