//! Says what there is on the processor and the system that this is built for: `can_trace` where programs can be traced from
//! outside, and `can_patch` where functions of running ones can be replaced, as the build script of `mcount-cpu` says.
//!
//! And `can_hear` where the kernel can be asked what threads do, by `perf-event2`, which is for some processors only.
//!
//! Cargo hands the first two on to the build scripts of the crates that depend on this one, as `DEP_MCOUNT_TRACER_CAN_TRACE` and
//! `DEP_MCOUNT_TRACER_CAN_PATCH`.

use std::env::var;

/// The processors for which Cargo.toml asks for `perf-event2`.
const HEARD: [&str; 3] = ["x86_64", "aarch64", "riscv64"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(can_trace, can_patch, can_hear)");
    if HEARD.iter().any(|processor| is("CARGO_CFG_TARGET_ARCH", processor)) {
        println!("cargo::rustc-cfg=can_hear");
    }
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
