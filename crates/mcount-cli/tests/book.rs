//! The commands on the pages of the book, typed as a reader types them: each page has a folder and a shell of its own,
//! the files that it shows are saved first, and each command prints what the page says.
//!
//! A block that shows no output is a list of commands, which must succeed. Times, rates, shares, addresses, thread and
//! process IDs may differ, `…` stands for anything, and 1234 is the process that `<!-- run first: … -->` starts as `$pid`.
//! `MCOUNT_BLESS=1` writes what the commands print into the pages.
#![expect(clippy::unwrap_used, reason = "a test")]

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rayon::prelude::*;
use std::fmt::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;
use testkit::book::{self, Block, Kind, Page};
use testkit::test;
use testkit::{files, prebuilt, tools};

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

/// A page may take this many seconds.
const SECONDS: &str = "60";

/// A busy machine makes some page slow, or a thread late: it gets this many tries.
const TRIES: usize = 3;

/// Before each command's output: its number, and the exit code of the command before.
const MARK: &str = "@@@";

/// What a command printed, and its exit code.
#[derive(Debug, Clone)]
struct Printed {
    text: Vec<String>,
    code: Option<i32>,
}

/// The library of `cargo xtask dist` that ends in `kind`, as the tests of the whole workspace build it.
fn library(name: &str, kind: &str) -> PathBuf {
    let name = name.replace('-', "_");
    std::env::current_exe().unwrap().with_file_name(format!("lib{name}_c.{kind}"))
}

/// Whether what the block needs is there. `MCOUNT_REQUIRE_TOOLS=1` says that it has to be.
fn has_needs(block: &Block) -> bool {
    let Some(needed) = &block.needs else { return true };
    let name = needed.split_once("lib/lib").map_or("", |(_, name)| name);
    let (name, kind) = name.split_once('.').unwrap_or((name, ""));
    library(name, kind).exists() || std::env::var_os("MCOUNT_REQUIRE_TOOLS").is_some()
}

fn is_run(block: &Block) -> bool {
    block.not_run.is_none() && has_needs(block)
}

/// Makes the folder `dist` as `cargo xtask dist` does, with the header files and those libraries that are there.
fn dist(folder: &Path) {
    std::fs::create_dir_all(folder.join("lib/pkgconfig")).unwrap();
    symlink(prebuilt::root().join("include"), folder.join("include")).unwrap();
    for (name, source) in [("mcount-live", "mcount-inside-c"), ("mcount", "mcount-c")] {
        let config = prebuilt::root().join(format!("crates/{source}/{name}.pc"));
        symlink(config, folder.join(format!("lib/pkgconfig/{name}.pc"))).unwrap();
        for (kind, of) in [("so", "so"), ("so.0", "so"), ("a", "a")] {
            symlink(library(name, of), folder.join(format!("lib/lib{name}.{kind}"))).unwrap();
        }
    }
}

/// The commands of `page` that a test runs, and whether their block shows output.
fn commands(page: &Page) -> Vec<(book::Command, bool)> {
    let mut found = Vec::new();
    for block in page.blocks().into_iter().filter(is_run) {
        if let Kind::Commands(commands) = block.kind {
            let shows = commands.iter().any(|command| !command.output.is_empty());
            found.extend(commands.into_iter().map(|command| (command, shows)));
        }
    }
    found
}

/// The command as the shell gets it: the process of the page instead of 1234, and `top` without a terminal.
fn typed(line: &str) -> String {
    let line = line.replace("1234", "$pid");
    if line.starts_with("mcount top") { line.replacen("top", "top --once", 1) } else { line }
}

/// A script that types `commands`, after what the page has run first.
fn script(page: &Page, commands: &[(book::Command, bool)]) -> String {
    let mut script = String::new();
    for line in page.run_first() {
        writeln!(script, "{line}").unwrap();
    }
    for (number, (command, _)) in commands.iter().enumerate() {
        writeln!(script, "mark=$?; printf '\\n{MARK} {number} %d\\n' $mark; (exit $mark)").unwrap();
        writeln!(script, "{}", typed(&command.line)).unwrap();
    }
    let end = commands.len();
    writeln!(script, "printf '\\n{MARK} {end} %d\\n' $?").unwrap();
    script
}

