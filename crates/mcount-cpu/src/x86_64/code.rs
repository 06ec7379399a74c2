//! x86-64: the hook is five bytes, long enough for a `jmp` that reaches ±2 GiB.
//!
//! An armed site is `e9 rel32`, a jump to the site's *stub*; an idle one is a five-byte NOP. What
//! compilers leave there differs: gcc's `-fpatchable-function-entry=5` is five one-byte NOPs, clang's is
//! one NOP of five bytes, `-mfentry` is a call of five bytes, or of six through the GOT, and `-fxray-instrument` a
//! sled: a jump over a NOP of nine bytes. Before any
//! thread runs there, each becomes one five-byte instruction ([`Area::idle`]), so that from then on no
//! thread can be in the middle of it.
//!
//! A stub is 32 bytes, one for each site:
//!
//! ```text
//!  0: call entry      records the call; carry set means: don't watch the return
//!  5: jc   21
//!  7: add  $8, %rsp   drops the caller's address, which `entry` has saved
//! 11: call body       the instruction after the site; pushes the address of 16 into the same slot
//! 16: jmp  exit       the function returns to here: `exit` puts the caller's address back
//! 21: jmp  body
//! 26: .long id
//! 30: .byte kind   what unwinders have to know of it: [`STUB_KIND`]
//! ```
//!
//! Since the body is entered by `call` and left by `ret`, the processor's return predictor stays
//! balanced. Nop encodings: Intel SDM volume 2B, "NOP"; jumps: volume 2A, "JMP".
//!
//! **While threads run** a site is `a9 rel32` when it is idle ([`idle`]). That is `test $rel32, %eax`, which
//! changes nothing but flags, and no caller needs those at the entry of a function. It differs from `e9 rel32`
//! in one byte, so arming and disarming is the write of one byte ([`BY_ONE_BYTE`]): whatever a processor has
//! fetched of the site, it is one of the two instructions. Intel's and AMD's manuals don't promise that for
//! code that another processor executes. They do describe, as Linux uses it, a breakpoint that is there while
//! the rest changes ([`BY_BREAKPOINT`]). That one also makes one instruction of another that has five bytes or
//! more. Where the area has several, a thread can be between them, and all threads have to be stopped
//! ([`ALL_STAND`]).

mod gate;

pub use self::gate::{BY_WORD, GATE_BODY, GATE_SITE, direct, gate, jump_by, load_and_jump};
use crate::engine::{Step, Value};
pub use crate::hook::Unusable;

/// Bytes of a site that change between idle and armed.
pub const SITE: usize = 5;

/// Why a site with NOPs can't be armed, for people.
pub const TOO_SMALL: &str = "fewer than five bytes of NOP";

/// An idle site: one NOP.
pub const IDLE: [u8; SITE] = [0x0f, 0x1f, 0x44, 0x00, 0x00];

/// Bytes of a stub.
pub const STUB: usize = 32;

/// Where in a stub the traced function returns to, in bytes.
pub const STUB_RETURN: usize = 16;

/// Where in a stub the number of its function is, in bytes.
pub const STUB_ID: usize = 26;

/// Where in a stub its kind is, in bytes: 0, or one of [`KIND_BACK`], [`KIND_LATE`] and [`KIND_ALIGNED`].
pub const STUB_KIND: usize = 30;

/// It's only the way back to a function whose hook is behind its prologue ([`stub_back`]).
pub const KIND_BACK: u8 = 1;

/// [`stub_after_prologue`]: where in it the distance is that it jumps, in bytes.
pub const KIND_LATE: u8 = 6;

/// [`stub_after_aligning`]: where in it the distance is that it jumps, in bytes.
pub const KIND_ALIGNED: u8 = 22;

/// Bytes of a thunk: a jump that reaches everything.
pub const THUNK: usize = 16;

/// Bytes of a stub for [`record_stub`].
pub const RECORD_STUB: usize = 16;

/// `int3`.
pub const BREAKPOINT: [u8; 1] = [0xcc];

/// Between an idle site and an armed one, both with the same stub: one byte.
pub const BY_ONE_BYTE: &[Step] = &[Step { first: 0, end: 1, value: Value::New }];

/// Between any two instructions: threads that come by meanwhile run into a breakpoint, and
/// [`behind_trap`] says where they go on.
pub const BY_BREAKPOINT: &[Step] = &[
    Step { first: 0, end: 1, value: Value::Trap(&BREAKPOINT) },
    Step { first: 1, end: usize::MAX, value: Value::New },
    Step { first: 0, end: 1, value: Value::New },
];

