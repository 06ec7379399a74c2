//! The documents: every link leads somewhere, and every file on the map in ARCHITECTURE.md is there.
//!
//! Its own file because it reads Markdown, and no source.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};
use testkit::{files, prebuilt, test};

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

const DOCUMENTS: [&str; 4] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];

fn text(path: &Path) -> String {
    String::from_utf8(files::read(path).unwrap()).unwrap()
}

/// The documents at the root, and all in `docs`.
fn documents() -> Vec<PathBuf> {
    let root = prebuilt::root();
    let mut found: Vec<_> = DOCUMENTS.iter().map(|name| root.join(name)).collect();
    for entry in std::fs::read_dir(root.join("docs")).unwrap() {
        let path = entry.unwrap().path();
        found.extend(path.extension().is_some_and(|extension| extension == "md").then_some(path));
    }
    found
}

/// What stands between `begin` and `end`, each time.
fn between<'a>(text: &'a str, begin: &'a str, end: char) -> impl Iterator<Item = &'a str> {
    text.split(begin).skip(1).filter_map(move |rest| rest.split_once(end).map(|(found, _)| found))
}

/// The name by which a link leads to `heading`, as web pages of repositories make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn has_anchor(text: &str, wanted: &str) -> bool {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#'))).any(|found| found == wanted)
}

#[test]
fn links_lead_somewhere() {
    let mut links = 0;
    for document in documents() {
        let text = text(&document);
        for link in between(&text, "](", ')').filter(|link| !link.starts_with("http")) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = document.parent().unwrap().join(file);
            let target = if file.is_empty() { document.clone() } else { target };
            let shown = document.display();
            assert!(target.exists(), "{shown}: {link}: no such file");
            let known = heading.is_empty() || has_anchor(&self::text(&target), heading);
            assert!(known, "{shown}: {link}: no such heading");
            links += 1;
        }
    }
    assert!(links > 30, "only {links} links were found");
}

#[test]
fn the_map_names_what_is_there() {
    let architecture = text(&prebuilt::root().join("ARCHITECTURE.md"));
    let (_, map) = architecture.split_once("\n## Map\n").unwrap();
    let (map, _) = map.split_once("\n## ").unwrap();
    let mut folder = prebuilt::root();
    let mut names = 0;
    for row in map.lines().filter(|line| line.starts_with('|')) {
        let cell = row.split('|').nth(1).unwrap().trim();
        if cell.starts_with("**") {
            // The last part has none: its names are from the root.
            folder = prebuilt::root().join(cell.split('`').nth(1).unwrap_or(""));
            assert!(folder.exists(), "{cell}: no such folder");
            continue;
        }
        for name in cell.split('`').skip(1).step_by(2).filter(|name| !name.contains('<')) {
            assert!(folder.join(name).exists(), "{name}: on the map, and not in {folder:?}");
            names += 1;
        }
    }
    assert!(names > 50, "only {names} files are on the map");
}
