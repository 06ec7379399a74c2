//! The same programs by both compilers, with every way to ask for hooks, optimized and not, linked in every way.

use crate::Test;
use crate::truth::{Also, Room, same};
use testkit::sample::one_in;

/// How a compiler is asked for hooks, and in which layouts it can.
pub(crate) struct Hooks {
    pub(crate) name: &'static str,
    pub(crate) flags: &'static [&'static str],
    pub(crate) gcc: bool,
    pub(crate) clang: bool,
    /// Refused in a position-independent executable.
    fixed_only: bool,
}

const fn both(name: &'static str, flags: &'static [&'static str]) -> Hooks {
    Hooks { name, flags, gcc: true, clang: true, fixed_only: false }
}

#[cfg(target_arch = "aarch64")]
pub(crate) const HOOKS: &[Hooks] = &[
    both("patchable-2", &["-fpatchable-function-entry=2"]),
    both("patchable-1", &["-fpatchable-function-entry=1"]),
    both("patchable-5,2", &["-fpatchable-function-entry=5,2"]),
    both(
        "patchable-2-protected",
        &["-fpatchable-function-entry=2", "-mbranch-protection=standard"],
    ),
    both("pg", &["-pg"]),
    both("pg-protected", &["-pg", "-mbranch-protection=standard"]),
];

#[cfg(target_arch = "riscv64")]
pub(crate) const HOOKS: &[Hooks] = &[
    both("patchable-4", &["-fpatchable-function-entry=4"]),
    both("patchable-5", &["-fpatchable-function-entry=5"]),
    both("patchable-5,4", &["-fpatchable-function-entry=5,4"]),
    both("patchable-8,4", &["-fpatchable-function-entry=8,4"]),
    both("patchable-2-plain", &["-fpatchable-function-entry=2", "-march=rv64g"]),
    both("pg", &["-pg"]),
    both("pg-unrelaxed", &["-pg", "-Wl,--no-relax"]),
];

/// For processors before POWER10, functions that need `r2` have their NOPs where local calls don't come by.
#[cfg(target_arch = "powerpc64")]
pub(crate) const HOOKS: &[Hooks] = &[
    both("pg", &["-pg"]),
    Hooks { clang: false, ..both("pg-8", &["-pg", "-mcpu=power8"]) },
    Hooks { clang: false, ..both("patchable-2", &["-fpatchable-function-entry=2"]) },
    Hooks { clang: false, ..both("patchable-5,3", &["-fpatchable-function-entry=5,3"]) },
];

#[cfg(not(any(target_arch = "aarch64", target_arch = "powerpc64", target_arch = "riscv64")))]
pub(crate) const HOOKS: &[Hooks] = &[
    both("patchable-5", &["-fpatchable-function-entry=5"]),
    both("patchable-16", &["-fpatchable-function-entry=16"]),
    both("patchable-7,2", &["-fpatchable-function-entry=7,2"]),
    both("patchable-7,5", &["-fpatchable-function-entry=7,5"]),
    both("patchable-9,6-cet", &["-fpatchable-function-entry=9,6", "-fcf-protection"]),
    both("patchable-5-cet", &["-fpatchable-function-entry=5", "-fcf-protection"]),
    both("pg", &["-pg"]),
    both("fentry", &["-pg", "-mfentry"]),
    Hooks { clang: false, ..both("pg-large", &["-pg", "-mcmodel=large"]) },
    // Elsewhere, clang's calls of `mcount` are three bytes among other instructions.
    Hooks { gcc: false, fixed_only: true, ..both("pg-large", &["-pg", "-mcmodel=large"]) },
    both("fentry-large", &["-pg", "-mfentry", "-mcmodel=large"]),
    Hooks { gcc: false, ..both("xray", XRAY) },
    Hooks {
        gcc: false,
        ..both(
            "xray-alone-cet",
            &["-fxray-instrument", THRESHOLD, "-fnoxray-link-deps", "-fcf-protection"],
        )
    },
    Hooks {
        name: "nop-mcount",
        flags: &["-pg", "-mfentry", "-mnop-mcount", "-mrecord-mcount"],
        gcc: true,
        clang: false,
        fixed_only: true,
    },
];

/// Has clang leave sleds in short functions, too.
const THRESHOLD: &str = "-fxray-instruction-threshold=1";

/// Sleds, and LLVM's runtime for them.
pub(crate) const XRAY: &[&str] = &["-fxray-instrument", THRESHOLD];

/// How a program is optimized and linked.
struct Link {
    name: &'static str,
    flags: &'static [&'static str],
    is_fixed: bool,
}