/// Between any two states, while no thread runs that is inside the site.
pub const ALL_STAND: &[Step] = &[Step { first: 0, end: usize::MAX, value: Value::New }];

const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// A sled of LLVM's XRay at the entry of a function begins with a jump over its NOPs.
const SLED: [u8; 2] = [0xeb, 0x09];

/// Bytes of such a sled.
const SLED_LENGTH: usize = 11;

/// Is there a sled at the start of `code`? Nothing enters it behind its jump.
fn is_sled(code: &[u8]) -> bool {
    let Some((jump, nops)) = code.get(..SLED_LENGTH).and_then(|all| all.split_at_checked(2)) else {
        return false;
    };
    let mut rest = nops;
    while let Some(length) = nop_length(rest) {
        rest = rest.get(length..).unwrap_or_default();
    }
    jump == SLED && rest.is_empty()
}

/// How many bytes the NOP at the start of `code` has; `None` if there is no NOP.
///
/// That is `90` and `0f 1f /0` with any operand, behind any number of `66` and segment prefixes. Bytes
/// beyond the end of `code` count as missing.
#[must_use]
pub fn nop_length(code: &[u8]) -> Option<usize> {
    let is_prefix = |byte: &&u8| matches!(byte, 0x66 | 0x2e | 0x3e | 0x26 | 0x36 | 0x64 | 0x65);
    let prefixes = code.iter().take_while(is_prefix).count();
    let length = match code.get(prefixes..)? {
        [0x90, ..] => prefixes + 1,
        [0x48, 0x90, ..] => prefixes + 2,
        [0x0f, 0x1f, rest @ ..] => prefixes + 2 + operand_length(rest)?,
        [0x48, 0x0f, 0x1f, rest @ ..] => prefixes + 3 + operand_length(rest)?,
        _ => return None,
    };
    (length <= 15 && length <= code.len()).then_some(length)
}

/// Bytes of a `ModRM` byte with register field 0 and what follows it.
fn operand_length(code: &[u8]) -> Option<usize> {
    let modrm = *code.first()?;
    let (mode, register, memory) = (modrm >> 6, (modrm >> 3) & 7, modrm & 7);
    if register != 0 {
        return None;
    }
    let sib = usize::from(mode != 3 && memory == 4);
    let displacement = match mode {
        0 if memory == 5 => 4,
        0 if memory == 4 && code.get(1)? & 7 == 5 => 4,
        1 => 1,
        2 => 4,
        _ => 0,
    };
    Some(1 + sib + displacement)
}

crate::area::area!("4 behind an `endbr64`.", "whole instructions, at least [`SITE`] of them.");

impl Area {
    /// The area at the start of `code`, which is the code from the entry of a function on.
    ///
    /// # Errors
    ///
    /// [`Unusable`] if there's no area of five bytes.
    pub fn find(code: &[u8]) -> Result<Self, Unusable> {
        let start = if code.starts_with(&ENDBR64) { ENDBR64.len() } else { 0 };
        let hook = code.get(start..).unwrap_or_default();
        match hook {
            [0xe8, ..] if hook.len() >= SITE => {
                return Ok(Self { start, length: SITE, is_call: true });
            }
            [0xff, 0x15, ..] | [0x67, 0xe8, ..] if hook.len() > SITE => {
                return Ok(Self { start, length: SITE + 1, is_call: true });
            }
            _ => {}
        }
        if let Some((before, length)) = far_call(hook) {
            return Ok(Self { start: start + before, length, is_call: true });
        }
        if is_sled(hook) {
            return Ok(Self { start, length: SLED_LENGTH, is_call: false });
        }
        let mut length = 0;
        while length < SITE {
            match nop_length(hook.get(length..).unwrap_or_default()) {
                Some(nop) => length += nop,
                None if length == 0 => return Err(Unusable::NotAHook),
                None => return Err(Unusable::TooSmall(length)),
            }
        }
        Ok(Self { start, length, is_call: false })
    }

    /// The bytes that make the area idle: one five-byte NOP, then NOPs that fill it. The result has
    /// `length` bytes in use.
    #[must_use]
    pub fn idle(&self) -> [u8; 24] {
        self.filled_behind(SITE)
    }

