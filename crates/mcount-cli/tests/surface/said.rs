//! Everything that the programs and libraries can say: each text of several words in their sources. The test prints the list,
//! for reading from top to bottom (`cargo test -p mcount-cli --test surface every_text -- --nocapture`), and looks for the words
//! that newcomers stumbled over.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use testkit::{files, prebuilt, test};

/// The crates whose texts people read.
const CRATES: [&str; 12] = [
    "mcount",
    "mcount-c",
    "mcount-cli",
    "mcount-cpu",
    "mcount-hooks",
    "mcount-inside",
    "mcount-ptrace",
    "mcount-store",
    "mcount-symbols",
    "mcount-trace",
    "mcount-tracer",
    "mcount-view",
];

/// Words that make a person of a part of the program, or leave out who acts.
const POOR: [&str; 13] = [
    "nobody",
    "somebody",
    "anybody",
    "whoever",
    "it's said",
    "it is said",
    "is meant",
    "are meant",
    "any more",
    "stood",
    "mended",
    "seldom",
    "is told of",
];

/// The Rust files in `folder` and in the folders in it, but for those of tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && !path.ends_with("tests") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !path.ends_with("tests.rs")
        {
            found.push(path);
        }
    }
}

/// The rest of a string literal after its first quotation mark: its text, on one line, and what comes after it.
fn literal(rest: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((text, rest.get(at + 1..)?)),
            '\\' => match chars.next()?.1 {
                // A text goes on in the next line, without its indentation.
                '\n' => {
                    while chars.as_str().starts_with([' ', '\n']) {
                        chars.next();
                    }
                }
                'n' => text.push(' '),
                c => text.push(c),
            },
            c => text.push(c),
        }
    }
    None
}

/// The string literals of a source, up to its tests, but for those in comments and attributes.
fn literals(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    let is_code = |line: &&str| {
        let line = line.trim_start();
        !line.starts_with("//") && !line.starts_with("#[expect") && !line.starts_with("reason =")
    };
    let code: Vec<&str> = source.lines().filter(is_code).collect();
    let code = code.join("\n").replace("'\"'", "' '");
    let mut found = Vec::new();
    let mut rest = &*code;
    while let Some((_, after)) = rest.split_once('"') {
        let Some((text, after)) = literal(after) else { break };
        found.push(text);
        rest = after;
    }
    found
}

/// Whether `text` is for reading: three words that aren't code.
fn is_text(text: &str) -> bool {
    let is_word = |word: &&str| {
        word.len() > 1
            && word.chars().all(|c| c.is_alphabetic() || matches!(c, '\'' | ',' | ':' | '-' | '.'))
    };
    let is_code = ["%", "\t", "__", "</", ".globl", "{{"].iter().any(|part| text.contains(part));
    text.split_whitespace().filter(is_word).count() >= 3 && !is_code
}

#[test]
fn every_text_is_plain() {
    let (mut list, mut poor, mut count) = (String::new(), Vec::new(), 0);
    for name in CRATES {
        let mut found = Vec::new();
        sources(&prebuilt::root().join("crates").join(name).join("src"), &mut found);
        for path in found {
            let source = String::from_utf8(files::read(&path).unwrap()).unwrap();
            for text in literals(&source).into_iter().filter(|text| is_text(text)) {
                let place = path.strip_prefix(prebuilt::root()).unwrap().display();
                writeln!(list, "{place}: {text}").unwrap();
                let low = format!(" {} ", text.to_lowercase());
                let words = POOR.iter().filter(|word| low.contains(&format!(" {word}")));
                poor.extend(words.map(|word| format!("{place}: \"{word}\" in {text:?}")));
                count += 1;
            }
        }
    }
    println!("{list}{count} texts");
    assert!(count > 400, "only {count} texts were found");
    assert!(poor.is_empty(), "{poor:#?}");
}

#[test]
fn texts_are_found_in_a_source() {
    let source = "// \"not a text\"\nlet a = \"one \\\n     two \\\"three\\\"\";\nlet c = '\"';\nlet b = \"four\";\n\
                  #[cfg(test)]\nlet d = \"five\";";
    assert_eq!(literals(source), ["one two \"three\"", "four"]);
    assert!(
        is_text("no function matches {}") && !is_text("/proc/self/maps") && !is_text("two words")
    );
}
