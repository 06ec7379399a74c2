//! Hands on what the build script of `mcount-tracer` says of the processor and the system that this is built for: `can_trace`
//! and `can_patch`. And links `recordmcount` statically where the C library can be had that way.
//!
//! `recordmcount` runs once an object in a kernel build, and the dynamic linker would take as long as the work.
//! `-C target-feature=+crt-static` cannot be asked for here: for a glibc target it would have to hold
//! for the build's procedural macros too, which cannot be static. So the libraries that rustc
//! names are found, for this one program, as linker scripts that name the static ones.
//! `MCOUNT_DYNAMIC=1` in the environment leaves it dynamic.
#![expect(clippy::disallowed_methods, reason = "a build script, which reports its errors itself")]

use std::env::var;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What rustc links a program against, and the archives to take for it.
const LIBRARIES: &[(&str, &str)] = &[
    ("c", "libc.a libgcc_eh.a libgcc.a"),
    ("gcc_s", "libgcc_eh.a libgcc.a"),
    ("m", "libm.a"),
    ("dl", "libdl.a"),
    ("pthread", "libpthread.a"),
    ("rt", "librt.a"),
    ("util", "libutil.a"),
];

fn main() {
    say_what_there_is();
    link_statically();
}

fn is(name: &str, value: &str) -> bool {
    var(name).is_ok_and(|found| found == value)
}

fn say_what_there_is() {
    println!("cargo::rustc-check-cfg=cfg(can_trace, can_patch)");
    for ability in ["can_trace", "can_patch"] {
        if is(&format!("DEP_MCOUNT_TRACER_{}", ability.to_uppercase()), "1") {
            println!("cargo::rustc-cfg={ability}");
        }
    }
}

fn link_statically() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=MCOUNT_DYNAMIC");
    let native = var("HOST").ok() == var("TARGET").ok();
    let glibc = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if !native || !glibc || is("MCOUNT_DYNAMIC", "1") || !has_archives() {
        return;
    }
    let Ok(out) = var("OUT_DIR") else { return };
    let folder = PathBuf::from(out).join("static");
    if write_scripts(&folder).is_ok() {
        println!("cargo::rustc-link-arg-bin=recordmcount=-L{}", folder.display());
        println!("cargo::rustc-link-arg-bin=recordmcount=-static-pie");
    }
}

/// The compiler driver finds every archive, and the start file of a static PIE.
fn has_archives() -> bool {
    let files = LIBRARIES.iter().flat_map(|(_, archives)| archives.split(' '));
    files.chain(["rcrt1.o"]).all(|file| {
        // A file that is not there is answered with its bare name.
        let answer = Command::new("cc").arg(format!("-print-file-name={file}")).output();
        answer.is_ok_and(|answer| answer.stdout.starts_with(b"/"))
    })
}

fn write_scripts(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    LIBRARIES.iter().try_for_each(|(name, archives)| {
        std::fs::write(folder.join(format!("lib{name}.so")), format!("GROUP ( {archives} )\n"))
    })
}
