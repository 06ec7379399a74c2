//! Says whether programs can be traced on the processor and the system that this is built for: `can_trace`, as the build script of
//! `mcount-cpu` does.
//!
//! Cargo hands it on to the build scripts of the crates that depend on this one, as `DEP_MCOUNT_PTRACE_CAN_TRACE`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(can_trace)");
    if std::env::var("DEP_MCOUNT_CPU_CAN_TRACE").is_ok() {
        println!("cargo::rustc-cfg=can_trace");
        println!("cargo::metadata=can_trace=1");
    }
}
