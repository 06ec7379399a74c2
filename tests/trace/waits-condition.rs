//! A thread makes something every 30 ms, and another one waits for it.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

static MADE: Mutex<u32> = Mutex::new(0);
static CHANGED: Condvar = Condvar::new();

#[inline(never)]
fn make() {
    std::thread::sleep(Duration::from_millis(30));
    *MADE.lock().unwrap() += 1;
    CHANGED.notify_one();
}

#[inline(never)]
fn take() {
    let mut made = MADE.lock().unwrap();
    while *made == 0 {
        made = CHANGED.wait(made).unwrap();
    }
    *made -= 1;
}

fn main() {
    let maker = std::thread::spawn(|| (0..10).for_each(|_| make()));
    (0..10).for_each(|_| take());
    maker.join().unwrap();
}
