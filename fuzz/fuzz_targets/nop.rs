//! Fuzzes the verb behind `mcount nop`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcount_fuzz::nop(&mcount_fuzz::file(data)));
