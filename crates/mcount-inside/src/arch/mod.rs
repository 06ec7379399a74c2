//! What depends on the processor: one Rust file and one assembly file each, here and in `registers` and `routines`.

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod here;

pub(crate) use here::*;
