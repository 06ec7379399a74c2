//! What the runtime oracle is run on: data only. A new processor is one more `Target`, and a folder
//! of its name in `tests/runtime` at the root of the tree.

pub(crate) mod target;

pub(crate) use target::{Link, Program, System, Target, Variant};
use target::{ORDINARY, PIE, STATIC, bare, by_clang, by_lld, gcc, hosted, pg, weak_alone};
use testkit::tools::Toolchain;

const X86_PG: Variant = pg("mcount", "x86/hook.S");
const X86_FENTRY: Variant = Variant {
    label: "fentry",
    flags: &["-pg", "-mfentry"],
    hook: "__fentry__",
    ..pg("__fentry__", "x86/hook.S")
};
const CLANG_X86: &[&str] = &["clang", "--target=x86_64-linux-gnu"];

const X86_64: Target = Target {
    toolchain: Toolchain {
        name: "x86_64",
        compiler: "x86_64-linux-gnu-gcc",
        flags: &[],
        qemu: None,
        sysroot: None,
    },
    folder: "x86",
    system: System::Host,
    oracle: &["-mgeneral-regs-only"],
    variants: &[
        Variant { links: &[Link::Static, Link::Pie, Link::StaticPie], ..X86_PG },
        X86_FENTRY,
        Variant { label: "pic", flags: &["-pg", "-fPIC", "-fno-plt", "-fcf-protection"], ..X86_PG },
        Variant {
            label: "fentry-plt",
            flags: &["-pg", "-mfentry", "-fPIC", "-fplt", "-fcf-protection"],
            ..X86_FENTRY
        },
        Variant { label: "large", flags: &["-pg", "-mcmodel=large"], links: STATIC, ..X86_PG },
        Variant {
            label: "clang-large",
            compiler: CLANG_X86,
            flags: &["-pg", "-mcmodel=large"],
            links: STATIC,
            ..X86_PG
        },
        by_lld("lld", X86_PG),
        by_clang(CLANG_X86, X86_PG),
        by_lld("clang-fentry-lld", by_clang(CLANG_X86, X86_FENTRY)),
        weak_alone("weak", X86_PG),
        weak_alone("clang-weak", by_clang(CLANG_X86, X86_PG)),
    ],
};

const I686: Target = Target {
    oracle: &["-mgeneral-regs-only"],
    ..hosted(
        "x86",
        "/usr/i686-linux-gnu",
        gcc("i686", "i686-linux-gnu-gcc", "qemu-i386"),
        &[
            X86_PG,
            Variant { links: STATIC, ..X86_FENTRY },
            Variant { label: "plt", flags: &["-pg", "-fplt"], links: PIE, ..X86_PG },
            by_lld("lld", X86_PG),
            by_clang(&["clang", "--target=i686-linux-gnu"], X86_PG),
        ],
    )
};

const AARCH64_PG: Variant = pg("_mcount", ORDINARY);
const CLANG_AARCH64: &[&str] = &["clang", "--target=aarch64-linux-gnu"];

const AARCH64: Target = hosted(
    "aarch64",
    "/usr/aarch64-linux-gnu",
    gcc("aarch64", "aarch64-linux-gnu-gcc", "qemu-aarch64"),
    &[
        AARCH64_PG,
        by_lld("lld", AARCH64_PG),
        by_clang(CLANG_AARCH64, AARCH64_PG),
        weak_alone("clang-weak", by_clang(CLANG_AARCH64, AARCH64_PG)),
    ],
);

const AARCH64_BE: Target = bare(
    "aarch64",
    Toolchain {
        flags: &["-mbig-endian"],
        ..gcc("aarch64_be", "aarch64-linux-gnu-gcc", "qemu-aarch64_be")
    },
    &[Variant { links: STATIC, ..pg("_mcount", ORDINARY) }],
);

const ARM_PG: Variant = pg("__gnu_mcount_nc", "arm/hook.S");

const ARM_THUMB: Variant = Variant { label: "thumb", flags: &["-pg", "-mthumb"], ..ARM_PG };
const CLANG_ARMHF: &[&str] = &["clang", "--target=arm-linux-gnueabihf", "-meabi", "gnu"];
/// Without `-meabi gnu` clang calls a hook of the old name, and in the ordinary way.
const CLANG_ARMHF_OLD: Variant =
    by_clang(&["clang", "--target=arm-linux-gnueabihf"], pg("mcount", ORDINARY));

