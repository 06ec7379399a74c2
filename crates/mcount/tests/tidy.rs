//! The rules of the architecture, kept by a test (ARCHITECTURE.md): which module may know which, where
//! a processor's numbers may stand, and what no source file does.
//!
//! Its own file because it reads sources, not objects.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::{files, prebuilt};

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&files::read(path).unwrap()).into_owned()
}

/// Every `.rs` file under `folder` of the repository, with its path from there.
fn sources(folder: &str) -> Vec<(String, String)> {
    let start = prebuilt::root().join(folder);
    let mut found = Vec::new();
    let mut folders = vec![start.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") && !path.ends_with(".git") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(&start).unwrap().display().to_string();
                found.push((name, text(&path)));
            }
        }
    }
    assert!(!found.is_empty(), "no sources in {folder}");
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

#[test]
fn numbers_of_processors_stand_in_arch_alone() {
    for folder in ["crates/mcount/src", "crates/mcount-cli/src"] {
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

/// How far down a module is; it may import what is as far down or further.
fn level(module: &str) -> Option<u8> {
    Some(match module {
        "error" | "site" | "policy" | "names" | "helpers" => 0,
        "elf" | "arch" => 1,
        "scan" | "table" => 2,
        // The verbs, and what two of them share.
        "record" | "late" | "nop" | "sites" | "functions" | "check" | "coverage" | "diff"
        | "why" | "sort" => 3,
        "lib" => 4,
        _ => return None,
    })
}

/// What `line` says after each `crate::`.
fn imports(line: &str) -> impl Iterator<Item = &str> {
    line.split("crate::").skip(1).filter_map(|rest| identifiers(rest).next())
}

#[test]
fn imports_point_down() {
    let files = sources("crates/mcount/src");
    let found = offences(&files, |name, line| {
        let own = name.split(['/', '.']).next().unwrap();
        let own_level = level(own).unwrap_or_else(|| panic!("{name}: on which level is it?"));
        imports(line).any(|import| match (level(import), own, import) {
            (_, "elf", "arch") | (_, "arch", "elf") => true,
            (Some(other), ..) => other > own_level,
            // What lib.rs defines: the options of the verbs.
            (None, ..) => own_level < 3 || import.starts_with(char::is_lowercase),
        })
    });
    none(&found, "imports point down: lib, verbs, scan and table, elf or arch, error and site");
    let imports: usize =
        files.iter().map(|(_, s)| code(s).flat_map(|l| imports(l.1)).count()).sum();
    assert!(imports > 30, "only {imports} imports were found");
}

/// Ways around `imports_point_down`.
#[test]
fn imports_are_one_to_a_line() {
    let found = offences(&sources("crates/mcount/src"), |_, line| {
        line.contains("super::super") || line.contains("crate::{") || line.contains("crate::*")
    });
    none(&found, "import crate::module::…");
}

#[test]
fn every_file_says_what_it_is_for() {
    let files = sources("");
    assert!(files.len() > 50);
    for (name, source) in files {
        assert!(source.starts_with("//! "), "{name} does not open with //!");
    }
}

#[test]
fn no_lint_is_switched_off_without_a_reason() {
    for folder in ["crates/mcount/src", "crates/mcount-cli/src"] {
        let found = offences(&sources(folder), |_, line| {
            let line = line.trim_start();
            line.starts_with("#[allow(") || line.starts_with("#![allow(")
        });
        none(&found, "#[expect(lint, reason = ...)]");
    }
}

/// The names of the files that git has.
fn tracked() -> Option<Vec<PathBuf>> {
    let root = prebuilt::root();
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(&root).output().ok()?;
    let names = String::from_utf8(output.stdout).unwrap();
    let files = names.split('\0').filter(|name| !name.is_empty()).map(|name| root.join(name));
    let files: Vec<_> = files.filter(|path| path.is_file()).collect();
    (output.status.success() && !files.is_empty()).then_some(files)
}

#[test]
fn no_path_of_a_machine() {
    let Some(files) = tracked() else {
        println!("skipped: not a git work tree");
        return;
    };
    // Put together here, so that this file has none itself.
    let paths = [["/wo", "rk/"].concat(), ["/ho", "me/"].concat(), ["/ro", "ot/"].concat()];
    for path in files {
        let text = text(&path);
        for wrong in &paths {
            assert!(!text.contains(wrong.as_str()), "{}: {wrong}", path.display());
        }
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
