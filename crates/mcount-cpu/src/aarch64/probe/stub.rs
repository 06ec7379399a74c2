//! The stub of a probe: the way to the recorder, and the instruction that has moved.
//!
//! It's like the stub of a hook: its first instruction is the switch, and the way on is where that of a hook has it, so that both are switched
//! alike. No register is free at the entry of a function that has no hook, so `x16` and `x17` are on the stack while the recorder is
//! told; its routine leaves all others, and the flags, as they were. Where the return address is signed, the recorder gets it without
//! the signature.

use super::relocate::relocate;
use crate::aarch64::code::{BREAKPOINT, NOP, SITE, switch};
use crate::outside::code;
use crate::probe::Stub;
use alloc::vec::Vec;

/// Bytes of a stub.
pub(super) const SIZE: usize = 128;
/// Where the instruction that has moved begins, where the recorder is told of the call, and where the function goes on.
const MOVED: usize = 20;
const TOLD: usize = 44;
const BODY: usize = 64;
/// Where the record is: where the function goes on, the routine, the frame, and the number.
const RECORD: usize = 96;

/// The stub. `None` if something is out of reach.
pub(super) fn stub(of: Stub<'_>) -> Option<Vec<u8>> {
    let Stub { at, routine, number, moved, from, before } = of;
    let nop = u32::from_le_bytes(NOP);
    let (check, sign) = match before.map(u32::from_le_bytes) {
        None => (nop, nop),
        Some(sign @ 0xd503_233f) => (0xd503_23bf, sign), // autiasp
        Some(sign @ 0xd503_237f) => (0xd503_23ff, sign), // autibsp
        Some(_) => return None,
    };
    let moved = relocate(moved, from, at.wrapping_add(MOVED as u64)).ok()?.code;
    let told = [
        check,
        0xa9b8_47f0, // stp x16, x17, [sp, #-128]!
        0x1000_0170, // adr x16, record
        0xf940_0611, // ldr x17, [x16, #8]
        0xd61f_0220, // br x17
        0xa8c8_47f0, // ldp x16, x17, [sp], #128
        sign,
        0x17ff_fff3, // b moved
    ];
    let mut bytes = Vec::with_capacity(SIZE);
    bytes.extend(switch(true));
    bytes.extend(0x1400_000a_u32.to_le_bytes()); // b told
    pad(&mut bytes, MOVED)?;
    bytes.extend(moved);
    pad(&mut bytes, TOLD)?;
    bytes.extend(code(told));
    pad(&mut bytes, RECORD)?;
    bytes.extend(at.wrapping_add(BODY as u64).to_le_bytes());
    bytes.extend(routine.to_le_bytes());
    bytes.extend([0; 12]);
    bytes.extend(number.to_le_bytes());
    Some(bytes)
}

/// Traps up to a place. `None` if there's something already.
fn pad(bytes: &mut Vec<u8>, to: usize) -> Option<()> {
    while bytes.len() < to {
        bytes.extend(BREAKPOINT);
    }
    debug_assert_eq!(bytes.len() % SITE, 0, "whole instructions");
    (bytes.len() == to).then_some(())
}
