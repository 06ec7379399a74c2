//! Inputs that nobody should make: cut short, with fields that lie, with bits that fell over. None
//! makes a verb panic, hang or read outside the file, and what `record` lets pass parses again.
//!
//! Its own file because what is tested is the whole library, from any verb. Names of fields: gABI.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use mcount::{Base, Options, Policy, read_table, record, scan};
use object::read::{Object as _, ObjectSection as _, ObjectSymbol as _};
use std::time::{Duration, Instant};
use testkit::prebuilt::{self, Prebuilt};
use testkit::tiny_elf::{
    Field, Object, Relocation, Section, Symbol, get, header_fields, put, section_fields,
};

/// Far more than any object of this file takes, even on a loaded machine in the dev profile.
const BUDGET: Duration = Duration::from_secs(5);

fn all() -> Options {
    let policy = Policy { base: Base::All, ..Policy::default() };
    Options { policy, writable: true, ..Options::default() }
}

/// All verbs on `file`, which may refuse it.
fn survive(file: &[u8], what: &dyn Fn() -> String) {
    let begin = Instant::now();
    for options in [Options::default(), all()] {
        let _ = scan(file, &options);
        let _ = read_table(file, &options);
        if let Ok(recording) = record(file, &options) {
            if let Some(change) = recording.change {
                reads_again(&change.apply(file), what);
            }
        }
    }
    assert!(begin.elapsed() < BUDGET, "{}: took {:?}", what(), begin.elapsed());
}

/// A recorded file is one that another reader understands.
fn reads_again(file: &[u8], what: &dyn Fn() -> String) {
    let parsed = object::File::parse(file);
    let parsed = parsed.unwrap_or_else(|error| panic!("{}: output: {error}", what()));
    let named = |name: &str| parsed.section_by_name(name).is_some();
    assert!(named("__mcount_loc"), "{}: output has no table", what());
    assert_eq!(parsed.symbols().next().map_or(0, |symbol| symbol.index().0), 1, "{}", what());
}

/// The verbs that refuse `file` for a reason; they are one line, all the same.
fn refusal(file: &[u8]) -> String {
    let errors = [
        scan(file, &Options::default()).map(drop),
        record(file, &Options::default()).map(drop),
        record(file, &all()).map(drop),
    ];
    let errors: Vec<_> = errors.map(|result| result.map_or_else(|e| e.to_string(), |()| "fine".into())).into();
    assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
    assert!(!errors[0].contains('\n'), "{errors:?}");
    errors[0].clone()
}
