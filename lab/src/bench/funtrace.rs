//! funtrace, with which the row `live` compares: fetched and built while the chore runs, and never kept in this tree.
//!
//! Its run time is a C++ file and an assembly file, which are compiled into the program. It keeps the newest calls in
//! memory, as `mcount trace --ring` does.

use std::path::{Path, PathBuf};

use crate::sources::shell;

/// Where it comes from, and which version was measured.
const SOURCE: &str = "https://github.com/yosefk/funtrace";
const COMMIT: &str = "5e5cd21d4aa451378f7ac58aeb018dbcff0dc778";

/// The folder with its sources, by `git` from `source`; or why they can't be had.
pub(super) fn fetch(source: Option<&str>, root: &Path) -> std::result::Result<PathBuf, String> {
    let folder = root.join("funtrace");
    let source = source.unwrap_or(SOURCE);
    if !folder.join("funtrace.cpp").exists() {
        let line = format!(
            "rm -rf funtrace && git clone --quiet '{source}' funtrace && git -C funtrace checkout --quiet {COMMIT}"
        );
        shell(root, &line).map_err(|error| last_line(&error.to_string()))?;
    }
    Ok(folder)
}

/// Compiles a C program with these flags, and with the run time of `sources`; why that can't be done.
pub(super) fn compile(
    sources: &Path,
    flags: &[&str],
    program: &Path,
    source: &Path,
) -> Option<String> {
    let line = format!(
        "gcc -O2 -w {flags} -c '{source}' -o '{program}.o' && \
         g++ -O2 -w -pthread -DFUNTRACE_FTRACE_EVENTS_IN_BUF=0 '{program}.o' funtrace.cpp funtrace_pg.S \
         -Wl,--dynamic-list=funtrace.dyn -Wl,-z,noexecstack -ldl -o '{program}'",
        flags = flags.join(" "),
        source = source.display(),
        program = program.display(),
    );
    shell(sources, &line).err().map(|error| last_line(&error.to_string()))
}

fn last_line(text: &str) -> String {
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or(text);
    line.replace('|', "/").chars().take(150).collect()
}