/// The folder in which a page is tried: the files that it shows, the folders of the tree that pages name, and the programs.
fn folder(page: &Page) -> TempDir {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["tests", "examples", "include", "docs"] {
        symlink(prebuilt::root().join(name), path(name)).unwrap();
    }
    std::fs::create_dir(path("bin")).unwrap();
    dist(&path("dist"));
    symlink(env!("CARGO_BIN_EXE_mcount"), path("bin/mcount")).unwrap();
    symlink(env!("CARGO_BIN_EXE_recordmcount"), path("bin/recordmcount")).unwrap();
    for block in page.blocks().into_iter().filter(is_run) {
        if let Kind::File(name) = block.kind {
            files::write(&path(&name), (block.code.join("\n") + "\n").as_bytes()).unwrap();
        }
    }
    folder
}

/// Types `commands`, and returns what each printed on both streams; those after a shell's death are missing.
fn run(page: &Page, commands: &[(book::Command, bool)]) -> Vec<Printed> {
    let folder = folder(page);
    let path = |name: &str| folder.path().join(name);
    files::write(&path("bin/script"), script(page, commands).as_bytes()).unwrap();
    // A file and no pipe: programs that go on in the background would keep a pipe open.
    let output = tempfile::NamedTempFile::new_in(path("bin")).unwrap();
    let printed = output.reopen().unwrap();
    let searched = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("timeout")
        .args(["-k", "5", SECONDS, "bash", "bin/script"])
        .current_dir(folder.path())
        .env("PATH", format!("{}:{searched}", path("bin").display()))
        .envs([("LC_ALL", "C.UTF-8"), ("PAGER", "cat"), ("COLUMNS", "200")])
        .env("XDG_RUNTIME_DIR", folder.path())
        .stdin(Stdio::null())
        .stdout(printed.try_clone().unwrap())
        .stderr(printed)
        .spawn()
        .unwrap();
    // `timeout` leads a process group, which has what the page started, and what that started: a program that
    // `mcount trace` runs outlives `mcount`.
    let group = Pid::from_raw(i32::try_from(shell.id()).unwrap());
    shell.wait().unwrap();
    let _ = killpg(group, Signal::SIGKILL);
    let text = String::from_utf8_lossy(&files::read(output.path()).unwrap()).into_owned();
    let mut printed: Vec<Printed> = Vec::new();
    for part in text.split(&format!("\n{MARK} ")).skip(1) {
        let (head, rest) = part.split_once('\n').unwrap_or((part, ""));
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        if let Some(before) = printed.last_mut() {
            before.code = code;
        }
        let text = rest.trim_end_matches('\n').lines().map(|line| line.trim_end().to_owned());
        printed.push(Printed { text: text.collect(), code: None });
    }
    printed.pop();
    printed
}

/// The number that begins at `at`: digits, with points and commas between them.
fn number_at(line: &[char], at: usize) -> usize {
    let digits = |c: &char| c.is_ascii_hexdigit() || *c == 'x';
    if line.get(at) == Some(&'0') && line.get(at + 1) == Some(&'x') {
        return line.iter().skip(at).take_while(|c| digits(c)).count();
    }
    let mut length = 0;
    while line.get(at + length).is_some_and(|c| {
        let next = line.get(at + length + 1).is_some_and(char::is_ascii_digit);
        c.is_ascii_digit() || matches!(c, '.' | ',') && length > 0 && next
    }) {
        length += 1;
    }
    length
}

