//! The words of a condition: they're done one after the other, on a stack of numbers, and the last one left says whether it
//! holds. What is done is bits 0 to 7.

/// Puts the value of a source, bits 8 to 15, on the stack: bits 16 to 23 say how it's read, bits 24 to 31 how many bytes it
/// has, and bits 32 to 47 where it is on the stack or in the register.
pub const VALUE: u64 = 1;
/// Puts the next word on the stack, as a number with a sign if bit 8 is set.
pub const NUMBER: u64 = 2;
/// Replaces two numbers by whether they compare as bits 8 to 15 say.
pub const COMPARE: u64 = 3;
/// Replaces a number by whether it's 0.
pub const NOT: u64 = 4;
/// Puts on the stack whether the text that the source in bits 8 to 15 leads to is the one in the next words, of
/// bits 24 to 31 bytes. Bits 16 to 23 are the source of its length, or one of the two below.
pub const TEXT: u64 = 5;
/// Unless the number on the stack is 0, takes it off; else passes over as many words as bits 8 to 39 say.
pub const IF_SET: u64 = 6;
/// The same the other way round.
pub const UNLESS_SET: u64 = 7;

/// Replaces an address by the value that is so many bytes behind it as bits 32 to 47 say. Bits 16 to 31 are as of [`VALUE`]. If it can't be
/// read, the condition doesn't hold.
pub const AT: u64 = 8;

/// How a value is read: as a number without a sign.
pub const UNSIGNED: u64 = 0;
/// As a number with one.
pub const SIGNED: u64 = 1;
/// As a floating-point number, which is replaced by a whole one: those have the same order.
pub const FLOAT: u64 = 2;

/// Instead of the source of a length: a zero ends the text.
pub const UP_TO_ZERO: u64 = 0xff;
/// Instead of the source of a length: the source leads to pointer and length.
pub const INDIRECT: u64 = 0xfe;

/// Instead of the source of a text: takes an address off the stack. The text, or its pointer and length, is so many bytes behind it as bits 32
/// to 47 say.
pub const ON_STACK: u64 = 0xfd;

/// How many numbers the stack has room for.
pub const ROOM: usize = 8;

/// How numbers compare.
pub const EQUAL: u64 = 0;
/// `!=`
pub const NOT_EQUAL: u64 = 1;
/// `<`
pub const LESS: u64 = 2;
/// `<=`
pub const NOT_GREATER: u64 = 3;
/// `>`
pub const GREATER: u64 = 4;
/// `>=`
pub const NOT_LESS: u64 = 5;

/// What no number equals: NaN.
pub const NOTHING: i128 = i128::MIN;

/// The whole number for a floating-point number of 8 bytes: they have the same order.
#[must_use]
pub fn order(bits: u64) -> i128 {
    const SIGN: u64 = 1 << 63;
    const INFINITY: u64 = 0x7ff << 52;
    let size = bits & !SIGN;
    if size > INFINITY {
        return NOTHING;
    }
    if bits & SIGN == 0 { i128::from(size) } else { -i128::from(size) }
}

/// A floating-point number of 4 bytes as one of 8, without arithmetic of such numbers.
#[must_use]
pub fn widen(bits: u32) -> u64 {
    let sign = u64::from(bits >> 31) << 63;
    let (exponent, fraction) = (u64::from(bits >> 23 & 0xff), u64::from(bits & 0x7f_ffff));
    let rest = match (exponent, fraction) {
        (0, 0) => 0,
        // A denormal one: its first bit goes to where it isn't written.
        (0, _) => {
            let shift = u64::from(fraction.leading_zeros() - 40);
            (1023 - 126 - shift) << 52 | (fraction << (29 + shift)) & ((1 << 52) - 1)
        }
        (0xff, _) => 0x7ff << 52 | fraction << 29,
        _ => (exponent + 1023 - 127) << 52 | fraction << 29,
    };
    sign | rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floating_point_numbers_keep_their_order() {
        let mut all = [
            f64::NEG_INFINITY,
            -1e300,
            -1.5,
            -1e-310,
            -0.0,
            0.0,
            5e-324,
            1e-310,
            0.1,
            1.0,
            1.5,
            1e300,
            f64::INFINITY,
        ];
        all.sort_by(f64::total_cmp);
        for pair in all.windows(2) {
            let (one, other) = (order(pair[0].to_bits()), order(pair[1].to_bits()));
            assert_eq!(one.cmp(&other), pair[0].partial_cmp(&pair[1]).unwrap(), "{pair:?}");
        }
        assert_eq!(order(f64::NAN.to_bits()), NOTHING);
        assert_eq!(order((-f64::NAN).to_bits()), NOTHING);
    }

    #[test]
    fn small_floating_point_numbers_become_large_ones() {
        let some = [
            0.0,
            -0.0,
            1.0,
            -2.5,
            0.1,
            f32::MAX,
            f32::MIN_POSITIVE,
            f32::INFINITY,
            f32::NEG_INFINITY,
        ];
        let denormal = (1..0x80_0000).step_by(7919).chain([1, 0x7f_ffff]).map(f32::from_bits);
        for one in some.into_iter().chain(denormal) {
            assert_eq!(widen(one.to_bits()), f64::from(one).to_bits(), "{one:e}");
        }
        assert!(f64::from_bits(widen(f32::NAN.to_bits())).is_nan());
    }
}