    /// The same with a first instruction of `first` bytes.
    #[must_use]
    pub fn filled_behind(&self, first: usize) -> [u8; 24] {
        const FILL: [&[u8]; 10] = [
            &[],
            &[0x90],
            &[0x66, 0x90],
            &[0x0f, 0x1f, 0x00],
            &[0x0f, 0x1f, 0x40, 0x00],
            &[0x0f, 0x1f, 0x44, 0x00, 0x00],
            &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
            &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
            &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
            &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
        ];
        let mut bytes = [0x90; 24];
        let mut rest = bytes.as_mut_slice();
        let mut left = self.length.min(24);
        let mut next = first;
        while left > 0 {
            let size = next.min(left);
            let Some((head, tail)) = rest.split_at_mut_checked(size) else { break };
            if let Some(fill) = FILL.get(size) {
                head.copy_from_slice(fill);
            }
            rest = tail;
            left -= size;
            next = 9;
        }
        bytes
    }
}

/// A call of the hook as compilers make it for code that may be anywhere (`-mcmodel=large`: System V psABI, "Large code
/// model"): how many bytes of it stay, and how many become NOPs. The bytes that stay change registers that are
/// free then.
fn far_call(code: &[u8]) -> Option<(usize, usize)> {
    /// `movabs $…, %register`
    const LOAD: usize = 10;
    let is_load = |code: &[u8]| matches!(code, [0x48 | 0x49, 0xb8..=0xbf, ..]);
    if !is_load(code) {
        return None;
    }
    match code.get(LOAD..)? {
        // call *%register, call *(%register, %register)
        [0xff, 0xd0..=0xd7, ..] => Some((0, LOAD + 2)),
        [0x41, 0xff, 0xd0..=0xd7, ..] | [0xff, 0x14, _, ..] => Some((0, LOAD + 3)),
        // gcc: lea …(%rip), %r10; add %r11, %r10; movabs $…, %r11; add %r11, %r10; call *%r10
        [0x4c, 0x8d, 0x15, _, _, _, _, 0x4d, 0x01, 0xda, second @ ..] if is_load(second) => {
            let add = second.get(LOAD..)?;
            add.starts_with(&[0x4d, 0x01, 0xda, 0x41, 0xff, 0xd2]).then_some((2 * LOAD + 10, 6))
        }
        _ => None,
    }
}

/// Where in its function a hook is. It decides where the caller's address is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// The first instruction but for a landing pad: the caller's address is on top of the stack.
    Entry,
    /// After a prologue that has set up a frame pointer (`-pg` without `-mfentry`): it's above the saved `%rbp`.
    AfterPrologue,
    /// After a prologue that has moved the stack pointer to an aligned address first, so that above the saved `%rbp` is only a
    /// copy of the caller's address. A register leads to the place above the true one.
    AfterAligning(Pointer),
}

/// Where gcc keeps the stack pointer that a function had before its stack was aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pointer {
    /// In `%r10`.
    R10,
    /// In `%r13`, where `%r10` is the static chain.
    R13,
}

/// Where in a function the hook is that begins `distance` bytes behind its start; `code` is the function from its
/// start on.
///
/// `None`: neither, so the place of the caller's address is unknown. gcc's nested functions with `-mfentry`
/// are so: they push the static chain, then call the hook.
#[must_use]
pub fn position(code: &[u8], distance: u64) -> Option<Position> {
    /// `mov %rsp, %rbp`, in both encodings.
    const SETS_UP: [&[u8]; 2] = [&[0x48, 0x89, 0xe5], &[0x48, 0x8b, 0xec]];
    if is_entry(code, distance) {
        return Some(Position::Entry);
    }
    let before = usize::try_from(distance).ok().and_then(|distance| code.get(..distance));
    if let Some((pointer, rest)) = aligned(code) {
        // The register is as it was if only the usual things have happened since.
        let prologue = before.and_then(|before| before.get(code.len() - rest.len()..));
        return prologue.filter(|rest| is_prologue(rest)).map(|_| Position::AfterAligning(pointer));
    }
    let mut windows = before.unwrap_or(code).windows(3);
    windows.any(|bytes| SETS_UP.contains(&bytes)).then_some(Position::AfterPrologue)
}

