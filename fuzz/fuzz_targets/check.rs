//! Fuzzes the verbs behind `mcount check` and its coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcount_fuzz::check(&mcount_fuzz::file(data)));
