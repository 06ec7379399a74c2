//! Fuzzes the verb behind `mcount list`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcount_fuzz::list(&mcount_fuzz::file(data)));
