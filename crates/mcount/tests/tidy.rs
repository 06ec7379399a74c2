//! The rules of the architecture, kept by a test (ARCHITECTURE.md): which module may know which, where
//! a processor's numbers may stand, and what no source file does.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

#[path = "tidy/reach.rs"]
mod reach;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use testkit::{files, prebuilt, test};

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&files::read(path).unwrap()).into_owned()
}

/// Every `.rs` file under `folder` of the repository, with its path from there.
fn sources(folder: &str) -> Vec<(String, String)> {
    files_in(folder, |path| path.extension().is_some_and(|extension| extension == "rs"))
}

/// Every file under `folder` of the repository that `is_meant`, with its path from there.
fn files_in(folder: &str, is_meant: fn(&Path) -> bool) -> Vec<(String, String)> {
    let start = prebuilt::root().join(folder);
    let mut found = Vec::new();
    let mut folders = vec![start.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") && !path.ends_with(".git") {
                folders.push(path);
            } else if is_meant(&path) {
                let name = path.strip_prefix(&start).unwrap().display().to_string();
                found.push((name, text(&path)));
            }
        }
    }
    assert!(!found.is_empty(), "no such files in {folder}");
    found.sort();
    found
}

/// The lines of `source` that are no comment, with their numbers, up to its tests.
fn code(source: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(source.lines());
    let lines = lines.take_while(|(_, line)| !line.starts_with("#[cfg(test)]"));
    lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// The identifiers of `line`.
fn identifiers(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// A relocation type or a machine by its name in a psABI.
fn is_of_a_processor(identifier: &str) -> bool {
    let rest = identifier.strip_prefix("R_").or(identifier.strip_prefix("EM_"));
    rest.is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit())
    })
}

/// The lines of all files that `is_wrong` finds.
fn offences(files: &[(String, String)], is_wrong: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (name, source) in files {
        let wrong = code(source).filter(|(_, line)| is_wrong(name, line));
        found.extend(wrong.map(|(number, line)| format!("{name}:{number}: {}", line.trim())));
    }
    found
}

fn none(offences: &[String], rule: &str) {
    assert!(offences.is_empty(), "{rule}:\n{}", offences.join("\n"));
}

/// The library and the crates of the programs.
const ALL_SOURCES: [&str; 7] = [
    "crates/mcount/src",
    "crates/mcount-store/src",
    "crates/mcount-symbols/src",
    "crates/mcount-ptrace/src",
    "crates/mcount-tracer/src",
    "crates/mcount-view/src",
    "crates/mcount-cli/src",
];

#[test]
fn numbers_of_processors_stand_in_arch_alone() {
    for folder in ALL_SOURCES {
        let found = offences(&sources(folder), |name, line| {
            !name.starts_with("arch/") && identifiers(line).any(is_of_a_processor)
        });
        none(&found, "EM_* and R_* belong in arch/");
    }
}

#[test]
fn the_library_neither_reads_files_nor_prints() {
    let found = offences(&sources("crates/mcount/src"), |_, line| {
        let prints = ["println", "eprintln", "print", "eprint", "dbg"];
        line.contains("std::fs")
            || line.contains("std::thread")
            || prints.iter().any(|name| line.contains(&format!("{name}!(")))
    });
    none(&found, "bytes in, plain data out");
}

/// A module, by the names that lead to it from the root of its crate.
type Module = Vec<String>;

/// The modules of the crate whose sources are in `folder`, with their code.
fn modules(folder: &str) -> BTreeMap<Module, String> {
    let mut found = BTreeMap::new();
    for (name, source) in sources(folder).into_iter().filter(|(name, _)| !name.starts_with("bin/"))
    {
        let mut path: Module = name.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        if path.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
            path.pop();
        }
        let lines = code(&source).map(|(_, line)| line.split(" // ").next().unwrap_or_default());
        found.insert(path, lines.collect::<Vec<_>>().join("\n"));
    }
    found
}

