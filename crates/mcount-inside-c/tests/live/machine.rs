//! What programs are compiled for, and what runs them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A processor, with compilers and an emulator.
pub(crate) struct Machine {
    pub(crate) name: &'static str,
    /// gcc and g++.
    gcc: &'static str,
    gxx: &'static str,
    /// clang and clang++.
    clang: &'static str,
    clangxx: &'static str,
    /// The options that say what for: clang's, and gcc's if it's for several processors.
    target: &'static [&'static str],
    gcc_target: &'static [&'static str],
    /// What runs programs; nothing where this machine does.
    pub(crate) emulator: &'static [&'static str],
    /// It has a library of C++.
    pub(crate) has_cpp: bool,
    /// Its programs are static: they load nothing.
    pub(crate) is_static: bool,
    /// Seconds that a program may take, on a busy machine.
    pub(crate) patience: &'static str,
}

/// This machine, with the library that cargo has built for this test.
pub(crate) static HERE: Machine = Machine {
    name: "here",
    gcc: "gcc",
    gxx: "g++",
    clang: "clang",
    clangxx: "clang++",
    target: &[],
    gcc_target: &[],
    emulator: &[],
    has_cpp: true,
    is_static: false,
    patience: "100",
};

/// The others, with the library that `cargo xtask foreign` has built.
pub(crate) static AARCH64: Machine = Machine {
    name: "aarch64",
    gcc: "aarch64-linux-gnu-gcc",
    gxx: "aarch64-linux-gnu-g++",
    clang: "clang-19",
    clangxx: "clang++-19",
    target: &["--target=aarch64-linux-gnu"],
    gcc_target: &[],
    emulator: &["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"],
    has_cpp: true,
    is_static: false,
    patience: "1000",
};

/// The folder of the C library that `cargo xtask foreign` has built for it.
macro_rules! big_root {
    ($option:literal, $in:literal) => {
        concat!($option, env!("CARGO_MANIFEST_DIR"), "/../../target/hosts/roots/aarch64_be", $in)
    };
}

/// Its programs are static, and in C.
pub(crate) static AARCH64_BE: Machine = Machine {
    name: "aarch64_be",
    gcc: "aarch64-linux-gnu-gcc",
    gxx: "aarch64-linux-gnu-g++",
    clang: "clang-19",
    clangxx: "clang++-19",
    target: &[
        "--target=aarch64_be-linux-musl",
        big_root!("--sysroot=", ""),
        "-fuse-ld=lld-19",
        "-static",
    ],
    gcc_target: &[
        "-mbig-endian",
        "-isystem",
        big_root!("", "/usr/include"),
        big_root!("-B", "/usr/lib/"),
        "-static",
    ],
    emulator: &["qemu-aarch64_be"],
    has_cpp: false,
    is_static: true,
    patience: "1000",
};

/// clang calls a hook of another name unless it's told of GNU's ABI.
pub(crate) static ARM: Machine = Machine {
    name: "arm",
    gcc: "arm-linux-gnueabihf-gcc",
    gxx: "arm-linux-gnueabihf-g++",
    clang: "clang-19",
    clangxx: "clang++-19",
    target: &["--target=arm-linux-gnueabihf", "-meabi", "gnu"],
    gcc_target: &[],
    emulator: &["qemu-arm", "-L", "/usr/arm-linux-gnueabihf"],
    has_cpp: true,
    is_static: false,
    patience: "1000",
};

const I386_LINKER: &str = "-Wl,--dynamic-linker=/usr/i686-linux-gnu/lib/ld-linux.so.2";
const I386_PATH: &str = "-Wl,-rpath,/usr/i686-linux-gnu/lib";

/// This machine runs its programs, with a C library that's elsewhere. Vectors are what handlers see of floating-point numbers.
pub(crate) static I386: Machine = Machine {
    name: "i386",
    gcc: "i686-linux-gnu-gcc",
    gxx: "i686-linux-gnu-g++",
    clang: "clang-19",
    clangxx: "clang++-19",
    target: &["--target=i686-linux-gnu", "-msse2", I386_LINKER, I386_PATH],
    gcc_target: &["-msse2", I386_LINKER, I386_PATH],
    emulator: &[],
    has_cpp: true,
    is_static: false,
    patience: "100",
};

