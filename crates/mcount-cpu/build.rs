//! Tells the builds of crates that depend on this one where its sources are: that of the agent compiles some of them once more.
//! And says what there is for the processor and the system that this is built for, by the files in its folder:
//!
//! - `call`: the entry and the exit of a traced call are there as assembly;
//! - `agent`, which is where that folder is: the agent can be built of it;
//! - `can_trace`: programs can be traced from outside;
//! - `can_patch`: functions of running ones can be replaced.

use std::env::var;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rustc-check-cfg=cfg(can_trace, can_patch)");
    let sources = Path::new(&var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("src");
    println!("cargo::metadata=sources={}", sources.display());
    let name = var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let folder = sources.join(if name == "x86" { "i386" } else { &name });
    if folder.join("call.s").is_file() {
        println!("cargo::metadata=call=1");
    }
    let is_linux = is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_POINTER_WIDTH", "64")
        && is("CARGO_CFG_TARGET_ENDIAN", "little");
    if !is_linux || !folder.join("agent.rs").is_file() {
        return;
    }
    println!("cargo::metadata=agent={}", folder.display());
    for (ability, file) in [("can_trace", "outside.rs"), ("can_patch", "patch.rs")] {
        if folder.join(file).is_file() {
            println!("cargo::rustc-cfg={ability}");
            println!("cargo::metadata={ability}=1");
        }
    }
}

fn is(name: &str, value: &str) -> bool {
    var(name).is_ok_and(|found| found == value)
}
