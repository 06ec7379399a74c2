//! What late recording is tried on: data only.

use crate::targets::{Link, Program, System, TARGETS, Target, Variant};
use std::env;

/// A program: a target, how it is compiled, and how it is linked.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) target: &'static Target,
    pub(crate) variant: Variant,
    pub(crate) linker: Linker,
    pub(crate) layout: Layout,
    pub(crate) extra: Extra,
}

/// Which linker the compiler driver runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Linker {
    /// The compiler's own: GNU ld, but for LoongArch.
    Default,
    Lld,
    Gold,
    Mold,
}

impl Linker {
    /// Its program; `None` for the compiler's own.
    pub(crate) fn program(self, target: &Target) -> Option<String> {
        match self {
            Self::Default => None,
            Self::Lld => Some("ld.lld-19".to_owned()),
            Self::Mold => Some("ld.mold".to_owned()),
            Self::Gold => Some(target.toolchain.utility("ld.gold")),
        }
    }
}

/// What is linked, and where the hook is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    Static,
    Pie,
    StaticPie,
    /// All of it in a shared object, whose functions can be interposed: calls go through the PLT.
    Shared,
    /// The hook is out of reach of a call: a veneer leads to it.
    Far,
    FarPie,
}

impl Layout {
    pub(crate) const fn compile_flags(self) -> &'static [&'static str] {
        match self {
            Self::Static | Self::Far => &["-fno-pie"],
            Self::Pie | Self::StaticPie | Self::FarPie => &["-fPIE"],
            Self::Shared => &["-fPIC"],
        }
    }

    pub(crate) const fn link_flags(self) -> &'static [&'static str] {
        match self {
            Self::Static => &["-no-pie", "-static"],
            Self::Pie => &["-pie"],
            Self::StaticPie => &["-static-pie"],
            Self::Shared => &["-shared"],
            Self::Far => &["-no-pie", "-static", "-Wl,--section-start=.far_text=0x20010000"],
            Self::FarPie => &["-pie", "-Wl,--section-start=.far_text=0x20010000"],
        }
    }

    pub(crate) const fn is_far(self) -> bool {
        matches!(self, Self::Far | Self::FarPie)
    }
}

/// What else is asked of compiler and linker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extra {
    Nothing,
    /// The first function of an object is dead, and the linker collects it.
    Collected,
    /// Link-time optimisation by the compiler.
    Lto,
    /// Areas of NOPs in place of calls.
    Patchable,
}

impl Extra {
    pub(crate) const fn compile_flags(self) -> &'static [&'static str] {
        match self {
            Self::Nothing => &[],
            Self::Collected => &["-ffunction-sections", "-include", "dead.h"],
            Self::Lto => &["-flto"],
            Self::Patchable => &["-fpatchable-function-entry=4,2"],
        }
    }

    pub(crate) const fn link_flags(self) -> &'static [&'static str] {
        match self {
            Self::Collected => &["-Wl,--gc-sections"],
            Self::Lto => &["-flto", "-O2", "-pg"],
            _ => &[],
        }
    }
}

impl Case {
    pub(crate) fn name(&self) -> String {
        let (target, variant) = (self.target.toolchain.name, self.variant.label);
        format!("{target}::{variant}::{:?}::{:?}::{:?}", self.linker, self.layout, self.extra)
    }

    /// The linker cannot do it.
    fn is_impossible(&self) -> bool {
        match (self.linker, self.layout) {
            (Linker::Gold, Layout::StaticPie | Layout::Far | Layout::FarPie) => true,
            // No room for the instruction that restores the TOC.
            // GNU ld does not link against such a shared object.
            (Linker::Mold, Layout::Shared) if self.target.toolchain.name == "sparc64" => true,
            // It takes another word for the GOT than the one that it says is.
            (Linker::Mold, Layout::Shared) if self.target.toolchain.name == "i686" => {
                !self.variant.compiler.is_empty()
            }
            (_, Layout::Shared) => self.variant.label == "profile-kernel",
            _ => false,
        }
    }

    /// The linker gives no name to what leads to the hook, or none that `objdump` can tell.
    pub(crate) fn has_nameless_stubs(&self) -> bool {
        match (self.linker, self.target.toolchain.name, self.layout) {
            (_, "hppa", _) => true,
            (Linker::Default, "powerpc", Layout::Far | Layout::FarPie) => true,
            (Linker::Lld, "armhf" | "armel", Layout::Shared) => true,
            (Linker::Gold, "powerpc" | "powerpc64" | "powerpc64le", Layout::Shared) => true,
            (Linker::Mold, name, Layout::Shared) => name != "x86_64",
            // It calls another word than the one that it calls _GLOBAL_OFFSET_TABLE_.
            (Linker::Mold, "i686", Layout::Pie) => true,
            _ => false,
        }
    }

    /// Behind a call through a stub the TOC is restored, so that the oracle cannot take the call away;
    /// and 32-bit code needs a GOT pointer that is not there yet when the hook is called.
    pub(crate) fn cannot_run(&self) -> bool {
        self.layout == Layout::Shared && self.target.toolchain.name.starts_with("powerpc")
    }

    /// What must be installed.
    pub(crate) fn programs(&self) -> Vec<&'static str> {
        let mut programs: Vec<_> = self.target.toolchain.programs().collect();
        programs.extend(self.variant.compiler.first());
        match self.linker {
            Linker::Lld => programs.push("ld.lld-19"),
            Linker::Mold => programs.push("ld.mold"),
            Linker::Default | Linker::Gold => {}
        }
        // GNU's come with the compiler.
        if self.target.toolchain.compiler == "clang-19" {
            programs.push("llvm-objdump-19");
        }
        programs
    }
}

