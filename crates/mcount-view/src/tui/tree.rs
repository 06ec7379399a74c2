//! The tree of calls: which nodes are open, and which one is selected.

use super::search::Search;
use crate::replay::chains::Last;
use crate::replay::graph::tree::{Node, Tree};
use std::collections::HashSet;

/// A line of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TreeLine {
    pub(super) node: usize,
    pub(super) depth: usize,
}

/// What is open and selected.
#[derive(Default)]
pub(super) struct TreeView {
    open: HashSet<usize>,
    pub(super) lines: Vec<TreeLine>,
    /// A place in the lines.
    pub(super) selected: usize,
    /// How many lines are above the first one that's shown.
    pub(super) above: usize,
    is_begun: bool,
}

impl TreeView {
    /// Opens the processes, and what takes most of their time, when the tree is there.
    pub(super) fn begin(&mut self, tree: &Tree) {
        if self.is_begun {
            return;
        }
        self.is_begun = true;
        let whole = tree.whole();
        for (at, node) in tree.nodes.iter().enumerate() {
            let of_parent = node.parent.is_none_or(|parent| self.open.contains(&parent));
            if of_parent && (node.parent.is_none() || node.total().saturating_mul(2) > whole) {
                self.open.insert(at);
            }
        }
        self.arrange(tree);
    }

    /// Whether the children of a node are shown.
    pub(super) fn is_open(&self, node: usize) -> bool {
        self.open.contains(&node)
    }

    /// Makes the lines anew.
    fn arrange(&mut self, tree: &Tree) {
        self.lines.clear();
        let line = |depth: usize| move |node: &usize| TreeLine { node: *node, depth };
        let mut rest: Vec<TreeLine> = tree.roots.iter().rev().map(line(0)).collect();
        while let Some(next) = rest.pop() {
            self.lines.push(next);
            if let Some(node) = tree.nodes.get(next.node).filter(|_| self.is_open(next.node)) {
                rest.extend(node.children.iter().rev().map(line(next.depth + 1)));
            }
        }
        self.selected = self.selected.min(self.lines.len().saturating_sub(1));
    }

    /// The selected node.
    pub(super) fn node(&self) -> Option<usize> {
        self.lines.get(self.selected).map(|line| line.node)
    }

    /// The function that's selected.
    pub(super) fn function(&self, tree: &Tree) -> Option<u32> {
        match tree.nodes.get(self.node()?)?.last {
            Last::Function(number) => Some(number),
            Last::Process(..) => None,
        }
    }

    /// Moves up or down by so many lines.
    pub(super) fn step(&mut self, by: isize) {
        let last = self.lines.len().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(by).min(last);
    }

    /// Shows or hides what the selected node called.
    pub(super) fn toggle(&mut self, tree: &Tree) {
        if let Some(node) = self.node() {
            if !self.open.remove(&node) {
                self.open.insert(node);
            }
            self.arrange(tree);
        }
    }

    /// Shows what the selected node called; if it's shown, goes there.
    pub(super) fn enter(&mut self, tree: &Tree) {
        let Some(node) = self.node() else { return };
        if !self.is_open(node) {
            self.toggle(tree);
        } else if tree.nodes.get(node).is_some_and(|node| !node.children.is_empty()) {
            self.step(1);
        }
    }

    /// Hides what the selected node called; if it's hidden, goes to the caller.
    pub(super) fn leave(&mut self, tree: &Tree) {
        let Some(node) = self.node() else { return };
        if self.is_open(node) {
            self.toggle(tree);
        } else if let Some(parent) = tree.nodes.get(node).and_then(|node| node.parent) {
            self.select(tree, parent);
        }
    }

    /// Goes to a node, and shows the way to it.
    pub(super) fn select(&mut self, tree: &Tree, node: usize) {
        let mut path = tree.path(node);
        path.pop();
        self.open.extend(path);
        self.arrange(tree);
        let place = self.lines.iter().position(|line| line.node == node);
        self.selected = place.unwrap_or(self.selected);
    }

    /// Goes to the next node that is searched for, or to the one before; whether there is one.
    pub(super) fn find(&mut self, tree: &Tree, search: &Search, is_forward: bool) -> bool {
        let is_meant =
            |node: &Node| matches!(node.last, Last::Function(number) if search.is_match(number));
        let order = preorder(tree);
        let count = order.len();
        let here = self.node().and_then(|node| order.iter().position(|at| *at == node));
        let here = here.unwrap_or(count.saturating_sub(1));
        let places = (1..=count).map(|step| {
            if is_forward { (here + step) % count } else { (here + count - step) % count }
        });
        let mut nodes = places.filter_map(|place| order.get(place));
        let found = nodes.find(|at| tree.nodes.get(**at).is_some_and(is_meant));
        if let Some(node) = found {
            self.select(tree, *node);
        }
        found.is_some()
    }

    /// Goes to the node of a function with most time.
    pub(super) fn find_function(&mut self, tree: &Tree, function: u32) {
        let found = tree.outermost(|number| number == function);
        if let Some(node) = found.first() {
            self.select(tree, *node);
        }
    }
}

/// All nodes, as lines have them.
fn preorder(tree: &Tree) -> Vec<usize> {
    let mut order = Vec::with_capacity(tree.nodes.len());
    let mut rest: Vec<usize> = tree.roots.iter().rev().copied().collect();
    while let Some(at) = rest.pop() {
        order.push(at);
        rest.extend(tree.nodes.get(at).into_iter().flat_map(|node| node.children.iter().rev()));
    }
    order
}
