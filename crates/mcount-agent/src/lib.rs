//! The agent as bytes: a shared object that `mcount trace` loads into the programs that it traces.
//!
//! It is built from `agent/` and `mcount-recorder` by the build script, for Linux on the processors that `mcount-cpu` has its routines for. What the
//! tracer and the agent tell each other is [`abi`](mcount_recorder::abi), of which this crate hands out what the tracer uses.
#![no_std]
#![forbid(unsafe_code)]

pub use mcount_recorder::abi::{
    Counter, SHORT_WAITS, WORDS, class, config, flags, instrumented, question, recipe, request,
};

/// How the agent reads counters of the processor, if it can.
#[cfg(has_agent)]
pub const COUNTERS: Option<mcount_cpu::counters::Counters> = mcount_cpu::here::agent::COUNTERS;
/// How the agent reads counters of the processor, if it can.
#[cfg(not(has_agent))]
pub const COUNTERS: Option<mcount_cpu::counters::Counters> = None;

/// The agent, an ELF shared object; `None` on processors that it isn't written for yet.
#[cfg(has_agent)]
pub const IMAGE: Option<&[u8]> = Some(include_bytes!(concat!(env!("OUT_DIR"), "/agent.so")));
/// The agent, an ELF shared object; `None` on processors that it isn't written for yet.
#[cfg(not(has_agent))]
pub const IMAGE: Option<&[u8]> = None;
