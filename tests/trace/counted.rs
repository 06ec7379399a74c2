//! Counts its own calls, as hits.h does for C: recursion, generic functions, threads, panics that are caught.
use std::hint::black_box;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static COUNTS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
const NAMES: [&str; 4] = ["fib", "text", "fails", "deeper"];

#[unsafe(no_mangle)]
#[inline(never)]
fn fib(n: u64) -> u64 {
    COUNTS[0].fetch_add(1, Relaxed);
    if n < 2 { n } else { black_box(fib(n - 1)) + fib(n - 2) }
}

#[unsafe(no_mangle)]
#[inline(never)]
fn text(n: u64) -> String {
    COUNTS[1].fetch_add(1, Relaxed);
    black_box(format!("{n:08x}"))
}

#[unsafe(no_mangle)]
#[inline(never)]
fn deeper(depth: u64, value: u64) -> u64 {
    COUNTS[3].fetch_add(1, Relaxed);
    if depth == 0 { fails(value) } else { black_box(deeper(depth - 1, value)) + 1 }
}

#[unsafe(no_mangle)]
#[inline(never)]
fn fails(value: u64) -> u64 {
    COUNTS[2].fetch_add(1, Relaxed);
    assert!(black_box(value) % 3 != 0, "a third");
    value
}

fn main() {
    std::panic::set_hook(Box::new(|_| ()));
    let threads: Vec<_> = (0..4)
        .map(|seed| {
            std::thread::spawn(move || {
                let caught = (0..300)
                    .filter(|value| std::panic::catch_unwind(|| deeper(5, seed + value)).is_err())
                    .count();
                (fib(15), text(seed).len(), caught)
            })
        })
        .collect();
    for thread in threads {
        println!("{:?}", thread.join().unwrap());
    }
    let Some(path) = std::env::var_os("TRUTH") else { return };
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    for (name, count) in NAMES.iter().zip(&COUNTS) {
        writeln!(file, "{} {name} {}", std::process::id(), count.load(Relaxed)).unwrap();
    }
}
