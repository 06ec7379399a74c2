//! Times as people write and read them.

use std::fmt;

/// Nanoseconds in units, the longest name first where one ends in another.
const UNITS: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The nanoseconds that `10us`, `0.5s` or `2m` says.
///
/// # Errors
///
/// `text` is no number with a unit, or more nanoseconds than a u64 holds.
pub fn parse_time(text: &str) -> Result<u64, String> {
    if text == "0" {
        return Ok(0);
    }
    let wrong = || "not a time such as 10us, 0.5s or 2m".to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.get(digits.len()..).unwrap_or_default();
    let (_, factor) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || whole.is_empty() && part.is_empty() {
        return Err(wrong());
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| wrong())? };
    let mut nanoseconds = whole.checked_mul(factor).ok_or_else(wrong)?;
    let mut scale = factor;
    for digit in part.bytes() {
        // What is less than a nanosecond is left out.
        let tenths = scale / 10 * u64::from(digit - b'0');
        scale /= 10;
        nanoseconds = nanoseconds.checked_add(tenths).ok_or_else(wrong)?;
    }
    Ok(nanoseconds)
}

/// A duration in nanoseconds, as uftrace prints it: ten characters.
pub(crate) struct Duration(pub(crate) u64);

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(ns) = *self;
        let (whole, part, unit) = match ns {
            0..1_000_000 => (ns / 1_000, ns % 1_000, "us"),
            1_000_000..1_000_000_000 => (ns / 1_000_000, ns / 1_000 % 1_000, "ms"),
            1_000_000_000..60_000_000_000 => (ns / 1_000_000_000, ns / 1_000_000 % 1_000, " s"),
            _ => (ns / 60_000_000_000, ns / 1_000_000_000 % 60, " m"),
        };
        write!(f, "{whole:3}.{part:03} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_with_units() {
        let table = [
            ("0", 0),
            ("7ns", 7),
            ("10us", 10_000),
            ("0.5s", 500_000_000),
            (".5ms", 500_000),
            ("1.25us", 1_250),
            ("1.23456us", 1_234),
            ("2m", 120_000_000_000),
            ("1.5h", 5_400_000_000_000),
        ];
        for (text, expected) in table {
            assert_eq!(parse_time(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_time() {
        let texts =
            ["", "5", "s", ".s", "-1s", "1 s", "1.2.3s", "1d", "1e3s", "99999999999h", "ſ", "1µs"];
        for text in texts {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_ten_characters() {
        let table = [
            (0, "  0.000 us"),
            (1_234, "  1.234 us"),
            (999_999, "999.999 us"),
            (1_000_000, "  1.000 ms"),
            (61_000_000_000, "  1.001  m"),
            (2_500_000_000, "  2.500  s"),
        ];
        for (ns, expected) in table {
            assert_eq!(Duration(ns).to_string(), expected);
        }
    }
}