/// `code` in words: identifiers, `::`, and other signs. What is in quotes is left out.
fn words(code: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let end = match first {
            'a'..='z' | 'A'..='Z' | '_' => {
                rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
            }
            ':' if rest.starts_with("::") => 2,
            '"' => {
                let mut escaped = false;
                let closes = |c: char| {
                    let closes = c == '"' && !escaped;
                    escaped = c == '\\' && !escaped;
                    closes
                };
                rest[1..].find(closes).map_or(rest.len(), |at| at + 2)
            }
            _ => first.len_utf8(),
        };
        let (word, behind) = rest.split_at(end);
        if !word.starts_with(['"', ' ', '\n']) {
            words.push(word);
        }
        rest = behind;
    }
    words
}

/// Adds every path that begins with `prefix` and goes on at `words`, braces opened; how many words
/// that took.
fn paths(words: &[&str], prefix: &[String], found: &mut Vec<Module>) -> usize {
    let mut path = prefix.to_vec();
    let mut at = 0;
    loop {
        match words.get(at) {
            Some(&"{") => {
                at += 1;
                while words.get(at).is_some_and(|word| *word != "}") {
                    at +=
                        if words[at] == "," { 1 } else { paths(&words[at..], &path, found).max(1) };
                }
                return at + 1;
            }
            Some(word) if word.starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                path.push((*word).to_owned());
                at += 1;
            }
            _ => return at,
        }
        if words.get(at) != Some(&"::") {
            found.push(path);
            return at;
        }
        at += 1;
    }
}

/// The modules among `all` that the module `own`, with this code, names, itself left out. The root is
/// there where it names something that the root defines.
fn imports(all: &BTreeMap<Module, String>, own: &Module, code: &str) -> BTreeSet<Module> {
    let words = words(code);
    let is_child = |word: &str| all.contains_key(&[own.as_slice(), &[word.to_owned()]].concat());
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let is_start = at == 0 || words[at - 1] != "::";
        let leads_on = words.get(at + 1) == Some(&"::");
        if !is_start || !leads_on {
            continue;
        }
        if ["crate", "super", "self"].contains(word) || is_child(word) {
            paths(&words[at..], &[], &mut found);
        }
    }
    let resolved = found.iter().filter_map(|path| {
        let (head, mut rest) = path.split_first()?;
        let mut base = match head.as_str() {
            "crate" => Vec::new(),
            "super" => own.split_last()?.1.to_vec(),
            "self" => own.clone(),
            _ => [own.as_slice(), std::slice::from_ref(head)].concat(),
        };
        while let Some((first, behind)) = rest.split_first().filter(|(first, _)| *first == "super")
        {
            assert_eq!(first, "super");
            base.pop();
            rest = behind;
        }
        let full = [base.as_slice(), rest].concat();
        let lengths = (0..=full.len()).rev();
        let module = lengths.map(|length| full[..length].to_vec()).find(|m| all.contains_key(m));
        module.filter(|module| module != own)
    });
    resolved.collect()
}

/// What of `graph` can be reached from `start`.
fn reached<'g>(graph: &'g BTreeMap<String, BTreeSet<String>>, start: &'g str) -> BTreeSet<&'g str> {
    let mut found = BTreeSet::new();
    let mut next = vec![start];
    while let Some(node) = next.pop() {
        for other in graph.get(node).into_iter().flatten() {
            if found.insert(other.as_str()) {
                next.push(other);
            }
        }
    }
    found
}

/// The folders in which a crate begins: libraries, programs, and tests of several files.
fn crates() -> Vec<String> {
    let files = sources("");
    let roots = files.iter().filter_map(|(name, _)| {
        let (folder, file) = name.rsplit_once('/')?;
        ["lib.rs", "main.rs"].contains(&file).then(|| folder.to_owned())
    });
    let found: BTreeSet<_> = roots.collect();
    for known in ["crates/mcount/src", "crates/mcount-agent/agent", "crates/mcount-cli/tests/late"]
    {
        assert!(found.contains(known), "{known}: {found:?}");
    }
    found.into_iter().collect()
}

