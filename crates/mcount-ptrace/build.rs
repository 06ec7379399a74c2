//! Says whether this crate has the processor and the system that it's built for: `can_trace`.
//!
//! Cargo hands it on to the build scripts of the crates that depend on this one, as `DEP_MCOUNT_PTRACE_CAN_TRACE`.

use std::env::var;

/// Processors that programs can be traced on: `src` has a folder for each.
const PROCESSORS: [&str; 2] = ["x86_64", "aarch64"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(can_trace)");
    let is_linux = is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_POINTER_WIDTH", "64")
        && is("CARGO_CFG_TARGET_ENDIAN", "little");
    if is_linux && PROCESSORS.iter().any(|name| is("CARGO_CFG_TARGET_ARCH", name)) {
        println!("cargo::rustc-cfg=can_trace");
        println!("cargo::metadata=can_trace=1");
    }
}

fn is(name: &str, value: &str) -> bool {
    var(name).is_ok_and(|found| found == value)
}