/// Whether the number between `before` and `after` differs from one run to the next.
fn is_wild(before: &str, number: &str, after: &str) -> bool {
    let unit = after.trim_start();
    let unit: String = unit.chars().take_while(|c| c.is_alphabetic() || *c == '/').collect();
    let is_id = ["process ", "thread ", "(pid "].iter().any(|word| before.ends_with(word));
    matches!(unit.as_str(), "ns" | "us" | "µs" | "ms" | "s" | "/s")
        || number.len() > 6 && number.starts_with("0x")
        || before.trim_end().ends_with('[') && after.starts_with(']')
        || is_id
}

/// The line without what differs between two runs.
fn plain(line: &str) -> String {
    let all = line.contains('%');
    let chars: Vec<char> = line.trim_end().chars().collect();
    let (mut at, mut text) = (0, String::new());
    while let Some(c) = chars.get(at) {
        let length = number_at(&chars, at);
        let of_name = text.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if length == 0 || of_name {
            if !(c.is_whitespace() && text.ends_with(' ')) {
                text.push(if c.is_whitespace() { ' ' } else { *c });
            }
            at += 1;
            continue;
        }
        let number: String = chars.iter().skip(at).take(length).collect();
        let after: String = chars.iter().skip(at + length).collect();
        let is_wild = all || is_wild(&text, &number, &after);
        text.push_str(if is_wild { "#" } else { &number });
        at += length;
    }
    ["ns", "us", "µs", "ms", "s"].iter().fold(text, |text, unit| {
        text.replace(&format!("# {unit} "), "#T ").replace(&format!("#{unit} "), "#T ")
    })
}

/// Whether the line `found` is as the page says; `…` stands for any text.
fn is_line(expected: &str, found: &str) -> bool {
    let (expected, found) = (plain(expected), plain(found));
    let (expected, found) = (expected.trim(), found.trim());
    let Some((first, rest)) = expected.split_once('…') else { return expected == found };
    let (middle, last) = rest.rsplit_once('…').unwrap_or(("", rest));
    let ends = found.strip_prefix(first).and_then(|found| found.strip_suffix(last));
    let mut rest = ends;
    for part in middle.split('…') {
        rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, rest)| rest);
    }
    rest.is_some()
}

/// Whether the lines `found` are as the page says; a line `…` stands for any number of them.
fn is_output(expected: &[String], found: &[String]) -> bool {
    match expected.split_first() {
        None => found.is_empty(),
        Some((first, rest)) if first.trim() == "…" => {
            (0..=found.len()).any(|at| is_output(rest, found.get(at..).unwrap_or_default()))
        }
        Some((first, rest)) => found
            .split_first()
            .is_some_and(|(line, others)| is_line(first, line) && is_output(rest, others)),
    }
}

/// The lines that a page shows, without those that are empty.
fn shown(lines: &[String]) -> Vec<String> {
    lines.iter().filter(|line| !line.trim().is_empty()).cloned().collect()
}

/// What is wrong with each command of `page`, by its number.
fn failures(commands: &[(book::Command, bool)], printed: &[Printed]) -> Vec<(usize, String)> {
    let mut failures = Vec::new();
    for (number, (command, shows)) in commands.iter().enumerate() {
        let Some(found) = printed.get(number) else {
            failures.push((number, format!("$ {}: never ended", command.line)));
            break;
        };
        let text = found.text.join("\n");
        if *shows && !is_output(&shown(&command.output), &shown(&found.text)) {
            let expected = command.output.join("\n");
            failures.push((number, format!("$ {}\n{text}\n--- not\n{expected}", command.line)));
        } else if !shows && found.code != Some(0) {
            failures.push((number, format!("$ {}: {:?}\n{text}", command.line, found.code)));
        }
    }
    failures
}

/// Writes what the failed commands printed into the page.
fn bless(
    page: &Page,
    commands: &[(book::Command, bool)],
    printed: &[Printed],
    failed: &[(usize, String)],
) {
    let mut lines: Vec<String> = page.text.lines().map(str::to_owned).collect();
    for (number, _) in failed.iter().rev() {
        let (Some((command, true)), Some(found)) = (commands.get(*number), printed.get(*number))
        else {
            continue;
        };
        let is_indented =
            lines.get(command.lines.start - 1).is_some_and(|line| line.starts_with(' '));
        let indent = if is_indented { "    " } else { "" };
        let text = found.text.iter().map(|line| format!("{indent}{line}").trim_end().to_owned());
        lines.splice(command.lines.clone(), text);
    }
    files::write(&page.path(), (lines.join("\n") + "\n").as_bytes()).unwrap();
}