/// No two modules know each other, directly or through others. A folder is one module to those beside
/// it. What is inside it may use what its `mod.rs` has; that is what makes it a folder.
#[test]
fn no_modules_in_a_circle() {
    let mut circles = BTreeSet::new();
    let mut count = 0;
    for folder in crates() {
        let all = modules(&folder);
        // By the folder that two modules have in common: who knows whom there.
        let mut rooms: BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for (own, code) in &all {
            for other in imports(&all, own, code) {
                count += 1;
                let common = own.iter().zip(&other).take_while(|(a, b)| a == b).count();
                if let (Some(from), Some(to)) = (own.get(common), other.get(common)) {
                    let room = rooms.entry(own[..common].to_vec()).or_default();
                    room.entry(from.clone()).or_default().insert(to.clone());
                }
            }
        }
        for (room, graph) in &rooms {
            for start in graph.keys().filter(|start| reached(graph, start).contains(start.as_str()))
            {
                let back = |other: &&str| reached(graph, other).contains(start.as_str());
                let others: Vec<_> = reached(graph, start).into_iter().filter(back).collect();
                circles.insert(format!("{folder}/{}: {}", room.join("/"), others.join(", ")));
            }
        }
    }
    assert!(count > 500, "only {count} imports were found");
    none(&circles.into_iter().collect::<Vec<_>>(), "modules that know each other");
}

/// How far down each crate is; it may depend on what is further down. Those for tests alone aren't here.
const CRATES: &[&[&str]] = &[
    &["mcount", "mcount-layout", "mcount-cpu"],
    &["mcount-trace", "mcount-recorder"],
    &["mcount-agent", "mcount-store", "mcount-hooks"],
    &["mcount-symbols", "mcount-inside", "mcount-ptrace"],
    &["mcount-view", "mcount-tracer"],
    &["mcount-cli", "mcount-query", "mcount-c", "mcount-inside-c"],
];

/// The crates in the repository, by name, with those that each depends on, but for what only its tests need.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let manifests = files_in("", |path| path.ends_with("Cargo.toml"));
    let all = manifests.iter().filter_map(|(_, text)| {
        let mut section = "";
        let mut name = None;
        let mut found = BTreeSet::new();
        for line in text.lines() {
            section = line.strip_prefix('[').map_or(section, |line| line.trim_end_matches(']'));
            let is_needed = section.ends_with("dependencies")
                && !section.starts_with("workspace")
                && !section.ends_with("dev-dependencies");
            let Some((key, value)) = line.split_once('=') else { continue };
            let key = key.trim().split('.').next()?;
            if section == "package" && key == "name" {
                name = Some(value.trim().trim_matches('"').to_owned());
            }
            found.extend(is_needed.then(|| key.to_owned()));
        }
        Some((name?, found))
    });
    all.collect()
}

#[test]
fn crates_point_down() {
    let all = dependencies();
    let is_named = |name: &&String| name.starts_with("mcount") && *name != "mcount-fuzz";
    let there: BTreeSet<&str> = all.keys().filter(is_named).map(String::as_str).collect();
    let named: BTreeSet<&str> = CRATES.iter().flat_map(|level| level.iter().copied()).collect();
    assert_eq!(named, there, "the levels name what is there, and all of it");
    let level = |name: &str| CRATES.iter().position(|level| level.contains(&name));
    let mut wrong = Vec::new();
    for (own, others) in &all {
        for other in others.iter().filter(|other| all.contains_key(*other)) {
            let is_down =
                level(own).is_none_or(|own| level(other).is_some_and(|other| other < own));
            if !is_down || other == "mcount-cli" {
                wrong.push(format!("{own} depends on {other}"));
            }
        }
    }
    none(&wrong, "crates point down, and nothing imports the command line");
}

/// Who links `libmcount` gets no parser of arguments.
#[test]
fn the_libraries_for_c_have_no_command_line() {
    let all = dependencies();
    assert!(reached(&all, "mcount-cli").contains("clap"));
    for library in ["mcount-c", "mcount-inside-c"] {
        let found = reached(&all, library);
        assert!(found.contains("mcount"), "{library}: {found:?}");
        let wrong: Vec<_> =
            ["clap", "lexopt", "indicatif"].iter().filter(|name| found.contains(**name)).collect();
        assert!(wrong.is_empty(), "{library} depends on {wrong:?}");
    }
}

