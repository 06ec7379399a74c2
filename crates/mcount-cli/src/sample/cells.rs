//! Estimates as people read them: with as many digits as are known.

use mcount_view::sample::Estimate;

/// A number in its unit: what it's divided by, and the unit's name.
type Unit = (f64, &'static str);

/// `41,200 ± 310`: both in the unit that suits the value.
pub(super) fn cell(estimate: Estimate, unit: fn(f64) -> Unit) -> String {
    let (size, _) = unit(estimate.value);
    let error = known(estimate, size).map_or_else(
        || "?".to_owned(),
        |error| digits(error, decimals(estimate.value / size, Some(error))),
    );
    format!("{} ± {error}", rounded(estimate, unit))
}

/// The value alone, with as many digits as are known.
pub(super) fn rounded(estimate: Estimate, unit: fn(f64) -> Unit) -> String {
    let (size, name) = unit(estimate.value);
    let value = estimate.value / size;
    format!("{}{name}", digits(value, decimals(value, known(estimate, size))))
}

/// The error in this unit, if there's one.
fn known(estimate: Estimate, size: f64) -> Option<f64> {
    estimate.error.map(|error| error / size).filter(|error| error.is_finite())
}

pub(super) fn rate(_: f64) -> Unit {
    (1.0, "")
}

pub(super) fn part(_: f64) -> Unit {
    (0.01, " %")
}

/// Of nanoseconds.
pub(super) fn time(nanoseconds: f64) -> Unit {
    let units = [(1e9, " s"), (1e6, " ms"), (1e3, " us")];
    units.into_iter().find(|(size, _)| nanoseconds >= *size).unwrap_or((1.0, " ns"))
}

/// How many digits there are behind the point: two of the error that aren't zeroes, or three of the value if there's none.
fn decimals(value: f64, error: Option<f64>) -> usize {
    let (number, least) = match error {
        Some(error) if error > 0.0 => (error, 10.0),
        _ if value == 0.0 => return 0,
        _ => (value, 100.0),
    };
    // 10, 1, 0.1 and so on have the digits that are wanted.
    let mut steps = std::iter::successors(Some(least), |step| Some(step / 10.0)).take(MOST);
    steps.position(|step| number >= step).unwrap_or(MOST)
}

/// Digits behind the point.
const MOST: usize = 4;

/// With commas between thousands.
fn digits(number: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", number.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place != 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if number < 0.0 { "-" } else { "" };
    [sign, &grouped, rest].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Value, error, unit, text.
    type Case = (f64, Option<f64>, fn(f64) -> Unit, &'static str);

    #[test]
    fn estimates_have_the_digits_that_are_known() {
        let rows: [Case; 10] = [
            (41_234.5, Some(310.2), rate, "41,234 ± 310"),
            (1_234_567.0, Some(9.0), rate, "1,234,567.0 ± 9.0"),
            (4.128, Some(0.32), rate, "4.13 ± 0.32"),
            (0.0412, None, rate, "0.0412 ± ?"),
            (12.0, None, rate, "12.0 ± ?"),
            (2314.0, Some(42.0), time, "2.314 us ± 0.042"),
            (999.0, Some(120.0), time, "999 ns ± 120"),
            (0.0951, Some(0.0021), part, "9.51 % ± 0.21"),
            (1.5, Some(f64::INFINITY), part, "150 % ± ?"),
            (-7.57, Some(91.09), part, "-757 % ± 9,109"),
        ];
        for (value, error, unit, expected) in rows {
            assert_eq!(cell(Estimate { value, error }, unit), expected);
        }
    }
}
