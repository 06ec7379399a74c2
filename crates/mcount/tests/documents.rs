//! The documents: every link leads somewhere, pages are short, and the map in ARCHITECTURE.md has the files that are
//! there, and no others.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
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

/// Whether `text` has a heading of that name; the second one of a name gets `-1`.
fn has_anchor(text: &str, wanted: &str) -> bool {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let mut known: BTreeSet<String> = BTreeSet::new();
    for line in headings {
        let name = anchor(line.trim_start_matches('#'));
        let mut names = [name.clone()].into_iter().chain((1..).map(|n| format!("{name}-{n}")));
        let free = names.find(|name| !known.contains(name));
        known.extend(free);
    }
    known.contains(wanted)
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

/// The pages of the book: every file in `docs` but its table of contents.
fn pages() -> Vec<PathBuf> {
    let mut pages = documents();
    pages.retain(|path| path.parent().unwrap().ends_with("docs") && !path.ends_with("SUMMARY.md"));
    pages
}

/// mdBook leaves out pages that the table of contents doesn't have.
#[test]
fn every_page_is_in_the_table_of_contents() {
    let contents = text(&prebuilt::root().join("docs/SUMMARY.md"));
    for page in pages() {
        let name = page.file_name().unwrap().to_str().unwrap();
        let count = contents.matches(&format!("]({name})")).count();
        assert_eq!(count, 1, "{name}: this often in docs/SUMMARY.md");
    }
}

/// A page opens with its reader, and with what the reader can do afterwards.
#[test]
fn every_page_says_whom_it_is_for() {
    for page in pages().iter().filter(|page| !page.ends_with("README.md")) {
        let text = text(page);
        let opening = text.split("\n\n").nth(1).unwrap_or_default();
        let says = opening.starts_with("**For you if** ") && opening.contains("Afterwards");
        assert!(says, "{}: opens with {opening:?}", page.display());
    }
}

/// How many lines a page may have: a newcomer reads it in five minutes. Evidence, tables by processor and pages for those who
/// change `mcount` have no limit.
const LIMITS: [(&str, usize); 17] = [
    ("README.md", 150),
    ("docs/find-slow.md", 120),
    ("docs/running.md", 120),
    ("docs/traces.md", 80),
    ("docs/options.md", 150),
    ("docs/values.md", 120),
    ("docs/patch.md", 100),
    ("docs/inside.md", 150),
    ("docs/troubleshooting.md", 120),
    ("docs/kernels.md", 100),
    ("docs/bpf.md", 60),
    ("docs/checks.md", 150),
    ("docs/processors.md", 200),
    ("docs/how.md", 200),
    ("docs/trace-format.md", 300),
    ("docs/design.md", 150),
    ("docs/glossary.md", 60),
];

#[test]
fn pages_are_short() {
    for (name, limit) in LIMITS {
        let lines = text(&prebuilt::root().join(name)).lines().count();
        assert!(lines <= limit, "{name} has {lines} lines, and may have {limit}");
    }
}

/// Long lines don't make a page short. Rows of tables and what programs print can't be wrapped.
#[test]
fn lines_of_text_are_short() {
    // A chore writes docs/benchmarks.md.
    let written = |page: &&PathBuf| !page.ends_with("benchmarks.md");
    for page in pages().iter().filter(written).chain([&prebuilt::root().join("README.md")]) {
        let text = text(page);
        let mut is_code = false;
        for (number, line) in text.lines().enumerate() {
            is_code ^= line.starts_with("```");
            let is_free = is_code || line.starts_with(['|', '!', '<']) || line.starts_with("    ");
            let length = line.chars().count();
            let shown = page.display();
            assert!(is_free || length <= 110, "{shown}:{}: {length} columns", number + 1);
        }
    }
}

/// The words of `text` in backquotes that name a file or a folder of the repository.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    const FOLDERS: [&str; 10] = [
        "benches/",
        "contrib/",
        "crates/",
        "docs/",
        "examples/",
        "fuzz/",
        "include/",
        "lab/",
        "tests/",
        "xtask/",
    ];
    let words = text.lines().filter(|line| !line.starts_with("    ")).flat_map(|line| {
        line.split('`').skip(1).step_by(2).filter(|word| !word.contains([' ', '*', '<', '…', '{']))
    });
    words.filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)))
}

