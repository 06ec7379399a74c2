//! Functions that `mcount sample` leaves out, as their probes would cost too much between windows, and what it says of them.

use crate::replay::short_name;
use crate::trace::attach::Named;
use crate::words::{counted, printable};
use std::collections::BTreeMap;

/// So many are named.
const NAMES: usize = 5;

/// Functions that are left out.
#[derive(Default)]
pub(super) struct LeftOut {
    /// Those that cost most come first.
    functions: Vec<u32>,
    /// The part of the program's time that their probes would take between windows.
    cost: f64,
    pub(super) say: Option<fn(&str)>,
    /// So many of them were named already, in an earlier period.
    said: usize,
}

impl LeftOut {
    pub(super) fn has(&self, function: u32) -> bool {
        self.functions.contains(&function)
    }

    /// All of them.
    pub(super) fn functions(&self) -> impl Iterator<Item = u32> {
        self.functions.iter().copied()
    }

    /// These are, too.
    pub(super) fn add(&mut self, functions: &[u32], cost: f64) {
        self.functions.extend(functions);
        self.cost += cost;
    }

    /// Says which ones are, unless that was said.
    pub(super) fn tell(&mut self, functions: &BTreeMap<u32, Named>) {
        let count = self.functions.len();
        if count > std::mem::replace(&mut self.said, count)
            && let Some(say) = self.say
        {
            say(&self.text(functions));
        }
    }

    fn text(&self, functions: &BTreeMap<u32, Named>) -> String {
        let count = self.functions.len();
        let shown = self.functions.iter().filter_map(|number| functions.get(number)).take(NAMES);
        let shown = shown.map(|named| printable(&short_name(&named.function)).into_owned());
        let list = shown.collect::<Vec<String>>().join(", ");
        let more = match count.checked_sub(NAMES) {
            Some(more @ 1..) => format!(" and {more} more"),
            _ => String::new(),
        };
        let (whose, it) = if count == 1 { ("its probe", "it") } else { ("their probes", "them") };
        format!(
            "{} left out, as {whose} would cost {:.1} % between windows: {list}{more}; \
             raise --cost to include {it}",
            counted(count, "function", "functions"),
            self.cost * 100.0,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_dearest_are_named() {
        let named = |number: u32| {
            let (function, empty) = (Arc::from(format!("f{number}")), Arc::from(""));
            let (module, build) = (Arc::clone(&empty), empty);
            (number, Named { number, function, module, build, group: 0, is_probe: true })
        };
        let functions = (1..=7).map(named).collect();
        let mut left_out = LeftOut::default();
        let text = |left_out: &LeftOut| left_out.text(&functions);
        left_out.add(&[4], 0.0012);
        assert_eq!(
            text(&left_out),
            "1 function left out, as its probe would cost 0.1 % between windows: f4; raise --cost to include it"
        );
        left_out.add(&[2, 1, 3, 5, 6, 7], 0.004);
        assert_eq!(
            text(&left_out),
            "7 functions left out, as their probes would cost 0.5 % between windows: f4, f2, f1, f3, f5 \
             and 2 more; raise --cost to include them"
        );
        assert!(left_out.has(7) && !left_out.has(8));
    }
}
