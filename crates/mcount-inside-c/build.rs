//! How the shared library is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmcount-live.so.0");
    // Armed code leads into it, so it can't be unloaded.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // It's loaded by tests and not debugged there; `cargo xtask dist` strips in any case.
    println!("cargo::rustc-cdylib-link-arg=-Wl,--strip-debug");
}
