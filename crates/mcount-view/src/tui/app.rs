//! What's on the screen, and what keys do.

use super::functions::{FunctionsView, ORDERS};
use super::load::Loading;
use super::search::Search;
use super::source::Source;
use super::timeline::Timeline;
use super::tree::TreeView;
use crate::replay::Names;
use crate::words::printable;
use mcount_trace::Trace;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Tree,
    Timeline,
    Functions,
    Source,
}

/// The views in the order of their keys, with their names and what keys do in them.
pub(super) const VIEWS: [(View, &str, &str); 4] = [
    (View::Tree, "Tree", "↑↓ move  → open  ← close  f function  s source"),
    (
        View::Timeline,
        "Timeline",
        "←→↑↓ move  + - zoom  [ ] pan  0 all  Enter zoom to call  s source",
    ),
    (View::Functions, "Functions", "↑↓ move  r w t c m x a sort  Enter in the tree  s source"),
    (View::Source, "Source", "↑↓ scroll  s back to the function"),
];

/// Keys of all views.
pub(super) const HELP: &str = "q quit  1-4 view  / search  n N next";

/// All of it.
pub(super) struct App<'a, 't> {
    pub(super) title: String,
    /// What the trace lacks, in a line; empty if that's nothing.
    pub(super) missing: String,
    pub(super) names: &'a Names<'t, 't>,
    pub(super) loading: &'a Loading<'a>,
    pub(super) view: View,
    pub(super) tree: TreeView,
    pub(super) timeline: Timeline,
    pub(super) functions: FunctionsView,
    pub(super) source: Source,
    pub(super) search: Search,
    /// What is being typed to search for.
    pub(super) typed: Option<String>,
    /// What is said at the bottom instead of the keys.
    pub(super) message: String,
    /// Lines of a view on the screen.
    pub(super) page: usize,
    /// Something on the screen isn't read yet.
    pub(super) is_reading: bool,
}

impl<'a, 't> App<'a, 't> {
    pub(super) fn new(
        title: &str,
        names: &'a Names<'t, 't>,
        loading: &'a Loading<'a>,
        missing: &[String],
    ) -> Self {
        Self {
            title: printable(title).into_owned(),
            missing: printable(&missing.join("; ")).into_owned(),
            names,
            loading,
            view: View::Tree,
            tree: TreeView::default(),
            timeline: Timeline::new(names.trace),
            functions: FunctionsView::default(),
            source: Source::default(),
            search: Search::default(),
            typed: None,
            message: String::new(),
            page: 1,
            is_reading: false,
        }
    }

    pub(super) fn trace(&self) -> &'t Trace<'t> {
        self.names.trace
    }

