//! Instructions as far as probes need them: where they lead, whether they can run elsewhere, which registers they use.

/// The effect of an instruction on the flow of execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    /// Perhaps to there, perhaps on.
    Branch(u64),
    Jump(u64),
    Call(u64),
    IndirectJump,
    IndirectCall,
    Return,
    /// An instruction that stops the program, or that programs don't execute.
    End,
}

/// The register that calls put the return address into.
pub(super) const LINK: u32 = 30;
/// The stack pointer, where it isn't zero.
pub(super) const STACK: u32 = 31;
/// The frame pointer.
pub(super) const FRAME: u32 = 29;

/// The bits in which `adr` and `adrp` differ from other instructions, and from each other: the bits of `adrp`.
pub(super) const PAGE: u32 = 0x9000_0000;

/// Bits 4 to 0.
pub(super) fn rd(word: u32) -> u32 {
    word & 31
}

/// Bits 9 to 5.
pub(super) fn rn(word: u32) -> u32 {
    word >> 5 & 31
}

/// Bits 14 to 10.
pub(super) fn rt2(word: u32) -> u32 {
    word >> 10 & 31
}

/// Bits 20 to 16.
pub(super) fn rm(word: u32) -> u32 {
    word >> 16 & 31
}

/// The `count` bits from bit `first` on, with a sign.
pub(super) fn signed(word: u32, first: u32, count: u32) -> i64 {
    i64::from((word << (32 - first - count)).cast_signed() >> (32 - count))
}

fn is(word: u32, mask: u32, value: u32) -> bool {
    word & mask == value
}

/// Whether it's an instruction at all, as far as the first level of the encoding tells (C4.1).
pub(super) fn is_allocated(word: u32) -> bool {
    match word >> 25 & 0xf {
        // SME; or `udf`.
        0 => word >> 31 == 1 || word >> 16 == 0,
        1 | 3 => false,
        _ => true,
    }
}

/// The effect of the instruction `word` at `address` on the flow of execution.
pub(super) fn flow(word: u32, address: u64) -> Flow {
    let to = |first, count| address.wrapping_add_signed(4 * signed(word, first, count));
    if is(word, 0xfc00_0000, 0x1400_0000) {
        return Flow::Jump(to(0, 26));
    }
    if is(word, 0xfc00_0000, 0x9400_0000) {
        return Flow::Call(to(0, 26));
    }
    // b.cond and bc.cond; cbz and cbnz; tbz and tbnz; cb<cond> of Armv9.6.
    if is(word, 0xff00_0000, 0x5400_0000) || is(word, 0x7e00_0000, 0x3400_0000) {
        return Flow::Branch(to(5, 19));
    }
    if is(word, 0x7e00_0000, 0x3600_0000) {
        return Flow::Branch(to(5, 14));
    }
    if is(word, 0x7e00_0000, 0x7400_0000) {
        return Flow::Branch(to(5, 9));
    }
    if is(word, 0xfe00_0000, 0xd600_0000) {
        // Bit 24 says that the address is authenticated with another register.
        return match word >> 21 & 7 {
            0 if rn(word) == LINK => Flow::Return,
            0 => Flow::IndirectJump,
            1 => Flow::IndirectCall,
            2 => Flow::Return,
            _ => Flow::End,
        };
    }
    // `retaasppc` and the like; brk, hlt; udf.
    let is_end = is(word, 0xff00_001f, 0x5500_001f)
        || is(word, 0xffe0_001f, 0xd420_0000)
        || is(word, 0xffe0_001f, 0xd440_0000)
        || word >> 16 == 0;
    if is_end { Flow::End } else { Flow::Next }
}

/// Whether it loads from where it is: `ldr`, `ldrsw`, `prfm` with a literal.
pub(super) fn is_literal(word: u32) -> bool {
    is(word, 0x3b00_0000, 0x1800_0000)
}

/// Whether it's `adr` or `adrp`.
pub(super) fn is_address(word: u32) -> bool {
    is(word, 0x1f00_0000, 0x1000_0000)
}

/// What `adr` or `adrp` at `address` takes; `None` if it's neither.
pub(super) fn page(word: u32, address: u64) -> Option<u64> {
    let distance = signed(word, 5, 19) << 2 | i64::from(word >> 29 & 3);
    is_address(word).then(|| {
        if word & PAGE == PAGE {
            (address & !0xfff).wrapping_add_signed(distance << 12)
        } else {
            address.wrapping_add_signed(distance)
        }
    })
}

