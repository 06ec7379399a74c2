//! A treemap: rectangles whose areas are in proportion to numbers, as square as can be.
//!
//! Source: Bruls, Huizing and van Wijk, "Squarified Treemaps", 2000.

/// A rectangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Field {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A field in `whole` for each of `weights`, which descend and are above 0, in their order.
pub(super) fn fields(weights: &[f64], whole: Field) -> Vec<Field> {
    let total: f64 = weights.iter().sum();
    let scale = whole.width * whole.height / total;
    let areas: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
    let mut found = Vec::with_capacity(areas.len());
    let (mut rest, mut areas) = (whole, areas.as_slice());
    while !areas.is_empty() {
        let side = rest.width.min(rest.height);
        let mut count = 1;
        while count < areas.len() && worst(areas, count + 1, side) <= worst(areas, count, side) {
            count += 1;
        }
        let (row, later) = areas.split_at(count);
        rest = lay(row, rest, &mut found);
        areas = later;
    }
    found
}

/// The worst ratio of the sides of the first `count` of `areas`, laid along a side of that length.
fn worst(areas: &[f64], count: usize, side: f64) -> f64 {
    let row = areas.get(..count).unwrap_or_default();
    let depth = row.iter().sum::<f64>() / side;
    let lengths = row.iter().map(|area| area / depth);
    lengths.map(|length| (depth / length).max(length / depth)).fold(1.0, f64::max)
}

/// Lays `row` along the shorter side of `rest`; what is left of it.
fn lay(row: &[f64], rest: Field, found: &mut Vec<Field>) -> Field {
    let sum: f64 = row.iter().sum();
    let Field { x, y, width, height } = rest;
    if width >= height {
        let depth = sum / height;
        let mut at = y;
        for area in row {
            found.push(Field { x, y: at, width: depth, height: area / depth });
            at += area / depth;
        }
        Field { x: x + depth, width: (width - depth).max(f64::MIN_POSITIVE), ..rest }
    } else {
        let depth = sum / width;
        let mut at = x;
        for area in row {
            found.push(Field { x: at, y, width: area / depth, height: depth });
            at += area / depth;
        }
        Field { y: y + depth, height: (height - depth).max(f64::MIN_POSITIVE), ..rest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_in_proportion_and_fill_the_whole() {
        let whole = Field { x: 0.0, y: 0.0, width: 600.0, height: 400.0 };
        let weights = [6.0, 6.0, 4.0, 3.0, 2.0, 2.0, 1.0];
        let found = fields(&weights, whole);
        assert_eq!(found.len(), weights.len());
        for (field, weight) in found.iter().zip(weights) {
            let area = field.width * field.height;
            assert!((area - weight * 10_000.0).abs() < 1e-6, "{field:?}");
            assert!(field.x >= 0.0 && field.x + field.width <= 600.0 + 1e-9, "{field:?}");
            assert!(field.y >= 0.0 && field.y + field.height <= 400.0 + 1e-9, "{field:?}");
        }
        assert_eq!(fields(&[], whole), []);
    }
}
