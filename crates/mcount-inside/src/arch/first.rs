//! Processors on which the site is the first instruction of the area, and the rest is filled with NOPs.

use super::here::code::{self, Area, SITE, Unusable};
use std::ops::Range;

/// The compiler's code at the start of `code`, which is the code from the entry of a function on.
pub(crate) fn area(_before: &[u8], code: &[u8]) -> Result<Area, Unusable> {
    Area::find(code)
}

/// Bytes of the area before the hook.
pub(crate) fn before(_: &Area) -> u64 {
    0
}

/// What of an area differs between its two states.
pub(crate) fn changed(_: &Area) -> Range<usize> {
    0..SITE
}

/// The two states of the area at `site`, idle and leading to `stub`; and how many of the bytes say which it is. `None` if the
/// stub is out of reach.
pub(crate) fn states(area: &Area, site: u64, stub: u64) -> Option<([u8; 24], [u8; 24], usize)> {
    let filled = |first: [u8; SITE]| {
        let mut bytes = area.idle();
        for (room, byte) in bytes.iter_mut().zip(first) {
            *room = byte;
        }
        bytes
    };
    Some((filled(code::idle(site, stub)?), filled(code::armed(site, stub)?), SITE))
}
