//! Each processor's program, linked in each way that matters to a table, sorted and made NOPs of.

use crate::build::{Case, Flavour, Shared, link, recorded, temporary};
use crate::targets::{Link, Program, TARGETS, Target, Variant};
use crate::{check, nop, sort};
use std::env;

pub(crate) const STATIC: Flavour = Flavour {
    label: "static",
    compile: &["-fno-pie"],
    link: &["-no-pie", "-static"],
    shared: false,
};
pub(crate) const PIE: Flavour =
    Flavour { label: "pie", compile: &["-fPIE"], link: &["-pie"], shared: false };
const KEPT: Flavour =
    Flavour { label: "static-kept", link: &["-no-pie", "-static", "-Wl,-q"], ..STATIC };
const KEPT_PIE: Flavour = Flavour { label: "pie-kept", link: &["-pie", "-Wl,-q"], ..PIE };
pub(crate) const PACKED: Flavour =
    Flavour { label: "pie-relr", link: &["-pie", "-Wl,-z,pack-relative-relocs"], ..PIE };
/// A static program relocates itself, and asks nothing of the loader's version.
const PACKED_LLD: Flavour = Flavour {
    label: "pie-relr-lld",
    link: &["-static-pie", "-fuse-ld=lld", "-Wl,--pack-dyn-relocs=relr"],
    ..PIE
};
pub(crate) const SHARED: Flavour =
    Flavour { label: "shared", compile: &["-fPIC"], link: &["-shared"], shared: true };

const KEPT_SHARED: Flavour =
    Flavour { label: "shared-kept", link: &["-shared", "-Wl,-q"], ..SHARED };
const SHARED_LLD: Flavour =
    Flavour { label: "shared-lld", link: &["-shared", "-fuse-ld=lld"], ..SHARED };

/// What a processor is linked as beside the ways of its variants.
const EXTRA: &[(&str, &[Flavour])] = &[
    ("x86_64", &[KEPT, KEPT_PIE, PACKED, PACKED_LLD, SHARED]),
    ("i686", &[KEPT_PIE, PACKED, SHARED]),
    ("aarch64", &[KEPT_PIE, PACKED_LLD, SHARED]),
    ("armhf", &[KEPT_PIE]),
    ("riscv64", &[KEPT_PIE]),
    // The hook of a shared object is called through a stub.
    ("powerpc64le", &[KEPT_PIE, SHARED, KEPT_SHARED, SHARED_LLD]),
    ("powerpc64", &[KEPT_PIE, SHARED, KEPT_SHARED]),
    ("powerpc", &[KEPT_PIE]),
    ("s390x", &[KEPT_PIE, SHARED]),
    ("mips", &[KEPT]),
    ("mipsel", &[KEPT_PIE]),
    ("mips64el", &[KEPT_PIE]),
    ("sparc64", &[KEPT_PIE]),
];

/// Every program, or those that differ most.
pub(crate) fn cases() -> Vec<Case> {
    let all = env::var_os("MCOUNT_TEST_ALL").is_some_and(|value| value == "1");
    let mut cases = Vec::new();
    for target in TARGETS {
        let samples = |variant: &&Variant| variant.program == Program::Samples;
        for (index, &variant) in target.variants.iter().filter(samples).enumerate() {
            let chosen = all || index == 0;
            let links = variant.links.iter().filter(|link| **link != Link::StaticPie);
            let count = if chosen { variant.links.len() } else { 1 };
            // The last is position-independent where one is.
            for link in links.rev().take(count) {
                let flavour = if *link == Link::Static { STATIC } else { PIE };
                cases.push(Case { target, variant, flavour });
            }
            let extra = EXTRA.iter().find(|(name, _)| *name == target.toolchain.name);
            let extra = extra.filter(|_| index == 0).map_or(&[][..], |(_, extra)| extra);
            cases.extend(extra.iter().map(|&flavour| Case { target, variant, flavour }));
        }
    }
    cases
}

pub(crate) fn name(case: &Case) -> String {
    let Case { target, variant, flavour } = case;
    format!("{}::{}::{}", target.toolchain.name, variant.label, flavour.label)
}

/// What must be installed.
pub(crate) fn programs(case: &Case) -> Vec<&'static str> {
    let Case { target, variant, flavour } = case;
    let uses_lld = [flavour.link, variant.link_flags].concat().contains(&"-fuse-ld=lld");
    let compiler = variant.compiler.iter().take(1).copied();
    let tools = target.toolchain.programs().chain(compiler).chain(["readelf"]);
    tools.chain(uses_lld.then_some("ld.lld")).collect()
}

/// The program of `case` as it is linked, stripped, sorted, and without calls.
pub(crate) fn perform(case: &Case, shared: &Shared) -> Result<(), String> {
    let folder = shared.objects(case)?;
    let out = temporary()?;
    let image = link(case, &folder, &recorded(&folder), out.path())?;
    check::is_right(case, &image)?;
    sort::is_right(case, &image)?;
    nop::is_right(case, &image)
}

/// The first variant of the processor called `name`, linked as `flavour`.
pub(crate) fn first(name: &str, flavour: Flavour) -> Option<Case> {
    let target: &'static Target = TARGETS.iter().find(|t| t.toolchain.name == name)?;
    Some(Case { target, variant: *target.variants.first()?, flavour })
}