const fn link(name: &'static str, flags: &'static [&'static str], is_fixed: bool) -> Link {
    Link { name, flags, is_fixed }
}

/// All of `-O0` to `-O3`, all layouts, and link-time optimization; not each with each.
const LINKS: &[Link] = &[
    link("O0", &["-O0", "-pie", "-fPIE"], false),
    link("O1", &["-O1", "-pie", "-fPIE"], false),
    link("O2", &["-O2", "-pie", "-fPIE"], false),
    link("O0-fixed", &["-O0", "-no-pie", "-fno-pie"], true),
    link("O2-fixed", &["-O2", "-no-pie", "-fno-pie"], true),
    link("O3-fixed", &["-O3", "-no-pie", "-fno-pie"], true),
    link("lto", &["-O2", "-flto", "-no-pie", "-fno-pie"], true),
];

/// C++ takes a second to compile: fewer of them.
const CPP_LINKS: &[Link] = &[
    link("O0-fixed", &["-O0", "-no-pie", "-fno-pie"], true),
    link("O2", &["-O2", "-pie", "-fPIE"], false),
];

/// Without a dynamic linker.
const STATIC: &[(&str, &str, &[&str])] = &[
    ("static", "gcc", &["-O2", "-static", "-no-pie", "-fno-pie"]),
    ("static", "clang", &["-O2", "-static", "-no-pie", "-fno-pie"]),
    ("static-pie", "gcc", &["-O2", "-static-pie", "-fPIE"]),
    ("musl", "musl-gcc", &["-O2", "-static", "-no-pie", "-fno-pie"]),
    ("musl-dynamic", "musl-gcc", &["-O2", "-pie", "-fPIE"]),
];

pub(crate) fn tests() -> Vec<Test> {
    one_in(6, every())
}

fn every() -> Vec<Test> {
    let mut tests = Vec::new();
    for hooks in HOOKS {
        for link in LINKS {
            tests.extend(
                compilers(hooks, link, ["gcc", "clang"])
                    .map(|compiler| build(compiler, hooks, link.name, link.flags, "plain.c")),
            );
        }
        for link in CPP_LINKS {
            tests.extend(
                compilers(hooks, link, ["g++", "clang++"])
                    .map(|compiler| build(compiler, hooks, link.name, link.flags, "throw.cpp")),
            );
        }
        for link in CPP_LINKS {
            for (compilers, source) in
                [(["gcc", "clang"], "copies.c"), (["g++", "clang++"], "copies-throw.cpp")]
            {
                let compilers = self::compilers(hooks, link, compilers);
                tests.extend(compilers.map(|one| build(one, hooks, link.name, link.flags, source)));
            }
        }
        for (name, compiler, flags) in STATIC {
            // musl has no `mcount` to link with.
            let has_hook = *compiler != "musl-gcc" || hooks.name.starts_with("patchable");
            let is_possible = if *compiler == "clang" { hooks.clang } else { hooks.gcc };
            let is_fixed = flags.contains(&"-no-pie");
            // GNU ld doesn't link the large code model so.
            let is_linked = *name != "static-pie" || !hooks.name.ends_with("-large");
            if has_hook && is_possible && is_linked && (is_fixed || !hooks.fixed_only) {
                tests.push(build(compiler, hooks, name, flags, "plain.c"));
            }
        }
    }
    tests
}

/// Those of gcc and clang that can build this.
fn compilers(
    hooks: &Hooks,
    link: &Link,
    [gcc, clang]: [&'static str; 2],
) -> impl Iterator<Item = &'static str> {
    let fits = link.is_fixed || !hooks.fixed_only;
    let gcc = (hooks.gcc && fits).then_some(gcc);
    let clang = (hooks.clang && fits).then_some(clang);
    gcc.into_iter().chain(clang)
}

fn build(
    compiler: &'static str,
    hooks: &'static Hooks,
    link: &str,
    flags: &'static [&'static str],
    source: &'static str,
) -> Test {
    let name = format!("build::{source}/{compiler}/{}/{link}/", hooks.name);
    let mut all: Vec<&str> = hooks.flags.to_vec();
    all.extend(flags);
    // Debian's clang has no plugin for the default linker.
    if compiler.starts_with("clang") && flags.contains(&"-flto") {
        all.push("-fuse-ld=lld");
    }
    Test {
        open: None,
        name,
        wants: vec![compiler],
        run: Box::new(move || {
            let room = Room::new()?;
            let program = room.compile(compiler, &all, source)?;
            // Calls of a stack that was copied away overlap others.
            let also = if source.starts_with("copies") { Also::Nothing } else { Also::Nesting };
            same(&room, &program, |_| {}, also)
        }),
    }
}
