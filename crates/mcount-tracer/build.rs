//! Says what there is on the processor and the system that this is built for: `can_trace` where programs can be traced from
//! outside, as the build script of `mcount-ptrace` says, and `can_patch` where functions of running ones can be replaced.
//!
//! Cargo hands both on to the build scripts of the crates that depend on this one, as `DEP_MCOUNT_TRACER_CAN_TRACE` and
//! `DEP_MCOUNT_TRACER_CAN_PATCH`.

use std::env::var;

/// Processors on which functions can be replaced: `src/trace/attach/patch/arch` has a file for each.
const PATCHED: [&str; 2] = ["x86_64", "aarch64"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(can_trace, can_patch)");
    if !is("DEP_MCOUNT_PTRACE_CAN_TRACE", "1") {
        return;
    }
    say("can_trace");
    if PATCHED.iter().any(|name| is("CARGO_CFG_TARGET_ARCH", name)) {
        say("can_patch");
    }
}

fn is(name: &str, value: &str) -> bool {
    var(name).is_ok_and(|found| found == value)
}

/// Tells this crate, and those that depend on it.
fn say(ability: &str) {
    println!("cargo::rustc-cfg={ability}");
    println!("cargo::metadata={ability}=1");
}
