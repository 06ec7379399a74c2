//! Fuzzes the reading of compressed files and kernel images. An input is such a file.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcount_fuzz::unpack(data));
