//! Tells the compiler where the assembly is that this library and the agent have in common, and for which processor it compiles.

use std::env::var;
use std::process::ExitCode;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    let Ok(sources) = var("DEP_MCOUNT_CPU_SOURCES") else { return ExitCode::FAILURE };
    println!("cargo::rustc-env=MCOUNT_CPU={sources}");
    let Ok(processor) = var("CARGO_CFG_TARGET_ARCH") else { return ExitCode::FAILURE };
    println!("cargo::rustc-env=MCOUNT_ARCH={processor}");
    ExitCode::SUCCESS
}
