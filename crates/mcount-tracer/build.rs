//! Says what there is on the processor and the system that this is built for: `can_trace` where programs can be traced from
//! outside, and `can_patch` where functions of running ones can be replaced, as the build script of `mcount-cpu` says.
//!
//! Cargo hands both on to the build scripts of the crates that depend on this one, as `DEP_MCOUNT_TRACER_CAN_TRACE` and
//! `DEP_MCOUNT_TRACER_CAN_PATCH`.

use std::env::var;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(can_trace, can_patch)");
    if !is("DEP_MCOUNT_PTRACE_CAN_TRACE", "1") {
        return;
    }
    say("can_trace");
    if is("DEP_MCOUNT_CPU_CAN_PATCH", "1") {
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
