//! A program that sleeps, and reads a little.

use std::io::Read;
use std::time::Duration;

#[inline(never)]
fn nap() {
    std::thread::sleep(Duration::from_millis(20));
}

#[inline(never)]
fn read() -> usize {
    let mut text = String::new();
    std::fs::File::open("/proc/self/status").unwrap().read_to_string(&mut text).unwrap()
}

fn main() {
    for _ in 0..10 {
        nap();
        assert!(read() > 0);
    }
}
