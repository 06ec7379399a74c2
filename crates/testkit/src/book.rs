//! The pages of the book, as its table of contents lists them, and the blocks of code on a page: what commands readers
//! are to type, what these print, and which files they save.
//!
//! A block is indented by four spaces or between fences. Comments of HTML say what readers needn't see:
//! `<!-- run first: COMMAND -->` before the commands of a page, `<!-- not run: REASON -->` and `<!-- needs: FILE -->`
//! above a block, and `<!-- not run on this page: REASON -->`.

use crate::files;
use crate::prebuilt;
use std::path::PathBuf;

/// A page of the book.
#[derive(Debug, Clone)]
pub struct Page {
    /// Its path below the root of the repository.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// A command line of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The input of a shell, on one or several lines.
    pub line: String,
    /// The numbers of the lines on which the page shows its output, from 0 on; the end is exclusive.
    pub lines: std::ops::Range<usize>,
    /// Its output, by line.
    pub output: Vec<String>,
}

/// The kind of a block of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Readers type it.
    Commands(Vec<Command>),
    /// Readers save it as this file.
    File(String),
    /// Part of a source file.
    Excerpt,
    /// A block without a kind.
    Unknown,
}

/// A block of code.
#[derive(Debug, Clone)]
pub struct Block {
    /// The number of its first line of code, from 0 on.
    pub at: usize,
    /// Its lines, without the indentation.
    pub code: Vec<String>,
    /// Its kind.
    pub kind: Kind,
    /// Why no test runs it.
    pub not_run: Option<String>,
    /// A file without which it can't run, such as one that `cargo xtask dist` makes.
    pub needs: Option<String>,
}

impl Page {
    /// The file itself.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        prebuilt::root().join(&self.name)
    }

    /// Commands that run before those of the page, in order.
    pub fn run_first(&self) -> impl Iterator<Item = &str> {
        self.text.lines().filter_map(|line| comment(line, "run first"))
    }

    /// The blocks of code, in order.
    #[must_use]
    pub fn blocks(&self) -> Vec<Block> {
        let lines: Vec<&str> = self.text.lines().collect();
        let none = self.text.lines().find_map(|line| comment(line, "not run on this page"));
        let mut blocks = Vec::new();
        let mut at = 0;
        while let Some(line) = lines.get(at) {
            let begins = !starts_indented(line) || at == 0 || !is_text(lines.get(at - 1));
            let found = if let Some(language) = line.strip_prefix("```") {
                Some((language, at + 1, fenced(&lines, at + 1)))
            } else if begins && starts_indented(line) {
                Some(("", at, indented(&lines, at)))
            } else {
                None
            };
            if let Some((language, first, end)) = found {
                let mut block = block(&lines, language, first, end);
                block.not_run = block.not_run.or_else(|| none.map(str::to_owned));
                blocks.push(block);
                at = end;
            }
            at += 1;
        }
        blocks
    }
}

/// README.md, then the pages in the order of docs/SUMMARY.md.
///
/// # Errors
///
/// One of them cannot be read.
pub fn pages() -> Result<Vec<Page>, String> {
    let read = |name: String| -> Result<Page, String> {
        let bytes = files::read(&prebuilt::root().join(&name))?;
        let text = String::from_utf8(bytes).map_err(|error| format!("{name}: {error}"))?;
        Ok(Page { name, text })
    };
    let contents = read("docs/SUMMARY.md".to_owned())?.text;
    let links = contents.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let names = links.map(|link| format!("docs/{link}"));
    [String::from("README.md")].into_iter().chain(names).map(read).collect()
}

/// The text of a comment `<!-- KIND: TEXT -->`.
fn comment<'a>(line: &'a str, kind: &str) -> Option<&'a str> {
    let text = line.trim().strip_prefix("<!-- ")?.strip_suffix(" -->")?;
    text.strip_prefix(kind)?.strip_prefix(": ").filter(|text| !text.is_empty())
}