const ARMHF: Target = hosted(
    "arm",
    "/usr/arm-linux-gnueabihf",
    gcc("armhf", "arm-linux-gnueabihf-gcc", "qemu-arm"),
    &[
        ARM_THUMB,
        Variant { label: "arm", flags: &["-pg", "-marm"], ..ARM_PG },
        by_lld("thumb-lld", ARM_THUMB),
        by_clang(CLANG_ARMHF, ARM_PG),
        Variant {
            label: "clang-thumb",
            flags: &["-pg", "-mthumb"],
            ..by_clang(CLANG_ARMHF, ARM_PG)
        },
        Variant { label: "clang-old", ..CLANG_ARMHF_OLD },
        weak_alone("weak", ARM_PG),
        weak_alone("clang-weak", by_clang(CLANG_ARMHF, ARM_PG)),
    ],
);

const ARMEL: Target = hosted(
    "arm",
    "/usr/arm-linux-gnueabi",
    gcc("armel", "arm-linux-gnueabi-gcc", "qemu-arm"),
    &[ARM_PG],
);

const ARMEB: Target = bare(
    "arm",
    Toolchain {
        flags: &["-mbig-endian", "-march=armv7-a"],
        ..gcc("armeb", "arm-linux-gnueabi-gcc", "qemu-armeb")
    },
    &[
        Variant {
            label: "be8",
            flags: &["-pg", "-marm"],
            link_flags: &["-Wl,--be8"],
            links: STATIC,
            ..ARM_PG
        },
        Variant {
            label: "be8-thumb",
            flags: &["-pg", "-mthumb"],
            link_flags: &["-Wl,--be8"],
            links: STATIC,
            ..ARM_PG
        },
    ],
);

const ARMEB32: Target = Target {
    oracle: &["-DCODE_BIG"],
    ..bare(
        "arm",
        Toolchain {
            flags: &["-mbig-endian", "-march=armv5te"],
            ..gcc("armeb-be32", "arm-linux-gnueabi-gcc", "qemu-armeb")
        },
        &[Variant { flags: &["-pg", "-marm"], link_flags: &["-mbe32"], links: STATIC, ..ARM_PG }],
    )
};

const RISCV_PG: Variant = pg("_mcount", ORDINARY);

const CLANG_RISCV: &[&str] = &["clang", "--target=riscv64-linux-gnu", "-march=rv64gc"];

const RISCV64: Target = hosted(
    "riscv",
    "/usr/riscv64-linux-gnu",
    gcc("riscv64", "riscv64-linux-gnu-gcc", "qemu-riscv64"),
    &[
        Variant { label: "relax", link_flags: &["-Wl,--relax"], ..RISCV_PG },
        Variant { label: "no-relax", link_flags: &["-Wl,--no-relax"], ..RISCV_PG },
        Variant {
            label: "uncompressed",
            flags: &["-pg", "-march=rv64g"],
            link_flags: &["-Wl,--relax"],
            ..RISCV_PG
        },
        by_clang(CLANG_RISCV, RISCV_PG),
        weak_alone("clang-weak", by_clang(CLANG_RISCV, RISCV_PG)),
    ],
);

const RISCV32: Target = bare(
    "riscv",
    Toolchain {
        flags: &["-march=rv32imac", "-mabi=ilp32"],
        ..gcc("riscv32", "riscv64-linux-gnu-gcc", "qemu-riscv32")
    },
    &[Variant { links: STATIC, ..RISCV_PG }],
);

const CLANG_POWERPC: &[&str] = &["clang", "--target=powerpc-linux-gnu"];

const POWERPC: Target = hosted(
    "powerpc",
    "/usr/powerpc-linux-gnu",
    gcc("powerpc", "powerpc-linux-gnu-gcc", "qemu-ppc"),
    &[
        pg("_mcount", "powerpc/hook.S"),
        Variant { links: STATIC, ..by_clang(CLANG_POWERPC, pg("_mcount", "powerpc/hook.S")) },
    ],
);