/// How far down each module of the library is; it may import what is as far down or further.
const LEVELS: &[&[&str]] = &[
    &["error", "site", "policy", "names", "helpers", "options", "setters", "words"],
    &["demangle", "pattern"],
    &["elf", "arch"],
    &["scan"],
    &["table"],
    &["sites", "separate"],
    &["record", "late", "nop", "sort", "functions", "check", "coverage", "diff"],
    &["file"],
];

#[test]
fn imports_point_down() {
    let all = modules("crates/mcount/src");
    let tops: BTreeSet<&str> =
        all.keys().filter_map(|module| module.first()).map(String::as_str).collect();
    let named: BTreeSet<&str> = LEVELS.iter().flat_map(|level| level.iter().copied()).collect();
    assert_eq!(named, tops, "the levels name what is there, and all of it");
    let level = |module: &Module| {
        let top = module.first()?;
        LEVELS.iter().position(|level| level.contains(&top.as_str()))
    };
    let mut wrong = Vec::new();
    for (own, code) in all.iter().filter(|(own, _)| !own.is_empty()) {
        for other in imports(&all, own, code) {
            let tops = [own, &other].map(|m| m.first().map(String::as_str));
            let is_blind = matches!(
                tops,
                [Some("elf"), Some("arch")] | [Some("arch"), Some("elf")] | [_, None]
            );
            if is_blind || level(&other) > level(own) {
                wrong.push(format!("{} imports {}", own.join("::"), other.join("::")));
            }
        }
    }
    none(&wrong, "nothing knows lib.rs, elf and arch do not know each other, imports point down");
}

#[test]
fn imports_are_found() {
    let mut all = BTreeMap::new();
    for name in ["", "a", "a/b", "a/c", "d"] {
        let path: Module = name.split('/').filter(|n| !n.is_empty()).map(str::to_owned).collect();
        all.insert(path, String::new());
    }
    let own = vec!["a".to_owned(), "b".to_owned()];
    for (code, expected) in [
        ("use crate::d;", "d"),
        ("use crate::d::{X, Y};", "d"),
        ("use super::c::X;", "a/c"),
        ("use super::X;", "a"),
        ("use super::super::d::X;", "d"),
        ("use crate::{a::c, d::{self, X}};", "a/c d"),
        ("pub(crate) fn f() { crate::d::f(\"crate::a::c\") }", "d"),
        ("use crate::X;", ""),
        ("use std::d;", "-"),
    ] {
        let found = imports(&all, &own, code);
        let found: Vec<_> = found.iter().map(|module| module.join("/")).collect();
        let expected: Vec<_> = expected.split(' ').filter(|name| *name != "-").collect();
        assert_eq!(found, expected, "{code}");
    }
}

/// A way around `no_modules_in_a_circle`.
#[test]
fn imports_name_what_they_import() {
    for folder in crates() {
        let found = offences(&sources(&folder), |_, line| {
            line.contains("crate::*") || line.contains("super::*")
        });
        none(&found, "import crate::module::name");
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    let files = sources("");
    assert!(files.len() > 50);
    for (name, source) in files {
        assert!(source.starts_with("//! "), "{name} does not open with //!");
    }
}

/// The most lines of a source file, and of a function, from its `fn` to its last brace.
const LONGEST_FILE: usize = 600;
const LONGEST_FUNCTION: usize = 60;

/// Why a file is a file of its own, its place and its name say. A header says what it's for.
#[test]
fn no_file_explains_why_it_is_one() {
    let mut offences = Vec::new();
    for folder in ["crates", "xtask", "lab", "benches", "fuzz", "examples"] {
        for (name, source) in sources(folder) {
            let mut header = source.lines().take_while(|line| line.starts_with("//!"));
            let explains = |line: &str| {
                ["Its own file", "a file of its own because"].iter().any(|text| line.contains(text))
            };
            offences.extend(header.find(|line| explains(line)).map(|_| format!("{folder}/{name}")));
        }
    }
    none(&offences, "a header says what the file is for");
}

#[test]
fn no_file_is_too_long() {
    let files = sources("");
    let long = files.iter().filter(|(_, source)| source.lines().count() > LONGEST_FILE);
    let long: Vec<_> =
        long.map(|(name, source)| format!("{name}: {}", source.lines().count())).collect();
    none(&long, "files of more than 600 lines");
}

/// The name behind the `fn` that begins on this line of rustfmt's.
fn function_name(line: &str) -> Option<&str> {
    let (before, rest) = line.trim_start().split_once("fn ")?;
    let is_signature = before.split(' ').all(|word| {
        word.is_empty()
            || word.starts_with("pub")
            || word.ends_with(')')
            || word.starts_with('"')
            || ["const", "async", "unsafe", "extern", "in", "safe"].contains(&word)
    });
    is_signature.then(|| rest.split(['(', '<']).next()).flatten()
}

/// The functions of `source` with their lines, as rustfmt writes them: the brace that closes one stands
/// below the beginning of its first line.
fn functions(source: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = source.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        let ends = |other: &&str| {
            let same = other.strip_prefix(indent).is_some_and(|rest| !rest.starts_with(' '));
            same && (other.ends_with('}') || other.ends_with(';'))
        };
        let length = lines[at..].iter().position(ends).map_or(1, |more| more + 1);
        found.push((name, length));
    }
    found
}

