//! The public items of the library, as `public-api.txt` lists them, so that nobody changes one by
//! accident. `BLESS=1 cargo test -p mcount --test public_api` writes the list anew.
//!
//! It reads sources and needs neither a network nor another compiler: clippy's `unreachable_pub` sees to it that
//! what is `pub` can be reached from outside.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fmt::Write;
use std::path::{Path, PathBuf};
use testkit::{files, prebuilt, test};

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

const LIST: &str = "crates/mcount/tests/public-api.txt";

/// The sources of the library, in order of their paths.
fn sources() -> Vec<(String, String)> {
    let root = prebuilt::root().join("crates/mcount/src");
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(&root).unwrap().display().to_string();
                found.push((name, text(&path)));
            }
        }
    }
    found.sort();
    found
}

fn text(path: &Path) -> String {
    String::from_utf8(files::read(path).unwrap()).unwrap()
}

/// The items at the outermost level of `source`: what rustfmt puts between two lines that begin in the
/// first column. Comments and tests are left out.
fn items(source: &str) -> Vec<Vec<&str>> {
    let mut found: Vec<Vec<&str>> = Vec::new();
    let mut is_open = false;
    for line in source.lines().take_while(|line| *line != "#[cfg(test)]") {
        if line.trim().is_empty() || line.trim_start().starts_with("//") {
            continue;
        }
        let continues = line.starts_with([' ', '}', ')']) || is_open;
        match found.last_mut().filter(|_| continues) {
            Some(item) => item.push(line),
            None => found.push(vec![line]),
        }
        // An attribute belongs to what follows it.
        is_open = line.starts_with("#[");
    }
    found
}

/// The declaration that begins with the first of `lines`, up to its body.
fn declaration(lines: &[&str]) -> String {
    let mut words = String::new();
    for line in lines {
        words.push_str(line.trim());
        if line.ends_with(['{', ';', '}']) || line.ends_with("},") {
            break;
        }
        if lines.len() == 1 || line.ends_with(',') && !words.contains('(') {
            break;
        }
        words.push(' ');
    }
    let words = words.split('{').next().unwrap_or_default().trim_end_matches([',', ';', ' ']);
    words.replace("( ", "(").replace(", )", ")")
}

/// What is public of an item, a line each.
fn public(file: &str, item: &[&str]) -> Vec<String> {
    let head = item.iter().position(|line| !line.starts_with("#[")).unwrap_or(0);
    let (attributes, item) = item.split_at(head);
    let Some((first, body)) = item.split_first() else { return Vec::new() };
    let inner = |line: &&str| line.starts_with("    pub ");
    let mut found = Vec::new();
    // Elsewhere it says what lib.rs may import.
    let is_use = file == "lib.rs" && first.starts_with("pub use");
    if is_use || first.starts_with("setters!") {
        return vec![item.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")];
    }
    if first.starts_with("impl") {
        for (at, _) in body.iter().enumerate().filter(|(_, line)| inner(line)) {
            found.push(format!("    {}", declaration(body.split_at(at).1)));
        }
        let is_trait = first.contains(" for ") && !first.contains("Verb<");
        if !found.is_empty() || is_trait {
            found.insert(0, declaration(item));
        }
        return found;
    }
    if !first.starts_with("pub ") || first.starts_with("pub use") {
        return found;
    }
    let kept = |line: &&&str| ["#[derive", "#[non_exhaustive"].iter().any(|a| line.starts_with(a));
    found.extend(attributes.iter().filter(kept).map(|line| (*line).to_owned()));
    found.push(declaration(item));
    if first.starts_with("pub struct") {
        found.extend(body.iter().filter(|line| inner(line)).map(|line| (*line).to_owned()));
    } else if first.starts_with("pub enum") {
        let variants = body.iter().filter(|line| !line.contains("#[") && **line != "}");
        found.extend(variants.map(|line| (*line).to_owned()));
    }
    found
}

#[test]
fn the_public_items_are_those_of_the_list() {
    let mut found = String::new();
    for (name, source) in sources() {
        let items = items(&source);
        let lines: Vec<_> = items.iter().flat_map(|item| public(&name, item)).collect();
        if !lines.is_empty() {
            writeln!(found, "// {name}\n{}\n", lines.join("\n")).unwrap();
        }
    }
    let path = prebuilt::root().join(LIST);
    if std::env::var_os("BLESS").is_some() {
        files::write(&path, found.as_bytes()).unwrap();
    }
    let expected = text(&path);
    let mut pairs = found.lines().zip(expected.lines());
    let first = pairs.find(|(found, expected)| found != expected);
    assert_eq!(first, None, "the first line that differs from {LIST}: BLESS=1 writes it anew");
    assert_eq!(found.lines().count(), expected.lines().count(), "lines of {LIST}");
}
