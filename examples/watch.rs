//! Shows the calls of a program's own functions, with their first argument and their result, and traces some.
//!
//! Of Rust's compilers, nightly ones make hooks. The flag is for the program alone: hooks in the library would only
//! cost time.
//!
//! ```text
//! cargo +nightly rustc -p mcount-inside --release --example watch -- -Zpatchable-function-entry=5
//! target/release/examples/watch '*square*'
//! ```

#![expect(clippy::print_stdout, reason = "what it's for")]

use mcount_inside::{Action, Call, Handlers, Trace};

#[inline(never)]
fn square(n: u64) -> u64 {
    n * n
}

#[inline(never)]
fn sum_of_squares(n: u64) -> u64 {
    (1..=n).map(square).sum()
}

fn main() -> Result<(), mcount_inside::Error> {
    let pattern = std::env::args().nth(1).unwrap_or_else(|| "watch::*".to_owned());
    let entered = |call: &mut Call| {
        call.data = call.registers().rdi; // kept for the exit
        Action::CONTINUE
    };
    let handlers = Handlers::new(entered, |call| {
        println!("{}({}) = {}", call.function().name(), call.data, call.registers().rax);
    });
    handlers.arm(pattern.as_str())?;
    println!("{}", sum_of_squares(3));
    drop(handlers);

    let trace = Trace::start("watch.mcount")?;
    trace.arm("*::square")?;
    mcount_inside::mark("a thousand squares");
    println!("{}", sum_of_squares(1000));
    trace.stop()
}