/// The folder of what `cargo xtask foreign` has of a newer Debian for it: libraries, gcc's start files, and an emulator that knows
/// vector registers.
macro_rules! loong_root {
    ($option:literal, $in:literal) => {
        concat!($option, env!("CARGO_MANIFEST_DIR"), "/../../target/hosts/roots/loongarch64", $in)
    };
}

const LOONGARCH64_TARGET: &[&str] = &[
    "--target=loongarch64-linux-gnu",
    loong_root!("--sysroot=", ""),
    loong_root!("--gcc-toolchain=", "/usr"),
    "-fuse-ld=lld-19",
    // Not said of a run that doesn't link.
    "-Wno-unused-command-line-argument",
];

/// Debian has no gcc of its own for it that runs here, so clang stands for both.
pub(crate) static LOONGARCH64: Machine = Machine {
    name: "loongarch64",
    gcc: "clang-19",
    gxx: "clang++-19",
    clang: "clang-19",
    clangxx: "clang++-19",
    target: LOONGARCH64_TARGET,
    gcc_target: LOONGARCH64_TARGET,
    emulator: &[
        loong_root!("", "/usr/bin/qemu-loongarch64"),
        "-L",
        loong_root!("", "/usr/loongarch64-linux-gnu"),
    ],
    has_cpp: true,
    is_static: false,
    patience: "1000",
};

pub(crate) static POWERPC64LE: Machine = Machine {
    name: "powerpc64le",
    gcc: "powerpc64le-linux-gnu-gcc",
    gxx: "powerpc64le-linux-gnu-g++",
    clang: "clang-19",
    clangxx: "clang++-19",
    target: &["--target=powerpc64le-linux-gnu"],
    gcc_target: &[],
    emulator: &["qemu-ppc64le", "-L", "/usr/powerpc64le-linux-gnu"],
    has_cpp: true,
    is_static: false,
    patience: "1000",
};

pub(crate) static RISCV64: Machine = Machine {
    name: "riscv64",
    gcc: "riscv64-linux-gnu-gcc",
    gxx: "riscv64-linux-gnu-g++",
    clang: "clang-19",
    clangxx: "clang++-19",
    target: &["--target=riscv64-linux-gnu"],
    gcc_target: &[],
    emulator: &["qemu-riscv64", "-L", "/usr/riscv64-linux-gnu"],
    has_cpp: true,
    is_static: false,
    patience: "1000",
};

pub(crate) static S390X: Machine = Machine {
    name: "s390x",
    gcc: "s390x-linux-gnu-gcc",
    gxx: "s390x-linux-gnu-g++",
    clang: "clang-19",
    clangxx: "clang++-19",
    target: &["--target=s390x-linux-gnu"],
    gcc_target: &[],
    emulator: &["qemu-s390x", "-L", "/usr/s390x-linux-gnu"],
    has_cpp: true,
    is_static: false,
    patience: "1000",
};

impl Machine {
    fn is_here(&self) -> bool {
        self.name == HERE.name
    }

    /// Is there a library of this kind? Of other processors, only the static one.
    pub(crate) fn has(&self, kind: &str) -> bool {
        self.is_here() || kind == "a"
    }

    /// The library.
    pub(crate) fn library(&self, kind: &str) -> PathBuf {
        if self.is_here() {
            let here = std::env::current_exe().unwrap_or_default();
            let folder = here.parent().unwrap_or(Path::new("."));
            return folder.join(format!("libmcount_live_c.{kind}"));
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        root.join("target/hosts/libraries").join(self.name).join("libmcount-live.a")
    }

    /// The program that is called `gcc`, `g++`, `clang` or `clang++` elsewhere.
    pub(crate) fn compiler(&self, name: &str) -> &'static str {
        match name {
            "gcc" => self.gcc,
            "g++" => self.gxx,
            "clang" => self.clang,
            _ => self.clangxx,
        }
    }

    /// The same, about to compile.
    pub(crate) fn compile(&self, name: &str) -> Command {
        let mut command = Command::new(self.compiler(name));
        command.args(if name.starts_with("clang") { self.target } else { self.gcc_target });
        command
    }

    /// The command that runs a program.
    pub(crate) fn execute(&self, program: &Path) -> Command {
        let Some((emulator, arguments)) = self.emulator.split_first() else {
            return Command::new(program);
        };
        let mut command = Command::new(emulator);
        command.args(arguments).arg(program);
        command
    }
}
