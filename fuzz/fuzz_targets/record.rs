//! Fuzzes the verb behind `mcount record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcount_fuzz::record(&mcount_fuzz::file(data)));
