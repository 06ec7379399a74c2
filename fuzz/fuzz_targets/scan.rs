//! Fuzzes the verb behind `mcount scan`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcount_fuzz::scan(&mcount_fuzz::file(data)));
