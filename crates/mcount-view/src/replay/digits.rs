//! Numbers as digits, three at a time, and without those that stay the same from call to call: most of what a trace
//! takes to print is numbers.

/// The digits of the numbers below 1,000.
const THREE: [[u8; 3]; 1000] = three();

#[expect(clippy::indexing_slicing, reason = "checked when it is compiled")]
const fn three() -> [[u8; 3]; 1000] {
    const TEN: [u8; 10] = *b"0123456789";
    let mut all = [[0; 3]; 1000];
    let mut at = 0;
    while at < 1000 {
        all[at] = [TEN[at / 100], TEN[at / 10 % 10], TEN[at % 10]];
        at += 1;
    }
    all
}

/// Three digits of a number below 1,000, zeros too.
#[inline]
fn three_of(value: u64) -> [u8; 3] {
    let at = usize::try_from(value).unwrap_or(0);
    THREE.get(at).copied().unwrap_or_default()
}

/// Appends a number below 1,000.
#[inline]
fn few(out: &mut Vec<u8>, value: u64) {
    let [a, b, c] = three_of(value);
    if value >= 100 {
        out.extend_from_slice(&[a, b, c]);
    } else if value >= 10 {
        out.extend_from_slice(&[b, c]);
    } else {
        out.push(c);
    }
}

/// Appends a number.
#[inline]
pub(super) fn number(out: &mut Vec<u8>, value: u64) {
    if value < 1_000 {
        few(out, value);
    } else if value < 1_000_000 {
        few(out, value / 1_000);
        out.extend_from_slice(&three_of(value % 1_000));
    } else {
        out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }
}

/// Appends a number of nanoseconds in microseconds.
#[inline]
pub(super) fn microseconds(out: &mut Vec<u8>, nanoseconds: u64) {
    number(out, nanoseconds / 1_000);
    let [a, b, c] = three_of(nanoseconds % 1_000);
    out.extend_from_slice(&[b'.', a, b, c]);
}

/// Appends a number of nanoseconds in milliseconds.
#[inline]
pub(super) fn milliseconds(out: &mut Vec<u8>, nanoseconds: u64) {
    number(out, nanoseconds / 1_000_000);
    let rest = nanoseconds % 1_000_000;
    out.push(b'.');
    out.extend_from_slice(&three_of(rest / 1_000));
    out.extend_from_slice(&three_of(rest % 1_000));
}

/// The digits of times that are near each other, but the last six.
#[derive(Default)]
pub(super) struct Times {
    millions: u64,
    digits: Vec<u8>,
}

impl Times {
    /// Appends all digits but the last six; those as two numbers below 1,000.
    #[inline]
    fn begin(&mut self, out: &mut Vec<u8>, value: u64) -> [[u8; 3]; 2] {
        let (millions, rest) = (value / 1_000_000, value % 1_000_000);
        if millions != self.millions || self.digits.is_empty() {
            self.millions = millions;
            self.digits.clear();
            self.digits.extend_from_slice(itoa::Buffer::new().format(millions).as_bytes());
        }
        out.extend_from_slice(&self.digits);
        [three_of(rest / 1_000), three_of(rest % 1_000)]
    }

    /// Appends a number of nanoseconds in milliseconds.
    #[inline]
    pub(super) fn milliseconds(&mut self, out: &mut Vec<u8>, nanoseconds: u64) {
        let [a, b] = self.begin(out, nanoseconds);
        out.push(b'.');
        out.extend_from_slice(&a);
        out.extend_from_slice(&b);
    }

    /// Appends a number.
    #[inline]
    pub(super) fn number(&mut self, out: &mut Vec<u8>, value: u64) {
        if value < 1_000_000 {
            return number(out, value);
        }
        for digits in self.begin(out, value) {
            out.extend_from_slice(&digits);
        }
    }

    /// Appends a number of nanoseconds in microseconds.
    #[inline]
    pub(super) fn microseconds(&mut self, out: &mut Vec<u8>, nanoseconds: u64) {
        if nanoseconds < 1_000_000 {
            return microseconds(out, nanoseconds);
        }
        let [thousands, [a, b, c]] = self.begin(out, nanoseconds);
        out.extend_from_slice(&thousands);
        out.extend_from_slice(&[b'.', a, b, c]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_standard_library_prints_them() {
        let mut times = Times::default();
        let steps = (0..2_000).chain((0..64).flat_map(|bit| {
            let power = 1_u64 << bit;
            [power - 1, power, power + 1, power / 7 * 5]
        }));
        for value in steps.chain([999_999, 1_000_000, 1_000_001, 1_999_999, u64::MAX]) {
            let mut found = [const { Vec::new() }; 4];
            let [one, two, three, four] = &mut found;
            number(one, value);
            times.number(two, value);
            microseconds(three, value);
            times.microseconds(four, value);
            let plain = value.to_string().into_bytes();
            let parts = format!("{}.{:03}", value / 1_000, value % 1_000).into_bytes();
            assert_eq!(found, [plain.clone(), plain, parts.clone(), parts], "{value}");
        }
    }
}
