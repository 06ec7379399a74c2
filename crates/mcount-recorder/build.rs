//! Tells the builds of crates that depend on this one where its sources are: that of the agent compiles them once more. And says
//! whether this processor is one that the recorder knows: `can_record`.

use std::env::var;

/// Those with a folder in `mcount-cpu`.
const PROCESSORS: [&str; 8] =
    ["x86_64", "x86", "aarch64", "arm", "loongarch64", "riscv64", "powerpc64", "s390x"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::metadata=sources={}/src", var("CARGO_MANIFEST_DIR").unwrap_or_default());
    println!("cargo::rustc-check-cfg=cfg(can_record)");
    let is_known = |found: String| PROCESSORS.contains(&found.as_str());
    if var("CARGO_CFG_TARGET_ARCH").is_ok_and(is_known) {
        println!("cargo::rustc-cfg=can_record");
    }
}
