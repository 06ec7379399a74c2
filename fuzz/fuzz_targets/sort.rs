//! Fuzzes the verb behind `mcount sort`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcount_fuzz::sort(&mcount_fuzz::file(data)));
