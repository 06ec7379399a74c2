//! Which functions can have probes: does each rule refuse what would break, and does the rest run with its first bytes elsewhere?
//!
//! Two oracles know nothing of our code: programs run as before when functions are moved, and `objdump` has the same instructions
//! and branches.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

#[path = "probes/cases.rs"]
mod cases;
#[path = "probes/disassembly.rs"]
mod disassembly;
#[path = "probes/hostile.rs"]
mod hostile;
#[path = "probes/machines.rs"]
mod machines;
#[path = "probes/places.rs"]
mod places;
#[path = "probes/rewrite.rs"]
mod rewrite;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}
