//! The agent as bytes: a shared object that `mcount trace` loads into the programs that it traces.
//!
//! It is built from `agent/` by the build script, for x86-64 Linux only so far.
#![no_std]
#![forbid(unsafe_code)]

/// The agent, an ELF shared object; `None` on processors that it isn't written for yet.
#[cfg(has_agent)]
pub const IMAGE: Option<&[u8]> = Some(include_bytes!(concat!(env!("OUT_DIR"), "/agent.so")));
/// The agent, an ELF shared object; `None` on processors that it isn't written for yet.
#[cfg(not(has_agent))]
pub const IMAGE: Option<&[u8]> = None;

/// Where the fields of the agent's configuration are: bytes from the symbol `mcount_config`.
pub mod config {
    /// Where the trace file is mapped.
    pub const FILE: u64 = 0;
    /// Bytes of that mapping.
    pub const LENGTH: u64 = 8;
    /// Bit 0: `wrgsbase` may be used.
    pub const FLAGS: u64 = 16;
    /// Unwinders: six words each: first and last address of the module, then the addresses of
    /// `_Unwind_GetIP`, `_Unwind_SetIP`, `_Unwind_SetGR` and `_Unwind_Resume`.
    pub const UNWINDERS: u64 = 24;
    /// How many unwinders there is room for.
    pub const UNWINDERS_COUNT: usize = 8;
}

/// Where the fields of a request are: bytes from the symbol `mcount_request`. Its first word is the number of the
/// system call, then come six arguments.
pub mod request {
    /// What the system call returned.
    pub const RESULT: u64 = 56;
}