const POWERPC64: Target = hosted(
    "powerpc64",
    "/usr/powerpc64-linux-gnu",
    gcc("powerpc64", "powerpc64-linux-gnu-gcc", "qemu-ppc64"),
    &[
        pg("_mcount", ORDINARY),
        by_clang(&["clang", "--target=powerpc64-linux-gnu"], pg("_mcount", ORDINARY)),
    ],
);

const POWERPC64LE: Target = hosted(
    "powerpc64",
    "/usr/powerpc64le-linux-gnu",
    gcc("powerpc64le", "powerpc64le-linux-gnu-gcc", "qemu-ppc64le"),
    &[
        pg("_mcount", ORDINARY),
        Variant {
            label: "profile-kernel",
            flags: &["-pg", "-mprofile-kernel"],
            ..pg("_mcount", "powerpc64/profile_kernel.S")
        },
        Variant { label: "longcall", flags: &["-pg", "-mlongcall"], ..pg("_mcount", ORDINARY) },
        by_lld("lld", pg("_mcount", ORDINARY)),
        by_clang(&["clang", "--target=powerpc64le-linux-gnu"], pg("_mcount", ORDINARY)),
    ],
);

const S390_PG: Variant = pg("_mcount", "s390x/hook.S");
const S390_FENTRY: Variant =
    Variant { label: "fentry", flags: &["-pg", "-mfentry"], ..pg("__fentry__", "s390x/hook.S") };
const CLANG_S390: &[&str] = &["clang", "--target=s390x-linux-gnu"];

const S390X: Target = hosted(
    "s390x",
    "/usr/s390x-linux-gnu",
    gcc("s390x", "s390x-linux-gnu-gcc", "qemu-s390x"),
    &[
        S390_PG,
        S390_FENTRY,
        by_clang(CLANG_S390, pg("mcount", "s390x/hook.S")),
        Variant { label: "clang-fentry", ..by_clang(CLANG_S390, S390_FENTRY) },
    ],
);

const SH_PG: Variant = Variant { links: STATIC, ..pg("mcount", "sh/hook.S") };

/// Bare, for the C library of Debian does not start under the qemu of Debian.
const SH4: Target = Target {
    // With any optimisation gcc 12 drops the test before a conditional branch.
    oracle: &["-O0"],
    ..bare(
        "sh",
        gcc("sh4", "sh4-linux-gnu-gcc", "qemu-sh4"),
        &[SH_PG, Variant { label: "pic", flags: &["-pg", "-fPIC"], ..SH_PG }],
    )
};

const SPARC64: Target = hosted(
    "sparc",
    "/usr/sparc64-linux-gnu",
    gcc("sparc64", "sparc64-linux-gnu-gcc", "qemu-sparc64"),
    &[
        pg("_mcount", ORDINARY),
        by_clang(&["clang", "--target=sparc64-linux-gnu"], pg("mcount", ORDINARY)),
    ],
);

const SPARC: Target = bare(
    "sparc",
    Toolchain { flags: &["-m32"], ..gcc("sparc", "sparc64-linux-gnu-gcc", "qemu-sparc32plus") },
    &[Variant { links: STATIC, ..pg("_mcount", ORDINARY) }],
);

const HPPA: Target = hosted(
    "hppa",
    "/usr/hppa-linux-gnu",
    gcc("hppa", "hppa-linux-gnu-gcc", "qemu-hppa"),
    &[pg("_mcount", ORDINARY)],
);

const MIPS_PG: Variant = pg("_mcount", "mips/hook.S");
const XGOT: Variant = Variant { label: "xgot", flags: &["-pg", "-mxgot"], ..MIPS_PG };
/// The linker warns that code with and without abicalls meet; the oracle and the C library are with.
const MIXED: &[&str] = &["-Wl,--no-fatal-warnings"];
const NO_ABICALLS: Variant = Variant {
    label: "no-abicalls",
    flags: &["-pg", "-mno-abicalls", "-fno-pic"],
    link_flags: MIXED,
    links: STATIC,
    ..MIPS_PG
};
const LONG_CALLS: Variant = Variant {
    label: "long-calls",
    flags: &["-pg", "-mno-abicalls", "-fno-pic", "-mlong-calls"],
    link_flags: MIXED,
    links: STATIC,
    ..MIPS_PG
};
const MIPS_VARIANTS: &[Variant] = &[MIPS_PG, XGOT, NO_ABICALLS, LONG_CALLS];

