//! The machines that `cargo xtask kernel` builds for and boots: those of processors whose Kbuild
//! calls `recordmcount` with Debian's compilers.

/// A processor, how its kernel is configured, and the machine that QEMU shows it.
pub(super) struct Machine {
    pub(super) name: &'static str,
    /// `ARCH=` of Kbuild.
    pub(super) arch: &'static str,
    /// `CROSS_COMPILE=` of Kbuild.
    pub(super) cross: &'static str,
    /// The target of make, and the file that it makes.
    pub(super) target: &'static str,
    pub(super) image: &'static str,
    /// Options besides those that all have.
    pub(super) config: &'static [&'static str],
    /// Flags for the program in the initial file system.
    pub(super) user_flags: &'static [&'static str],
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

const LITTLE: &str = "CONFIG_CPU_LITTLE_ENDIAN=y\n";
const BIG: &str = "CONFIG_CPU_BIG_ENDIAN=y\n";

pub(super) const MACHINES: &[Machine] = &[
    Machine {
        name: "arm",
        arch: "arm",
        cross: "arm-linux-gnueabihf-",
        target: "zImage",
        image: "arch/arm/boot/zImage",
        config: &[ARM],
        user_flags: &[],
        qemu: &["qemu-system-arm", "-M", "virt", "-cpu", "cortex-a15"],
        arguments: "console=ttyAMA0",
    },
    Machine {
        name: "ppc64",
        arch: "powerpc",
        cross: "powerpc64-linux-gnu-",
        config: &[PSERIES, BIG],
        qemu: &["qemu-system-ppc64", "-M", "pseries", "-cpu", "power8", "-vga", "none"],
        ..POWER
    },
    Machine {
        name: "ppc64le",
        cross: "powerpc64le-linux-gnu-",
        config: &[PSERIES, LITTLE],
        ..POWER
    },
    Machine {
        name: "mips",
        cross: "mips-linux-gnu-",
        config: &[MALTA, BIG, "CONFIG_CPU_MIPS32_R2=y\nCONFIG_32BIT=y\n"],
        qemu: &["qemu-system-mips", "-M", "malta", "-cpu", "24Kf"],
        ..MIPS
    },
    Machine {
        name: "mipsel",
        cross: "mipsel-linux-gnu-",
        config: &[MALTA, LITTLE, "CONFIG_CPU_MIPS32_R2=y\nCONFIG_32BIT=y\n"],
        qemu: &["qemu-system-mipsel", "-M", "malta", "-cpu", "24Kf"],
        ..MIPS
    },
    Machine {
        name: "mips64el",
        cross: "mips64el-linux-gnuabi64-",
        config: &[MALTA, LITTLE, "CONFIG_CPU_MIPS64_R2=y\nCONFIG_64BIT=y\n"],
        qemu: &["qemu-system-mips64el", "-M", "malta", "-cpu", "MIPS64R2-generic"],
        ..MIPS
    },
];

const POWER: Machine = Machine {
    name: "",
    arch: "powerpc",
    cross: "",
    target: "vmlinux",
    image: "vmlinux",
    config: &[],
    user_flags: &[],
    qemu: &["qemu-system-ppc64", "-M", "pseries", "-cpu", "power8", "-vga", "none"],
    arguments: "console=hvc0",
};

const MIPS: Machine =
    Machine { arch: "mips", cross: "", qemu: &[], arguments: "console=ttyS0", ..POWER };