fn starts_indented(line: &str) -> bool {
    line.starts_with("    ") && !line.trim().is_empty()
}

/// Whether it is part of a paragraph, which an indented line goes on with.
fn is_text(line: Option<&&str>) -> bool {
    line.is_some_and(|line| {
        !line.trim().is_empty() && !starts_indented(line) && !line.ends_with("-->")
    })
}

/// Where the fenced block ends whose code begins at `first`: the line of its last fence.
fn fenced(lines: &[&str], first: usize) -> usize {
    let rest = lines.iter().skip(first);
    first + rest.take_while(|line| !line.starts_with("```")).count()
}

/// The line after the indented block that begins at `first`. Empty lines belong to it if code follows.
fn indented(lines: &[&str], first: usize) -> usize {
    let rest = lines.iter().enumerate().skip(first);
    let code = rest.take_while(|(_, line)| line.trim().is_empty() || starts_indented(line));
    code.filter(|(_, line)| starts_indented(line)).last().map_or(first, |(at, _)| at + 1)
}

fn block(lines: &[&str], language: &str, first: usize, end: usize) -> Block {
    let dedent = |line: &&str| line.strip_prefix("    ").unwrap_or(line).to_owned();
    let is_fenced = first > 0 && lines.get(first - 1).is_some_and(|line| line.starts_with("```"));
    let code = lines.get(first..end).unwrap_or_default().iter();
    let code: Vec<String> = if is_fenced {
        code.map(|line| (*line).to_owned()).collect()
    } else {
        code.map(dedent).collect()
    };
    let above = lines.get(..first - usize::from(is_fenced)).unwrap_or_default();
    let above =
        above.iter().rev().find(|line| !line.trim().is_empty()).copied().unwrap_or_default();
    let kind = match language {
        "" | "console" | "text" | "sh" | "bash" | "shell"
            if code.iter().any(|line| line.starts_with("$ ")) =>
        {
            Kind::Commands(commands(&code, first))
        }
        "" | "console" | "text" | "sh" | "bash" | "shell" => Kind::Unknown,
        _ => file_name(above).map_or(Kind::Excerpt, |name| Kind::File(name.to_owned())),
    };
    Block {
        at: first,
        code,
        kind,
        not_run: comment(above, "not run").map(str::to_owned),
        needs: comment(above, "needs").map(str::to_owned),
    }
}

/// The name at the end of a line such as "Save this as `slow.c`:".
fn file_name(above: &str) -> Option<&str> {
    let name = above.strip_suffix("`:")?.rsplit('`').next()?;
    name.contains('.').then_some(name)
}

fn commands(code: &[String], first: usize) -> Vec<Command> {
    let mut found: Vec<Command> = Vec::new();
    let mut goes_on = false;
    for (at, text) in code.iter().enumerate() {
        let is_more = goes_on || text.starts_with("> ") && is_input(found.last());
        goes_on = false;
        if let Some(line) = text.strip_prefix("$ ") {
            let lines = first + at + 1..first + at + 1;
            found.push(Command { line: line.to_owned(), lines, output: Vec::new() });
            goes_on = line.ends_with('\\');
        } else if let Some(command) = found.last_mut() {
            if is_more {
                command.line += "\n";
                command.line += text.strip_prefix("> ").unwrap_or(text);
                command.lines = first + at + 1..first + at + 1;
                goes_on = text.ends_with('\\');
            } else {
                command.output.push(text.clone());
                command.lines.end = first + at + 1;
            }
        }
    }
    for command in &mut found {
        while command.output.last().is_some_and(String::is_empty) {
            command.output.pop();
            command.lines.end -= 1;
        }
    }
    found
}

/// Whether a line that begins with `> ` is input of the command, too: nothing was printed yet.
fn is_input(command: Option<&Command>) -> bool {
    command.is_some_and(|command| command.output.is_empty() && command.line.starts_with("for "))
}
