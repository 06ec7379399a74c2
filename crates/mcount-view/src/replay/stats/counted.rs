//! What was counted in the calls of a group: in them and in what they called, and in them alone.

use super::collect::Subject;
use crate::replay::progress::Progress;
use std::collections::HashMap;

/// What was counted in the calls of each group.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// The names of counters.
    pub(super) names: Vec<String>,
    /// For each group what each counter says.
    rows: Vec<Vec<Sums>>,
}

/// What a counter says of a group.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    /// Of calls within calls of the same group, the outermost count.
    total: u64,
    own: i64,
    is_known: bool,
}

/// A call that may enclose the next ones of its thread.
struct Open {
    depth: usize,
    group: usize,
    is_wanted: bool,
}

impl Counted {
    /// Adds up what calls have; nothing if the trace has no counters.
    pub(super) fn of(of: Subject<'_>, progress: &Progress<'_>) -> Self {
        let mut values = of.trace.values();
        let names = values.counters();
        if names.is_empty() {
            return Self::default();
        }
        let mut found =
            Self { rows: vec![vec![Sums::default(); names.len()]; of.groups.all().len()], names };
        let mut threads: HashMap<usize, Vec<Open>> = HashMap::new();
        for call in of.trace.calls() {
            if progress.is_stopped() {
                break;
            }
            let open = threads.entry(call.thread).or_default();
            while open.pop_if(|outer| outer.depth >= call.depth).is_some() {}
            let group = of.groups.of(&call);
            let (start, end) = of.filter.times(&call);
            let is_wanted = !of.filter.is_too_late(start) && of.filter.is_wanted(&call, start, end);
            let is_outermost = !open.iter().any(|outer| outer.group == group);
            if let Some(counted) = values.counted(&call) {
                let caller = open.last().filter(|caller| caller.is_wanted);
                found.leave(caller.map(|caller| caller.group), &counted);
                if is_wanted {
                    found.add(group, is_outermost, &counted);
                }
            }
            open.push(Open { depth: call.depth, group, is_wanted });
        }
        found
    }

    fn add(&mut self, group: usize, is_outermost: bool, counted: &[Option<u64>]) {
        let Some(row) = self.rows.get_mut(group) else { return };
        for (sums, counted) in row.iter_mut().zip(counted) {
            let Some(counted) = *counted else { continue };
            sums.is_known = true;
            if is_outermost {
                sums.total = sums.total.saturating_add(counted);
            }
            sums.own = sums.own.saturating_add(signed(counted));
        }
    }

    /// What a call has counted is not its caller's own.
    fn leave(&mut self, caller: Option<usize>, counted: &[Option<u64>]) {
        let row = caller.and_then(|caller| self.rows.get_mut(caller));
        for (sums, counted) in row.into_iter().flatten().zip(counted) {
            sums.own = sums.own.saturating_sub(signed(counted.unwrap_or(0)));
        }
    }

    /// What is known of a group: for each counter, in all and in its calls alone.
    pub(super) fn get(&self, group: usize) -> Vec<Option<[u64; 2]>> {
        let row = self.rows.get(group).map(Vec::as_slice).unwrap_or_default();
        let pair =
            |sums: &Sums| sums.is_known.then(|| [sums.total, u64::try_from(sums.own).unwrap_or(0)]);
        row.iter().map(pair).collect()
    }
}

fn signed(counted: u64) -> i64 {
    i64::try_from(counted).unwrap_or(i64::MAX)
}
