//! `libmcount-live`, in C programs by both compilers: programs that check themselves (`tests/live`), and programs that
//! count their own calls (`tests/trace`), all of whose functions are shown to handlers that count, too.

mod build;
mod examples;
mod foreign;
mod machine;
mod marks;
mod own;
mod traces;
mod truth;

use libtest_mimic::Arguments;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use testkit::trial::trial;

/// A test: its name, the programs it wants, and what it does.
struct Test {
    name: String,
    wants: Vec<&'static str>,
    run: Box<dyn FnOnce() -> Result<(), String> + Send>,
}

fn main() -> ExitCode {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux", target_pointer_width = "64")) {
        return ExitCode::SUCCESS;
    }
    let header = Test { name: "header".to_owned(), wants: vec![], run: Box::new(header) };
    let own = own::tests().into_iter().chain([header]);
    let own = own.chain(marks::tests());
    let tests = own.chain(examples::tests()).chain(traces::tests()).chain(truth::tests());
    let tests = tests.chain(foreign::tests());
    let trials = tests.map(|test| trial(test.name, test.wants, test.run)).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The headers declare each function that the library exports, and no other.
fn header() -> Result<(), String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |name: &str| {
        let bytes = testkit::files::read(&folder.join(name))?;
        Ok::<_, String>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let headers = [read("../include/mcount/live.h")?, read("../include/mcount/mark.h")?];
    let (source, header) = (read("mcount-inside/src/c.rs")?, headers.concat());
    let exported = names(&source, "extern \"C\" fn ");
    let code: String =
        header.split("/*").map(|part| part.split("*/").last().unwrap_or("")).collect();
    let called = |line: &str| {
        line.split_once('(')
            .and_then(|(head, _)| head.split([' ', '*']).next_back().map(str::to_owned))
    };
    let declared: BTreeSet<String> = code
        .lines()
        .filter(|line| !line.starts_with("typedef"))
        .filter_map(called)
        // The one that's in the header itself.
        .filter(|name| name.starts_with("mcount_") && name != "mcount_mark")
        .collect();
    if exported == declared && exported.len() > 10 {
        return Ok(());
    }
    Err(format!("exported: {exported:?}\ndeclared: {declared:?}"))
}

/// What follows `before` in the text, up to a parenthesis.
fn names(text: &str, before: &str) -> BTreeSet<String> {
    let parts = text.split(before).skip(1);
    parts.filter_map(|part| part.split('(').next()).map(str::to_owned).collect()
}