#[test]
fn lines_of_functions_are_counted() {
    let source = "fn one() {}\n\nimpl X {\n    pub(crate) const fn four<T>(\n        a: T,\n    ) {\n    }\n}\n\
                  unsafe extern \"C\" fn three() {\n    let f = |fn_| fn_;\n}\ntrait T {\n    fn none(&self);\n}\n";
    assert_eq!(functions(source), [("one", 1), ("four", 4), ("three", 3), ("none", 1)]);
}

#[test]
fn no_function_is_too_long() {
    let mut long = Vec::new();
    let mut count = 0;
    for (file, source) in sources("") {
        for (name, length) in functions(&source) {
            count += 1;
            if length > LONGEST_FUNCTION {
                long.push(format!("{file}: {name}: {length}"));
            }
        }
    }
    assert!(count > 3000, "only {count} functions were found");
    none(&long, "functions of more than 60 lines");
}

/// The types that `source` defines outside of functions, but for those of its tests.
fn types(source: &str) -> impl Iterator<Item = &str> {
    code(source).filter_map(|(_, line)| {
        let line =
            line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub(super) ")).unwrap_or(line);
        let line = line.strip_prefix("pub ").unwrap_or(line);
        let (kind, rest) = line.split_once(' ')?;
        let is_type = ["struct", "enum", "trait", "type", "union"].contains(&kind);
        is_type.then(|| identifiers(rest).next()).flatten()
    })
}

/// One name, one thing: a reader of the library meets a name in one meaning.
#[test]
fn no_two_types_of_the_library_have_one_name() {
    let files = sources("crates/mcount/src");
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (file, source) in &files {
        for name in types(source) {
            places.entry(name).or_default().push(file);
        }
    }
    assert!(places.len() > 150, "only {} types were found", places.len());
    let twice = places.iter().filter(|(_, files)| files.len() > 1);
    let twice: Vec<_> =
        twice.map(|(name, files)| format!("{name}: {}", files.join(", "))).collect();
    none(&twice, "types of one name");
}

#[test]
fn no_lint_is_switched_off_without_a_reason() {
    for folder in ALL_SOURCES {
        let found = offences(&sources(folder), |_, line| {
            let line = line.trim_start();
            line.starts_with("#[allow(") || line.starts_with("#![allow(")
        });
        none(&found, "#[expect(lint, reason = ...)]");
    }
}

/// Each processor is one file that opens with its psABI, one line in the list.
#[test]
fn every_processor_names_its_source() {
    let files = sources("crates/mcount/src/arch");
    let list = &files.iter().find(|(name, _)| name == "mod.rs").unwrap().1;
    for (name, source) in files.iter().filter(|(_, source)| source.contains("static ARCH")) {
        let module = name.trim_end_matches(".rs");
        assert!(list.contains(&format!("&{module}::ARCH")), "{name} is not in the list");
        let essay: String = source.lines().take_while(|line| line.starts_with("//!")).collect();
        assert!(essay.contains("Source"), "{name} does not name its specification");
    }
}
