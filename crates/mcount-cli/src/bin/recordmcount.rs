//! `recordmcount [-w] file.o...`: see [`mcount_cli::recordmcount`].
//!
//! With glibc this is `main` itself, and not what Rust's own calls: that one reads the bounds of the
//! stack from `/proc`, sets up a stack for signals and asks for their actions, eighteen system calls
//! that a program that runs once an object can do without. What it does for safety is done here.
#![cfg_attr(all(target_os = "linux", target_env = "gnu"), no_main)]

/// The C library's entry point.
// SAFETY: no other function of this program is called so.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[unsafe(no_mangle)]
extern "C" fn main() -> std::ffi::c_int {
    // Or an object could be opened as the standard error, and messages be written into it.
    mcount_cli::files::open_standard_streams();
    mcount_cli::recordmcount::run(std::env::args_os().skip(1)).into()
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn main() -> std::process::ExitCode {
    mcount_cli::recordmcount::run(std::env::args_os().skip(1)).into()
}
