//! Fuzzes the reading and printing of traces. An input is a trace.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcount_fuzz::trace(data));
