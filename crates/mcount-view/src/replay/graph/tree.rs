//! Chains of callers as a tree: what each called, and the time with that; the part of it beneath some functions, and the ways to them.

use crate::replay::chains::{Chains, Last};
use std::cmp::Reverse;
use std::collections::HashMap;

/// A function in a tree, with those that called it.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) parent: Option<usize>,
    pub(crate) last: Last,
    pub(crate) calls: u64,
    /// Nanoseconds in it and in nothing that it called; or calls, if the trace has no times.
    own: i64,
    /// With what it called.
    total: i64,
    /// The one with most comes first.
    pub(crate) children: Vec<usize>,
}

impl Node {
    /// What it took alone.
    pub(crate) fn own(&self) -> u64 {
        u64::try_from(self.own).unwrap_or(0)
    }

    /// What it took with what it called.
    pub(crate) fn total(&self) -> u64 {
        u64::try_from(self.total).unwrap_or(0)
    }
}

/// A tree; parents come before their children.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
    /// Those without a caller, the one with most first.
    pub(crate) roots: Vec<usize>,
    /// Calls that count with their callers, because they were too deep, or there were too many ways to them.
    pub(crate) deeper: u64,
}

impl Tree {
    /// The tree of these chains; `has_times`: not their calls but their times are added up.
    pub(crate) fn of(chains: &Chains, has_times: bool) -> Self {
        let mut tree = Self::default();
        for chain in &chains.all {
            let calls = chain.calls.saturating_add(chain.deeper);
            let own = if has_times { chain.own } else { i64::try_from(calls).unwrap_or(i64::MAX) };
            tree.deeper = tree.deeper.saturating_add(chain.deeper);
            tree.push(chain.parent, chain.last, chain.calls, own);
        }
        tree.finish();
        tree
    }

    fn push(&mut self, parent: Option<usize>, last: Last, calls: u64, own: i64) {
        self.nodes.push(Node { parent, last, calls, own, total: 0, children: Vec::new() });
    }

    /// Adds up what nodes took together, and brings them into their order.
    fn finish(&mut self) {
        for at in (0..self.nodes.len()).rev() {
            let Some(node) = self.nodes.get_mut(at) else { continue };
            node.total = node.total.saturating_add(node.own);
            let (parent, total) = (node.parent, node.total);
            match parent.and_then(|parent| self.nodes.get_mut(parent)) {
                Some(parent) => {
                    parent.total = parent.total.saturating_add(total);
                    parent.children.push(at);
                }
                None => self.roots.push(at),
            }
        }
        let totals: Vec<_> =
            self.nodes.iter().map(|node| (Reverse(node.total), node.last)).collect();
        let by_total = |at: &usize| totals.get(*at).copied();
        self.roots.sort_unstable_by_key(by_total);
        for node in &mut self.nodes {
            node.children.sort_unstable_by_key(by_total);
        }
    }

    /// What all of it took.
    pub(crate) fn whole(&self) -> u64 {
        let roots = self.roots.iter().filter_map(|at| self.nodes.get(*at));
        roots.map(Node::total).fold(0, u64::saturating_add)
    }

    /// The outermost calls of the functions that are meant: one for each way to them, the one with most first.
    pub(crate) fn outermost(&self, is_meant: impl Fn(u32) -> bool) -> Vec<usize> {
        let mut is_beneath = vec![false; self.nodes.len()];
        let mut found = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let of_parent = node.parent.and_then(|parent| is_beneath.get(parent)).copied();
            let is_within = of_parent.unwrap_or(false);
            let is_one = matches!(node.last, Last::Function(number) if is_meant(number));
            if is_one && !is_within {
                found.push(at);
            }
            if let Some(is_beneath) = is_beneath.get_mut(at) {
                *is_beneath = is_one || is_within;
            }
        }
        let total = |at: &usize| self.nodes.get(*at).map_or(0, Node::total);
        found.sort_by_key(|at| (Reverse(total(at)), *at));
        found
    }

    /// From the outermost function to this node.
    pub(crate) fn path(&self, node: usize) -> Vec<usize> {
        let parent = |at: &usize| self.nodes.get(*at).and_then(|node| node.parent);
        let mut path: Vec<usize> = std::iter::successors(Some(node), parent).collect();
        path.reverse();
        path
    }

    /// The trees beneath these nodes as one: nodes that are reached by the same functions are together.
    pub(crate) fn beneath(&self, outermost: &[usize]) -> Self {
        let mut tree = Self { deeper: self.deeper, ..Self::default() };
        let mut known: HashMap<(Option<usize>, Last), usize> = HashMap::new();
        let mut places: Vec<Option<usize>> = vec![None; self.nodes.len()];
        let mut is_root = vec![false; self.nodes.len()];
        for at in outermost {
            if let Some(is_root) = is_root.get_mut(*at) {
                *is_root = true;
            }
        }
        for (at, (node, is_root)) in self.nodes.iter().zip(is_root).enumerate() {
            let parent = node.parent.and_then(|parent| places.get(parent).copied().flatten());
            if parent.is_none() && !is_root {
                continue;
            }
            let next = tree.nodes.len();
            let place = *known.entry((parent, node.last)).or_insert(next);
            if place == next {
                tree.push(parent, node.last, 0, 0);
            }
            if let Some(merged) = tree.nodes.get_mut(place) {
                merged.calls = merged.calls.saturating_add(node.calls);
                merged.own = merged.own.saturating_add(node.own);
            }
            if let Some(of) = places.get_mut(at) {
                *of = Some(place);
            }
        }
        tree.finish();
        tree
    }
}
