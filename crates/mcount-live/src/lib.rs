//! What a tracing hook looks like in running code: idle, as a NOP, or armed, as a jump into the tracer; and how
//! it gets from one state to the other while threads execute it.
//!
//! This crate decides about bytes and nothing else. It reads no file, allocates nothing and makes no
//! system call, so that a kernel or an RTOS can use it as well as the tracer of user programs. The caller
//! has the memory: it hands in the bytes that are there and gets the bytes to write, or it lends
//! [`engine::Code`].
//!
//! Each processor has one file: [`x86_64`], [`i386`], [`aarch64`], [`arm`], [`loongarch64`], [`powerpc64`], [`riscv64`], [`s390x`].
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod aarch64;
pub mod arm;
pub mod engine;
pub mod hook;
pub mod i386;
pub mod loongarch64;
pub mod powerpc64;
pub mod riscv64;
pub mod s390x;
pub mod x86_64;
