//! The machines that `cargo lab kernel` builds for and boots: those of processors whose Kbuild
//! calls `recordmcount` with Debian's compilers, x86-64, where it does when it is told to, those with patchable
//! entries, and those whose compiler makes the table and NOPs.

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
    /// Options that only a version of the source has, by that version.
    pub(super) config_of: &'static [(&'static str, &'static str)],
    /// Is its table the compiler's, of patchable entries?
    pub(super) is_patchable: bool,
    /// Does the compiler make the table, and NOPs of the calls? Then ours is made of the NOPs.
    pub(super) has_nops: bool,
    /// Are its QEMU and its C library those of the next Debian?
    pub(super) is_newer: bool,
    /// The compiler of the program in the initial file system, where it is not the cross compiler.
    pub(super) user_compiler: Option<&'static str>,
    /// The QEMU, where its name does not end in that of the processor.
    pub(super) emulator: Option<&'static str>,
    /// The machine that QEMU is.
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

/// What Debian's compiler for ppc64el takes for given.
const POWER8: &str = "CONFIG_ALTIVEC=y\nCONFIG_VSX=y\n";

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

const RISCV: &str = "\
CONFIG_64BIT=y
CONFIG_MMU=y
CONFIG_ARCH_RV64I=y
CONFIG_FPU=y
CONFIG_SERIAL_8250=y
CONFIG_SERIAL_8250_CONSOLE=y
CONFIG_SERIAL_OF_PLATFORM=y
";

/// QEMU's machine. Later versions have its interrupt controller and its serial line without being asked.
const RISCV_OF_6_1: &str = "CONFIG_RISCV_ISA_C=y\nCONFIG_SOC_VIRT=y\n";
const RISCV_OF_6_12: &str = "CONFIG_RISCV_ISA_C=y\n";
/// With compressed instructions, 7.2 has no tracer if gcc is older than 14, because `-fmin-function-alignment` is missing. Kernels
/// that can be started by EFI have them.
const RISCV_OF_7_2: &str = "CONFIG_NONPORTABLE=y\nCONFIG_EFI=n\nCONFIG_RISCV_ISA_C=n\n";

const ARM64: &str = "\
CONFIG_EXPERT=y
CONFIG_RELOCATABLE=n
CONFIG_SERIAL_AMBA_PL011=y
CONFIG_SERIAL_AMBA_PL011_CONSOLE=y
";

const THIN_LTO: &str = "CONFIG_LTO_CLANG_THIN=y\n";

/// QEMU describes its machine by a device tree. The C library uses vector registers without asking whether there are any.
const LOONGARCH: &str = "\
CONFIG_CPU_HAS_LSX=y
CONFIG_SERIAL_8250=y
CONFIG_SERIAL_8250_CONSOLE=y
CONFIG_SERIAL_OF_PLATFORM=y
";

const S390: &str = "\
CONFIG_SCLP_TTY=y
CONFIG_SCLP_CONSOLE=y
CONFIG_SCLP_VT220_TTY=y
CONFIG_SCLP_VT220_CONSOLE=y
";

