//! Gates: the way of calls of a function in another module, which isn't changed itself.
//!
//! A call leaves a module by a word that the dynamic linker fills in: `jmp *word(%rip)` in the procedure linkage table, `call
//! *word(%rip)` where there's none. Either the word is made to lead to the gate, or each call is made one of the gate, as linkers
//! relax them (System V psABI for x86-64, B.2, "Optimize GOTPCRELX Relocations"). A gate is a slot as a stub is, so that the same unwind
//! information serves it.

use super::{ENDBR64, SITE, STUB, STUB_KIND, armed, branch, put, thunk};

/// Where in a [`gate`] its site is, in bytes.
pub const GATE_SITE: usize = 4;

/// Where in a [`gate`] the function goes on, in bytes.
pub const GATE_BODY: usize = GATE_SITE + SITE;

/// Bytes of a call or a jump by a word.
pub const BY_WORD: usize = 6;

/// What calls go by of a function that isn't to be changed itself: at `address`, after a landing pad, there's a site, armed, of
/// which `stub` is the stub; behind that is a jump to where the word at `word` leads to. `None` if one of them is out of reach.
#[must_use]
pub fn gate(address: u64, stub: u64, word: u64) -> Option<[u8; STUB]> {
    let mut bytes = [0xcc; STUB];
    put(&mut bytes, 0, &ENDBR64);
    put(&mut bytes, GATE_SITE, &armed(address.wrapping_add(GATE_SITE as u64), stub)?);
    put(&mut bytes, GATE_BODY, &jump_by(address.wrapping_add(GATE_BODY as u64), word)?);
    put(&mut bytes, STUB_KIND, &[0]);
    Some(bytes)
}

/// A jump at `from` to where the word at `word` leads to. `None` if the word is out of reach.
#[must_use]
pub fn jump_by(from: u64, word: u64) -> Option<[u8; BY_WORD]> {
    // It's a byte longer than a jump to the word itself.
    let [_, a, b, c, d] = branch(0, from.wrapping_add(1), word)?;
    Some([0xff, 0x25, a, b, c, d])
}

/// The call or jump to `target` that takes the place of `code`, one by a word, at `from`, as linkers make it. `None` if that's
/// something else, or out of reach.
#[must_use]
pub fn direct(code: [u8; BY_WORD], from: u64, target: u64) -> Option<[u8; BY_WORD]> {
    match code {
        [0xff, 0x15, ..] => {
            let [opcode, a, b, c, d] = branch(0xe8, from.wrapping_add(1), target)?;
            Some([0x67, opcode, a, b, c, d])
        }
        [0xff, 0x25, ..] => {
            let [opcode, a, b, c, d] = branch(0xe9, from, target)?;
            Some([opcode, a, b, c, d, 0x90])
        }
        _ => None,
    }
}

/// A slot with code that loads `number` into `%r11` and jumps to `target`, however far it is.
#[must_use]
pub fn load_and_jump(number: u32, target: u64) -> [u8; STUB] {
    let mut bytes = [0xcc; STUB];
    put(&mut bytes, 0, &[0x41, 0xbb]);
    put(&mut bytes, 2, &number.to_le_bytes());
    put(&mut bytes, 6, &thunk(target));
    put(&mut bytes, STUB_KIND, &[0]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_a_site_and_a_jump_by_a_word() {
        // endbr64; jmp 0x1000; jmp *0x3000(%rip): as GNU as has it.
        let expected = [
            0xf3, 0x0f, 0x1e, 0xfa, 0xe9, 0xf7, 0xef, 0xff, 0xff, 0xff, 0x25, 0xf1, 0x0f, 0, 0,
            0xcc,
        ];
        assert_eq!(gate(0x2000, 0x1000, 0x3000).unwrap()[..16], expected);
        assert_eq!(gate(0x2000, 0x1000, 0x8000_3000), None);
        assert_eq!(gate(0x2000, 0x8000_3000, 0x3000), None);
        // As GNU ld relaxes `call *f@GOTPCREL(%rip)` and `jmp`: addr32 call f; jmp f; nop.
        let call = [0xff, 0x15, 1, 2, 3, 4];
        assert_eq!(direct(call, 0x1000, 0x2000), Some([0x67, 0xe8, 0xfa, 0x0f, 0, 0]));
        let jump = [0xff, 0x25, 1, 2, 3, 4];
        assert_eq!(direct(jump, 0x1000, 0x2000), Some([0xe9, 0xfb, 0x0f, 0, 0, 0x90]));
        assert_eq!(direct([0x8b, 0x15, 1, 2, 3, 4], 0x1000, 0x2000), None);
    }
}
