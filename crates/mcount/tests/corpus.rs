//! The files in `tests/fuzz-corpus`: what the fuzzers (`fuzz/`) once made a verb fail on, and absurd
//! images made by hand, whose addresses and sizes are at the edges of 64 bits. No verb panics on
//! them, or takes longer or more memory than their size explains.

use mcount::{
    Base, CheckOptions, LateOptions, NopChange, Options, Policy, RecordOptions, SortOptions, Write,
};
use std::time::{Duration, Instant};
use testkit::{budget::on_this_host, files, prebuilt, test};

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

/// Far more than files of this size take, even on a loaded machine in the dev profile.
const BUDGET: Duration = Duration::from_secs(3);

fn variants() -> [(Options, RecordOptions); 2] {
    let policy = Policy::of(Base::All);
    let all =
        RecordOptions::default().writable(true).link_order(true).nop_all(true).split_lists(true);
    [Default::default(), (Options::default().policy(policy).nops(true), all)]
}

/// Every write is inside the file.
fn are_inside(writes: &[Write], file: &[u8]) -> bool {
    writes.iter().all(|(at, bytes)| {
        usize::try_from(*at).is_ok_and(|at| file.get(at..).is_some_and(|r| r.len() >= bytes.len()))
    })
}

/// All verbs on `file`, which they may refuse.
fn survive(file: &[u8]) {
    for (options, how) in variants() {
        let _ = mcount::scan(file, &options);
        let _ = mcount::read_table(file, &options);
        let _ = mcount::late_table(file, &options, &LateOptions::default());
        let _ = mcount::check(file, &options, &CheckOptions::default());
        let _ = mcount::functions(file, &options).map(|found| mcount::coverage(&found));
        if let Ok(recording) = mcount::record(file, &options, &how) {
            let new = recording.change.map(|change| change.apply(file));
            assert!(new.is_none_or(|new| new.len() <= 64 * file.len() + 4096));
        }
        for drop_stale in [false, true] {
            let sort = SortOptions::default().drop_stale(drop_stale);
            if let Ok(sorted) = mcount::sort_table(file, &options, &sort) {
                assert!(are_inside(&sorted.writes, file));
            }
        }
        if let Ok(nops) = mcount::make_nops(file, &options, &|_| true)
            && let NopChange::Image(writes) = nops.change
        {
            assert!(are_inside(&writes, file));
        }
    }
}

#[test]
fn files_that_failed_once() {
    let folder = prebuilt::root().join("tests/fuzz-corpus");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "elf") {
            continue;
        }
        let begin = Instant::now();
        let file = files::read(&path).unwrap();
        let result = std::panic::catch_unwind(|| survive(&file));
        assert!(result.is_ok(), "{}", path.display());
        let elapsed = begin.elapsed();
        assert!(elapsed < on_this_host(BUDGET), "{}: took {elapsed:?}", path.display());
        count += 1;
    }
    assert!(count >= 17, "{count} files");
}
