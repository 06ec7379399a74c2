//! Builds the agent: a shared object of its own, without the standard library, which `mcount trace` loads into
//! programs. Cargo can't build one package for two purposes, so the compiler is called here: for the crates that the agent is made
//! of, whose builds say where their sources are, and for the agent.
#![expect(clippy::print_stderr, reason = "a build script, which reports its errors itself")]

use std::env::var;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The crates that it's made of, each after those that it depends on, and the variables by which their builds say where they are.
const CRATES: [(&str, &str); 3] = [
    ("mcount_cpu", "DEP_MCOUNT_CPU_SOURCES"),
    ("mcount_layout", "DEP_MCOUNT_LAYOUT_SOURCES"),
    ("mcount_recorder", "DEP_MCOUNT_RECORDER_SOURCES"),
];

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=agent");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(has_agent)");
    // The folder of the processor, if the agent is written for it. Its assembly is included from there.
    let Ok(processor) = var("DEP_MCOUNT_CPU_AGENT") else { return ExitCode::SUCCESS };
    println!("cargo::rustc-env=MCOUNT_PROCESSOR={processor}");
    let flags = std::fs::read_to_string(Path::new(&processor).join("rustc-flags"));
    let flags = flags.unwrap_or_default();
    let flags: Vec<&str> = flags.lines().collect();
    let Some(commands) = commands(&flags, &processor) else { return ExitCode::FAILURE };
    for mut command in commands {
        if !command.status().is_ok_and(|status| status.success()) {
            eprintln!("the agent does not build: {command:?}");
            return ExitCode::FAILURE;
        }
    }
    println!("cargo::rustc-cfg=has_agent");
    ExitCode::SUCCESS
}

/// What is to be run, one after the other, to build the agent. `None`: cargo doesn't say what's needed for it.
fn commands(flags: &[&str], processor: &str) -> Option<Vec<Command>> {
    let out = PathBuf::from(var("OUT_DIR").ok()?);
    let mut commands = Vec::new();
    let mut known = vec![format!("-L{}", out.display())];
    for (name, sources) in CRATES {
        let sources = var(sources).ok()?;
        println!("cargo::rerun-if-changed={sources}");
        let library = out.join(format!("lib{name}.rlib"));
        let mut command = compile(name, &Path::new(&sources).join("lib.rs"), &library)?;
        command.arg("--crate-type=rlib").args(flags).args(&known);
        commands.push(command);
        known.push(format!("--extern={name}"));
    }
    let archive = out.join("libagent.a");
    let mut command = compile("agent", Path::new("agent/main.rs"), &archive)?;
    // All of it is compiled at once: as if it were one crate.
    command.args(["--crate-type=staticlib", "-Clto=fat"]).args(flags).args(&known);
    command.env("MCOUNT_PROCESSOR", processor);
    commands.push(command);
    commands.push(link(&archive, &out.join("agent.so")));
    Some(commands)
}

/// Compiles a crate.
fn compile(name: &str, root: &Path, output: &Path) -> Option<Command> {
    let mut command = Command::new(var("RUSTC").ok()?);
    command.args(["--edition=2024", "--crate-name", name, "--target", &var("TARGET").ok()?]);
    command
        .args(["-Cpanic=abort", "-Copt-level=3", "-Ccodegen-units=1", "-Cdebuginfo=0"])
        // As the build of the recorder says of these processors. Warnings are cargo's, which checks these sources as well.
        .args(["--cfg=can_record", "--cfg=has_call", "--cfg=has_agent"])
        .args(["-Crelocation-model=pic", "-Cforce-unwind-tables=yes", "--cap-lints=allow"])
        .arg("-o")
        .arg(output)
        .arg(root)
        // Flags of the build are for the program, not for what it loads into others.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    Some(command)
}

/// rustc would export the names that have to be known to the assembler, and the program's `memcpy` must not
/// become the agent's, or the other way round. So it's linked here, and nothing is exported.
fn link(archive: &Path, agent: &Path) -> Command {
    let mut link = Command::new(var("RUSTC_LINKER").unwrap_or_else(|_| "cc".to_owned()));
    // Pages of which none is writable and executable, as small as x86-64 has them.
    link.arg("-Wl,-z,separate-code,-z,max-page-size=4096");
    link.args(["-shared", "-nostdlib", "-Wl,-z,now,-z,noexecstack", "-Wl,-soname,mcount-agent"])
        .args(["-Wl,--eh-frame-hdr,--gc-sections,--build-id,--no-undefined,--hash-style=both"])
        .args([
            "-Wl,-Bsymbolic,--version-script=agent/exports",
            "-Wl,-u,mcount_start,-u,mcount_stubs,-u,mcount_rendezvous",
            "-Wl,-u,mcount_instrumented_enter,-u,mcount_instrumented_exit",
            "-Wl,-u,mcount_begin,-u,mcount_leave,-u,mcount_done,-u,mcount_watch,-u,mcount_words",
        ])
        .arg(archive)
        .arg("-o")
        .arg(agent);
    link
}
