//! The calls of the matrix, as data: what the instruction set manuals and psABIs say of each.

use testkit::tiny_elf::{Object, Relocation, Section, Symbol};

/// The byte order of instructions.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Order {
    Data,
    Little,
    Big,
}

/// An instruction: bytes in a unit of the byte order, and its value.
#[derive(Clone, Copy)]
pub(crate) enum Code {
    B(&'static [u8]),
    H(&'static [u16]),
    W(&'static [u32]),
}
use Code::{B, H, W};
use Order::{Big, Data, Little};

/// A call of the hook.
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) machine: u16,
    /// The relocation type of a table entry in ELFCLASS32 and ELFCLASS64, 0 where there is none.
    pub(crate) address: [u32; 2],
    pub(crate) order: Order,
    pub(crate) hook: &'static str,
    /// Type and `r_offset` of each relocation to the hook, from the start of `code`.
    pub(crate) relocations: &'static [(u32, u64)],
    pub(crate) code: Code,
    /// What must be recorded, from the start of `code`; `None` if it is no call.
    pub(crate) recorded: Option<u64>,
    /// What `code` becomes in an excluded section; `None` if it stays.
    pub(crate) nop: Option<Code>,
}

pub(crate) const fn call(
    name: &'static str,
    machine: u16,
    address: [u32; 2],
    order: Order,
) -> Call {
    Call {
        name,
        machine,
        address,
        order,
        hook: "_mcount",
        relocations: &[],
        code: B(&[]),
        recorded: Some(0),
        nop: None,
    }
}

const X86_64: Call = Call { hook: "__fentry__", ..call("", 62, [10, 1], Data) };
pub(crate) const I386: Call = Call { hook: "mcount", ..call("", 3, [1, 0], Data) };
const ARM: Call = Call { hook: "__gnu_mcount_nc", ..call("", 40, [2, 0], Data) };
const AARCH64: Call = call("", 183, [0, 257], Little);
const ILP32: Call = call("", 183, [1, 0], Little);
const RISCV: Call = call("", 243, [1, 2], Little);
const POWERPC: Call = call("", 20, [1, 0], Data);
pub(crate) const POWERPC64: Call = call("", 21, [0, 38], Data);
const S390: Call = call("", 22, [4, 22], Data);
pub(crate) const MIPS: Call = call("", 8, [2, 18], Data);
const SPARC64: Call = call("", 43, [0, 32], Data);
const SPARC: Call = call("", 2, [3, 0], Data);
const SH: Call = Call { hook: "mcount", ..call("", 42, [1, 0], Data) };
const LOONGARCH: Call = call("", 258, [1, 2], Little);
const MICROBLAZE: Call = call("", 189, [1, 0], Data);
const CSKY: Call = call("", 252, [1, 0], Data);
const PARISC: Call = call("", 15, [1, 80], Data);
const NDS32: Call = call("", 167, [20, 0], Big);

/// `movabs $GOT, %r11; movabs $hook@PLTOFF, %r10; add %r11, %r10; call *%r10`, and without the call:
/// the first instruction stays, because of its relocation.
const PLTOFF: &[u8] = &[
    0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x49, 0xba, 0, 0, 0, 0, 0, 0, 0, 0, 0x4c, 0x01, 0xda, 0x41,
    0xff, 0xd2,
];
const PLTOFF_NOP: &[u8] = &[
    0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x0f, 0x1f, 0x84, 0, 0, 0,
    0, 0,
];
/// The same with `lea 1b(%rip), %r10; add %r11, %r10` in between.
const PLTOFF_LEA: &[u8] = &[
    0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x4c, 0x8d, 0x15, 0xef, 0xff, 0xff, 0xff, 0x4d, 0x01, 0xda,
    0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x4d, 0x01, 0xda, 0x41, 0xff, 0xd2,
];
const PLTOFF_LEA_NOP: &[u8] = &[
    0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x4c, 0x8d, 0x15, 0xef, 0xff, 0xff, 0xff, 0x4d, 0x01, 0xda,
    0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0,
];

pub(crate) const CALLS: &[Call] = &[
    X86_64.call("x86_64 PC32", &[(2, 1)], B(&[0xe8, 0, 0, 0, 0])).nop(B(&[0x0f, 0x1f, 0x44, 0, 0])),
    X86_64
        .call("x86_64 PLT32", &[(4, 1)], B(&[0xe8, 0, 0, 0, 0]))
        .nop(B(&[0x0f, 0x1f, 0x44, 0, 0])),
    X86_64
        .call("x86_64 GOTPCREL", &[(9, 2)], B(&[0xff, 0x15, 0, 0, 0, 0]))
        .nop(B(&[0x66, 0x0f, 0x1f, 0x44, 0, 0])),
    X86_64
        .call("x86_64 GOTPCRELX", &[(41, 2)], B(&[0xff, 0x15, 0, 0, 0, 0]))
        .of("mcount")
        .nop(B(&[0x66, 0x0f, 0x1f, 0x44, 0, 0])),
    X86_64
        .call(
            "x86_64 large, clang",
            &[(1, 2)],
            B(&[0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0]),
        )
        .of("mcount")
        .nop(B(&[0x0f, 0x1f, 0x44, 0, 0, 0x0f, 0x1f, 0x80, 0, 0, 0, 0])),
    X86_64
        .call(
            "x86_64 GOT64",
            &[(27, 2)],
            B(&[0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0x14, 0x06]),
        )
        .of("mcount")
        .nop(B(&[0x66, 0x0f, 0x1f, 0x44, 0, 0, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0])),
    X86_64
        .call(
            "x86_64 GOT64, %rcx",
            &[(27, 2)],
            B(&[0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0x14, 1]),
        )
        .of("mcount")
        .nop(B(&[0x0f, 0x1f, 0x44, 0, 0, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0])),
    X86_64
        .call("x86_64 large", &[(1, 2)], B(&[0x49, 0xba, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xd2]))
        .nop(B(&[0x0f, 0x1f, 0x44, 0, 0, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0])),
    X86_64.call("x86_64 PLTOFF64", &[(31, 12)], B(PLTOFF)).nop(B(PLTOFF_NOP)),
    X86_64.call("x86_64 PLTOFF64, lea", &[(31, 22)], B(PLTOFF_LEA)).nop(B(PLTOFF_LEA_NOP)),
    X86_64.call("x86_64 jmp", &[(4, 1)], B(&[0xe9, 0, 0, 0, 0])).none(),
    X86_64.call("x86_64 lea", &[(2, 3)], B(&[0x48, 0x8d, 0x05, 0, 0, 0, 0])).none(),
    X86_64.call("x86_64 jmp through the GOT", &[(41, 2)], B(&[0xff, 0x25, 0, 0, 0, 0])).none(),
    X86_64.call("x86_64 mov", &[(10, 1)], B(&[0xe8, 0, 0, 0, 0])).none(),
    I386.call("i386 PC32", &[(2, 1)], B(&[0xe8, 0xfc, 0xff, 0xff, 0xff]))
        .nop(B(&[0x0f, 0x1f, 0x44, 0, 0])),
    I386.call("i386 PLT32", &[(4, 1)], B(&[0xe8, 0xfc, 0xff, 0xff, 0xff]))
        .nop(B(&[0x0f, 0x1f, 0x44, 0, 0])),
    I386.call("i386 GOT32X", &[(43, 2)], B(&[0xff, 0x93, 0, 0, 0, 0]))
        .nop(B(&[0x66, 0x0f, 0x1f, 0x44, 0, 0])),
    I386.call("i386 GOT32", &[(3, 2)], B(&[0xff, 0x15, 0, 0, 0, 0]))
        .nop(B(&[0x66, 0x0f, 0x1f, 0x44, 0, 0])),
    I386.call("i386 push", &[(1, 1)], B(&[0x68, 0, 0, 0, 0])).none(),
    ARM.call("arm CALL", &[(28, 4)], W(&[0xe52d_e004, 0xebff_fffe]))
        .recorded(4)
        .nop(W(&[0xe1a0_0000, 0xe1a0_0000])),
    ARM.call("arm PC24", &[(1, 4)], W(&[0xe52d_e004, 0xebff_fffe]))
        .recorded(4)
        .nop(W(&[0xe1a0_0000, 0xe1a0_0000])),
    ARM.call("arm THM_CALL", &[(10, 2)], H(&[0xb500, 0xf7ff, 0xfffe]))
        .recorded(2)
        .nop(H(&[0xbf00, 0xf3af, 0x8000])),
    ARM.call("arm apart", &[(28, 0)], W(&[0xebff_fffe])).nop(W(&[0xe49d_e004])),
    ARM.call("arm THM apart", &[(10, 0)], H(&[0xf7ff, 0xfffe])).nop(H(&[0xf85d, 0xeb04])),
    ARM.call("arm mcount", &[(28, 0)], W(&[0xebff_fffe])).of("mcount").nop(W(&[0xe1a0_0000])),
    ARM.call("arm push mcount", &[(28, 4)], W(&[0xe52d_e004, 0xebff_fffe]))
        .recorded(4)
        .of("mcount")
        .nop(W(&[0xe52d_e004, 0xe1a0_0000])),
    ARM.call("arm stmfd", &[(28, 4)], W(&[0xe92d_4000, 0xebff_fffe]))
        .recorded(4)
        .nop(W(&[0xe1a0_0000, 0xe1a0_0000])),
    ARM.call("arm push, blx", &[(28, 4)], W(&[0xe52d_e004, 0xfaff_fffe]))
        .recorded(4)
        .nop(W(&[0xe1a0_0000, 0xe1a0_0000])),
    ARM.call("arm stmfd, blx", &[(27, 4)], W(&[0xe92d_4000, 0xfbff_fffe]))
        .recorded(4)
        .nop(W(&[0xe1a0_0000, 0xe1a0_0000])),
    ARM.call("arm blx", &[(28, 0)], W(&[0xfaff_fffe])).nop(W(&[0xe49d_e004])),
    ARM.call("arm THM blx, _mcount", &[(10, 2)], H(&[0xb500, 0xf7ff, 0xeffe]))
        .recorded(2)
        .of("_mcount")
        .nop(H(&[0xb500, 0xf3af, 0x8000])),
    ARM.call("arm branch", &[(29, 0)], W(&[0xeaff_fffe])).none(),
    ARM.call("arm movw", &[(43, 0)], W(&[0xe300_0000])).none(),
    AARCH64.call("aarch64", &[(283, 0)], W(&[0x9400_0000])).nop(W(&[0xd503_201f])),
    AARCH64.call("aarch64 b", &[(282, 0)], W(&[0x1400_0000])).none(),
    AARCH64.call("aarch64 adrp", &[(275, 0)], W(&[0x9000_0000])).none(),
    ILP32.call("aarch64 ilp32", &[(21, 0)], W(&[0x9400_0000])).nop(W(&[0xd503_201f])),
    RISCV.call("riscv CALL", &[(18, 0)], W(&[0x0000_0097, 0x0000_80e7])).nop(W(&[0x13, 0x13])),
    RISCV.call("riscv CALL_PLT", &[(19, 0)], W(&[0x0000_0097, 0x0000_80e7])).nop(W(&[0x13, 0x13])),
    RISCV.call("riscv t0", &[(19, 0)], W(&[0x0000_0297, 0x0002_82e7])).nop(W(&[0x13, 0x13])),
    RISCV.call("riscv tail", &[(19, 0)], W(&[0x0000_0317, 0x0003_0067])).none(),
    POWERPC.call("powerpc REL24", &[(10, 0)], W(&[0x4800_0001])).nop(W(&[0x6000_0000])),
    POWERPC.call("powerpc PLTREL24", &[(18, 0)], W(&[0x4800_0001])).nop(W(&[0x6000_0000])),
    POWERPC.call("powerpc LOCAL24PC", &[(23, 0)], W(&[0x4800_0001])).nop(W(&[0x6000_0000])),
    POWERPC.call("powerpc PLTCALL", &[(120, 0)], W(&[0x4e80_0421])).nop(W(&[0x6000_0000])),
    POWERPC.call("powerpc PLTCALL, jump", &[(120, 0)], W(&[0x4e80_0420])).none(),
    POWERPC.call("powerpc b", &[(10, 0)], W(&[0x4800_0000])).none(),
    POWERPC64
        .call("powerpc64 REL24", &[(10, 0)], W(&[0x4800_0001]))
        .of("._mcount")
        .nop(W(&[0x6000_0000])),
    POWERPC64.call("powerpc64 REL24_NOTOC", &[(116, 0)], W(&[0x4800_0001])).nop(W(&[0x6000_0000])),
    POWERPC64
        .call(
            "powerpc64 -mlongcall",
            &[(120, 12)],
            W(&[0x3d82_0000, 0xe98c_0000, 0x7d89_03a6, 0x4e80_0421]),
        )
        .recorded(12)
        .nop(W(&[0x3d82_0000, 0xe98c_0000, 0x7d89_03a6, 0x6000_0000])),
    POWERPC64
        .call("powerpc64 PLTCALL_NOTOC", &[(122, 0)], W(&[0x4e80_0421]))
        .nop(W(&[0x6000_0000])),
    S390.call("s390 -pg", &[(20, 8)], H(&[0xe3e0, 0xf008, 0x0024, 0xc0e5, 0, 0]))
        .nop(H(&[0xe3e0, 0xf008, 0x0024, 0xc004, 0, 0])),
    S390.call(
        "s390 -pg, larl",
        &[(20, 14)],
        H(&[0xe3e0, 0xf008, 0x0024, 0xc010, 0, 0, 0xc0e5, 0, 0]),
    )
    .nop(H(&[0xe3e0, 0xf008, 0x0024, 0xc010, 0, 0, 0xc004, 0, 0])),
    S390.call("s390 -mfentry", &[(19, 2)], H(&[0xc005, 0, 0]))
        .of("__fentry__")
        .nop(H(&[0xc004, 0, 0])),
    S390.call("s390 st", &[(20, 6)], H(&[0x50e0, 0xf004, 0xc0e5, 0, 0]))
        .nop(H(&[0x50e0, 0xf004, 0xc004, 0, 0])),
    S390.call("s390 st, larl", &[(19, 12)], H(&[0x50e0, 0xf004, 0xc010, 0, 0, 0xc0e5, 0, 0]))
        .nop(H(&[0x50e0, 0xf004, 0xc010, 0, 0, 0xc004, 0, 0])),
    S390.call("s390 brasl", &[(19, 2)], H(&[0xc0e5, 0, 0])).of("mcount").nop(H(&[0xc004, 0, 0])),
    S390.call("s390 larl", &[(19, 2)], H(&[0xc010, 0, 0])).none(),
    MIPS.call("mips 26", &[(4, 0)], W(&[0x0c00_0000, 0x27bd_fff8])).nop(W(&[0, 0])),
    MIPS.call(
        "mips HI16",
        &[(5, 0), (6, 4)],
        W(&[0x3c19_0000, 0x2739_0000, 0x03e0_0825, 0x0320_f809, 0x27bd_fff8]),
    )
    .nop(W(&[0, 0x2739_0000, 0x03e0_0825, 0, 0])),
    MIPS.call(
        "mips HIGHEST",
        &[(29, 0), (28, 4), (5, 12), (6, 20)],
        W(&[
            0x3c19_0000,
            0x6739_0000,
            0x0019_cc38,
            0x6739_0000,
            0x0019_cc38,
            0x6739_0000,
            0x03e0_0825,
            0x0320_f809,
            0,
        ]),
    )
    .nop(W(&[
        0,
        0x6739_0000,
        0x0019_cc38,
        0x6739_0000,
        0x0019_cc38,
        0x6739_0000,
        0x03e0_0825,
        0,
        0,
    ])),
    MIPS.call("mips CALL16", &[(11, 0)], W(&[0x8f99_0000, 0x03e0_0825, 0x0320_f809, 0x27bd_fff8]))
        .nop(W(&[0, 0x03e0_0825, 0, 0])),
    MIPS.call("mips r6 balc", &[(61, 0)], W(&[0xe800_0000, 0x27bd_fff8])).nop(W(&[0, 0x27bd_fff8])),
    MIPS.call("mips 26, no push", &[(4, 0)], W(&[0x0c00_0000, 0x0000_0025]))
        .nop(W(&[0, 0x0000_0025])),
    MIPS.call(
        "mips -mxgot",
        &[(30, 0), (31, 8)],
        W(&[0x3c19_0000, 0x033c_c821, 0x8f39_0000, 0x03e0_0825, 0x0320_f809, 0x27bd_fff8]),
    )
    .nop(W(&[0, 0x033c_c821, 0, 0x03e0_0825, 0, 0])),
    MIPS.call(
        "mips GOT_DISP",
        &[(19, 0)],
        W(&[0xdf99_0000, 0x03e0_0825, 0x0320_f809, 0x0000_0025]),
    )
    .nop(W(&[0, 0x03e0_0825, 0, 0x0000_0025])),
    MIPS.call(
        "mips GOT16",
        &[(9, 0), (6, 4)],
        W(&[0x8f99_0000, 0x2739_0000, 0x03e0_0825, 0x0320_f809, 0x27bd_fff8]),
    )
    .nop(W(&[0, 0x2739_0000, 0x03e0_0825, 0, 0])),
    MIPS.call("micromips jals", &[(133, 0)], H(&[0x7400, 0, 0x4fb0])).nop(H(&[0, 0, 0x0c00])),
    MIPS.call(
        "micromips HI16",
        &[(134, 0), (135, 4)],
        H(&[0x41b9, 0, 0x3339, 0, 0x0f91, 0x03f9, 0x0f3c, 0x33bd, 0xfff8]),
    )
    .nop(H(&[0, 0, 0x3339, 0, 0x0f91, 0, 0, 0, 0])),
    MIPS.call("micromips 26_S1", &[(133, 0)], H(&[0xf400, 0, 0x33bd, 0xfff8]))
        .nop(H(&[0, 0, 0, 0])),
    MIPS.call("micromips r6 balc", &[(175, 0)], H(&[0xb400, 0, 0x0c90])).nop(H(&[0, 0, 0x0c90])),
    MIPS.call("micromips r6 CALL16", &[(142, 0)], H(&[0xff31, 0, 0x0f91, 0x472b]))
        .nop(H(&[0, 0, 0x0f91, 0x0c00])),
    MIPS.call("mips address", &[(5, 0), (6, 4)], W(&[0x3c02_0000, 0x2442_0000, 0x03e0_0008, 0]))
        .none(),
    MIPS.call("mips j", &[(4, 0)], W(&[0x0800_0000, 0])).none(),
    SPARC64
        .call("sparc64 WDISP30", &[(7, 0)], W(&[0x4000_0000, 0x0100_0000]))
        .nop(W(&[0x0100_0000, 0x0100_0000])),
    SPARC64
        .call("sparc64 WPLT30", &[(18, 0)], W(&[0x4000_0000, 0x0100_0000]))
        .of("mcount")
        .nop(W(&[0x0100_0000, 0x0100_0000])),
    SPARC64
        .call("sparc64 type with data", &[(0x0001_2307, 0)], W(&[0x4000_0000]))
        .nop(W(&[0x0100_0000])),
    SPARC64.call("sparc64 sethi", &[(9, 0)], W(&[0x0300_0000])).none(),
    SPARC
        .call("sparc WDISP30", &[(7, 0)], W(&[0x4000_0000, 0x0100_0000]))
        .nop(W(&[0x0100_0000, 0x0100_0000])),
    SPARC
        .call("sparc WPLT30", &[(18, 0)], W(&[0x4000_0000, 0x0100_0000]))
        .nop(W(&[0x0100_0000, 0x0100_0000])),
    SH.call("sh", &[(1, 12)], H(&[0x4f22, 0xd102, 0x0009, 0x410b, 0x0009, 0x0009, 0, 0]))
        .recorded(12),
    // mova 1f, r0; mov.l 0f, r1; jmp @r1; nop; 0: the literal; 1: lds.l @r15+, pr
    SH.call("sh jmp", &[(1, 8)], H(&[0xc702, 0xd101, 0x412b, 0x0009, 0, 0, 0x4f26, 0x0009]))
        .recorded(8)
        .nop(H(&[0xc702, 0xd101, 0xa002, 0x0009, 0, 0, 0x4f26, 0x0009])),
    SH.call("sh GOT32", &[(160, 8)], H(&[0xc702, 0xd101, 0x412b, 0x0009, 0, 0, 0x4f26, 0x0009]))
        .recorded(8)
        .nop(H(&[0xc702, 0xd101, 0xa002, 0x0009, 0, 0, 0x4f26, 0x0009])),
    SH.call("sh data", &[(1, 4)], H(&[0x0009, 0x0009, 0, 0])).none(),
    LOONGARCH.call("loongarch B26", &[(66, 0)], W(&[0x5400_0000])).nop(W(&[0x0340_0000])),
    LOONGARCH
        .call("loongarch CALL36", &[(110, 0)], W(&[0x1e00_0001, 0x4c00_0021]))
        .nop(W(&[0x0340_0000, 0x0340_0000])),
    LOONGARCH.call("loongarch tail36", &[(110, 0)], W(&[0x1e00_000c, 0x4c00_0180])).none(),
    LOONGARCH
        .call(
            "loongarch extreme",
            &[(75, 0), (76, 4), (79, 8), (80, 12)],
            W(&[0x1a00_0005, 0x02c0_0001, 0x1600_0001, 0x0300_0021, 0x380c_1421, 0x4c00_0021]),
        )
        .nop(W(&[0x0340_0000; 6])),
    LOONGARCH
        .call("loongarch PCALA_HI20", &[(71, 0), (72, 4)], W(&[0x1a00_0001, 0x4c00_0021]))
        .nop(W(&[0x0340_0000, 0x0340_0000])),
    LOONGARCH
        .call(
            "loongarch MARK_LA",
            &[(20, 0), (22, 0)],
            W(&[0x1400_0001, 0x0380_0021, 0x1600_0001, 0x0300_0021, 0x4c00_0021]),
        )
        .nop(W(&[0x0340_0000, 0x0380_0021, 0x1600_0001, 0x0300_0021, 0x0340_0000])),
    LOONGARCH
        .call("loongarch SOP_PUSH_PLT_PCREL", &[(29, 0)], W(&[0x5400_0000]))
        .nop(W(&[0x0340_0000])),
    MICROBLAZE
        .call("microblaze", &[(3, 0)], W(&[0xb000_0000, 0xb9f4_0000]))
        .nop(W(&[0x8000_0000, 0x8000_0000])),
    MICROBLAZE
        .call("microblaze brki", &[(5, 0)], W(&[0xb000_0000, 0xba0c_0000]))
        .nop(W(&[0x8000_0000, 0x8000_0000])),
    CSKY.call("csky push, jsri", &[(40, 2)], H(&[0x14d0, 0xeae0, 0]))
        .recorded(2)
        .nop(H(&[0x6c03, 0xc400, 0x4820])),
    CSKY.call("csky push, bsr", &[(40, 2)], H(&[0x14d0, 0xe000, 0]))
        .recorded(2)
        .nop(H(&[0x6c03, 0xc400, 0x4820])),
    CSKY.call("csky jsri", &[(40, 0)], H(&[0xeae0, 0])),
    CSKY.call("csky bsr", &[(19, 0)], H(&[0xe000, 0])),
    CSKY.call("csky literal", &[(1, 0)], W(&[0])).none(),
    PARISC
        .call("parisc PCREL17F", &[(12, 0)], W(&[0xe840_0000, 0x0800_0240]))
        .nop(W(&[0x0800_0240, 0x0800_0240])),
    PARISC
        .call("parisc PCREL22F", &[(74, 0)], W(&[0xe800_a000, 0x0800_0240]))
        .nop(W(&[0x0800_0240, 0x0800_0240])),
    NDS32.call("nds32", &[(25, 0)], W(&[0x4900_0000])).nop(W(&[0x4000_0009])),
];

impl Call {
    const fn call(
        self,
        name: &'static str,
        relocations: &'static [(u32, u64)],
        code: Code,
    ) -> Self {
        Self { name, relocations, code, ..self }
    }

