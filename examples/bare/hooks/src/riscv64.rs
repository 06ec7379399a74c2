//! RISC-V: eight bytes of NOPs at each entry. They become `auipc t0, …` and `addi zero, t0, …` when the system starts, which do
//! nothing. From then on the second is exchanged for `jalr t0, …(t0)`, and back. So there's one routine for all functions,
//! as far as 2 GiB away.
//!
//! Both have the same upper halfword, and only the lower one is written. So it doesn't matter whether a processor fetches the whole
//! at once, nor where a function begins. `mcount-cpu` says more of that.
//!
//! `t0` is nobody's at an entry: the psABI has it as a second return address for just this.

use core::arch::global_asm;
use mcount_cpu::engine::{Step, Value};

global_asm!(include_str!("riscv64.s"));

unsafe extern "C" {
    fn hooks_enter();
}

/// Bytes of what is exchanged, and how many are before it.
pub(crate) const SITE: usize = 2;
pub(crate) const BEFORE: usize = 4;

/// Bytes of both instructions.
pub(crate) const PAIR: usize = 8;

/// What the compiler leaves: four `c.nop` (`-fpatchable-function-entry=4`), or two `nop` (`=2`, without the C extension).
pub(crate) const NOPS: [[u8; PAIR]; 2] = [[1, 0, 1, 0, 1, 0, 1, 0], [0x13, 0, 0, 0, 0x13, 0, 0, 0]];

/// How they become idle, while no other processor runs.
pub(crate) const START: &[Step] = &[Step { first: 0, end: PAIR, value: Value::New }];

/// Between idle and armed: one halfword.
pub(crate) const AT_ONCE: &[Step] = &[Step { first: 0, end: SITE, value: Value::New }];

/// An idle hook. `None` if it's too far from its routine.
pub(crate) fn idle(hook: u64) -> Option<[u8; PAIR]> {
    let (upper, lower) = parts(hook)?;
    // addi zero, t0, lower
    Some(pair(upper, 0x0002_8013 | lower << 20))
}

/// The armed hook that's there.
pub(crate) fn armed(hook: u64) -> Option<[u8; PAIR]> {
    let (upper, lower) = parts(hook)?;
    // jalr t0, lower(t0)
    Some(pair(upper, 0x0002_82e7 | lower << 20))
}

/// `auipc t0` of the way from `hook` to the routine, and its lower twelve bits, which have a sign.
fn parts(hook: u64) -> Option<(u32, u32)> {
    let way = (hooks_enter as *const () as u64).wrapping_sub(hook).cast_signed();
    let way = i32::try_from(way).ok()?;
    let upper = way.checked_add(0x800)?.cast_unsigned() & 0xffff_f000;
    Some((0x0000_0297 | upper, way.cast_unsigned() & 0xfff))
}

fn pair(first: u32, second: u32) -> [u8; PAIR] {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_le_bytes(), second.to_le_bytes());
    [a, b, c, d, e, f, g, h]
}