/// Tries `page`, and returns what is wrong with it.
fn check(page: &Page) -> Option<String> {
    let commands = commands(page);
    if commands.is_empty() {
        return None;
    }
    let mut failed = Vec::new();
    for _ in 0..TRIES {
        let printed = run(page, &commands);
        failed = failures(&commands, &printed);
        if failed.is_empty() {
            return None;
        }
        if std::env::var_os("MCOUNT_BLESS").is_some() {
            bless(page, &commands, &printed, &failed);
            break;
        }
    }
    let failed: Vec<_> = failed.into_iter().map(|(_, text)| text).collect();
    Some(format!("{}: {}", page.name, failed.join("\n\n")))
}

/// The pages that are tried: all, or that whose path has the text in `MCOUNT_PAGE`.
fn pages() -> Vec<Page> {
    let mut pages = book::pages().unwrap();
    if let Ok(wanted) = std::env::var("MCOUNT_PAGE") {
        pages.retain(|page| page.name.contains(&wanted));
    }
    pages
}

#[test]
fn every_command_prints_what_its_page_says() {
    if !cfg!(target_arch = "x86_64") {
        return; // Pages show what compilers make for x86-64.
    }
    tools::need(["bash", "gcc", "pkg-config", "python3", "timeout"]);
    let pages = pages();
    let failed: Vec<_> = pages.par_iter().filter_map(check).collect();
    let run: usize = pages.iter().map(|page| commands(page).len()).sum();
    println!("{run} commands of {} pages were run", pages.len());
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// Each block of code is run, or is a file, or says why it isn't run.
#[test]
fn every_block_that_is_not_run_says_why() {
    let (mut run, mut not_run) = (0, 0);
    let mut silent = Vec::new();
    for page in book::pages().unwrap() {
        for block in page.blocks() {
            let missing = block.needs.as_ref().filter(|_| !has_needs(&block));
            match (&block.kind, block.not_run.as_ref().or(missing)) {
                (_, Some(reason)) => {
                    println!("{}:{}: not run: {reason}", page.name, block.at + 1);
                    not_run += 1;
                }
                (Kind::Unknown, None) => silent.push(format!("{}:{}", page.name, block.at + 1)),
                _ => run += 1,
            }
        }
    }
    println!("{run} blocks are run, {not_run} are not");
    assert!(silent.is_empty(), "neither commands nor marked: {silent:#?}");
    assert!(run > 40, "only {run} blocks are run, {not_run} are not");
}

#[test]
fn what_differs_between_runs_does_not_count() {
    let same = [
        ("  1   8.583 ms  46.870 us sort", "  1   1.2  s   3 ns sort"),
        ("           [  20159] | main() {", "   [  1] | main() {"),
        ("serve (process 1234): 1190/s of 3 functions", "serve (process 7): 5/s of 3 functions"),
        ("  594   97.5%    1.64ms handle", "  5   7%    1.1us handle"),
        ("vfs_read (.text 0xffffffff813497b0): …", "vfs_read (.text 0xffffffff8134): a call"),
    ];
    for (one, other) in same {
        assert!(is_line(one, other), "{:?} {:?}", plain(one), plain(other));
    }
    let others = [
        ("  1   8.583 ms sort", "  2   8.583 ms sort"),
        ("9 sites", "8 sites"),
        ("hook at main+105", "hook at main+104"),
        ("x86_64 64-bit", "x86_64 32-bit"),
        ("a … c", "a b d"),
    ];
    for (one, other) in others {
        assert!(!is_line(one, other), "{one:?} {other:?}");
    }
}