/// Whether the instruction means the same elsewhere, or can be rewritten so that it does.
pub(super) fn can_move(word: u32) -> bool {
    let is_hint = is(word, 0xffff_f01f, 0xd503_201f);
    let hint = word >> 5 & 0x7f;
    // bti; paciasp, pacibsp and their like (24 to 27), and `pacm`.
    let stays = is_hint && (hint & !6 == 32 || (24..28).contains(&hint) || hint == 39);
    // svc, hvc, smc, brk, hlt and other exceptions; blr; eret, drps.
    let is_exception = is(word, 0xff00_0000, 0xd400_0000);
    let is_odd_branch = is(word, 0xfe00_0000, 0xd600_0000) && !matches!(word >> 21 & 7, 0 | 2);
    // Exclusive loads and stores; those of pairs, too. Those with an order only have bit 23.
    let is_exclusive = is(word, 0x3f80_0000, 0x0800_0000) && !is_compare_pair(word);
    // cb<cond>; what signs or authenticates with the address of an instruction.
    let is_new = is(word, 0x7e00_0000, 0x7400_0000)
        || is(word, 0xff00_0000, 0x5500_0000)
        || is(word, 0xff80_0000, 0xf380_0000)
        || is(word, 0xffff_8000, 0xdac1_8000);
    !(stays || is_exception || is_odd_branch || is_exclusive || is_new || word >> 16 == 0)
}

/// `casp`, which is among exclusive stores of pairs.
fn is_compare_pair(word: u32) -> bool {
    is(word, 0xbfa0_7c00, 0x0820_7c00)
}

/// The general registers that an instruction uses, as a bit for each. 31 is zero, and isn't among them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Uses {
    pub(super) reads: u32,
    pub(super) writes: u32,
}

impl Uses {
    fn of(reads: &[u32], writes: &[u32]) -> Self {
        let bits = |all: &[u32]| all.iter().fold(0, |bits, one| bits | 1 << one) & !(1 << 31);
        Self { reads: bits(reads), writes: bits(writes) }
    }
}

/// A load or a store with an address that is a register and a distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) base: u32,
    /// From the base to the first byte.
    pub(super) offset: i64,
    /// What is added to the base, afterwards or before.
    pub(super) moves: i64,
    /// Registers, in the order of memory; none if they're vectors.
    pub(super) registers: [Option<u32>; 2],
    /// Bytes of each.
    pub(super) size: i64,
    pub(super) is_load: bool,
}

/// The registers that an instruction uses, but for those of [`access`] and of [`Flow::Call`].
pub(super) fn uses(word: u32) -> Uses {
    match word >> 25 & 0xf {
        8 | 9 => immediate(word),
        10 | 11 => system(word),
        5 | 13 => of_registers(word),
        7 | 15 => vectors(word),
        4 | 6 | 12 | 14 => memory(word),
        _ => Uses::default(),
    }
}

/// Data processing with a number.
fn immediate(word: u32) -> Uses {
    let (d, n, m) = (rd(word), rn(word), rm(word));
    match word >> 23 & 7 {
        // `movk` keeps the rest of its register, and so does `bfm`.
        5 if word >> 29 & 3 == 3 => Uses::of(&[d], &[d]),
        0 | 1 | 5 => Uses::of(&[], &[d]),
        6 if word >> 29 & 3 == 1 => Uses::of(&[d, n], &[d]),
        7 => Uses::of(&[n, m], &[d]),
        _ => Uses::of(&[n], &[d]),
    }
}

/// Branches, exceptions, system registers.
fn system(word: u32) -> Uses {
    if is(word, 0x7c00_0000, 0x3400_0000) {
        return Uses::of(&[rd(word)], &[]);
    }
    if is(word, 0x7f00_0000, 0x7400_0000) {
        return Uses::of(&[rd(word), rm(word)], &[]);
    }
    if is(word, 0x7f00_0000, 0x7500_0000) {
        return Uses::of(&[rd(word)], &[]);
    }
    if is(word, 0xfe00_0000, 0xd600_0000) {
        let with = if word >> 24 & 1 == 1 { rd(word) } else { 31 };
        return Uses::of(&[rn(word), with], &[]);
    }
    // msr and mrs, sys and sysl: bit 21 says which. Hints, barriers and the like have 31.
    if is(word, 0xffc0_0000, 0xd500_0000) {
        let is_read = word >> 21 & 1 == 1;
        return if is_read { Uses::of(&[], &[rd(word)]) } else { Uses::of(&[rd(word)], &[]) };
    }
    Uses::default()
}

/// Data processing of registers.
fn of_registers(word: u32) -> Uses {
    let (d, n, m, a) = (rd(word), rn(word), rm(word), rt2(word));
    match word >> 21 & 0xf {
        // Conditional comparisons: no result, and perhaps a number.
        2 if word >> 28 & 1 == 1 => {
            let other = if word >> 11 & 1 == 1 { 31 } else { m };
            Uses::of(&[n, other], &[])
        }
        // One source.
        6 if word >> 28 & 1 == 1 && word >> 30 & 1 == 1 => Uses::of(&[n], &[d]),
        8.. if word >> 28 & 1 == 1 => Uses::of(&[n, m, a], &[d]),
        _ => Uses::of(&[n, m], &[d]),
    }
}

