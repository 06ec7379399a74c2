//! AArch64: two NOPs at each entry. The first becomes `mov x9, x30` when the system starts, for good. From then on the second
//! is exchanged for `bl hooks_enter`, and back, in one store. So there's one routine for all functions.
//!
//! `mcount-cpu` says why that's allowed while other processors execute it (`mcount_cpu::aarch64::code`).

use core::arch::global_asm;
pub(crate) use mcount_cpu::aarch64::code::{AT_ONCE, SITE};
use mcount_cpu::aarch64::code::{KERNEL_IDLE, NOP, kernel_armed};
use mcount_cpu::engine::{Step, Value};

global_asm!(include_str!("aarch64.s"));

unsafe extern "C" {
    fn hooks_enter();
}

/// Bytes before the one that's exchanged, and of both.
pub(crate) const BEFORE: usize = SITE;
pub(crate) const PAIR: usize = BEFORE + SITE;

/// What the compiler leaves (`-fpatchable-function-entry=2`).
pub(crate) const NOPS: [[u8; PAIR]; 1] = [pair(NOP, NOP)];

/// How they become idle, while no other processor runs.
pub(crate) const START: &[Step] = &[Step { first: 0, end: PAIR, value: Value::New }];

/// An idle hook.
#[expect(clippy::unnecessary_wraps, reason = "other processors have hooks that are out of reach")]
pub(crate) fn idle(_hook: u64) -> Option<[u8; PAIR]> {
    Some(KERNEL_IDLE)
}

/// The armed hook that's there. `None` if it's more than 128 MiB from its routine.
pub(crate) fn armed(hook: u64) -> Option<[u8; PAIR]> {
    let call = kernel_armed(hook + SITE as u64, hooks_enter as *const () as u64)?;
    let [a, b, c, d, ..] = KERNEL_IDLE;
    Some(pair([a, b, c, d], call))
}

const fn pair(first: [u8; SITE], second: [u8; SITE]) -> [u8; PAIR] {
    let ([a, b, c, d], [e, f, g, h]) = (first, second);
    [a, b, c, d, e, f, g, h]
}
