//! `libmcount-live.a` and `libmcount-live.so`. `cargo xtask dist` gives them these names.
//!
//! Its own package, because cargo builds every kind of library that a package has for whoever depends on it.

#[cfg(all(
    any(
        all(target_arch = "x86_64", target_pointer_width = "64"),
        target_arch = "aarch64",
        all(target_arch = "arm", target_abi = "eabihf", target_endian = "little"),
        target_arch = "loongarch64",
        all(target_arch = "powerpc64", target_endian = "little"),
        target_arch = "riscv64",
        target_arch = "s390x",
        target_arch = "x86"
    ),
    target_os = "linux"
))]
pub use mcount_inside::c::*;
