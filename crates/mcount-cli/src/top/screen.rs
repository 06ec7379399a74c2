//! Pictures on a terminal, and keys.
//!
//! A few control sequences that all terminals have are enough (ECMA-48; the alternate screen and the cursor are xterm's). The
//! terminal is as before when this is dropped; whoever started it keeps [`Saved`] in case this process is killed.

use super::lines::{heading, holder, rows, title};
use super::order::Sort;
use crate::trace::attach::{Picture, View, Wish};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{self, Write};
use std::time::Duration;

/// The other screen, without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HELP: &str = "q quit  s t c m x n sort by self, total, calls, mean, max, name  / filter  p pause  w write trace  arrows scroll";

/// How the terminal is.
pub struct Saved(Termios);

impl Saved {
    /// As it is now.
    ///
    /// # Errors
    ///
    /// Standard input or output isn't a terminal.
    pub fn new() -> io::Result<Self> {
        let _ = tcgetattr(io::stdout())?;
        Ok(Self(tcgetattr(io::stdin())?))
    }

    /// It's as it was, whatever has been done to it.
    pub fn restore(&self) {
        let now = tcgetattr(io::stdin());
        if now.is_ok_and(|now| now.local_modes != self.0.local_modes) {
            let _ = io::stdout().write_all(LEAVE.as_bytes()).and_then(|()| io::stdout().flush());
        }
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Shows what is called on a terminal.
pub struct Screen {
    interval: Duration,
    sort: Sort,
    filter: String,
    /// The filter is being typed.
    is_typing: bool,
    is_paused: bool,
    /// How many rows are above the first one that's shown.
    above: usize,
    /// The line at the bottom.
    message: String,
    picture: Option<Picture>,
    before: Option<Saved>,
}

impl Screen {
    /// Shows a picture as often as that.
    #[must_use]
    pub fn new(interval: Duration, sort: Sort) -> Self {
        Self {
            interval,
            sort,
            filter: String::new(),
            is_typing: false,
            is_paused: false,
            above: 0,
            message: String::new(),
            picture: None,
            before: None,
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        let size = tcgetwinsize(io::stdout())?;
        let (width, height) = match (usize::from(size.ws_col), usize::from(size.ws_row)) {
            (0, _) | (_, 0) => (80, 24),
            size => size,
        };
        let lines = self.lines(height);
        // The line above the functions.
        let bar = if self.picture.as_ref().and_then(holder).is_some() { 2 } else { 1 };
        let mut text = String::from("\x1b[H");
        for (number, line) in lines.iter().enumerate() {
            let line: String = line.chars().take(width).collect();
            let (on, off) = if number == bar { ("\x1b[7m", "\x1b[m") } else { ("", "") };
            let fill = if number == bar { width.saturating_sub(line.chars().count()) } else { 0 };
            let end = if number + 1 == height { "" } else { "\r\n" };
            let space = " ".repeat(fill);
            text.extend([on, &line, &space, off, "\x1b[K", end]);
        }
        text.push_str("\x1b[J");
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// All lines of a screen that has so many.
    fn lines(&mut self, height: usize) -> Vec<String> {
        let Some(picture) = &self.picture else { return vec!["mcount top".to_owned()] };
        let holder = holder(picture);
        let room = height.saturating_sub(if holder.is_some() { 4 } else { 3 });
        let all = rows(picture, self.sort, &self.filter);
        self.above = self.above.min(all.len().saturating_sub(room));
        let shown = all.into_iter().skip(self.above).take(room);
        let paused = if self.is_paused { " - paused" } else { "" };
        let mut lines = vec![format!("{}{paused}", title(picture))];
        lines.extend(holder);
        lines.push(heading(self.sort));
        lines.extend(shown);
        lines.resize(height.saturating_sub(1).max(2), String::new());
        lines.push(match (self.is_typing, &*self.message, &*self.filter) {
            (true, ..) => format!("/{}", self.filter),
            (false, "", "") => HELP.to_owned(),
            (false, "", filter) => {
                format!("only {filter}; / and Enter for all")
            }
            (false, message, _) => crate::words::printable(message).into_owned(),
        });
        lines
    }

    /// One key, or one sequence of an arrow.
    fn key(&mut self, key: &str) -> Wish {
        let page = 10;
        self.message.clear();
        if self.is_typing {
            self.type_in(key);
            return Wish::Nothing;
        }
        match key {
            "q" | "\x03" | "\x04" => return Wish::End,
            "w" => return Wish::Save,
            "p" | " " => self.is_paused = !self.is_paused,
            "/" => {
                self.is_typing = true;
                self.filter.clear();
            }
            "\x1b[A" | "\x1bOA" | "k" => self.above = self.above.saturating_sub(1),
            "\x1b[B" | "\x1bOB" | "j" => self.above += 1,
            "\x1b[5~" => self.above = self.above.saturating_sub(page),
            "\x1b[6~" => self.above += page,
            _ => self.sort = key.chars().next().and_then(Sort::of_key).unwrap_or(self.sort),
        }
        Wish::Nothing
    }

    fn type_in(&mut self, key: &str) {
        match key {
            "\r" | "\n" => self.is_typing = false,
            "\x1b" | "\x03" => {
                self.is_typing = false;
                self.filter.clear();
            }
            "\x7f" | "\x08" => drop(self.filter.pop()),
            _ if key.starts_with('\x1b') => {}
            _ => self.filter.extend(key.chars().filter(|c| !c.is_control())),
        }
    }
}

impl View for Screen {
    fn begin(&mut self) -> io::Result<()> {
        let saved = Saved::new()?;
        let mut raw = saved.0.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        self.before = Some(saved);
        io::stdout().write_all(ENTER.as_bytes())?;
        self.draw()
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    fn input(&self) -> Option<i32> {
        Some(0)
    }

    fn typed(&mut self) -> Wish {
        let mut bytes = [0; 256];
        let count = match rustix::io::read(io::stdin(), &mut bytes) {
            Ok(0) | Err(_) => return Wish::End,
            Ok(count) => count,
        };
        let text = String::from_utf8_lossy(bytes.get(..count).unwrap_or_default()).into_owned();
        for key in keys(&text) {
            let wish = self.key(key);
            if wish != Wish::Nothing {
                return wish;
            }
        }
        // If that fails, so does the next picture.
        let _ = self.draw();
        Wish::Nothing
    }

    fn show(&mut self, picture: Picture) -> io::Result<Wish> {
        if !self.is_paused || self.picture.is_none() {
            self.picture = Some(picture);
        }
        self.draw().map(|()| Wish::Nothing)
    }

    fn end(&mut self, _: Picture) {}

    fn say(&mut self, text: &str) {
        text.clone_into(&mut self.message);
        let _ = self.draw();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            before.restore();
        }
    }
}

/// `text` as keys: a character each, or a sequence that begins with an escape.
fn keys(text: &str) -> Vec<&str> {
    let mut keys = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match rest.as_bytes() {
            [0x1b, b'O', _, ..] => 3,
            [0x1b, b'[', parameters @ ..] => {
                let end = parameters.iter().position(|byte| (0x40..0x7f).contains(byte));
                2 + end.map_or(0, |end| end + 1)
            }
            _ => first.len_utf8(),
        };
        let (key, later) = rest.split_at_checked(length).unwrap_or((rest, ""));
        keys.push(key);
        rest = later;
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_are_one_key() {
        let rows: [(&str, &[&str]); 5] = [
            ("sq", &["s", "q"]),
            ("\x1b[A\x1bOBx", &["\x1b[A", "\x1bOB", "x"]),
            ("\x1b[5~é", &["\x1b[5~", "é"]),
            ("\x1b", &["\x1b"]),
            ("\x1b[", &["\x1b["]),
        ];
        for (text, expected) in rows {
            assert_eq!(keys(text), expected, "{text:?}");
        }
    }

    #[test]
    fn keys_do_what_the_last_line_says() {
        let mut screen = Screen::new(Duration::from_secs(1), Sort::Own);
        for (key, wish) in [("c", Wish::Nothing), ("w", Wish::Save), ("q", Wish::End)] {
            assert_eq!(screen.key(key), wish);
        }
        assert_eq!(screen.sort, Sort::Calls);
        for key in ["/", "q", "w", "\x1b[A", "\x7f", "e", "\r"] {
            assert_eq!(screen.key(key), Wish::Nothing);
        }
        assert_eq!((screen.filter.as_str(), screen.is_typing), ("qe", false));
    }
}
