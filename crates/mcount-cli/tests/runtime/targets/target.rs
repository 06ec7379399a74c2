//! What a target is, and the usual ways of compiling for one and linking.

use testkit::tools::Toolchain;

/// A processor and byte order, and the ways of compiling for it.
pub(crate) struct Target {
    pub(crate) toolchain: Toolchain,
    /// The folder of `tests/runtime` that knows the processor.
    pub(crate) folder: &'static str,
    /// What the oracle stands on.
    pub(crate) system: System,
    /// Compiler flags of the oracle itself, but not of the traced functions.
    pub(crate) oracle: &'static [&'static str],
    pub(crate) variants: &'static [Variant],
}

/// Whether there is a C library for the target.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum System {
    Host,
    Bare,
}

/// One way of compiling the traced functions, and the ways of linking them.
#[derive(Clone, Copy)]
pub(crate) struct Variant {
    pub(crate) label: &'static str,
    /// Another compiler for the traced functions than the toolchain's, with its flags.
    pub(crate) compiler: &'static [&'static str],
    pub(crate) flags: &'static [&'static str],
    /// The hook symbol that `flags` make the compiler call.
    pub(crate) hook: &'static str,
    /// The file of `tests/runtime` that defines it.
    pub(crate) hook_file: &'static str,
    pub(crate) link_flags: &'static [&'static str],
    pub(crate) links: &'static [Link],
    pub(crate) program: Program,
}

/// The kind of the linked program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Static,
    Pie,
    StaticPie,
}

/// Which functions are traced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// Those of `samples.c` and `more.c`.
    Samples,
    /// The one weak function of `weak.c`.
    Weak,
    /// Those of `samples.c` and `more.c`, with patchable entries in place of calls.
    Patchable,
}

impl Link {
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Pie => "pie",
            Self::StaticPie => "static-pie",
        }
    }

    pub(crate) const fn compile_flags(self) -> &'static [&'static str] {
        match self {
            Self::Static => &["-fno-pie"],
            Self::Pie | Self::StaticPie => &["-fPIE"],
        }
    }

    pub(crate) const fn link_flags(self) -> &'static [&'static str] {
        match self {
            Self::Static => &["-no-pie", "-static"],
            Self::Pie => &["-pie"],
            Self::StaticPie => &["-static-pie"],
        }
    }
}

pub(crate) const STATIC: &[Link] = &[Link::Static];
pub(crate) const PIE: &[Link] = &[Link::Pie];
pub(crate) const BOTH: &[Link] = &[Link::Static, Link::Pie];

/// The hook where calling it is an ordinary call.
pub(crate) const ORDINARY: &str = "hook.c";

/// `-pg`, which calls `hook` of `hook_file`.
pub(crate) const fn pg(hook: &'static str, hook_file: &'static str) -> Variant {
    Variant {
        label: "pg",
        compiler: &[],
        flags: &["-pg"],
        hook,
        hook_file,
        link_flags: &[],
        links: BOTH,
        program: Program::Samples,
    }
}

/// The same with the traced functions compiled by clang, whose sequences differ.
pub(crate) const fn by_clang(flags: &'static [&'static str], variant: Variant) -> Variant {
    Variant { label: "clang", compiler: flags, ..variant }
}

/// The same with one weak function alone.
pub(crate) const fn weak_alone(label: &'static str, variant: Variant) -> Variant {
    Variant { label, flags: &["-pg", "-ffunction-sections"], program: Program::Weak, ..variant }
}

/// The same linked by lld.
pub(crate) const fn by_lld(label: &'static str, variant: Variant) -> Variant {
    Variant { label, link_flags: &["-fuse-ld=lld"], ..variant }
}

/// The same with patchable entries in place of calls.
pub(crate) const fn patchable(variant: Variant) -> Variant {
    let flags = &["-fpatchable-function-entry=4,2"];
    Variant { label: "patchable", flags, program: Program::Patchable, ..variant }
}

pub(crate) const fn gcc(
    name: &'static str,
    compiler: &'static str,
    qemu: &'static str,
) -> Toolchain {
    Toolchain { name, compiler, flags: &[], qemu: Some(qemu), sysroot: None }
}

/// A target with a C library in `sysroot`, where the emulator looks for it too.
pub(super) const fn hosted(
    folder: &'static str,
    sysroot: &'static str,
    toolchain: Toolchain,
    variants: &'static [Variant],
) -> Target {
    let toolchain = Toolchain { sysroot: Some(sysroot), ..toolchain };
    Target { toolchain, folder, system: System::Host, oracle: &[], variants }
}

/// A target without a C library.
pub(super) const fn bare(
    folder: &'static str,
    toolchain: Toolchain,
    variants: &'static [Variant],
) -> Target {
    Target { toolchain, folder, system: System::Bare, oracle: &[], variants }
}
