//! What takes a pass over all calls, and is made while something else is on the screen.

use crate::replay::chains::{Scope, collect};
use crate::replay::graph::tree::Tree;
use crate::replay::graph::{MOST, short_names};
use crate::replay::short::{ShortNames, short_name};
use crate::replay::stats::{FunctionRow, of_functions};
use crate::replay::{Names, Progress, Selection};
use crate::words::printable;
use std::sync::OnceLock;

/// What is made in the background.
pub(super) struct Loading<'t> {
    pub(super) names: &'t Names<'t, 't>,
    progress: &'t Progress<'t>,
    tree: OnceLock<(Tree, ShortNames)>,
    rows: OnceLock<Vec<FunctionRow>>,
}

impl<'t> Loading<'t> {
    pub(super) fn new(names: &'t Names<'t, 't>, progress: &'t Progress<'t>) -> Self {
        Self { names, progress, tree: OnceLock::new(), rows: OnceLock::new() }
    }

    /// Calls have durations.
    pub(super) fn has_times(&self) -> bool {
        let trace = self.names.trace;
        trace.has_times() && !trace.header.has_only_entries
    }

    /// Makes all of it.
    pub(super) fn load(&self) {
        let trace = self.names.trace;
        let selection = Selection::default();
        let filter = selection.filter(trace);
        let scope = Scope { most: MOST, ..Scope::of(trace, &filter, self.has_times()) };
        let tree = Tree::of(&collect(&scope, self.progress), self.has_times());
        let short = short_names(self.names, &tree, false);
        let _ = self.tree.set((tree, short));
        if !self.progress.is_stopped() {
            let _ = self.rows.set(of_functions(self.names, &selection, self.progress));
        }
    }

    /// The tree of all calls, once it's there.
    pub(super) fn tree(&self) -> Option<&Tree> {
        self.tree.get().map(|(tree, _)| tree)
    }

    /// The functions that were called, once they're there.
    pub(super) fn rows(&self) -> Option<&[FunctionRow]> {
        self.rows.get().map(Vec::as_slice)
    }

    /// How far it has come, in words, until it's all there.
    pub(super) fn progress(&self) -> Option<String> {
        if self.rows.get().is_some() {
            return None;
        }
        let trace = self.names.trace;
        let all = (0..trace.threads.len()).map(|at| trace.count(at)).fold(0, u64::saturating_add);
        let whole = u128::from(all.saturating_mul(2).max(1));
        let percent = (u128::from(self.progress.done()) * 100 / whole).min(100);
        Some(format!("reading {all} calls: {percent} %"))
    }

    /// How a function is called.
    pub(super) fn name(&self, function: u32) -> String {
        match self.tree.get() {
            Some((_, short)) if short.has(function) => printable(short.get(function)).into_owned(),
            _ => short_name(&self.names.function(function).text),
        }
    }
}
