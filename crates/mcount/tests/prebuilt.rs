//! Every prebuilt object, of every processor: `scan` finds the sites that its `.expect` file lists,
//! `record` puts those that Linux's policy records into a table, and `read_table` reads them back.
//!
//! The `.expect` files were made from disassembly, by a script that shares no code with this
//! library (`tests/prebuilt/build.py`).
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

use mcount::{
    Base, CallSite, Change, NopChange, Options, Policy, RecordOptions, make_nops, read_table,
    record, scan,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use testkit::test;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/prebuilt")
}

#[expect(clippy::disallowed_methods, reason = "a test, which names its file when it fails")]
fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Name, object, and the lines of the expectation.
fn objects() -> Vec<(String, Vec<u8>, Vec<String>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "o") {
            let expected = String::from_utf8(read(&path.with_extension("expect"))).unwrap();
            let lines = expected.lines().filter(|line| !line.starts_with('#'));
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            found.push((name, read(&path), lines.map(str::to_owned).collect()));
        }
    }
    found.sort();
    assert!(found.len() > 100, "the prebuilt objects are missing");
    found
}

fn line(site: &CallSite) -> String {
    let text = |field: &Option<Arc<str>>| field.clone().unwrap_or("-".into());
    let kind = site.kind.map_or("-", mcount::Kind::name);
    let offset = site.offset.unwrap_or(u64::MAX);
    let (section, symbol, hook) = (text(&site.section), text(&site.symbol), text(&site.hook));
    format!("{section} {offset:x} {symbol} {kind} {hook}")
}

/// The hook names that an object was compiled with, besides the processor's.
fn options(name: &str) -> Options {
    let mut options = Options::default();
    if name == "x86_64-fentry-names" {
        options.hooks.push("my_fentry".to_owned());
        "my_table".clone_into(&mut options.table_section);
    }
    options
}

#[test]
fn scan_finds_what_the_disassembly_shows() {
    let mut failures = Vec::new();
    for (name, object, expected) in objects() {
        let found: Vec<_> = match scan(&object, &options(&name)) {
            Ok(sites) => sites.sites.iter().map(line).collect(),
            Err(error) => vec![error.to_string()],
        };
        if found != expected {
            failures.push(format!("{name}:\n  expected {expected:#?}\n  found {found:#?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Section and offset of each site.
fn places(sites: &[CallSite]) -> BTreeSet<(u32, u64)> {
    sites.iter().map(|site| (site.section_index.unwrap(), site.offset.unwrap())).collect()
}

#[test]
fn record_writes_the_sites_and_twice_is_once() {
    for (name, object, _) in objects() {
        let options = options(&name);
        let wanted: Vec<_> = scan(&object, &options).unwrap().sites;
        let wanted = wanted.into_iter().filter(|site| !site.excluded).collect::<Vec<_>>();
        let recording = record(&object, &options, &RecordOptions::default())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let Some(change) = recording.change else {
            assert!(wanted.iter().all(|site| site.recorded), "{name}: nothing was recorded");
            continue;
        };
        let new = change.apply(&object);
        let table = read_table(&new, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(places(&table.sites), places(&wanted), "{name}");
        assert!(table.sites.iter().all(|site| site.kind.is_some()), "{name}");
        let again = record(&new, &options, &RecordOptions::default()).unwrap();
        assert!(again.change.is_none(), "{name}: recording twice is not recording once");
    }
}

#[test]
fn compiler_made_nops_are_found_without_the_table() {
    for (name, object, expected) in objects() {
        if !name.ends_with("-nop-table") {
            continue;
        }
        let hidden = Options::default().table_section("none".to_owned());
        assert_eq!(scan(&object, &hidden).unwrap().sites, [], "{name}: unasked");
        let found = scan(&object, &hidden.nops(true)).unwrap().sites;
        assert_eq!(found.iter().map(line).collect::<Vec<_>>(), expected, "{name}");
    }
}

#[test]
fn calls_that_became_nops_are_known_again() {
    for (name, object, _) in objects() {
        let (options, how) = (options(&name), RecordOptions::default().nop_all(true));
        let first = record(&object, &options, &how).unwrap_or_else(|e| panic!("{name}: {e}"));
        let Some(change) = first.change else { continue };
        let new = change.apply(&object);
        let again = record(&new, &options, &how).unwrap();
        assert!(again.change.is_none(), "{name}: recording twice is not recording once");
        assert_eq!(again.recorded, first.recorded, "{name}");
        let left = scan(&new, &options).unwrap().sites;
        let calls = left.iter().filter(|site| site.hook.is_some() && !site.excluded).count();
        assert_eq!(calls, first.without_nop, "{name}: calls are left");
    }
}

#[test]
fn a_table_keeps_its_entries_when_calls_become_nops() {
    for (name, object, _) in objects() {
        let policy = Policy::of(Base::All);
        let options = options(&name).policy(policy);
        let apply = |change: Option<Change>, file: &[u8]| {
            change.map_or_else(|| file.to_vec(), |change| change.apply(file))
        };
        let recording = record(&object, &options, &RecordOptions::default())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let recorded = apply(recording.change, &object);
        let nops = make_nops(&recorded, &options, &|_| true).unwrap().change;
        let NopChange::Object(nops) = nops else { panic!("{name}: an image") };
        let nopped = apply(nops, &recorded);
        let again =
            apply(record(&nopped, &options, &RecordOptions::default()).unwrap().change, &nopped);
        let table = |file: &[u8]| read_table(file, &options).unwrap().sites;
        assert_eq!(places(&table(&again)), places(&table(&recorded)), "{name}");
        assert!(table(&again).iter().all(|site| site.kind.is_some()), "{name}");
    }
}