    const fn of(self, hook: &'static str) -> Self {
        Self { hook, ..self }
    }

    const fn recorded(self, at: u64) -> Self {
        Self { recorded: Some(at), ..self }
    }

    const fn none(self) -> Self {
        Self { recorded: None, ..self }
    }

    const fn nop(self, nop: Code) -> Self {
        Self { nop: Some(nop), ..self }
    }

    pub(crate) fn bytes(&self, code: Code, big_endian: bool) -> Vec<u8> {
        let big = match self.order {
            Data => big_endian,
            Little => false,
            Big => true,
        };
        let mut out = Vec::new();
        let mut put = |bytes: &[u8]| {
            if big { out.extend(bytes) } else { out.extend(bytes.iter().rev()) }
        };
        match code {
            B(bytes) => bytes.iter().for_each(|byte| put(&[*byte])),
            H(halves) => halves.iter().for_each(|half| put(&half.to_be_bytes())),
            W(words) => words.iter().for_each(|word| put(&word.to_be_bytes())),
        }
        out
    }

    /// Three sections of code: one without a call, one with a call 32 bytes in and another 96
    /// bytes in, and one with a call at its start. Only the second has a symbol.
    pub(crate) fn object(&self, is_64: bool, big_endian: bool, rela: bool) -> Object {
        let mut object = Object::new(self.machine, is_64, big_endian, rela);
        object.symbols.push(Symbol::of_section(2));
        object.symbols.push(Symbol::undefined("other"));
        object.symbols.push(Symbol::undefined(self.hook));
        let bytes = self.bytes(self.code, big_endian);
        for (name, starts) in [(".text", &[][..]), (".text.a", &[32, 96]), (".text.b", &[0])] {
            let mut code = vec![0; 32];
            let mut relocations = Vec::new();
            for start in starts {
                code.resize(*start, 0);
                code.extend(&bytes);
                let entry = |(kind, at): &(u32, u64)| Relocation {
                    offset: *start as u64 + at,
                    symbol: 3,
                    kind: *kind,
                    addend: 0,
                };
                relocations.extend(self.relocations.iter().map(entry));
            }
            code.resize(code.len() + 64, 0);
            object.sections.push(Section { relocations, ..Section::code(name, &code) });
        }
        object
    }

    /// Where the entries must lead.
    pub(crate) fn expected(&self) -> Vec<(String, u64)> {
        let recorded = self.recorded.iter();
        let places =
            recorded.flat_map(|at| [(".text.a", 32 + at), (".text.a", 96 + at), (".text.b", *at)]);
        places.map(|(section, offset)| (section.to_owned(), offset)).collect()
    }
}