/// Linkers beside the compiler's own, and layouts beside those of the runtime oracle.
struct More {
    target: &'static str,
    linkers: &'static [Linker],
    layouts: &'static [Layout],
}

const LLD: &[Linker] = &[Linker::Lld];
const ALL: &[Linker] = &[Linker::Lld, Linker::Gold, Linker::Mold];
const LLD_GOLD: &[Linker] = &[Linker::Lld, Linker::Gold];
const SHARED: &[Layout] = &[Layout::Shared];
const FAR: &[Layout] = &[Layout::Shared, Layout::Far, Layout::FarPie];

const MORE: &[More] = &[
    More { target: "x86_64", linkers: ALL, layouts: SHARED },
    More { target: "i686", linkers: ALL, layouts: SHARED },
    More { target: "aarch64", linkers: ALL, layouts: FAR },
    More { target: "aarch64_be", linkers: LLD, layouts: &[Layout::Far] },
    More { target: "armhf", linkers: ALL, layouts: FAR },
    More { target: "armel", linkers: LLD, layouts: FAR },
    More { target: "armeb", linkers: &[], layouts: &[Layout::Far] },
    More { target: "riscv64", linkers: &[Linker::Lld, Linker::Mold], layouts: SHARED },
    More { target: "powerpc", linkers: LLD_GOLD, layouts: FAR },
    More { target: "powerpc64", linkers: &[Linker::Gold], layouts: FAR },
    More { target: "powerpc64le", linkers: ALL, layouts: FAR },
    More { target: "s390x", linkers: ALL, layouts: SHARED },
    More { target: "sparc64", linkers: &[Linker::Gold, Linker::Mold], layouts: SHARED },
    More { target: "hppa", linkers: &[], layouts: FAR },
    More { target: "mips", linkers: LLD_GOLD, layouts: SHARED },
    More { target: "mipsel", linkers: LLD_GOLD, layouts: SHARED },
    More { target: "mips64", linkers: LLD_GOLD, layouts: SHARED },
    More { target: "mips64el", linkers: LLD_GOLD, layouts: SHARED },
];

const fn layout_of(link: Link) -> Layout {
    match link {
        Link::Static => Layout::Static,
        Link::Pie => Layout::Pie,
        Link::StaticPie => Layout::StaticPie,
    }
}

/// Every case; without `MCOUNT_TEST_ALL`, some of them.
pub(crate) fn cases() -> Vec<Case> {
    let all = TARGETS.iter().flat_map(cases_of);
    if is_whole() { all.collect() } else { all.filter(is_usual).collect() }
}

/// A case of its own: the first way of compiling with every linker, the others with the usual one,
/// and another compiler only where the linker has to lead calls to the hook.
fn is_usual(case: &Case) -> bool {
    let first = case.target.variants.first();
    let is_first = first.is_some_and(|first| first.label == case.variant.label);
    let is_direct = matches!(case.layout, Layout::Static | Layout::Pie | Layout::StaticPie);
    match case.linker {
        Linker::Default => is_first || case.variant.compiler.is_empty() || !is_direct,
        Linker::Lld => is_first || case.layout.is_far(),
        Linker::Gold | Linker::Mold => {
            is_first && (!is_direct || case.target.toolchain.name == "x86_64")
        }
    }
}

/// A way of compiling for objects: lld does not know its relocations.
const OF_OBJECTS: &[&str] = &["longcall"];

fn cases_of(target: &'static Target) -> Vec<Case> {
    let name = target.toolchain.name;
    let more = MORE.iter().find(|more| more.target == name);
    let (linkers, layouts) = more.map_or((&[][..], &[][..]), |more| (more.linkers, more.layouts));
    let mut cases = Vec::new();
    let variants = target.variants.iter().filter(|variant| {
        variant.program == Program::Samples
            && !variant.link_flags.contains(&"-fuse-ld=lld")
            && !OF_OBJECTS.contains(&variant.label)
    });
    for &variant in variants {
        let links = variant.links.iter().copied().map(layout_of);
        // Code for programs alone is not for shared objects.
        let is_pic = variant.links.contains(&Link::Pie);
        let layouts = layouts.iter().filter(|layout| is_pic || **layout == Layout::Far);
        for layout in links.chain(layouts.copied()) {
            for &linker in [Linker::Default].iter().chain(linkers) {
                let case = Case { target, variant, linker, layout, extra: Extra::Nothing };
                if !case.is_impossible() {
                    cases.push(case);
                }
            }
        }
    }
    let Some(&first) = cases.first() else { return cases };
    for &linker in [Linker::Default].iter().chain(linkers) {
        for extra in [Extra::Collected, Extra::Patchable] {
            cases.push(Case { linker, extra, ..first });
        }
        // lld does not know gcc's intermediate code.
        if linker != Linker::Lld && is_hosted(target) {
            cases.push(Case { linker, extra: Extra::Lto, ..first });
        }
    }
    cases
}

/// Whether the target has a C library, and a dynamic linker.
pub(crate) fn is_hosted(target: &Target) -> bool {
    target.system == System::Host
}

/// Whether the whole matrix is asked for.
fn is_whole() -> bool {
    env::var_os("MCOUNT_TEST_ALL").is_some_and(|value| value == "1")
}