const MIPS: Target = hosted(
    "mips",
    "/usr/mips-linux-gnu",
    gcc("mips", "mips-linux-gnu-gcc", "qemu-mips"),
    MIPS_VARIANTS,
);

const CLANG_MIPSEL: &[&str] = &["clang", "--target=mipsel-linux-gnu", "-mips32r2"];

const MIPSEL: Target = hosted(
    "mips",
    "/usr/mipsel-linux-gnu",
    gcc("mipsel", "mipsel-linux-gnu-gcc", "qemu-mipsel"),
    &[
        MIPS_PG,
        NO_ABICALLS,
        LONG_CALLS,
        by_clang(CLANG_MIPSEL, MIPS_PG),
        weak_alone("clang-weak", by_clang(CLANG_MIPSEL, MIPS_PG)),
    ],
);

const MIPS64: Target = hosted(
    "mips",
    "/usr/mips64-linux-gnuabi64",
    gcc("mips64", "mips64-linux-gnuabi64-gcc", "qemu-mips64"),
    MIPS_VARIANTS,
);

const CLANG_MIPS64EL: &[&str] = &["clang", "--target=mips64el-linux-gnuabi64", "-mips64r2"];

const MIPS64EL: Target = hosted(
    "mips",
    "/usr/mips64el-linux-gnuabi64",
    gcc("mips64el", "mips64el-linux-gnuabi64-gcc", "qemu-mips64el"),
    &[
        MIPS_PG,
        NO_ABICALLS,
        LONG_CALLS,
        Variant { links: PIE, ..by_clang(CLANG_MIPS64EL, MIPS_PG) },
    ],
);

const MIPSN32_VARIANTS: &[Variant] =
    &[Variant { links: STATIC, ..MIPS_PG }, NO_ABICALLS, LONG_CALLS];

const MIPSN32: Target = bare(
    "mips",
    Toolchain {
        flags: &["-mabi=n32"],
        ..gcc("mipsn32", "mips64-linux-gnuabi64-gcc", "qemu-mipsn32")
    },
    MIPSN32_VARIANTS,
);

const MIPSN32EL: Target = bare(
    "mips",
    Toolchain {
        flags: &["-mabi=n32"],
        ..gcc("mipsn32el", "mips64el-linux-gnuabi64-gcc", "qemu-mipsn32el")
    },
    MIPSN32_VARIANTS,
);

const LOONGARCH64: Target = Target {
    toolchain: Toolchain {
        name: "loongarch64",
        compiler: "clang-19",
        flags: &[
            "--target=loongarch64-unknown-linux-gnu",
            "-fuse-ld=lld",
            "-Wno-unused-command-line-argument",
            "-mno-lsx",
        ],
        qemu: Some("qemu-loongarch64"),
        sysroot: None,
    },
    folder: "loongarch",
    system: System::Bare,
    oracle: &[],
    variants: &[
        Variant {
            label: "relax",
            link_flags: &["-Wl,--relax"],
            links: STATIC,
            ..pg("_mcount", ORDINARY)
        },
        Variant {
            label: "no-relax",
            link_flags: &["-Wl,--no-relax"],
            links: STATIC,
            ..pg("_mcount", ORDINARY)
        },
    ],
};

pub(crate) const TARGETS: &[Target] = &[
    X86_64,
    I686,
    AARCH64,
    AARCH64_BE,
    ARMHF,
    ARMEL,
    ARMEB,
    ARMEB32,
    RISCV64,
    RISCV32,
    POWERPC,
    POWERPC64,
    POWERPC64LE,
    S390X,
    SH4,
    SPARC64,
    SPARC,
    HPPA,
    MIPS,
    MIPSEL,
    MIPS64,
    MIPS64EL,
    MIPSN32,
    MIPSN32EL,
    LOONGARCH64,
];
