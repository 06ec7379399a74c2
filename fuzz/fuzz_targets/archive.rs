//! Fuzzes `mcount record` and `mcount scan` of archives. An input is an archive.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcount_fuzz::archive(data));