    /// Does what a key says; `false` if that's the end.
    pub(super) fn key(&mut self, key: KeyEvent) -> bool {
        self.message.clear();
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return false;
        }
        if self.typed.is_some() {
            self.type_in(key.code);
            return true;
        }
        match key.code {
            KeyCode::Char('q') => return false,
            KeyCode::Char('/') => self.typed = Some(String::new()),
            KeyCode::Char('n') => self.find(true),
            KeyCode::Char('N') => self.find(false),
            KeyCode::Char('s') => self.show_source(),
            KeyCode::Char('4') if self.view != View::Source && self.function().is_some() => {
                self.show_source();
            }
            KeyCode::Char(number @ '1'..='4') => {
                let at = number as usize - '1' as usize;
                self.view = VIEWS.get(at).map_or(self.view, |(view, ..)| *view);
            }
            KeyCode::Tab => {
                let at = VIEWS.iter().position(|(view, ..)| *view == self.view).unwrap_or(0);
                self.view = VIEWS.get((at + 1) % VIEWS.len()).map_or(self.view, |(view, ..)| *view);
            }
            code => match self.view {
                View::Tree => self.key_of_tree(code),
                View::Timeline => self.key_of_timeline(code),
                View::Functions => self.key_of_functions(code),
                View::Source => self.key_of_source(code),
            },
        }
        true
    }

    /// A key while something is typed to search for.
    fn type_in(&mut self, code: KeyCode) {
        let Some(typed) = &mut self.typed else { return };
        match code {
            KeyCode::Char(c) => typed.push(c),
            KeyCode::Backspace => drop(typed.pop()),
            KeyCode::Esc => self.typed = None,
            KeyCode::Enter => {
                let typed = std::mem::take(typed);
                self.typed = None;
                match Search::new(&typed, self.names) {
                    Ok(search) => {
                        self.search = search;
                        self.find(true);
                    }
                    Err(error) => self.message = error,
                }
            }
            _ => {}
        }
    }

    /// Goes to what's searched for.
    fn find(&mut self, is_forward: bool) {
        if self.search.text.is_empty() {
            return;
        }
        let found = match (self.view, self.loading.tree()) {
            (View::Tree, Some(tree)) => self.tree.find(tree, &self.search, is_forward),
            (View::Functions, _) => self.functions.find(&self.search, is_forward),
            (View::Timeline, _) if is_forward => self.timeline.find(self.names.trace, &self.search),
            _ => true,
        };
        if !found {
            self.message = format!("{} isn't found here", printable(&self.search.text));
        }
    }

    /// The function that's selected.
    fn function(&self) -> Option<u32> {
        match self.view {
            View::Tree => self.tree.function(self.loading.tree()?),
            View::Timeline => self.timeline.call().map(|call| call.function),
            View::Functions => self.functions.function(),
            View::Source => self.source.function,
        }
    }

    /// Shows the source of the selected function; or goes back to where it is in the tree.
    fn show_source(&mut self) {
        let Some(function) = self.function() else { return };
        if self.view == View::Source {
            self.show_in_tree(function);
            return;
        }
        if self.source.function != Some(function) {
            self.source = Source::of(self.names, function);
        }
        self.view = View::Source;
    }

    fn show_in_tree(&mut self, function: u32) {
        self.view = View::Tree;
        if let Some(tree) = self.loading.tree() {
            self.tree.find_function(tree, function);
        }
    }

    /// How many lines a key moves, where it moves some.
    fn lines(&self, code: KeyCode) -> Option<isize> {
        let page = isize::try_from(self.page).unwrap_or(1).max(1);
        match code {
            KeyCode::Up | KeyCode::Char('k') => Some(-1),
            KeyCode::Down | KeyCode::Char('j') => Some(1),
            KeyCode::PageUp => Some(-page),
            KeyCode::PageDown | KeyCode::Char(' ') => Some(page),
            KeyCode::Home | KeyCode::Char('g') => Some(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => Some(isize::MAX),
            _ => None,
        }
    }

    fn key_of_tree(&mut self, code: KeyCode) {
        let Some(tree) = self.loading.tree() else { return };
        match code {
            KeyCode::Right | KeyCode::Char('l') => self.tree.enter(tree),
            KeyCode::Left | KeyCode::Char('h') => self.tree.leave(tree),
            KeyCode::Enter => self.tree.toggle(tree),
            KeyCode::Char('f') => {
                let function = self.tree.function(tree);
                let rows = &self.functions.rows;
                if let Some(place) = rows.iter().position(|row| Some(row.function) == function) {
                    self.functions.selected = place;
                    self.view = View::Functions;
                }
            }
            code => self.tree.step(self.lines(code).unwrap_or(0)),
        }
    }

    fn key_of_timeline(&mut self, code: KeyCode) {
        match code {
            KeyCode::Right | KeyCode::Char('l') => self.timeline.step(true),
            KeyCode::Left | KeyCode::Char('h') => self.timeline.step(false),
            KeyCode::Down | KeyCode::Char('j') => self.timeline.move_down(true),
            KeyCode::Up | KeyCode::Char('k') => self.timeline.move_down(false),
            KeyCode::Char('+' | '=') => self.timeline.zoom(true),
            KeyCode::Char('-') => self.timeline.zoom(false),
            KeyCode::Char('[') | KeyCode::PageUp => self.timeline.pan(-4),
            KeyCode::Char(']') | KeyCode::PageDown => self.timeline.pan(4),
            KeyCode::Char('0') => self.timeline.show_all(),
            KeyCode::Enter => self.timeline.zoom_to_call(self.names.trace),
            _ => {}
        }
    }

    fn key_of_functions(&mut self, code: KeyCode) {
        let order = ORDERS.iter().find(|(_, key, _)| code == KeyCode::Char(*key));
        if let Some((order, ..)) = order {
            self.functions.sort(self.loading, *order);
        } else if code == KeyCode::Enter {
            if let Some(function) = self.functions.function() {
                self.show_in_tree(function);
            }
        } else {
            self.functions.step(self.lines(code).unwrap_or(0));
        }
    }

    fn key_of_source(&mut self, code: KeyCode) {
        let last = self.source.lines.len().saturating_sub(self.page);
        let by = self.lines(code).unwrap_or(0);
        let above = self.source.above.map(|above| above.saturating_add_signed(by).min(last));
        self.source.above = above;
    }
}
