//! Fuzzes the verb behind `mcount table`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcount_fuzz::table(&mcount_fuzz::file(data)));
