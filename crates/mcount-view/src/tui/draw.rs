//! Drawing the views.

use super::app::{App, HELP, VIEWS, View};
use super::functions::{ORDERS, Order};
use super::timeline::DEEPEST;
use crate::replay::chains::Last;
use crate::replay::graph::tree::Node;
use crate::replay::program_name;
use crate::replay::short::cut;
use crate::replay::time::Duration;
use crate::words::printable;
use mcount_trace::Call;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

/// Lines above and below a view: title, what's missing or read, and keys.
const AROUND: u16 = 3;

/// What's said while there's nothing to show yet.
const WAIT: &str = "mcount reads the calls. The timeline (2) is there already.";

/// Colours of the calls in the timeline, by function.
const COLOURS: [Color; 6] =
    [Color::Blue, Color::Cyan, Color::Green, Color::Magenta, Color::Yellow, Color::Gray];

fn reversed() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// Shows a line; nothing if it's below the screen.
fn put<'l>(frame: &mut Frame<'_>, at: Rect, row: usize, line: impl Into<Line<'l>>) {
    let row = u16::try_from(row).unwrap_or(u16::MAX);
    if row < at.height {
        let place = Rect { y: at.y + row, height: 1, ..at };
        frame.render_widget(line.into(), place);
    }
}

/// How many lines are above the first one that's shown, so that the selected one is among them.
fn scrolled(above: usize, selected: usize, room: usize) -> usize {
    above.min(selected).max((selected + 1).saturating_sub(room))
}

/// A time in few characters.
fn time(nanoseconds: u64) -> String {
    Duration(nanoseconds).to_string()
}