const MALTA_32: &[&str] = &["-M", "malta", "-cpu", "24Kf"];
const MALTA_64: &[&str] = &["-M", "malta", "-cpu", "MIPS64R2-generic"];

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
        qemu: &["-M", "virt", "-cpu", "cortex-a15"],
        arguments: "console=ttyAMA0",
        ..ANY
    },
    Machine { name: "x86_64", arch: "x86_64", config: &["CONFIG_64BIT=y\n", PC], ..INTEL },
    Machine {
        name: "i386",
        arch: "i386",
        make: &["LLVM=-14"],
        config: &[PC],
        user_compiler: Some("i686-linux-gnu-gcc"),
        ..INTEL
    },
    Machine {
        name: "ppc",
        cross: "powerpc-linux-gnu-",
        config: &[POWER_MAC],
        qemu: &["-M", "mac99", "-vga", "none"],
        arguments: "console=ttyPZ0",
        ..POWER
    },
    Machine { name: "ppc64", cross: "powerpc64-linux-gnu-", config: &[PSERIES, BIG], ..POWER },
    Machine {
        name: "ppc64le",
        cross: "powerpc64le-linux-gnu-",
        config: &[PSERIES, POWER8, LITTLE],
        emulator: Some("qemu-system-ppc64"),
        ..POWER
    },
    malta("mips", "mips-linux-gnu-", &[MALTA, BIG, MIPS32], MALTA_32),
    malta("mipsel", "mipsel-linux-gnu-", &[MALTA, LITTLE, MIPS32], MALTA_32),
    malta("mips64", "mips64-linux-gnuabi64-", &[MALTA, BIG, MIPS64], MALTA_64),
    malta("mips64el", "mips64el-linux-gnuabi64-", &[MALTA, LITTLE, MIPS64], MALTA_64),
    Machine {
        name: "sparc64",
        arch: "sparc64",
        cross: "sparc64-linux-gnu-",
        image: "arch/sparc/boot/image",
        config: &[SUN],
        qemu: &["-M", "sun4u"],
        ..ANY
    },
    Machine {
        name: "riscv64",
        arch: "riscv",
        cross: "riscv64-linux-gnu-",
        image: "arch/riscv/boot/Image",
        config: &[RISCV],
        config_of: &[("6.1", RISCV_OF_6_1), ("6.12", RISCV_OF_6_12), ("7.2", RISCV_OF_7_2)],
        is_patchable: true,
        // A nanosecond is an instruction, so that they can be counted.
        qemu: &["-M", "virt", "-icount", "shift=0,sleep=off"],
        // Linux 6.12 reads what QEMU 7.2 says of the processor only if it is told to.
        arguments: "console=ttyS0 riscv_isa_fallback",
        ..ANY
    },
    Machine { name: "arm64", config: &[ARM64], ..AARCH64 },
    Machine {
        name: "arm64-lto",
        make: &["LLVM=-19"],
        config: &[ARM64, THIN_LTO],
        user_compiler: Some("aarch64-linux-gnu-gcc"),
        ..AARCH64
    },
    Machine {
        name: "loongarch64",
        arch: "loongarch",
        make: &["LLVM=-19"],
        image: "arch/loongarch/boot/vmlinux.elf",
        config: &[LOONGARCH],
        is_patchable: true,
        is_newer: true,
        qemu: &["-M", "virt", "-cpu", "la464", "-icount", "shift=0,sleep=off"],
        ..ANY
    },
    Machine {
        name: "s390x",
        arch: "s390",
        cross: "s390x-linux-gnu-",
        image: "arch/s390/boot/bzImage",
        config: &[S390],
        has_nops: true,
        qemu: &["-M", "s390-ccw-virtio", "-cpu", "max"],
        arguments: "console=ttysclp0",
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
    config_of: &[],
    is_patchable: false,
    has_nops: false,
    is_newer: false,
    user_compiler: None,
    emulator: None,
    qemu: &[],
    arguments: "console=ttyS0",
};

const INTEL: Machine =
    Machine { image: "arch/x86/boot/bzImage", qemu: &["-M", "pc", "-cpu", "max"], ..ANY };

const AARCH64: Machine = Machine {
    arch: "arm64",
    cross: "aarch64-linux-gnu-",
    image: "arch/arm64/boot/Image",
    is_patchable: true,
    emulator: Some("qemu-system-aarch64"),
    qemu: &["-M", "virt", "-cpu", "cortex-a57", "-icount", "shift=0,sleep=off"],
    arguments: "console=ttyAMA0",
    ..ANY
};

const POWER: Machine = Machine {
    arch: "powerpc",
    qemu: &["-M", "pseries", "-cpu", "power8", "-vga", "none"],
    arguments: "console=hvc0",
    ..ANY
};

/// A MIPS machine: they differ in byte order and width.
const fn malta(
    name: &'static str,
    cross: &'static str,
    config: &'static [&'static str],
    qemu: &'static [&'static str],
) -> Machine {
    Machine { name, arch: "mips", cross, config, qemu, ..ANY }
}

impl Machine {
    /// The target of make that makes what QEMU boots.
    pub(super) fn target(&self) -> &'static str {
        self.image.rsplit('/').next().unwrap_or(self.image)
    }

    pub(super) fn user_compiler(&self) -> String {
        self.user_compiler.map_or_else(|| format!("{}gcc", self.cross), str::to_owned)
    }

    pub(super) fn emulator(&self) -> String {
        self.emulator.map_or_else(|| format!("qemu-system-{}", self.name), str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_named_after_the_processor_unless_they_say_so() {
        let machine = |name| MACHINES.iter().find(|machine| machine.name == name).unwrap();
        let cases = [
            ("mips64el", "qemu-system-mips64el", "mips64el-linux-gnuabi64-gcc", "vmlinux"),
            ("ppc64le", "qemu-system-ppc64", "powerpc64le-linux-gnu-gcc", "vmlinux"),
            ("i386", "qemu-system-i386", "i686-linux-gnu-gcc", "bzImage"),
            ("arm", "qemu-system-arm", "arm-linux-gnueabihf-gcc", "zImage"),
        ];
        for (name, emulator, compiler, target) in cases {
            let machine = machine(name);
            let found = (machine.emulator(), machine.user_compiler(), machine.target());
            assert_eq!(found, (emulator.to_owned(), compiler.to_owned(), target), "{name}");
        }
    }
}
