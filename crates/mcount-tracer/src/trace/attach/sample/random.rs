//! What decides when windows are, and what they have.

#[expect(clippy::cast_precision_loss, reason = "it needn't be exact")]
pub(super) fn float(number: u64) -> f64 {
    number as f64
}

/// Random numbers: `SplitMix64`.
#[derive(Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Above 0, below 1.
    pub(super) fn part(&mut self) -> f64 {
        (float(self.next() >> 12) + 0.5) / float(1 << 52)
    }
}