impl App<'_, '_> {
    /// Draws everything.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        if let Some(tree) = self.loading.tree() {
            self.tree.begin(tree);
        }
        self.functions.begin(self.loading);
        let all = frame.area();
        let body = Rect { y: all.y + 2, height: all.height.saturating_sub(AROUND), ..all };
        self.page = usize::from(body.height).saturating_sub(1).max(1);
        self.is_reading = false;
        self.head(frame, all);
        match self.view {
            View::Tree => self.draw_tree(frame, body),
            View::Timeline => self.draw_timeline(frame, body),
            View::Functions => self.draw_functions(frame, body),
            View::Source => self.draw_source(frame, body),
        }
        self.foot(frame, all);
    }

    /// The title and the views; what is missing, or how far reading has come.
    fn head(&self, frame: &mut Frame<'_>, all: Rect) {
        let mut spans = vec![Span::styled(self.title.clone(), bold()), Span::raw(" ")];
        for (number, (view, name, _)) in (1..).zip(VIEWS) {
            let style = if view == self.view { reversed() } else { Style::new() };
            spans.extend([Span::raw(" "), Span::styled(format!(" {number} {name} "), style)]);
        }
        put(frame, all, 0, spans);
        let line = match (self.loading.progress(), self.missing.as_str()) {
            (Some(progress), _) => Line::from(progress),
            (None, "") => Line::default(),
            (None, missing) => Line::styled(format!("! {missing}"), Style::new().fg(Color::Red)),
        };
        put(frame, all, 1, line);
    }

    fn foot(&self, frame: &mut Frame<'_>, all: Rect) {
        let keys =
            VIEWS.iter().find(|(view, ..)| *view == self.view).map_or("", |(_, _, keys)| keys);
        let text = match (&self.typed, self.message.as_str()) {
            (Some(typed), _) => format!("/{}", printable(typed)),
            (None, "") => format!("{HELP}  {keys}"),
            (None, message) => printable(message).into_owned(),
        };
        put(frame, all, usize::from(all.height).saturating_sub(1), Line::from(text));
    }

    fn name_of(&self, last: Last) -> String {
        match last {
            Last::Function(number) => self.loading.name(number),
            Last::Process(at, _) => program_name(self.trace(), at),
        }
    }

    fn draw_tree(&mut self, frame: &mut Frame<'_>, body: Rect) {
        let Some(tree) = self.loading.tree() else { return put(frame, body, 0, WAIT) };
        let has_times = self.loading.has_times();
        let room = usize::from(body.height).saturating_sub(1);
        self.tree.above = scrolled(self.tree.above, self.tree.selected, room);
        let heading = if has_times {
            format!("{:>10} {:>6} {:>10} {:>10}  FUNCTION", "TOTAL", "SHARE", "SELF", "CALLS")
        } else {
            format!("{:>10}  FUNCTION", "CALLS")
        };
        put(frame, body, 0, Line::styled(heading, bold()));
        let whole = tree.whole();
        let shown = self.tree.lines.iter().enumerate().skip(self.tree.above).take(room);
        for (row, (at, line)) in shown.enumerate() {
            let Some(node) = tree.nodes.get(line.node) else { continue };
            let mark = match (node.children.is_empty(), self.tree.is_open(line.node)) {
                (true, _) => ' ',
                (false, true) => '▾',
                (false, false) => '▸',
            };
            let before =
                format!("{}{:2$}{mark} ", numbers(node, whole, has_times), "", line.depth * 2);
            let is_found =
                matches!(node.last, Last::Function(number) if self.search.is_match(number));
            let used = before.chars().count();
            let name = self.name_of(node.last);
            let name = cut(&name, usize::from(body.width).saturating_sub(used).max(8)).into_owned();
            let style = if is_found { bold().fg(Color::Yellow) } else { Style::new() };
            let text = Line::from(vec![Span::raw(before), Span::styled(name, style)]);
            let text = if at == self.tree.selected { text.style(reversed()) } else { text };
            put(frame, body, row + 1, text);
        }
    }

    fn draw_functions(&mut self, frame: &mut Frame<'_>, body: Rect) {
        if self.loading.rows().is_none() {
            return put(frame, body, 0, WAIT);
        }
        let view = &mut self.functions;
        let room = usize::from(body.height).saturating_sub(1);
        view.above = scrolled(view.above, view.selected, room);
        let view = &self.functions;
        // On a narrow screen, the last columns aren't there.
        let columns = ORDERS.iter().filter(|(order, ..)| *order != Order::Name);
        let most = usize::from(body.width).saturating_sub(24) / 11;
        let columns: Vec<_> = columns.take(most.max(1)).collect();
        let heading = columns.iter().map(|(order, _, name)| {
            let mark = if *order == view.order { "*" } else { "" };
            format!("{:>10} ", format!("{mark}{name}"))
        });
        let heading: String = heading.collect();
        put(frame, body, 0, Line::styled(heading + "FUNCTION", bold()));
        let shown = view.rows.iter().enumerate().skip(view.above).take(room);
        for (line, (at, row)) in shown.enumerate() {
            let cells = columns.iter().map(|(order, ..)| match order.value(row) {
                Some(calls) if *order == Order::Calls => format!("{calls:>10} "),
                Some(value) => time(value) + " ",
                None => format!("{:>10} ", "-"),
            });
            let before: String = cells.collect();
            let left = usize::from(body.width).saturating_sub(before.chars().count());
            let name = cut(&self.loading.name(row.function), left).into_owned();
            let is_found = self.search.is_match(row.function);
            let style = if is_found { bold().fg(Color::Yellow) } else { Style::new() };
            let text = Line::from(vec![Span::raw(before), Span::styled(name, style)]);
            let text = if at == view.selected { text.style(reversed()) } else { text };
            put(frame, body, line + 1, text);
        }
    }

    fn draw_source(&mut self, frame: &mut Frame<'_>, body: Rect) {
        if self.source.function.is_none() {
            return put(frame, body, 0, "Select a function in another view, and press s.");
        }
        let room = usize::from(body.height).saturating_sub(1);
        let source = &mut self.source;
        let above = *source.above.get_or_insert(source.line.saturating_sub(room / 3));
        put(frame, body, 0, Line::styled(source.title.clone(), bold()));
        let shown = source.lines.iter().enumerate().skip(above).take(room);
        for (row, (at, text)) in shown.enumerate() {
            let line = Line::from(format!("{:>6}  {text}", at + 1));
            put(
                frame,
                body,
                row + 1,
                if at == source.line { line.style(reversed()) } else { line },
            );
        }
    }

    fn draw_timeline(&mut self, frame: &mut Frame<'_>, body: Rect) {
        if !self.loading.has_times() {
            return put(frame, body, 0, "The trace has no durations, and so no timeline.");
        }
        self.timeline.resize(usize::from(body.width));
        let line = &self.timeline;
        let span = line.to.saturating_sub(line.from);
        let ruler = format!(
            "{} to {}: {} a column",
            time(line.from).trim(),
            time(line.to).trim(),
            time(span / u64::from(body.width).max(1)).trim()
        );
        put(frame, body, 0, Line::styled(ruler, bold()));
        // The cursor's thread is the first one, unless all before it fit.
        let first = self.timeline.thread.saturating_sub(usize::from(body.height) / (DEEPEST + 1));
        let room = usize::from(body.height).saturating_sub(2);
        let threads: Vec<usize> =
            self.timeline.threads.iter().skip(first).take(room / 2 + 1).copied().collect();
        self.is_reading = !self.timeline.read(self.names.trace, &threads);
        let mut row = 1;
        for (at, thread) in (first..).zip(&threads) {
            if row > room {
                break;
            }
            let of = self.trace().threads.get(*thread);
            let name = of.map_or(String::new(), |of| String::from_utf8_lossy(of.name).into_owned());
            let title = format!("{} {}", of.map_or(0, |of| of.tid), printable(&name));
            let style = if at == self.timeline.thread { bold() } else { Style::new() };
            put(frame, body, row, Line::styled(title, style));
            row += 1;
            for depth in 0..self.timeline.depth_of(*thread) {
                if row > room {
                    break;
                }
                self.bars(frame, body, row, (at, *thread, depth));
                row += 1;
            }
        }
        let about = if self.is_reading { "reading …".to_owned() } else { self.about_call() };
        put(frame, body, usize::from(body.height).saturating_sub(1), Line::from(about));
    }

    /// The calls of a thread at a depth; `at` is the thread's place.
    fn bars(
        &self,
        frame: &mut Frame<'_>,
        body: Rect,
        row: usize,
        (at, thread, depth): (usize, usize, usize),
    ) {
        let line = &self.timeline;
        let width = usize::from(body.width);
        let call = |column: usize| line.stack(thread, column).get(depth);
        let mut spans: Vec<Span<'_>> = Vec::new();
        let mut column = 0;
        while column < width {
            let begin = column;
            let first = call(begin);
            let is_same = |other: Option<&Call>| match (first, other) {
                (Some(one), Some(other)) => {
                    (one.start, one.function) == (other.start, other.function)
                }
                (None, None) => true,
                _ => false,
            };
            while column < width && is_same(call(column)) {
                column += 1;
            }
            let length = column - begin;
            let Some(first) = first else {
                spans.push(Span::raw(" ".repeat(length)));
                continue;
            };
            let name = self.loading.name(first.function);
            let begin_of_name: String = name.chars().take(length.saturating_sub(1)).collect();
            let text = format!("{:<length$}", format!("│{begin_of_name}"));
            let is_found = self.search.is_match(first.function);
            let is_here = at == line.thread
                && (begin..column).contains(&line.column)
                && line.call().is_some_and(|call| call.depth == depth);
            let colour = COLOURS.get(first.function as usize % COLOURS.len()).copied();
            let style = Style::new().fg(Color::Black).bg(colour.unwrap_or(Color::Gray));
            let style = if is_found { bold().fg(Color::White).bg(Color::Red) } else { style };
            spans.push(Span::styled(text, if is_here { reversed() } else { style }));
        }
        put(frame, body, row, spans);
    }

    /// The call under the cursor, in words.
    fn about_call(&self) -> String {
        let at = time(self.timeline.time(self.timeline.column));
        let Some(call) = self.timeline.call() else { return format!("{}: no call", at.trim()) };
        let start = self.trace().nanoseconds(call.start);
        let name = self.loading.name(call.function);
        let took = call.end.map_or_else(
            || "didn't end".to_owned(),
            |end| {
                format!("took {}", time(self.trace().nanoseconds(end).saturating_sub(start)).trim())
            },
        );
        format!("{}: {name} began at {} and {took}", at.trim(), time(start).trim())
    }
}

/// The columns before a name in the tree.
fn numbers(node: &Node, whole: u64, has_times: bool) -> String {
    if !has_times {
        return format!("{:>10}  ", node.calls);
    }
    let thousandths = u128::from(node.total()) * 1000 / u128::from(whole.max(1));
    let share = format!("{}.{}%", thousandths / 10, thousandths % 10);
    format!("{} {share:>6} {} {:>10}  ", time(node.total()), time(node.own()), node.calls)
}