/// Of vectors: what moves between them and general registers.
fn vectors(word: u32) -> Uses {
    // Conversions, and `fmov`: the operation says which way.
    if is(word, 0x7f20_0000, 0x1e20_0000) && word & 0xfc00 == 0
        || is(word, 0x7f20_0000, 0x1e00_0000)
    {
        return match word >> 16 & 7 {
            2 | 3 | 7 => Uses::of(&[rn(word)], &[]),
            _ => Uses::of(&[], &[rd(word)]),
        };
    }
    // dup and ins of a register; smov and umov.
    if is(word, 0xbfe0_8400, 0x0e00_0400) {
        return match word >> 11 & 0xf {
            1 | 3 => Uses::of(&[rn(word)], &[]),
            5 | 7 => Uses::of(&[], &[rd(word)]),
            _ => Uses::default(),
        };
    }
    Uses::default()
}

/// Loads and stores that aren't an [`access`].
fn memory(word: u32) -> Uses {
    let (t, n, m) = (rd(word), rn(word), rm(word));
    let is_vector = word >> 26 & 1 == 1;
    if is_literal(word) {
        let is_general = !is_vector && word >> 30 != 3;
        return Uses::of(&[], &[if is_general { t } else { 31 }]);
    }
    if is_vector {
        return Uses::of(&[n, m], &[]);
    }
    match word >> 28 & 3 {
        // Exclusive and ordered ones, and compare and swap: of some, a register is the status.
        0 => {
            let (is_load, is_swap) = (word >> 22 & 1 == 1, is(word, 0x00a0_7c00, 0x00a0_7c00));
            match (is_load, is_swap || is_compare_pair(word)) {
                (_, true) => Uses::of(&[n, t, m], &[m]),
                (true, _) => Uses::of(&[n], &[t, rt2(word)]),
                (false, _) => Uses::of(&[n, t, rt2(word)], &[m]),
            }
        }
        // Those of tags and copies, and unscaled ones with an order.
        1 => Uses::of(&[n, t], &[t]),
        // Atomic ones, and those with an index in a register.
        _ if word >> 21 & 1 == 1 => {
            let is_store = is(word, 0x00c0_0c00, 0x0000_0800);
            if is_store { Uses::of(&[n, m, t], &[]) } else { Uses::of(&[n, m], &[t]) }
        }
        _ => Uses::of(&[n], &[]),
    }
}

/// The load or store, if it has a base and a distance.
pub(super) fn access(word: u32) -> Option<Access> {
    pair(word).or_else(|| single(word))
}

/// `ldp`, `stp` and the like.
fn pair(word: u32) -> Option<Access> {
    if !is(word, 0x3a00_0000, 0x2800_0000) {
        return None;
    }
    let (kind, is_vector) = (word >> 30, word >> 26 & 1 == 1);
    let scale = match (is_vector, kind) {
        (true, _) => 4 << kind,
        (false, 2) => 8,
        _ => 4,
    };
    let distance = signed(word, 15, 7) * scale;
    let (offset, moves) = match word >> 23 & 3 {
        1 => (0, distance),
        3 => (distance, distance),
        _ => (distance, 0),
    };
    let registers = [rd(word), rt2(word)].map(|register| (!is_vector).then_some(register));
    let is_load = word >> 22 & 1 == 1;
    Some(Access { base: rn(word), offset, moves, registers, size: scale, is_load })
}

/// `ldr`, `str` and the like.
fn single(word: u32) -> Option<Access> {
    let is_scaled = is(word, 0x3b00_0000, 0x3900_0000);
    if !is_scaled && !is(word, 0x3b20_0000, 0x3800_0000) {
        return None;
    }
    let (is_vector, kind) = (word >> 26 & 1 == 1, word >> 22 & 3);
    let shift = if is_vector && kind & 2 == 2 { 4 } else { word >> 30 };
    let (offset, moves) = if is_scaled {
        (i64::from(word >> 10 & 0xfff) << shift, 0)
    } else {
        let distance = signed(word, 12, 9);
        match word >> 10 & 3 {
            1 => (0, distance),
            3 => (distance, distance),
            _ => (distance, 0),
        }
    };
    let is_prefetch = !is_vector && word >> 30 == 3 && kind == 2;
    let register = (!is_vector && !is_prefetch).then_some(rd(word));
    let is_load = if is_vector { kind & 1 == 1 } else { kind != 0 };
    let size = 1 << shift;
    Some(Access { base: rn(word), offset, moves, registers: [register, None], size, is_load })
}
