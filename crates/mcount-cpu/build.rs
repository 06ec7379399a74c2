//! Tells the builds of crates that depend on this one where its sources are: that of the agent compiles them once more.

use std::env::var;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::metadata=sources={}/src", var("CARGO_MANIFEST_DIR").unwrap_or_default());
}
