//! As follow.c, for Rust: each value that is recorded has to be right.

use std::hint::black_box;

struct Point {
    x: i32,
    y: i16,
}

enum Form {
    Circle { radius: u32 },
    Square(u8, i64),
    Nothing,
}

struct Person {
    name: String,
    ages: Vec<u16>,
    nick: Option<String>,
}

#[inline(never)]
fn point(p: &Point, q: &mut Point, b: Box<Point>) -> i32 {
    println!(
        "[\"point\",[{{\"x\":{},\"y\":{}}},{{\"x\":{},\"y\":{}}},{{\"x\":{},\"y\":{}}}],{}]",
        p.x, p.y, q.x, q.y, b.x, b.y, p.x
    );
    black_box(p.x)
}

#[inline(never)]
fn lists(v: &Vec<i32>, s: &[u16], w: Vec<u8>, after: u32) -> usize {
    println!("[\"lists\",[{v:?},{s:?},{w:?},{after}],{}]", v.len());
    black_box(v.len())
}

#[inline(never)]
fn strings(s: &String, t: String, u: &[String], v: &Vec<&str>, after: i8) -> usize {
    println!("[\"strings\",[{s:?},{t:?},{u:?},{v:?},{after}],{}]", t.len());
    black_box(t.len())
}

#[inline(never)]
fn options(a: &Option<u32>, b: &Option<u32>, c: &Option<String>, d: &Option<&Point>) -> i32 {
    println!(
        "[\"options\",[{{\"Some\":{}}},null,{{\"Some\":{:?}}},{{\"Some\":{{\"x\":{},\"y\":{}}}}}],1]",
        a.unwrap(),
        c.as_ref().unwrap(),
        d.unwrap().x,
        d.unwrap().y
    );
    black_box(i32::from(b.is_none() && c.is_some()))
}

#[inline(never)]
fn forms(a: &Form, b: &Form, c: &Form) -> i32 {
    let (Form::Circle { radius }, Form::Square(x, y), Form::Nothing) = (a, b, c) else { return 0 };
    println!(
        "[\"forms\",[{{\"Circle\":{{\"radius\":{radius}}}}},{{\"Square\":[{x},{y}]}},\"Nothing\"],2]"
    );
    black_box(2)
}

#[inline(never)]
fn person(p: &Person, q: &Person) -> usize {
    println!(
        "[\"person\",[{{\"name\":{:?},\"ages\":{:?},\"nick\":{{\"Some\":{:?}}}}},{{\"name\":{:?},\"ages\":{:?},\"nick\":null}}],{}]",
        p.name,
        p.ages,
        p.nick.as_ref().unwrap(),
        q.name,
        q.ages,
        p.ages.len()
    );
    black_box(p.ages.len())
}

/// Calls a function as if nobody knew which: LLVM doesn't change its parameters then.
macro_rules! call {
    ($function:ident as $kind:ty, $($argument:expr),*) => {
        black_box(black_box($function as $kind)($($argument),*))
    };
}

fn main() {
    let (p, mut q) = black_box((Point { x: 1, y: -2 }, Point { x: 3, y: 4 }));
    let boxed = Box::new(black_box(Point { x: 5, y: 6 }));
    call!(point as fn(&Point, &mut Point, Box<Point>) -> i32, &p, &mut q, boxed);
    let (list, bytes) = black_box((vec![7, -8, 9], vec![12]));
    call!(lists as fn(&Vec<i32>, &[u16], Vec<u8>, u32) -> usize, &list, &[10, 11], bytes, 13);
    let (texts, owned) = black_box((vec!["one".to_owned(), "two".to_owned()], "by value".to_owned()));
    let brief = black_box(vec!["three", "four", ""]);
    call!(
        strings as fn(&String, String, &[String], &Vec<&str>, i8) -> usize,
        &texts[0],
        owned,
        &texts,
        &brief,
        -14
    );
    let some = black_box(Some("some text".to_owned()));
    call!(
        options as fn(&Option<u32>, &Option<u32>, &Option<String>, &Option<&Point>) -> i32,
        &Some(15),
        &None,
        &some,
        &Some(&p)
    );
    let all = black_box([Form::Circle { radius: 16 }, Form::Square(17, -18), Form::Nothing]);
    call!(forms as fn(&Form, &Form, &Form) -> i32, &all[0], &all[1], &all[2]);
    let nick = Some("Nick".to_owned());
    let one = black_box(Person { name: "Nicholas".to_owned(), ages: vec![19, 20], nick });
    let other = black_box(Person { name: String::new(), ages: vec![], nick: None });
    call!(person as fn(&Person, &Person) -> usize, &one, &other);
}
