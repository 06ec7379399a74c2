//! The flame graph: a tree of chains of callers, each with its calls and its time.

use std::collections::HashMap;

/// A field of the graph.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    pub(super) parent: Option<usize>,
    pub(super) what: What,
    depth: usize,
    pub(super) calls: u64,
    /// Nanoseconds in it and in what it called; or calls, where there are no times. Its own until
    /// [`Flame::largest`] adds the rest.
    pub(super) weight: u64,
}

/// The meaning of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum What {
    /// One of the trace's processes; unless it's unknown.
    Process(Option<usize>),
    /// The function with this number.
    Function(u32),
}

/// Chains that are longer, or new when there are so many, count as the chain that they begin with.
const DEEPEST: usize = 256;
const MOST: usize = 400_000;

/// So many fields are put on the page, those with most weight.
const SHOWN: usize = 20_000;

#[derive(Default)]
pub(super) struct Flame {
    fields: Vec<Field>,
    places: HashMap<(Option<usize>, What), usize>,
}

impl Flame {
    /// The outermost field of a process.
    pub(super) fn process(&mut self, process: Option<usize>) -> usize {
        self.place(None, What::Process(process))
    }

    /// A call of a function in the chain `parent`; its field.
    pub(super) fn enter(&mut self, parent: usize, function: u32) -> usize {
        let at = self.place(Some(parent), What::Function(function));
        if let Some(field) = self.fields.get_mut(at) {
            field.calls += 1;
        }
        at
    }

    /// A call has ended that spent this on its own.
    pub(super) fn leave(&mut self, at: usize, own: u64) {
        if let Some(field) = self.fields.get_mut(at) {
            field.weight = field.weight.saturating_add(own);
        }
    }

    fn place(&mut self, parent: Option<usize>, what: What) -> usize {
        if let Some(at) = self.places.get(&(parent, what)) {
            return *at;
        }
        let depth = parent.and_then(|at| self.fields.get(at)).map_or(0, |field| field.depth + 1);
        if let Some(parent) = parent
            && (depth > DEEPEST || self.fields.len() >= MOST)
        {
            return parent;
        }
        self.fields.push(Field { parent, what, depth, calls: 0, weight: 0 });
        self.places.insert((parent, what), self.fields.len() - 1);
        self.fields.len() - 1
    }

    /// The fields with most weight, parents first, with their parents' places among them; and how many
    /// others there are.
    pub(super) fn largest(mut self) -> (Vec<Field>, usize) {
        // Children come after their parents.
        for at in (0..self.fields.len()).rev() {
            let Some(Field { parent: Some(parent), weight, .. }) = self.fields.get(at).copied()
            else {
                continue;
            };
            if let Some(parent) = self.fields.get_mut(parent) {
                parent.weight = parent.weight.saturating_add(weight);
            }
        }
        let mut weights: Vec<u64> = self.fields.iter().map(|field| field.weight).collect();
        weights.sort_unstable_by(|a, b| b.cmp(a));
        let least = weights.get(SHOWN).map_or(0, |weight| weight + 1);
        // A parent weighs as much as its child, so it's there if the child is.
        let mut places: Vec<Option<usize>> = vec![None; self.fields.len()];
        let mut shown: Vec<Field> = Vec::new();
        for (place, field) in places.iter_mut().zip(&self.fields) {
            if field.weight >= least {
                *place = Some(shown.len());
                shown.push(*field);
            }
        }
        for field in &mut shown {
            field.parent = field.parent.and_then(|parent| places.get(parent).copied().flatten());
        }
        let others = self.fields.len() - shown.len();
        (shown, others)
    }
}
