//! The machines that `cargo xtask kernel` builds for and boots: those of processors whose Kbuild
//! calls `recordmcount` with Debian's compilers, and x86-64, where it does when it is told to.

/// A processor, how its kernel is configured, and the machine that QEMU shows it.
pub(super) struct Machine {
    pub(super) name: &'static str,
    /// `ARCH=` of Kbuild.
    pub(super) arch: &'static str,
    /// `CROSS_COMPILE=` of Kbuild.
    pub(super) cross: &'static str,
    /// More variables for make.
    pub(super) make: &'static [&'static str],
    /// What QEMU boots.
    pub(super) image: &'static str,
    /// Options besides those that all have.
    pub(super) config: &'static [&'static str],
    /// The compiler of the program in the initial file system, where it is not the cross compiler.
    pub(super) user_compiler: Option<&'static str>,
    pub(super) qemu: &'static [&'static str],
    /// Arguments of the kernel.
    pub(super) arguments: &'static str,
}

const PSERIES: &str = "\
CONFIG_PPC64=y
CONFIG_PPC_BOOK3S_64=y
CONFIG_PPC_PSERIES=y
CONFIG_HVC_CONSOLE=y
CONFIG_RELOCATABLE=y
CONFIG_PPC_OF_BOOT_TRAMPOLINE=y
";

const POWER_MAC: &str = "\
CONFIG_PPC_BOOK3S_32=y
CONFIG_PPC_PMAC=y
CONFIG_PPC_OF_BOOT_TRAMPOLINE=y
CONFIG_SERIAL_PMACZILOG=y
CONFIG_SERIAL_PMACZILOG_CONSOLE=y
";

const MALTA: &str = "\
CONFIG_MIPS_MALTA=y
CONFIG_SERIAL_8250=y
CONFIG_SERIAL_8250_CONSOLE=y
CONFIG_PCI=y
";

const ARM: &str = "\
CONFIG_MMU=y
CONFIG_ARCH_MULTIPLATFORM=y
CONFIG_ARCH_MULTI_V7=y
CONFIG_ARCH_VIRT=y
CONFIG_AEABI=y
CONFIG_VFP=y
CONFIG_NEON=y
CONFIG_ARM_AMBA=y
CONFIG_SERIAL_AMBA_PL011=y
CONFIG_SERIAL_AMBA_PL011_CONSOLE=y
";

const PC: &str = "\
CONFIG_SERIAL_8250=y
CONFIG_SERIAL_8250_CONSOLE=y
CONFIG_RELOCATABLE=y
CONFIG_RANDOMIZE_BASE=y
CONFIG_ACPI=y
CONFIG_UNWINDER_FRAME_POINTER=y
";

const SUN: &str = "\
CONFIG_64BIT=y
CONFIG_PCI=y
CONFIG_SERIAL_SUNSU=y
CONFIG_SERIAL_SUNSU_CONSOLE=y
";

const LITTLE: &str = "CONFIG_CPU_LITTLE_ENDIAN=y\n";
const BIG: &str = "CONFIG_CPU_BIG_ENDIAN=y\n";
const MIPS32: &str = "CONFIG_CPU_MIPS32_R2=y\nCONFIG_32BIT=y\n";
const MIPS64: &str = "CONFIG_CPU_MIPS64_R2=y\nCONFIG_64BIT=y\n";

pub(super) const MACHINES: &[Machine] = &[
    Machine {
        name: "arm",
        arch: "arm",
        cross: "arm-linux-gnueabihf-",
        image: "arch/arm/boot/zImage",
        config: &[ARM],
        qemu: &["qemu-system-arm", "-M", "virt", "-cpu", "cortex-a15"],
        arguments: "console=ttyAMA0",
        ..ANY
    },
    Machine {
        name: "x86_64",
        arch: "x86_64",
        image: "arch/x86/boot/bzImage",
        config: &["CONFIG_64BIT=y\n", PC],
        qemu: &["qemu-system-x86_64", "-cpu", "max"],
        ..ANY
    },
    Machine {
        name: "i386",
        arch: "i386",
        make: &["LLVM=-14"],
        image: "arch/x86/boot/bzImage",
        config: &[PC],
        user_compiler: Some("i686-linux-gnu-gcc"),
        qemu: &["qemu-system-i386", "-cpu", "max"],
        ..ANY
    },
    Machine {
        name: "ppc",
        cross: "powerpc-linux-gnu-",
        config: &[POWER_MAC],
        qemu: &["qemu-system-ppc", "-M", "mac99", "-vga", "none"],
        arguments: "console=ttyPZ0",
        ..POWER
    },
    Machine { name: "ppc64", cross: "powerpc64-linux-gnu-", config: &[PSERIES, BIG], ..POWER },
    Machine {
        name: "ppc64le",
        cross: "powerpc64le-linux-gnu-",
        config: &[PSERIES, LITTLE],
        ..POWER
    },
    Machine {
        name: "mips",
        cross: "mips-linux-gnu-",
        config: &[MALTA, BIG, MIPS32],
        qemu: &["qemu-system-mips", "-M", "malta", "-cpu", "24Kf"],
        ..MIPS
    },
    Machine {
        name: "mipsel",
        cross: "mipsel-linux-gnu-",
        config: &[MALTA, LITTLE, MIPS32],
        qemu: &["qemu-system-mipsel", "-M", "malta", "-cpu", "24Kf"],
        ..MIPS
    },
    Machine {
        name: "mips64",
        cross: "mips64-linux-gnuabi64-",
        config: &[MALTA, BIG, MIPS64],
        qemu: &["qemu-system-mips64", "-M", "malta", "-cpu", "MIPS64R2-generic"],
        ..MIPS
    },
    Machine {
        name: "mips64el",
        cross: "mips64el-linux-gnuabi64-",
        config: &[MALTA, LITTLE, MIPS64],
        qemu: &["qemu-system-mips64el", "-M", "malta", "-cpu", "MIPS64R2-generic"],
        ..MIPS
    },
    Machine {
        name: "sparc64",
        arch: "sparc64",
        cross: "sparc64-linux-gnu-",
        image: "arch/sparc/boot/image",
        config: &[SUN],
        qemu: &["qemu-system-sparc64", "-M", "sun4u"],
        ..ANY
    },
];

/// What most have.
const ANY: Machine = Machine {
    name: "",
    arch: "",
    cross: "",
    make: &[],
    image: "vmlinux",
    config: &[],
    user_compiler: None,
    qemu: &[],
    arguments: "console=ttyS0",
};

const POWER: Machine = Machine {
    arch: "powerpc",
    qemu: &["qemu-system-ppc64", "-M", "pseries", "-cpu", "power8", "-vga", "none"],
    arguments: "console=hvc0",
    ..ANY
};

const MIPS: Machine = Machine { arch: "mips", ..ANY };

impl Machine {
    /// The target of make that makes what QEMU boots.
    pub(super) fn target(&self) -> &'static str {
        self.image.rsplit('/').next().unwrap_or(self.image)
    }

    pub(super) fn user_compiler(&self) -> String {
        self.user_compiler.map_or_else(|| format!("{}gcc", self.cross), str::to_owned)
    }
}
