//! Builds the agent: a shared object of its own, without the standard library, which `mcount trace` loads into
//! programs. Cargo can't build one package for two purposes, so the compiler is called here.
#![expect(clippy::print_stderr, reason = "a build script, which reports its errors itself")]

use std::env::var;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Those that the agent is written for, and what the compiler is told there: `agent/routines` has a file for each.
const PROCESSORS: [(&str, &[&str]); 2] = [
    ("x86_64", &[]),
    // What it would call for atomic instructions asks a C library which there are.
    ("aarch64", &["-Ctarget-feature=-outline-atomics"]),
];

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=agent");
    println!("cargo::rerun-if-changed=build.rs");
    // In the repository, this is a link to that of `mcount-trace`.
    println!("cargo::rerun-if-changed=agent/layout.rs");
    println!("cargo::rustc-check-cfg=cfg(has_agent)");
    let is = |name: &str, value: &str| var(name).is_ok_and(|found| found == value);
    let processor = PROCESSORS.iter().find(|(name, _)| is("CARGO_CFG_TARGET_ARCH", name));
    let is_possible = is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_POINTER_WIDTH", "64")
        && is("CARGO_CFG_TARGET_ENDIAN", "little");
    let Some((_, flags)) = processor.filter(|_| is_possible) else { return ExitCode::SUCCESS };
    let (Ok(out), Ok(rustc), Ok(target)) = (var("OUT_DIR"), var("RUSTC"), var("TARGET")) else {
        return ExitCode::FAILURE;
    };
    let out = Path::new(&out);
    let (archive, agent) = (out.join("libagent.a"), out.join("agent.so"));
    let mut compile = Command::new(rustc);
    compile
        .args([
            "--edition=2024",
            "--crate-name=agent",
            "--crate-type=staticlib",
            "--target",
            &target,
        ])
        .args(["-Cpanic=abort", "-Copt-level=3", "-Ccodegen-units=1", "-Cdebuginfo=0"])
        .args(["-Crelocation-model=pic", "-Cforce-unwind-tables=yes"])
        .args(*flags)
        .arg("-o")
        .arg(&archive)
        .arg("agent/main.rs")
        // Flags of the build are for the program, not for what it loads into others.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    // rustc would export the names that have to be known to the assembler, and the program's `memcpy` must not
    // become the agent's, or the other way round. So it's linked here, and nothing is exported.
    let mut link = Command::new(var("RUSTC_LINKER").unwrap_or_else(|_| "cc".to_owned()));
    // Pages of which none is writable and executable, as small as x86-64 has them.
    link.arg("-Wl,-z,separate-code,-z,max-page-size=4096");
    link.args(["-shared", "-nostdlib", "-Wl,-z,now,-z,noexecstack", "-Wl,-soname,mcount-agent"])
        .args(["-Wl,--eh-frame-hdr,--gc-sections,--build-id,--no-undefined,--hash-style=both"])
        .args([
            "-Wl,-Bsymbolic,--version-script=agent/exports",
            "-Wl,-u,mcount_start,-u,mcount_stubs,-u,mcount_rendezvous",
            "-Wl,-u,mcount_begin,-u,mcount_leave,-u,mcount_done,-u,mcount_watch,-u,mcount_words",
        ])
        .arg(&archive)
        .arg("-o")
        .arg(&agent);
    for mut command in [compile, link] {
        if !command.status().is_ok_and(|status| status.success()) {
            eprintln!("the agent does not build: {command:?}");
            return ExitCode::FAILURE;
        }
    }
    println!("cargo::rustc-cfg=has_agent");
    ExitCode::SUCCESS
}