/// Does the function align its stack before it sets up a frame pointer? The register that leads to where the stack
/// pointer was, and the code behind that.
fn aligned(code: &[u8]) -> Option<(Pointer, &[u8])> {
    /// `lea 8(%rsp), %r10`; `push %r13` and `lea 16(%rsp), %r13`. Then the copy is pushed: `push -8(…)`.
    const FORMS: [(Pointer, &[u8], &[u8]); 2] = [
        (Pointer::R10, &[0x4c, 0x8d, 0x54, 0x24, 0x08], &[0x41, 0xff, 0x72, 0xf8]),
        (Pointer::R13, &[0x41, 0x55, 0x4c, 0x8d, 0x6c, 0x24, 0x10], &[0x41, 0xff, 0x75, 0xf8]),
    ];
    let code = code.strip_prefix(&ENDBR64).unwrap_or(code);
    FORMS.into_iter().find_map(|(pointer, start, copy)| {
        // and $…, %rsp
        let ([0x48, 0x83, 0xe4, _, rest @ ..] | [0x48, 0x81, 0xe4, _, _, _, _, rest @ ..]) =
            code.strip_prefix(start)?
        else {
            return None;
        };
        Some((pointer, rest.strip_prefix(copy)?))
    })
}

/// Is this nothing but the rest of a prologue: `push`, `mov %rsp, %rbp`, and changes of the stack pointer?
fn is_prologue(mut code: &[u8]) -> bool {
    while !code.is_empty() {
        code = match code {
            [0x50..=0x57, rest @ ..]
            | [0x41, 0x50..=0x57, rest @ ..]
            | [0x48, 0x89, 0xe5, rest @ ..]
            | [0x48, 0x83, 0xec | 0xc4, _, rest @ ..]
            | [0x48, 0x81, 0xec | 0xc4, _, _, _, _, rest @ ..] => rest,
            _ => return false,
        };
    }
    true
}

/// Is `distance` bytes after the start of the function `code` its first instruction but for a landing pad?
#[must_use]
pub fn is_entry(code: &[u8], distance: u64) -> bool {
    distance == 0 || distance == ENDBR64.len() as u64 && code.starts_with(&ENDBR64)
}

/// The armed site at `site`: a jump to `target`. `None` if that's out of reach.
#[must_use]
pub fn armed(site: u64, target: u64) -> Option<[u8; SITE]> {
    branch(0xe9, site, target)
}

/// Bytes of a jump over a short distance.
pub const SHORT_JUMP: usize = 2;

/// The armed site at `site` of an area that has only two bytes there: a jump back to `before`, where the jump to the
/// stub is. `None` if that's out of reach.
#[must_use]
pub fn armed_short(site: u64, before: u64) -> Option<[u8; SHORT_JUMP]> {
    let distance = before.wrapping_sub(site.wrapping_add(SHORT_JUMP as u64)).cast_signed();
    Some([0xeb, i8::try_from(distance).ok()?.cast_unsigned()])
}

/// What becomes of the first byte of an armed site that's made idle while threads run: a jump, long or short, turns into
/// a `test` of as many bytes. `None` if it's no armed site.
#[must_use]
pub fn switched_off(first: u8) -> Option<u8> {
    match first {
        0xe9 => Some(0xa9),
        0xeb => Some(0xa8),
        _ => None,
    }
}

/// The idle site at `site` that becomes a jump to `target` when its first byte is changed. `None` if that's out
/// of reach.
#[must_use]
pub fn idle(site: u64, target: u64) -> Option<[u8; SITE]> {
    branch(0xa9, site, target)
}

/// Where a thread goes on that ran into the breakpoint of [`BY_BREAKPOINT`] at `site`, whose area has `length`
/// bytes: after it, as if the site were idle.
#[must_use]
pub fn behind_trap(site: u64, length: usize) -> u64 {
    site.wrapping_add(length as u64)
}

/// Is the area at the start of `code`, which has `length` bytes, one instruction? Then no thread can be inside
/// it.
#[must_use]
pub fn is_one_instruction(code: &[u8], length: usize) -> bool {
    match code {
        [0xe8 | 0xe9 | 0xa9, ..] => length == SITE,
        [0xff, 0x15, ..] | [0x67, 0xe8, ..] => length == SITE + 1,
        // Its jump leads over the rest.
        [0xeb, 0x09, ..] => length == SLED_LENGTH && is_sled(code),
        _ => nop_length(code) == Some(length),
    }
}

/// A stub that reaches everything from everywhere: it loads the address of a site's record into `%r11` and jumps to
/// the address that the record has `enter` bytes behind its start. So what an armed site does is data.
#[must_use]
pub fn record_stub(record: u64, enter: u8) -> [u8; RECORD_STUB] {
    let mut bytes = [0xcc; RECORD_STUB];
    put(&mut bytes, 0, &[0x49, 0xbb]);
    put(&mut bytes, 2, &record.to_le_bytes());
    put(&mut bytes, 10, &[0x41, 0xff, 0x63, enter]);
    bytes
}

