//! Says what there is on the processor and the system that this is built for: `can_trace` where programs can be traced from
//! outside, `can_patch` where functions of running ones can be replaced.
//!
//! Cargo hands both on to the build scripts of the crates that depend on this one, as `DEP_MCOUNT_TRACER_CAN_TRACE` and
//! `DEP_MCOUNT_TRACER_CAN_PATCH`.

use std::env::var;

/// Processors that programs can be traced on: `src/trace/processor` has a file for each. And: can they be patched?
const PROCESSORS: [(&str, bool); 2] = [("x86_64", true), ("aarch64", true)];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(can_trace, can_patch)");
    let is_linux = is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_POINTER_WIDTH", "64")
        && is("CARGO_CFG_TARGET_ENDIAN", "little");
    let processor = PROCESSORS.iter().find(|(name, _)| is("CARGO_CFG_TARGET_ARCH", name));
    let Some((_, can_patch)) = processor.filter(|_| is_linux) else { return };
    say("can_trace");
    if *can_patch {
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