/// Paths in the text are those of files that are there.
#[test]
fn paths_lead_somewhere() {
    let mut count = 0;
    for document in documents().iter().filter(|path| !path.ends_with("CHANGELOG.md")) {
        let text = text(document);
        for path in paths(&text) {
            let there = prebuilt::root().join(path).exists();
            assert!(there, "{}: {path}: no such file", document.display());
            count += 1;
        }
    }
    assert!(count > 30, "only {count} paths were found");
}

/// The rows of the map: the folder that a row is about (empty for the last part), and a name in it.
fn rows_of_the_map() -> Vec<(String, String)> {
    let architecture = text(&prebuilt::root().join("ARCHITECTURE.md"));
    let (_, map) = architecture.split_once("\n## Map\n").unwrap();
    let mut folder = "";
    let mut rows = Vec::new();
    for row in map.lines().filter(|line| line.starts_with('|')) {
        let cell = row.split('|').nth(1).unwrap().trim();
        if cell.starts_with("**") {
            folder = cell.split('`').nth(1).unwrap_or("");
        } else {
            let names = cell.split('`').skip(1).step_by(2);
            rows.extend(names.map(|name| (folder.to_owned(), name.to_owned())));
        }
    }
    rows
}

/// A newcomer reads it whole: one page, and one table.
#[test]
fn the_architecture_is_a_page_and_a_table() {
    let architecture = text(&prebuilt::root().join("ARCHITECTURE.md"));
    let (page, map) = architecture.split_once("\n## Map\n").unwrap();
    assert!(page.lines().count() <= 60, "the page has {} lines", page.lines().count());
    let beside = map.lines().find(|line| !line.is_empty() && !line.starts_with('|'));
    assert_eq!(beside, None, "beside the table");
    assert_eq!(map.matches("\n\n").count(), 0, "one table");
}

/// What docs/design.md says is tested by a test of that name.
#[test]
fn the_design_names_tests_that_are_there() {
    let design = text(&prebuilt::root().join("docs/design.md"));
    let mut sources = Vec::new();
    for folder in ["crates/mcount/tests", "crates/mcount-cli/tests"] {
        for entry in std::fs::read_dir(prebuilt::root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            sources.extend(path.is_file().then(|| text(&path)));
        }
    }
    let words = design.split('`').skip(1).step_by(2);
    let words = words.filter(|name| !name.contains(['.', ' ', ':', '-', '/']));
    let mut count = 0;
    for name in words.filter(|name| name.matches('_').count() >= 3 && !name.starts_with('_')) {
        let is_there = sources.iter().any(|source| source.contains(&format!("fn {name}(")));
        assert!(is_there, "{name}: no such test");
        count += 1;
    }
    assert!(count > 8, "only {count} tests were found");
}

#[test]
fn the_map_names_what_is_there() {
    let rows = rows_of_the_map();
    assert!(rows.len() > 50, "only {} files are on the map", rows.len());
    for (folder, name) in rows.iter().filter(|(_, name)| !name.contains('<')) {
        let path = prebuilt::root().join(folder).join(name);
        assert!(path.exists(), "{name}: on the map, and not in {folder:?}");
    }
}

/// Adds the source files in `folder` and the folders in it, but for those of tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("tests") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Whether `row` of the map means the file at `path`, by its own name or by that of its folder.
fn means((folder, name): &(String, String), path: &Path) -> bool {
    let path = path.strip_prefix(prebuilt::root().join(folder));
    let path = path.ok().and_then(Path::to_str).filter(|_| !folder.is_empty());
    // `arch/<processor>.rs` stands for all in `arch`.
    let name = name.split('<').next().unwrap();
    path.is_some_and(|path| path == name || name.ends_with('/') && path.starts_with(name))
}

#[test]
fn what_is_there_is_on_the_map() {
    let rows = rows_of_the_map();
    let folders: BTreeSet<_> = rows.iter().map(|(folder, _)| folder.as_str()).collect();
    let mut files = Vec::new();
    for folder in folders.into_iter().filter(|folder| !folder.is_empty()) {
        sources(&prebuilt::root().join(folder), &mut files);
    }
    assert!(files.len() > 150, "only {} files were found", files.len());
    // The bold row of a crate says what its `lib.rs` is.
    files.retain(|path| !path.ends_with("lib.rs") && !rows.iter().any(|row| means(row, path)));
    assert!(files.is_empty(), "not on the map in ARCHITECTURE.md: {files:#?}");
}
