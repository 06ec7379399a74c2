//! Tells the builds of crates that depend on this one where its sources are: that of the agent compiles them once more. And says
//! whether this processor is one that the recorder knows: `can_record`; and `has_call`, if it has assembly in `mcount-cpu`.

use std::env::var;

/// Those with a folder in `mcount-cpu`.
const PROCESSORS: [&str; 8] =
    ["x86_64", "x86", "aarch64", "arm", "loongarch64", "riscv64", "powerpc64", "s390x"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::metadata=sources={}/src", var("CARGO_MANIFEST_DIR").unwrap_or_default());
    println!("cargo::rustc-check-cfg=cfg(can_record, has_call)");
    let processor = var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    if PROCESSORS.contains(&processor.as_str()) {
        println!("cargo::rustc-cfg=can_record");
    }
    if var("DEP_MCOUNT_CPU_CALL").is_ok() {
        println!("cargo::rustc-cfg=has_call");
    }
}
