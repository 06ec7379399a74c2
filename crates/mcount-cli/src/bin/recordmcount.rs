//! `recordmcount [-w] file.o...`: see [`mcount_cli::recordmcount`].
//!
//! With glibc this is `main` itself. Rust's own `main` reads the bounds of the stack from `/proc`, sets
//! up a stack for signals, and asks for their actions. That takes eighteen system calls, which are too
//! many for a program that runs once for each object. The safety measures of its own are here, too.
#![cfg_attr(all(target_os = "linux", target_env = "gnu"), no_main)]

/// The C library's entry point.
// SAFETY: no other function of this program has this name.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[unsafe(no_mangle)]
extern "C" fn main() -> std::ffi::c_int {
    // Otherwise an object could be opened as standard error, and messages would go into it.
    mcount_store::files::open_standard_streams();
    mcount_cli::recordmcount::run(std::env::args_os().skip(1)).into()
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn main() -> std::process::ExitCode {
    mcount_cli::recordmcount::run(std::env::args_os().skip(1)).into()
}