/// The stub at `address` of the function with number `id`, whose body begins at `body`, for a tracer
/// with its routines at `entry` and `exit`. `None` if one of them is out of reach.
///
/// # Panics
///
/// Never.
#[must_use]
pub fn stub(address: u64, entry: u64, body: u64, exit: u64, id: u32) -> Option<[u8; STUB]> {
    let mut bytes = [0xcc; STUB];
    put(&mut bytes, 0, &branch(0xe8, address, entry)?);
    put(&mut bytes, 5, &[0x72, 0x0e]);
    put(&mut bytes, 7, &[0x48, 0x83, 0xc4, 0x08]);
    put(&mut bytes, 11, &branch(0xe8, address.wrapping_add(11), body)?);
    put(&mut bytes, STUB_RETURN, &branch(0xe9, address.wrapping_add(16), exit)?);
    put(&mut bytes, 21, &branch(0xe9, address.wrapping_add(21), body)?);
    put(&mut bytes, STUB_ID, &id.to_le_bytes());
    put(&mut bytes, STUB_KIND, &[0]);
    Some(bytes)
}

/// A stub for the way back to `body`, where other stubs don't reach it. It may be that of a function whose hook is behind its
/// prologue.
#[must_use]
pub fn stub_back(body: u64, is_late: bool) -> [u8; STUB] {
    let mut bytes = [0xcc; STUB];
    put(&mut bytes, 0, &thunk(body));
    put(&mut bytes, STUB_KIND, &[if is_late { KIND_BACK } else { 0 }]);
    bytes
}

/// The stub of a call after the prologue (`-pg` without `-mfentry`): `entry` finds the frame by
/// `%rbp` and has its own way back, so this one only calls it and goes on.
#[must_use]
pub fn stub_after_prologue(address: u64, entry: u64, body: u64, id: u32) -> Option<[u8; STUB]> {
    let mut bytes = [0xcc; STUB];
    put(&mut bytes, 0, &branch(0xe8, address, entry)?);
    put(&mut bytes, 5, &branch(0xe9, address.wrapping_add(5), body)?);
    put(&mut bytes, STUB_ID, &id.to_le_bytes());
    put(&mut bytes, STUB_KIND, &[KIND_LATE]);
    Some(bytes)
}

/// Where the site of such a call leads in a stub of [`stub_after_aligning`].
pub const STUB_ALIGNED: usize = 8;

/// The same after a prologue that has aligned the stack. `entry` finds the slot above where `%rbp` leads to, so that's made
/// so before. Sites jump to the byte at [`STUB_ALIGNED`].
#[must_use]
pub fn stub_after_aligning(
    address: u64,
    entry: u64,
    body: u64,
    id: u32,
    pointer: Pointer,
) -> Option<[u8; STUB]> {
    let mut bytes = [0xcc; STUB];
    put(&mut bytes, 0, &branch(0xe8, address, entry)?);
    // pop %rbp; jmp to 21
    put(&mut bytes, 5, &[0x5d, 0xeb, 0x0d]);
    // push %rbp; lea -16(…), %rbp; jmp to 0
    let register = if pointer == Pointer::R10 { 0x6a } else { 0x6d };
    put(&mut bytes, STUB_ALIGNED, &[0x55, 0x49, 0x8d, register, 0xf0, 0xeb, 0xf1]);
    put(&mut bytes, 21, &branch(0xe9, address.wrapping_add(21), body)?);
    put(&mut bytes, STUB_ID, &id.to_le_bytes());
    put(&mut bytes, STUB_KIND, &[KIND_ALIGNED]);
    Some(bytes)
}

/// A jump to `target`, however far it is: `jmp *0(%rip)` and the address.
#[must_use]
pub fn thunk(target: u64) -> [u8; THUNK] {
    let mut bytes = [0xcc; THUNK];
    put(&mut bytes, 0, &[0xff, 0x25, 0, 0, 0, 0]);
    put(&mut bytes, 6, &target.to_le_bytes());
    bytes
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(room) = bytes.get_mut(at..at + value.len()) {
        room.copy_from_slice(value);
    }
}

/// A five-byte branch with this opcode at `from`.
fn branch(opcode: u8, from: u64, to: u64) -> Option<[u8; 5]> {
    let distance = to.wrapping_sub(from.wrapping_add(5)).cast_signed();
    let [a, b, c, d] = i32::try_from(distance).ok()?.to_le_bytes();
    Some([opcode, a, b, c, d])
}

#[cfg(test)]
mod tests;
