//! Prints a line of JSON for each call of its functions, when it returns: name, arguments, result. The trace has to say the same.

use std::hint::black_box;

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u8)]
enum Color {
    Red = 1,
    Green = 5,
}

#[derive(Clone, Copy)]
struct Point {
    x: i32,
    y: i32,
}

#[inline(never)]
fn sizes(a: i8, b: u8, c: i16, d: u16, e: i32, f: u32) -> i32 {
    let result = black_box(e) - i32::from(a);
    println!("[\"sizes\",[{a},{b},{c},{d},{e},{f}],{result}]");
    result
}

#[inline(never)]
fn longs(a: i64, b: u64, c: isize, d: usize) -> u64 {
    let result = black_box(b).wrapping_sub(7);
    println!("[\"longs\",[{a},{b},{c},{d}],{result}]");
    result
}

#[inline(never)]
fn small(yes: bool, letter: char, color: Color) -> bool {
    let result = black_box(!yes);
    println!("[\"small\",[{yes},\"{letter}\",\"{color:?}\"],{result}]");
    result
}

#[inline(never)]
fn reals(a: f32, b: f64) -> f64 {
    let result = black_box(f64::from(a)) + b;
    println!("[\"reals\",[{a},{b}],{result}]");
    result
}

#[inline(never)]
fn text(a: &str, b: u32, c: &str) -> usize {
    let result = black_box(a.len()) + c.len();
    println!("[\"text\",[\"{a}\",{b},\"{c}\"],{result}]");
    result
}

/// The last text has no two registers left.
#[inline(never)]
fn many(a: &str, b: &str, c: u8, d: &str, e: i32) -> i32 {
    let result = black_box(e) + i32::from(c);
    println!("[\"many\",[\"{a}\",\"{b}\",{c},\"{d}\",{e}],{result}]");
    result
}

#[inline(never)]
fn swapped(p: Point) -> Point {
    let result = Point { x: black_box(p.y), y: p.x };
    println!(
        "[\"swapped\",[{{\"x\":{},\"y\":{}}}],{{\"x\":{},\"y\":{}}}]",
        p.x, p.y, result.x, result.y
    );
    result
}

fn main() {
    for round in 0..3 {
        // Of these arguments LLVM knows most, and doesn't pass them.
        black_box(sizes(-1 - round, 200, -300, 60_000, 2_000_000, 4_000_000_000));
        // Of those it knows nothing.
        let (a, b) = black_box((-5_000_000_000, u64::MAX - round as u64));
        black_box(longs(a, b, black_box(-1), black_box(77)));
        black_box(small(round == 1, 'ü', if round == 0 { Color::Red } else { Color::Green }));
        black_box(reals(black_box(0.5), f64::from(round) + 0.25));
        let texts = black_box(["hello", "", "w", "world"]);
        black_box(text(texts[0], black_box(5), texts[1 + round as usize]));
        black_box(many(texts[3], texts[0], black_box(3), texts[2], i32::from(black_box(round))));
        black_box(swapped(Point { x: black_box(1), y: i32::from(round) }));
    }
}
