//! Looks through code for what it leads to, and for what makes a function impossible to plan.

use super::instruction::{
    Flow, PAGE, access, flow, is_allocated, is_literal, page, rd, rn, signed, uses,
};
use super::link::Link;
use crate::outside::words;
use crate::probe::{Base, Kind, Piece, References, Rules, Scanned};

/// Pages that a register has had, the latest first. Where instructions follow each other otherwise than they're executed, one of the
/// last is meant.
type Pages = [[Option<u64>; 2]; 32];

/// Looks through a piece of code.
pub(super) fn scan(piece: Piece<'_>, rules: &[Rules], references: &mut References) -> Scanned {
    let mut found = Scanned::default();
    if !piece.start.is_multiple_of(4) && !piece.bytes.is_empty() {
        found.undecoded = Some(piece.start);
    }
    // Instructions begin behind that.
    let skipped = usize::try_from(piece.start.wrapping_neg() % 4).unwrap_or(0);
    let bytes = piece.bytes.get(skipped..).unwrap_or_default();
    let start = piece.start.wrapping_add(skipped as u64);
    let mut link = Link::new(rules);
    let mut pages: Pages = [[None; 2]; 32];
    for (number, word) in (0..).zip(words(bytes)) {
        let address = start.wrapping_add(4 * number);
        if !is_allocated(word) && found.undecoded.is_none() {
            found.undecoded = Some(address);
        }
        if link.is_used_by(word, address) && found.uses_return.is_none() {
            found.uses_return = Some(address);
        }
        look(word, address, &mut pages, references);
        let flow = flow(word, address);
        found.jumps_by_register |= flow == Flow::IndirectJump;
        let goes_on = matches!(flow, Flow::Next | Flow::Branch(_));
        found.falls_from = goes_on.then_some(address);
    }
    if !bytes.len().is_multiple_of(4) && found.undecoded.is_none() {
        found.undecoded = Some(start.wrapping_add((bytes.len() & !3) as u64));
    }
    found
}

/// Adds what an instruction leads to.
fn look(word: u32, address: u64, pages: &mut Pages, references: &mut References) {
    match flow(word, address) {
        Flow::Branch(target) | Flow::Jump(target) => {
            references.add(target, address, Kind::Jump);
            return;
        }
        Flow::Call(target) => {
            references.add(target, address, Kind::Call);
            return;
        }
        _ => {}
    }
    let mut take = |target: u64, is_address: bool| {
        references.add(target, address, Kind::Address);
        if is_address {
            references.bases.push(Base { source: address, address: target });
        }
    };
    if let Some(target) = page(word, address) {
        let is_page = word & PAGE == PAGE;
        if !is_page {
            take(target, true);
        }
        if let Some(latest) = pages.get_mut(rd(word) as usize).filter(|_| is_page)
            && latest[0] != Some(target)
        {
            *latest = [Some(target), latest[0]];
        }
        return;
    }
    if is_literal(word) {
        let distance = signed(word, 5, 19) * 4;
        take(address.wrapping_add_signed(distance), false);
        return;
    }
    // add of a number to a page; a load from one.
    let sum = (word & 0xffc0_0000 == 0x9100_0000).then(|| u64::from(word >> 10 & 0xfff));
    let load = || access(word).filter(|access| access.moves == 0 && access.offset >= 0);
    let distance = sum.or_else(|| load().map(|access| access.offset.unsigned_abs()));
    if let Some(distance) = distance {
        for page in pages.get(rn(word) as usize).into_iter().flatten().flatten() {
            take(page.wrapping_add(distance), sum.is_some());
        }
    }
    // What a register has by then is no page.
    for (number, latest) in (0..31).zip(pages.iter_mut()) {
        if writes(word) >> number & 1 == 1 {
            *latest = [None, latest[0]];
        }
    }
}

/// The general registers that an instruction sets, as a bit for each.
fn writes(word: u32) -> u32 {
    let Some(access) = access(word) else { return uses(word).writes };
    let moved = (access.moves != 0).then_some(access.base);
    let loaded = access.registers.into_iter().filter(|_| access.is_load).flatten();
    loaded.chain(moved).fold(0, |bits, register| bits | 1 << register)
}
