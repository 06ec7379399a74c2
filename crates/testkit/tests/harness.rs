//! The harness itself: what becomes of a test that passes, fails, or ignores itself; and whether every test program of
//! the workspace that needs it uses it.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::process::Command;
use testkit::{prebuilt, test, tools};

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

/// Set for the run whose report [`outcomes_are_reported`] reads.
const INNER: &str = "MCOUNT_TEST_OF_THE_HARNESS";

/// Does nothing unless this is the inner run.
fn act(action: impl FnOnce()) {
    if std::env::var_os(INNER).is_some() {
        action();
    }
}

#[test]
fn inner_fails() {
    act(|| panic!("this is why"));
}

#[test]
fn inner_has_no_reason_to_fail() {}

#[test(each = ["no-such-tool", "sh", "sh"])]
fn inner_needs(tool: &str) {
    act(|| tools::need([tool]));
}

#[test]
fn outcomes_are_reported() {
    if std::env::var_os(INNER).is_some() {
        return;
    }
    let times = tempfile::NamedTempFile::new().unwrap();
    let mut inner = Command::new(std::env::current_exe().unwrap());
    inner.arg("inner").env(INNER, "1").env("MCOUNT_TEST_TIMES", times.path());
    let output = inner.env_remove("MCOUNT_REQUIRE_TOOLS").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(101), "{said}");
    for expected in [
        "inner_has_no_reason_to_fail ... ok\n",
        "inner_needs::no-such-tool   ... ignored (not installed: no-such-tool)\n",
        "inner_needs::sh             ... ok\n",
        "inner_needs::sh #2          ... ok\n",
        "this is why",
        "harness.rs",
        "test result: FAILED. 3 passed; 1 failed; 1 ignored;",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    let times = String::from_utf8(testkit::files::read(times.path()).unwrap()).unwrap();
    assert_eq!(times.lines().count(), 5, "{times}");
    let reason = "\tharness\tinner_needs::no-such-tool\tnot installed: no-such-tool\n";
    assert!(times.contains(reason), "{times}");
    let all = inner.env("MCOUNT_REQUIRE_TOOLS", "1").output().unwrap();
    assert!(String::from_utf8_lossy(&all.stdout).contains("2 failed; 0 ignored"), "{all:?}");
}

/// Rust's own harness can't ignore a test at run time. Where it is off, its `#[test]` is dropped without a word.
#[test]
fn every_test_program_that_needs_the_harness_uses_it() {
    let packages = test_programs();
    assert!(packages.values().map(Vec::len).sum::<usize>() > 20);
    for (package, programs) in packages {
        let manifest = prebuilt::root().join("crates").join(&package).join("Cargo.toml");
        let manifest = String::from_utf8(testkit::files::read(&manifest).unwrap()).unwrap();
        for (name, source) in programs {
            let section = format!("[[test]]\nname = \"{name}\"\n");
            let after = manifest.split(&section).nth(1).unwrap_or_default();
            let section = after.split("[[").next().unwrap_or_default();
            let is_ours = section.contains("harness = false");
            let may_ignore = source.contains("testkit::tools") || source.contains("trial::ignore");
            assert!(is_ours || !may_ignore, "{package}: {name}: needs harness = false");
            let is_marked = source.contains("#[test");
            let is_imported = source.contains("use testkit::test;") || source.contains(", test}");
            assert!(!is_ours || !is_marked || is_imported, "{package}: {name}: use testkit::test;");
        }
    }
}

/// Name and source of the test programs of each package.
fn test_programs() -> BTreeMap<String, Vec<(String, String)>> {
    let mut found = BTreeMap::new();
    for package in std::fs::read_dir(prebuilt::root().join("crates")).unwrap() {
        let package = package.unwrap();
        let Ok(entries) = std::fs::read_dir(package.path().join("tests")) else { continue };
        let mut programs = Vec::new();
        for entry in entries {
            let path = entry.unwrap().path();
            let main = if path.is_dir() { path.join("main.rs") } else { path.clone() };
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            if let Ok(source) = testkit::files::read(&main) {
                programs.push((name, String::from_utf8(source).unwrap()));
            }
        }
        found.insert(package.file_name().to_string_lossy().into_owned(), programs);
    }
    found
}
